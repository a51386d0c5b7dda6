//! What an attempt does with an answer: the tables of DESIGN.md.

use lambda_idempotency::store::Refusal;

use crate::code::{Conditional, Now, View};
use crate::mutation::Mutation;
use crate::protocol::Protocol;
use crate::state::{Mode, Phase, State, Who};
use crate::store::Answer;

impl Protocol {
    pub(crate) fn claim_answered(&self, state: &mut State, who: Who, answer: Answer) {
        match answer {
            Answer::Applied => state.member_mut(who).phase = Phase::Handling,
            Answer::Refused(None) => state.member_mut(who).phase = Phase::ReadingAfterClaim,
            Answer::Refused(Some(view)) => self.not_taken(state, who, Conditional::Claim, view),
            Answer::ConditionFailed | Answer::NotApplied => unreachable!("not of a claim"),
        }
    }

    /// `alternative`: whether the handler gave one for a condition that fails.
    pub(crate) fn commit_answered(
        &self,
        state: &mut State,
        who: Who,
        body: u8,
        answer: Answer,
        alternative: bool,
    ) {
        match answer {
            Answer::Applied if self.is(Mutation::MarkerApart) && body == 0 => {
                self.send_commit(state, who, 1);
            }
            Answer::Applied => self.done(state, who),
            Answer::Refused(None) => state.member_mut(who).phase = Phase::ReadingAfterCommit,
            Answer::Refused(Some(view)) => self.commit_refused(state, who, view),
            Answer::ConditionFailed if alternative && body == 0 => self.send_commit(state, who, 1),
            Answer::ConditionFailed => self.settle(state, who),
            Answer::NotApplied => self.send_commit(state, who, body),
        }
    }

    pub(crate) fn release_answered(&self, state: &mut State, who: Who, answer: Answer) {
        match answer {
            Answer::Refused(Some(view)) => self.settled(state, who, Conditional::Release, view),
            Answer::Refused(None) if state.member(who).commit_was_sent => {
                state.member_mut(who).phase = Phase::ReadingAfterRelease;
            }
            _ => self.failed(state, who),
        }
    }

    /// The answer to a read, in whatever phase asks for one.
    pub(crate) fn read(&self, state: &mut State, who: Who, now: Now) {
        let view = self.view(state, who);
        let member = state.member(who);
        let completion = Self::completion(member);
        match (member.phase, view) {
            // The record went away between the refusal and the read: the same claim again.
            (Phase::ReadingAfterClaim, None) => {
                let member = state.member_mut(who);
                member.phase = Phase::Claiming { sent: self.copies };
                member.copies.claims = (member.copies.claims + 1).min(self.copies);
            }
            (Phase::ReadingAfterClaim, Some(view)) => {
                self.not_taken(state, who, Conditional::Claim, view);
            }
            (Phase::Looking, Some(view))
                if !self.code().applies_to(completion, Some(view), now) =>
            {
                self.not_taken(state, who, completion, view);
            }
            (Phase::Looking, _) => state.member_mut(who).phase = Phase::Handling,
            (Phase::ReadingAfterCommit, Some(view)) => self.commit_refused(state, who, view),
            (Phase::ReadingAfterCommit, None) => self.lost(state, who),
            (Phase::FindingOut, Some(view)) => self.settled(state, who, completion, view),
            (Phase::ReadingAfterRelease, Some(view)) => {
                self.settled(state, who, Conditional::Release, view);
            }
            (Phase::FindingOut | Phase::ReadingAfterRelease, None) => self.failed(state, who),
            (phase, _) => unreachable!("{phase:?} reads nothing"),
        }
    }

    /// No more tries: the time is up, or the last answer leaves no hope.
    pub(crate) fn give_up(&self, state: &mut State, who: Who) {
        state.member_mut(who).has_trouble = true;
        match state.member(who).phase {
            Phase::Committing { .. } if self.is(Mutation::AcknowledgeUnknown) => {
                self.done(state, who);
            }
            Phase::Claiming { .. } | Phase::Handling | Phase::Committing { .. } => {
                self.settle(state, who);
            }
            _ => self.failed(state, who),
        }
    }

    pub(crate) fn send_commit(&self, state: &mut State, who: Who, body: u8) {
        let member = state.member_mut(who);
        member.phase = Phase::Committing { body, sent: 1 };
        member.commit_was_sent = true;
        member.copies.commits[usize::from(body)] = 1;
    }

    /// Before the handler: the key was not taken, or a look found it taken.
    fn not_taken(&self, state: &mut State, who: Who, request: Conditional, view: View) {
        match self.code().refused_by(request, view) {
            Refusal::Landed => state.member_mut(who).phase = Phase::Handling,
            Refusal::InProgress | Refusal::LeaseLost
                if self.is(Mutation::AcknowledgeInProgress) =>
            {
                self.done(state, who);
            }
            Refusal::InProgress | Refusal::LeaseLost => self.failed(state, who),
            refusal => self.finished(state, who, refusal),
        }
    }

    fn commit_refused(&self, state: &mut State, who: Who, view: View) {
        let completion = Self::completion(state.member(who));
        match self.code().refused_by(completion, view) {
            Refusal::LeaseLost => self.lost(state, who),
            Refusal::InProgress if self.is(Mutation::AcknowledgeInProgress) => {
                self.done(state, who);
            }
            refusal => self.finished(state, who, refusal),
        }
    }

    fn lost(&self, state: &mut State, who: Who) {
        if self.is(Mutation::AcknowledgeLostLease) {
            self.done(state, who);
        } else {
            self.failed(state, who);
        }
    }

    /// Gives the key back, and finds out whether the commit landed.
    fn settle(&self, state: &mut State, who: Who) {
        let member = state.member_mut(who);
        match member.mode {
            Mode::ClaimFirst => {
                member.phase = Phase::Releasing { sent: 1 };
                member.copies.releases = 1;
            }
            Mode::AtCommit if member.commit_was_sent => member.phase = Phase::FindingOut,
            Mode::AtCommit => self.failed(state, who),
        }
    }

    fn settled(&self, state: &mut State, who: Who, request: Conditional, view: View) {
        let refusal = self.code().refused_by(request, view);
        self.finished(state, who, refusal);
    }

    fn finished(&self, state: &mut State, who: Who, refusal: Refusal) {
        match refusal {
            Refusal::Landed | Refusal::Duplicate => self.done(state, who),
            Refusal::PayloadMismatch if self.is(Mutation::AcknowledgeMismatch) => {
                self.done(state, who);
            }
            Refusal::PayloadMismatch | Refusal::InProgress | Refusal::LeaseLost => {
                self.failed(state, who);
            }
            new => unreachable!("{new:?} is new in the code: the model has to say what follows"),
        }
    }

    pub(crate) fn done(&self, state: &mut State, who: Who) {
        state.member_mut(who).phase = Phase::Done;
    }

    pub(crate) fn failed(&self, state: &mut State, who: Who) {
        state.broken.isolation |= !state.member(who).has_trouble;
        state.member_mut(who).phase = Phase::Failed;
    }
}
