//! A deterministic simulation of the real code, from `SqsService::process` down, on a store, a
//! clock and a queue that misbehave by seed.
//!
//! `SEEDS=n` runs that many seeds; `SEED=x` replays one and prints its history.

#![allow(unreachable_pub, reason = "a test binary has no public interface")]
#![allow(missing_docs, reason = "the tests' names say it")]

mod clock;
mod conduct;
mod counts;
mod expressions;
mod faults;
mod fingerprint;
mod handler;
mod history;
mod invocation;
mod items;
mod likeness;
mod memory;
mod oracle;
mod order;
mod queue;
mod rival;
mod rng;
mod run;
mod seeds;
mod setup;
mod wire;
mod world;

#[path = "../it/support/server.rs"]
mod server;
#[path = "../it/support/tables.rs"]
mod tables;
