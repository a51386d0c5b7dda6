//! The key is taken by the commit: every row of DESIGN.md's tables that differs from a claim first.

use std::time::Duration;

use aws_sdk_dynamodb::types::AttributeValue;
use lambda_idempotency::{
    Claim, Clock as _, Done, Idempotency, Key, Outcome, SqsService, Transaction,
};
use serde_json::json;

use crate::support::{
    Bank, COMMIT, Fault, KEY, Lab, Paid, Payment, Record, batch, number, pay, text,
};

fn claiming_first(lab: &Lab) -> Idempotency {
    lab.builder().claim(Claim::First).build().unwrap()
}

fn bank(lab: &Lab) -> SqsService<Bank, Payment> {
    lab.idempotency()
        .sqs(Bank(lab.tables.clone()))
        .key(Key::body("/id").unwrap())
        .fingerprint_body()
}

fn paid() -> Done<String> {
    Done::Completed("paid".to_owned())
}

async fn assert_applied_once(lab: &Lab) {
    assert_eq!(lab.record(KEY).await.unwrap()["status"], text("COMPLETED"));
    assert_eq!(lab.balance("a").await, 10);
    assert_eq!(lab.count(&lab.tables.payments).await, 1);
}

async fn assert_nothing_applied(lab: &Lab) {
    assert_eq!(lab.balance("a").await, 0);
    assert_eq!(lab.count(&lab.tables.payments).await, 0);
}

/// Pays while a record of another attempt appears during the work.
async fn pay_while_record_becomes(lab: &Lab, record: &[(&str, AttributeValue)]) -> Paid {
    lab.run(&lab.idempotency(), &1, async || {
        lab.put_record(KEY, record).await;
        Ok(pay(&lab.tables, &lab.payment()).returning("paid".to_owned()))
    })
    .await
}

#[tokio::test]
async fn a_first_delivery_takes_one_request_a_handler_error_none_and_a_redelivery_one_read() {
    let lab = Lab::claiming_at_commit().await;
    let service = bank(&lab);
    let first = || batch([Record::payment("m-1", KEY)]);
    assert!(lab.failures(&service, first()).await.is_empty());
    assert_eq!(lab.wire.take_operations(), [COMMIT]);
    assert_eq!(lab.take_report().requests, 1);
    // A duplicate that looks like a first delivery runs its handler, and nothing is written.
    assert!(lab.failures(&service, first()).await.is_empty());
    assert_eq!(lab.wire.take_operations(), [COMMIT]);
    assert_eq!(lab.take_report().outcome, Outcome::Duplicate);
    let again = Record::payment("m-1", KEY).attribute("ApproximateReceiveCount", "2");
    assert!(lab.failures(&service, batch([again])).await.is_empty());
    assert_eq!(lab.wire.take_operations(), ["GetItem"]);
    let report = lab.take_report();
    assert_eq!((report.outcome, report.requests), (Outcome::Duplicate, 1));
    assert_applied_once(&lab).await;

    let failed = lab
        .run_under(&lab.idempotency(), "other", async || Err("no".into()))
        .await;
    assert!(failed.unwrap_err().is_handler());
    assert!(lab.wire.take_operations().is_empty());
    assert_eq!(lab.record("other").await, None);
}

#[tokio::test]
async fn a_redelivery_that_is_not_done_is_read_and_then_committed() {
    let lab = Lab::claiming_at_commit().await;
    let service = bank(&lab);
    let again = Record::payment("m-1", KEY).attribute("ApproximateReceiveCount", "2");
    assert!(lab.failures(&service, batch([again])).await.is_empty());
    assert_eq!(lab.wire.take_operations(), ["GetItem", COMMIT]);
    assert_applied_once(&lab).await;
}

