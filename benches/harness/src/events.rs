//! SQS events as Lambda delivers them, with payments as bodies.

use std::fmt::Write as _;

/// One event as JSON text, with `count` messages that are numbered from `first`.
///
/// Each pays 10 into an account of its own. `padding` is how many bytes its body is longer than
/// needed.
#[must_use]
pub fn event(first: usize, count: usize, padding: usize) -> String {
    let note = "x".repeat(padding);
    let mut text = String::from(r#"{"Records":["#);
    for number in first..first + count {
        if number > first {
            text.push(',');
        }
        let body = serde_json::json!({
            "payment_id": format!("p-{number:09}"),
            "account": format!("a-{number:09}"),
            "amount": 10,
            "note": note,
        });
        let record = serde_json::json!({
            "messageId": format!("00000000-0000-4000-8000-{number:012}"),
            "receiptHandle": "AQEBwJnKyrHigUMZj6rYigCgxlaS3SLy0aAQEBwJnKyrHigUMZj6rYigCgxlaS3SLy0a",
            "body": body.to_string(),
            "attributes": {
                "ApproximateReceiveCount": "1",
                "SentTimestamp": "1545082649183",
                "SenderId": "AIDAIENQZJOLO23YVJ4VO",
                "ApproximateFirstReceiveTimestamp": "1545082649185",
            },
            "messageAttributes": {},
            "md5OfBody": "e4e68fb7bd0e697a0ae8f1bb342846b3",
            "eventSource": "aws:sqs",
            "eventSourceARN": "arn:aws:sqs:eu-west-1:123456789012:payments",
            "awsRegion": "eu-west-1",
        });
        // Writing into a text can't fail.
        let _ = write!(text, "{record}");
    }
    text.push_str("]}");
    text
}
