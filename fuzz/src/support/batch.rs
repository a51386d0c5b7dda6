//! Batches as Lambda delivers them, and the response to them.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use aws_lambda_events::sqs::SqsBatchResponse;
use lambda_idempotency::{Error, SqsBatch};
use lambda_runtime::Context;
use serde_json::Value;

pub(crate) const QUEUE: &str = "arn:aws:sqs:eu-west-1:123456789012:payments";

/// A batch of these records, each one JSON value.
pub(crate) fn batch_of(records: &[&str]) -> SqsBatch {
    let event = format!(r#"{{"Records":[{}]}}"#, records.join(","));
    let batch: SqsBatch = serde_json::from_str(&event).expect("records that are JSON are a batch");
    assert_eq!(batch.len(), records.len());
    batch
}

/// What an invocation has, where it does not matter.
pub(crate) const TIME: Duration = Duration::from_secs(30);

/// An invocation that has so much time.
pub(crate) fn context(now: SystemTime, time: Duration) -> Context {
    let deadline = now + time;
    let millis = deadline.duration_since(UNIX_EPOCH).unwrap().as_millis();
    let mut context = Context::default();
    context.deadline = millis.try_into().unwrap();
    context
}

/// The ids that a response reports, read as Lambda reads it: from its JSON.
pub(crate) fn response_ids(response: &SqsBatchResponse) -> Vec<String> {
    let json = serde_json::to_string(response).unwrap();
    let read: Value = serde_json::from_str(&json).unwrap();
    let members = read.as_object().unwrap();
    assert_eq!(members.len(), 1, "{json}");
    let failures = members["batchItemFailures"].as_array().unwrap().iter();
    failures
        .map(|failure| {
            let members = failure.as_object().unwrap();
            assert_eq!(members.len(), 1, "{json}");
            members["itemIdentifier"].as_str().unwrap().to_owned()
        })
        .collect()
}

/// Whether a batch was refused as a whole because all of it comes from something that is not SQS.
pub(crate) fn is_foreign(error: &Error) -> bool {
    error.is_event() && error.to_string().contains("records come from")
}
