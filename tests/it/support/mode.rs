//! In which mode a lab takes its keys and commits, and which requests that takes.

use std::ops::RangeInclusive;
use std::time::{Duration, SystemTime};

use lambda_idempotency::{Claim, Outcome, SqsService};
use serde_json::json;

use super::{Fault, Lab};

/// The mode of tests that do not choose one: `first`, `at-commit` or `grouped`. See `modes`.
pub const VARIABLE: &str = "CLAIM";

/// The operation that commits business writes.
pub const COMMIT: &str = "TransactWriteItems";

/// All operations that the library sends.
const OPERATIONS: [&str; 5] = ["PutItem", "UpdateItem", "DeleteItem", "GetItem", COMMIT];

/// How long commits of a batch wait for one another.
const LINGER: Duration = Duration::from_millis(20);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// The default of the library.
    ClaimFirst,
    /// `Claim::AtCommit`.
    AtCommit,
    /// `Claim::AtCommit`, and each batch's commits go together.
    Grouped,
}

impl Mode {
    pub const ALL: [Self; 3] = [Self::ClaimFirst, Self::AtCommit, Self::Grouped];

    /// The mode of tests that do not choose one.
    pub fn of_this_run() -> Self {
        let Ok(name) = std::env::var(VARIABLE) else {
            return Self::ClaimFirst;
        };
        let named = Self::ALL.into_iter().find(|mode| mode.name() == name);
        named.unwrap_or_else(|| panic!("{VARIABLE}={name}: no such mode"))
    }

    pub fn name(self) -> &'static str {
        match self {
            Self::ClaimFirst => "first",
            Self::AtCommit => "at-commit",
            Self::Grouped => "grouped",
        }
    }

    pub fn claim(self) -> Claim {
        match self {
            Self::ClaimFirst => Claim::First,
            Self::AtCommit | Self::Grouped => Claim::AtCommit,
        }
    }

    /// A service in this mode, from one that claims as it does.
    pub fn served<H, B>(self, service: SqsService<H, B>) -> SqsService<H, B> {
        match self {
            Self::Grouped => service.group_commits(LINGER),
            Self::ClaimFirst | Self::AtCommit => service,
        }
    }

    /// Whether a handler may run for a message that its record refuses.
    pub fn runs_before_it_claims(self) -> bool {
        self.claim() == Claim::AtCommit
    }

    /// How many handlers run where so many attempts meet on one key, with equal clocks.
    pub fn handlers_that_may_run(self, attempts: u32) -> RangeInclusive<u32> {
        match self.runs_before_it_claims() {
            false => 1..=1,
            true => 1..=attempts,
        }
    }

    /// How many handlers run at most where so many attempts find that the store can't be used.
    pub fn handlers_without_a_key(self, attempts: usize) -> usize {
        match self.runs_before_it_claims() {
            false => 0,
            true => attempts,
        }
    }

    /// What is said of a message whose key is in other transactions to the end.
    pub fn outcome_of_conflicts(self) -> Outcome {
        match self.runs_before_it_claims() {
            false => Outcome::InProgress,
            // The handler has run, and its commit was refused.
            true => Outcome::Failed,
        }
    }
}

/// A step of an attempt that may be a request.
#[derive(Clone, Copy, Debug)]
pub enum Step {
    /// Takes the key before the handler runs.
    Claim,
    /// Commits writes.
    Commit,
    /// Completes the record without writes.
    Complete,
    /// Finds out what a commit came to, and gives the key back.
    Settle,
    /// Gives the key back where no commit was sent.
    GiveBack,
    /// Reads the record, where an answer does not show it.
    Read,
}

impl Lab {
    /// The operations of these steps in this lab's mode.
    pub fn steps(&self, steps: &[Step]) -> Vec<&'static str> {
        let first = !self.mode.runs_before_it_claims();
        let operation = |step: &Step| match step {
            Step::Claim | Step::GiveBack if !first => None,
            Step::Claim => Some("PutItem"),
            Step::Commit => Some(COMMIT),
            Step::Complete if first => Some("UpdateItem"),
            Step::Complete => Some("PutItem"),
            Step::Settle | Step::GiveBack if first => Some("DeleteItem"),
            Step::Settle | Step::GiveBack | Step::Read => Some("GetItem"),
        };
        steps.iter().filter_map(operation).collect()
    }

    /// How many requests a batch takes whose messages all take these steps, and can go together.
    pub fn requests_of(&self, messages: usize, steps: &[Step]) -> usize {
        let together = match self.mode {
            Mode::Grouped => 1,
            Mode::ClaimFirst | Mode::AtCommit => messages,
        };
        together * self.steps(steps).len()
    }

    /// The operation that takes the key for an attempt with writes: what comes of a message whose
    /// key is not free is decided by its answer.
    pub fn takes_the_key(&self) -> &'static str {
        self.steps(&[Step::Claim, Step::Commit])[0]
    }

    /// The operation that settles a commit whose outcome is not known.
    pub fn settles(&self) -> &'static str {
        self.steps(&[Step::Settle])[0]
    }

    /// The operation that completes a record without writes.
    pub fn completes(&self) -> &'static str {
        self.steps(&[Step::Complete])[0]
    }

    /// The answer of a store that refuses to take the key, and shows no record: an old emulator's
    /// or a proxy's.
    pub fn key_refused_without_item(&self) -> Fault {
        match self.takes_the_key() {
            COMMIT => Fault::cancelled(&["ConditionalCheckFailed", "None", "None"]),
            _ => Fault::code("ConditionalCheckFailedException"),
        }
    }

    /// The same, with an item that has no attributes.
    pub fn key_refused_with_empty_item(&self) -> Fault {
        let mut fault = self.key_refused_without_item();
        if let Fault::Answer(_, body) = &mut fault {
            match body.pointer_mut("/CancellationReasons/0") {
                Some(reason) => reason["Item"] = json!({}),
                None => body["Item"] = json!({}),
            }
        }
        fault
    }

    /// Every request fails so, until the wire is healed.
    pub fn store_fails(&self, fault: &Fault) {
        for operation in OPERATIONS {
            self.wire.always(operation, fault.clone());
        }
    }

    /// Every request fails so until this time.
    pub fn store_fails_until(&self, until: SystemTime, fault: &Fault) {
        for operation in OPERATIONS {
            self.wire.until(until, operation, fault.clone());
        }
    }
}
