//! The requests of the protocol. One that is sent again is the same value.

use std::fmt;
use std::sync::Arc;

use crate::record::{FencingToken, Fingerprint, Lease, Moment};
use crate::write::Write;

/// Takes a key for one attempt, and replaces its record as a whole.
///
/// [`applies_to`](Self::applies_to) is the condition.
#[derive(Clone)]
#[non_exhaustive]
pub struct ClaimRequest {
    /// The record's id: consumer and key.
    pub record_id: String,
    /// Names this claim.
    pub token: FencingToken,
    /// Until when it holds.
    pub lease: Lease,
    /// When the record ends: seconds since the epoch.
    pub expiration: u64,
    /// What the payload is, if that is asked for.
    pub fingerprint: Option<Fingerprint>,
    /// The time that the condition compares expirations and leases with.
    pub now: Moment,
}

/// Applies the writes of one message, and completes its record with them.
#[derive(Clone)]
#[non_exhaustive]
pub struct CommitRequest {
    /// The record to complete; absent for a message that runs without protection.
    pub completion: Option<Completion>,
    /// Makes the store apply this very request once: at most 36 characters.
    pub client_token: String,
    /// The business writes, in the handler's order.
    pub writes: Vec<Write>,
}

/// The commits of several messages in one transaction: all of them, or none.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct GroupRequest {
    /// Makes the store apply this very request once: at most 36 characters. The client tokens of
    /// the commits are not used.
    pub client_token: String,
    /// The commits, no two of which touch one item.
    pub commits: Vec<Arc<CommitRequest>>,
}

/// How a record is completed.
///
/// [`applies_to`](Self::applies_to) is the condition.
#[derive(Clone)]
#[non_exhaustive]
pub struct Completion {
    /// The record's id.
    pub record_id: String,
    /// The attempt whose work this is.
    pub token: FencingToken,
    /// When the record ends: seconds since the epoch.
    pub expiration: u64,
    /// The result as JSON text, if there is one.
    pub data: Option<String>,
    /// What the payload is, if that is asked for.
    pub fingerprint: Option<Fingerprint>,
    /// Which record it applies to.
    pub condition: CompletionCondition,
}

/// Which record a completion applies to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum CompletionCondition {
    /// One that is in progress under the token: the lease is removed, token and fingerprint stay.
    Held,
    /// None, or one that a claim may replace: the record is put as a whole, under the condition of
    /// a claim. For [`Claim::AtCommit`](crate::Claim::AtCommit).
    Free {
        /// The time that the condition compares expirations and leases with.
        now: Moment,
    },
}

/// Deletes a record that is in progress and held by `token`.
#[derive(Clone)]
#[non_exhaustive]
pub struct ReleaseRequest {
    /// The record's id.
    pub record_id: String,
    /// The claim that has to hold it.
    pub token: FencingToken,
    /// What the payload is, if that is asked for: compared with a record that refuses.
    pub fingerprint: Option<Fingerprint>,
}

impl ClaimRequest {
    /// A claim that holds until `lease`, without a fingerprint.
    pub fn new(
        record_id: impl Into<String>,
        token: FencingToken,
        lease: Lease,
        expiration: u64,
        now: Moment,
    ) -> Self {
        Self {
            record_id: record_id.into(),
            token,
            lease,
            expiration,
            fingerprint: None,
            now,
        }
    }
}

impl CommitRequest {
    /// A commit of these writes.
    pub fn new(
        completion: Option<Completion>,
        client_token: impl Into<String>,
        writes: Vec<Write>,
    ) -> Self {
        Self {
            completion,
            client_token: client_token.into(),
            writes,
        }
    }
}

impl GroupRequest {
    /// These commits as one transaction.
    pub fn new(client_token: impl Into<String>, commits: Vec<Arc<CommitRequest>>) -> Self {
        Self {
            client_token: client_token.into(),
            commits,
        }
    }
}

impl Completion {
    /// A completion without a result and without a fingerprint.
    pub fn new(
        record_id: impl Into<String>,
        token: FencingToken,
        expiration: u64,
        condition: CompletionCondition,
    ) -> Self {
        Self {
            record_id: record_id.into(),
            token,
            expiration,
            data: None,
            fingerprint: None,
            condition,
        }
    }
}

impl ReleaseRequest {
    /// A release of this claim.
    pub fn new(record_id: impl Into<String>, token: FencingToken) -> Self {
        Self {
            record_id: record_id.into(),
            token,
            fingerprint: None,
        }
    }
}

impl fmt::Debug for ClaimRequest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ClaimRequest")
            .field("token", &self.token)
            .field("lease", &self.lease)
            .field("now", &self.now)
            .finish_non_exhaustive()
    }
}

impl fmt::Debug for CommitRequest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CommitRequest")
            .field("completion", &self.completion)
            .field("client_token", &self.client_token)
            .field("writes", &self.writes)
            .finish()
    }
}

impl fmt::Debug for Completion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Completion")
            .field("token", &self.token)
            .field("expiration", &self.expiration)
            .field("condition", &self.condition)
            .finish_non_exhaustive()
    }
}

impl fmt::Debug for ReleaseRequest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ReleaseRequest")
            .field("token", &self.token)
            .finish_non_exhaustive()
    }
}
