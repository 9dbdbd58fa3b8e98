//! The `cellerator` command.
fn main() {}
