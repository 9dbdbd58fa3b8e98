//! [`Half`]: one direction of a flow: its data, and what the other side says about it.

mod counts;
mod sizes;
mod throughput;
mod time;
mod windows;

use units::{Duration, Instant, SeqNum, WindowScale};
use wire::{SackBlock, TcpFlags};

use crate::coverage::{Added, Coverage, Hole, first_position, unwrap};
use crate::fetch::{Fetch, fetch_span, fetch_value};
use crate::in_flight::InFlight;
use crate::optional_instant::OptionalInstant;
use crate::packet::PacketKind;
use crate::packet_ids::{AckGaps, PacketIds};
use crate::recovery::{Cause, Recovery, Retransmission, RetransmissionContext, SpuriousBy};
use crate::samples::Samples;
use crate::smoothed_rtt::{OptionalSmoothedRtt, SmoothedRtt};
use crate::timestamps::{TimestampRtt, is_newer};

use counts::Counts;
pub(crate) use counts::{AckCounts, RetransmissionCounts};
use sizes::PayloadSizes;
pub(crate) use throughput::BIN;
use throughput::Throughput;
pub(crate) use time::{Bounds, Resumed, Spending, TIME_OUT, TimeSpent};
use windows::Windows;
pub(crate) use windows::{LastWindow, Window};

/// Pauses with nothing outstanding that are longer than a time-out takes, and the longest.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct IdleGaps {
    pub(crate) count: u32,
    pub(crate) longest: Duration,
}

/// Least pause called an idle gap: that after which senders restart their window (RFC 5681 §4.1: a
/// time-out).
pub(crate) const IDLE_GAP: Duration = Duration::from_millis(200);

/// Hop limits (TTL) of the SYN and of the first data: another hop limit is another sender.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct HopLimits {
    pub(crate) syn: Option<u8>,
    pub(crate) data: Option<u8>,
}

/// Offer of a SYN.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct SynOptions {
    pub(crate) mss: Option<u16>,
    pub(crate) scale: Option<WindowScale>,
    pub(crate) sack_permitted: bool,
    /// Timestamp value.
    pub(crate) stamp: Option<u32>,
}

/// Number of a SYN, and what it offers.
pub(crate) type RivalSyn = (SeqNum, SynOptions);

/// One direction of a flow. What most packets need comes first, so that it lies together.
#[derive(Clone, Debug, Default)]
#[repr(C, align(64))]
pub(crate) struct Half {
    pub(crate) stream: StreamState,
    pub(crate) acked: AckProgress,
    pub(crate) activity: Activity,
    pub(crate) windows: Windows,
    pub(crate) sizes: PayloadSizes,
    pub(crate) ids: Identifications,
    pub(crate) counts: Counts,
    pub(crate) throughput: Throughput,
    pub(crate) recovery: Recovery,
    pub(crate) rtt: RoundTrips,
    pub(crate) time: TimeSpent,
    pub(crate) syn: SynState,
    pub(crate) hop_limits: HopLimits,
    pub(crate) has_mptcp: bool,
}

/// SYN of this direction.
#[derive(Clone, Debug, Default)]
pub(crate) struct SynState {
    pub(crate) isn: Option<SeqNum>,
    pub(crate) offered: SynOptions,
    /// A SYN-ACK with another number than the first, until the client says which of them it takes.
    pub(crate) rival: Option<Box<RivalSyn>>,
}

/// Sequence space of this direction: what was seen of it, and what the other side says that it has.
#[derive(Clone, Debug, Default)]
pub(crate) struct StreamState {
    /// Everything below is acknowledged by the other side (RFC 9293 §3.3.1: SND.UNA).
    pub(crate) una: u64,
    pub(crate) coverage: Option<Coverage>,
    pub(crate) in_flight: InFlight,
    highest_sacked: u64,
    /// End of a FIN that was seen.
    pub(crate) fin_end: Option<u64>,
    pub(crate) fin_acked: bool,
    /// The byte above the edge that last probed a zero window, until it is known whether it was accepted.
    window_probe: Option<u64>,
}

impl StreamState {
    /// End of all that was seen or acknowledged.
    #[inline]
    pub(crate) fn top(&self) -> Option<u64> {
        self.coverage.as_ref().map(|coverage| coverage.next.max(self.una))
    }
}

/// Acknowledgements of this direction's data by the other side.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct AckProgress {
    last: Instant,
    /// The last one before the first of the duplicate ones in a row.
    progressed: Instant,
    /// In a row.
    duplicates: u32,
}

