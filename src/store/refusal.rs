//! What a record that refused a request means for the attempt that sent it. Pure: the tables of
//! DESIGN.md, and the conditions that DynamoDB evaluates.

use super::request::{ClaimRequest, Completion, CompletionCondition, ReleaseRequest};
use crate::record::{FencingToken, Fingerprint, Record, Status};

/// What a record that refused a request means for the attempt that sent it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Refusal {
    /// An earlier try of this very attempt landed, and its reply was lost: the claim holds, or the
    /// work is committed.
    Landed,
    /// Another attempt has committed the work.
    Duplicate,
    /// The key was used for another payload.
    PayloadMismatch,
    /// Another attempt holds the key, and this one has not held it.
    InProgress,
    /// This attempt's claim does not hold any more.
    LeaseLost,
}

impl ClaimRequest {
    /// The condition of a claim: there is no record, or it [is free](Record::is_free).
    pub fn applies_to(&self, record: Option<&Record>) -> bool {
        record.is_none_or(|record| record.is_free(self.now))
    }

    /// What the record means that refused this claim.
    pub fn refused_by(&self, record: &Record) -> Refusal {
        if record.status == Status::InProgress && record.is_held_by(&self.token) {
            return Refusal::Landed;
        }
        of_another(record, self.fingerprint.as_ref(), Refusal::InProgress)
    }
}

impl Completion {
    /// The condition of a commit.
    pub fn applies_to(&self, record: Option<&Record>) -> bool {
        match self.condition {
            CompletionCondition::Held => is_held(record, &self.token),
            CompletionCondition::Free { now } => record.is_none_or(|record| record.is_free(now)),
        }
    }

    /// What the record means that refused this commit.
    pub fn refused_by(&self, record: &Record) -> Refusal {
        let in_progress = match self.condition {
            CompletionCondition::Held => Refusal::LeaseLost,
            CompletionCondition::Free { .. } => Refusal::InProgress,
        };
        finished(record, &self.token, self.fingerprint.as_ref(), in_progress)
    }
}

impl ReleaseRequest {
    /// The condition of a release: the record is in progress under this token.
    pub fn applies_to(&self, record: Option<&Record>) -> bool {
        is_held(record, &self.token)
    }

    /// What the record means that refused this release.
    pub fn refused_by(&self, record: &Record) -> Refusal {
        let fingerprint = self.fingerprint.as_ref();
        finished(record, &self.token, fingerprint, Refusal::LeaseLost)
    }
}

/// Both the status and the token: a completed record keeps its token, and must stay.
fn is_held(record: Option<&Record>, token: &FencingToken) -> bool {
    record.is_some_and(|record| record.status == Status::InProgress && record.is_held_by(token))
}

fn finished(
    record: &Record,
    mine: &FencingToken,
    fingerprint: Option<&Fingerprint>,
    in_progress: Refusal,
) -> Refusal {
    match record.status {
        Status::Completed if record.is_held_by(mine) => Refusal::Landed,
        // Whoever holds the key now, this attempt's claim is lost, whatever the payload.
        Status::InProgress if in_progress == Refusal::LeaseLost => in_progress,
        _ => of_another(record, fingerprint, in_progress),
    }
}

