//! Envelopes: what SNS and EventBridge put around a message on its way into the queue.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::value::RawValue;

use crate::delivery::{Attribute, Delivery};
use crate::error::{Error, ErrorKind};

/// What is around the message in the SQS body, and is taken off before the body is decoded and
/// before [`Key::body`](crate::Key::body) looks into it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Envelope {
    /// The body is the message. With raw message delivery SNS adds nothing either.
    #[default]
    None,
    /// An SNS notification: its `Message` is the message, its `MessageAttributes` are added to the
    /// delivery's.
    Sns,
    /// An EventBridge event: its `detail` is the message.
    EventBridge,
    /// Whatever is there: an SNS notification, an EventBridge event, one within the other, or
    /// nothing.
    Detect,
}

impl Envelope {
    /// Takes the envelope off.
    pub(crate) fn unwrap(self, delivery: &mut Delivery) -> Result<(), Error> {
        match self {
            Self::None => Ok(()),
            Self::Sns if unwrap_sns(delivery) => Ok(()),
            Self::Sns => Err(missing(
                "the body is not an SNS notification; if the subscription uses raw message \
                 delivery, or messages also come from elsewhere, use `Envelope::Detect`",
            )),
            Self::EventBridge if unwrap_event_bridge(delivery) => Ok(()),
            Self::EventBridge => Err(missing(
                "the body is not an EventBridge event; if the rule has an input transformer, or \
                 messages also come from elsewhere, use `Envelope::Detect`",
            )),
            Self::Detect => {
                unwrap_sns(delivery);
                unwrap_event_bridge(delivery);
                Ok(())
            }
        }
    }
}

/// The `MessageId` of a body that is an SNS notification.
pub(crate) fn sns_message_id(body: &str) -> Option<String> {
    Notification::parse(body)?.message_id()
}

/// The `id` of a body that is an EventBridge event.
pub(crate) fn event_bridge_id(body: &str) -> Option<String> {
    Event::parse(body)?.id()
}

fn missing(message: &str) -> Error {
    Error::new(ErrorKind::Decode, message)
}

fn unwrap_sns(delivery: &mut Delivery) -> bool {
    let Some(notification) = Notification::parse(&delivery.body) else {
        return false;
    };
    let Some(message) = notification.message.and_then(text) else {
        return false;
    };
    for (name, attribute) in notification.attributes() {
        delivery.message_attributes.entry(name).or_insert(attribute);
    }
    delivery.sns_message_id = notification.message_id();
    delivery.body = message;
    true
}

fn unwrap_event_bridge(delivery: &mut Delivery) -> bool {
    let Some(event) = Event::parse(&delivery.body) else {
        return false;
    };
    let Some(detail) = event.detail.map(|detail| detail.get().to_owned()) else {
        return false;
    };
    delivery.event_bridge_id = event.id();
    delivery.body = detail;
    true
}

/// The fields of an SNS notification that tell it apart, each read only when it is needed: one of
/// another type than expected must not make the body unreadable.
#[derive(Deserialize)]
struct Notification<'a> {
    #[serde(borrow, rename = "Type")]
    kind: Option<&'a RawValue>,
    #[serde(borrow, rename = "MessageId")]
    message_id: Option<&'a RawValue>,
    #[serde(borrow, rename = "TopicArn")]
    topic_arn: Option<&'a RawValue>,
    #[serde(borrow, rename = "Message")]
    message: Option<&'a RawValue>,
    #[serde(borrow, rename = "MessageAttributes")]
    message_attributes: Option<&'a RawValue>,
}

impl<'a> Notification<'a> {
    fn parse(body: &'a str) -> Option<Self> {
        let notification: Self = object(body)?;
        let is_one = notification.kind.and_then(text)? == "Notification"
            && notification.topic_arn.and_then(text).is_some()
            && notification.message.is_some();
        is_one.then_some(notification)
    }

    fn message_id(&self) -> Option<String> {
        self.message_id.and_then(text)
    }

    fn attributes(&self) -> BTreeMap<String, Attribute> {
        #[derive(Deserialize)]
        struct Typed {
            #[serde(rename = "Type")]
            data_type: String,
            #[serde(rename = "Value")]
            value: String,
        }
        let raw: BTreeMap<String, &RawValue> = self
            .message_attributes
            .and_then(|raw| serde_json::from_str(raw.get()).ok())
            .unwrap_or_default();
        raw.into_iter()
            .filter_map(|(name, raw)| {
                let typed: Typed = serde_json::from_str(raw.get()).ok()?;
                let attribute = if typed.data_type.starts_with("Binary") {
                    Attribute::binary(typed.data_type, &typed.value)
                } else {
                    Attribute::text(typed.data_type, typed.value)
                };
                Some((name, attribute))
            })
            .collect()
    }
}

#[derive(Deserialize)]
struct Event<'a> {
    #[serde(borrow)]
    id: Option<&'a RawValue>,
    #[serde(borrow, rename = "detail-type")]
    detail_type: Option<&'a RawValue>,
    #[serde(borrow)]
    source: Option<&'a RawValue>,
    #[serde(borrow)]
    detail: Option<&'a RawValue>,
}

impl<'a> Event<'a> {
    fn parse(body: &'a str) -> Option<Self> {
        let event: Self = object(body)?;
        let is_one = event.id().is_some()
            && event.detail_type.and_then(text).is_some()
            && event.source.and_then(text).is_some()
            && event.detail.is_some();
        is_one.then_some(event)
    }

    fn id(&self) -> Option<String> {
        self.id.and_then(text)
    }
}

fn object<'a, T: Deserialize<'a>>(body: &'a str) -> Option<T> {
    // Serde also reads structs from arrays; an envelope is an object.
    body.trim_start()
        .starts_with('{')
        .then(|| serde_json::from_str(body).ok())?
}

fn text(value: &RawValue) -> Option<String> {
    serde_json::from_str(value.get()).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn delivery(body: &str) -> Delivery {
        Delivery {
            body: body.to_owned(),
            ..Delivery::default()
        }
    }

    #[test]
    fn detect_takes_off_one_envelope_within_the_other() {
        let event = r#"{"id":"e-1","detail-type":"Paid","source":"shop","detail":{"n":1.50}}"#;
        let notification = serde_json::json!({
            "Type": "Notification", "MessageId": "n-1", "TopicArn": "arn:aws:sns:x", "Message": event,
        });
        let mut delivery = delivery(&notification.to_string());
        assert_eq!(sns_message_id(delivery.body()).as_deref(), Some("n-1"));
        Envelope::Detect.unwrap(&mut delivery).unwrap();
        assert_eq!(delivery.body(), r#"{"n":1.50}"#);
        assert_eq!(delivery.sns_message_id(), Some("n-1"));
        assert_eq!(delivery.event_bridge_id(), Some("e-1"));
    }

    #[test]
    fn what_only_resembles_an_envelope_stays_as_it_is() {
        for body in [
            "hello",
            "[]",
            "null",
            r#"{"Type":"Notification"}"#,
            r#"{"Type":5,"Message":"x","TopicArn":"t"}"#,
            r#"{"id":"1","detail":{}}"#,
            r#"{"id":1,"detail-type":"t","source":"s","detail":{}}"#,
        ] {
            let mut delivery = delivery(body);
            Envelope::Detect.unwrap(&mut delivery).unwrap();
            assert_eq!(delivery.body(), body);
            assert!(Envelope::Sns.unwrap(&mut delivery).unwrap_err().is_decode());
            let error = Envelope::EventBridge.unwrap(&mut delivery).unwrap_err();
            assert!(error.is_decode());
        }
    }
}