/// Round-trip times of data of this direction.
#[derive(Clone, Debug, Default)]
pub(crate) struct RoundTrips {
    pub(crate) karn: Samples<Duration>,
    /// As tcptrace takes them; only from where they differ from [`RoundTrips::karn`].
    pub(crate) tcptrace: Option<Box<Samples<Duration>>>,
    smoothed: OptionalSmoothedRtt,
    pub(crate) timestamps: Samples<Duration>,
    /// Timestamp values that wait for their echo.
    pub(crate) waiting: TimestampRtt,
    /// The last echo that can tell nothing any more; zero for none.
    pub(crate) settled_echo: u32,
}

/// Times of this direction's packets, and pauses between them.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Activity {
    pub(crate) last: OptionalInstant,
    pub(crate) pause_max: Duration,
    pub(crate) idle_gaps: IdleGaps,
    pub(crate) first_data: OptionalInstant,
    pub(crate) last_data: OptionalInstant,
    /// Last segment with data or SYN or FIN.
    last_sent: Instant,
}

/// IPv4 identifications of this direction's packets.
#[derive(Clone, Debug, Default)]
pub(crate) struct Identifications {
    pub(crate) packets: PacketIds,
    pub(crate) ack_gaps: AckGaps,
    /// Fresh data with identifications that are not new, more than others.
    pub(crate) repeated: u8,
}

/// A segment's place and what is known when it is sent, for [`Half::on_segment`].
#[derive(Clone, Copy, Debug)]
pub(crate) struct SentSegment {
    pub(crate) seq: SeqNum,
    pub(crate) len: u64,
    pub(crate) flags: TcpFlags,
    /// Timestamp value.
    pub(crate) stamp: Option<u32>,
    pub(crate) now: Instant,
    /// The window that the other side last advertised, in bytes; none if not known.
    pub(crate) peer_window: Option<u64>,
    pub(crate) uses_sack: bool,
    /// Segments on the wire that it stands for, if it may be a repetition.
    pub(crate) wire_segments: u64,
    /// Shortest round-trip time of the whole path known.
    pub(crate) path_rtt: Option<Duration>,
}

impl Half {
    /// Takes up the sequence number, also of a segment without data.
    pub(crate) fn position(&mut self, seq: SeqNum) -> u64 {
        match self.stream.top() {
            Some(top) => unwrap(top, seq),
            None => {
                let position = first_position(seq);
                self.stream.coverage = Some(Coverage::new(position));
                self.stream.una = position;
                position
            }
        }
    }

    /// Its stream begins with a SYN of number `isn`, and not where it was taken to begin.
    pub(crate) fn begin_at(&mut self, isn: SeqNum) {
        let position = first_position(isn);
        let mut coverage = Coverage::new(position);
        coverage.next = position + 1;
        (self.stream.coverage, self.stream.una) = (Some(coverage), position);
        (self.stream.in_flight, self.stream.highest_sacked) = (self.stream.in_flight.renewed(), 0);
    }

    /// Loss is being repaired, or is known from acknowledgements.
    pub(crate) fn is_recovering(&self) -> bool {
        self.acked.duplicates >= 3
            || self.stream.highest_sacked > self.stream.una
            || self.recovery.is_repairing()
    }

    pub(crate) fn smoothed_rtt(&self) -> Option<Duration> {
        self.rtt.smoothed.get().map(|rtt| rtt.srtt)
    }

    /// Packets with data, and those without as one each, as on the wire.
    pub(crate) fn all_wire_segments(&self) -> u64 {
        self.counts.packets.all + self.counts.packets.more_segments
    }

    /// Segments with data on the wire.
    pub(crate) fn data_wire_segments(&self) -> u64 {
        // Only data stands for more than one.
        self.counts.data.packets + self.counts.packets.more_segments
    }

    /// Payload bytes, each counted once.
    pub(crate) fn unique(&self) -> u64 {
        self.counts.data.payload.saturating_sub(self.counts.data.not_unique)
    }

    /// Acknowledgements without data, SYN, FIN or RST.
    pub(crate) fn pure_acks(&self) -> u64 {
        let others = self.counts.data.packets + self.counts.packets.control;
        self.counts.packets.all.saturating_sub(others)
    }

