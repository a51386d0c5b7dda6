//! What the store answers when it is busy, broken or leaves something out.

use lambda_idempotency::{Claim, Clock as _, Key, SqsBatch};
use serde_json::json;
use tracing::Level;

use crate::support::{
    Bank, COMMIT, Fault, HeldBank, Hold, Lab, Logs, Record, Step, batch, context,
};

fn payment() -> SqsBatch {
    batch([Record::payment("m-1", "p-1")])
}

#[tokio::test]
async fn t20_a_failure_to_take_the_key_is_told_as_it_is_and_settling_bears_that_it_never_landed() {
    let lab = Lab::new().await;
    let service = lab.idempotency().sqs(Bank(lab.tables.clone()));
    lab.wire
        .next(lab.takes_the_key(), Fault::code("AccessDeniedException"));
    lab.process(&service, payment()).await.unwrap();
    assert_eq!(
        lab.wire.take_operations(),
        [lab.takes_the_key(), lab.settles()]
    );
    let report = lab.take_report();
    assert_eq!(report.reason.unwrap().as_str(), "store");
    let told = report.error.unwrap();
    assert!(told.contains("injected AccessDeniedException"), "{told}");

    let by_body = lab
        .idempotency()
        .sqs(Bank(lab.tables.clone()))
        .key(Key::body("/nothing/here").unwrap());
    lab.process(&by_body, payment()).await.unwrap();
    assert!(lab.wire.take_operations().is_empty());
    let told = lab.take_report().error.unwrap();
    assert!(told.contains("/nothing/here"), "{told}");
}

#[tokio::test]
async fn t25_a_message_in_progress_and_a_duplicate_are_outcomes_of_their_own_and_no_alarm() {
    let lab = Lab::new().await;
    let hold = Hold::default();
    let owner = lab.builder().claim(Claim::First).build().unwrap();
    let owner = owner.sqs(HeldBank {
        tables: lab.tables.clone(),
        hold: hold.clone(),
    });
    let service = lab.idempotency().sqs(Bank(lab.tables.clone()));
    let logs = Logs::listen();
    let time = context(lab.clock.now() + std::time::Duration::from_secs(30));
    let running = owner.process(payment(), &time);
    let meanwhile = async {
        hold.reached().await;
        assert_eq!(lab.failures(&service, payment()).await, ["m-1"]);
        let told = lab.take_report();
        assert_eq!(told.outcome.as_str(), "in_progress");
        assert_eq!(told.reason, None);
        hold.let_go();
    };
    tokio::join!(running, meanwhile).0.unwrap();
    assert!(lab.failures(&service, payment()).await.is_empty());
    assert_eq!(lab.take_outcomes(), ["m-1 completed", "m-1 duplicate"]);
    // In progress, completed, duplicate: a line each, and none asks for a person.
    assert_eq!(logs.levels(), [Level::INFO; 3], "{}", logs.text());
}

#[tokio::test]
async fn t49_a_transaction_in_progress_and_a_conflict_are_tried_again_a_failed_condition_is_not() {
    let in_progress = Fault::code("TransactionInProgressException");
    let conflict = Fault::cancelled(&["None", "None", "TransactionConflict"]);
    for fault in [in_progress, conflict] {
        let lab = Lab::new().await;
        let service = lab.idempotency().sqs(Bank(lab.tables.clone()));
        lab.wire.next(COMMIT, fault.clone());
        lab.wire.next(COMMIT, fault);
        assert!(lab.failures(&service, payment()).await.is_empty());
        let sent = lab.wire.take_sent();
        let operations: Vec<&str> = sent.iter().map(|sent| sent.operation.as_str()).collect();
        let steps = [Step::Claim, Step::Commit, Step::Commit, Step::Commit];
        assert_eq!(operations, lab.steps(&steps));
        // The same request, under the same client token.
        let commits = &sent[sent.len() - 3..];
        assert_eq!(commits[0].body, commits[1].body);
        assert_eq!(commits[0].body, commits[2].body);
        assert_eq!(lab.balance("a").await, 10);
    }
    let lab = Lab::new().await;
    let service = lab.idempotency().sqs(Bank(lab.tables.clone()));
    lab.wire.next(
        "TransactWriteItems",
        Fault::cancelled(&["None", "ConditionalCheckFailed", "None"]),
    );
    lab.process(&service, payment()).await.unwrap();
    let steps = lab.steps(&[Step::Claim, Step::Commit, Step::Settle]);
    assert_eq!(lab.wire.take_operations(), steps);
    assert_eq!(lab.take_outcomes(), ["m-1 failed condition"]);
    assert!(lab.record("m-1").await.is_none());
}

