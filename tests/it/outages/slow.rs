//! A store that answers each call, late: a few milliseconds, or nearly all the time that is left.

use std::time::Duration;

use super::{SECOND, assert_exact, assert_none_lost, assert_recovers, deliver, lab, messages};
use crate::support::{Bank, Fault, Step};

/// Of an invocation of 10 s, what there is until the last answer of a commit.
const TIME_MILLIS: u64 = 8_900;

const TAKES_MILLIS: [u64; 8] = [50, 1_000, 2_500, 3_300, 4_800, 4_950, 8_000, 9_899];

async fn deliver_slowly(concurrency: usize, fault: impl Fn(Duration) -> Fault, is_exact: bool) {
    for millis in TAKES_MILLIS {
        let lab = lab().await;
        let service = lab
            .idempotency()
            .sqs(Bank(lab.tables.clone()))
            .concurrency(concurrency);
        lab.store_fails(&fault(Duration::from_millis(millis)));
        let messages = messages(20);
        let reported = deliver(&lab, &service, &messages, 10 * SECOND).await;
        if is_exact {
            assert_exact(&lab, &messages, &reported).await;
        } else {
            assert_none_lost(&lab, &messages, &reported).await;
        }
        let requests = lab.steps(&[Step::Claim, Step::Commit]).len() as u64;
        let is_hopeless = requests * millis > TIME_MILLIS;
        assert!(reported.is_empty() || millis > 50, "{reported:?}");
        assert!(reported.len() == 20 || !is_hopeless, "{reported:?}");
        assert_recovers(&lab, &service, &messages, &reported).await;
    }
}

#[tokio::test]
async fn requests_that_arrive_late_end_in_time_and_exactly_what_is_not_done_is_reported() {
    for concurrency in [1, 10] {
        deliver_slowly(concurrency, Fault::SlowToArrive, true).await;
    }
}

#[tokio::test]
async fn answers_that_come_late_end_in_time_and_nothing_that_is_not_done_is_acknowledged() {
    for concurrency in [1, 10] {
        deliver_slowly(concurrency, Fault::SlowToAnswer, false).await;
    }
}
