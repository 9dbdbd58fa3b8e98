//! [`Record`]: what a process has loaded, on disk, so that others find it.
//!
//! All that is loaded ends with the process; a record of a killed one only has to be forgotten.

use std::path::Path;

use io::{INSTANCE_DIRECTORY, Instance, Leftover};
use serde::{Deserialize, Serialize};

use crate::CoupledError;

/// Of the instances' directories.
pub(crate) const KIND: &str = "congestion";

/// Record of what a process has loaded.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Record {
    /// Its network namespace.
    pub namespace: u64,
    /// The scheme.
    pub scheme: String,
    /// The congestion control's name in the kernel.
    pub name: String,
    /// MPTCP subflows of the namespace use it, without asking for it.
    pub is_chosen: bool,
    /// Number of the map of connections.
    pub connections_map: u32,
}

/// A process that has loaded something.
#[derive(Clone, Debug)]
pub(crate) struct Running {
    pub process: u32,
    pub record: Record,
}

/// All that run on this machine; the records of killed ones are forgotten.
pub(crate) fn running() -> Result<Vec<Running>, CoupledError> {
    let base = Path::new(INSTANCE_DIRECTORY);
    for leftover in Leftover::find(base, KIND)? {
        leftover.forget()?;
    }
    let read = |running: io::Running| {
        let text = std::fs::read_to_string(running.path.join("record")).ok()?;
        Some(Running { process: running.owner.pid(), record: serde_json::from_str(&text).ok()? })
    };
    Ok(Instance::running(base, KIND)?.into_iter().filter_map(read).collect())
}
