//! Processes events on a store that answers at once, for counting instructions.
//!
//! `--system` is `library` (no SDK), `library-sdk` or `hand-written` (both over the SDK, with an
//! HTTP client that answers at once).

use anyhow::bail;
use bench_harness::arguments::Arguments;
use bench_harness::instant::{self, InstantStore};
use bench_harness::library::{self, Settings};
use bench_harness::session::{Events, context};
use bench_harness::{by_hand, work};
use lambda_idempotency::DynamoDbStore;

#[tokio::main(flavor = "current_thread")]
async fn main() -> anyhow::Result<()> {
    let arguments = Arguments::read()?;
    let events = Events::open(&arguments)?;
    let mode = arguments.text("mode")?;
    let concurrency = arguments.number("concurrency", 10)?;
    let settings = || -> anyhow::Result<Settings> {
        Ok(Settings {
            mode: mode.parse()?,
            concurrency,
            remembered: 0,
            work: work::Deposits::default(),
        })
    };
    // The store forgets everything, so an event can be processed again.
    let mut failed = 0;
    match arguments.text("system")? {
        "library" => {
            let mut function = library::Function::new(InstantStore, settings()?)?;
            for event in events {
                failed += function.invoke(&event?, context()?).await?;
            }
        }
        "library-sdk" => {
            let store = DynamoDbStore::new(instant::client(), work::RECORDS);
            let mut function = library::Function::new(store, settings()?)?;
            for event in events {
                failed += function.invoke(&event?, context()?).await?;
            }
        }
        "hand-written" => {
            let function = by_hand::Function {
                client: instant::client(),
                mode: mode.parse()?,
                concurrency,
            };
            for event in events {
                failed += function.invoke(&event?, &context()?).await?;
            }
        }
        other => bail!("no system is named {other:?}"),
    }
    if failed > 0 {
        bail!("{failed} messages failed");
    }
    Ok(())
}
