//! Several messages in one transaction.

use std::time::Duration;

use aws_sdk_dynamodb::types::ConditionCheck;
use lambda_idempotency::{
    DynamoDbStore, HandlerError, Idempotency, Key, Message, Outcome, SqsService, Transaction,
};
use serde_json::json;

use crate::support::{COMMIT, Fault, Lab, Payment, Record, Tables, batch, pay, text};

pub const LINGER: Duration = Duration::from_millis(20);

/// Accounts can't be told from payments by their key: both are declared.
pub fn idempotency(lab: &Lab) -> Idempotency {
    idempotency_on(lab, lab.store())
}

fn idempotency_on(lab: &Lab, store: DynamoDbStore) -> Idempotency {
    lab.builder_on(store)
        .key_attributes(&lab.tables.payments, ["id"])
        .build()
        .unwrap()
}

pub fn bank(lab: &Lab) -> SqsService<crate::support::Bank, Payment> {
    bank_on(lab, lab.store())
}

pub fn bank_on(lab: &Lab, store: DynamoDbStore) -> SqsService<crate::support::Bank, Payment> {
    idempotency_on(lab, store)
        .sqs(crate::support::Bank(lab.tables.clone()))
        .key(Key::body("/id").unwrap())
        .fingerprint_body()
        .group_commits(LINGER)
}

/// A payment of 10 by message and payment `id` into its own account.
pub fn own(id: &str) -> Record {
    into(id, &format!("account-{id}"))
}

fn into(id: &str, account: &str) -> Record {
    Record::new(id, json!({ "id": id, "account": account, "amount": 10 }))
}

pub fn ids(numbers: std::ops::Range<usize>) -> Vec<String> {
    numbers.map(|n| format!("p-{n}")).collect()
}

pub async fn assert_paid_once(lab: &Lab, ids: &[String]) {
    for id in ids {
        assert_eq!(lab.balance(&format!("account-{id}")).await, 10, "{id}");
        let record = lab.record(id).await.unwrap();
        assert_eq!(record["status"], text("COMPLETED"), "{id}");
    }
    assert_eq!(lab.count(&lab.tables.payments).await, ids.len());
}

#[tokio::test]
async fn a_batch_of_ten_is_one_request_and_each_message_takes_effect_once() {
    let lab = Lab::claiming_at_commit().await;
    let service = bank(&lab);
    let all = ids(0..10);
    let messages = || batch(all.iter().map(|id| own(id)));
    assert!(lab.failures(&service, messages()).await.is_empty());
    assert_eq!(lab.wire.take_operations(), [COMMIT]);
    let reports = lab.take_reports();
    assert!(
        reports
            .iter()
            .all(|report| report.outcome == Outcome::Completed)
    );
    assert_eq!(reports.iter().map(|report| report.requests).sum::<u32>(), 1);
    assert_paid_once(&lab, &all).await;
    // All of them again.
    assert!(lab.failures(&service, messages()).await.is_empty());
    let reports = lab.take_reports();
    assert!(
        reports
            .iter()
            .all(|report| report.outcome == Outcome::Duplicate)
    );
    assert_paid_once(&lab, &all).await;
}

#[tokio::test]
async fn more_messages_than_fit_are_several_transactions() {
    let lab = Lab::claiming_at_commit().await;
    let service = bank(&lab).concurrency(100);
    let all = ids(0..100);
    assert!(
        lab.failures(&service, batch(all.iter().map(|id| own(id))))
            .await
            .is_empty()
    );
    // Three actions each: 33 messages in one.
    let sizes: Vec<usize> = lab
        .wire
        .take_sent()
        .iter()
        .map(|sent| sent.body["TransactItems"].as_array().unwrap().len())
        .collect();
    assert_eq!(sizes.iter().sum::<usize>(), 300);
    assert!(sizes.iter().all(|size| *size <= 99), "{sizes:?}");
    assert!(sizes.len() <= 8, "{sizes:?}");
    assert_paid_once(&lab, &all).await;
}

