//! `cellerator top` and `status --watch` beside an accelerator that works; the view in a real terminal, tmux's. As
//! root, in network namespaces of their own.

// In helpers of tests, too, a failure is a failed test.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, dead_code)]

#[path = "../telemetry/network.rs"]
mod network;
mod plain;
mod record;
mod remote;
mod terminal;
mod traffic;
