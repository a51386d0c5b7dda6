//! Input that is wrong: each says what is wrong, loses nothing, and touches no other message.

mod building;
mod events;
mod records;
mod secrets;
mod tables;
mod transactions;
