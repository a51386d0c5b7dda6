//! Drives a future on this thread, and finds out if it hangs.

use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, Wake, Waker};

/// More than any input of a target needs.
const MOST_POLLS: u32 = 100_000;

struct Flag(AtomicBool);

impl Wake for Flag {
    fn wake(self: Arc<Self>) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Runs the future to its end.
///
/// # Panics
///
/// If it hangs: nothing outside this thread can wake it, so whatever waits without having been woken
/// waits for ever.
pub(crate) fn block_on<F: Future>(future: F) -> F::Output {
    let flag = Arc::new(Flag(AtomicBool::new(false)));
    let waker = Waker::from(Arc::clone(&flag));
    let mut future = pin!(future);
    for _ in 0..MOST_POLLS {
        if let Poll::Ready(output) = future.as_mut().poll(&mut Context::from_waker(&waker)) {
            return output;
        }
        let woken = flag.0.swap(false, Ordering::Relaxed);
        assert!(woken, "it hangs: it waits, and nothing will wake it");
    }
    panic!("it hangs: it was polled {MOST_POLLS} times and is not done");
}
