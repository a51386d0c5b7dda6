//! What a record remembers, and what a duplicate gets of it.

use std::collections::BTreeMap;
use std::time::Duration;

use lambda_idempotency::{
    Claim, Clock as _, Done, HandlerError, Idempotency, Key, Message, SqsService, Transaction,
};
use serde::Serialize;
use serde_json::{Value, json};

use crate::support::{Bank, HeldBank, Hold, Lab, Payment, Record, Step, batch, context, pay};

/// Payments by their id, with the body compared.
fn compared(lab: &Lab, idempotency: &Idempotency) -> SqsService<Bank, Payment> {
    idempotency
        .sqs(Bank(lab.tables.clone()))
        .key(Key::body("/id").unwrap())
        .fingerprint_body()
}

/// The same payment with another amount.
fn tampered(message_id: &str) -> Record {
    Record::new(
        message_id,
        json!({ "id": "p-1", "account": "a", "amount": 9_999 }),
    )
}

fn day(seconds: u64) -> u64 {
    seconds / (24 * 60 * 60)
}

#[tokio::test]
async fn t07_the_expiration_is_a_whole_number_of_seconds_at_the_claim_and_at_the_commit() {
    let lab = Lab::claiming_first().await;
    lab.clock.advance(Duration::from_millis(123));
    let service = lab.idempotency().sqs(Bank(lab.tables.clone()));
    lab.process(&service, batch([Record::payment("m-1", "p-1")]))
        .await
        .unwrap();
    let claim = &lab.wire.take_sent()[0].body["Item"];
    let record = lab.record("m-1").await.unwrap();
    for number in [
        claim["expiration"]["N"].as_str().unwrap(),
        claim["in_progress_expiration"]["N"].as_str().unwrap(),
        record["expiration"].as_n().unwrap(),
    ] {
        assert!(number.bytes().all(|byte| byte.is_ascii_digit()), "{number}");
    }
}

