//! [`Half`]: one direction of a flow: its data, and what the other side says about it.

mod counts;
mod throughput;
mod time;
mod windows;

use std::mem::offset_of;
use std::num::NonZeroU16;

use units::{Duration, Instant, SeqNum, WindowScale};
use wire::{SackBlock, TcpFlags};

use crate::coverage::{Added, Coverage, Hole, first_position, unwrap};
use crate::in_flight::InFlight;
use crate::optional_instant::OptionalInstant;
use crate::packet::PacketKind;
use crate::packet_ids::{AckGaps, PacketIds};
use crate::recovery::{Cause, Recovery, Retransmission, RetransmissionContext, SpuriousBy};
use crate::samples::Samples;
use crate::smoothed_rtt::{OptionalSmoothedRtt, SmoothedRtt};
use crate::timestamps::{TimestampRtt, is_newer};

pub(crate) use counts::{AckCounts, RetransmissionCounts};
use counts::{DataTotals, EcnCounts, FlagCounts, HoleCounts, PacketExceptions, PacketTotals, ProbeCounts};
pub(crate) use throughput::BIN;
use throughput::{Bin, Throughput};
pub(crate) use time::{Bounds, Resumed, Spending, TIME_OUT, TimeSpent};
pub(crate) use windows::{LastWindow, Window};
use windows::{WindowEvents, Windows};

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

/// Payload of the largest packet of any usual link, bytes.
const JUMBO_MAX: u64 = 9_200;

/// Bytes that the processor fetches at once.
pub(crate) const LINE: usize = 64;

/// The lines that hold bytes `from` to `to` of a value that starts with a line: a bit for each.
pub(crate) const fn lines(from: usize, to: usize) -> u64 {
    (u64::MAX << (from / LINE)) & (u64::MAX >> (63 - (to - 1) / LINE))
}

/// One direction of a flow.
///
/// Its parts are of whole lines of 64 bytes, as the processor fetches them, and in the order of how many
/// packets need them: with many flows in progress the time goes into fetching their state.
#[derive(Clone, Debug, Default)]
#[repr(C)]
pub(crate) struct Half {
    pub(crate) edge: Edge,
    pub(crate) packets: Packets,
    pub(crate) data: Data,
    pub(crate) rtt: RoundTrips,
    pub(crate) cold: Cold,
    pub(crate) time: TimeSpent,
}

/// Fields that every packet of both directions needs.
#[derive(Clone, Debug, Default)]
#[repr(align(64))]
pub(crate) struct Edge {
    /// Everything below is acknowledged by the other side (RFC 9293 §3.3.1: SND.UNA).
    pub(crate) una: u64,
    pub(crate) coverage: Option<Coverage>,
    /// Last acknowledgement of this direction's data by the other.
    last_acked: Instant,
    pub(crate) first_data: OptionalInstant,
    pub(crate) segment_max: u32,
    pub(crate) window: Window,
}

impl Edge {
    /// End of all that was seen or acknowledged.
    #[inline]
    pub(crate) fn top(&self) -> Option<u64> {
        self.coverage.as_ref().map(|coverage| coverage.next.max(self.una))
    }
}

/// Fields that every packet of this direction changes, and in the second line what only some do.
#[derive(Clone, Debug, Default)]
#[repr(C, align(64))]
pub(crate) struct Packets {
    pub(crate) last: OptionalInstant,
    pub(crate) pause_max: Duration,
    pub(crate) totals: PacketTotals,
    pub(crate) ids: PacketIds,
    /// The last echo of a timestamp that this direction sent and that can tell nothing any more; zero for
    /// none.
    pub(crate) settled_echo: u32,
    /// The other side's offer.
    pub(crate) peer_mss: Option<NonZeroU16>,
    pub(crate) window: LastWindow,
    pub(crate) has_timestamps: bool,
    /// Fresh data with identifications that are not new, more than others.
    pub(crate) repeated_ids: u8,
    // The second line.
    pub(crate) windows: Windows,
    pub(crate) exceptions: PacketExceptions,
    pub(crate) hop_limits: HopLimits,
    /// Time when the last edge of its window was remembered, in microseconds that wrap, and how long until
    /// the next one is; zero for none yet.
    pub(crate) edge_at_us: u32,
    pub(crate) edge_gap_us: u32,
}

