//! A clock that only moves by the backoff that the engine asks for.

use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Poll, Waker};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use lambda_idempotency::Clock;

#[derive(Clone)]
pub(crate) struct ManualClock(Arc<Mutex<State>>);

struct State {
    now: SystemTime,
    sleepers: Vec<Waker>,
}

impl ManualClock {
    pub(crate) fn new() -> Self {
        Self(Arc::new(Mutex::new(State {
            now: UNIX_EPOCH + Duration::from_secs(1_790_000_000),
            sleepers: Vec::new(),
        })))
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

    /// The longest backoff passes at once: nothing waits, and nothing can try for ever.
    fn jitter(&self, limit: Duration) -> Duration {
        let mut state = self.0.lock().unwrap();
        state.now += limit;
        state.sleepers.drain(..).for_each(Waker::wake);
        Duration::ZERO
    }
}
