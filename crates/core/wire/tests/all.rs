//! The integration tests as one program, which is linked once.

// In helpers of tests, too, a failure is a failed test.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod any_bytes;
mod common;
mod gso;
mod round_trips;
mod views;
