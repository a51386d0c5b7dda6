//! One batch: whose failure is whose, what is reported, what runs side by side.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use lambda_idempotency::{Handler, HandlerError, Key, Message, SqsBatch, Transaction};
use tokio::sync::Barrier;

use crate::support::{Bank, Fault, Lab, Payment, Record, Tables, batch, pay};

/// A bank that refuses payments whose id starts with `bad`, and keeps what it ran.
#[derive(Clone)]
struct Picky {
    tables: Tables,
    running: Arc<AtomicUsize>,
    most: Arc<AtomicUsize>,
    ran: Arc<Mutex<Vec<String>>>,
    /// As many as have to run at once before one goes on.
    together: Arc<Barrier>,
}

impl Picky {
    fn new(lab: &Lab) -> Self {
        Self::together(lab, 1)
    }

    fn together(lab: &Lab, messages: usize) -> Self {
        Self {
            tables: lab.tables.clone(),
            running: Arc::default(),
            most: Arc::default(),
            ran: Arc::default(),
            together: Arc::new(Barrier::new(messages)),
        }
    }

    /// The payments that were run, in order.
    fn ran(&self) -> Vec<String> {
        std::mem::take(&mut *self.ran.lock().unwrap())
    }
}

impl Handler<Payment> for Picky {
    type Output = Transaction;

    async fn handle(&self, message: Message<Payment>) -> Result<Transaction, HandlerError> {
        let id = message.body.id.clone();
        self.ran.lock().unwrap().push(id.clone());
        let running = self.running.fetch_add(1, Ordering::Relaxed) + 1;
        self.most.fetch_max(running, Ordering::Relaxed);
        // Only a batch that runs too few of them would wait for long.
        tokio::time::timeout(Duration::from_secs(30), self.together.wait()).await?;
        // Everything else that can run gets its turn here.
        for _ in 0..20 {
            tokio::task::yield_now().await;
        }
        self.running.fetch_sub(1, Ordering::Relaxed);
        if id.starts_with("bad") {
            return Err("refused".into());
        }
        Ok(pay(&self.tables, &message.body))
    }
}

fn payments(ids: &[(&str, &str)]) -> SqsBatch {
    batch(ids.iter().map(|(id, payment)| Record::payment(id, payment)))
}

/// `message id, group, payment id`.
fn fifo(ids: &[(&str, &str, &str)]) -> SqsBatch {
    batch(
        ids.iter()
            .map(|(id, group, payment)| Record::payment(id, payment).in_group(group)),
    )
}

#[tokio::test]
async fn t28_a_body_that_is_not_json_fails_alone() {
    let lab = Lab::new().await;
    let service = lab.idempotency().sqs(Bank(lab.tables.clone()));
    let records = [
        Record::payment("m-1", "p-1"),
        Record::new("m-2", "not json"),
        Record::payment("m-3", "p-3"),
    ];
    assert_eq!(lab.failures(&service, batch(records)).await, ["m-2"]);
    assert_eq!(
        lab.take_outcomes(),
        ["m-1 completed", "m-2 failed decode", "m-3 completed"]
    );
    assert_eq!(lab.balance("a").await, 20);
}

#[tokio::test]
async fn t28_a_body_that_is_not_json_behind_a_failure_in_its_group_is_reported_too() {
    let lab = Lab::new().await;
    let service = lab.idempotency().sqs(Picky::new(&lab));
    let records = [
        Record::payment("m-1", "bad").in_group("g"),
        Record::new("m-2", "not json").in_group("g"),
        Record::payment("m-3", "p-3").in_group("h"),
    ];
    assert_eq!(lab.failures(&service, batch(records)).await, ["m-1", "m-2"]);
    assert_eq!(
        lab.take_outcomes(),
        [
            "m-1 failed handler",
            "m-2 unprocessed group",
            "m-3 completed"
        ]
    );
    // The other way round: it is the one that can't be read that stops the group.
    let records = [
        Record::new("m-2", "not json").in_group("g"),
        Record::payment("m-4", "p-4").in_group("g"),
    ];
    assert_eq!(lab.failures(&service, batch(records)).await, ["m-2", "m-4"]);
    assert_eq!(
        lab.take_outcomes(),
        ["m-2 failed decode", "m-4 unprocessed group"]
    );
    assert_eq!(lab.balance("a").await, 10);
}

