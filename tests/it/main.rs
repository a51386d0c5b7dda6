//! The library against a real store, through the real SDK.

#![allow(unreachable_pub, reason = "a test binary has no public interface")]
#![allow(missing_docs, reason = "the tests' names say it")]

mod support;

mod at_commit;
mod bad_input;
mod claim;
mod commit;
mod fifo;
mod group_faults;
mod groups;
mod keys;
mod linger;
mod marker_apart;
mod memory;
mod modes;
mod outages;
mod panics;
mod properties;
mod public_api;
mod races;
mod release;
mod results;
mod sdk_retries;
mod store;
mod takeover;
mod time;
mod traps;
mod warm_up;
