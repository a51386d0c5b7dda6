//! The record of one idempotency key: its status, its lease, who holds it, and how long it lives.

use std::fmt;
use std::time::{Duration, SystemTime};

use sha2::{Digest, Sha256};
use uuid::Uuid;

use crate::clock::{epoch_millis, epoch_seconds};
use crate::json;

const SECONDS_PER_DAY: u64 = 24 * 60 * 60;

/// The stored state of one idempotency key.
#[derive(Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Record {
    /// Whether an attempt holds the key or one has completed it.
    pub status: Status,
    /// The claim that holds or completed the key. Absent on records that others wrote.
    pub token: Option<FencingToken>,
    /// Until when the claim holds. Absent once completed.
    pub lease: Option<Lease>,
    /// When the record ends, in seconds since the epoch.
    pub expiration: Option<u64>,
    /// The result as JSON text. Absent where the handler returned none.
    pub data: Option<String>,
    /// What the payload was. Absent where it was not asked for.
    pub fingerprint: Option<Fingerprint>,
}

impl Record {
    /// A record of this status with nothing else known.
    pub fn new(status: Status) -> Self {
        Self {
            status,
            token: None,
            lease: None,
            expiration: None,
            data: None,
            fingerprint: None,
        }
    }

    /// Whether a claim may replace the record: its retention has ended, or it is in progress and its
    /// lease has. One that is in progress with no lease is held until it expires.
    pub fn is_free(&self, now: Moment) -> bool {
        let is_expired = self.expiration.is_some_and(|end| end < now.seconds);
        let lease_ended = self
            .lease
            .is_some_and(|lease| lease.until_millis < now.millis);
        is_expired || (self.status == Status::InProgress && lease_ended)
    }

    pub(crate) fn is_held_by(&self, token: &FencingToken) -> bool {
        self.token.as_ref() == Some(token)
    }

    /// Whether the payload is another one than the record's. Where either side has no fingerprint
    /// there is nothing to compare.
    pub(crate) fn contradicts(&self, fingerprint: Option<&Fingerprint>) -> bool {
        match (&self.fingerprint, fingerprint) {
            (Some(stored), Some(ours)) => stored != ours,
            _ => false,
        }
    }
}

impl fmt::Debug for Record {
    /// Without the result: it is the user's data.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Record")
            .field("status", &self.status)
            .field("token", &self.token)
            .field("lease", &self.lease)
            .field("expiration", &self.expiration)
            .field("data_bytes", &self.data.as_ref().map(String::len))
            .field("fingerprint", &self.fingerprint)
            .finish()
    }
}

/// Where a key stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Status {
    /// An attempt has claimed the key and has not committed.
    InProgress,
    /// The work is done: its writes and this status were committed together.
    Completed,
}

impl Status {
    /// The text in the status attribute, as Powertools for AWS Lambda writes it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::InProgress => "INPROGRESS",
            Self::Completed => "COMPLETED",
        }
    }
}

/// Until when a claim holds its key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Lease {
    until_millis: u64,
}

impl Lease {
    /// A lease that ends at this time; fractions of a millisecond are dropped.
    pub fn until(time: SystemTime) -> Self {
        Self::until_millis(epoch_millis(time))
    }

    /// A lease that ends this many milliseconds after the epoch.
    pub fn until_millis(until_millis: u64) -> Self {
        Self { until_millis }
    }

    /// The end in milliseconds since the epoch.
    pub fn as_millis(self) -> u64 {
        self.until_millis
    }
}

/// A time in the two units that records are kept in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Moment {
    /// Seconds since the epoch, as expirations are.
    pub seconds: u64,
    /// Milliseconds since the epoch, as leases are.
    pub millis: u64,
}

impl Moment {
    /// This time; fractions of a unit are dropped.
    pub fn at(time: SystemTime) -> Self {
        Self {
            seconds: epoch_seconds(time),
            millis: epoch_millis(time),
        }
    }
}

/// Names one claim. Every later write on the record is conditional on it, so that an attempt that
/// was overtaken can't write any more.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct FencingToken(String);

impl FencingToken {
    /// A token that no other claim has.
    pub fn random() -> Self {
        Self(Uuid::new_v4().simple().to_string())
    }

    /// The token that a record holds.
    pub fn new(token: impl Into<String>) -> Self {
        Self(token.into())
    }

    /// The token as stored.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for FencingToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// What a payload was: a SHA-256 over its canonical JSON, in hexadecimal.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct Fingerprint(String);

impl Fingerprint {
    /// The fingerprint that a record holds.
    pub fn new(stored: impl Into<String>) -> Self {
        Self(stored.into())
    }

