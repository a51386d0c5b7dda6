//! The claim, row by row of DESIGN.md's table. What is decided by the record holds in every mode.

use std::time::Duration;

use aws_sdk_dynamodb::types::AttributeValue;
use lambda_idempotency::{Clock as _, Done};
use serde_json::json;

use crate::support::{Fault, KEY, Lab, Paid, Step, number, text};

fn paid() -> Done<String> {
    Done::Completed("paid".to_owned())
}

fn duplicate() -> Done<String> {
    Done::Duplicate(Some("paid".to_owned()))
}

/// A record in progress that somebody else holds.
fn held(lab: &Lab) -> Vec<(&'static str, AttributeValue)> {
    vec![
        ("status", text("INPROGRESS")),
        ("claim_token", text("other")),
        (
            "in_progress_expiration",
            number(lab.clock.millis() + 20_000),
        ),
        ("expiration", number(lab.clock.seconds() + 100_000)),
    ]
}

/// The call was refused: nothing ran, nothing was written, the record is as it was.
async fn assert_untouched(lab: &Lab, record: &[(&str, AttributeValue)]) {
    let stored = lab.record(KEY).await.unwrap();
    assert_eq!(stored.len(), record.len() + 1, "{stored:?}");
    for (name, value) in record {
        assert_eq!(stored.get(*name), Some(value), "{name}");
    }
    assert_eq!(lab.balance("a").await, 0);
}

#[tokio::test]
async fn a_duplicate_takes_the_one_request_that_finds_it() {
    let lab = Lab::new().await;
    let idempotency = lab.idempotency();
    assert_eq!(lab.pay(&idempotency).await.unwrap(), paid());
    let first = lab.steps(&[Step::Claim, Step::Commit]);
    assert_eq!(lab.wire.take_operations(), first);
    assert_eq!(lab.take_report().requests as usize, first.len());
    assert_eq!(lab.pay(&idempotency).await.unwrap(), duplicate());
    assert_eq!(lab.wire.take_operations(), [lab.takes_the_key()]);
    assert_eq!(lab.take_report().requests, 1);
    assert_eq!(lab.balance("a").await, 10);
}

#[tokio::test]
async fn a_record_has_the_attributes_of_powertools_and_a_token() {
    let lab = Lab::claiming_first().await;
    let idempotency = lab.idempotency();
    let seen = lab
        .run(&idempotency, &json!({"n": 1}), async || {
            let claimed = lab.record(KEY).await.unwrap();
            assert_eq!(claimed["status"], text("INPROGRESS"));
            assert_eq!(
                claimed["in_progress_expiration"],
                number(lab.clock.millis() + 30_000)
            );
            let expiration = lab.clock.seconds() + 28 * 24 * 60 * 60;
            assert_eq!(claimed["expiration"], number(expiration));
            assert_eq!(claimed["validation"].as_s().unwrap().len(), 64);
            assert_eq!(claimed.len(), 6);
            lab.clock.advance(Duration::from_secs(2));
            Ok(lambda_idempotency::Transaction::new().returning("seen".to_owned()))
        })
        .await;
    assert_eq!(seen.unwrap(), Done::Completed("seen".to_owned()));
    let completed = lab.record(KEY).await.unwrap();
    assert_eq!(completed["status"], text("COMPLETED"));
    assert_eq!(completed["data"], text("\"seen\""));
    let expiration = lab.clock.seconds() + 28 * 24 * 60 * 60;
    assert_eq!(completed["expiration"], number(expiration));
    assert_eq!(completed["validation"].as_s().unwrap().len(), 64);
    assert_eq!(completed["claim_token"].as_s().unwrap().len(), 32);
    assert!(!completed.contains_key("in_progress_expiration"));
    assert_eq!(completed.len(), 6);
}

