//! Attempts on one key, for some of which its lease has always ended.

use std::sync::Arc;
use std::sync::atomic::AtomicU32;

use lambda_idempotency::Done;

use super::{Attempt, RACERS, ROUNDS, assert_paid_once, lab, race, winners};

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn of_attempts_that_take_one_another_s_key_over_at_most_one_commits_and_late_ones_undo_nothing()
 {
    let lab = lab().await;
    let mut ran_twice = 0;
    for round in 0..ROUNDS / 2 {
        let name = format!("round-{round}");
        let runs = Arc::new(AtomicU32::new(0));
        let attempt = |off_by: i64, fails: bool| Attempt {
            lab: Arc::clone(&lab),
            off_by,
            name: name.clone(),
            fails,
            runs: Arc::clone(&runs),
        };
        // Each sees the leases of all those as ended whose clock is 31 s behind its own. Every third
        // fails, after it may have been overtaken.
        let attempts = (0..RACERS).map(|racer| {
            let off_by = 31 * i64::try_from((racer * 7) % RACERS).unwrap();
            attempt(off_by, racer % 3 == 2).make()
        });
        let results = race(attempts).await;
        let completed = winners(&results);
        assert!(completed <= 1, "{results:?}");
        for result in &results {
            match result {
                Ok(Done::Completed(paid) | Done::Duplicate(Some(paid))) => {
                    assert_eq!(paid, "paid");
                    assert_eq!(completed, 1, "{results:?}");
                }
                Ok(other) => panic!("{other:?}"),
                Err(error) => assert!(
                    error.is_in_progress() || error.is_lease_lost() || error.is_handler(),
                    "{error:?}"
                ),
            }
        }
        assert_eq!(lab.balance(&name).await, 10 * completed as u64);
        ran_twice += u32::from(runs.load(std::sync::atomic::Ordering::Relaxed) > 1);
        // A delivery after the end of all leases.
        let last = attempt(100_000, false).make().await.unwrap();
        assert_eq!(matches!(last, Done::Duplicate(_)), completed == 1);
        assert_paid_once(&lab, &name).await;
    }
    assert!(ran_twice > 0, "no key was taken over");
}
