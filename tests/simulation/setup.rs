//! What a seed sets up: how many workers and messages, which options, which faults how often.

use std::ops::Range;

use lambda_idempotency::Claim;

use crate::faults::OUTAGES;
use crate::rng::Rng;
use crate::world::{MILLI, MINUTE, SECOND};

/// Which claim modes the invocations use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Modes {
    First,
    AtCommit,
    /// With `group_commits`.
    Grouped,
    /// Each invocation one of the first two, on the same keys.
    Mixed,
    /// Each invocation one of all three.
    MixedWithGroups,
}

/// How one invocation takes its keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    First,
    AtCommit,
    Grouped,
}

impl Mode {
    pub fn claim(self) -> Claim {
        match self {
            // Grouping brings its own.
            Self::First | Self::Grouped => Claim::First,
            Self::AtCommit => Claim::AtCommit,
        }
    }
}

#[derive(Clone, Debug)]
pub struct Outage {
    pub time: Range<u64>,
    /// The number of the fault that every request meets.
    pub fault: u64,
}

#[derive(Clone, Debug)]
pub struct Setup {
    pub workers: usize,
    pub modes: Modes,
    /// How long a commit waits for others, where they go in groups.
    pub linger: u64,
    pub concurrency: usize,
    pub batch_size: usize,
    /// Of an invocation.
    pub timeout: u64,
    pub lease_at_least: u64,
    pub retry_for: u64,
    pub stores_results: bool,
    pub fingerprints: bool,
    /// The key attributes of all tables are declared, or of the entries' only: then a put on
    /// another one can't be grouped.
    pub all_keys_known: bool,
    /// How many completed keys an invocation remembers.
    pub remembered: usize,
    /// How far off each worker's clock is, in microseconds; all zero if the clocks are equal.
    pub skews: Vec<i64>,
    /// Deadlines are told by the true clock, and not by the worker's.
    pub true_deadlines: bool,
    pub visibility: (u64, u64),

    pub is_fifo: bool,
    pub groups: u64,
    pub messages: u64,
    /// How many accounts, seats and profiles they are about.
    pub items: u64,
    /// In percent of the messages: a producer sends one again, or another payload under its key.
    pub repeated: u64,
    pub reused: u64,
    /// In percent of the messages: their key has a record of an earlier life, past its retention, that
    /// the table has not deleted.
    pub past: u64,

    /// When the faults end.
    pub faults_end: u64,
    /// In percent of the requests.
    pub request_faults: u64,
    /// In percent of the claims: another process takes the key at once. Only with clocks that differ.
    pub rivals: u64,
    /// While these last, every request fails.
    pub outages: Vec<Outage>,
    /// In percent of the runs of the handler.
    pub handler_faults: u64,
    /// In percent of the invocations.
    pub cancelled: u64,
    pub stalled: u64,
}

impl Setup {
    pub fn by(rng: &mut Rng) -> Self {
        let workers = rng.between(2, 4);
        let fingerprints = rng.percent(50);
        let timeout = rng.pick(&[2, 6, 6, 30, 30, 60, 900]) * SECOND;
        let faults_end = rng.between(1, 10) * MINUTE;
        let skew = rng.percent(50);
        let skews = (0..workers).map(|_| match skew {
            true => i64::try_from(rng.below(20 * MINUTE)).unwrap() - 600_000_000,
            false => 0,
        });
        let skews = skews.collect();
        let outages = (0..rng.pick(&[0, 0, 1, 2]))
            .map(|_| {
                let start = rng.below(faults_end);
                Outage {
                    time: start..start + rng.between(SECOND, MINUTE),
                    fault: rng.pick(&OUTAGES),
                }
            })
            .collect();
        let modes = rng.pick(&[
            Modes::First,
            Modes::First,
            Modes::AtCommit,
            Modes::Grouped,
            Modes::Grouped,
            Modes::Mixed,
            Modes::Mixed,
            Modes::MixedWithGroups,
            Modes::MixedWithGroups,
        ]);
        // Enough at once that several are ready together.
        let scale = if may_group(modes) { 3 } else { 1 };
        Self {
            workers: usize::try_from(workers).unwrap(),
            modes,
            linger: rng.pick(&[20, 20, 200]) * MILLI,
            concurrency: usize::try_from(rng.between(scale, 10)).unwrap(),
            batch_size: usize::try_from(rng.between(scale, 10)).unwrap(),
            timeout,
            lease_at_least: rng.pick(&[0, 0, 0, 90]) * SECOND,
            retry_for: rng.pick(&[20, 20, 2]) * SECOND,
            stores_results: rng.percent(70),
            fingerprints,
            all_keys_known: rng.percent(70),
            remembered: rng.pick(&[0, 0, 1, 20]),
            skews,
            true_deadlines: rng.percent(30),
            visibility: match rng.percent(50) {
                true => (SECOND, timeout.max(2 * SECOND)),
                false => (timeout, timeout + 5 * timeout.min(MINUTE)),
            },
            is_fifo: rng.percent(40),
            groups: rng.between(1, 4 * scale),
            messages: rng.between(4 * scale, 24 * scale),
            items: rng.pick(&[2, 2, 10]),
            repeated: rng.pick(&[0, 10, 30]),
            reused: if fingerprints {
                rng.pick(&[0, 10, 30])
            } else {
                0
            },
            past: rng.pick(&[0, 0, 30]),
            faults_end,
            rivals: if skew { rng.pick(&[0, 10, 40]) } else { 0 },
            request_faults: rng.pick(&[0, 5, 20, 20, 50]),
            outages,
            handler_faults: rng.pick(&[0, 10, 40]),
            cancelled: rng.pick(&[0, 10, 40]),
            stalled: rng.pick(&[0, 10, 40]),
        }
    }

    pub fn mode(&self, rng: &mut Rng) -> Mode {
        match self.modes {
            Modes::First => Mode::First,
            Modes::AtCommit => Mode::AtCommit,
            Modes::Grouped => Mode::Grouped,
            Modes::Mixed => rng.pick(&[Mode::First, Mode::AtCommit]),
            Modes::MixedWithGroups => rng.pick(&[Mode::First, Mode::AtCommit, Mode::Grouped]),
        }
    }

    /// Whether invocations may send the commits of several messages together.
    pub fn may_group(&self) -> bool {
        may_group(self.modes)
    }

    pub fn clocks_are_equal(&self) -> bool {
        self.skews.iter().all(|skew| *skew == 0)
    }
}

fn may_group(modes: Modes) -> bool {
    matches!(modes, Modes::Grouped | Modes::MixedWithGroups)
}
