//! A transaction whose result can't be stored.
use lambda_idempotency::{HandlerError, Idempotency, Message, Transaction};

struct Receipt;

async fn handle(_: Message<String>) -> Result<Transaction<Receipt>, HandlerError> {
    Ok(Transaction::new().returning(Receipt))
}

fn wrap(idempotency: Idempotency) {
    let _ = idempotency.sqs(handle);
}

fn main() {}
