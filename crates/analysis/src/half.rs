//! [`Half`]: one direction of a flow: its data, and what the other side says about it.

use std::mem::offset_of;
use std::num::NonZeroU16;

use units::{Duration, Instant, SeqNum, WindowScale};
use wire::{SackBlock, TcpFlags};

use crate::coverage::{Added, Coverage, Hole, first_position, unwrap};
use crate::in_flight::InFlight;
use crate::moment::Moment;
use crate::packet_ids::PacketIds;
use crate::recovery::{Cause, Recovery, Situation};
use crate::samples::Samples;
use crate::timestamps::{TimestampRtt, is_newer};

/// Width of the bins that throughput percentiles are taken over.
pub(crate) const BIN: Duration = Duration::from_millis(100);

/// Counts that every packet of one direction changes.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Totals {
    pub(crate) packets: u64,
    pub(crate) ip_bytes: u64,
    pub(crate) wire_segments: u64,
    pub(crate) psh: u64,
}

/// What every packet with data changes.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct DataTotals {
    pub(crate) packets: u64,
    pub(crate) payload: u64,
    pub(crate) unique: u64,
    pub(crate) segment_min: u64,
    pub(crate) in_flight_max: u64,
}

/// Counts that few packets of one direction change.
#[derive(Clone, Debug, Default)]
pub(crate) struct Counts {
    pub(crate) syn: u64,
    pub(crate) fin: u64,
    pub(crate) rst: u64,
    pub(crate) urg: u64,
    pub(crate) ece: u64,
    pub(crate) cwr: u64,
    pub(crate) ecn_reductions: u64,
    pub(crate) ce: u64,
    pub(crate) ect: u64,
    pub(crate) retransmitted: u64,
    pub(crate) retransmitted_bytes: u64,
    pub(crate) by_cause: [u64; 6],
    pub(crate) fin_repeats: u64,
    pub(crate) spurious: [u64; 3],
    pub(crate) window_probes: u64,
    pub(crate) keep_alives: u64,
    pub(crate) hole_fills: u64,
    pub(crate) reordered: u64,
    pub(crate) lost_before: u64,
    pub(crate) not_captured: u64,
    pub(crate) sack_packets: u64,
    pub(crate) dsacks: u64,
    pub(crate) dsacks_unexplained: u64,
    pub(crate) duplicate_acks: u64,
    pub(crate) triple_duplicate_acks: u64,
    pub(crate) ambiguous_acks: u64,
}

/// Windows advertised by one direction.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Windows {
    /// The last field, not scaled.
    pub(crate) raw: Option<u16>,
    pub(crate) min: Option<u32>,
    pub(crate) max: u32,
    pub(crate) zero_since: Moment,
}

/// What is rare about the windows advertised by one direction.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct WindowNews {
    pub(crate) zero: u64,
    pub(crate) zero_time: Duration,
    pub(crate) updates: u64,
}

/// The window that a packet advertised last, bytes; none while the scale is not known.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Window(u32);

impl Window {
    pub(crate) fn new(bytes: Option<u32>) -> Self {
        // No window is so large: 65,535 shifted by 14.
        Self(bytes.unwrap_or(u32::MAX))
    }

    #[inline]
    pub(crate) fn get(self) -> Option<u32> {
        (self.0 != u32::MAX).then_some(self.0)
    }
}

impl Default for Window {
    fn default() -> Self {
        Self::new(None)
    }
}

/// Where time went, for the sender of this direction.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct TimeShares {
    pub(crate) window_limited: Duration,
    pub(crate) idle: Duration,
}

/// Pauses with nothing outstanding that are longer than a time-out takes, and the longest.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct IdleGaps {
    pub(crate) count: u32,
    pub(crate) longest: Duration,
}

/// Least pause called an idle gap: that after which senders restart their window (RFC 5681 §4.1: a time-out).
pub(crate) const IDLE_GAP: Duration = Duration::from_millis(200);

/// What throughput loses at loss events.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct RateLoss {
    /// Bytes of the bin before the one in progress.
    before: u64,
    /// Loss events when the bin in progress began.
    events: u64,
    /// Sum of the losses in millionths, and how many.
    sum: i64,
    pub(crate) count: u32,
}

impl RateLoss {
    /// Mean of [MA] eq. (1) over all loss events: its eq. (2).
    pub(crate) fn mean(&self) -> Option<f64> {
        (self.count > 0).then(|| self.sum as f64 / 1e6 / f64::from(self.count))
    }

