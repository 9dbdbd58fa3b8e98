//! [`UdpReport`]: what is known of the UDP of a capture; [`QuicFlowReport`]: of one QUIC flow. `None` is "cannot be
//! known", never zero.

use std::net::SocketAddr;

use serde::Serialize;

use super::header::{Kind, version_name};
use super::spin::SpinState;
use crate::direction::{Direction, PerDirection};
use crate::report::SampleSummary;

/// All UDP of the captures.
#[derive(Clone, Debug, Default, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct UdpReport {
    /// Datagrams, duplicates and those of QUIC included.
    pub datagrams: u64,
    /// Flows taken for QUIC.
    pub quic_flows: u64,
    /// Of these, flows that are not listed, because others had more data.
    pub quic_flows_left_out: u64,
    /// Flows that were ended though they may have gone on, because more than 65,536 at a time may have been
    /// QUIC; those that were silent longest.
    pub ended_early: u64,
    /// UDP that is not taken for QUIC.
    pub other: OtherUdp,
    /// The QUIC flows, those with most data if there are very many, in the order of first packets.
    #[serde(skip)]
    pub quic: Vec<QuicFlowReport>,
}

/// UDP that is not taken for QUIC.
#[derive(Clone, Debug, Default, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct OtherUdp {
    /// Pairs of ends; those that were silent for long count again.
    pub conversations: u64,
    /// Datagrams.
    pub datagrams: u64,
    /// Bytes of their IP packets.
    pub ip_bytes: u64,
    /// The ports with most bytes, at most ten.
    pub ports: Vec<PortUdp>,
}

/// Other UDP of one port.
#[derive(Clone, Copy, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct PortUdp {
    /// The lower one of the two ports.
    pub port: u16,
    /// Pairs of ends.
    pub conversations: u64,
    /// Datagrams.
    pub datagrams: u64,
    /// Bytes of their IP packets.
    pub ip_bytes: u64,
}

/// Evidence for which a flow is taken for QUIC.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum QuicEvidence {
    /// A long header of a known version, whose lengths fit.
    Version,
    /// Long headers of another version, of which one repeats a connection ID that the other end chose.
    ConnectionIds,
    /// Port 443, and nothing but 16 short headers or more whose protected bits vary: a guess.
    Port,
}

/// A flow taken for QUIC. `inferred` is what no header says; all else is read from headers (RFC 8999, 9000,
/// 9369) and counted. Nothing is decrypted.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct QuicFlowReport {
    /// Number among the listed QUIC flows, in the order of first packets.
    pub id: u64,
    /// Capture point: files that overlap in time are taken as captures at different places.
    pub point: u16,
    /// Place, among the captures, of the file in which its first packet lies.
    pub capture: u16,
    /// Sender of the first packet, with its first address.
    pub first: SocketAddr,
    /// The other end.
    pub second: SocketAddr,
    /// First packet, nanoseconds since 1970-01-01 UTC.
    pub start_ns: u64,
    /// First packet to last, seconds.
    pub duration_s: f64,
    /// Inside a tunnel.
    pub is_tunnelled: bool,
    /// Evidence for which it is taken for QUIC.
    pub recognized_by: QuicEvidence,
    /// Version of the client's first long header.
    pub version_offered: Option<QuicVersion>,
    /// Version of the server's last long header.
    pub version: Option<QuicVersion>,
    /// Length of the connection ID that each end chose in long headers, bytes.
    pub connection_id_bytes: PerDirection<Option<u64>>,
    /// From the first end, and from the second.
    pub directions: PerDirection<QuicDirection>,
    /// Times in which both ends were silent: at least 100 ms, and twice the handshake's round trip.
    pub pauses: PauseReport,
    /// Payload over time.
    pub course: CourseReport,
    /// Properties that are not in any header, but follow from the times of packets.
    pub inferred: QuicInferred,
}

/// A version of QUIC.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct QuicVersion {
    /// Its number, as `0x00000001`.
    pub number: String,
    /// Its name: `1`, `2`, `draft 29`, `reserved` (RFC 9000 §15); none if it is not known.
    pub name: Option<String>,
}

impl QuicVersion {
    pub(super) fn of(version: u32) -> Self {
        Self { number: format!("{version:#010x}"), name: version_name(version) }
    }
}

/// Packets by type, as far as they were captured: a datagram may have several, and where the capture keeps only its
/// beginning, only the first are counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct QuicPackets {
    /// Initial.
    pub initial: u64,
    /// 0-RTT.
    pub zero_rtt: u64,
    /// Handshake.
    pub handshake: u64,
    /// Retry.
    pub retry: u64,
    /// Version Negotiation.
    pub version_negotiation: u64,
    /// Long headers of other versions, or too short to tell.
    pub other_long: u64,
    /// Short headers: 1-RTT.
    pub short: u64,
    /// Datagrams that do not begin as a packet.
    pub unrecognized: u64,
}

