//! The demo as a user runs it: the program, its output, its exit code.

mod bad_input;
mod events;
mod options;
mod runs;
