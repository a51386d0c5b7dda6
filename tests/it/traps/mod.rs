//! Inputs that have broken utilities like this one, from public reports. The numbers are those of
//! `README.md` beside this file; a name says what is right.

mod batches;
mod keys;
mod leases;
mod replays;
mod shapes;
mod store;
