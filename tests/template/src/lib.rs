//! Checks of a SAM template whose functions use `lambda-idempotency`: the numbers that depend on each
//! other, and what would lose or double messages if it were missing.
//!
//! - [`Template`]: a template in which functions and parameters can be looked up.
//! - [`problems`]: what is wrong with one; a sentence each.
//!
//! `cargo run -p check-template -- my-template.yaml` checks a template of your own.

mod checks;
mod permissions;
mod template;
mod yaml;

pub use checks::{TTL_ATTRIBUTE, problems};
pub use permissions::{LIBRARY_ACTIONS, QUEUE_ACTIONS};
pub use template::Template;
