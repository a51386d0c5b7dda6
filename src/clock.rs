//! Time as the protocol sees it: what it is now, how to wait, how long to back off.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use uuid::Uuid;

/// Tells the time and sleeps.
///
/// [`SystemClock`] is the default. A test puts its own clock into
/// [`IdempotencyBuilder::clock`](crate::IdempotencyBuilder::clock), so that leases, deadlines and
/// backoff are tried without waiting for them.
pub trait Clock: Send + Sync + 'static {
    /// The time now. Leases and expirations are reckoned from it; correctness does not rest on it.
    fn now(&self) -> SystemTime;

    /// Completes once `duration` has passed on this clock.
    fn sleep(&self, duration: Duration) -> Pin<Box<dyn Future<Output = ()> + Send>>;

    /// A random duration between zero and `limit`: the pause before a request is sent again.
    ///
    /// A simulation that must replay exactly overrides this.
    fn jitter(&self, limit: Duration) -> Duration {
        // The lower half of a version 4 UUID: two fixed bits at the top, 62 random ones.
        let (_, random) = Uuid::new_v4().as_u64_pair();
        let fraction = (random & u64::from(u32::MAX)) as f64 / f64::from(u32::MAX);
        limit.mul_f64(fraction)
    }
}

/// The clock of the operating system, and timers of Tokio.
#[derive(Clone, Copy, Debug, Default)]
pub struct SystemClock;

impl Clock for SystemClock {
    fn now(&self) -> SystemTime {
        SystemTime::now()
    }

    fn sleep(&self, duration: Duration) -> Pin<Box<dyn Future<Output = ()> + Send>> {
        Box::pin(tokio::time::sleep(duration))
    }
}

impl fmt::Debug for dyn Clock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Clock")
    }
}

/// Whole seconds since the epoch; a time before it counts as zero.
pub(crate) fn epoch_seconds(time: SystemTime) -> u64 {
    time.duration_since(UNIX_EPOCH)
        .unwrap_or_default()
        .as_secs()
}

/// Whole milliseconds since the epoch; a time before it counts as zero.
pub(crate) fn epoch_millis(time: SystemTime) -> u64 {
    let millis = time
        .duration_since(UNIX_EPOCH)
        .unwrap_or_default()
        .as_millis();
    u64::try_from(millis).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn jitter_stays_within_its_limit_and_varies() {
        let limit = Duration::from_millis(100);
        let drawn: Vec<Duration> = (0..64).map(|_| SystemClock.jitter(limit)).collect();
        assert!(drawn.iter().all(|pause| *pause <= limit));
        assert!(drawn.iter().any(|pause| *pause != drawn[0]));
        assert_eq!(SystemClock.jitter(Duration::ZERO), Duration::ZERO);
    }

    #[test]
    fn a_time_before_the_epoch_is_zero_not_a_panic() {
        let before = UNIX_EPOCH - Duration::from_secs(5);
        assert_eq!(epoch_seconds(before), 0);
        assert_eq!(epoch_millis(before), 0);
    }
}
