//! What has to be true, whatever goes wrong. Looked at after every request that lands, at every
//! start of a handler, at every report.
//!
//! It counts what is in the ledger and compares records with one another; none of the library's
//! own conditions is asked.

use std::collections::BTreeMap;

use lambda_idempotency::store::{CompletionCondition, FencingToken, Moment, Record, Status};
use lambda_idempotency::{Outcome, Reason, Report};

use crate::clock::START;
use crate::conduct::{self, Sender};
use crate::expressions::number;
use crate::fingerprint;
use crate::memory::Request;
use crate::order::{Order, Work};
use crate::setup::Modes;
use crate::world::{MILLI, World};

pub const CONSUMER: &str = "sim";

/// Without faults no message needs more requests: a claim or a look, three transactions, and a
/// release or a read.
const MOST_REQUESTS: u64 = 5;

/// The groups that a message may be sent in before it goes alone. Those of several messages are
/// counted on one.
const MOST_GROUPS: u64 = 3;

#[derive(Default)]
pub struct Oracle {
    running: Vec<Running>,
    runs: u64,
}

/// A handler that is running.
struct Running {
    run: u64,
    invocation: u64,
    key: String,
    /// When the lease ends under which it started, in true time.
    lease_ends: u64,
}

pub fn record_id(key: &str) -> String {
    format!("{CONSUMER}#{key}")
}

/// Of a record that is past its retention: to everybody it is no record.
const PAST: &str = "past";

/// A record of this key was completed so long ago that its retention has ended.
pub fn had_another_life(world: &mut World, key: &str) {
    let mut record = Record::new(Status::Completed);
    record.token = Some(FencingToken::new(PAST));
    record.expiration = Some(START - 24 * 60 * 60);
    record.data = Some("\"another life's\"".to_owned());
    world.memory.put_record(record_id(key), record);
    world.counts.add("messages", "with a record of the past");
}

fn is_past(record: &Record) -> bool {
    record
        .token
        .as_ref()
        .is_some_and(|token| token.as_str() == PAST)
}

fn record_of<'w>(world: &'w World, key: &str) -> Option<&'w Record> {
    let record = world.memory.record(&record_id(key));
    record.filter(|record| !is_past(record))
}

fn is_completed(record: Option<&Record>) -> bool {
    record.is_some_and(|record| record.status == Status::Completed)
}

/// Whether the record says that this very order is done.
fn is_done(world: &World, order: &Order) -> bool {
    let record = record_of(world, &order.key);
    is_completed(record) && !contradicts(world, order)
}

/// Whether the key is completed by another payload.
pub fn contradicts(world: &World, order: &Order) -> bool {
    let record = record_of(world, &order.key).filter(|record| record.status == Status::Completed);
    let stored = record.and_then(|record| record.fingerprint.as_ref());
    world.setup.fingerprints
        && stored.is_some_and(|stored| *stored != fingerprint::of(&order.payload))
}

pub fn after_landing(world: &mut World, request: &Request, before: &[(String, Option<Record>)]) {
    let mut keys: Vec<String> = Vec::new();
    for (record_id, before) in before {
        let after = world.memory.record(record_id);
        let after = after.filter(|record| !is_past(record)).cloned();
        let before = before.as_ref().filter(|record| !is_past(record));
        if let Err(what) = transition(world, request, record_id, before, after.as_ref()) {
            world.violate(|| format!("{record_id}: {what}"));
        }
        let key = record_id
            .split_once('#')
            .map_or(record_id.as_str(), |(_, key)| key);
        if !is_completed(before) && is_completed(after.as_ref()) {
            let applied = world.memory.item(&world.tables.ledger(), key).is_some();
            let what = if applied {
                "effects"
            } else {
                "completed without writes"
            };
            world.counts.add("messages", what);
            in_order(world, key);
        }
        keys.push(key.to_owned());
    }
    let entries = world.tables.entries();
    for write in request.writes() {
        if let Some(put) = write
            .action()
            .put
            .as_ref()
            .filter(|put| put.table_name == entries)
        {
            keys.push(put.item["id"].as_s().unwrap().clone());
        }
    }
    let mut commits = request.commits().into_iter();
    if commits.any(|commit| commit.completion.is_none()) {
        world.violate(|| "a commit goes without its record".to_owned());
    }
    for key in keys {
        if let Err(what) = effect(world, &key) {
            world.violate(|| format!("{key}: {what}"));
        }
    }
}

/// A record in the words of a violation: without tokens, which are other ones in each run.
fn now(record: Option<&Record>) -> &'static str {
    match record.map(|record| record.status) {
        None => "is gone",
        Some(Status::Completed) => "is completed by another",
        Some(_) => "is held by another",
    }
}

