//! [`Recorded`]: an instance of another process, with the record that it has written down.

use std::path::{Path, PathBuf};

use serde::Serialize;
use serde::de::DeserializeOwned;
use units::Duration;

use crate::{INSTANCE_DIRECTORY, Instance, IoError, Leftover, end_process};

/// Longest time that a process may take to end.
const END_LIMIT: Duration = Duration::from_secs(10);

/// Running instance that has written down a record.
#[derive(Clone, Debug)]
pub struct Recorded<R> {
    /// Its process.
    pub process: u32,
    /// Its directory.
    pub directory: PathBuf,
    /// Record that it has written down.
    pub record: R,
}

impl<R: Serialize + DeserializeOwned> Recorded<R> {
    /// Those of `kind` below `base`, in order of their processes; who has written nothing that can be read is left out.
    ///
    /// # Errors
    /// When `base` exists and cannot be read.
    pub fn all(base: &Path, kind: &str) -> Result<Vec<Self>, IoError> {
        let read = |running: crate::Running| {
            let text = std::fs::read_to_string(running.path.join(crate::RECORD)).ok()?;
            let record = serde_json::from_str(&text).ok()?;
            Some(Self { process: running.owner.pid(), directory: running.path, record })
        };
        Ok(Instance::running(base, kind)?.into_iter().filter_map(read).collect())
    }

    /// The same of this machine, where nothing of an instance outlives its process: killed ones are forgotten.
    ///
    /// # Errors
    /// When the directory of the instances cannot be read or written.
    pub fn all_here(kind: &str) -> Result<Vec<Self>, IoError> {
        let base = Path::new(INSTANCE_DIRECTORY);
        Leftover::find(base, kind)?.into_iter().try_for_each(Leftover::forget)?;
        Self::all(base, kind)
    }

    /// Registers this process as one of `kind`, and writes `record` down.
    ///
    /// # Errors
    /// When the directory of the instances cannot be written.
    pub fn register(kind: &str, record: &R) -> Result<Instance, IoError> {
        let instance = Instance::register(Path::new(INSTANCE_DIRECTORY), kind)?;
        instance.record(&serde_json::to_string_pretty(record).unwrap_or_default())?;
        Ok(instance)
    }

    /// Asks its process to end, and waits for that.
    ///
    /// # Errors
    /// When it may not be signalled, or does not end within 10 s.
    pub fn end(&self) -> Result<(), IoError> {
        if end_process(self.process, END_LIMIT)? { Ok(()) } else { Err(IoError::DoesNotEnd(self.process)) }
    }
}
