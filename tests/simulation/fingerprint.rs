//! The fingerprint of a payload, as the library takes it: asked for by way of a claim.

use std::collections::HashMap;
use std::future::{pending, ready};
use std::pin::Pin;
use std::sync::{Arc, LazyLock, Mutex};
use std::time::SystemTime;

use futures_util::FutureExt as _;
use lambda_idempotency::store::{
    ClaimAnswer, ClaimRequest, CommitAnswer, CommitRequest, Failure, Fingerprint, ReleaseAnswer,
    ReleaseRequest, Seen, Store, StoreError,
};
use lambda_idempotency::{Clock, Idempotency, Transaction};

use crate::clock::shown;

/// The payloads of the orders.
static KNOWN: LazyLock<HashMap<&str, Fingerprint>> = LazyLock::new(|| {
    ["first", "other"]
        .map(|payload| (payload, ask(payload)))
        .into()
});

pub fn of(payload: &str) -> Fingerprint {
    KNOWN[payload].clone()
}

fn ask(payload: &str) -> Fingerprint {
    let listener = Arc::new(Listener::default());
    let idempotency = Idempotency::builder(Arc::clone(&listener))
        .consumer("asks")
        .clock(Still)
        .build()
        .unwrap();
    let deadline = Still.now() + std::time::Duration::from_secs(30);
    let work = |_| ready(Ok(Transaction::new()));
    let asked = idempotency.run("k", payload, deadline, work).now_or_never();
    assert!(asked.unwrap().unwrap_err().is_store());
    listener.0.lock().unwrap().take().unwrap()
}

/// Takes down the fingerprint of a claim, and refuses everything.
#[derive(Default)]
struct Listener(Mutex<Option<Fingerprint>>);

fn refused() -> StoreError {
    StoreError::new(Failure::Rejected, "only listens")
}

impl Store for Listener {
    async fn claim(&self, request: &ClaimRequest) -> ClaimAnswer {
        self.0.lock().unwrap().clone_from(&request.fingerprint);
        ClaimAnswer::Failed(refused())
    }

    async fn commit(&self, _: &CommitRequest) -> CommitAnswer {
        CommitAnswer::Failed(refused())
    }

    async fn release(&self, _: &ReleaseRequest) -> ReleaseAnswer {
        ReleaseAnswer::Failed(refused())
    }

    async fn read(&self, _: &str) -> Result<Seen, StoreError> {
        Err(refused())
    }
}

struct Still;

impl Clock for Still {
    fn now(&self) -> SystemTime {
        shown(0, 0)
    }

    fn sleep(&self, _: std::time::Duration) -> Pin<Box<dyn Future<Output = ()> + Send>> {
        Box::pin(pending())
    }
}
