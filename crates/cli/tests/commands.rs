//! The integration tests as one program, which is linked once.

// In helpers of tests, too, a failure is a failed test.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod analyze;
mod architecture;
mod book;
mod dashboard;
mod digest;
mod documents;
mod feedback;
mod hazards;
mod lab;
mod multipath;
mod network;
mod package;
mod probe;
mod processes;
mod reproduce;
mod schema;
mod schemas;
mod sim;
mod telemetry;
mod top;
mod traffic;
mod versions;
