//! The `tower::Service` that `lambda_runtime` runs: options, one message from record to report,
//! the response.

use std::fmt;
use std::future::Future;
use std::panic::AssertUnwindSafe;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context as TaskContext, Poll};
use std::time::{Duration, SystemTime};

use aws_lambda_events::sqs::SqsBatchResponse;
use futures_util::FutureExt as _;
use lambda_runtime::{Context, LambdaEvent};
use serde::Deserialize;
use tracing::{Instrument as _, Span};

use super::batch::{self, Closed, Ending, Gate, KeyTurns, Turn};
use super::event::{ReadRecord, SqsBatch};
use crate::delivery::Delivery;
use crate::engine::{self, Ended, Protection, Times, WorkError};
use crate::envelope::Envelope;
use crate::error::{Error, ErrorKind};
use crate::handler::{Handler, HandlerError, Message};
use crate::idempotency::Idempotency;
use crate::json::{self, Pointer};
use crate::key::{self, Key, MissingKey};
use crate::observe::{self, Outcome, Reason, Report, Subject};
use crate::record::{Fingerprint, sha256_hex};
use crate::transaction::IntoTransaction as _;

/// How many messages of a batch run at once unless told otherwise.
const DEFAULT_CONCURRENCY: usize = 10;

const AROUND_THE_HANDLER: &str = "code around the handler (decoder, key, skip rule, destructor)";

impl Idempotency {
    /// Wraps a handler of messages with a JSON body into the service that `lambda_runtime::run`
    /// and `lambda_runtime::run_concurrent` take.
    ///
    /// The event source mapping needs
    /// [`FunctionResponseTypes: [ReportBatchItemFailures]`][partial]: without it Lambda deletes
    /// every message of a batch that returns at all.
    ///
    /// [partial]: https://docs.aws.amazon.com/lambda/latest/dg/services-sqs-errorhandling.html
    ///
    /// ```no_run
    /// # use lambda_idempotency::{HandlerError, Idempotency, Key, Message, Transaction};
    /// # #[derive(serde::Deserialize, serde::Serialize)] struct Payment { payment_id: String }
    /// async fn charge(message: Message<Payment>) -> Result<Transaction, HandlerError> {
    ///     Ok(Transaction::new().put("payments", &message.body))
    /// }
    /// # async fn start(idempotency: Idempotency) -> Result<(), lambda_runtime::Error> {
    /// let service = idempotency.sqs(charge).key(Key::body("/payment_id")?);
    /// lambda_runtime::run(service).await
    /// # }
    /// ```
    pub fn sqs<B, H>(&self, handler: H) -> SqsService<H, B>
    where
        B: for<'de> Deserialize<'de> + Send + 'static,
        H: Handler<B>,
    {
        self.sqs_service(Arc::new(decode_json), handler)
    }

    /// As [`sqs`](Self::sqs), for bodies that are not JSON or need a decoder of their own.
    ///
    /// ```
    /// # use lambda_idempotency::{Delivery, HandlerError, Idempotency, Message};
    /// # fn wrap(idempotency: Idempotency) {
    /// let service = idempotency.sqs_with(
    ///     |delivery: &Delivery| Ok(delivery.body().to_owned()),
    ///     async |message: Message<String>| Ok(()),
    /// );
    /// # }
    /// ```
    pub fn sqs_with<B, H>(
        &self,
        decode: impl Fn(&Delivery) -> Result<B, HandlerError> + Send + Sync + 'static,
        handler: H,
    ) -> SqsService<H, B>
    where
        B: Send + 'static,
        H: Handler<B>,
    {
        let decode = move |delivery: &Delivery| {
            decode(delivery).map_err(|error| {
                let cause = error.into_cause();
                match cause.downcast_ref() {
                    // Its own text would repeat the value that is wrong.
                    Some(error) => not_the_json(error),
                    None => Error::new(ErrorKind::Decode, "the body can't be decoded")
                        .with_source(cause),
                }
            })
        };
        self.sqs_service(Arc::new(decode), handler)
    }