    /// The fingerprint as stored.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Of JSON text: two texts that mean the same have the same fingerprint.
    pub(crate) fn of_json(text: &str) -> Result<Self, serde_json::Error> {
        Ok(Self(sha256_hex(&["json", &json::canonical(text)?])))
    }

    /// Of text that is not JSON, as it is.
    pub(crate) fn of_text(text: &str) -> Self {
        Self(sha256_hex(&["text", text]))
    }
}

impl fmt::Debug for Fingerprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// The SHA-256 of one text, as `sha256sum` prints it.
pub(crate) fn sha256_of(text: &str) -> String {
    hex(Sha256::new_with_prefix(text))
}

/// SHA-256 over parts that can't run into each other, in lower-case hexadecimal.
pub(crate) fn sha256_hex(parts: &[&str]) -> String {
    let mut hash = Sha256::new();
    for part in parts {
        // The length first, so that ["ab", "c"] and ["a", "bc"] differ.
        hash.update((part.len() as u64).to_be_bytes());
        hash.update(part.as_bytes());
    }
    hex(hash)
}

fn hex(hash: Sha256) -> String {
    let digest = hash.finalize();
    let mut hex = String::with_capacity(2 * digest.len());
    for byte in digest {
        for half in [byte >> 4, byte & 0xf] {
            hex.extend(char::from_digit(u32::from(half), 16));
        }
    }
    hex
}

/// How long a record is kept, and with it the memory that a message was done.
///
/// **Keep it longer than the longest time in which a message can come back.** A message that
/// returns after its record has ended runs again. On a standard queue with a dead-letter queue
/// that is the retention of both: at most [14 days each][quota], so 28 days with one redrive, which
/// is the default. A move to the dead-letter queue keeps the enqueue time on a standard queue and
/// [starts it again on a FIFO queue][fifo], and [each redrive starts it again][redrive]: 42 days for
/// FIFO with one redrive. Each further redrive takes 14 more, 28 for FIFO.
///
/// [fifo]: https://docs.aws.amazon.com/AWSSimpleQueueService/latest/SQSDeveloperGuide/setting-up-dead-letter-queue-retention.html
/// [quota]: https://docs.aws.amazon.com/AWSSimpleQueueService/latest/SQSDeveloperGuide/quotas-messages.html
/// [redrive]: https://docs.aws.amazon.com/AWSSimpleQueueService/latest/SQSDeveloperGuide/sqs-dead-letter-queues.html
///
/// ```
/// use lambda_idempotency::Retention;
/// use std::time::Duration;
///
/// assert_eq!(Retention::default(), Retention::days(28));
/// assert_eq!(Retention::from(Duration::from_secs(3600)), Retention::hours(1));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[doc(alias = "expires_after_seconds")]
pub struct Retention {
    seconds: u64,
}

impl Retention {
    /// This many days of 24 hours.
    pub const fn days(days: u32) -> Self {
        Self {
            seconds: days as u64 * SECONDS_PER_DAY,
        }
    }

    /// This many hours.
    pub const fn hours(hours: u32) -> Self {
        Self {
            seconds: hours as u64 * 60 * 60,
        }
    }

    /// The retention in seconds.
    pub const fn as_secs(self) -> u64 {
        self.seconds
    }

    /// The TTL attribute's value for a record written now: seconds since the epoch.
    pub(crate) fn expiration(self, now: SystemTime) -> u64 {
        epoch_seconds(now).saturating_add(self.seconds)
    }
}

impl Default for Retention {
    /// 28 days: a standard queue and one redrive.
    fn default() -> Self {
        Self::days(28)
    }
}

impl From<Duration> for Retention {
    /// Rounded up to whole seconds.
    fn from(duration: Duration) -> Self {
        let part = u64::from(duration.subsec_nanos() > 0);
        Self {
            seconds: duration.as_secs().saturating_add(part),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hashed_parts_do_not_run_into_each_other() {
        assert_eq!(
            sha256_of("abc"),
            "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
        );
        assert_ne!(sha256_hex(&["ab", "c"]), sha256_hex(&["a", "bc"]));
        assert_ne!(sha256_hex(&["ab"]), sha256_hex(&["ab", ""]));
    }

    #[test]
    fn text_that_looks_like_json_has_a_fingerprint_of_its_own() {
        assert_ne!(
            Fingerprint::of_text("1"),
            Fingerprint::of_json("1").unwrap()
        );
    }

    #[test]
    fn a_part_of_a_second_counts_as_a_whole_one() {
        assert_eq!(Retention::from(Duration::from_millis(1_001)).as_secs(), 2);
    }
}
