//! One request at a time, bounded by the time that is left.

use std::sync::atomic::Ordering;
use std::time::{Duration, SystemTime};

use futures_util::future::{BoxFuture, Either, select};

use super::run::Run;
use super::times::{Backoff, left};
use crate::clock::Clock;
use crate::store::{ErasedStore, Failure, Seen, StoreError};

pub(super) const NO_ANSWER: &str = "no answer came in the time left";

/// A request was sent, and the time ended before its answer came.
pub(super) struct NoAnswer;

impl Run<'_> {
    /// Reads the record with strong consistency, until it is known or the time is up.
    pub(super) async fn read(&self, until: SystemTime) -> Result<Seen, StoreError> {
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
    pub(super) async fn call<T>(
        &self,
        until: SystemTime,
        request: BoxFuture<'_, T>,
    ) -> Option<Result<T, NoAnswer>> {
        if left(until, self.now()).is_zero() {
            return None;
        }
        self.requests.fetch_add(1, Ordering::Relaxed);
        self.within_time(until, request).await
    }

    /// Waits for an answer for as long as there is time; `None` if there is none.
    pub(super) async fn within_time<T>(
        &self,
        until: SystemTime,
        answer: BoxFuture<'_, T>,
    ) -> Option<Result<T, NoAnswer>> {
        let time = left(until, self.now());
        if time.is_zero() {
            return None;
        }
        Some(match select(answer, self.clock().sleep(time)).await {
            Either::Left((answer, _)) => Ok(answer),
            Either::Right(((), _)) => Err(NoAnswer),
        })
    }

    /// Backs off; `false` if the time does not allow another try.
    pub(super) async fn pause(&self, backoff: &mut Backoff, until: SystemTime) -> bool {
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
    pub(super) fn within(&self, time: Duration, end: SystemTime) -> SystemTime {
        self.now()
            .checked_add(time)
            .map_or(end, |then| then.min(end))
    }

    pub(super) fn store(&self) -> &dyn ErasedStore {
        self.engine.store.as_ref()
    }

    pub(super) fn clock(&self) -> &dyn Clock {
        self.engine.clock.as_ref()
    }

    pub(super) fn now(&self) -> SystemTime {
        self.clock().now()
    }
}
