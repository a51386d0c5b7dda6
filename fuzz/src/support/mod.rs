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

pub(crate) const CONSUMER: &str = "fuzz";

/// Draws that depend on the input alone, so that every input replays exactly.
pub(crate) fn draws_of(data: &[u8]) -> fastrand::Rng {
    // FNV-1a: the same on every toolchain.
    let hash = data.iter().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3)
    });
    fastrand::Rng::with_seed(hash)
}