fn of_another(record: &Record, fingerprint: Option<&Fingerprint>, in_progress: Refusal) -> Refusal {
    match record.status {
        _ if record.contradicts(fingerprint) => Refusal::PayloadMismatch,
        Status::Completed => Refusal::Duplicate,
        // With no lease it is held until it expires: it is never treated as free.
        Status::InProgress => in_progress,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::{Lease, Moment};

    const NOW: Moment = Moment {
        seconds: 100,
        millis: 100_000,
    };

    fn mine() -> FencingToken {
        FencingToken::new("mine")
    }

    fn fingerprint() -> Option<Fingerprint> {
        Some(Fingerprint::new("f"))
    }

    fn record(status: Status, token: &str, fingerprint: Option<&str>) -> Record {
        let mut record = Record::new(status);
        record.token = Some(FencingToken::new(token));
        record.fingerprint = fingerprint.map(Fingerprint::new);
        record
    }

    fn claim() -> ClaimRequest {
        let mut claim = ClaimRequest::new("r", mine(), Lease::until_millis(200_000), 300, NOW);
        claim.fingerprint = fingerprint();
        claim
    }

    fn completion(condition: CompletionCondition) -> Completion {
        let mut completion = Completion::new("r", mine(), 300, condition);
        completion.fingerprint = fingerprint();
        completion
    }

    fn release() -> ReleaseRequest {
        let mut release = ReleaseRequest::new("r", mine());
        release.fingerprint = fingerprint();
        release
    }

    use CompletionCondition::{Free, Held};
    use Refusal::{Duplicate, InProgress, Landed, LeaseLost, PayloadMismatch};
    use Status::{Completed as Done, InProgress as Running};

    #[test]
    fn each_refusal_is_decided_by_its_table() {
        let table = [
            (
                record(Running, "mine", Some("f")),
                [Landed, LeaseLost, InProgress, LeaseLost],
            ),
            (
                record(Running, "other", Some("f")),
                [InProgress, LeaseLost, InProgress, LeaseLost],
            ),
            (
                record(Running, "other", None),
                [InProgress, LeaseLost, InProgress, LeaseLost],
            ),
            (
                record(Running, "other", Some("g")),
                [PayloadMismatch, LeaseLost, PayloadMismatch, LeaseLost],
            ),
            (
                record(Done, "mine", Some("f")),
                [Duplicate, Landed, Landed, Landed],
            ),
            (record(Done, "other", Some("f")), [Duplicate; 4]),
            (record(Done, "other", None), [Duplicate; 4]),
            (record(Done, "other", Some("g")), [PayloadMismatch; 4]),
        ];
        for (record, meaning) in table {
            let decided = [
                claim().refused_by(&record),
                completion(Held).refused_by(&record),
                completion(Free { now: NOW }).refused_by(&record),
                release().refused_by(&record),
            ];
            assert_eq!(decided, meaning, "{record:?}");
        }
    }

    #[test]
    fn without_a_fingerprint_any_payload_is_a_duplicate() {
        let done = record(Done, "other", Some("g"));
        let mut claim = claim();
        claim.fingerprint = None;
        assert_eq!(claim.refused_by(&done), Duplicate);
    }

    #[test]
    fn a_claim_replaces_nothing_that_lives() {
        let with = |status, expiration, lease: Option<u64>| {
            let mut record = record(status, "other", None);
            record.expiration = expiration;
            record.lease = lease.map(Lease::until_millis);
            record
        };
        for (record, is_free) in [
            (with(Running, Some(300), Some(100_000)), false),
            (with(Running, Some(300), Some(99_999)), true),
            (with(Running, Some(300), None), false),
            (with(Running, Some(100), None), false),
            (with(Running, Some(99), None), true),
            (with(Running, None, None), false),
            (with(Done, Some(300), Some(0)), false),
            (with(Done, Some(99), None), true),
            (with(Done, None, None), false),
        ] {
            assert_eq!(record.is_free(NOW), is_free, "{record:?}");
            assert_eq!(claim().applies_to(Some(&record)), is_free);
            assert_eq!(
                completion(Free { now: NOW }).applies_to(Some(&record)),
                is_free
            );
        }
        assert!(claim().applies_to(None));
        assert!(completion(Free { now: NOW }).applies_to(None));
    }

    #[test]
    fn only_a_record_in_progress_under_the_token_is_held() {
        for (record, is_held) in [
            (Some(record(Running, "mine", None)), true),
            (Some(record(Running, "other", None)), false),
            (Some(record(Done, "mine", None)), false),
            (None, false),
        ] {
            assert_eq!(completion(Held).applies_to(record.as_ref()), is_held);
            assert_eq!(release().applies_to(record.as_ref()), is_held);
        }
    }
}
