//! The commit, row by row of DESIGN.md's table.

use std::time::Duration;

use aws_sdk_dynamodb::types::{AttributeValue, ConditionCheck, Put};
use lambda_idempotency::{Clock as _, Done, HandlerError, Transaction, Write};
use serde_json::{Value, json};

use crate::support::{COMMIT, Fault, KEY, Lab, Paid, Step, pay, text};

fn paid() -> Done<String> {
    Done::Completed("paid".to_owned())
}

/// Nothing was applied, and nothing holds the key.
async fn assert_nothing_is_left(lab: &Lab) {
    assert_eq!(lab.record(KEY).await, None);
    assert_eq!(lab.balance("a").await, 0);
    assert_eq!(lab.count(&lab.tables.payments).await, 0);
}

/// The payment was applied once, and the record says so.
async fn assert_applied(lab: &Lab) {
    assert_eq!(lab.record(KEY).await.unwrap()["status"], text("COMPLETED"));
    assert_eq!(lab.balance("a").await, 10);
    assert_eq!(lab.count(&lab.tables.payments).await, 1);
}

/// The bodies of the commits, after these steps were taken.
fn commits_sent(lab: &Lab, steps: &[Step]) -> Vec<Value> {
    let sent = lab.wire.take_sent();
    let operations: Vec<&str> = sent.iter().map(|sent| &*sent.operation).collect();
    assert_eq!(operations, lab.steps(steps));
    let commits = sent.into_iter().filter(|sent| sent.operation == COMMIT);
    commits.map(|sent| sent.body).collect()
}

/// Pays while the record changes hands during the work.
async fn pay_while_record_becomes(lab: &Lab, record: &[(&str, AttributeValue)]) -> Paid {
    lab.run(&lab.idempotency(), &1, async || {
        lab.put_record(KEY, record).await;
        Ok(pay(&lab.tables, &lab.payment()).returning("paid".to_owned()))
    })
    .await
}

#[tokio::test]
async fn a_commit_whose_reply_was_lost_is_sent_again_as_it_was_and_applied_once() {
    for fault in [
        Fault::LostReply,
        Fault::AnswerInstead(500, json!({})),
        Fault::AnswerInstead(503, json!({"__type": "x#ServiceUnavailable"})),
        Fault::AppliedThenSilence(Duration::ZERO),
    ] {
        let lab = Lab::new().await;
        let store = lab.store().attempt_timeout(Duration::from_millis(200));
        let idempotency = lab.builder_on(store).build().unwrap();
        lab.wire.next(COMMIT, fault.clone());
        assert_eq!(lab.pay(&idempotency).await.unwrap(), paid(), "{fault:?}");
        let commits = commits_sent(&lab, &[Step::Claim, Step::Commit, Step::Commit]);
        assert_eq!(commits[0], commits[1], "the same request and client token");
        assert_applied(&lab).await;
    }
}

#[tokio::test]
async fn a_commit_that_did_not_arrive_is_sent_again() {
    for fault in [
        Fault::Reset,
        Fault::code("InternalServerError"),
        Fault::code("TransactionInProgressException"),
        Fault::code("TransactionConflictException"),
        Fault::code("ThrottlingException"),
        Fault::code("ProvisionedThroughputExceededException"),
        Fault::cancelled(&["TransactionConflict", "None", "None"]),
        Fault::cancelled(&["None", "TransactionConflict", "None"]),
        Fault::cancelled(&["None", "ThrottlingError", "None"]),
        Fault::cancelled(&[
            "ProvisionedThroughputExceeded",
            "TransactionConflict",
            "None",
        ]),
    ] {
        let lab = Lab::new().await;
        lab.wire.next(COMMIT, fault.clone());
        lab.wire.next(COMMIT, fault.clone());
        assert_eq!(
            lab.pay(&lab.idempotency()).await.unwrap(),
            paid(),
            "{fault:?}"
        );
        let steps = [Step::Claim, Step::Commit, Step::Commit, Step::Commit];
        let commits = commits_sent(&lab, &steps);
        assert_eq!(commits[0], commits[2], "{fault:?}");
        assert_applied(&lab).await;
    }
}

