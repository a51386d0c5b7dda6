//! Keys that the process remembers as completed.

use std::time::Duration;

use lambda_idempotency::{Claim, Done, Idempotency, Key, Outcome};

use crate::support::{Bank, KEY, Lab, Record, Step, batch, number, text};

fn remembering(lab: &Lab, claim: Claim) -> Idempotency {
    let builder = lab.builder().claim(claim).remember_completed(10);
    builder.build().unwrap()
}

#[tokio::test]
async fn a_duplicate_in_the_same_process_costs_no_request_and_has_the_stored_result() {
    for claim in [Claim::First, Claim::AtCommit] {
        let lab = Lab::new().await;
        let idempotency = remembering(&lab, claim);
        lab.pay_for(&idempotency, &1).await.unwrap();
        lab.wire.take_operations();
        lab.take_reports();
        let again = lab.pay_for(&idempotency, &1).await.unwrap();
        assert_eq!(again, Done::Duplicate(Some("paid".to_owned())));
        assert!(lab.wire.take_operations().is_empty());
        let report = lab.take_report();
        assert_eq!((report.outcome, report.requests), (Outcome::Duplicate, 0));
        assert_eq!(lab.balance("a").await, 10);
    }
}

#[tokio::test]
async fn what_another_process_completed_is_remembered_after_its_first_duplicate() {
    let lab = Lab::new().await;
    lab.pay(&lab.idempotency()).await.unwrap();
    let idempotency = remembering(&lab, Claim::First);
    lab.wire.take_operations();
    for requests in [1, 0, 0] {
        let again = lab.pay(&idempotency).await.unwrap();
        assert_eq!(again, Done::Duplicate(Some("paid".to_owned())));
        assert_eq!(lab.wire.take_operations().len(), requests);
    }
}

#[tokio::test]
async fn another_payload_is_a_mismatch_all_the_same() {
    let lab = Lab::new().await;
    let idempotency = remembering(&lab, Claim::First);
    lab.pay_for(&idempotency, &1).await.unwrap();
    let error = lab.pay_for(&idempotency, &2).await.unwrap_err();
    assert!(error.is_payload_mismatch(), "{error:?}");
}

#[tokio::test]
async fn failures_and_keys_in_progress_are_not_remembered() {
    let lab = Lab::new().await;
    let idempotency = remembering(&lab, Claim::First);
    let failed = lab.run(&idempotency, &(), async || Err("no".into())).await;
    assert!(failed.unwrap_err().is_handler());
    let deferred = lab
        .run(&idempotency, &(), async || {
            let error = lab.pay(&idempotency).await.unwrap_err();
            assert!(error.is_in_progress());
            Err("no".into())
        })
        .await;
    assert!(deferred.unwrap_err().is_handler());
    let paid = lab.pay(&idempotency).await.unwrap();
    assert_eq!(paid, Done::Completed("paid".to_owned()));
}

#[tokio::test]
async fn after_five_minutes_the_store_is_asked_again() {
    let lab = Lab::new().await;
    let idempotency = remembering(&lab, Claim::First);
    lab.pay(&idempotency).await.unwrap();
    lab.wire.take_operations();
    lab.clock.advance(Duration::from_secs(299));
    lab.pay(&idempotency).await.unwrap();
    assert!(lab.wire.take_operations().is_empty());
    lab.clock.advance(Duration::from_secs(1));
    lab.pay(&idempotency).await.unwrap();
    assert_eq!(lab.wire.take_operations(), ["PutItem"]);
}

#[tokio::test]
async fn an_entry_ends_with_its_record() {
    let lab = Lab::new().await;
    let end = number(lab.clock.seconds() + 60);
    lab.put_record(KEY, &[("status", text("COMPLETED")), ("expiration", end)])
        .await;
    let idempotency = remembering(&lab, Claim::First);
    for requests in [1, 0] {
        assert_eq!(lab.pay(&idempotency).await.unwrap(), Done::Duplicate(None));
        assert_eq!(lab.wire.take_operations().len(), requests);
    }
    lab.clock.advance(Duration::from_secs(61));
    let paid = lab.pay(&idempotency).await.unwrap();
    assert_eq!(paid, Done::Completed("paid".to_owned()));
}

#[tokio::test]
async fn a_batch_that_comes_again_costs_nothing() {
    let lab = Lab::new().await;
    let service = remembering(&lab, lab.mode.claim())
        .sqs(Bank(lab.tables.clone()))
        .key(Key::body("/id").unwrap());
    let messages = || batch([Record::payment("m-1", KEY), Record::payment("m-2", KEY)]);
    assert!(lab.failures(&service, messages()).await.is_empty());
    let once = lab.steps(&[Step::Claim, Step::Commit]);
    assert_eq!(lab.wire.take_operations(), once);
    assert!(lab.failures(&service, messages()).await.is_empty());
    assert!(lab.wire.take_operations().is_empty());
    assert_eq!(lab.balance("a").await, 10);
}
