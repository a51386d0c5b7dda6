//! The front door: `Idempotency`, and the call that is not a batch.

use std::fmt;
use std::sync::{Arc, Once};
use std::time::{Duration, SystemTime};

use serde::Serialize;
use serde::de::DeserializeOwned;
use tracing::Instrument as _;

use crate::claim::Claim;
use crate::engine::{self, Ended, Engine, Finish, Protection, Times, WorkError};
use crate::error::{Error, ErrorKind};
use crate::handler::{Attempt, HandlerError};
use crate::key;
use crate::observe::{self, Observer, Outcome, Reason, Report, Subject};
use crate::record::Fingerprint;
use crate::transaction::{IntoTransaction, Prepared};

/// Makes each message, or each call, take effect once.
///
/// Build one when the function starts and keep it; cloning is cheap.
///
/// ```no_run
/// use lambda_idempotency::{DynamoDbStore, HandlerError, Idempotency, Message, Retention};
///
/// async fn handle(message: Message<serde_json::Value>) -> Result<(), HandlerError> {
///     Ok(())
/// }
///
/// # async fn start(client: aws_sdk_dynamodb::Client) -> Result<(), lambda_runtime::Error> {
/// let idempotency = Idempotency::builder(DynamoDbStore::new(client, "idempotency"))
///     .consumer("payments")
///     .retention(Retention::days(28))
///     .build()?;
/// lambda_runtime::run(idempotency.sqs(handle)).await
/// # }
/// ```
#[derive(Clone)]
pub struct Idempotency {
    pub(crate) shared: Arc<Shared>,
}

/// What every message needs, once for all.
pub(crate) struct Shared {
    pub(crate) engine: Engine,
    pub(crate) consumer: Arc<str>,
    pub(crate) claim: Claim,
    pub(crate) observer: Option<Arc<dyn Observer>>,
    pub(crate) default_time: Duration,
    pub(crate) log_keys: bool,
    /// A deadline that can't be right is worth one line in the log, not one an invocation.
    pub(crate) distrusted: Once,
}

impl Idempotency {
    /// Runs `work` for a key, unless it is done: for a caller that is not a batch of messages.
    ///
    /// The key is scoped by the consumer's name. `payload` is compared with that of the first call
    /// under the key, as canonical JSON; `&()` (or anything else that serialises as `null`) stands
    /// for no comparison. The claim holds until `deadline`, and `work` is dropped shortly before,
    /// so that there is time to commit or to settle. A deadline that Lambda can't have given (more
    /// than 16 minutes ahead, or more than 15 minutes past) is replaced by
    /// [`default_time`](crate::IdempotencyBuilder::default_time).
    ///
    /// With [`Claim::AtCommit`] there is no claim: `work` runs at each call, also for a key that is
    /// done, and the commit decides.
    ///
    /// Dropping the future leaves the key claimed until the deadline.
    ///
    /// # Errors
    ///
    /// The predicates of [`Error`] tell the results apart that are not done:
    /// [`is_in_progress`](Error::is_in_progress) (call again later),
    /// [`is_payload_mismatch`](Error::is_payload_mismatch),
    /// [`is_unknown`](Error::is_unknown) (call again with the same key to find out), and the
    /// failures after which nothing was applied. One says that the work *is* done:
    /// [`is_unreadable_result`](Error::is_unreadable_result).
    ///
    /// ```
    /// use lambda_idempotency::{Attempt, Done, Error, Idempotency, Transaction};
    /// # use std::time::SystemTime;
    /// # async fn call(idempotency: Idempotency, deadline: SystemTime) -> Result<(), Error> {
    /// let order = serde_json::json!({ "id": "o-1", "amount": 4000 });
    /// let done = idempotency
    ///     .run("o-1", &order, deadline, |_attempt: Attempt| async {
    ///         Ok(Transaction::new().put("orders", &order).returning("accepted".to_owned()))
    ///     })
    ///     .await?;
    /// match done {
    ///     Done::Completed(result) => println!("{result}"),
    ///     Done::Duplicate(result) => println!("again {result:?}"),
    ///     other => println!("{other:?}"),
    /// }
    /// # Ok(()) }
    /// ```
    pub async fn run<T, F, Fut>(
        &self,
        key: &str,
        payload: &(impl Serialize + Sync + ?Sized),
        deadline: SystemTime,
        work: F,
    ) -> Result<Done<T::Result>, Error>
    where
        F: FnOnce(Attempt) -> Fut,
        Fut: Future<Output = Result<T, HandlerError>> + Send,
        T: IntoTransaction,
        T::Result: DeserializeOwned,
    {
        let shared = &self.shared;
        let span = observe::span(&Subject {
            consumer: &shared.consumer,
            message_id: None,
            receive_count: None,
            trace_header: None,
        });
        let started = shared.engine.clock.now();
        let record_id: Arc<str> = key::record_id(&shared.consumer, key).into();
        shared.record_id_in(&span, &record_id, key, true);
        let ended = async {
            key::present(Some(key.to_owned()), "the key of the call")?;
            let fingerprint = fingerprint_of(payload)?;
            let protection = Protection::Record {
                record_id: Arc::clone(&record_id),
                fingerprint,
                claim: shared.claim,
                may_be_done: false,
            };
            let times = shared.times(deadline);
            let keys = &shared.engine.key_attributes;
            let work = async |attempt| {
                let transaction = work(attempt).await?.into_transaction();
                let prepared = transaction.prepare(keys)?;
                check_readable::<T::Result>(&prepared)?;
                Ok::<_, WorkError>(prepared)
            };
            Ok(shared.engine.attempt(protection, times, None, work).await)
        }
        .instrument(span.clone())
        .await;
        let ended = ended.unwrap_or_else(Ended::before_the_store);
        let report = shared.report(ended, Some(record_id), started);
        observe::finish(&span, shared.observer.as_deref(), &report);
        done(report)
    }

