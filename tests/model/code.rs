//! The conditions and the meanings of refusals, asked of the code itself: the model has none of its
//! own that could differ.

use lambda_idempotency::store::{
    ClaimRequest, Completion, CompletionCondition, FencingToken, Fingerprint, Lease, Moment,
    Record, Refusal, ReleaseRequest, Status,
};

use crate::mutation::Mutation;

/// A record as one attempt sees it. All that a condition can depend on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct View {
    pub(crate) is_completed: bool,
    pub(crate) is_mine: bool,
    pub(crate) is_same_payload: bool,
    pub(crate) lease_ended: bool,
}

/// What a request takes for the time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Now {
    /// Before the lease's end, although it has ended: the request is old, or the clock is slow.
    Early,
    /// The time that it is.
    True,
    /// After the lease's end, although it lives: the clock is fast.
    Late,
}

/// The requests that have a condition on the record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Conditional {
    /// Takes the key for an attempt.
    Claim,
    /// Completes a record that the attempt holds.
    CompleteHeld,
    /// Puts a completed record where none is in the way.
    CompleteFree,
    /// Gives the key back.
    Release,
}

const CONDITIONALS: [Conditional; 4] = [
    Conditional::Claim,
    Conditional::CompleteHeld,
    Conditional::CompleteFree,
    Conditional::Release,
];
const VIEWS: usize = 16;
const NOWS: [Now; 3] = [Now::Early, Now::True, Now::Late];

const FAR: u64 = 1_000_000;
const LIVING_LEASE_MILLIS: u64 = 200_000;
const ENDED_LEASE_MILLIS: u64 = 100_000;

/// The answers of the code, asked once: the checker asks millions of times.
#[derive(Clone, Debug)]
pub(crate) struct Code {
    applies: [[[bool; NOWS.len()]; VIEWS]; CONDITIONALS.len()],
    applies_to_none: [bool; CONDITIONALS.len()],
    refusals: [[Refusal; VIEWS]; CONDITIONALS.len()],
}

impl Code {
    /// `fingerprints`: whether payloads are compared.
    pub(crate) fn asked(fingerprints: bool, mutation: Option<Mutation>) -> Self {
        let mut code = Self {
            applies: [[[false; NOWS.len()]; VIEWS]; CONDITIONALS.len()],
            applies_to_none: [false; CONDITIONALS.len()],
            refusals: [[Refusal::InProgress; VIEWS]; CONDITIONALS.len()],
        };
        for (request, kind) in CONDITIONALS.into_iter().enumerate() {
            code.applies_to_none[request] = mutated_applies(
                mutation,
                kind,
                None,
                applies(kind, None, Now::True, fingerprints),
            );
            for index in 0..VIEWS {
                let view = View::numbered(index);
                for (now, moment) in NOWS.into_iter().enumerate() {
                    let truly = applies(kind, Some(view), moment, fingerprints);
                    code.applies[request][index][now] =
                        mutated_applies(mutation, kind, Some(view), truly);
                }
                code.refusals[request][index] = refused_by(kind, view, fingerprints);
            }
        }
        code
    }

    pub(crate) fn applies_to(&self, kind: Conditional, view: Option<View>, now: Now) -> bool {
        match view {
            None => self.applies_to_none[kind as usize],
            Some(view) => self.applies[kind as usize][view.number()][now as usize],
        }
    }

    pub(crate) fn refused_by(&self, kind: Conditional, view: View) -> Refusal {
        self.refusals[kind as usize][view.number()]
    }

    /// Whether nothing can change a completed record.
    pub(crate) fn completed_is_final(&self) -> bool {
        CONDITIONALS.iter().all(|kind| {
            (0..VIEWS)
                .filter(|index| View::numbered(*index).is_completed)
                .all(|index| self.applies[*kind as usize][index] == [false; NOWS.len()])
        })
    }
}

impl View {
    fn numbered(index: usize) -> Self {
        Self {
            is_completed: index & 1 != 0,
            is_mine: index & 2 != 0,
            is_same_payload: index & 4 != 0,
            lease_ended: index & 8 != 0,
        }
    }

    fn number(self) -> usize {
        usize::from(self.is_completed)
            | usize::from(self.is_mine) << 1
            | usize::from(self.is_same_payload) << 2
            | usize::from(self.lease_ended) << 3
    }

