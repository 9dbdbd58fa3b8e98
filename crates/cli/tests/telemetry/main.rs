//! `cellerator metrics`, `events` and `export` beside an accelerator that works, each as a process of its own.
//! As root, in network namespaces of their own.

// In helpers of tests, too, a failure is a failed test.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod collectors;
mod metrics;
mod network;
mod streams;
