//! How long things take: Lambda's and SQS's times, scaled down.

use std::time::Duration;

/// The function's time-out, and so the end of each lease.
pub(crate) const TIME_OUT: Duration = Duration::from_millis(3_000);

/// For so long a message is hidden when it is received. SQS wants at least the function's time-out.
pub(crate) const VISIBILITY: Duration = Duration::from_millis(4_000);

/// So long after the deadline Lambda's patience ends.
pub(crate) const GRACE: Duration = Duration::from_millis(200);

/// A request that is held so long, from any moment of its invocation, arrives when its messages are
/// with others.
pub(crate) const PAST_TAKEOVER: Duration = Duration::from_millis(4_500);

/// No request is held for longer.
pub(crate) const LATEST: Duration = Duration::from_millis(6_000);

/// An outage ends while commits are tried, while they are settled, or after the invocation.
pub(crate) const SHORTEST_OUTAGE: Duration = Duration::from_millis(1_000);
pub(crate) const LONGEST_OUTAGE: Duration = Duration::from_millis(4_500);

/// A stalled worker goes on at the latest so long after its messages came back, taken over or not.
pub(crate) const LONGEST_WAIT_FOR_TAKEOVER: Duration = Duration::from_secs(15);

/// A message that is received more often goes to the dead-letter queue. Faults alone do not get it there.
pub(crate) const MAX_RECEIVES: u32 = 40;

/// A worker that is alive and asks for nothing for so long hangs, and so does a run without progress.
pub(crate) const HUNG: Duration = Duration::from_secs(90);
