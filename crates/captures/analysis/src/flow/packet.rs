//! Content of a packet, wherever it lies in the stream: its counts, the handshake and resets, its window.

use std::num::NonZeroU16;

use units::{Instant, SeqNum, WindowScale};
use wire::TcpFlags;

use super::Flow;
use super::stray::offer;
use crate::coverage::unwrap;
use crate::direction::{Direction, PerDirection};
use crate::event::{Event, EventKind};
use crate::half::{LastWindow, SynOptions, Window};
use crate::optional_instant::OptionalInstant;
use crate::packet::{PacketFindings, PacketView};
use crate::segment_record::SegmentRecord;
use crate::vantage::NEAR;

/// Largest IP packet that is surely none of several merged: that of Ethernet, bytes.
const PLAIN_IP_MAX: u64 = 1_500;

impl Flow {
    pub(super) fn count(&mut self, direction: Direction, segment: &SegmentRecord, now: Instant) {
        let counts_marks = self.counts_marks;
        let own = &mut self.halves[direction];
        let len = segment.len();
        if let Some(last) = own.activity.last.get() {
            own.activity.pause_max = own.activity.pause_max.max(now.saturating_since(last));
        }
        own.activity.last = OptionalInstant::at(now);
        if len > 0 && own.sizes.peer_mss.is_none() && segment.ip_len() <= PLAIN_IP_MAX {
            own.sizes.plain_max = own.sizes.plain_max.max(len as u32);
        }
        let wire = if len > 0 { own.sizes.wire_segments(len) } else { 1 };
        own.counts.packets.all += 1;
        own.counts.packets.ip_bytes += segment.ip_len();
        if wire > 1 {
            own.counts.packets.more_segments += wire - 1;
        }
        let has = |flag| u64::from(segment.flags.contains(flag));
        if segment.flags.contains(TcpFlags::PSH) {
            own.counts.flags.psh += 1;
        }
        if !(TcpFlags::ACK | TcpFlags::PSH).contains(segment.flags) {
            let flags = &mut own.counts.flags;
            flags.urg += has(TcpFlags::URG);
            flags.fin += has(TcpFlags::FIN);
            flags.syn += has(TcpFlags::SYN);
            flags.rst += has(TcpFlags::RST);
            flags.ece += has(TcpFlags::ECE);
            flags.cwr += has(TcpFlags::CWR);
            if !segment.flags.contains(TcpFlags::SYN) && !counts_marks {
                own.counts.ecn.reductions += has(TcpFlags::CWR);
            }
        }
        if segment.ecn() != 0 {
            let ecn = &mut own.counts.ecn;
            ecn.ce += u64::from(segment.ecn() == 3);
            ecn.ect += u64::from(segment.ecn() != 3);
        }
        if len > 0 {
            let data = &mut own.counts.data;
            if data.packets == 0 {
                own.hop_limits.data = Some(segment.hop_limit);
            }
            data.packets += 1;
            data.payload += len;
            if segment.flags.contains(TcpFlags::RST) {
                // No part of the stream.
                own.counts.data.not_unique += len;
            }
            let len = u32::try_from(len).unwrap_or(u32::MAX);
            let sizes = &mut own.sizes;
            sizes.min = if sizes.min == 0 { len } else { sizes.min.min(len) };
            sizes.max = sizes.max.max(len);
        } else if segment.flags & !(TcpFlags::PSH | TcpFlags::URG | TcpFlags::ECE | TcpFlags::CWR)
            != TcpFlags::ACK
        {
            own.counts.packets.control += 1;
            if segment.flags.contains(TcpFlags::SYN) {
                own.hop_limits.syn.get_or_insert(segment.hop_limit);
            }
        }
        if segment.is_mptcp() {
            own.has_mptcp = true;
        }
        own.sizes.has_timestamps |= segment.stamp().is_some();
    }

    pub(super) fn on_control(
        &mut self,
        direction: Direction,
        segment: &SegmentRecord,
        now: Instant,
        emit: &mut dyn FnMut(Event),
    ) {
        if segment.flags.contains(TcpFlags::RST) {
            self.reset_by.get_or_insert(direction);
            self.is_closed = true;
            let kind = EventKind::Reset;
            emit(Event { flow: self.id, time_ns: now.as_nanos(), direction, offset: 0, len: 0, kind });
            return;
        }
        if segment.flags.contains(TcpFlags::SYN) {
            // Of the first: one that is sent again may have another, and be the only one at another place.
            let stamp = self.halves[direction].syn.offered.stamp.or(segment.stamp());
            self.on_offer(direction, segment.seq, SynOptions { stamp, ..offer(segment) });
            let ecn = [TcpFlags::AE, TcpFlags::CWR, TcpFlags::ECE].map(|flag| segment.flags.contains(flag));
            let opening = &mut self.opening;
            if segment.flags.contains(TcpFlags::ACK) {
                // RFC 9768 §3.1.2, table 2: all else agrees on classic ECN or on none.
                self.counts_marks =
                    opening.offers_to_count_marks && matches!(ecn, [false, true, _] | [true, _, false]);
                opening.client.get_or_insert(direction.reverse());
                opening.syn_acks = opening.syn_acks.saturating_add(1);
                let is_first = opening.syn_ack.is_none();
                if is_first {
                    (opening.syn_ack, opening.answered) = (OptionalInstant::at(now), segment.ack);
                }
                if opening.ack.is_none() {
                    opening.last_syn_ack = OptionalInstant::at(now);
                }
                if is_first && !self.is_open {
                    self.open_if_acknowledged(direction, now);
                }
            } else {
                opening.client.get_or_insert(direction);
                opening.offers_to_count_marks = ecn == [true; 3];
                opening.syns = opening.syns.saturating_add(1);
                if opening.syn_ack.is_none() {
                    opening.has_more_syns = !opening.syn.is_none();
                    opening.syn = OptionalInstant::at(now);
                }
            }
        } else if self.opening.client == Some(direction) && !self.opening.syn_ack.is_none() {
            self.is_open = true;
            self.choose_syn_ack(direction, segment);
            self.opening.ack = OptionalInstant::at(now);
            self.opening.ack_has_data = segment.len() > 0;
            self.vantage = self.place();
        }
    }