#[tokio::test]
async fn a_claim_whose_reply_was_lost_is_sent_again_and_recognises_itself() {
    for fault in [
        Fault::LostReply,
        Fault::AnswerInstead(500, json!({})),
        Fault::AnswerInstead(400, json!({"__type": "x#ThrottlingException"})),
        Fault::AppliedThenSilence(Duration::ZERO),
    ] {
        let lab = Lab::claiming_first().await;
        let store = lab.store().attempt_timeout(Duration::from_millis(200));
        let idempotency = lab.builder_on(store).build().unwrap();
        lab.wire.next("PutItem", fault.clone());
        assert_eq!(lab.pay(&idempotency).await.unwrap(), paid(), "{fault:?}");
        let sent = lab.wire.take_sent();
        assert_eq!(sent.len(), 3);
        assert_eq!(sent[0].body, sent[1].body, "the same claim, not a new one");
        assert_eq!(lab.balance("a").await, 10);
    }
}

#[tokio::test]
async fn a_completed_record_makes_a_duplicate_if_the_payload_is_the_same() {
    let lab = Lab::new().await;
    let idempotency = lab.idempotency();
    let first = json!({"amount": 10, "to": "a"});
    assert_eq!(lab.pay_for(&idempotency, &first).await.unwrap(), paid());
    let same = json!({"to": "a", "amount": 10});
    assert_eq!(lab.pay_for(&idempotency, &same).await.unwrap(), duplicate());
    let other = json!({"amount": 20, "to": "a"});
    let mismatch = lab.pay_for(&idempotency, &other).await.unwrap_err();
    assert!(mismatch.is_payload_mismatch(), "{mismatch}");
    // Without a payload there is nothing to compare.
    assert_eq!(lab.pay(&idempotency).await.unwrap(), duplicate());
    assert_eq!(lab.balance("a").await, 10);
}

#[tokio::test]
async fn a_held_key_is_in_progress_and_its_record_is_left_alone() {
    let lab = Lab::new().await;
    let record = held(&lab);
    lab.put_record(KEY, &record).await;
    let error = lab.pay(&lab.idempotency()).await.unwrap_err();
    assert!(error.is_in_progress(), "{error}");
    assert_eq!(lab.wire.take_operations(), [lab.takes_the_key()]);
    assert_untouched(&lab, &record).await;
}

#[tokio::test]
async fn a_held_key_with_another_payload_is_a_mismatch() {
    let lab = Lab::new().await;
    let mut record = held(&lab);
    record.push(("validation", text("another")));
    lab.put_record(KEY, &record).await;
    let error = lab.pay_for(&lab.idempotency(), &1).await.unwrap_err();
    assert!(error.is_payload_mismatch(), "{error}");
    assert_untouched(&lab, &record).await;
}

#[tokio::test]
async fn a_lease_is_held_to_its_last_millisecond_and_then_taken_over() {
    let lab = Lab::new().await;
    lab.put_record(KEY, &held(&lab)).await;
    lab.clock.advance(Duration::from_millis(20_000));
    assert!(
        lab.pay(&lab.idempotency())
            .await
            .unwrap_err()
            .is_in_progress()
    );
    lab.clock.advance(Duration::from_millis(1));
    assert_eq!(lab.pay(&lab.idempotency()).await.unwrap(), paid());
    assert_eq!(lab.balance("a").await, 10);
}

#[tokio::test]
async fn a_record_without_a_lease_is_held_until_it_expires() {
    let lab = Lab::new().await;
    let mut record = held(&lab);
    record.retain(|(name, _)| *name != "in_progress_expiration");
    lab.put_record(KEY, &record).await;
    lab.clock.advance(Duration::from_secs(100_000));
    assert!(
        lab.pay(&lab.idempotency())
            .await
            .unwrap_err()
            .is_in_progress()
    );
    assert_untouched(&lab, &record).await;
    lab.clock.advance(Duration::from_secs(1));
    assert_eq!(lab.pay(&lab.idempotency()).await.unwrap(), paid());
}

#[tokio::test]
async fn a_completed_record_ends_with_its_retention_though_dynamodb_deletes_late() {
    let lab = Lab::new().await;
    let day = Duration::from_secs(24 * 60 * 60);
    let idempotency = lab.builder().retention(day).build().unwrap();
    assert_eq!(lab.pay(&idempotency).await.unwrap(), paid());
    lab.clock.advance(day);
    assert_eq!(lab.pay(&idempotency).await.unwrap(), duplicate());
    lab.clock.advance(Duration::from_secs(1));
    assert_eq!(lab.pay(&idempotency).await.unwrap(), paid());
    assert_eq!(lab.balance("a").await, 20);
}

