//! What is modelled: how many deliveries, which faults, which modes.

use std::sync::Arc;

use crate::code::{Code, Conditional, View};
use crate::mutation::Mutation;
use crate::state::{Member, Mode, Payload, Record, State, Who};

/// What of the states is checked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Checked {
    /// What has to hold in each.
    Invariants,
    /// The same, but for this one.
    InvariantsBut(&'static str),
    /// That each message completes once faults end.
    Liveness,
    /// That what the model is for comes up in it at all.
    Coverage,
}

/// A size of the model, and what may happen in it.
#[derive(Clone, Debug)]
pub(crate) struct Protocol {
    /// Keys that messages have: one or two.
    pub(crate) keys: u8,
    /// Deliveries of a batch, in all.
    pub(crate) deliveries: u8,
    /// Invocations that run at once. A stalled one counts.
    pub(crate) workers: u8,
    /// Copies of one request: the first, and those that are sent again.
    pub(crate) copies: u8,
    /// Times that a request is sent again, in all.
    pub(crate) again: u8,
    pub(crate) modes: Vec<Mode>,
    /// Payloads that messages of the first key have.
    pub(crate) payloads: Vec<Payload>,
    /// Payloads are compared.
    pub(crate) fingerprints: bool,
    /// Fast clocks take living leases for ended ones.
    pub(crate) clocks_differ: bool,
    /// A business condition may fail, with an alternative or without.
    pub(crate) conditions_fail: bool,
    /// A refusal may come without the record, so that it has to be read.
    pub(crate) records_are_hidden: bool,
    /// The store may forget the client token of a commit.
    pub(crate) tokens_are_forgotten: bool,
    /// Invocations may end at any time. Without it they may still stall at any time, for ever.
    pub(crate) crashes: bool,
    /// At-commit: the commits of one batch can go together.
    pub(crate) groups: bool,
    pub(crate) mutation: Option<Mutation>,
    /// Which properties are checked.
    pub(crate) checked: Checked,
    /// Of these only this one.
    pub(crate) only: Option<&'static str>,
    code: Arc<Code>,
    completed_is_final: bool,
}

impl Protocol {
    /// One key, every fault, the claim first.
    pub(crate) fn one_key(deliveries: u8) -> Self {
        Self {
            keys: 1,
            deliveries,
            workers: deliveries,
            copies: 2,
            again: u8::MAX,
            modes: vec![Mode::ClaimFirst],
            payloads: vec![Payload::Original],
            fingerprints: true,
            clocks_differ: false,
            conditions_fail: true,
            records_are_hidden: true,
            tokens_are_forgotten: true,
            crashes: true,
            groups: false,
            mutation: None,
            checked: Checked::Invariants,
            only: None,
            code: Arc::new(Code::asked(true, None)),
            completed_is_final: true,
        }
        .asked()
    }

    /// Two keys, whose messages come alone or in one batch, and can be committed in one transaction.
    pub(crate) fn group(deliveries: u8) -> Self {
        Self {
            modes: vec![Mode::AtCommit],
            groups: true,
            ..Self::batches(deliveries)
        }
    }

    /// Two keys, whose messages come alone or in one batch.
    pub(crate) fn batches(deliveries: u8) -> Self {
        Self {
            keys: 2,
            ..Self::one_key(deliveries)
        }
    }

    /// Asks the code again, after a change of what its answers depend on.
    pub(crate) fn asked(mut self) -> Self {
        let code = Code::asked(self.fingerprints, self.mutation);
        self.completed_is_final =
            code.completed_is_final() && self.mutation != Some(Mutation::MarkerApart);
        self.code = Arc::new(code);
        self
    }

    pub(crate) fn mutated(mut self, mutation: Mutation) -> Self {
        self.mutation = Some(mutation);
        self.asked()
    }

    pub(crate) fn is(&self, mutation: Mutation) -> bool {
        self.mutation == Some(mutation)
    }

    pub(crate) fn code(&self) -> &Code {
        &self.code
    }

    /// Whether requests that arrive at a completed record can be forgotten: they change nothing.
    pub(crate) fn completed_is_final(&self) -> bool {
        self.completed_is_final
    }

    /// The record of the attempt's key as the attempt sees it.
    pub(crate) fn view(&self, state: &State, who: Who) -> Option<View> {
        let mine = state.member(who);
        let (is_completed, by, payload) = match state.key(who).record {
            Record::Absent => return None,
            Record::InProgress { by, payload } => (false, by, payload),
            Record::Completed { by, payload, .. } => (true, by, payload),
        };
        let holder = state.member(Who {
            invocation: by,
            key: who.key,
        });
        Some(View {
            is_completed,
            is_mine: by == who.invocation,
            is_same_payload: payload == mine.payload,
            lease_ended: !is_completed && holder.lease_ended,
        })
    }

    /// How the attempt's commit completes its record.
    pub(crate) fn completion(member: &Member) -> Conditional {
        match member.mode {
            Mode::ClaimFirst => Conditional::CompleteHeld,
            Mode::AtCommit => Conditional::CompleteFree,
        }
    }
}