    /// From the first byte seen to the last seen or acknowledged, bytes.
    pub(crate) fn extent(&self) -> u64 {
        let first = self.stream.coverage.as_ref().map_or(0, |coverage| coverage.first);
        self.stream.top().map_or(0, |top| top.saturating_sub(first))
    }

    /// Bytes that were acknowledged though the capture does not have them.
    pub(crate) fn not_captured(&self) -> u64 {
        let next = self.stream.coverage.as_ref().map_or(self.stream.una, |coverage| coverage.next);
        self.counts.holes.not_captured + self.stream.una.saturating_sub(next)
    }

    pub(crate) fn outstanding(&self) -> u64 {
        self.stream.coverage.as_ref().map_or(0, |coverage| coverage.next.saturating_sub(self.stream.una))
    }

    /// A segment of this direction: everything but its acknowledgement.
    pub(crate) fn on_segment(&mut self, s: &SentSegment) -> PacketKind {
        let position = self.position(s.seq);
        let (has_syn, has_fin) = (s.flags.contains(TcpFlags::SYN), s.flags.contains(TcpFlags::FIN));
        let next = self.stream.coverage.as_ref().map_or(position, |c| c.next);
        let is_plain = !has_syn && !has_fin;
        // What comes next to what was seen is data, even if it is acknowledged already.
        let edge = if position == next { next } else { next.max(self.stream.una) };
        let is_below_edge = is_plain && s.len <= 1 && position + 1 == edge;
        // Zero bytes, or one that is acknowledged, just below the edge: it asks for an acknowledgement.
        if is_below_edge && (s.len == 0 || self.outstanding() == 0 || s.peer_window == Some(0)) {
            return self.on_probe(s.peer_window == Some(0), s.len);
        }
        if s.len == 0 && is_plain {
            return PacketKind::Usual;
        }
        if is_plain && s.len == 1 && s.peer_window == Some(0) {
            if position == next {
                self.stream.window_probe = Some(position);
            }
            return self.on_probe(true, s.len);
        }
        if self.stream.window_probe.is_some() {
            self.settle_probe(position, s.now);
        }
        let start = position + u64::from(has_syn);
        let end = start + s.len;
        let data = if s.len > 0 { self.cover(start, end, s) } else { Added::default() };
        if data.fresh != s.len {
            self.counts.data.not_unique += s.len.saturating_sub(data.fresh);
        }
        let mut control = Added::default();
        if has_syn {
            control = self.cover(position, start, s);
        }
        if has_fin {
            let fin = self.cover(end, end + 1, s);
            control.again += fin.again;
            control.fresh += fin.fresh;
            self.stream.fin_end = Some(end + 1);
            // Its acknowledgement may have been captured before.
            self.stream.fin_acked |= self.stream.una > end;
        }
        let whole = (position, end + u64::from(has_fin));
        let kind = self.classify(s, whole, &data, &control, has_syn);
        if s.len > 0 {
            if !self.throughput.add(s.now, data.fresh) {
                let loss_events = self.recovery.loss_events();
                self.throughput.begin(s.now, data.fresh, loss_events);
            }
            if self.activity.first_data.is_none() {
                self.activity.first_data = OptionalInstant::at(s.now);
            }
            self.activity.last_data = OptionalInstant::at(s.now);
        }
        self.activity.last_sent = s.now;
        self.counts.data.in_flight_max = self.counts.data.in_flight_max.max(self.outstanding());
        kind
    }

    fn cover(&mut self, start: u64, end: u64, s: &SentSegment) -> Added {
        let una = self.stream.una;
        let Some(coverage) = &mut self.stream.coverage else { return Added::default() };
        let added = coverage.add(start, end, s.now, s.stamp, una);
        if added.missed != added.recovered {
            self.on_capture_gap(&added);
        }
        added
    }

    /// The capture missed what was acknowledged, or has it after all.
    #[cold]
    fn on_capture_gap(&mut self, added: &Added) {
        let packets = added.recovered.div_ceil(self.sizes.largest());
        let holes = &mut self.counts.holes;
        holes.not_captured = (holes.not_captured + added.missed).saturating_sub(added.recovered);
        holes.packets_not_captured = holes.packets_not_captured.saturating_sub(packets);
    }

