//! Privileges that a process gives up when it looks at accelerators and shows what they tell: an intruder who
//! takes the process over gains nothing of the machine.

use std::path::Path;

use anyhow::Result;
use io::Allowed;

/// Directory in which processes are looked up.
const PROCESSES: &str = "/proc";

/// Directories in which names of hosts are looked up.
const NAMES: [&str; 2] = ["/etc", "/run"];

/// Gives up all that a process does not need which asks the accelerators of `state_directory` and keeps what they tell below
/// `write`. To be called before there are other threads.
pub fn only_look(state_directory: &Path, write: &[&Path]) -> Result<()> {
    give_up(
        state_directory,
        &Allowed { read: &[state_directory, Path::new(PROCESSES)], write, network: false },
    )
}

/// The same for one that speaks to another machine, too.
pub fn only_look_and_tell(state_directory: &Path) -> Result<()> {
    let [first, second] = NAMES.map(Path::new);
    let read = [state_directory, Path::new(PROCESSES), first, second];
    give_up(state_directory, &Allowed { read: &read, write: &[], network: true })
}

fn give_up(state_directory: &Path, allowed: &Allowed<'_>) -> Result<()> {
    run::keep_privileges_to_ask(state_directory)?;
    // How much the kernel can deny is no matter of who looks.
    io::confine(allowed)?;
    Ok(())
}
