//! One attempt, step by step: claim or look, handle; then commit or settle.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::{Duration, SystemTime};

use futures_util::FutureExt as _;
use futures_util::future::{Either, select};

use super::decide::{self, AfterClaim};
use super::failures;
use super::group::Groups;
use super::memory::Memory;
use super::requests::{NO_ANSWER, NoAnswer};
use super::settle::BRIEFLY;
use super::times::{Backoff, Times, left};
use super::{Engine, Finish, Protection, WorkError};
use crate::claim::Claim;
use crate::error::{Error, ErrorKind};
use crate::handler::Attempt;
use crate::record::{FencingToken, Fingerprint, Lease, Moment};
use crate::store::{
    ClaimAnswer, ClaimRequest, Completion, CompletionCondition, Failure, Seen, StoreError,
};
use crate::transaction::Prepared;

/// One attempt under way.
pub(super) struct Run<'e> {
    pub(super) engine: &'e Engine,
    pub(super) record_id: Arc<str>,
    pub(super) fingerprint: Option<Fingerprint>,
    pub(super) guard: Guard,
    pub(super) token: FencingToken,
    pub(super) times: Times,
    started: SystemTime,
    work_until: SystemTime,
    pub(super) requests: AtomicU32,
    pub(super) store_was_down: AtomicBool,
    pub(super) commit_was_sent: AtomicBool,
    /// A try of the commit had no answer that says what came of it, so that it may still land.
    pub(super) commit_may_land: AtomicBool,
}

/// What keeps the work from taking effect twice.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Guard {
    /// The record is claimed before the work.
    ClaimFirst,
    /// The record is put by the commit. Looked up first if the work may have been done before.
    AtCommit { look_first: bool },
    /// Nothing.
    None,
}

impl<'e> Run<'e> {
    pub(super) fn new(engine: &'e Engine, protection: Protection, times: Times) -> Self {
        let (record_id, fingerprint, guard) = match protection {
            Protection::Record {
                record_id,
                fingerprint,
                claim,
                may_be_done,
            } => {
                let guard = match claim {
                    Claim::First => Guard::ClaimFirst,
                    Claim::AtCommit => Guard::AtCommit {
                        look_first: may_be_done,
                    },
                };
                (record_id, fingerprint, guard)
            }
            Protection::None { stand_in } => (stand_in, None, Guard::None),
        };
        let started = engine.clock.now();
        Self {
            engine,
            record_id,
            fingerprint,
            guard,
            token: FencingToken::random(),
            times,
            started,
            work_until: times.work_until(started, engine.commit_reserve),
            requests: AtomicU32::new(0),
            store_was_down: AtomicBool::new(false),
            commit_was_sent: AtomicBool::new(false),
            commit_may_land: AtomicBool::new(false),
        }
    }

    /// Requests to the store so far.
    pub(super) fn requests(&self) -> u32 {
        self.requests.load(Ordering::Relaxed)
    }

    /// Whether the store could not be used at all.
    pub(super) fn store_was_down(&self) -> bool {
        self.store_was_down.load(Ordering::Relaxed)
    }

    pub(super) async fn attempt<F, Fut>(
        &self,
        groups: Option<&Groups>,
        work: F,
        handler_duration: &mut Option<Duration>,
    ) -> Result<Finish, Error>
    where
        F: FnOnce(Attempt) -> Fut,
        Fut: Future<Output = Result<Prepared, WorkError>>,
    {
        if left(self.work_until, self.now()).is_zero() {
            return Err(Error::new(
                ErrorKind::Deadline,
                "the time was up before the work could start: nothing was claimed",
            ));
        }
        // Only a record makes it safe to send a commit again under another client token.
        let expected = match self.guard {
            Guard::AtCommit { .. } => groups.map(Groups::expect_one),
            Guard::ClaimFirst | Guard::None => None,
        };
        let before = match self.guard {
            Guard::ClaimFirst => self.claim().await?,
            Guard::AtCommit { look_first: true } => self.look().await?,
            Guard::AtCommit { look_first: false } | Guard::None => AfterClaim::Run,
        };
        if let AfterClaim::Finish(finish) = before {
            return Ok(finish);
        }
        let started = self.now();
        let handled = self.handle(work).await;
        *handler_duration = Some(left(self.now(), started));
        match handled {
            Ok(prepared) => self.commit(prepared, expected).await,
            Err(error) => self.settle(error, self.engine.retry_for).await,
        }
    }

