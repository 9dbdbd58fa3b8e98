//! [`Settings`] of the daemon.

use std::net::SocketAddr;
use std::path::PathBuf;

use control::coupled::Scheme;
use units::Duration;

/// Method by which paths are probed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ProbeBy {
    /// Datagrams to `cellerator probe server`, which says from which address it sees them.
    Server(SocketAddr),
    /// ICMP echo to an address.
    Ping(std::net::IpAddr),
}

impl ProbeBy {
    /// Advice on what to look at where nothing was ever answered.
    pub(crate) fn unanswered(&self) -> String {
        match self {
            Self::Server(at) => format!(
                "no answer from {at} on any path: is `cellerator probe server` running there, with the same --key-file, and \
                 does a firewall let UDP port {} through?",
                at.port()
            ),
            Self::Ping(ip) => {
                format!("no answer to pings of {ip} on any path: is it there, and does it answer pings?")
            }
        }
    }

    /// True for IPv4.
    #[must_use]
    pub fn is_ipv4(&self) -> bool {
        match self {
            Self::Server(at) => at.is_ipv4(),
            Self::Ping(ip) => ip.is_ipv4(),
        }
    }
}

/// Settings of the daemon.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Interfaces that are paths; empty for every one with a default route.
    pub interfaces: Vec<String>,
    /// Targets of probes, per IP version; a version without one is not used.
    pub probes: Vec<ProbeBy>,
    /// Signs probes, for a server with a key.
    pub key: Option<Vec<u8>>,
    /// Subflows go from every address to every address of the server.
    pub full_mesh: bool,
    /// Sysctls are set, and restored at the end.
    pub with_profile: bool,
    /// Time-outs and keep-alives are set for MPTCP subflows alone, by BPF, and not for the host.
    pub is_per_subflow: bool,
    /// MPTCP subflows of this network namespace are coupled so, as far as they send; none: each for itself.
    pub congestion: Option<Scheme>,
    /// Silence after which keep-alives are sent: below the shortest time-out of the carriers.
    pub keep_alive: Duration,
    /// A file with lines `INTERFACE DBM`, written by whoever knows the radio.
    pub strength_file: Option<PathBuf>,
    /// File to which everything that the machine sees is recorded, for `multipath simulate`.
    pub record: Option<PathBuf>,
    /// Suspicions that come to nothing are told too.
    pub is_verbose: bool,
    /// Thresholds.
    pub thresholds: multipath::Settings,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            interfaces: Vec::new(),
            probes: Vec::new(),
            key: None,
            full_mesh: false,
            with_profile: true,
            is_per_subflow: false,
            congestion: None,
            keep_alive: Duration::from_secs(120),
            strength_file: None,
            record: None,
            is_verbose: false,
            thresholds: multipath::Settings::default(),
        }
    }
}
