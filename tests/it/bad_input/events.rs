//! Events that are no batch of SQS records.

use lambda_idempotency::{Key, SqsBatch};
use serde_json::{Value, json};

use crate::support::{Bank, Lab, Record, batch};

#[test]
fn what_is_no_sqs_event_at_all_is_an_error_that_says_so() {
    for event in [
        json!(null),
        json!({}),
        json!([]),
        json!([[]]),
        json!([{}]),
        json!([null]),
        json!([[{ "messageId": "m-1", "body": "{}" }]]),
        json!(5),
        json!(1.5),
        json!(true),
        json!("Records"),
        json!({ "Records": null }),
        json!({ "Records": {} }),
        json!({ "Records": "none" }),
        json!({ "Records": 0 }),
        json!({ "records": [] }),
        // EventBridge, by a rule that has the function as its target.
        json!({ "id": "e-1", "detail-type": "Paid", "source": "shop", "detail": {} }),
        // API Gateway.
        json!({ "version": "2.0", "routeKey": "$default", "rawPath": "/", "body": "{}" }),
        // What the console sends as a test.
        json!({ "key1": "value1", "key2": "value2" }),
    ] {
        let told = match serde_json::from_value::<SqsBatch>(event.clone()) {
            Ok(batch) => panic!("{event} was read as {batch:?}"),
            Err(error) => error.to_string(),
        };
        assert!(told.contains("not an SQS event"), "{event}: {told}");
        assert!(told.contains("event source mapping"), "{event}: {told}");
    }
}

#[test]
fn an_event_that_can_not_be_read_is_not_repeated_in_the_error() {
    for event in [
        r#""4111 1111 1111 1111""#,
        "4111111111111111",
        r#"{"Records":"4111 1111 1111 1111"}"#,
        r#"{"Records":4111111111111111}"#,
        r#"{"Records":[{"body":"4111 1111"}],"Records":[]}"#,
        r#"{"Records":[{"body":"4111 1111"}"#,
    ] {
        let told = serde_json::from_str::<SqsBatch>(event)
            .unwrap_err()
            .to_string();
        assert!(!told.contains("4111"), "{event}: {told}");
    }
}

/// Records as other sources send them: none has a message id of SQS.
fn foreign() -> Vec<(&'static str, Value)> {
    vec![
        (
            "aws:s3",
            json!({ "eventVersion": "2.1", "eventSource": "aws:s3", "eventName": "ObjectCreated:Put",
                "s3": { "bucket": { "name": "b" }, "object": { "key": "k" } } }),
        ),
        (
            "aws:sns",
            json!({ "EventVersion": "1.0", "EventSource": "aws:sns",
                "EventSubscriptionArn": "arn:aws:sns:eu-west-1:1:t:s",
                "Sns": { "Type": "Notification", "MessageId": "n-1", "Message": "hello" } }),
        ),
        (
            "aws:kinesis",
            json!({ "eventSource": "aws:kinesis", "eventID": "shardId-0:1", "eventVersion": "1.0",
                "kinesis": { "partitionKey": "1", "data": "SGVsbG8=" } }),
        ),
        (
            "aws:dynamodb",
            json!({ "eventSource": "aws:dynamodb", "eventID": "1", "eventName": "INSERT",
                "dynamodb": { "Keys": { "id": { "S": "1" } } } }),
        ),
    ]
}

#[tokio::test]
async fn a_batch_of_another_source_is_refused_by_that_source_s_name_and_nothing_runs() {
    let lab = Lab::new().await;
    let service = lab.idempotency().sqs(Bank(lab.tables.clone()));
    for (source, record) in foreign() {
        let both = batch([Record(record.clone()), Record(record)]);
        let error = lab.process(&service, both).await.unwrap_err();
        assert!(error.is_event(), "{error}");
        let told = error.to_string();
        assert!(told.contains("not an SQS event"), "{told}");
        assert!(told.contains(source), "{told}");
    }
    assert!(lab.wire.take_operations().is_empty());
    assert!(lab.take_reports().is_empty());
}

#[tokio::test]
async fn a_record_of_another_source_beside_good_ones_does_not_keep_them_from_running() {
    let lab = Lab::new().await;
    let service = lab
        .idempotency()
        .sqs(Bank(lab.tables.clone()))
        .key(Key::body("/id").unwrap());
    for (at, (_, record)) in foreign().into_iter().enumerate() {
        let good = Record::payment("m-1", &format!("p-{at}"));
        // It has no id to report it by, so the invocation fails; but only after the good one.
        let answer = lab.process(&service, batch([good, Record(record)])).await;
        assert!(answer.unwrap_err().is_event());
        assert_eq!(lab.balance("a").await, 10 * (at as u64 + 1));
    }
}

#[tokio::test]
async fn records_of_something_like_sqs_run_and_what_has_no_id_fails_the_invocation() {
    let lab = Lab::new().await;
    let service = lab.idempotency().sqs(Bank(lab.tables.clone()));
    // A local runner that does not say where the record comes from.
    let plain = Record::payment("m-1", "p-1")
        .without("eventSource")
        .without("eventSourceARN");
    assert!(lab.failures(&service, batch([plain])).await.is_empty());
    // A replay that has all but the right source: its id is enough to report it by.
    let replayed = Record::new("m-2", "not json").with("eventSource", "replay");
    assert_eq!(lab.failures(&service, batch([replayed])).await, ["m-2"]);

    for nothing in [json!({}), json!(null), json!([]), json!("m-1"), json!(7)] {
        let good = Record::payment("m-3", "p-3");
        let answer = lab.process(&service, batch([good, Record(nothing)])).await;
        let error = answer.unwrap_err();
        assert!(error.is_event());
        assert!(
            error.to_string().starts_with("1 of the messages"),
            "{error}"
        );
    }
    assert_eq!(lab.balance("a").await, 20);
}

#[tokio::test]
async fn a_batch_of_no_records_is_a_success_that_asks_nothing_of_the_store() {
    let lab = Lab::new().await;
    let service = lab.idempotency().sqs(Bank(lab.tables.clone()));
    assert!(batch([]).is_empty() && !batch([Record::new("m-1", "")]).is_empty());
    let response = lab.respond(&service, batch([])).await;
    assert_eq!(response, r#"{"batchItemFailures":[]}"#);
    assert!(lab.wire.take_operations().is_empty());
}
