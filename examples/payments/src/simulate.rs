//! Failures on demand, for the demo and for the end-to-end tests. Nothing to copy.
//!
//! A message asks for one: `"simulate": "panic"`. With `"simulate_receives": 2` it fails on its
//! first two receives only. Failures that end or block the whole process are acted out only where
//! the environment says `SIMULATE_FAILURES=true`.

use std::collections::BTreeSet;
use std::process;
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use lambda_idempotency::{Delivery, HandlerError, Outcome, Report};
use serde::Deserialize;

/// Four times the longest invocation.
const LONGER_THAN_ANY_INVOCATION: Duration = Duration::from_secs(60 * 60);

/// The messages whose commit is to be the last thing that this process does.
static EXIT_AFTER_COMMIT_OF: Mutex<BTreeSet<String>> = Mutex::new(BTreeSet::new());

/// A failure that a message asks for.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "kebab-case")]
pub enum Simulate {
    /// A bug in the handler.
    Panic,
    /// The handler can't do its work.
    Error,
    /// The handler waits for longer than any invocation lasts. The library gives it up in time.
    Slow,
    /// The handler blocks its thread, so that nobody can give it up: Lambda ends the function at
    /// its time-out.
    Stall,
    /// The process dies when the handler's work is prepared and nothing is committed.
    ExitBeforeCommit,
    /// The process dies when the commit is done and Lambda has not heard of it.
    ExitAfterCommit,
}

impl Simulate {
    pub(crate) async fn act_out(self, delivery: &Delivery) -> Result<(), HandlerError> {
        if self.takes_the_process_along() && !may_take_the_process_along() {
            return Err(format!(
                "simulated {self:?} is for a process of its own: set SIMULATE_FAILURES=true there"
            )
            .into());
        }
        match self {
            Self::Panic => panic!("simulated panic"),
            Self::Error => Err("simulated error".into()),
            Self::Slow => {
                tokio::time::sleep(LONGER_THAN_ANY_INVOCATION).await;
                Ok(())
            }
            Self::Stall => {
                thread::sleep(LONGER_THAN_ANY_INVOCATION);
                Ok(())
            }
            Self::ExitBeforeCommit => {
                eprintln!("simulated exit before the commit");
                process::exit(1);
            }
            Self::ExitAfterCommit => {
                let id = delivery.message_id().unwrap_or_default().to_owned();
                EXIT_AFTER_COMMIT_OF
                    .lock()
                    .unwrap_or_else(PoisonError::into_inner)
                    .insert(id);
                Ok(())
            }
        }
    }

    fn takes_the_process_along(self) -> bool {
        matches!(
            self,
            Self::Stall | Self::ExitBeforeCommit | Self::ExitAfterCommit
        )
    }
}

/// An observer that ends the process after the commit of a message that asked for it, so that
/// Lambda gets no response. Without `SIMULATE_FAILURES=true` no message can ask.
pub fn exit_after_simulated_commit(report: &Report) {
    let Some(id) = report.message_id.as_deref() else {
        return;
    };
    let is_asked_for = EXIT_AFTER_COMMIT_OF
        .lock()
        .unwrap_or_else(PoisonError::into_inner)
        .contains(id);
    if is_asked_for && report.outcome == Outcome::Completed {
        eprintln!("simulated exit after the commit");
        process::exit(1);
    }
}

fn may_take_the_process_along() -> bool {
    std::env::var_os("SIMULATE_FAILURES").is_some_and(|value| value == "true")
}
