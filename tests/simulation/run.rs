//! One seed from its first event to its last.

use std::sync::{Arc, Mutex};

use crate::conduct::{self, Sender};
use crate::counts::Counts;
use crate::history::worker as named;
use crate::invocation::{Invocation, Step};
use crate::oracle;
use crate::order::text;
use crate::rng::Rng;
use crate::world::{Event, HOUR, MILLI, MINUTE, SECOND, Shared, World, lock};

/// After the last fault, everything is done before this.
const PATIENCE: u64 = 6 * HOUR;
/// No seed takes so many steps, unless something runs in a circle.
const MOST_STEPS: u64 = 2_000_000;

/// What came of a seed.
pub struct Ran {
    pub counts: Counts,
    pub violation: Option<String>,
    pub history: Vec<String>,
}

/// Runs a seed, and keeps its history if that is asked for.
pub fn run(seed: u64, is_recorded: bool) -> Ran {
    let world = World::new(Rng::new(seed), is_recorded);
    let mut simulation = Simulation {
        invocations: (0..world.setup.workers).map(|_| None).collect(),
        shared: Arc::new(Mutex::new(world)),
        started: 0,
    };
    simulation.prepare();
    simulation.go();
    simulation.invocations.clear();
    let mut world = lock(&simulation.shared);
    if world.violation.is_none() {
        oracle::at_the_end(&mut world);
    }
    Ran {
        counts: world.counts.clone(),
        violation: world.violation.take(),
        history: world.take_history(),
    }
}

struct Simulation {
    shared: Shared,
    /// By worker.
    invocations: Vec<Option<Invocation>>,
    started: u64,
}

impl Simulation {
    fn prepare(&mut self) {
        let mut world = lock(&self.shared);
        let setup = world.setup.clone();
        world.note("seed", || format!("{setup:#?}"));
        for message in 0..world.queue.messages.len() {
            let arrives = world.queue.messages[message].arrives;
            world.at(arrives, Event::Arrive(message));
            if world.rng.percent(setup.past) {
                let key = world.queue.messages[message].order.key.clone();
                oracle::had_another_life(&mut world, &key);
            }
        }
        for worker in 0..setup.workers {
            world.at(0, Event::Receive(worker));
        }
        world.at(setup.faults_end, Event::FaultsEnd);
    }

    fn go(&mut self) {
        for _ in 0..MOST_STEPS {
            if lock(&self.shared).violation.is_some() {
                return;
            }
            let ready = |invocation: &&Invocation| invocation.is_ready();
            let workers = self.invocations.iter().flatten();
            let ready: Vec<usize> = workers
                .filter(ready)
                .map(|ready| ready.from.worker)
                .collect();
            if !ready.is_empty() {
                let worker = lock(&self.shared).rng.pick(&ready);
                self.poll(worker);
                continue;
            }
            let next = lock(&self.shared).next();
            match next {
                Some(event) => self.happens(event),
                None => {
                    if let Some(invocation) = self.invocations.iter().flatten().next() {
                        let number = invocation.from.invocation;
                        lock(&self.shared)
                            .violate(|| format!("invocation {number} waits for nothing"));
                    }
                    return;
                }
            }
        }
        lock(&self.shared).violate(|| "it does not come to an end".to_owned());
    }

    fn happens(&mut self, event: Event) {
        let mut world = lock(&self.shared);
        match event {
            Event::Wake(waker) => {
                drop(world);
                waker.wake();
            }
            Event::Land(landing) => landing.happens(&mut world),
            Event::Reply(slot, answer) => {
                drop(world);
                slot.fill(answer);
            }
            Event::Arrive(message) => {
                world.queue.send(message);
                world.counts.add("messages", "sent");
                let message = &world.queue.messages[message];
                let told = format!("{} {}: {:?}", message.id, message.group, message.order);
                world.note("producer", || told);
            }
            Event::Thaw(worker) => {
                world.note(&named(worker), || "goes on".to_owned());
                drop(world);
                if let Some(invocation) = &mut self.invocations[worker] {
                    invocation.stands_still = false;
                }
            }
            Event::Kill { worker, invocation } => {
                drop(world);
                let running = self.invocations[worker].as_ref();
                if running.is_some_and(|running| running.from.invocation == invocation) {
                    self.ends(worker, "is out of time");
                }
            }
            Event::FaultsEnd => {
                world.note("everyone", || "from here on everything works".to_owned());
                world.faults_ended = true;
                let gates = world.tables.gates();
                for gate in ["gate0", "gate1"] {
                    let item = [("id".to_owned(), text(gate))].into();
                    world.memory.put(&gates, item);
                }
            }
            Event::Receive(worker) => {
                drop(world);
                self.receive(worker);
            }
        }
    }

