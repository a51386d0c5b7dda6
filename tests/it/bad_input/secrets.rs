//! What is in messages stays out of errors, reports, `Debug` and logs.

use std::collections::BTreeMap;
use std::error::Error as _;
use std::sync::{Arc, Mutex};

use lambda_idempotency::{
    Delivery, Error, HandlerError, Idempotency, Key, Message, Report, SqsBatch, Transaction,
};
use serde::Deserialize;
use serde_json::{Value, json};

use crate::support::{Bank, Lab, Logs, Payment, Record, batch};

const SECRET: &str = "4111-1111";

/// A body of which many things can be wrong.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
#[expect(dead_code, reason = "only its decoding is looked at")]
struct Card {
    number: Option<u64>,
    kind: Option<Kind>,
    limits: Option<[u8; 2]>,
    either: Option<Either>,
    by_name: Option<BTreeMap<u8, u8>>,
    letter: Option<char>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Kind {
    Debit,
    Credit,
}

#[derive(Debug, Deserialize)]
#[serde(untagged)]
#[expect(dead_code, reason = "only its decoding is looked at")]
enum Either {
    Number(u64),
    Flag(bool),
}

/// Every text that an error shows, and every one beneath it.
fn all_of(error: &Error) -> String {
    let mut text = format!("{error} {error:?} {error:#?}");
    let mut next = error.source();
    while let Some(source) = next {
        text += &format!(" {source} {source:?}");
        next = source.source();
    }
    text
}

/// Bodies that hold the secret and can't be decoded.
fn undecodable() -> Vec<String> {
    vec![
        SECRET.to_owned(),
        format!("{SECRET:?}"),
        json!({ "number": SECRET }).to_string(),
        json!({ "kind": SECRET }).to_string(),
        json!({ SECRET: 1 }).to_string(),
        json!({ "limits": [1, SECRET] }).to_string(),
        json!({ "limits": SECRET }).to_string(),
        json!({ "either": SECRET }).to_string(),
        json!({ "by_name": { SECRET: 1 } }).to_string(),
        json!({ "letter": SECRET }).to_string(),
        json!({ "kind": { SECRET: null } }).to_string(),
        format!("{{\"number\":1}} {SECRET}"),
        format!("{{\"number\":{SECRET}}}"),
        format!("{{\"number\":\"{SECRET}, expected {SECRET}"),
        json!({ "number": format!("{SECRET}, expected {SECRET}") }).to_string(),
        json!({ "kind": format!("missing field `{SECRET}`") }).to_string(),
    ]
}

#[tokio::test]
async fn a_body_that_can_not_be_decoded_is_repeated_nowhere() {
    let lab = Lab::new().await;
    let logs = Logs::listen();
    let told: Arc<Mutex<Vec<String>>> = Arc::default();
    let kept = Arc::clone(&told);
    let idempotency = lab
        .builder()
        .observer(move |report: &Report| {
            let error = report.error.as_ref().map(all_of);
            let text = format!("{report:?} {report:#?} {error:?}");
            kept.lock().unwrap().push(text);
        })
        .build()
        .unwrap();
    let service = idempotency.sqs(|_: Message<Card>| async { Ok::<(), HandlerError>(()) });
    let bodies = undecodable();
    for body in &bodies {
        let failures = lab
            .failures(&service, batch([Record::new("m-1", body)]))
            .await;
        assert_eq!(failures, ["m-1"], "{body}");
    }
    let told = told.lock().unwrap();
    assert_eq!(told.len(), bodies.len());
    for (told, body) in told.iter().zip(&bodies) {
        assert!(told.contains("the body is not the JSON"), "{told}");
        assert!(!told.contains("4111"), "{body}: {told}");
    }
    assert_eq!(logs.levels().len(), bodies.len());
    assert!(!logs.text().contains("4111"), "{}", logs.text());
}

#[tokio::test]
async fn a_key_that_can_not_be_used_is_repeated_nowhere() {
    let lab = Lab::new().await;
    let logs = Logs::listen();
    let keys = [
        Key::body("/key").unwrap(),
        Key::parts([Key::body("/key").unwrap(), Key::attribute("tenant")]),
        Key::attribute("binary"),
        Key::sns_message_id(),
        Key::event_bridge_id(),
    ];
    for key in keys {
        let service = lab
            .idempotency()
            .sqs_with(
                |_: &Delivery| Ok(()),
                |_: Message<()>| async { Ok::<(), HandlerError>(()) },
            )
            .key(key);
        for body in [
            json!({ "key": { SECRET: 1 }, "id": SECRET }).to_string(),
            format!("not json {SECRET}"),
        ] {
            let record = Record::new("m-1", body).message_attribute(
                "binary",
                json!({ "dataType": "Binary", "binaryValue": format!("%{SECRET}") }),
            );
            assert_eq!(lab.failures(&service, batch([record])).await, ["m-1"]);
            let report = lab.take_report();
            assert_eq!(report.reason.unwrap().as_str(), "key");
            assert!(!report.error.unwrap().contains("4111"));
        }
    }
    assert!(!logs.text().contains("4111"), "{}", logs.text());
}

/// What the library says of a message with the key on its way through all outcomes.
async fn logged(lab: &Lab, idempotency: &Idempotency, key: Key) -> String {
    let logs = Logs::listen();
    let service = idempotency
        .sqs(Bank(lab.tables.clone()))
        .key(key.clone())
        .fingerprint_body();
    let failing = idempotency
        .sqs(|_: Message<Payment>| async { Err::<Transaction, _>("no funds".into()) })
        .key(key);
    let record = |amount: u64| {
        let body = json!({ "id": SECRET, "account": "a", "amount": amount });
        let attribute = json!({ "dataType": "String", "stringValue": SECRET });
        batch([Record::new("m-1", body).message_attribute("key", attribute)])
    };
    lab.process(&failing, record(10)).await.unwrap();
    for amount in [10, 10, 11] {
        lab.process(&service, record(amount)).await.unwrap();
    }
    assert_eq!(
        lab.take_outcomes(),
        [
            "m-1 completed",
            "m-1 duplicate",
            "m-1 failed handler",
            "m-1 failed payload_mismatch"
        ]
    );
    logs.text()
}

#[tokio::test]
async fn a_key_from_the_message_is_logged_as_its_hash_only() {
    for key in [
        Key::body("/id").unwrap(),
        Key::attribute("key"),
        Key::parts([Key::message_id(), Key::body("/id").unwrap()]),
        Key::from_fn(|_: &Delivery| SECRET.to_owned()),
    ] {
        let lab = Lab::new().await;
        let text = logged(&lab, &lab.idempotency(), key).await;
        assert!(!text.contains("4111"), "{text}");
        assert!(text.contains("record_id=\"tests#sha256:"), "{text}");
        assert!(text.contains("message_id=\"m-1\""), "{text}");
    }
}

#[tokio::test]
async fn a_key_from_the_message_is_logged_where_that_was_asked_for() {
    let lab = Lab::new().await;
    let idempotency = lab.builder().log_keys(true).build().unwrap();
    let text = logged(&lab, &idempotency, Key::body("/id").unwrap()).await;
    let shown = format!("record_id=\"tests#{SECRET}\"");
    assert!(text.contains(&shown), "{text}");
}

#[tokio::test]
async fn a_key_that_sqs_gave_is_logged_as_it_is() {
    let lab = Lab::new().await;
    let text = logged(&lab, &lab.idempotency(), Key::message_id()).await;
    assert!(text.contains("record_id=\"tests#m-1\""), "{text}");
    assert!(!text.contains("4111"), "{text}");
}

#[tokio::test]
async fn the_key_of_a_call_is_logged_as_its_hash_only() {
    let lab = Lab::new().await;
    let logs = Logs::listen();
    let deadline = lambda_idempotency::Clock::now(&lab.clock) + std::time::Duration::from_secs(30);
    lab.idempotency()
        .run(SECRET, SECRET, deadline, async |_| Ok(()))
        .await
        .unwrap();
    let text = logs.text();
    assert!(!text.contains("4111"), "{text}");
    assert!(text.contains("record_id=\"tests#sha256:"), "{text}");
}

#[tokio::test]
async fn debug_prints_nothing_of_what_is_in_messages() {
    let record = Record::new("m-1", json!({ "id": SECRET }))
        .message_attribute("a", json!({ "dataType": "String", "stringValue": SECRET }))
        .with("receiptHandle", SECRET);
    let text = record.0.to_string();
    let read: SqsBatch = batch([record]);
    assert!(!format!("{read:?} {read:#?}").contains("4111"));
    let delivery = Delivery::from_json(&text).unwrap();
    assert_eq!(delivery.receipt_handle(), Some(SECRET));
    let attribute = delivery.message_attribute("a").unwrap();
    assert_eq!(attribute.as_str(), Some(SECRET));
    assert!(!format!("{delivery:?} {delivery:#?} {attribute:?}").contains("4111"));

    let message = Message::new(json!({ "id": SECRET }));
    assert!(!format!("{message:?} {message:#?}").contains("4111"));
    let transaction = Transaction::new()
        .put("payments", json!({ "id": SECRET }))
        .returning(SECRET);
    let writes = transaction.writes();
    assert!(!format!("{transaction:?} {transaction:#?} {writes:?}").contains("4111"));

    let lab = Lab::new().await;
    let idempotency = lab.idempotency();
    let service = idempotency.sqs(|_: Message<Value>| async { Ok::<(), HandlerError>(()) });
    let service = service.key_by(|body: &Value| body["id"].as_str().map(str::to_owned));
    let told = format!("{service:?} {idempotency:?}");
    assert!(told.contains("tests") && !told.contains("4111"), "{told}");
}
