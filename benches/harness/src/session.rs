//! A driver's side of a measurement: `benches/run.py` says when, and measures.
//!
//! The driver processes `--warm` events and prints `ready`. On the line `go` it processes the
//! others, prints what came of it as JSON, and waits for its standard input to end, so that its
//! memory can be looked at.

use std::fs::File;
use std::io::{BufRead as _, BufReader, Read as _};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use anyhow::Context as _;
use lambda_runtime::Context;

use crate::arguments::Arguments;

/// The events of a driver, one a line.
#[derive(Debug)]
pub struct Events(BufReader<File>);

impl Events {
    /// Those of the file `--events`.
    ///
    /// # Errors
    ///
    /// If it can't be read.
    pub fn open(arguments: &Arguments) -> anyhow::Result<Self> {
        let path = arguments.text("events")?;
        let file = File::open(path).with_context(|| format!("can't read {path}"))?;
        Ok(Self(BufReader::new(file)))
    }
}

impl Iterator for Events {
    type Item = std::io::Result<Vec<u8>>;

    fn next(&mut self) -> Option<Self::Item> {
        let mut line = Vec::new();
        match self.0.read_until(b'\n', &mut line) {
            Ok(0) => None,
            Ok(_) => Some(Ok(line)),
            Err(error) => Some(Err(error)),
        }
    }
}

/// An invocation that has five minutes.
///
/// # Errors
///
/// If the clock stands before 1970.
pub fn context() -> anyhow::Result<Context> {
    let end = SystemTime::now().duration_since(UNIX_EPOCH)? + Duration::from_secs(300);
    let mut context = Context::default();
    context.deadline = end.as_millis().try_into()?;
    Ok(context)
}

/// Drives a function through the events.
///
/// # Errors
///
/// If an event can't be read, or an invocation fails.
pub async fn drive(
    arguments: &Arguments,
    mut invoke: impl AsyncFnMut(Vec<u8>) -> anyhow::Result<usize>,
) -> anyhow::Result<()> {
    let mut events = Events::open(arguments)?;
    for event in events.by_ref().take(arguments.number("warm", 1)?) {
        invoke(event?).await?;
    }
    println!("ready");
    let mut input = std::io::stdin().lock();
    let mut line = String::new();
    input.read_line(&mut line)?;
    let start = Instant::now();
    let mut failed = 0;
    for event in events {
        failed += invoke(event?).await?;
    }
    let seconds = start.elapsed().as_secs_f64();
    println!(
        "{}",
        serde_json::json!({ "seconds": seconds, "failed": failed })
    );
    input.read_to_end(&mut Vec::new())?;
    Ok(())
}
