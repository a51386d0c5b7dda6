//! Every message completes once faults end, from whatever state they left.
//!
//! The checker's own `eventually` takes a cycle for a way that goes on, and misses what never ends in
//! it; and the model is full of cycles. So this is a property of each state: the way on without
//! faults is followed, and has to end with all messages done.

use crate::code::Now;
use crate::protocol::Protocol;
use crate::state::{Copies, KEYS, Member, Mode, Payload, Phase, Record, Request, State, Who};
use crate::step::{Business, Reply, Step};

/// More steps than any attempt needs.
const ENOUGH: usize = 50;

impl Protocol {
    /// The invocations that run go on, and one more delivery after the leases have ended completes
    /// each message that is left. What arrives late and what crashes before that needs no case here:
    /// the state after it is one of the states that are visited.
    pub(crate) fn completes(&self, state: &State) -> bool {
        let mut left = state.clone();
        lose_copies(&mut left);
        for invocation in 0..left.begun {
            self.run_on(&mut left, invocation);
        }
        for who in left.attempts() {
            left.member_mut(who).lease_ended = !self.clocks_differ;
        }
        self.modes.iter().all(|mode| {
            self.payloads
                .iter()
                .all(|payload| self.completes_with(left.clone(), *payload, *mode))
        })
    }

    /// An attempt that has its key, and meets no more faults, completes in this very delivery: a reply
    /// that was lost costs a request, not a receive.
    pub(crate) fn holder_completes(&self, state: &State) -> bool {
        state.attempts().all(|who| {
            let member = state.member(who);
            let is_mine = state.key(who).record.by() == Some(who.invocation);
            let may_still_commit = matches!(
                member.phase,
                Phase::Claiming { .. }
                    | Phase::ReadingAfterClaim
                    | Phase::Handling
                    | Phase::Prepared
                    | Phase::Committing { .. }
            );
            let is_completed = state.key(who).record.is_completed();
            if !is_mine || !member.is_running() || !(is_completed || may_still_commit) {
                return true;
            }
            let payload = member.payload;
            let mut left = state.clone();
            lose_copies(&mut left);
            self.run_on(&mut left, who.invocation);
            left.acknowledged[usize::from(who.key)][payload as usize]
        })
    }

    fn completes_with(&self, mut state: State, payload: Payload, mode: Mode) -> bool {
        let mut batch = [Some(payload), Some(Payload::Original)];
        for (key, message) in batch.iter_mut().enumerate() {
            let is_needed = |payload: &Payload| !state.acknowledged[key][*payload as usize];
            let exists = key < usize::from(self.keys);
            *message = message.filter(|payload| exists && is_needed(payload));
        }
        if batch == [None; KEYS] {
            return true;
        }
        let invocation = state.begun;
        self.step(
            &mut state,
            Step::Deliver {
                batch,
                mode,
                look_first: true,
            },
        );
        self.run_on(&mut state, invocation);
        batch.into_iter().enumerate().all(|(key, message)| {
            message.is_none_or(|message| {
                state.acknowledged[key][message as usize]
                    || self.was_used_for_another(&state, key, message)
            })
        })
    }

    /// Such a message is never done: it goes to the dead-letter queue.
    fn was_used_for_another(&self, state: &State, key: usize, message: Payload) -> bool {
        let record = state.keys[key].record;
        self.fingerprints
            && matches!(record, Record::Completed { payload, .. } if payload != message)
    }

    fn step(&self, state: &mut State, step: Step) {
        if let Some(after) = self.after(state, step) {
            *state = after;
        }
    }

    /// The invocation goes on, and each request is answered at once.
    fn run_on(&self, state: &mut State, invocation: u8) {
        for _ in 0..ENOUGH {
            let members = &state.invocations[usize::from(invocation)].members;
            let who = |key: usize| Who {
                invocation,
                key: key as u8,
            };
            // A prepared one waits until all are, and then they are committed as a group.
            let is_busy = |member: &Member| member.is_running() && member.phase != Phase::Prepared;
            let is_prepared = |member: &Member| member.phase == Phase::Prepared;
            let step = if let Some(key) = members.iter().position(is_busy) {
                self.next_of(state, who(key))
            } else if members.iter().all(is_prepared) {
                Step::SendsGroup(invocation)
            } else if let Some(key) = members.iter().position(is_prepared) {
                Step::SendsAlone(who(key))
            } else {
                return;
            };
            self.step(state, step);
        }
        unreachable!("an invocation without faults goes on for ever: {state:?}");
    }

    fn next_of(&self, state: &mut State, who: Who) -> Step {
        let now = if self.clocks_differ {
            Now::Late
        } else {
            Now::True
        };
        let request = match state.member(who).phase {
            Phase::Claiming { .. } => Request::Claim,
            Phase::Committing { body, .. } => Request::Commit(body),
            Phase::Releasing { .. } => Request::Release,
            Phase::Handling => return Step::HandlerSucceeds(who),
            Phase::Grouped => {
                let invocation = who.invocation;
                state.invocations[usize::from(invocation)].group.copies = 1;
                return Step::GroupArrives {
                    invocation,
                    now,
                    business: [Business::Holds; KEYS],
                    reply: Reply::Arrives,
                };
            }
            _ => return Step::Reads(who, now),
        };
        *state.member_mut(who).copies.of_mut(request) = 1;
        Step::Arrives {
            who,
            request,
            now,
            business: Business::Holds,
            reply: Reply::Arrives,
        }
    }
}

fn lose_copies(state: &mut State) {
    for who in state.attempts() {
        state.member_mut(who).copies = Copies::default();
    }
    for invocation in &mut state.invocations {
        invocation.group.copies = 0;
    }
}
