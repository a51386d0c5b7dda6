//! How the time of one invocation is divided, and how long to wait before trying again.

use std::time::{Duration, SystemTime};

use crate::clock::Clock;

/// A deadline that is longer ago is not believed: local runners report 1970.
const LONGEST_PAST: Duration = Duration::from_secs(15 * 60);
/// A deadline that is further ahead is not believed: a function runs for 15 minutes at most.
pub(crate) const LONGEST_AHEAD: Duration = Duration::from_secs(16 * 60);

/// Kept free at the very end, to return the response in: at most this, and a twentieth of the time.
const RESPONSE_MARGIN: Duration = Duration::from_millis(100);
/// Kept free of the commit's tries, to settle it in: at most this, and a third of the time.
const SETTLE_RESERVE: Duration = Duration::from_secs(1);

const FIRST_BACKOFF: Duration = Duration::from_millis(25);
const LONGEST_BACKOFF: Duration = Duration::from_secs(1);

/// The ends that one invocation's work has to keep.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Times {
    /// When the invocation ends: until then a claim holds.
    pub(crate) deadline: SystemTime,
    /// When everything has to be settled, so that the response is out before the deadline.
    pub(crate) stop_at: SystemTime,
}

impl Times {
    pub(crate) fn until(deadline: SystemTime, now: SystemTime) -> Self {
        let left = left(deadline, now);
        Self {
            deadline,
            stop_at: deadline - RESPONSE_MARGIN.min(left / 20),
        }
    }

    /// When the handler has to be done: before the time that is kept for commit and settling, at
    /// most `reserve` and a fifth of what is left.
    pub(crate) fn work_until(&self, now: SystemTime, reserve: Duration) -> SystemTime {
        self.stop_at - reserve.min(left(self.stop_at, now) / 5)
    }

    /// When the commit's tries have to end.
    pub(crate) fn commit_until(&self, now: SystemTime) -> SystemTime {
        self.stop_at - SETTLE_RESERVE.min(left(self.stop_at, now) / 3)
    }
}

/// Whether a deadline can be one of Lambda's.
pub(crate) fn is_believable(deadline: SystemTime, now: SystemTime) -> bool {
    match deadline.duration_since(now) {
        Ok(ahead) => ahead <= LONGEST_AHEAD,
        Err(past) => past.duration() <= LONGEST_PAST,
    }
}

/// The time until `end`, zero if it is past.
pub(crate) fn left(end: SystemTime, now: SystemTime) -> Duration {
    end.duration_since(now).unwrap_or_default()
}

/// Exponential backoff with full jitter.
pub(crate) struct Backoff {
    limit: Duration,
}

impl Backoff {
    pub(crate) fn new() -> Self {
        Self {
            limit: FIRST_BACKOFF,
        }
    }

    pub(crate) fn next(&mut self, clock: &dyn Clock) -> Duration {
        let pause = clock.jitter(self.limit);
        self.limit = (self.limit * 2).min(LONGEST_BACKOFF);
        pause
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: SystemTime = SystemTime::UNIX_EPOCH;

    fn at(millis: u64) -> SystemTime {
        NOW + Duration::from_millis(millis)
    }

    #[test]
    fn a_long_invocation_keeps_fixed_reserves_and_a_short_one_shares_them() {
        let long = Times::until(at(60_100), NOW);
        assert_eq!(long.stop_at, at(60_000));
        assert_eq!(long.work_until(NOW, Duration::from_secs(3)), at(57_000));
        assert_eq!(long.commit_until(at(57_000)), at(59_000));
        let short = Times::until(at(1_000), NOW);
        assert_eq!(short.stop_at, at(950));
        assert_eq!(short.work_until(NOW, Duration::from_secs(3)), at(760));
        assert_eq!(short.commit_until(at(650)), at(850));
    }

    #[test]
    fn a_past_deadline_has_no_time_left_and_does_not_panic() {
        let past = Times::until(at(10), at(500));
        assert_eq!(past.stop_at, at(10));
        assert_eq!(past.work_until(at(500), Duration::from_secs(3)), at(10));
    }

    #[test]
    fn only_a_deadline_that_lambda_could_give_is_believed() {
        let now = at(100 * 60 * 60 * 1_000);
        let minutes = |minutes: u64| Duration::from_secs(minutes * 60);
        assert!(is_believable(now + minutes(16), now));
        assert!(!is_believable(now + minutes(17), now));
        assert!(is_believable(now - minutes(15), now));
        assert!(!is_believable(at(600_000), now));
    }

    #[test]
    fn backoff_doubles_up_to_its_cap() {
        struct Longest;
        impl Clock for Longest {
            fn now(&self) -> SystemTime {
                NOW
            }
            fn sleep(&self, _: Duration) -> std::pin::Pin<Box<dyn Future<Output = ()> + Send>> {
                Box::pin(std::future::ready(()))
            }
            fn jitter(&self, limit: Duration) -> Duration {
                limit
            }
        }
        let mut backoff = Backoff::new();
        let pauses: Vec<_> = (0..8).map(|_| backoff.next(&Longest).as_millis()).collect();
        assert_eq!(pauses, [25, 50, 100, 200, 400, 800, 1_000, 1_000]);
    }
}
