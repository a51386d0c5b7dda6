//! A worker's clock: the true time, shifted.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use lambda_idempotency::Clock;

use crate::world::{Event, Key, Shared, lock};

/// The true time at the start, on a day in 2026: seconds since the epoch.
pub const START: u64 = 1_790_000_000;

/// What a clock shows that is off by `skew` microseconds, so long after the start.
pub fn shown(now: u64, skew: i64) -> SystemTime {
    let start = UNIX_EPOCH + Duration::from_secs(START);
    let shift = Duration::from_micros(skew.unsigned_abs());
    let time = start + Duration::from_micros(now);
    if skew < 0 { time - shift } else { time + shift }
}

pub struct SimClock {
    pub shared: Shared,
    pub skew: i64,
}

impl Clock for SimClock {
    fn now(&self) -> SystemTime {
        shown(lock(&self.shared).now, self.skew)
    }

    fn sleep(&self, duration: Duration) -> Pin<Box<dyn Future<Output = ()> + Send>> {
        Box::pin(sleep(&self.shared, micros(duration)))
    }

    fn jitter(&self, limit: Duration) -> Duration {
        let limit = micros(limit);
        Duration::from_micros(lock(&self.shared).rng.between(0, limit))
    }
}

fn micros(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos().div_ceil(1_000)).unwrap_or(u64::MAX / 2)
}

pub fn sleep(shared: &Shared, duration: u64) -> Sleep {
    Sleep {
        until: lock(shared).now + duration,
        shared: shared.clone(),
        event: None,
    }
}

pub struct Sleep {
    shared: Shared,
    until: u64,
    event: Option<Key>,
}

impl Future for Sleep {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        let shared = self.shared.clone();
        let mut world = lock(&shared);
        if world.now >= self.until {
            return Poll::Ready(());
        }
        match self.event {
            Some(event) => world.rewake(event, context.waker()),
            None => {
                let wake = Event::Wake(context.waker().clone());
                self.event = Some(world.at(self.until, wake));
            }
        }
        Poll::Pending
    }
}

impl Drop for Sleep {
    fn drop(&mut self) {
        if let Some(event) = self.event {
            lock(&self.shared).forget(event);
        }
    }
}
