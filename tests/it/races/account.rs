//! Messages that add to the same accounts.

use std::sync::Arc;

use serde_json::json;

use super::{lab, race};
use crate::support::{Bank, Record, batch};

const BATCHES: usize = 16;
const MESSAGES: usize = 20;

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn three_hundred_and_twenty_messages_that_add_to_two_accounts_are_all_counted_once() {
    let lab = lab().await;
    // Two, so that the messages of a batch that are under way can go together, and meet those of
    // other batches.
    let mut tables = lab.tables.clone();
    tables.spreads_accounts = false;
    let deliveries = (0..BATCHES).map(|at| {
        let lab = Arc::clone(&lab);
        let service = lab.idempotency().sqs(Bank(tables.clone())).concurrency(2);
        let records = (0..MESSAGES).map(move |n| {
            let name = format!("{at}-{n}");
            let account = format!("a/{}", n % 2);
            let payment = json!({ "id": name, "account": account, "amount": 10 });
            Record::new(&name, payment)
        });
        async move { lab.failures(&service, batch(records)).await }
    });
    for failures in race(deliveries).await {
        assert!(failures.is_empty(), "{failures:?}");
    }
    assert_eq!(lab.balance("a").await, 3_200);
    assert_eq!(lab.count(&lab.tables.payments).await, 320);
    // Otherwise they did not race.
    assert!(lab.wire.conflicts() > 0);
}
