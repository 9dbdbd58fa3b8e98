//! `cellerator dashboard` in a real browser, Debian's Chromium, beside an accelerator that works. As root, in network
//! namespaces of their own; `make chromium`.

// In helpers of tests, too, a failure is a failed test.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, dead_code)]

mod browser;
#[path = "../telemetry/network.rs"]
mod network;
mod pages;
#[path = "../top/traffic.rs"]
mod traffic;
