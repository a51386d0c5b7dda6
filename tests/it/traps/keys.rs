//! Keys that are missing, shared by accident, or change when code moves.

use std::fmt;
use std::str::FromStr;

use lambda_idempotency::{HandlerError, Key, Message, MissingKey, Transaction};
use serde_json::{Value, json};
use uuid::Uuid;

use crate::support::{Bank, Lab, Payment, Record, batch, pay};

/// Two payments to one account that have all but their keys: `key` is laid over each body.
fn two_without_keys(key: &Value) -> [Record; 2] {
    [("m-1", 10), ("m-2", 20)].map(|(id, amount)| {
        let mut body = json!({ "id": format!("of {id}"), "account": "a", "amount": amount });
        for (name, value) in key.as_object().unwrap() {
            body[name] = value.clone();
        }
        Record::new(id, body)
    })
}

async fn never_share(key: fn() -> Key, absent: &[Value]) {
    let lab = Lab::new().await;
    let strict = lab.idempotency().sqs(Bank(lab.tables.clone())).key(key());
    let loose = strict.clone().missing_key(MissingKey::RunUnprotected);
    let mut balance = 0;
    for absent in absent {
        let both = batch(two_without_keys(absent));
        lab.process(&strict, both.clone()).await.unwrap();
        assert_eq!(
            lab.take_outcomes(),
            ["m-1 failed key", "m-2 failed key"],
            "{absent}"
        );
        assert_eq!(lab.balance("a").await, balance);

        lab.process(&loose, both).await.unwrap();
        assert_eq!(
            lab.take_outcomes(),
            ["m-1 unprotected key", "m-2 unprotected key"]
        );
        balance += 30;
        assert_eq!(lab.balance("a").await, balance);
    }
    assert_eq!(lab.records().await, 0);
}

#[tokio::test]
async fn t08_messages_without_a_key_never_share_one() {
    never_share(
        || Key::body("/key").unwrap(),
        &[json!({}), json!({ "key": null }), json!({ "key": "" })],
    )
    .await;
}

#[tokio::test]
async fn t09_messages_without_the_parts_of_a_key_never_share_one() {
    never_share(
        || Key::parts([Key::body("/x").unwrap(), Key::body("/y").unwrap()]),
        &[
            json!({}),
            json!({ "x": null, "y": null }),
            json!({ "x": "", "y": "" }),
            // One part alone is no key either: it would be shared by all that have it.
            json!({ "x": "tenant" }),
            json!({ "x": "tenant", "y": " " }),
        ],
    )
    .await;
    // `{}` is there, and no key: it fails also where missing keys run unprotected.
    let lab = Lab::new().await;
    let service = lab
        .idempotency()
        .sqs(Bank(lab.tables.clone()))
        .key(Key::parts([
            Key::body("/x").unwrap(),
            Key::body("/y").unwrap(),
        ]))
        .missing_key(MissingKey::RunUnprotected);
    let objects = two_without_keys(&json!({ "x": {}, "y": {} }));
    lab.process(&service, batch(objects)).await.unwrap();
    assert_eq!(lab.take_outcomes(), ["m-1 failed key", "m-2 failed key"]);
}

#[tokio::test]
async fn t12_two_consumers_of_one_message_both_run_once() {
    let lab = Lab::new().await;
    let consumer = |name: &str, account: &'static str| {
        let tables = lab.tables.clone();
        let idempotency = lab.builder().consumer(name).build().unwrap();
        idempotency.sqs(move |message: Message<Payment>| {
            let mut payment = message.body;
            payment.account = account.to_owned();
            let writes = pay(&tables, &payment);
            async { Ok::<Transaction, HandlerError>(writes) }
        })
    };
    let (billing, shipping) = (consumer("billing", "b"), consumer("shipping", "s"));
    let mut told = Vec::new();
    for _ in 0..2 {
        for service in [&billing, &shipping] {
            lab.process(service, batch([Record::payment("m-1", "p-1")]))
                .await
                .unwrap();
            told.extend(lab.take_outcomes());
        }
    }
    assert_eq!(
        told,
        [
            "m-1 completed",
            "m-1 completed",
            "m-1 duplicate",
            "m-1 duplicate"
        ]
    );
    assert_eq!((lab.balance("b").await, lab.balance("s").await), (10, 10));
}

