//! [`Record`]: what a process has attached and changed, on disk, so that others find it, and the next start can undo
//! what a killed one left.

use std::path::Path;

use io::bpf::remove_filters;
use io::netlink::Netlink;
use io::{INSTANCE_DIRECTORY, IoError, Leftover, Namespace, Recorded, namespaces_in_use};
use serde::{Deserialize, Serialize};

use crate::DrwaError;
use crate::buffers::{Buffers, Kept};

/// Of the instances' directories.
pub(crate) const KIND: &str = "drwa";

/// An interface with programs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Attached {
    /// Its name.
    pub interface: String,
    /// `tcx` or `clsact`.
    pub hook: String,
    /// The clsact qdisc was made for the programs.
    pub owns_qdisc: bool,
    /// Number of the map of connections.
    pub connections_map: u32,
    /// Number of the map of counters.
    pub counts_map: u32,
}

/// Record of what a process has attached and changed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Record {
    /// Its network namespace.
    pub namespace: u64,
    /// The interfaces.
    pub attached: Vec<Attached>,
    /// The settings.
    pub buffers: Buffers,
    /// The options, as one would type them.
    pub options: String,
}

impl Record {
    /// Takes away what does not end with the process, and puts the settings back.
    pub(crate) fn undo(&self) -> Result<Vec<Kept>, IoError> {
        let netlink = Netlink::open()?;
        for attached in self.attached.iter().filter(|attached| attached.hook == "clsact") {
            // An interface that is gone has taken its filters along.
            if let Ok(index) = netlink.index_of(&attached.interface) {
                remove_filters(index, attached.owns_qdisc)?;
            }
        }
        Ok(self.buffers.restore())
    }

    pub(crate) fn parse(text: &str) -> Option<Self> {
        serde_json::from_str(text).ok()
    }
}

/// All processes of this machine that are attached.
///
/// # Errors
/// When their records cannot be read.
pub fn running() -> Result<Vec<Recorded<Record>>, DrwaError> {
    Ok(Recorded::all(Path::new(INSTANCE_DIRECTORY), KIND)?)
}

/// Undoes what killed processes left in this network namespace, and forgets those whose namespace has gone; one line
/// about each.
///
/// # Errors
/// When a record cannot be removed.
pub fn clean_up() -> Result<Vec<String>, DrwaError> {
    let namespace = Namespace::current()?.id()?;
    let mut lines = forget_vanished()?;
    for leftover in Leftover::find(Path::new(INSTANCE_DIRECTORY), KIND)? {
        let record = leftover.record().as_deref().and_then(Record::parse);
        // Numbers are used again: a directory in our way is forgotten, wherever it came from.
        let is_in_our_way = leftover.owner().is_some_and(|owner| owner.pid() == std::process::id());
        if record.as_ref().is_some_and(|record| record.namespace != namespace) && !is_in_our_way {
            continue;
        }
        if let Some(record) = record.filter(|record| record.namespace == namespace) {
            lines.push(format!("process {} was killed: undone what it left", process(&leftover)));
            lines.extend(record.undo()?.iter().map(kept_line));
        }
        leftover.forget()?;
    }
    Ok(lines)
}

/// Forgets killed processes whose network namespace has gone, and with it all that they changed; one line about each.
///
/// # Errors
/// When a record cannot be removed.
pub(crate) fn forget_vanished() -> Result<Vec<String>, DrwaError> {
    let leftovers = Leftover::find(Path::new(INSTANCE_DIRECTORY), KIND)?;
    if leftovers.is_empty() {
        return Ok(Vec::new());
    }
    let in_use = namespaces_in_use()?;
    let mut lines = Vec::new();
    for leftover in leftovers {
        let record = leftover.record().as_deref().and_then(Record::parse);
        if record.is_some_and(|record| !in_use.contains(&record.namespace)) {
            let process = process(&leftover);
            lines.push(format!(
                "process {process} was killed, and its network namespace has gone: nothing is left of it"
            ));
            leftover.forget()?;
        }
    }
    Ok(lines)
}

/// Process that owned it.
fn process(leftover: &Leftover) -> String {
    leftover.owner().map_or("unknown".to_owned(), |owner| owner.pid().to_string())
}

pub(crate) fn kept_line(kept: &Kept) -> String {
    format!("{} is '{}': somebody else has changed it since, so it stays", kept.path, kept.value)
}
