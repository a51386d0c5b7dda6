//! How long a claim holds, and who may end it: for what comes meanwhile, in every mode.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, UNIX_EPOCH};

use aws_sdk_dynamodb::types::AttributeValue;
use lambda_idempotency::{
    Claim, Clock as _, HandlerError, Idempotency, IdempotencyBuilder, Message, SqsBatch,
    Transaction,
};
use lambda_runtime::LambdaEvent;
use tower::Service as _;

use crate::support::{
    Bank, CONSUMER, HeldBank, Hold, Lab, ManualClock, Payment, Record, batch, context, pay,
};

fn payment() -> SqsBatch {
    batch([Record::payment("m-1", "p-1")])
}

/// Delivers the payment with this time left and drops the invocation in the middle of its handler,
/// as a time-out does, when it has claimed its key.
async fn cut_off(lab: &Lab, builder: IdempotencyBuilder, time: Duration) {
    let hold = Hold::default();
    let tables = lab.tables.clone();
    let idempotency = builder.claim(Claim::First).build().unwrap();
    let service = idempotency.sqs(HeldBank {
        tables,
        hold: hold.clone(),
    });
    let context = context(lab.clock.now() + time);
    tokio::select! {
        _ = service.process(payment(), &context) => panic!("the handler was not held"),
        () = hold.reached() => {}
    }
}

/// Delivers the payment and says what came of it.
async fn deliver(lab: &Lab, idempotency: &Idempotency) -> Vec<String> {
    let service = idempotency.sqs(Bank(lab.tables.clone()));
    lab.process(&service, payment()).await.unwrap();
    lab.take_outcomes()
}

/// The lease of the first claim since the last look at the wire, in milliseconds since the epoch.
fn claimed_until(lab: &Lab) -> u64 {
    let sent = lab.wire.take_sent();
    assert_eq!(sent[0].operation, "PutItem");
    let lease = &sent[0].body["Item"]["in_progress_expiration"]["N"];
    lease.as_str().unwrap().parse().unwrap()
}

#[tokio::test]
async fn t01_a_key_whose_attempt_was_cut_off_is_free_once_the_deadline_has_passed() {
    let lab = Lab::new().await;
    let idempotency = lab.idempotency();
    cut_off(&lab, lab.builder(), Duration::from_secs(1)).await;

    lab.clock.advance(Duration::from_millis(900));
    assert_eq!(deliver(&lab, &idempotency).await, ["m-1 in_progress"]);
    assert_eq!(lab.balance("a").await, 0);

    lab.clock.advance(Duration::from_millis(1_100));
    assert_eq!(deliver(&lab, &idempotency).await, ["m-1 completed"]);
    assert_eq!(lab.balance("a").await, 10);
}

#[tokio::test]
async fn t02_a_deadline_that_is_past_claims_nothing_and_the_next_delivery_runs() {
    let lab = Lab::new().await;
    let idempotency = lab.idempotency();
    let service = idempotency.sqs(Bank(lab.tables.clone()));
    let now = lab.clock.now();
    for deadline in [now, now - Duration::from_millis(5)] {
        let response = lab.process_until(deadline, &service, payment()).await;
        assert_eq!(
            serde_json::to_string(&response.unwrap()).unwrap(),
            r#"{"batchItemFailures":[{"itemIdentifier":"m-1"}]}"#
        );
        assert_eq!(lab.take_outcomes(), ["m-1 unprocessed deadline"]);
    }
    assert!(lab.wire.take_operations().is_empty());
    assert!(lab.record("m-1").await.is_none());

    assert_eq!(deliver(&lab, &idempotency).await, ["m-1 completed"]);
}

#[tokio::test]
async fn t02_a_deadline_of_nothing_at_all_still_makes_a_lease_that_ends() {
    let lab = Lab::claiming_first().await;
    let idempotency = lab
        .builder()
        .default_time(Duration::from_secs(7))
        .build()
        .unwrap();
    let service = idempotency.sqs(Bank(lab.tables.clone()));
    // What `Context::default()` has, and local runners.
    let response = service.process(payment(), &context(UNIX_EPOCH)).await;
    assert!(response.unwrap().batch_item_failures.is_empty());
    assert_eq!(claimed_until(&lab), lab.clock.millis() + 7_000);
}

#[tokio::test]
async fn t03_a_lease_that_was_set_longer_holds_beyond_the_deadline() {
    let lab = Lab::new().await;
    let minute = Duration::from_secs(60);
    let longer = lab.builder().lease_at_least(minute);
    cut_off(&lab, longer, Duration::from_secs(1)).await;
    let idempotency = lab.idempotency();

    lab.clock.advance(Duration::from_secs(2));
    assert_eq!(deliver(&lab, &idempotency).await, ["m-1 in_progress"]);
    assert_eq!(lab.balance("a").await, 0);

    lab.clock.advance(minute);
    assert_eq!(deliver(&lab, &idempotency).await, ["m-1 completed"]);
    assert_eq!(lab.balance("a").await, 10);
}

#[tokio::test]
async fn t04_a_refused_duplicate_leaves_the_owner_s_claim_alone() {
    let lab = Lab::new().await;
    let idempotency = lab.idempotency();
    let hold = Hold::default();
    let owner = lab.builder().claim(Claim::First).build().unwrap();
    let owner = owner.sqs(HeldBank {
        tables: lab.tables.clone(),
        hold: hold.clone(),
    });
    let context = context(lab.clock.now() + Duration::from_secs(30));
    let running = owner.process(payment(), &context);
    let meanwhile = async {
        hold.reached().await;
        let held = lab.record("m-1").await.unwrap();
        // The second one would run if the first one had deleted the owner's claim.
        for _ in 0..2 {
            assert_eq!(deliver(&lab, &idempotency).await, ["m-1 in_progress"]);
            assert_eq!(lab.record("m-1").await.unwrap(), held);
        }
        hold.let_go();
    };
    let (response, ()) = tokio::join!(running, meanwhile);
    assert!(response.unwrap().batch_item_failures.is_empty());
    assert_eq!(lab.take_outcomes(), ["m-1 completed"]);
    assert_eq!(lab.balance("a").await, 10);
}