    /// A SYN of `direction` with number `isn` offers this.
    pub(super) fn on_offer(&mut self, direction: Direction, isn: SeqNum, offered: SynOptions) {
        let own = &mut self.halves[direction];
        (own.syn.isn, own.syn.offered) = (Some(isn), offered);
        self.note_segment_sizes();
        self.scales = PerDirection::each(|direction| self.negotiated_scale(direction));
        self.halves.iter_mut().for_each(|half| half.windows.field.rescale());
    }

    /// The longest segment of each end is what the other one offers to take, and what its own link takes: what it
    /// offers itself is of that (RFC 9293 §3.7.1, RFC 6691).
    fn note_segment_sizes(&mut self) {
        let offers =
            PerDirection::each(|direction| self.halves[direction].syn.offered.mss.and_then(NonZeroU16::new));
        let least = Direction::BOTH.into_iter().filter_map(|direction| offers[direction]).min();
        for direction in Direction::BOTH {
            self.halves[direction].sizes.peer_mss = offers[direction.reverse()].and(least);
        }
    }

    /// The first SYN-ACK, of `server`: the capture may have it after what the client answered. How long that took
    /// is not known then, but for what is less than clocks differ.
    #[cold]
    fn open_if_acknowledged(&mut self, server: Direction, now: Instant) {
        let client = &self.halves[server.reverse()];
        let openings = client.counts.flags.syn + client.counts.flags.rst;
        if client.counts.packets.all <= openings {
            return;
        }
        self.is_open = true;
        let answered = client.activity.last.get().map(|last| now.saturating_since(last));
        if answered.is_some_and(|late| late <= NEAR) {
            self.opening.ack = OptionalInstant::at(now);
        }
        self.vantage = self.place();
    }

    /// The advertised window; true if it is the same as before.
    pub(super) fn on_window(
        &mut self,
        direction: Direction,
        segment: &SegmentRecord,
        now: Instant,
        emit: &mut dyn FnMut(Event),
    ) -> bool {
        if segment.flags.contains(TcpFlags::RST) {
            return false;
        }
        let is_syn = segment.flags.contains(TcpFlags::SYN);
        let scale = if is_syn { Some(WindowScale::NONE) } else { self.scale(direction) };
        let id = self.id;
        let half = &mut self.halves[direction];
        let last = half.windows.field;
        let is_same = last.is(segment.window);
        if last.is_counted(segment.window) && !is_syn && segment.window != 0 {
            // As most packets: nothing changes.
            return is_same;
        }
        let windows = &mut half.windows;
        if let Some(bytes) = scale.map(|scale| scale.window(segment.window)) {
            windows.max = windows.max.max(bytes);
            if !is_syn {
                windows.min = Window::new(Some(windows.min.get().map_or(bytes, |min| min.min(bytes))));
            }
        }
        if segment.window == 0 && !is_syn && !segment.flags.contains(TcpFlags::FIN) {
            windows.zero += 1;
            if windows.zero_since.is_none() {
                windows.zero_since = OptionalInstant::at(now);
                let kind = EventKind::ZeroWindow;
                emit(Event { flow: id, time_ns: now.as_nanos(), direction, offset: 0, len: 0, kind });
            }
        } else if let Some(since) = windows.zero_since.take() {
            windows.zero_time += now.saturating_since(since);
        }
        // In a SYN the field is not scaled: it says nothing about the same window later.
        let bytes =
            if segment.window == 0 { Some(0) } else { scale.map(|scale| scale.window(segment.window)) };
        let keeps = !is_syn || self.scale(direction) == Some(WindowScale::NONE);
        let half = &mut self.halves[direction];
        half.windows.field = match scale {
            Some(_) if !is_syn => LastWindow::counted(segment.window),
            _ => LastWindow::new(Some(segment.window).filter(|_| keeps)),
        };
        half.windows.advertised = Window::new(bytes.filter(|_| keeps));
        is_same
    }

    /// The view of a segment that it has just handled.
    pub(crate) fn view<'a>(
        &self,
        direction: Direction,
        segment: &'a SegmentRecord,
        seen: &PacketFindings,
    ) -> PacketView<'a> {
        let edge = |direction: Direction| self.halves[direction].stream.top();
        let other = &self.halves[direction.reverse()];
        let reference = if other.stream.una > 0 { Some(other.stream.una) } else { edge(direction.reverse()) };
        let has_ack = segment.flags.contains(TcpFlags::ACK) && !segment.flags.contains(TcpFlags::RST);
        PacketView {
            number: segment.number,
            flow: self.id,
            capture: self.key.capture(),
            ends: self.ends(),
            direction,
            time: segment.time,
            position: edge(direction).map_or(0, |edge| unwrap(edge, segment.seq)),
            len: segment.len(),
            flags: segment.flags,
            ecn: segment.ecn(),
            ack: reference.filter(|_| has_ack).map(|reference| unwrap(reference, segment.ack)),
            window: self.window_towards(direction.reverse()),
            sack: segment.sack(),
            is_duplicate_ack: seen.is_duplicate_ack,
            rtt_karn: seen.rtt_karn,
            rtt_timestamps: seen.rtt_timestamps,
            kind: seen.kind,
        }
    }
}
