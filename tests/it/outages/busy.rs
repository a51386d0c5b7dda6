//! A store that throttles, or whose items are in other transactions, for a while.

use lambda_idempotency::{Clock as _, HandlerError, Message, Outcome, Transaction};

use super::{SECOND, asked_for, assert_exact, assert_recovers, deliver, done, lab, messages};
use crate::support::{Bank, COMMIT, Fault, Lab, ManualClock, Payment};

fn conflict() -> Fault {
    Fault::code("TransactionConflictException")
}

/// Longer than a message is tried and settled: 21 s where its key is claimed first, else twice 20 s.
#[tokio::test]
async fn throttling_for_45_seconds_is_reported_and_the_next_delivery_does_all() {
    for code in [
        "ThrottlingException",
        "ProvisionedThroughputExceededException",
    ] {
        let lab = lab().await;
        let service = lab.idempotency().sqs(Bank(lab.tables.clone()));
        let ends = lab.clock.now() + 45 * SECOND;
        lab.store_fails_until(ends, &Fault::code(code));
        let messages = messages(50);
        let reported = deliver(&lab, &service, &messages, 60 * SECOND).await;
        assert!(asked_for(&lab).len() <= 12);
        assert!(!reported.is_empty());
        assert_exact(&lab, &messages, &reported).await;
        assert_recovers(&lab, &service, &messages, &reported).await;
    }
}

#[tokio::test]
async fn throttling_that_ends_within_the_time_for_trying_again_is_waited_out() {
    let lab = lab().await;
    let idempotency = lab.builder().retry_for(60 * SECOND).build().unwrap();
    let service = idempotency.sqs(Bank(lab.tables.clone()));
    let ends = lab.clock.now() + 30 * SECOND;
    lab.store_fails_until(ends, &Fault::code("ThrottlingException"));
    let messages = messages(1);
    let reported = deliver(&lab, &service, &messages, 60 * SECOND).await;
    assert!(reported.is_empty());
    assert_exact(&lab, &messages, &reported).await;
    // Some more than one a second.
    let requests = lab.take_report().requests;
    assert!((30..=40).contains(&requests), "{requests}");
}

#[tokio::test]
async fn keys_that_conflict_for_a_while_are_waited_out() {
    let lab = lab().await;
    let service = lab.idempotency().sqs(Bank(lab.tables.clone()));
    let ends = lab.clock.now() + 10 * SECOND;
    lab.wire.until(ends, lab.takes_the_key(), conflict());
    let messages = messages(10);
    let reported = deliver(&lab, &service, &messages, 30 * SECOND).await;
    assert!(reported.is_empty());
    assert_exact(&lab, &messages, &reported).await;
}

#[tokio::test]
async fn keys_that_conflict_to_the_end_are_reported_and_nothing_is_written() {
    let lab = lab().await;
    let service = lab.idempotency().sqs(Bank(lab.tables.clone()));
    for write in ["PutItem", "DeleteItem", COMMIT] {
        lab.wire.always(write, conflict());
    }
    let messages = messages(50);
    let reported = deliver(&lab, &service, &messages, 30 * SECOND).await;
    assert_eq!(reported.len(), 50);
    for told in lab.take_reports() {
        let expected = [lab.mode.outcome_of_conflicts(), Outcome::Unprocessed];
        assert!(expected.contains(&told.outcome), "{told:?}");
    }
    assert_eq!(lab.records().await, 0);
    assert_exact(&lab, &messages, &reported).await;
    assert_recovers(&lab, &service, &messages, &reported).await;
}

/// With the key claimed first: at the commit there is no claim, so nothing to give back.
#[tokio::test]
async fn a_release_that_conflicts_for_a_while_still_frees_the_key_and_else_the_lease_ends() {
    let failing = |_: Message<Payment>| async { Err::<Transaction, _>(HandlerError::from("no")) };
    for lasts in [5, 600] {
        let lab = Lab::claiming_first_with_clock(ManualClock::driven()).await;
        let service = lab.idempotency().sqs(failing);
        lab.wire
            .until(lab.clock.now() + lasts * SECOND, "DeleteItem", conflict());
        let messages = messages(10);
        let reported = deliver(&lab, &service, &messages, 30 * SECOND).await;
        assert_eq!(reported.len(), 10);
        assert!(done(&lab).await.is_empty());
        let paying = lab.idempotency().sqs(Bank(lab.tables.clone()));
        if lasts == 5 {
            assert_eq!(lab.records().await, 0);
            let left = deliver(&lab, &paying, &messages, 30 * SECOND).await;
            assert!(left.is_empty());
        } else {
            assert_eq!(lab.records().await, 10);
        }
        assert_recovers(&lab, &paying, &messages, &reported).await;
    }
}