#[tokio::test]
async fn an_item_that_is_no_record_is_named_and_left_alone() {
    let lab = Lab::new().await;
    for (record, named) in [
        (vec![("status", text("PENDING"))], "status"),
        (vec![("status", number(1))], "status"),
        (vec![("state", text("COMPLETED"))], "status"),
        (
            vec![("status", text("COMPLETED")), ("data", number(1))],
            "data",
        ),
        (
            vec![
                ("status", text("INPROGRESS")),
                ("in_progress_expiration", text("soon")),
            ],
            "in_progress_expiration",
        ),
    ] {
        lab.put_record(KEY, &record).await;
        let error = lab.pay(&lab.idempotency()).await.unwrap_err();
        assert!(
            error.is_store() && error.to_string().contains(named),
            "{error}"
        );
        assert_untouched(&lab, &record).await;
    }
}

#[tokio::test]
async fn a_refusal_that_shows_no_item_is_decided_by_a_consistent_read() {
    let lab = Lab::new().await;
    let idempotency = lab.idempotency();
    let taking = lab.takes_the_key();
    for refusal in [
        lab.key_refused_without_item(),
        lab.key_refused_with_empty_item(),
    ] {
        lab.put_record(KEY, &held(&lab)).await;
        lab.wire.next(taking, refusal.clone());
        assert!(lab.pay(&idempotency).await.unwrap_err().is_in_progress());
        let sent = lab.wire.take_sent();
        assert_eq!(sent[1].operation, "GetItem");
        assert_eq!(sent[1].body["ConsistentRead"], true);

        lab.put_record(
            KEY,
            &[("status", text("COMPLETED")), ("data", text("\"paid\""))],
        )
        .await;
        lab.wire.next(taking, refusal);
        assert_eq!(lab.pay(&idempotency).await.unwrap(), duplicate());
        assert_eq!(lab.wire.take_operations(), [taking, "GetItem"]);
    }
}

#[tokio::test]
async fn a_refusal_by_a_record_that_went_away_is_tried_again() {
    let lab = Lab::claiming_first().await;
    lab.wire.next("PutItem", lab.key_refused_without_item());
    assert_eq!(lab.pay(&lab.idempotency()).await.unwrap(), paid());
    let operations = lab.wire.take_operations();
    assert_eq!(
        operations,
        ["PutItem", "GetItem", "PutItem", "TransactWriteItems"]
    );
}

#[tokio::test]
async fn conflicts_and_throttling_are_tried_again() {
    for code in [
        "TransactionConflictException",
        "ThrottlingException",
        "ProvisionedThroughputExceededException",
        "RequestLimitExceeded",
        "TransactionInProgressException",
        "InternalServerError",
    ] {
        let lab = Lab::new().await;
        lab.wire.next(lab.takes_the_key(), Fault::code(code));
        lab.wire.next(lab.takes_the_key(), Fault::code(code));
        assert_eq!(lab.pay(&lab.idempotency()).await.unwrap(), paid(), "{code}");
        assert_eq!(lab.wire.unused_faults(), 0);
        let undisturbed = lab.steps(&[Step::Claim, Step::Commit]);
        assert_eq!(lab.wire.take_operations().len(), 2 + undisturbed.len());
        assert_eq!(lab.balance("a").await, 10);
    }
}

async fn pay_while(lab: &Lab, fault: Fault) -> Paid {
    lab.wire.always("PutItem", fault);
    let started = lab.clock.now();
    let paid = lab.pay(&lab.idempotency()).await;
    let took = lab.clock.now().duration_since(started).unwrap();
    assert!(
        took < Duration::from_secs(30),
        "past the deadline: {took:?}"
    );
    assert_eq!(lab.balance("a").await, 0);
    paid
}

