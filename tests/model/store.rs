//! What a request does to the records when it arrives, by the code's conditions.

use crate::code::{Conditional, Now, View};
use crate::mutation::Mutation;
use crate::protocol::Protocol;
use crate::state::{KEYS, Record, State, Who};

/// What the store answers to one attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Answer {
    /// It is applied, now or before.
    Applied,
    /// The record's condition failed. It can have gone, or be another, when the attempt looks.
    Refused(Option<View>),
    /// The condition of a business write failed.
    ConditionFailed,
    /// Nothing is wrong with this member of a group, and the group is refused.
    NotApplied,
}

impl Protocol {
    pub(crate) fn claim_arrives(&self, state: &mut State, who: Who, now: Now) -> Answer {
        let view = self.view(state, who);
        if !self.code().applies_to(Conditional::Claim, view, now) {
            return Answer::Refused(view);
        }
        let record = Record::InProgress {
            by: who.invocation,
            payload: state.member(who).payload,
        };
        self.write(state, who, Conditional::Claim, now, record);
        Answer::Applied
    }

    pub(crate) fn release_arrives(&self, state: &mut State, who: Who) -> Answer {
        let view = self.view(state, who);
        if !self
            .code()
            .applies_to(Conditional::Release, view, Now::True)
        {
            return Answer::Refused(view);
        }
        self.write(state, who, Conditional::Release, Now::True, Record::Absent);
        Answer::Applied
    }

    /// `holds`: whether the conditions of the business writes do.
    pub(crate) fn commit_arrives(
        &self,
        state: &mut State,
        who: Who,
        body: u8,
        now: Now,
        holds: bool,
    ) -> Answer {
        if state.member(who).is_remembered[usize::from(body)] {
            return Answer::Applied;
        }
        if self.is(Mutation::MarkerApart) && body == 0 {
            self.write_business(state, who, body);
            return self.remember(state, who, body);
        }
        match self.commit_condition(state, who, now, holds) {
            Answer::Applied => {
                self.complete(state, who, body, now);
                self.remember(state, who, body)
            }
            refused => refused,
        }
    }

    /// One transaction for the members: all or nothing. `None` if it is applied.
    pub(crate) fn group_arrives(
        &self,
        state: &mut State,
        invocation: u8,
        now: Now,
        holds: [bool; KEYS],
    ) -> Option<[Answer; KEYS]> {
        if state.invocations[usize::from(invocation)]
            .group
            .is_remembered
        {
            return None;
        }
        let who = |key: usize| Who {
            invocation,
            key: key as u8,
        };
        let answers: [Answer; KEYS] = std::array::from_fn(|key| {
            match self.commit_condition(state, who(key), now, holds[key]) {
                Answer::Applied => Answer::NotApplied,
                refused => refused,
            }
        });
        if answers.iter().any(|answer| *answer != Answer::NotApplied) {
            return Some(answers);
        }
        for key in 0..KEYS {
            self.complete(state, who(key), 0, now);
        }
        state.invocations[usize::from(invocation)]
            .group
            .is_remembered = true;
        None
    }

    fn commit_condition(&self, state: &State, who: Who, now: Now, holds: bool) -> Answer {
        let view = self.view(state, who);
        let kind = Self::completion(state.member(who));
        if !self.code().applies_to(kind, view, now) {
            Answer::Refused(view)
        } else if holds {
            Answer::Applied
        } else {
            Answer::ConditionFailed
        }
    }

    fn complete(&self, state: &mut State, who: Who, body: u8, now: Now) {
        let member = *state.member(who);
        let record = Record::Completed {
            by: who.invocation,
            payload: member.payload,
            body,
        };
        self.write(state, who, Self::completion(&member), now, record);
        if !self.is(Mutation::MarkerApart) {
            self.write_business(state, who, body);
        }
    }

    fn write_business(&self, state: &mut State, who: Who, body: u8) {
        let key = &mut state.keys[usize::from(who.key)];
        key.commits = (key.commits + 1).min(2);
        key.written = Some((who.invocation, body));
    }

    fn remember(&self, state: &mut State, who: Who, body: u8) -> Answer {
        state.member_mut(who).is_remembered[usize::from(body)] = true;
        Answer::Applied
    }

    /// Changes the record, and judges whether that was allowed: by itself, not by the code, so that a
    /// wrong condition there is found here.
    fn write(&self, state: &mut State, who: Who, kind: Conditional, now: Now, record: Record) {
        let takes = matches!(kind, Conditional::Claim | Conditional::CompleteFree);
        let allowed = match state.key(who).record {
            Record::Absent => takes || record == Record::Absent,
            Record::InProgress { by, .. } if by == who.invocation => true,
            Record::InProgress { by, .. } => {
                let holder = Who {
                    invocation: by,
                    ..who
                };
                takes && (now == Now::Late || state.member(holder).lease_ended)
            }
            Record::Completed { .. } => false,
        };
        state.broken.fencing |= !allowed;
        state.keys[usize::from(who.key)].record = record;
    }
}
