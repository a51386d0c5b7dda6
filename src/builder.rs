//! Building an `Idempotency`: every setting, its default, and what can be wrong with it.

use std::collections::BTreeSet;
use std::fmt;
use std::sync::{Arc, Once};
use std::time::Duration;

use crate::claim::Claim;
use crate::clock::{Clock, SystemClock};
use crate::engine::{self, Engine, Memory};
use crate::error::{Error, ErrorKind};
use crate::idempotency::{Idempotency, Shared};
use crate::items::KeyAttributes;
use crate::key::check_consumer;
use crate::observe::Observer;
use crate::record::Retention;
use crate::store::Store;

/// Longer retentions are a mistake of units more likely than a wish.
const LONGEST_RETENTION: Retention = Retention::days(3650);

impl Idempotency {
    /// Starts to build one on this store.
    pub fn builder(store: impl Store) -> IdempotencyBuilder {
        IdempotencyBuilder::new(store)
    }
}

/// Builds an [`Idempotency`]. Only the consumer's name has to be given.
#[must_use = "a builder does nothing until `build`"]
pub struct IdempotencyBuilder {
    configuration: Result<(), String>,
    store: Arc<dyn crate::store::ErasedStore>,
    consumer: Option<String>,
    claim: Claim,
    retention: Retention,
    completed_keys: usize,
    lease_at_least: Duration,
    commit_reserve: Duration,
    retry_for: Duration,
    default_time: Duration,
    key_attributes: KeyAttributes,
    clock: Arc<dyn Clock>,
    observer: Option<Arc<dyn Observer>>,
    log_keys: bool,
}

impl IdempotencyBuilder {
    fn new(store: impl Store) -> Self {
        Self {
            configuration: store.check(),
            store: Arc::new(store),
            consumer: None,
            claim: Claim::default(),
            retention: Retention::default(),
            completed_keys: 0,
            lease_at_least: Duration::ZERO,
            commit_reserve: Duration::from_secs(3),
            retry_for: Duration::from_secs(20),
            default_time: Duration::from_secs(30),
            key_attributes: KeyAttributes::default(),
            clock: Arc::new(SystemClock),
            observer: None,
            log_keys: false,
        }
    }

    /// The name of what consumes the messages: part of every record id, so that two consumers of
    /// one table do not take each other's messages for duplicates.
    ///
    /// Choose it once and keep it. A function that is renamed or rewritten keeps its name here,
    /// otherwise every message in flight runs again.
    pub fn consumer(mut self, name: impl Into<String>) -> Self {
        self.consumer = Some(name.into());
        self
    }

    /// When a message takes its key. Default: before its handler runs. See [`Claim`] for when that
    /// can be changed.
    pub fn claim(mut self, claim: Claim) -> Self {
        self.claim = claim;
        self
    }

    /// Remembers up to this many completed keys in the process, so that a duplicate that comes to
    /// the same warm environment costs no request. Default 0: none.
    ///
    /// An entry answers for its own payload only, holds results of up to 16 KiB, and ends with its
    /// record or after 5 minutes, whichever is first. A key that is in progress or failed is never
    /// remembered. For up to 5 minutes a duplicate is acknowledged although somebody has deleted its
    /// record so that it runs again.
    #[doc(alias = "use_local_cache")]
    pub fn remember_completed(mut self, keys: usize) -> Self {
        self.completed_keys = keys;
        self
    }

    /// How long records are kept. Default 28 days; see [`Retention`] for the rule.
    #[doc(alias = "expires_after_seconds")]
    pub fn retention(mut self, retention: impl Into<Retention>) -> Self {
        self.retention = retention.into();
        self
    }

    /// Holds each claim for at least this long, even past the invocation's deadline. Default zero:
    /// the lease ends with the invocation.
    ///
    /// For work that goes on somewhere else after the invocation was cut off. It has a price: a
    /// message that is redelivered while the lease lives is deferred, and each deferral uses up a
    /// receive; at the queue's `maxReceiveCount` it goes to the dead-letter queue.
    pub fn lease_at_least(mut self, duration: Duration) -> Self {
        self.lease_at_least = duration;
        self
    }

    /// How much of the time is kept for commit and settling, at most; never more than a fifth of
    /// what is left. Default 3 s.
    pub fn commit_reserve(mut self, duration: Duration) -> Self {
        self.commit_reserve = duration;
        self
    }