#[tokio::test]
async fn a_redelivery_is_not_run_where_the_look_says_why_not() {
    for (record, outcome) in [
        (
            vec![
                ("status", text("INPROGRESS")),
                ("in_progress_expiration", number(u64::MAX)),
            ],
            Outcome::InProgress,
        ),
        (
            vec![("status", text("COMPLETED")), ("validation", text("x"))],
            Outcome::Failed,
        ),
        (vec![("status", text("DONE"))], Outcome::Failed),
    ] {
        let lab = Lab::claiming_at_commit().await;
        lab.put_record(KEY, &record).await;
        let again = Record::payment("m-1", KEY).attribute("ApproximateReceiveCount", "2");
        assert_eq!(lab.failures(&bank(&lab), batch([again])).await, ["m-1"]);
        assert_eq!(lab.wire.take_operations(), ["GetItem"], "{record:?}");
        assert_eq!(lab.take_report().outcome, outcome, "{record:?}");
        assert_nothing_applied(&lab).await;
    }
}

#[tokio::test]
async fn a_look_that_fails_starts_nothing() {
    let lab = Lab::claiming_at_commit().await;
    lab.wire
        .always("GetItem", Fault::code("AccessDeniedException"));
    let again = Record::payment("m-1", KEY).attribute("ApproximateReceiveCount", "2");
    assert_eq!(lab.failures(&bank(&lab), batch([again])).await, ["m-1"]);
    assert_eq!(lab.wire.take_operations(), ["GetItem"]);
    assert!(lab.take_report().error.unwrap().contains("AccessDenied"));
}

#[tokio::test]
async fn the_record_is_what_a_claim_and_a_commit_would_have_left() {
    let lab = Lab::claiming_at_commit().await;
    lab.pay_for(&lab.idempotency(), &1).await.unwrap();
    let ours = lab.record(KEY).await.unwrap();
    lab.delete_record(KEY).await;
    lab.pay_for(&claiming_first(&lab), &1).await.unwrap();
    let mut other = lab.record(KEY).await.unwrap();
    other.insert("claim_token".into(), ours["claim_token"].clone());
    assert_eq!(ours, other);
    assert!(ours.contains_key("claim_token"));
}

#[tokio::test]
async fn a_record_that_a_claim_could_replace_does_not_stand_in_the_way() {
    let lab = Lab::claiming_at_commit().await;
    for record in [
        vec![
            ("status", text("INPROGRESS")),
            ("claim_token", text("crashed")),
            ("in_progress_expiration", number(lab.clock.millis() - 1)),
        ],
        vec![
            ("status", text("COMPLETED")),
            ("expiration", number(lab.clock.seconds() - 1)),
        ],
    ] {
        let lab = Lab::claiming_at_commit().await;
        lab.put_record(KEY, &record).await;
        assert_eq!(lab.pay(&lab.idempotency()).await.unwrap(), paid());
        assert_applied_once(&lab).await;

        // Nor where it is looked at first.
        let lab = Lab::claiming_at_commit().await;
        lab.put_record(KEY, &record).await;
        let again = Record::payment("m-1", KEY).attribute("ApproximateReceiveCount", "2");
        assert!(lab.failures(&bank(&lab), batch([again])).await.is_empty());
        assert_eq!(lab.wire.take_operations(), ["GetItem", COMMIT]);
        assert_applied_once(&lab).await;
    }
}

#[tokio::test]
async fn a_record_that_appeared_meanwhile_decides() {
    let lab = Lab::claiming_at_commit().await;
    let held = [
        ("status", text("INPROGRESS")),
        ("claim_token", text("other")),
        (
            "in_progress_expiration",
            number(lab.clock.millis() + 60_000),
        ),
    ];
    let error = pay_while_record_becomes(&lab, &held).await.unwrap_err();
    assert!(error.is_in_progress(), "{error:?}");
    assert_eq!(lab.record(KEY).await.unwrap()["claim_token"], text("other"));

    let done = [("status", text("COMPLETED")), ("data", text("\"theirs\""))];
    let duplicate = pay_while_record_becomes(&lab, &done).await.unwrap();
    assert_eq!(duplicate, Done::Duplicate(Some("theirs".to_owned())));

    let another = [("status", text("COMPLETED")), ("validation", text("x"))];
    let error = pay_while_record_becomes(&lab, &another).await.unwrap_err();
    assert!(error.is_payload_mismatch(), "{error:?}");

    let strange = [("status", text("DONE"))];
    let error = pay_while_record_becomes(&lab, &strange).await.unwrap_err();
    assert!(
        error.to_string().contains("not one of this library's"),
        "{error}"
    );
    assert_nothing_applied(&lab).await;
}

