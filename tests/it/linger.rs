//! How long a commit waits for those of other messages.

use std::time::Duration;

use lambda_idempotency::{
    Clock as _, Handler, HandlerError, Idempotency, Key, Message, SqsService, Transaction,
};

use crate::groups::{LINGER, assert_paid_once, idempotency, own};
use crate::support::{COMMIT, Lab, ManualClock, Payment, Wire, batch, pay};

/// A payer that has to do something first, if the payment is named `slow`. Commits linger so long.
fn payer<F, Fut>(
    lab: &Lab,
    idempotency: &Idempotency,
    linger: Duration,
    slowly: F,
) -> SqsService<impl Handler<Payment, Output = Transaction> + use<F, Fut>, Payment>
where
    F: Fn(Wire, ManualClock) -> Fut + Send + Sync + 'static,
    Fut: Future<Output = ()> + Send,
{
    let (tables, wire, clock) = (lab.tables.clone(), lab.wire.clone(), lab.clock.clone());
    idempotency
        .sqs(move |message: Message<Payment>| {
            let transaction = pay(&tables, &message.body);
            let is_slow = message.body.id == "slow";
            let slowly = is_slow.then(|| slowly(wire.clone(), clock.clone()));
            async move {
                if let Some(slowly) = slowly {
                    slowly.await;
                }
                Ok::<_, HandlerError>(transaction)
            }
        })
        .key(Key::body("/id").unwrap())
        .group_commits(linger)
}

/// Pays `slow` and two others, and returns the operations that were not taken from the wire.
async fn pay_three<H>(lab: &Lab, service: &SqsService<H, Payment>) -> Vec<String>
where
    H: Handler<Payment>,
{
    let ids = ["slow", "p-1", "p-2"];
    let messages = batch(ids.map(own));
    assert!(lab.failures(service, messages).await.is_empty());
    assert_paid_once(lab, &ids.map(str::to_owned)).await;
    lab.wire.take_operations()
}

#[tokio::test]
async fn a_commit_that_lingers_goes_with_one_that_is_ready_a_little_later() {
    let lab = Lab::claiming_at_commit().await;
    let service = payer(&lab, &idempotency(&lab), LINGER, async |_, _| {
        for _ in 0..100 {
            tokio::task::yield_now().await;
        }
    });
    assert_eq!(pay_three(&lab, &service).await, [COMMIT]);
}

/// Lets the time pass, in small steps, until something is sent.
async fn until_something_is_sent(wire: Wire, clock: ManualClock) {
    while wire.take_operations().is_empty() {
        tokio::task::yield_now().await;
        clock.advance(LINGER);
    }
}

#[tokio::test]
async fn a_commit_waits_for_a_slow_handler_no_longer_than_it_lingers() {
    let lab = Lab::claiming_at_commit().await;
    let service = payer(&lab, &idempotency(&lab), LINGER, until_something_is_sent);
    assert_eq!(pay_three(&lab, &service).await, [COMMIT]);
}

#[tokio::test]
async fn a_commit_lingers_for_a_tenth_of_the_time_at_most() {
    let lab = Lab::claiming_at_commit().await;
    let started = lab.clock.now();
    let linger = Duration::from_secs(20);
    let service = payer(&lab, &idempotency(&lab), linger, until_something_is_sent);
    assert_eq!(pay_three(&lab, &service).await, [COMMIT]);
    let took = lab.clock.now().duration_since(started).unwrap();
    assert!(took < Duration::from_secs(4), "{took:?} of 30 s");
}

#[tokio::test]
async fn a_commit_does_not_linger_until_nobody_waits_for_it_any_more() {
    let lab = Lab::claiming_at_commit().await;
    let idempotency = lab
        .builder()
        .key_attributes(&lab.tables.payments, ["id"])
        .retry_for(Duration::from_secs(1))
        .build()
        .unwrap();
    let linger = Duration::from_secs(20);
    let service = payer(&lab, &idempotency, linger, until_something_is_sent);
    assert_eq!(pay_three(&lab, &service).await, [COMMIT]);
}
