//! Every interleaving of a few deliveries.

mod attempt;
mod check;
mod choices;
mod code;
mod hash;
mod invariants;
mod invocation;
mod mutation;
mod mutations;
mod protocol;
mod state;
mod step;
mod store;
mod tell;

use protocol::Protocol;

#[test]
fn one_key_two_deliveries() {
    check::holds("one key, 2 deliveries", Protocol::one_key(2));
}

#[test]
fn sizes() {
    let set = |n, f: fn(&mut Protocol)| { let mut p = Protocol::group(n); f(&mut p); p };
    check::holds("group 2 again 0", set(2, |p| p.again = 0));
    check::holds("group 2 again 1", set(2, |p| p.again = 1));
    check::holds("group 2 no cond", set(2, |p| p.conditions_fail = false));
    check::holds("group 2", set(2, |_| {}));
}
