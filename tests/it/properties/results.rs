//! Results: whatever a handler returns, a duplicate gets, from a real store.

use std::time::Duration;

use lambda_idempotency::{Clock as _, Done, Transaction};
use proptest::prelude::*;
use uuid::Uuid;

use super::{any_value, check};
use crate::support::Lab;

#[test]
fn a_duplicate_gets_the_very_value_that_was_returned_first() {
    let lab = async {
        let lab = Lab::new().await;
        let idempotency = lab.idempotency();
        (lab, idempotency)
    };
    check(40, &any_value(), lab, |made, value| async move {
        let (lab, idempotency) = &*made;
        let key = Uuid::new_v4().to_string();
        let deadline = lab.clock.now() + Duration::from_secs(30);
        let work = async |_| Ok(Transaction::new().returning(value.clone()));
        let first = idempotency.run(&key, &(), deadline, work).await;
        prop_assert_eq!(first.unwrap(), Done::Completed(value.clone()));
        let stored = lab.record(&key).await.unwrap()["data"].clone();
        prop_assert_eq!(stored.as_s().unwrap(), &value.to_string());
        let never = async |_| Ok(Transaction::new().returning(serde_json::json!("another")));
        let again = idempotency.run(&key, &(), deadline, never).await;
        prop_assert_eq!(again.unwrap(), Done::Duplicate(Some(value)));
        Ok(())
    });
}
