//! Reaching the store before the first message.

use crate::support::{Fault, Lab};

#[tokio::test]
async fn it_is_one_read_and_changes_nothing() {
    let lab = Lab::new().await;
    lab.idempotency().warm_up().await.unwrap();
    assert_eq!(lab.wire.take_operations(), ["GetItem"]);
    assert_eq!(lab.count(&lab.tables.records).await, 0);
}

#[tokio::test]
async fn a_table_that_is_not_there_is_named() {
    let lab = Lab::new().await;
    let store = lambda_idempotency::DynamoDbStore::new(lab.client.clone(), "not-there");
    let idempotency = lab.builder_on(store).build().unwrap();
    let error = idempotency.warm_up().await.unwrap_err();
    assert!(error.is_store());
    assert!(format!("{error:?}").contains("not-there"), "{error:?}");
}

#[tokio::test]
async fn a_store_that_does_not_answer_is_tried_once() {
    let lab = Lab::new().await;
    lab.wire.always("GetItem", Fault::Refused);
    let idempotency = lab.idempotency();
    assert!(idempotency.warm_up().await.unwrap_err().is_store());
    assert_eq!(lab.wire.take_operations(), ["GetItem"]);
}