    fn sqs_service<B, H>(&self, decode: Arc<Decode<B>>, handler: H) -> SqsService<H, B> {
        SqsService {
            idempotency: self.clone(),
            handler: Arc::new(handler),
            decode,
            key: KeySource::Delivery(Key::default()),
            missing_key: MissingKey::default(),
            payload: None,
            envelope: Envelope::default(),
            concurrency: DEFAULT_CONCURRENCY,
            skip: None,
        }
    }
}

/// A handler of SQS messages as a `tower::Service` of `lambda_runtime`.
///
/// Made by [`Idempotency::sqs`]. Each message is claimed, handled and committed for itself; the
/// response lists those that are not done.
pub struct SqsService<H, B> {
    idempotency: Idempotency,
    handler: Arc<H>,
    decode: Arc<Decode<B>>,
    key: KeySource<B>,
    missing_key: MissingKey,
    payload: Option<Payload>,
    envelope: Envelope,
    concurrency: usize,
    skip: Option<Arc<Skip>>,
}

type Decode<B> = dyn Fn(&Delivery) -> Result<B, Error> + Send + Sync;
type BodyKey<B> = dyn Fn(&B) -> Option<String> + Send + Sync;
type Skip = dyn Fn(&Delivery) -> bool + Send + Sync;

enum KeySource<B> {
    Delivery(Key),
    Body(Arc<BodyKey<B>>),
}

/// What the fingerprint is taken over.
#[derive(Clone)]
enum Payload {
    Body,
    At(Pointer),
}

impl<H, B> SqsService<H, B> {
    /// Where a message's key comes from. Default: [`Key::message_id`].
    #[must_use]
    pub fn key(mut self, key: Key) -> Self {
        self.key = KeySource::Delivery(key);
        self
    }

    /// The key as a function of the decoded body. `None` or an empty text means that there is no
    /// key.
    ///
    /// ```
    /// # use lambda_idempotency::{HandlerError, Idempotency, Message};
    /// # #[derive(serde::Deserialize)] struct Order { id: u64 }
    /// # async fn handle(_: Message<Order>) -> Result<(), HandlerError> { Ok(()) }
    /// # fn wrap(idempotency: Idempotency) {
    /// let service = idempotency.sqs(handle).key_by(|order: &Order| order.id.to_string());
    /// # }
    /// ```
    #[must_use]
    pub fn key_by<K, F>(mut self, key: F) -> Self
    where
        F: Fn(&B) -> K + Send + Sync + 'static,
        K: Into<Option<String>>,
    {
        self.key = KeySource::Body(Arc::new(move |body| key(body).into()));
        self
    }

    /// What to do with a message that has no key. Default: it fails.
    #[must_use]
    #[doc(alias = "raise_on_no_idempotency_key")]
    pub fn missing_key(mut self, missing_key: MissingKey) -> Self {
        self.missing_key = missing_key;
        self
    }

    /// Compares the whole body (without its envelope) with that of the first delivery under the
    /// key: another one is a payload mismatch, fails and is not run. JSON is compared by its
    /// meaning: the order of members, white space and the spelling of numbers don't count.
    ///
    /// A record that was written before this was asked for has nothing to compare with, and counts
    /// as equal.
    #[must_use]
    #[doc(alias = "payload_validation")]
    pub fn fingerprint_body(mut self) -> Self {
        self.payload = Some(Payload::Body);
        self
    }

    /// As [`fingerprint_body`](Self::fingerprint_body), over the value that a JSON pointer finds.
    /// A message in which it finds nothing fails.
    ///
    /// # Errors
    ///
    /// If the pointer is neither empty nor starts with `/`, or escapes wrongly.
    #[doc(alias = "payload_validation")]
    pub fn fingerprint_at(mut self, pointer: &str) -> Result<Self, Error> {
        let pointer = Pointer::parse(pointer)
            .map_err(|message| Error::new(ErrorKind::Configuration, message))?;
        self.payload = Some(Payload::At(pointer));
        Ok(self)
    }

