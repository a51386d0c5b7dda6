//! A clock that moves by hand, and by the backoff that the engine asks for.

use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Poll, Waker};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use lambda_idempotency::{Clock, SystemClock};

/// The longest backoff.
const LONGEST_REAL_PAUSE: Duration = Duration::from_secs(1);

#[derive(Clone)]
pub struct ManualClock(Arc<Mutex<State>>);

struct State {
    now: SystemTime,
    backoff: Backoff,
    /// Who sleeps, and until when; some may sleep no more.
    sleepers: Vec<(SystemTime, Waker)>,
}

#[derive(Clone, Copy, PartialEq)]
enum Backoff {
    /// Moves the clock.
    Moves,
    /// Is real, and leaves the clock alone.
    Real,
    /// Is slept, as any other time.
    Slept,
}

impl ManualClock {
    /// A clock that stands at a time in 2026.
    pub fn new() -> Self {
        Self(Arc::new(Mutex::new(State {
            now: UNIX_EPOCH + Duration::from_secs(1_790_000_000),
            backoff: Backoff::Moves,
            sleepers: Vec::new(),
        })))
    }

    /// A clock that only moves by hand, for races, in which many back off on one clock: their pauses
    /// are real.
    pub fn standing() -> Self {
        Self::new().with(Backoff::Real)
    }

    /// A clock that [`drive`](super::drive) moves, so that the pauses of many run side by side.
    pub fn driven() -> Self {
        Self::new().with(Backoff::Slept)
    }

    fn with(self, backoff: Backoff) -> Self {
        self.0.lock().unwrap().backoff = backoff;
        self
    }

    fn backoff(&self) -> Backoff {
        self.0.lock().unwrap().backoff
    }

    /// Moves on to when the next sleeper wakes; `false` if nobody sleeps.
    pub fn advance_to_next(&self) -> bool {
        let next = {
            let state = self.0.lock().unwrap();
            state.sleepers.iter().map(|(until, _)| *until).min()
        };
        if let Some(next) = next {
            self.set(next.max(self.now()));
        }
        next.is_some()
    }

    pub fn advance(&self, duration: Duration) {
        self.set(self.now() + duration);
    }

    pub fn set(&self, now: SystemTime) {
        let mut state = self.0.lock().unwrap();
        state.now = now;
        for (_, waker) in state.sleepers.drain(..) {
            waker.wake();
        }
    }

    /// Another clock that shows this one's time shifted, and moves by itself from then on.
    pub fn skewed(&self, by_seconds: i64) -> Self {
        let other = Self::new().with(self.backoff());
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
        if self.backoff() == Backoff::Real && duration <= LONGEST_REAL_PAUSE {
            return Box::pin(tokio::time::sleep(duration));
        }
        Box::pin(poll_fn(move |context| {
            let mut state = state.lock().unwrap();
            if state.now >= until {
                return Poll::Ready(());
            }
            state.sleepers.push((until, context.waker().clone()));
            Poll::Pending
        }))
    }

    /// The longest backoff passes at once: no test waits, and none can try for ever.
    fn jitter(&self, limit: Duration) -> Duration {
        match self.backoff() {
            Backoff::Real => SystemClock.jitter(limit),
            Backoff::Slept => limit,
            Backoff::Moves => {
                self.advance(limit);
                Duration::ZERO
            }
        }
    }
}
