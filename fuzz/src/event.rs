//! The batch event, from its bytes to the response.
//!
//! The input is an event as Lambda delivers it: `{"Records": […]}`. Its records are tried as they are,
//! and again between two healthy ones, which must be done whatever they have beside them.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::time::Duration;

use lambda_idempotency::store::Status;
use lambda_idempotency::{
    Claim, Clock as _, HandlerError, Message, Outcome, Reason, SqsBatch, Transaction,
};
use serde::de::{MapAccess, Visitor};
use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;
use serde_json::{Value, json};

use crate::support::{
    ManualClock, Memory, QUEUE, TIME, Tells, Told, batch_of, block_on, context, draws_of,
    is_foreign, response_ids,
};

/// Enough to have every kind of neighbour; more only takes longer.
const MOST_RECORDS: usize = 40;

const LINGER: Duration = Duration::from_millis(20);

/// Ids that no input comes to have by chance.
const HEALTHY: [&str; 2] = ["healthy-2f1c9d7e5b", "healthy-8a3e6f4d0c"];

/// Tries one event.
///
/// # Panics
///
/// If what is an event is refused or the other way round, if a message is lost between the batch and
/// the response, done twice, or if one of the healthy messages is not done.
pub fn event(data: &[u8]) {
    let read: Result<SqsBatch, _> = serde_json::from_slice(data);
    let Some(records) = records_of(data) else {
        // What this does not read may still be an event: a name that is not valid Unicode.
        if let Ok(batch) = read {
            let value: Result<Value, _> = serde_json::from_slice(data);
            let records = value.ok().map(|value| value["Records"].clone());
            assert!(records.is_none_or(|records| records.is_array()));
            check(data, batch, None);
        }
        return;
    };
    let batch = read.expect("an object with an array `Records` is an event");
    assert_eq!(batch.len(), records.len());
    if records.len() > MOST_RECORDS {
        return;
    }
    let records: Vec<&str> = records.iter().map(|record| record.get()).collect();
    check(data, batch, Some(&records));
    let healthy = HEALTHY.map(healthy);
    let mut among = vec![healthy[0].as_str()];
    among.extend(&records);
    among.push(&healthy[1]);
    let told = check(data, batch_of(&among), Some(&among));
    healthy_are_done(&told);
}

/// The records, read by the plain rules of `serde`.
fn records_of(data: &[u8]) -> Option<Vec<Box<RawValue>>> {
    #[derive(Deserialize)]
    struct Event {
        #[serde(rename = "Records")]
        records: Option<Vec<Box<RawValue>>>,
    }
    let is_object = data.trim_ascii_start().starts_with(b"{");
    let event: Event = serde_json::from_slice(data).ok().filter(|_| is_object)?;
    event.records
}

/// In a group of its own, which a FIFO queue needs and a standard one may have.
fn healthy(id: &str) -> String {
    json!({
        "messageId": id,
        "body": "{}",
        "attributes": { "MessageGroupId": id },
        "eventSource": "aws:sqs",
        "eventSourceARN": QUEUE,
    })
    .to_string()
}

fn healthy_are_done(told: &[Told]) {
    let (first, last) = (&told[0], &told[told.len() - 1]);
    assert_eq!(first.outcome, Outcome::Completed, "{first:?}");
    assert_eq!(first.message_id.as_deref(), Some(HEALTHY[0]));
    assert_eq!(last.message_id.as_deref(), Some(HEALTHY[1]));
    // On a FIFO queue a record whose group can't be read stands in the way of all behind it.
    if last.outcome != Outcome::Completed {
        assert_eq!(last.reason, Some(Reason::Group), "{last:?}");
        let lost = told.iter().any(|told| told.reason == Some(Reason::Decode));
        assert!(lost, "{told:?}");
    }
}

