//! [`FlowReport`]: what is known of a flow at its end. `None` is "cannot be known", never zero.

use std::net::SocketAddr;

use serde::Serialize;
use units::Duration;

use crate::budget::TimeBudget;
use crate::direction::{Direction, PerDirection};
use crate::opening::OpeningMark;
use crate::samples::Samples;
use crate::vantage::Vantage;

/// A finished flow.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct FlowReport {
    /// Number, in the order of first packets.
    pub id: u64,
    /// Capture point: files that overlap in time are taken as captures at different places.
    pub point: u16,
    /// Place, among the captures, of the file in which its first packet lies.
    pub capture: u16,
    /// Sender of the first packet.
    pub first: SocketAddr,
    /// The other end.
    pub second: SocketAddr,
    /// End that opened the connection: 0 the first, 1 the second; none if no SYN was seen.
    pub client: Option<Direction>,
    /// First packet, nanoseconds since 1970-01-01 UTC.
    pub start_ns: u64,
    /// First packet to last, seconds.
    pub duration_s: f64,
    /// Found inside a tunnel.
    pub is_tunnelled: bool,
    /// A Multipath TCP option was seen.
    pub mptcp: bool,
    /// End of the flow.
    pub end: End,
    /// Resets.
    pub resets: ResetCount,
    /// The handshake.
    pub handshake: Handshake,
    /// Place on the path where the capture was made.
    pub vantage: Option<Vantage>,
    /// Packets that a tool has cut and whose frame length no longer says the truth.
    pub cut_by_tool: u64,
    /// Sent by the first end, and by the second.
    pub directions: PerDirection<DirectionReport>,
    /// Split of the time.
    pub budget: TimeBudget,
    /// Round trips of the direction with most data as its receiver sees them, from an acknowledgement to the data that
    /// echoes its timestamp; none but beside the receiver. No part of the JSON.
    #[serde(skip)]
    pub receiver_rtt: Option<SampleSummary>,
    /// Limits that held the flow back, with evidence.
    pub diagnoses: Vec<Diagnosis>,
}

/// End state of a flow in the capture.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum End {
    /// FIN from both ends, both acknowledged.
    Closed,
    /// A reset by the first end.
    ResetByFirst,
    /// A reset by the second end.
    ResetBySecond,
    /// FIN from one end, or from both without acknowledgement.
    HalfClosed,
    /// Neither: the capture ended, or nothing more came.
    Open,
}

/// Resets of a flow.
#[derive(Clone, Copy, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ResetCount {
    /// By the first end.
    pub by_first: u64,
    /// By the second end.
    pub by_second: u64,
    /// Per packet of the flow.
    pub per_packet: f64,
}

/// The handshake and its two halves.
#[derive(Clone, Copy, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Handshake {
    /// SYNs seen.
    pub syns: u64,
    /// SYN-ACKs seen.
    pub syn_acks: u64,
    /// SYN to SYN-ACK: the capture point to the server and back; none if several SYNs were seen before it.
    pub to_server_ms: Option<f64>,
    /// SYN-ACK to ACK: the capture point to the client and back; none if several SYN-ACKs were seen before it.
    pub to_client_ms: Option<f64>,
    /// Both.
    pub total_ms: Option<f64>,
    /// The ACK came with data, so that a plain one may have been lost: `to_client_ms` may hold a wait.
    #[serde(skip)]
    pub(crate) ack_has_data: bool,
    /// Values in both SYNs that no translation of addresses changes.
    #[serde(skip)]
    pub(crate) mark: Option<OpeningMark>,
}

/// One direction of a flow.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct DirectionReport {
    /// Amount of data sent.
    #[serde(flatten)]
    pub volume: Volume,
    /// Packets by flags and marks.
    #[serde(flatten)]
    pub flags: FlagReport,
    /// Sizes of segments.
    #[serde(flatten)]
    pub sizes: SegmentSizes,
    /// Unique bytes over time.
    #[serde(flatten)]
    pub throughput: ThroughputReport,
    /// Segments that were seen again, by cause.
    pub retransmissions: Retransmissions,
    /// Loss and reordering.
    pub loss: LossReport,
    /// Round-trip times from the capture point to the receiver of this direction and back.
    pub rtt: RttReport,
    /// Windows that this direction's sender advertised.
    pub window: WindowReport,
    /// Use of the time by its sender.
    #[serde(flatten)]
    pub sender: SenderReport,
    /// Hop limits of its packets.
    #[serde(flatten)]
    pub hop_limits: HopLimitReport,
    /// Acknowledgements that it sent.
    #[serde(flatten)]
    pub acks: AckReport,
    /// Bytes that were acknowledged though the capture does not have them.
    pub not_captured_bytes: u64,
}

