//! What goes around: a store in a store, and observers.

use std::sync::{Arc, Mutex};

use lambda_idempotency::store::{
    ClaimAnswer, ClaimRequest, CommitAnswer, CommitRequest, ReleaseAnswer, ReleaseRequest, Seen,
    Store, StoreError,
};
use lambda_idempotency::{Delivery, Key, Observer, Report};

use crate::support::{Bank, Lab, Record, Step, batch};

/// Counts what goes through, and keeps one request of each kind.
struct Decorator<S> {
    store: S,
    seen: Arc<Mutex<Vec<&'static str>>>,
}

impl<S: Store> Store for Decorator<S> {
    async fn claim(&self, request: &ClaimRequest) -> ClaimAnswer {
        assert_eq!(request.record_id, "tests#m-1");
        self.seen.lock().unwrap().push("claim");
        self.store.claim(request).await
    }

    async fn commit(&self, request: &CommitRequest) -> CommitAnswer {
        assert_eq!(request.writes.len(), 2);
        assert!(request.client_token.len() <= 36);
        self.seen.lock().unwrap().push("commit");
        self.store.commit(request).await
    }

    async fn release(&self, request: &ReleaseRequest) -> ReleaseAnswer {
        self.seen.lock().unwrap().push("release");
        self.store.release(request).await
    }

    async fn read(&self, record_id: &str) -> Result<Seen, StoreError> {
        self.store.read(record_id).await
    }

    fn check(&self) -> Result<(), String> {
        self.store.check()
    }
}

#[tokio::test]
async fn a_store_can_be_wrapped_and_shared() {
    let lab = Lab::new().await;
    let seen: Arc<Mutex<Vec<&str>>> = Arc::default();
    let decorated = Arc::new(Decorator {
        store: lab.store(),
        seen: Arc::clone(&seen),
    });
    let idempotency = lab.builder_on(Arc::clone(&decorated)).build().unwrap();
    let service = idempotency.sqs(Bank(lab.tables.clone()));
    for _ in 0..2 {
        let one = batch([Record::payment("m-1", "p-1")]);
        assert!(lab.failures(&service, one).await.is_empty());
    }
    let expected: &[&str] = match lab.mode.runs_before_it_claims() {
        true => &["commit", "commit"],
        false => &["claim", "commit", "claim"],
    };
    assert_eq!(*seen.lock().unwrap(), expected);
    // What it says of its configuration counts.
    let unusable = Arc::new(Decorator {
        store: lab.store().attempts(0),
        seen,
    });
    let refused = lab.builder_on(unusable).build().unwrap_err();
    assert!(refused.is_configuration(), "{refused}");
}

/// An observer that is a type of its own.
struct Metrics(Arc<Mutex<Vec<(String, u32, bool)>>>);

impl Observer for Metrics {
    fn observe(&self, report: &Report) {
        let id = report.message_id.clone().unwrap_or_default();
        assert_eq!(&*report.consumer, "tests");
        assert_eq!(report.receive_count, Some(1));
        let ran = report.handler_duration.is_some();
        let told = (format!("{id} {}", report.outcome), report.requests, ran);
        self.0.lock().unwrap().push(told);
    }
}

#[tokio::test]
async fn an_observer_is_told_of_every_message_with_its_requests_and_whether_it_ran() {
    let lab = Lab::new().await;
    let told: Arc<Mutex<Vec<_>>> = Arc::default();
    let metrics = Metrics(Arc::clone(&told));
    let idempotency = lab.builder().observer(metrics).build().unwrap();
    let service = idempotency
        .sqs(Bank(lab.tables.clone()))
        .key(Key::body("/id").unwrap())
        .skip(|delivery: &Delivery| delivery.body() == "ping");
    let records = [
        Record::payment("m-1", "p-1"),
        Record::payment("m-2", "p-1"),
        Record::new("m-3", "ping"),
        Record::new("m-4", "no payment"),
        Record::payment("m-5", "p-5"),
    ];
    let records = records.map(|record| record.in_group("g"));
    assert_eq!(lab.failures(&service, batch(records)).await, ["m-4", "m-5"]);
    let first = lab.steps(&[Step::Claim, Step::Commit]).len();
    let expected = [
        ("m-1 completed", u32::try_from(first).unwrap(), true),
        ("m-2 duplicate", 1, lab.mode.runs_before_it_claims()),
        ("m-3 skipped", 0, false),
        ("m-4 failed", 0, false),
        ("m-5 unprocessed", 0, false),
    ];
    let expected = expected.map(|(told, requests, ran)| (told.to_owned(), requests, ran));
    assert_eq!(*told.lock().unwrap(), expected);
}

#[tokio::test]
async fn an_observer_that_panics_changes_nothing() {
    let lab = Lab::new().await;
    let idempotency = lab
        .builder()
        .observer(|_: &Report| panic!("the metrics are down"))
        .build()
        .unwrap();
    let service = idempotency.sqs(Bank(lab.tables.clone()));
    let both = || batch([Record::payment("m-1", "p-1"), Record::new("m-2", "x")]);
    for _ in 0..2 {
        assert_eq!(lab.failures(&service, both()).await, ["m-2"]);
    }
    assert_eq!(lab.balance("a").await, 10);
}
