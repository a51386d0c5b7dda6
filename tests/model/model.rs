//! Every interleaving of a few deliveries.

mod attempt;
mod check;
mod choices;
mod code;
mod invariants;
mod invocation;
mod mutation;
mod protocol;
mod state;
mod step;
mod store;

use protocol::Protocol;

#[test]
fn one_key_two_deliveries() {
    check::holds("one key, 2 deliveries", Protocol::one_key(2));
}
