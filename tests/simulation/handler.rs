//! The handler of the orders, and what goes wrong in it.

use lambda_idempotency::{HandlerError, Message};

use crate::clock::sleep;
use crate::conduct::Sender;
use crate::history::worker;
use crate::oracle;
use crate::order::Order;
use crate::world::{MILLI, MINUTE, SECOND, Shared, lock};

/// What the panic hook lets pass in silence.
pub const SIMULATED_PANIC: &str = "a simulated panic";

/// What happens in one run.
enum Act {
    Returns,
    /// After so long; perhaps longer than there is time.
    Sleeps(u64),
    Fails {
        permanent: bool,
    },
    Panics,
    /// Keeps its thread for so long, and then goes on.
    Blocks(u64),
}

/// Says that the handler runs, until it is dropped.
struct Guard {
    shared: Shared,
    run: u64,
}

impl Drop for Guard {
    fn drop(&mut self) {
        oracle::handler_ended(&mut lock(&self.shared), self.run);
    }
}

/// The order, and the number of this run of the handler.
pub async fn handle(
    shared: Shared,
    by: Sender,
    message: Message<Order>,
) -> Result<(Order, u64), HandlerError> {
    let order = message.body.clone();
    let (act, guard) = start(&shared, by, &order);
    match act {
        Act::Returns => {}
        Act::Sleeps(duration) => sleep(&shared, duration).await,
        Act::Fails { permanent: true } => return Err(HandlerError::permanent("simulated")),
        Act::Fails { permanent: false } => return Err("simulated".into()),
        Act::Panics => panic!("{SIMULATED_PANIC}"),
        Act::Blocks(duration) => {
            let until = lock(&shared).now + duration;
            lock(&shared).stall = Some(until);
            // The worker is not polled again before.
            sleep(&shared, duration).await;
        }
    }
    Ok((order, guard.run))
}

fn start(shared: &Shared, by: Sender, order: &Order) -> (Act, Guard) {
    let mut world = lock(shared);
    let (run, token) = oracle::handler_starts(&mut world, by, &order.key);
    let is_faulty = !world.faults_ended && {
        let chance = world.setup.handler_faults;
        world.rng.percent(chance)
    };
    let (act, told) = if is_faulty {
        let long = world.rng.between(SECOND, 20 * MINUTE);
        match world.rng.below(6) {
            0 => (Act::Fails { permanent: false }, "fails"),
            1 => (Act::Fails { permanent: true }, "fails for good"),
            2 => (Act::Panics, "panics"),
            3 => (Act::Blocks(long), "blocks its thread"),
            4 => (Act::Sleeps(long), "is too slow"),
            _ => (
                Act::Sleeps(world.rng.between(SECOND, 10 * SECOND)),
                "is slow",
            ),
        }
    } else if world.rng.percent(50) {
        (Act::Returns, "runs")
    } else {
        (Act::Sleeps(world.rng.between(MILLI, 200 * MILLI)), "runs")
    };
    match told {
        "runs" => world.counts.add("messages", "runs of handlers"),
        told => world.counts.add("faults of handlers", told),
    }
    if world.is_recorded() {
        let held = match token {
            Some(token) => format!("held by {}", world.name(token.as_str())),
            None => "not held".to_owned(),
        };
        world.note(&worker(by.worker), || {
            let key = &order.key;
            format!("handler of {key} {told}, run {run}; the key is {held}")
        });
    }
    let guard = Guard {
        shared: shared.clone(),
        run,
    };
    (act, guard)
}