    fn record(self, fingerprints: bool) -> Record {
        let mut record = Record::new(if self.is_completed {
            Status::Completed
        } else {
            Status::InProgress
        });
        record.token = Some(FencingToken::new(if self.is_mine {
            "mine"
        } else {
            "another's"
        }));
        record.lease = (!self.is_completed).then(|| {
            Lease::until_millis(if self.lease_ended {
                ENDED_LEASE_MILLIS
            } else {
                LIVING_LEASE_MILLIS
            })
        });
        record.expiration = Some(FAR);
        let payload = if self.is_same_payload {
            "mine"
        } else {
            "another"
        };
        record.fingerprint = fingerprints.then(|| Fingerprint::new(payload));
        record
    }
}

impl Now {
    fn moment(self) -> Moment {
        let millis = match self {
            Self::Early => ENDED_LEASE_MILLIS - 1_000,
            Self::True => ENDED_LEASE_MILLIS + 1_000,
            Self::Late => LIVING_LEASE_MILLIS + 1_000,
        };
        Moment {
            seconds: millis / 1_000,
            millis,
        }
    }
}

fn my_token() -> FencingToken {
    FencingToken::new("mine")
}

fn my_fingerprint(fingerprints: bool) -> Option<Fingerprint> {
    fingerprints.then(|| Fingerprint::new("mine"))
}

fn claim(now: Now, fingerprints: bool) -> ClaimRequest {
    let lease = Lease::until_millis(LIVING_LEASE_MILLIS);
    let mut request = ClaimRequest::new("record", my_token(), lease, FAR, now.moment());
    request.fingerprint = my_fingerprint(fingerprints);
    request
}

fn completion(condition: CompletionCondition, fingerprints: bool) -> Completion {
    let mut completion = Completion::new("record", my_token(), FAR, condition);
    completion.fingerprint = my_fingerprint(fingerprints);
    completion
}

fn release(fingerprints: bool) -> ReleaseRequest {
    let mut request = ReleaseRequest::new("record", my_token());
    request.fingerprint = my_fingerprint(fingerprints);
    request
}

fn free(now: Now) -> CompletionCondition {
    CompletionCondition::Free { now: now.moment() }
}

fn applies(kind: Conditional, view: Option<View>, now: Now, fingerprints: bool) -> bool {
    let record = view.map(|view| view.record(fingerprints));
    let record = record.as_ref();
    match kind {
        Conditional::Claim => claim(now, fingerprints).applies_to(record),
        Conditional::CompleteHeld => {
            completion(CompletionCondition::Held, fingerprints).applies_to(record)
        }
        Conditional::CompleteFree => completion(free(now), fingerprints).applies_to(record),
        Conditional::Release => release(fingerprints).applies_to(record),
    }
}

fn refused_by(kind: Conditional, view: View, fingerprints: bool) -> Refusal {
    let record = &view.record(fingerprints);
    match kind {
        Conditional::Claim => claim(Now::True, fingerprints).refused_by(record),
        Conditional::CompleteHeld => {
            completion(CompletionCondition::Held, fingerprints).refused_by(record)
        }
        Conditional::CompleteFree => completion(free(Now::True), fingerprints).refused_by(record),
        Conditional::Release => release(fingerprints).refused_by(record),
    }
}

fn mutated_applies(
    mutation: Option<Mutation>,
    kind: Conditional,
    view: Option<View>,
    truly: bool,
) -> bool {
    let is = |condition: fn(View) -> bool| view.is_some_and(condition);
    match (mutation, kind) {
        (Some(Mutation::CommitWithoutStatus), Conditional::CompleteHeld) => is(|view| view.is_mine),
        (Some(Mutation::CommitWithoutToken), Conditional::CompleteHeld) => {
            is(|view| !view.is_completed)
        }
        (Some(Mutation::ReleaseWithoutCondition), Conditional::Release) => true,
        (Some(Mutation::ReleaseByTokenOnly), Conditional::Release) => is(|view| view.is_mine),
        (Some(Mutation::TakeoverOfLivingLease), Conditional::Claim) => {
            truly || is(|view| !view.is_completed)
        }
        (Some(Mutation::ClaimWithoutLease), Conditional::Claim | Conditional::CompleteFree) => {
            view.is_none()
        }
        (Some(Mutation::PutWithoutCondition), Conditional::CompleteFree) => true,
        _ => truly,
    }
}
