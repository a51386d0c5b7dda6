//! One SQS record as it was delivered.

use std::collections::BTreeMap;
use std::fmt;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use base64::Engine as _;
use base64::alphabet::STANDARD;
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};

/// One delivery of an SQS message: its body, its attributes, where it came from.
///
/// The same message can be delivered many times; the [`message_id`](Self::message_id) stays the
/// same then. A redrive out of a dead-letter queue [gives it a new one][redrive].
///
/// `Debug` prints neither the body nor the values of attributes.
///
/// [redrive]: https://docs.aws.amazon.com/AWSSimpleQueueService/latest/SQSDeveloperGuide/sqs-configure-dead-letter-queue-redrive.html
#[derive(Clone, Default)]
pub struct Delivery {
    pub(crate) message_id: Option<String>,
    pub(crate) receipt_handle: Option<String>,
    pub(crate) body: String,
    pub(crate) attributes: BTreeMap<String, String>,
    pub(crate) message_attributes: BTreeMap<String, Attribute>,
    pub(crate) source_arn: Option<String>,
    pub(crate) sns_message_id: Option<String>,
    pub(crate) event_bridge_id: Option<String>,
}

impl Delivery {
    /// The id that SQS gave the message, if it is there.
    pub fn message_id(&self) -> Option<&str> {
        self.message_id.as_deref()
    }

    /// The handle of this very receipt, for a call to SQS about it.
    pub fn receipt_handle(&self) -> Option<&str> {
        self.receipt_handle.as_deref()
    }

    /// The body; without its envelope where one was unwrapped.
    pub fn body(&self) -> &str {
        &self.body
    }

    /// A system attribute, such as `SentTimestamp` or `SenderId`.
    pub fn attribute(&self, name: &str) -> Option<&str> {
        self.attributes.get(name).map(String::as_str)
    }

    /// A message attribute that the producer set, on SQS or in an unwrapped SNS envelope.
    pub fn message_attribute(&self, name: &str) -> Option<&Attribute> {
        self.message_attributes.get(name)
    }

    /// How often the message has been received, this time included, if SQS says so. Approximate:
    /// 1 does not prove that it is the first delivery.
    pub fn receive_count(&self) -> Option<u32> {
        self.attribute("ApproximateReceiveCount")?.parse().ok()
    }

    /// When the message was sent to the queue that delivers it.
    pub fn sent_at(&self) -> Option<SystemTime> {
        let millis = self.attribute("SentTimestamp")?.parse().ok()?;
        UNIX_EPOCH.checked_add(Duration::from_millis(millis))
    }

    /// The message group. Standard queues can have one too; only a FIFO queue orders by it.
    pub fn group_id(&self) -> Option<&str> {
        self.attribute("MessageGroupId")
    }

    /// The X-Ray trace header that travelled with the message.
    pub fn trace_header(&self) -> Option<&str> {
        self.attribute("AWSTraceHeader")
    }

    /// The queue that the message failed on before it was moved here from its dead-letter queue.
    pub fn dead_letter_source_arn(&self) -> Option<&str> {
        self.attribute("DeadLetterQueueSourceArn")
    }

    /// The ARN of the queue.
    pub fn source_arn(&self) -> Option<&str> {
        self.source_arn.as_deref()
    }

    /// Whether the queue is a FIFO queue: its ARN ends in `.fifo`.
    pub fn is_fifo(&self) -> bool {
        self.source_arn().is_some_and(|arn| arn.ends_with(".fifo"))
    }

    /// The `MessageId` of the SNS envelope that was [unwrapped](crate::Envelope).
    pub fn sns_message_id(&self) -> Option<&str> {
        self.sns_message_id.as_deref()
    }

    /// The `id` of the EventBridge event that was [unwrapped](crate::Envelope).
    pub fn event_bridge_id(&self) -> Option<&str> {
        self.event_bridge_id.as_deref()
    }
}