#[tokio::test]
async fn a_lost_reply_is_sent_again_as_it_was_and_applied_once() {
    let lab = Lab::claiming_at_commit().await;
    lab.wire.next(COMMIT, Fault::LostReply);
    assert_eq!(lab.pay(&lab.idempotency()).await.unwrap(), paid());
    let sent = lab.wire.take_sent();
    assert_eq!(sent.len(), 2);
    assert_eq!(sent[0].body, sent[1].body);
    assert_applied_once(&lab).await;
}

#[tokio::test]
async fn an_unknown_commit_is_settled_by_a_read() {
    // It landed.
    let lab = Lab::claiming_at_commit().await;
    lab.wire.next(COMMIT, Fault::AnswerInstead(400, json!({})));
    assert_eq!(lab.pay(&lab.idempotency()).await.unwrap(), paid());
    assert_eq!(lab.wire.take_operations(), [COMMIT, "GetItem"]);
    assert_applied_once(&lab).await;
    // It did not, and its late copy completes the record after all.
    let lab = Lab::claiming_at_commit().await;
    lab.wire.always(COMMIT, Fault::Late);
    let error = lab.pay(&lab.idempotency()).await.unwrap_err();
    assert!(error.is_unknown(), "{error:?}");
    assert_nothing_applied(&lab).await;
    lab.wire.heal();
    let late = lab.wire.deliver_late().await;
    assert!(
        late.len() > 1 && late.iter().all(|status| *status == 200),
        "{late:?}"
    );
    let again = lab.pay(&lab.idempotency()).await.unwrap();
    assert_eq!(again, Done::Duplicate(Some("paid".to_owned())));
    assert_applied_once(&lab).await;
}

#[tokio::test]
async fn a_late_copy_is_not_forgotten_when_the_next_try_is_refused_and_there_is_no_record() {
    for refusal in [
        Fault::code("ValidationException"),
        Fault::code("AccessDeniedException"),
        Fault::code("IdempotentParameterMismatchException"),
        Fault::cancelled(&["None", "ConditionalCheckFailed", "None"]),
        Fault::cancelled(&["None", "ValidationError", "None"]),
        // By a record that is not there any more.
        Fault::cancelled(&["ConditionalCheckFailed", "None", "None"]),
    ] {
        let lab = Lab::claiming_at_commit().await;
        // The SDK would make a second attempt itself, and tell of that one only.
        let store = lab.store().attempts(2);
        let idempotency = lab.builder_on(store).build().unwrap();
        lab.wire.next(COMMIT, Fault::Late);
        lab.wire.next(COMMIT, refusal.clone());
        let error = lab.pay(&idempotency).await.unwrap_err();
        assert!(error.is_unknown(), "{refusal:?}: {error:?}");
        assert_eq!(lab.wire.take_operations(), [COMMIT, COMMIT, "GetItem"]);
        assert_nothing_applied(&lab).await;
        // Nothing holds the key, so nothing keeps the copy from landing.
        assert_eq!(lab.wire.deliver_late().await, [200]);
        let again = lab.pay(&lab.idempotency()).await.unwrap();
        assert_eq!(again, Done::Duplicate(Some("paid".to_owned())));
        assert_applied_once(&lab).await;
    }
}

#[tokio::test]
async fn a_late_copy_of_a_record_without_writes_is_not_forgotten_either() {
    let lab = Lab::claiming_at_commit().await;
    let store = lab.store().attempts(2);
    let idempotency = lab.builder_on(store).build().unwrap();
    lab.wire.next("PutItem", Fault::Late);
    lab.wire
        .next("PutItem", Fault::code("AccessDeniedException"));
    let nothing = async || Ok(Transaction::new().returning("done".to_owned()));
    let error = lab.run(&idempotency, &(), nothing).await.unwrap_err();
    assert!(error.is_unknown(), "{error:?}");
    assert_eq!(lab.wire.deliver_late().await, [200]);
    let again = lab.run(&idempotency, &(), nothing).await.unwrap();
    assert_eq!(again, Done::Duplicate(Some("done".to_owned())));
}

