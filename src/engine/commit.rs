//! The commit of one attempt: each body in turn, each sent until its answer is known.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::SystemTime;

use super::group::{Answered, Expected};
use super::requests::{NO_ANSWER, NoAnswer};
use super::run::{Guard, Run};
use super::times::Backoff;
use super::{Finish, decide, failures};
use crate::error::{Error, ErrorKind};
use crate::store::{CommitAnswer, CommitRequest, Completion, Failure, Refusal, Seen, StoreError};
use crate::transaction::Prepared;
use crate::write::Write;

impl Run<'_> {
    /// The first try goes with those of other messages, where it is `expected`.
    pub(super) async fn commit(
        &self,
        prepared: Prepared,
        mut expected: Option<Expected<'_>>,
    ) -> Result<Finish, Error> {
        let until = self.times.commit_until(self.now());
        let until = match self.guard {
            // Nothing but this is done yet, and a redelivery does it as well.
            Guard::AtCommit { .. } => self.within(self.engine.retry_for, until),
            // The handler may have called others, and would call them again.
            Guard::ClaimFirst | Guard::None => until,
        };
        let mut body = prepared;
        let mut stale = false;
        // Each body that is tried in turn goes under a client token of its own.
        let mut body_number = 0;
        loop {
            let request = Arc::new(CommitRequest {
                completion: match self.guard {
                    Guard::None => None,
                    Guard::ClaimFirst | Guard::AtCommit { .. } => Some(self.completion(body.data)),
                },
                client_token: format!("{}-{body_number}", self.token.as_str()),
                writes: body.writes,
            });
            body_number += 1;
            let answer = self.send_commit(&request, until, expected.take()).await;
            match answer {
                Sent::Committed => {
                    let completion = Arc::unwrap_or_clone(request).completion;
                    let data = completion.and_then(|completion| completion.data);
                    return Ok(Finish::Completed { data, stale });
                }
                Sent::RecordRefused(seen) => {
                    let settled = match &request.completion {
                        Some(completion) => self.refused_commit(completion, seen, until).await,
                        None => Err(failures::record_of_none()),
                    };
                    return settled.map(|finish| finish.superseded(stale));
                }
                Sent::ConditionFailed {
                    failed,
                    incomparable,
                } => {
                    let mut failed_writes = failed.iter().filter_map(|at| request.writes.get(*at));
                    if !incomparable.is_empty() {
                        let error = failures::incomparable(&incomparable, &request.writes);
                        return self.settle_commit(error, until).await;
                    } else if self.guard == Guard::None
                        && self.commit_may_land.load(Ordering::Relaxed)
                    {
                        // No record keeps a late copy of this body from landing beside the next one.
                        let error = failures::condition_failed(&failed, &request.writes);
                        return self.settle_commit(error, until).await;
                    } else if failed_writes.any(Write::is_version_guard) {
                        body = Prepared::nothing();
                        stale = true;
                    } else if let Some(alternative) = body.alternative {
                        body = *alternative;
                    } else {
                        let error = failures::condition_failed(&failed, &request.writes);
                        return self.settle_commit(error, until).await;
                    }
                }
                Sent::Failed(error) => {
                    let settled = self.settle_commit(error, until).await;
                    return settled.map(|finish| finish.superseded(stale));
                }
            }
        }
    }

    /// Sends one and the same commit until its answer is known or the time is up.
    async fn send_commit(
        &self,
        request: &Arc<CommitRequest>,
        until: SystemTime,
        mut expected: Option<Expected<'_>>,
    ) -> Sent {
        let mut backoff = Backoff::new();
        let mut last = None;
        loop {
            let answer = match expected.take() {
                Some(expected) => self.hand_in(until, expected, request).await,
                None => self.call(until, self.store().commit(request)).await,
            };
            let Some(answer) = answer else { break };
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
                    self.commit_may_land.store(true, Ordering::Relaxed);
                    last.get_or_insert_with(|| StoreError::unknown(NO_ANSWER));
                    break;
                }
            };
            let failure = error.failure();
            if matches!(failure, Failure::Unknown | Failure::Unclassified) {
                self.commit_may_land.store(true, Ordering::Relaxed);
            }
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
                if self.commit_may_land.load(Ordering::Relaxed) {
                    self.not_known(error)
                } else {
                    failures::store_failed("the commit failed, and nothing was written", error)
                }
            }
        })
    }

    /// Has the commit sent with those of other messages; `None` if there is no time.
    async fn hand_in(
        &self,
        until: SystemTime,
        expected: Expected<'_>,
        request: &Arc<CommitRequest>,
    ) -> Option<Result<CommitAnswer, NoAnswer>> {
        let answer = expected.hand_in(Arc::clone(request));
        let answered = self.within_time(until, Box::pin(answer)).await?;
        Some(match answered {
            Ok(Some(answered)) => {
                let Answered {
                    answer,
                    requests,
                    may_land,
                } = answered;
                self.requests.fetch_add(requests, Ordering::Relaxed);
                self.commit_may_land.fetch_or(may_land, Ordering::Relaxed);
                Ok(answer)
            }
            Ok(None) | Err(NoAnswer) => Err(NoAnswer),
        })
    }

    async fn refused_commit(
        &self,
        completion: &Completion,
        seen: Seen,
        until: SystemTime,
    ) -> Result<Finish, Error> {
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
            let what = format!("{what}: nothing of this attempt was written");
            Err(self.unless_it_may_land(Error::new(ErrorKind::LeaseLost, what)))
        };
        match seen {
            Seen::Record(record) => {
                let refusal = completion.refused_by(&record);
                self.decided(refusal, record)
                    .unwrap_or_else(|| match refusal {
                        Refusal::InProgress => Err(self.unless_it_may_land(decide::in_progress())),
                        _ => lease_lost("another attempt has taken the key over"),
                    })
            }
            Seen::Unreadable(problem) => {
                Err(self.unless_it_may_land(failures::unreadable(&problem)))
            }
            Seen::Nothing => lease_lost("the record is gone"),
        }
    }
}

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