    /// A bin with `bytes` has ended, and `events` loss events have happened so far.
    fn on_bin(&mut self, bytes: u64, events: u64) {
        if events > self.events && self.before > 0 {
            let before = self.before as i64;
            self.sum += (before - bytes as i64).saturating_mul(1_000_000) / before;
            self.count += 1;
        }
        (self.before, self.events) = (bytes, events);
    }
}

/// Bytes that the processor fetches at once.
pub(crate) const LINE: usize = 64;

/// The lines that hold bytes `from` to `to` of a value that starts with a line: a bit for each.
pub(crate) const fn lines(from: usize, to: usize) -> u64 {
    (u64::MAX << (from / LINE)) & (u64::MAX >> (63 - (to - 1) / LINE))
}

/// One direction of a flow.
///
/// The order of fields is that of memory, in lines of 64 bytes as the processor fetches them: what most packets change
/// comes first, because with many flows in progress the time goes into fetching it.
#[derive(Clone, Debug, Default)]
#[repr(C, align(64))]
pub(crate) struct Half {
    // Line 1: every packet of both directions.
    /// Everything below is acknowledged by the other side.
    pub(crate) una: u64,
    pub(crate) coverage: Option<Coverage>,
    /// Last acknowledgement of this direction's data by the other.
    last_acked: Instant,
    pub(crate) first_data: Moment,
    pub(crate) segment_max: u32,
    pub(crate) window: Window,
    // Lines 2 and 3: every packet of this direction.
    pub(crate) shares: TimeShares,
    pub(crate) last: Moment,
    pub(crate) idle_max: Duration,
    pub(crate) totals: Totals,
    pub(crate) ids: PacketIds,
    /// The other side's offer.
    pub(crate) peer_mss: Option<NonZeroU16>,
    /// Hop limits of the SYN and of the first data: another hop limit is another sender.
    pub(crate) hop_limits: [Option<u8>; 2],
    pub(crate) timestamps: bool,
    pub(crate) mptcp: bool,
    /// The last echo of a timestamp that this direction sent and that can tell nothing any more; zero for none.
    pub(crate) echoed: u32,
    pub(crate) windows: Windows,
    pub(crate) pure_acks: u64,
    // Lines 4 and 5: data of this direction, and acknowledgements of it.
    pub(crate) in_flight: InFlight,
    /// Last segment with data or SYN or FIN.
    last_sent: Instant,
    /// The byte above the edge that last probed a zero window.
    probed: Option<u64>,
    srtt: Option<(Duration, Duration)>,
    duplicates: u32,
    pub(crate) fin_seen: bool,
    pub(crate) fin_acked: bool,
    /// Something was sent again.
    has_repeated: bool,
    highest_sacked: u64,
    fin_end: u64,
    /// Only from where it differs from `rtt_karn`.
    pub(crate) rtt_tcptrace: Option<Box<Samples>>,
    // Line 6: data of this direction.
    bin: (u64, u64),
    pub(crate) last_data: Moment,
    pub(crate) data: DataTotals,
    // Lines 7 to 10: round-trip times of it.
    pub(crate) echo: TimestampRtt,
    pub(crate) rtt_karn: Samples,
    pub(crate) rtt_timestamps: Samples,
    // What few packets change.
    pub(crate) counts: Counts,
    pub(crate) recovery: Recovery,
    pub(crate) bins: Samples,
    pub(crate) rate_loss: RateLoss,
    pub(crate) idle_gaps: IdleGaps,
    pub(crate) window_news: WindowNews,
    pub(crate) isn: Option<SeqNum>,
    /// Offered in the SYN.
    pub(crate) mss: Option<u16>,
    /// Offered in the SYN.
    pub(crate) scale: Option<WindowScale>,
    pub(crate) sack_permitted: bool,
}

/// A segment's place and facts, for [`Half::on_segment`].
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sent {
    pub(crate) seq: SeqNum,
    pub(crate) len: u64,
    pub(crate) flags: TcpFlags,
    pub(crate) stamp: Option<u32>,
    pub(crate) now: Instant,
    /// The window that the other side last advertised, in bytes; none if not known.
    pub(crate) peer_window: Option<u64>,
    pub(crate) uses_sack: bool,
    /// Shortest round-trip time of the whole path known.
    pub(crate) path_rtt: Option<Duration>,
}

/// What a segment turned out to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    Usual,
    Repeated {
        cause: Cause,
        is_needless: bool,
    },
    WindowProbe,
    KeepAlive,
    /// It fills a hole: lost before this point and repaired.
    Repaired,
    /// It fills a hole: it was only late.
    Reordered,
}

