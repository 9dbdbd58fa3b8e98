//! [`FlowReport`]: what is known of a flow at its end. `None` is "cannot be known", never zero.

use std::net::SocketAddr;

use serde::Serialize;
use units::{Duration, Instant};

use crate::diagnosis::{self, Diagnosis};
use crate::flow::Flow;
use crate::half::{BIN, Half};
use crate::recovery::Cause;
use crate::samples::Samples;
use crate::vantage::{Vantage, vantage};

/// A finished flow.
#[derive(Clone, Debug, Serialize)]
pub struct FlowReport {
    /// Number, in the order of first packets.
    pub id: u64,
    /// Capture point: files that overlap in time are taken as captures at different places.
    pub point: u16,
    /// Sender of the first packet.
    pub first: SocketAddr,
    /// The other end.
    pub second: SocketAddr,
    /// Which end opened the connection: 0 the first, 1 the second; none if no SYN was seen.
    pub client: Option<u8>,
    /// First packet, nanoseconds since 1970-01-01 UTC.
    pub start_ns: u64,
    /// First packet to last, seconds.
    pub duration_s: f64,
    /// Found inside a tunnel.
    pub is_tunnelled: bool,
    /// A Multipath TCP option was seen.
    pub mptcp: bool,
    /// How it ended.
    pub end: End,
    /// Resets.
    pub resets: ResetCount,
    /// The handshake.
    pub handshake: Handshake,
    /// Where the capture was made.
    pub vantage: Option<Vantage>,
    /// Packets that a tool has cut and whose frame length no longer says the truth.
    pub cut_by_tool: u64,
    /// Sent by the first end, and by the second.
    pub directions: [DirectionReport; 2],
    /// What held the flow back, with evidence.
    pub diagnoses: Vec<Diagnosis>,
}

/// How a flow ended in the capture.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
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
pub struct Handshake {
    /// SYNs seen.
    pub syns: u64,
    /// SYN-ACKs seen.
    pub syn_acks: u64,
    /// SYN to SYN-ACK: the capture point to the server and back; none if the SYN was sent more than once.
    pub to_server_ms: Option<f64>,
    /// SYN-ACK to ACK: the capture point to the client and back; none if the SYN-ACK was sent more than once.
    pub to_client_ms: Option<f64>,
    /// Both.
    pub total_ms: Option<f64>,
    /// The ACK came with data, so that a plain one may have been lost: `to_client_ms` may hold a wait.
    #[serde(skip)]
    pub(crate) ack_has_data: bool,
}

/// One direction of a flow.
#[derive(Clone, Debug, Serialize)]
pub struct DirectionReport {
    /// Packets.
    pub packets: u64,
    /// Packets as on the wire: a super-packet (GSO, GRO) counts as the segments it stands for.
    pub wire_segments: u64,
    /// Bytes with IP headers.
    pub ip_bytes: u64,
    /// Packets with data.
    pub data_packets: u64,
    /// Payload bytes, repetitions included.
    pub payload_bytes: u64,
    /// Payload bytes, each counted once.
    pub unique_bytes: u64,
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
    /// Offered in the SYN, bytes.
    pub mss: Option<u16>,
    /// Smallest payload of a packet with data, bytes.
    pub segment_min: Option<u64>,
    /// Largest payload of a packet, bytes.
    pub segment_max: Option<u64>,
    /// Unique bytes over first to last packet of the flow, bit/s.
    pub throughput_elapsed_bps: Option<f64>,
    /// Unique bytes over first to last packet with data, bit/s.
    pub throughput_active_bps: Option<f64>,
    /// Median over bins of 100 ms between the first and the last data, bit/s.
    pub throughput_p50_bps: Option<f64>,
    /// 95th percentile over the same bins, bit/s.
    pub throughput_p95_bps: Option<f64>,
    /// What was seen again, by cause.
    pub retransmissions: Retransmissions,
    /// Loss and reordering.
    pub loss: LossReport,
    /// Round-trip times from the capture point to the receiver of this direction and back.
    pub rtt: RttReport,
    /// Windows that this direction's sender advertised.
    pub window: WindowReport,
    /// Most bytes sent and not acknowledged; none beside the receiver, where nothing is outstanding for long.
    pub in_flight_max: Option<u64>,
    /// Time in which less than a segment of the receiver's window was left, milliseconds; none beside the receiver.
    pub window_limited_ms: Option<f64>,
    /// Time after the first data in which nothing was outstanding, milliseconds; none beside the receiver.
    pub idle_ms: Option<f64>,
    /// Longest pause between packets, milliseconds.
    pub pause_max_ms: f64,
    /// Pauses of 200 ms and more with nothing outstanding: the application was silent; none beside the receiver.
    pub idle_gaps: Option<u64>,
    /// Longest of them, milliseconds; none beside the receiver.
    pub idle_gap_max_ms: Option<f64>,
    /// Reductions of the congestion window, inferred; none beside the receiver.
    pub window_reductions: Option<WindowReductions>,
    /// Hop limit (TTL) of the SYN and of the first data packet; another one shows that another machine sends.
    pub hop_limit_syn: Option<u8>,
    /// Hop limit (TTL) of the first packet with data.
    pub hop_limit_data: Option<u8>,
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
    /// Bytes that were acknowledged though the capture does not have them.
    pub not_captured_bytes: u64,
}

