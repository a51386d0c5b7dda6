//! The library's error: what went wrong for one message, for a call, or when building.

use std::any::Any;
use std::error::Error as StdError;
use std::fmt::{self, Write as _};
use std::panic::{AssertUnwindSafe, catch_unwind};

/// Why a message, a call or a configuration failed.
///
/// Ask it with the predicates. [`source`](StdError::source) is the error beneath, where there is
/// one: the handler's own error, or the store's.
///
/// ```
/// # fn handle(error: lambda_idempotency::Error) {
/// if error.is_in_progress() {
///     // another attempt holds the key: call again later, with the same key
/// }
/// # }
/// ```
pub struct Error {
    kind: ErrorKind,
    message: String,
    source: Option<Box<dyn StdError + Send + Sync>>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ErrorKind {
    Configuration,
    Event,
    /// There is none, or what is there can't be one.
    Key {
        is_missing: bool,
    },
    Decode,
    Handler {
        permanent: bool,
    },
    Panic,
    Deadline,
    InProgress,
    PayloadMismatch,
    LeaseLost,
    Condition,
    Commit,
    Store,
    Unknown,
    UnreadableResult,
}

impl Error {
    pub(crate) fn new(kind: ErrorKind, message: impl Into<String>) -> Self {
        Self {
            kind,
            message: message.into(),
            source: None,
        }
    }

    pub(crate) fn with_source(
        mut self,
        source: impl Into<Box<dyn StdError + Send + Sync>>,
    ) -> Self {
        self.source = Some(source.into());
        self
    }

    pub(crate) fn kind(&self) -> ErrorKind {
        self.kind
    }

    /// The builder was given something that can't work.
    pub fn is_configuration(&self) -> bool {
        self.kind == ErrorKind::Configuration
    }

    /// The payload is no SQS event, or a message that has to be reported has no id to report it by.
    pub fn is_event(&self) -> bool {
        self.kind == ErrorKind::Event
    }

    /// The message has no usable idempotency key, or no payload where the fingerprint looks.
    pub fn is_key(&self) -> bool {
        matches!(self.kind, ErrorKind::Key { .. })
    }

    /// The record, its envelope or its body can't be decoded.
    pub fn is_decode(&self) -> bool {
        self.kind == ErrorKind::Decode
    }

    /// The handler returned an error; it is the [`source`](StdError::source).
    pub fn is_handler(&self) -> bool {
        matches!(self.kind, ErrorKind::Handler { .. })
    }

    /// The handler returned an error that it marked
    /// [permanent](crate::HandlerError::permanent).
    pub fn is_permanent(&self) -> bool {
        self.kind == ErrorKind::Handler { permanent: true }
    }

    /// The handler, or another function of the user's, panicked.
    pub fn is_panic(&self) -> bool {
        self.kind == ErrorKind::Panic
    }

    /// The time was up before the work was done. Nothing was applied.
    pub fn is_deadline(&self) -> bool {
        self.kind == ErrorKind::Deadline
    }

    /// Another attempt holds the key: call again later with the same key.
    pub fn is_in_progress(&self) -> bool {
        self.kind == ErrorKind::InProgress
    }

    /// The key was used before with another payload.
    pub fn is_payload_mismatch(&self) -> bool {
        self.kind == ErrorKind::PayloadMismatch
    }

    /// Another attempt took the key over, or the record is gone. Nothing of this attempt was applied.
    pub fn is_lease_lost(&self) -> bool {
        self.kind == ErrorKind::LeaseLost
    }

    /// A condition of a business write failed and there was no alternative. Nothing was applied.
    pub fn is_condition(&self) -> bool {
        self.kind == ErrorKind::Condition
    }

    /// The transaction can't be committed however often it is tried. Nothing was applied.
    pub fn is_commit(&self) -> bool {
        self.kind == ErrorKind::Commit
    }

    /// The store refused, was not to be reached or holds a record that can't be read. Nothing was
    /// applied.
    pub fn is_store(&self) -> bool {
        self.kind == ErrorKind::Store
    }

    /// It is not known whether the work was applied: call again with the same key to find out.
    pub fn is_unknown(&self) -> bool {
        self.kind == ErrorKind::Unknown
    }

    /// The work **is** done, by an earlier call, but its stored result is not of the type that this
    /// call returns.
    pub fn is_unreadable_result(&self) -> bool {
        self.kind == ErrorKind::UnreadableResult
    }
}

impl fmt::Display for Error {
    /// What went wrong; with `{:#}` and every cause beneath it, in one line.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if f.alternate() {
            write!(f, "{}", Chain(self))
        } else {
            f.write_str(&self.message)
        }
    }
}

impl fmt::Debug for Error {
    /// The whole chain in one line, as `main` prints it when it returns an error.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self:#}")
    }
}

impl StdError for Error {
    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        self.source.as_deref().map(|source| source as _)
    }
}

impl From<Error> for lambda_runtime::Diagnostic {
    fn from(error: Error) -> Self {
        Self {
            error_type: "lambda_idempotency::Error".to_owned(),
            error_message: format!("{error:#}"),
        }
    }
}

/// An error and every source beneath it, each once, separated by colons.
pub(crate) struct Chain<'e>(pub(crate) &'e (dyn StdError + 'static));

impl fmt::Display for Chain<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut said = text_of(self.0);
        f.write_str(&said)?;
        let mut next = self.0.source();
        while let Some(error) = next {
            let text = text_of(error);
            // Some errors repeat their source in their own text.
            if !text.is_empty() && !said.ends_with(&text) {
                write!(f, ": {text}")?;
                said = text;
            }
            next = error.source();
        }
        Ok(())
    }
}

/// As `to_string`, which panics where the user's `Display` returns an error.
fn text_of(error: &dyn StdError) -> String {
    let mut text = String::new();
    match write!(text, "{error}") {
        Ok(()) => text,
        Err(_) => text + "(its text can't be formatted)",
    }
}

/// Drops what user code panicked with: that may itself panic. Where its panic's payload does too, that
/// one is kept.
pub(crate) fn drop_payload(panic: Box<dyn Any + Send>) {
    if let Err(again) = catch_unwind(AssertUnwindSafe(|| drop(panic))) {
        std::mem::forget(again);
    }
}
