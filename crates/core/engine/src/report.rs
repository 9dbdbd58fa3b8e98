//! Reports on the flows for those outside, for status displays; nothing here changes anything.

use std::collections::VecDeque;
use std::net::{IpAddr, SocketAddr};

use units::{Bytes, Duration, Instant, Rate};

use crate::direction::Direction;
use crate::key::FlowKey;
use crate::pass::PassReason;

/// Passed flows that are remembered.
const PASSED_MAX: usize = 256;

/// State of a flow in the table.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum FlowState {
    /// Its handshake is under way.
    Observing,
    /// Its delivery is the engine's.
    Accelerated,
    /// Delivers what is owed; then the flow is handed back.
    Draining,
    /// Both directions have ended; retransmissions are still answered.
    Closed,
    /// Its delivery is its hosts'; the window its client advertises is lowered.
    Windowed,
    /// It passes bit for bit and is measured: a trial's control group.
    Control,
}

impl FlowState {
    /// Number of states.
    pub const COUNT: usize = 6;

    /// All states, in order.
    pub const ALL: [Self; Self::COUNT] =
        [Self::Observing, Self::Accelerated, Self::Draining, Self::Closed, Self::Windowed, Self::Control];

    pub(crate) const fn index(self) -> usize {
        self as usize
    }

    /// The name used in results.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Observing => "observing",
            Self::Accelerated => "accelerated",
            Self::Draining => "draining",
            Self::Closed => "closed",
            Self::Windowed => "drwa",
            Self::Control => "control",
        }
    }
}

/// One flow in the table, in one direction.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct FlowReport {
    /// The client's address and port.
    pub client: SocketAddr,
    /// The server's.
    pub server: SocketAddr,
    /// Direction that is accelerated. For the uplink, read "server" for "client" in what follows,
    /// and the reverse.
    pub direction: Direction,
    /// State of the flow in its life.
    pub state: FlowState,
    /// Acknowledged to the server and not by the client.
    pub debt: Bytes,
    /// Memory its stream buffer takes.
    pub held: Bytes,
    /// Sent to the client and neither acknowledged nor believed lost.
    pub in_flight: Bytes,
    /// Smoothed round-trip time of the mobile segment; of both segments where only the window is lowered.
    pub srtt: Option<Duration>,
    /// The window the client advertises; where it is lowered, what the server is told of it.
    pub client_window: Bytes,
    /// Rate at which the controller of its subscriber sends, over all the subscriber's flows.
    pub subscriber_rate: Option<Rate>,
    /// Bytes that the controller of its subscriber lets be in flight, over all the subscriber's flows.
    pub subscriber_window: Option<Bytes>,
    /// Arrival time of its last packet.
    pub last_activity: Instant,
}

/// A subscriber that the downlink knows: one with flows, or one that is remembered.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SubscriberReport {
    /// Its address; of an IPv6 prefix the first one.
    pub address: IpAddr,
    /// The client's port, where each flow has a controller of its own.
    pub port: Option<u16>,
    /// Flows in the table.
    pub flows: u32,
    /// Time at which a flow was opened last, or data was sent.
    pub last_used: Instant,
    /// State that its flows share; none before there was data.
    pub path: Option<PathReport>,
}

/// State that the flows of a subscriber share.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PathReport {
    /// Payload that has reached it since its controller began.
    pub delivered: Bytes,
    /// Payload that was sent again to it, since this process has its flows.
    pub retransmitted: Bytes,
    /// Sent to it and neither acknowledged nor believed lost.
    pub in_flight: Bytes,
    /// Memory in stream buffers of its flows.
    pub held: Bytes,
    /// Smoothed round-trip time over all its flows.
    pub srtt: Option<Duration>,
    /// Smoothed difference of round trips to the shortest one of their flow: an estimate of the time in queues.
    pub queueing: Option<Duration>,
    /// Rate at which its controller sends; [`Rate::MAX`] where a window alone limits it.
    pub rate: Rate,
    /// Bytes that its controller lets be in flight.
    pub window: Bytes,
    /// Packets that pass to it in one schedule with its flows, if any ever did.
    pub opaque: Option<OpaqueReport>,
}

