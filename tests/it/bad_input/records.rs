//! Records that are malformed in one place, each beside a good one in the same batch.

use lambda_idempotency::{Delivery, Envelope, Key, SqsBatch};
use serde_json::{Value, json};

use crate::support::{Bank, Lab, Record, batch};

/// A batch of records as text: some mistakes no `Value` can hold.
fn batch_of(records: &[&str]) -> SqsBatch {
    serde_json::from_str(&format!("{{\"Records\":[{}]}}", records.join(","))).unwrap()
}

/// The bad record fails alone, for this reason, with an error that has this in it.
async fn fails_alone(bad: &str, reason: &str, told: &str) {
    let lab = Lab::new().await;
    let service = lab.idempotency().sqs(Bank(lab.tables.clone()));
    let good = |id: &str, payment: &str| Record::payment(id, payment).0.to_string();
    let records = [&good("m-1", "p-1"), bad, &good("m-3", "p-3")];
    let failures = lab.failures(&service, batch_of(&records)).await;
    assert_eq!(failures, ["bad"], "{bad}");
    let reports = lab.take_reports();
    let report = reports
        .iter()
        .find(|told| told.message_id.as_deref() == Some("bad"))
        .unwrap();
    assert_eq!(report.reason.unwrap().as_str(), reason, "{bad}");
    let error = report.error.as_deref().unwrap();
    assert!(error.contains(told), "{told:?} in {error}");
    assert_eq!(report.requests, 0);
    assert_eq!(lab.balance("a").await, 20);
    assert_eq!(lab.records().await, 2);
}

fn bad() -> Record {
    Record::payment("bad", "p-2")
}

#[tokio::test]
async fn a_body_that_is_missing_or_no_text_fails_alone() {
    fails_alone(
        &bad().without("body").0.to_string(),
        "decode",
        "`body` is missing",
    )
    .await;
    for body in [json!(null), json!(7), json!({ "id": "p-2" }), json!([])] {
        let told = if body.is_null() {
            "`body` is missing"
        } else {
            "`body` is not a string"
        };
        fails_alone(&bad().with("body", body).0.to_string(), "decode", told).await;
    }
}

#[tokio::test]
async fn a_body_with_half_of_a_surrogate_pair_fails_alone() {
    let record = r#"{"messageId":"bad","body":"\ud83d"}"#;
    fails_alone(record, "decode", "surrogate").await;
}

#[tokio::test]
async fn a_body_that_the_handler_s_type_does_not_take_fails_alone_and_says_where() {
    for (body, told) in [
        ("", "EOF"),
        ("not json", "line 1 column"),
        (
            "{\"id\":\"p-2\",\"account\":\"a\"}",
            "missing field `amount`",
        ),
        (
            "{\"id\":\"p-2\",\"account\":\"a\",\"amount\":\"ten\"}",
            "invalid type: string, expected u64 at line 1 column",
        ),
        (
            "{\"id\":\"p-2\",\"account\":\"a\",\"amount\":-1}",
            "expected u64",
        ),
        ("{\"id\":\"p-2\",\"id\":\"p-3\"}", "duplicate field `id`"),
        ("[1,2]", "expected"),
        ("{} {}", "missing field"),
        ("null", "expected"),
    ] {
        fails_alone(&bad().with("body", body).0.to_string(), "decode", told).await;
    }
}

#[tokio::test]
async fn attributes_that_are_no_object_fail_alone() {
    for wrong in [json!([]), json!("x"), json!(7), json!(true)] {
        for field in ["attributes", "messageAttributes"] {
            let record = bad().with(field, wrong.clone()).0.to_string();
            let told = format!("`{field}` is not an object");
            fails_alone(&record, "decode", &told).await;
        }
    }
}

#[tokio::test]
async fn a_record_with_a_field_twice_fails_alone() {
    let record = r#"{"messageId":"bad","body":"{}","body":"[]"}"#;
    fails_alone(record, "decode", "field").await;
}

#[tokio::test]
async fn a_record_with_two_ids_is_reported_by_neither() {
    let lab = Lab::new().await;
    let service = lab.idempotency().sqs(Bank(lab.tables.clone()));
    let event =
        r#"{"Records":[{"messageId":"a","messageId":"b","eventSource":"aws:sqs","body":"{}"}]}"#;
    let event: SqsBatch = serde_json::from_str(event).unwrap();
    let error = lab.process(&service, event).await.unwrap_err();
    assert!(format!("{error:#}").contains("messageId"), "{error:#}");
    assert_eq!(lab.take_report().message_id, None);
}

#[tokio::test]
async fn a_member_whose_name_is_no_text_does_not_hide_the_record_s_id() {
    let record = r#"{"messageId":"bad","body":"{}","\ud83d":1}"#;
    fails_alone(record, "decode", "").await;
}