#[tokio::test]
async fn t29_a_failure_without_an_id_fails_the_invocation_and_never_reports_an_empty_id() {
    let lab = Lab::new().await;
    let by_body = lab
        .idempotency()
        .sqs(Picky::new(&lab))
        .key(Key::body("/id").unwrap());
    for id in [
        None,
        Some(serde_json::Value::Null),
        Some("".into()),
        Some(7.into()),
    ] {
        let mut nameless = Record::payment("x", "bad-1").without("messageId");
        if let Some(id) = id {
            nameless = nameless.with("messageId", id);
        }
        let both = batch([Record::payment("m-1", "p-1"), nameless]);
        let error = lab.process(&by_body, both).await.unwrap_err();
        assert!(error.is_event());
        assert!(error.to_string().contains("no `messageId`"), "{error}");
    }
    // What was done stays done.
    assert_eq!(lab.balance("a").await, 10);
}

#[tokio::test]
async fn t29_a_success_without_an_id_is_a_success() {
    let lab = Lab::new().await;
    let service = lab
        .idempotency()
        .sqs(Picky::new(&lab))
        .key(Key::body("/id").unwrap());
    for outcome in ["- completed", "- duplicate"] {
        let nameless = Record::payment("x", "p-1").without("messageId");
        let response = lab.respond(&service, batch([nameless])).await;
        assert_eq!(response, r#"{"batchItemFailures":[]}"#);
        assert_eq!(lab.take_outcomes(), [outcome]);
    }
    assert_eq!(lab.balance("a").await, 10);
}

#[test]
fn t30_an_event_without_records_is_an_error_not_a_success() {
    for event in [
        "{}",
        r#"{"Records":null}"#,
        r#"{"records":[]}"#,
        "null",
        r#"{"Record":[{"messageId":"m-1","body":"{}"}]}"#,
    ] {
        let error = serde_json::from_str::<SqsBatch>(event).unwrap_err();
        let told = error.to_string();
        assert!(told.contains("not an SQS event"), "{event}: {told}");
        assert!(told.contains("`Records`"), "{event}: {told}");
    }
}

#[tokio::test]
async fn t31_t32_a_batch_of_failures_is_the_whole_list_each_time() {
    let lab = Lab::new().await;
    let service = lab.idempotency().sqs(Picky::new(&lab));
    let all = payments(&[("m-1", "bad-1"), ("m-2", "bad-2"), ("m-3", "bad-3")]);
    let first = lab.respond(&service, all.clone()).await;
    assert_eq!(
        first,
        concat!(
            r#"{"batchItemFailures":[{"itemIdentifier":"m-1"},"#,
            r#"{"itemIdentifier":"m-2"},{"itemIdentifier":"m-3"}]}"#
        )
    );
    // Warm, and by a service that was made from the same parts.
    assert_eq!(lab.respond(&service, all.clone()).await, first);
    let other = lab.idempotency().sqs(Picky::new(&lab));
    assert_eq!(lab.respond(&other, all).await, first);
}

#[tokio::test]
async fn t33_a_group_stops_at_its_first_failure_and_the_others_go_on() {
    let lab = Lab::new().await;
    let picky = Picky::new(&lab);
    let service = lab.idempotency().sqs(picky.clone()).concurrency(1);
    let records = fifo(&[
        ("m-1", "a", "p-1"),
        ("m-2", "a", "bad-2"),
        ("m-3", "b", "p-3"),
        ("m-4", "a", "p-4"),
        ("m-5", "b", "p-5"),
    ]);
    assert_eq!(lab.failures(&service, records).await, ["m-2", "m-4"]);
    assert_eq!(picky.ran(), ["p-1", "bad-2", "p-3", "p-5"]);
    assert_eq!(
        lab.take_outcomes(),
        [
            "m-1 completed",
            "m-2 failed handler",
            "m-3 completed",
            "m-4 unprocessed group",
            "m-5 completed"
        ]
    );
    assert_eq!(lab.balance("a").await, 30);
}

#[tokio::test]
async fn t35_a_fifo_batch_of_one_failure_is_a_list_of_one() {
    let lab = Lab::new().await;
    let service = lab.idempotency().sqs(Picky::new(&lab));
    let response = lab.respond(&service, fifo(&[("m-1", "a", "bad")])).await;
    assert_eq!(
        response,
        r#"{"batchItemFailures":[{"itemIdentifier":"m-1"}]}"#
    );
}

fn many(count: usize) -> SqsBatch {
    batch((0..count).map(|n| Record::payment(&format!("m-{n}"), &format!("p-{n}"))))
}

#[tokio::test]
async fn t36_as_many_messages_run_at_once_as_was_asked_for() {
    for (asked, at_once) in [(Some(1), 1), (Some(4), 4), (Some(0), 1), (None, 10)] {
        let lab = Lab::new().await;
        let picky = Picky::together(&lab, at_once);
        let mut service = lab.idempotency().sqs(picky.clone());
        if let Some(asked) = asked {
            service = service.concurrency(asked);
        }
        assert!(lab.failures(&service, many(20)).await.is_empty());
        assert_eq!(picky.most.load(Ordering::Relaxed), at_once);
        // All add to one counter, and none is lost.
        assert_eq!(lab.balance("a").await, 200);
        if at_once == 1 {
            let in_order: Vec<String> = (0..20).map(|n| format!("p-{n}")).collect();
            assert_eq!(picky.ran(), in_order);
        }
    }
}

#[tokio::test]
async fn t36_messages_of_one_group_never_run_side_by_side() {
    let lab = Lab::new().await;
    let picky = Picky::new(&lab);
    let service = lab.idempotency().sqs(picky.clone()).concurrency(10);
    let ids: Vec<(String, String)> = (0..8)
        .map(|n| (format!("m-{n}"), format!("p-{n}")))
        .collect();
    let records = ids
        .iter()
        .map(|(id, payment)| Record::payment(id, payment).in_group("one"));
    assert!(lab.failures(&service, batch(records)).await.is_empty());
    assert_eq!(picky.most.load(Ordering::Relaxed), 1);
    let in_order: Vec<String> = ids.into_iter().map(|(_, payment)| payment).collect();
    assert_eq!(picky.ran(), in_order);
}

#[tokio::test]
async fn t36_groups_run_side_by_side() {
    let lab = Lab::new().await;
    let picky = Picky::together(&lab, 3);
    let service = lab.idempotency().sqs(picky.clone());
    let records = fifo(&[
        ("m-1", "a", "p-1"),
        ("m-2", "b", "p-2"),
        ("m-3", "c", "p-3"),
    ]);
    assert!(lab.failures(&service, records).await.is_empty());
    assert_eq!(picky.most.load(Ordering::Relaxed), 3);
}

#[tokio::test]
async fn t36_two_messages_that_meet_on_one_item_are_both_counted() {
    let mut lab = Lab::new().await;
    lab.tables.spreads_accounts = false;
    let service = lab.idempotency().sqs(Picky::new(&lab));
    for _ in 0..3 {
        lab.wire.next(
            "TransactWriteItems",
            Fault::cancelled(&["None", "None", "TransactionConflict"]),
        );
    }
    let both = payments(&[("m-1", "p-1"), ("m-2", "p-2")]);
    assert!(lab.failures(&service, both).await.is_empty());
    assert_eq!(lab.wire.unused_faults(), 0);
    assert_eq!(lab.balance("a").await, 20);
}

#[tokio::test]
async fn t54_a_failure_brings_back_its_own_message_only() {
    let lab = Lab::new().await;
    let picky = Picky::new(&lab);
    let service = lab.idempotency().sqs(picky.clone());
    let three = [("m-1", "p-1"), ("m-2", "bad"), ("m-3", "p-3")]
        .map(|(id, payment)| Record::payment(id, payment));
    assert_eq!(lab.failures(&service, batch(three.clone())).await, ["m-2"]);
    picky.ran();
    // Should Lambda bring back all of them all the same, the others are not run again.
    let again = three.map(|record| record.attribute("ApproximateReceiveCount", "2"));
    assert_eq!(lab.failures(&service, batch(again)).await, ["m-2"]);
    assert_eq!(picky.ran(), ["bad"]);
    assert_eq!(lab.balance("a").await, 20);
}