    async fn claim(&self) -> Result<AfterClaim, Error> {
        let now = self.now();
        let lease_end = self.times.deadline.max(now + self.engine.lease_at_least);
        let request = ClaimRequest {
            record_id: self.record_id.to_string(),
            token: self.token.clone(),
            lease: Lease::until(lease_end),
            expiration: self.engine.retention.expiration(now),
            fingerprint: self.fingerprint.clone(),
            now: Moment::at(now),
        };
        let until = self.within(self.engine.retry_for, self.work_until);
        let mut backoff = Backoff::new();
        let mut last = None;
        while let Some(answer) = self.call(until, self.store().claim(&request)).await {
            let seen = match answer {
                Ok(ClaimAnswer::Claimed) => return Ok(AfterClaim::Run),
                Ok(ClaimAnswer::Refused(Seen::Nothing)) => self.read(until).await,
                Ok(ClaimAnswer::Refused(seen)) => Ok(seen),
                Ok(ClaimAnswer::Failed(error)) => Err(error),
                Err(NoAnswer) => break,
            };
            match seen {
                Ok(Seen::Record(record)) => {
                    return decide::after_claim(request.refused_by(&record), record);
                }
                Ok(Seen::Unreadable(problem)) => return Err(failures::unreadable(&problem)),
                // The record went away between the refusal and the read.
                Ok(Seen::Nothing) => {}
                Err(error) if error.failure() == Failure::Rejected => {
                    last = Some(error);
                    break;
                }
                Err(error) => last = Some(error),
            }
            if !self.pause(&mut backoff, until).await {
                break;
            }
        }
        let last = last.unwrap_or_else(|| StoreError::unknown(NO_ANSWER));
        let error = if last.failure() == Failure::Conflict {
            decide::in_progress()
        } else {
            self.store_was_down.store(true, Ordering::Relaxed);
            failures::store_failed(
                "the key could not be claimed, and the work was not started",
                last,
            )
        };
        // An earlier try may have landed, and the answer speaks for the last one only. The key would
        // stay held until the lease ends then, and a redelivery be spent on it.
        self.settle(error, BRIEFLY).await.map(AfterClaim::Finish)
    }

    /// Reads the record before work that may have been done: what a claim would have found.
    async fn look(&self) -> Result<AfterClaim, Error> {
        let until = self.within(self.engine.retry_for, self.work_until);
        let seen = self.read(until).await.map_err(|error| {
            self.store_was_down.store(true, Ordering::Relaxed);
            failures::store_failed(
                "the record could not be read, and the work was not started",
                error,
            )
        })?;
        let completion = self.completion(None);
        match seen {
            Seen::Record(record) if !completion.applies_to(Some(&record)) => {
                decide::after_claim(completion.refused_by(&record), record)
            }
            Seen::Unreadable(problem) => Err(failures::unreadable(&problem)),
            Seen::Record(_) | Seen::Nothing => Ok(AfterClaim::Run),
        }
    }

    /// Keeps what is known of the key now.
    pub(super) fn remember(&self, memory: &Memory, finish: &Finish) {
        if self.guard == Guard::None {
            return;
        }
        let (data, expiration) = match finish {
            // The record's own end is no earlier than a retention that began with the attempt.
            Finish::Completed { data, .. } => {
                (data, Some(self.engine.retention.expiration(self.started)))
            }
            Finish::Duplicate { data, expiration } => (data, *expiration),
        };
        memory.remember(
            Arc::clone(&self.record_id),
            self.fingerprint.clone(),
            data.clone(),
            expiration,
            self.now(),
        );
    }

    /// How this attempt completes its record, at this time.
    pub(super) fn completion(&self, data: Option<String>) -> Completion {
        let now = self.now();
        Completion {
            record_id: self.record_id.to_string(),
            token: self.token.clone(),
            expiration: self.engine.retention.expiration(now),
            data,
            fingerprint: self.fingerprint.clone(),
            condition: match self.guard {
                Guard::AtCommit { .. } => CompletionCondition::Free {
                    now: Moment::at(now),
                },
                Guard::ClaimFirst | Guard::None => CompletionCondition::Held,
            },
        }
    }

    async fn handle<F, Fut>(&self, work: F) -> Result<Prepared, Error>
    where
        F: FnOnce(Attempt) -> Fut,
        Fut: Future<Output = Result<Prepared, WorkError>>,
    {
        let out_of_time = || {
            Error::new(
                ErrorKind::Deadline,
                "the handler did not finish in the time that the invocation leaves it: it was \
                 dropped and nothing was committed; make it faster or the function's time-out \
                 longer",
            )
        };
        let time = left(self.work_until, self.now());
        if time.is_zero() {
            return Err(Error::new(
                ErrorKind::Deadline,
                "the time was up before the handler could start: it was not run",
            ));
        }
        let attempt = Attempt::new(Arc::clone(&self.record_id), self.work_until);
        let work = Box::pin(AssertUnwindSafe(async move { work(attempt).await }).catch_unwind());
        let worked = match select(work, self.clock().sleep(time)).await {
            Either::Left((worked, _)) => worked,
            Either::Right(((), work)) => {
                // A destructor that panics must not keep the key from being given back.
                return Err(match catch_unwind(AssertUnwindSafe(|| drop(work))) {
                    Ok(()) => out_of_time(),
                    Err(panic) => failures::panicked("a destructor of the handler", panic),
                });
            }
        };
        match worked {
            Ok(Ok(prepared)) => Ok(prepared),
            Ok(Err(WorkError::Handler(error))) => Err(failures::handler_failed(error)),
            Ok(Err(WorkError::Transaction(error))) => Err(Error::new(
                ErrorKind::Commit,
                "the transaction can't be committed, and nothing was written",
            )
            .with_source(error)),
            Err(panic) => Err(failures::panicked("the handler", panic)),
        }
    }
}
