//! Attempts that meet on one key: races, takeovers, and what a late attempt can't do any more.

use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use futures_util::future::join_all;
use lambda_idempotency::{Clock as _, Done, Idempotency};
use tokio::sync::oneshot;

use crate::support::{Fault, KEY, Lab, Paid, pay, text};

/// Another worker on the same tables, whose clock is off by this many seconds.
fn worker(lab: &Lab, clock_off_by: i64) -> Idempotency {
    lab.builder()
        .clock(lab.clock.skewed(clock_off_by))
        .build()
        .unwrap()
}

/// The other worker takes the key over, and pays.
async fn pays(lab: &Lab, other: &Idempotency) {
    let deadline = lab.clock.now() + Duration::from_secs(60);
    let done = other.run(KEY, &(), deadline, async |_| {
        Ok(pay(&lab.tables, &lab.payment()).returning("paid".to_owned()))
    });
    assert_eq!(done.await.unwrap(), Done::Completed("paid".to_owned()));
}

/// Work that is overtaken: while it runs its lease ends, and another worker does this.
async fn overtaken<Fut: Future<Output = ()> + Send>(
    lab: &Lab,
    meanwhile: impl FnOnce() -> Fut + Send,
    fails: bool,
) -> Paid {
    lab.run(&lab.idempotency(), &(), async || {
        // The other's clock has passed the end of this lease.
        meanwhile().await;
        if fails {
            return Err("too late anyway".into());
        }
        let mut late = lab.payment();
        late.id = "late".into();
        Ok(pay(&lab.tables, &late).returning("late".to_owned()))
    })
    .await
}

#[tokio::test]
async fn a_late_commit_after_a_takeover_that_completed_is_a_duplicate_and_changes_nothing() {
    let lab = Lab::new().await;
    let other = worker(&lab, 31);
    let late = overtaken(&lab, || pays(&lab, &other), false).await.unwrap();
    assert_eq!(late, Done::Duplicate(Some("paid".to_owned())));
    assert_eq!(lab.balance("a").await, 10);
    assert!(lab.item(&lab.tables.payments, "late").await.is_none());
}

#[tokio::test]
async fn a_late_release_after_a_takeover_that_completed_deletes_nothing() {
    let lab = Lab::claiming_first().await;
    let other = worker(&lab, 31);
    let late = overtaken(&lab, || pays(&lab, &other), true).await.unwrap();
    assert_eq!(late, Done::Duplicate(Some("paid".to_owned())));
    assert_eq!(lab.record(KEY).await.unwrap()["status"], text("COMPLETED"));
    assert_eq!(lab.balance("a").await, 10);
}

#[tokio::test]
async fn a_late_commit_and_a_late_release_leave_the_claim_of_the_one_that_took_over() {
    for fails in [false, true] {
        let lab = Lab::claiming_first().await;
        let other = worker(&lab, 31);
        let (started, is_started) = oneshot::channel();
        let (taken, is_taken) = oneshot::channel();
        let (ended, has_ended) = oneshot::channel();
        let first = async {
            let idempotency = lab.idempotency();
            let late = lab.run(&idempotency, &(), async || {
                started.send(()).unwrap();
                is_taken.await.unwrap();
                if fails {
                    return Err("too late anyway".into());
                }
                Ok(pay(&lab.tables, &lab.payment()).returning("late".to_owned()))
            });
            let late = late.await;
            assert_eq!(lab.record(KEY).await.unwrap()["status"], text("INPROGRESS"));
            ended.send(()).unwrap();
            late
        };
        let second = async {
            is_started.await.unwrap();
            let deadline = lab.clock.now() + Duration::from_secs(90);
            let work = async |_| {
                taken.send(()).unwrap();
                has_ended.await.unwrap();
                Ok(pay(&lab.tables, &lab.payment()).returning("paid".to_owned()))
            };
            other.run(KEY, &(), deadline, work).await
        };
        let (late, done) = tokio::join!(first, second);
        let late = late.unwrap_err();
        assert!(
            if fails {
                late.is_handler()
            } else {
                late.is_lease_lost()
            },
            "{late:?}"
        );
        assert_eq!(done.unwrap(), Done::Completed("paid".to_owned()));
        assert_eq!(lab.balance("a").await, 10);
    }
}

