//! Bad bytes: one function a target, driven by `cargo run -p fuzz --profile fuzz` on any toolchain, and
//! by libFuzzer (see `libfuzzer/`) where there is one.
//!
//! Each takes any bytes, brings them to the crate through its public API, and panics where a
//! property does not hold. What its input looks like stands at its head; every input is legal.

mod event;
mod fingerprint;
mod key;
mod record;
mod support;

pub use event::event;
pub use fingerprint::fingerprint;
pub use key::key;
pub use record::record;

/// A target: takes any bytes, and panics where a property does not hold.
pub type Target = fn(&[u8]);

/// Every target, by its name.
pub const TARGETS: [(&str, Target); 4] = [
    ("event", event),
    ("key", key),
    ("fingerprint", fingerprint),
    ("record", record),
];
