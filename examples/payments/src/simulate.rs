//! Failures on demand, so that the demo can show what becomes of a message. Nothing to copy.

use std::time::Duration;

use lambda_idempotency::HandlerError;
use serde::Deserialize;

/// A failure that a message asks for: `"simulate": "panic"`.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "lowercase")]
pub enum Simulate {
    /// A bug in the handler.
    Panic,
    /// The handler can't do its work.
    Error,
    /// The handler takes longer than any invocation lasts.
    Slow,
}

impl Simulate {
    pub(crate) async fn act_out(self) -> Result<(), HandlerError> {
        match self {
            Self::Panic => panic!("simulated panic"),
            Self::Error => Err("simulated error".into()),
            Self::Slow => {
                // Four times the longest invocation.
                tokio::time::sleep(Duration::from_secs(60 * 60)).await;
                Ok(())
            }
        }
    }
}
