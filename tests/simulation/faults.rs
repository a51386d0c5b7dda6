//! What goes wrong with a request, by chance.

use lambda_idempotency::store::Failure;

use crate::memory::Request;
use crate::world::{MILLI, MINUTE, SECOND, World};

/// What happens to one request.
pub struct Plan {
    /// What goes wrong, if anything does.
    pub fault: Option<&'static str>,
    /// When it reaches the store, each time.
    pub landings: Vec<u64>,
    pub outcome: Outcome,
    /// A refusal does not show the record.
    pub hides_record: bool,
}

/// What the worker is told.
#[derive(Clone, Copy)]
pub enum Outcome {
    /// What came of the first landing.
    OfFirst,
    /// What came of the last one.
    OfLast,
    /// That it failed.
    Failed { failure: Failure, after: u64 },
    /// Nothing.
    Silence,
}

pub fn latency(world: &mut World) -> u64 {
    world.rng.between(MILLI, 20 * MILLI)
}

/// The faults of an outage: nothing lands.
pub const OUTAGES: [u64; 5] = [0, 1, 5, 6, 7];

/// A time after which nobody waits any more; half of them are longer than a client token lives.
fn late(world: &mut World) -> u64 {
    let longest = world
        .rng
        .pick(&[SECOND, 30 * SECOND, 5 * MINUTE, 20 * MINUTE]);
    world.rng.between(MILLI, longest)
}

pub fn plan(world: &mut World, request: &Request) -> Plan {
    let there = latency(world);
    let mut plan = Plan {
        fault: None,
        landings: vec![there],
        outcome: Outcome::OfFirst,
        hides_record: false,
    };
    if world.faults_ended {
        return plan;
    }
    let now = world.now;
    let mut outages = world.setup.outages.iter();
    let outage = outages.find(|outage| outage.time.contains(&now));
    let outage = outage.map(|outage| outage.fault);
    if outage.is_none() && !world.rng.percent(world.setup.request_faults) {
        return plan;
    }
    let back = there + latency(world);
    let failed = |failure| Outcome::Failed {
        failure,
        after: back,
    };
    // Answers with a code speak for the SDK's last try; an earlier one may have landed.
    let coded = world
        .rng
        .pick(&[Failure::Conflict, Failure::Throttled, Failure::Rejected]);
    let fault = outage.unwrap_or_else(|| world.rng.below(14));
    plan.fault = Some(match fault {
        0 => {
            plan.landings.clear();
            plan.outcome = failed(Failure::Unknown);
            "not sent, and not known"
        }
        1 => {
            plan.landings.clear();
            plan.outcome = Outcome::Silence;
            "not sent, and silence"
        }
        2 => {
            plan.outcome = failed(Failure::Unknown);
            "reply lost"
        }
        3 => {
            plan.outcome = Outcome::Silence;
            "landed, and silence"
        }
        4 => {
            plan.landings = vec![late(world)];
            plan.outcome = failed(Failure::Unknown);
            "lands late"
        }
        5 => {
            plan.landings.clear();
            plan.outcome = failed(Failure::Conflict);
            "conflict"
        }
        6 => {
            plan.landings.clear();
            plan.outcome = failed(Failure::Throttled);
            "throttled"
        }
        7 => {
            plan.landings.clear();
            plan.outcome = failed(Failure::Rejected);
            "rejected"
        }
        8 => {
            plan.outcome = failed(coded);
            "landed, then refused with a code"
        }
        9 => {
            plan.landings = vec![late(world)];
            plan.outcome = failed(coded);
            "refused with a code, then lands"
        }
        10 => {
            plan.landings.push(late(world));
            "late copy"
        }
        11 => {
            plan.landings.push(there + latency(world));
            plan.outcome = Outcome::OfLast;
            "sent twice at once"
        }
        12 => {
            let slow = world.rng.pick(&[SECOND, 5 * SECOND, 60 * SECOND]);
            plan.landings = vec![world.rng.between(MILLI, slow)];
            "slow"
        }
        _ if world.rng.percent(50) && !matches!(request, Request::Read(_)) => {
            plan.hides_record = true;
            "refusal without the record"
        }
        _ => {
            plan.outcome = failed(Failure::Unclassified);
            "unclassified"
        }
    });
    if let Some(fault) = plan.fault {
        world.counts.add("faults of requests", fault);
    }
    plan
}
