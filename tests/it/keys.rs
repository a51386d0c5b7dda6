//! Where keys come from, and what becomes of them: each source from the event to the record.

use lambda_idempotency::{
    Delivery, Envelope, HandlerError, Key, Message, MissingKey, SqsService, Transaction,
};
use serde_json::{Value, json};

use crate::support::{Bank, COMMIT, CONSUMER, Fault, Lab, Payment, Record, batch};

/// Delivers the record by this key and says which key it came to.
async fn key_of(key: Key, envelope: Envelope, record: Record) -> String {
    let lab = Lab::new().await;
    let service = lab
        .idempotency()
        .sqs_with(
            |_: &Delivery| Ok(()),
            |_: Message<()>| async { Ok::<(), HandlerError>(()) },
        )
        .key(key)
        .envelope(envelope);
    lab.process(&service, batch([record.clone()]))
        .await
        .unwrap();
    let report = lab.take_report();
    assert_eq!(report.outcome.as_str(), "completed", "{:?}", report.error);
    let id = report.record_id.unwrap();
    let key = id.strip_prefix("tests#").unwrap().to_owned();
    assert!(lab.record(&key).await.is_some());
    // The same message again is a duplicate by that very key.
    lab.process(&service, batch([record])).await.unwrap();
    assert_eq!(lab.take_report().outcome.as_str(), "duplicate");
    key
}

async fn plain(key: Key, record: Record) -> String {
    key_of(key, Envelope::None, record).await
}

fn pointer(pointer: &str) -> Key {
    Key::body(pointer).unwrap()
}

fn attributed(data_type: &str, value: Value) -> Record {
    let field = match data_type {
        "Binary" => "binaryValue",
        _ => "stringValue",
    };
    let mut attribute = json!({ "dataType": data_type });
    attribute[field] = value;
    Record::new("m-1", "{}").message_attribute("key", attribute)
}

#[tokio::test]
async fn the_message_id_is_the_key_unless_told_otherwise() {
    let record = Record::new("059f36b4-87a3-44ab-83d2-661975830a7d", "{}");
    let id = "059f36b4-87a3-44ab-83d2-661975830a7d";
    assert_eq!(plain(Key::default(), record.clone()).await, id);
    assert_eq!(plain(Key::message_id(), record).await, id);
}

#[tokio::test]
async fn an_attribute_is_a_key_by_its_value_whatever_its_type() {
    let key = || Key::attribute("key");
    for (data_type, value, expected) in [
        ("String", "order 7", "order 7"),
        ("String", "10.0", "10.0"),
        ("Number", "10.0", "10"),
        ("Number.int64", "1e1", "10"),
        ("Number", "0.50", "5e-1"),
        (
            "Number",
            "12345678901234567890123456789012345678",
            "12345678901234567890123456789012345678",
        ),
        ("Binary", "AP8Q", "AP8Q"),
        ("Binary", "-_-_", "+/+/"),
    ] {
        let record = attributed(data_type, value.into());
        assert_eq!(plain(key(), record).await, expected, "{data_type} {value}");
    }
}

