//! `cargo run`: feeds SQS events to the sample function, on a DynamoDB within this process, and
//! shows what becomes of each message.
//!
//! - `args` and `events`: what to run.
//! - `store`, `tables`, `count`: the DynamoDB that it runs on, and the requests that reach it.
//! - `run`, `progress`: one event through the sample function.
//! - `ledger`: what the payments have come to.
//! - `print`: all of it, for a person or as JSON lines.

mod args;
mod count;
mod events;
mod ledger;
mod print;
mod progress;
mod run;
mod store;
mod tables;

use std::io::ErrorKind;
use std::process::ExitCode;

use crate::args::Args;
use crate::count::Requests;
use crate::ledger::Ledger;
use crate::run::{Runner, Totals};
use crate::store::Store;

/// For whatever keeps the demo from doing its work. That an event fails is part of its work.
const UNUSABLE: u8 = 2;

#[tokio::main]
async fn main() -> ExitCode {
    let args = match Args::read() {
        Ok(args) => args,
        Err(code) => return code,
    };
    shorten_panics();
    match demo(args).await {
        Ok(()) => ExitCode::SUCCESS,
        // Whoever reads the output has seen enough: `cargo run | head`.
        Err(error) if is_broken_pipe(&error) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {}", print::one_line(&format!("{error:#}")));
            ExitCode::from(UNUSABLE)
        }
    }
}

async fn demo(args: Args) -> anyhow::Result<()> {
    let events = events::load(&args.events)?;
    let requests = Requests::default();
    let store = Store::open(args.keep.as_deref(), requests.clone()).await?;
    tables::create(store.client()).await?;
    let mut printer = print::printer(&args, &events);
    let runner = Runner::new(store.client().clone(), args.key, requests)?;

    printer.start(store.place())?;
    let mut totals = Totals::default();
    for event in &events {
        let ended = runner.run(event).await;
        totals.add(&ended);
        printer.event(&ended)?;
    }
    let ledger = Ledger::read(store.client()).await?;
    printer.end(&ledger, &totals)?;
    store.close().await;
    Ok(())
}

/// The outcome of the message says what a panic says, so a line is enough, and no backtrace.
fn shorten_panics() {
    std::panic::set_hook(Box::new(|panic| {
        let message = panic.payload_as_str().unwrap_or("no message");
        match panic.location() {
            Some(place) => eprintln!("panic at {}:{}: {message}", place.file(), place.line()),
            None => eprintln!("panic: {message}"),
        }
    }));
}

fn is_broken_pipe(error: &anyhow::Error) -> bool {
    error
        .downcast_ref::<std::io::Error>()
        .is_some_and(|error| error.kind() == ErrorKind::BrokenPipe)
}
