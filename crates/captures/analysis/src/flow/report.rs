//! The report of a flow that has ended.

use units::{Duration, Instant};

use super::Flow;
use crate::budget::{TimeBudget, TimeCause};
use crate::diagnosis;
use crate::direction::{Direction, PerDirection};
use crate::half::{BIN, Bounds, Half, RetransmissionCounts};
use crate::packet_ids::AckTotals;
use crate::recovery::Cause;
use crate::report::{
    AckReport, DirectionReport, End, FlagReport, FlowReport, Handshake, HopLimitReport, LossReport,
    ResetCount, Retransmissions, RttReport, SampleSummary, SegmentSizes, SenderReport, ThroughputReport,
    Volume, WindowReductions, WindowReport, summary,
};
use crate::vantage::Vantage;

impl Flow {
    /// Draws up the report of a flow that has ended.
    pub(crate) fn report(&mut self) -> FlowReport {
        self.spend_all();
        self.halves.iter_mut().for_each(Half::close_bin);
        for half in &mut self.halves {
            if let Some(since) = half.windows.zero_since.take() {
                half.windows.zero_time += self.last.saturating_since(since);
            }
        }
        let place = self.place();
        let receiver_rtt = receiver_rtt(self);
        let budget = budget(self);
        let ends = self.ends();
        let packets: u64 = self.halves.iter().map(|half| half.counts.packets.all).sum();
        let [by_first, by_second] = self.halves.as_array().each_ref().map(|half| half.counts.flags.rst);
        let opening = &self.opening;
        let halves = opening.to_server().zip(opening.to_client());
        let mut report = FlowReport {
            id: self.id,
            point: self.key.point(),
            capture: self.key.capture(),
            first: ends[0],
            second: ends[1],
            client: opening.client,
            start_ns: self.first.as_nanos(),
            duration_s: self.last.saturating_since(self.first).as_secs_f64(),
            is_tunnelled: self.is_tunnelled,
            mptcp: self.halves.iter().any(|half| half.has_mptcp),
            end: end(self),
            resets: ResetCount {
                by_first,
                by_second,
                per_packet: (by_first + by_second) as f64 / packets.max(1) as f64,
            },
            handshake: Handshake {
                syns: u64::from(opening.syns),
                syn_acks: u64::from(opening.syn_acks),
                to_server_ms: opening.to_server().map(Duration::as_millis_f64),
                to_client_ms: opening.to_client().map(Duration::as_millis_f64),
                total_ms: halves.map(|(a, b)| (a + b).as_millis_f64()),
                ack_has_data: opening.ack_has_data,
                mark: self.opening_mark(),
            },
            vantage: place,
            cut_by_tool: u64::from(self.cut_by_tool),
            directions: PerDirection::each(|direction| direction_report(self, direction, place)),
            budget,
            receiver_rtt,
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

fn main_direction(flow: &Flow) -> Direction {
    let [first, second] = flow.halves.as_array().each_ref().map(|half| half.unique());
    Direction::from_second_if(second > first)
}

fn receiver_rtt(flow: &Flow) -> Option<SampleSummary> {
    flow.halves[main_direction(flow)].receiver_rtt().and_then(summary)
}

/// Split of the time of the direction with most data.
fn budget(flow: &mut Flow) -> TimeBudget {
    let direction = main_direction(flow);
    let opening = &flow.opening;
    let handshake = match (opening.client, opening.ack.get()) {
        (None, _) => flow.first,
        (Some(_), Some(ack)) => ack,
        (Some(_), None) => flow.last,
    };
    let is_policed = flow.halves[direction].is_policed(flow.path_rtt());
    let bounds = Bounds {
        first: flow.first,
        opened: handshake,
        last: flow.last,
        reopened: flow.reopened(),
        is_open: end(flow) == End::Open,
        beside_receiver: flow.path_rtt().filter(|_| flow.is_beside_receiver(direction)),
    };
    let (mut parts, longest_stall) = flow.halves[direction].time_parts(&bounds);
    if is_policed {
        // Its drops hold the congestion window, too, where it is.
        for cause in [TimeCause::LossRecovery, TimeCause::PathRate] {
            parts.rename(cause, TimeCause::Policer);
        }
    }
    TimeBudget::new(direction, parts, longest_stall)
}

fn end(flow: &Flow) -> End {
    match (flow.reset_by, flow.halves.iter().all(|half| half.stream.fin_acked)) {
        (_, true) => End::Closed,
        (Some(Direction::FromFirst), _) => End::ResetByFirst,
        (Some(_), _) => End::ResetBySecond,
        (None, _) if flow.halves.iter().any(|half| half.stream.fin_end.is_some()) => End::HalfClosed,
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

fn direction_report(flow: &Flow, direction: Direction, place: Option<Vantage>) -> DirectionReport {
    let half = &flow.halves[direction];
    let sees_sender = place.is_none_or(|place| place.sees_sender(direction));
    let karn = summary(&half.rtt.karn);
    let bins = half.throughput.bins.percentiles([50, 95]);
    let [p50, p95] = bins.map(|bin| bin.map(|bytes| bytes.get() as f64 * 8.0 / BIN.as_secs_f64()));
    let totals = &half.counts.data;
    DirectionReport {
        volume: Volume {
            packets: half.counts.packets.all,
            wire_segments: half.all_wire_segments(),
            ip_bytes: half.counts.packets.ip_bytes,
            duplicates: half.counts.packets.copies,
            data_packets: totals.packets,
            data_segments: half.data_wire_segments(),
            payload_bytes: totals.payload,
            unique_bytes: half.unique(),
        },
        flags: flag_report(half),
        sizes: SegmentSizes {
            mss: half.syn.offered.mss,
            min: (half.sizes.min > 0).then_some(u64::from(half.sizes.min)),
            max: (half.sizes.max > 0).then_some(u64::from(half.sizes.max)),
        },
        throughput: ThroughputReport {
            elapsed_bps: rate_bps(half.unique(), Some(flow.first), Some(flow.last)),
            active_bps: rate_bps(
                half.unique(),
                half.activity.first_data.get(),
                half.activity.last_data.get(),
            ),
            p50_bps: p50,
            p95_bps: p95,
        },
        retransmissions: retransmissions(half, sees_sender),
        loss: loss(flow, direction, sees_sender),
        rtt: RttReport {
            karn,
            tcptrace: half.rtt.tcptrace.as_deref().map_or(karn, summary),
            timestamps: summary(&half.rtt.timestamps),
            ambiguous_acks: half.counts.acks.ambiguous,
        },
        window: window(flow, direction),
        sender: sender_report(flow, direction, sees_sender),
        hop_limits: HopLimitReport { syn: half.hop_limits.syn, data: half.hop_limits.data },
        acks: ack_report(half),
        not_captured_bytes: half.not_captured(),
    }
}

fn flag_report(half: &Half) -> FlagReport {
    let (flags, ecn) = (&half.counts.flags, &half.counts.ecn);
    FlagReport {
        syn: flags.syn,
        fin: flags.fin,
        rst: flags.rst,
        psh: half.counts.flags.psh,
        urg: flags.urg,
        pure_acks: half.pure_acks(),
        ece: flags.ece,
        cwr: flags.cwr,
        ect: ecn.ect,
        ce: ecn.ce,
    }
}

fn sender_report(flow: &Flow, direction: Direction, sees_sender: bool) -> SenderReport {
    let half = &flow.halves[direction];
    let (shares, gaps, episodes) = (&half.time.shares, &half.activity.idle_gaps, &half.recovery.episodes);
    SenderReport {
        in_flight_max: sees_sender.then_some(half.counts.data.in_flight_max),
        window_limited_ms: flow
            .scale(direction.reverse())
            .filter(|_| !half.activity.first_data.is_none() && sees_sender)
            .map(|_| shares.window_limited.as_millis_f64()),
        idle_ms: sees_sender.then(|| shares.idle.as_millis_f64()),
        pause_max_ms: half.activity.pause_max.as_millis_f64(),
        idle_gaps: sees_sender.then_some(u64::from(gaps.count)),
        idle_gap_max_ms: sees_sender.then(|| gaps.longest.as_millis_f64()),
        window_reductions: sees_sender.then(|| WindowReductions {
            fast: episodes.fast,
            time_outs: episodes.time_outs,
            undone: episodes.undone,
            ecn: half.counts.ecn.reductions,
            throughput_loss: half.throughput.loss.mean(),
        }),
    }
}

fn ack_report(half: &Half) -> AckReport {
    let acks = &half.counts.acks;
    AckReport {
        duplicate_acks: acks.duplicate,
        triple_duplicate_acks: acks.triple_duplicate,
        sack_packets: acks.with_sack,
        dsacks: acks.dsacks,
        dsacks_unexplained: acks.dsacks_unexplained,
    }
}

fn retransmissions(half: &Half, sees_sender: bool) -> Retransmissions {
    let counts = &half.counts.retransmissions;
    let spurious = &counts.spurious;
    let typed = |cause: Cause| sees_sender.then(|| counts.by_cause[cause]);
    Retransmissions {
        data_packets: counts.packets,
        data_segments: counts.wire_segments,
        data_bytes: counts.bytes,
        syn: counts.by_cause[Cause::Syn],
        fin: counts.fin,
        rto: typed(Cause::Rto),
        rto_recovery: typed(Cause::RtoRecovery),
        fast: typed(Cause::Fast),
        tlp: typed(Cause::Tlp),
        unclear: typed(Cause::Unclear),
        spurious: spurious.sum(),
        spurious_dsack: spurious.dsack,
        spurious_timestamp: spurious.timestamp,
        spurious_acknowledged: spurious.acknowledged,
        window_probes: half.counts.probes.window,
        keep_alives: half.counts.probes.keep_alive,
    }
}

/// Acknowledgements of `direction` that are missing.
fn lost_acks(flow: &Flow, direction: Direction) -> Option<u64> {
    let [own, other] = [&flow.halves[direction], &flow.halves[direction.reverse()]];
    let first = other.stream.coverage.as_ref()?.first;
    let all = AckTotals { bytes: other.stream.una.saturating_sub(first), pure: own.pure_acks() };
    let counts = own.ids.packets.is_sound() && all.pure > own.counts.data.packets;
    own.ids.ack_gaps.missing(all).filter(|_| counts)
}

fn loss(flow: &Flow, direction: Direction, sees_sender: bool) -> LossReport {
    let half = &flow.halves[direction];
    let (data, holes) = (&half.counts.data, &half.counts.holes);
    let RetransmissionCounts { wire_segments, bytes, spurious, .. } = half.counts.retransmissions;
    let needed = wire_segments - spurious.sum().min(wire_segments);
    // What the capture missed is missing among the identifications too, but was not lost.
    let by_ids = half.ids.packets.missing();
    let by_ids = by_ids.map(|missing| missing.saturating_sub(holes.packets_not_captured));
    let before = by_ids.unwrap_or(holes.lost_before);
    LossReport {
        rate: share(wire_segments, half.data_wire_segments()).filter(|_| sees_sender),
        rate_bytes: share(bytes, data.payload).filter(|_| sees_sender),
        rate_needed: share(needed, half.data_wire_segments()).filter(|_| sees_sender),
        before_capture: before,
        before_capture_by_holes: holes.lost_before,
        before_capture_by_ids: by_ids,
        acks_before_capture: lost_acks(flow, direction),
        rate_before_capture: share(before, half.data_wire_segments() + before),
        reordered: holes.reordered,
        hole_fills: holes.filled,
    }
}

fn window(flow: &Flow, direction: Direction) -> WindowReport {
    let half = &flow.halves[direction];
    let is_known = flow.scale(direction).is_some();
    WindowReport {
        scale: half.syn.offered.scale.map(|scale| scale.shift()),
        min: half.windows.min.get().filter(|_| is_known).map(u64::from),
        max: is_known.then_some(u64::from(half.windows.max)),
        zero: half.windows.zero,
        zero_ms: half.windows.zero_time.as_millis_f64(),
        updates: half.windows.updates,
    }
}
