//! The batch event, read record by record: what is wrong with one record stays with it.

use std::collections::BTreeMap;
use std::fmt;

use aws_lambda_events::sqs::SqsEvent;
use memchr::memmem;
use serde::Deserialize;
use serde::Deserializer as _;
use serde::de::{IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::value::{RawValue, to_raw_value};

use crate::delivery::{Attribute, Delivery};
use crate::error::{Error, ErrorKind};
use crate::json;

/// A batch of SQS records as Lambda delivers it, each still unread.
///
/// It is what [`SqsService`](super::SqsService) takes from `lambda_runtime`. In a test it comes
/// from JSON or from an `SqsEvent`:
///
/// ```
/// use lambda_idempotency::SqsBatch;
///
/// let batch: SqsBatch = serde_json::from_str(r#"{"Records": [{"messageId": "m-1"}]}"#)?;
/// assert_eq!(batch.len(), 1);
/// assert!(serde_json::from_str::<SqsBatch>("{}").is_err());
/// # Ok::<(), serde_json::Error>(())
/// ```
///
/// `Debug` prints how many records there are.
#[derive(Clone)]
pub struct SqsBatch {
    records: Vec<Box<RawValue>>,
}

impl SqsBatch {
    /// How many records there are.
    pub fn len(&self) -> usize {
        self.records.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.records.is_empty()
    }

    /// Reads each record when its turn comes, so that a large event is not held twice; all of them
    /// at once where they say together what to do.
    pub(super) fn read(self) -> Result<Records, Error> {
        // The names of the source and of the queue are text that needs no escape. Where they are
        // somewhere else in a record, more is read at once than has to be.
        let is_foreign = self.records.first().is_some_and(|first| {
            memmem::find(first.get().as_bytes(), b"\"aws:sqs\"").is_none()
                && ReadRecord::read(0, first).foreign_source.is_some()
        });
        let fifo = memmem::Finder::new(".fifo");
        let may_be_fifo = || {
            let mut texts = self.records.iter().map(|raw| raw.get().as_bytes());
            texts.any(|text| fifo.find(text).is_some())
        };
        let is_one_by_one = !is_foreign && !may_be_fifo();
        let records = self.records.into_iter().enumerate();
        let mut records = records.map(|(position, raw)| ReadRecord::read(position, &raw));
        if is_one_by_one {
            return Ok(Records::Standard(Box::new(records)));
        }
        let all: Vec<ReadRecord> = records.by_ref().collect();
        check_source(&all)?;
        Ok(if all.iter().any(|record| record.delivery.is_fifo()) {
            Records::Fifo(all)
        } else {
            Records::Standard(Box::new(all.into_iter()))
        })
    }
}

impl<'de> Deserialize<'de> for SqsBatch {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(EventVisitor)
    }
}

/// Said of whatever is no event, instead of what was found: that is not ours to repeat.
const NOT_AN_EVENT: &str = "not an SQS event (invoke the function through an SQS event source \
     mapping, or with an event of that shape): it has no array `Records`";

struct EventVisitor;

impl EventVisitor {
    fn refuse<E: serde::de::Error>(self) -> Result<SqsBatch, E> {
        Err(E::custom(NOT_AN_EVENT))
    }
}

