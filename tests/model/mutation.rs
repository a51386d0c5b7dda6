//! Protocols that are wrong in one place. Each has to be caught, or the model is too weak.

/// One thing that the protocol does wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mutation {
    /// The commit's condition is the token alone.
    CommitWithoutStatus,
    /// The commit's condition is the status alone.
    CommitWithoutToken,
    /// The writes are one request, the record's completion the next.
    MarkerApart,
    /// The release deletes whatever is there.
    ReleaseWithoutCondition,
    /// The release's condition is the token alone.
    ReleaseByTokenOnly,
    /// A claim replaces a record in progress whose lease lives.
    TakeoverOfLivingLease,
    /// A claim writes no lease: nobody may ever take it over.
    ClaimWithoutLease,
    /// The commit-time put has no condition.
    PutWithoutCondition,
    /// A message whose key another attempt holds is acknowledged.
    AcknowledgeInProgress,
    /// A message whose lease was lost is acknowledged.
    AcknowledgeLostLease,
    /// A message whose commit got no answer is acknowledged.
    AcknowledgeUnknown,
    /// A message whose key was used for another payload is acknowledged.
    AcknowledgeMismatch,
    /// A refused group acknowledges all its members.
    GroupAcknowledgesAll,
    /// A refused group fails all its members.
    GroupFailsAll,
    /// A group without an answer is acknowledged without a look at the records.
    GroupAcknowledgesUnknown,
    /// The response leaves out a message that is not done.
    ResponseForgets,
    /// The response names a message twice.
    ResponseRepeats,
}
