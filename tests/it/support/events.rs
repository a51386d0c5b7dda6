//! SQS records and batches, as Lambda delivers them.

use std::time::{SystemTime, UNIX_EPOCH};

use lambda_idempotency::SqsBatch;
use lambda_runtime::Context;
use serde_json::{Value, json};

const QUEUE: &str = "arn:aws:sqs:eu-west-1:123456789012:payments";

/// One record, to be changed as a test needs it.
#[derive(Clone, Debug)]
pub struct Record(pub Value);

impl Record {
    pub fn new(message_id: &str, body: impl ToString) -> Self {
        Self(json!({
            "messageId": message_id,
            "receiptHandle": "AQEBwJnKyrHigUMZj6rYigCgxlaS3SLy0a",
            "body": body.to_string(),
            "attributes": {
                "ApproximateReceiveCount": "1",
                "SentTimestamp": "1545082649183",
                "SenderId": "AIDAIENQZJOLO23YVJ4VO",
                "ApproximateFirstReceiveTimestamp": "1545082649185"
            },
            "messageAttributes": {},
            "md5OfBody": "e4e68fb7bd0e697a0ae8f1bb342846b3",
            "eventSource": "aws:sqs",
            "eventSourceARN": QUEUE,
            "awsRegion": "eu-west-1"
        }))
    }

    /// A payment of 10 to account `a`.
    pub fn payment(message_id: &str, payment_id: &str) -> Self {
        Self::new(
            message_id,
            json!({ "id": payment_id, "account": "a", "amount": 10 }),
        )
    }

    pub fn with(mut self, field: &str, value: impl Into<Value>) -> Self {
        self.0[field] = value.into();
        self
    }

    pub fn without(mut self, field: &str) -> Self {
        self.0.as_object_mut().unwrap().remove(field);
        self
    }

    pub fn attribute(mut self, name: &str, value: impl Into<Value>) -> Self {
        self.0["attributes"][name] = value.into();
        self
    }

    pub fn message_attribute(mut self, name: &str, value: impl Into<Value>) -> Self {
        self.0["messageAttributes"][name] = value.into();
        self
    }

    /// On the FIFO queue, in this group.
    pub fn in_group(self, group: &str) -> Self {
        self.with("eventSourceARN", format!("{QUEUE}.fifo"))
            .attribute("MessageGroupId", group)
    }
}

pub fn batch(records: impl IntoIterator<Item = Record>) -> SqsBatch {
    let records: Vec<Value> = records.into_iter().map(|record| record.0).collect();
    serde_json::from_value(json!({ "Records": records })).unwrap()
}

/// An invocation that ends at this time.
pub fn context(deadline: SystemTime) -> Context {
    let mut context = Context::default();
    let millis = deadline.duration_since(UNIX_EPOCH).unwrap().as_millis();
    context.deadline = millis.try_into().unwrap();
    context
}