#[tokio::test]
async fn a_pointer_finds_strings_numbers_and_booleans_in_the_body_exactly() {
    for (body, path, expected) in [
        (r#"{"id":"p-1"}"#, "/id", "p-1"),
        (r#"{"a":{"b":[{"id":"x"}]}}"#, "/a/b/0/id", "x"),
        (r#"{"id":7}"#, "/id", "7"),
        (r#"{"id":7.0}"#, "/id", "7"),
        (r#"{"id":70e-1}"#, "/id", "7"),
        (r#"{"id":true}"#, "/id", "true"),
        (r#"{"id":"\u0070-1"}"#, "/id", "p-1"),
        (r#"{"a/b":{"~":"x"}}"#, "/a~1b/~0", "x"),
        (r#"{"id":"first","id":"last"}"#, "/id", "last"),
        (r#""the whole body""#, "", "the whole body"),
        (
            r#"{"id":12345678901234567890123456789012345678}"#,
            "/id",
            "12345678901234567890123456789012345678",
        ),
        (r#"{"id":9007199254740993}"#, "/id", "9007199254740993"),
    ] {
        let record = Record::new("m-1", body);
        assert_eq!(plain(pointer(path), record).await, expected, "{body}");
    }
}

#[tokio::test]
async fn parts_are_one_key_and_can_not_run_into_each_other() {
    let parts = || Key::parts([pointer("/a"), pointer("/b")]);
    let body = |a: &str, b: &str| Record::new("m-1", json!({ "a": a, "b": b }));
    assert_eq!(plain(parts(), body("t", "7")).await, "t#7");
    let one = plain(parts(), body("a", "b#c")).await;
    let other = plain(parts(), body("a#b", "c")).await;
    assert_ne!(one, other);
    let mixed = Key::parts([Key::message_id(), Key::attribute("key"), pointer("/a")]);
    let record = body("x", "y")
        .message_attribute("key", json!({ "dataType": "Number", "stringValue": "1.0" }));
    assert_eq!(plain(mixed, record).await, "m-1#1#x");
}

fn sns(message: &str) -> String {
    json!({ "Type": "Notification", "MessageId": "sns-1", "TopicArn": "arn:aws:sns:eu-west-1:1:t",
        "Message": message,
        "MessageAttributes": { "tenant": { "Type": "String", "Value": "t-1" },
            "raw": { "Type": "Binary", "Value": "AP8Q" } } })
    .to_string()
}

fn event(detail: &Value) -> String {
    json!({ "id": "eb-1", "detail-type": "Paid", "source": "shop", "detail": detail }).to_string()
}

#[tokio::test]
async fn the_ids_of_envelopes_are_keys_whether_the_envelope_is_taken_off_or_not() {
    let body = sns(r#"{"id":"p-1"}"#);
    for envelope in [Envelope::None, Envelope::Sns, Envelope::Detect] {
        let record = Record::new("m-1", &body);
        let key = key_of(Key::sns_message_id(), envelope, record).await;
        assert_eq!(key, "sns-1");
    }
    let body = event(&json!({ "id": "p-1" }));
    for envelope in [Envelope::None, Envelope::EventBridge, Envelope::Detect] {
        let record = Record::new("m-1", &body);
        let key = key_of(Key::event_bridge_id(), envelope, record).await;
        assert_eq!(key, "eb-1");
    }
}

#[tokio::test]
async fn a_pointer_looks_behind_the_envelope_that_is_taken_off_and_else_into_it() {
    let detail = json!({ "id": "p-1" });
    for (envelope, body, path, expected) in [
        (Envelope::Sns, sns(r#"{"id":"p-1"}"#), "/id", "p-1"),
        (Envelope::None, sns("{}"), "/MessageId", "sns-1"),
        (Envelope::EventBridge, event(&detail), "/id", "p-1"),
        (Envelope::None, event(&detail), "/id", "eb-1"),
        (Envelope::None, event(&detail), "/detail/id", "p-1"),
        // EventBridge to SNS to SQS; and SNS with raw delivery, which adds nothing.
        (Envelope::Detect, sns(&event(&detail)), "/id", "p-1"),
        (Envelope::Detect, detail.to_string(), "/id", "p-1"),
    ] {
        let record = Record::new("m-1", &body);
        let key = key_of(pointer(path), envelope, record).await;
        assert_eq!(key, expected, "{envelope:?} {body}");
    }
}

#[tokio::test]
async fn attributes_of_an_envelope_are_keys_once_it_is_taken_off() {
    let tenant = || Key::attribute("tenant");
    let record = Record::new("m-1", sns("{}"));
    assert_eq!(
        key_of(tenant(), Envelope::Detect, record.clone()).await,
        "t-1"
    );
    assert_eq!(
        key_of(Key::attribute("raw"), Envelope::Detect, record.clone()).await,
        "AP8Q"
    );
    // SQS's own attribute is the nearer one.
    let own = record.message_attribute(
        "tenant",
        json!({ "dataType": "String", "stringValue": "t-2" }),
    );
    assert_eq!(key_of(tenant(), Envelope::Detect, own).await, "t-2");
}

#[tokio::test]
async fn a_function_of_the_delivery_is_a_key() {
    let day = |delivery: &Delivery| {
        let sent = delivery.attribute("SentTimestamp")?;
        Some(format!("sent {sent}"))
    };
    let record = Record::new("m-1", "{}");
    assert_eq!(
        plain(Key::from_fn(day), record.clone()).await,
        "sent 1545082649183"
    );
    let always = |delivery: &Delivery| delivery.body().len().to_string();
    assert_eq!(plain(Key::from_fn(always), record).await, "2");
}

#[tokio::test]
async fn a_function_of_the_decoded_body_is_a_key() {
    let lab = Lab::new().await;
    let service = lab
        .idempotency()
        .sqs(Bank(lab.tables.clone()))
        .envelope(Envelope::Detect)
        .key_by(|payment: &Payment| format!("{}/{}", payment.account, payment.id));
    let body = r#"{"id":"p-1","account":"a","amount":10}"#;
    let records = [Record::new("m-1", body), Record::new("m-2", sns(body))];
    lab.process(&service.concurrency(1), batch(records))
        .await
        .unwrap();
    assert!(lab.record("a/p-1").await.is_some());
    assert_eq!(lab.take_outcomes(), ["m-1 completed", "m-2 duplicate"]);
    assert_eq!(lab.balance("a").await, 10);
}

/// Two payments that differ in all but the missing key.
async fn without_a_key(choose: impl Fn(SqsService<Bank, Payment>) -> SqsService<Bank, Payment>) {
    let lab = Lab::new().await;
    let both = || {
        batch([10, 20].map(|amount| {
            let id = format!("of {amount}");
            Record::new(
                &id,
                json!({ "id": id, "account": "a", "amount": amount, "key": null }),
            )
        }))
    };
    let strict = choose(lab.idempotency().sqs(Bank(lab.tables.clone())));
    assert_eq!(lab.failures(&strict, both()).await, ["of 10", "of 20"]);
    assert_eq!(
        lab.take_outcomes(),
        ["of 10 failed key", "of 20 failed key"]
    );
    assert!(lab.wire.take_operations().is_empty());

    let loose = strict.missing_key(MissingKey::RunUnprotected);
    // The second round runs again: nothing remembers the first.
    for balance in [30, 60] {
        assert!(lab.failures(&loose, both()).await.is_empty());
        assert_eq!(
            lab.take_outcomes(),
            ["of 10 unprotected key", "of 20 unprotected key"]
        );
        assert_eq!(lab.wire.take_operations(), ["TransactWriteItems"; 2]);
        assert_eq!(lab.balance("a").await, balance);
    }
    assert_eq!(lab.records().await, 0);
}

#[tokio::test]
async fn a_missing_key_fails_or_runs_unprotected_and_is_never_shared() {
    without_a_key(|service| service.key(pointer("/key"))).await;
    without_a_key(|service| service.key(pointer("/nothing"))).await;
    without_a_key(|service| service.key(Key::attribute("key"))).await;
    without_a_key(|service| service.key(Key::sns_message_id())).await;
    without_a_key(|service| service.key(Key::event_bridge_id())).await;
    without_a_key(|service| service.key(Key::parts([Key::message_id(), pointer("/key")]))).await;
    without_a_key(|service| service.key(Key::from_fn(|_: &Delivery| None))).await;
    without_a_key(|service| service.key(Key::from_fn(|_: &Delivery| " \n".to_owned()))).await;
    without_a_key(|service| service.key_by(|_: &Payment| None)).await;
    without_a_key(|service| service.key_by(|_: &Payment| String::new())).await;
}

#[tokio::test]
async fn what_is_there_and_can_not_be_a_key_fails_even_where_missing_keys_run_unprotected() {
    let attribute = json!({ "dataType": "Binary", "binaryValue": "%%" });
    let record = |body: &str| Record::new("m-1", body).message_attribute("key", attribute.clone());
    for (key, body) in [
        (pointer("/key"), r#"{"key": {"id": 1}}"#),
        (pointer("/key"), r#"{"key": {}}"#),
        (pointer("/key"), r#"{"key": [1]}"#),
        (pointer("/key"), r#"{"key": 1"#),
        (Key::attribute("key"), "1"),
        (Key::parts([]), "1"),
        (Key::parts([Key::message_id(), Key::attribute("key")]), "1"),
    ] {
        let lab = Lab::new().await;
        let text = |delivery: &Delivery| Ok(delivery.body().to_owned());
        let service = lab
            .idempotency()
            .sqs_with(text, async |_: Message<String>| Ok(()))
            .key(key)
            .missing_key(MissingKey::RunUnprotected);
        assert_eq!(lab.failures(&service, batch([record(body)])).await, ["m-1"]);
        assert_eq!(lab.take_outcomes(), ["m-1 failed key"], "{body}");
    }
}

#[tokio::test]
async fn a_message_without_protection_and_without_writes_asks_nothing_of_the_store() {
    let lab = Lab::new().await;
    let service = lab
        .idempotency()
        .sqs(|_: Message<Value>| async { Ok::<(), HandlerError>(()) })
        .key(pointer("/key"))
        .missing_key(MissingKey::RunUnprotected);
    let one = batch([Record::new("m-1", "{}")]);
    assert!(lab.failures(&service, one).await.is_empty());
    assert_eq!(lab.take_outcomes(), ["m-1 unprotected key"]);
    assert!(lab.wire.take_operations().is_empty());
}

#[tokio::test]
async fn without_protection_a_late_copy_is_not_forgotten_and_no_alternative_goes_beside_it() {
    for refusal in [
        Fault::cancelled(&["ConditionalCheckFailed"]),
        Fault::cancelled(&["ValidationError"]),
        Fault::code("ValidationException"),
    ] {
        let lab = Lab::new().await;
        let table = lab.tables.payments.clone();
        let service = lab
            .idempotency()
            .sqs(move |_: Message<Value>| {
                let writes = Transaction::new().put(&table, json!({ "id": "first" }));
                let instead = Transaction::new().put(&table, json!({ "id": "instead" }));
                async { Ok::<_, HandlerError>(writes.otherwise(instead)) }
            })
            .key(pointer("/key"))
            .missing_key(MissingKey::RunUnprotected);
        lab.wire.next(COMMIT, Fault::Late);
        lab.wire.next(COMMIT, refusal.clone());
        let one = batch([Record::new("m-1", "{}")]);
        assert_eq!(lab.failures(&service, one).await, ["m-1"], "{refusal:?}");
        let told = lab.take_report().error.unwrap();
        assert!(told.contains("it is not known"), "{refusal:?}: {told}");
        assert_eq!(lab.wire.take_operations(), [COMMIT, COMMIT], "{refusal:?}");
        assert_eq!(lab.wire.deliver_late().await, [200]);
        assert_eq!(lab.count(&lab.tables.payments).await, 1);
    }
}

#[tokio::test]
async fn a_message_that_fails_without_protection_is_reported_and_writes_nothing() {
    let lab = Lab::new().await;
    let tables = lab.tables.clone();
    let service = lab
        .idempotency()
        .sqs(move |_: Message<Value>| {
            let item = json!({ "id": "x" });
            let twice = Transaction::new()
                .put(&tables.payments, &item)
                .put(&tables.payments, &item);
            async { Ok::<_, HandlerError>(twice) }
        })
        .key(pointer("/key"))
        .missing_key(MissingKey::RunUnprotected);
    let one = batch([Record::new("m-1", "{}")]);
    assert_eq!(lab.failures(&service, one).await, ["m-1"]);
    assert_eq!(lab.take_outcomes(), ["m-1 failed commit"]);
    assert_eq!(lab.count(&lab.tables.payments).await, 0);
}

#[tokio::test]
async fn a_rule_skips_messages_before_they_are_decoded_and_before_they_need_a_key() {
    let lab = Lab::new().await;
    let service = lab
        .idempotency()
        .sqs(Bank(lab.tables.clone()))
        .envelope(Envelope::Detect)
        .key(pointer("/id"))
        .skip(|delivery: &Delivery| delivery.body() == "ping");
    let records = [
        Record::new("m-1", "ping"),
        Record::new("m-2", sns("ping")),
        Record::payment("m-3", "p-3"),
        Record::new("m-4", "pong"),
    ];
    assert_eq!(lab.failures(&service, batch(records)).await, ["m-4"]);
    assert_eq!(
        lab.take_outcomes(),
        [
            "m-1 skipped",
            "m-2 skipped",
            "m-3 completed",
            "m-4 failed decode"
        ]
    );
    assert_eq!(lab.records().await, 1);
}

#[tokio::test]
async fn long_keys_are_hashed_and_stay_apart() {
    let lab = Lab::new().await;
    let service = lab
        .idempotency()
        .sqs(|_: Message<Payment>| async { Ok::<(), HandlerError>(()) })
        .key(pointer("/id"));
    let long = "k".repeat(3_000);
    let mut ids = Vec::new();
    for (message, payment) in [
        ("m-1", long.clone()),
        ("m-2", format!("{long}x")),
        ("m-3", "k".repeat(1_000)),
        ("m-4", long),
    ] {
        lab.process(&service, batch([Record::payment(message, &payment)]))
            .await
            .unwrap();
        let report = lab.take_report();
        let again = if message == "m-4" {
            "duplicate"
        } else {
            "completed"
        };
        assert_eq!(report.outcome.as_str(), again);
        ids.push(report.record_id.unwrap());
    }
    assert!(ids.iter().all(|id| id.len() <= 1_024));
    assert!(ids.iter().all(|id| id.starts_with("tests#")));
    assert_eq!(ids[0], ids[3]);
    assert_ne!(ids[0], ids[1]);
    // Who sends the text that the long key is stored as does not meet its record.
    let forged = ids[0].strip_prefix("tests#").unwrap();
    lab.process(&service, batch([Record::payment("m-5", forged)]))
        .await
        .unwrap();
    assert_eq!(lab.take_report().outcome.as_str(), "completed");
}

#[tokio::test]
async fn the_consumer_s_name_is_in_the_record_id_as_it_was_given() {
    let lab = Lab::new().await;
    let idempotency = lab.builder().consumer("Kasse 7/ä").build().unwrap();
    let service = idempotency.sqs(Bank(lab.tables.clone()));
    lab.process(&service, batch([Record::payment("m-1", "p-1")]))
        .await
        .unwrap();
    let id = lab.take_report().record_id.unwrap();
    assert_eq!(id, "Kasse 7/ä#m-1");
    assert!(lab.item(&lab.tables.records, &id).await.is_some());
    assert_ne!(CONSUMER, "Kasse 7/ä");
}

#[tokio::test]
async fn a_downstream_key_is_the_same_on_every_attempt_and_another_for_each_call_and_message() {
    let lab = Lab::new().await;
    let (sender, mut seen) = tokio::sync::mpsc::unbounded_channel();
    // Fails each time, so that every delivery is an attempt.
    let handler = move |message: Message<Payment>| {
        sender
            .send(["charge", "notify", ""].map(|call| message.downstream_key(call)))
            .unwrap();
        async { Err::<(), HandlerError>("again".into()) }
    };
    let service = lab.idempotency().sqs(handler.clone()).key(pointer("/id"));
    let other = lab.builder().consumer("others").build().unwrap();
    let other = other.sqs(handler).key(pointer("/id"));
    for record in [
        Record::payment("m-1", "p-1"),
        Record::payment("m-1", "p-1"),
        // Redriven: another message id, the same business key.
        Record::payment("m-9", "p-1"),
        // With this one key and call would run into each other.
        Record::payment("m-2", "p-1charge"),
    ] {
        lab.process(&service, batch([record])).await.unwrap();
    }
    lab.process(&other, batch([Record::payment("m-1", "p-1")]))
        .await
        .unwrap();
    let mut keys = Vec::new();
    while let Ok(attempt) = seen.try_recv() {
        keys.push(attempt);
    }
    assert_eq!(keys.len(), 5);
    assert_eq!(keys[0], keys[1]);
    assert_eq!(keys[0], keys[2]);
    let mut distinct: Vec<&String> = [&keys[0], &keys[3], &keys[4]]
        .into_iter()
        .flatten()
        .collect();
    assert!(distinct.iter().all(|key| key.len() == 64));
    distinct.sort();
    distinct.dedup();
    assert_eq!(distinct.len(), 9);
}
