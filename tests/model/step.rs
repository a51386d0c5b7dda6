//! The steps: what can happen next, and what comes of it.

use crate::code::Now;
use crate::protocol::Protocol;
use crate::state::{Invocation, KEYS, Member, Mode, Payload, Phase, Record, Request, State, Who};
use crate::store::Answer;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// The queue hands a batch to a worker: a message of each key, or of one. A message may be
    /// handed out at any time, also while another worker has it and after it was deleted.
    Deliver {
        batch: [Option<Payload>; KEYS],
        mode: Mode,
        look_first: bool,
    },
    HandlerSucceeds(Who),
    /// An error, a panic, or no time left.
    HandlerFails(Who),
    /// A copy of a request reaches the store.
    Arrives {
        who: Who,
        request: Request,
        now: Now,
        business: Business,
        reply: Reply,
    },
    SendsAgain(Who),
    GivesUp(Who),
    Reads(Who, Now),
    SendsGroup(u8),
    SendsAlone(Who),
    GroupArrives {
        invocation: u8,
        now: Now,
        business: [Business; KEYS],
        reply: Reply,
    },
    GroupSendsAgain(u8),
    GroupGivesUp(u8),
    LeaseEnds(Who),
    TokenIsForgotten(Who, u8),
    GroupTokenIsForgotten(u8),
    Crashes(u8),
}

/// The conditions of a commit's business writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Business {
    Holds,
    /// The handler gave an alternative for this.
    FailsWithAlternative,
    Fails,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reply {
    Arrives,
    /// It does not show the record that refused.
    ArrivesWithoutRecord,
    /// Or it comes after the attempt stopped waiting.
    IsLost,
}

impl Protocol {
    /// The state after this step; `None` if nothing would change.
    pub(crate) fn after(&self, before: &State, step: Step) -> Option<State> {
        let mut state = before.clone();
        match step {
            Step::Deliver {
                batch,
                mode,
                look_first,
            } => self.deliver(&mut state, batch, mode, look_first),
            Step::HandlerSucceeds(who) if self.groups => {
                state.member_mut(who).phase = Phase::Prepared;
            }
            Step::HandlerSucceeds(who) | Step::SendsAlone(who) => {
                self.send_commit(&mut state, who, 0);
            }
            Step::HandlerFails(who) | Step::GivesUp(who) => self.give_up(&mut state, who),
            Step::Arrives {
                who,
                request,
                now,
                business,
                reply,
            } => {
                let answer = self.arrives(&mut state, who, request, now, business);
                if reply == Reply::IsLost {
                    if same_but_for_copies(before, &state) {
                        return None;
                    }
                } else {
                    let answer = shown(answer, reply)?;
                    self.answered(&mut state, who, request, answer, business);
                }
            }
            Step::SendsAgain(who) => {
                send_again(state.member_mut(who));
                state.count_again();
            }
            Step::Reads(who, now) => {
                state.member_mut(who).has_trouble = true;
                self.read(&mut state, who, now);
            }
            Step::SendsGroup(invocation) => self.send_group(&mut state, invocation),
            Step::GroupArrives {
                invocation,
                now,
                business,
                reply,
            } => {
                let group = &mut state.invocations[usize::from(invocation)].group;
                group.copies -= 1;
                let holds = business.map(|business| business == Business::Holds);
                let answers = self.group_arrives(&mut state, invocation, now, holds);
                if reply == Reply::IsLost {
                    if same_but_for_copies(before, &state) {
                        return None;
                    }
                } else {
                    self.group_answered(&mut state, invocation, answers, business);
                }
            }
            Step::GroupSendsAgain(invocation) => {
                let group = &mut state.invocations[usize::from(invocation)].group;
                group.sent += 1;
                group.copies += 1;
                state.count_again();
            }
            Step::GroupGivesUp(invocation) => self.group_gives_up(&mut state, invocation),
            Step::LeaseEnds(who) => state.member_mut(who).lease_ended = true,
            Step::TokenIsForgotten(who, body) => {
                state.member_mut(who).is_remembered[usize::from(body)] = false;
            }
            Step::GroupTokenIsForgotten(invocation) => {
                state.invocations[usize::from(invocation)]
                    .group
                    .is_remembered = false;
            }
            Step::Crashes(invocation) => {
                for member in &mut state.invocations[usize::from(invocation)].members {
                    if member.phase != Phase::Absent {
                        member.phase = Phase::Over;
                    }
                }
            }
        }
        self.answer_invocations(&mut state);
        self.forget_what_has_no_effect(&mut state);
        Some(state)
    }

