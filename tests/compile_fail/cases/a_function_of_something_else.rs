//! A handler that takes its body, not the message.
use lambda_idempotency::{HandlerError, Idempotency};

async fn handle(_: String) -> Result<(), HandlerError> {
    Ok(())
}

fn wrap(idempotency: Idempotency) {
    let _ = idempotency.sqs::<String, _>(handle);
}

fn main() {}
