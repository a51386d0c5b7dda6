//! What is said of an attempt that failed: what is wrong, where, and what to do.

use std::any::Any;

use crate::error::{Error, ErrorKind, drop_payload};
use crate::handler::HandlerError;
use crate::store::StoreError;
use crate::write::Write;

pub(super) fn handler_failed(error: HandlerError) -> Error {
    let kind = ErrorKind::Handler {
        permanent: error.is_permanent(),
    };
    Error::new(kind, "the handler failed").with_source(error.into_cause())
}

/// A panic of the user's code as an error.
pub(crate) fn panicked(whose: &str, panic: Box<dyn Any + Send>) -> Error {
    let said = panic
        .downcast_ref::<&str>()
        .copied()
        .or_else(|| panic.downcast_ref::<String>().map(String::as_str))
        .unwrap_or("without a message");
    let error = Error::new(ErrorKind::Panic, format!("{whose} panicked: {said}"));
    drop_payload(panic);
    error
}

pub(super) fn store_failed(what: &str, error: StoreError) -> Error {
    Error::new(ErrorKind::Store, what).with_source(error)
}

pub(super) fn unreadable(problem: &str) -> Error {
    Error::new(
        ErrorKind::Store,
        format!(
            "the record of this key is not one of this library's: {problem}; nothing was \
             written. Delete or mend the item, or use a table of its own"
        ),
    )
}

pub(super) fn incomparable(versions: &[usize], writes: &[Write]) -> Error {
    Error::new(
        ErrorKind::Condition,
        format!(
            "the version that is stored and the one of {} are a number and a string: which is newer \
             can't be told, and nothing was written. Mend the item, or the message",
            named(versions, writes)
        ),
    )
}

fn named(positions: &[usize], writes: &[Write]) -> String {
    let named: Vec<String> = positions
        .iter()
        .map(|at| match writes.get(*at) {
            Some(write) => format!("write {at} ({write:?})"),
            None => format!("write {at}"),
        })
        .collect();
    named.join(", ")
}

pub(super) fn condition_failed(failed: &[usize], writes: &[Write]) -> Error {
    Error::new(
        ErrorKind::Condition,
        format!(
            "the condition of {} failed and the handler gave no alternative: nothing was written",
            named(failed, writes)
        ),
    )
}

pub(super) fn impossible(write: Option<usize>, writes: &[Write], error: StoreError) -> Error {
    let what = match write.and_then(|at| Some((at, writes.get(at)?))) {
        Some((at, write)) => format!("write {at} ({write:?}) can't be committed"),
        None => "the transaction can't be committed".to_owned(),
    };
    Error::new(
        ErrorKind::Commit,
        format!("{what}, however often it is tried: nothing was written"),
    )
    .with_source(error)
}

/// A store that answers for a record in a commit that has none.
pub(super) fn record_of_none() -> Error {
    Error::new(
        ErrorKind::Unknown,
        "the store speaks of a record, and the commit had none: what it did is not known",
    )
}