#[tokio::test]
async fn a_transaction_takes_as_many_items_and_results_as_its_size_allows() {
    const LARGE: usize = 380_000;
    // Bytes of each message's item and of its result.
    for (item, result, messages, transactions) in [
        (1, 1, 12, 1),
        (30_000, 30_000, 3, 1),
        (LARGE, 1, 12, 2),
        (1, LARGE, 12, 2),
    ] {
        let lab = Lab::claiming_at_commit().await;
        let payments = lab.tables.payments.clone();
        let service = idempotency(&lab)
            .sqs(move |message: Message<Payment>| {
                let large = json!({ "id": message.body.id, "text": "i".repeat(item) });
                let transaction = Transaction::new().put(&payments, large);
                async move { Ok(transaction.returning("r".repeat(result))) }
            })
            .concurrency(messages)
            .group_commits(LINGER);
        let all = ids(0..messages);
        let messages = batch(all.iter().map(|id| own(id)));
        assert!(lab.failures(&service, messages).await.is_empty());
        assert_eq!(lab.wire.take_operations(), vec![COMMIT; transactions]);
        assert_eq!(lab.count(&lab.tables.payments).await, all.len());
        assert_eq!(lab.records().await, all.len());
    }
}

#[tokio::test]
async fn messages_that_touch_one_item_are_in_different_transactions() {
    let lab = Lab::claiming_at_commit().await;
    let messages = ["p-1", "p-2", "p-3"].map(|id| into(id, "a"));
    assert!(lab.failures(&bank(&lab), batch(messages)).await.is_empty());
    assert_eq!(lab.wire.take_operations(), [COMMIT; 3]);
    assert_eq!(lab.balance("a").await, 30);
}

#[tokio::test]
async fn a_put_on_a_table_whose_key_is_not_known_commits_alone() {
    let lab = Lab::claiming_at_commit().await;
    let service = lab
        .idempotency()
        .sqs(crate::support::Bank(lab.tables.clone()))
        .key(Key::body("/id").unwrap())
        .group_commits(LINGER);
    let all = ids(0..3);
    assert!(
        lab.failures(&service, batch(all.iter().map(|id| own(id))))
            .await
            .is_empty()
    );
    assert_eq!(lab.wire.take_operations(), [COMMIT; 3]);
    assert_paid_once(&lab, &all).await;
}

#[tokio::test]
async fn a_duplicate_is_taken_out_and_the_rest_is_sent_again() {
    let lab = Lab::claiming_at_commit().await;
    let service = bank(&lab);
    assert!(lab.failures(&service, batch([own("p-3")])).await.is_empty());
    lab.wire.take_operations();
    lab.take_reports();
    let all = ids(0..10);
    assert!(
        lab.failures(&service, batch(all.iter().map(|id| own(id))))
            .await
            .is_empty()
    );
    assert_eq!(lab.wire.take_operations(), [COMMIT; 2]);
    for report in lab.take_reports() {
        let duplicate = report.message_id.as_deref() == Some("p-3");
        let expected = if duplicate {
            Outcome::Duplicate
        } else {
            Outcome::Completed
        };
        assert_eq!(report.outcome, expected, "{report:?}");
    }
    assert_paid_once(&lab, &all).await;
}

#[tokio::test]
async fn each_refused_message_has_the_outcome_that_it_would_have_alone() {
    let lab = Lab::claiming_at_commit().await;
    let held = [
        ("status", text("INPROGRESS")),
        ("in_progress_expiration", crate::support::number(u64::MAX)),
    ];
    lab.put_record("held", &held).await;
    let other = [("status", text("COMPLETED")), ("validation", text("x"))];
    lab.put_record("reused", &other).await;
    lab.put_record("strange", &[("status", text("DONE"))]).await;
    let messages = ["held", "p-0", "reused", "p-1", "strange", "p-2"].map(own);
    let failed = lab.failures(&bank(&lab), batch(messages)).await;
    assert_eq!(failed, ["held", "reused", "strange"]);
    let outcomes: Vec<_> = lab
        .take_reports()
        .into_iter()
        .filter(|report| report.outcome != Outcome::Completed)
        .map(|report| (report.message_id.unwrap(), report.outcome))
        .collect();
    assert_eq!(outcomes.len(), 3);
    assert!(
        outcomes.contains(&("held".into(), Outcome::InProgress)),
        "{outcomes:?}"
    );
    assert_paid_once(&lab, &ids(0..3)).await;
}