#[tokio::test]
async fn the_read_that_settles_is_tried_again_and_without_an_answer_it_is_unknown_in_time() {
    for fault in [
        Fault::code("ThrottlingException"),
        Fault::code("InternalServerError"),
        Fault::Reset,
    ] {
        let lab = Lab::claiming_at_commit().await;
        lab.wire.next(COMMIT, Fault::AnswerInstead(400, json!({})));
        lab.wire.next("GetItem", fault.clone());
        lab.wire.next("GetItem", fault);
        assert_eq!(lab.pay(&lab.idempotency()).await.unwrap(), paid());
        assert_eq!(lab.wire.unused_faults(), 0);
        assert_applied_once(&lab).await;
    }
    for fault in [
        Fault::code("ThrottlingException"),
        Fault::code("AccessDeniedException"),
        Fault::Reset,
        Fault::Silence(Duration::from_secs(20)),
    ] {
        let lab = Lab::claiming_at_commit().await;
        lab.wire.next(COMMIT, Fault::AnswerInstead(400, json!({})));
        lab.wire.always("GetItem", fault.clone());
        let started = lab.clock.now();
        let error = lab.pay(&lab.idempotency()).await.unwrap_err();
        assert!(error.is_unknown(), "{fault:?}: {error:?}");
        let took = lab.clock.now().duration_since(started).unwrap();
        assert!(took <= Duration::from_secs(30), "{fault:?} took {took:?}");
    }
}

#[tokio::test]
async fn a_refused_commit_that_can_not_be_settled_is_known_to_have_written_nothing() {
    for fault in [Fault::code("AccessDeniedException"), Fault::Reset] {
        let lab = Lab::claiming_at_commit().await;
        lab.wire.next(COMMIT, Fault::code("AccessDeniedException"));
        lab.wire.always("GetItem", fault.clone());
        let error = lab.pay(&lab.idempotency()).await.unwrap_err();
        assert!(error.is_store(), "{fault:?}: {error:?}");
        assert!(format!("{error:#}").contains("nothing was written"));
        assert_nothing_applied(&lab).await;
    }
}

/// A record of another attempt that is done, and that the table should have deleted yesterday.
async fn put_record_of_the_past(lab: &Lab) {
    let yesterday = lab.clock.seconds() - 24 * 60 * 60;
    lab.put_record(
        KEY,
        &[
            ("status", text("COMPLETED")),
            ("claim_token", text("another")),
            ("expiration", number(yesterday)),
        ],
    )
    .await;
}

#[tokio::test]
async fn a_record_past_its_retention_does_not_pass_for_this_message_s_when_its_commit_failed() {
    for (fault, is_unknown) in [
        (Fault::code("AccessDeniedException"), false),
        (Fault::code("ThrottlingException"), false),
        (
            Fault::cancelled(&["None", "ConditionalCheckFailed", "None"]),
            false,
        ),
        (
            Fault::cancelled(&["None", "ValidationError", "None"]),
            false,
        ),
        (Fault::Reset, true),
    ] {
        let lab = Lab::claiming_at_commit().await;
        put_record_of_the_past(&lab).await;
        lab.wire.always(COMMIT, fault.clone());
        let error = lab.pay(&lab.idempotency()).await.unwrap_err();
        assert_eq!(error.is_unknown(), is_unknown, "{fault:?}: {error:?}");
        assert_nothing_applied(&lab).await;
        lab.wire.heal();
        assert_eq!(lab.pay(&lab.idempotency()).await.unwrap(), paid());
    }
}

