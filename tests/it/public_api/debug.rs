//! What `Debug` shows: what a thing is, and nothing of what the user put into it.

use aws_sdk_dynamodb::types::{Delete, TransactWriteItem};
use lambda_idempotency::store::{
    ClaimRequest, CommitRequest, Completion, CompletionCondition, Failure, FencingToken,
    Fingerprint, Lease, Moment, Record, ReleaseRequest, Status, StoreError,
};
use lambda_idempotency::{Key, Write};

use crate::support::{Bank, Lab, Record as Message, batch, text};

const SECRET: &str = "4111-1111";

#[track_caller]
fn shows(shown: &str, parts: &[&str]) {
    for part in parts {
        assert!(shown.contains(part), "{part:?} in {shown}");
    }
    assert!(!shown.contains("4111"), "{shown}");
}

#[test]
fn a_record_shows_who_holds_it_and_until_when_and_how_large_its_result_is() {
    let mut record = Record::new(Status::InProgress);
    record.token = Some(FencingToken::new("token-1"));
    record.lease = Some(Lease::until_millis(5_000));
    record.expiration = Some(300);
    record.data = Some(SECRET.to_owned());
    record.fingerprint = Some(Fingerprint::new("print-1"));
    let parts = ["Record", "InProgress", "token-1", "5000", "300", "print-1"];
    shows(&format!("{record:?}"), &parts);
    shows(&format!("{record:?}"), &["data_bytes: Some(9)"]);
}

#[test]
fn a_store_s_requests_show_who_asks_and_not_what_for() {
    let token = || FencingToken::new("token-1");
    let now = Moment {
        seconds: 7,
        millis: 7_500,
    };
    let claim = ClaimRequest::new(SECRET, token(), Lease::until_millis(9_000), 300, now);
    shows(
        &format!("{claim:?}"),
        &["ClaimRequest", "token-1", "9000", "7500"],
    );
    let mut completion = Completion::new(SECRET, token(), 300, CompletionCondition::Held);
    completion.data = Some(SECRET.to_owned());
    let shown = format!("{completion:?}");
    shows(&shown, &["Completion", "token-1", "300", "Held"]);
    let delete = Delete::builder()
        .table_name("payments")
        .key("id", text(SECRET))
        .build()
        .unwrap();
    let delete = Write::from(TransactWriteItem::builder().delete(delete).build());
    let commit = CommitRequest::new(Some(completion), "client-1", vec![delete]);
    let parts = [
        "CommitRequest",
        &shown,
        "client-1",
        "delete on \"payments\"",
    ];
    shows(&format!("{commit:?}"), &parts);
    let release = ReleaseRequest::new(SECRET, token());
    shows(&format!("{release:?}"), &["ReleaseRequest", "token-1"]);
}

#[test]
fn a_store_s_error_shows_what_it_means_and_all_beneath_it() {
    let error = StoreError::new(Failure::Throttled, "the claim failed").with_source("too fast");
    let parts = ["Throttled", "the claim failed", "too fast"];
    shows(&format!("{error:?}"), &parts);
}

#[tokio::test]
async fn a_batch_a_store_and_a_service_show_how_they_are_set() {
    let record = Message::new("m-1", SECRET);
    shows(&format!("{:?}", batch([record])), &["SqsBatch", "1"]);
    let lab = Lab::new().await;
    let store = lab.store().attempts(3);
    let parts = ["DynamoDbStore", &lab.tables.records, "attempts: 3", "60s"];
    shows(&format!("{store:?}"), &parts);
    let service = lab
        .idempotency()
        .sqs(Bank(lab.tables.clone()))
        .key(Key::body("/id").unwrap())
        .concurrency(7);
    let shown = format!("{service:?}");
    shows(&shown, &["SqsService", "concurrency: 7", "tests", "/id"]);
    let service = service.key_by(|payment| payment.id.clone());
    shows(&format!("{service:?}"), &["a function of the body"]);
}