    /// What is around the message in the SQS body. Default: nothing.
    #[must_use]
    pub fn envelope(mut self, envelope: Envelope) -> Self {
        self.envelope = envelope;
        self
    }

    /// How many messages of one batch run at once; 1 at least. Default 10.
    ///
    /// They share one thread of control: they wait side by side, they don't compute side by side.
    /// This is within one invocation; how many invocations one environment takes at once is a
    /// matter of `lambda_runtime::run_concurrent`. Of a FIFO queue it is groups that run at once;
    /// within a group always one message.
    #[must_use]
    pub fn concurrency(mut self, messages: usize) -> Self {
        self.concurrency = messages.max(1);
        self
    }

    /// Acknowledges the messages that this rule names without running them, outcome `skipped`: a
    /// test event of S3, say. It sees the body without its envelope.
    ///
    /// ```
    /// # use lambda_idempotency::{Delivery, HandlerError, Idempotency, Message};
    /// # async fn handle(_: Message<serde_json::Value>) -> Result<(), HandlerError> { Ok(()) }
    /// # fn wrap(idempotency: Idempotency) {
    /// // What is skipped is gone: let members decide, not a text that is in the body somewhere.
    /// let is_test_event = |delivery: &Delivery| {
    ///     let body: Result<serde_json::Value, _> = serde_json::from_str(delivery.body());
    ///     body.is_ok_and(|body| body["Event"] == "s3:TestEvent")
    /// };
    /// let service = idempotency.sqs(handle).skip(is_test_event);
    /// # }
    /// ```
    #[must_use]
    pub fn skip(mut self, rule: impl Fn(&Delivery) -> bool + Send + Sync + 'static) -> Self {
        self.skip = Some(Arc::new(rule));
        self
    }
}