#[tokio::test]
async fn two_workers_racing_on_one_key_commit_exactly_once() {
    let lab = Lab::new().await;
    for round in 0..50 {
        let key = format!("round-{round}");
        let runs = AtomicU32::new(0);
        let attempts = (0..2).map(|_| {
            let idempotency = lab.idempotency();
            let (lab, key, runs) = (&lab, &key, &runs);
            async move {
                let deadline = lab.clock.now() + Duration::from_secs(30);
                let work = async |_| {
                    runs.fetch_add(1, Ordering::Relaxed);
                    tokio::task::yield_now().await;
                    let mut payment = lab.payment();
                    payment.account.clone_from(key);
                    Ok(pay(&lab.tables, &payment).returning("paid".to_owned()))
                };
                idempotency.run(key, &(), deadline, work).await
            }
        });
        let results = join_all(attempts).await;
        let completed = results
            .iter()
            .filter(|result| matches!(result, Ok(Done::Completed(_))))
            .count();
        assert_eq!(completed, 1, "{results:?}");
        for result in &results {
            let is_fine = match result {
                Ok(done) => done.clone().into_result().as_deref() == Some("paid"),
                Err(error) => error.is_in_progress(),
            };
            assert!(is_fine, "{result:?}");
        }
        if !lab.mode.runs_before_it_claims() {
            // With equal clocks, at most one handler runs while its lease lives.
            assert_eq!(runs.into_inner(), 1);
        }
        assert_eq!(lab.balance(&key).await, 10);
    }
}

#[tokio::test]
async fn clocks_that_are_off_may_run_a_handler_twice_but_never_commit_twice() {
    let lab = Lab::new().await;
    for (round, off_by) in [-300, -31, 31, 300]
        .into_iter()
        .cycle()
        .take(40)
        .enumerate()
    {
        let key = format!("round-{round}");
        let workers = [
            lab.idempotency(),
            worker(&lab, off_by),
            worker(&lab, -off_by),
        ];
        let attempts = workers.iter().map(|idempotency| {
            let (lab, key) = (&lab, &key);
            async move {
                // Each reckons its deadline by the true time, as Lambda gives it.
                let deadline = lab.clock.now() + Duration::from_secs(30);
                let work = async |_| {
                    tokio::task::yield_now().await;
                    let mut payment = lab.payment();
                    payment.account.clone_from(key);
                    Ok(pay(&lab.tables, &payment).returning("paid".to_owned()))
                };
                idempotency.run(key, &(), deadline, work).await
            }
        });
        let results = join_all(attempts).await;
        let completed = results
            .iter()
            .filter(|result| matches!(result, Ok(Done::Completed(_))))
            .count();
        let acknowledged = results.iter().filter(|result| result.is_ok()).count();
        assert!(completed <= 1, "{results:?}");
        assert!(acknowledged == 0 || completed == 1, "{results:?}");
        assert_eq!(lab.balance(&key).await, 10 * completed as u64);
    }
}

#[tokio::test]
async fn a_commit_that_arrives_after_a_takeover_is_refused() {
    let lab = Lab::new().await;
    // The first attempt's commit hangs in the network, and its release as well; its time ends.
    lab.wire.next("TransactWriteItems", Fault::Late);
    lab.wire.always("TransactWriteItems", Fault::Reset);
    lab.wire.always(lab.settles(), Fault::Reset);
    assert!(lab.pay(&lab.idempotency()).await.unwrap_err().is_unknown());
    lab.wire.heal();
    lab.clock.advance(Duration::from_secs(31));
    let done = lab.pay(&lab.idempotency()).await.unwrap();
    assert_eq!(done, Done::Completed("paid".to_owned()));
    assert_eq!(lab.wire.deliver_late().await, [400]);
    assert_eq!(lab.balance("a").await, 10);
}

#[tokio::test]
async fn a_commit_that_arrives_just_before_the_takeover_wins_and_the_redelivery_is_a_duplicate() {
    let lab = Lab::new().await;
    lab.wire.next("TransactWriteItems", Fault::Late);
    lab.wire.always("TransactWriteItems", Fault::Reset);
    lab.wire.always(lab.settles(), Fault::Reset);
    assert!(lab.pay(&lab.idempotency()).await.unwrap_err().is_unknown());
    lab.wire.heal();
    assert_eq!(lab.wire.deliver_late().await, [200]);
    let done = lab.pay(&lab.idempotency()).await.unwrap();
    assert_eq!(done, Done::Duplicate(Some("paid".to_owned())));
    assert_eq!(lab.balance("a").await, 10);
}
