//! The sample function: takes payments from a queue and books each one once.
//!
//! A message is `{"payment_id": "p-1", "account": "1042", "amount": 4000}`. In one transaction the
//! payment goes into a table of payments, its amount is added to the account's balance, and the
//! message is marked as done: a message that is delivered again, sent twice or redriven out of a
//! dead-letter queue changes nothing any more.
//!
//! - [`Payment`] is the message, [`Payments`] handles it, [`service`] wraps the two for Lambda.
//! - [`Settings`] come from environment variables.
//! - [`Simulate`] lets a message fail on purpose, for demonstrations.

mod settings;
mod simulate;

use std::num::NonZeroU64;

use aws_sdk_dynamodb::Client;
use aws_sdk_dynamodb::error::BuildError;
use aws_sdk_dynamodb::types::{AttributeValue, Update};
use lambda_idempotency::{
    Delivery, DynamoDbStore, Envelope, Error, Handler, HandlerError, Idempotency,
    IdempotencyBuilder, Key, Message, SqsService, Transaction,
};
use serde::{Deserialize, Serialize};

pub use settings::{Settings, SettingsError};
pub use simulate::{Simulate, exit_after_simulated_commit};

/// The body of a message, and the item that it becomes in the table of payments.
#[derive(Debug, Deserialize, Serialize)]
pub struct Payment {
    /// Names the payment: the same however often it is sent. `payment_id` in the message, and `id`,
    /// the partition key, in the table.
    #[serde(rename(deserialize = "payment_id"))]
    pub id: String,
    /// The account that the amount goes to.
    pub account: String,
    /// In cents. Zero, less or a fraction is refused when the body is decoded.
    pub amount: NonZeroU64,
    /// A failure to act out.
    #[serde(default, skip_serializing)]
    pub simulate: Option<Simulate>,
    /// On how many of the first receives to act it out; on every one if absent.
    #[serde(default, skip_serializing)]
    pub simulate_receives: Option<u32>,
}

/// What is stored with the finished message, for whoever asks about the payment again.
#[derive(Debug, Deserialize, PartialEq, Eq, Serialize)]
pub struct Receipt {
    /// The payment's id.
    pub payment_id: String,
    /// The account that was credited.
    pub account: String,
    /// The amount in cents.
    pub amount: NonZeroU64,
}

/// Handles payments: says what has to be written for one, and leaves the writing to the library.
#[derive(Clone, Debug)]
pub struct Payments {
    /// The table that each payment is put into. Partition key: `id`, a string.
    pub payments_table: String,
    /// The table of balances. Partition key: `id`, a string; `balance` is a number of cents.
    pub accounts_table: String,
}

impl Handler<Payment> for Payments {
    type Output = Transaction<Receipt>;

    async fn handle(
        &self,
        message: Message<Payment>,
    ) -> Result<Transaction<Receipt>, HandlerError> {
        let payment = &message.body;
        let transaction = Transaction::new()
            .put(&self.payments_table, payment)
            .write(self.add_to_balance(payment)?)
            .returning(Receipt {
                payment_id: payment.id.clone(),
                account: payment.account.clone(),
                amount: payment.amount,
            });
        if let Some(failure) = payment.failure_on(message.delivery().receive_count()) {
            failure.act_out(message.delivery()).await?;
        }
        Ok(transaction)
    }
}

impl Payment {
    /// The failure to act out on this receive, the first being 1.
    fn failure_on(&self, receive: Option<u32>) -> Option<Simulate> {
        let is_over = match (receive, self.simulate_receives) {
            (Some(receive), Some(last)) => receive > last,
            _ => false,
        };
        self.simulate.filter(|_| !is_over)
    }
}

impl Payments {
    /// Adding twice is what must not happen; the transaction with the record prevents it.
    fn add_to_balance(&self, payment: &Payment) -> Result<Update, BuildError> {
        Update::builder()
            .table_name(&self.accounts_table)
            .key("id", AttributeValue::S(payment.account.clone()))
            .update_expression("ADD #balance :amount")
            .expression_attribute_names("#balance", "balance")
            .expression_attribute_values(":amount", AttributeValue::N(payment.amount.to_string()))
            .build()
    }
}

/// The library as this function uses it. Add an observer or a clock, then build it.
pub fn idempotency(client: Client, settings: &Settings) -> IdempotencyBuilder {
    Idempotency::builder(DynamoDbStore::new(client, &settings.idempotency_table))
        .consumer("payments")
        .retention(settings.retention)
}

/// The service that `lambda_runtime::run` takes.
///
/// The key is the payment's id and not the message's: a producer that sends a payment twice, or a
/// redrive, makes a new message of it. The fingerprint refuses another payment under a used id. Any
/// mix of plain messages, SNS notifications and EventBridge events is understood.
///
/// # Errors
///
/// None that input could cause: only if the key's JSON pointer were wrong.
pub fn service(
    idempotency: &Idempotency,
    settings: &Settings,
) -> Result<SqsService<Payments, Payment>, Error> {
    let payments = Payments {
        payments_table: settings.payments_table.clone(),
        accounts_table: settings.accounts_table.clone(),
    };
    Ok(idempotency
        .sqs(payments)
        .key(Key::body("/payment_id")?)
        .fingerprint_body()
        .envelope(Envelope::Detect)
        .skip(is_s3_test_event))
}

