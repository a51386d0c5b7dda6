//! The shapes in which the library is used.

mod around;
mod calls;
mod debug;
mod service;