/// Amount of data that one direction sent.
#[derive(Clone, Copy, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Volume {
    /// Packets.
    pub packets: u64,
    /// Packets as on the wire: a super-packet (GSO, GRO) counts as the segments it stands for.
    pub wire_segments: u64,
    /// Bytes with IP headers.
    pub ip_bytes: u64,
    /// Packets that the capture has more than once (several interfaces, a mirroring port, a tunnel beside what
    /// is in it), but for the first of each. No other figure counts them.
    pub duplicates: u64,
    /// Packets with data.
    pub data_packets: u64,
    /// Segments with data as on the wire: a super-packet (GSO, GRO) counts as the segments it stands for.
    pub data_segments: u64,
    /// Payload bytes, repetitions included.
    pub payload_bytes: u64,
    /// Payload bytes, each counted once.
    pub unique_bytes: u64,
}

/// Packets of one direction by TCP flags and ECN marks.
#[derive(Clone, Copy, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct FlagReport {
    /// Packets with SYN.
    pub syn: u64,
    /// Packets with FIN.
    pub fin: u64,
    /// Packets with RST.
    pub rst: u64,
    /// Packets with PSH.
    pub psh: u64,
    /// Packets with URG.
    pub urg: u64,
    /// Acknowledgements without data, SYN, FIN or RST.
    pub pure_acks: u64,
    /// Packets with ECE, a SYN's offer included.
    pub ece: u64,
    /// Packets with CWR, a SYN's offer included.
    pub cwr: u64,
    /// Packets marked as ECN-capable, and not as below.
    pub ect: u64,
    /// Packets marked with congestion experienced.
    pub ce: u64,
}

/// Sizes of one direction's segments.
#[derive(Clone, Copy, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct SegmentSizes {
    /// Offered in the SYN, bytes.
    pub mss: Option<u16>,
    /// Smallest payload of a packet with data, bytes.
    #[serde(rename = "segment_min")]
    pub min: Option<u64>,
    /// Largest payload of a packet, bytes.
    #[serde(rename = "segment_max")]
    pub max: Option<u64>,
}

/// Throughput of one direction.
#[derive(Clone, Copy, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ThroughputReport {
    /// Unique bytes over first to last packet of the flow, bit/s.
    #[serde(rename = "throughput_elapsed_bps")]
    pub elapsed_bps: Option<f64>,
    /// Unique bytes over first to last packet with data, bit/s.
    #[serde(rename = "throughput_active_bps")]
    pub active_bps: Option<f64>,
    /// Median over bins of 100 ms between the first and the last data, bit/s.
    #[serde(rename = "throughput_p50_bps")]
    pub p50_bps: Option<f64>,
    /// 95th percentile over the same bins, bit/s.
    #[serde(rename = "throughput_p95_bps")]
    pub p95_bps: Option<f64>,
}

/// Use of the time by the sender of one direction, and reasons why it did not send more.
#[derive(Clone, Copy, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct SenderReport {
    /// Most bytes sent and not acknowledged; none beside the receiver, where nothing is outstanding for long.
    pub in_flight_max: Option<u64>,
    /// Time in which less than a segment of the receiver's window was left, milliseconds; none beside the
    /// receiver.
    pub window_limited_ms: Option<f64>,
    /// Time after the first data in which nothing was outstanding, milliseconds; none beside the receiver.
    pub idle_ms: Option<f64>,
    /// Longest pause between packets, milliseconds.
    pub pause_max_ms: f64,
    /// Pauses of 200 ms and more with nothing outstanding: the application was silent; none beside the
    /// receiver.
    pub idle_gaps: Option<u64>,
    /// Longest of them, milliseconds; none beside the receiver.
    pub idle_gap_max_ms: Option<f64>,
    /// Reductions of the congestion window, inferred; none beside the receiver.
    pub window_reductions: Option<WindowReductions>,
}

/// Hop limits (TTL) of one direction: another one shows that another machine sends.
#[derive(Clone, Copy, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct HopLimitReport {
    /// Hop limit (TTL) of the SYN and of the first data packet; another one shows that another machine sends.
    #[serde(rename = "hop_limit_syn")]
    pub syn: Option<u8>,
    /// Hop limit (TTL) of the first packet with data.
    #[serde(rename = "hop_limit_data")]
    pub data: Option<u8>,
}