impl Half {
    /// Takes up the sequence number, also of a segment without data.
    pub(crate) fn position(&mut self, seq: SeqNum) -> u64 {
        match &self.coverage {
            Some(coverage) => unwrap(coverage.next, seq),
            None => {
                let position = first_position(seq);
                self.coverage = Some(Coverage::new(position));
                self.una = position;
                position
            }
        }
    }

    /// The lines that a segment of this direction with data will need.
    pub(crate) const SENT_DATA: u64 = lines(0, offset_of!(Self, rtt_karn));
    /// The same for one without.
    pub(crate) const SENT_BARE: u64 = lines(0, offset_of!(Self, in_flight));
    /// The lines that an acknowledgement of this direction's data will need which comes with data of the other's, as
    /// long as it acknowledges and echoes nothing new.
    pub(crate) const ACKED_BY_DATA: u64 = lines(0, LINE);
    /// The same for one without data.
    pub(crate) const ACKED_BARE: u64 =
        lines(0, LINE) | lines(offset_of!(Self, in_flight), offset_of!(Self, counts));

    pub(crate) fn outstanding(&self) -> u64 {
        self.coverage.as_ref().map_or(0, |coverage| coverage.next.saturating_sub(self.una))
    }

    /// Segment payload of the connection, for counting what one captured super-packet was on the wire.
    pub(crate) fn wire_segments(&self, len: u64) -> u64 {
        let overhead = if self.timestamps { 12 } else { 0 };
        match self.peer_mss.map(|mss| u64::from(mss.get()).saturating_sub(overhead)) {
            Some(mss) if len > mss && mss > 0 => len.div_ceil(mss),
            _ => 1,
        }
    }

    /// A segment of this direction: everything but its acknowledgement.
    pub(crate) fn on_segment(&mut self, s: &Sent) -> Verdict {
        let position = self.position(s.seq);
        let (has_syn, has_fin) = (s.flags.contains(TcpFlags::SYN), s.flags.contains(TcpFlags::FIN));
        let next = self.coverage.as_ref().map_or(position, |c| c.next);
        let is_plain = !has_syn && !has_fin;
        let is_below_edge = is_plain && s.len <= 1 && position + 1 == next;
        // Zero bytes, or one that is acknowledged, just below the edge: it asks for an acknowledgement.
        if is_below_edge && (s.len == 0 || self.outstanding() == 0 || s.peer_window == Some(0)) {
            return self.on_probe(s.peer_window == Some(0));
        }
        if s.len == 0 && is_plain {
            return Verdict::Usual;
        }
        if is_plain && s.len == 1 && s.peer_window == Some(0) {
            if position == next {
                self.probed = Some(position);
            }
            return self.on_probe(true);
        }
        self.settle_probe(position, s.now);
        let start = position + u64::from(has_syn);
        let end = start + s.len;
        let data = if s.len > 0 { self.cover(start, end, s) } else { Added::default() };
        self.data.unique += data.fresh;
        let mut control = Added::default();
        if has_syn {
            control = self.cover(position, start, s);
        }
        if has_fin {
            let fin = self.cover(end, end + 1, s);
            control.again += fin.again;
            control.fresh += fin.fresh;
            (self.fin_seen, self.fin_end) = (true, end + 1);
        }
        let whole = (position, end + u64::from(has_fin));
        let verdict = self.judge(s, whole, &data, &control, has_syn);
        if s.len > 0 {
            self.count_bin(s.now, data.fresh);
            if self.first_data.is_none() {
                self.first_data = Moment::at(s.now);
            }
            self.last_data = Moment::at(s.now);
        }
        self.last_sent = s.now;
        self.data.in_flight_max = self.data.in_flight_max.max(self.outstanding());
        verdict
    }

    fn cover(&mut self, start: u64, end: u64, s: &Sent) -> Added {
        match &mut self.coverage {
            Some(coverage) => coverage.add(start, end, s.now, s.stamp),
            None => Added::default(),
        }
    }

    /// A byte that probed a zero window becomes part of the stream when it turns out to have been accepted: what was
    /// sent or acknowledged since lies at `position`. Else the same byte comes again, and for the first time.
    fn settle_probe(&mut self, position: u64, now: Instant) {
        if let Some(probed) = self.probed.take()
            && position > probed
            && let Some(coverage) = &mut self.coverage
        {
            self.data.unique += coverage.add(probed, probed + 1, now, None).fresh;
        }
    }

    fn settle_probe_if_accepted(&mut self, position: u64, now: Instant) {
        if self.probed.is_some_and(|probed| position > probed) {
            self.settle_probe(position, now);
        }
    }