#[tokio::test]
async fn a_late_copy_is_not_forgotten_when_the_next_try_meets_what_may_go_away_again() {
    let held = |lab: &Lab| {
        vec![
            ("status", text("INPROGRESS")),
            ("claim_token", text("another")),
            ("expiration", number(lab.clock.seconds() + 1_000)),
            (
                "in_progress_expiration",
                number((lab.clock.seconds() + 1_000) * 1_000),
            ),
        ]
    };
    let with_another_payload = |lab: &Lab| {
        let mut record = held(lab);
        record.push(("validation", text("another")));
        record
    };
    let no_record = |_: &Lab| vec![("status", number(7))];
    for record in [
        &held as &dyn Fn(&Lab) -> Vec<_>,
        &with_another_payload,
        &no_record,
    ] {
        let lab = Lab::claiming_at_commit().await;
        let record = record(&lab);
        lab.wire.next(COMMIT, Fault::Late);
        let error = pay_while_record_becomes(&lab, &record).await.unwrap_err();
        assert!(error.is_unknown(), "{error:?}");
        lab.delete_record(KEY).await;
        assert_eq!(lab.wire.deliver_late().await, [200]);
        assert_applied_once(&lab).await;
    }
}

#[tokio::test]
async fn an_outage_at_the_commit_takes_the_time_for_trying_again_once_not_twice() {
    for fault in [Fault::Reset, Fault::code("ThrottlingException")] {
        let lab = Lab::claiming_at_commit().await;
        lab.wire.always(COMMIT, fault.clone());
        lab.wire.always("GetItem", fault.clone());
        let started = lab.clock.now();
        lab.pay(&lab.idempotency()).await.unwrap_err();
        let took = lab.clock.now().duration_since(started).unwrap();
        // 20 s for the commit, 1 s for the read, and a pause.
        let range = Duration::from_secs(19)..Duration::from_secs(23);
        assert!(range.contains(&took), "{fault:?} took {took:?}");
    }
}

#[tokio::test]
async fn a_refusal_by_a_record_that_went_away_fails_and_the_next_delivery_runs() {
    let lab = Lab::claiming_at_commit().await;
    lab.wire.next(COMMIT, lab.key_refused_without_item());
    let error = lab.pay(&lab.idempotency()).await.unwrap_err();
    // The record went away meanwhile: nothing was written, and the next delivery runs.
    assert!(!error.is_unknown(), "{error:?}");
    assert_eq!(lab.wire.take_operations(), [COMMIT, "GetItem"]);
    assert_eq!(lab.record(KEY).await, None);
    assert_eq!(lab.pay(&lab.idempotency()).await.unwrap(), paid());
    assert_applied_once(&lab).await;
}

#[tokio::test]
async fn a_late_commit_after_another_attempt_completed_changes_nothing() {
    let lab = Lab::claiming_at_commit().await;
    lab.wire.always(COMMIT, Fault::Late);
    assert!(lab.pay(&lab.idempotency()).await.unwrap_err().is_unknown());
    lab.wire.heal();
    // The other mode takes the key, completes it; then the copies come.
    assert_eq!(lab.pay(&claiming_first(&lab)).await.unwrap(), paid());
    let record = lab.record(KEY).await;
    assert!(
        lab.wire
            .deliver_late()
            .await
            .iter()
            .all(|status| *status == 400)
    );
    assert_eq!(lab.record(KEY).await, record);
    assert_applied_once(&lab).await;
}

#[tokio::test]
async fn a_late_commit_does_not_take_a_key_that_the_other_mode_holds() {
    let lab = Lab::claiming_at_commit().await;
    lab.wire.always(COMMIT, Fault::Late);
    assert!(lab.pay(&lab.idempotency()).await.unwrap_err().is_unknown());
    lab.wire.heal();
    let done = lab
        .run(&claiming_first(&lab), &(), async || {
            let late = lab.wire.deliver_late().await;
            assert!(late.iter().all(|status| *status == 400), "{late:?}");
            Ok(pay(&lab.tables, &lab.payment()).returning("paid".to_owned()))
        })
        .await;
    assert_eq!(done.unwrap(), paid());
    assert_applied_once(&lab).await;
}

