//! The record reader: what a table answers that others write to, over the real store and SDK.
//!
//! Each line of the input answers one request for the record, in the order in which they are sent:
//!
//! ```text
//! 400 {"__type":"com.amazonaws.dynamodb.v20120810#ConditionalCheckFailedException","Item":{…}}
//! 200 {}
//! reset
//! ```
//!
//! A status and a body; a line without a status has 400; `reset` breaks the connection. `$TOKEN` and
//! `$FINGERPRINT` stand for those of the attempt. Requests beyond the last line succeed.
//!
//! The first line may say how messages are committed, by some of `at_commit`, `group`, `again` (they
//! were received before) and `no_writes`.

use std::collections::VecDeque;
use std::time::Duration;

use aws_sdk_dynamodb::Client;
use aws_sdk_dynamodb::config::{AsyncSleep, BehaviorVersion, Region, Sleep};
use lambda_idempotency::{
    Claim, Clock as _, DynamoDbStore, HandlerError, Message, Outcome, Reason, Transaction,
};
use serde_json::{Value, json};

use crate::support::wire::{Answer, Kind, Sent, Touch, Wire};
use crate::support::{ManualClock, Tells, Told, batch_of, block_on, context, response_ids};

const RECORDS: &str = "records";
const EFFECTS: &str = "effects";

/// The message that the answers are about, and the one behind it.
const BAD: &str = "bad";
const HEALTHY: &str = "healthy";

/// Little, so that few requests fit into it.
const TIME: Duration = Duration::from_secs(4);

const LINGER: Duration = Duration::from_millis(20);

/// More than any answers lead to in that time.
const MOST_REQUESTS: usize = 40;

/// Tries one sequence of answers.
///
/// # Panics
///
/// If the message is acknowledged although no answer says that it is done, if a request touches
/// another record than its own, or if a healthy message is not done.
pub fn record(data: &[u8]) {
    let clock = ManualClock::new();
    let tells = Tells::default();
    let (store, wire) = STORE.with(Clone::clone);
    let (way, lines) = Way::read(data);
    wire.answer_for(BAD, answers(lines));
    let idempotency = tells
        .builder(store, &clock)
        .key_attributes(EFFECTS, ["id"])
        .claim(if way.at_commit {
            Claim::AtCommit
        } else {
            Claim::First
        })
        .build()
        .unwrap();
    let mut service = idempotency
        .sqs(|message: Message<u32>| async move {
            let effect = json!({ "id": message.delivery().message_id() });
            let transaction = Transaction::new();
            Ok::<_, HandlerError>(match message.body {
                0 => transaction,
                _ => transaction.put(EFFECTS, effect),
            })
        })
        .fingerprint_body();
    if way.group {
        service = service.group_commits(LINGER);
    }
    let records = [BAD, HEALTHY].map(|id| way.record(id));
    let batch = batch_of(&records.each_ref().map(String::as_str));
    let answer = block_on(service.process(batch, &context(clock.now(), TIME)));
    let told = tells.take(2);
    let undone = told.iter().filter(|told| !told.outcome.is_acknowledged());
    let undone: Vec<String> = undone.filter_map(|told| told.message_id.clone()).collect();
    assert_eq!(response_ids(&answer.unwrap()), undone);
    let sent = wire.take_sent();
    assert!(sent.len() <= MOST_REQUESTS, "{} requests", sent.len());
    let counted: u32 = told.iter().map(|told| told.requests).sum();
    assert_eq!(counted as usize, sent.len());
    for told in &told {
        only_its_own_record(told, &sent);
        done_only_if_it_was_said(told, &sent);
    }
    // Trying again takes the time of all, and what they share a transaction with may be theirs.
    if told[1].outcome != Outcome::Completed && !way.group {
        assert_eq!(told[1].reason, Some(Reason::Deadline), "{told:?}");
        assert!(told[0].requests > 6, "{told:?}");
    }
}

/// How the messages are committed.
#[derive(Default)]
struct Way {
    at_commit: bool,
    group: bool,
    /// They were received before.
    again: bool,
    /// The handler writes nothing, so that the record is completed without a transaction.
    no_writes: bool,
}

impl Way {
    /// From the first line, if it says so; and the other lines.
    fn read(data: &[u8]) -> (Self, &[u8]) {
        let end = data.iter().position(|byte| *byte == b'\n');
        let (line, rest) = data.split_at(end.unwrap_or(data.len()));
        let mut way = Self::default();
        for word in line.split(|byte| *byte == b' ') {
            match word {
                b"at_commit" => way.at_commit = true,
                b"group" => way.group = true,
                b"again" => way.again = true,
                b"no_writes" => way.no_writes = true,
                _ => return (Self::default(), data),
            }
        }
        (way, rest)
    }

    fn record(&self, id: &str) -> String {
        json!({
            "messageId": id,
            "body": if self.no_writes { "0" } else { "1" },
            "attributes": { "ApproximateReceiveCount": if self.again { "2" } else { "1" } },
        })
        .to_string()
    }
}

