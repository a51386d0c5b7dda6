//! One message, from its record to its report.

use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use futures_util::FutureExt as _;
use lambda_runtime::Context;
use serde::Deserialize;
use tracing::{Instrument as _, Span};

use super::batch::{Closed, Ending, Turn};
use super::event::ReadRecord;
use super::invocation::Invocation;
use crate::delivery::Delivery;
use crate::engine::{self, Driver, Ended, Groups, Protection, Times, WorkError};
use crate::envelope::Envelope;
use crate::error::{Error, ErrorKind};
use crate::handler::{Handler, Message};
use crate::idempotency::Idempotency;
use crate::json::{self, Pointer};
use crate::key::{self, Key, MissingKey};
use crate::observe::{self, Outcome, Reason, Report, Subject};
use crate::record::{FencingToken, Fingerprint};
use crate::transaction::IntoTransaction as _;

const AROUND_THE_HANDLER: &str = "code around the handler (decoder, key, skip rule, destructor)";

/// What is done with each message: the handler, and the options of the service.
pub(super) struct Processor<H, B> {
    idempotency: Idempotency,
    handler: Arc<H>,
    decode: Arc<Decode<B>>,
    pub(super) key: KeySource<B>,
    pub(super) missing_key: MissingKey,
    pub(super) payload: Option<Payload>,
    pub(super) envelope: Envelope,
    pub(super) skip: Option<Arc<Skip>>,
}

pub(super) type Decode<B> = dyn Fn(&Delivery) -> Result<B, Error> + Send + Sync;
pub(super) type BodyKey<B> = dyn Fn(&B) -> Option<String> + Send + Sync;
pub(super) type Skip = dyn Fn(&Delivery) -> bool + Send + Sync;

/// Where a message's key comes from.
pub(super) enum KeySource<B> {
    Delivery(Key),
    Body(Arc<BodyKey<B>>),
}

/// What the fingerprint is taken over.
#[derive(Clone)]
pub(super) enum Payload {
    Body,
    At(Pointer),
}

impl<H, B> Processor<H, B> {
    pub(super) fn new(idempotency: Idempotency, handler: H, decode: Arc<Decode<B>>) -> Self {
        Self {
            idempotency,
            handler: Arc::new(handler),
            decode,
            key: KeySource::Delivery(Key::default()),
            missing_key: MissingKey::default(),
            payload: None,
            envelope: Envelope::default(),
            skip: None,
        }
    }

    /// Where the commits of an invocation go together.
    pub(super) fn groups(&self, times: Times, linger: Duration) -> (Groups, Driver<'_>) {
        self.idempotency.shared().engine.groups(times, linger)
    }

    /// The times of an invocation.
    pub(super) fn times(&self, context: &Context) -> Times {
        self.idempotency.shared().times(context.deadline())
    }
}