impl<'de> Visitor<'de> for EventVisitor {
    type Value = SqsBatch;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an SQS event")
    }

    fn visit_unit<E: serde::de::Error>(self) -> Result<SqsBatch, E> {
        self.refuse()
    }

    fn visit_bool<E: serde::de::Error>(self, _: bool) -> Result<SqsBatch, E> {
        self.refuse()
    }

    fn visit_i64<E: serde::de::Error>(self, _: i64) -> Result<SqsBatch, E> {
        self.refuse()
    }

    fn visit_u64<E: serde::de::Error>(self, _: u64) -> Result<SqsBatch, E> {
        self.refuse()
    }

    fn visit_f64<E: serde::de::Error>(self, _: f64) -> Result<SqsBatch, E> {
        self.refuse()
    }

    fn visit_str<E: serde::de::Error>(self, _: &str) -> Result<SqsBatch, E> {
        self.refuse()
    }

    fn visit_seq<A: SeqAccess<'de>>(self, _: A) -> Result<SqsBatch, A::Error> {
        self.refuse()
    }

    fn visit_map<A: MapAccess<'de>>(self, mut fields: A) -> Result<SqsBatch, A::Error> {
        let mut records = None;
        while let Some(field) = fields.next_key()? {
            if let Field::Records = field {
                // Two lists would be two batches, one of which would be lost.
                if records.is_some() {
                    return self.refuse();
                }
                records = fields
                    .next_value::<Option<Vec<Box<RawValue>>>>()
                    .map_err(|_| serde::de::Error::custom(NOT_AN_EVENT))?;
            } else {
                fields.next_value::<IgnoredAny>()?;
            }
        }
        match records {
            Some(records) => Ok(SqsBatch { records }),
            None => self.refuse(),
        }
    }
}

impl From<SqsEvent> for SqsBatch {
    fn from(event: SqsEvent) -> Self {
        let records = event
            .records
            .iter()
            // A record that can't be written again is unreadable, and fails alone.
            .map(|record| to_raw_value(record).unwrap_or_else(|_| RawValue::NULL.to_owned()))
            .collect();
        Self { records }
    }
}

impl fmt::Debug for SqsBatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SqsBatch")
            .field("records", &self.records.len())
            .finish()
    }
}

impl Delivery {
    /// Reads one SQS record, for a test of a function that takes a delivery.
    ///
    /// # Errors
    ///
    /// What would make the record fail in a batch.
    ///
    /// ```
    /// use lambda_idempotency::Delivery;
    ///
    /// let delivery = Delivery::from_json(r#"{"messageId": "m-1", "body": "hello"}"#)?;
    /// assert_eq!(delivery.body(), "hello");
    /// # Ok::<(), lambda_idempotency::Error>(())
    /// ```
    pub fn from_json(record: &str) -> Result<Self, Error> {
        let raw: &RawValue = serde_json::from_str(record).map_err(|error| {
            let told = json::describe(&error);
            Error::new(ErrorKind::Decode, format!("the record is not JSON: {told}"))
        })?;
        let record = ReadRecord::read(0, raw);
        match record.problem {
            Some(problem) => Err(problem),
            None => Ok(record.delivery),
        }
    }
}

/// Whether all the records are of another source and can't be reported: the function is wired to
/// the wrong thing.
fn check_source(records: &[ReadRecord]) -> Result<(), Error> {
    let foreign = |record: &ReadRecord| {
        record.foreign_source.is_some() && record.delivery.message_id.is_none()
    };
    let source = records
        .first()
        .and_then(|first| first.foreign_source.as_deref());
    match source {
        Some(source) if records.iter().all(foreign) => Err(Error::new(
            ErrorKind::Event,
            format!(
                "not an SQS event: its records come from {source:?}. Invoke the function through an \
                 SQS event source mapping"
            ),
        )),
        _ => Ok(()),
    }
}

/// The records of one batch, by the kind of their queue.
pub(super) enum Records {
    /// In any order, and read one by one.
    Standard(Box<dyn Iterator<Item = ReadRecord> + Send>),
    /// In the order of their groups.
    Fifo(Vec<ReadRecord>),
}

/// One record, as far as it could be read.
pub(super) struct ReadRecord {
    /// Its place in the batch, from 0.
    pub(super) position: usize,
    /// Everything that could be read. The id, the group and the queue count even where the rest
    /// can't be read: they say how to report the record and what it stands in the way of.
    pub(super) delivery: Delivery,
    /// Why the message can't be run.
    pub(super) problem: Option<Error>,
    /// Another source's name, if the record says that it is not from SQS.
    pub(super) foreign_source: Option<String>,
}

