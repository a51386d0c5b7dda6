//! What the benchmarks are made of. `benches/run.sh` builds and runs the programs in `src/bin/`.
//!
//! - `events`: the SQS events, the same for every system.
//! - `work`: what a message does, as a handler of the library.
//! - `library`, `by_hand`: the two Rust systems that process events.
//! - `instant`: stores that answer at once, to see our own cost alone.
//! - `arguments`, `session`: how a driver is told what to do, and when.

pub mod arguments;
pub mod by_hand;
pub mod events;
pub mod instant;
pub mod library;
pub mod session;
pub mod work;
