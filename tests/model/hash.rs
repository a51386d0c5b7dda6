//! Which states are the same to the checker.

use std::hash::{Hash, Hasher};

use crate::state::{Broken, Group, Invocation, KEYS, Key, Member, Phase, Record, SLOTS, State};

/// Two states that differ only in which invocation is which are hashed alike, and the checker visits
/// one of them: nothing in the protocol depends on the number of an invocation.
impl Hash for State {
    fn hash<H: Hasher>(&self, hasher: &mut H) {
        let Self {
            keys,
            invocations,
            begun,
            again_left,
            acknowledged,
            broken,
        } = self;
        let mut seen = [0; SLOTS];
        for (at, (seen, invocation)) in seen.iter_mut().zip(invocations).enumerate() {
            *seen = packed_invocation(invocation, at as u8, keys);
        }
        let seen = &mut seen[..usize::from(*begun)];
        seen.sort_unstable();
        let mut bits = Bits(0);
        for key in keys {
            bits.key(key);
        }
        for is_acknowledged in acknowledged.as_flattened() {
            bits.flag(*is_acknowledged);
        }
        let Broken {
            fencing,
            response,
            isolation,
        } = *broken;
        for flag in [fencing, response, isolation] {
            bits.flag(flag);
        }
        bits.push(8, u64::from(*again_left));
        bits.push(3, u64::from(*begun));
        hasher.write_u64(bits.0);
        for seen in seen {
            hasher.write_u64(*seen);
        }
    }
}

/// An invocation, and what it has of each key, in one number.
fn packed_invocation(invocation: &Invocation, at: u8, keys: &[Key; KEYS]) -> u64 {
    let Invocation { members, group } = invocation;
    let mut bits = Bits(0);
    for (member, key) in members.iter().zip(keys) {
        bits.member(member);
        bits.flag(key.record.by() == Some(at));
        bits.flag(key.written.is_some_and(|(by, _)| by == at));
    }
    let Group {
        sent,
        copies,
        is_remembered,
    } = *group;
    bits.push(2, sent.into());
    bits.push(2, copies.into());
    bits.flag(is_remembered);
    bits.0
}

/// Fields side by side. Each function takes its value apart, so that a new field can't be forgotten.
struct Bits(u64);

impl Bits {
    fn push(&mut self, width: u32, value: u64) {
        debug_assert!(value >> width == 0, "{value} in {width} bits");
        debug_assert!(self.0.leading_zeros() >= width, "no room");
        self.0 = self.0 << width | value;
    }

    fn flag(&mut self, flag: bool) {
        self.push(1, flag.into());
    }

    fn key(&mut self, key: &Key) {
        let Key {
            record,
            commits,
            written,
        } = key;
        let (status, payload, body) = match *record {
            Record::Absent => (0, 0, 0),
            Record::InProgress { by: _, payload } => (1, payload as u64, 0),
            Record::Completed {
                by: _,
                payload,
                body,
            } => (2, payload as u64, body.into()),
        };
        self.push(2, status);
        self.push(1, payload);
        self.push(1, body);
        self.push(2, (*commits).into());
        self.push(2, written.map_or(0, |(_, body)| 1 + u64::from(body)));
    }

    fn member(&mut self, member: &Member) {
        let Member {
            phase,
            mode,
            payload,
            copies,
            is_remembered,
            lease_ended,
            commit_was_sent,
            has_trouble,
        } = *member;
        let (number, body, sent) = match phase {
            Phase::Absent => (0, 0, 0),
            Phase::Claiming { sent } => (1, 0, sent),
            Phase::ReadingAfterClaim => (2, 0, 0),
            Phase::Looking => (3, 0, 0),
            Phase::Handling => (4, 0, 0),
            Phase::Prepared => (5, 0, 0),
            Phase::Grouped => (6, 0, 0),
            Phase::Committing { body, sent } => (7, body, sent),
            Phase::ReadingAfterCommit => (8, 0, 0),
            Phase::FindingOut => (9, 0, 0),
            Phase::Releasing { sent } => (10, 0, sent),
            Phase::ReadingAfterRelease => (11, 0, 0),
            Phase::Done => (12, 0, 0),
            Phase::Failed => (13, 0, 0),
            Phase::Over => (14, 0, 0),
        };
        self.push(4, number);
        self.push(1, body.into());
        self.push(2, sent.into());
        self.push(1, mode as u64);
        self.push(1, payload as u64);
        self.push(2, copies.claims.into());
        for commits in copies.commits {
            self.push(2, commits.into());
        }
        self.push(2, copies.releases.into());
        for flag in is_remembered {
            self.flag(flag);
        }
        self.flag(lease_ended);
        self.flag(commit_was_sent);
        self.flag(has_trouble);
    }
}
