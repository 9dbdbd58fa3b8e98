//! The integration tests as one program, which is linked once.

// In helpers of tests, too, a failure is a failed test.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod panic;
mod screens;
mod secure;