/// Repetitions by cause; none where the capture point cannot tell.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Retransmissions {
    /// Packets with data seen before.
    pub data_packets: u64,
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

/// Reductions of a sender's congestion window, inferred: [EV]'s "recalculations" are these and the receiver's window
/// updates (`window.updates`).
#[derive(Clone, Copy, Debug, Serialize)]
pub struct WindowReductions {
    /// Recoveries entered by duplicate acknowledgements or SACK: one reduction each (RFC 5681 §3.2).
    pub fast: u64,
    /// Retransmission time-outs that reduce to one segment; a silence with several counts once.
    pub time_outs: u64,
    /// Of the time-outs, those found not to have been needed, which senders undo (RFC 3522, RFC 5682).
    pub undone: u64,
    /// Answers to marks of congestion: packets with CWR after the handshake (RFC 3168 §6.1.2).
    pub ecn: u64,
    /// Mean loss of throughput at a loss event, as a share: over bins of 100 ms, ([bin before] - [bin of the event]) /
    /// [bin before], [MA] eq. (1) and (2); none without a loss event that follows a bin with data.
    pub throughput_loss: Option<f64>,
}

/// Loss and reordering of one direction.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct LossReport {
    /// Retransmitted data packets over data packets; none where retransmissions cannot be seen, or told from a box's copies.
    pub rate: Option<f64>,
    /// Retransmitted bytes over payload bytes.
    pub rate_bytes: Option<f64>,
    /// As `rate`, without repetitions that were not needed.
    pub rate_needed: Option<f64>,
    /// Packets lost before the capture point: from gaps in the sender's IPv4 identifications where it counts them up,
    /// else from holes.
    pub before_capture: u64,
    /// Packets lost before the capture point, inferred from holes repaired later: misses lost tails and most repairs
    /// that were lost themselves.
    pub before_capture_by_holes: u64,
    /// Packets missing in the sender's IPv4 identifications; none if it does not count them up.
    pub before_capture_by_ids: Option<u64>,
    /// `before_capture` over data packets and these.
    pub rate_before_capture: Option<f64>,
    /// Holes filled by packets that were only late.
    pub reordered: u64,
    /// Holes filled in all.
    pub hole_fills: u64,
}

