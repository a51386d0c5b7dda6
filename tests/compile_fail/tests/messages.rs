//! The compiler's messages for mistakes in handlers, as a user sees them.
//!
//! The snapshots are of the Rust version in `rust-toolchain.toml`; after a change of it, or of a
//! message, write them anew with `TRYBUILD=overwrite` and read them.

#[test]
fn mistakes_in_handlers_get_messages_a_person_understands() {
    trybuild::TestCases::new().compile_fail("cases/*.rs");
}
