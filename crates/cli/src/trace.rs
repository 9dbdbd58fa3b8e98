//! `cellerator trace`.

use std::process::ExitCode;

/// Arguments of `cellerator trace`.
#[derive(clap::Args)]
pub struct Args {}

/// Runs `cellerator trace`; an error is one clear line: what, where, what to do.
pub fn main(_args: Args) -> Result<ExitCode, String> {
    Err("trace: not built in this version".to_owned())
}
