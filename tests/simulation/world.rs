//! What everything shares: the time and what is to happen in it, chance, the store, the queue, the
//! oracle, the history. One thread holds it at a time, and never while it polls or drops a future.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, MutexGuard};
use std::task::Waker;
use std::time::Duration;

use crate::conduct::Conduct;
use crate::counts::Counts;
use crate::memory::{Answer, Memory};
use crate::oracle::Oracle;
use crate::order::Tables;
use crate::queue::Queue;
use crate::rng::Rng;
use crate::setup::Setup;
use crate::wire::{Landing, Slot};

pub const MILLI: u64 = 1_000;
pub const SECOND: u64 = 1_000 * MILLI;
pub const MINUTE: u64 = 60 * SECOND;
pub const HOUR: u64 = 60 * MINUTE;

/// What happens at a time.
pub enum Event {
    /// A sleep ends.
    Wake(Waker),
    /// A request reaches the store.
    Land(Landing),
    /// An answer reaches a worker.
    Reply(Slot, Answer),
    /// The producer sends a message.
    Arrive(usize),
    /// A worker asks the queue for messages.
    Receive(usize),
    /// A worker that stood still goes on.
    Thaw(usize),
    /// The time of an invocation is over.
    Kill { worker: usize, invocation: u64 },
    /// From here on everything works.
    FaultsEnd,
}

pub type Key = (u64, u64);

pub struct World {
    /// Microseconds of the true time.
    pub now: u64,
    events: BTreeMap<Key, Event>,
    next_event: u64,
    pub rng: Rng,
    pub setup: Setup,
    pub faults_ended: bool,
    pub memory: Memory,
    pub tables: Tables,
    pub queue: Queue,
    pub oracle: Oracle,
    pub conduct: Conduct,
    pub counts: Counts,
    /// What was found wrong, first of all.
    pub violation: Option<String>,
    /// A worker whose handler keeps its thread, and until when.
    pub stall: Option<u64>,
    history: Option<Vec<String>>,
    names: HashMap<String, String>,
}

pub type Shared = Arc<Mutex<World>>;

pub fn lock(shared: &Shared) -> MutexGuard<'_, World> {
    shared.lock().unwrap()
}

impl World {
    pub fn new(mut rng: Rng, is_recorded: bool) -> Self {
        let setup = Setup::by(&mut rng);
        let queue = Queue::by(&setup, &mut rng);
        Self {
            now: 0,
            events: BTreeMap::new(),
            next_event: 0,
            rng,
            setup,
            faults_ended: false,
            memory: Memory::default(),
            tables: Tables::new(""),
            queue,
            oracle: Oracle::default(),
            conduct: Conduct::default(),
            counts: Counts::default(),
            violation: None,
            stall: None,
            history: is_recorded.then(Vec::new),
            names: HashMap::new(),
        }
    }

    pub fn at(&mut self, time: u64, event: Event) -> Key {
        let key = (time.max(self.now), self.next_event);
        self.next_event += 1;
        self.events.insert(key, event);
        key
    }

    pub fn in_time(&mut self, delay: u64, event: Event) -> Key {
        self.at(self.now + delay, event)
    }

    pub fn forget(&mut self, key: Key) {
        self.events.remove(&key);
    }

    pub fn rewake(&mut self, key: Key, waker: &Waker) {
        if let Some(Event::Wake(waiting)) = self.events.get_mut(&key) {
            waiting.clone_from(waker);
        }
    }

    /// Goes to the next event.
    pub fn next(&mut self) -> Option<Event> {
        let ((time, _), event) = self.events.pop_first()?;
        self.now = time;
        Some(event)
    }

    pub fn since_start(&self) -> Duration {
        Duration::from_micros(self.now)
    }

    pub fn violate(&mut self, what: impl FnOnce() -> String) {
        if self.violation.is_none() {
            let what = what();
            self.note("VIOLATION", || what.clone());
            self.violation = Some(what);
        }
    }

    /// A line of the history.
    pub fn note(&mut self, who: &str, what: impl FnOnce() -> String) {
        let Some(history) = &mut self.history else {
            return;
        };
        let (seconds, micros) = (self.now / SECOND, self.now % SECOND);
        history.push(format!("{seconds:>6}.{micros:06}  {who:<10} {}", what()));
    }

    pub fn is_recorded(&self) -> bool {
        self.history.is_some()
    }

    pub fn take_history(&mut self) -> Vec<String> {
        self.history.take().unwrap_or_default()
    }

    /// A name for a token, the same in every run of the seed: tokens are random.
    pub fn name(&mut self, token: &str) -> String {
        let next = self.names.len() + 1;
        let names = &mut self.names;
        let name = names.entry(token.to_owned());
        name.or_insert_with(|| format!("t{next}")).clone()
    }
}
