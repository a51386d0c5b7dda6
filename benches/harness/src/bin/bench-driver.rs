//! The Rust systems of the benchmark, as one warm Lambda environment would run them.
//!
//! `--system` is `library` or `hand-written`, `--mode` one of theirs. The environment names the
//! store, as for every program that uses an AWS SDK.

use anyhow::bail;
use aws_config::BehaviorVersion;
use aws_sdk_dynamodb::Client;
use bench_harness::arguments::Arguments;
use bench_harness::library::{self, Settings};
use bench_harness::session::{context, drive};
use bench_harness::{by_hand, work};
use lambda_idempotency::DynamoDbStore;

// As the sample function: the same runtime, the same log.
#[tokio::main]
async fn main() -> anyhow::Result<()> {
    lambda_runtime::tracing::init_default_subscriber();
    let arguments = Arguments::read()?;
    let mode = arguments.text("mode")?;
    let concurrency = arguments.number("concurrency", 10)?;
    let aws = aws_config::load_defaults(BehaviorVersion::latest()).await;
    let client = Client::new(&aws);
    match arguments.text("system")? {
        "library" => {
            let settings = Settings {
                mode: mode.parse()?,
                concurrency,
                remembered: arguments.number("remember", 0)?,
                work: work::Deposits {
                    writes: arguments.number("writes", 1)?,
                    result_bytes: arguments.number("result-bytes", 0)?,
                },
            };
            let store = DynamoDbStore::new(client, work::RECORDS);
            let mut function = library::Function::new(store, settings)?;
            drive(&arguments, async |event| {
                function.invoke(&event, context()?).await
            })
            .await
        }
        "hand-written" => {
            let function = by_hand::Function {
                client,
                mode: mode.parse()?,
                concurrency,
            };
            drive(&arguments, async |event| {
                function.invoke(&event, &context()?).await
            })
            .await
        }
        other => bail!("no system is named {other:?}"),
    }
}
