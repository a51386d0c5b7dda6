//! The same work written by hand over the SDK, with the same requests and as many at once.
//!
//! What most people would write: no fencing, no telling of unknown outcomes, no second look.

use std::collections::HashMap;
use std::str::FromStr;
use std::time::{SystemTime, UNIX_EPOCH};

use anyhow::{bail, ensure};
use aws_lambda_events::sqs::{BatchItemFailure, SqsBatchResponse, SqsEvent, SqsMessage};
use aws_sdk_dynamodb::Client;
use aws_sdk_dynamodb::types::{
    AttributeValue, Put, ReturnValuesOnConditionCheckFailure, TransactWriteItem, Update,
};
use futures_util::StreamExt as _;
use futures_util::stream;
use lambda_runtime::Context;

use crate::work::{Payment, RECORDS, Receipt, deposit};

const FREE: &str = "attribute_not_exists(#id) OR #expiration < :now_s \
     OR (#status = :in_progress AND #lease < :now_ms)";
const RETENTION_SECONDS: u64 = 28 * 24 * 60 * 60;

/// When the key is taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Loop {
    /// `PutItem`, then `TransactWriteItems`.
    ClaimFirst,
    /// `TransactWriteItems` alone.
    AtCommit,
}

impl FromStr for Loop {
    type Err = anyhow::Error;

    fn from_str(name: &str) -> Result<Self, Self::Err> {
        Ok(match name {
            "claim-first" => Self::ClaimFirst,
            "at-commit" => Self::AtCommit,
            _ => bail!("no loop by hand is named {name:?}"),
        })
    }
}

/// A function without the library.
#[derive(Clone, Debug)]
pub struct Function {
    /// The SDK's client.
    pub client: Client,
    /// When the key is taken.
    pub mode: Loop,
    /// How many messages of a batch run at once.
    pub concurrency: usize,
}

/// What happened to a message that is acknowledged.
enum Ended {
    Done,
    Duplicate,
}

impl Function {
    /// One invocation: from the event's JSON to the response's. Returns how many messages failed.
    ///
    /// # Errors
    ///
    /// If the event is none.
    pub async fn invoke(&self, event: &[u8], context: &Context) -> anyhow::Result<usize> {
        let event: SqsEvent = serde_json::from_slice(event)?;
        let failures: Vec<BatchItemFailure> = stream::iter(event.records)
            .map(|message| async move {
                match self.message(&message, context).await {
                    Ok(Ended::Done | Ended::Duplicate) => None,
                    Err(error) => {
                        eprintln!("{error:#}");
                        let mut failure = BatchItemFailure::default();
                        failure.item_identifier = message.message_id.unwrap_or_default();
                        Some(failure)
                    }
                }
            })
            .buffer_unordered(self.concurrency)
            .filter_map(async |failure| failure)
            .collect()
            .await;
        let mut response = SqsBatchResponse::default();
        response.batch_item_failures = failures;
        std::hint::black_box(serde_json::to_vec(&response)?);
        Ok(response.batch_item_failures.len())
    }

