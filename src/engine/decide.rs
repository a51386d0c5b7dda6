//! What a record that refused a request means for the attempt. Pure: the tables of DESIGN.md.

use super::Finish;
use crate::error::{Error, ErrorKind};
use crate::record::{FencingToken, Fingerprint, Record, Status};

/// What to do after the claim was refused.
#[derive(Debug)]
pub(super) enum AfterClaim {
    /// An earlier try of this very claim landed, and its reply was lost.
    Run,
    /// The work was done before.
    Finish(Finish),
}

/// The claim was refused by this record.
pub(super) fn refused_claim(
    record: &Record,
    mine: &FencingToken,
    fingerprint: Option<&Fingerprint>,
) -> Result<AfterClaim, Error> {
    if record.status == Status::InProgress && record.is_held_by(mine) {
        return Ok(AfterClaim::Run);
    }
    if record.contradicts(fingerprint) {
        return Err(payload_mismatch());
    }
    match record.status {
        Status::Completed => Ok(AfterClaim::Finish(Finish::Duplicate {
            data: record.data.clone(),
        })),
        // With no lease it is held until it expires: it is never treated as free.
        Status::InProgress => Err(in_progress()),
    }
}

/// A commit or a release was refused by this record: what it means if the record is completed,
/// `None` if it is not.
pub(super) fn completed(
    record: &Record,
    mine: &FencingToken,
    fingerprint: Option<&Fingerprint>,
) -> Option<Result<Finish, Error>> {
    let data = record.data.clone();
    match record.status {
        Status::InProgress => None,
        Status::Completed if record.is_held_by(mine) => {
            Some(Ok(Finish::Completed { data, stale: false }))
        }
        Status::Completed if record.contradicts(fingerprint) => Some(Err(payload_mismatch())),
        Status::Completed => Some(Ok(Finish::Duplicate { data })),
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::Lease;

    fn token(name: &str) -> FencingToken {
        FencingToken::new(name)
    }

    fn record(status: Status, token: Option<&str>, fingerprint: Option<&str>) -> Record {
        let mut record = Record::new(status);
        record.token = token.map(FencingToken::new);
        record.fingerprint = fingerprint.map(Fingerprint::new);
        record.data = Some("7".into());
        record
    }

    #[test]
    fn a_refused_claim_is_decided_by_the_table() {
        let ours = Fingerprint::new("f");
        let decide = |record: &Record| refused_claim(record, &token("mine"), Some(&ours));

        let landed = record(Status::InProgress, Some("mine"), Some("f"));
        assert!(matches!(decide(&landed), Ok(AfterClaim::Run)));

        for fingerprint in [Some("f"), None] {
            let done = record(Status::Completed, Some("other"), fingerprint);
            let duplicate = decide(&done).unwrap();
            assert!(matches!(
                duplicate,
                AfterClaim::Finish(Finish::Duplicate { data: Some(data) }) if data == "7"
            ));
        }
        for status in [Status::Completed, Status::InProgress] {
            let other = record(status, Some("other"), Some("g"));
            assert!(decide(&other).unwrap_err().is_payload_mismatch());
        }
        let mut held = record(Status::InProgress, Some("other"), Some("f"));
        assert!(decide(&held).unwrap_err().is_in_progress());
        held.lease = Some(Lease::until_millis(0));
        assert!(decide(&held).unwrap_err().is_in_progress());
        held.token = None;
        assert!(decide(&held).unwrap_err().is_in_progress());
    }

    #[test]
    fn without_a_fingerprint_any_payload_is_a_duplicate() {
        let done = record(Status::Completed, Some("other"), Some("g"));
        let decided = refused_claim(&done, &token("mine"), None).unwrap();
        assert!(matches!(
            decided,
            AfterClaim::Finish(Finish::Duplicate { .. })
        ));
    }

    #[test]
    fn a_completed_record_is_mine_another_s_or_another_payload_s() {
        let ours = Fingerprint::new("f");
        let decide = |record: &Record| completed(record, &token("mine"), Some(&ours));
        assert!(matches!(
            decide(&record(Status::Completed, Some("mine"), Some("f"))),
            Some(Ok(Finish::Completed { data: Some(_), .. }))
        ));
        assert!(matches!(
            decide(&record(Status::Completed, Some("other"), Some("f"))),
            Some(Ok(Finish::Duplicate { data: Some(_) }))
        ));
        let mismatch = decide(&record(Status::Completed, Some("other"), Some("g")));
        assert!(mismatch.unwrap().unwrap_err().is_payload_mismatch());
        assert!(decide(&record(Status::InProgress, Some("other"), Some("f"))).is_none());
    }
}