#[tokio::test]
async fn without_writes_the_record_is_completed_by_one_conditional_request() {
    let lab = Lab::new().await;
    let nothing = async || Ok(Transaction::new().returning("paid".to_owned()));
    let conflict = Fault::code("TransactionConflictException");
    lab.wire.next(lab.completes(), conflict);
    lab.wire.next(lab.completes(), Fault::LostReply);
    // The third is refused by the record that the second completed.
    let done = lab.run(&lab.idempotency(), &(), nothing).await.unwrap();
    assert_eq!(done, paid());
    let steps = [Step::Claim, Step::Complete, Step::Complete, Step::Complete];
    assert_eq!(lab.wire.take_operations(), lab.steps(&steps));
    let record = lab.record(KEY).await.unwrap();
    assert_eq!(record["data"], text("\"paid\""));
}

#[tokio::test]
async fn a_record_that_another_attempt_completed_makes_a_duplicate_or_a_mismatch() {
    let other = |fingerprint: Option<&str>| {
        let mut record = vec![
            ("status", text("COMPLETED")),
            ("claim_token", text("other")),
            ("data", text("\"theirs\"")),
        ];
        record.extend(fingerprint.map(|fingerprint| ("validation", text(fingerprint))));
        record
    };
    let lab = Lab::new().await;
    let done = pay_while_record_becomes(&lab, &other(None)).await.unwrap();
    assert_eq!(done, Done::Duplicate(Some("theirs".to_owned())));
    let claim_and_commit = lab.steps(&[Step::Claim, Step::Commit]);
    assert_eq!(lab.wire.take_operations(), claim_and_commit);
    assert_eq!(lab.balance("a").await, 0);

    let lab = Lab::new().await;
    let error = pay_while_record_becomes(&lab, &other(Some("f")))
        .await
        .unwrap_err();
    assert!(error.is_payload_mismatch(), "{error}");
    assert_eq!(lab.wire.take_operations(), claim_and_commit);
    assert_eq!(lab.balance("a").await, 0);
}

#[tokio::test]
async fn a_lost_lease_fails_and_releases_nothing() {
    let lab = Lab::claiming_first().await;
    let record = [
        ("status", text("INPROGRESS")),
        ("claim_token", text("other")),
    ];
    let error = pay_while_record_becomes(&lab, &record).await.unwrap_err();
    assert!(error.is_lease_lost(), "{error}");
    assert_eq!(lab.wire.take_operations(), ["PutItem", COMMIT]);
    assert_eq!(lab.record(KEY).await.unwrap()["claim_token"], text("other"));
    assert_eq!(lab.balance("a").await, 0);

    let lab = Lab::claiming_first().await;
    let gone = lab
        .run(&lab.idempotency(), &(), async || {
            lab.delete_record(KEY).await;
            Ok(pay(&lab.tables, &lab.payment()).returning("paid".to_owned()))
        })
        .await;
    assert!(gone.unwrap_err().is_lease_lost());
    // No item in the refusal: it was read to be sure.
    assert_eq!(lab.wire.take_operations(), ["PutItem", COMMIT, "GetItem"]);
    assert_nothing_is_left(&lab).await;
}

#[tokio::test]
async fn a_refusal_that_shows_no_item_is_decided_by_a_consistent_read() {
    // Applied, and the resent copy is refused without showing the record: T51.
    for refusal in [
        Fault::cancelled(&["ConditionalCheckFailed", "None", "None"]),
        Fault::record_refused(json!({})),
    ] {
        let lab = Lab::new().await;
        lab.wire.next(COMMIT, Fault::LostReply);
        lab.wire.next(COMMIT, refusal);
        assert_eq!(lab.pay(&lab.idempotency()).await.unwrap(), paid());
        let steps = [Step::Claim, Step::Commit, Step::Commit, Step::Read];
        assert_eq!(lab.wire.take_operations(), lab.steps(&steps));
        assert_applied(&lab).await;
    }
}

#[tokio::test]
async fn a_refusal_that_shows_my_own_completed_record_is_a_success() {
    let lab = Lab::claiming_first().await;
    let done = lab
        .run(&lab.idempotency(), &(), async || {
            let token = lab.record(KEY).await.unwrap()["claim_token"]
                .as_s()
                .unwrap()
                .clone();
            lab.wire.next(
                COMMIT,
                Fault::record_refused(json!({
                    "id": {"S": "tests#k"},
                    "status": {"S": "COMPLETED"},
                    "claim_token": {"S": token},
                    "data": {"S": "\"stored\""},
                })),
            );
            Ok(pay(&lab.tables, &lab.payment()).returning("paid".to_owned()))
        })
        .await;
    assert_eq!(done.unwrap(), Done::Completed("stored".to_owned()));
    assert_eq!(lab.wire.take_operations(), ["PutItem", COMMIT]);
}

