//! The release, row by row of DESIGN.md's table; and that a failure leaves nothing in every mode.

use std::time::Duration;

use aws_sdk_dynamodb::types::AttributeValue;
use lambda_idempotency::{Clock as _, Done};

use crate::support::{COMMIT, Fault, KEY, Lab, Paid, Step, number, text};

/// A handler error, after the record has become this.
async fn fail_while_record_becomes(lab: &Lab, record: &[(&str, AttributeValue)]) -> Paid {
    lab.run(&lab.idempotency(), &1, async || {
        lab.put_record(KEY, record).await;
        Err("the handler's own error".into())
    })
    .await
}

async fn fail(lab: &Lab) -> Paid {
    lab.run(&lab.idempotency(), &(), async || {
        Err("the handler's own error".into())
    })
    .await
}

#[tokio::test]
async fn a_failed_attempt_leaves_the_key_free_so_that_a_redelivery_runs_at_once() {
    let lab = Lab::new().await;
    let error = fail(&lab).await.unwrap_err();
    assert!(error.is_handler());
    assert!(format!("{error:?}").contains("the handler's own error"));
    let steps = lab.steps(&[Step::Claim, Step::GiveBack]);
    assert_eq!(lab.wire.take_operations(), steps);
    assert_eq!(lab.record(KEY).await, None);
    let done = lab.pay(&lab.idempotency()).await.unwrap();
    assert_eq!(done, Done::Completed("paid".to_owned()));
}

#[tokio::test]
async fn a_release_that_meets_another_s_completed_record_is_a_duplicate_or_a_mismatch() {
    let lab = Lab::claiming_first().await;
    let mut record = vec![
        ("status", text("COMPLETED")),
        ("claim_token", text("other")),
        ("data", text("\"theirs\"")),
    ];
    let done = fail_while_record_becomes(&lab, &record).await.unwrap();
    assert_eq!(done, Done::Duplicate(Some("theirs".to_owned())));

    let lab = Lab::claiming_first().await;
    record.push(("validation", text("another")));
    let error = fail_while_record_becomes(&lab, &record).await.unwrap_err();
    assert!(error.is_payload_mismatch(), "{error}");
    let kept = lab.record(KEY).await.unwrap();
    assert_eq!(kept["claim_token"], text("other"));
}

#[tokio::test]
async fn a_failed_attempt_never_touches_another_s_claim() {
    let lab = Lab::new().await;
    let record = [
        ("status", text("INPROGRESS")),
        ("claim_token", text("other")),
        ("in_progress_expiration", number(lab.clock.millis() + 5_000)),
    ];
    assert!(
        fail_while_record_becomes(&lab, &record)
            .await
            .unwrap_err()
            .is_handler()
    );
    let steps = lab.steps(&[Step::Claim, Step::GiveBack]);
    assert_eq!(lab.wire.take_operations(), steps);
    assert_eq!(lab.record(KEY).await.unwrap()["claim_token"], text("other"));
}

#[tokio::test]
async fn a_release_of_a_record_that_is_gone_keeps_the_error() {
    let lab = Lab::new().await;
    let failed = lab
        .run(&lab.idempotency(), &(), async || {
            lab.delete_record(KEY).await;
            Err("the handler's own error".into())
        })
        .await;
    assert!(failed.unwrap_err().is_handler());
}

#[tokio::test]
async fn a_conflict_settles_nothing_and_the_release_is_tried_again() {
    for code in [
        "TransactionConflictException",
        "ThrottlingException",
        "InternalServerError",
    ] {
        let lab = Lab::claiming_first().await;
        lab.wire.next("DeleteItem", Fault::code(code));
        lab.wire.next("DeleteItem", Fault::code(code));
        assert!(fail(&lab).await.unwrap_err().is_handler());
        assert_eq!(lab.wire.unused_faults(), 0);
        assert_eq!(lab.record(KEY).await, None, "{code}");
    }
}