impl<H: Handler<B>, B: Send + 'static> Processor<H, B> {
    /// One message, from its record to its report.
    pub(super) async fn message(
        &self,
        record: ReadRecord,
        turn: Turn,
        invocation: &Invocation,
    ) -> Ending {
        let shared = self.idempotency.shared();
        let started = shared.engine.clock.now();
        let position = record.position;
        let delivery = &record.delivery;
        let message_id = delivery.message_id.clone();
        let receive_count = delivery.receive_count();
        let span = observe::span(&Subject {
            consumer: &shared.consumer,
            message_id: message_id.as_deref(),
            receive_count,
            trace_header: delivery.trace_header(),
        });
        let mut record_id = None;
        let verdict = match turn {
            Turn::GroupStopped => Verdict::Unprocessed(Reason::Group),
            Turn::Run => {
                let verdict = self
                    .verdict(record, &span, invocation, &mut record_id)
                    .instrument(span.clone());
                // The engine catches the handler's panics; this is for those of other user code,
                // such as a destructor. A claim stays until its lease ends then.
                AssertUnwindSafe(verdict)
                    .catch_unwind()
                    .await
                    .unwrap_or_else(|panic| {
                        let error = engine::panicked(AROUND_THE_HANDLER, panic);
                        Verdict::Ended(Ended::before_the_store(error))
                    })
            }
        };
        let mut report = match verdict {
            Verdict::Ended(ended) => shared.report(ended, record_id, started),
            Verdict::Unprotected(ended) => {
                let mut report = shared.report(ended, None, started);
                if report.outcome == Outcome::Completed {
                    report.outcome = Outcome::Unprotected;
                    report.reason = report.reason.or(Some(Reason::Key));
                }
                report
            }
            Verdict::Skipped => self.not_run(Outcome::Skipped, None, started),
            Verdict::Unprocessed(reason) => {
                self.not_run(Outcome::Unprocessed, Some(reason), started)
            }
        };
        report.position = Some(position);
        report.message_id = message_id;
        report.receive_count = receive_count;
        observe::finish(&span, shared.observer.as_deref(), &report);
        let is_acknowledged = report.outcome.is_acknowledged();
        if !is_acknowledged {
            invocation.report(position, report.message_id.take());
        }
        // The error in it is the user's, and so is that one's destructor.
        if let Err(panic) = catch_unwind(AssertUnwindSafe(|| drop(report))) {
            let error = engine::panicked("a destructor of the error", panic);
            span.in_scope(|| tracing::error!("{error}; the message is not affected"));
        }
        Ending { is_acknowledged }
    }

    async fn verdict(
        &self,
        record: ReadRecord,
        span: &Span,
        invocation: &Invocation,
        record_id: &mut Option<Arc<str>>,
    ) -> Verdict {
        let now = self.idempotency.shared().engine.clock.now();
        if invocation.gate.time_is_up(now) {
            // Else the user's functions would run for all that are left.
            return Verdict::Unprocessed(Reason::Deadline);
        }
        let readied = match self.ready(record) {
            Ok(Some(readied)) => readied,
            Ok(None) => return Verdict::Skipped,
            Err(error) => return Verdict::Ended(Ended::before_the_store(error)),
        };
        let shared = self.idempotency.shared();
        let Some(key) = &readied.key else {
            let stand_in = self.stand_in(&readied.delivery);
            if let Err(closed) = invocation.gate.check(shared.engine.clock.now()) {
                return Verdict::Unprocessed(closed.into());
            }
            let protection = Protection::None { stand_in };
            return Verdict::Unprotected(self.attempt(readied, protection, invocation).await);
        };
        let id: Arc<str> = key::record_id(&shared.consumer, key).into();
        shared.record_id_in(span, &id, key, self.key.is_user_data());
        *record_id = Some(Arc::clone(&id));
        let _turn = invocation.key_turns.take(&id).await;
        if let Err(closed) = invocation.gate.check(shared.engine.clock.now()) {
            return Verdict::Unprocessed(closed.into());
        }
        let protection = Protection::Record {
            record_id: id,
            fingerprint: readied.fingerprint.clone(),
            claim: invocation.claim(shared.claim),
            may_be_done: readied
                .delivery
                .receive_count()
                .is_some_and(|count| count > 1),
        };
        Verdict::Ended(self.attempt(readied, protection, invocation).await)
    }

    async fn attempt(
        &self,
        readied: Readied<B>,
        protection: Protection,
        invocation: &Invocation,
    ) -> Ended {
        let engine = &self.idempotency.shared().engine;
        let started = engine.clock.now();
        let handler = Arc::clone(&self.handler);
        let Readied { body, delivery, .. } = readied;
        let ended = engine
            .attempt(
                protection,
                invocation.times,
                invocation.groups.as_ref(),
                |attempt| async move {
                    let message = Message::delivered(body, delivery, attempt);
                    let output = handler.handle(message).await?;
                    let transaction = output.into_transaction();
                    Ok::<_, WorkError>(transaction.prepare(&engine.key_attributes)?)
                },
            )
            .await;
        if ended.requests > 0 {
            let took = engine::left(engine.clock.now(), started);
            invocation.gate.ended(ended.store_down, took);
        }
        ended
    }

    /// Everything that needs no store: unwrap, skip, decode, key, fingerprint. `None`: skip it.
    fn ready(&self, record: ReadRecord) -> Result<Option<Readied<B>>, Error> {
        let mut delivery = record.delivery;
        if let Some(problem) = record.problem {
            return Err(problem);
        }
        self.envelope.unwrap(&mut delivery)?;
        if self.skip.as_ref().is_some_and(|rule| rule(&delivery)) {
            return Ok(None);
        }
        let body = (self.decode)(&delivery)?;
        let key = match self.key.of(&delivery, &body) {
            Ok(key) => Some(key),
            Err(error)
                if self.missing_key == MissingKey::RunUnprotected
                    && error.kind() == (ErrorKind::Key { is_missing: true }) =>
            {
                None
            }
            Err(error) => return Err(error),
        };
        let fingerprint = match (&self.payload, &key) {
            (Some(payload), Some(_)) => Some(payload.fingerprint(delivery.body())?),
            _ => None,
        };
        Ok(Some(Readied {
            body,
            delivery,
            key,
            fingerprint,
        }))
    }

    /// What names an unprotected message in calls downstream: the delivery's id. Without one nothing
    /// says that two deliveries are the same message, so it is new each time.
    fn stand_in(&self, delivery: &Delivery) -> Arc<str> {
        let consumer = &self.idempotency.shared().consumer;
        match delivery.message_id() {
            Some(id) => key::record_id(consumer, id).into(),
            None => key::record_id(consumer, FencingToken::random().as_str()).into(),
        }
    }

    fn not_run(&self, outcome: Outcome, reason: Option<Reason>, started: SystemTime) -> Report {
        let shared = self.idempotency.shared();
        Report {
            consumer: Arc::clone(&shared.consumer),
            position: None,
            message_id: None,
            record_id: None,
            receive_count: None,
            outcome,
            reason,
            error: None,
            result: None,
            requests: 0,
            duration: engine::left(shared.engine.clock.now(), started),
            handler_duration: None,
        }
    }
}

