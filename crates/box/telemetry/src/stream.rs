//! [`Stream`]: lines that an accelerator tells, and those of the one that takes its place.

use std::io::{BufRead, BufReader, ErrorKind};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::Duration;

use io::{Clock, Waiter};
use run::{Found, Wishes};

use crate::TelemetryError;

/// A line may take so long; then there is none for now.
const LINE_TIME: Duration = Duration::from_millis(500);

/// Duration of the search for another process in the place of one that has ended, and the interval of its checks.
const HEIR_TIME: units::Duration = units::Duration::from_secs(5);
const LOOK_EVERY: units::Duration = units::Duration::from_millis(50);

/// Messages of an accelerator, from now on.
#[derive(Debug)]
pub struct Stream {
    directory: PathBuf,
    name: String,
    process: u32,
    wishes: Wishes,
    lines: BufReader<UnixStream>,
    /// The beginning of a line.
    line: Vec<u8>,
}

/// Next item of the stream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Next {
    /// A line of JSON, without its end.
    Line(String),
    /// Nothing for now.
    Nothing,
    /// It has ended, and no other process goes on in its place.
    End,
}

impl Stream {
    /// Listens to an instance below a directory.
    ///
    /// # Errors
    /// It has ended, hangs, or is of a version that does not tell anything.
    pub fn open(directory: &Path, found: &Found, wishes: Wishes) -> Result<Self, TelemetryError> {
        let lines =
            found.listen(wishes, LINE_TIME).map_err(|error| TelemetryError::Setting(error.to_string()))?;
        let (name, process) = (found.name.clone(), found.process);
        Ok(Self { directory: directory.to_owned(), name, process, wishes, lines, line: Vec::new() })
    }

    /// Waits a moment for the next line.
    ///
    /// # Errors
    /// The connection fails.
    pub fn next_line(&mut self) -> Result<Next, TelemetryError> {
        match self.lines.read_until(b'\n', &mut self.line) {
            Ok(0) => Ok(if self.follow() { Next::Nothing } else { Next::End }),
            // The end came within a line: the rest will not come.
            Ok(_) if !self.line.ends_with(b"\n") => {
                self.line.clear();
                Ok(Next::Nothing)
            }
            Ok(_) => {
                let line = String::from_utf8_lossy(&self.line).trim_end().to_owned();
                self.line.clear();
                Ok(Next::Line(line))
            }
            // What has come of a line stays.
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {
                Ok(Next::Nothing)
            }
            Err(error) if error.kind() == ErrorKind::ConnectionReset => {
                Ok(if self.follow() { Next::Nothing } else { Next::End })
            }
            Err(error) => Err(TelemetryError::doing(format!("listen to '{}'", self.name))(error)),
        }
    }

    /// Listens to the process that takes the place of the one that has ended.
    fn follow(&mut self) -> bool {
        let Ok(mut waiter) = Waiter::new(units::Duration::ZERO) else { return false };
        let give_up = Clock::now() + HEIR_TIME;
        while Clock::now() < give_up {
            let all = run::find(&self.directory).unwrap_or_default();
            let successor =
                all.into_iter().find(|found| found.name == self.name && found.process != self.process);
            if let Some(successor) = successor
                && let Ok(lines) = successor.listen(self.wishes, LINE_TIME)
            {
                (self.lines, self.process) = (lines, successor.process);
                self.line.clear();
                return true;
            }
            drop(waiter.wait(Some(Clock::now() + LOOK_EVERY)));
        }
        false
    }
}
