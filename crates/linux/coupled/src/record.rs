//! [`Record`]: what a process has loaded, on disk, so that others find it.
//!
//! All that is loaded ends with the process; a record of a killed one only has to be forgotten.

use serde::{Deserialize, Serialize};

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
