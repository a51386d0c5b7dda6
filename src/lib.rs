//! Makes each SQS message take effect once, however often it is delivered to an AWS Lambda
//! function.
//!
//! A queue delivers at least once. This crate claims a message's key in DynamoDB, runs the handler,
//! and commits the handler's writes *together with* the record that says "done", in one
//! `TransactWriteItems` under a fencing token: a crash leaves both or neither, and an attempt that
//! was overtaken can't write any more. What is not done is reported as a partial batch failure, so
//! that only those messages come back.
//!
//! ```no_run
//! use aws_sdk_dynamodb::Client;
//! use lambda_idempotency::{
//!     DynamoDbStore, HandlerError, Idempotency, Key, Message, Transaction,
//! };
//!
//! #[derive(serde::Deserialize, serde::Serialize)]
//! struct Payment {
//!     payment_id: String,
//!     amount: u64,
//! }
//!
//! async fn charge(message: Message<Payment>) -> Result<Transaction<u64>, HandlerError> {
//!     let payment = &message.body;
//!     Ok(Transaction::new().put("payments", payment).returning(payment.amount))
//! }
//!
//! # async fn start(client: Client) -> Result<(), lambda_runtime::Error> {
//! let idempotency = Idempotency::builder(DynamoDbStore::new(client, "idempotency"))
//!     .consumer("payments")
//!     .build()?;
//! lambda_runtime::run(idempotency.sqs(charge).key(Key::body("/payment_id")?)).await
//! # }
//! ```
//!
//! - The front door: [`Idempotency`], and its [`sqs`](Idempotency::sqs) and
//!   [`run`](Idempotency::run).
//! - What a handler is, gets and returns: [`Handler`], [`Message`], [`Transaction`],
//!   [`HandlerError`].
//! - What names a message: [`Key`]; how long that is remembered: [`Retention`].
//! - When it takes its key, and whether a batch's commits share transactions: [`Claim`],
//!   [`SqsService::group_commits`].
//! - What is around the body: [`Envelope`].
//! - What became of it: [`Outcome`], [`Reason`], [`Report`], [`Observer`].
//! - Where records are kept: [`store`].
//!
//! What a deployment needs: a table with the partition key `id` (string) and TTL on `expiration`; a role
//! with [`DynamoDbStore::ACTIONS`] on it; `FunctionResponseTypes: [ReportBatchItemFailures]` in the event
//! source mapping, without which Lambda deletes what failed; `panic = "unwind"` in `[profile.release]`,
//! where `cargo lambda` takes `abort`.
//!
//! Not covered: effects outside DynamoDB, for which there is [`Message::downstream_key`]; messages that come
//! back after their record's [`Retention`]; records that somebody deletes.
//!
//! `aws-sdk-dynamodb` 1.x, `aws_lambda_events` 1.x and `lambda_runtime` 1.x are part of the public
//! API. The crate installs no `tracing` subscriber and chooses no HTTPS stack.

mod builder;
mod claim;
mod clock;
mod delivery;
mod engine;
mod envelope;
mod error;
mod handler;
mod idempotency;
mod items;
mod json;
mod key;
mod limits;
mod observe;
mod record;
mod sqs;
pub mod store;
mod transaction;
mod write;

pub use builder::IdempotencyBuilder;
pub use claim::Claim;
pub use clock::{Clock, SystemClock};
pub use delivery::{Attribute, Delivery};
pub use envelope::Envelope;
pub use error::Error;
pub use handler::{Attempt, Handler, HandlerError, Message};
pub use idempotency::{Done, Idempotency};
pub use key::{Key, MissingKey};
pub use observe::{Observer, Outcome, Reason, Report};
pub use record::Retention;
pub use sqs::{SqsBatch, SqsService};
pub use store::DynamoDbStore;
pub use transaction::{IntoTransaction, Transaction, TransactionError};
pub use write::Write;

#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
