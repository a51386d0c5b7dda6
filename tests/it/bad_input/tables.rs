//! Tables that are not there, not allowed, or not this library's.

use aws_sdk_dynamodb::types::AttributeValue;
use lambda_idempotency::store::AttributeNames;
use lambda_idempotency::{DynamoDbStore, HandlerError, Message, Reason, SqsBatch, Transaction};
use serde_json::json;

use crate::support::{Bank, Fault, Lab, Payment, Record, Reported, batch};

fn payments(count: usize) -> SqsBatch {
    batch((1..=count).map(|n| Record::payment(&format!("m-{n}"), &format!("p-{n}"))))
}

/// Delivers one payment on this store: it fails for this reason, and leaves nothing.
async fn not_claimed(lab: &Lab, store: DynamoDbStore, reason: Reason) -> Reported {
    let idempotency = lab.builder_on(store).build().unwrap();
    let service = idempotency.sqs(Bank(lab.tables.clone()));
    assert_eq!(lab.failures(&service, payments(1)).await, ["m-1"]);
    assert_eq!(lab.balance("a").await, 0);
    let report = lab.take_report();
    assert_eq!(report.reason, Some(reason), "{:?}", report.error);
    report
}

#[tokio::test]
async fn an_idempotency_table_that_does_not_exist_is_named_and_nothing_is_written() {
    let lab = Lab::new().await;
    let store = DynamoDbStore::new(lab.client.clone(), "idempotence");
    let told = not_claimed(&lab, store, Reason::Store).await.error.unwrap();
    assert!(told.contains("ResourceNotFoundException"), "{told}");
    assert!(told.contains("check the table's name"), "{told}");
    assert!(told.contains("idempotence\""), "{told}");
}

#[tokio::test]
async fn an_idempotency_table_with_another_key_is_named_and_nothing_is_written() {
    let lab = Lab::new().await;
    let names = AttributeNames::default().id("record");
    let store = lab.store().attribute_names(names);
    // As a code of the request, or of the record's own write in a transaction.
    let reason = match lab.mode.runs_before_it_claims() {
        false => Reason::Store,
        true => Reason::Commit,
    };
    let told = not_claimed(&lab, store, reason).await.error.unwrap();
    assert!(told.contains("Validation"), "{told}");
    let table = format!("the table {:?}", lab.tables.records);
    assert!(told.contains(&table), "{told}");
}

#[tokio::test]
async fn a_role_that_may_not_claim_is_told_what_to_allow() {
    let lab = Lab::new().await;
    lab.wire
        .always(lab.takes_the_key(), Fault::code("AccessDeniedException"));
    let report = not_claimed(&lab, lab.store(), Reason::Store).await;
    let told = report.error.unwrap();
    assert!(told.contains("injected AccessDeniedException"), "{told}");
    assert!(told.contains("allow the function's role"), "{told}");
    assert!(told.contains("dynamodb:PutItem"), "{told}");
}

#[tokio::test]
async fn a_role_that_may_not_commit_leaves_no_record_and_no_writes() {
    let lab = Lab::new().await;
    let service = lab.idempotency().sqs(Bank(lab.tables.clone()));
    lab.wire
        .next("TransactWriteItems", Fault::code("AccessDeniedException"));
    assert_eq!(lab.failures(&service, payments(1)).await, ["m-1"]);
    let report = lab.take_report();
    assert_eq!(report.reason.unwrap().as_str(), "store");
    let told = report.error.unwrap();
    assert!(told.contains("allow the function's role"), "{told}");
    assert_eq!(lab.records().await, 0);
    assert_eq!(lab.count(&lab.tables.payments).await, 0);
    // Once it is allowed, the message that comes back runs.
    assert!(lab.failures(&service, payments(1)).await.is_empty());
    assert_eq!(lab.balance("a").await, 10);
}

#[tokio::test]
async fn a_role_that_may_not_release_still_tells_the_first_error() {
    let lab = Lab::new().await;
    let service = lab
        .idempotency()
        .sqs(|_: Message<Payment>| async { Err::<(), HandlerError>("no funds".into()) });
    lab.wire
        .next("DeleteItem", Fault::code("AccessDeniedException"));
    assert_eq!(lab.failures(&service, payments(1)).await, ["m-1"]);
    let report = lab.take_report();
    assert_eq!(report.reason.unwrap().as_str(), "handler");
    assert!(report.error.unwrap().contains("no funds"));
    // The claim ends with its lease then.
    lab.clock.advance(std::time::Duration::from_secs(31));
    let service = lab.idempotency().sqs(Bank(lab.tables.clone()));
    assert!(lab.failures(&service, payments(1)).await.is_empty());
}

