//! What happens to a message alone, happening to one of several in one transaction.

use aws_sdk_dynamodb::types::ConditionCheck;
use lambda_idempotency::{HandlerError, Key, Message, Outcome, Transaction};
use serde_json::{Value, json};

use crate::groups::{LINGER, assert_paid_once, bank, bank_on, idempotency, ids, own};
use crate::support::{COMMIT, Fault, Lab, Record, batch, text};

/// The reasons of a group of four payments, where the second's record or first write has this one.
fn second_has(code: &'static str, at_its_record: bool) -> Fault {
    let mut codes = ["None"; 12];
    codes[if at_its_record { 3 } else { 4 }] = code;
    Fault::cancelled(&codes)
}

#[tokio::test]
async fn a_write_that_can_never_be_committed_fails_its_own_message_and_is_named() {
    for code in ["ValidationError", "ItemCollectionSizeLimitExceeded"] {
        let lab = Lab::claiming_at_commit().await;
        lab.wire.next(COMMIT, second_has(code, false));
        let messages = batch(ids(0..4).iter().map(|id| own(id)));
        assert_eq!(lab.failures(&bank(&lab), messages).await, ["p-1"]);
        let reports = lab.take_reports();
        let mut failed = reports.iter().filter_map(|report| report.error.as_deref());
        let told = failed.next().unwrap();
        assert!(
            told.contains("write 0 (put on") && told.contains(code),
            "{told}"
        );
        assert_eq!(failed.next(), None);
        // The group, the rest of it, and the read that settles the one that failed.
        let mut operations = lab.wire.take_operations();
        operations.sort();
        assert_eq!(operations, ["GetItem", COMMIT, COMMIT]);
        assert_paid_once(&lab, &["p-0", "p-2", "p-3"].map(str::to_owned)).await;
    }
}

#[tokio::test]
async fn what_passes_is_tried_again_for_its_own_message() {
    for code in [
        "TransactionConflict",
        "ThrottlingError",
        "ProvisionedThroughputExceeded",
    ] {
        let lab = Lab::claiming_at_commit().await;
        lab.wire.next(COMMIT, second_has(code, false));
        let all = ids(0..4);
        let messages = batch(all.iter().map(|id| own(id)));
        assert!(
            lab.failures(&bank(&lab), messages).await.is_empty(),
            "{code}"
        );
        assert_eq!(lab.wire.take_operations(), [COMMIT; 3], "{code}");
        assert_paid_once(&lab, &all).await;
    }
}

#[tokio::test]
async fn a_refusal_that_does_not_show_the_record_is_read_for_its_own_message() {
    let lab = Lab::claiming_at_commit().await;
    let service = bank(&lab);
    assert!(lab.failures(&service, batch([own("p-1")])).await.is_empty());
    lab.take_reports();
    lab.wire.take_operations();
    let refusal = second_has("ConditionalCheckFailed", true);
    lab.wire.next(COMMIT, refusal);
    let all = ids(0..4);
    let messages = batch(all.iter().map(|id| own(id)));
    assert!(lab.failures(&service, messages).await.is_empty());
    let mut operations = lab.wire.take_operations();
    operations.sort();
    assert_eq!(operations, ["GetItem", COMMIT, COMMIT]);
    let outcomes = lab.take_outcomes();
    assert_eq!(outcomes[1], "p-1 duplicate", "{outcomes:?}");
    assert_paid_once(&lab, &all).await;
}

#[tokio::test]
async fn a_group_that_landed_before_it_was_refused_is_found_by_each_message() {
    let all = ids(0..4);
    // How often the commits of single messages are refused too, after the group was.
    for refused_alone in [0, 4] {
        for attempts in [1, 2] {
            let lab = Lab::claiming_at_commit().await;
            let store = lab.store().attempts(attempts);
            lab.wire.next(COMMIT, Fault::LostReply);
            for _ in 0..=refused_alone {
                lab.wire.next(COMMIT, Fault::code("AccessDeniedException"));
            }
            let messages = batch(all.iter().map(|id| own(id)));
            let service = bank_on(&lab, store);
            assert!(lab.failures(&service, messages).await.is_empty());
            assert_eq!(lab.wire.unused_faults(), 0);
            let reports = lab.take_reports();
            let all_completed = |outcome| outcome == Outcome::Completed;
            assert!(reports.iter().map(|told| told.outcome).all(all_completed));
            assert_paid_once(&lab, &all).await;
        }
    }
}

/// Puts what the body says: a version if it is newer, or what can't be and then an alternative.
fn puts(payments: &str, body: &Value) -> Transaction<String> {
    let id = body["id"].as_str().unwrap();
    let item = json!({ "id": id, "version": body["version"] });
    match body["version"].as_u64() {
        Some(_) => Transaction::new()
            .put_if_newer(payments, item, "version")
            .returning("newer".to_owned()),
        None => {
            let check = ConditionCheck::builder()
                .table_name(payments)
                .key("id", text(id))
                .condition_expression("attribute_exists(id)")
                .build()
                .unwrap();
            let other = json!({ "id": format!("other-{id}") });
            Transaction::new()
                .write(check)
                .returning("first".to_owned())
                .otherwise(
                    Transaction::new()
                        .put(payments, other)
                        .returning("other".to_owned()),
                )
        }
    }
}

#[tokio::test]
async fn older_versions_and_alternatives_are_committed_for_their_own_messages() {
    let lab = Lab::claiming_at_commit().await;
    let payments = lab.tables.payments.clone();
    let service = idempotency(&lab)
        .sqs(move |message: Message<Value>| {
            let transaction = puts(&payments, &message.body);
            async { Ok::<_, HandlerError>(transaction) }
        })
        .key(Key::message_id())
        .group_commits(LINGER);
    let first = Record::new("m-0", json!({ "id": "a", "version": 5 }));
    assert!(lab.failures(&service, batch([first])).await.is_empty());
    lab.take_reports();
    lab.wire.take_operations();
    let records = [
        Record::new("m-1", json!({ "id": "a", "version": 4 })),
        Record::new("m-2", json!({ "id": "b", "version": 1 })),
        Record::new("m-3", json!({ "id": "c" })),
        Record::new("m-4", json!({ "id": "d", "version": 1 })),
    ];
    assert!(lab.failures(&service, batch(records)).await.is_empty());
    let mut told: Vec<_> = lab
        .take_reports()
        .into_iter()
        .map(|told| (told.message_id.unwrap(), told.reason, told.result))
        .collect();
    told.sort_by(|one, other| one.0.cmp(&other.0));
    let results: Vec<Option<&str>> = told.iter().map(|told| told.2.as_deref()).collect();
    let newer = Some("\"newer\"");
    assert_eq!(results, [None, newer, Some("\"other\""), newer]);
    let reason = told[0].1.map(|reason| reason.as_str());
    assert_eq!(reason, Some("stale"));
    // The group; the record of the stale one, the alternative, and the rest of the group.
    let mut operations = lab.wire.take_operations();
    operations.sort();
    assert_eq!(operations, ["PutItem", COMMIT, COMMIT, COMMIT]);
    assert_eq!(lab.records().await, 5);
    assert_eq!(lab.count(&lab.tables.payments).await, 4);
}