    /// A byte that probed a zero window becomes part of the stream when it turns out to have been accepted:
    /// what was sent or acknowledged since lies at `position`. Else the same byte comes again, and for the
    /// first time.
    fn settle_probe(&mut self, position: u64, now: Instant) {
        let una = self.stream.una;
        if let Some(probed) = self.stream.window_probe.take().filter(|probed| position > *probed)
            && let Some(coverage) = &mut self.stream.coverage
        {
            let not_unique = &mut self.counts.data.not_unique;
            *not_unique = not_unique.saturating_sub(coverage.add(probed, probed + 1, now, None, una).fresh);
        }
    }

    fn settle_probe_if_accepted(&mut self, position: u64, now: Instant) {
        if self.stream.window_probe.is_some_and(|probed| position > probed) {
            self.settle_probe(position, now);
        }
    }

    fn on_probe(&mut self, is_window_probe: bool, len: u64) -> PacketKind {
        self.counts.data.not_unique += len;
        if is_window_probe {
            self.counts.probes.window += 1;
            return PacketKind::WindowProbe;
        }
        self.counts.probes.keep_alive += 1;
        PacketKind::KeepAlive
    }

    fn classify(
        &mut self,
        s: &SentSegment,
        (start, end): (u64, u64),
        data: &Added,
        control: &Added,
        syn: bool,
    ) -> PacketKind {
        if data.again == 0 && control.again == 0 {
            if end > self.stream.una {
                self.stream.in_flight.push(start, end, s.now);
            }
            return data.filled.map_or(PacketKind::Usual, |hole| self.on_fill(s, &hole));
        }
        let next = self.stream.coverage.as_ref().map_or(end, |coverage| coverage.next);
        let situation = RetransmissionContext {
            now: s.now,
            start,
            end,
            next,
            una: self.stream.una,
            quiet: s.now.saturating_since(self.activity.last_sent.max(self.acked.last)),
            since_progress: s.now.saturating_since(self.timer_start()),
            rtt: self.rtt.smoothed.get().or(s.path_rtt.map(SmoothedRtt::first)),
            has_evidence: self.stream.highest_sacked > end || self.acked.duplicates >= 3,
            uses_sack: s.uses_sack,
            stamp: s.stamp,
        };
        let was_acknowledged = end <= self.stream.una || self.stream.in_flight.is_sacked(start, end);
        self.stream.in_flight.retransmit(start, end, s.now);
        let fresh_from = end - (data.fresh + control.fresh).min(end - start);
        if fresh_from < end {
            self.stream.in_flight.push(fresh_from.max(start + 1), end, s.now);
        }
        let cause = if syn && data.again == 0 {
            self.recovery.on_syn_retransmission(&situation);
            Cause::Syn
        } else {
            self.recovery.on_retransmission(&situation)
        };
        self.counts.retransmissions.by_cause[cause] += 1;
        if data.again > 0 {
            self.counts.retransmissions.packets += 1;
            self.counts.retransmissions.wire_segments += s.wire_segments;
            self.counts.retransmissions.bytes += data.again;
        } else if !syn {
            self.counts.retransmissions.fin += 1;
        }
        if was_acknowledged {
            self.recovery.last_was_acknowledged();
            self.counts.retransmissions.spurious.count(SpuriousBy::Acknowledged);
        }
        PacketKind::Retransmission { cause, was_acknowledged }
    }

    /// Time when the retransmission timer was started last (RFC 6298 §5): at the last acknowledgement of new
    /// data, or when the first segment outstanding was sent.
    fn timer_start(&self) -> Instant {
        let acked = match self.acked.duplicates {
            0 => self.acked.last,
            _ => self.acked.progressed,
        };
        acked.max(self.stream.in_flight.first_sent().unwrap_or_default())
    }

    /// A segment below the edge that was never seen: lost before this point and sent again, or overtaken.
    fn on_fill(&mut self, s: &SentSegment, hole: &Hole) -> PacketKind {
        self.counts.holes.filled += 1;
        let late = s.now.saturating_since(hole.since);
        let by_stamp = match (s.stamp, hole.stamp) {
            // Sent after the segment that showed the hole: sent again.
            (Some(own), Some(above)) => Some(is_newer(own, above)),
            _ => None,
        };
        let a_round_trip_late = s.path_rtt.is_some_and(|rtt| late >= rtt.mul_ratio(9, 10));
        let half_late = s.path_rtt.map_or(late >= Duration::from_millis(3), |rtt| late * 2 >= rtt);
        let is_repair = match by_stamp {
            Some(true) => true,
            // A clock of coarse ticks says nothing about less than a tick.
            Some(false) => a_round_trip_late && s.stamp == hole.stamp,
            None => half_late,
        };
        if !is_repair {
            self.counts.holes.reordered += 1;
            return PacketKind::Reordered;
        }
        self.counts.holes.lost_before += s.wire_segments + self.lost_again(s, hole);
        PacketKind::Repaired
    }

