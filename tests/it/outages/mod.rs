//! A store that is down, busy, slow or full, and events at and beyond Lambda's limit: the response
//! stays truthful, the invocation ends in time, and what is under way at once stays bounded.

mod busy;
mod down;
mod full;
mod large;
mod slow;

use std::collections::BTreeSet;
use std::time::Duration;

use lambda_idempotency::{Clock as _, Handler, SqsService};

use crate::support::{Lab, ManualClock, Payment, Record, batch, drive, text};

const SECOND: Duration = Duration::from_secs(1);

/// A lab whose pauses take place side by side.
async fn lab() -> Lab {
    Lab::with_clock(ManualClock::driven()).await
}

/// The ids of so many messages, each a payment of 10 into the account `a`.
fn messages(count: usize) -> Vec<String> {
    (0..count).map(|n| format!("m-{n}")).collect()
}

/// Delivers these in an invocation of this time: it ends before its deadline, and reports some of
/// them, each once.
async fn deliver<H: Handler<Payment>>(
    lab: &Lab,
    service: &SqsService<H, Payment>,
    messages: &[String],
    time: Duration,
) -> BTreeSet<String> {
    let deadline = lab.clock.now() + time;
    let records = messages.iter().map(|id| Record::payment(id, id));
    let response = drive(lab, lab.process_until(deadline, service, batch(records))).await;
    assert!(lab.clock.now() < deadline, "past the deadline");
    let failures = response.unwrap().batch_item_failures;
    let count = failures.len();
    let reported: BTreeSet<String> = failures
        .into_iter()
        .map(|failure| failure.item_identifier)
        .collect();
    assert_eq!(reported.len(), count, "reported twice");
    assert!(reported.iter().all(|id| messages.contains(id)));
    reported
}

/// The messages that are done, by the rows in the store; each has its effect, and no other has one.
async fn done(lab: &Lab) -> BTreeSet<String> {
    let records = lab.items(&lab.tables.records).await;
    let completed = records
        .iter()
        .filter(|record| record["status"] == text("COMPLETED"));
    let done: BTreeSet<String> = completed
        .map(|record| record["id"].as_s().unwrap()["tests#".len()..].to_owned())
        .collect();
    let payments = lab.items(&lab.tables.payments).await;
    let paid: BTreeSet<String> = payments
        .iter()
        .map(|payment| payment["id"].as_s().unwrap().clone())
        .collect();
    assert_eq!(done, paid);
    assert_eq!(lab.balance("a").await, 10 * done.len() as u64);
    done
}

/// Exactly the messages that are not done are reported.
async fn assert_exact(lab: &Lab, messages: &[String], reported: &BTreeSet<String>) {
    let all: BTreeSet<String> = messages.iter().cloned().collect();
    let done = done(lab).await;
    assert_eq!(&all - &done, *reported);
}

/// Every message that is not reported is done. One whose replies were lost may be both.
async fn assert_none_lost(lab: &Lab, messages: &[String], reported: &BTreeSet<String>) {
    let done = done(lab).await;
    for id in messages {
        assert!(reported.contains(id) || done.contains(id), "{id} is lost");
    }
}

/// Once the store is well and all leases have ended, one more delivery of what was reported does all
/// of it, and once.
async fn assert_recovers<H: Handler<Payment>>(
    lab: &Lab,
    service: &SqsService<H, Payment>,
    messages: &[String],
    reported: &BTreeSet<String>,
) {
    lab.wire.heal();
    lab.clock.advance(61 * SECOND);
    let again: Vec<String> = reported.iter().cloned().collect();
    let left = deliver(lab, service, &again, 600 * SECOND).await;
    assert!(left.is_empty(), "{left:?}");
    assert_eq!(done(lab).await.len(), messages.len());
}

/// The messages whose keys the store was asked for since the last look at the wire.
fn asked_for(lab: &Lab) -> BTreeSet<String> {
    let takes_the_key = lab.takes_the_key();
    let sent = lab.wire.take_sent().into_iter();
    let asked = sent.filter(|sent| sent.operation == takes_the_key);
    // A claim, or the puts of a transaction.
    let puts = asked.flat_map(|asked| match asked.body["TransactItems"].as_array() {
        Some(actions) => actions.iter().map(|action| action["Put"].clone()).collect(),
        None => vec![asked.body],
    });
    puts.filter(|put| put["TableName"] == lab.tables.records.as_str())
        .map(|put| put["Item"]["id"]["S"].as_str().unwrap().to_owned())
        .collect()
}
