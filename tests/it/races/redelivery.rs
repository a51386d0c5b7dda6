//! Deliveries of one and the same batch at once, while replies are lost, handlers fail, and leases end.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use lambda_idempotency::{Clock as _, HandlerError, Message};

use super::{lab, race};
use crate::support::{Fault, Payment, Record, Step, batch, pay};

const MESSAGES: usize = 20;
/// Of each kind.
const LOST_REPLIES: usize = 30;
/// The handler fails so often, whatever it is given.
const FAILURES: u32 = 30;

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_batch_that_is_delivered_many_times_at_once_is_applied_once_and_in_the_end_acknowledged()
{
    let lab = lab().await;
    for _ in 0..LOST_REPLIES {
        for operation in lab.steps(&[Step::Claim, Step::Commit, Step::Settle]) {
            lab.wire.next(operation, Fault::LostReply);
        }
    }
    let failures = Arc::new(AtomicU32::new(0));
    let deliveries = (0_i64..16).map(|racer| {
        let (lab, failures) = (Arc::clone(&lab), Arc::clone(&failures));
        async move {
            let tables = lab.tables.clone();
            // For a worker whose clock is ahead, the leases of the others have always ended.
            let clock = lab.clock.skewed(31 * (racer % 4));
            let idempotency = lab.builder().clock(clock.clone()).build().unwrap();
            let service = idempotency.sqs(move |message: Message<Payment>| {
                let fails = failures.fetch_add(1, Ordering::Relaxed) < FAILURES;
                let writes = pay(&tables, &message.body);
                async move {
                    match fails {
                        true => Err(HandlerError::from("not yet")),
                        false => Ok(writes),
                    }
                }
            });
            let mut left: Vec<String> = (0..MESSAGES).map(|n| format!("m-{n}")).collect();
            let mut deliveries = 0;
            while !left.is_empty() {
                let received = (deliveries + 1).to_string();
                let records = left.iter().map(|id| {
                    Record::payment(id, id).attribute("ApproximateReceiveCount", &*received)
                });
                let deadline = clock.now() + Duration::from_secs(30);
                let response = lab.process_until(deadline, &service, batch(records));
                let response = response.await.unwrap();
                let reported: Vec<String> = response
                    .batch_item_failures
                    .into_iter()
                    .map(|failure| failure.item_identifier)
                    .collect();
                assert!(reported.iter().all(|id| left.contains(id)), "{reported:?}");
                left = reported;
                deliveries += 1;
            }
            deliveries
        }
    });
    let deliveries: Vec<u32> = race(deliveries).await;
    assert!(deliveries.iter().sum::<u32>() > 16, "nothing came back");
    assert_eq!(lab.wire.unused_faults(), 0);
    assert_eq!(lab.balance("a").await, 200);
    assert_eq!(lab.count(&lab.tables.payments).await, 20);
    let completed = lab
        .take_outcomes()
        .iter()
        .filter(|outcome| outcome.ends_with(" completed"))
        .count();
    assert_eq!(completed, 20);
}