/// Fields that data of this direction changes, and acknowledgements of it.
///
/// Acknowledgements need what is in the first line, data what is in the first two, and both the last one if
/// they have timestamps.
#[derive(Clone, Debug, Default)]
#[repr(C, align(64))]
pub(crate) struct Data {
    pub(crate) in_flight: InFlight,
    highest_sacked: u64,
    smoothed: OptionalSmoothedRtt,
    /// Round trips as tcptrace takes them; only from where they differ from [`RoundTrips::karn`].
    pub(crate) rtt_tcptrace: Option<Box<Samples<Duration>>>,
    /// In a row.
    duplicate_acks: u32,
    pub(crate) fin_seen: bool,
    pub(crate) fin_acked: bool,
    has_retransmitted: bool,
    /// The byte above the edge probed a zero window: [`Cold::window_probe`].
    has_probed: bool,
    // The second line.
    /// Last segment with data or SYN or FIN.
    last_sent: Instant,
    bin: Bin,
    pub(crate) last: OptionalInstant,
    pub(crate) totals: DataTotals,
    // The third one.
    pub(crate) echo: Echo,
}

/// [`TimestampRtt`] in a line of its own.
#[derive(Clone, Debug, Default)]
#[repr(C, align(64))]
pub(crate) struct Echo(pub(crate) TimestampRtt);

/// Round-trip times of data of this direction.
#[derive(Clone, Debug, Default)]
#[repr(C, align(64))]
pub(crate) struct RoundTrips {
    pub(crate) karn: Samples<Duration>,
    pub(crate) timestamps: Samples<Duration>,
}

