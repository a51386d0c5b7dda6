//! The user's side: a handler, the message it gets, the error it returns.

use std::error::Error as StdError;
use std::fmt;
use std::future::Future;
use std::sync::Arc;
use std::time::SystemTime;

use crate::delivery::Delivery;
use crate::error::Chain;
use crate::key::downstream_key;
use crate::transaction::IntoTransaction;

/// Turns a message into the writes that should be committed for it.
///
/// Every `async fn(Message<Body>) -> Result<(), HandlerError>` is one, and every closure of that
/// shape; instead of `()` it can return a [`Transaction`](crate::Transaction). A struct that holds
/// clients implements the trait:
///
/// ```
/// use lambda_idempotency::{Handler, HandlerError, Message, Transaction};
/// # #[derive(serde::Serialize)] struct Payment { id: String }
/// struct Payments { table: String }
///
/// impl Handler<Payment> for Payments {
///     type Output = Transaction;
///
///     async fn handle(&self, message: Message<Payment>) -> Result<Transaction, HandlerError> {
///         Ok(Transaction::new().put(&self.table, &message.body))
///     }
/// }
/// ```
///
/// A closure that holds clients clones them for each message, because the future outlives the call:
///
/// ```
/// # use lambda_idempotency::{HandlerError, Idempotency, Message};
/// # fn wrap(idempotency: Idempotency, client: aws_sdk_dynamodb::Client) {
/// let service = idempotency.sqs(move |message: Message<String>| {
///     let client = client.clone();
///     async move {
///         client.describe_limits().send().await?;
///         Ok(())
///     }
/// });
/// # }
/// ```
///
/// The handler may run more than once for a message: after a crash, a time-out, a lost lease. Its
/// *writes* are committed once. Effects elsewhere need [`Message::downstream_key`].
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a message handler",
    label = "neither an `async fn(Message<_>) -> Result<_, HandlerError>` nor a type that implements `Handler<_>`",
    note = "for a struct that holds clients: `impl Handler<Body> for {Self}`"
)]
pub trait Handler<B>: Send + Sync + 'static {
    /// `()` or a [`Transaction`](crate::Transaction).
    type Output: IntoTransaction;

    /// Handles one message. The future is dropped when the time is up.
    fn handle(
        &self,
        message: Message<B>,
    ) -> impl Future<Output = Result<Self::Output, HandlerError>> + Send;
}

impl<B, F, Fut, T> Handler<B> for F
where
    F: Fn(Message<B>) -> Fut + Send + Sync + 'static,
    Fut: Future<Output = Result<T, HandlerError>> + Send,
    T: IntoTransaction,
{
    type Output = T;

    fn handle(&self, message: Message<B>) -> impl Future<Output = Result<T, HandlerError>> + Send {
        self(message)
    }
}

/// A message as the handler gets it: the decoded body, and the delivery it came in.
///
/// `Debug` does not print the body.
#[non_exhaustive]
pub struct Message<B> {
    /// The decoded body.
    pub body: B,
    delivery: Delivery,
    attempt: Attempt,
}