    /// Opens a connection to the store, and finds out whether its table can be used: one consistent
    /// read of a record that is not there.
    ///
    /// For the start of a function, before `lambda_runtime::run`: the name is resolved and TLS set
    /// up in the initialisation, which Lambda gives more processor time, and not in the first
    /// message's time. It is tried once, for as long as the store's time-outs allow. Whether an
    /// error should end the start is the caller's choice: a wrong table name stays wrong, an
    /// overloaded store may not.
    ///
    /// # Errors
    ///
    /// The store can't be reached, or refuses the read: [`is_store`](Error::is_store).
    ///
    /// ```no_run
    /// # async fn start(idempotency: lambda_idempotency::Idempotency) {
    /// if let Err(error) = idempotency.warm_up().await {
    ///     tracing::warn!("the first message will open the connection: {error}");
    /// }
    /// # }
    /// ```
    pub async fn warm_up(&self) -> Result<(), Error> {
        // No message has it: an empty key is refused.
        let nobody = key::record_id(&self.shared.consumer, "");
        self.shared.engine.reach(&nobody).await
    }

    pub(crate) fn shared(&self) -> &Shared {
        &self.shared
    }
}

impl Shared {
    /// The times of an invocation with this deadline.
    pub(crate) fn times(&self, deadline: SystemTime) -> Times {
        let now = self.engine.clock.now();
        if engine::is_believable(deadline, now) {
            return Times::until(deadline, now);
        }
        self.distrusted.call_once(|| {
            tracing::warn!(
            default_ms = u64::try_from(self.default_time.as_millis()).unwrap_or(u64::MAX),
            "the invocation's deadline can't be right (local runners report 1970): the configured \
             default time is used instead"
            );
        });
        Times::until(now + self.default_time, now)
    }