#[tokio::test]
async fn a_store_that_refuses_everything_is_not_asked_for_each_message_of_a_batch() {
    let lab = Lab::new().await;
    let nowhere = DynamoDbStore::new(lab.client.clone(), "nowhere");
    let idempotency = lab.builder_on(nowhere).build().unwrap();
    let service = idempotency.sqs(Bank(lab.tables.clone())).concurrency(1);
    assert_eq!(lab.failures(&service, payments(9)).await.len(), 9);
    let told = lab.take_outcomes();
    assert_eq!(
        told[..3],
        ["m-1 failed store", "m-2 failed store", "m-3 failed store"]
    );
    assert_eq!(told[3], "m-4 unprocessed store");
    assert_eq!(told[8], "m-9 unprocessed store");
    assert_eq!(
        lab.wire.take_operations(),
        [lab.takes_the_key(), lab.settles()].repeat(3)
    );
}

#[tokio::test]
async fn a_table_of_the_handler_s_that_does_not_exist_is_named_and_stops_no_other_message() {
    let lab = Lab::new().await;
    let tables = lab.tables.clone();
    let service = lab.idempotency().sqs(move |message: Message<Payment>| {
        let table = match message.body.id.as_str() {
            "p-5" => tables.payments.clone(),
            _ => "payment-s".to_owned(),
        };
        async move { Ok::<_, HandlerError>(Transaction::new().put(table, message.body)) }
    });
    let service = service.concurrency(1);
    let failures = lab.failures(&service, payments(5)).await;
    assert_eq!(failures, ["m-1", "m-2", "m-3", "m-4"]);
    for report in lab.take_reports().iter().take(4) {
        assert_eq!(report.reason.unwrap().as_str(), "store");
        let told = report.error.as_deref().unwrap();
        assert!(told.contains("ResourceNotFoundException"), "{told}");
        assert!(told.contains("payment-s"), "{told}");
    }
    assert_eq!(lab.count(&lab.tables.payments).await, 1);
    // Of those that failed nothing is left.
    assert_eq!(lab.records().await, 1);
}

#[tokio::test]
async fn an_item_that_is_no_record_is_named_by_its_attribute_and_kept() {
    let lab = Lab::new().await;
    let service = lab.idempotency().sqs(Bank(lab.tables.clone()));
    let text = |text: &str| AttributeValue::S(text.into());
    let in_progress = || ("status", text("INPROGRESS"));
    let items = [
        vec![("status", text("EXPIRED"))],
        vec![("status", AttributeValue::Bool(true))],
        vec![("name", text("an item of another application"))],
        vec![in_progress(), ("in_progress_expiration", text("soon"))],
        vec![
            in_progress(),
            ("claim_token", AttributeValue::N("1".into())),
        ],
    ];
    let named = [
        "\"status\"",
        "\"status\"",
        "\"status\"",
        "\"in_progress_expiration\"",
        "\"claim_token\"",
    ];
    for (item, named) in items.iter().zip(named) {
        lab.put_record("m-1", item).await;
        let before = lab.record("m-1").await;
        assert_eq!(lab.failures(&service, payments(1)).await, ["m-1"]);
        let report = lab.take_report();
        assert_eq!(report.reason.unwrap().as_str(), "store");
        let told = report.error.unwrap();
        assert!(told.contains(named), "{named} in {told}");
        assert!(told.contains("not one of this library's"), "{told}");
        assert!(!told.contains("another application"), "{told}");
        assert_eq!(lab.record("m-1").await, before);
    }
    assert_eq!(lab.balance("a").await, 0);
}

#[tokio::test]
async fn a_stored_result_of_another_type_is_an_error_that_says_the_work_is_done() {
    let lab = Lab::new().await;
    let idempotency = lab.idempotency();
    let deadline = lambda_idempotency::Clock::now(&lab.clock) + std::time::Duration::from_secs(30);
    let text = json!("4111 1111 1111 1111");
    let stored = idempotency.run("k", &(), deadline, async |_| {
        Ok(Transaction::new().returning(text))
    });
    stored.await.unwrap();
    let error = idempotency
        .run("k", &(), deadline, async |_| {
            Ok(Transaction::new().returning(7_u64))
        })
        .await
        .unwrap_err();
    assert!(error.is_unreadable_result() && !error.is_store());
    assert!(error.to_string().contains("the work is done"), "{error}");
    assert!(!format!("{error:?}").contains("4111"), "{error:?}");
}
