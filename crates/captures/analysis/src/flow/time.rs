//! The time of a flow, given to its two senders.

use units::{Duration, Instant, SeqNum};
use wire::TcpFlags;

use super::Flow;
use crate::direction::Direction;
use crate::half::{IDLE_GAP, Resumed, Spending};
use crate::optional_instant::OptionalInstant;
use crate::packet::PacketKind;
use crate::recovery::Cause;
use crate::segment_record::SegmentRecord;

impl Flow {
    /// Data or FIN in the time of its direction.
    pub(super) fn resume(&mut self, direction: Direction, segment: &SegmentRecord, kind: PacketKind) {
        let is_fin = segment.flags.contains(TcpFlags::FIN);
        let is_probe = matches!(kind, PacketKind::WindowProbe | PacketKind::KeepAlive);
        if is_probe || (segment.len() == 0 && !is_fin) {
            return;
        }
        let is_beside_receiver = self.is_beside_receiver(direction);
        let rtt = if is_beside_receiver { self.path_rtt() } else { None };
        // The last piece of a merged packet, too, is full while there is more to send.
        let own = &self.halves[direction];
        let piece = own.sizes.largest();
        let is_short = !segment.len().is_multiple_of(piece);
        // Only the first data asks for it.
        let repaired_before = match own.has_begun() {
            true => Duration::ZERO,
            false => {
                self.spend_until(direction.reverse(), Duration::ZERO);
                self.halves[direction.reverse()].time_repaired()
            }
        };
        self.halves[direction].resume(&Resumed {
            now: self.last,
            has_data: segment.len() > 0,
            is_pushed: is_short || segment.flags.contains(TcpFlags::PSH),
            end: segment.seq.get().wrapping_add(segment.len() as u32),
            is_beside_receiver,
            is_repair: matches!(kind, PacketKind::Retransmission { .. } | PacketKind::Repaired),
            is_time_out: matches!(kind, PacketKind::Retransmission { cause: Cause::Rto, .. }),
            stamp: segment.stamp(),
            echo: segment.echo(),
            rtt,
            repaired_before,
        });
    }

    /// Assigns the time since the last packet to its causes, for the senders whose situation `segment` may
    /// change. What the other one waited for goes on: its time is given to it later, at once.
    #[inline]
    pub(super) fn share_time(&mut self, direction: Direction, segment: &SegmentRecord, now: Instant) {
        let passed = now.saturating_since(self.last);
        let has_control = segment.flags.intersects(TcpFlags::SYN | TcpFlags::FIN | TcpFlags::RST);
        let changes_both = has_control || !self.is_open || passed >= IDLE_GAP;
        if changes_both || segment.len() > 0 {
            self.spend_until(direction, passed);
        }
        if changes_both || segment.len() == 0 || self.tells_news(direction, segment) {
            self.spend_until(direction.reverse(), passed);
        }
    }

    /// True when a segment with data tells the other sender something besides.
    #[inline]
    fn tells_news(&self, direction: Direction, segment: &SegmentRecord) -> bool {
        let una = SeqNum::new(self.halves[direction.reverse()].stream.una as u32);
        let is_same_window = self.halves[direction].windows.field.is(segment.window);
        segment.ack != una || !is_same_window || !segment.sack().is_empty()
    }

    /// Gives the sender of `direction` all time that it has not had, up to `passed` after the last packet.
    #[inline]
    fn spend_until(&mut self, direction: Direction, passed: Duration) {
        let is_beside_receiver = self.is_beside_receiver(direction);
        let is_answered = self.halves[direction.reverse()].stream.coverage.is_some();
        let window = self.window_towards(direction);
        let (last, is_closed) = (self.last, self.is_closed);
        let half = &mut self.halves[direction];
        let Some(until) = half.time.until.get() else { return };
        let unspent = last.saturating_since(until) + passed;
        if unspent.is_zero() {
            return;
        }
        half.time.until = OptionalInstant::at(last + passed);
        let outstanding = half.outstanding();
        if outstanding == 0 {
            half.time.shares.idle += unspent;
            if passed >= IDLE_GAP {
                half.activity.idle_gaps.count += 1;
                half.activity.idle_gaps.longest = half.activity.idle_gaps.longest.max(passed);
            }
        }
        half.spend(&Spending { passed: unspent, window, is_closed, is_beside_receiver, is_answered });
        if window.is_some_and(|window| outstanding + u64::from(half.sizes.max) > window) {
            half.time.shares.window_limited += unspent;
        }
    }

    /// Gives both senders their time up to the last packet.
    pub(crate) fn spend_all(&mut self) {
        Direction::BOTH.into_iter().for_each(|direction| self.spend_until(direction, Duration::ZERO));
    }
}
