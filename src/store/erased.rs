//! The store with its type erased, so that nothing above it is generic over it.

use futures_util::future::BoxFuture;

use super::{
    ClaimAnswer, ClaimRequest, CommitAnswer, CommitRequest, GroupAnswer, GroupRequest,
    ReleaseAnswer, ReleaseRequest, Seen, Store, StoreError,
};

/// [`Store`] with one boxed future a call.
pub(crate) trait ErasedStore: Send + Sync + 'static {
    fn claim<'a>(&'a self, request: &'a ClaimRequest) -> BoxFuture<'a, ClaimAnswer>;
    fn commit<'a>(&'a self, request: &'a CommitRequest) -> BoxFuture<'a, CommitAnswer>;
    fn commit_group<'a>(&'a self, request: &'a GroupRequest) -> BoxFuture<'a, GroupAnswer>;
    fn release<'a>(&'a self, request: &'a ReleaseRequest) -> BoxFuture<'a, ReleaseAnswer>;
    fn read<'a>(&'a self, record_id: &'a str) -> BoxFuture<'a, Result<Seen, StoreError>>;
}

impl<S: Store> ErasedStore for S {
    fn claim<'a>(&'a self, request: &'a ClaimRequest) -> BoxFuture<'a, ClaimAnswer> {
        Box::pin(Store::claim(self, request))
    }

    fn commit<'a>(&'a self, request: &'a CommitRequest) -> BoxFuture<'a, CommitAnswer> {
        Box::pin(Store::commit(self, request))
    }

    fn commit_group<'a>(&'a self, request: &'a GroupRequest) -> BoxFuture<'a, GroupAnswer> {
        Box::pin(Store::commit_group(self, request))
    }

    fn release<'a>(&'a self, request: &'a ReleaseRequest) -> BoxFuture<'a, ReleaseAnswer> {
        Box::pin(Store::release(self, request))
    }

    fn read<'a>(&'a self, record_id: &'a str) -> BoxFuture<'a, Result<Seen, StoreError>> {
        Box::pin(Store::read(self, record_id))
    }
}
