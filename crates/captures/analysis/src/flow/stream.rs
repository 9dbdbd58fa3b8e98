//! Effects of a packet on the streams: its data in one direction, its acknowledgement in the other.

use units::Instant;
use wire::TcpFlags;

use super::Flow;
use crate::direction::Direction;
use crate::event::{Event, EventKind, spurious};
use crate::half::{Ack, AckCounts, Half, SentSegment};
use crate::optional_instant::OptionalInstant;
use crate::packet::{PacketFindings, PacketKind};
use crate::packet_ids::{AckStep, PacketContext};
use crate::recovery::SpuriousBy;
use crate::segment_record::SegmentRecord;

impl Flow {
    /// Takes the packet's identification.
    pub(super) fn on_id(&mut self, direction: Direction, segment: &SegmentRecord, seen: &PacketFindings) {
        let (len, kind) = (segment.len(), seen.kind);
        let own = &mut self.halves[direction];
        if len > 0 && kind == PacketKind::Usual {
            let repeated = &mut own.ids.repeated;
            *repeated = match own.ids.packets.is_new(segment.id) {
                true => repeated.saturating_sub(1),
                false => repeated.saturating_add(1),
            };
        }
        let segments = own.sizes.wire_segments(len).max(1);
        if own.ids.packets.is_expected(segment.id) {
            own.ids.packets.on_expected(segment.id, segments);
            return;
        }
        let standing = packet_context(own, segment, kind, segments);
        match own.ids.packets.on_packet(segment.id, &standing) {
            AckStep::Usual => {}
            AckStep::Ahead(missing) => own.ids.ack_gaps.ahead(missing, seen.delivered),
            AckStep::Late if own.ids.ack_gaps.late() => {}
            AckStep::Late => own.ids.packets.on_unsound(),
        }
    }

    pub(super) fn on_ack(
        &mut self,
        direction: Direction,
        segment: &SegmentRecord,
        is_same_window: bool,
        now: Instant,
        seen: &mut PacketFindings,
        emit: &mut dyn FnMut(Event),
    ) {
        let id = self.id;
        let beside = self.is_beside_receiver(direction.reverse());
        let [own, other] = self.halves.pair_mut(direction);
        let echo = segment.echo();
        let plain = !segment.flags.intersects(TcpFlags::SYN | TcpFlags::FIN | TcpFlags::RST);
        let is_bare = segment.len() == 0 && plain && is_same_window;
        if let Some(value) = echo.filter(|value| other.rtt.settled_echo != *value || *value == 0) {
            seen.rtt_timestamps = other.rtt.waiting.on_echo(value, now);
            if let Some(rtt) = seen.rtt_timestamps {
                other.rtt.timestamps.record(rtt);
            }
            other.rtt.settled_echo = if other.rtt.waiting.is_settled(value) { value } else { 0 };
        }
        let before = other.stream.una;
        let has_sack = !segment.sack().is_empty();
        let acks_before = if has_sack { other.counts.acks } else { AckCounts::default() };
        let first = other.stream.coverage.as_ref().map_or(0, |c| c.first);
        let ack = Ack { number: segment.ack, now, echo, sack: segment.sack(), is_bare };
        let outcome = other.on_ack(&ack, |retransmission| {
            emit(spurious(id, direction.reverse(), now, first, retransmission));
        });
        (seen.rtt_karn, seen.is_duplicate_ack) = (outcome.rtt(), outcome.is_duplicate);
        if has_sack {
            // Counted for who says it.
            let (own, other) = (&mut own.counts.acks, &mut other.counts.acks);
            own.with_sack += 1;
            own.dsacks += other.dsacks - acks_before.dsacks;
            own.dsacks_unexplained += other.dsacks_unexplained - acks_before.dsacks_unexplained;
            (other.dsacks, other.dsacks_unexplained) = (acks_before.dsacks, acks_before.dsacks_unexplained);
        }
        if outcome.is_duplicate {
            own.counts.acks.duplicate += 1;
            own.counts.acks.triple_duplicate += u64::from(other.duplicate_acks() == 3);
        }
        let is_progress = before != other.stream.una;
        seen.delivered = outcome.delivered;
        let wants_edge = beside && other.time.edges.wants(now);
        // Round trips are asked for of the direction with most data.
        if let Some(stamp) = segment.stamp().filter(|_| beside && other.extent() > own.extent()) {
            other.time.on_receiver_stamp(now, stamp);
        }
        if is_progress {
            let rtt = if other.time.has_left_slow_start { None } else { self.path_rtt() };
            self.halves[direction.reverse()].progress(now, beside, rtt);
        }
        // Only there is the edge of a round trip ago asked for.
        if wants_edge {
            self.on_edge(direction, segment, now);
        }
        let [own, other] = self.halves.pair_mut(direction);
        let is_update = plain && segment.len() == 0 && !is_same_window && before == other.stream.una;
        if is_update && before != 0 {
            own.windows.updates += 1;
        }
        if before != other.stream.una && other.stream.fin_acked && own.stream.fin_acked {
            self.spend_all();
            self.is_closed = true;
        }
    }