    /// Repairs that were lost too: of holes below this one, which are repaired first.
    fn lost_again(&mut self, s: &SentSegment, hole: &Hole) -> u64 {
        let Some(rtt) = s.path_rtt else { return 0 };
        let (position, now) = (hole.start, s.now);
        let Some(coverage) = &mut self.stream.coverage else { return 0 };
        let mut lost = 0;
        for below in coverage.holes_mut().iter_mut().take_while(|below| below.end <= position) {
            if !below.is_acked && now.saturating_since(below.passed) >= rtt.mul_ratio(9, 10) {
                below.passed = now;
                lost += 1;
            }
        }
        lost
    }

    /// Puts the bin in progress to those that have ended.
    pub(crate) fn close_bin(&mut self) {
        self.throughput.close(self.recovery.loss_events());
    }

    /// The other side acknowledged; `is_bare` says it had no data and changed no window.
    ///
    /// Calls `found` with cause and reason for each retransmission now known to be spurious.
    pub(crate) fn on_ack(&mut self, ack: &Ack<'_>, mut found: impl FnMut(&Retransmission)) -> Acknowledged {
        let mut outcome = Acknowledged::default();
        if self.stream.coverage.is_none() {
            return outcome;
        }
        let position = unwrap(self.stream.una, ack.number);
        if position > self.stream.una {
            self.settle_probe_if_accepted(position, ack.now);
        }
        let has_holes = self.stream.coverage.as_ref().is_some_and(|coverage| !coverage.holes().is_empty());
        let segment = if has_holes { self.sizes.largest() } else { 1 };
        let Some(coverage) = &mut self.stream.coverage else { return outcome };
        let now = ack.now;
        let is_plausible = position < coverage.next.max(self.stream.una) + (1 << 30);
        if position > self.stream.una && is_plausible {
            let spurious = &mut self.counts.retransmissions.spurious;
            let missed = coverage.acknowledge(position, segment);
            if missed.bytes > 0 {
                self.counts.holes.not_captured += missed.bytes;
                self.counts.holes.packets_not_captured += missed.packets;
            }
            self.recovery.on_ack(self.stream.una, position, ack.echo, |retransmission| {
                spurious.count(SpuriousBy::Timestamp);
                found(retransmission);
            });
            let had_holes = self.stream.highest_sacked > self.stream.una;
            let old = std::mem::replace(&mut self.stream.una, position);
            self.acked.duplicates = 0;
            self.stream.fin_acked |= self.stream.fin_end.is_some_and(|end| position >= end);
            let sample = self.stream.in_flight.acknowledge(position, now);
            outcome.delivered = (position - old).saturating_sub(sample.sacked);
            if sample.is_ambiguous {
                self.counts.acks.ambiguous += 1;
            }
            if had_holes {
                self.time.on_acknowledged(now, position, sample.sacked);
            }
            outcome.rtt =
                sample.karn.map_or(OptionalInstant::NONE, |rtt| OptionalInstant::at(Instant::ZERO + rtt));
            if let Some(rtt) = sample.karn {
                if sample.tcptrace.is_none() && self.rtt.tcptrace.is_none() {
                    self.rtt.tcptrace = Some(Box::new(self.rtt.karn.clone()));
                }
                self.rtt.karn.record(rtt);
                let first = || SmoothedRtt::first(rtt);
                let next = self.rtt.smoothed.get().map_or_else(first, |old| old.next(rtt));
                self.rtt.smoothed = OptionalSmoothedRtt::new(next);
            }
            if let (Some(rtt), Some(samples)) = (sample.tcptrace, &mut self.rtt.tcptrace) {
                samples.record(rtt);
            }
        } else if position == self.stream.una && ack.is_bare && coverage.next > self.stream.una {
            if self.acked.duplicates == 0 {
                self.acked.progressed = self.acked.last;
            }
            self.acked.duplicates += 1;
            outcome.is_duplicate = true;
        }
        self.acked.last = now;
        if !ack.sack.is_empty() {
            outcome.delivered += self.on_sack(position, ack, found);
        }
        outcome
    }

    pub(crate) fn duplicate_acks(&self) -> u32 {
        self.acked.duplicates
    }