#[tokio::test]
async fn what_can_never_be_committed_is_named_and_leaves_nothing() {
    for (fault, named) in [
        (
            Fault::cancelled(&["None", "ValidationError", "None"]),
            "write 0 (put on",
        ),
        (
            Fault::cancelled(&["None", "TransactionConflict", "ValidationError"]),
            "write 1 (update on",
        ),
        (
            Fault::cancelled(&[
                "None",
                "ConditionalCheckFailed",
                "ItemCollectionSizeLimitExceeded",
            ]),
            "write 1 (update on",
        ),
        (
            Fault::cancelled(&["ValidationError", "None", "None"]),
            "the transaction",
        ),
        (Fault::code("ValidationException"), "the transaction"),
        (
            Fault::code("ItemCollectionSizeLimitExceededException"),
            "the transaction",
        ),
        (
            Fault::Answer(413, json!({"__type": "RequestEntityTooLarge"})),
            "the transaction",
        ),
    ] {
        let lab = Lab::new().await;
        lab.wire.next(COMMIT, fault.clone());
        let error = lab.pay(&lab.idempotency()).await.unwrap_err();
        assert!(
            error.is_commit() && error.to_string().contains(named),
            "{fault:?}: {error}"
        );
        let steps = lab.steps(&[Step::Claim, Step::Commit, Step::Settle]);
        assert_eq!(lab.wire.take_operations(), steps);
        assert_nothing_is_left(&lab).await;
    }
}

#[tokio::test]
async fn a_store_error_or_a_request_that_was_never_sent_leaves_nothing() {
    for fault in [
        Fault::code("AccessDeniedException"),
        Fault::code("ResourceNotFoundException"),
        Fault::code("UnrecognizedClientException"),
        Fault::Answer(400, json!({"__type": "KMSDisabledException"})),
        Fault::Refused,
    ] {
        let lab = Lab::new().await;
        lab.wire.next(COMMIT, fault.clone());
        let error = lab.pay(&lab.idempotency()).await.unwrap_err();
        assert!(error.is_store(), "{fault:?}: {error:?}");
        let steps = lab.steps(&[Step::Claim, Step::Commit, Step::Settle]);
        assert_eq!(lab.wire.take_operations(), steps);
        assert_nothing_is_left(&lab).await;
    }
}

/// Answers that say nothing of what was written: not sent again, and settled.
fn unclassified() -> [Fault; 5] {
    [
        Fault::Answer(400, json!({})),
        Fault::cancelled(&[]),
        Fault::cancelled(&["None", "None", "None"]),
        Fault::cancelled(&["None", "SomethingNew", "None"]),
        Fault::code("IdempotentParameterMismatchException"),
    ]
}

#[tokio::test]
async fn an_answer_that_says_nothing_is_settled_by_the_record() {
    for fault in unclassified() {
        let lab = Lab::new().await;
        lab.wire.next(COMMIT, fault.clone());
        let error = lab.pay(&lab.idempotency()).await.unwrap_err();
        assert!(
            error.is_unknown() || error.is_commit(),
            "{fault:?}: {error:?}"
        );
        let steps = lab.steps(&[Step::Claim, Step::Commit, Step::Settle]);
        assert_eq!(lab.wire.take_operations(), steps);
        assert_nothing_is_left(&lab).await;
    }
    for fault in unclassified() {
        let Fault::Answer(status, body) = fault else {
            unreachable!("they are all answers");
        };
        let lab = Lab::new().await;
        lab.wire
            .next(COMMIT, Fault::AnswerInstead(status, body.clone()));
        assert_eq!(lab.pay(&lab.idempotency()).await.unwrap(), paid(), "{body}");
        let steps = lab.steps(&[Step::Claim, Step::Commit, Step::Settle]);
        assert_eq!(lab.wire.take_operations(), steps);
        assert_applied(&lab).await;
    }
}