#[tokio::test]
async fn a_failed_condition_commits_the_alternative_or_fails_and_leaves_no_record() {
    let lab = Lab::claiming_at_commit().await;
    let closed = |lab: &Lab| {
        let check = aws_sdk_dynamodb::types::ConditionCheck::builder()
            .table_name(&lab.tables.accounts)
            .key("id", text("b"))
            .condition_expression("attribute_exists(id)")
            .build()
            .unwrap();
        Transaction::new().write(check)
    };
    let failed = lab
        .run(&lab.idempotency(), &(), async || {
            Ok(closed(&lab).returning("open".into()))
        })
        .await;
    assert!(failed.unwrap_err().is_condition());
    assert_eq!(lab.record(KEY).await, None);
    let done = lab
        .run(&lab.idempotency(), &(), async || {
            let other = Transaction::new()
                .put(&lab.tables.payments, lab.payment())
                .returning("closed".to_owned());
            Ok(closed(&lab).returning("open".to_owned()).otherwise(other))
        })
        .await;
    assert_eq!(done.unwrap(), Done::Completed("closed".to_owned()));
    assert_eq!(lab.count(&lab.tables.payments).await, 1);
}

#[tokio::test]
async fn an_older_version_completes_the_record_by_one_conditional_put() {
    let lab = Lab::claiming_at_commit().await;
    let put = |version: u64| {
        let item = json!({ "id": "p", "version": version });
        Transaction::new().put_if_newer(&lab.tables.payments, item, "version")
    };
    let newer = put(2);
    let done = lab
        .run_under(&lab.idempotency(), "newer", async || {
            Ok(newer.returning("2".into()))
        })
        .await;
    assert_eq!(done.unwrap(), Done::Completed("2".to_owned()));
    lab.wire.take_operations();
    let older = put(1);
    let done = lab
        .run(&lab.idempotency(), &(), async || {
            Ok(older.returning("1".into()))
        })
        .await;
    assert_eq!(done.unwrap(), Done::Stale);
    assert_eq!(lab.wire.take_operations(), [COMMIT, "PutItem"]);
    assert_eq!(lab.record(KEY).await.unwrap()["status"], text("COMPLETED"));
}

#[tokio::test]
async fn without_writes_the_record_is_one_conditional_put_in_any_shape_of_table() {
    let lab = Lab::claiming_at_commit().await;
    let nothing = async || Ok(Transaction::new().returning("done".to_owned()));
    let done = lab.run(&lab.idempotency(), &(), nothing).await.unwrap();
    assert_eq!(done, Done::Completed("done".to_owned()));
    assert_eq!(lab.wire.take_operations(), ["PutItem"]);
    // Its refusal shows the record: no read has to find out.
    let again = lab.run(&lab.idempotency(), &(), nothing).await.unwrap();
    assert_eq!(again, Done::Duplicate(Some("done".to_owned())));
    assert_eq!(lab.wire.take_operations(), ["PutItem"]);

    let table = lab.create_table("composite", &["pk", "sk"]).await;
    let store = lambda_idempotency::DynamoDbStore::new(lab.client.clone(), &table)
        .composite_key("pk", "done", "sk");
    let idempotency = lab.builder_on(store).build().unwrap();
    assert_eq!(lab.pay(&idempotency).await.unwrap(), paid());
    let again = lab.pay(&idempotency).await.unwrap();
    assert_eq!(again, Done::Duplicate(Some("paid".to_owned())));
    let done = lab.run_under(&idempotency, "other", nothing).await.unwrap();
    assert_eq!(done, Done::Completed("done".to_owned()));
}

#[tokio::test]
async fn two_attempts_that_run_at_once_commit_once() {
    for _ in 0..20 {
        let lab = Lab::claiming_at_commit().await;
        let (first, second) = (lab.idempotency(), lab.idempotency());
        let (one, other) = tokio::join!(lab.pay(&first), lab.pay(&second));
        let done = [one.unwrap(), other.unwrap()];
        assert!(done.contains(&paid()), "{done:?}");
        assert!(
            done.contains(&Done::Duplicate(Some("paid".to_owned()))),
            "{done:?}"
        );
        assert_applied_once(&lab).await;
    }
}

#[tokio::test]
async fn a_handler_that_takes_too_long_is_dropped_and_leaves_no_record() {
    let lab = Lab::claiming_at_commit().await;
    let late = lab
        .run(&lab.idempotency(), &(), async || {
            lab.clock.advance(Duration::from_secs(29));
            std::future::pending().await
        })
        .await;
    assert!(late.unwrap_err().is_deadline());
    assert!(lab.wire.take_operations().is_empty());
    assert_eq!(lab.record(KEY).await, None);
}
