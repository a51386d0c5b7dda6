//! Runs something on a clock that moves only when all wait for it: pauses and slow answers of many
//! messages take place side by side, as they do in time.

use std::future::poll_fn;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, Wake, Waker};

use super::Lab;

/// Runs this to its end. The lab's clock has to be [`driven`](super::ManualClock::driven).
pub async fn drive<T>(lab: &Lab, work: impl Future<Output = T>) -> T {
    let mut work = pin!(work);
    poll_fn(|outer| {
        let woken = Arc::new(Woken {
            is: AtomicBool::new(false),
            outer: outer.waker().clone(),
        });
        let waker = Waker::from(Arc::clone(&woken));
        if let Poll::Ready(done) = work.as_mut().poll(&mut Context::from_waker(&waker)) {
            return Poll::Ready(done);
        }
        // Whoever was woken, or waits for the store, goes on by itself.
        if !woken.is.load(Ordering::Relaxed) && lab.wire.answers_to_come() == 0 {
            assert!(lab.clock.advance_to_next(), "it waits for nothing");
        }
        Poll::Pending
    })
    .await
}

struct Woken {
    is: AtomicBool,
    outer: Waker,
}

impl Wake for Woken {
    fn wake(self: Arc<Self>) {
        self.is.store(true, Ordering::Relaxed);
        self.outer.wake_by_ref();
    }
}
