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
//! `$FINGERPRINT` stand for those of the claim. Requests beyond the last line succeed.

use std::collections::VecDeque;
use std::time::Duration;

use aws_sdk_dynamodb::Client;
use aws_sdk_dynamodb::config::{AsyncSleep, BehaviorVersion, Region, Sleep};
use lambda_idempotency::{
    Clock as _, DynamoDbStore, HandlerError, Message, Outcome, Reason, Transaction,
};
use serde_json::{Value, json};

use crate::support::wire::{Answer, Sent, Wire};
use crate::support::{
    CONSUMER, ManualClock, Tells, Told, batch_of, block_on, context, response_ids,
};

const RECORDS: &str = "records";
const EFFECTS: &str = "effects";

/// The message that the answers are about, and the one behind it.
const BAD: &str = "bad";
const HEALTHY: &str = "healthy";

/// Little, so that few requests fit into it.
const TIME: Duration = Duration::from_secs(4);

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
    wire.answer_for(BAD, answers(data));
    let idempotency = tells.builder(store, &clock).build().unwrap();
    let service = idempotency
        .sqs(|message: Message<u32>| async move {
            let effect = json!({ "id": message.delivery().message_id() });
            let transaction = Transaction::new();
            Ok::<_, HandlerError>(match message.body {
                0 => transaction,
                _ => transaction.put(EFFECTS, effect),
            })
        })
        .fingerprint_body();
    // How the record is completed differs: with writes in a transaction, without by an update.
    let body = i32::from(!data.ends_with(b"\n"));
    let records = [BAD, HEALTHY].map(|id| format!(r#"{{"messageId":"{id}","body":"{body}"}}"#));
    let batch = batch_of(&records.each_ref().map(String::as_str));
    let answer = block_on(service.process(batch, &context(clock.now(), TIME)));
    let told = tells.take(2);
    let undone = told.iter().filter(|told| !told.outcome.is_acknowledged());
    let undone: Vec<String> = undone.filter_map(|told| told.message_id.clone()).collect();
    assert_eq!(response_ids(&answer.unwrap()), undone);
    let sent = wire.take_sent();
    only_its_own_record(&sent);
    done_only_if_it_was_said(&told[0], &sent);
    if told[1].outcome != Outcome::Completed {
        // Trying again takes the time of all.
        assert_eq!(told[1].reason, Some(Reason::Deadline), "{told:?}");
        assert!(told[0].requests > 6, "{told:?}");
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

/// Every request is for the record of its own message, under one token, and conditional.
fn only_its_own_record(sent: &[Sent]) {
    assert!(sent.len() <= MOST_REQUESTS, "{} requests", sent.len());
    for id in [BAD, HEALTHY] {
        let mut tokens: Vec<&str> = Vec::new();
        for sent in sent.iter().filter(|sent| sent.message_id == id) {
            let record_id = format!("{CONSUMER}#{id}");
            let body = &sent.body;
            let action = match sent.operation.as_str() {
                "TransactWriteItems" => {
                    let actions = body["TransactItems"].as_array().unwrap();
                    assert_eq!(actions.len(), 2, "{body}");
                    let put = &actions[1]["Put"];
                    assert_eq!(put["TableName"], EFFECTS);
                    assert_eq!(put["Item"]["id"]["S"], id);
                    &actions[0]["Update"]
                }
                _ => body,
            };
            assert_eq!(action["TableName"], RECORDS);
            let values = &action["ExpressionAttributeValues"];
            let (key, token) = match sent.operation.as_str() {
                "PutItem" => (&action["Item"], &action["Item"]["claim_token"]),
                "GetItem" => (&action["Key"], &Value::Null),
                _ => (&action["Key"], &values[":token"]),
            };
            assert_eq!(key["id"]["S"], record_id.as_str());
            if sent.operation != "GetItem" {
                assert!(action["ConditionExpression"].is_string());
                tokens.push(token["S"].as_str().unwrap());
            }
        }
        tokens.dedup();
        assert!(tokens.len() <= 1, "{id}");
    }
}

/// It may be acknowledged only after a commit that succeeded, or after its record was seen completed,
/// by this attempt or with the same payload.
fn done_only_if_it_was_said(told: &Told, sent: &[Sent]) {
    let sent: Vec<&Sent> = sent.iter().filter(|sent| sent.message_id == BAD).collect();
    assert_eq!(told.requests as usize, sent.len());
    let is_commit =
        |sent: &Sent| matches!(sent.operation.as_str(), "TransactWriteItems" | "UpdateItem");
    let committed = sent.iter().any(|sent| is_commit(sent) && sent.is_success());
    let claim = &sent[0].body["Item"];
    let (token, fingerprint) = (&claim["claim_token"], &claim["validation"]);
    let is_done = |item: &Value| item["status"]["S"] == "COMPLETED";
    let is_ours = |item: &Value| item["claim_token"] == *token;
    let may_be_ours = |item: &Value| {
        let validation = &item["validation"];
        is_ours(item) || *validation == *fingerprint || validation["S"].is_null()
    };
    let seen: Vec<Value> = sent
        .iter()
        .flat_map(|sent| sent.items())
        .filter(is_done)
        .collect();
    match told.outcome {
        Outcome::Completed => {
            assert!(committed || seen.iter().any(is_ours), "{told:?} {sent:?}");
        }
        Outcome::Duplicate => {
            assert!(seen.iter().any(may_be_ours), "{told:?} {sent:?}");
            let data = |item: &Value| item["data"]["S"].as_str().map(str::to_owned);
            assert!(
                seen.iter().any(|item| data(item) == told.result),
                "{told:?} {sent:?}"
            );
        }
        // A success that can't be read is none.
        _ => assert!(
            !sent
                .iter()
                .any(|sent| is_commit(sent) && sent.is_plain_success()),
            "{told:?} {sent:?}"
        ),
    }
    // A commit is sent only for a claim that was granted, at once or by a try whose reply was lost.
    if sent.iter().any(|sent| is_commit(sent)) {
        let is_held = |item: &Value| item["status"]["S"] == "INPROGRESS" && is_ours(item);
        let granted = |sent: &&Sent| {
            let is_claim = matches!(sent.operation.as_str(), "PutItem" | "GetItem");
            is_claim && (sent.is_success() || sent.items().iter().any(is_held))
        };
        assert!(sent.iter().any(granted), "{sent:?}");
    }
}
