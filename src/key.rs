//! Idempotency keys: where a message's key comes from, and the record id made of it.

use std::fmt;
use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use crate::delivery::Delivery;
use crate::envelope;
use crate::error::{Error, ErrorKind};
use crate::json::{self, Pointer, Scalar};
use crate::record::{sha256_hex, sha256_of};

/// Longer record ids are hashed. A sort key holds [1,024 bytes][limits], a partition key 2,048.
///
/// [limits]: https://docs.aws.amazon.com/amazondynamodb/latest/developerguide/Constraints.html
const MAX_RECORD_ID_BYTES: usize = 1024;

/// Longest consumer name, so that a hashed key always fits beside it.
const MAX_CONSUMER_BYTES: usize = 255;

const HASHED: &str = "sha256:";

/// Where a message's idempotency key comes from.
///
/// The key names one business intent and has to be the same on every delivery of it. The
/// [message id](Key::message_id) covers redeliveries of one message; a producer that sends twice,
/// a redrive out of a dead-letter queue or a replay need a key of the business: a payment's id, an
/// order's number.
///
/// A key that is missing, `null`, empty or blank never becomes a shared key: see [`MissingKey`].
///
/// ```
/// use lambda_idempotency::Key;
///
/// let key = Key::parts([Key::body("/tenant")?, Key::body("/payment/id")?]);
/// # Ok::<(), lambda_idempotency::Error>(())
/// ```
#[derive(Clone)]
#[doc(alias = "event_key_jmespath")]
pub struct Key(Source);

#[derive(Clone)]
enum Source {
    MessageId,
    Attribute(String),
    Body(Pointer),
    SnsMessageId,
    EventBridgeId,
    Parts(Vec<Key>),
    Function(Arc<KeyFunction>),
}

type KeyFunction = dyn Fn(&Delivery) -> Option<String> + Send + Sync;

/// What to do with a message that has no key.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
#[doc(alias = "raise_on_no_idempotency_key")]
pub enum MissingKey {
    /// The message fails, with an error that says where the key was looked for.
    #[default]
    Fail,
    /// The handler runs without protection and its writes are committed in one transaction without
    /// a record: a second delivery runs again, and so does one whose commit got no answer. The
    /// outcome is `unprotected`, the reason `key`.
    ///
    /// For keys that are missing, `null`, empty or blank only. What is there and can't be a key (an
    /// object, a body that is not JSON) fails all the same.
    RunUnprotected,
}

impl Key {
    /// The message id of SQS: the default. The same on every redelivery; **not** the same when a
    /// producer sends again or a message is redriven out of a dead-letter queue.
    pub fn message_id() -> Self {
        Self(Source::MessageId)
    }

    /// A message attribute of this name. A `Number` counts by its value, a `Binary` by its bytes.
    pub fn attribute(name: impl Into<String>) -> Self {
        Self(Source::Attribute(name.into()))
    }

    /// The string, number or boolean that a [JSON pointer][rfc] finds in the body: `/payment/id`.
    ///
    /// A number counts by its exact value (`10` and `10.0` are one key), and a string that spells
    /// it the same way is the same key. Objects and arrays are no keys: point at their members
    /// with [`Key::parts`].
    ///
    /// # Errors
    ///
    /// If the pointer is neither empty nor starts with `/`, or escapes wrongly.
    ///
    /// [rfc]: https://www.rfc-editor.org/rfc/rfc6901
    pub fn body(pointer: &str) -> Result<Self, Error> {
        Pointer::parse(pointer)
            .map(|pointer| Self(Source::Body(pointer)))
            .map_err(|message| Error::new(ErrorKind::Configuration, message))
    }

    /// The `MessageId` of the SNS envelope: the same on every delivery of one published message.
    pub fn sns_message_id() -> Self {
        Self(Source::SnsMessageId)
    }

    /// The `id` of the EventBridge event.
    pub fn event_bridge_id() -> Self {
        Self(Source::EventBridgeId)
    }

    /// Several parts together, each of which has to be there. They can't run into each other:
    /// `("a", "b#c")` and `("a#b", "c")` are two keys.
    pub fn parts(parts: impl IntoIterator<Item = Key>) -> Self {
        Self(Source::Parts(parts.into_iter().collect()))
    }

