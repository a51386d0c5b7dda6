//! One attempt, step by step: claim, handle, commit, settle.

use std::error::Error as StdError;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::{Duration, SystemTime};

use futures_util::FutureExt as _;
use futures_util::future::{BoxFuture, Either, select};

use super::decide::{self, AfterClaim};
use super::failures;
use super::times::{Backoff, Times, left};
use super::{Engine, Finish, Protection, WorkError};
use crate::clock::{Clock, epoch_millis, epoch_seconds};
use crate::error::{Error, ErrorKind};
use crate::handler::Attempt;
use crate::record::{FencingToken, Fingerprint, Lease};
use crate::store::{
    ClaimAnswer, ClaimRequest, CommitAnswer, CommitRequest, Completion, ErasedStore, Failure,
    ReleaseAnswer, ReleaseRequest, Seen, StoreError,
};
use crate::transaction::Prepared;
use crate::write::Write;

/// A claim whose reply was lost may have landed: how long to try to give it back.
const GIVE_BACK: Duration = Duration::from_secs(1);

const NO_ANSWER: &str = "no answer came in the time left";

/// One attempt under way.
pub(super) struct Run<'e> {
    engine: &'e Engine,
    record_id: Arc<str>,
    fingerprint: Option<Fingerprint>,
    is_protected: bool,
    token: FencingToken,
    times: Times,
    work_until: SystemTime,
    requests: AtomicU32,
    store_was_down: AtomicBool,
    commit_was_sent: AtomicBool,
}

