//! The invariants of DESIGN.md, by their numbers.

use stateright::Property;

use crate::protocol::Protocol;
use crate::state::{KEYS, Mode, Payload, Phase, Record, State, Who};

pub(crate) const ONE_COMMIT: &str = "1: at most one transaction of a key is committed";
pub(crate) const ACKNOWLEDGED_IS_DONE: &str =
    "2: a message is acknowledged only if its record is COMPLETED with its fingerprint";
pub(crate) const BOTH_OR_NEITHER: &str =
    "3: the writes are there if and only if the record is COMPLETED";
pub(crate) const FENCED: &str =
    "4: only the holder changes or deletes a record, or a claim that its condition allows";
pub(crate) const REPORTED_ONCE: &str = "5: what is not acknowledged is reported exactly once";
pub(crate) const ISOLATED: &str = "6: no message fails for another message's trouble";
pub(crate) const ONE_HANDLER: &str = "7: at most one handler runs for a key while its lease lives";
pub(crate) const HOLDER_COMPLETES: &str =
    "liveness: an attempt that has its key completes, if it meets no more faults";
pub(crate) const COMPLETES: &str = "liveness: each message completes once faults end";

/// With different clocks, 7 is not promised; and never for attempts that claim at the commit.
pub(crate) fn invariants(protocol: &Protocol) -> Vec<Property<Protocol>> {
    let mut invariants = vec![
        Property::always(ONE_COMMIT, |_, state: &State| {
            state.keys.iter().all(|key| key.commits <= 1)
        }),
        Property::always(ACKNOWLEDGED_IS_DONE, acknowledged_is_done),
        Property::always(BOTH_OR_NEITHER, |_, state: &State| both_or_neither(state)),
        Property::always(FENCED, |_, state: &State| !state.broken.fencing),
        Property::always(REPORTED_ONCE, |_, state: &State| !state.broken.response),
        Property::always(ISOLATED, |_, state: &State| !state.broken.isolation),
    ];
    if !protocol.clocks_differ {
        invariants.push(Property::always(ONE_HANDLER, |_, state: &State| {
            one_handler(state)
        }));
    }
    invariants
}

fn acknowledged_is_done(protocol: &Protocol, state: &State) -> bool {
    (0..KEYS).all(|key| {
        [Payload::Original, Payload::Other]
            .into_iter()
            .all(|message| {
                !state.acknowledged[key][message as usize]
                    || match state.keys[key].record {
                        Record::Completed { payload, .. } => {
                            payload == message || !protocol.fingerprints
                        }
                        Record::Absent | Record::InProgress { .. } => false,
                    }
            })
    })
}

/// Not only that there are writes: it is the writes of the attempt, and of the body, that the record
/// names.
fn both_or_neither(state: &State) -> bool {
    state.keys.iter().all(|key| match key.record {
        Record::Completed { by, body, .. } => key.written == Some((by, body)),
        Record::Absent | Record::InProgress { .. } => key.written.is_none(),
    })
}

fn one_handler(state: &State) -> bool {
    (0..KEYS as u8).all(|key| {
        let runs = |invocation: &u8| {
            let member = state.member(Who {
                invocation: *invocation,
                key,
            });
            member.phase == Phase::Handling
                && member.mode == Mode::ClaimFirst
                && !member.lease_ended
        };
        (0..state.begun).filter(runs).count() <= 1
    })
}
