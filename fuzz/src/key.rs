//! The key selectors: which record a message comes to.
//!
//! The input is a line of selectors, separated by tabs, and then a record, or only its body:
//!
//! ```text
//! detect  body:/payment/id  attribute:tenant
//! {"payment":{"id":"p-1"}}
//! ```
//!
//! Selectors: `message_id`, `sns`, `event_bridge`, `attribute:<name>`, `body:<pointer>`. Several are
//! the parts of one key. An envelope may stand first: `in_sns`, `in_event_bridge`, `in_any`.

use std::sync::{Arc, Mutex};

use lambda_idempotency::{
    Clock as _, Delivery, Envelope, HandlerError, Key, Message, MissingKey, Outcome, Reason,
    Transaction,
};
use serde_json::value::RawValue;
use serde_json::{Value, json};

use crate::support::json::Json;
use crate::support::{
    CONSUMER, ManualClock, Memory, TIME, Tells, Told, batch_of, block_on, context, draws_of,
    is_foreign, response_ids,
};

/// Longer record ids hold the key's hash in its place.
const MAX_RECORD_ID_BYTES: usize = 1024;

/// Tries one key on one record.
///
/// # Panics
///
/// If the key is not what the selectors say, or the message comes to any record but that of its key.
pub fn key(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    let (line, rest) = text.split_once('\n').unwrap_or((&text, ""));
    let (envelope, selectors) = read(line);
    let record = match Delivery::from_json(rest) {
        Ok(_) => rest.to_owned(),
        Err(_) => json!({ "messageId": "m-1", "body": rest }).to_string(),
    };
    let Some(key) = key_of(&selectors) else {
        return;
    };
    let (Some(strict), Some(lenient)) = (
        run(&record, envelope, &key, MissingKey::Fail),
        run(&record, envelope, &key, MissingKey::RunUnprotected),
    ) else {
        return;
    };
    let Some(delivery) = unwrapped(&record, envelope) else {
        for told in [&strict, &lenient] {
            assert_eq!(told.reason, Some(Reason::Decode), "{told:?}");
        }
        return;
    };
    let expected = expected(&selectors, &delivery);
    match &expected {
        Expected::Text(key) => {
            for told in [&strict, &lenient] {
                assert_eq!(told.outcome, Outcome::Completed, "{told:?}");
                let id = told.record_id.as_deref().unwrap();
                let hashed = format!("{CONSUMER}#sha256:");
                let literal = format!("{CONSUMER}#{key}");
                if literal.len() > MAX_RECORD_ID_BYTES || literal.starts_with(&hashed) {
                    assert_eq!(id.len(), hashed.len() + 64, "{id}");
                    assert!(id.starts_with(&hashed), "{id}");
                } else {
                    assert_eq!(id, literal);
                }
            }
        }
        Expected::Missing => {
            assert_eq!(strict.reason, Some(Reason::Key), "{strict:?}");
            assert_eq!(lenient.outcome, Outcome::Unprotected, "{lenient:?}");
            assert_eq!(lenient.record_id, None);
        }
        Expected::Unusable => {
            for told in [&strict, &lenient] {
                assert_eq!(told.outcome, Outcome::Failed, "{told:?}");
                assert_eq!(told.reason, Some(Reason::Key), "{told:?}");
            }
        }
        Expected::Unknown if strict.outcome == Outcome::Completed => {
            assert_eq!(lenient.record_id, strict.record_id);
            assert_eq!(lenient.outcome, Outcome::Completed, "{lenient:?}");
        }
        Expected::Unknown => {
            assert_eq!(strict.reason, Some(Reason::Key), "{strict:?}");
            assert_eq!(lenient.reason, Some(Reason::Key), "{lenient:?}");
        }
    }
    means_the_same(&delivery, &selectors, &key, data);
}

