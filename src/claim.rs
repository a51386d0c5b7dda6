//! When a message takes its key.

/// When a message takes its key: before its handler runs, or together with its writes.
///
/// | | first delivery | handler error | duplicate |
/// | --- | --- | --- | --- |
/// | [`First`](Self::First) | 2 requests | 2 | 1, and the handler does not run |
/// | [`AtCommit`](Self::AtCommit) | 1 request | 0, and a read more for the redelivery | 1; the handler may run, and its writes are refused |
///
/// Both keep the promise that a message's writes take effect once, and both can be used on one key,
/// as while a deployment switches from one to the other.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Claim {
    /// Take the key, run the handler, commit. The default, and right for every handler: while the
    /// claim's lease lives, no second handler runs for the key.
    #[default]
    First,
    /// Run the handler, then take the key in the very transaction that applies its writes: one
    /// request a message.
    ///
    /// For handlers that do nothing but compute their writes. It is wrong for one that calls
    /// something else (a payment provider, an e-mail service, another queue) or that is expensive:
    /// two deliveries that come close together both run it, and only the writes of one are applied.
    /// That a payload differs from the first one under its key is found only after the handler ran
    /// for it.
    ///
    /// A message that was received before (its receive count is above 1) is looked up first, with
    /// one consistent read, because it is likelier to be a duplicate: a handler is not run again
    /// for a message that is known to be done.
    AtCommit,
}
