//! One state of everything: the records, the requests on their way, and what each invocation does.

/// Keys of the model. Each message has one of them.
pub(crate) const KEYS: usize = 2;
/// Invocations that a state has room for; the liveness check needs one more than the deliveries.
pub(crate) const SLOTS: usize = 5;
/// Bodies that one commit can have: the work, or what was given as its alternative.
pub(crate) const BODIES: usize = 2;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct State {
    pub(crate) keys: [Key; KEYS],
    pub(crate) invocations: [Invocation; SLOTS],
    /// How many of them have begun.
    pub(crate) begun: u8,
    /// How often a request may still be sent again.
    pub(crate) again_left: u8,
    /// The messages that are deleted from the queue, by key and payload.
    pub(crate) acknowledged: [[bool; 2]; KEYS],
    pub(crate) broken: Broken,
}

/// Invariants that are about a step, not about a state, and were broken by one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Broken {
    /// A record was changed by one that neither held it nor was allowed to take it.
    pub(crate) fencing: bool,
    /// A response left a message out that is not done, or named one twice.
    pub(crate) response: bool,
    /// A message failed, and nothing had gone wrong with it.
    pub(crate) isolation: bool,
}

/// The record of one key, and the business writes that belong to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Key {
    pub(crate) record: Record,
    /// Transactions with business writes that were applied; counted up to two.
    pub(crate) commits: u8,
    /// Whose writes, and which body of theirs, were applied last.
    pub(crate) written: Option<(u8, u8)>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Record {
    Absent,
    InProgress { by: u8, payload: Payload },
    Completed { by: u8, payload: Payload, body: u8 },
}

/// What a message says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Payload {
    Original,
    /// Another payload under the same key.
    Other,
}

/// When an attempt takes its key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mode {
    ClaimFirst,
    AtCommit,
}

/// One invocation with its batch: at most one message of each key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Invocation {
    pub(crate) members: [Member; KEYS],
    pub(crate) group: Group,
}

/// The commit of several messages in one transaction.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Group {
    /// Times that the request was sent.
    pub(crate) sent: u8,
    /// Copies of it that have not arrived.
    pub(crate) copies: u8,
    /// The store remembers that it applied it.
    pub(crate) is_remembered: bool,
}

/// One message of an invocation: an attempt, with a fencing token of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Member {
    pub(crate) phase: Phase,
    pub(crate) mode: Mode,
    pub(crate) payload: Payload,
    pub(crate) copies: Copies,
    /// The store remembers the client token of each body's commit as applied.
    pub(crate) is_remembered: [bool; BODIES],
    /// The lease of its claim has ended.
    pub(crate) lease_ended: bool,
    pub(crate) commit_was_sent: bool,
    /// Something went wrong with this very message.
    pub(crate) has_trouble: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Request {
    Claim,
    Commit(u8),
    Release,
}

/// Copies of an attempt's requests that have not arrived. One that never does is lost.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Copies {
    pub(crate) claims: u8,
    pub(crate) commits: [u8; BODIES],
    pub(crate) releases: u8,
}

/// What an attempt does. `sent` counts the copies of the request that it waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Phase {
    /// Not in the batch.
    Absent,
    Claiming {
        sent: u8,
    },
    /// The claim was refused, and the answer did not show the record.
    ReadingAfterClaim,
    /// At-commit, received before: is it done?
    Looking,
    Handling,
    /// The handler is done; whether its writes go alone or in a group is open.
    Prepared,
    Grouped,
    Committing {
        body: u8,
        sent: u8,
    },
    /// The commit was refused, and the answer did not show the record.
    ReadingAfterCommit,
    /// At-commit: did the commit land after all?
    FindingOut,
    Releasing {
        sent: u8,
    },
    /// The release was refused, and the answer did not show the record.
    ReadingAfterRelease,
    Done,
    Failed,
    /// The invocation has answered, or crashed.
    Over,
}

/// One attempt: which invocation, which key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Who {
    pub(crate) invocation: u8,
    pub(crate) key: u8,
}

impl State {
    pub(crate) fn initial(again: u8) -> Self {
        Self {
            keys: [Key {
                record: Record::Absent,
                commits: 0,
                written: None,
            }; KEYS],
            invocations: [Invocation::NONE; SLOTS],
            begun: 0,
            again_left: again,
            acknowledged: [[false; 2]; KEYS],
            broken: Broken::default(),
        }
    }

    pub(crate) fn count_again(&mut self) {
        if self.again_left < u8::MAX {
            self.again_left -= 1;
        }
    }

    pub(crate) fn member(&self, who: Who) -> &Member {
        &self.invocations[usize::from(who.invocation)].members[usize::from(who.key)]
    }

    pub(crate) fn member_mut(&mut self, who: Who) -> &mut Member {
        &mut self.invocations[usize::from(who.invocation)].members[usize::from(who.key)]
    }

    pub(crate) fn key(&self, who: Who) -> &Key {
        &self.keys[usize::from(who.key)]
    }

    /// Each attempt that has begun.
    pub(crate) fn attempts(&self) -> impl Iterator<Item = Who> + use<> {
        let keys = KEYS as u8;
        (0..self.begun)
            .flat_map(move |invocation| (0..keys).map(move |key| Who { invocation, key }))
    }
}

impl Record {
    pub(crate) fn by(self) -> Option<u8> {
        match self {
            Self::Absent => None,
            Self::InProgress { by, .. } | Self::Completed { by, .. } => Some(by),
        }
    }

    pub(crate) fn is_completed(self) -> bool {
        matches!(self, Self::Completed { .. })
    }
}

impl Invocation {
    pub(crate) const NONE: Self = Self {
        members: [Member::absent(); KEYS],
        group: Group {
            sent: 0,
            copies: 0,
            is_remembered: false,
        },
    };
}

impl Member {
    const fn absent() -> Self {
        Self {
            phase: Phase::Absent,
            mode: Mode::ClaimFirst,
            payload: Payload::Original,
            copies: Copies {
                claims: 0,
                commits: [0; BODIES],
                releases: 0,
            },
            is_remembered: [false; BODIES],
            lease_ended: false,
            commit_was_sent: false,
            has_trouble: false,
        }
    }

    pub(crate) fn over() -> Self {
        Self {
            phase: Phase::Over,
            ..Self::absent()
        }
    }

    /// Whether the invocation still has to do something for this message.
    pub(crate) fn is_running(&self) -> bool {
        !matches!(
            self.phase,
            Phase::Absent | Phase::Done | Phase::Failed | Phase::Over
        )
    }
}

impl Copies {
    pub(crate) fn of_mut(&mut self, request: Request) -> &mut u8 {
        match request {
            Request::Claim => &mut self.claims,
            Request::Commit(body) => &mut self.commits[usize::from(body)],
            Request::Release => &mut self.releases,
        }
    }

    pub(crate) fn is_none(self) -> bool {
        self == Self::default()
    }
}
