//! How the steps read in a history.

use lambda_idempotency::store::{
    ClaimAnswer, CommitAnswer, CommitRequest, CompletionCondition, GroupAnswer, Lease, Record,
    ReleaseAnswer, Seen, StoreError,
};

use crate::clock::START;
use crate::conduct::Sender;
use crate::faults::Plan;
use crate::memory::{Answer, Request};
use crate::world::World;

impl Request {
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Claim(_) => "claims",
            Self::Commit(_) => "commits",
            Self::Group(_) => "groups of commits",
            Self::Release(_) => "releases",
            Self::Read(_) => "reads",
        }
    }
}

pub fn sent(world: &mut World, from: Sender, request: &Request, plan: &Plan) {
    if !world.is_recorded() {
        return;
    }
    let what = told(world, request);
    let fault = match plan.fault {
        Some(fault) => format!("  !! {fault}"),
        None => String::new(),
    };
    world.note(&worker(from.worker), || format!("sends {what}{fault}"));
}

pub fn landed(world: &mut World, from: Sender, request: &Request, answer: &Answer, is_copy: bool) {
    if !world.is_recorded() {
        return;
    }
    let what = told(world, request);
    let answer = answered(world, answer);
    let copy = if is_copy { " (a copy)" } else { "" };
    world.note("store", || {
        format!("{what} of {}{copy}: {answer}", worker(from.worker))
    });
}

pub fn worker(number: usize) -> String {
    if number == usize::MAX {
        return "a rival".to_owned();
    }
    format!("worker {number}")
}

/// A request with stable names for its tokens.
fn told(world: &mut World, request: &Request) -> String {
    match request {
        Request::Claim(claim) => {
            let token = world.name(claim.token.as_str());
            let lease = lease(Some(claim.lease));
            format!("claim {} {token}{lease}", claim.record_id)
        }
        Request::Commit(commit) => committing(world, commit),
        Request::Group(group) => {
            let token = world.name(&group.client_token);
            let commits = group.commits.iter();
            let commits: Vec<String> = commits.map(|commit| committing(world, commit)).collect();
            format!("group {token} of [{}]", commits.join("; "))
        }
        Request::Release(release) => {
            let token = world.name(release.token.as_str());
            format!("release {} {token}", release.record_id)
        }
        Request::Read(record_id) => format!("read {record_id}"),
    }
}

fn committing(world: &mut World, commit: &CommitRequest) -> String {
    let number = commit
        .client_token
        .rsplit_once('-')
        .map_or("", |(_, number)| number);
    let writes = commit.writes.len();
    match &commit.completion {
        Some(completion) => {
            let token = world.name(completion.token.as_str());
            let condition = match completion.condition {
                CompletionCondition::Held => "held",
                _ => "free",
            };
            let data = completion.data.as_deref().unwrap_or("no result");
            let id = &completion.record_id;
            format!("commit {id} {token}-{number} if {condition}, {writes} writes, {data}")
        }
        None => format!("commit without a record, {writes} writes"),
    }
}

fn answered(world: &mut World, answer: &Answer) -> String {
    match answer {
        Answer::Claim(ClaimAnswer::Claimed) => "claimed".to_owned(),
        Answer::Commit(answer) => of_commit(world, answer),
        Answer::Group(GroupAnswer::Committed) => "all committed".to_owned(),
        Answer::Group(GroupAnswer::Cancelled(answers)) => {
            let answers = answers.iter().map(|answer| match answer {
                Some(answer) => of_commit(world, answer),
                None => "not to blame".to_owned(),
            });
            format!("cancelled: [{}]", answers.collect::<Vec<_>>().join("; "))
        }
        Answer::Group(GroupAnswer::Undecided(error)) => format!("undecided: {error}"),
        Answer::Release(ReleaseAnswer::Released) => "released".to_owned(),
        Answer::Claim(ClaimAnswer::Refused(seen))
        | Answer::Release(ReleaseAnswer::Refused(seen)) => {
            format!("refused by {}", shown(world, seen))
        }
        Answer::Claim(ClaimAnswer::Failed(error))
        | Answer::Group(GroupAnswer::Failed(error))
        | Answer::Release(ReleaseAnswer::Failed(error))
        | Answer::Read(Err(error)) => failed(error),
        Answer::Read(Ok(seen)) => shown(world, seen),
        other => format!("{other:?}"),
    }
}

fn of_commit(world: &mut World, answer: &CommitAnswer) -> String {
    match answer {
        CommitAnswer::Committed => "committed".to_owned(),
        CommitAnswer::RecordRefused(seen) => format!("refused by {}", shown(world, seen)),
        CommitAnswer::ConditionFailed { failed, .. } => format!("conditions of {failed:?} failed"),
        CommitAnswer::Impossible { error, .. }
        | CommitAnswer::TokenReused(error)
        | CommitAnswer::Failed(error) => failed(error),
        other => format!("{other:?}"),
    }
}

fn failed(error: &StoreError) -> String {
    format!("{:?}: {error}", error.failure())
}

fn shown(world: &mut World, seen: &Seen) -> String {
    match seen {
        Seen::Record(record) => recorded(world, record),
        Seen::Unreadable(problem) => problem.clone(),
        _ => "no record".to_owned(),
    }
}

fn recorded(world: &mut World, record: &Record) -> String {
    let token = match &record.token {
        Some(token) => world.name(token.as_str()),
        None => "no token".to_owned(),
    };
    let status = record.status.as_str();
    format!("{status} {token}{}", lease(record.lease))
}

fn lease(lease: Option<Lease>) -> String {
    match lease {
        Some(lease) => {
            let start = i64::try_from(START * 1_000).unwrap();
            let millis = i64::try_from(lease.as_millis()).unwrap() - start;
            let sign = if millis < 0 { "-" } else { "" };
            let millis = millis.unsigned_abs();
            format!(" until {sign}{}.{:03}", millis / 1_000, millis % 1_000)
        }
        None => String::new(),
    }
}