#[tokio::test]
async fn an_in_flight_transaction_of_mine_that_lands_during_the_release_is_a_success() {
    let lab = Lab::claiming_first().await;
    // The commit's fate is not known; the release meets it in flight, and then applied.
    lab.wire
        .next(COMMIT, Fault::AnswerInstead(400, serde_json::json!({})));
    lab.wire
        .next("DeleteItem", Fault::code("TransactionConflictException"));
    let done = lab.pay(&lab.idempotency()).await.unwrap();
    assert_eq!(done, Done::Completed("paid".to_owned()));
    let operations = lab.wire.take_operations();
    assert_eq!(operations, ["PutItem", COMMIT, "DeleteItem", "DeleteItem"]);
    assert_eq!(lab.balance("a").await, 10);
}

#[tokio::test]
async fn a_release_whose_refusal_shows_no_record_reads_it_where_a_commit_was_sent() {
    let shows_nothing = || Fault::code("ConditionalCheckFailedException");
    let lab = Lab::claiming_first().await;
    lab.wire
        .next(COMMIT, Fault::AnswerInstead(400, serde_json::json!({})));
    lab.wire.next("DeleteItem", shows_nothing());
    let done = lab.pay(&lab.idempotency()).await.unwrap();
    assert_eq!(done, Done::Completed("paid".to_owned()));
    let operations = lab.wire.take_operations();
    assert_eq!(operations, ["PutItem", COMMIT, "DeleteItem", "GetItem"]);
    assert_eq!(lab.balance("a").await, 10);
    // Else it can't be this attempt's, and there is nothing to find out.
    let lab = Lab::claiming_first().await;
    lab.wire.next("DeleteItem", shows_nothing());
    assert!(fail(&lab).await.unwrap_err().is_handler());
    assert_eq!(lab.wire.take_operations(), ["PutItem", "DeleteItem"]);
}

#[tokio::test]
async fn a_release_without_an_answer_fails_in_time_and_the_lease_ends_by_itself() {
    for fault in [
        Fault::code("TransactionConflictException"),
        Fault::Reset,
        Fault::code("AccessDeniedException"),
        Fault::Silence(Duration::from_secs(20)),
    ] {
        let lab = Lab::claiming_first().await;
        lab.wire.always("DeleteItem", fault.clone());
        let started = lab.clock.now();
        assert!(fail(&lab).await.unwrap_err().is_handler(), "{fault:?}");
        let took = lab.clock.now().duration_since(started).unwrap();
        assert!(took <= Duration::from_secs(30), "{fault:?} took {took:?}");
        assert!(lab.record(KEY).await.is_some());
        lab.wire.heal();
        lab.clock.advance(Duration::from_secs(31));
        let done = lab.pay(&lab.idempotency()).await.unwrap();
        assert_eq!(done, Done::Completed("paid".to_owned()));
        assert_eq!(lab.balance("a").await, 10);
    }
}

#[tokio::test]
async fn an_unknown_commit_that_can_not_be_settled_is_unknown_and_the_next_call_finds_out() {
    for applied in [true, false] {
        let lab = Lab::new().await;
        let lost = if applied {
            Fault::LostReply
        } else {
            Fault::Reset
        };
        lab.wire.next(COMMIT, lost);
        lab.wire.always(COMMIT, Fault::Reset);
        lab.wire.always(lab.settles(), Fault::Reset);
        let error = lab.pay(&lab.idempotency()).await.unwrap_err();
        assert!(error.is_unknown(), "{error:?}");
        lab.wire.heal();
        lab.clock.advance(Duration::from_secs(31));
        let done = lab.pay(&lab.idempotency()).await.unwrap();
        let expected = if applied {
            Done::Duplicate(Some("paid".to_owned()))
        } else {
            Done::Completed("paid".to_owned())
        };
        assert_eq!(done, expected);
        assert_eq!(lab.balance("a").await, 10);
    }
}
