//! A handler that returns its result instead of a transaction.
use lambda_idempotency::{HandlerError, Idempotency, Message};

struct Receipt;

async fn handle(_: Message<String>) -> Result<Receipt, HandlerError> {
    Ok(Receipt)
}

fn wrap(idempotency: Idempotency) {
    let _ = idempotency.sqs(handle);
}

fn main() {}
