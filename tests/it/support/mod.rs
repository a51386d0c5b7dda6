//! What the tests share: a store, a wire to it that can break, a clock that only moves by hand,
//! messages, and a small bank to count effects in.

mod bank;
mod clock;
mod conflicts;
mod drive;
mod events;
mod hold;
mod lab;
mod logs;
mod mode;
mod server;
mod tables;
mod told;
mod wire;

pub use bank::{Bank, Payment, pay};
pub use clock::ManualClock;
pub use drive::drive;
pub use events::{Record, batch, context};
pub use hold::{HeldBank, Hold};
pub use lab::{CONSUMER, KEY, Lab, Paid, Reported, Tables};
pub use logs::{Logs, install as install_logs};
pub use mode::{COMMIT, Mode, Step, VARIABLE as CLAIM};
pub use wire::{Fault, Wire};

use aws_sdk_dynamodb::types::AttributeValue;

pub fn text(text: &str) -> AttributeValue {
    AttributeValue::S(text.to_owned())
}

pub fn number(number: u64) -> AttributeValue {
    AttributeValue::N(number.to_string())
}
