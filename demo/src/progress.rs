//! Says on the terminal that an event takes its time.

use std::future::Future;
use std::io::{IsTerminal as _, Write as _, stderr};
use std::time::{Duration, Instant};

/// Whatever is done sooner needs no announcement.
const SHORT: Duration = Duration::from_millis(500);

/// One line on standard error, overwritten as the event goes on.
pub(crate) struct Progress<'a, F> {
    event: &'a str,
    messages: usize,
    done: F,
    started: Instant,
}

impl<'a, F: Fn() -> usize> Progress<'a, F> {
    /// `done` tells how many of the messages have ended.
    pub(crate) fn new(event: &'a str, messages: usize, done: F) -> Self {
        Self {
            event,
            messages,
            done,
            started: Instant::now(),
        }
    }

    /// Waits for the work and shows how far it is, if there is a terminal to show it on.
    pub(crate) async fn during<T>(self, work: impl Future<Output = T>) -> T {
        if !stderr().is_terminal() {
            return work.await;
        }
        let mut work = std::pin::pin!(work);
        let mut is_shown = false;
        loop {
            match tokio::time::timeout(SHORT, &mut work).await {
                Ok(result) => {
                    if is_shown {
                        clear();
                    }
                    return result;
                }
                Err(_) => {
                    self.show();
                    is_shown = true;
                }
            }
        }
    }

    fn show(&self) {
        clear();
        let seconds = self.started.elapsed().as_secs_f64();
        let done = (self.done)();
        eprint!(
            "{}: {done} of {} messages, {seconds:.1} s",
            self.event, self.messages
        );
        let _ = stderr().flush();
    }
}

fn clear() {
    eprint!("\r\x1b[2K");
    let _ = stderr().flush();
}