    /// Notes up to where the sender of `segment` takes data.
    fn on_edge(&mut self, direction: Direction, segment: &SegmentRecord, now: Instant) {
        let Some(rtt) = self.path_rtt() else { return };
        let [own, other] = self.halves.pair_mut(direction);
        if let Some(window) = own.windows.advertised.get() {
            other.time.edges.note(now, segment.ack.get().wrapping_add(window), rtt);
        }
    }

    pub(super) fn on_data(
        &mut self,
        direction: Direction,
        segment: &SegmentRecord,
        now: Instant,
        emit: &mut dyn FnMut(Event),
    ) -> PacketKind {
        let stamp = segment.stamp();
        let is_unusual = segment.len() <= 1 || segment.flags.intersects(TcpFlags::SYN | TcpFlags::FIN);
        let is_next = self.halves[direction]
            .stream
            .coverage
            .as_ref()
            .is_some_and(|c| c.next as u32 == segment.seq.get());
        let needs_facts = is_unusual || !is_next;
        let sent = SentSegment {
            seq: segment.seq,
            len: segment.len(),
            flags: segment.flags,
            stamp,
            now,
            peer_window: if needs_facts { self.window_towards(direction) } else { None },
            uses_sack: needs_facts && segment.takes_sequence_space() && self.uses_sack(),
            wire_segments: if is_next {
                1
            } else {
                self.halves[direction].sizes.wire_segments(segment.len()).max(1)
            },
            path_rtt: if is_next { None } else { self.path_rtt() },
        };
        let own = &mut self.halves[direction];
        let kind = own.on_segment(&sent);
        if let Some(stamp) = stamp.filter(|_| segment.takes_sequence_space()) {
            own.rtt.waiting.on_sent(stamp, now);
        }
        if segment.len() > 0 && own.time.until.is_none() && !own.activity.first_data.is_none() {
            own.time.until = OptionalInstant::at(self.last);
        }
        if kind == PacketKind::Usual {
            return kind;
        }
        let event = |kind| self.event(direction, segment, kind);
        match kind {
            PacketKind::Usual => {}
            PacketKind::Retransmission { cause, was_acknowledged } => {
                emit(event(EventKind::Retransmission { cause }));
                if was_acknowledged {
                    let by = SpuriousBy::Acknowledged;
                    emit(event(EventKind::Spurious { cause, by, sent_ns: now.as_nanos() }));
                }
            }
            PacketKind::WindowProbe => emit(event(EventKind::WindowProbe)),
            PacketKind::KeepAlive => emit(event(EventKind::KeepAlive)),
            PacketKind::Repaired => emit(event(EventKind::Repaired)),
            PacketKind::Reordered => emit(event(EventKind::Reordered)),
        }
        kind
    }
}

/// Place of a packet of `own`, which stands for `segments`, in its stream.
#[cold]
fn packet_context(own: &Half, segment: &SegmentRecord, kind: PacketKind, segments: u64) -> PacketContext {
    let coverage = own.stream.coverage.as_ref();
    let fills = matches!(kind, PacketKind::Repaired | PacketKind::Reordered);
    let open = coverage.map_or(0, |coverage| coverage.open_packets(own.sizes.largest()));
    let last = coverage.and_then(|coverage| coverage.holes().last());
    PacketContext {
        has_data: segment.len() > 0,
        segments,
        shown: open + if fills { segments } else { 0 },
        is_after_capture_gap: last.is_some_and(|hole| hole.is_acked && hole.end as u32 == segment.seq.get()),
    }
}
