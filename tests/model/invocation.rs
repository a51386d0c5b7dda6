//! What an invocation does for its batch as a whole: the group commit, and the response.

use crate::mutation::Mutation;
use crate::protocol::Protocol;
use crate::state::{KEYS, Phase, State, Who};
use crate::step::Business;
use crate::store::Answer;

impl Protocol {
    /// One transaction for the records and the writes of all members.
    pub(crate) fn send_group(&self, state: &mut State, invocation: u8) {
        let invocation = &mut state.invocations[usize::from(invocation)];
        for member in &mut invocation.members {
            member.phase = Phase::Grouped;
            member.commit_was_sent = true;
        }
        invocation.group.sent = 1;
        invocation.group.copies = 1;
    }

    /// `answers`: of each member if the group was refused. Those that were refused are decided
    /// alone, the others are committed alone.
    pub(crate) fn group_answered(
        &self,
        state: &mut State,
        invocation: u8,
        answers: Option<[Answer; KEYS]>,
        business: [Business; KEYS],
    ) {
        for (key, business) in business.into_iter().enumerate() {
            let who = Who {
                invocation,
                key: key as u8,
            };
            let Some(answers) = answers else {
                self.done(state, who);
                continue;
            };
            let answer = answers[key];
            state.member_mut(who).has_trouble |= answer != Answer::NotApplied;
            if self.is(Mutation::GroupAcknowledgesAll) {
                self.done(state, who);
            } else if self.is(Mutation::GroupFailsAll) {
                self.failed(state, who);
            } else {
                let alternative = business == Business::FailsWithAlternative;
                self.commit_answered(state, who, 0, answer, alternative);
            }
        }
    }

    /// The group's outcome is not known. Each commit is sent alone, under a client token of its own, while
    /// there is time; without an answer to that its record says.
    pub(crate) fn group_gives_up(&self, state: &mut State, invocation: u8) {
        for key in 0..KEYS as u8 {
            let who = Who { invocation, key };
            state.member_mut(who).has_trouble = true;
            if self.is(Mutation::GroupAcknowledgesUnknown) {
                self.done(state, who);
            } else {
                self.send_commit(state, who, 0);
            }
        }
    }

    /// Each invocation whose messages are all decided answers: what it does not report is deleted
    /// from the queue.
    pub(crate) fn answer_invocations(&self, state: &mut State) {
        for at in 0..usize::from(state.begun) {
            let mut members = state.invocations[at].members;
            let is_decided = |phase| matches!(phase, Phase::Done | Phase::Failed);
            if members.iter().any(|member| member.is_running())
                || !members.iter().any(|member| is_decided(member.phase))
            {
                continue;
            }
            for (key, member) in members.iter_mut().enumerate() {
                if !is_decided(member.phase) {
                    continue;
                }
                let is_done = member.phase == Phase::Done;
                let times_reported = self.times_reported(is_done);
                state.broken.response |= times_reported != u8::from(!is_done);
                if times_reported == 0 {
                    state.acknowledged[key][member.payload as usize] = true;
                }
                member.phase = Phase::Over;
            }
            state.invocations[at].members = members;
        }
    }

    fn times_reported(&self, is_done: bool) -> u8 {
        match self.mutation {
            Some(Mutation::ResponseForgets) => 0,
            Some(Mutation::ResponseRepeats) if !is_done => 2,
            _ => u8::from(!is_done),
        }
    }
}