impl QuicPackets {
    pub(super) fn count(&mut self, kind: Kind) {
        let place = match kind {
            Kind::Initial => &mut self.initial,
            Kind::ZeroRtt => &mut self.zero_rtt,
            Kind::Handshake => &mut self.handshake,
            Kind::Retry => &mut self.retry,
            Kind::VersionNegotiation => &mut self.version_negotiation,
            Kind::OtherLong => &mut self.other_long,
            Kind::Short { .. } => &mut self.short,
        };
        *place += 1;
    }
}

/// One direction of a QUIC flow.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct QuicDirection {
    /// Datagrams, without duplicates.
    pub datagrams: u64,
    /// Datagrams that were captured again.
    pub duplicates: u64,
    /// Bytes of their IP packets.
    pub ip_bytes: u64,
    /// Bytes of UDP payload: headers, acknowledgements and data sent again are in it.
    pub payload_bytes: u64,
    /// Longest payload, bytes.
    pub payload_max: u64,
    /// Packets by type.
    pub packets: QuicPackets,
    /// Packets with ECT(0) or ECT(1).
    pub ect: u64,
    /// Packets with the mark of congestion (CE).
    pub ce: u64,
    /// Bits of payload per second, from the direction's first packet to its last.
    pub active_bps: Option<f64>,
}

/// Silences of both ends.
#[derive(Clone, Copy, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct PauseReport {
    /// Number of them.
    pub count: u64,
    /// All of them, milliseconds.
    pub total_ms: f64,
    /// The longest, milliseconds.
    pub longest_ms: f64,
}

/// Payload over time.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct CourseReport {
    /// Width of a bin, milliseconds: 100, or that doubled until 128 bins are enough.
    pub bin_ms: f64,
    /// Bytes of UDP payload in each bin from the first packet on: from the first end, and from the second.
    pub bytes: [Vec<u64>; 2],
}

/// Properties that are inferred of a QUIC flow.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct QuicInferred {
    /// Direction of what the client sends: the end that is not at port 443, or that sends the first Initial
    /// packet.
    #[cfg_attr(feature = "schema", schemars(extend("enum" = [0, 1, null])))]
    pub client: Option<Direction>,
    /// Connections on these ports; round trips of several are not told apart, and are absent.
    pub connections: u64,
    /// The handshake's round trip.
    pub handshake: QuicHandshake,
    /// Round trips by the spin bit (RFC 9000 §17.4).
    pub spin: Option<SpinReport>,
    /// Round trips by the first answer after a pause (arXiv 2602.12732).
    pub flowlets: Option<FlowletReport>,
    /// Number of times that each end began to use another connection ID for the other end, if IDs stay as
    /// long as in the handshake.
    pub connection_id_changes: PerDirection<Option<u64>>,
    /// The client's other addresses, known by the connection ID: at most eight. A client that moves on
    /// purpose changes the ID (RFC 9000 §9.5), and is another flow here.
    pub moves: Vec<Move>,
    /// Moves beyond these.
    pub moves_left_out: u64,
}

/// The round trip of a handshake. Times include what the ends took to answer.
#[derive(Clone, Copy, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct QuicHandshake {
    /// Client's first Initial packet to the server's first answer: the part between capture point and server.
    /// None if the client sent it again before.
    pub to_server_ms: Option<f64>,
    /// The server's answer to the client's first packet for the connection ID in it: the part between capture
    /// point and client. None if the server sent it again before.
    pub to_client_ms: Option<f64>,
    /// Their sum, the whole path's.
    pub total_ms: Option<f64>,
    /// Client's first Initial packet to its first 1-RTT packet.
    pub complete_ms: Option<f64>,
}

/// Round trips by the spin bit.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct SpinReport {
    /// Nature of the bits. Round trips are given only where they spin.
    pub state: SpinState,
    /// 1-RTT packets looked at.
    pub packets: u64,
    /// Edges.
    pub edges: u64,
    /// Changes of the bit that were no edges: late packets, or random values.
    pub refused: u64,
    /// Round trips of the whole path, with what the ends waited.
    pub rtt: Option<SampleSummary>,
    /// Times that each end took to answer the other's edge, as seen at the capture point.
    pub answers: PerDirection<Option<SampleSummary>>,
}

/// Round trips by the first answer after a pause.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct FlowletReport {
    /// Times that each end took to answer the first packet after a pause, as seen at the capture point: at
    /// least its part of the round trip.
    pub answers: PerDirection<Option<SampleSummary>>,
    /// The sum of the shortest ones.
    pub rtt_min_ms: Option<f64>,
}

/// A client that goes on at another address.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Move {
    /// First packet from there, nanoseconds since 1970-01-01 UTC.
    pub time_ns: u64,
    /// Its address before.
    pub from: SocketAddr,
    /// Its address from then on.
    pub to: SocketAddr,
}

impl QuicFlowReport {
    /// Bytes of payload in both directions.
    #[must_use]
    pub fn payload_bytes(&self) -> u64 {
        self.directions.iter().map(|direction| direction.payload_bytes).sum()
    }
}
