//! A handler whose effects can be counted: a payment, and an account's balance.

use aws_sdk_dynamodb::types::{AttributeValue, Update};
use lambda_idempotency::{Handler, HandlerError, Message, Transaction};
use serde::{Deserialize, Serialize};

use super::lab::Tables;

#[derive(Clone, Debug, Deserialize, Serialize)]
pub struct Payment {
    pub id: String,
    pub account: String,
    pub amount: u64,
}

/// The transaction of a payment: an item of its own, and the amount added to the account.
pub fn pay(tables: &Tables, payment: &Payment) -> Transaction {
    let account = match tables.spreads_accounts {
        true => format!("{}/{}", payment.account, payment.id),
        false => payment.account.clone(),
    };
    let add = Update::builder()
        .table_name(&tables.accounts)
        .key("id", AttributeValue::S(account))
        .update_expression("ADD #balance :amount")
        .expression_attribute_names("#balance", "balance")
        .expression_attribute_values(":amount", AttributeValue::N(payment.amount.to_string()))
        .build()
        .unwrap();
    Transaction::new().put(&tables.payments, payment).write(add)
}

/// The handler of payments.
#[derive(Clone)]
pub struct Bank(pub Tables);

impl Handler<Payment> for Bank {
    type Output = Transaction;

    async fn handle(&self, message: Message<Payment>) -> Result<Transaction, HandlerError> {
        Ok(pay(&self.0, &message.body))
    }
}
