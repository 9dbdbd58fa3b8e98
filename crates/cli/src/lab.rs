//! `cellerator lab`.

use std::process::ExitCode;

/// Arguments of `cellerator lab`.
#[derive(clap::Args)]
pub struct Args {}

/// Runs `cellerator lab`; an error is one clear line: what, where, what to do.
pub fn main(_args: Args) -> Result<ExitCode, String> {
    Err("lab: not built in this version".to_owned())
}
