//! [`Record`]: what a process has loaded, on disk, so that others find it.
//!
//! All that is loaded ends with the process; a record of a killed one only has to be forgotten.

use std::path::Path;

use io::{INSTANCE_DIRECTORY, Instance, Leftover};
use serde::{Deserialize, Serialize};

use crate::split::Unit;
use crate::{CongestionError, Users};

/// Of the instances' directories.
pub(crate) const KIND: &str = "server-congestion";

/// Record of what a process has loaded.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Record {
    /// Its network namespace.
    pub namespace: u64,
    /// The congestion control's name in the kernel.
    pub name: String,
    /// Users of it.
    pub users: Users,
    /// Of these only half use it: they are compared.
    #[serde(default)]
    pub comparison: Option<RunningComparison>,
    /// Number of the map of connections.
    pub connections_map: u32,
}

/// A comparison that is under way.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct RunningComparison {
    /// The congestion control of the other half.
    pub with: String,
    /// Input of the hash.
    pub by: Unit,
    /// Seed that decides which half uses which.
    pub seed: u32,
    /// Time of the beginning, ms since 1970, by this machine's clock as it is.
    pub began_ms: u64,
    /// Duration; none: until it is ended.
    pub planned_ms: Option<u64>,
}

/// A process that has loaded something.
#[derive(Clone, Debug)]
pub(crate) struct Running {
    pub process: u32,
    pub record: Record,
}

/// All that run on this machine; the records of killed ones are forgotten.
pub(crate) fn running() -> Result<Vec<Running>, CongestionError> {
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
