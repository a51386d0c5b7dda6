//! Many at once, over several threads: on one key, on one account, on redeliveries, on ended leases.
//!
//! The wire shows conflicts as DynamoDB does. The clock stands, so that no racer runs out of time.

mod account;
mod key;
mod redelivery;
mod takeover;

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use lambda_idempotency::{Clock as _, Done, Transaction};

use crate::support::{Lab, ManualClock, Paid, Payment, pay, text};

/// How many race at once.
const RACERS: usize = 16;

const ROUNDS: usize = 50;

/// A lab that conflicts.
async fn lab() -> Arc<Lab> {
    let lab = Lab::with_clock(ManualClock::standing()).await;
    lab.wire.show_conflicts();
    Arc::new(lab)
}

/// Runs these at once, each as a task of its own, and waits for all.
async fn race<T: Send + 'static>(
    racers: impl IntoIterator<Item = impl Future<Output = T> + Send + 'static>,
) -> Vec<T> {
    let tasks: Vec<_> = racers.into_iter().map(tokio::spawn).collect();
    let mut results = Vec::new();
    for task in tasks {
        results.push(task.await.unwrap());
    }
    results
}

/// An attempt to pay 10 into the account `name` under the key `name`.
struct Attempt {
    lab: Arc<Lab>,
    /// What the worker's clock is off by, in seconds. It reckons its deadline by it, too.
    off_by: i64,
    name: String,
    /// Whether the handler fails.
    fails: bool,
    /// How often handlers ran.
    runs: Arc<AtomicU32>,
}

impl Attempt {
    async fn make(self) -> Paid {
        let Self { lab, runs, .. } = self;
        let clock = lab.clock.skewed(self.off_by);
        let deadline = clock.now() + Duration::from_secs(30);
        let idempotency = lab.builder().clock(clock).build().unwrap();
        let payment = Payment {
            id: self.name.clone(),
            account: self.name.clone(),
            amount: 10,
        };
        let writes: Transaction<String> = pay(&lab.tables, &payment).returning("paid".to_owned());
        let work = async |_| {
            runs.fetch_add(1, Ordering::Relaxed);
            tokio::task::yield_now().await;
            if self.fails {
                return Err("no".into());
            }
            Ok(writes)
        };
        idempotency.run(&self.name, &(), deadline, work).await
    }
}

/// How many of these committed.
fn winners(results: &[Paid]) -> usize {
    let is_winner = |result: &&Paid| matches!(result, Ok(Done::Completed(_)));
    results.iter().filter(is_winner).count()
}

/// The payment of this name was applied once, and its record says so.
async fn assert_paid_once(lab: &Lab, name: &str) {
    assert_eq!(lab.balance(name).await, 10, "{name}");
    let record = lab.record(name).await.unwrap();
    assert_eq!(record["status"], text("COMPLETED"), "{name}");
    assert_eq!(record["data"], text("\"paid\""), "{name}");
    assert!(lab.item(&lab.tables.payments, name).await.is_some());
}