#[tokio::test]
async fn a_conflict_that_stays_is_in_progress_and_other_failures_are_the_store_s() {
    let lab = Lab::claiming_first().await;
    let error = pay_while(&lab, Fault::code("TransactionConflictException")).await;
    assert!(error.unwrap_err().is_in_progress());

    for fault in [
        Fault::code("ThrottlingException"),
        Fault::code("InternalServerError"),
        Fault::Reset,
        Fault::Answer(400, json!({})),
    ] {
        let lab = Lab::claiming_first().await;
        let error = pay_while(&lab, fault.clone()).await.unwrap_err();
        assert!(error.is_store(), "{fault:?}: {error:?}");
        let operations = lab.wire.take_operations();
        let (last, tries) = operations.split_last().unwrap();
        assert!(tries.iter().all(|operation| operation == "PutItem"));
        assert_eq!(last, "DeleteItem", "it may have landed, and is given back");
    }
}

#[tokio::test]
async fn a_claim_that_landed_but_was_given_up_is_given_back() {
    let lab = Lab::claiming_first().await;
    let error = pay_while(&lab, Fault::LostReply).await.unwrap_err();
    assert!(error.is_store(), "{error:?}");
    assert_eq!(lab.record(KEY).await, None);
}

#[tokio::test]
async fn a_claim_that_is_refused_for_good_or_never_sent_is_not_tried_again() {
    for fault in [
        Fault::code("AccessDeniedException"),
        Fault::code("ResourceNotFoundException"),
        Fault::code("ValidationException"),
        Fault::Refused,
    ] {
        let lab = Lab::claiming_first().await;
        let error = pay_while(&lab, fault.clone()).await.unwrap_err();
        assert!(error.is_store(), "{fault:?}: {error:?}");
        // The SDK's earlier try may have landed; here it had none.
        assert_eq!(
            lab.wire.take_operations(),
            ["PutItem", "DeleteItem"],
            "{fault:?}"
        );
    }
}

#[tokio::test]
async fn a_copy_of_a_claim_that_lands_after_the_commit_changes_nothing() {
    let lab = Lab::claiming_first().await;
    lab.wire.next("PutItem", Fault::Late);
    assert_eq!(lab.pay(&lab.idempotency()).await.unwrap(), paid());
    let completed = lab.record(KEY).await;
    assert_eq!(lab.wire.deliver_late().await, [400]);
    assert_eq!(lab.record(KEY).await, completed);
    assert_eq!(lab.pay(&lab.idempotency()).await.unwrap(), duplicate());
    assert_eq!(lab.balance("a").await, 10);
}

#[tokio::test]
async fn a_copy_of_a_claim_that_lands_after_the_release_only_defers() {
    let lab = Lab::claiming_first().await;
    let idempotency = lab.idempotency();
    lab.wire.next("PutItem", Fault::Late);
    let failed = lab.run(&idempotency, &(), async || Err("no".into())).await;
    assert!(failed.unwrap_err().is_handler());
    assert_eq!(lab.record(KEY).await, None);
    assert_eq!(lab.wire.deliver_late().await, [200]);
    assert!(lab.pay(&idempotency).await.unwrap_err().is_in_progress());
    // The orphan's lease ends with the invocation that it was for.
    lab.clock.advance(Duration::from_secs(31));
    assert_eq!(lab.pay(&idempotency).await.unwrap(), paid());
    assert_eq!(lab.balance("a").await, 10);
}

#[tokio::test]
async fn a_record_past_its_retention_does_not_pass_for_this_message_s_when_its_claim_failed() {
    for fault in [
        Fault::code("AccessDeniedException"),
        Fault::code("ThrottlingException"),
        Fault::code("TransactionConflictException"),
        Fault::Reset,
    ] {
        let lab = Lab::claiming_first().await;
        let past = [
            ("status", text("COMPLETED")),
            ("claim_token", text("another")),
            ("expiration", number(lab.clock.seconds() - 24 * 60 * 60)),
        ];
        lab.put_record(KEY, &past).await;
        lab.wire.always("PutItem", fault.clone());
        let error = lab.pay(&lab.idempotency()).await.unwrap_err();
        assert!(error.is_store() || error.is_in_progress(), "{error:?}");
        assert_untouched(&lab, &past).await;
        lab.wire.heal();
        assert_eq!(lab.pay(&lab.idempotency()).await.unwrap(), paid());
        assert_eq!(lab.balance("a").await, 10);
    }
}
