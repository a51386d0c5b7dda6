//! Events and responses as they really are, not as their documentation has them.

use aws_lambda_events::sqs::SqsEvent;
use lambda_idempotency::{
    Delivery, Envelope, HandlerError, Key, Message, SqsBatch, SqsService, Transaction,
};
use serde_json::{Value, json};

use crate::support::{Bank, Lab, Payment, Record, batch};

/// What Lambda's event source mapping, with `ReportBatchItemFailures`, deletes of a batch after the
/// function returned this text, or an error. After its documentation; no emulator is right here.
fn deleted<'b>(batch: &[&'b str], returned: Result<&str, ()>) -> Vec<&'b str> {
    let complete_failure = Vec::new();
    let complete_success = batch.to_vec();
    let Ok(text) = returned else {
        return complete_failure;
    };
    let Ok(response) = serde_json::from_str::<Value>(text) else {
        return complete_failure;
    };
    let Some(Value::Array(failures)) = response.get("batchItemFailures") else {
        return complete_success;
    };
    let ids: Option<Vec<&str>> = failures
        .iter()
        .map(|failure| {
            let id = failure.get("itemIdentifier")?.as_str()?;
            batch.contains(&id).then_some(id)
        })
        .collect();
    let Some(ids) = ids else {
        return complete_failure;
    };
    batch
        .iter()
        .copied()
        .filter(|id| !ids.contains(id))
        .collect()
}