    fn receive(&mut self, worker: usize) {
        let mut guard = lock(&self.shared);
        let world = &mut *guard;
        let is_late = world.now > world.setup.faults_end + PATIENCE;
        if world.queue.is_done() || is_late || self.invocations[worker].is_some() {
            return;
        }
        let in_peace = world.faults_ended;
        let (shortest, longest) = world.setup.visibility;
        let visible_from = world.now
            + if in_peace {
                world.setup.timeout + SECOND
            } else {
                world.rng.between(shortest, longest)
            };
        let most = world.rng.between(1, world.setup.batch_size as u64);
        let most = usize::try_from(most).unwrap();
        let (now, rng) = (world.now, &mut world.rng);
        let deliveries = world.queue.receive(now, most, visible_from, rng, !in_peace);
        if deliveries.is_empty() {
            let wait = world
                .rng
                .between(SECOND / 5, if in_peace { MINUTE } else { 5 * SECOND });
            world.in_time(wait, Event::Receive(worker));
            return;
        }
        let number = deliveries.len() as u64;
        world.counts.add_many("messages", "deliveries", number);
        world.counts.add("messages", "invocations");
        self.started += 1;
        let number = self.started;
        let kill = Event::Kill {
            worker,
            invocation: number,
        };
        // An environment that stands still is not always ended.
        if in_peace || world.rng.percent(50) {
            world.in_time(world.setup.timeout + MILLI, kill);
        } else {
            world.in_time(world.setup.timeout + HOUR, kill);
        }
        let from = Sender {
            worker,
            invocation: number,
        };
        drop(guard);
        self.invocations[worker] = Some(Invocation::start(&self.shared, from, deliveries));
    }

    fn poll(&mut self, worker: usize) {
        let Some(invocation) = &mut self.invocations[worker] else {
            return;
        };
        match invocation.poll(&self.shared) {
            Step::Goes => {}
            Step::StandsStill(until) => {
                invocation.stands_still = true;
                invocation.was_stalled = true;
                let mut world = lock(&self.shared);
                conduct::stalled(&mut world, invocation.from.invocation);
                world.counts.add("interruptions", "stands still");
                world.note(&named(worker), || {
                    format!("stands still until {}", until / SECOND)
                });
                world.at(until, Event::Thaw(worker));
            }
            Step::Cancelled => self.ends(worker, "is cancelled"),
            Step::Panicked => {
                lock(&self.shared).violate(|| "the library panicked".to_owned());
            }
            Step::Responded(response) => {
                let mut world = lock(&self.shared);
                let failures = invocation.check(&mut world, &response);
                world.note(&named(worker), || {
                    format!("responds, failed are {failures:?}")
                });
                let now = world.now;
                for delivery in &invocation.deliveries {
                    if !failures.contains(&delivery.id) {
                        world.queue.delete(delivery, now);
                    } else if oracle::contradicts(
                        &world,
                        &world.queue.messages[delivery.message].order,
                    ) {
                        // It can't succeed any more, and has come to its last receive.
                        world.queue.bury(delivery.message);
                    } else if world.rng.percent(30) {
                        world.queue.give_back(delivery, now);
                    }
                }
                drop(world);
                self.ended(worker);
            }
        }
    }

    /// An invocation ends without a response.
    fn ends(&mut self, worker: usize, how: &'static str) {
        let mut world = lock(&self.shared);
        world.counts.add("interruptions", how);
        world.note(&named(worker), || how.to_owned());
        drop(world);
        self.ended(worker);
    }

    fn ended(&mut self, worker: usize) {
        // Its destructors look at the world.
        self.invocations[worker] = None;
        let mut world = lock(&self.shared);
        let pause = world.rng.between(MILLI, SECOND);
        world.in_time(pause, Event::Receive(worker));
    }
}