impl<H: Handler<B>, B: Send + 'static> SqsService<H, B> {
    /// Processes one batch: what the service does with an event, for tests and for events that are
    /// parsed already.
    ///
    /// # Errors
    ///
    /// If it is not a batch of SQS records, or if a message that is not done has no id to report
    /// it by: the whole batch comes back then. Messages that are done stay done.
    pub async fn process(
        &self,
        batch: impl Into<SqsBatch>,
        context: &Context,
    ) -> Result<SqsBatchResponse, Error> {
        let shared = self.idempotency.shared();
        let times = shared.times(context.deadline());
        let records: Vec<ReadRecord> = batch.into().into_records().collect();
        if let Some(error) = records.iter().find_map(foreign) {
            return Err(error);
        }
        let invocation = Invocation {
            times,
            gate: Gate::new(times),
            key_turns: KeyTurns::default(),
            unfinished: Mutex::default(),
        };
        batch::run(records, self.concurrency, |record, turn| {
            self.message(record, turn, &invocation)
        })
        .await;
        invocation.response()
    }

    /// One message, from its record to its report.
    async fn message(&self, record: ReadRecord, turn: Turn, invocation: &Invocation) -> Ending {
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
                        let error = engine::panicked(AROUND_THE_HANDLER, panic.as_ref());
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
            invocation.report(report.message_id);
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
            .attempt(protection, invocation.times, |attempt| async move {
                let message = Message::delivered(body, delivery, attempt);
                let output = handler.handle(message).await?;
                let transaction = output.into_transaction();
                Ok::<_, WorkError>(transaction.prepare(&engine.key_attributes)?)
            })
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
            Err(error) if self.missing_key == MissingKey::Fail => return Err(error),
            Err(_) => None,
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

    /// What names an unprotected message in calls downstream: the delivery's id, or its body.
    fn stand_in(&self, delivery: &Delivery) -> Arc<str> {
        let consumer = &self.idempotency.shared().consumer;
        match delivery.message_id() {
            Some(id) => key::record_id(consumer, id).into(),
            None => key::record_id(consumer, &sha256_hex(&[delivery.body()])).into(),
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
            handler_duration: None::<Duration>,
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
        let unusable = |what: String| Error::new(ErrorKind::Key, what);
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

fn decode_json<B: for<'de> Deserialize<'de>>(delivery: &Delivery) -> Result<B, Error> {
    serde_json::from_str(delivery.body()).map_err(|error| not_the_json(&error))
}

fn not_the_json(error: &serde_json::Error) -> Error {
    Error::new(
        ErrorKind::Decode,
        format!(
            "the body is not the JSON that the handler takes: {}",
            json::describe(error)
        ),
    )
}

/// A record of another source that can't be reported: the function is wired to the wrong thing.
fn foreign(record: &ReadRecord) -> Option<Error> {
    let source = record.foreign_source.as_deref()?;
    record.delivery.message_id.is_none().then(|| {
        Error::new(
            ErrorKind::Event,
            format!(
                "not an SQS event: its records come from {source:?}. Invoke the function through \
                 an SQS event source mapping"
            ),
        )
    })
}

/// What the messages of one invocation share.
struct Invocation {
    times: Times,
    gate: Gate,
    key_turns: KeyTurns,
    unfinished: Mutex<Unfinished>,
}

#[derive(Default)]
struct Unfinished {
    ids: Vec<String>,
    without_id: usize,
}

impl Invocation {
    fn report(&self, message_id: Option<String>) {
        let mut unfinished = self
            .unfinished
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        match message_id {
            Some(id) => unfinished.ids.push(id),
            None => unfinished.without_id += 1,
        }
    }

    fn response(self) -> Result<SqsBatchResponse, Error> {
        let unfinished = self
            .unfinished
            .into_inner()
            .unwrap_or_else(PoisonError::into_inner);
        if unfinished.without_id > 0 {
            return Err(Error::new(
                ErrorKind::Event,
                format!(
                    "{} of the messages that are not done have no `messageId`, so they can't be \
                     reported one by one: the whole batch fails and comes back; messages that are \
                     done will be duplicates then",
                    unfinished.without_id
                ),
            ));
        }
        let mut ids = unfinished.ids;
        // A message that is in the batch twice is reported once.
        ids.sort_unstable();
        ids.dedup();
        let mut response = SqsBatchResponse::default();
        response.set_failures(ids);
        Ok(response)
    }
}

impl<H, B> tower::Service<LambdaEvent<SqsBatch>> for SqsService<H, B>
where
    H: Handler<B>,
    B: Send + 'static,
{
    type Response = SqsBatchResponse;
    type Error = Error;
    type Future = Pin<Box<dyn Future<Output = Result<SqsBatchResponse, Error>> + Send>>;

    fn poll_ready(&mut self, _: &mut TaskContext<'_>) -> Poll<Result<(), Error>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, event: LambdaEvent<SqsBatch>) -> Self::Future {
        let service = self.clone();
        Box::pin(async move { service.process(event.payload, &event.context).await })
    }
}

impl<H, B> Clone for SqsService<H, B> {
    fn clone(&self) -> Self {
        Self {
            idempotency: self.idempotency.clone(),
            handler: Arc::clone(&self.handler),
            decode: Arc::clone(&self.decode),
            key: self.key.clone(),
            missing_key: self.missing_key,
            payload: self.payload.clone(),
            envelope: self.envelope,
            concurrency: self.concurrency,
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

impl<H, B> fmt::Debug for SqsService<H, B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let key: &dyn fmt::Debug = match &self.key {
            KeySource::Delivery(key) => key,
            KeySource::Body(_) => &"a function of the body",
        };
        f.debug_struct("SqsService")
            .field("idempotency", &self.idempotency)
            .field("key", key)
            .field("envelope", &self.envelope)
            .field("concurrency", &self.concurrency)
            .finish_non_exhaustive()
    }
}
