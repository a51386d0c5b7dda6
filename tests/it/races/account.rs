//! Messages that add to one account.

use std::sync::Arc;

use super::{lab, race};
use crate::support::{Bank, Record, batch};

const BATCHES: usize = 16;
const MESSAGES: usize = 20;

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn three_hundred_and_twenty_messages_that_add_to_one_account_are_all_counted_once() {
    let lab = lab().await;
    let deliveries = (0..BATCHES).map(|at| {
        let lab = Arc::clone(&lab);
        let service = lab
            .idempotency()
            .sqs(Bank(lab.tables.clone()))
            .concurrency(2);
        let names = (0..MESSAGES).map(move |n| format!("{at}-{n}"));
        let records = names.map(|name| Record::payment(&name, &name));
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