#[tokio::test]
async fn t10_the_order_of_members_makes_no_other_payload() {
    let lab = Lab::new().await;
    let service = compared(&lab, &lab.idempotency());
    for (id, body) in [
        ("m-1", r#"{"id":"p-1","account":"a","amount":10}"#),
        ("m-2", r#"{ "amount":10, "account":"a", "id":"p-1" }"#),
        ("m-3", r#"{"amount":10,"id":"p-1","account":"\u0061"}"#),
    ] {
        lab.process(&service, batch([Record::new(id, body)]))
            .await
            .unwrap();
    }
    assert_eq!(
        lab.take_outcomes(),
        ["m-1 completed", "m-2 duplicate", "m-3 duplicate"]
    );
    assert_eq!(lab.balance("a").await, 10);
}

#[tokio::test]
async fn t14_another_payload_is_a_mismatch_whether_the_record_comes_with_the_refusal_or_is_read() {
    let lab = Lab::new().await;
    let service = compared(&lab, &lab.idempotency());
    lab.process(&service, batch([Record::payment("m-1", "p-1")]))
        .await
        .unwrap();
    lab.wire.take_sent();

    lab.process(&service, batch([tampered("m-2")]))
        .await
        .unwrap();
    assert_eq!(lab.wire.take_operations(), [lab.takes_the_key()]);

    lab.wire
        .next(lab.takes_the_key(), lab.key_refused_without_item());
    lab.process(&service, batch([tampered("m-3")]))
        .await
        .unwrap();
    assert_eq!(lab.wire.take_operations(), [lab.takes_the_key(), "GetItem"]);
    assert_eq!(
        lab.take_outcomes(),
        [
            "m-1 completed",
            "m-2 failed payload_mismatch",
            "m-3 failed payload_mismatch"
        ]
    );
    assert_eq!(lab.balance("a").await, 10);
}

#[tokio::test]
async fn t14_another_payload_is_a_mismatch_while_the_first_one_is_in_progress() {
    let lab = Lab::new().await;
    let hold = Hold::default();
    let first = lab.builder().claim(Claim::First).build().unwrap();
    let first = first
        .sqs(HeldBank {
            tables: lab.tables.clone(),
            hold: hold.clone(),
        })
        .key(Key::body("/id").unwrap())
        .fingerprint_body();
    let time = context(lab.clock.now() + Duration::from_secs(30));
    let running = first.process(batch([Record::payment("m-1", "p-1")]), &time);
    let second = compared(&lab, &lab.idempotency());
    let meanwhile = async {
        hold.reached().await;
        lab.process(&second, batch([tampered("m-2")]))
            .await
            .unwrap();
        hold.let_go();
    };
    tokio::join!(running, meanwhile).0.unwrap();
    assert_eq!(
        lab.take_outcomes(),
        ["m-1 completed", "m-2 failed payload_mismatch"]
    );
    assert_eq!(lab.balance("a").await, 10);
}

#[tokio::test]
async fn t14_another_payload_is_a_mismatch_for_an_attempt_that_was_overtaken() {
    let lab = Lab::new().await;
    let idempotency = lab.idempotency();
    let hold = Hold::default();
    let first = idempotency
        .sqs(HeldBank {
            tables: lab.tables.clone(),
            hold: hold.clone(),
        })
        .key(Key::body("/id").unwrap())
        .fingerprint_body();
    let running = lab.process(&first, batch([Record::payment("m-1", "p-1")]));
    // Its clock says that the first one's lease has ended.
    let clock = lab.clock.skewed(60);
    let ahead = lab.builder().clock(clock.clone()).build().unwrap();
    let second = compared(&lab, &ahead);
    let meanwhile = async {
        hold.reached().await;
        let deadline = clock.now() + Duration::from_secs(30);
        lab.process_until(deadline, &second, batch([tampered("m-2")]))
            .await
            .unwrap();
        hold.let_go();
    };
    let failures = tokio::join!(running, meanwhile).0.unwrap();
    assert_eq!(failures.batch_item_failures[0].item_identifier, "m-1");
    assert_eq!(
        lab.take_outcomes(),
        ["m-1 failed payload_mismatch", "m-2 completed"]
    );
    assert_eq!(lab.balance("a").await, 9_999);
}

#[tokio::test]
async fn t16_completing_a_record_keeps_the_fingerprint() {
    let lab = Lab::new().await;
    let service = compared(&lab, &lab.idempotency());
    lab.process(&service, batch([Record::payment("m-1", "p-1")]))
        .await
        .unwrap();
    let sent = lab.wire.take_sent();
    // In the claim, or in the commit that puts the record as a whole.
    let claimed = match lab.mode.runs_before_it_claims() {
        true => &sent[0].body["TransactItems"][0]["Put"]["Item"]["validation"]["S"],
        false => &sent[0].body["Item"]["validation"]["S"],
    };
    let completed = lab.record("p-1").await.unwrap();
    assert_eq!(completed["status"].as_s().unwrap(), "COMPLETED");
    assert_eq!(completed["validation"].as_s().unwrap().as_str(), *claimed);

    lab.process(&service, batch([Record::payment("m-2", "p-1")]))
        .await
        .unwrap();
    lab.process(&service, batch([tampered("m-3")]))
        .await
        .unwrap();
    assert_eq!(
        lab.take_outcomes(),
        [
            "m-1 completed",
            "m-2 duplicate",
            "m-3 failed payload_mismatch"
        ]
    );
}

#[tokio::test]
async fn t17_results_that_look_like_nothing_come_back_as_they_are() {
    let lab = Lab::new().await;
    let idempotency = lab.idempotency();
    for (at, value) in [
        json!({}),
        json!([]),
        json!(0),
        json!(false),
        json!(""),
        Value::Null,
    ]
    .into_iter()
    .enumerate()
    {
        let id = format!("m-{at}");
        let result = value.clone();
        let service = idempotency.sqs(move |_: Message<Value>| {
            let result = result.clone();
            async { Ok::<_, HandlerError>(Transaction::new().returning(result)) }
        });
        for _ in 0..2 {
            lab.process(&service, batch([Record::new(&id, "{}")]))
                .await
                .unwrap();
            assert_eq!(lab.take_report().result, Some(value.to_string()));
        }
        let deadline = lab.clock.now() + Duration::from_secs(30);
        let again = idempotency
            .run(&id, &(), deadline, async |_| {
                Ok(Transaction::new().returning(json!("another")))
            })
            .await;
        assert_eq!(again.unwrap(), Done::Duplicate(Some(value)));
        lab.take_reports();
    }
}

#[tokio::test]
async fn t18_every_replay_is_told_of_even_where_there_is_no_result() {
    let lab = Lab::new().await;
    let service = lab
        .idempotency()
        .sqs(|_: Message<Value>| async { Ok::<(), HandlerError>(()) });
    for _ in 0..3 {
        lab.process(&service, batch([Record::new("m-1", "{}")]))
            .await
            .unwrap();
    }
    let reports = lab.take_reports();
    let told: Vec<_> = reports
        .iter()
        .map(|report| (report.outcome.as_str(), report.result.as_deref()))
        .collect();
    assert_eq!(
        told,
        [
            ("completed", None),
            ("duplicate", None),
            ("duplicate", None)
        ]
    );
    // `()` stores nothing, `null` would.
    assert!(!lab.record("m-1").await.unwrap().contains_key("data"));
}

/// A result that serde_json can't write: its keys are no text.
#[derive(Clone, Default, Serialize)]
struct Unwritable {
    by_pair: BTreeMap<(u8, u8), u8>,
}

/// Delivers a payment twice whose result is this; nothing may happen either time.
async fn nothing_happens<R: Serialize + Clone + Send + Sync + 'static>(result: R) -> String {
    let lab = Lab::new().await;
    let tables = lab.tables.clone();
    let service = lab.idempotency().sqs(move |message: Message<Payment>| {
        let transaction = pay(&tables, &message.body).returning(result.clone());
        async { Ok::<_, HandlerError>(transaction) }
    });
    let mut error = String::new();
    for _ in 0..2 {
        let failures = lab
            .failures(&service, batch([Record::payment("m-1", "p-1")]))
            .await;
        assert_eq!(failures, ["m-1"]);
        let steps = lab.steps(&[Step::Claim, Step::GiveBack]);
        assert_eq!(lab.wire.take_operations(), steps);
        let report = lab.take_report();
        assert_eq!(report.reason.unwrap().as_str(), "commit");
        error = report.error.unwrap();
        assert_eq!(lab.balance("a").await, 0);
        assert_eq!(lab.count(&lab.tables.payments).await, 0);
        assert_eq!(lab.records().await, 0);
    }
    error
}

#[tokio::test]
async fn t21_a_result_that_can_not_be_serialised_leaves_no_effect_and_no_record() {
    let mut result = Unwritable::default();
    result.by_pair.insert((1, 2), 3);
    let error = nothing_happens(result).await;
    assert!(error.contains("result can't be serialised"), "{error}");
}

#[tokio::test]
async fn t23_a_result_that_is_too_large_leaves_no_effect_and_no_record() {
    let error = nothing_happens("x".repeat(500_000)).await;
    assert!(error.contains("the result has 500002 bytes"), "{error}");
}

#[tokio::test]
async fn t23_a_result_just_below_the_limit_is_stored_and_replayed() {
    let lab = Lab::new().await;
    let result = "x".repeat(400_000);
    let service = {
        let result = result.clone();
        lab.idempotency().sqs(move |_: Message<Value>| {
            let transaction = Transaction::new().returning(result.clone());
            async { Ok::<_, HandlerError>(transaction) }
        })
    };
    for outcome in ["completed", "duplicate"] {
        lab.process(&service, batch([Record::new("m-1", "{}")]))
            .await
            .unwrap();
        let report = lab.take_report();
        assert_eq!(report.outcome.as_str(), outcome);
        assert_eq!(report.result.unwrap(), format!("{result:?}"));
    }
}

#[tokio::test]
async fn t24_a_duplicate_in_the_same_process_replays_and_is_not_in_progress() {
    let lab = Lab::new().await;
    let (client, table) = (lab.direct.clone(), lab.tables.accounts.clone());
    let service = lab
        .idempotency()
        .sqs(move |_: Message<Value>| {
            let (client, table) = (client.clone(), table.clone());
            async move {
                // Long enough for another claim of the batch, if it was sent, to be answered.
                for _ in 0..3 {
                    client.scan().table_name(&table).send().await?;
                }
                Ok(Transaction::new().returning(7))
            }
        })
        .key(Key::body("/id").unwrap());
    let same = |id: &str| Record::new(id, json!({ "id": "p-1" }));
    // Side by side in one batch, in the next batch, and by another path to the same store.
    lab.process(&service, batch([same("m-1"), same("m-2")]))
        .await
        .unwrap();
    lab.process(&service, batch([same("m-3")])).await.unwrap();
    let told = lab.take_reports();
    let outcomes: Vec<_> = told.iter().map(|told| told.outcome.as_str()).collect();
    assert_eq!(outcomes, ["completed", "duplicate", "duplicate"]);
    assert!(told.iter().all(|told| told.result.as_deref() == Some("7")));
    let deadline = lab.clock.now() + Duration::from_secs(30);
    let done = lab
        .idempotency()
        .run("p-1", &(), deadline, async |_| {
            Ok(Transaction::new().returning(8))
        })
        .await;
    assert_eq!(done.unwrap(), Done::Duplicate(Some(7)));
}

#[tokio::test]
async fn t47_the_expiration_is_in_seconds_and_starts_again_with_the_commit() {
    let lab = Lab::new().await;
    let clock = lab.clock.clone();
    let started = clock.seconds();
    let service = lab.idempotency().sqs(move |_: Message<Value>| {
        clock.advance(Duration::from_secs(5));
        async { Ok::<(), HandlerError>(()) }
    });
    lab.process(&service, batch([Record::new("m-1", "{}")]))
        .await
        .unwrap();
    let retention = 28 * 24 * 60 * 60;
    if !lab.mode.runs_before_it_claims() {
        let claim = &lab.wire.take_sent()[0].body["Item"]["expiration"]["N"];
        assert_eq!(claim, &(started + retention).to_string());
    }
    let record = lab.record("m-1").await.unwrap();
    let expiration: u64 = record["expiration"].as_n().unwrap().parse().unwrap();
    assert_eq!(expiration, started + 5 + retention);
    // In milliseconds it would be in the year 58,000.
    assert_eq!(day(expiration) - day(started), 28);

    lab.take_reports();
    // It ends in the second after its last one, however late DynamoDB deletes it.
    for (passed, outcome) in [(retention, "m-1 duplicate"), (1, "m-1 completed")] {
        lab.clock.advance(Duration::from_secs(passed));
        // The handler, which takes time, is not run for a duplicate that was received before.
        let again = Record::new("m-1", "{}").attribute("ApproximateReceiveCount", "2");
        lab.process(&service, batch([again])).await.unwrap();
        assert_eq!(lab.take_outcomes(), [outcome]);
    }
}
