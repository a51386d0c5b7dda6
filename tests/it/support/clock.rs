//! A clock that moves by hand, and by the backoff that the engine asks for.

use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Poll, Waker};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use lambda_idempotency::Clock;

#[derive(Clone)]
pub struct ManualClock(Arc<Mutex<State>>);

struct State {
    now: SystemTime,
    sleepers: Vec<Waker>,
}

impl ManualClock {
    /// A clock that stands at a time in 2026.
    pub fn new() -> Self {
        Self(Arc::new(Mutex::new(State {
            now: UNIX_EPOCH + Duration::from_secs(1_790_000_000),
            sleepers: Vec::new(),
        })))
    }

    pub fn advance(&self, duration: Duration) {
        self.set(self.now() + duration);
    }

    pub fn set(&self, now: SystemTime) {
        let mut state = self.0.lock().unwrap();
        state.now = now;
        state.sleepers.drain(..).for_each(Waker::wake);
    }

    /// Another clock that shows this one's time shifted, and moves by itself from then on.
    pub fn skewed(&self, by_seconds: i64) -> Self {
        let other = Self::new();
        let by = Duration::from_secs(by_seconds.unsigned_abs());
        other.set(if by_seconds < 0 {
            self.now() - by
        } else {
            self.now() + by
        });
        other
    }

    pub fn seconds(&self) -> u64 {
        self.now().duration_since(UNIX_EPOCH).unwrap().as_secs()
    }

    pub fn millis(&self) -> u64 {
        let millis = self.now().duration_since(UNIX_EPOCH).unwrap().as_millis();
        millis.try_into().unwrap()
    }
}

impl Clock for ManualClock {
    fn now(&self) -> SystemTime {
        self.0.lock().unwrap().now
    }

    fn sleep(&self, duration: Duration) -> Pin<Box<dyn Future<Output = ()> + Send>> {
        let state = Arc::clone(&self.0);
        let until = self.now() + duration;
        Box::pin(poll_fn(move |context| {
            let mut state = state.lock().unwrap();
            if state.now >= until {
                return Poll::Ready(());
            }
            state.sleepers.push(context.waker().clone());
            Poll::Pending
        }))
    }

    /// The longest backoff passes at once: no test waits, and none can try for ever.
    fn jitter(&self, limit: Duration) -> Duration {
        self.advance(limit);
        Duration::ZERO
    }
}
