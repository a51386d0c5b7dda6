//! Keys that this process has just seen completed, so that their duplicates cost no request.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use crate::record::Fingerprint;

/// An entry is not believed for longer, whatever its record says: somebody may have deleted it.
const LONGEST: Duration = Duration::from_secs(5 * 60);

/// A larger result is not kept: its duplicates ask the store.
const LARGEST_RESULT_BYTES: usize = 16 * 1024;

/// Completed keys of one table, up to a number; the oldest make room. A key that is in progress or
/// has failed is never among them.
pub(crate) struct Memory {
    capacity: usize,
    kept: Mutex<Kept>,
}

#[derive(Default)]
struct Kept {
    completed: HashMap<Arc<str>, Completed>,
    /// In the order in which they came, each with the number of its entry. One that has ended or was
    /// replaced stays here until its turn.
    order: VecDeque<(Arc<str>, u64)>,
    remembered: u64,
}

/// What is known of a completed key.
struct Completed {
    fingerprint: Option<Fingerprint>,
    data: Option<String>,
    until: SystemTime,
    number: u64,
}

impl Memory {
    pub(crate) fn new(capacity: usize) -> Self {
        Self {
            capacity,
            kept: Mutex::default(),
        }
    }

    /// The stored result of a duplicate; `None` if the store has to be asked, as it has to for
    /// another payload.
    pub(super) fn recall(
        &self,
        record_id: &str,
        fingerprint: Option<&Fingerprint>,
        now: SystemTime,
    ) -> Option<Option<String>> {
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        let completed = kept.completed.get(record_id)?;
        if completed.until <= now {
            kept.completed.remove(record_id);
            return None;
        }
        (completed.fingerprint.as_ref() == fingerprint).then(|| completed.data.clone())
    }

    /// Keeps a completed key; `expiration` is when its record ends, in seconds since the epoch.
    pub(super) fn remember(
        &self,
        record_id: Arc<str>,
        fingerprint: Option<Fingerprint>,
        data: Option<String>,
        expiration: Option<u64>,
        now: SystemTime,
    ) {
        if data
            .as_ref()
            .is_some_and(|data| data.len() > LARGEST_RESULT_BYTES)
        {
            return;
        }
        let end_of_record =
            expiration.and_then(|end| UNIX_EPOCH.checked_add(Duration::from_secs(end)));
        let longest = now + LONGEST;
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        kept.remembered += 1;
        let number = kept.remembered;
        let completed = Completed {
            fingerprint,
            data,
            until: end_of_record.map_or(longest, |end| end.min(longest)),
            number,
        };
        kept.completed.insert(Arc::clone(&record_id), completed);
        kept.order.push_back((record_id, number));
        while kept.order.len() > self.capacity {
            let Some((oldest, number)) = kept.order.pop_front() else {
                break;
            };
            if kept
                .completed
                .get(&oldest)
                .is_some_and(|entry| entry.number == number)
            {
                kept.completed.remove(&oldest);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: SystemTime = UNIX_EPOCH;

    fn later(seconds: u64) -> SystemTime {
        NOW + Duration::from_secs(seconds)
    }

    fn remember(memory: &Memory, id: &str, expiration: Option<u64>) {
        memory.remember(id.into(), None, Some(id.to_owned()), expiration, NOW);
    }

    fn knows(memory: &Memory, id: &str, at: SystemTime) -> bool {
        match memory.recall(id, None, at) {
            Some(data) => data.as_deref() == Some(id),
            None => false,
        }
    }

    #[test]
    fn an_entry_ends_with_its_record_or_after_five_minutes() {
        let memory = Memory::new(10);
        remember(&memory, "short", Some(60));
        remember(&memory, "long", Some(6_000));
        remember(&memory, "unknown", None);
        remember(&memory, "absurd", Some(u64::MAX));
        for id in ["short", "long", "unknown", "absurd"] {
            assert!(knows(&memory, id, later(59)), "{id}");
        }
        assert!(!knows(&memory, "short", later(60)));
        for id in ["long", "unknown", "absurd"] {
            assert!(knows(&memory, id, later(299)), "{id}");
            assert!(!knows(&memory, id, later(300)), "{id}");
        }
    }

    #[test]
    fn it_keeps_no_more_than_it_may_and_forgets_the_oldest() {
        let memory = Memory::new(2);
        for id in ["a", "b", "c", "b", "d"] {
            remember(&memory, id, None);
        }
        assert!(!knows(&memory, "a", NOW) && !knows(&memory, "c", NOW));
        assert!(knows(&memory, "b", NOW) && knows(&memory, "d", NOW));
        // Entries that ended do not make it grow.
        for n in 3..100 {
            let id = n.to_string();
            memory.remember(id.as_str().into(), None, None, Some(0), NOW);
            assert_eq!(memory.recall(&id, None, NOW), None);
            memory.remember(id.as_str().into(), None, None, Some(0), NOW);
        }
        let kept = memory.kept.lock().unwrap();
        assert!(kept.order.len() <= 2 && kept.completed.len() <= 2);
    }

    #[test]
    fn another_payload_and_a_large_result_ask_the_store() {
        let memory = Memory::new(10);
        let fingerprint = || Some(Fingerprint::new("f"));
        memory.remember("a".into(), fingerprint(), None, None, NOW);
        assert_eq!(memory.recall("a", fingerprint().as_ref(), NOW), Some(None));
        assert_eq!(memory.recall("a", Some(&Fingerprint::new("g")), NOW), None);
        assert_eq!(memory.recall("a", None, NOW), None);
        for (id, bytes, is_kept) in [("b", 16 * 1024, true), ("c", 16 * 1024 + 1, false)] {
            let result = Some("x".repeat(bytes));
            memory.remember(id.into(), None, result.clone(), None, NOW);
            assert_eq!(memory.recall(id, None, NOW), is_kept.then_some(result));
        }
    }
}
