//! What has to come up in the model, or its invariants would hold for want of anything to break them.

use stateright::Property;

use crate::protocol::Protocol;
use crate::state::{KEYS, Member, Mode, Payload, Phase, Record, State, Who};

pub(crate) fn properties(protocol: &Protocol) -> Vec<Property<Protocol>> {
    let mut properties = vec![
        Property::sometimes(
            "a commit lands after its attempt was given up",
            |_, state: &State| {
                holders(state).any(|(_, record, holder)| {
                    record.is_completed() && holder.phase == Phase::Over && !is_acknowledged(state)
                })
            },
        ),
        Property::sometimes("an alternative is committed", |_, state: &State| {
            holders(state).any(|(_, record, _)| matches!(record, Record::Completed { body: 1, .. }))
        }),
        Property::sometimes(
            "all messages are acknowledged",
            |protocol: &Protocol, state: &State| {
                (0..usize::from(protocol.keys)).all(|key| state.acknowledged[key][0])
            },
        ),
    ];
    if protocol.modes.contains(&Mode::ClaimFirst) {
        properties.extend([
            Property::sometimes("a key is held for nobody", |_, state: &State| {
                holders(state).any(|(_, record, holder)| {
                    !record.is_completed() && holder.phase == Phase::Over
                })
            }),
            Property::sometimes(
                "a key is taken over while its handler runs",
                |_, state: &State| {
                    state.attempts().any(|who| {
                        let member = state.member(who);
                        let by = state.key(who).record.by();
                        member.phase == Phase::Handling
                            && member.lease_ended
                            && by.is_some_and(|by| by != who.invocation)
                    })
                },
            ),
        ]);
    }
    if protocol.modes.len() > 1 {
        properties.push(Property::sometimes(
            "a key that is claimed is completed at a commit",
            |_, state: &State| {
                holders(state).any(|(key, record, holder)| {
                    record.is_completed()
                        && holder.mode == Mode::AtCommit
                        && state.attempts().any(|who| {
                            let other = state.member(who);
                            usize::from(who.key) == key
                                && other.mode == Mode::ClaimFirst
                                && other.phase == Phase::Handling
                        })
                })
            },
        ));
    }
    if protocol.payloads.len() > 1 {
        properties.push(Property::sometimes(
            "a message meets another payload under its key",
            |_, state: &State| {
                holders(state).any(|(key, record, _)| {
                    matches!(
                        record,
                        Record::Completed {
                            payload: Payload::Original,
                            ..
                        }
                    ) && state.attempts().any(|who| {
                        let member = state.member(who);
                        usize::from(who.key) == key
                            && member.payload == Payload::Other
                            && member.phase == Phase::Handling
                    })
                })
            },
        ));
    }
    if protocol.groups {
        properties.push(Property::sometimes(
            "a group lands after one of its members was given up",
            |_, state: &State| {
                state
                    .invocations
                    .iter()
                    .enumerate()
                    .any(|(at, invocation)| {
                        let both = state.keys.iter().all(|key| {
                            key.record.is_completed() && key.record.by() == Some(at as u8)
                        });
                        both && invocation.group.is_remembered
                            && invocation
                                .members
                                .iter()
                                .any(|member| member.phase == Phase::Over)
                    })
            },
        ));
    }
    properties
}

fn holders(state: &State) -> impl Iterator<Item = (usize, Record, &Member)> {
    (0..KEYS).filter_map(|key| {
        let record = state.keys[key].record;
        let who = Who {
            invocation: record.by()?,
            key: key as u8,
        };
        Some((key, record, state.member(who)))
    })
}

fn is_acknowledged(state: &State) -> bool {
    state.acknowledged.as_flattened().contains(&true)
}
