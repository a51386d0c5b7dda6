//! The command line.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Parser;
use lambda_idempotency::Key;

/// Feeds SQS events to a sample function that books payments, and shows what becomes of each
/// message. DynamoDB runs within the process; nothing leaves the machine.
#[derive(Debug, Parser)]
#[command(
    name = "demo",
    after_help = "AWS_ENDPOINT_URL_DYNAMODB=URL uses the DynamoDB at that endpoint instead, and \
                  creates the tables idempotency, payments and accounts there."
)]
pub(crate) struct Args {
    /// Event files, or directories of them [default: all of events/]
    #[arg(value_name = "EVENT")]
    pub(crate) events: Vec<PathBuf>,

    /// JSON lines instead of a table
    #[arg(long)]
    pub(crate) json: bool,

    /// What names a message: `message-id`, or a JSON pointer into its body [default: /payment_id]
    #[arg(long, value_parser = key)]
    pub(crate) key: Option<Key>,

    /// Keeps the database in this file, for another run to go on with
    #[arg(long, value_name = "FILE")]
    pub(crate) keep: Option<PathBuf>,
}

impl Args {
    /// Whether nothing was asked for but to see the demo.
    pub(crate) fn is_bare(&self) -> bool {
        self.events.is_empty() && self.key.is_none() && self.keep.is_none()
    }

    /// The arguments of this process; or the code to exit with, when everything has been said.
    pub(crate) fn read() -> Result<Self, ExitCode> {
        Self::try_parse().map_err(|error| {
            if !error.use_stderr() {
                return match error.print() {
                    Ok(()) => ExitCode::SUCCESS,
                    Err(_) => ExitCode::FAILURE,
                };
            }
            // The first line says what is wrong; the rest is usage, which `--help` has too.
            let told = error.to_string();
            eprintln!("{} (see --help)", told.lines().next().unwrap_or(&told));
            ExitCode::from(super::UNUSABLE)
        })
    }
}

fn key(text: &str) -> Result<Key, String> {
    match text {
        "message-id" => Ok(Key::message_id()),
        pointer if pointer.starts_with('/') => {
            Key::body(pointer).map_err(|error| error.to_string())
        }
        _ => Err("neither `message-id` nor a JSON pointer such as /payment_id".to_owned()),
    }
}
