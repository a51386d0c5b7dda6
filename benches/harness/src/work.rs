//! What a message does: pays into accounts, and returns a receipt.

use aws_sdk_dynamodb::error::BuildError;
use aws_sdk_dynamodb::types::{AttributeValue, Update};
use lambda_idempotency::{Handler, HandlerError, Message, Transaction};
use serde::{Deserialize, Serialize};

/// The table of records.
pub const RECORDS: &str = "bench-records";
/// The table of balances.
pub const ACCOUNTS: &str = "bench-accounts";

/// The body of a message.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub struct Payment {
    /// Names the payment.
    pub payment_id: String,
    /// Where it goes.
    pub account: String,
    /// How much it is.
    pub amount: u64,
}

/// The result that is stored with the finished message.
#[derive(Debug, Deserialize, Serialize)]
pub struct Receipt {
    /// Of which payment.
    pub payment_id: String,
    /// Makes it larger, for measuring that.
    #[serde(skip_serializing_if = "String::is_empty", default)]
    pub note: String,
}

/// The business write: adds the amount to the account.
///
/// # Errors
///
/// None that input could cause.
pub fn deposit(account: &str, amount: u64) -> Result<Update, BuildError> {
    Update::builder()
        .table_name(ACCOUNTS)
        .key("id", AttributeValue::S(account.to_owned()))
        .update_expression("ADD #balance :amount")
        .expression_attribute_names("#balance", "balance")
        .expression_attribute_values(":amount", AttributeValue::N(amount.to_string()))
        .build()
}

/// The handler.
#[derive(Clone, Copy, Debug)]
pub struct Deposits {
    /// How many accounts a message pays into: its own, and others named after it.
    pub writes: usize,
    /// How many bytes the result is longer than needed.
    pub result_bytes: usize,
}

impl Default for Deposits {
    fn default() -> Self {
        Self {
            writes: 1,
            result_bytes: 0,
        }
    }
}

impl Handler<Payment> for Deposits {
    type Output = Transaction<Receipt>;

    async fn handle(
        &self,
        message: Message<Payment>,
    ) -> Result<Transaction<Receipt>, HandlerError> {
        let Payment {
            payment_id,
            account,
            amount,
        } = message.body;
        let mut transaction = Transaction::new();
        for number in 1..self.writes {
            let account = format!("{account}-{number}");
            transaction = transaction.write(deposit(&account, amount)?);
        }
        let receipt = Receipt {
            payment_id,
            note: "x".repeat(self.result_bytes),
        };
        Ok(transaction
            .write(deposit(&account, amount)?)
            .returning(receipt))
    }
}
