//! Every interleaving of a few deliveries, and the invariants of DESIGN.md in each state.
//!
//! - A request is copies on their way. Each may arrive at any time, also after its attempt went on or
//!   its invocation crashed; one that never arrives is lost.
//! - An answer is taken when the request arrives, or never. One that waits is no case of its own: what
//!   an attempt does next may be put off as long as one likes. A stall is the same.
//! - A message may be delivered at any time: while another worker has it, and after it was deleted.
//! - Times are not numbers: leases end, and stores forget client tokens, at any moment. A request may
//!   have an early time, and where clocks differ a late one. Records live: that retention ends, and
//!   clocks that are off by more than it, are not modelled.
//! - Invariant 7 is checked with equal clocks, for attempts that claim first. The others always.
//! - 5 and 6 are about the protocol's part here: the response to a batch, and the group commit. Events,
//!   FIFO order and panics are not modelled.
//! - The checker knows a state by a hash of 64 bits.

mod attempt;
mod check;
mod choices;
mod code;
mod coverage;
mod hash;
mod invariants;
mod invocation;
mod large;
mod liveness;
mod mutation;
mod mutations;
mod protocol;
mod state;
mod step;
mod store;
mod tell;

use protocol::{Checked, Protocol};
use state::{Mode, Payload};

const BOTH_MODES: [Mode; 2] = [Mode::ClaimFirst, Mode::AtCommit];
const BOTH_PAYLOADS: [Payload; 2] = [Payload::Original, Payload::Other];

fn with(mut protocol: Protocol, change: impl FnOnce(&mut Protocol)) -> Protocol {
    change(&mut protocol);
    protocol.asked()
}

fn everything(protocol: &mut Protocol) {
    protocol.modes = BOTH_MODES.to_vec();
    protocol.payloads = BOTH_PAYLOADS.to_vec();
}

#[test]
fn two_deliveries_of_one_key() {
    check::holds(
        "one key, 2 deliveries",
        with(Protocol::one_key(2), everything),
    );
    check::covers(
        "one key, 2 deliveries",
        with(Protocol::one_key(2), everything),
    );
}

#[test]
fn different_clocks() {
    let clocks = with(Protocol::one_key(2), |protocol| {
        everything(protocol);
        protocol.clocks_differ = true;
    });
    check::holds("one key, 2 deliveries, clocks differ", clocks);
}

#[test]
fn without_fingerprints() {
    let protocol = with(Protocol::one_key(2), |protocol| {
        everything(protocol);
        protocol.fingerprints = false;
    });
    check::holds("one key, 2 deliveries, no fingerprints", protocol);
}

#[test]
fn three_deliveries_of_one_key() {
    let once_again = with(Protocol::one_key(3), |protocol| protocol.again = 1);
    check::holds("one key, 3 deliveries", once_again);
    let mixed = with(Protocol::one_key(3), |protocol| {
        everything(protocol);
        protocol.again = 0;
    });
    check::holds("one key, 3 deliveries, mixed", mixed);
}

#[test]
fn groups() {
    let again = with(Protocol::group(2), |protocol| protocol.again = 0);
    check::holds("two keys, groups", again.clone());
    check::covers("two keys, groups", again);
    let others = with(Protocol::group(2), |protocol| {
        protocol.again = 0;
        protocol.payloads = BOTH_PAYLOADS.to_vec();
        protocol.conditions_fail = false;
    });
    check::holds("two keys, groups, another payload", others);
}

#[test]
fn batches_that_claim_first() {
    let batches = with(Protocol::batches(2), |protocol| {
        protocol.again = 0;
        protocol.conditions_fail = false;
        protocol.records_are_hidden = false;
        protocol.tokens_are_forgotten = false;
    });
    check::holds("two keys, batches that claim first", batches);
}

#[test]
fn every_message_completes_once_faults_end() {
    let one_key = with(Protocol::one_key(2), |protocol| {
        everything(protocol);
        protocol.checked = Checked::Liveness;
    });
    check::holds("one key, liveness", one_key);
    let groups = with(Protocol::group(2), |protocol| {
        protocol.again = 0;
        protocol.checked = Checked::Liveness;
    });
    check::holds("two keys, liveness", groups);
}
