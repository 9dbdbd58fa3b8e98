//! The book: all pages are in it, no link leads nowhere, and what its first pages tell people to type does what they
//! say. The last part as root, in network namespaces of its own.

// In helpers of tests, too, a failure is a failed test.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod commands;
mod links;
#[allow(dead_code)] // Others use the rest of it.
#[path = "../telemetry/network.rs"]
mod network;
mod recipes;
mod reports;

use std::path::{Path, PathBuf};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap()
}