impl<'e> Run<'e> {
    pub(super) fn new(engine: &'e Engine, protection: Protection, times: Times) -> Self {
        let (record_id, fingerprint, is_protected) = match protection {
            Protection::Record {
                record_id,
                fingerprint,
            } => (record_id, fingerprint, true),
            Protection::None { stand_in } => (stand_in, None, false),
        };
        Self {
            engine,
            record_id,
            fingerprint,
            is_protected,
            token: FencingToken::random(),
            times,
            work_until: times.work_until(engine.clock.now(), engine.commit_reserve),
            requests: AtomicU32::new(0),
            store_was_down: AtomicBool::new(false),
            commit_was_sent: AtomicBool::new(false),
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
        if self.is_protected
            && let AfterClaim::Finish(finish) = self.claim().await?
        {
            return Ok(finish);
        }
        let started = self.now();
        let handled = self.handle(work).await;
        *handler_duration = Some(left(self.now(), started));
        match handled {
            Ok(prepared) => self.commit(prepared).await,
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
            now_seconds: epoch_seconds(now),
            now_millis: epoch_millis(now),
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
                    return decide::refused_claim(&record, &self.token, self.fingerprint.as_ref());
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
        self.settle(error, GIVE_BACK).await.map(AfterClaim::Finish)
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
                    Err(panic) => failures::panicked("a destructor of the handler", panic.as_ref()),
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
            Err(panic) => Err(failures::panicked("the handler", panic.as_ref())),
        }
    }

    async fn commit(&self, prepared: Prepared) -> Result<Finish, Error> {
        let until = self.times.commit_until(self.now());
        let expiration = self.engine.retention.expiration(self.now());
        let mut body = prepared;
        let mut stale = false;
        // Each body that is tried in turn goes under a client token of its own.
        let mut body_number = 0;
        loop {
            let request = CommitRequest {
                completion: self.is_protected.then(|| Completion {
                    record_id: self.record_id.to_string(),
                    token: self.token.clone(),
                    expiration,
                    data: body.data,
                }),
                client_token: format!("{}-{body_number}", self.token.as_str()),
                writes: body.writes,
            };
            body_number += 1;
            let answer = self.send_commit(&request, until).await;
            match answer {
                Sent::Committed => {
                    let data = request.completion.and_then(|completion| completion.data);
                    return Ok(Finish::Completed { data, stale });
                }
                Sent::RecordRefused(seen) => {
                    let settled = self.refused_commit(seen, until).await;
                    return settled.map(|finish| finish.superseded(stale));
                }
                Sent::ConditionFailed {
                    failed,
                    incomparable,
                } => {
                    let mut failed_writes = failed.iter().filter_map(|at| request.writes.get(*at));
                    if !incomparable.is_empty() {
                        let error = failures::incomparable(&incomparable, &request.writes);
                        return self.settle(error, self.engine.retry_for).await;
                    } else if failed_writes.any(Write::is_version_guard) {
                        body = Prepared::nothing();
                        stale = true;
                    } else if let Some(alternative) = body.alternative {
                        body = *alternative;
                    } else {
                        let error = failures::condition_failed(&failed, &request.writes);
                        return self.settle(error, self.engine.retry_for).await;
                    }
                }
                Sent::Failed(error) => {
                    let settled = self.settle(error, self.engine.retry_for).await;
                    return settled.map(|finish| finish.superseded(stale));
                }
            }
        }
    }

    /// Sends one and the same commit until its answer is known or the time is up.
    async fn send_commit(&self, request: &CommitRequest, until: SystemTime) -> Sent {
        let mut backoff = Backoff::new();
        let mut may_have_landed = false;
        let mut last = None;
        while let Some(answer) = self.call(until, self.store().commit(request)).await {
            self.commit_was_sent.store(true, Ordering::Relaxed);
            let error = match answer {
                Ok(CommitAnswer::Committed) => return Sent::Committed,
                Ok(CommitAnswer::RecordRefused(seen)) => return Sent::RecordRefused(seen),
                Ok(CommitAnswer::ConditionFailed {
                    failed,
                    incomparable,
                }) => {
                    return Sent::ConditionFailed {
                        failed,
                        incomparable,
                    };
                }
                Ok(CommitAnswer::Impossible { write, error }) => {
                    return Sent::Failed(failures::impossible(write, &request.writes, error));
                }
                Ok(CommitAnswer::TokenReused(error)) => {
                    return Sent::Failed(
                        Error::new(
                            ErrorKind::Commit,
                            "the commit's client token was used by another request",
                        )
                        .with_source(error),
                    );
                }
                Ok(CommitAnswer::Failed(error)) => error,
                Err(NoAnswer) => {
                    may_have_landed = true;
                    last.get_or_insert_with(|| StoreError::unknown(NO_ANSWER));
                    break;
                }
            };
            let failure = error.failure();
            may_have_landed |= matches!(failure, Failure::Unknown | Failure::Unclassified);
            last = Some(error);
            let try_again = matches!(
                failure,
                Failure::Unknown | Failure::Conflict | Failure::Throttled
            );
            if !try_again || !self.pause(&mut backoff, until).await {
                break;
            }
        }
        Sent::Failed(match last {
            None => Error::new(
                ErrorKind::Deadline,
                "no time was left to commit: nothing was written",
            ),
            Some(error) => {
                self.store_was_down.fetch_or(
                    matches!(error.failure(), Failure::Unknown | Failure::Throttled),
                    Ordering::Relaxed,
                );
                if may_have_landed {
                    self.not_known(error)
                } else {
                    failures::store_failed("the commit failed, and nothing was written", error)
                }
            }
        })
    }

    async fn refused_commit(&self, seen: Seen, until: SystemTime) -> Result<Finish, Error> {
        let seen = match seen {
            Seen::Nothing => self.read(until).await.map_err(|error| {
                Error::new(
                    ErrorKind::Unknown,
                    "the commit was refused, and the record could not be read to see why",
                )
                .with_source(error)
            })?,
            seen => seen,
        };
        let lease_lost = |what: &str| {
            Err(Error::new(
                ErrorKind::LeaseLost,
                format!("{what}: nothing of this attempt was written"),
            ))
        };
        match seen {
            Seen::Record(record) => {
                decide::completed(&record, &self.token, self.fingerprint.as_ref())
                    .unwrap_or_else(|| lease_lost("another attempt has taken the key over"))
            }
            Seen::Unreadable(problem) => Err(failures::unreadable(&problem)),
            Seen::Nothing => lease_lost("the record is gone"),
        }
    }

    /// Gives the key back after a failure, and finds out whether the work was committed after all.
    ///
    /// `error` stands unless the record turns out to be completed.
    async fn settle(&self, error: Error, patience: Duration) -> Result<Finish, Error> {
        if !self.is_protected {
            return Err(error);
        }
        let request = ReleaseRequest {
            record_id: self.record_id.to_string(),
            token: self.token.clone(),
        };
        let until = self.within(patience, self.times.stop_at);
        let commit_was_sent = self.commit_was_sent.load(Ordering::Relaxed);
        let mut backoff = Backoff::new();
        while let Some(answer) = self.call(until, self.store().release(&request)).await {
            let failure = match answer {
                Ok(ReleaseAnswer::Released) => return Err(error),
                Ok(ReleaseAnswer::Refused(seen)) => {
                    let seen = match seen {
                        // Before a commit was sent, a record that is not shown can't be ours.
                        Seen::Nothing if commit_was_sent => self.read(until).await,
                        seen => Ok(seen),
                    };
                    match seen {
                        Ok(Seen::Record(record)) => {
                            return decide::completed(
                                &record,
                                &self.token,
                                self.fingerprint.as_ref(),
                            )
                            .unwrap_or(Err(error));
                        }
                        Ok(Seen::Nothing) => return Err(error),
                        Ok(Seen::Unreadable(_)) | Err(_) => break,
                    }
                }
                Ok(ReleaseAnswer::Failed(failed)) => failed.failure(),
                Err(NoAnswer) => break,
            };
            // A conflict is our own transaction, perhaps: it settles nothing.
            if failure == Failure::Rejected || !self.pause(&mut backoff, until).await {
                break;
            }
        }
        // Nothing is settled. Whatever the last answer to the commit was, an earlier try, of ours or of
        // the SDK, may have landed.
        if commit_was_sent && error.kind() != ErrorKind::Unknown {
            return Err(self.not_known(error));
        }
        Err(error)
    }

    fn not_known(&self, error: impl Into<Box<dyn StdError + Send + Sync>>) -> Error {
        let what = if self.is_protected {
            "it is not known whether the commit was applied; the next delivery, or a call with the \
             same key, finds out"
        } else {
            "it is not known whether the writes were applied; without a key nothing remembers them, \
             and the next delivery writes again"
        };
        Error::new(ErrorKind::Unknown, what).with_source(error)
    }

    /// Reads the record with strong consistency, until it is known or the time is up.
    async fn read(&self, until: SystemTime) -> Result<Seen, StoreError> {
        let mut backoff = Backoff::new();
        let mut last = None;
        while let Some(answer) = self.call(until, self.store().read(&self.record_id)).await {
            match answer {
                Ok(Ok(seen)) => return Ok(seen),
                Err(NoAnswer) => break,
                Ok(Err(error)) => {
                    let rejected = error.failure() == Failure::Rejected;
                    last = Some(error);
                    if rejected || !self.pause(&mut backoff, until).await {
                        break;
                    }
                }
            }
        }
        Err(last.unwrap_or_else(|| StoreError::unknown(NO_ANSWER)))
    }

    /// One request, bounded by the time left; `None` if there is none and nothing was sent.
    async fn call<T>(
        &self,
        until: SystemTime,
        request: BoxFuture<'_, T>,
    ) -> Option<Result<T, NoAnswer>> {
        let time = left(until, self.now());
        if time.is_zero() {
            return None;
        }
        self.requests.fetch_add(1, Ordering::Relaxed);
        Some(match select(request, self.clock().sleep(time)).await {
            Either::Left((answer, _)) => Ok(answer),
            Either::Right(((), _)) => Err(NoAnswer),
        })
    }

    /// Backs off; `false` if the time does not allow another try.
    async fn pause(&self, backoff: &mut Backoff, until: SystemTime) -> bool {
        if left(until, self.now()).is_zero() {
            return false;
        }
        let pause = backoff.next(self.clock());
        if pause >= left(until, self.now()) {
            return false;
        }
        self.clock().sleep(pause).await;
        true
    }

    /// So long from now, but not past `end`.
    fn within(&self, time: Duration, end: SystemTime) -> SystemTime {
        self.now()
            .checked_add(time)
            .map_or(end, |then| then.min(end))
    }

    fn store(&self) -> &dyn ErasedStore {
        self.engine.store.as_ref()
    }

    fn clock(&self) -> &dyn Clock {
        self.engine.clock.as_ref()
    }

    fn now(&self) -> SystemTime {
        self.clock().now()
    }
}

/// A request was sent, and the time ended before its answer came.
struct NoAnswer;

/// What came of sending one commit, however often.
enum Sent {
    Committed,
    RecordRefused(Seen),
    ConditionFailed {
        failed: Vec<usize>,
        incomparable: Vec<usize>,
    },
    Failed(Error),
}
