//! A package of its own, so that the compiler checks only what a user's function depends on, and
//! not the embedded DynamoDB of the other tests.