/// The fields of a record, none of which is read before it is needed: one that is wrong must not
/// hide the others.
#[derive(Default)]
struct Fields<'a> {
    message_id: Option<&'a RawValue>,
    receipt_handle: Option<&'a RawValue>,
    body: Option<&'a RawValue>,
    attributes: Option<&'a RawValue>,
    message_attributes: Option<&'a RawValue>,
    event_source: Option<&'a RawValue>,
    event_source_arn: Option<&'a RawValue>,
    /// A field is there twice. Which one is meant can't be told.
    has_one_twice: bool,
    /// The message's own id is.
    has_id_twice: bool,
}

impl<'de> Visitor<'de> for Fields<'de> {
    type Value = Self;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an SQS record, which is an object")
    }

    fn visit_map<A: MapAccess<'de>>(mut self, mut members: A) -> Result<Self, A::Error> {
        while let Some(field) = members.next_key()? {
            let value: &RawValue = members.next_value()?;
            let is_id = matches!(field, Field::MessageId);
            let field = match field {
                Field::MessageId => &mut self.message_id,
                Field::ReceiptHandle => &mut self.receipt_handle,
                Field::Body => &mut self.body,
                Field::Attributes => &mut self.attributes,
                Field::MessageAttributes => &mut self.message_attributes,
                Field::EventSource => &mut self.event_source,
                Field::EventSourceArn => &mut self.event_source_arn,
                Field::Records | Field::Other => continue,
            };
            self.has_one_twice |= field.is_some();
            self.has_id_twice |= is_id && field.is_some();
            // `null` is as good as absent.
            *field = Some(value).filter(|value| value.get() != "null");
        }
        Ok(self)
    }
}

/// A member of an event or of a record, by its name. The name is compared as bytes: one that is not
/// valid Unicode must not hide the others.
enum Field {
    Records,
    MessageId,
    ReceiptHandle,
    Body,
    Attributes,
    MessageAttributes,
    EventSource,
    EventSourceArn,
    Other,
}

impl<'de> Deserialize<'de> for Field {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_bytes(NameVisitor)
    }
}

struct NameVisitor;

impl Visitor<'_> for NameVisitor {
    type Value = Field;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a member's name")
    }

    fn visit_bytes<E>(self, name: &[u8]) -> Result<Field, E> {
        Ok(match name {
            b"Records" => Field::Records,
            b"messageId" => Field::MessageId,
            b"receiptHandle" => Field::ReceiptHandle,
            b"body" => Field::Body,
            b"attributes" => Field::Attributes,
            b"messageAttributes" => Field::MessageAttributes,
            b"eventSource" | b"EventSource" => Field::EventSource,
            b"eventSourceARN" => Field::EventSourceArn,
            _ => Field::Other,
        })
    }

    fn visit_str<E: serde::de::Error>(self, name: &str) -> Result<Field, E> {
        self.visit_bytes(name.as_bytes())
    }
}

