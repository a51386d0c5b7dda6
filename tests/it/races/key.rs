//! Attempts that meet on one key.

use std::sync::Arc;
use std::sync::atomic::AtomicU32;

use lambda_idempotency::Done;

use super::{Attempt, RACERS, ROUNDS, assert_paid_once, lab, race, winners};

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn sixteen_attempts_on_one_key_have_one_winner_and_one_effect_in_every_round() {
    let lab = lab().await;
    for round in 0..ROUNDS {
        let name = format!("round-{round}");
        let runs = Arc::new(AtomicU32::new(0));
        let attempts = (0..RACERS).map(|_| {
            let attempt = Attempt {
                lab: Arc::clone(&lab),
                off_by: 0,
                name: name.clone(),
                fails: false,
                runs: Arc::clone(&runs),
            };
            attempt.make()
        });
        let results = race(attempts).await;
        assert_eq!(winners(&results), 1, "{results:?}");
        for result in &results {
            let is_fine = match result {
                Ok(Done::Completed(paid) | Done::Duplicate(Some(paid))) => paid == "paid",
                Ok(_) => false,
                Err(error) => error.is_in_progress(),
            };
            assert!(is_fine, "{result:?}");
        }
        let ran = runs.load(std::sync::atomic::Ordering::Relaxed);
        let may_run = lab.mode.handlers_that_may_run(RACERS as u32);
        assert!(may_run.contains(&ran), "{ran} handlers ran");
        assert_paid_once(&lab, &name).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn of_many_attempts_that_fail_and_one_that_does_not_nothing_is_left_but_that_one_s_effect() {
    let lab = lab().await;
    for round in 0..ROUNDS / 10 {
        let name = format!("round-{round}");
        let runs = Arc::new(AtomicU32::new(0));
        let attempts = (0..RACERS).map(|racer| {
            let (lab, name, runs) = (Arc::clone(&lab), name.clone(), Arc::clone(&runs));
            async move {
                let mut result;
                // As a queue does it: what is not acknowledged comes again.
                loop {
                    let attempt = Attempt {
                        lab: Arc::clone(&lab),
                        off_by: 0,
                        name: name.clone(),
                        fails: racer > 0,
                        runs: Arc::clone(&runs),
                    };
                    result = attempt.make().await;
                    let deferred = result.as_ref().is_err_and(|error| error.is_in_progress());
                    if !deferred {
                        return result;
                    }
                }
            }
        });
        let results = race(attempts).await;
        assert_eq!(winners(&results), 1, "{results:?}");
        assert!(matches!(results[0], Ok(Done::Completed(_))), "{results:?}");
        for result in &results[1..] {
            let is_fine = match result {
                Ok(Done::Duplicate(Some(paid))) => paid == "paid",
                Ok(_) => false,
                Err(error) => error.is_handler(),
            };
            assert!(is_fine, "{result:?}");
        }
        assert_paid_once(&lab, &name).await;
    }
}
