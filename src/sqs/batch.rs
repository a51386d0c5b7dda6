//! One batch: which messages run side by side, which wait for one another, when to stop.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, SystemTime};

use futures_util::StreamExt as _;

use super::event::{ReadRecord, Records};
use crate::engine::{Times, left};

/// After this many messages in a row that could not use the store, no more are started.
const STORE_FAILURES: u32 = 3;

/// A message that has its turn, or the reason why it gets none.
pub(super) enum Turn {
    Run,
    /// A message before it in its group is not done.
    GroupStopped,
}

/// What the order of a batch needs to know of a message that has ended.
#[derive(Clone, Copy)]
pub(super) struct Ending {
    pub(super) is_acknowledged: bool,
}

/// Calls `message` for every record, as the queue's kind demands.
///
/// Of a standard queue up to `concurrency` messages run at once. Of a FIFO queue the groups do,
/// each in order, and a group stops at its first message that is not acknowledged; behind a record
/// whose group can't be read everything stops, because it may belong to any of them.
pub(super) async fn run<Fut>(
    records: Records,
    concurrency: usize,
    message: impl Fn(ReadRecord, Turn) -> Fut,
) where
    Fut: Future<Output = Ending>,
{
    let records = match records {
        Records::Fifo(records) => records,
        Records::Standard(records) => {
            futures_util::stream::iter(records)
                .for_each_concurrent(concurrency, |record| async {
                    message(record, Turn::Run).await;
                })
                .await;
            return;
        }
    };
    let (groups, behind) = by_group(records);
    futures_util::stream::iter(groups)
        .for_each_concurrent(concurrency, |group| async {
            let mut goes_on = true;
            for record in group {
                let turn = if goes_on {
                    Turn::Run
                } else {
                    Turn::GroupStopped
                };
                let ending = message(record, turn).await;
                goes_on &= ending.is_acknowledged;
            }
        })
        .await;
    let mut behind = behind.into_iter();
    if let Some(without_group) = behind.next() {
        message(without_group, Turn::Run).await;
    }
    for record in behind {
        message(record, Turn::GroupStopped).await;
    }
}

/// The groups in order of their first message; and the first record without a readable group, with
/// everything after it.
fn by_group(records: Vec<ReadRecord>) -> (Vec<Vec<ReadRecord>>, Vec<ReadRecord>) {
    let mut groups: Vec<Vec<ReadRecord>> = Vec::new();
    let mut position: HashMap<String, usize> = HashMap::new();
    let mut records = records.into_iter();
    while let Some(mut record) = records.next() {
        let group = record.delivery.group_id().filter(|group| !group.is_empty());
        let Some(group) = group.map(str::to_owned) else {
            record.problem.get_or_insert_with(|| {
                crate::error::Error::new(
                    crate::error::ErrorKind::Decode,
                    "the record of a FIFO queue has no readable `MessageGroupId`, so its place in \
                     the order is not known",
                )
            });
            return (groups, std::iter::once(record).chain(records).collect());
        };
        let at = *position.entry(group).or_insert_with(|| {
            groups.push(Vec::new());
            groups.len() - 1
        });
        if let Some(group) = groups.get_mut(at) {
            group.push(record);
        }
    }
    (groups, Vec::new())
}

/// Lets one message of a key run at a time within a batch, so that the second finds the first's
/// record completed. Only a saving: between invocations the record itself decides.
#[derive(Default)]
pub(super) struct KeyTurns {
    turns: Mutex<HashMap<Arc<str>, Arc<tokio::sync::Mutex<()>>>>,
}

/// Held while a message of the key is under way.
pub(super) struct KeyTurn<'t> {
    turns: &'t KeyTurns,
    record_id: Arc<str>,
    _turn: tokio::sync::OwnedMutexGuard<()>,
}

impl KeyTurns {
    pub(super) async fn take(&self, record_id: &Arc<str>) -> KeyTurn<'_> {
        let turn = {
            let mut turns = self.turns.lock().unwrap_or_else(PoisonError::into_inner);
            Arc::clone(turns.entry(Arc::clone(record_id)).or_default())
        };
        KeyTurn {
            turns: self,
            record_id: Arc::clone(record_id),
            _turn: turn.lock_owned().await,
        }
    }
}

impl Drop for KeyTurn<'_> {
    /// Forgets a key that nobody waits for, so that a large batch does not gather them all.
    fn drop(&mut self) {
        let turns = &self.turns.turns;
        let mut turns = turns.lock().unwrap_or_else(PoisonError::into_inner);
        // The map's own and this turn's.
        if let Entry::Occupied(turn) = turns.entry(Arc::clone(&self.record_id))
            && Arc::strong_count(turn.get()) <= 2
        {
            turn.remove();
        }
    }
}

/// Whether another message may be started.
pub(super) struct Gate {
    times: Times,
    store_failures: AtomicU32,
    finished: AtomicU32,
    finished_micros: AtomicU64,
}

/// Why no more messages are started.
pub(super) enum Closed {
    TimeIsUp,
    StoreIsDown,
}

impl Gate {
    pub(super) fn new(times: Times) -> Self {
        Self {
            times,
            store_failures: AtomicU32::new(0),
            finished: AtomicU32::new(0),
            finished_micros: AtomicU64::new(0),
        }
    }

    /// Whether a message may start now: the store answers, and there is as much time left as the
    /// messages of this batch take on average.
    pub(super) fn check(&self, now: SystemTime) -> Result<(), Closed> {
        if self.store_failures.load(Ordering::Relaxed) >= STORE_FAILURES {
            return Err(Closed::StoreIsDown);
        }
        let finished = self.finished.load(Ordering::Relaxed);
        let total = Duration::from_micros(self.finished_micros.load(Ordering::Relaxed));
        let usual = total.checked_div(finished).unwrap_or_default();
        let left = left(self.times.stop_at, now);
        if left.is_zero() || left < usual {
            return Err(Closed::TimeIsUp);
        }
        Ok(())
    }

    /// Whether there is no time for anything any more.
    pub(super) fn time_is_up(&self, now: SystemTime) -> bool {
        left(self.times.stop_at, now).is_zero()
    }

    /// A message that used the store has ended.
    pub(super) fn ended(&self, store_down: bool, took: Duration) {
        if store_down {
            self.store_failures.fetch_add(1, Ordering::Relaxed);
            return;
        }
        self.store_failures.store(0, Ordering::Relaxed);
        self.finished.fetch_add(1, Ordering::Relaxed);
        let micros = u64::try_from(took.as_micros()).unwrap_or(u64::MAX);
        self.finished_micros.fetch_add(micros, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt as _;

    use super::*;

    #[test]
    fn a_key_is_known_for_as_long_as_somebody_has_or_awaits_its_turn() {
        let turns = KeyTurns::default();
        let known = || turns.turns.lock().unwrap().len();
        let id = Arc::from("k");
        let first = turns.take(&id).now_or_never().unwrap();
        let mut second = Box::pin(turns.take(&id));
        assert!((&mut second).now_or_never().is_none());
        drop(first);
        assert_eq!(known(), 1);
        drop(second.now_or_never().unwrap());
        assert_eq!(known(), 0);
    }
}
