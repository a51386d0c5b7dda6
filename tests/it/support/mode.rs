//! In which mode the tests of this run take their keys.

use lambda_idempotency::Claim;

/// Set to `at-commit` for a run in the other mode; see `modes`.
pub const VARIABLE: &str = "CLAIM";

/// The mode of tests that do not choose one.
pub fn claim() -> Claim {
    match std::env::var(VARIABLE).as_deref() {
        Err(_) | Ok("first") => Claim::First,
        Ok("at-commit") => Claim::AtCommit,
        Ok(other) => panic!("{VARIABLE}={other}: neither `first` nor `at-commit`"),
    }
}