    /// How long a claim or a release is tried again while the store throttles, conflicts or does
    /// not answer; also a commit that takes its key ([`Claim::AtCommit`]), with the look whether it
    /// landed, which has at least 1 s. Default 20 s, never past the deadline. (A commit after a claim
    /// is tried for as long as there is time: the work is done then.)
    pub fn retry_for(mut self, duration: Duration) -> Self {
        self.retry_for = duration;
        self
    }

    /// How long an *invocation* is taken to last if its deadline can't be right: local runners
    /// report one in 1970. Default 30 s.
    pub fn default_time(mut self, duration: Duration) -> Self {
        self.default_time = duration;
        self
    }

    /// The key attributes of a table that handlers put items into, so that two writes on one item
    /// are found before anything is sent. Not needed for tables that a transaction also updates,
    /// deletes from or checks.
    pub fn key_attributes<N: Into<String>>(
        mut self,
        table: impl Into<String>,
        names: impl IntoIterator<Item = N>,
    ) -> Self {
        let names: BTreeSet<String> = names.into_iter().map(Into::into).collect();
        self.key_attributes.insert(table.into(), names);
        self
    }

    /// Another clock, for tests.
    pub fn clock(mut self, clock: impl Clock) -> Self {
        self.clock = Arc::new(clock);
        self
    }

    /// Is told what became of every message.
    pub fn observer(mut self, observer: impl Observer) -> Self {
        self.observer = Some(Arc::new(observer));
        self
    }

    /// Whether spans show keys that are made of message bodies and attributes. Default `false`:
    /// the record id is shown with the key's SHA-256 then. (Message ids, SNS and EventBridge ids
    /// are always shown.)
    pub fn log_keys(mut self, log_keys: bool) -> Self {
        self.log_keys = log_keys;
        self
    }

    /// Checks everything and builds.
    ///
    /// # Errors
    ///
    /// A sentence on the first thing that can't work: the consumer's name, the retention, a
    /// duration, the store's configuration.
    pub fn build(self) -> Result<Idempotency, Error> {
        let wrong = |message: String| Err(Error::new(ErrorKind::Configuration, message));
        if let Err(message) = self.configuration {
            return wrong(message);
        }
        let Some(consumer) = self.consumer else {
            return wrong(
                "no consumer name: call `.consumer(\"payments\")` with a short name for what this \
                 function does, and keep it; records are found by it"
                    .to_owned(),
            );
        };
        check_consumer(&consumer)?;
        let lease = self.lease_at_least.max(engine::LONGEST_AHEAD);
        if Duration::from_secs(self.retention.as_secs()) < lease {
            return wrong(format!(
                "a retention of {} s is shorter than the longest lease, {} s: a record would end \
                 while an attempt holds it; the rule is longer than a message can take to come back",
                self.retention.as_secs(),
                lease.as_secs()
            ));
        }
        if self.retention > LONGEST_RETENTION {
            return wrong(format!(
                "a retention of {} s is longer than 10 years: were milliseconds meant?",
                self.retention.as_secs()
            ));
        }
        for (name, duration) in [
            ("default_time", self.default_time),
            ("retry_for", self.retry_for),
            ("commit_reserve", self.commit_reserve),
        ] {
            if duration.is_zero() {
                return wrong(format!(
                    "`{name}` is zero: nothing could be done in that time"
                ));
            }
        }
        if self.default_time > engine::LONGEST_AHEAD {
            return wrong(
                "`default_time` is longer than any invocation: more than 16 minutes".to_owned(),
            );
        }
        for (table, names) in &self.key_attributes {
            if table.is_empty() || names.is_empty() || names.iter().any(String::is_empty) {
                return wrong(format!(
                    "`key_attributes({table:?}, …)`: give the table's name and the names of its \
                     partition key and, where there is one, its sort key"
                ));
            }
        }
        Ok(Idempotency {
            shared: Arc::new(Shared {
                engine: Engine {
                    store: self.store,
                    clock: self.clock,
                    retention: self.retention,
                    lease_at_least: self.lease_at_least,
                    commit_reserve: self.commit_reserve,
                    retry_for: self.retry_for,
                    key_attributes: self.key_attributes,
                    memory: (self.completed_keys > 0).then(|| Memory::new(self.completed_keys)),
                },
                consumer: consumer.into(),
                claim: self.claim,
                observer: self.observer,
                default_time: self.default_time,
                log_keys: self.log_keys,
                distrusted: Once::new(),
            }),
        })
    }
}

impl fmt::Debug for IdempotencyBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("IdempotencyBuilder")
            .field("consumer", &self.consumer)
            .field("retention", &self.retention)
            .field("lease_at_least", &self.lease_at_least)
            .finish_non_exhaustive()
    }
}