#[tokio::test]
async fn t13_a_handler_that_was_renamed_or_rewritten_keeps_its_records() {
    let lab = Lab::new().await;
    let old = lab.idempotency().sqs(Bank(lab.tables.clone()));
    lab.process(&old, batch([Record::payment("m-1", "p-1")]))
        .await
        .unwrap();
    // Another type of handler, another type of body, another `Idempotency`: the same consumer.
    let tables = lab.tables.clone();
    let new = lab.idempotency().sqs(move |message: Message<Value>| {
        let payment: Payment = serde_json::from_value(message.body).unwrap();
        let writes = pay(&tables, &payment);
        async { Ok::<Transaction, HandlerError>(writes) }
    });
    lab.process(&new, batch([Record::payment("m-1", "p-1")]))
        .await
        .unwrap();
    assert_eq!(lab.take_outcomes(), ["m-1 completed", "m-1 duplicate"]);
    assert_eq!(lab.balance("a").await, 10);
    let record = lab.record("m-1").await.unwrap();
    assert_eq!(record["id"].as_s().unwrap(), "tests#m-1");
}

/// A calendar day, as types of keys are: text only by `Display`.
struct Day(u16, u8, u8);

impl fmt::Display for Day {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:04}-{:02}-{:02}", self.0, self.1, self.2)
    }
}

#[tokio::test]
async fn t22_keys_can_be_of_any_type_that_has_a_text() {
    let lab = Lab::new().await;
    let id = "6f1ed002-ab5b-4f3b-9a0b-6a1f0b0f4a55";
    let by_id = lab
        .idempotency()
        .sqs(Bank(lab.tables.clone()))
        .key_by(|payment: &Payment| Uuid::from_str(&payment.id).ok().map(|id| id.to_string()));
    // Two spellings of one id are one key, because the type says so.
    lab.process(&by_id, batch([Record::payment("m-1", id)]))
        .await
        .unwrap();
    lab.process(&by_id, batch([Record::payment("m-2", &id.to_uppercase())]))
        .await
        .unwrap();
    lab.process(&by_id, batch([Record::payment("m-3", "no id")]))
        .await
        .unwrap();
    assert_eq!(
        lab.take_outcomes(),
        ["m-1 completed", "m-2 duplicate", "m-3 failed key"]
    );

    let by_day = lab
        .idempotency()
        .sqs(Bank(lab.tables.clone()))
        .key_by(|payment: &Payment| format!("{}/{}", payment.account, Day(2026, 2, 3)));
    lab.process(&by_day, batch([Record::payment("m-4", "p-4")]))
        .await
        .unwrap();
    assert!(lab.record("a/2026-02-03").await.is_some());
    assert_eq!(lab.balance("a").await, 20);
}

#[tokio::test]
async fn t27_a_message_that_comes_back_in_another_batch_is_the_same_message() {
    let lab = Lab::new().await;
    let service = lab.idempotency().sqs(Bank(lab.tables.clone()));
    let [one, two, three] =
        [1, 2, 3].map(|n| Record::payment(&format!("m-{n}"), &format!("p-{n}")));
    lab.process(&service, batch([one, two.clone()]))
        .await
        .unwrap();
    lab.process(&service, batch([two, three])).await.unwrap();
    assert_eq!(
        lab.take_outcomes(),
        [
            "m-1 completed",
            "m-2 completed",
            "m-2 duplicate",
            "m-3 completed"
        ]
    );
    assert_eq!(lab.balance("a").await, 30);
}
