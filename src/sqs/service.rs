//! The `tower::Service` that `lambda_runtime` runs, and its options.

use std::fmt;
use std::future::Future;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context as TaskContext, Poll};
use std::time::Duration;

use aws_lambda_events::sqs::SqsBatchResponse;
use futures_util::future::select;
use lambda_runtime::{Context, LambdaEvent};
use serde::Deserialize;

use super::batch;
use super::event::SqsBatch;
use super::invocation::Invocation;
use super::message::{Decode, KeySource, Payload, Processor, decode_json, not_the_json};
use crate::delivery::Delivery;
use crate::envelope::Envelope;
use crate::error::{Error, ErrorKind};
use crate::handler::{Handler, HandlerError};
use crate::idempotency::Idempotency;
use crate::json::Pointer;
use crate::key::{Key, MissingKey};

/// How many messages of a batch run at once unless told otherwise.
const DEFAULT_CONCURRENCY: usize = 10;

impl Idempotency {
    /// Wraps a handler of messages with a JSON body into the service that `lambda_runtime::run`
    /// and `lambda_runtime::run_concurrent` take.
    ///
    /// The event source mapping needs
    /// [`FunctionResponseTypes: [ReportBatchItemFailures]`][partial]: without it Lambda deletes
    /// every message of a batch that returns at all.
    ///
    /// A panic of the handler is that message's failure, if the function is built with
    /// `panic = "unwind"`. That is Cargo's default, but not `cargo lambda`'s for releases: set it in
    /// `[profile.release]`, or a panic ends the process and the whole batch comes back.
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
            processor: Processor::new(self.clone(), handler, decode),
            concurrency: DEFAULT_CONCURRENCY,
            linger: None,
        }
    }
}

/// A handler of SQS messages as a `tower::Service` of `lambda_runtime`.
///
/// Made by [`Idempotency::sqs`]. Each message is decided for itself; the response lists those that
/// are not done.
pub struct SqsService<H, B> {
    processor: Processor<H, B>,
    concurrency: usize,
    /// How long a commit waits for others, where they go together.
    linger: Option<Duration>,
}

impl<H, B> SqsService<H, B> {
    /// Where a message's key comes from. Default: [`Key::message_id`].
    #[must_use]
    pub fn key(mut self, key: Key) -> Self {
        self.processor.key = KeySource::Delivery(key);
        self
    }

    /// The key as a function of the decoded body, which returns a `String` or an `Option<String>`.
    /// `None` or an empty text means that there is no key. Replaces [`key`](Self::key), and is
    /// replaced by it.
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
        self.processor.key = KeySource::Body(Arc::new(move |body| key(body).into()));
        self
    }

    /// What to do with a message that has no key. Default: it fails.
    #[must_use]
    #[doc(alias = "raise_on_no_idempotency_key")]
    pub fn missing_key(mut self, missing_key: MissingKey) -> Self {
        self.processor.missing_key = missing_key;
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
        self.processor.payload = Some(Payload::Body);
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
        self.processor.payload = Some(Payload::At(pointer));
        Ok(self)
    }

    /// What is around the message in the SQS body. Default: nothing.
    #[must_use]
    pub fn envelope(mut self, envelope: Envelope) -> Self {
        self.processor.envelope = envelope;
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

    /// Commits messages of one batch together, as many as fit into one transaction: with a batch of
    /// 10, one request instead of 10.
    ///
    /// A commit waits for others until no message that is under way can still join it, and no
    /// longer than `linger` after the first one was ready, or a tenth of the time that is left or of
    /// [`retry_for`](crate::IdempotencyBuilder::retry_for); 20 ms is a good choice. Implies
    /// [`Claim::AtCommit`](crate::Claim::AtCommit), and is wrong where that is.
    ///
    /// What fits: 100 actions (each message takes one for its record) and 4 MB, and no two messages
    /// that touch the same item. A put counts as touching an item only where the key attributes of
    /// its table are known, from
    /// [`key_attributes`](crate::IdempotencyBuilder::key_attributes) or from another write; else its
    /// message commits alone. Raise [`concurrency`](Self::concurrency) to have more messages in one
    /// transaction.
    ///
    /// A message fails none of those that it shares a transaction with: a transaction that is
    /// refused is sent again without those that it was refused for, or message by message. One that
    /// is throttled, or whose outcome is not known, is so for all of them.
    #[must_use]
    pub fn group_commits(mut self, linger: Duration) -> Self {
        self.linger = Some(linger);
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
        self.processor.skip = Some(Arc::new(rule));
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
        let times = self.processor.times(context);
        let records = batch.into().read()?;
        let (groups, driver) = self
            .linger
            .map(|linger| self.processor.groups(times, linger))
            .unzip();
        let invocation = Invocation::new(times, groups);
        let batch = batch::run(records, self.concurrency, |record, turn| {
            self.processor.message(record, turn, &invocation)
        });
        match driver {
            // The batch first, so that every message that can hand in its commit at once has.
            Some(driver) => {
                select(pin!(batch), pin!(driver.run())).await;
            }
            None => batch.await,
        }
        invocation.response()
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
            processor: self.processor.clone(),
            concurrency: self.concurrency,
            linger: self.linger,
        }
    }
}

impl<H, B> fmt::Debug for SqsService<H, B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SqsService")
            .field("processor", &self.processor)
            .field("concurrency", &self.concurrency)
            .field("linger", &self.linger)
            .finish_non_exhaustive()
    }
}
