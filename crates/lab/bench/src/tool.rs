//! [`run_tool`]: `ip` and `nft` in a namespace, for what only comparisons need.

use std::io::{ErrorKind, Write};
use std::process::{Command, Stdio};

use io::{Namespace, SpawnOptions};

use crate::BenchError;
use crate::error::Context;

/// Runs `program` in `namespace` with `input`; a failure means that `what` cannot be measured.
pub(crate) fn run_tool(
    namespace: &Namespace,
    program: &str,
    arguments: &[&str],
    input: &str,
    what: &str,
) -> Result<(), BenchError> {
    let mut command = Command::new(program);
    command.args(arguments).stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::piped());
    let options = SpawnOptions { death_signal: Some(libc::SIGKILL), own_process_group: false };
    let doing = || format!("run `{program} {}`", arguments.join(" "));
    let missing = |why: String| BenchError::Missing { what: what.to_owned(), why };
    let mut child = namespace.spawn(command, options).map_err(|error| missing(error.to_string()))?;
    if let Some(mut stdin) = child.stdin.take() {
        match stdin.write_all(input.as_bytes()) {
            Err(e) if e.kind() != ErrorKind::BrokenPipe => return Err(e).doing(doing),
            _ => {}
        }
    }
    let output = child.wait_with_output().doing(doing)?;
    if output.status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&output.stderr);
    Err(missing(format!("cannot {}: {}", doing(), said.lines().next().unwrap_or("it failed").trim())))
}