    fn on_probe(&mut self, is_window_probe: bool) -> Verdict {
        if is_window_probe {
            self.counts.window_probes += 1;
            return Verdict::WindowProbe;
        }
        self.counts.keep_alives += 1;
        Verdict::KeepAlive
    }

    fn judge(
        &mut self,
        s: &Sent,
        (start, end): (u64, u64),
        data: &Added,
        control: &Added,
        syn: bool,
    ) -> Verdict {
        if data.again == 0 && control.again == 0 {
            self.in_flight.push(start, end, s.now);
            return data.filled.map_or(Verdict::Usual, |hole| self.on_fill(s, &hole));
        }
        let next = self.coverage.as_ref().map_or(end, |coverage| coverage.next);
        let situation = Situation {
            now: s.now,
            start,
            end,
            next,
            una: self.una,
            quiet: s.now.saturating_since(self.last_sent.max(self.last_acked)),
            rtt: self.srtt.or(s.path_rtt.map(|rtt| (rtt, rtt / 2))),
            has_evidence: self.highest_sacked > end || self.duplicates >= 3,
            uses_sack: s.uses_sack,
            stamp: s.stamp,
        };
        let is_needless = end <= self.una || self.in_flight.is_sacked(start, end);
        self.in_flight.repeat(start, end, s.now);
        let fresh_from = end - (data.fresh + control.fresh).min(end - start);
        if fresh_from < end {
            self.in_flight.push(fresh_from.max(start + 1), end, s.now);
        }
        self.has_repeated = true;
        let cause = if syn && data.again == 0 {
            self.recovery.on_syn_repeat(&situation);
            Cause::Syn
        } else {
            self.recovery.on_repeat(&situation)
        };
        self.counts.by_cause[cause as usize] += 1;
        if data.again > 0 {
            self.counts.retransmitted += 1;
            self.counts.retransmitted_bytes += data.again;
        } else if !syn {
            self.counts.fin_repeats += 1;
        }
        if is_needless {
            self.recovery.last_was_needless();
            self.counts.spurious[2] += 1;
        }
        Verdict::Repeated { cause, is_needless }
    }

