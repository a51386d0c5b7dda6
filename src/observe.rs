//! What became of each message: outcome and reason, the report an observer gets, the span and the
//! log line.

use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::Duration;

use serde::Serialize;
use tracing::{Level, Span, field};

use crate::error::{Error, ErrorKind, drop_payload};

/// What became of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Outcome {
    /// Its work is committed, by this delivery. Acknowledged.
    Completed,
    /// Its work was committed by another delivery. Acknowledged, and not run; with
    /// [`Claim::AtCommit`](crate::Claim::AtCommit) it may have run, and its writes were refused.
    Duplicate,
    /// Another attempt holds its key. Comes back later.
    InProgress,
    /// It failed. Comes back.
    Failed,
    /// It was not started. Comes back.
    Unprocessed,
    /// A rule of the user's acknowledges it without running it.
    Skipped,
    /// It has no key and ran without protection, as the user wants it. Acknowledged.
    Unprotected,
}

impl Outcome {
    /// The outcome in `snake_case`, as in logs and metrics.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Completed => "completed",
            Self::Duplicate => "duplicate",
            Self::InProgress => "in_progress",
            Self::Failed => "failed",
            Self::Unprocessed => "unprocessed",
            Self::Skipped => "skipped",
            Self::Unprotected => "unprotected",
        }
    }

    /// Whether the message is deleted from the queue; otherwise it is reported and comes back.
    pub fn is_acknowledged(self) -> bool {
        match self {
            Self::Completed | Self::Duplicate | Self::Skipped | Self::Unprotected => true,
            Self::InProgress | Self::Failed | Self::Unprocessed => false,
        }
    }
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// Why a message has its [`Outcome`], where that does not say it all.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Reason {
    /// Completed without its writes: the table has seen a newer version.
    Stale,
    /// The handler returned an error.
    Handler,
    /// The record, its envelope or its body can't be decoded.
    Decode,
    /// It has no key, or what is there can't be one.
    Key,
    /// Its key was used with another payload.
    PayloadMismatch,
    /// Another attempt took the key over.
    LeaseLost,
    /// The time was up.
    Deadline,
    /// A condition of a business write failed.
    Condition,
    /// The store refused or was not to be reached, or holds what can't be read; also where it is not
    /// known whether the commit was applied ([`Error::is_unknown`](crate::Error::is_unknown)).
    Store,
    /// The handler panicked.
    Panic,
    /// The transaction can't be committed.
    Commit,
    /// A message before it in its FIFO group is not done.
    Group,
}

impl Reason {
    /// The reason in `snake_case`, as in logs and metrics.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Stale => "stale",
            Self::Handler => "handler",
            Self::Decode => "decode",
            Self::Key => "key",
            Self::PayloadMismatch => "payload_mismatch",
            Self::LeaseLost => "lease_lost",
            Self::Deadline => "deadline",
            Self::Condition => "condition",
            Self::Store => "store",
            Self::Panic => "panic",
            Self::Commit => "commit",
            Self::Group => "group",
        }
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// The outcome and the reason that an error stands for.
pub(crate) fn outcome_of(error: &Error) -> (Outcome, Option<Reason>) {
    let reason = match error.kind() {
        ErrorKind::InProgress => return (Outcome::InProgress, None),
        ErrorKind::Handler { .. } => Reason::Handler,
        ErrorKind::Decode | ErrorKind::Event => Reason::Decode,
        ErrorKind::Key { .. } | ErrorKind::Configuration => Reason::Key,
        ErrorKind::PayloadMismatch => Reason::PayloadMismatch,
        ErrorKind::LeaseLost => Reason::LeaseLost,
        ErrorKind::Deadline => Reason::Deadline,
        ErrorKind::Condition => Reason::Condition,
        ErrorKind::Store | ErrorKind::Unknown | ErrorKind::UnreadableResult => Reason::Store,
        ErrorKind::Panic => Reason::Panic,
        ErrorKind::Commit => Reason::Commit,
    };
    (Outcome::Failed, Some(reason))
}