impl<B> Message<B> {
    /// A message with an empty delivery, for a test of the handler.
    ///
    /// ```
    /// # use lambda_idempotency::{HandlerError, Message, Transaction};
    /// async fn greet(message: Message<String>) -> Result<Transaction, HandlerError> {
    ///     Ok(Transaction::new().put("greetings", serde_json::json!({ "id": message.body })))
    /// }
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), HandlerError> {
    /// let transaction = greet(Message::new("hello".to_owned())).await?;
    /// transaction.check()?;
    /// assert_eq!(transaction.writes().len(), 1);
    /// # Ok(()) }
    /// ```
    pub fn new(body: B) -> Self {
        let attempt = Attempt::new("test#message".into(), SystemTime::now());
        Self::delivered(body, Delivery::default(), attempt)
    }

    /// The same message in this delivery, for a test of a handler that looks at it.
    ///
    /// ```
    /// # use lambda_idempotency::{Delivery, Message};
    /// let record = r#"{"messageId": "m-1", "body": "", "attributes": {"MessageGroupId": "g"}}"#;
    /// let message = Message::new(7_u32).with_delivery(Delivery::from_json(record)?);
    /// assert_eq!(message.delivery().group_id(), Some("g"));
    /// # Ok::<(), lambda_idempotency::Error>(())
    /// ```
    #[must_use]
    pub fn with_delivery(mut self, delivery: Delivery) -> Self {
        self.delivery = delivery;
        self
    }

    pub(crate) fn delivered(body: B, delivery: Delivery, attempt: Attempt) -> Self {
        Self {
            body,
            delivery,
            attempt,
        }
    }

    /// How the message was delivered: its id, its attributes, its queue.
    pub fn delivery(&self) -> &Delivery {
        &self.delivery
    }

    /// When the handler has to be done.
    pub fn deadline(&self) -> SystemTime {
        self.attempt.deadline()
    }

    /// An idempotency key for a call that the handler makes to someone else, such as the
    /// `Idempotency-Key` of a payment provider: 64 hexadecimal digits, the same on every attempt
    /// for this message's key, another for each name of a call.
    ///
    /// It names the *key*, not the body: after a body was corrected under the same key, a provider
    /// that compares payloads refuses the second.
    pub fn downstream_key(&self, call: &str) -> String {
        self.attempt.downstream_key(call)
    }
}

impl<B> fmt::Debug for Message<B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Message")
            .field("delivery", &self.delivery)
            .finish_non_exhaustive()
    }
}

/// One attempt at a key: what the work may know of it.
#[derive(Clone)]
pub struct Attempt {
    record_id: Arc<str>,
    deadline: SystemTime,
}

impl Attempt {
    pub(crate) fn new(record_id: Arc<str>, deadline: SystemTime) -> Self {
        Self {
            record_id,
            deadline,
        }
    }

    /// When the work has to be done; it is dropped then. The rest of the caller's time is kept
    /// for the commit.
    pub fn deadline(&self) -> SystemTime {
        self.deadline
    }

    /// As [`Message::downstream_key`].
    pub fn downstream_key(&self, call: &str) -> String {
        downstream_key(&self.record_id, call)
    }
}

impl fmt::Debug for Attempt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Attempt")
            .field("deadline", &self.deadline)
            .finish_non_exhaustive()
    }
}

/// Why a handler could not do its work.
///
/// `?` turns every error into one, and text too. It displays the whole chain of causes. The
/// message is reported as failed and comes back.
///
/// ```
/// # use lambda_idempotency::HandlerError;
/// fn amount(text: &str) -> Result<u64, HandlerError> {
///     let amount = text.parse()?;
///     if amount == 0 {
///         return Err("the amount is zero".into());
///     }
///     Ok(amount)
/// }
/// assert_eq!(amount("0").unwrap_err().to_string(), "the amount is zero");
/// ```
// It does not implement `std::error::Error`: that would collide with the conversion from all errors.
pub struct HandlerError {
    cause: Box<dyn StdError + Send + Sync>,
    permanent: bool,
}

impl HandlerError {
    /// An error that trying again can't mend. The message fails all the same, and reaches the
    /// dead-letter queue by the queue's own count; only the report and the level of the log differ.
    pub fn permanent(cause: impl Into<Box<dyn StdError + Send + Sync>>) -> Self {
        Self {
            cause: cause.into(),
            permanent: true,
        }
    }

    /// Whether it was made by [`permanent`](Self::permanent).
    pub fn is_permanent(&self) -> bool {
        self.permanent
    }

    pub(crate) fn into_cause(self) -> Box<dyn StdError + Send + Sync> {
        self.cause
    }
}

impl<E: Into<Box<dyn StdError + Send + Sync>>> From<E> for HandlerError {
    fn from(cause: E) -> Self {
        Self {
            cause: cause.into(),
            permanent: false,
        }
    }
}

impl fmt::Display for HandlerError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", Chain(self.cause.as_ref()))
    }
}

impl fmt::Debug for HandlerError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}
