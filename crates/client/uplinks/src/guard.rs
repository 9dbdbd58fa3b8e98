//! The guard: a process that undoes what a killed daemon cannot.
//!
//! It waits for the end of its standard input, which the daemon holds. Then, if the daemon's record is still
//! there, it restores sysctls, limits and routes at once, and removes endpoints when no subflow uses them.

use std::io::Read;
use std::path::Path;
use std::process::{Child, ChildStdin, Command, Stdio};

use io::{Clock, Leftover, Waiter};
use units::Duration;

use crate::UplinkError;
use crate::error::Context;
use crate::record::{KIND, Record};

/// Between two looks whether endpoints are still used.
const LOOK_EVERY: Duration = Duration::from_millis(500);
/// Longest wait for the lock of a daemon that has just died.
const LOCK_WAIT_TURNS: u32 = 20;

/// The daemon's end of a guard.
#[derive(Debug)]
pub(crate) struct Guard {
    child: Child,
    _hold: ChildStdin,
}

impl Guard {
    /// Starts `program multipath guard DIRECTORY` in this namespace.
    pub fn start(program: &Path, directory: &Path) -> Result<Self, UplinkError> {
        let mut command = Command::new(program);
        command.args(["multipath", "guard"]).arg(directory);
        command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null());
        // Ctrl-C is for the daemon.
        std::os::unix::process::CommandExt::process_group(&mut command, 0);
        let mut child = command.spawn().doing(|| format!("start {}", program.display()))?;
        let hold =
            child.stdin.take().ok_or_else(|| UplinkError::NotThere("the guard has no input".into()))?;
        Ok(Self { child, _hold: hold })
    }

    /// Its process.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Lets it end, after the record is gone; waits for it.
    pub fn finish(self) {
        let Self { mut child, _hold: hold } = self;
        drop(hold);
        // It ends by itself: there is nothing left to do.
        let _ = child.wait();
    }
}

/// Runs as guard of the daemon whose instance lies in `directory`.
///
/// # Errors
/// When the record cannot be read or something cannot be undone.
pub fn watch(directory: &Path) -> Result<(), UplinkError> {
    io::ignore_signals(&[libc::SIGINT, libc::SIGHUP, libc::SIGTERM]);
    // Whatever ends it: the daemon is gone.
    let _ = std::io::stdin().read(&mut [0]);
    let base = directory.parent().unwrap_or(directory);
    let mut waiter = Waiter::new(Duration::ZERO)?;
    let mut turns = 0;
    while directory.exists() {
        let mine = Leftover::find(base, KIND)?.into_iter().find(|left| left.path() == directory);
        if let Some(left) = mine {
            let mut record = left.record().and_then(|text| Record::parse(&text)).unwrap_or_default();
            let undone = record.undo(false);
            if undone.in_use.is_empty() {
                left.forget()?;
                return Ok(());
            }
            let path = directory.join("record");
            std::fs::write(&path, record.to_text()).doing(|| format!("write {}", path.display()))?;
        } else {
            // A new daemon holds it, or the old one's lock has not gone yet.
            turns += 1;
            if turns > LOCK_WAIT_TURNS {
                return Ok(());
            }
        }
        waiter.wait(Some(Clock::now() + LOOK_EVERY))?;
    }
    Ok(())
}
