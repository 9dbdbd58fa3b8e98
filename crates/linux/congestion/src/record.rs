//! [`Record`]: what a process has loaded, on disk, so that others find it.
//!
//! All that is loaded ends with the process; a record of a killed one only has to be forgotten.

use serde::{Deserialize, Serialize};

use crate::Users;
use crate::split::Unit;

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
