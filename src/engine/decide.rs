//! From what a record means to what the attempt comes to.

use super::Finish;
use crate::error::{Error, ErrorKind};
use crate::record::Record;
use crate::store::Refusal;

/// What to do after the claim was refused.
#[derive(Debug)]
pub(super) enum AfterClaim {
    /// An earlier try of this very claim landed, and its reply was lost.
    Run,
    /// The work was done before.
    Finish(Finish),
}

/// The claim was refused by this record.
pub(super) fn after_claim(refusal: Refusal, record: Record) -> Result<AfterClaim, Error> {
    match refusal {
        Refusal::Landed => Ok(AfterClaim::Run),
        Refusal::Duplicate => Ok(AfterClaim::Finish(duplicate(record))),
        Refusal::PayloadMismatch => Err(payload_mismatch()),
        Refusal::InProgress | Refusal::LeaseLost => Err(in_progress()),
    }
}

/// A commit or a release was refused by this record: how the attempt ends, or `None` if the record
/// is not completed.
pub(super) fn finished(refusal: Refusal, record: Record) -> Option<Result<Finish, Error>> {
    match refusal {
        Refusal::Landed => Some(Ok(Finish::Completed {
            data: record.data,
            stale: false,
        })),
        Refusal::Duplicate => Some(Ok(duplicate(record))),
        Refusal::PayloadMismatch => Some(Err(payload_mismatch())),
        Refusal::InProgress | Refusal::LeaseLost => None,
    }
}

fn duplicate(record: Record) -> Finish {
    Finish::Duplicate {
        data: record.data,
        expiration: record.expiration,
    }
}

fn payload_mismatch() -> Error {
    Error::new(
        ErrorKind::PayloadMismatch,
        "the key was used before with another payload: nothing of this one was written; check \
         whether the producer reuses keys or changed a message, and send it under a new key if it \
         is a new intent",
    )
}

pub(super) fn in_progress() -> Error {
    Error::new(
        ErrorKind::InProgress,
        "another attempt holds the key: try again later",
    )
}
