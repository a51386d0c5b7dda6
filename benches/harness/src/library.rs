//! The library, as a function uses it.

use std::str::FromStr;
use std::time::Duration;

use anyhow::bail;
use lambda_idempotency::store::Store;
use lambda_idempotency::{Claim, Idempotency, SqsBatch, SqsService};
use lambda_runtime::{Context, LambdaEvent};
use tower::Service as _;

use crate::work::{Deposits, Payment};

/// When a message takes its key, and whether commits go together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// The default.
    ClaimFirst,
    /// With the commit.
    AtCommit,
    /// With a commit that several messages share.
    Grouped,
}

impl Mode {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::ClaimFirst, Self::AtCommit, Self::Grouped];
}

impl FromStr for Mode {
    type Err = anyhow::Error;

    fn from_str(name: &str) -> Result<Self, Self::Err> {
        Ok(match name {
            "claim-first" => Self::ClaimFirst,
            "at-commit" => Self::AtCommit,
            "grouped" => Self::Grouped,
            _ => bail!("no mode of the library is named {name:?}"),
        })
    }
}

/// How messages are processed.
#[derive(Clone, Copy, Debug)]
pub struct Settings {
    /// The mode.
    pub mode: Mode,
    /// How many messages of a batch run at once.
    pub concurrency: usize,
    /// How many completed keys the process remembers.
    pub remembered: usize,
    /// What a message does.
    pub work: Deposits,
}

/// A function of the library.
#[derive(Debug)]
pub struct Function(SqsService<Deposits, Payment>);

impl Function {
    /// A function on this store.
    ///
    /// # Errors
    ///
    /// If the settings can't work.
    pub fn new(store: impl Store, settings: Settings) -> anyhow::Result<Self> {
        let claim = match settings.mode {
            Mode::ClaimFirst => Claim::First,
            Mode::AtCommit | Mode::Grouped => Claim::AtCommit,
        };
        let service = Idempotency::builder(store)
            .consumer("bench")
            .claim(claim)
            .remember_completed(settings.remembered)
            .build()?
            .sqs(settings.work)
            .concurrency(settings.concurrency);
        Ok(Self(match settings.mode {
            Mode::Grouped => service.group_commits(Duration::from_millis(20)),
            Mode::ClaimFirst | Mode::AtCommit => service,
        }))
    }

    /// One invocation: from the event's JSON to the response's. Returns how many messages failed.
    ///
    /// # Errors
    ///
    /// If the invocation fails.
    pub async fn invoke(&mut self, event: &[u8], context: Context) -> anyhow::Result<usize> {
        let batch: SqsBatch = serde_json::from_slice(event)?;
        let response = self.0.call(LambdaEvent::new(batch, context)).await?;
        std::hint::black_box(serde_json::to_vec(&response)?);
        Ok(response.batch_item_failures.len())
    }
}
