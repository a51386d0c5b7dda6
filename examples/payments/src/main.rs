//! The Lambda function.

use aws_config::BehaviorVersion;
use aws_sdk_dynamodb::Client;
use payments::Settings;

#[tokio::main]
async fn main() -> Result<(), lambda_runtime::Error> {
    lambda_runtime::tracing::init_default_subscriber();
    let settings = Settings::from_env()?;
    let aws = aws_config::load_defaults(BehaviorVersion::latest()).await;
    let idempotency = payments::idempotency(Client::new(&aws), &settings)
        // For the end-to-end tests only; a function of your own has no use for it.
        .observer(payments::exit_after_simulated_commit)
        .build()?;
    lambda_runtime::run(payments::service(&idempotency, &settings)?).await
}
