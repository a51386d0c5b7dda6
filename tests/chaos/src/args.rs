//! The command line.

use std::path::PathBuf;

use clap::Parser;

/// Kills, stalls and cuts off the workers of a queue, and checks that each payment is booked once.
#[derive(Debug, Parser)]
#[command(name = "chaos")]
pub(crate) struct Args {
    /// How many messages to send at least
    #[arg(default_value_t = 5_000, value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) messages: u32,

    /// How many workers to kill at least [default: one for 25 messages]
    #[arg(long)]
    pub(crate) kills: Option<usize>,

    /// How many workers to stall past their lease at least [default: one for 100 messages]
    #[arg(long)]
    pub(crate) stalls: Option<usize>,

    /// How many workers there are
    #[arg(long, default_value_t = 6, value_parser = clap::value_parser!(u16).range(2..=64))]
    pub(crate) workers: u16,

    /// What the faults are chosen by [default: any]
    #[arg(long, env = "SEED")]
    pub(crate) seed: Option<u64>,

    /// Be the store, on this file
    #[arg(long, hide = true, value_name = "FILE")]
    pub(crate) serve: Option<PathBuf>,
}