/// What an [`Observer`] is told of a message, or of a call of
/// [`Idempotency::run`](crate::Idempotency::run).
///
/// `Debug` prints neither the record id nor the result: they hold the user's data.
#[non_exhaustive]
pub struct Report {
    /// The consumer's name.
    pub consumer: Arc<str>,
    /// The message's place in its batch, from 0. Absent for a call that is not a message.
    pub position: Option<usize>,
    /// The message id of SQS. Absent for a call that is not a message.
    pub message_id: Option<String>,
    /// The id of the record, where it came to one.
    pub record_id: Option<Arc<str>>,
    /// How often the message has been received, as SQS counts.
    pub receive_count: Option<u32>,
    /// What became of it.
    pub outcome: Outcome,
    /// Why, where the outcome does not say it all.
    pub reason: Option<Reason>,
    /// The error of a message that is not acknowledged, where there is one.
    pub error: Option<Error>,
    /// The stored result as JSON text: of this attempt, or of the one that this is a duplicate of.
    pub result: Option<String>,
    /// Requests to the store. Tries that the AWS SDK makes by itself are not counted.
    pub requests: u32,
    /// From the start of the message to its end.
    pub duration: Duration,
    /// How long the handler ran, if it did.
    pub handler_duration: Option<Duration>,
}

impl fmt::Debug for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Report")
            .field("consumer", &self.consumer)
            .field("position", &self.position)
            .field("message_id", &self.message_id)
            .field("receive_count", &self.receive_count)
            .field("outcome", &self.outcome)
            .field("reason", &self.reason)
            .field("error", &self.error)
            .field("requests", &self.requests)
            .field("duration", &self.duration)
            .field("handler_duration", &self.handler_duration)
            .finish_non_exhaustive()
    }
}

/// Is told what became of every message: for metrics, for tests. Every `Fn(&Report)` is one.
///
/// It is called once for each message, duplicates and unprocessed ones too, in the order in which
/// they end, and should return at once. A panic in it is logged and changes nothing.
///
/// ```
/// # use lambda_idempotency::{IdempotencyBuilder, Report};
/// # fn observe(builder: IdempotencyBuilder) {
/// let builder = builder.observer(|report: &Report| {
///     println!("{} {:?} {:?}", report.outcome, report.reason, report.duration);
/// });
/// # }
/// ```
pub trait Observer: Send + Sync + 'static {
    /// One message has ended.
    fn observe(&self, report: &Report);
}

impl<F: Fn(&Report) + Send + Sync + 'static> Observer for F {
    fn observe(&self, report: &Report) {
        self(report);
    }
}

/// What a span is opened with.
pub(crate) struct Subject<'a> {
    pub(crate) consumer: &'a str,
    pub(crate) message_id: Option<&'a str>,
    pub(crate) receive_count: Option<u32>,
    pub(crate) trace_header: Option<&'a str>,
}

/// The span of one message. The record id, the outcome and the reason are recorded later.
pub(crate) fn span(subject: &Subject<'_>) -> Span {
    // At the highest level, so that it is there however little is logged: a line that says "failed"
    // must say of what.
    tracing::error_span!(
        "message",
        consumer = subject.consumer,
        message_id = subject.message_id,
        record_id = field::Empty,
        receive_count = subject.receive_count,
        aws_trace_header = subject.trace_header,
        outcome = field::Empty,
        reason = field::Empty,
    )
}

/// Ends a message: records the outcome in its span, logs one line, tells the observer.
pub(crate) fn finish(span: &Span, observer: Option<&dyn Observer>, report: &Report) {
    span.record("outcome", report.outcome.as_str());
    let reason = report.reason.map(Reason::as_str);
    if let Some(reason) = reason {
        span.record("reason", reason);
    }
    // The text of a handler's error is the user's code, and so is the observer.
    let error = report.error.as_ref().map(|error| {
        catch_unwind(AssertUnwindSafe(|| format!("{error:#}"))).unwrap_or_else(|panic| {
            drop_payload(panic);
            "the error's own text panicked".to_owned()
        })
    });
    span.in_scope(|| log(report, reason, error.as_deref()));
    if let Some(observer) = observer
        && let Err(panic) = catch_unwind(AssertUnwindSafe(|| observer.observe(report)))
    {
        drop_payload(panic);
        span.in_scope(|| tracing::error!("the observer panicked; the message is not affected"));
    }
}

fn log(report: &Report, reason: Option<&str>, error: Option<&str>) {
    // `tracing` fixes the level at the call site, hence the macro.
    macro_rules! line {
        ($level:expr) => {
            tracing::event!(
                $level,
                outcome = report.outcome.as_str(),
                reason,
                error,
                requests = report.requests,
                duration_ms = u64::try_from(report.duration.as_millis()).unwrap_or(u64::MAX),
                "message {}",
                report.outcome
            )
        };
    }
    match (report.outcome, report.error.as_ref()) {
        // A handler that asks to be tried again is no news; what needs a person is.
        (Outcome::Failed, Some(error)) if error.is_handler() && !error.is_permanent() => {
            line!(Level::WARN);
        }
        (Outcome::Failed, _) => line!(Level::ERROR),
        (Outcome::Unprocessed, _) => line!(Level::WARN),
        _ => line!(Level::INFO),
    }
}
