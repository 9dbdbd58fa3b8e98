//! [`Status`]: what a running daemon says of itself.

use std::net::{IpAddr, SocketAddr};

use multipath::{Cause, State};
use serde::{Deserialize, Serialize};

/// The schema's name.
pub const SCHEMA: &str = "cellerator/multipath-status/1";

/// Status of a running daemon, which `cellerator multipath status --json` prints.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Status {
    /// [`SCHEMA`].
    pub schema: String,
    /// The daemon's process.
    pub pid: u32,
    /// For how long it has run, ms.
    pub up_ms: u64,
    /// Multi-path connections of this host.
    pub connections: u32,
    /// Connections that fell back to TCP since the namespace was made.
    pub fallbacks: u64,
    /// Its paths, in the order of their names.
    pub paths: Vec<PathStatus>,
    /// Others that manage endpoints.
    pub conflicts: Vec<String>,
    /// Parts that are missing on this machine, one line each.
    pub lacks: Vec<String>,
    /// Newest events, oldest first.
    pub events: Vec<EventLine>,
}

/// One path.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct PathStatus {
    /// Interface; with `/6` for IPv6.
    pub name: String,
    /// State.
    pub state: State,
    /// Cause of the change.
    pub cause: Cause,
    /// For how long, ms.
    pub for_ms: u64,
    /// This host's address there.
    pub address: Option<IpAddr>,
    /// The address that the server sees.
    pub seen_as: Option<IpAddr>,
    /// An endpoint is there as backup; none without an endpoint.
    pub is_backup: Option<bool>,
    /// Smoothed round trip of probes, ms.
    pub rtt_ms: Option<f64>,
    /// Least round trip, ms.
    pub rtt_min_ms: Option<f64>,
    /// Of the last 20 probes: lost.
    pub probes_lost: u32,
    /// Radio strength, dBm.
    pub strength_dbm: Option<i32>,
    /// New connections avoid it.
    pub are_routes_demoted: bool,
    /// The administrator wants it unused.
    pub is_retired: bool,
    /// It is dead and kept: there is no other.
    pub is_last: bool,
    /// Time that it waits after flapping, ms.
    pub hold_ms: u64,
    /// Data that comes, over the last second, Mbit/s.
    pub receive_mbps: f64,
    /// Data that was acknowledged, over the last second, Mbit/s.
    pub send_mbps: f64,
    /// Its subflows.
    pub subflows: Vec<SubflowStatus>,
}

/// One subflow.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct SubflowStatus {
    /// The connection.
    pub token: u32,
    /// This host's end.
    pub local: SocketAddr,
    /// The server's end.
    pub remote: SocketAddr,
    /// Data can flow.
    pub is_established: bool,
    /// Backup.
    pub is_backup: bool,
    /// Smoothed round trip, ms.
    pub rtt_ms: f64,
    /// Congestion window, segments.
    pub cwnd: u32,
    /// Doublings of the retransmission time-out.
    pub backoff: u8,
    /// Bytes of data that came.
    pub bytes_received: u64,
    /// Bytes of data that were acknowledged.
    pub bytes_acked: u64,
}

/// Something that happened.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct EventLine {
    /// Since the daemon's start, ms.
    pub at_ms: u64,
    /// The path; empty for the host.
    pub path: String,
    /// Description of the event.
    pub what: String,
}

impl std::fmt::Display for EventLine {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (s, ms) = (self.at_ms / 1_000, self.at_ms % 1_000);
        write!(f, "{s:>6}.{ms:03}  {:<12} {}", self.path, self.what)
    }
}
