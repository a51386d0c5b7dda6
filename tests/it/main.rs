//! The library against a real store, through the real SDK.

#![allow(unreachable_pub, reason = "a test binary has no public interface")]
#![allow(missing_docs, reason = "the tests' names say it")]

mod support;

mod bad_input;
mod keys;
mod properties;
mod protocol;
mod public_api;
mod traps;