/// A body that is spelled in another way has the same key.
fn means_the_same(delivery: &Delivery, selectors: &[Selector], key: &Key, data: &[u8]) {
    let in_body_only = selectors.iter().all(|s| matches!(s, Selector::Body(_)));
    let Some(json) = Json::read(delivery.body()).filter(|_| in_body_only) else {
        return;
    };
    let mut draws = draws_of(data);
    let told = [json.spelled(&mut draws), json.spelled(&mut draws)].map(|body| {
        let record = json!({ "messageId": "m-1", "body": body }).to_string();
        run(&record, Envelope::None, key, MissingKey::Fail).expect("it is of no other source")
    });
    let [one, other] = &told;
    assert_eq!(one.outcome, other.outcome, "{told:?}");
    let id = |told: &Told| told.record_id.clone();
    assert_eq!(id(one), id(other), "{told:?}");
}

#[derive(Debug)]
enum Selector {
    MessageId,
    Sns,
    EventBridge,
    Attribute(String),
    Body(String),
}

fn read(line: &str) -> (Envelope, Vec<Selector>) {
    let mut envelope = Envelope::None;
    let mut selectors = Vec::new();
    for token in line.split('\t') {
        match token.split_once(':') {
            Some(("attribute", name)) => selectors.push(Selector::Attribute(name.to_owned())),
            Some(("body", pointer)) => selectors.push(Selector::Body(pointer.to_owned())),
            _ => match token {
                "message_id" => selectors.push(Selector::MessageId),
                "sns" => selectors.push(Selector::Sns),
                "event_bridge" => selectors.push(Selector::EventBridge),
                "in_sns" => envelope = Envelope::Sns,
                "in_event_bridge" => envelope = Envelope::EventBridge,
                "in_any" => envelope = Envelope::Detect,
                // Anything else is a pointer, right or wrong.
                pointer => selectors.push(Selector::Body(pointer.to_owned())),
            },
        }
    }
    (envelope, selectors)
}

/// The key, or `None` if a pointer is refused; exactly those are that break the rule.
fn key_of(selectors: &[Selector]) -> Option<Key> {
    let mut keys = Vec::new();
    for selector in selectors {
        keys.push(match selector {
            Selector::MessageId => Key::message_id(),
            Selector::Sns => Key::sns_message_id(),
            Selector::EventBridge => Key::event_bridge_id(),
            Selector::Attribute(name) => Key::attribute(name),
            Selector::Body(pointer) => {
                let rooted = pointer.is_empty() || pointer.starts_with('/');
                let rest = pointer.replace("~0", "").replace("~1", "");
                match Key::body(pointer) {
                    Ok(key) => {
                        assert!(rooted && !rest.contains('~'), "{pointer:?}");
                        key
                    }
                    Err(error) => {
                        assert!(error.is_configuration());
                        assert!(!rooted || pointer.contains('~'), "{pointer:?}");
                        return None;
                    }
                }
            }
        });
    }
    match keys.len() {
        1 => keys.pop(),
        _ => Some(Key::parts(keys)),
    }
}

/// What becomes of a message with this record, alone in its batch; `None` if the batch is refused as
/// one of another source.
fn run(record: &str, envelope: Envelope, key: &Key, missing_key: MissingKey) -> Option<Told> {
    let (clock, tells, memory) = (ManualClock::new(), Tells::default(), Memory::default());
    let idempotency = tells.builder(memory.clone(), &clock).build().unwrap();
    let service = idempotency
        .sqs_with(
            |_: &Delivery| Ok(()),
            |message: Message<()>| async move {
                let effect = json!({ "id": message.downstream_key("effect") });
                Ok::<_, HandlerError>(Transaction::new().put("effects", effect))
            },
        )
        .envelope(envelope)
        .missing_key(missing_key)
        .key(key.clone());
    let answer = block_on(service.process(batch_of(&[record]), &context(clock.now(), TIME)));
    if answer.as_ref().is_err_and(is_foreign) {
        tells.take(0);
        return None;
    }
    let told = tells.take(1).remove(0);
    let is_done = told.outcome.is_acknowledged();
    match answer {
        Ok(response) => {
            let reported: Vec<String> = told.message_id.iter().cloned().collect();
            assert_eq!(
                response_ids(&response),
                if is_done { vec![] } else { reported }
            );
        }
        Err(error) => assert!(error.is_event() && told.message_id.is_none(), "{error:?}"),
    }
    let state = memory.state();
    assert_eq!(state.effects.values().sum::<u32>(), u32::from(is_done));
    let is_protected = is_done && told.outcome != Outcome::Unprotected;
    let stored: Vec<&String> = state.records.keys().collect();
    let expected: Vec<&String> = told.record_id.iter().filter(|_| is_protected).collect();
    assert_eq!(stored, expected, "{told:?}");
    Some(told)
}