/// Round-trip times three ways; never mixed.
#[derive(Clone, Copy, Debug, Serialize)]
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
pub struct SampleSummary {
    /// How many.
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

impl FlowReport {
    /// Draws up the report of a flow that has ended.
    pub(crate) fn of(flow: &mut Flow) -> Self {
        flow.halves.iter_mut().for_each(Half::close_bin);
        for half in &mut flow.halves {
            if let Some(since) = half.windows.zero_since.take() {
                half.window_news.zero_time += flow.last.saturating_since(since);
            }
        }
        let place = place(flow);
        let ends = flow.ends();
        let packets: u64 = flow.halves.iter().map(|half| half.totals.packets).sum();
        let resets = [0, 1].map(|d| flow.halves[d].counts.rst);
        let opening = &flow.opening;
        let halves = opening.to_server().zip(opening.to_client());
        let mut report = Self {
            id: flow.id,
            point: flow.key.point(),
            first: ends[0],
            second: ends[1],
            client: opening.client.map(|client| client as u8),
            start_ns: flow.first.as_nanos(),
            duration_s: flow.last.saturating_since(flow.first).as_secs_f64(),
            is_tunnelled: flow.is_tunnelled,
            mptcp: flow.halves.iter().any(|half| half.mptcp),
            end: end(flow),
            resets: ResetCount {
                by_first: resets[0],
                by_second: resets[1],
                per_packet: (resets[0] + resets[1]) as f64 / packets.max(1) as f64,
            },
            handshake: Handshake {
                syns: opening.syns,
                syn_acks: opening.syn_acks,
                to_server_ms: opening.to_server().map(Duration::as_millis_f64),
                to_client_ms: opening.to_client().map(Duration::as_millis_f64),
                total_ms: halves.map(|(a, b)| (a + b).as_millis_f64()),
                ack_has_data: opening.ack_has_data,
            },
            vantage: place,
            cut_by_tool: flow.cut_by_tool,
            directions: [0, 1].map(|direction| direction_report(flow, direction, place)),
            diagnoses: Vec::new(),
        };
        report.diagnoses = diagnosis::diagnose(&report);
        if diagnosis::has_both_sides(&report) {
            for data in &mut report.directions {
                // Copies are no losses.
                let loss = &mut data.loss;
                (loss.rate, loss.rate_bytes, loss.rate_needed) = (None, None, None);
            }
        }
        report
    }
}

/// From the handshake, or from the shortest round trips of data.
fn place(flow: &Flow) -> Option<Vantage> {
    let opening = &flow.opening;
    let [to_second, to_first] = match (opening.client, opening.to_server(), opening.to_client()) {
        (Some(0), server, client) => [server, client],
        (Some(_), server, client) => [client, server],
        (None, ..) => [None, None],
    };
    let [first, second] = &flow.halves;
    vantage(to_second.or(first.rtt_karn.min()), to_first.or(second.rtt_karn.min()))
}

fn end(flow: &Flow) -> End {
    match (flow.reset_by, [flow.halves[0].fin_acked, flow.halves[1].fin_acked]) {
        (_, [true, true]) => End::Closed,
        (Some(0), _) => End::ResetByFirst,
        (Some(_), _) => End::ResetBySecond,
        (None, _) if flow.halves.iter().any(|half| half.fin_seen) => End::HalfClosed,
        (None, _) => End::Open,
    }
}

fn rate_bps(bytes: u64, from: Option<Instant>, to: Option<Instant>) -> Option<f64> {
    let seconds = to?.saturating_since(from?).as_secs_f64();
    (seconds > 0.0 && bytes > 0).then(|| bytes as f64 * 8.0 / seconds)
}

fn share(part: u64, whole: u64) -> Option<f64> {
    (whole > 0).then(|| part as f64 / whole as f64)
}

fn direction_report(flow: &Flow, direction: usize, place: Option<Vantage>) -> DirectionReport {
    let half = &flow.halves[direction];
    let c = &half.counts;
    let sees_sender = place.is_none_or(|place| place.sees_sender(direction));
    let karn = summary(&half.rtt_karn);
    let bins = half.bins.percentiles([50, 95]);
    let [p50, p95] = bins.map(|bin| bin.map(|bytes| bytes.as_nanos() as f64 * 8.0 / BIN.as_secs_f64()));
    DirectionReport {
        packets: half.totals.packets,
        wire_segments: half.totals.wire_segments,
        ip_bytes: half.totals.ip_bytes,
        data_packets: half.data.packets,
        payload_bytes: half.data.payload,
        unique_bytes: half.data.unique,
        syn: c.syn,
        fin: c.fin,
        rst: c.rst,
        psh: half.totals.psh,
        urg: c.urg,
        pure_acks: half.pure_acks,
        ece: c.ece,
        cwr: c.cwr,
        ect: c.ect,
        ce: c.ce,
        mss: half.mss,
        segment_min: (half.data.segment_min > 0).then_some(half.data.segment_min),
        segment_max: (half.segment_max > 0).then_some(u64::from(half.segment_max)),
        throughput_elapsed_bps: rate_bps(half.data.unique, Some(flow.first), Some(flow.last)),
        throughput_active_bps: rate_bps(half.data.unique, half.first_data.get(), half.last_data.get()),
        throughput_p50_bps: p50,
        throughput_p95_bps: p95,
        retransmissions: retransmissions(half, sees_sender),
        loss: loss(half, sees_sender),
        rtt: RttReport {
            karn,
            tcptrace: half.rtt_tcptrace.as_deref().map_or(karn, summary),
            timestamps: summary(&half.rtt_timestamps),
            ambiguous_acks: c.ambiguous_acks,
        },
        window: window(flow, direction),
        in_flight_max: sees_sender.then_some(half.data.in_flight_max),
        window_limited_ms: flow
            .scale(1 - direction)
            .filter(|_| !half.first_data.is_none() && sees_sender)
            .map(|_| half.shares.window_limited.as_millis_f64()),
        idle_ms: sees_sender.then(|| half.shares.idle.as_millis_f64()),
        pause_max_ms: half.idle_max.as_millis_f64(),
        idle_gaps: sees_sender.then_some(u64::from(half.idle_gaps.count)),
        idle_gap_max_ms: sees_sender.then(|| half.idle_gaps.longest.as_millis_f64()),
        window_reductions: sees_sender.then(|| WindowReductions {
            fast: half.recovery.episodes[0],
            time_outs: half.recovery.episodes[1],
            undone: half.recovery.episodes[2],
            ecn: c.ecn_reductions,
            throughput_loss: half.rate_loss.mean(),
        }),
        hop_limit_syn: half.hop_limits[0],
        hop_limit_data: half.hop_limits[1],
        duplicate_acks: c.duplicate_acks,
        triple_duplicate_acks: c.triple_duplicate_acks,
        sack_packets: c.sack_packets,
        dsacks: c.dsacks,
        dsacks_unexplained: c.dsacks_unexplained,
        not_captured_bytes: c.not_captured,
    }
}

fn retransmissions(half: &Half, sees_sender: bool) -> Retransmissions {
    let c = &half.counts;
    let typed = |cause: Cause| sees_sender.then(|| c.by_cause[cause as usize]);
    Retransmissions {
        data_packets: c.retransmitted,
        data_bytes: c.retransmitted_bytes,
        syn: c.by_cause[Cause::Syn as usize],
        fin: c.fin_repeats,
        rto: typed(Cause::Rto),
        rto_recovery: typed(Cause::RtoRecovery),
        fast: typed(Cause::Fast),
        tlp: typed(Cause::Tlp),
        unclear: typed(Cause::Unclear),
        spurious: c.spurious.iter().sum(),
        spurious_dsack: c.spurious[0],
        spurious_timestamp: c.spurious[1],
        spurious_acknowledged: c.spurious[2],
        window_probes: c.window_probes,
        keep_alives: c.keep_alives,
    }
}

fn loss(half: &Half, sees_sender: bool) -> LossReport {
    let c = &half.counts;
    let spurious = c.spurious.iter().sum::<u64>().min(c.retransmitted);
    // What the capture missed is missing among the identifications too, but was not lost.
    let not_captured = c.not_captured.div_ceil(u64::from(half.segment_max.max(1)));
    let by_ids = half.ids.missing().map(|missing| missing.saturating_sub(not_captured));
    let before = by_ids.unwrap_or(c.lost_before);
    LossReport {
        rate: share(c.retransmitted, half.data.packets).filter(|_| sees_sender),
        rate_bytes: share(c.retransmitted_bytes, half.data.payload).filter(|_| sees_sender),
        rate_needed: share(c.retransmitted - spurious, half.data.packets).filter(|_| sees_sender),
        before_capture: before,
        before_capture_by_holes: c.lost_before,
        before_capture_by_ids: by_ids,
        rate_before_capture: share(before, half.data.packets + before),
        reordered: c.reordered,
        hole_fills: c.hole_fills,
    }
}

fn window(flow: &Flow, direction: usize) -> WindowReport {
    let half = &flow.halves[direction];
    let is_known = flow.scale(direction).is_some();
    WindowReport {
        scale: half.scale.map(|scale| scale.shift()),
        min: half.windows.min.filter(|_| is_known).map(u64::from),
        max: is_known.then_some(u64::from(half.windows.max)),
        zero: half.window_news.zero,
        zero_ms: half.window_news.zero_time.as_millis_f64(),
        updates: half.window_news.updates,
    }
}

pub(crate) fn summary(samples: &Samples) -> Option<SampleSummary> {
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