#[tokio::test]
async fn t51_a_refusal_that_does_not_show_the_record_is_settled_by_reading_it() {
    let lab = Lab::new().await;
    let service = lab.idempotency().sqs(Bank(lab.tables.clone()));
    lab.process(&service, payment()).await.unwrap();
    lab.wire.take_sent();

    // The request that takes the key.
    lab.wire
        .next(lab.takes_the_key(), lab.key_refused_without_item());
    lab.process(&service, payment()).await.unwrap();
    let sent = lab.wire.take_sent();
    assert_eq!(sent.len(), 2);
    assert_eq!(sent[1].operation, "GetItem");
    assert_eq!(sent[1].body["ConsistentRead"], true);

    // The commit: its first try landed, its reply was lost, and the second is refused.
    lab.wire.next("TransactWriteItems", Fault::LostReply);
    lab.wire.next(
        "TransactWriteItems",
        Fault::cancelled(&["ConditionalCheckFailed", "None", "None"]),
    );
    lab.process(&service, batch([Record::payment("m-2", "p-2")]))
        .await
        .unwrap();
    let steps = [Step::Claim, Step::Commit, Step::Commit, Step::Read];
    assert_eq!(lab.wire.take_operations(), lab.steps(&steps));
    assert_eq!(
        lab.take_outcomes(),
        ["m-1 completed", "m-1 duplicate", "m-2 completed"]
    );
    assert_eq!(lab.balance("a").await, 20);
}

#[tokio::test]
async fn t52_an_empty_server_error_after_the_commit_is_not_taken_for_a_failure() {
    let lab = Lab::new().await;
    let service = lab.idempotency().sqs(Bank(lab.tables.clone()));
    lab.wire
        .next("TransactWriteItems", Fault::AnswerInstead(500, json!({})));
    assert!(lab.failures(&service, payment()).await.is_empty());
    assert_eq!(lab.take_outcomes(), ["m-1 completed"]);
    assert_eq!(lab.balance("a").await, 10);
    assert_eq!(lab.wire.unused_faults(), 0);

    // And before it: nothing was applied, and the next try is the one that counts.
    lab.wire
        .next("TransactWriteItems", Fault::Answer(500, json!({})));
    let second = batch([Record::payment("m-2", "p-2")]);
    assert!(lab.failures(&service, second).await.is_empty());
    assert_eq!(lab.take_outcomes(), ["m-2 completed"]);
    assert_eq!(lab.balance("a").await, 20);
}

#[tokio::test]
async fn t52_a_commit_that_only_ever_meets_server_errors_is_settled_by_the_record() {
    let lab = Lab::new().await;
    let service = lab.idempotency().sqs(Bank(lab.tables.clone()));
    lab.wire
        .next("TransactWriteItems", Fault::AnswerInstead(500, json!({})));
    lab.wire
        .always("TransactWriteItems", Fault::Answer(500, json!({})));
    // The completed record refuses the release, or is read: it says that the first try landed.
    assert!(lab.failures(&service, payment()).await.is_empty());
    assert_eq!(lab.take_outcomes(), ["m-1 completed"]);
    assert_eq!(lab.wire.take_operations().last().unwrap(), lab.settles());
    assert_eq!(lab.balance("a").await, 10);
    assert_eq!(
        lab.record("m-1").await.unwrap()["status"].as_s().unwrap(),
        "COMPLETED"
    );
}

#[tokio::test]
async fn t53_one_service_serves_many_invocations_and_an_outage_leaves_nothing_behind() {
    let lab = Lab::new().await;
    let service = lab.idempotency().sqs(Bank(lab.tables.clone()));
    let messages = |from: usize| {
        batch((from..from + 5).map(|n| Record::payment(&format!("m-{n}"), &format!("p-{n}"))))
    };
    for from in (0..50).step_by(5) {
        assert!(lab.failures(&service, messages(from)).await.is_empty());
    }
    assert_eq!(lab.balance("a").await, 500);

    // The invocation gives up on a store that is down; the next one asks it again.
    lab.store_fails(&Fault::Refused);
    assert_eq!(lab.failures(&service, messages(50)).await.len(), 5);
    lab.wire.heal();
    lab.wire.take_sent();
    lab.take_reports();
    assert!(lab.failures(&service, messages(50)).await.is_empty());
    assert_eq!(lab.balance("a").await, 550);
    let first = lab.requests_of(5, &[Step::Claim, Step::Commit]);
    assert_eq!(lab.wire.take_operations().len(), first);
    assert!(lab.failures(&service, messages(0)).await.is_empty());
    let duplicates = lab.wire.take_operations();
    assert!(duplicates.iter().all(|sent| sent == lab.takes_the_key()));
    assert_eq!(duplicates.len(), lab.requests_of(5, &[Step::Commit]));
    assert_eq!(lab.balance("a").await, 550);
}
