//! What goes wrong if a utility writes its marker apart from the effect, and releases and completes
//! without a condition. Each of the two was measured on such a utility; the balance that it came to is
//! named beside the right one.

use std::time::Duration;

use lambda_idempotency::{Clock as _, Handler, HandlerError, Message, SqsService, Transaction};
use serde_json::json;

use crate::support::{COMMIT, Fault, Hold, Lab, Payment, Record, batch, pay, text};

/// A payment of 40 into the account `a`.
fn payment(id: &str) -> Record {
    Record::new(id, json!({ "id": id, "account": "a", "amount": 40 }))
}

fn bank(lab: &Lab) -> SqsService<impl Handler<Payment> + use<>, Payment> {
    let tables = lab.tables.clone();
    lab.idempotency().sqs(move |message: Message<Payment>| {
        let writes = pay(&tables, &message.body);
        async { Ok::<Transaction, HandlerError>(writes) }
    })
}

/// Delivers the payment, and lets the process die once `is_there`.
async fn die_when(lab: &Lab, id: &str, is_there: impl AsyncFn() -> bool) {
    let service = bank(lab);
    let dies = async {
        while !is_there().await {
            tokio::task::yield_now().await;
        }
    };
    tokio::select! {
        answered = lab.process(&service, batch([payment(id)])) => panic!("{answered:?}"),
        () = dies => {}
    }
}

async fn is_acknowledged(lab: &Lab, id: &str) -> bool {
    let failures = lab.failures(&bank(lab), batch([payment(id)])).await;
    failures.is_empty()
}

#[tokio::test]
async fn a_crash_after_the_effect_leaves_the_marker_too_so_the_balance_is_80_and_not_120() {
    let lab = Lab::new().await;
    assert!(is_acknowledged(&lab, "p-1").await);

    // The effect is there, and the process dies before it hears so.
    lab.wire
        .next(COMMIT, Fault::AppliedThenSilence(Duration::ZERO));
    die_when(&lab, "p-2", async || lab.balance("a").await == 80).await;
    assert_eq!(
        lab.record("p-2").await.unwrap()["status"],
        text("COMPLETED")
    );

    lab.take_reports();
    for _ in 0..3 {
        assert!(is_acknowledged(&lab, "p-2").await);
    }
    assert_eq!(lab.take_outcomes(), ["p-2 duplicate"; 3]);
    assert_eq!(lab.balance("a").await, 80);
}

#[tokio::test]
async fn a_crash_before_the_effect_leaves_no_marker_so_the_balance_is_80_and_not_40() {
    let lab = Lab::new().await;
    assert!(is_acknowledged(&lab, "p-1").await);

    // The process dies with the commit on its lips.
    lab.wire.next(COMMIT, Fault::Silence(Duration::ZERO));
    let commits = async || lab.wire.unused_faults() == 0;
    die_when(&lab, "p-2", commits).await;
    assert_eq!(lab.balance("a").await, 40);

    // A claim, if there is one, holds until its invocation would have ended.
    let is_free = lab.mode.runs_before_it_claims();
    assert_eq!(is_acknowledged(&lab, "p-2").await, is_free);
    lab.clock.advance(Duration::from_secs(31));
    for _ in 0..3 {
        assert!(is_acknowledged(&lab, "p-2").await);
    }
    assert_eq!(lab.balance("a").await, 80);
}

#[tokio::test]
async fn a_slow_attempt_that_lost_its_lease_and_failed_undoes_nothing_so_the_balance_is_160_and_not_200()
 {
    let lab = Lab::new().await;
    for id in ["p-1", "p-2", "p-3"] {
        assert!(is_acknowledged(&lab, id).await);
    }

    // A worker whose clock does not show that its time is up, and whose handler fails in the end.
    let hold = Hold::default();
    let behind = lab.builder().clock(lab.clock.skewed(0)).build().unwrap();
    let held = hold.clone();
    let slow = behind.sqs(move |_: Message<Payment>| {
        let hold = held.clone();
        async move {
            hold.here().await;
            Err::<Transaction, _>(HandlerError::from("too late, and wrong"))
        }
    });
    let deadline = lab.clock.now() + Duration::from_secs(30);
    let first = lab.process_until(deadline, &slow, batch([payment("p-4")]));
    let meanwhile = async {
        hold.reached().await;
        lab.clock.advance(Duration::from_secs(31));
        assert!(is_acknowledged(&lab, "p-4").await);
        hold.let_go();
    };
    let (first, ()) = tokio::join!(first, meanwhile);
    // Giving its claim back, it finds that the other attempt has done it. Without a claim it asks
    // nothing, and the redelivery finds it.
    let reported = first.unwrap().batch_item_failures.len();
    assert_eq!(reported, usize::from(lab.mode.runs_before_it_claims()));
    assert_eq!(
        lab.record("p-4").await.unwrap()["status"],
        text("COMPLETED")
    );

    lab.take_reports();
    assert!(is_acknowledged(&lab, "p-4").await);
    assert_eq!(lab.take_outcomes(), ["p-4 duplicate"]);
    assert_eq!(lab.balance("a").await, 160);
}
