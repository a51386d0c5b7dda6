//! What holds for every key, every body, every result and every event, tried on many.

mod events;
mod fingerprints;
mod keys;
mod results;

use std::future::Future;
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime};

use lambda_idempotency::store::{
    ClaimAnswer, ClaimRequest, CommitAnswer, CommitRequest, ReleaseAnswer, ReleaseRequest, Seen,
    Store, StoreError,
};
use lambda_idempotency::{Clock as _, Idempotency, IdempotencyBuilder};
use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};
use serde_json::{Map, Value};

use crate::support::{CONSUMER, ManualClock, install_logs};

/// A store that grants everything at once and keeps the claims: where only what is asked of the
/// store matters, and not what it holds.
#[derive(Clone, Default)]
struct Yes(Arc<Mutex<Vec<ClaimRequest>>>);

impl Yes {
    fn take_claims(&self) -> Vec<ClaimRequest> {
        std::mem::take(&mut *self.0.lock().unwrap())
    }
}

impl Store for Yes {
    async fn claim(&self, request: &ClaimRequest) -> ClaimAnswer {
        self.0.lock().unwrap().push(request.clone());
        ClaimAnswer::Claimed
    }

    async fn commit(&self, _: &CommitRequest) -> CommitAnswer {
        CommitAnswer::Committed
    }

    async fn release(&self, _: &ReleaseRequest) -> ReleaseAnswer {
        ReleaseAnswer::Released
    }

    async fn read(&self, _: &str) -> Result<Seen, StoreError> {
        Ok(Seen::Nothing)
    }
}

/// A builder on this store, and an invocation's deadline.
fn builder(store: &Yes) -> (IdempotencyBuilder, SystemTime) {
    install_logs();
    let clock = ManualClock::new();
    let deadline = clock.now() + Duration::from_secs(30);
    let builder = Idempotency::builder(store.clone())
        .consumer(CONSUMER)
        .clock(clock);
    (builder, deadline)
}

/// Any JSON value of moderate size.
fn any_value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<u64>().prop_map(Value::from),
        // Short decimals; long ones have a test of their own.
        any::<i32>().prop_map(|number| Value::from(f64::from(number) / 100.0)),
        any::<String>().prop_map(Value::from),
    ];
    leaf.prop_recursive(4, 24, 4, |inner| {
        let member = (any::<String>(), inner.clone());
        prop_oneof![
            prop::collection::vec(inner, 0..4).prop_map(Value::from),
            prop::collection::vec(member, 0..4)
                .prop_map(|members| Value::from(members.into_iter().collect::<Map<_, _>>())),
        ]
    })
}

/// Tries the property on this many values of the strategy. What `setup` makes is made once.
fn check<T, S, Setup, Made, Property, Tried>(
    cases: u32,
    strategy: &S,
    setup: Setup,
    property: Property,
) where
    T: std::fmt::Debug,
    S: Strategy<Value = T>,
    Setup: Future<Output = Made>,
    Property: Fn(Arc<Made>, T) -> Tried,
    Tried: Future<Output = Result<(), TestCaseError>>,
{
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    let made = Arc::new(runtime.block_on(setup));
    let config = Config {
        cases,
        // A failure prints its value; what it was becomes a test by name.
        failure_persistence: None,
        ..Config::default()
    };
    let tried = TestRunner::new(config).run(strategy, |value| {
        runtime.block_on(property(Arc::clone(&made), value))
    });
    if let Err(error) = tried {
        panic!("{error}");
    }
}