/// Whether this request may have changed a record so.
fn transition(
    world: &mut World,
    request: &Request,
    record_id: &str,
    before: Option<&Record>,
    after: Option<&Record>,
) -> Result<(), String> {
    if before == after {
        return Ok(());
    }
    let (token, claims_at) = match request {
        Request::Claim(claim) => (&claim.token, Some(claim.now)),
        Request::Release(release) => (&release.token, None),
        Request::Commit(_) | Request::Group(_) => {
            let commits = request.commits().into_iter();
            let mut completions = commits.flat_map(|commit| &commit.completion);
            let Some(completion) = completions.find(|c| c.record_id == record_id) else {
                return Err("changed by a commit that does not name it".to_owned());
            };
            let now = match completion.condition {
                CompletionCondition::Free { now } => Some(now),
                _ => None,
            };
            (&completion.token, now)
        }
        Request::Read(_) => return Err("changed by a read".to_owned()),
    };
    let Some(before) = before else {
        return match claims_at {
            Some(_) => Ok(()),
            None => Err("made by a request that needs one".to_owned()),
        };
    };
    if before.status == Status::Completed {
        return Err(format!("it was completed, and {}", now(after)));
    }
    let is_holder = before.token.as_ref() == Some(token);
    match (is_holder, after) {
        (true, None) if matches!(request, Request::Release(_)) => Ok(()),
        (true, Some(after)) if after.token == before.token => Ok(()),
        (false, Some(_)) => taken_over(world, before, claims_at),
        _ => Err(format!("another attempt held it, and {}", now(after))),
    }
}

fn taken_over(world: &mut World, before: &Record, at: Option<Moment>) -> Result<(), String> {
    world.counts.add("interruptions", "takeover");
    let lease = before.lease.map(|lease| lease.as_millis());
    let (Some(lease), Some(at)) = (lease, at) else {
        return Err("taken from its holder".to_owned());
    };
    let true_now = START * 1_000 + world.now / MILLI;
    if lease >= at.millis {
        return Err("taken from its holder while the lease lives".to_owned());
    }
    if world.setup.clocks_are_equal() && lease >= true_now {
        return Err("taken from its holder too early, and all clocks are equal".to_owned());
    }
    Ok(())
}

/// The ledger and the record say the same of a key.
fn effect(world: &World, key: &str) -> Result<(), String> {
    let tables = &world.tables;
    let counted = world.memory.item(&tables.ledger(), key);
    let count = counted.map_or(0, |item| number(&item["count"]));
    let record = record_of(world, key);
    if count > 1 {
        return Err(format!("applied {count} times"));
    }
    let Some(record) = record.filter(|record| record.status == Status::Completed) else {
        return match count {
            0 => Ok(()),
            _ => Err("applied, and its record is not completed".to_owned()),
        };
    };
    let orders = world.queue.messages.iter().map(|message| &message.order);
    let Some(order) = orders.into_iter().find(|order| order.key == key) else {
        return Err("nobody ordered it".to_owned());
    };
    if count == 0 {
        return match &order.work {
            Work::Nothing => Ok(()),
            Work::Profile { id, version } => {
                let profile = world.memory.item(&tables.profiles(), id);
                let stored = profile.map(|item| number(&item["version"]));
                match stored {
                    Some(stored) if stored >= i64::try_from(*version).unwrap() => Ok(()),
                    _ => Err("completed as stale, and the stored version is older".to_owned()),
                }
            }
            _ => Err("completed, and not applied".to_owned()),
        };
    }
    let Some(entry) = world.memory.item(&tables.entries(), key) else {
        return Err("applied without its entry".to_owned());
    };
    let text = |name: &str| entry[name].as_s().unwrap();
    if world.setup.fingerprints
        && record.fingerprint.as_ref() != Some(&fingerprint::of(text("payload")))
    {
        return Err("the record has the fingerprint of another payload".to_owned());
    }
    let result = serde_json::to_string(text("result")).unwrap();
    let expected = world.setup.stores_results.then_some(&result);
    if record.data.as_ref() != expected {
        return Err("the stored result is another attempt's".to_owned());
    }
    Ok(())
}

/// In a FIFO queue: everything before it in its group is done.
fn in_order(world: &mut World, key: &str) {
    if !world.setup.is_fifo {
        return;
    }
    let messages = &world.queue.messages;
    let done = messages
        .iter()
        .position(|message| message.order.key == key && is_done(world, &message.order));
    let Some(done) = done else {
        return;
    };
    let group = &messages[done].group;
    let overtaken = (0..done).find(|at| {
        messages[*at].group == *group
            && !world.queue.is_dead(*at)
            && !is_done(world, &messages[*at].order)
    });
    if let Some(overtaken) = overtaken {
        let (done, overtaken) = (messages[done].id.clone(), messages[overtaken].id.clone());
        world.violate(|| format!("{done} was done before {overtaken} of its group"));
    }
}

