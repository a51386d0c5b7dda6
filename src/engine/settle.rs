//! After a failure: gives the key back, and finds out whether the work was committed after all.

use std::error::Error as StdError;
use std::sync::atomic::Ordering;
use std::time::{Duration, SystemTime};

use super::requests::NoAnswer;
use super::run::{Guard, Run};
use super::times::{Backoff, left};
use super::{Finish, decide};
use crate::error::{Error, ErrorKind};
use crate::record::{Moment, Record, Status};
use crate::store::{Failure, Refusal, ReleaseAnswer, ReleaseRequest, Seen};

/// How long to try at least to settle what the next delivery settles too.
pub(super) const BRIEFLY: Duration = Duration::from_secs(1);

impl Run<'_> {
    /// Settles a commit that was tried until `until`.
    pub(super) async fn settle_commit(
        &self,
        error: Error,
        until: SystemTime,
    ) -> Result<Finish, Error> {
        let patience = match self.guard {
            // One time for both: no key is held, and an outage should not cost it twice.
            Guard::AtCommit { .. } => left(until, self.now()).max(BRIEFLY),
            Guard::ClaimFirst | Guard::None => self.engine.retry_for,
        };
        self.settle(error, patience).await
    }

    /// Gives the key back after a failure, and finds out whether the work was committed after all.
    ///
    /// `error` stands unless the record turns out to be completed.
    pub(super) async fn settle(&self, error: Error, patience: Duration) -> Result<Finish, Error> {
        match self.guard {
            Guard::ClaimFirst => self.release(error, patience).await,
            Guard::AtCommit { .. } if self.commit_was_sent.load(Ordering::Relaxed) => {
                self.find_out(error, patience).await
            }
            // Nothing was sent, or nothing remembers what was.
            Guard::AtCommit { .. } | Guard::None => Err(self.unless_it_may_land(error)),
        }
    }

    /// Without a claim there is nothing to give back: the record says whether the commit landed.
    ///
    /// It does not say that it won't: nothing keeps a late copy from landing, as a release does.
    async fn find_out(&self, error: Error, patience: Duration) -> Result<Finish, Error> {
        let until = self.within(patience, self.times.stop_at);
        match self.read(until).await {
            Ok(Seen::Record(record)) if !self.is_past(&record) => {
                let refusal = self.completion(None).refused_by(&record);
                self.decided(refusal, record)
                    .unwrap_or_else(|| Err(self.unless_it_may_land(error)))
            }
            Ok(_) => Err(self.unless_it_may_land(error)),
            Err(_) => {
                // Neither the commit nor this: it is not one message's table or condition.
                self.store_was_down.store(true, Ordering::Relaxed);
                Err(self.unless_it_may_land(error))
            }
        }
    }

    async fn release(&self, error: Error, patience: Duration) -> Result<Finish, Error> {
        let request = ReleaseRequest {
            record_id: self.record_id.to_string(),
            token: self.token.clone(),
            fingerprint: self.fingerprint.clone(),
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
                        Ok(Seen::Record(record)) if self.is_past(&record) => return Err(error),
                        Ok(Seen::Record(record)) => {
                            let refusal = request.refused_by(&record);
                            return decide::finished(refusal, record).unwrap_or(Err(error));
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
        if commit_was_sent {
            return Err(self.unless_known(error));
        }
        Err(error)
    }

    /// A claim could replace the record of another attempt: its retention has ended and the table has
    /// not deleted it yet, or its lease has. It says nothing of this message then.
    fn is_past(&self, record: &Record) -> bool {
        !record.is_held_by(&self.token) && record.is_free(Moment::at(self.now()))
    }

    /// What a record says of a commit that it refused; `None` if it is not completed.
    pub(super) fn decided(
        &self,
        refusal: Refusal,
        record: Record,
    ) -> Option<Result<Finish, Error>> {
        let is_completed = record.status == Status::Completed;
        let decided = decide::finished(refusal, record)?;
        // A key that is only held may be given back, and then a copy of the commit lands.
        Some(decided.map_err(|error| match is_completed {
            true => error,
            false => self.unless_it_may_land(error),
        }))
    }

    /// Nothing is settled. Whatever the last answer to the commit was, an earlier try, of ours or of
    /// the SDK, may have landed.
    fn unless_known(&self, error: Error) -> Error {
        if error.kind() == ErrorKind::Unknown {
            error
        } else {
            self.not_known(error)
        }
    }

    /// The record is not completed. What was refused at last may land by an earlier try, unless it
    /// needs a claim that is gone.
    pub(super) fn unless_it_may_land(&self, error: Error) -> Error {
        let needs_a_claim = self.guard == Guard::ClaimFirst;
        if !needs_a_claim && self.commit_may_land.load(Ordering::Relaxed) {
            self.unless_known(error)
        } else {
            error
        }
    }

    pub(super) fn not_known(&self, error: impl Into<Box<dyn StdError + Send + Sync>>) -> Error {
        let what = if self.guard != Guard::None {
            "it is not known whether the commit was applied; the next delivery, or a call with the \
             same key, finds out"
        } else {
            "it is not known whether the writes were applied; without a key nothing remembers them, \
             and the next delivery writes again"
        };
        Error::new(ErrorKind::Unknown, what).with_source(error)
    }
}
