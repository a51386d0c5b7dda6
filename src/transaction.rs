//! What a handler returns: the writes to commit for its message, and a result to remember.

use std::error::Error as StdError;
use std::fmt;
use std::sync::Arc;

use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_dynamo::aws_sdk_dynamodb_1::{from_item, to_item};

use crate::items::KeyAttributes;
use crate::limits;
use crate::write::Write;

/// Each is a transaction of its own, and has a number in its client token.
const MAX_ALTERNATIVES: usize = 99;

/// The writes that take effect together with the message being done, and the result to store.
///
/// They are committed in one `TransactWriteItems` with the record: all or nothing, once. Nothing
/// happens before the handler has returned; an error in building (an item that can't be
/// serialised, say) surfaces at the commit, before anything is written, or earlier in
/// [`check`](Self::check).
///
/// ```
/// use lambda_idempotency::Transaction;
/// use serde::Serialize;
///
/// #[derive(Serialize)]
/// struct Payment { id: String, amount: u64 }
///
/// let payment = Payment { id: "p-1".into(), amount: 4000 };
/// let transaction = Transaction::new().put("payments", &payment).returning(payment.id.clone());
/// assert!(transaction.check().is_ok());
/// assert_eq!(transaction.result(), &payment.id);
/// ```
#[must_use = "a transaction does nothing unless the handler returns it"]
pub struct Transaction<R = ()> {
    result: R,
    stores_result: bool,
    writes: Vec<Write>,
    alternative: Option<Box<Transaction<R>>>,
    error: Option<TransactionError>,
}

impl Transaction<()> {
    /// No writes and no result.
    pub fn new() -> Self {
        Self {
            result: (),
            stores_result: false,
            writes: Vec::new(),
            alternative: None,
            error: None,
        }
    }

    /// Stores `result` as JSON in the record. A duplicate gets it from
    /// [`Idempotency::run`](crate::Idempotency::run) or in its [`Report`](crate::Report) instead
    /// of running again.
    ///
    /// Keep it small: a record holds at most 400 KB, and DynamoDB bills a refused duplicate by the
    /// record's size. Comes before [`otherwise`](Self::otherwise), whose transaction has the same
    /// type of result.
    pub fn returning<R>(self, result: R) -> Transaction<R> {
        let mut error = self.error;
        if self.alternative.is_some() {
            error.get_or_insert_with(|| {
                TransactionError::new(
                    "`returning` came after `otherwise`: call it first, and give the alternative \
                     a result of the same type",
                )
            });
        }
        Transaction {
            result,
            stores_result: true,
            writes: self.writes,
            alternative: None,
            error,
        }
    }
}

impl Default for Transaction<()> {
    fn default() -> Self {
        Self::new()
    }
}

impl<R> Transaction<R> {
    /// Puts an item into a table, whether or not one of its key is there.
    pub fn put(self, table: impl Into<String>, item: impl Serialize) -> Self {
        self.put_with(table.into(), item, |table, item| {
            Ok(Write::put(table, item))
        })
    }

    /// Puts an item only if the table has none of its key or one whose attribute `version` is
    /// smaller than the item's.
    ///
    /// If the table has seen a newer version, or this one, the message is superseded as a whole:
    /// it is completed without any of its writes and without a result, outcome `completed`, reason
    /// `stale`. `version` names a number or a string that rises with each change. A stored version of
    /// the other type can't be compared: the message fails then.
    pub fn put_if_newer(
        self,
        table: impl Into<String>,
        item: impl Serialize,
        version: &str,
    ) -> Self {
        self.put_with(table.into(), item, |table, item| {
            Write::put_if_newer(table, item, version).map_err(TransactionError::new)
        })
    }

    /// Adds a write of the AWS SDK: `Put`, `Update`, `Delete`, `ConditionCheck` or
    /// `TransactWriteItem`.
    ///
    /// If its condition fails, nothing is written and the message fails, unless there is an
    /// [alternative](Self::otherwise).
    pub fn write(mut self, write: impl Into<Write>) -> Self {
        self.writes.push(write.into());
        self
    }

    /// What to commit instead if a condition of these writes fails: to record that a payment was
    /// declined, say. It may have an alternative of its own.
    pub fn otherwise(mut self, alternative: Transaction<R>) -> Self {
        self.alternative = Some(Box::new(alternative));
        self
    }

    /// Whether the transaction can be committed: its items can be serialised, it has no more than
    /// 99 writes and 4 MB, no item is too large, and none is written twice where the key
    /// attributes of its table can be seen in an update, delete or check. Its alternatives are
    /// checked too.
    ///
    /// # Errors
    ///
    /// The first thing that DynamoDB would refuse.
    pub fn check(&self) -> Result<(), TransactionError> {
        self.check_knowing(&KeyAttributes::default())
    }

    pub(crate) fn check_knowing(&self, keys: &KeyAttributes) -> Result<(), TransactionError> {
        if let Some(error) = &self.error {
            return Err(error.clone());
        }
        limits::check(&self.writes, keys).map_err(TransactionError::new)?;
        match &self.alternative {
            Some(alternative) if alternative.alternatives() < MAX_ALTERNATIVES => {
                alternative.check_knowing(keys)
            }
            Some(_) => Err(TransactionError::new(format!(
                "more than {MAX_ALTERNATIVES} alternatives one after the other: decide in the handler"
            ))),
            None => Ok(()),
        }
    }