#[tokio::test]
async fn an_unknown_commit_is_tried_while_time_remains_and_then_settled() {
    let pay_while = async |first: Option<Fault>, then: Fault| {
        let lab = Lab::new().await;
        if let Some(first) = first {
            lab.wire.next(COMMIT, first);
        }
        lab.wire.always(COMMIT, then);
        let started = lab.clock.now();
        let paid = lab.pay(&lab.idempotency()).await;
        let took = lab.clock.now().duration_since(started).unwrap();
        assert!(
            took < Duration::from_secs(30),
            "past the deadline: {took:?}"
        );
        assert!(took > Duration::from_secs(20), "given up early: {took:?}");
        (lab, paid)
    };
    // Nothing arrived.
    let (lab, failed) = pay_while(None, Fault::Reset).await;
    assert!(failed.unwrap_err().is_unknown());
    assert_nothing_is_left(&lab).await;
    // The first arrived, and the connection broke from then on.
    let (lab, done) = pay_while(Some(Fault::LostReply), Fault::Reset).await;
    assert_eq!(done.unwrap(), paid());
    assert_applied(&lab).await;
    // The last arrived in the store's last moment.
    let (lab, done) = pay_while(None, Fault::AnswerInstead(500, json!({}))).await;
    assert_eq!(done.unwrap(), paid());
    assert_applied(&lab).await;
    // Conflicts to the end: nothing was written.
    let conflict = Fault::cancelled(&["None", "TransactionConflict", "None"]);
    let (lab, failed) = pay_while(None, conflict).await;
    assert!(failed.unwrap_err().is_store());
    assert_nothing_is_left(&lab).await;
}

#[tokio::test]
async fn a_commit_without_an_answer_ends_in_time() {
    let lab = Lab::new().await;
    lab.wire
        .next(COMMIT, Fault::Silence(Duration::from_secs(29)));
    let error = lab.pay(&lab.idempotency()).await.unwrap_err();
    assert!(error.is_unknown(), "{error:?}");
    assert_nothing_is_left(&lab).await;
}

fn account_must_not_exist(lab: &Lab) -> Write {
    let check = ConditionCheck::builder()
        .table_name(&lab.tables.accounts)
        .key("id", text("a"))
        .condition_expression("attribute_not_exists(id)")
        .build();
    check.unwrap().into()
}

async fn put_account(lab: &Lab, balance: u64) {
    lab.direct
        .put_item()
        .table_name(&lab.tables.accounts)
        .item("id", text("a"))
        .item("balance", crate::support::number(balance))
        .send()
        .await
        .unwrap();
}

fn put(table: &str, item: Value) -> Transaction {
    Transaction::new().put(table, item)
}

#[tokio::test]
async fn a_business_condition_without_an_alternative_fails_and_leaves_nothing() {
    let lab = Lab::new().await;
    put_account(&lab, 0).await;
    let error = lab
        .run(&lab.idempotency(), &(), async || {
            Ok(put(&lab.tables.payments, json!({"id": "p"}))
                .write(account_must_not_exist(&lab))
                .returning("paid".to_owned()))
        })
        .await
        .unwrap_err();
    assert!(error.is_condition(), "{error:?}");
    let named = format!("write 1 (condition check on {:?})", lab.tables.accounts);
    assert!(error.to_string().contains(&named), "{error}");
    let steps = lab.steps(&[Step::Claim, Step::Commit, Step::Settle]);
    assert_eq!(lab.wire.take_operations(), steps);
    assert_nothing_is_left(&lab).await;
}

/// Open an account, or else decline; declining fails too if there is a second condition.
fn open_or_decline(lab: &Lab, declines: usize) -> Transaction<String> {
    let mut last =
        put(&lab.tables.payments, json!({"id": "declined"})).returning("declined".into());
    for _ in 1..declines {
        last = Transaction::new()
            .write(account_must_not_exist(lab))
            .returning("never".to_owned())
            .otherwise(last);
    }
    put(&lab.tables.payments, json!({"id": "opened"}))
        .write(account_must_not_exist(lab))
        .returning("opened".to_owned())
        .otherwise(last)
}

#[tokio::test]
async fn the_alternative_of_a_failed_condition_is_committed_under_a_token_of_its_own() {
    for declines in [1, 2] {
        let lab = Lab::new().await;
        put_account(&lab, 0).await;
        let idempotency = lab.idempotency();
        let open = async || Ok(open_or_decline(&lab, declines));
        let done = lab.run(&idempotency, &(), open).await.unwrap();
        assert_eq!(done, Done::Completed("declined".to_owned()));
        let mut steps = vec![Step::Claim];
        steps.resize(2 + declines, Step::Commit);
        let commits = commits_sent(&lab, &steps);
        let mut tokens: Vec<_> = commits
            .iter()
            .map(|commit| commit["ClientRequestToken"].as_str().unwrap())
            .collect();
        assert!(tokens.iter().all(|token| token.len() <= 36), "{tokens:?}");
        tokens.dedup();
        assert_eq!(tokens.len(), 1 + declines);
        assert!(lab.item(&lab.tables.payments, "declined").await.is_some());
        assert!(lab.item(&lab.tables.payments, "opened").await.is_none());
        let again = lab.run(&idempotency, &(), open).await.unwrap();
        assert_eq!(again, Done::Duplicate(Some("declined".to_owned())));
    }
}