impl fmt::Debug for Delivery {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Delivery")
            .field("message_id", &self.message_id)
            .field("body_bytes", &self.body.len())
            .field("receive_count", &self.receive_count())
            .field("source_arn", &self.source_arn)
            .field(
                "message_attributes",
                &self.message_attributes.keys().collect::<Vec<_>>(),
            )
            .finish_non_exhaustive()
    }
}

/// A message attribute: a data type and a value.
///
/// A `Number` stays text: SQS allows [38 digits][types], more than any float holds.
///
/// `Debug` prints the data type only.
///
/// [types]: https://docs.aws.amazon.com/AWSSimpleQueueService/latest/SQSDeveloperGuide/sqs-message-metadata.html
#[derive(Clone, PartialEq, Eq)]
pub struct Attribute {
    data_type: String,
    value: Value,
}

#[derive(Clone, PartialEq, Eq)]
enum Value {
    Text(String),
    Binary(Vec<u8>),
    Unreadable,
}

impl Attribute {
    pub(crate) fn text(data_type: impl Into<String>, text: impl Into<String>) -> Self {
        Self {
            data_type: data_type.into(),
            value: Value::Text(text.into()),
        }
    }

    /// From base64 of either alphabet, with or without padding: emulators and replays differ.
    pub(crate) fn binary(data_type: impl Into<String>, base64: &str) -> Self {
        Self {
            data_type: data_type.into(),
            value: decode_base64(base64).map_or(Value::Unreadable, Value::Binary),
        }
    }

    pub(crate) fn unreadable(data_type: impl Into<String>) -> Self {
        Self {
            data_type: data_type.into(),
            value: Value::Unreadable,
        }
    }

    /// `String`, `Number` or `Binary`, with the producer's suffix where it set one: `Number.int64`.
    pub fn data_type(&self) -> &str {
        &self.data_type
    }

    /// The value of a `String` or `Number`.
    pub fn as_str(&self) -> Option<&str> {
        match &self.value {
            Value::Text(text) => Some(text),
            _ => None,
        }
    }

    /// The value of a `Binary`, decoded.
    pub fn as_bytes(&self) -> Option<&[u8]> {
        match &self.value {
            Value::Binary(bytes) => Some(bytes),
            _ => None,
        }
    }

    pub(crate) fn is_number(&self) -> bool {
        self.data_type == "Number" || self.data_type.starts_with("Number.")
    }
}

impl fmt::Debug for Attribute {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Attribute")
            .field("data_type", &self.data_type)
            .finish_non_exhaustive()
    }
}

fn decode_base64(text: &str) -> Option<Vec<u8>> {
    const LENIENT: GeneralPurpose = GeneralPurpose::new(
        &STANDARD,
        GeneralPurposeConfig::new()
            .with_decode_padding_mode(DecodePaddingMode::Indifferent)
            .with_decode_allow_trailing_bits(true),
    );
    LENIENT
        .decode(text.replace('-', "+").replace('_', "/"))
        .ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn binary_values_are_read_in_every_spelling_of_base64() {
        for spelling in ["+/+/", "-_-_", "-/+_"] {
            let attribute = Attribute::binary("Binary", spelling);
            assert_eq!(attribute.as_bytes(), Some(&[0xfb, 0xff, 0xbf][..]));
        }
        assert_eq!(
            Attribute::binary("Binary", "YQ").as_bytes(),
            Attribute::binary("Binary", "YQ==").as_bytes()
        );
        let broken = Attribute::binary("Binary", "%%%");
        assert_eq!((broken.as_bytes(), broken.as_str()), (None, None));
    }

    #[test]
    fn debug_prints_no_content() {
        let mut delivery = Delivery {
            body: "secret body".into(),
            ..Delivery::default()
        };
        delivery
            .message_attributes
            .insert("who".into(), Attribute::text("String", "secret name"));
        assert!(!format!("{delivery:?}").contains("secret"));
        let attribute = delivery.message_attribute("who");
        assert!(!format!("{attribute:?}").contains("secret"));
    }
}