/// Processes a batch, in one of the ways to commit, and compares what was told, what is stored and what is reported with one
/// another, and with the records where they can be read.
fn check(data: &[u8], batch: SqsBatch, records: Option<&[&str]>) -> Vec<Told> {
    let (clock, tells, memory) = (ManualClock::new(), Tells::default(), Memory::default());
    let way = draws_of(data).u8(..3);
    let idempotency = tells
        .builder(memory.clone(), &clock)
        .key_attributes("effects", ["id"])
        .claim(if way == 1 {
            Claim::AtCommit
        } else {
            Claim::First
        })
        .build()
        .unwrap();
    let mut service = idempotency.sqs(|message: Message<Box<RawValue>>| async move {
        if message.body.get().contains("fail") {
            return Err(HandlerError::from("as the body wants it"));
        }
        let effect = json!({ "id": message.downstream_key("effect") });
        Ok(Transaction::new().put("effects", effect).returning(1))
    });
    if way == 2 {
        service = service.group_commits(LINGER);
    }
    let messages = batch.len();
    let answer = block_on(service.process(batch, &context(clock.now(), TIME)));
    if let Err(error) = &answer {
        assert!(error.is_event(), "{error:?}");
        if is_foreign(error) {
            assert!(tells.take(0).is_empty());
            assert!(memory.state().records.is_empty());
            return Vec::new();
        }
    }
    let told = tells.take(messages);
    let undone = || told.iter().filter(|told| !told.outcome.is_acknowledged());
    match answer {
        Ok(response) => {
            let mut seen = BTreeSet::new();
            let ids = undone().map(|told| told.message_id.clone().expect("all have ids"));
            let expected: Vec<String> = ids.filter(|id| seen.insert(id.clone())).collect();
            assert_eq!(response_ids(&response), expected);
        }
        Err(error) => {
            let nameless = undone().any(|told| told.message_id.is_none());
            assert!(nameless, "{error:?} {told:?}");
        }
    }
    stored_is_as_told(&memory, &told);
    if let Some(records) = records {
        ids_are_real(records, &told);
        groups_are_in_order(records, &told);
    }
    told
}

/// A record for each message that is done and for no other, and exactly one effect for each.
fn stored_is_as_told(memory: &Memory, told: &[Told]) {
    let state = memory.state();
    let done: BTreeSet<&str> = told
        .iter()
        .filter(|told| told.outcome.is_acknowledged())
        .map(|told| told.record_id.as_deref().expect("done under a key"))
        .collect();
    let stored: BTreeSet<&str> = state.records.keys().map(String::as_str).collect();
    assert_eq!(stored, done, "{told:?}");
    let completed = state
        .records
        .values()
        .all(|record| record.status == Status::Completed && record.data.as_deref() == Some("1"));
    assert!(completed, "{told:?}");
    assert_eq!(state.effects.len(), stored.len(), "{told:?}");
    assert!(state.effects.values().all(|times| *times == 1), "{told:?}");
    let ran = told
        .iter()
        .filter(|told| told.outcome == Outcome::Completed);
    assert_eq!(ran.count(), stored.len(), "{told:?}");
}

/// The values of all members with the name of the id: a `Value` keeps the last one only.
struct Ids(Vec<Value>);

impl<'de> Deserialize<'de> for Ids {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(Self(Vec::new()))
    }
}

impl<'de> Visitor<'de> for Ids {
    type Value = Self;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a record")
    }

    fn visit_map<A: MapAccess<'de>>(mut self, mut members: A) -> Result<Self, A::Error> {
        while let Some((name, value)) = members.next_entry::<String, Value>()? {
            if name == "messageId" {
                self.0.push(value);
            }
        }
        Ok(self)
    }
}

/// Of two ids one may be another message's.
fn has_two_ids(record: &str) -> bool {
    let ids = serde_json::from_str(record).unwrap_or(Ids(Vec::new())).0;
    let before_the_last = ids.split_last().map_or(&[][..], |(_, before)| before);
    before_the_last.iter().any(|id| !id.is_null())
}

/// A message is told of by the id that its record has, and by none if that has none, or two.
fn ids_are_real(records: &[&str], told: &[Told]) {
    for (record, told) in records.iter().zip(told) {
        // What `Value` can't hold is not compared.
        let Ok(value) = serde_json::from_str::<Value>(record) else {
            continue;
        };
        let id = value["messageId"]
            .as_str()
            .filter(|id| !id.trim().is_empty() && !has_two_ids(record));
        assert_eq!(told.message_id.as_deref(), id, "{record}");
        let readable = value["body"].is_string() && id.is_some();
        assert!(readable || !told.outcome.is_acknowledged(), "{record}");
    }
}

/// On a FIFO queue nothing of a group is started behind a message that is not done.
fn groups_are_in_order(records: &[&str], told: &[Told]) {
    let values: Result<Vec<Value>, _> = records.iter().map(|r| serde_json::from_str(r)).collect();
    let Ok(values) = values else {
        return;
    };
    let is_fifo = |value: &Value| {
        let arn = value["eventSourceARN"].as_str();
        arn.is_some_and(|arn| arn.ends_with(".fifo"))
    };
    if !values.iter().any(is_fifo) {
        return;
    }
    let mut stopped: BTreeMap<&str, bool> = BTreeMap::new();
    for (value, told) in values.iter().zip(told) {
        let Some(group) = value["attributes"]["MessageGroupId"].as_str() else {
            continue;
        };
        let stopped = stopped.entry(group).or_default();
        if *stopped {
            assert_eq!(told.outcome, Outcome::Unprocessed, "{told:?}");
        }
        *stopped |= !told.outcome.is_acknowledged();
    }
}