/// Pays, and checks that an item is there whose id is the payment's account.
async fn pay_if_there_is(
    tables: Tables,
    message: Message<Payment>,
) -> Result<Transaction, HandlerError> {
    let check = ConditionCheck::builder()
        .table_name(&tables.records)
        .key("id", text(&message.body.account))
        .condition_expression("attribute_exists(id)")
        .build()?;
    let payment = Payment {
        account: format!("account-{}", message.body.id),
        ..message.body
    };
    Ok(pay(&tables, &payment).write(check))
}

#[tokio::test]
async fn a_failed_condition_fails_its_own_message_only() {
    let lab = Lab::claiming_at_commit().await;
    let all = ids(0..4);
    for id in &all {
        let there = [("status", text("COMPLETED"))];
        lab.put_record(&format!("there-{id}"), &there).await;
    }
    let tables = lab.tables.clone();
    let service = idempotency(&lab)
        .sqs(move |message: Message<Payment>| pay_if_there_is(tables.clone(), message))
        .key(Key::body("/id").unwrap())
        .group_commits(LINGER);
    let mut messages: Vec<Record> = all
        .iter()
        .map(|id| into(id, &format!("tests#there-{id}")))
        .collect();
    messages.insert(1, into("gone-1", "tests#nothing-1"));
    messages.insert(3, into("gone-2", "tests#nothing-2"));
    assert_eq!(
        lab.failures(&service, batch(messages)).await,
        ["gone-1", "gone-2"]
    );
    // The group, the rest of it, and the two reads that settle the two that failed.
    let operations = lab.wire.take_operations();
    assert_eq!(
        operations.iter().filter(|op| *op == COMMIT).count(),
        2,
        "{operations:?}"
    );
    assert_eq!(lab.record("gone-1").await, None);
    assert_paid_once(&lab, &all).await;
}

#[tokio::test]
async fn an_answer_that_blames_nobody_is_decided_message_by_message() {
    for fault in [
        Fault::code("ValidationException"),
        Fault::code("AccessDeniedException"),
        Fault::code("ResourceNotFoundException"),
        Fault::code("IdempotentParameterMismatchException"),
    ] {
        let lab = Lab::claiming_at_commit().await;
        lab.wire.next(COMMIT, fault.clone());
        let all = ids(0..4);
        let messages = batch(all.iter().map(|id| own(id)));
        assert!(
            lab.failures(&bank(&lab), messages).await.is_empty(),
            "{fault:?}"
        );
        assert_eq!(lab.wire.take_operations(), [COMMIT; 5], "{fault:?}");
        let counted: u32 = lab.take_reports().iter().map(|told| told.requests).sum();
        assert_eq!(counted, 5, "{fault:?}");
        assert_paid_once(&lab, &all).await;
    }
}

#[tokio::test]
async fn one_message_that_the_store_refuses_outright_fails_no_other() {
    let lab = Lab::claiming_at_commit().await;
    let tables = lab.tables.clone();
    // A key attribute must not be empty: DynamoDB refuses the whole transaction, and names nobody.
    let service = idempotency(&lab)
        .sqs(move |message: Message<Payment>| {
            let tables = tables.clone();
            async move { Ok(pay(&tables, &message.body)) }
        })
        .key(Key::message_id())
        .group_commits(LINGER);
    let mut messages: Vec<Record> = ids(0..4).iter().map(|id| own(id)).collect();
    messages.insert(2, into("bad", ""));
    assert_eq!(lab.failures(&service, batch(messages)).await, ["bad"]);
    let paid: Vec<String> = ids(0..4);
    for id in &paid {
        assert_eq!(lab.balance(&format!("account-{id}")).await, 10);
    }
}

#[tokio::test]
async fn an_unknown_group_is_sent_again_as_it_was() {
    for fault in [
        Fault::LostReply,
        Fault::Reset,
        Fault::AnswerInstead(500, json!({})),
        Fault::code("TransactionInProgressException"),
        Fault::code("ThrottlingException"),
        Fault::code("TransactionConflictException"),
    ] {
        let lab = Lab::claiming_at_commit().await;
        lab.wire.next(COMMIT, fault.clone());
        let all = ids(0..4);
        let messages = batch(all.iter().map(|id| own(id)));
        assert!(
            lab.failures(&bank(&lab), messages).await.is_empty(),
            "{fault:?}"
        );
        let sent = lab.wire.take_sent();
        assert_eq!(sent.len(), 2, "{fault:?}");
        assert_eq!(sent[0].body, sent[1].body, "{fault:?}");
        assert_paid_once(&lab, &all).await;
    }
}