/// Acknowledgements that one direction's sender sent.
#[derive(Clone, Copy, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct AckReport {
    /// Duplicate acknowledgements sent (same number, no data, same window, data outstanding).
    pub duplicate_acks: u64,
    /// Runs of them that reached three.
    pub triple_duplicate_acks: u64,
    /// Packets with SACK blocks sent.
    pub sack_packets: u64,
    /// Reports of duplicates sent (D-SACK).
    pub dsacks: u64,
    /// Of these, reports of which no repetition was seen.
    pub dsacks_unexplained: u64,
}

/// Repetitions by cause; none where the capture point cannot tell.
#[derive(Clone, Copy, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Retransmissions {
    /// Packets with data seen before.
    pub data_packets: u64,
    /// Packets with data seen before, as segments on the wire.
    pub data_segments: u64,
    /// Bytes seen before.
    pub data_bytes: u64,
    /// SYN or SYN-ACK.
    pub syn: u64,
    /// FIN without data.
    pub fin: u64,
    /// Retransmission time-outs.
    pub rto: Option<u64>,
    /// Repaired after a time-out.
    pub rto_recovery: Option<u64>,
    /// Fast retransmissions, RACK's included.
    pub fast: Option<u64>,
    /// Tail loss probes.
    pub tlp: Option<u64>,
    /// Of no clear cause.
    pub unclear: Option<u64>,
    /// Not needed: known from D-SACK, from timestamps, or already acknowledged when sent again.
    pub spurious: u64,
    /// Spurious, known by D-SACK.
    pub spurious_dsack: u64,
    /// Spurious, known by timestamps.
    pub spurious_timestamp: u64,
    /// Spurious: already acknowledged when sent again.
    pub spurious_acknowledged: u64,
    /// Probes of a zero window; no retransmissions.
    pub window_probes: u64,
    /// Keep-alives; no retransmissions.
    pub keep_alives: u64,
}

/// Reductions of a sender's congestion window, inferred: [EV]'s "recalculations" are these and the receiver's
/// window updates (`window.updates`).
#[derive(Clone, Copy, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct WindowReductions {
    /// Recoveries entered by duplicate acknowledgements or SACK: one reduction each (RFC 5681 §3.2).
    pub fast: u64,
    /// Retransmission time-outs that reduce to one segment; a silence with several counts once.
    pub time_outs: u64,
    /// Of the time-outs, those found not to have been needed, which senders undo (RFC 3522, RFC 5682).
    pub undone: u64,
    /// Answers to marks of congestion: packets with CWR after the handshake (RFC 3168 §6.1.2).
    pub ecn: u64,
    /// Mean loss of throughput at a loss event, as a share: over bins of 100 ms, ([bin before] - [bin of the
    /// event]) / [bin before], [MA] eq. (1) and (2); none without a loss event that follows a bin with data.
    pub throughput_loss: Option<f64>,
}

/// Loss and reordering of one direction.
#[derive(Clone, Copy, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct LossReport {
    /// Retransmitted segments with data over segments with data, as on the wire; none where retransmissions cannot be seen, or told from
    /// a box's copies.
    pub rate: Option<f64>,
    /// Retransmitted bytes over payload bytes.
    pub rate_bytes: Option<f64>,
    /// As `rate`, without repetitions that were not needed.
    pub rate_needed: Option<f64>,
    /// Packets lost before the capture point: at holes, from gaps in the sender's IPv4 identifications where it
    /// counts them up, else from what filled the holes.
    pub before_capture: u64,
    /// Packets lost before the capture point, inferred from holes repaired later: misses lost tails and most
    /// repairs that were lost themselves.
    pub before_capture_by_holes: u64,
    /// Packets missing in the sender's IPv4 identifications at holes in its sequence numbers; none if it does not
    /// count them up.
    pub before_capture_by_ids: Option<u64>,
    /// Acknowledgements without data lost before the capture point: from gaps in their sender's IPv4
    /// identifications; none if it does not count them up, or sends data rather than acknowledgements.
    pub acks_before_capture: Option<u64>,
    /// `before_capture` over data packets and these.
    pub rate_before_capture: Option<f64>,
    /// Holes filled by packets that were only late.
    pub reordered: u64,
    /// Holes filled in all.
    pub hole_fills: u64,
}

/// Round-trip times three ways; never mixed.
#[derive(Clone, Copy, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct RttReport {
    /// Karn's rule: segments sent once, acknowledged exactly, nothing newly acknowledged sent after them.
    pub karn: Option<SampleSummary>,
    /// As tcptrace: also nothing acknowledged earlier was sent after them.
    pub tcptrace: Option<SampleSummary>,
    /// First sight of a timestamp value to first sight of its echo.
    pub timestamps: Option<SampleSummary>,
    /// Acknowledgements of segments sent more than once.
    pub ambiguous_acks: u64,
}

