//! Where records are kept: the requests of the protocol, and every answer to them.
//!
//! [`DynamoDbStore`] is the store. The trait is public so that another one can be wrapped around
//! it: to inject faults in a test, to count, to trace.
//!
//! ```
//! use lambda_idempotency::store::{
//!     ClaimAnswer, ClaimRequest, CommitAnswer, CommitRequest, GroupAnswer, GroupRequest,
//!     ReleaseAnswer, ReleaseRequest, Seen, Store, StoreError,
//! };
//!
//! /// Loses the reply of every commit.
//! struct LosesReplies<S>(S);
//!
//! impl<S: Store> Store for LosesReplies<S> {
//!     async fn claim(&self, request: &ClaimRequest) -> ClaimAnswer {
//!         self.0.claim(request).await
//!     }
//!     async fn commit(&self, request: &CommitRequest) -> CommitAnswer {
//!         self.0.commit(request).await;
//!         CommitAnswer::Failed(StoreError::unknown("the reply was lost"))
//!     }
//!     // Left out, no commits would be grouped.
//!     async fn commit_group(&self, request: &GroupRequest) -> GroupAnswer {
//!         self.0.commit_group(request).await;
//!         GroupAnswer::Failed(StoreError::unknown("the reply was lost"))
//!     }
//!     async fn release(&self, request: &ReleaseRequest) -> ReleaseAnswer {
//!         self.0.release(request).await
//!     }
//!     async fn read(&self, record_id: &str) -> Result<Seen, StoreError> {
//!         self.0.read(record_id).await
//!     }
//! }
//! ```

mod answer;
mod classify;
mod dynamodb;
mod erased;
mod item;
mod layout;
mod refusal;
mod request;

use std::future::Future;
use std::sync::Arc;

pub use self::answer::{
    ClaimAnswer, CommitAnswer, Failure, GroupAnswer, ReleaseAnswer, Seen, StoreError,
};
pub use self::dynamodb::DynamoDbStore;
pub(crate) use self::erased::ErasedStore;
pub use self::item::AttributeNames;
pub use self::refusal::Refusal;
pub use self::request::{
    ClaimRequest, CommitRequest, Completion, CompletionCondition, GroupRequest, ReleaseRequest,
};
pub use crate::record::{FencingToken, Fingerprint, Lease, Moment, Record, Status};

/// A store of records with conditional writes.
///
/// Each method sends one request and says what came of it; trying again is the caller's. The same
/// request may be sent more than once: it is the same value then, under the same tokens, and a
/// copy of it may still arrive after the answer to another.
pub trait Store: Send + Sync + 'static {
    /// Takes the key for one attempt, if there is no record, its retention has ended, or its lease
    /// has.
    fn claim(&self, request: &ClaimRequest) -> impl Future<Output = ClaimAnswer> + Send;

    /// Completes the record and applies the writes, all or nothing.
    fn commit(&self, request: &CommitRequest) -> impl Future<Output = CommitAnswer> + Send;

    /// Applies the commits of several messages, all or nothing. Called only with
    /// [`group_commits`](crate::SqsService::group_commits).
    ///
    /// A store that does not implement it commits one message at a time.
    fn commit_group(&self, request: &GroupRequest) -> impl Future<Output = GroupAnswer> + Send {
        let _ = request;
        std::future::ready(GroupAnswer::Undecided(StoreError::new(
            Failure::Rejected,
            "this store commits no groups",
        )))
    }

    /// Deletes the record if this claim holds it.
    fn release(&self, request: &ReleaseRequest) -> impl Future<Output = ReleaseAnswer> + Send;

    /// Reads the record with strong consistency.
    fn read(&self, record_id: &str) -> impl Future<Output = Result<Seen, StoreError>> + Send;

    /// Whether the store's own configuration can work. Called once, when building.
    ///
    /// # Errors
    ///
    /// A sentence that says what is wrong and what to write instead.
    fn check(&self) -> Result<(), String> {
        Ok(())
    }
}

impl<S: Store> Store for Arc<S> {
    fn claim(&self, request: &ClaimRequest) -> impl Future<Output = ClaimAnswer> + Send {
        S::claim(self, request)
    }

    fn commit(&self, request: &CommitRequest) -> impl Future<Output = CommitAnswer> + Send {
        S::commit(self, request)
    }

    fn commit_group(&self, request: &GroupRequest) -> impl Future<Output = GroupAnswer> + Send {
        S::commit_group(self, request)
    }

    fn release(&self, request: &ReleaseRequest) -> impl Future<Output = ReleaseAnswer> + Send {
        S::release(self, request)
    }

    fn read(&self, record_id: &str) -> impl Future<Output = Result<Seen, StoreError>> + Send {
        S::read(self, record_id)
    }

    fn check(&self) -> Result<(), String> {
        S::check(self)
    }
}