    /// A function of the delivery; `None` or an empty text means that there is no key. For a
    /// function of the decoded body see [`SqsService::key_by`](crate::SqsService::key_by).
    pub fn from_fn<K, F>(function: F) -> Self
    where
        F: Fn(&Delivery) -> K + Send + Sync + 'static,
        K: Into<Option<String>>,
    {
        Self(Source::Function(Arc::new(move |delivery| {
            function(delivery).into()
        })))
    }

    /// The key's text for this delivery.
    pub(crate) fn of(&self, delivery: &Delivery) -> Result<String, Error> {
        let (text, place) = match &self.0 {
            Source::MessageId => (delivery.message_id.clone(), "the message id".to_owned()),
            Source::Attribute(name) => (
                attribute(delivery, name)?,
                format!("the message attribute {name:?}"),
            ),
            Source::Body(pointer) => (
                in_body(delivery, pointer)?,
                format!("the value at {pointer} of the body"),
            ),
            Source::SnsMessageId => (
                delivery
                    .sns_message_id
                    .clone()
                    .or_else(|| envelope::sns_message_id(&delivery.body)),
                "the `MessageId` of an SNS envelope".to_owned(),
            ),
            Source::EventBridgeId => (
                delivery
                    .event_bridge_id
                    .clone()
                    .or_else(|| envelope::event_bridge_id(&delivery.body)),
                "the `id` of an EventBridge event".to_owned(),
            ),
            Source::Parts(parts) if parts.is_empty() => {
                return Err(unusable("`Key::parts` was given no parts".to_owned()));
            }
            Source::Parts(parts) => {
                let texts = parts
                    .iter()
                    .map(|part| part.of(delivery))
                    .collect::<Result<Vec<_>, _>>()?;
                (Some(join(&texts)), "every part of the key".to_owned())
            }
            Source::Function(function) => (
                function(delivery),
                "the result of the key function".to_owned(),
            ),
        };
        present(text, &place)
    }

    /// Whether the key is made of what the user put into the message. Such a key stays out of logs.
    pub(crate) fn is_user_data(&self) -> bool {
        match &self.0 {
            Source::MessageId | Source::SnsMessageId | Source::EventBridgeId => false,
            Source::Attribute(_) | Source::Body(_) | Source::Function(_) => true,
            Source::Parts(parts) => parts.iter().any(Self::is_user_data),
        }
    }
}

impl Default for Key {
    fn default() -> Self {
        Self::message_id()
    }
}

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Source::MessageId => f.write_str("Key::message_id"),
            Source::Attribute(name) => write!(f, "Key::attribute({name:?})"),
            Source::Body(pointer) => write!(f, "Key::body({pointer})"),
            Source::SnsMessageId => f.write_str("Key::sns_message_id"),
            Source::EventBridgeId => f.write_str("Key::event_bridge_id"),
            Source::Parts(parts) => f.debug_tuple("Key::parts").field(parts).finish(),
            Source::Function(_) => f.write_str("Key::from_fn"),
        }
    }
}

/// A key's text if there is one; else the error that says where it was looked for.
pub(crate) fn present(text: Option<String>, place: &str) -> Result<String, Error> {
    match text {
        Some(text) if !text.trim().is_empty() => Ok(text),
        Some(_) => Err(no_key(true, format!("{place} is empty"))),
        None => Err(no_key(true, format!("{place} is not there"))),
    }
}

/// Something is where the key should be, and it can't be one. Never taken for a missing key: one
/// wrong pointer would switch the protection off for the whole queue.
fn unusable(what: String) -> Error {
    no_key(false, what)
}

fn no_key(is_missing: bool, what: String) -> Error {
    Error::new(
        ErrorKind::Key { is_missing },
        format!("no idempotency key: {what}; fix the producer, or choose another key"),
    )
}

fn attribute(delivery: &Delivery, name: &str) -> Result<Option<String>, Error> {
    let Some(attribute) = delivery.message_attribute(name) else {
        return Ok(None);
    };
    match (attribute.as_str(), attribute.as_bytes()) {
        (Some(text), _) if attribute.is_number() => Ok(Some(json::decimal(text))),
        (Some(text), _) => Ok(Some(text.to_owned())),
        (None, Some(bytes)) => Ok(Some(STANDARD.encode(bytes))),
        (None, None) => Err(unusable(format!(
            "the message attribute {name:?} has no readable value for its type {:?}",
            attribute.data_type()
        ))),
    }
}

