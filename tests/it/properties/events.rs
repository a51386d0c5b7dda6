//! Events: garbage never panics, is never reported by an id that is not there, and never changes
//! what becomes of the messages beside it.

use std::sync::{Arc, Mutex};

use aws_lambda_events::sqs::SqsBatchResponse;
use lambda_idempotency::{Error, HandlerError, Message, Outcome, Report, SqsBatch};
use proptest::prelude::*;
use serde_json::{Value, json};

use super::{Yes, any_value, builder, check};
use crate::support::{Mode, Payment, Record, context};

const FIELDS: [&str; 9] = [
    "messageId",
    "receiptHandle",
    "body",
    "attributes",
    "messageAttributes",
    "eventSource",
    "eventSourceARN",
    "awsRegion",
    "md5OfBody",
];

/// A record of which a few fields are missing or hold anything.
fn mutated() -> impl Strategy<Value = Value> {
    let field = prop::sample::select(&FIELDS[..]);
    let value = prop::option::of(any_value());
    prop::collection::vec((field, value), 1..4).prop_map(|changes| {
        let mut record = Record::payment("bad", "p-bad");
        for (field, value) in changes {
            record = match value {
                Some(value) => record.with(field, value),
                None => record.without(field),
            };
        }
        record.0
    })
}

/// Something in a record's place, as text: some of it no `Value` can hold.
fn garbage() -> impl Strategy<Value = String> {
    let texts = [
        r#"{"messageId":"bad","body":"\ud83d"}"#,
        r#"{"messageId":"bad","messageId":"worse","body":"{}"}"#,
        r#"{"messageId":"\udc00","body":"{}"}"#,
        r#"{"messageId":"bad","body":"{}","attributes":{"a":1,"a":2}}"#,
        r#"{"messageId":"bad","body":"{}","attributes":{"SentTimestamp":1e999}}"#,
        r#"{"messageId":"bad","body":"{}","messageAttributes":{"k":{"stringValue":"\ud83d"}}}"#,
        "1e999",
        "[[[[[[[[]]]]]]]]",
    ];
    prop_oneof![
        3 => any_value().prop_map(|value| value.to_string()),
        5 => mutated().prop_map(|record| record.to_string()),
        2 => prop::sample::select(texts.to_vec()).prop_map(str::to_owned),
    ]
}

type Told = Vec<(Option<String>, Outcome)>;

async fn process(batch: SqsBatch) -> (Result<SqsBatchResponse, Error>, Told) {
    let told: Arc<Mutex<Told>> = Arc::default();
    let kept = Arc::clone(&told);
    let (builder, deadline) = builder(&Yes::default());
    let mode = Mode::of_this_run();
    let idempotency = builder
        .claim(mode.claim())
        .observer(move |report: &Report| {
            let told = (report.message_id.clone(), report.outcome);
            kept.lock().unwrap().push(told);
        });
    let idempotency = idempotency.build().unwrap();
    let service = idempotency.sqs(|_: Message<Payment>| async { Ok::<(), HandlerError>(()) });
    let service = mode.served(service);
    let answer = service.process(batch, &context(deadline)).await;
    let told = std::mem::take(&mut *told.lock().unwrap());
    (answer, told)
}

fn failures(response: &SqsBatchResponse) -> Vec<&str> {
    let failures = response.batch_item_failures.iter();
    failures
        .map(|failure| failure.item_identifier.as_str())
        .collect()
}

#[test]
fn any_event_is_refused_or_answered_with_ids_that_are_in_it_once() {
    let records = prop::collection::vec(garbage(), 0..4);
    let event = prop_oneof![
        1 => any_value().prop_map(|value| value.to_string()),
        1 => any_value().prop_map(|value| json!({ "Records": value }).to_string()),
        4 => records.prop_map(|records| format!(r#"{{"Records":[{}]}}"#, records.join(","))),
        1 => (any::<String>(), any::<bool>()).prop_map(|(text, quoted)| {
            if quoted { format!("{text:?}") } else { text }
        }),
    ];
    check(400, &event, async {}, |_, event| async move {
        let Ok(batch) = serde_json::from_str::<SqsBatch>(&event) else {
            return Ok(());
        };
        let count = batch.len();
        let (answer, told) = process(batch).await;
        let Ok(response) = answer else {
            return Ok(());
        };
        prop_assert_eq!(told.len(), count);
        let mut ids = failures(&response);
        for id in &ids {
            let quoted = serde_json::to_string(id).unwrap();
            prop_assert!(event.contains(&quoted), "{} is not in {}", quoted, event);
            prop_assert!(!id.trim().is_empty());
        }
        for (id, outcome) in told {
            let is_listed = ids.contains(&id.unwrap_or_default().as_str());
            prop_assert!(is_listed || outcome.is_acknowledged());
        }
        let listed = ids.len();
        ids.sort_unstable();
        ids.dedup();
        prop_assert_eq!(ids.len(), listed);
        Ok(())
    });
}

const GOOD: [&str; 3] = ["good-1", "good-2", "good-3"];

/// Three good records and the bad one among them, at this place.
fn among_good(bad: String, at: usize, group: Option<&str>) -> SqsBatch {
    let mut records: Vec<String> = GOOD
        .iter()
        .map(|id| {
            let record = Record::payment(id, &format!("of {id}"));
            let record = match group {
                Some(group) => record.in_group(group),
                None => record,
            };
            record.0.to_string()
        })
        .collect();
    records.insert(at, bad);
    let event = format!(r#"{{"Records":[{}]}}"#, records.join(","));
    serde_json::from_str(&event).unwrap()
}

/// The good ones are done and not reported; what is not done makes itself known.
async fn good_ones_complete(batch: SqsBatch) -> Result<(), TestCaseError> {
    let (answer, told) = process(batch).await;
    for good in GOOD {
        let outcomes: Vec<_> = told
            .iter()
            .filter(|(id, _)| id.as_deref() == Some(good))
            .map(|(_, outcome)| *outcome)
            .collect();
        prop_assert_eq!(outcomes, [Outcome::Completed], "{} {:?}", good, answer);
    }
    match &answer {
        Ok(response) => {
            let reported = failures(response);
            prop_assert!(!GOOD.iter().any(|good| reported.contains(good)));
            let undone = told
                .iter()
                .filter(|(_, outcome)| !outcome.is_acknowledged());
            prop_assert_eq!(undone.count(), reported.len());
        }
        Err(error) => {
            prop_assert!(error.is_event());
            let nameless = |(id, outcome): &(Option<String>, Outcome)| {
                id.is_none() && !outcome.is_acknowledged()
            };
            prop_assert!(told.iter().any(nameless), "{}", error);
        }
    }
    Ok(())
}

#[test]
fn garbage_in_one_record_changes_nothing_for_the_good_ones_beside_it() {
    let strategy = (garbage(), 0..=GOOD.len());
    check(400, &strategy, async {}, |_, (bad, at)| async move {
        good_ones_complete(among_good(bad, at, None)).await
    });
}

#[test]
fn garbage_in_one_group_changes_nothing_for_the_other_groups() {
    let body = prop_oneof![any_value(), any::<String>().prop_map(Value::from)];
    let strategy = (body, any_value(), 0..=GOOD.len());
    check(
        150,
        &strategy,
        async {},
        |_, (body, attributes, at)| async move {
            let bad = Record::payment("bad", "p-bad")
                .in_group("bad")
                .with("body", body)
                .with("messageAttributes", attributes);
            good_ones_complete(among_good(bad.0.to_string(), at, Some("good"))).await
        },
    );
}