#[tokio::test]
async fn a_group_that_stays_unknown_is_settled_by_reads_and_runs_no_handler_again() {
    let all = ids(0..4);
    // It landed.
    let lab = Lab::claiming_at_commit().await;
    lab.wire.next(COMMIT, Fault::LostReply);
    lab.wire.always(COMMIT, Fault::code("InternalServerError"));
    let messages = batch(all.iter().map(|id| own(id)));
    assert!(lab.failures(&bank(&lab), messages).await.is_empty());
    assert_paid_once(&lab, &all).await;
    // It did not, and lands later.
    let lab = Lab::claiming_at_commit().await;
    lab.wire.always(COMMIT, Fault::Late);
    let messages = || batch(all.iter().map(|id| own(id)));
    assert_eq!(lab.failures(&bank(&lab), messages()).await, all);
    assert_eq!(lab.count(&lab.tables.payments).await, 0);
    lab.wire.heal();
    lab.wire.deliver_late().await;
    assert!(lab.failures(&bank(&lab), messages()).await.is_empty());
    assert_paid_once(&lab, &all).await;
}

#[tokio::test]
async fn a_late_copy_of_a_group_is_not_forgotten_when_its_messages_are_refused() {
    let all = ids(0..2);
    let refused = ["None", "ConditionalCheckFailed", "None"];
    for refusals in [
        vec![Fault::cancelled(&refused.repeat(2))],
        // The group, and then each alone.
        vec![Fault::code("ValidationException"); 3],
    ] {
        let lab = Lab::claiming_at_commit().await;
        lab.wire.next(COMMIT, Fault::Late);
        for refusal in refusals {
            lab.wire.next(COMMIT, refusal);
        }
        let messages = || batch(all.iter().map(|id| own(id)));
        let service = bank_on(&lab, lab.store().attempts(2));
        assert_eq!(lab.failures(&service, messages()).await, all);
        assert_eq!(lab.wire.unused_faults(), 0);
        for report in lab.take_reports() {
            let told = report.error.unwrap();
            assert!(told.contains("it is not known whether"), "{told}");
        }
        assert_eq!(lab.wire.deliver_late().await, [200]);
        assert!(lab.failures(&bank(&lab), messages()).await.is_empty());
        assert_paid_once(&lab, &all).await;
    }
}

#[tokio::test]
async fn a_group_that_is_in_conflict_lets_the_others_go_on() {
    let lab = Lab::claiming_at_commit().await;
    // Three actions a message: the second message's account is in another transaction.
    let codes = [
        "None",
        "None",
        "None",
        "None",
        "None",
        "TransactionConflict",
    ];
    lab.wire.next(
        COMMIT,
        Fault::cancelled(&[&codes[..], &["None"; 6]].concat()),
    );
    let all = ids(0..4);
    let messages = batch(all.iter().map(|id| own(id)));
    assert!(lab.failures(&bank(&lab), messages).await.is_empty());
    let mut sizes: Vec<usize> = lab
        .wire
        .take_sent()
        .iter()
        .map(|sent| sent.body["TransactItems"].as_array().unwrap().len())
        .collect();
    sizes.sort_unstable();
    assert_eq!(sizes, [3, 9, 12]);
    assert_paid_once(&lab, &all).await;
}

#[tokio::test]
async fn reasons_that_do_not_fit_the_group_are_not_believed_and_each_message_is_decided_alone() {
    for codes in [
        vec!["ConditionalCheckFailed"],
        vec!["None"; 12],
        vec!["None"; 13],
        [vec!["SomethingNew"], vec!["None"; 11]].concat(),
        [vec!["ConditionalCheckFailed"], vec!["None"; 12]].concat(),
    ] {
        let lab = Lab::claiming_at_commit().await;
        lab.wire.next(COMMIT, Fault::cancelled(&codes));
        let all = ids(0..4);
        let messages = batch(all.iter().map(|id| own(id)));
        let failures = lab.failures(&bank(&lab), messages).await;
        assert!(failures.is_empty(), "{codes:?}: {failures:?}");
        assert_eq!(lab.wire.take_operations(), [COMMIT; 5], "{codes:?}");
        assert_paid_once(&lab, &all).await;
    }
}