fn in_body(delivery: &Delivery, pointer: &Pointer) -> Result<Option<String>, Error> {
    let unreadable = |error: serde_json::Error| {
        unusable(format!(
            "the body is not JSON, so {pointer} finds nothing in it ({})",
            json::describe(&error)
        ))
    };
    let Some(value) = json::find(delivery.body(), pointer).map_err(unreadable)? else {
        return Ok(None);
    };
    match json::scalar(value).map_err(unreadable)? {
        Scalar::Text(text) => Ok(Some(text)),
        Scalar::Null => Err(no_key(
            true,
            format!("the value at {pointer} of the body is null"),
        )),
        Scalar::Container => Err(unusable(format!(
            "the value at {pointer} of the body is an object or an array; point at its members"
        ))),
    }
}

/// Joins parts so that no two lists give the same text: `#` stands between them, and `%` and `#`
/// within them are escaped.
fn join(parts: &[String]) -> String {
    let escaped: Vec<String> = parts
        .iter()
        .map(|part| part.replace('%', "%25").replace('#', "%23"))
        .collect();
    escaped.join("#")
}

/// The consumer's name, checked.
pub(crate) fn check_consumer(consumer: &str) -> Result<(), Error> {
    let problem = if consumer.trim().is_empty() {
        "is empty"
    } else if consumer.contains('#') {
        "contains `#`, which separates it from the key"
    } else if consumer.len() > MAX_CONSUMER_BYTES {
        "is longer than 255 bytes"
    } else {
        return Ok(());
    };
    Err(Error::new(
        ErrorKind::Configuration,
        format!(
            "the consumer name {consumer:?} {problem}: choose a short name for what this function \
             does, such as \"payments\", and keep it; records are found by it"
        ),
    ))
}

/// `<consumer>#<key>`, hashed where the key is too long for DynamoDB.
pub(crate) fn record_id(consumer: &str, key: &str) -> String {
    let literal_fits = consumer.len() + 1 + key.len() <= MAX_RECORD_ID_BYTES;
    // A key that looks like a hash is hashed too: it must not meet the long key of that hash.
    if literal_fits && !key.starts_with(HASHED) {
        format!("{consumer}#{key}")
    } else {
        hashed_record_id(consumer, key)
    }
}

/// The record id with the key's SHA-256 instead of the key: for long keys, and for logs.
pub(crate) fn hashed_record_id(consumer: &str, key: &str) -> String {
    format!("{consumer}#{HASHED}{}", sha256_of(key))
}

/// The idempotency key for a call to someone else: the same on every attempt for this record,
/// another for each call.
pub(crate) fn downstream_key(record_id: &str, call: &str) -> String {
    sha256_hex(&["downstream", record_id, call])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_keys_are_hashed_and_can_not_be_forged() {
        let long = "k".repeat(5_000);
        let id = record_id("payments", &long);
        assert!(id.len() <= MAX_RECORD_ID_BYTES);
        assert_ne!(id, record_id("payments", &("k".repeat(5_001))));
        let forged = id.strip_prefix("payments#").unwrap();
        assert_ne!(record_id("payments", forged), id);
        assert_eq!(record_id("payments", "p-1"), "payments#p-1");
    }

    #[test]
    fn the_longest_consumer_leaves_room_for_a_hashed_key() {
        let consumer = "c".repeat(MAX_CONSUMER_BYTES);
        check_consumer(&consumer).unwrap();
        assert!(hashed_record_id(&consumer, "k").len() <= MAX_RECORD_ID_BYTES);
        for wrong in ["", " ", "a#b", &"c".repeat(MAX_CONSUMER_BYTES + 1)] {
            assert!(check_consumer(wrong).unwrap_err().is_configuration());
        }
    }

    #[test]
    fn parts_do_not_run_into_each_other() {
        let joined =
            |parts: &[&str]| join(&parts.iter().map(|p| (*p).to_owned()).collect::<Vec<_>>());
        assert_ne!(joined(&["a", "b#c"]), joined(&["a#b", "c"]));
        assert_ne!(joined(&["a%23b"]), joined(&["a#b"]));
    }
}