#[tokio::test]
async fn an_attribute_that_can_not_be_read_matters_to_the_key_that_asks_for_it_only() {
    let lab = Lab::new().await;
    let by_tenant = lab
        .idempotency()
        .sqs(Bank(lab.tables.clone()))
        .key(Key::attribute("tenant"));
    let by_id = lab.idempotency().sqs(Bank(lab.tables.clone()));
    for (at, unreadable) in [
        json!({ "dataType": "Binary", "binaryValue": "%%%" }),
        json!({ "dataType": "Binary", "binaryValue": 7 }),
        json!({ "dataType": "String" }),
        json!({ "dataType": "String", "stringValue": null }),
        json!({ "dataType": "String", "stringValue": { "a": 1 } }),
        json!(null),
        json!([]),
        json!("text"),
    ]
    .into_iter()
    .enumerate()
    {
        let id = format!("m-{at}");
        let record = Record::payment(&id, &id).message_attribute("tenant", unreadable.clone());
        let failures = lab.failures(&by_tenant, batch([record.clone()])).await;
        assert_eq!(failures, [id.as_str()], "{unreadable}");
        let report = lab.take_report();
        assert_eq!(report.reason.unwrap().as_str(), "key");
        let told = report.error.unwrap();
        assert!(told.contains("\"tenant\""), "{told}");

        assert!(lab.failures(&by_id, batch([record])).await.is_empty());
        lab.take_reports();
    }
    assert_eq!(lab.balance("a").await, 80);
}

#[tokio::test]
async fn a_key_that_can_not_be_used_fails_alone_and_says_where_it_was_looked_for() {
    let lab = Lab::new().await;
    let service = lab
        .idempotency()
        .sqs(Bank(lab.tables.clone()))
        .key(Key::body("/key").unwrap());
    let with_key = |id: &str, key: Value| {
        Record::new(
            id,
            json!({ "id": id, "account": "a", "amount": 10, "key": key }),
        )
    };
    for (key, told) in [
        (json!(null), "is null"),
        (json!(""), "is empty"),
        (json!(" \t\n"), "is empty"),
        (json!({ "a": 1 }), "an object or an array"),
        (json!([1]), "an object or an array"),
    ] {
        let both = batch([with_key("bad", key), with_key("good", "k".into())]);
        assert_eq!(lab.failures(&service, both).await, ["bad"]);
        let reports = lab.take_reports();
        let error = reports.iter().find_map(|told| told.error.as_deref());
        let error = error.unwrap();
        assert!(error.contains(told), "{told:?} in {error}");
        assert!(error.contains("\"/key\""), "{error}");
        assert!(error.contains("no idempotency key"), "{error}");
    }
    let absent = batch([Record::payment("bad", "p-1")]);
    assert_eq!(lab.failures(&service, absent).await, ["bad"]);
    let error = lab.take_report().error.unwrap();
    assert!(error.contains("is not there"), "{error}");
    assert_eq!(lab.balance("a").await, 10);
}

#[tokio::test]
async fn a_body_that_lacks_the_envelope_fails_alone_and_says_what_to_use_instead() {
    for (envelope, named) in [
        (Envelope::Sns, "SNS notification"),
        (Envelope::EventBridge, "EventBridge event"),
    ] {
        let lab = Lab::new().await;
        let service = lab
            .idempotency()
            .sqs(Bank(lab.tables.clone()))
            .envelope(envelope);
        let failures = lab
            .failures(&service, batch([Record::payment("m-1", "p-1")]))
            .await;
        assert_eq!(failures, ["m-1"]);
        let report = lab.take_report();
        assert_eq!(report.reason.unwrap().as_str(), "decode");
        let told = report.error.unwrap();
        assert!(
            told.contains(named) && told.contains("Envelope::Detect"),
            "{told}"
        );
    }
}

#[tokio::test]
async fn a_record_of_a_fifo_queue_without_a_group_fails_with_all_behind_it() {
    let lab = Lab::new().await;
    let service = lab.idempotency().sqs(Bank(lab.tables.clone()));
    for group in [Value::Null, json!({}), json!("")] {
        let lost = Record::payment("lost", "p-2")
            .in_group("x")
            .attribute("MessageGroupId", group);
        let records = [
            Record::payment("m-1", "p-1").in_group("a"),
            lost,
            Record::payment("m-3", "p-3").in_group("a"),
        ];
        assert_eq!(
            lab.failures(&service, batch(records)).await,
            ["lost", "m-3"]
        );
        let told = lab.take_outcomes();
        assert_eq!(told[0], "lost failed decode");
        assert_eq!(told[2], "m-3 unprocessed group");
    }
    assert_eq!(lab.balance("a").await, 10);
}

#[test]
fn a_delivery_for_a_test_is_refused_as_a_batch_would_refuse_it() {
    for (record, told) in [
        ("[", "not JSON"),
        ("[]", "not an object"),
        ("{}", "`body` is missing"),
        (r#"{"body":7}"#, "`body` is not a string"),
        (r#"{"body":"","attributes":[]}"#, "`attributes`"),
    ] {
        let error = Delivery::from_json(record).unwrap_err();
        assert!(error.is_decode());
        assert!(error.to_string().contains(told), "{error}");
    }
}