    pub(crate) fn report(
        &self,
        ended: Ended,
        record_id: Option<Arc<str>>,
        started: SystemTime,
    ) -> Report {
        let (outcome, reason, result, error) = match ended.result {
            Ok(Finish::Completed { data, stale }) => (
                Outcome::Completed,
                stale.then_some(Reason::Stale),
                data,
                None,
            ),
            Ok(Finish::Duplicate { data, .. }) => (Outcome::Duplicate, None, data, None),
            Err(error) => {
                let (outcome, reason) = observe::outcome_of(&error);
                (outcome, reason, None, Some(error))
            }
        };
        Report {
            consumer: Arc::clone(&self.consumer),
            position: None,
            message_id: None,
            record_id,
            receive_count: None,
            outcome,
            reason,
            error,
            result,
            requests: ended.requests,
            duration: engine::left(self.engine.clock.now(), started),
            handler_duration: ended.handler_duration,
        }
    }

    /// Records the record id in the span: with the key's hash in place of a key that is the user's
    /// data, unless the user wants to see it.
    pub(crate) fn record_id_in(
        &self,
        span: &tracing::Span,
        record_id: &str,
        key: &str,
        is_user_data: bool,
    ) {
        if span.is_disabled() {
            return;
        }
        if is_user_data && !self.log_keys {
            let hashed = key::hashed_record_id(&self.consumer, key);
            span.record("record_id", hashed.as_str());
        } else {
            span.record("record_id", record_id);
        }
    }
}

/// A call whose work is committed: by this call, or by an earlier one under the same key.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Done<R> {
    /// This call's work was committed; its result.
    Completed(R),
    /// An earlier call's work was committed; its stored result. `None` if the record holds none.
    Duplicate(Option<R>),
    /// The record was completed without any writes: a version guard found a newer version.
    Stale,
}

impl<R> Done<R> {
    /// The result, whoever's it is.
    pub fn into_result(self) -> Option<R> {
        match self {
            Self::Completed(result) => Some(result),
            Self::Duplicate(result) => result,
            Self::Stale => None,
        }
    }
}

fn done<R: DeserializeOwned>(report: Report) -> Result<Done<R>, Error> {
    if let Some(error) = report.error {
        return Err(error);
    }
    if report.reason == Some(Reason::Stale) {
        return Ok(Done::Stale);
    }
    let result = match &report.result {
        Some(json) => serde_json::from_str(json).map(Some).map_err(|error| {
            Error::new(
                ErrorKind::UnreadableResult,
                format!(
                    "the work is done, but its stored result is of another type ({}): keep the \
                     type readable for as long as records live",
                    crate::json::describe(&error)
                ),
            )
        })?,
        // Nothing stored is the value of a type that has only one, such as `()`, and no result of
        // any other.
        None if size_of::<R>() == 0 => serde_json::from_str("null").ok(),
        None => None,
    };
    match (report.outcome, result) {
        (Outcome::Completed, Some(result)) => Ok(Done::Completed(result)),
        (_, result) => Ok(Done::Duplicate(result)),
    }
}

/// Whether a duplicate could read the results: better found out before anything is written.
fn check_readable<R: DeserializeOwned>(prepared: &Prepared) -> Result<(), HandlerError> {
    if let Some(json) = &prepared.data {
        serde_json::from_str::<R>(json).map_err(|error| {
            format!(
                "the result can't be read back from the JSON that it is stored as: {}",
                crate::json::describe(&error)
            )
        })?;
    }
    match &prepared.alternative {
        Some(alternative) => check_readable::<R>(alternative),
        None => Ok(()),
    }
}

fn fingerprint_of(payload: &(impl Serialize + ?Sized)) -> Result<Option<Fingerprint>, Error> {
    let failed = |error: serde_json::Error| {
        Error::new(
            ErrorKind::Key { is_missing: false },
            "the payload can't be serialised as JSON, so it has no fingerprint",
        )
        .with_source(error)
    };
    let json = serde_json::to_string(payload).map_err(failed)?;
    if json == "null" {
        return Ok(None);
    }
    Fingerprint::of_json(&json).map(Some).map_err(failed)
}

impl fmt::Debug for Idempotency {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Idempotency")
            .field("consumer", &self.shared.consumer)
            .field("retention", &self.shared.engine.retention)
            .finish_non_exhaustive()
    }
}