/// The delivery as the key sees it, if its envelope can be taken off.
fn unwrapped(record: &str, envelope: Envelope) -> Option<Delivery> {
    let seen: Arc<Mutex<Option<Delivery>>> = Arc::default();
    let keep = Arc::clone(&seen);
    let key = Key::from_fn(move |delivery: &Delivery| {
        *keep.lock().unwrap() = Some(delivery.clone());
        "a key".to_owned()
    });
    run(record, envelope, &key, MissingKey::Fail);
    seen.lock().unwrap().take()
}

enum Expected {
    Text(String),
    Missing,
    Unusable,
    /// Not told by the plain rules below: any of these.
    Unknown,
}

fn expected(selectors: &[Selector], delivery: &Delivery) -> Expected {
    let mut parts = Vec::new();
    for selector in selectors {
        match part(selector, delivery) {
            Expected::Text(text) if text.trim().is_empty() => return Expected::Missing,
            Expected::Text(text) => parts.push(text),
            other => return other,
        }
    }
    if let [only] = parts.as_slice() {
        return Expected::Text(only.clone());
    }
    if parts.is_empty() {
        return Expected::Unusable;
    }
    let escape = |part: &String| part.replace('%', "%25").replace('#', "%23");
    let escaped: Vec<String> = parts.iter().map(escape).collect();
    Expected::Text(escaped.join("#"))
}

fn part(selector: &Selector, delivery: &Delivery) -> Expected {
    let text = |text: &str| Expected::Text(text.to_owned());
    match selector {
        Selector::MessageId => delivery.message_id().map_or(Expected::Missing, text),
        Selector::Sns => delivery.sns_message_id().map_or(Expected::Unknown, text),
        Selector::EventBridge => delivery.event_bridge_id().map_or(Expected::Unknown, text),
        Selector::Attribute(name) => match delivery.message_attribute(name) {
            None => Expected::Missing,
            Some(attribute) => match (attribute.as_str(), attribute.as_bytes()) {
                (Some(_), _) if attribute.data_type().starts_with("Number") => Expected::Unknown,
                (Some(value), _) => text(value),
                (None, Some(_)) => Expected::Unknown,
                (None, None) => Expected::Unusable,
            },
        },
        Selector::Body(pointer) => in_body(delivery.body(), pointer),
    }
}

fn in_body(body: &str, pointer: &str) -> Expected {
    let Ok(value) = serde_json::from_str::<Value>(body) else {
        // Numbers out of range, half of a surrogate pair, nested deeply: JSON all the same.
        return match serde_json::from_str::<&RawValue>(body) {
            Ok(_) => Expected::Unknown,
            Err(_) => Expected::Unusable,
        };
    };
    match value.pointer(pointer) {
        None | Some(Value::Null) => Expected::Missing,
        Some(Value::Bool(is)) => Expected::Text(is.to_string()),
        Some(Value::Number(number)) if number.is_f64() => Expected::Unknown,
        Some(Value::Number(number)) => Expected::Text(number.to_string()),
        Some(Value::String(text)) => Expected::Text(text.clone()),
        Some(Value::Array(_) | Value::Object(_)) => Expected::Unusable,
    }
}
