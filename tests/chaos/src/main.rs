//! Real processes under real faults: is each message applied exactly once?
//!
//! Workers are the sample function as it is deployed, on a Runtime API of the driver's. They share the
//! embedded DynamoDB, on a file and in a process of its own. The driver feeds them as the event source
//! mapping does, and kills them (SIGKILL), stalls them past their lease (SIGSTOP), cuts and delays
//! their connections to the store, and kills the store. What it says of the outcome it reads from the
//! ledger alone.

mod args;
mod event;
mod faults;
mod history;
mod ledger;
mod mapping;
mod payments;
mod proxy;
mod queue;
mod report;
mod response;
mod run;
mod runtime_api;
mod slot;
mod store;
mod timing;

use std::process::ExitCode;

use args::Args;
use clap::Parser as _;

#[tokio::main]
async fn main() -> anyhow::Result<ExitCode> {
    let args = Args::parse();
    if let Some(file) = &args.serve {
        store::serve(file).await?;
        return Ok(ExitCode::SUCCESS);
    }
    tokio::select! {
        is_right = run::run(&args) => Ok(if is_right? {
            ExitCode::SUCCESS
        } else {
            ExitCode::FAILURE
        }),
        // Returning drops the processes, and that ends them, stopped ones too.
        interrupted = interruption() => {
            interrupted?;
            eprintln!("interrupted");
            Ok(ExitCode::FAILURE)
        }
    }
}

async fn interruption() -> anyhow::Result<()> {
    use tokio::signal::unix::{SignalKind, signal};
    let mut terminated = signal(SignalKind::terminate())?;
    tokio::select! {
        interrupted = tokio::signal::ctrl_c() => interrupted?,
        _ = terminated.recv() => {}
    }
    Ok(())
}
