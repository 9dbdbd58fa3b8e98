//! The parts of the benchmark: what is measured, in which ways, and the figures it gives.

mod bulk;
mod connections;
mod datagrams;
mod latency;
mod packets;

use crate::stage::Measure;

/// A part of the benchmark.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum PartName {
    /// Bulk throughput.
    Bulk,
    /// Packets that are not super-packets.
    Packets,
    /// Short connections.
    Connections,
    /// Delay at low load.
    Latency,
    /// UDP beside the engine.
    Datagrams,
}

impl PartName {
    /// All, in the order of the results.
    pub const ALL: [Self; 5] = [Self::Bulk, Self::Packets, Self::Connections, Self::Latency, Self::Datagrams];

    /// Its name on the command line.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Bulk => "bulk",
            Self::Packets => "packets",
            Self::Connections => "connections",
            Self::Latency => "latency",
            Self::Datagrams => "datagrams",
        }
    }

    /// What it measures, for help texts.
    #[must_use]
    pub const fn about(self) -> &'static str {
        match self {
            Self::Bulk => "bulk TCP, 1 and 4 flows, against a bare echo and HAProxy",
            Self::Packets => "packets per second without super-packets",
            Self::Connections => "short connections per second",
            Self::Latency => "delay at low load, per direction",
            Self::Datagrams => "UDP past the engine",
        }
    }

    pub(crate) fn measure(self) -> Box<dyn Measure> {
        match self {
            Self::Bulk => Box::new(bulk::BulkPart),
            Self::Packets => Box::new(packets::PacketsPart),
            Self::Connections => Box::new(connections::ConnectionsPart),
            Self::Latency => Box::new(latency::LatencyPart),
            Self::Datagrams => Box::new(datagrams::DatagramsPart),
        }
    }
}
