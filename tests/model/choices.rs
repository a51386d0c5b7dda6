//! Which steps are possible in a state.

use stateright::{Model, Property};

use crate::code::Now;
use crate::coverage;
use crate::invariants::{COMPLETES, HOLDER_COMPLETES, invariants};
use crate::protocol::{Checked, Protocol};
use crate::state::{Invocation, Member, Mode, Payload, Phase, Record, Request, State, Who};
use crate::step::{Business, Reply, Step};

const REPLIES: [Reply; 3] = [Reply::Arrives, Reply::ArrivesWithoutRecord, Reply::IsLost];

impl Model for Protocol {
    type State = State;
    type Action = Step;

    fn init_states(&self) -> Vec<State> {
        vec![State::initial(self.again)]
    }

    fn actions(&self, state: &State, steps: &mut Vec<Step>) {
        self.deliveries(state, steps);
        for who in state.attempts() {
            let member = state.member(who);
            self.own_steps(who, member, state, steps);
            self.arrivals(who, member, state, steps);
            self.endings(who, member, state, steps);
        }
        for invocation in 0..state.begun {
            self.group_steps(invocation, state, steps);
            let members = &state.invocations[usize::from(invocation)].members;
            if self.crashes && members.iter().any(Member::is_running) {
                steps.push(Step::Crashes(invocation));
            }
        }
    }

    fn next_state(&self, state: &State, step: Step) -> Option<State> {
        self.after(state, step)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        let mut properties = match self.checked {
            Checked::Invariants => invariants(self),
            Checked::InvariantsBut(one) => {
                let mut invariants = invariants(self);
                invariants.retain(|invariant| invariant.name != one);
                invariants
            }
            Checked::Liveness => vec![
                Property::always(COMPLETES, Protocol::completes),
                Property::always(HOLDER_COMPLETES, Protocol::holder_completes),
            ],
            Checked::Coverage => coverage::properties(self),
        };
        if let Some(only) = self.only {
            properties.retain(|property| property.name == only);
        }
        properties
    }
}

impl Protocol {
    fn deliveries(&self, state: &State, steps: &mut Vec<Step>) {
        let runs = |invocation: &&Invocation| invocation.members.iter().any(Member::is_running);
        let running = state.invocations.iter().filter(runs).count();
        if state.begun == self.deliveries || running >= usize::from(self.workers) {
            return;
        }
        // Which payload is which makes no difference before the first delivery.
        let payloads = if state.begun == 0 {
            &self.payloads[..1]
        } else {
            &self.payloads
        };
        let mut first: Vec<Option<Payload>> = payloads.iter().copied().map(Some).collect();
        let mut second = vec![None];
        if self.keys > 1 {
            first.push(None);
            second.push(Some(Payload::Original));
        }
        for a in &first {
            for b in &second {
                if a.is_none() && b.is_none() {
                    continue;
                }
                for mode in &self.modes {
                    let looks: &[bool] = match mode {
                        Mode::ClaimFirst => &[false],
                        Mode::AtCommit => &[false, true],
                    };
                    steps.extend(looks.iter().map(|look_first| Step::Deliver {
                        batch: [*a, *b],
                        mode: *mode,
                        look_first: *look_first,
                    }));
                }
            }
        }
    }

    fn own_steps(&self, who: Who, member: &Member, state: &State, steps: &mut Vec<Step>) {
        match member.phase {
            Phase::Claiming { sent }
            | Phase::Committing { sent, .. }
            | Phase::Releasing { sent } => {
                if sent < self.copies && state.again_left > 0 {
                    steps.push(Step::SendsAgain(who));
                }
                steps.push(Step::GivesUp(who));
            }
            Phase::Looking => {
                let nows = self.nows_of(state, who);
                steps.extend(nows.iter().map(|now| Step::Reads(who, *now)));
                steps.push(Step::GivesUp(who));
            }
            Phase::ReadingAfterClaim
            | Phase::ReadingAfterCommit
            | Phase::FindingOut
            | Phase::ReadingAfterRelease => {
                steps.push(Step::Reads(who, self.nows_of(state, who)[0]));
                steps.push(Step::GivesUp(who));
            }
            Phase::Handling => {
                steps.push(Step::HandlerSucceeds(who));
                steps.push(Step::HandlerFails(who));
            }
            Phase::Prepared => steps.push(Step::SendsAlone(who)),
            Phase::Absent | Phase::Grouped | Phase::Done | Phase::Failed | Phase::Over => {}
        }
    }