impl ReadRecord {
    fn read(position: usize, raw: &RawValue) -> Self {
        let mut problem = None;
        let mut wrong = |what: &str| {
            problem.get_or_insert_with(|| Error::new(ErrorKind::Decode, what));
        };
        let mut json = serde_json::Deserializer::from_str(raw.get());
        let fields = json.deserialize_map(Fields::default()).unwrap_or_else(|_| {
            wrong("the record is not an object");
            Fields::default()
        });
        if fields.has_one_twice {
            wrong("the record has a field twice");
        }
        let mut delivery = Delivery {
            // One of two may be another message's: reported, it would delete this one undone.
            message_id: fields
                .message_id
                .filter(|_| !fields.has_id_twice)
                .and_then(string)
                .filter(|id| !id.trim().is_empty()),
            receipt_handle: fields.receipt_handle.and_then(string),
            source_arn: fields.event_source_arn.and_then(string),
            ..Delivery::default()
        };
        if let Some(attributes) = fields.attributes {
            match strings(attributes) {
                Some(attributes) => delivery.attributes = attributes,
                None => wrong("`attributes` is not an object"),
            }
        }
        if let Some(attributes) = fields.message_attributes {
            match message_attributes(attributes) {
                Some(attributes) => delivery.message_attributes = attributes,
                None => wrong("`messageAttributes` is not an object"),
            }
        }
        match fields.body.map(|body| (body, string(body))) {
            Some((_, Some(body))) => delivery.body = body,
            Some((body, None)) if body.get().starts_with('"') => {
                wrong("`body` is not valid Unicode: it has half of a surrogate pair");
            }
            Some(_) => wrong("`body` is not a string"),
            None => wrong("`body` is missing"),
        }
        let foreign_source = fields
            .event_source
            .and_then(string)
            .filter(|source| source != "aws:sqs");
        Self {
            position,
            delivery,
            problem,
            foreign_source,
        }
    }
}

fn string(value: &RawValue) -> Option<String> {
    let json = value.get();
    let text = json.strip_prefix('"')?.strip_suffix('"')?;
    // Without an escape it stands for itself: the text around it was read as JSON.
    if text.contains('\\') {
        serde_json::from_str(json).ok()
    } else {
        Some(text.to_owned())
    }
}

/// Members with text, or with numbers as text: some emulators and replays write them so. Members
/// of other kinds count as absent.
fn strings(value: &RawValue) -> Option<BTreeMap<String, String>> {
    let mut json = serde_json::Deserializer::from_str(value.get());
    json.deserialize_map(Strings).ok()
}

struct Strings;

impl<'de> Visitor<'de> for Strings {
    type Value = BTreeMap<String, String>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<Self::Value, A::Error> {
        let mut strings = BTreeMap::new();
        while let Some((name, value)) = members.next_entry::<String, &RawValue>()? {
            let text = match value.get().as_bytes().first() {
                Some(b'0'..=b'9' | b'-') => Some(value.get().to_owned()),
                _ => string(value),
            };
            // The last one of a name counts, also where it counts as absent.
            match text {
                Some(text) => strings.insert(name, text),
                None => strings.remove(&name),
            };
        }
        Ok(strings)
    }
}

fn message_attributes(value: &RawValue) -> Option<BTreeMap<String, Attribute>> {
    let members: BTreeMap<String, &RawValue> = serde_json::from_str(value.get()).ok()?;
    Some(
        members
            .into_iter()
            .map(|(name, value)| (name, message_attribute(value)))
            .collect(),
    )
}

/// An attribute whose value can't be read is kept as such: it only matters to who asks for it.
fn message_attribute(value: &RawValue) -> Attribute {
    #[derive(Default, Deserialize)]
    struct Fields<'a> {
        #[serde(borrow, rename = "dataType")]
        data_type: Option<&'a RawValue>,
        #[serde(borrow, rename = "stringValue")]
        string_value: Option<&'a RawValue>,
        #[serde(borrow, rename = "binaryValue")]
        binary_value: Option<&'a RawValue>,
    }
    let fields: Fields<'_> = serde_json::from_str(value.get()).unwrap_or_default();
    let data_type = fields.data_type.and_then(string).unwrap_or_default();
    match (
        fields.string_value.and_then(string),
        fields.binary_value.and_then(string),
    ) {
        (Some(text), None) => Attribute::text(data_type, text),
        (None, Some(base64)) => Attribute::binary(data_type, &base64),
        // Some emulators fill in both; the type decides.
        (Some(_), Some(base64)) if data_type.starts_with("Binary") => {
            Attribute::binary(data_type, &base64)
        }
        (Some(text), Some(_)) => Attribute::text(data_type, text),
        (None, None) => Attribute::unreadable(data_type),
    }
}