/// Packets that pass to a subscriber in one schedule with its accelerated flows.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct OpaqueReport {
    /// Bytes that wait for their turn.
    pub waiting: Bytes,
    /// Payload under way to it, as far as that is known.
    pub in_flight: Bytes,
    /// Evidence by which it is known.
    pub evidence: Evidence,
    /// Bytes that have come so far.
    pub passed: PassedBytes,
    /// The newest handshake of QUIC that was seen.
    pub quic: Option<QuicHandshake>,
}

/// A handshake of QUIC that was seen.
#[derive(Clone, Copy, PartialEq, Eq, Debug, stored::Stored)]
pub struct QuicHandshake {
    /// Version of QUIC in the client's answer (RFC 8999 §5.1).
    pub version: u32,
    /// Time from the first packet of the server to the client's answer, as this engine sees it.
    pub round_trip: Duration,
}

/// Bytes of packets that pass, by kind.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug, stored::Stored)]
pub struct PassedBytes {
    /// Bytes of TCP.
    pub tcp: u64,
    /// Bytes of QUIC: from port 443, or with a long header of version 1 or 2 (RFC 8999 §5.1).
    pub quic: u64,
    /// Bytes of other UDP.
    pub udp: u64,
    /// Bytes of all else: ICMP, ESP, fragments.
    pub other: u64,
}

/// Evidence of what has left a subscriber's queue of what passes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Evidence {
    /// Evidence by acknowledgements of accelerated flows.
    Accelerated,
    /// Evidence by acknowledgements of TCP flows that pass.
    PassedTcp,
    /// Evidence by replies to echo requests.
    Echo,
    /// Nothing answers: nothing waits.
    None,
    /// Answers contradict each other, so the queue is not first in, first out: nothing waits.
    Contradicted,
}

impl Evidence {
    /// Name in the status.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Accelerated => "accelerated",
            Self::PassedTcp => "passed-tcp",
            Self::Echo => "echo",
            Self::None => "none",
            Self::Contradicted => "contradicted",
        }
    }
}

/// Part of a table.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Page<T> {
    /// Entries that were found.
    pub found: Vec<T>,
    /// Place to go on at; none at the end of the table.
    pub next: Option<u64>,
}

impl<T> Default for Page<T> {
    fn default() -> Self {
        Self { found: Vec::new(), next: None }
    }
}

/// A flow that is not, or no longer, in the table.
#[derive(Clone, Copy, PartialEq, Eq, Debug, stored::Stored)]
pub struct PassedFlow {
    /// The client's address and port.
    pub client: SocketAddr,
    /// The server's.
    pub server: SocketAddr,
    /// Reason why it passes.
    pub reason: PassReason,
}

/// A flow none of whose packets will matter before its ports are opened anew.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct UnknownFlow {
    /// The client's address and port.
    pub client: SocketAddr,
    /// The server's.
    pub server: SocketAddr,
    /// Reason why it passes; none if it began before, or among so many others that it is forgotten.
    pub reason: Option<PassReason>,
}

/// The flows passed last, in bounded number.
#[derive(Clone, Debug, Default, stored::Stored)]
pub(crate) struct PassedRecently(VecDeque<PassedFlow>);

impl PassedRecently {
    /// A flow in a half of `direction` is passed, or has ended.
    pub(crate) fn note(&mut self, key: &FlowKey, direction: Direction, reason: PassReason) {
        if self.0.len() == PASSED_MAX {
            self.0.pop_back();
        }
        let (client, server) = key.client_and_server(direction);
        self.0.push_front(PassedFlow { client, server, reason });
    }

    /// Reason why a flow passes, if it is among them.
    pub(crate) fn reason_of(&self, client: SocketAddr, server: SocketAddr) -> Option<PassReason> {
        let flow = self.0.iter().find(|flow| flow.client == client && flow.server == server)?;
        Some(flow.reason)
    }

    /// The newest first.
    pub(crate) fn iter(&self) -> impl Iterator<Item = PassedFlow> {
        self.0.iter().copied()
    }
}
