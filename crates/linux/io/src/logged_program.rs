//! [`LoggedProgram`]: a program in a namespace that says in a file how it does.

use std::fs::{self, File};
use std::path::PathBuf;
use std::process::{Command, Stdio};

use units::Duration;

use crate::error::Context;
use crate::{Clock, IoError, Namespace, PidFd, SpawnOptions, Tethered};

/// Time between two looks at a program.
const LOOK: Duration = Duration::from_millis(5);

/// Number of lines of what a program said that an error has.
const LAST_LINES: usize = 5;

/// Failure of a program, with the last lines of what it said itself.
#[derive(Debug, thiserror::Error)]
#[error("{name}: {message}")]
pub struct ProgramFailure {
    /// Name of the program.
    pub name: String,
    /// Description of the failure.
    pub message: String,
}

/// A running program; killed when dropped, with whoever goes on in its place.
#[derive(Debug)]
pub struct LoggedProgram {
    name: String,
    child: Tethered,
    log: PathBuf,
}

impl LoggedProgram {
    /// Starts `command` in `namespace`; all that it says goes to the file `log`.
    ///
    /// # Errors
    /// As [`Namespace::spawn`], or when the file cannot be made.
    pub fn start(
        name: &str,
        mut command: Command,
        namespace: &Namespace,
        log: PathBuf,
    ) -> Result<Self, IoError> {
        let file = File::create(&log).doing(|| format!("create {}", log.display()))?;
        let errors = file.try_clone().doing(|| format!("share {}", log.display()))?;
        command.stdin(Stdio::null()).stdout(file).stderr(errors);
        let child = Tethered::spawn(namespace, command, SpawnOptions::KILLED_WITH_PARENT)?;
        Ok(Self { name: name.to_owned(), child, log })
    }

    /// Its process number.
    #[must_use]
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// All that it has said.
    #[must_use]
    pub fn said(&self) -> String {
        fs::read_to_string(&self.log).unwrap_or_default()
    }

    /// `what`, with the last lines of what it said itself.
    #[must_use]
    pub fn failure(&self, what: &str) -> ProgramFailure {
        let said = self.said();
        let lines: Vec<&str> = said.lines().collect();
        let last = lines[lines.len().saturating_sub(LAST_LINES)..].join("\n");
        ProgramFailure { name: self.name.clone(), message: format!("{what}\n{last}").trim_end().to_owned() }
    }

    /// Refuses to go on when it has ended by itself.
    ///
    /// # Errors
    /// With its own last words.
    pub fn check(&mut self) -> Result<(), ProgramFailure> {
        match self.child.try_wait() {
            Ok(None) => Ok(()),
            Ok(Some(status)) => Err(self.failure(&format!("ended by itself, {status}"))),
            Err(error) => Err(self.failure(&error.to_string())),
        }
    }

    /// Waits until it is ready; `pause` waits between two looks.
    ///
    /// # Errors
    /// When it ends or is not ready within `limit`, or `pause` fails.
    pub fn wait_until_ready<E: From<ProgramFailure>>(
        &mut self,
        limit: Duration,
        is_ready: impl Fn(&Self) -> bool,
        mut pause: impl FnMut(Duration) -> Result<(), E>,
    ) -> Result<(), E> {
        let give_up = Clock::now() + limit;
        while !is_ready(self) {
            self.check()?;
            if Clock::now() >= give_up {
                return Err(self.failure(&format!("was not ready within {limit}")).into());
            }
            pause(LOOK)?;
        }
        Ok(())
    }

    /// Asks it to end (SIGTERM).
    ///
    /// # Errors
    /// When there is no such process.
    pub fn ask_to_end(&self) -> Result<(), IoError> {
        PidFd::open(self.pid())?.send_signal(libc::SIGTERM)
    }

    /// Waits until it has ended in good order; `pause` waits between two looks.
    ///
    /// # Errors
    /// When it does not end within `limit` or ends with an error, or `pause` fails.
    pub fn wait_for_end<E: From<ProgramFailure>>(
        &mut self,
        limit: Duration,
        mut pause: impl FnMut(Duration) -> Result<(), E>,
    ) -> Result<(), E> {
        let give_up = Clock::now() + limit;
        loop {
            match self.child.try_wait() {
                Ok(Some(status)) if status.success() => return Ok(()),
                Ok(Some(status)) => return Err(self.failure(&format!("ended with {status}")).into()),
                Ok(None) if Clock::now() >= give_up => {
                    return Err(self.failure(&format!("did not end within {limit}")).into());
                }
                Ok(None) => pause(LOOK)?,
                Err(error) => return Err(self.failure(&error.to_string()).into()),
            }
        }
    }
}