/// S3 sends one such event when a bucket's notifications are set up; there is nothing to do for it.
fn is_s3_test_event(delivery: &Delivery) -> bool {
    // An acknowledged message is gone: the members decide, not a text that is in it somewhere.
    serde_json::from_str::<serde_json::Value>(delivery.body()).is_ok_and(|body| {
        let says = |name, text| body.get(name).and_then(|value| value.as_str()) == Some(text);
        says("Service", "Amazon S3") && says("Event", "s3:TestEvent")
    })
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn payments() -> Payments {
        Payments {
            payments_table: "payments".to_owned(),
            accounts_table: "accounts".to_owned(),
        }
    }

    fn message(body: Value) -> Result<Message<Payment>, serde_json::Error> {
        serde_json::from_value(body).map(Message::new)
    }

    #[tokio::test]
    async fn a_payment_is_recorded_and_added_to_its_account() -> Result<(), HandlerError> {
        let body = json!({ "payment_id": "p-1", "account": "1042", "amount": 4000 });

        let transaction = payments().handle(message(body)?).await?;

        transaction.check()?;
        assert_eq!(
            transaction.items::<Value>("payments")?,
            [json!({ "id": "p-1", "account": "1042", "amount": 4000 })]
        );
        let update = transaction
            .writes()
            .iter()
            .find(|write| write.table() == "accounts")
            .and_then(|write| write.action().update())
            .expect("an update of the account");
        assert_eq!(update.key()["id"], AttributeValue::S("1042".to_owned()));
        let values = update.expression_attribute_values().expect("values");
        assert_eq!(values[":amount"], AttributeValue::N("4000".to_owned()));
        assert_eq!(
            serde_json::to_value(transaction.result())?,
            json!({ "payment_id": "p-1", "account": "1042", "amount": 4000 })
        );
        Ok(())
    }

    #[test]
    fn an_amount_is_a_positive_whole_number_of_cents() {
        for amount in [
            json!(0),
            json!(-4000),
            json!(40.5),
            json!("4000"),
            Value::Null,
        ] {
            let body = json!({ "payment_id": "p-1", "account": "1042", "amount": amount });
            assert!(message(body).is_err(), "{amount} was taken");
        }
    }

    #[tokio::test]
    async fn a_simulated_error_writes_nothing() -> Result<(), HandlerError> {
        let body = json!({
            "payment_id": "p-1", "account": "1042", "amount": 4000, "simulate": "error",
        });
        assert!(payments().handle(message(body)?).await.is_err());
        Ok(())
    }

    #[tokio::test]
    async fn a_failure_that_ends_the_process_is_refused_unless_it_is_allowed()
    -> Result<(), HandlerError> {
        for failure in ["stall", "exit-before-commit", "exit-after-commit"] {
            let body = json!({
                "payment_id": "p-1", "account": "1042", "amount": 4000, "simulate": failure,
            });
            let error = payments().handle(message(body)?).await.expect_err(failure);
            assert!(error.to_string().contains("SIMULATE_FAILURES"), "{error}");
        }
        Ok(())
    }

    #[test]
    fn a_failure_can_be_limited_to_the_first_receives() -> Result<(), HandlerError> {
        let body = |receives: Value| {
            json!({
                "payment_id": "p-1", "account": "1042", "amount": 4000,
                "simulate": "error", "simulate_receives": receives,
            })
        };
        let twice = message(body(json!(2)))?.body;
        let always = message(body(Value::Null))?.body;
        for (receive, is_twice) in [
            (Some(1), true),
            (Some(2), true),
            (Some(3), false),
            (None, true),
        ] {
            assert_eq!(twice.failure_on(receive).is_some(), is_twice, "{receive:?}");
            assert!(always.failure_on(receive).is_some(), "{receive:?}");
        }
        Ok(())
    }

    #[test]
    fn only_the_test_event_of_s3_is_skipped() -> Result<(), Box<dyn std::error::Error>> {
        let test_event = json!({
            "Service": "Amazon S3", "Event": "s3:TestEvent", "Time": "2026-01-01T00:00:00.000Z",
            "Bucket": "receipts", "RequestId": "R1", "HostId": "H1",
        });
        let mentions_it = json!({
            "payment_id": "p-1", "account": "1042", "amount": 4000, "note": "s3:TestEvent",
        });
        for (body, is_skipped) in [
            (test_event.to_string(), true),
            (mentions_it.to_string(), false),
            (r#"["Amazon S3", "s3:TestEvent"]"#.to_owned(), false),
            ("s3:TestEvent".to_owned(), false),
        ] {
            let record = json!({ "messageId": "m-1", "body": body }).to_string();
            let delivery = Delivery::from_json(&record)?;
            assert_eq!(is_s3_test_event(&delivery), is_skipped, "{body}");
        }
        Ok(())
    }
}