/// Fields that few packets change. The first two lines of 64 bytes are what SYN and FIN need.
#[derive(Clone, Debug, Default)]
#[repr(C, align(64))]
pub(crate) struct Cold {
    pub(crate) flags: FlagCounts,
    pub(crate) isn: Option<SeqNum>,
    pub(crate) offered: SynOptions,
    // The second line, about.
    pub(crate) fin_end: u64,
    pub(crate) acks: AckCounts,
    /// Packets that the capture has more than once, but for the first of each.
    pub(crate) copies: u64,
    /// Largest payload of a packet that is none of several merged, while the segment size is not known.
    pub(crate) plain_max: u32,
    pub(crate) has_mptcp: bool,
    // The rest.
    /// The byte above the edge that last probed a zero window.
    window_probe: u64,
    pub(crate) ecn: EcnCounts,
    pub(crate) probes: ProbeCounts,
    pub(crate) holes: HoleCounts,
    pub(crate) ack_gaps: AckGaps,
    /// A SYN-ACK with another number than the first, until the client says which of them it takes.
    pub(crate) rival: Option<Box<RivalSyn>>,
    /// Last acknowledgement before the first of the duplicate ones in a row.
    progressed: Instant,
    pub(crate) retransmissions: RetransmissionCounts,
    pub(crate) recovery: Recovery,
    pub(crate) throughput: Throughput,
    pub(crate) idle_gaps: IdleGaps,
    pub(crate) window_events: WindowEvents,
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
        match self.edge.top() {
            Some(top) => unwrap(top, seq),
            None => {
                let position = first_position(seq);
                self.edge.coverage = Some(Coverage::new(position));
                self.edge.una = position;
                position
            }
        }
    }

    /// Its stream begins with a SYN of number `isn`, and not where it was taken to begin.
    pub(crate) fn begin_at(&mut self, isn: SeqNum) {
        let position = first_position(isn);
        let mut coverage = Coverage::new(position);
        coverage.next = position + 1;
        (self.edge.coverage, self.edge.una) = (Some(coverage), position);
        (self.data.in_flight, self.data.highest_sacked) = (self.data.in_flight.renewed(), 0);
    }

    /// The lines of [`Data`] from a field to another.
    const fn data(from: usize, to: usize) -> u64 {
        lines(offset_of!(Self, data) + from, offset_of!(Self, data) + to)
    }
    /// Cache lines that every packet of this direction needs.
    const PACKETS: u64 = lines(0, offset_of!(Self, packets)) | lines(offset_of!(Self, packets), Self::SELDOM);
    const SELDOM: usize = offset_of!(Self, packets) + offset_of!(Packets, windows);
    /// Cache lines that edges of windows need besides.
    pub(crate) const EDGES: u64 = lines(Self::SELDOM, offset_of!(Self, data));
    /// The first line of how time was spent.
    const TIME: u64 = lines(offset_of!(Self, time), offset_of!(Self, time) + LINE);
    /// The lines that a segment of this direction with data will need: without timestamps, and with them.
    pub(crate) const SENT_DATA: [u64; 2] = [
        Self::PACKETS | Self::data(0, offset_of!(Data, echo)) | Self::TIME,
        Self::PACKETS | Self::data(0, size_of::<Data>()) | Self::TIME,
    ];
    /// The same for one without data.
    pub(crate) const SENT_BARE: u64 = Self::PACKETS;
    /// The lines that an acknowledgement of this direction's data will need which comes with data of the
    /// other's, as long as it acknowledges and echoes nothing new.
    pub(crate) const ACKED_BY_DATA: u64 = lines(0, offset_of!(Self, packets));
    /// Cache lines that FIN needs besides.
    pub(crate) const CONTROL: u64 = lines(offset_of!(Self, cold), offset_of!(Self, cold) + 2 * LINE);
    /// The same as before for one without data: without timestamps, and with them.
    pub(crate) const ACKED_BARE: [u64; 2] = {
        let times = Self::TIME | Self::TIME << 1;
        let karn = offset_of!(Self, rtt) + offset_of!(RoundTrips, timestamps);
        let sent = Self::data(0, offset_of!(Data, last_sent));
        let echo = Self::data(offset_of!(Data, echo), size_of::<Data>());
        [
            Self::ACKED_BY_DATA | sent | lines(offset_of!(Self, rtt), karn) | times,
            Self::ACKED_BY_DATA | sent | echo | lines(offset_of!(Self, rtt), offset_of!(Self, cold)) | times,
        ]
    };

    /// Loss is being repaired, or is known from acknowledgements.
    pub(crate) fn is_recovering(&self) -> bool {
        self.data.duplicate_acks >= 3
            || self.data.highest_sacked > self.edge.una
            || (self.data.has_retransmitted && self.cold.recovery.is_repairing())
    }

    pub(crate) fn smoothed_rtt(&self) -> Option<Duration> {
        self.data.smoothed.get().map(|rtt| rtt.srtt)
    }

    /// Packets with data, and those without as one each, as on the wire.
    pub(crate) fn all_wire_segments(&self) -> u64 {
        self.packets.totals.packets + self.packets.exceptions.more_segments
    }

    /// Segments with data on the wire.
    pub(crate) fn data_wire_segments(&self) -> u64 {
        // Only data stands for more than one.
        self.data.totals.packets + self.packets.exceptions.more_segments
    }

    /// Payload bytes, each counted once.
    pub(crate) fn unique(&self) -> u64 {
        self.data.totals.payload.saturating_sub(self.packets.exceptions.not_unique)
    }

    /// Acknowledgements without data, SYN, FIN or RST.
    pub(crate) fn pure_acks(&self) -> u64 {
        let others = self.data.totals.packets + self.packets.exceptions.control;
        self.packets.totals.packets.saturating_sub(others)
    }

    /// From the first byte seen to the last seen or acknowledged, bytes.
    pub(crate) fn extent(&self) -> u64 {
        let first = self.edge.coverage.as_ref().map_or(0, |coverage| coverage.first);
        self.edge.top().map_or(0, |top| top.saturating_sub(first))
    }

    /// Bytes that were acknowledged though the capture does not have them.
    pub(crate) fn not_captured(&self) -> u64 {
        let next = self.edge.coverage.as_ref().map_or(self.edge.una, |coverage| coverage.next);
        self.cold.holes.not_captured + self.edge.una.saturating_sub(next)
    }

    pub(crate) fn outstanding(&self) -> u64 {
        self.edge.coverage.as_ref().map_or(0, |coverage| coverage.next.saturating_sub(self.edge.una))
    }

    /// Segment payload of the connection, for counting what one captured super-packet was on the wire.
    pub(crate) fn wire_segments(&self, len: u64) -> u64 {
        len.div_ceil(self.wire_segment(len)).max(1)
    }

    /// Payload of the segments on the wire that a captured packet with `len` bytes stands for.
    #[inline]
    pub(crate) fn wire_segment(&self, len: u64) -> u64 {
        let overhead = if self.packets.has_timestamps { 12 } else { 0 };
        match self.packets.peer_mss.map(|mss| u64::from(mss.get()).saturating_sub(overhead)) {
            Some(mss) if len > mss && mss > 0 => mss,
            Some(_) => len.max(1),
            None => self.guessed_segment(len),
        }
    }

    /// The same where no SYN said the size: that of the largest packet of Ethernet, if this one is a multiple
    /// of it, or too large for any link.
    fn guessed_segment(&self, len: u64) -> u64 {
        let plain = u64::from(self.cold.plain_max);
        let is_merged = plain >= 500 && len > plain && (len.is_multiple_of(plain) || len > JUMBO_MAX);
        if is_merged { plain } else { len.max(1) }
    }

    /// Payload of the largest segment on the wire, bytes; at least one.
    pub(crate) fn largest_segment(&self) -> u64 {
        let largest = u64::from(self.edge.segment_max);
        self.wire_segment(largest).min(largest).max(1)
    }

    /// A segment of this direction: everything but its acknowledgement.
    pub(crate) fn on_segment(&mut self, s: &SentSegment) -> PacketKind {
        let position = self.position(s.seq);
        let (has_syn, has_fin) = (s.flags.contains(TcpFlags::SYN), s.flags.contains(TcpFlags::FIN));
        let next = self.edge.coverage.as_ref().map_or(position, |c| c.next);
        let is_plain = !has_syn && !has_fin;
        // What comes next to what was seen is data, even if it is acknowledged already.
        let edge = if position == next { next } else { next.max(self.edge.una) };
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
                (self.data.has_probed, self.cold.window_probe) = (true, position);
            }
            return self.on_probe(true, s.len);
        }
        if self.data.has_probed {
            self.settle_probe(position, s.now);
        }
        let start = position + u64::from(has_syn);
        let end = start + s.len;
        let data = if s.len > 0 { self.cover(start, end, s) } else { Added::default() };
        if data.fresh != s.len {
            self.packets.exceptions.not_unique += s.len.saturating_sub(data.fresh);
        }
        let mut control = Added::default();
        if has_syn {
            control = self.cover(position, start, s);
        }
        if has_fin {
            let fin = self.cover(end, end + 1, s);
            control.again += fin.again;
            control.fresh += fin.fresh;
            (self.data.fin_seen, self.cold.fin_end) = (true, end + 1);
            // Its acknowledgement may have been captured before.
            self.data.fin_acked |= self.edge.una > end;
        }
        let whole = (position, end + u64::from(has_fin));
        let kind = self.classify(s, whole, &data, &control, has_syn);
        if s.len > 0 {
            if !self.data.bin.add(s.now, data.fresh) {
                let loss_events = self.cold.recovery.loss_events();
                self.data.bin.begin(s.now, data.fresh, loss_events, &mut self.cold.throughput);
            }
            if self.edge.first_data.is_none() {
                self.edge.first_data = OptionalInstant::at(s.now);
            }
            self.data.last = OptionalInstant::at(s.now);
        }
        self.data.last_sent = s.now;
        self.data.totals.in_flight_max = self.data.totals.in_flight_max.max(self.outstanding());
        kind
    }

    fn cover(&mut self, start: u64, end: u64, s: &SentSegment) -> Added {
        let una = self.edge.una;
        let Some(coverage) = &mut self.edge.coverage else { return Added::default() };
        let added = coverage.add(start, end, s.now, s.stamp, una);
        if added.missed != added.recovered {
            self.on_capture_gap(&added);
        }
        added
    }

    /// The capture missed what was acknowledged, or has it after all.
    #[cold]
    fn on_capture_gap(&mut self, added: &Added) {
        let packets = added.recovered.div_ceil(self.largest_segment());
        let holes = &mut self.cold.holes;
        holes.not_captured = (holes.not_captured + added.missed).saturating_sub(added.recovered);
        holes.packets_not_captured = holes.packets_not_captured.saturating_sub(packets);
    }

    /// A byte that probed a zero window becomes part of the stream when it turns out to have been accepted:
    /// what was sent or acknowledged since lies at `position`. Else the same byte comes again, and for the
    /// first time.
    fn settle_probe(&mut self, position: u64, now: Instant) {
        let (has_probed, probed, una) = (self.data.has_probed, self.cold.window_probe, self.edge.una);
        self.data.has_probed = false;
        if has_probed
            && position > probed
            && let Some(coverage) = &mut self.edge.coverage
        {
            let not_unique = &mut self.packets.exceptions.not_unique;
            *not_unique = not_unique.saturating_sub(coverage.add(probed, probed + 1, now, None, una).fresh);
        }
    }

    fn settle_probe_if_accepted(&mut self, position: u64, now: Instant) {
        if self.data.has_probed && position > self.cold.window_probe {
            self.settle_probe(position, now);
        }
    }

    fn on_probe(&mut self, is_window_probe: bool, len: u64) -> PacketKind {
        self.packets.exceptions.not_unique += len;
        if is_window_probe {
            self.cold.probes.window += 1;
            return PacketKind::WindowProbe;
        }
        self.cold.probes.keep_alive += 1;
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
            if end > self.edge.una {
                self.data.in_flight.push(start, end, s.now);
            }
            return data.filled.map_or(PacketKind::Usual, |hole| self.on_fill(s, &hole));
        }
        let next = self.edge.coverage.as_ref().map_or(end, |coverage| coverage.next);
        let situation = RetransmissionContext {
            now: s.now,
            start,
            end,
            next,
            una: self.edge.una,
            quiet: s.now.saturating_since(self.data.last_sent.max(self.edge.last_acked)),
            since_progress: s.now.saturating_since(self.timer_start()),
            rtt: self.data.smoothed.get().or(s.path_rtt.map(SmoothedRtt::first)),
            has_evidence: self.data.highest_sacked > end || self.data.duplicate_acks >= 3,
            uses_sack: s.uses_sack,
            stamp: s.stamp,
        };
        let was_acknowledged = end <= self.edge.una || self.data.in_flight.is_sacked(start, end);
        self.data.in_flight.retransmit(start, end, s.now);
        let fresh_from = end - (data.fresh + control.fresh).min(end - start);
        if fresh_from < end {
            self.data.in_flight.push(fresh_from.max(start + 1), end, s.now);
        }
        self.data.has_retransmitted = true;
        let cause = if syn && data.again == 0 {
            self.cold.recovery.on_syn_retransmission(&situation);
            Cause::Syn
        } else {
            self.cold.recovery.on_retransmission(&situation)
        };
        self.cold.retransmissions.by_cause[cause] += 1;
        if data.again > 0 {
            self.cold.retransmissions.packets += 1;
            self.cold.retransmissions.wire_segments += s.wire_segments;
            self.cold.retransmissions.bytes += data.again;
        } else if !syn {
            self.cold.retransmissions.fin += 1;
        }
        if was_acknowledged {
            self.cold.recovery.last_was_acknowledged();
            self.cold.retransmissions.spurious.count(SpuriousBy::Acknowledged);
        }
        PacketKind::Retransmission { cause, was_acknowledged }
    }

    /// Time when the retransmission timer was started last (RFC 6298 §5): at the last acknowledgement of new
    /// data, or when the first segment outstanding was sent.
    fn timer_start(&self) -> Instant {
        let acked = match self.data.duplicate_acks {
            0 => self.edge.last_acked,
            _ => self.cold.progressed,
        };
        acked.max(self.data.in_flight.first_sent().unwrap_or_default())
    }

    /// A segment below the edge that was never seen: lost before this point and sent again, or overtaken.
    fn on_fill(&mut self, s: &SentSegment, hole: &Hole) -> PacketKind {
        self.cold.holes.filled += 1;
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
            self.cold.holes.reordered += 1;
            return PacketKind::Reordered;
        }
        self.cold.holes.lost_before += s.wire_segments + self.lost_again(s, hole);
        PacketKind::Repaired
    }

    /// Repairs that were lost too: of holes below this one, which are repaired first.
    fn lost_again(&mut self, s: &SentSegment, hole: &Hole) -> u64 {
        let Some(rtt) = s.path_rtt else { return 0 };
        let (position, now) = (hole.start, s.now);
        let Some(coverage) = &mut self.edge.coverage else { return 0 };
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
        self.data.bin.close(self.cold.recovery.loss_events(), &mut self.cold.throughput);
    }

    /// The other side acknowledged; `is_bare` says it had no data and changed no window.
    ///
    /// Calls `found` with cause and reason for each retransmission now known to be spurious.
    pub(crate) fn on_ack(&mut self, ack: &Ack<'_>, mut found: impl FnMut(&Retransmission)) -> Acknowledged {
        let mut outcome = Acknowledged::default();
        if self.edge.coverage.is_none() {
            return outcome;
        }
        let position = unwrap(self.edge.una, ack.number);
        if position > self.edge.una {
            self.settle_probe_if_accepted(position, ack.now);
        }
        let has_holes = self.edge.coverage.as_ref().is_some_and(|coverage| !coverage.holes().is_empty());
        let segment = if has_holes { self.largest_segment() } else { 1 };
        let Some(coverage) = &mut self.edge.coverage else { return outcome };
        let now = ack.now;
        let is_plausible = position < coverage.next.max(self.edge.una) + (1 << 30);
        if position > self.edge.una && is_plausible {
            let spurious = &mut self.cold.retransmissions.spurious;
            let missed = coverage.acknowledge(position, segment);
            if missed.bytes > 0 {
                self.cold.holes.not_captured += missed.bytes;
                self.cold.holes.packets_not_captured += missed.packets;
            }
            if self.data.has_retransmitted {
                self.cold.recovery.on_ack(self.edge.una, position, ack.echo, |retransmission| {
                    spurious.count(SpuriousBy::Timestamp);
                    found(retransmission);
                });
            }
            let had_holes = self.data.highest_sacked > self.edge.una;
            let old = std::mem::replace(&mut self.edge.una, position);
            self.data.duplicate_acks = 0;
            self.data.fin_acked |= self.data.fin_seen && position >= self.cold.fin_end;
            let sample = self.data.in_flight.acknowledge(position, now);
            outcome.delivered = (position - old).saturating_sub(sample.sacked);
            if sample.is_ambiguous {
                self.cold.acks.ambiguous += 1;
            }
            if had_holes {
                self.time.on_acknowledged(now, position, sample.sacked);
            }
            outcome.rtt =
                sample.karn.map_or(OptionalInstant::NONE, |rtt| OptionalInstant::at(Instant::ZERO + rtt));
            if let Some(rtt) = sample.karn {
                if sample.tcptrace.is_none() && self.data.rtt_tcptrace.is_none() {
                    self.data.rtt_tcptrace = Some(Box::new(self.rtt.karn.clone()));
                }
                self.rtt.karn.record(rtt);
                let first = || SmoothedRtt::first(rtt);
                let next = self.data.smoothed.get().map_or_else(first, |old| old.next(rtt));
                self.data.smoothed = OptionalSmoothedRtt::new(next);
            }
            if let (Some(rtt), Some(samples)) = (sample.tcptrace, &mut self.data.rtt_tcptrace) {
                samples.record(rtt);
            }
        } else if position == self.edge.una && ack.is_bare && coverage.next > self.edge.una {
            if self.data.duplicate_acks == 0 {
                self.cold.progressed = self.edge.last_acked;
            }
            self.data.duplicate_acks += 1;
            outcome.is_duplicate = true;
        }
        self.edge.last_acked = now;
        if !ack.sack.is_empty() {
            outcome.delivered += self.on_sack(position, ack, found);
        }
        outcome
    }

    pub(crate) fn duplicate_acks(&self) -> u32 {
        self.data.duplicate_acks
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
                let spurious = &mut self.cold.retransmissions.spurious;
                let explained = self.cold.recovery.on_dsack(start, end, |retransmission| {
                    spurious.count(SpuriousBy::Dsack);
                    found(retransmission);
                });
                self.cold.acks.dsacks += 1;
                self.cold.acks.dsacks_unexplained += u64::from(!explained);
            } else if start >= ack && end > start {
                let shows_loss = start > self.data.highest_sacked.max(ack);
                self.data.highest_sacked = self.data.highest_sacked.max(end);
                let news = self.data.in_flight.sack(start, end);
                delivered += news;
                if news > 0 {
                    let rtt = self.smoothed_rtt().zip(self.rtt.karn.min());
                    self.time.on_sacked(now, ack, news, shows_loss, rtt);
                }
            }
        }
        delivered
    }

    /// Begins anew, with the memory that it holds.
    pub(crate) fn renew(&mut self) {
        let Self { edge, packets, data, rtt, cold, time } = self;
        (*edge, *packets, *time) = (Edge::default(), Packets::default(), TimeSpent::default());
        *data = Data {
            in_flight: data.in_flight.renewed(),
            echo: Echo(data.echo.0.renewed()),
            ..Data::default()
        };
        *rtt = RoundTrips { karn: rtt.karn.renewed(), timestamps: rtt.timestamps.renewed() };
        *cold = Cold { throughput: cold.throughput.renewed(), ..Cold::default() };
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_packets_need_lies_in_the_lines_that_are_fetched() {
        assert_eq!((lines(0, LINE), lines(LINE, LINE + 1), lines(10, 3 * LINE)), (0b1, 0b10, 0b111));
        // Each part is of as many lines as its fields need.
        let parts = [size_of::<Edge>(), size_of::<Packets>(), size_of::<Data>(), size_of::<RoundTrips>()];
        assert_eq!(parts.map(|bytes| bytes / LINE), [1, 2, 3, 3]);
        let time = 1 << (offset_of!(Half, time) / LINE);
        assert_eq!((Half::SENT_BARE, Half::EDGES, Half::ACKED_BY_DATA), (0b11, 0b100, 0b1));
        assert_eq!(Half::SENT_DATA, [0b1_1011, 0b11_1011].map(|lines| lines | time));
        let acked = [0b1100_1001, 0b1_1110_1001];
        assert_eq!(Half::ACKED_BARE, acked.map(|lines| lines | time | time << 1));
        assert_eq!(size_of::<TimeSpent>() / LINE, 5);
    }
}
