//! `cellerator run`.

use std::process::ExitCode;

/// Arguments of `cellerator run`.
#[derive(clap::Args)]
pub struct Args {}

/// Runs `cellerator run`; an error is one clear line: what, where, what to do.
pub fn main(_args: Args) -> Result<ExitCode, String> {
    Err("run: not built in this version".to_owned())
}
