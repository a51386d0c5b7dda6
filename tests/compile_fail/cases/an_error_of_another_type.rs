//! A handler with an error type of its own.
use lambda_idempotency::{Idempotency, Message};

async fn handle(_: Message<String>) -> Result<(), std::io::Error> {
    Ok(())
}

fn wrap(idempotency: Idempotency) {
    let _ = idempotency.sqs(handle);
}

fn main() {}
