//! What the targets share.

mod batch;
mod block_on;
mod clock;
pub(crate) mod json;
mod memory;
mod told;
pub(crate) mod wire;

pub(crate) use batch::{QUEUE, TIME, batch_of, context, is_foreign, response_ids};
pub(crate) use block_on::block_on;
pub(crate) use clock::ManualClock;
pub(crate) use memory::Memory;
pub(crate) use told::{Tells, Told};

use std::hash::{DefaultHasher, Hash, Hasher};

pub(crate) const CONSUMER: &str = "fuzz";

/// Draws that depend on the input alone, so that every input replays exactly.
pub(crate) fn draws_of(data: &[u8]) -> fastrand::Rng {
    let mut hasher = DefaultHasher::new();
    data.hash(&mut hasher);
    fastrand::Rng::with_seed(hasher.finish())
}