/// A set of times in milliseconds. Percentiles by nearest rank, right within 0.8 %; the rest is exact.
#[derive(Clone, Copy, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct SampleSummary {
    /// Number of values.
    pub n: u64,
    /// Smallest.
    pub min_ms: f64,
    /// Median.
    pub p50_ms: f64,
    /// 95th percentile.
    pub p95_ms: f64,
    /// 99th percentile.
    pub p99_ms: f64,
    /// Largest.
    pub max_ms: f64,
    /// Mean.
    pub mean_ms: f64,
    /// Standard deviation of the sample; none for fewer than two.
    pub deviation_ms: Option<f64>,
}

/// Windows advertised by one end; sizes are none when the scale is not known.
#[derive(Clone, Copy, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct WindowReport {
    /// Shift count offered in the SYN.
    pub scale: Option<u8>,
    /// Smallest after the handshake, bytes.
    pub min: Option<u64>,
    /// Largest, bytes.
    pub max: Option<u64>,
    /// Packets with a window of zero.
    pub zero: u64,
    /// Time the window was zero, milliseconds.
    pub zero_ms: f64,
    /// Acknowledgements without news but for the window.
    pub updates: u64,
}

/// Limit of a flow, in one line with its evidence.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Diagnosis {
    /// Kind of limit.
    pub kind: DiagnosisKind,
    /// 0: data of the first end; 1: of the second.
    pub direction: Direction,
    /// The figures behind it.
    pub evidence: String,
}

/// Kind of what held a flow back.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum DiagnosisKind {
    /// A SYN was answered by a reset.
    Refused,
    /// SYNs without any answer.
    NoAnswer,
    /// Less than a segment of the receiver's window was left for half of the active time.
    ReceiveWindowLimited,
    /// The receiver advertised a window of zero.
    ZeroWindow,
    /// The 95th percentile of the round-trip time is twice its minimum and 50 ms more.
    Bufferbloat,
    /// Nothing was outstanding for half of the time.
    ApplicationLimited,
    /// Segments were sent again although they had arrived.
    NeedlessRetransmissions,
    /// Retransmission time-outs.
    TimeOuts,
    /// Packets were lost, behind the capture point or before it.
    Loss,
    /// Five loss events and more, at which throughput changes by less than a tenth, as on a radio link ([MA]
    /// §III-C).
    LossWithoutRateChange,
    /// Hop limits or round-trip times of handshake and data differ: something on the way seems to end the
    /// connection.
    SplitConnection,
    /// Almost all data comes again after its acknowledgement: both sides of a box that acknowledges by itself
    /// are in one capture.
    BothSides,
    /// Packets came late, overtaken by later data.
    Reordering,
    /// Bytes were acknowledged that the capture does not have.
    CaptureGaps,
}

impl DiagnosisKind {
    /// Its name in the JSON.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Refused => "refused",
            Self::NoAnswer => "no_answer",
            Self::ReceiveWindowLimited => "receive_window_limited",
            Self::ZeroWindow => "zero_window",
            Self::Bufferbloat => "bufferbloat",
            Self::ApplicationLimited => "application_limited",
            Self::NeedlessRetransmissions => "needless_retransmissions",
            Self::TimeOuts => "time_outs",
            Self::Loss => "loss",
            Self::LossWithoutRateChange => "loss_without_rate_change",
            Self::SplitConnection => "split_connection",
            Self::Reordering => "reordering",
            Self::CaptureGaps => "capture_gaps",
            Self::BothSides => "both_sides",
        }
    }
}

impl FlowReport {
    /// The direction with most data, each byte counted once.
    #[must_use]
    pub fn main_direction(&self) -> Direction {
        let [first, second] = self.directions.as_array();
        Direction::from_second_if(second.volume.unique_bytes > first.volume.unique_bytes)
    }
}

pub(crate) fn summary(samples: &Samples<Duration>) -> Option<SampleSummary> {
    let [p50, p95, p99] = samples.percentiles([50, 95, 99]).map(|p| p.map(Duration::as_millis_f64));
    Some(SampleSummary {
        n: samples.count(),
        min_ms: samples.min()?.as_millis_f64(),
        p50_ms: p50?,
        p95_ms: p95?,
        p99_ms: p99?,
        max_ms: samples.max()?.as_millis_f64(),
        mean_ms: samples.mean_ns()? / 1e6,
        deviation_ms: samples.deviation_ns().map(|ns| ns / 1e6),
    })
}