    /// How many alternatives there are, one after the other.
    fn alternatives(&self) -> usize {
        std::iter::successors(self.alternative(), |next| next.alternative()).count()
    }

    /// The result: `()` if none is stored.
    pub fn result(&self) -> &R {
        &self.result
    }

    /// The writes, in the order in which they were added.
    pub fn writes(&self) -> &[Write] {
        &self.writes
    }

    /// What is committed instead if a condition fails.
    pub fn alternative(&self) -> Option<&Transaction<R>> {
        self.alternative.as_deref()
    }

    /// The items that are put into a table, for a test of the handler.
    ///
    /// # Errors
    ///
    /// If an item is not a `T`.
    pub fn items<T: DeserializeOwned>(&self, table: &str) -> Result<Vec<T>, TransactionError> {
        self.writes
            .iter()
            .filter(|write| write.table() == table)
            .filter_map(Write::item)
            .map(|item| {
                from_item(item.clone()).map_err(|error| {
                    TransactionError::new(format!(
                        "an item for the table {table:?} is of another type"
                    ))
                    .with_source(error)
                })
            })
            .collect()
    }

    fn put_with(
        mut self,
        table: String,
        item: impl Serialize,
        write: impl FnOnce(&str, crate::write::Item) -> Result<Write, TransactionError>,
    ) -> Self {
        let built = to_item(item)
            .map_err(|error| {
                TransactionError::new(format!(
                    "the item for the table {table:?} can't be serialised"
                ))
                .with_source(error)
            })
            .and_then(|item| write(&table, item));
        match built {
            Ok(write) => self.writes.push(write),
            Err(error) => {
                self.error.get_or_insert(error);
            }
        }
        self
    }
}

impl<R: Serialize> Transaction<R> {
    /// Serialises the results and checks everything, so that nothing can fail after the first
    /// write.
    pub(crate) fn prepare(self, keys: &KeyAttributes) -> Result<Prepared, TransactionError> {
        self.check_knowing(keys)?;
        self.serialise()
    }

    fn serialise(self) -> Result<Prepared, TransactionError> {
        let data = if self.stores_result {
            let json = serde_json::to_string(&self.result).map_err(|error| {
                TransactionError::new("the result can't be serialised as JSON").with_source(error)
            })?;
            limits::check_result(&json, &self.writes).map_err(TransactionError::new)?;
            Some(json)
        } else {
            None
        };
        let alternative = match self.alternative {
            Some(alternative) => Some(Box::new(alternative.serialise()?)),
            None => None,
        };
        Ok(Prepared {
            data,
            writes: self.writes,
            alternative,
        })
    }
}

impl<R> fmt::Debug for Transaction<R> {
    /// Without results and items: they are the user's data.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Transaction")
            .field("stores_result", &self.stores_result)
            .field("writes", &self.writes)
            .field("alternative", &self.alternative)
            .field("error", &self.error)
            .finish()
    }
}

/// A transaction that is known to be serialisable and within the limits.
pub(crate) struct Prepared {
    pub(crate) data: Option<String>,
    pub(crate) writes: Vec<Write>,
    pub(crate) alternative: Option<Box<Prepared>>,
}

impl Prepared {
    /// Completes the record and does nothing else.
    pub(crate) fn nothing() -> Self {
        Self {
            data: None,
            writes: Vec::new(),
            alternative: None,
        }
    }
}

/// What a handler can return: `()` or a [`Transaction`].
#[diagnostic::on_unimplemented(
    message = "a handler can't return `{Self}`",
    label = "return `()` or a `Transaction`",
    note = "to store a result and return it to duplicates: `Ok(Transaction::new().returning(result))`",
    note = "a `Transaction<R>` can be returned when its result `R` is `serde::Serialize + Send`"
)]
pub trait IntoTransaction: Send {
    /// What is stored in the record and returned to duplicates.
    type Result: Serialize + Send;

    /// The transaction to commit.
    fn into_transaction(self) -> Transaction<Self::Result>;
}

impl IntoTransaction for () {
    type Result = ();

    fn into_transaction(self) -> Transaction {
        Transaction::new()
    }
}

impl<R: Serialize + Send> IntoTransaction for Transaction<R> {
    type Result = R;

    fn into_transaction(self) -> Self {
        self
    }
}

/// Why a transaction can't be committed.
#[derive(Clone)]
pub struct TransactionError {
    message: String,
    source: Option<Arc<dyn StdError + Send + Sync>>,
}

impl TransactionError {
    fn new(message: impl Into<String>) -> Self {
        Self {
            message: message.into(),
            source: None,
        }
    }

    fn with_source(mut self, source: impl StdError + Send + Sync + 'static) -> Self {
        self.source = Some(Arc::new(source));
        self
    }
}

impl fmt::Display for TransactionError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl fmt::Debug for TransactionError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", crate::error::Chain(self))
    }
}

impl StdError for TransactionError {
    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        self.source.as_deref().map(|source| source as _)
    }
}
