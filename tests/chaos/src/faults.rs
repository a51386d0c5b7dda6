//! Which faults are to happen, and when: by the seed, as far as processes allow.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use fastrand::Rng;

use crate::timing::{LATEST, LONGEST_OUTAGE, PAST_TAKEOVER, SHORTEST_OUTAGE};

/// Hit at most so many of a hundred invocations: messages have to get through some time.
const MOST: f64 = 45.0;
/// And at least so many, also when enough has been done.
const FEWEST: f64 = 2.0;
/// Of a hundred faults that are planned about so many happen: the others wait for a request that is
/// never sent, or for a moment after the end.
const HAPPEN: f64 = 85.0;
/// So many messages an invocation is done with on average; some come back.
const MEAN_DONE: f64 = 3.5;

/// Of a hundred invocations, how many have a bad network, and how many have none for a while.
const BAD_NETWORKS: usize = 10;
const OUTAGES: usize = 8;
/// How many of a hundred requests are cut: usually, and on a bad network.
const CUTS: [usize; 2] = [2, 40];

/// What is done to a worker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Act {
    /// SIGKILL.
    Kill,
    /// SIGSTOP; and SIGCONT when others have taken over.
    Stall,
}

/// When it is done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum When {
    /// When the worker has sent this request to the store. The store gets it, in time or late.
    Sent { request: usize, late: bool },
    /// When the store has done what this request asks for, and its answer is not passed on yet.
    Applied { request: usize },
    /// So long after the answer to this request was passed on.
    Answered { request: usize, after: Duration },
    /// So long after the invocation began.
    Moment(Duration),
    /// When everything is done, and nobody has heard of it.
    Response,
}

/// What is to happen to one invocation.
#[derive(Clone, Debug)]
pub(crate) struct Plan {
    pub(crate) fault: Option<(Act, When)>,
    /// How many of a hundred requests are cut.
    pub(crate) cuts: usize,
    pub(crate) outage: Option<Outage>,
}

/// For a while every connection is cut: an attempt can end without knowing what it has done, or find
/// out in the time that it keeps for that.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Outage {
    /// It begins with this request of the invocation.
    pub(crate) from: usize,
    pub(crate) lasts: Duration,
    pub(crate) cut: Cut,
}

/// What becomes of a request to the store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Cut {
    /// The connection is cut, and the store gets nothing.
    Before,
    /// The store does what is asked for, and the connection is cut instead of an answer.
    After,
    /// The connection is cut, and the store gets the request so much later.
    Late(Duration),
}

/// Plans faults until there were enough of each kind.
pub(crate) struct Faults {
    rng: Mutex<Rng>,
    wanted: [usize; 2],
    happened: [AtomicUsize; 2],
    most_stalled: usize,
    stalled: AtomicUsize,
    are_over: AtomicBool,
}

impl Faults {
    pub(crate) fn new(rng: Rng, kills: usize, stalls: usize, workers: usize) -> Self {
        Self {
            rng: Mutex::new(rng),
            wanted: [kills, stalls],
            happened: Default::default(),
            // Somebody has to take over.
            most_stalled: workers / 2,
            stalled: AtomicUsize::new(0),
            are_over: AtomicBool::new(false),
        }
    }

    /// Plans the faults of an invocation: the fewer messages are still waiting and the more faults
    /// are missing, the likelier is one. `usual` is how long invocations take.
    pub(crate) fn plan(&self, batch: usize, waiting: usize, usual: Duration) -> Plan {
        let mut rng = self.rng();
        if self.are_over.load(Ordering::Relaxed) {
            return Plan {
                fault: None,
                cuts: 0,
                outage: None,
            };
        }
        let missing = [Act::Kill, Act::Stall].map(|act| self.missing(act));
        let invocations = (waiting as f64 / MEAN_DONE).max(1.0);
        let happening = (missing[0] + missing[1]) as f64 / invocations * 100.0;
        let percent = (happening * 100.0 / HAPPEN).clamp(FEWEST, MOST);
        let fault = (rng.f64() * 100.0 < percent).then(|| {
            let stall = rng.usize(..(missing[0] + missing[1]).max(1)) < missing[1]
                && self.stalled.load(Ordering::Relaxed) < self.most_stalled;
            let act = if stall { Act::Stall } else { Act::Kill };
            (act, when(&mut rng, act, batch, usual))
        });
        let is_bad = rng.usize(..100) < BAD_NETWORKS;
        let outage = (rng.usize(..100) < OUTAGES).then(|| Outage {
            from: rng.usize(1..=2 * batch),
            lasts: between(&mut rng, SHORTEST_OUTAGE, LONGEST_OUTAGE),
            cut: if rng.bool() { Cut::Before } else { Cut::After },
        });
        Plan {
            fault,
            cuts: CUTS[usize::from(is_bad)],
            outage,
        }
    }

    /// What becomes of a request, where so many of a hundred are cut.
    pub(crate) fn cut(&self, cuts: usize) -> Option<Cut> {
        let mut rng = self.rng();
        (rng.usize(..100) < cuts).then(|| match rng.usize(..3) {
            0 => Cut::Before,
            1 => Cut::After,
            _ => Cut::Late(between(&mut rng, Duration::ZERO, LATEST)),
        })
    }

    /// How long a request is held that is to arrive when another worker has taken over.
    pub(crate) fn past_takeover(&self) -> Duration {
        between(&mut self.rng(), PAST_TAKEOVER, LATEST)
    }

    /// How long the network takes.
    pub(crate) fn latency(&self) -> Duration {
        between(&mut self.rng(), Duration::ZERO, Duration::from_millis(3))
    }

    pub(crate) fn batch_size(&self) -> usize {
        self.rng().usize(1..=10)
    }

    pub(crate) fn has_happened(&self, act: Act) {
        self.happened[act as usize].fetch_add(1, Ordering::Relaxed);
        if act == Act::Stall {
            self.stalled.fetch_add(1, Ordering::Relaxed);
        }
    }

    pub(crate) fn stall_has_ended(&self) {
        self.stalled.fetch_sub(1, Ordering::Relaxed);
    }

    pub(crate) fn count(&self, act: Act) -> usize {
        self.happened[act as usize].load(Ordering::Relaxed)
    }

    pub(crate) fn are_enough(&self) -> bool {
        self.missing(Act::Kill) + self.missing(Act::Stall) == 0
    }

    /// From now on nothing goes wrong.
    pub(crate) fn end(&self) {
        self.are_over.store(true, Ordering::Relaxed);
    }

    fn missing(&self, act: Act) -> usize {
        self.wanted[act as usize].saturating_sub(self.count(act))
    }

    fn rng(&self) -> std::sync::MutexGuard<'_, Rng> {
        self.rng.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A message takes two requests, a claim and a commit; counting them hits every step of the protocol
/// on a machine of any speed.
fn when(rng: &mut Rng, act: Act, batch: usize, usual: Duration) -> When {
    let request = rng.usize(1..=2 * batch);
    match rng.usize(..10) {
        0 | 1 => When::Sent {
            request,
            late: false,
        },
        2 | 3 => When::Sent {
            request,
            late: true,
        },
        4 | 5 => When::Applied { request },
        6 => When::Answered {
            request,
            after: between(rng, Duration::ZERO, Duration::from_millis(3)),
        },
        7 if act == Act::Kill => When::Response,
        _ => When::Moment(between(rng, Duration::ZERO, usual)),
    }
}

fn between(rng: &mut Rng, least: Duration, most: Duration) -> Duration {
    least + (most - least).mul_f64(rng.f64())
}
