//! `cellerator demo`.

use std::process::ExitCode;

/// Arguments of `cellerator demo`.
#[derive(clap::Args)]
pub struct Args {}

/// Runs `cellerator demo`; an error is one clear line: what, where, what to do.
pub fn main(_args: Args) -> Result<ExitCode, String> {
    Err("demo: not built in this version".to_owned())
}
