//! The event of a batch, as Lambda gets it.

use serde_json::{Value, json};

use crate::queue::Received;

pub(crate) fn of(batch: &[Received]) -> String {
    let records: Vec<_> = batch.iter().map(record).collect();
    json!({ "Records": records }).to_string()
}

fn record(message: &Received) -> Value {
    json!({
        "messageId": message.message_id(),
        "receiptHandle": format!("{}-{}", message.message_id(), message.receives),
        "body": message.payment.body(),
        "attributes": {
            "ApproximateReceiveCount": message.receives.to_string(),
            "ApproximateFirstReceiveTimestamp": "1700000000001",
            "SenderId": "AIDAIENQZJOLO23YVJ4VO",
            "SentTimestamp": "1700000000000",
        },
        "messageAttributes": {},
        "eventSource": "aws:sqs",
        "eventSourceARN": "arn:aws:sqs:us-east-1:123456789012:payments",
        "awsRegion": "us-east-1",
    })
}
