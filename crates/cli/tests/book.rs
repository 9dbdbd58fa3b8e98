//! The book: all pages are in it, no link leads nowhere, and what its first pages tell people to type does what they
//! say. The last part as root, in network namespaces of its own.

mod commands;
mod links;
mod recipes;
mod reports;

use std::path::{Path, PathBuf};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap()
}