/// A handler starts for this key. The number names its run.
pub fn handler_starts(world: &mut World, by: Sender, key: &str) -> (u64, Option<FencingToken>) {
    let now = world.now;
    let holder = record_of(world, key).filter(|record| record.status == Status::InProgress);
    let token = holder.and_then(|record| record.token.clone());
    let lease = holder.and_then(|record| record.lease);
    let lease_ends = lease.map_or(0, |lease| {
        lease.as_millis().saturating_sub(START * 1_000) * MILLI
    });
    let mut others = world.oracle.running.iter();
    if others.any(|other| other.key == key && other.invocation == by.invocation) {
        world.violate(|| format!("{key}: two handlers run at once in one batch"));
    }
    if world.setup.modes == Modes::First && world.setup.clocks_are_equal() {
        if lease_ends < now {
            world.violate(|| format!("{key}: a handler starts without a claim that lives"));
        }
        let mut others = world.oracle.running.iter();
        if others.any(|other| other.key == key && other.lease_ends > now) {
            world.violate(|| format!("{key}: two handlers run while the first one's lease lives"));
        }
    }
    world.oracle.runs += 1;
    let run = world.oracle.runs;
    world.oracle.running.push(Running {
        run,
        invocation: by.invocation,
        key: key.to_owned(),
        lease_ends,
    });
    (run, token)
}

pub fn handler_ended(world: &mut World, run: u64) {
    world.oracle.running.retain(|running| running.run != run);
}

/// The library says what became of a message.
pub fn reported(
    world: &mut World,
    from: Sender,
    message: usize,
    started_in_peace: bool,
    report: &Report,
) {
    world.counts.add("outcomes", report.outcome.as_str());
    let order = world.queue.messages[message].order.clone();
    let id = world.queue.messages[message].id.clone();
    if report.message_id.as_deref() != Some(&id) {
        world.violate(|| format!("{id} is reported as {:?}", report.message_id));
    }
    if report.outcome.is_acknowledged() {
        if !is_done(world, &order) {
            world.violate(|| format!("{id} is {} and its record is not", report.outcome));
        }
        let stored = record_of(world, &order.key).and_then(|record| record.data.clone());
        if report.result != stored {
            world.violate(|| {
                format!(
                    "{id} has the result {:?}, stored is {stored:?}",
                    report.result
                )
            });
        }
        let holder = record_of(world, &order.key).and_then(|record| record.token.as_ref());
        if report.outcome == Outcome::Completed && !conduct::is_own(world, from, holder) {
            world.violate(|| format!("{id} is completed, by another invocation"));
        }
        let counted = world
            .memory
            .item(&world.tables.ledger(), &order.key)
            .is_some();
        let is_stale = report.reason == Some(Reason::Stale);
        if is_stale && counted && world.setup.stores_results {
            world.violate(|| format!("{id} is stale, and its work is applied"));
        }
    }
    if report.outcome == Outcome::Skipped || report.outcome == Outcome::Unprotected {
        world.violate(|| format!("{id} is {}: nobody asked for that", report.outcome));
    }
    let most = match started_in_peace {
        true if world.setup.may_group() => MOST_REQUESTS + MOST_GROUPS,
        true => MOST_REQUESTS,
        false => 40 + 4 * report.duration.as_secs(),
    };
    if u64::from(report.requests) > most {
        world.violate(|| format!("{id} took {} requests", report.requests));
    }
}

/// Everything is over.
pub fn at_the_end(world: &mut World) {
    if !world.queue.is_done() {
        let left = world.queue.not_done().join(", ");
        world.violate(|| format!("not done, hours after the last fault: {left}"));
        return;
    }
    let mut balances: BTreeMap<String, i64> = BTreeMap::new();
    let mut seen = Vec::new();
    let mut wrong = None;
    for at in 0..world.queue.messages.len() {
        let order = &world.queue.messages[at].order;
        if world.queue.is_dead(at) != contradicts(world, order)
            || !is_completed(record_of(world, &order.key))
        {
            wrong = Some(format!(
                "{} has not come to its end",
                world.queue.messages[at].id
            ));
        }
        if seen.contains(&&order.key) {
            continue;
        }
        seen.push(&order.key);
        let entry = world.memory.item(&world.tables.entries(), &order.key);
        let body = entry.map(|entry| entry["body"].as_s().unwrap().as_str());
        match (&order.work, body) {
            (Work::Deposit { account, amount }, Some("deposited")) => {
                *balances.entry(account.clone()).or_default() += i64::try_from(*amount).unwrap();
            }
            (Work::Withdraw { account, amount }, Some("paid")) => {
                *balances.entry(account.clone()).or_default() -= i64::try_from(*amount).unwrap();
            }
            _ => {}
        }
    }
    for (account, expected) in balances {
        let item = world.memory.item(&world.tables.accounts(), &account);
        let balance = item.map_or(0, |item| number(&item["balance"]));
        if balance != expected || balance < 0 {
            wrong = Some(format!(
                "the balance of {account} is {balance}, not {expected}"
            ));
        }
    }
    if let Some(wrong) = wrong {
        world.violate(|| wrong);
    }
}
