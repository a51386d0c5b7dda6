//! Stored results that are not what a call expects.

use std::time::Duration;

use lambda_idempotency::{Clock as _, Done, Transaction};
use serde_json::{Value, json};

use crate::support::{KEY, Lab, text};

#[tokio::test]
async fn a_result_of_another_type_is_told_apart_from_work_that_is_not_done() {
    let lab = Lab::new().await;
    let idempotency = lab.idempotency();
    lab.pay(&idempotency).await.unwrap();
    let deadline = lab.clock.now() + Duration::from_secs(30);
    let work = async |_| Ok(Transaction::new().returning(7_u64));
    let error = idempotency.run(KEY, &(), deadline, work).await.unwrap_err();
    assert!(
        error.is_unreadable_result() && !error.is_store(),
        "{error:?}"
    );
    assert!(!format!("{error:?}").contains("paid"), "{error:?}");
}

#[tokio::test]
async fn no_stored_result_is_none_unless_the_type_has_one_value_only() {
    let lab = Lab::new().await;
    lab.put_record(KEY, &[("status", text("COMPLETED"))]).await;
    let idempotency = lab.idempotency();
    let deadline = lab.clock.now() + Duration::from_secs(30);
    let work = async |_| Ok(Transaction::new().returning(Some(json!(1))));
    let done = idempotency.run(KEY, &(), deadline, work).await.unwrap();
    assert_eq!(done, Done::<Option<Value>>::Duplicate(None));
    let done = idempotency
        .run(KEY, &(), deadline, async |_| Ok(()))
        .await
        .unwrap();
    assert_eq!(done, Done::Duplicate(Some(())));
}

#[tokio::test]
async fn a_result_that_a_duplicate_could_not_read_fails_before_anything_is_written() {
    #[derive(Debug, serde::Serialize, serde::Deserialize)]
    struct OneWay {
        #[serde(rename(serialize = "written"))]
        read: u8,
    }
    let lab = Lab::new().await;
    let deadline = lab.clock.now() + Duration::from_secs(30);
    let work = async |_| {
        Ok(Transaction::new()
            .put(&lab.tables.payments, json!({"id": "p"}))
            .returning(OneWay { read: 1 }))
    };
    let error = lab
        .idempotency()
        .run(KEY, &(), deadline, work)
        .await
        .unwrap_err();
    assert!(error.is_handler(), "{error:?}");
    assert_eq!(lab.count(&lab.tables.payments).await, 0);
    assert_eq!(lab.record(KEY).await, None);
}
