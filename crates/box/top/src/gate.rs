//! [`Gate`]: answers a process that may not use the control sockets, and no more than it may hear.

use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;

use io::{Clock, Waiter};
use units::{Duration, Instant};

use crate::tls::Secrets;
use crate::{Ask, Local, Reply, Source, TopError};

/// Time between two questions to accelerators, whoever asks and how often, unless another one is wanted: at most 40 in
/// a second.
const PAUSE: Duration = Duration::from_millis(25);

/// Longest question of the server.
const QUESTION_LEN_MAX: u64 = 4_096;

/// Between the server and the accelerators.
#[derive(Debug)]
pub struct Gate {
    local: Local,
    pause: Duration,
    last: Option<Instant>,
}

impl Gate {
    /// One for the accelerators below a directory that are called by `names`, or all.
    #[must_use]
    pub fn new(directory: &Path, names: Vec<String>) -> Self {
        Self { local: Local::new(directory, names), pause: PAUSE, last: None }
    }

    /// The same with another time between two questions.
    #[must_use]
    pub fn with_pause(self, pause: Duration) -> Self {
        Self { pause, ..self }
    }

    /// Gives the server its secrets, if it has any, and then answers it until it has gone: a line of JSON there, one back.
    ///
    /// # Errors
    /// When the connection fails otherwise than by its end.
    pub fn answer(&mut self, server: &UnixStream, secrets: Option<&Secrets>) -> Result<(), TopError> {
        let doing = || TopError::doing("answer the server");
        write_line(server, &secrets).map_err(doing())?;
        let mut waiter =
            Waiter::new(Duration::ZERO).map_err(|error| TopError::Accelerator(error.to_string()))?;
        let mut reader = BufReader::new(server);
        loop {
            let mut line = Vec::new();
            let len = (&mut reader).take(QUESTION_LEN_MAX).read_until(b'\n', &mut line).map_err(doing())?;
            if len == 0 {
                return Ok(());
            }
            let told = match serde_json::from_slice::<Ask>(&line) {
                Ok(question) => {
                    self.wait(&mut waiter);
                    self.local.ask(&question).unwrap_or_else(|error| Reply::Refused(error.to_string()))
                }
                Err(error) => Reply::Refused(format!("the question is not understood: {error}")),
            };
            write_line(server, &told).map_err(doing())?;
        }
    }

    /// Lets some time go by since the last question.
    fn wait(&mut self, waiter: &mut Waiter) {
        if let Some(last) = self.last {
            while Clock::now() < last + self.pause {
                // Without waiting it is looked at more often.
                drop(waiter.wait(Some(last + self.pause)));
            }
        }
        self.last = Some(Clock::now());
    }
}

/// Writes a line of JSON.
pub(crate) fn write_line(mut to: impl Write, value: &impl serde::Serialize) -> std::io::Result<()> {
    let mut text = serde_json::to_vec(value)?;
    text.push(b'\n');
    to.write_all(&text)?;
    to.flush()
}