#[tokio::test]
async fn t05_a_claim_without_a_lease_is_held_until_its_record_expires() {
    let lab = Lab::new().await;
    let idempotency = lab.idempotency();
    let expiration = lab.clock.seconds() + 3_600;
    let attributes = [
        ("status", AttributeValue::S("INPROGRESS".into())),
        ("expiration", AttributeValue::N(expiration.to_string())),
    ];
    lab.put_record("m-1", &attributes).await;
    let before = lab.record("m-1").await;

    lab.clock.advance(Duration::from_secs(3_600));
    assert_eq!(deliver(&lab, &idempotency).await, ["m-1 in_progress"]);
    assert_eq!(lab.record("m-1").await, before);
    assert_eq!(lab.balance("a").await, 0);

    lab.clock.advance(Duration::from_secs(1));
    assert_eq!(deliver(&lab, &idempotency).await, ["m-1 completed"]);
    assert_eq!(lab.balance("a").await, 10);
}

#[tokio::test]
async fn t26_the_lease_is_the_invocation_s_deadline_with_no_step_of_the_user_s() {
    let lab = Lab::claiming_first().await;
    let mut service = lab.idempotency().sqs(Bank(lab.tables.clone()));
    let deadline = lab.clock.now() + Duration::from_millis(12_345);
    let event = LambdaEvent::new(payment(), context(deadline));
    let response = service.call(event).await.unwrap();
    assert!(response.batch_item_failures.is_empty());
    assert_eq!(claimed_until(&lab), lab.clock.millis() + 12_345);
}

/// Two workers whose clocks differ: the second delivery comes while the first handler runs.
struct Skewed {
    lab: Lab,
    runs: Arc<AtomicU32>,
    second: Vec<String>,
    both: Vec<String>,
}

async fn with_a_second_clock(lab: Lab, by_seconds: i64) -> Skewed {
    let runs = Arc::new(AtomicU32::new(0));
    let hold = Hold::default();
    let handler = |hold: Option<Hold>| {
        let (tables, runs) = (lab.tables.clone(), Arc::clone(&runs));
        move |message: Message<Payment>| {
            let (tables, hold) = (tables.clone(), hold.clone());
            runs.fetch_add(1, Ordering::Relaxed);
            async move {
                if let Some(hold) = hold {
                    hold.here().await;
                }
                Ok::<Transaction, HandlerError>(pay(&tables, &message.body))
            }
        }
    };
    let clock: ManualClock = lab.clock.skewed(by_seconds);
    let there = lab.builder().clock(clock.clone()).build().unwrap();
    let first = lab.idempotency().sqs(handler(Some(hold.clone())));
    let second = there.sqs(handler(None));
    let time = Duration::from_secs(20);
    let (here, there) = (context(lab.clock.now() + time), context(clock.now() + time));
    let first = first.process(payment(), &here);
    let meanwhile = async {
        hold.reached().await;
        second.process(payment(), &there).await.unwrap();
        let told = lab.take_outcomes();
        hold.let_go();
        told
    };
    let (_, second) = tokio::join!(first, meanwhile);
    let both = lab.take_outcomes();
    Skewed {
        lab,
        runs,
        second,
        both,
    }
}

#[tokio::test]
async fn t46_a_worker_whose_clock_is_ahead_takes_over_and_still_one_attempt_commits() {
    let skewed = with_a_second_clock(Lab::new().await, 30).await;
    // Its clock says that the lease has ended: it runs, and the first one's commit is refused.
    assert_eq!(skewed.second, ["m-1 completed"]);
    assert_eq!(skewed.both, ["m-1 duplicate"]);
    assert_eq!(skewed.runs.load(Ordering::Relaxed), 2);
    assert_eq!(skewed.lab.balance("a").await, 10);
    assert_eq!(skewed.lab.count(&skewed.lab.tables.payments).await, 1);
}

#[tokio::test]
async fn t46_a_worker_whose_clock_is_behind_waits_and_one_attempt_commits() {
    let skewed = with_a_second_clock(Lab::claiming_first().await, -30).await;
    assert_eq!(skewed.second, ["m-1 in_progress"]);
    assert_eq!(skewed.both, ["m-1 completed"]);
    assert_eq!(skewed.runs.load(Ordering::Relaxed), 1);
    assert_eq!(skewed.lab.balance("a").await, 10);
}

#[tokio::test]
async fn t46_a_claim_carries_a_token_and_the_completed_record_keeps_it() {
    let lab = Lab::claiming_first().await;
    let idempotency = lab.idempotency();
    deliver(&lab, &idempotency).await;
    let sent = lab.wire.take_sent();
    let token = sent[0].body["Item"]["claim_token"]["S"].as_str().unwrap();
    let record = lab.record("m-1").await.unwrap();
    assert_eq!(record["claim_token"].as_s().unwrap(), token);
    assert_eq!(record["id"].as_s().unwrap(), &format!("{CONSUMER}#m-1"));
    let completion = &sent[1].body["TransactItems"][0]["Update"];
    let condition = completion["ConditionExpression"].as_str().unwrap();
    assert!(condition.contains("#token = :token"), "{condition}");
    assert_eq!(
        completion["ExpressionAttributeValues"][":token"]["S"],
        token
    );
}