#[tokio::test]
async fn a_late_copy_of_the_first_choice_and_the_alternative_are_not_both_applied() {
    let lab = Lab::new().await;
    // The first choice is held back; the store says that its condition failed (it would not now).
    lab.wire.next(COMMIT, Fault::Late);
    lab.wire.next(
        COMMIT,
        Fault::cancelled(&["None", "None", "ConditionalCheckFailed"]),
    );
    let open = async || Ok(open_or_decline(&lab, 1));
    let done = lab.run(&lab.idempotency(), &(), open).await.unwrap();
    assert_eq!(done, Done::Completed("declined".to_owned()));
    assert_eq!(lab.wire.deliver_late().await, [400]);
    assert_eq!(lab.count(&lab.tables.payments).await, 1);
}

#[tokio::test]
async fn an_older_version_completes_the_record_without_any_write() {
    let lab = Lab::new().await;
    let idempotency = lab.idempotency();
    let update = async |key: &str, version: u64| {
        let (lab, version) = (&lab, version);
        let work = async move |_| {
            Ok::<_, HandlerError>(
                Transaction::new()
                    .put_if_newer(&lab.tables.payments, json!({"id": "p", "v": version}), "v")
                    .put(&lab.tables.accounts, json!({"id": "log", "v": version}))
                    .returning(version),
            )
        };
        let deadline = lab.clock.now() + Duration::from_secs(30);
        idempotency.run(key, &(), deadline, work).await.unwrap()
    };
    assert_eq!(update("e-2", 2).await, Done::Completed(2));
    lab.wire.take_operations();
    lab.take_reports();

    assert_eq!(update("e-1", 1).await, Done::Stale);
    let steps = lab.steps(&[Step::Claim, Step::Commit, Step::Complete]);
    assert_eq!(lab.wire.take_operations(), steps);
    let report = lab.take_report();
    assert_eq!(report.outcome.as_str(), "completed");
    assert_eq!(report.reason.map(|reason| reason.as_str()), Some("stale"));
    let log = lab.item(&lab.tables.accounts, "log").await.unwrap();
    assert_eq!(
        log["v"],
        AttributeValue::N("2".into()),
        "superseded as a whole"
    );

    assert_eq!(update("e-1", 1).await, Done::Duplicate(None));
    assert_eq!(
        update("e-2-again", 2).await,
        Done::Stale,
        "seen is not newer"
    );
    assert_eq!(update("e-3", 3).await, Done::Completed(3));
}

#[tokio::test]
async fn a_stored_version_of_another_type_fails_and_swallows_nothing() {
    let lab = Lab::new().await;
    lab.direct
        .put_item()
        .table_name(&lab.tables.payments)
        .item("id", text("p"))
        .item("v", text("5"))
        .send()
        .await
        .unwrap();
    let error = lab
        .run(&lab.idempotency(), &(), async || {
            Ok(Transaction::new()
                .put_if_newer(&lab.tables.payments, json!({"id": "p", "v": 7}), "v")
                .returning("written".to_owned()))
        })
        .await
        .unwrap_err();
    assert!(error.is_condition(), "{error:?}");
    assert!(
        error.to_string().contains("a number and a string"),
        "{error}"
    );
    assert_eq!(lab.record(KEY).await, None);
}

#[tokio::test]
async fn a_version_guard_of_one_s_own_supersedes_and_another_condition_beside_it_does_not_fail() {
    let lab = Lab::new().await;
    put_account(&lab, 0).await;
    let guard = Put::builder()
        .table_name(&lab.tables.accounts)
        .item("id", text("a"))
        .condition_expression("attribute_not_exists(id)")
        .build()
        .unwrap();
    let failing = ConditionCheck::builder()
        .table_name(&lab.tables.payments)
        .key("id", text("p"))
        .condition_expression("attribute_exists(id)")
        .build()
        .unwrap();
    let transaction = Transaction::new()
        .write(failing)
        .write(Write::from(guard).stale_if_condition_fails())
        .returning("written".to_owned());
    let done = lab
        .run(&lab.idempotency(), &(), async || Ok(transaction))
        .await;
    assert_eq!(done.unwrap(), Done::Stale);
}
