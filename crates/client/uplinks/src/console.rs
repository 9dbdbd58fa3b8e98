//! Questions to a running daemon: one datagram each way, so that nobody can keep the daemon waiting.

use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixDatagram;
use std::path::{Path, PathBuf};

use io::{Instance, IoError};
use serde::{Deserialize, Serialize};

use crate::error::Context;
use crate::record::{KIND, Record, own_namespace};
use crate::{Status, UplinkError};

/// Name of the socket in an instance's directory.
const SOCKET: &str = "console";
/// Longest answer.
const ANSWER_LEN_MAX: usize = 160 * 1024;
/// Longest time that an answer may take.
const PATIENCE: std::time::Duration = std::time::Duration::from_secs(3);

/// Question to the daemon.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Question {
    /// Status of the daemon.
    Status,
    /// Drain a path and use it no longer, or use it again.
    Retire {
        /// Interface.
        path: String,
        /// False: use it again.
        is_retired: bool,
    },
}

/// Answer of the daemon.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Answer {
    /// To [`Question::Status`].
    Status(Box<Status>),
    /// It is done.
    Done,
    /// Reason of the refusal, in one line.
    Refused(String),
}

/// The daemon's end.
#[derive(Debug)]
pub(crate) struct Console {
    socket: UnixDatagram,
}

impl Console {
    pub fn open(directory: &Path) -> Result<Self, UplinkError> {
        let path = directory.join(SOCKET);
        let open = || -> std::io::Result<UnixDatagram> {
            let socket = UnixDatagram::bind(&path)?;
            socket.set_nonblocking(true)?;
            Ok(socket)
        };
        Ok(Self { socket: open().doing(|| format!("open the socket {}", path.display()))? })
    }

    /// The next question and who asks; none when there is none.
    pub fn take(&self) -> Option<(Question, PathBuf)> {
        let mut buffer = [0_u8; 4_096];
        loop {
            let (len, from) = self.socket.recv_from(&mut buffer).ok()?;
            let question = serde_json::from_slice(buffer.get(..len)?);
            if let (Ok(question), Some(from)) = (question, from.as_pathname()) {
                return Some((question, from.to_owned()));
            }
        }
    }

    /// Answers; nobody minds if who asked has gone.
    pub fn answer(&self, to: &Path, answer: &Answer) {
        let text = serde_json::to_vec(answer).unwrap_or_default();
        let _ = self.socket.send_to(&text, to);
    }
}

impl AsFd for Console {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

/// A running daemon.
#[derive(Clone, Debug)]
pub struct Running {
    /// Its process.
    pub pid: u32,
    directory: PathBuf,
    record: Record,
}

impl Running {
    /// The daemon of this network namespace.
    ///
    /// # Errors
    /// There is none.
    pub fn here(base: &Path) -> Result<Self, UplinkError> {
        let own = own_namespace()?;
        let found = Self::all(base)?.into_iter().find(|running| running.record.namespace == own);
        found.ok_or_else(|| {
            UplinkError::NotThere("no path manager runs here: start `cellerator multipath run`".to_owned())
        })
    }

    /// All of this machine.
    pub(crate) fn all(base: &Path) -> Result<Vec<Self>, IoError> {
        let one = |running: io::Running| {
            let text = std::fs::read_to_string(running.path.join("record")).ok()?;
            let record = Record::parse(&text)?;
            Some(Self { pid: running.owner.pid(), directory: running.path, record })
        };
        Ok(Instance::running(base, KIND)?.into_iter().filter_map(one).collect())
    }

    /// Asks it.
    ///
    /// # Errors
    /// It does not answer.
    pub fn ask(&self, question: &Question) -> Result<Answer, UplinkError> {
        let own = self.directory.join(format!("ask-{}", std::process::id()));
        let ask = || -> std::io::Result<Vec<u8>> {
            let socket = UnixDatagram::bind(&own)?;
            socket.set_read_timeout(Some(PATIENCE))?;
            socket.send_to(&serde_json::to_vec(question)?, self.directory.join(SOCKET))?;
            let mut buffer = vec![0; ANSWER_LEN_MAX];
            let len = socket.recv(&mut buffer)?;
            buffer.truncate(len);
            Ok(buffer)
        };
        let bytes = ask();
        // The name of a socket that was never made is none.
        let _ = std::fs::remove_file(&own);
        let bytes = bytes.doing(|| format!("ask the path manager (process {})", self.pid))?;
        serde_json::from_slice(&bytes).map_err(|error| {
            UplinkError::NotThere(format!(
                "the path manager (process {}) is of another version: {error}",
                self.pid
            ))
        })
    }
}