thread_local! {
    /// Made once: building a client takes longer than what it is used for here.
    static STORE: (DynamoDbStore, Wire) = {
        let wire = Wire::default();
        let config = aws_sdk_dynamodb::Config::builder()
            .behavior_version(BehaviorVersion::latest())
            .region(Region::new("eu-west-1"))
            .endpoint_url("http://store.invalid")
            // Signing takes longer than all the rest.
            .allow_no_auth()
            .http_client(wire.clone())
            // Every answer comes at once; no time-out of the SDK has to pass.
            .sleep_impl(Never)
            .build();
        let store = DynamoDbStore::new(Client::from_conf(config), RECORDS).attempts(1);
        (store, wire)
    };
}

#[derive(Debug)]
struct Never;

impl AsyncSleep for Never {
    fn sleep(&self, _: Duration) -> Sleep {
        Sleep::new(std::future::pending())
    }
}

fn answers(data: &[u8]) -> VecDeque<Answer> {
    let lines = data
        .split(|byte| *byte == b'\n')
        .filter(|line| !line.is_empty());
    lines
        .map(|line| {
            if line == b"reset" {
                return Answer::Reset;
            }
            let (status, rest) = line.split_at(line.len().min(3));
            let status = std::str::from_utf8(status)
                .ok()
                .and_then(|s| s.parse().ok());
            match (status, rest.split_first()) {
                (Some(status @ 200..=599), Some((b' ', body))) => {
                    Answer::Reply(status, body.to_vec())
                }
                _ => Answer::Reply(400, line.to_vec()),
            }
        })
        .collect()
}

/// Every request for the message is for its own record, under one token, conditional, and with its
/// own writes.
fn only_its_own_record(told: &Told, sent: &[Sent]) {
    let id = told.message_id.as_deref().unwrap();
    let mut tokens: Vec<&Value> = Vec::new();
    for touch in sent.iter().flat_map(Sent::touches) {
        assert!([BAD, HEALTHY].contains(&touch.message_id));
        if touch.message_id != id {
            continue;
        }
        assert_eq!(touch.action["TableName"], RECORDS);
        if touch.kind != Kind::Read {
            assert!(touch.action["ConditionExpression"].is_string());
            tokens.extend(Some(touch.token()).filter(|token| !token.is_null()));
        }
        for effect in touch.effects {
            assert_eq!(effect["TableName"], EFFECTS);
            assert_eq!(effect["Item"]["id"]["S"], id);
        }
    }
    tokens.dedup();
    assert!(tokens.len() <= 1, "{tokens:?}");
}

/// It may be acknowledged only after a commit that succeeded, or after its record was seen completed,
/// by this attempt or with the same payload.
fn done_only_if_it_was_said(told: &Told, sent: &[Sent]) {
    let id = told.message_id.as_deref().unwrap();
    let all: Vec<(&Sent, Touch<'_>)> = sent
        .iter()
        .flat_map(|sent| sent.touches().into_iter().map(move |touch| (sent, touch)))
        .collect();
    // The bodies are equal, so each message knows the fingerprint of both.
    let fingerprint = all
        .iter()
        .find_map(|(_, touch)| touch.fingerprint()["S"].as_str());
    let own = || all.iter().filter(|(_, touch)| touch.message_id == id);
    let commits = || own().filter(|(_, touch)| touch.kind == Kind::Complete);
    let token = own().find_map(|(_, touch)| touch.token()["S"].as_str());
    let seen = |status: &str| -> Vec<Value> {
        let items = own().flat_map(|(sent, touch)| sent.items(touch));
        items.filter(|item| item["status"]["S"] == status).collect()
    };
    let is_ours = |item: &Value| item["claim_token"]["S"].as_str() == token && token.is_some();
    let done = seen("COMPLETED");
    let is_shown = !own().any(|(sent, _)| sent.is_ambiguous());
    match told.outcome {
        Outcome::Completed | Outcome::Duplicate if !is_shown => {}
        Outcome::Completed => {
            let committed = commits().any(|(sent, _)| sent.is_success());
            assert!(committed || done.iter().any(is_ours), "{told:?} {sent:?}");
        }
        Outcome::Duplicate => {
            let may_be_ours = |item: &&Value| match item["validation"]["S"].as_str() {
                Some(stored) => is_ours(item) || fingerprint.is_none_or(|ours| ours == stored),
                None => true,
            };
            let data = |item: &Value| item["data"]["S"].as_str().map(str::to_owned);
            let mut done = done.iter().filter(may_be_ours);
            assert!(
                done.any(|item| data(item) == told.result),
                "{told:?} {sent:?}"
            );
        }
        // A success that can't be read is none.
        _ => {
            let committed = commits().any(|(sent, _)| sent.is_plain_success());
            assert!(!committed, "{told:?} {sent:?}");
        }
    }
    // What was claimed is committed only if the claim was granted, at once or by a try whose reply was
    // lost.
    let mut claims = own()
        .filter(|(_, touch)| touch.kind == Kind::Claim)
        .peekable();
    if is_shown && claims.peek().is_some() && commits().next().is_some() {
        let granted = claims.any(|(sent, _)| sent.is_success());
        assert!(
            granted || seen("INPROGRESS").iter().any(is_ours),
            "{sent:?}"
        );
    }
}
