//! A struct that was meant to be a handler.
use lambda_idempotency::Idempotency;

struct Payments;

fn wrap(idempotency: Idempotency) {
    let _ = idempotency.sqs::<String, _>(Payments);
}

fn main() {}
