//! `cellerator probe` as a user runs it.

// In helpers of tests, too, a failure is a failed test.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod all;
mod bench;
mod hops;
mod link;
mod loopback;
mod middlebox;
mod record;
#[path = "../lab/schema.rs"]
mod schema;
mod truth;