#[tokio::test]
async fn a_fifo_group_is_committed_in_order_one_message_at_a_time() {
    let lab = Lab::claiming_at_commit().await;
    let messages = (0..12).map(|n| {
        let id = format!("p-{n}");
        own(&id).in_group(&format!("g-{}", n % 3))
    });
    assert!(lab.failures(&bank(&lab), batch(messages)).await.is_empty());
    let mut order = vec![Vec::new(); 3];
    for sent in lab.wire.take_sent() {
        let mut groups = Vec::new();
        for item in sent.body["TransactItems"].as_array().unwrap() {
            let Some(id) = item["Put"]["Item"]["id"]["S"].as_str() else {
                continue;
            };
            let Some(n) = id.strip_prefix("p-") else {
                continue;
            };
            let n: usize = n.parse().unwrap();
            assert!(
                !groups.contains(&(n % 3)),
                "two of one group in one transaction"
            );
            groups.push(n % 3);
            order[n % 3].push(n);
        }
    }
    assert_eq!(
        order,
        [vec![0, 3, 6, 9], vec![1, 4, 7, 10], vec![2, 5, 8, 11]]
    );
    assert_paid_once(&lab, &ids(0..12)).await;
}

#[tokio::test]
async fn one_key_twice_in_a_batch_is_committed_and_then_a_duplicate() {
    let lab = Lab::claiming_at_commit().await;
    let messages = [
        own("p-0"),
        own("p-0").with("messageId", "again"),
        own("p-1"),
    ];
    assert!(lab.failures(&bank(&lab), batch(messages)).await.is_empty());
    let outcomes: Vec<_> = lab.take_reports().into_iter().map(|r| r.outcome).collect();
    assert_eq!(
        outcomes
            .iter()
            .filter(|o| **o == Outcome::Duplicate)
            .count(),
        1
    );
    assert_paid_once(&lab, &ids(0..2)).await;
}

#[tokio::test]
async fn errors_and_panics_of_handlers_keep_nobody_waiting() {
    let lab = Lab::claiming_at_commit().await;
    let tables = lab.tables.clone();
    let service = idempotency(&lab)
        .sqs(move |message: Message<Payment>| {
            let tables = tables.clone();
            async move {
                match message.body.id.as_str() {
                    "error" => Err("no".into()),
                    "panic" => panic!("at the disco"),
                    _ => Ok(pay(&tables, &message.body)),
                }
            }
        })
        .key(Key::body("/id").unwrap())
        .group_commits(LINGER);
    let messages = ["error", "p-0", "panic", "p-1"].map(own);
    assert_eq!(
        lab.failures(&service, batch(messages)).await,
        ["error", "panic"]
    );
    assert_eq!(lab.wire.take_operations(), [COMMIT]);
    assert_paid_once(&lab, &ids(0..2)).await;
}

#[tokio::test]
async fn messages_without_a_key_commit_alone() {
    let lab = Lab::claiming_at_commit().await;
    let service = bank(&lab)
        .key(Key::body("/missing").unwrap())
        .missing_key(lambda_idempotency::MissingKey::RunUnprotected);
    let all = ids(0..3);
    assert!(
        lab.failures(&service, batch(all.iter().map(|id| own(id))))
            .await
            .is_empty()
    );
    assert_eq!(lab.wire.take_operations(), [COMMIT; 3]);
    assert_eq!(lab.count(&lab.tables.records).await, 0);
    assert_eq!(lab.count(&lab.tables.payments).await, 3);
}

#[tokio::test]
async fn many_workers_with_the_same_messages_apply_each_once() {
    for _ in 0..10 {
        let lab = Lab::claiming_at_commit().await;
        let services = [bank(&lab), bank(&lab), bank(&lab), bank(&lab)];
        let all = ids(0..10);
        let messages = || batch(all.iter().map(|id| own(id)));
        let responses = tokio::join!(
            lab.failures(&services[0], messages()),
            lab.failures(&services[1], messages()),
            lab.failures(&services[2], messages()),
            lab.failures(&services[3], messages()),
        );
        assert!(
            responses.0.is_empty() && responses.3.is_empty(),
            "{responses:?}"
        );
        assert_paid_once(&lab, &all).await;
    }
}