    fn arrivals(&self, who: Who, member: &Member, state: &State, steps: &mut Vec<Step>) {
        let copies = member.copies;
        if copies.claims > 0 {
            let is_waiting = matches!(member.phase, Phase::Claiming { .. });
            self.arrival(who, Request::Claim, is_waiting, state, steps);
        }
        if copies.releases > 0 {
            let is_waiting = matches!(member.phase, Phase::Releasing { .. });
            self.arrival(who, Request::Release, is_waiting, state, steps);
        }
        for (at, copies) in copies.commits.into_iter().enumerate() {
            if copies > 0 {
                let body_waits = |body: u8| usize::from(body) == at;
                let is_waiting =
                    matches!(member.phase, Phase::Committing { body, .. } if body_waits(body));
                self.arrival(who, Request::Commit(at as u8), is_waiting, state, steps);
            }
        }
    }

    fn arrival(
        &self,
        who: Who,
        request: Request,
        is_waiting: bool,
        state: &State,
        steps: &mut Vec<Step>,
    ) {
        for now in self.nows_of(state, who) {
            for business in self.conditions(request, state.key(who).record) {
                for reply in self.replies(is_waiting) {
                    steps.push(Step::Arrives {
                        who,
                        request,
                        now: *now,
                        business: *business,
                        reply: *reply,
                    });
                }
            }
        }
    }

    /// What clocks can say, where it makes a difference.
    fn nows_of(&self, state: &State, who: Who) -> &'static [Now] {
        let nows = if self.clocks_differ {
            &[Now::Early, Now::Late]
        } else {
            &[Now::True, Now::Early]
        };
        let lease_matters = match state.key(who).record {
            Record::InProgress { by, .. } => {
                let holder = state.member(Who {
                    invocation: by,
                    key: who.key,
                });
                self.clocks_differ || holder.lease_ended
            }
            Record::Absent | Record::Completed { .. } => false,
        };
        if lease_matters { nows } else { &nows[..1] }
    }

    /// Whether the business writes' conditions hold, where the record's does.
    fn conditions(&self, request: Request, record: Record) -> &'static [Business] {
        if !self.conditions_fail || (self.completed_is_final() && record.is_completed()) {
            return &[Business::Holds];
        }
        match request {
            Request::Commit(0) => &[
                Business::Holds,
                Business::FailsWithAlternative,
                Business::Fails,
            ],
            Request::Commit(_) => &[Business::Holds, Business::Fails],
            Request::Claim | Request::Release => &[Business::Holds],
        }
    }

    fn replies(&self, is_waiting: bool) -> &'static [Reply] {
        match (is_waiting, self.records_are_hidden) {
            (false, _) => &REPLIES[2..],
            (true, true) => &REPLIES,
            (true, false) => &[Reply::Arrives, Reply::IsLost],
        }
    }

    /// Times that run out.
    fn endings(&self, who: Who, member: &Member, state: &State, steps: &mut Vec<Step>) {
        let is_held = matches!(
            state.key(who).record,
            Record::InProgress { by, .. } if by == who.invocation
        );
        if is_held && !member.lease_ended && !self.clocks_differ {
            steps.push(Step::LeaseEnds(who));
        }
        if self.tokens_are_forgotten {
            for (body, copies) in member.copies.commits.into_iter().enumerate() {
                if member.is_remembered[body] && copies > 0 {
                    steps.push(Step::TokenIsForgotten(who, body as u8));
                }
            }
        }
    }

    fn group_steps(&self, invocation: u8, state: &State, steps: &mut Vec<Step>) {
        let Invocation { members, group, .. } = &state.invocations[usize::from(invocation)];
        let all = |phase: Phase| members.iter().all(|member| member.phase == phase);
        if all(Phase::Prepared) {
            steps.push(Step::SendsGroup(invocation));
        }
        let is_waiting = all(Phase::Grouped);
        if is_waiting {
            if group.sent < self.copies && state.again_left > 0 {
                steps.push(Step::GroupSendsAgain(invocation));
            }
            steps.push(Step::GroupGivesUp(invocation));
        }
        if group.copies == 0 {
            return;
        }
        if group.is_remembered && self.tokens_are_forgotten {
            steps.push(Step::GroupTokenIsForgotten(invocation));
        }
        let [first, second] = [0, 1].map(|key| Who { invocation, key });
        // Early or late for one key is early or late for both: one request has one time.
        let nows = [first, second].map(|who| self.nows_of(state, who));
        let nows = if nows[0].len() > 1 { nows[0] } else { nows[1] };
        for now in nows {
            for first in self.conditions(Request::Commit(0), state.key(first).record) {
                for second in self.conditions(Request::Commit(0), state.key(second).record) {
                    for reply in self.replies(is_waiting) {
                        steps.push(Step::GroupArrives {
                            invocation,
                            now: *now,
                            business: [*first, *second],
                            reply: *reply,
                        });
                    }
                }
            }
        }
    }
}
