//! The protocol for one key: claim, handle, commit, and settle what went wrong.
//!
//! DESIGN.md has the tables that this follows. Nothing here knows of SQS or of DynamoDB.

mod commit;
mod decide;
mod failures;
mod group;
mod memory;
mod requests;
mod run;
mod settle;
mod times;

use std::sync::Arc;
use std::time::Duration;

pub(crate) use self::failures::panicked;
pub(crate) use self::group::{Driver, Groups};
pub(crate) use self::memory::Memory;
use self::run::Run;
pub(crate) use self::times::{LONGEST_AHEAD, Times, is_believable, left};
use crate::claim::Claim;
use crate::clock::Clock;
use crate::error::Error;
use crate::handler::{Attempt, HandlerError};
use crate::items::KeyAttributes;
use crate::record::{Fingerprint, Retention};
use crate::store::ErasedStore;
use crate::transaction::{Prepared, TransactionError};

/// Runs attempts against one store.
pub(crate) struct Engine {
    pub(crate) store: Arc<dyn ErasedStore>,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) retention: Retention,
    pub(crate) lease_at_least: Duration,
    pub(crate) commit_reserve: Duration,
    pub(crate) retry_for: Duration,
    pub(crate) key_attributes: KeyAttributes,
    pub(crate) memory: Option<Memory>,
}

/// How an attempt ended well: the message can be acknowledged.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Finish {
    /// This attempt's work is committed; or, if `stale`, superseded by a newer version.
    Completed { data: Option<String>, stale: bool },
    /// An earlier attempt's work is committed.
    Duplicate {
        data: Option<String>,
        /// When its record ends, in seconds since the epoch, if it says so.
        expiration: Option<u64>,
    },
}

impl Finish {
    /// After the completion without writes was sent: whether it is what landed. An earlier body of
    /// this attempt would have stored its result, if it had one.
    fn superseded(self, sent_stale: bool) -> Self {
        match self {
            Self::Completed { data: None, .. } => Self::Completed {
                data: None,
                stale: sent_stale,
            },
            other => other,
        }
    }
}

/// How an attempt ended, and what it took.
#[derive(Debug)]
pub(crate) struct Ended {
    pub(crate) result: Result<Finish, Error>,
    pub(crate) requests: u32,
    pub(crate) handler_duration: Option<Duration>,
    /// The store could not be used at all.
    pub(crate) store_down: bool,
}

impl Ended {
    /// It failed before the store was asked for anything.
    pub(crate) fn before_the_store(error: Error) -> Self {
        Self {
            result: Err(error),
            requests: 0,
            handler_duration: None,
            store_down: false,
        }
    }
}

/// What an attempt is for.
pub(crate) enum Protection {
    /// At most one attempt commits for this record.
    Record {
        record_id: Arc<str>,
        fingerprint: Option<Fingerprint>,
        claim: Claim,
        /// It was received before, so that it may have been done. Only a hint.
        may_be_done: bool,
    },
    /// There is no key: the writes are one transaction, and nothing remembers it. The id stands in
    /// where one is needed for calls downstream.
    None { stand_in: Arc<str> },
}

/// Why the work gave nothing to commit.
pub(crate) enum WorkError {
    Handler(HandlerError),
    Transaction(TransactionError),
}

impl From<HandlerError> for WorkError {
    fn from(error: HandlerError) -> Self {
        Self::Handler(error)
    }
}

impl From<TransactionError> for WorkError {
    fn from(error: TransactionError) -> Self {
        Self::Transaction(error)
    }
}

impl Engine {
    /// One attempt, from the claim to the end; its commit is handed to `groups`, where there are.
    pub(crate) async fn attempt<F, Fut>(
        &self,
        protection: Protection,
        times: Times,
        groups: Option<&Groups>,
        work: F,
    ) -> Ended
    where
        F: FnOnce(Attempt) -> Fut,
        Fut: Future<Output = Result<Prepared, WorkError>>,
    {
        if let Some(duplicate) = self.recalled(&protection) {
            return Ended {
                result: Ok(duplicate),
                requests: 0,
                handler_duration: None,
                store_down: false,
            };
        }
        let run = Run::new(self, protection, times);
        let mut handler_duration = None;
        let result = run.attempt(groups, work, &mut handler_duration).await;
        if let (Some(memory), Ok(finish)) = (&self.memory, &result) {
            run.remember(memory, finish);
        }
        Ended {
            result,
            requests: run.requests(),
            handler_duration,
            store_down: run.store_was_down(),
        }
    }
    /// Reads a record that is not there, if it has this id: opens a connection, and shows whether the
    /// table can be used.
    pub(crate) async fn reach(&self, record_id: &str) -> Result<(), Error> {
        match self.store.read(record_id).await {
            Ok(_) => Ok(()),
            Err(error) => Err(failures::store_failed("the store can't be reached", error)),
        }
    }

    /// A duplicate of a key that this process has just seen completed.
    fn recalled(&self, protection: &Protection) -> Option<Finish> {
        let Protection::Record {
            record_id,
            fingerprint,
            ..
        } = protection
        else {
            return None;
        };
        let memory = self.memory.as_ref()?;
        let data = memory.recall(record_id, fingerprint.as_ref(), self.clock.now())?;
        Some(Finish::Duplicate {
            data,
            expiration: None,
        })
    }
}