    /// Gives the bytes that the receiver says for the first time that it holds.
    fn on_sack(&mut self, position: u64, ack: &Ack<'_>, mut found: impl FnMut(&Retransmission)) -> u64 {
        let mut delivered = 0;
        let (now, blocks, ack) = (ack.now, ack.sack, position);
        let ranges = blocks.iter().filter_map(|block| {
            let (start, len) = (unwrap(ack, block.start), block.end.since(block.start));
            // No receiver holds nothing, or so much (RFC 7323 §2.3: no window is larger).
            (1..=1 << 30).contains(&len).then(|| (start, start + u64::from(len)))
        });
        let mut previous: Option<(u64, u64)> = None;
        let second = blocks.get(1).map(|block| unwrap(ack, block.start)..=unwrap(ack, block.end));
        for (start, end) in ranges {
            let is_first = previous.is_none();
            let is_within_second = second.as_ref().is_some_and(|s| s.contains(&start) && s.contains(&end));
            previous = Some((start, end));
            if is_first && (end <= ack || is_within_second) {
                // RFC 2883 §4: the first block reports a duplicate.
                let spurious = &mut self.counts.retransmissions.spurious;
                let explained = self.recovery.on_dsack(start, end, |retransmission| {
                    spurious.count(SpuriousBy::Dsack);
                    found(retransmission);
                });
                self.counts.acks.dsacks += 1;
                self.counts.acks.dsacks_unexplained += u64::from(!explained);
            } else if start >= ack && end > start {
                let shows_loss = start > self.stream.highest_sacked.max(ack);
                self.stream.highest_sacked = self.stream.highest_sacked.max(end);
                let news = self.stream.in_flight.sack(start, end);
                delivered += news;
                if news > 0 {
                    let rtt = self.smoothed_rtt().zip(self.rtt.karn.min());
                    self.time.on_sacked(now, ack, news, shows_loss, rtt);
                }
            }
        }
        delivered
    }

    /// Fetches what a packet of this direction will need, with data or without.
    #[inline]
    pub(crate) fn fetch_for_packet(&self, fetch: Fetch, has_data: bool, has_stamp: bool) {
        fetch_span(fetch, &self.stream, &self.counts.data);
        if has_data {
            fetch_value(fetch, self.throughput.in_progress());
            fetch_value(fetch, &self.recovery);
            self.time.fetch(fetch, false);
            if has_stamp {
                fetch_value(fetch, &self.rtt.waiting);
            }
        }
    }

    /// The same for an acknowledgement of this direction's data, bare or with data of the other's.
    #[inline]
    pub(crate) fn fetch_for_ack(&self, fetch: Fetch, is_bare: bool, has_stamp: bool) {
        fetch_span(fetch, &self.stream, &self.sizes);
        if is_bare {
            fetch_value(fetch, &self.recovery);
            self.time.fetch(fetch, true);
            match has_stamp {
                true => fetch_value(fetch, &self.rtt),
                false => fetch_value(fetch, &self.rtt.karn),
            }
        }
    }

    /// Begins anew, with the memory that it holds.
    pub(crate) fn renew(&mut self) {
        *self = Self {
            stream: StreamState { in_flight: self.stream.in_flight.renewed(), ..StreamState::default() },
            rtt: RoundTrips {
                karn: self.rtt.karn.renewed(),
                timestamps: self.rtt.timestamps.renewed(),
                waiting: self.rtt.waiting.renewed(),
                ..RoundTrips::default()
            },
            throughput: self.throughput.renewed(),
            ..Self::default()
        };
    }
}

/// Classification of an acknowledgement.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Acknowledged {
    pub(crate) is_duplicate: bool,
    /// Bytes that it says for the first time have arrived.
    pub(crate) delivered: u64,
    /// By Karn's rule; as an instant, because with its absence that fits into a register.
    rtt: OptionalInstant,
}

impl Acknowledged {
    /// The round trip by Karn's rule.
    pub(crate) fn rtt(self) -> Option<Duration> {
        self.rtt.get().map(|rtt| rtt.saturating_since(Instant::ZERO))
    }
}

/// An acknowledgement, for [`Half::on_ack`].
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ack<'a> {
    pub(crate) number: SeqNum,
    pub(crate) now: Instant,
    pub(crate) echo: Option<u32>,
    pub(crate) sack: &'a [SackBlock],
    /// No data, no SYN, FIN or RST, the window unchanged.
    pub(crate) is_bare: bool,
}