    fn deliver(
        &self,
        state: &mut State,
        batch: [Option<Payload>; KEYS],
        mode: Mode,
        look_first: bool,
    ) {
        let invocation = &mut state.invocations[usize::from(state.begun)];
        for (member, payload) in invocation.members.iter_mut().zip(batch) {
            let Some(payload) = payload else { continue };
            member.payload = payload;
            member.mode = mode;
            member.phase = match mode {
                Mode::ClaimFirst => {
                    member.copies.claims = 1;
                    Phase::Claiming { sent: 1 }
                }
                Mode::AtCommit if look_first => Phase::Looking,
                Mode::AtCommit => Phase::Handling,
            };
        }
        state.begun += 1;
    }

    fn arrives(
        &self,
        state: &mut State,
        who: Who,
        request: Request,
        now: Now,
        business: Business,
    ) -> Answer {
        *state.member_mut(who).copies.of_mut(request) -= 1;
        match request {
            Request::Claim => self.claim_arrives(state, who, now),
            Request::Commit(body) => {
                let holds = business == Business::Holds;
                self.commit_arrives(state, who, body, now, holds)
            }
            Request::Release => self.release_arrives(state, who),
        }
    }

    fn answered(
        &self,
        state: &mut State,
        who: Who,
        request: Request,
        answer: Answer,
        business: Business,
    ) {
        state.member_mut(who).has_trouble |= answer != Answer::Applied;
        match request {
            Request::Claim => self.claim_answered(state, who, answer),
            Request::Commit(body) => {
                let alternative = business == Business::FailsWithAlternative;
                self.commit_answered(state, who, body, answer, alternative);
            }
            Request::Release => self.release_answered(state, who, answer),
        }
    }

    /// Requests that can change nothing any more are the same as lost. Only where that is certain.
    fn forget_what_has_no_effect(&self, state: &mut State) {
        let is_final = |record: Record| self.completed_is_final() && record.is_completed();
        let any_is_final = state.keys.iter().any(|key| is_final(key.record));
        for at in 0..state.begun {
            let Invocation { members, group } = &mut state.invocations[usize::from(at)];
            if any_is_final && members.iter().all(|member| member.phase != Phase::Grouped) {
                group.copies = 0;
            }
            for key in 0..self.keys {
                let who = Who {
                    invocation: at,
                    key,
                };
                let record = state.key(who).record;
                let holds = matches!(record, Record::InProgress { by, .. } if by == at);
                let group_copies = state.invocations[usize::from(at)].group.copies;
                let member = state.member_mut(who);
                if is_final(record) {
                    forget_late_copies(member);
                }
                if member.phase == Phase::Over && member.copies.is_none() && group_copies == 0 {
                    *member = Member {
                        lease_ended: holds && member.lease_ended,
                        ..Member::over()
                    };
                }
            }
        }
    }
}

fn forget_late_copies(member: &mut Member) {
    let copies = &mut member.copies;
    if !matches!(
        member.phase,
        Phase::Claiming { .. } | Phase::ReadingAfterClaim
    ) {
        copies.claims = 0;
    }
    for (body, commits) in copies.commits.iter_mut().enumerate() {
        if !matches!(member.phase, Phase::Committing { body: waits, .. } if usize::from(waits) == body)
        {
            *commits = 0;
        }
    }
    if !matches!(member.phase, Phase::Releasing { .. }) {
        copies.releases = 0;
    }
}

fn send_again(member: &mut Member) {
    let (request, sent) = match &mut member.phase {
        Phase::Claiming { sent } => (Request::Claim, sent),
        Phase::Committing { body, sent } => (Request::Commit(*body), sent),
        Phase::Releasing { sent } => (Request::Release, sent),
        phase => unreachable!("{phase:?} waits for nothing"),
    };
    *sent += 1;
    *member.copies.of_mut(request) += 1;
}

/// The answer as the attempt gets it; `None` if there is no such answer.
fn shown(answer: Answer, reply: Reply) -> Option<Answer> {
    match (reply, answer) {
        (Reply::ArrivesWithoutRecord, Answer::Refused(Some(_))) => Some(Answer::Refused(None)),
        (Reply::ArrivesWithoutRecord, _) => None,
        _ => Some(answer),
    }
}

/// Whether a request that arrived changed nothing: then it is the same as if it never did.
fn same_but_for_copies(before: &State, after: &State) -> bool {
    before.keys == after.keys && before.broken == after.broken
}