#[test]
fn t38_the_rules_by_which_responses_are_judged_here_are_those_of_the_documentation() {
    let batch = ["m-1", "m-2"];
    for (returned, left) in [
        (Ok("null"), 2),
        (Ok("{}"), 2),
        (Ok(r#"{"batchItemFailures":null}"#), 2),
        (Ok(r#"{"batchItemFailures":[]}"#), 2),
        // Reads as no list at all: everything is deleted.
        (Ok(r#"{"BatchItemFailures":[{"itemIdentifier":"m-1"}]}"#), 2),
        (Ok(r#"{"batchItemFailures":[{"itemIdentifier":"m-1"}]}"#), 1),
        (Ok(r#"{"batchItemFailures":[{"ItemIdentifier":"m-1"}]}"#), 0),
        (Ok(r#"{"batchItemFailures":[{"itemIdentifier":""}]}"#), 0),
        (Ok(r#"{"batchItemFailures":[{"itemIdentifier":null}]}"#), 0),
        (Ok(r#"{"batchItemFailures":[{"itemIdentifier":"m-9"}]}"#), 0),
        (Ok("not json"), 0),
        (Err(()), 0),
    ] {
        assert_eq!(deleted(&batch, returned).len(), left, "{returned:?}");
    }
}

#[tokio::test]
async fn t37_t38_exactly_the_messages_that_are_done_are_deleted() {
    let lab = Lab::new().await;
    let service = lab
        .idempotency()
        .sqs(Bank(lab.tables.clone()))
        .key(Key::body("/id").unwrap());
    let good = |id: &str| Record::payment(id, &format!("of {id}"));
    let bad = |id: &str| Record::new(id, "not json");
    let nameless = || bad("x").without("messageId");
    for (records, ids, done) in [
        (vec![good("m-1"), good("m-2")], vec!["m-1", "m-2"], 2),
        (vec![good("m-1"), bad("m-3")], vec!["m-1", "m-3"], 1),
        (vec![bad("m-3"), bad("m-4")], vec!["m-3", "m-4"], 0),
        (vec![bad("m-3"), bad("m-3")], vec!["m-3", "m-3"], 0),
        // One without an id can only come back with all the others.
        (vec![good("m-5"), nameless()], vec!["m-5"], 0),
        (vec![], vec![], 0),
    ] {
        let answer = lab.process(&service, batch(records)).await;
        let text = answer.map(|response| serde_json::to_string(&response).unwrap());
        let returned = text.as_deref().map_err(|_| ());
        assert_eq!(deleted(&ids, returned).len(), done, "{text:?}");
        let acknowledged = lab
            .take_reports()
            .iter()
            .filter(|told| told.outcome.is_acknowledged())
            .count();
        assert!(done <= acknowledged, "{text:?}");
    }
}

#[tokio::test]
async fn t37_the_response_has_lambda_s_own_spelling_to_the_letter() {
    let lab = Lab::new().await;
    let service = lab.idempotency().sqs(Bank(lab.tables.clone()));
    let records = [Record::payment("m-1", "p-1"), Record::new("m-2", "{")];
    assert_eq!(
        lab.respond(&service, batch(records)).await,
        r#"{"batchItemFailures":[{"itemIdentifier":"m-2"}]}"#
    );
    assert_eq!(
        lab.respond(&service, batch([])).await,
        r#"{"batchItemFailures":[]}"#
    );
}

/// The bodies of messages as text, decoded by nobody.
fn raw(
    lab: &Lab,
) -> SqsService<impl lambda_idempotency::Handler<String, Output = Transaction<String>>, String> {
    lab.idempotency().sqs_with(
        |delivery: &Delivery| Ok(delivery.body().to_owned()),
        |message: Message<String>| async {
            Ok::<_, HandlerError>(Transaction::new().returning(message.body))
        },
    )
}

/// An SNS notification in a queue: `UnsubscribeURL`, where Lambda's own SNS event has
/// `UnsubscribeUrl`.
fn notification(message: &str) -> Value {
    json!({
        "Type": "Notification",
        "MessageId": "sns-1",
        "TopicArn": "arn:aws:sns:eu-west-1:123456789012:payments",
        "Message": message,
        "Timestamp": "2026-01-02T03:04:05.678Z",
        "SignatureVersion": "1",
        "Signature": "EXAMPLE",
        "SigningCertURL": "https://sns.eu-west-1.amazonaws.com/SimpleNotificationService.pem",
        "UnsubscribeURL": "https://sns.eu-west-1.amazonaws.com/?Action=Unsubscribe",
        "MessageAttributes": { "tenant": { "Type": "String", "Value": "t-1" } }
    })
}

#[tokio::test]
async fn t40_plain_text_is_a_message_with_and_without_an_envelope() {
    let lab = Lab::new().await;
    for (id, envelope, body) in [
        ("m-1", Envelope::None, "hello".to_owned()),
        ("m-2", Envelope::Detect, "hello".to_owned()),
        ("m-3", Envelope::Sns, notification("hello").to_string()),
        ("m-4", Envelope::Detect, notification("hello").to_string()),
    ] {
        let service = raw(&lab).envelope(envelope);
        let failures = lab.failures(&service, batch([Record::new(id, body)])).await;
        assert!(failures.is_empty(), "{id}");
        assert_eq!(lab.take_report().result.as_deref(), Some(r#""hello""#));
    }
}

#[tokio::test]
async fn t41_an_sns_envelope_is_read_with_any_of_its_optional_fields_missing() {
    let lab = Lab::new().await;
    let full = notification("hello");
    let optional = [
        "Timestamp",
        "SignatureVersion",
        "Signature",
        "SigningCertURL",
        "UnsubscribeURL",
        "MessageAttributes",
    ];
    for (at, missing) in optional.into_iter().enumerate() {
        for envelope in [Envelope::Sns, Envelope::Detect] {
            let mut body = full.clone();
            body.as_object_mut().unwrap().remove(missing);
            body["SequenceNumber"] = "10000000000000003000".into();
            body["Subject"] = Value::Null;
            let record = Record::new(&format!("m-{at}-{envelope:?}"), body);
            let service = raw(&lab).envelope(envelope);
            lab.process(&service, batch([record])).await.unwrap();
            let told = lab.take_report();
            assert_eq!(told.result.as_deref(), Some(r#""hello""#), "{missing}");
        }
    }
}

fn s3_test_event() -> Record {
    Record::new(
        "m-test",
        json!({
            "Service": "Amazon S3",
            "Event": "s3:TestEvent",
            "Time": "2026-01-02T03:04:05.678Z",
            "Bucket": "payments",
            "RequestId": "5582815E1AEA5ADF",
            "HostId": "8cLeGAmw098X5cv4Zkwcmo8vvZa3eH3eKxsPzbB9wrR"
        }),
    )
}

#[tokio::test]
async fn t43_a_test_event_of_s3_fails_alone_or_is_skipped_by_a_rule() {
    let lab = Lab::new().await;
    let service = lab.idempotency().sqs(Bank(lab.tables.clone()));
    let both = || batch([s3_test_event(), Record::payment("m-1", "p-1")]);
    assert_eq!(lab.failures(&service, both()).await, ["m-test"]);
    assert_eq!(
        lab.take_outcomes(),
        ["m-1 completed", "m-test failed decode"]
    );

    let skipping = service.skip(|delivery: &Delivery| delivery.body().contains("\"s3:TestEvent\""));
    assert!(lab.failures(&skipping, both()).await.is_empty());
    assert_eq!(lab.take_outcomes(), ["m-1 duplicate", "m-test skipped"]);
    assert_eq!(lab.balance("a").await, 10);
    assert_eq!(lab.records().await, 1);
}

#[tokio::test]
async fn t45_a_parsed_event_with_one_bad_body_fails_for_that_one_only() {
    let lab = Lab::new().await;
    let service = lab.idempotency().sqs(Bank(lab.tables.clone()));
    let records = [
        Record::payment("m-1", "p-1").0,
        Record::new("m-2", "not json").0,
        Record::new("m-3", "x").without("body").0,
        Record::payment("m-4", "p-4").0,
    ];
    let event: SqsEvent = serde_json::from_value(json!({ "Records": records })).unwrap();
    // It is written again with nulls for what it does not have.
    assert_eq!(lab.failures(&service, event.into()).await, ["m-2", "m-3"]);
    assert_eq!(lab.balance("a").await, 20);
}

/// A record with every field that a batching window, attributes of all types, a trace and a
/// redrive bring.
fn full_record() -> Record {
    Record::payment("m-full", "p-1")
        .attribute("AWSTraceHeader", "Root=1-5759e988-bd862e3fe1be46a994272793")
        .attribute("DeadLetterQueueSourceArn", "arn:aws:sqs:eu-west-1:1:source")
        .attribute("SequenceNumber", "18849496460467696128")
        .message_attribute(
            "text",
            json!({ "stringValue": "t-1", "stringListValues": [],
            "binaryListValues": [], "dataType": "String" }),
        )
        .message_attribute(
            "number",
            json!({ "stringValue": "123.0", "stringListValues": null,
            "binaryListValues": null, "dataType": "Number.int64" }),
        )
        .message_attribute(
            "bytes",
            json!({ "stringValue": null, "binaryValue": "AQID", "dataType": "Binary.png" }),
        )
        .message_attribute(
            "both",
            json!({ "stringValue": "AQI", "binaryValue": "AQI", "dataType": "Binary" }),
        )
        .message_attribute(
            "text in both",
            json!({ "stringValue": "AQI", "binaryValue": "AQI", "dataType": "String" }),
        )
        .message_attribute("odd", json!(7))
}

#[tokio::test]
async fn t55_attributes_of_every_kind_make_no_record_unreadable() {
    let lab = Lab::new().await;
    let seen = |message: Message<Payment>| async move {
        let delivery = message.delivery();
        let text = |name| delivery.message_attribute(name).and_then(|a| a.as_str());
        let bytes = |name| delivery.message_attribute(name).and_then(|a| a.as_bytes());
        assert_eq!(text("text"), Some("t-1"));
        assert_eq!(text("number"), Some("123.0"));
        assert_eq!(bytes("bytes"), Some(&[1, 2, 3][..]));
        assert_eq!(bytes("both"), Some(&[1, 2][..]));
        assert_eq!(text("text in both"), Some("AQI"));
        assert_eq!((text("odd"), bytes("odd")), (None, None));
        assert_eq!(
            delivery.dead_letter_source_arn(),
            Some("arn:aws:sqs:eu-west-1:1:source")
        );
        Ok::<(), HandlerError>(())
    };
    let service = lab.idempotency().sqs(seen);
    let bare = Record(
        json!({ "messageId": "m-bare", "body": "{\"id\":\"p\",\"account\":\"a\",\"amount\":1}" }),
    );
    let odd = [
        full_record(),
        full_record()
            .with("messageId", "m-number")
            .attribute("ApproximateReceiveCount", 3)
            .attribute("SentTimestamp", Value::Null),
        full_record()
            .with("messageId", "m-more")
            .with("somethingNew", json!({ "a": [1] })),
    ];
    assert!(lab.failures(&service, batch(odd)).await.is_empty());
    assert_eq!(
        lab.take_outcomes(),
        ["m-full completed", "m-more completed", "m-number completed"]
    );
    let plain = lab.idempotency().sqs(Bank(lab.tables.clone()));
    assert!(lab.failures(&plain, batch([bare])).await.is_empty());
}

#[test]
fn t55_an_attribute_that_is_a_number_is_read_as_its_text() {
    let record = full_record()
        .attribute("ApproximateReceiveCount", 3)
        .attribute("SentTimestamp", -1.5)
        .attribute("SenderId", Value::Null);
    let delivery = Delivery::from_json(&record.0.to_string()).unwrap();
    assert_eq!(delivery.receive_count(), Some(3));
    assert_eq!(delivery.attribute("SentTimestamp"), Some("-1.5"));
    assert_eq!(delivery.attribute("SenderId"), None);
}

#[test]
fn t55_the_same_event_as_lambda_writes_it_is_read_whole() {
    let event = json!({ "Records": [full_record().0, full_record().0] });
    let read: SqsBatch = serde_json::from_value(event).unwrap();
    assert_eq!(read.len(), 2);
}
