//! The library against a real store, through the real SDK.

#![allow(unreachable_pub, reason = "a test binary has no public interface")]
#![allow(missing_docs, reason = "the tests' names say it")]

mod support;

mod claim;
mod commit;
mod fifo;
mod panics;
mod release;
mod results;
mod sdk_retries;
mod store;
mod takeover;
mod time;
