//! How an attempt has to behave beyond what the records show: it does not stand in its own way, and
//! does not end before it knows what became of its work.

use std::collections::{HashMap, HashSet};

use lambda_idempotency::Report;
use lambda_idempotency::store::{
    ClaimAnswer, ClaimRequest, CommitAnswer, CommitRequest, CompletionCondition, FencingToken,
    GroupAnswer, GroupRequest, Seen, Status,
};

use crate::items::has_an_item_twice;
use crate::memory::{Answer, Request};
use crate::world::{MILLI, MINUTE, World};

/// Who sends a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sender {
    pub worker: usize,
    pub invocation: u64,
}

#[derive(Default)]
pub struct Conduct {
    /// Of each record that an invocation has to do with: its last request.
    last: HashMap<(u64, String), Last>,
    /// The invocations that made the tokens.
    made: HashMap<FencingToken, u64>,
    /// The records whose first message of this invocation has ended.
    ended: HashSet<(u64, String)>,
    /// The client tokens of commits that were refused, and whose senders know.
    refused: HashSet<String>,
    stalled: HashSet<u64>,
    /// What the invocations were told of their end: milliseconds since the epoch, by their clocks.
    deadlines: HashMap<u64, u64>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Last {
    /// A claim or a commit, and no answer that ends the attempt.
    Open(&'static str),
    /// A refusal, or a request that finds out.
    Closed,
}

/// An invocation starts, and is told when it ends.
pub fn starts(world: &mut World, from: Sender, deadline: u64) {
    world.conduct.deadlines.insert(from.invocation, deadline);
}

/// A claim holds until the invocation ends, and for as long as is asked for.
fn holds_long_enough(world: &mut World, from: Sender, claim: &ClaimRequest) {
    let deadline = world.conduct.deadlines[&from.invocation];
    // One that is further ahead is not believed.
    let is_believed = deadline <= claim.now.millis + 16 * MINUTE / MILLI;
    let lasting = claim.now.millis + world.setup.lease_at_least / MILLI;
    let lease = claim.lease.as_millis();
    if lease < lasting || (is_believed && lease < deadline) {
        let record_id = &claim.record_id;
        world.violate(|| format!("{record_id} is claimed for too short a time"));
    }
}

pub fn sent(world: &mut World, from: Sender, request: &Request) {
    if let Request::Claim(claim) = request {
        holds_long_enough(world, from, claim);
    }
    if let Request::Group(group) = request {
        is_well_packed(world, group);
    }
    for commit in request.commits() {
        was_not_refused(world, commit);
    }
    let conduct = &mut world.conduct;
    let last = match request {
        Request::Claim(claim) => {
            conduct.made.insert(claim.token.clone(), from.invocation);
            Last::Open("claim")
        }
        Request::Commit(_) | Request::Group(_) => {
            let commits = request.commits().into_iter();
            for completion in commits.flat_map(|commit| &commit.completion) {
                if let CompletionCondition::Free { .. } = completion.condition {
                    let token = completion.token.clone();
                    conduct.made.insert(token, from.invocation);
                }
            }
            Last::Open("commit")
        }
        Request::Release(_) | Request::Read(_) => Last::Closed,
    };
    for record_id in request.record_ids() {
        let record = (from.invocation, record_id.to_owned());
        conduct.last.insert(record, last);
    }
}

/// The answer has reached the library.
pub fn answered(world: &mut World, from: Sender, request: &Request, answer: &Answer) {
    if let (Request::Claim(claim), Answer::Claim(ClaimAnswer::Refused(_))) = (request, answer) {
        is_closed(world, from, &claim.record_id);
    }
    let answers: Vec<Option<&CommitAnswer>> = match answer {
        Answer::Commit(answer) => vec![Some(answer)],
        Answer::Group(GroupAnswer::Cancelled(answers)) => {
            answers.iter().map(Option::as_ref).collect()
        }
        _ => Vec::new(),
    };
    for (commit, answer) in request.commits().into_iter().zip(answers) {
        let is_by_record = matches!(answer, Some(CommitAnswer::RecordRefused(_)));
        if is_by_record && let Some(completion) = &commit.completion {
            is_closed(world, from, &completion.record_id);
        }
        if is_by_record || matches!(answer, Some(CommitAnswer::ConditionFailed { .. })) {
            let token = commit.client_token.clone();
            world.conduct.refused.insert(token);
        }
    }
}

fn is_closed(world: &mut World, from: Sender, record_id: &str) {
    let record = (from.invocation, record_id.to_owned());
    world.conduct.last.insert(record, Last::Closed);
}

/// What was refused is not tried again: not alone, and not to the harm of others.
fn was_not_refused(world: &mut World, commit: &CommitRequest) {
    if world.conduct.refused.contains(&commit.client_token) {
        world.violate(|| "a commit is sent again after it was refused".to_owned());
    }
}

/// A group holds several messages, no item twice, and none of which it is not known.
fn is_well_packed(world: &mut World, group: &GroupRequest) {
    let commits: Vec<_> = group.commits.iter().map(AsRef::as_ref).collect();
    if commits.len() < 2 {
        world.violate(|| "a group holds one message".to_owned());
    }
    if has_an_item_twice(&commits) {
        world.violate(|| "a group has an item twice".to_owned());
    }
    let known = world.tables.known_keys(world.setup.all_keys_known);
    let mut writes = commits.iter().flat_map(|commit| &commit.writes);
    let is_unknown = writes.any(|write| {
        let is_put = write.action().put.is_some();
        is_put && known.iter().all(|table| table != write.table())
    });
    if is_unknown {
        world.violate(|| "a group has a put on a table whose key is not known".to_owned());
    }
}

/// A claim that is refused by another one of the same invocation, though messages of one key take
/// turns there.
pub fn landed(world: &mut World, from: Sender, request: &Request, answer: &Answer) {
    let (Request::Claim(claim), Answer::Claim(ClaimAnswer::Refused(Seen::Record(record)))) =
        (request, answer)
    else {
        return;
    };
    let Some(token) = record.token.as_ref() else {
        return;
    };
    let is_rival = record.status == Status::InProgress && *token != claim.token;
    let is_own = world.conduct.made.get(token) == Some(&from.invocation);
    let ended = (from.invocation, claim.record_id.clone());
    // A copy of an earlier message's claim may have come late.
    if is_rival && is_own && !world.conduct.ended.contains(&ended) {
        let record_id = &claim.record_id;
        world.violate(|| format!("{record_id}: an invocation stands in its own way"));
    }
}

pub fn stalled(world: &mut World, invocation: u64) {
    world.conduct.stalled.insert(invocation);
}

/// Whether the work that is committed under this token is this invocation's own.
pub fn is_own(world: &World, from: Sender, token: Option<&FencingToken>) -> bool {
    token.and_then(|token| world.conduct.made.get(token)) == Some(&from.invocation)
}

/// A message that is not acknowledged leaves nothing behind: what it sent is given back, or it has
/// at least been asked for. Where time was lost that can't be done.
pub fn reported(world: &mut World, from: Sender, report: &Report) {
    let Some(record_id) = report.record_id.as_deref() else {
        return;
    };
    let record = (from.invocation, record_id.to_owned());
    let last = world.conduct.last.remove(&record);
    world.conduct.ended.insert(record);
    let was_stalled = world.conduct.stalled.contains(&from.invocation);
    if let Some(Last::Open(request)) = last
        && !report.outcome.is_acknowledged()
        && !was_stalled
    {
        let outcome = report.outcome;
        world.violate(|| format!("{record_id} is {outcome}, and its {request} was not settled"));
    }
}
