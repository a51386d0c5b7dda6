//! Sizes that take minutes: `MODEL=large cargo test --test model`.

use crate::check;
use crate::protocol::{Checked, Protocol};
use crate::{BOTH_MODES, everything, with};

/// Checks it if that is asked for.
fn holds(name: &'static str, protocol: Protocol) {
    if std::env::var("MODEL").is_ok_and(|size| size == "large") {
        check::holds(name, protocol);
    } else {
        check::say(&format!("model: {name}: not checked without MODEL=large"));
    }
}

#[test]
fn three_deliveries_in_both_modes() {
    let protocol = with(Protocol::one_key(3), |protocol| {
        everything(protocol);
        protocol.again = 1;
    });
    holds(
        "one key, 3 deliveries, both modes, sent again once",
        protocol,
    );
}

#[test]
fn three_deliveries_sent_again_twice() {
    let protocol = with(Protocol::one_key(3), |protocol| protocol.again = 2);
    holds("one key, 3 deliveries, sent again twice", protocol);
}

#[test]
fn three_deliveries_with_different_clocks() {
    let protocol = with(Protocol::one_key(3), |protocol| {
        everything(protocol);
        protocol.clocks_differ = true;
        protocol.again = 1;
    });
    holds("one key, 3 deliveries, clocks differ", protocol);
}

#[test]
fn four_deliveries() {
    let protocol = with(Protocol::one_key(4), |protocol| protocol.again = 0);
    holds("one key, 4 deliveries", protocol);
    let two_workers = with(Protocol::one_key(4), |protocol| {
        protocol.again = 1;
        protocol.workers = 2;
        protocol.records_are_hidden = false;
    });
    holds("one key, 4 deliveries, 2 workers", two_workers);
}

#[test]
fn groups_sent_again_at_will() {
    holds("two keys, groups, sent again at will", Protocol::group(2));
}

#[test]
fn three_groups() {
    let protocol = with(Protocol::group(3), |protocol| {
        protocol.again = 0;
        protocol.conditions_fail = false;
        protocol.records_are_hidden = false;
    });
    holds("two keys, groups, 3 deliveries", protocol);
}

#[test]
fn batches_in_both_modes() {
    let protocol = with(Protocol::group(2), |protocol| {
        protocol.again = 0;
        protocol.modes = BOTH_MODES.to_vec();
        protocol.conditions_fail = false;
        protocol.records_are_hidden = false;
    });
    holds("two keys, batches in both modes", protocol);
}

#[test]
fn every_message_completes_once_faults_end() {
    let protocol = with(Protocol::one_key(3), |protocol| {
        protocol.again = 1;
        protocol.checked = Checked::Liveness;
    });
    holds("one key, 3 deliveries, liveness", protocol);
    let groups = with(Protocol::group(2), |protocol| {
        protocol.again = 1;
        protocol.checked = Checked::Liveness;
    });
    holds("two keys, groups, sent again once, liveness", groups);
}
