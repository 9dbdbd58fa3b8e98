//! The program that is tried.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

/// The `cellerator` program of this build, brought up to date once.
pub fn program() -> &'static Path {
    static PROGRAM: OnceLock<Result<PathBuf, String>> = OnceLock::new();
    PROGRAM.get_or_init(build_program).as_ref().unwrap_or_else(|problem| panic!("{problem}"))
}

/// Asks cargo for the program, because cargo names it to its own package's tests only.
fn build_program() -> Result<PathBuf, String> {
    let test = std::env::current_exe().unwrap();
    // TARGET/PROFILE/deps/kernel-HASH
    let profile = test.ancestors().nth(2).unwrap();
    let program = profile.join("cellerator");
    if let Some(cargo) = std::env::var_os("CARGO") {
        let mut command = Command::new(cargo);
        if profile.ends_with("debug") {
            // What the program's own tests bring along, so that cargo compiles with the features that `make test`
            // has: with the program's alone it would compile nearly all of it once more.
            command.args(["test", "--quiet", "--workspace", "--no-run", "--test", "commands"]);
        } else {
            command.args(["build", "--quiet", "--package", "cellerator", "--bin", "cellerator", "--release"]);
        }
        command.arg("--target-dir").arg(profile.parent().unwrap());
        command.current_dir(env!("CARGO_MANIFEST_DIR"));
        let status = command.status().map_err(|error| format!("{command:?}: {error}"))?;
        if !status.success() {
            return Err(format!("{command:?} failed"));
        }
    }
    if program.exists() {
        Ok(program)
    } else {
        Err(format!("{} is missing: run these tests with cargo", program.display()))
    }
}