    async fn message(&self, message: &SqsMessage, context: &Context) -> anyhow::Result<Ended> {
        let body = message.body.as_deref().unwrap_or_default();
        let payment: Payment = serde_json::from_str(body)?;
        let id = format!(
            "bench#{}",
            message.message_id.as_deref().unwrap_or_default()
        );
        ensure!(id.len() > "bench#".len(), "a message without an id");
        let receipt = serde_json::to_string(&Receipt {
            payment_id: payment.payment_id,
            note: String::new(),
        })?;
        let now = SystemTime::now().duration_since(UNIX_EPOCH)?;
        let token = uuid::Uuid::new_v4().to_string();
        let complete = TransactWriteItem::builder();
        let complete = match self.mode {
            Loop::ClaimFirst => {
                let claim = self
                    .client
                    .put_item()
                    .table_name(RECORDS)
                    .item("id", text(&id))
                    .item("status", text("INPROGRESS"))
                    .item("claim_token", text(&token))
                    .item("in_progress_expiration", number(context.deadline))
                    .item("expiration", number(now.as_secs() + RETENTION_SECONDS))
                    .condition_expression(FREE)
                    .set_expression_attribute_names(Some(free_names()))
                    .set_expression_attribute_values(Some(free_values(
                        now.as_secs(),
                        now.as_millis(),
                    )))
                    .return_values_on_condition_check_failure(
                        ReturnValuesOnConditionCheckFailure::AllOld,
                    )
                    .send()
                    .await;
                if let Err(error) = claim {
                    let error = error.into_service_error();
                    return match &error {
                        aws_sdk_dynamodb::operation::put_item::PutItemError::ConditionalCheckFailedException(refused)
                            if is_completed(refused.item()) => Ok(Ended::Duplicate),
                        _ => Err(error.into()),
                    };
                }
                complete.update(
                    Update::builder()
                        .table_name(RECORDS)
                        .key("id", text(&id))
                        .update_expression(
                            "SET #status = :completed, #expiration = :expiration, #data = :data \
                             REMOVE #lease",
                        )
                        .condition_expression("#status = :in_progress AND #token = :token")
                        .expression_attribute_names("#status", "status")
                        .expression_attribute_names("#expiration", "expiration")
                        .expression_attribute_names("#data", "data")
                        .expression_attribute_names("#lease", "in_progress_expiration")
                        .expression_attribute_names("#token", "claim_token")
                        .expression_attribute_values(":completed", text("COMPLETED"))
                        .expression_attribute_values(":in_progress", text("INPROGRESS"))
                        .expression_attribute_values(
                            ":expiration",
                            number(now.as_secs() + RETENTION_SECONDS),
                        )
                        .expression_attribute_values(":data", text(&receipt))
                        .expression_attribute_values(":token", text(&token))
                        .return_values_on_condition_check_failure(
                            ReturnValuesOnConditionCheckFailure::AllOld,
                        )
                        .build()?,
                )
            }
            Loop::AtCommit => complete.put(
                Put::builder()
                    .table_name(RECORDS)
                    .item("id", text(&id))
                    .item("status", text("COMPLETED"))
                    .item("claim_token", text(&token))
                    .item("data", text(&receipt))
                    .item("expiration", number(now.as_secs() + RETENTION_SECONDS))
                    .condition_expression(FREE)
                    .set_expression_attribute_names(Some(free_names()))
                    .set_expression_attribute_values(Some(free_values(
                        now.as_secs(),
                        now.as_millis(),
                    )))
                    .return_values_on_condition_check_failure(
                        ReturnValuesOnConditionCheckFailure::AllOld,
                    )
                    .build()?,
            ),
        };
        let deposit = deposit(&payment.account, payment.amount)?;
        let committed = self
            .client
            .transact_write_items()
            .transact_items(complete.build())
            .transact_items(TransactWriteItem::builder().update(deposit).build())
            .client_request_token(token)
            .send()
            .await;
        let Err(error) = committed else {
            return Ok(Ended::Done);
        };
        let error = error.into_service_error();
        if let aws_sdk_dynamodb::operation::transact_write_items::TransactWriteItemsError::TransactionCanceledException(cancelled) = &error
            && let Some(reason) = cancelled.cancellation_reasons().first()
            && is_completed(reason.item())
        {
            return Ok(Ended::Duplicate);
        }
        Err(error.into())
    }
}

fn is_completed(item: Option<&HashMap<String, AttributeValue>>) -> bool {
    let status = item.and_then(|item| item.get("status"));
    status.is_some_and(|status| *status == text("COMPLETED"))
}

fn free_names() -> HashMap<String, String> {
    HashMap::from(
        [
            ("#id", "id"),
            ("#expiration", "expiration"),
            ("#status", "status"),
            ("#lease", "in_progress_expiration"),
        ]
        .map(|(placeholder, name)| (placeholder.to_owned(), name.to_owned())),
    )
}

fn free_values(now_seconds: u64, now_millis: u128) -> HashMap<String, AttributeValue> {
    HashMap::from([
        (":now_s".to_owned(), number(now_seconds)),
        (":now_ms".to_owned(), number(now_millis)),
        (":in_progress".to_owned(), text("INPROGRESS")),
    ])
}

fn text(value: &str) -> AttributeValue {
    AttributeValue::S(value.to_owned())
}

fn number(value: impl ToString) -> AttributeValue {
    AttributeValue::N(value.to_string())
}