    /// A segment below the edge that was never seen: lost before this point and sent again, or overtaken.
    fn on_fill(&mut self, s: &Sent, hole: &Hole) -> Verdict {
        self.counts.hole_fills += 1;
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
            self.counts.reordered += 1;
            return Verdict::Reordered;
        }
        self.counts.lost_before += 1 + self.lost_again(s, hole);
        Verdict::Repaired
    }

    /// Repairs that were lost too: of holes below this one, which are repaired first.
    fn lost_again(&mut self, s: &Sent, hole: &Hole) -> u64 {
        let Some(rtt) = s.path_rtt else { return 0 };
        let (position, now) = (hole.start, s.now);
        let Some(coverage) = &mut self.coverage else { return 0 };
        let mut lost = 0;
        for below in coverage.holes_mut().iter_mut().take_while(|below| below.end <= position) {
            if !below.is_acked && now.saturating_since(below.passed) >= rtt.mul_ratio(9, 10) {
                below.passed = now;
                lost += 1;
            }
        }
        lost
    }

    fn count_bin(&mut self, now: Instant, bytes: u64) {
        // Zero is none, also for captures whose clock starts at zero.
        let index = now.as_nanos() / BIN.as_nanos() + 1;
        if index == self.bin.0 {
            self.bin.1 += bytes;
            return;
        }
        let last = self.bin.0;
        self.close_bin();
        // Empty bins between two with data count, but not more of them than a person would wait for.
        if last > 0 && index > last + 1 {
            self.rate_loss.on_bin(0, self.recovery.events());
            for _ in last + 1..index.min(last + 600) {
                self.bins.record(Duration::ZERO);
            }
        }
        self.bin = (index, bytes);
    }

    /// Puts the bin in progress to the others.
    pub(crate) fn close_bin(&mut self) {
        if self.bin.0 > 0 {
            self.bins.record(Duration::from_nanos(self.bin.1));
            self.rate_loss.on_bin(self.bin.1, self.recovery.events());
            self.bin = (0, 0);
        }
    }

    /// The other side acknowledged; `is_bare` says it had no data and changed no window.
    ///
    /// Calls `found` with cause and reason for each repetition now known not to have been needed.
    pub(crate) fn on_ack(
        &mut self,
        ack: &Ack<'_>,
        mut found: impl FnMut(&crate::recovery::Repeat),
    ) -> Acknowledged {
        let mut outcome = Acknowledged::default();
        if self.coverage.is_none() {
            return outcome;
        }
        let position = unwrap(self.una, ack.number);
        if position > self.una {
            self.settle_probe_if_accepted(position, ack.now);
        }
        let Some(coverage) = &mut self.coverage else { return outcome };
        let now = ack.now;
        let is_plausible = position < coverage.next + (1 << 30);
        if position > self.una && is_plausible {
            let spurious = &mut self.counts.spurious;
            let missed = coverage.acknowledge(position, now);
            if missed > 0 {
                self.counts.not_captured += missed;
            }
            if self.has_repeated {
                self.recovery.on_ack(self.una, position, ack.echo, |repeat| {
                    spurious[1] += 1;
                    found(repeat);
                });
            }
            self.una = position;
            self.duplicates = 0;
            self.fin_acked |= self.fin_seen && position >= self.fin_end;
            let sample = self.in_flight.acknowledge(position, now);
            if sample.is_ambiguous {
                self.counts.ambiguous_acks += 1;
            }
            outcome.rtt = sample.karn;
            if let Some(rtt) = sample.karn {
                if sample.tcptrace.is_none() && self.rtt_tcptrace.is_none() {
                    self.rtt_tcptrace = Some(Box::new(self.rtt_karn.clone()));
                }
                self.rtt_karn.record(rtt);
                self.smooth(rtt);
            }
            if let (Some(rtt), Some(samples)) = (sample.tcptrace, &mut self.rtt_tcptrace) {
                samples.record(rtt);
            }
        } else if position == self.una && ack.is_bare && coverage.next > self.una {
            self.duplicates += 1;
            outcome.is_duplicate = true;
        }
        self.last_acked = now;
        if !ack.sack.is_empty() {
            self.on_sack(position, ack.sack, found);
        }
        outcome
    }

    pub(crate) fn duplicates(&self) -> u32 {
        self.duplicates
    }

    fn on_sack(&mut self, ack: u64, blocks: &[SackBlock], mut found: impl FnMut(&crate::recovery::Repeat)) {
        let ranges = blocks.iter().map(|block| {
            let start = unwrap(ack, block.start);
            (start, start + u64::from(block.end.since(block.start)))
        });
        let mut previous: Option<(u64, u64)> = None;
        let second = blocks.get(1).map(|block| unwrap(ack, block.start)..=unwrap(ack, block.end));
        for (start, end) in ranges {
            let is_first = previous.is_none();
            let is_within_second = second.as_ref().is_some_and(|s| s.contains(&start) && s.contains(&end));
            previous = Some((start, end));
            if is_first && (end <= ack || is_within_second) {
                // RFC 2883 §4: the first block reports a duplicate.
                let spurious = &mut self.counts.spurious;
                let explained = self.recovery.on_dsack(start, end, |repeat| {
                    spurious[0] += 1;
                    found(repeat);
                });
                self.counts.dsacks += 1;
                self.counts.dsacks_unexplained += u64::from(!explained);
            } else if start >= ack && end > start {
                self.highest_sacked = self.highest_sacked.max(end);
                self.in_flight.sack(start, end);
            }
        }
    }

    /// RFC 6298 §2.
    fn smooth(&mut self, rtt: Duration) {
        self.srtt = Some(match self.srtt {
            None => (rtt, rtt / 2),
            Some((srtt, variation)) => {
                let error = rtt.saturating_sub(srtt).max(srtt.saturating_sub(rtt));
                ((srtt * 7 + rtt) / 8, (variation * 3 + error) / 4)
            }
        });
    }

    /// A new one with the memory that this one holds.
    pub(crate) fn renewed(&mut self) -> Self {
        Self {
            in_flight: self.in_flight.renewed(),
            echo: self.echo.renewed(),
            rtt_karn: self.rtt_karn.renewed(),
            rtt_timestamps: self.rtt_timestamps.renewed(),
            bins: self.bins.renewed(),
            ..Self::default()
        }
    }
}

/// What an acknowledgement turned out to be.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Acknowledged {
    pub(crate) is_duplicate: bool,
    /// By Karn's rule.
    pub(crate) rtt: Option<Duration>,
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
        assert_eq!(offset_of!(Half, shares), LINE);
        assert_eq!([Half::SENT_BARE, Half::SENT_DATA], [0b111, 0b111_1111]);
        assert_eq!([Half::ACKED_BY_DATA, Half::ACKED_BARE], [0b1, 0b11_1111_1001]);
    }
}
