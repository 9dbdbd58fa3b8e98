//! [`Direction`]: which way data flows, and what lies behind each port for it.

use crate::boundary::Port;

/// Direction in which the accelerated data flows.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Direction {
    /// Data from the server to the client.
    Downlink,
    /// Data from the client to the server.
    Uplink,
}

impl Direction {
    /// The name used in results.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Downlink => "downlink",
            Self::Uplink => "uplink",
        }
    }
}

/// An end of a flow, as a half of the engine sees it: a half knows one direction of data.
///
/// For the downlink the source is the server and the sink the client, for the uplink the reverse.
#[derive(Clone, Copy, PartialEq, Eq, Debug, stored::Stored)]
pub(crate) enum End {
    /// The host that sends the data.
    Source,
    /// The host that takes it.
    Sink,
}

impl End {
    /// The other one.
    pub(crate) const fn opposite(self) -> Self {
        match self {
            Self::Source => Self::Sink,
            Self::Sink => Self::Source,
        }
    }
}

impl Direction {
    /// The end of a flow that lies behind `port`.
    pub(crate) const fn end_behind(self, port: Port) -> End {
        match (self, port) {
            (Self::Downlink, Port::Wired) | (Self::Uplink, Port::Mobile) => End::Source,
            (Self::Downlink, Port::Mobile) | (Self::Uplink, Port::Wired) => End::Sink,
        }
    }

    /// The port that leads to `end`.
    pub(crate) const fn port_to(self, end: End) -> Port {
        match (self, end) {
            (Self::Downlink, End::Source) | (Self::Uplink, End::Sink) => Port::Wired,
            (Self::Downlink, End::Sink) | (Self::Uplink, End::Source) => Port::Mobile,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_direction_has_its_source_behind_another_port() {
        for direction in [Direction::Downlink, Direction::Uplink] {
            for end in [End::Source, End::Sink] {
                assert_eq!(direction.end_behind(direction.port_to(end)), end);
            }
        }
        assert_eq!(Direction::Downlink.port_to(End::Source), Port::Wired);
        assert_eq!(Direction::Uplink.port_to(End::Source), Port::Mobile);
    }
}
