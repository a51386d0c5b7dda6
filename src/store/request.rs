//! The requests of the protocol. One that is sent again is the same value.

use std::fmt;

use crate::record::{FencingToken, Fingerprint, Lease};
use crate::write::Write;

/// Takes a key for one attempt.
///
/// Applies if there is no record, if its `expiration` is before `now_seconds`, or if it is in
/// progress and its lease is before `now_millis`. It replaces the record as a whole.
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
    /// The time that the condition compares expirations with: seconds since the epoch.
    pub now_seconds: u64,
    /// The time that the condition compares leases with: milliseconds since the epoch.
    pub now_millis: u64,
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

/// How a record is completed.
///
/// Applies if the record is in progress and `token` holds it. Removes the lease; leaves the
/// fingerprint and the token.
#[derive(Clone)]
#[non_exhaustive]
pub struct Completion {
    /// The record's id.
    pub record_id: String,
    /// The claim that has to hold it.
    pub token: FencingToken,
    /// When the record ends: seconds since the epoch.
    pub expiration: u64,
    /// The result as JSON text, if there is one.
    pub data: Option<String>,
}

/// Deletes a record that is in progress and held by `token`.
#[derive(Clone)]
#[non_exhaustive]
pub struct ReleaseRequest {
    /// The record's id.
    pub record_id: String,
    /// The claim that has to hold it.
    pub token: FencingToken,
}

impl fmt::Debug for ClaimRequest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ClaimRequest")
            .field("token", &self.token)
            .field("lease", &self.lease)
            .field("now_millis", &self.now_millis)
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
