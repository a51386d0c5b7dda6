//! A transaction that fills the 4 MB that DynamoDB takes.

use lambda_idempotency::{HandlerError, Message, Transaction};
use serde_json::json;

use crate::support::{Lab, Payment, Record, Step, batch};

const MOST_BYTES: usize = 4 * 1024 * 1024;
const ITEMS: usize = 11;

/// Delivers one message whose writes have this many bytes, names of attributes included.
async fn write(lab: &Lab, bytes: usize) -> Vec<String> {
    let table = lab.tables.payments.clone();
    let service = lab.idempotency().sqs(move |_: Message<Payment>| {
        let mut left = bytes;
        let mut writes = Transaction::new();
        for n in 0..ITEMS {
            let share = left / (ITEMS - n);
            left -= share;
            // `id`, two digits, `text`.
            let text = "x".repeat(share - 2 - 2 - 4);
            writes = writes.put(&table, json!({ "id": format!("{n:02}"), "text": text }));
        }
        async { Ok::<_, HandlerError>(writes) }
    });
    let one = batch([Record::payment("m-1", "p-1")]);
    lab.failures(&service, one).await
}

#[tokio::test]
async fn a_transaction_of_just_below_four_megabytes_is_committed_and_one_above_is_refused_unsent() {
    let lab = Lab::new().await;
    let above = write(&lab, MOST_BYTES + 1).await;
    assert_eq!(above, ["m-1"]);
    assert_eq!(
        lab.wire.take_operations(),
        lab.steps(&[Step::Claim, Step::GiveBack])
    );
    let told = lab.take_report();
    assert_eq!(told.reason.unwrap().as_str(), "commit");
    assert!(told.error.unwrap().contains("4194305 bytes"));
    assert_eq!(lab.records().await, 0);
    assert_eq!(lab.count(&lab.tables.payments).await, 0);

    // The record takes a part of it; and ministack counts the request as it is written, in JSON.
    let below = write(&lab, MOST_BYTES - 4_096).await;
    assert!(below.is_empty(), "{:?}", lab.take_report());
    assert_eq!(lab.count(&lab.tables.payments).await, ITEMS);
}

#[tokio::test]
async fn a_transaction_that_is_too_large_only_with_its_record_is_done_whole_or_not_at_all() {
    let lab = Lab::new().await;
    let reported = write(&lab, MOST_BYTES).await;
    let written = lab.count(&lab.tables.payments).await;
    match reported.as_slice() {
        [] => assert_eq!((written, lab.records().await), (ITEMS, 1)),
        _ => {
            assert_eq!((written, lab.records().await), (0, 0));
            // DynamoDB's refusal: it is not tried again.
            let operations = lab.wire.take_operations();
            assert_eq!(
                operations,
                lab.steps(&[Step::Claim, Step::Commit, Step::Settle])
            );
            assert_eq!(lab.take_report().reason.unwrap().as_str(), "commit");
        }
    }
}