/// A message that is ready to be claimed.
struct Readied<B> {
    body: B,
    delivery: Delivery,
    key: Option<String>,
    fingerprint: Option<Fingerprint>,
}

enum Verdict {
    Ended(Ended),
    Unprotected(Ended),
    Skipped,
    Unprocessed(Reason),
}

impl From<Closed> for Reason {
    fn from(closed: Closed) -> Self {
        match closed {
            Closed::TimeIsUp => Self::Deadline,
            Closed::StoreIsDown => Self::Store,
        }
    }
}

impl<B> KeySource<B> {
    fn of(&self, delivery: &Delivery, body: &B) -> Result<String, Error> {
        match self {
            Self::Delivery(key) => key.of(delivery),
            Self::Body(key) => key::present(key(body), "the result of the key function"),
        }
    }

    fn is_user_data(&self) -> bool {
        match self {
            Self::Delivery(key) => key.is_user_data(),
            Self::Body(_) => true,
        }
    }
}

impl Payload {
    fn fingerprint(&self, body: &str) -> Result<Fingerprint, Error> {
        let unusable = |what: String| Error::new(ErrorKind::Key { is_missing: false }, what);
        match self {
            Self::Body => {
                Ok(Fingerprint::of_json(body).unwrap_or_else(|_| Fingerprint::of_text(body)))
            }
            Self::At(pointer) => {
                let value = json::find(body, pointer).map_err(|error| {
                    unusable(format!(
                        "the body has no fingerprint: it is not JSON ({})",
                        json::describe(&error)
                    ))
                })?;
                let value = value.ok_or_else(|| {
                    unusable(format!(
                        "the body has no fingerprint: there is nothing at {pointer}"
                    ))
                })?;
                Fingerprint::of_json(value.get()).map_err(|error| {
                    unusable(format!(
                        "the value at {pointer} of the body has no fingerprint: {}",
                        json::describe(&error)
                    ))
                })
            }
        }
    }
}

pub(super) fn decode_json<B: for<'de> Deserialize<'de>>(delivery: &Delivery) -> Result<B, Error> {
    serde_json::from_str(delivery.body()).map_err(|error| not_the_json(&error))
}

pub(super) fn not_the_json(error: &serde_json::Error) -> Error {
    Error::new(
        ErrorKind::Decode,
        format!(
            "the body is not the JSON that the handler takes: {}",
            json::describe(error)
        ),
    )
}

impl<H, B> Clone for Processor<H, B> {
    fn clone(&self) -> Self {
        Self {
            idempotency: self.idempotency.clone(),
            handler: Arc::clone(&self.handler),
            decode: Arc::clone(&self.decode),
            key: self.key.clone(),
            missing_key: self.missing_key,
            payload: self.payload.clone(),
            envelope: self.envelope,
            skip: self.skip.clone(),
        }
    }
}

impl<B> Clone for KeySource<B> {
    fn clone(&self) -> Self {
        match self {
            Self::Delivery(key) => Self::Delivery(key.clone()),
            Self::Body(function) => Self::Body(Arc::clone(function)),
        }
    }
}

impl<H, B> fmt::Debug for Processor<H, B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Processor")
            .field("idempotency", &self.idempotency)
            .field("key", &self.key)
            .field("missing_key", &self.missing_key)
            .field("envelope", &self.envelope)
            .finish_non_exhaustive()
    }
}

impl<B> fmt::Debug for KeySource<B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Delivery(key) => key.fmt(f),
            Self::Body(_) => f.write_str("a function of the body"),
        }
    }
}
