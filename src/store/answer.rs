//! What a store can answer. Every answer of DynamoDB is one of these.

use std::error::Error as StdError;
use std::fmt;

use crate::record::Record;

/// What came of a claim.
#[derive(Debug)]
#[non_exhaustive]
pub enum ClaimAnswer {
    /// The key is taken for this attempt.
    Claimed,
    /// The condition failed, because of this record.
    Refused(Seen),
    /// The request failed.
    Failed(StoreError),
}

/// What came of a commit.
#[derive(Debug)]
#[non_exhaustive]
pub enum CommitAnswer {
    /// Everything is written.
    Committed,
    /// The record is not in progress under this token. Nothing was written.
    RecordRefused(Seen),
    /// Conditions of business writes failed. Nothing was written.
    ConditionFailed {
        /// The positions of these writes in the request.
        failed: Vec<usize>,
        /// Those of them whose version guard met a version of another type, so that neither is
        /// newer.
        incomparable: Vec<usize>,
    },
    /// The request can never succeed. Nothing was written.
    Impossible {
        /// The position of the write that is to blame, if the store names one.
        write: Option<usize>,
        /// What the store says.
        error: StoreError,
    },
    /// The client token was used before by another request.
    TokenReused(StoreError),
    /// The request failed.
    Failed(StoreError),
}

/// What came of a group of commits.
#[derive(Debug)]
#[non_exhaustive]
pub enum GroupAnswer {
    /// Everything of every commit is written.
    Committed,
    /// Nothing was written, because of some of the commits: for each one, in the request's order,
    /// its own answer if it is one of those.
    Cancelled(Vec<Option<CommitAnswer>>),
    /// Nothing was written, and which commits are to blame is not said.
    Undecided(StoreError),
    /// The request failed.
    Failed(StoreError),
}

/// What came of a release.
#[derive(Debug)]
#[non_exhaustive]
pub enum ReleaseAnswer {
    /// The record is deleted.
    Released,
    /// The record is not in progress under this token. Nothing was deleted.
    Refused(Seen),
    /// The request failed.
    Failed(StoreError),
}

/// What an answer shows of a record.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Seen {
    /// The record as it is.
    Record(Record),
    /// A record that is not one of ours: which attribute is wrong, and how.
    Unreadable(String),
    /// A read: there is no record. A refusal: the answer shows none.
    Nothing,
}

/// What a failed request means for the protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Failure {
    /// Nothing was written: another transaction on the same item is in flight.
    Conflict,
    /// Nothing was written: the store asks for less.
    Throttled,
    /// It may have been applied, or may still be: a time-out, a broken connection, a server error.
    Unknown,
    /// Nothing was written: the store refuses, or the request was never sent.
    Rejected,
    /// An answer that says nothing of what was written.
    Unclassified,
}

/// A request to the store that failed.
pub struct StoreError {
    failure: Failure,
    message: String,
    source: Option<Box<dyn StdError + Send + Sync>>,
}

impl StoreError {
    /// A failure with what it means.
    pub fn new(failure: Failure, message: impl Into<String>) -> Self {
        Self {
            failure,
            message: message.into(),
            source: None,
        }
    }

    /// A request whose outcome is not known.
    pub fn unknown(message: impl Into<String>) -> Self {
        Self::new(Failure::Unknown, message)
    }

    /// The error beneath.
    #[must_use]
    pub fn with_source(mut self, source: impl Into<Box<dyn StdError + Send + Sync>>) -> Self {
        self.source = Some(source.into());
        self
    }

    /// What it means for the protocol.
    pub fn failure(&self) -> Failure {
        self.failure
    }
}

impl fmt::Display for StoreError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl fmt::Debug for StoreError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}: {}", self.failure, crate::error::Chain(self))
    }
}

impl StdError for StoreError {
    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        self.source.as_deref().map(|source| source as _)
    }
}
