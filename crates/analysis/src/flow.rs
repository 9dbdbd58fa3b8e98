//! [`Flow`]: both directions of one connection.

use std::mem::offset_of;
use std::net::SocketAddr;
use std::num::NonZeroU16;

use units::{Duration, Instant, SeqNum, WindowScale};
use wire::TcpFlags;

use crate::budget::{Resumed, Spending, TIME_OUT};
use crate::copies::CopyContext;
use crate::coverage::Coverage;
use crate::direction::{Direction, PerDirection};
use crate::event::{Event, EventKind, spurious};
use crate::half::{Ack, AckCounts, Half, IDLE_GAP, LINE, LastWindow, SentSegment, SynOptions, Window};
use crate::opening::{HandshakeTimes, OpeningMark};
use crate::optional_instant::OptionalInstant;
use crate::packet::{PacketFindings, PacketKind};
use crate::packet_ids::{AckStep, PacketContext};
use crate::recovery::{Cause, SpuriousBy};
use crate::segment_record::{Key, SegmentRecord};
use crate::vantage::{Vantage, vantage};

/// Largest IP packet that is surely none of several merged: that of Ethernet, bytes.
const PLAIN_IP_MAX: u64 = 1_500;

/// Packets of fresh data with an identification that is not new, more than others, from which on
/// identifications tell nothing.
const REPEATED_IDS_MAX: u8 = 3;

/// One connection; as in [`Half`], what every packet needs lies together.
#[derive(Clone, Debug)]
#[repr(C, align(64))]
pub(crate) struct Flow {
    pub(crate) key: Key,
    pub(crate) last: Instant,
    /// Its slot in its table.
    pub(crate) slot: u32,
    scales: PerDirection<Option<WindowScale>>,
    /// The sender of the first packet is the lower end of the key.
    first_is_low: bool,
    is_v4: bool,
    /// It has not ended.
    pub(crate) is_live: bool,
    /// The ACK of the handshake has come, so that nothing more is expected of it.
    is_open: bool,
    /// Nothing but stray segments is expected.
    pub(crate) is_closed: bool,
    /// It has closed and is kept for stragglers.
    pub(crate) lingers: bool,
    /// Where the capture was made, as far as known yet.
    vantage: Option<Vantage>,
    // The next line, with what few packets need.
    pub(crate) id: u64,
    pub(crate) first: Instant,
    pub(crate) cut_by_tool: u32,
    pub(crate) reset_by: Option<Direction>,
    pub(crate) is_tunnelled: bool,
    /// ECE, CWR and AE count marks (RFC 9768 §3.1.1), agreed in the handshake: CWR is no answer to a mark.
    counts_marks: bool,
    pub(crate) opening: HandshakeTimes,
    pub(crate) halves: PerDirection<Half>,
}

impl Flow {
    /// The flow that `segment` opens.
    pub(crate) fn new(id: u64, segment: &SegmentRecord) -> Self {
        Self {
            key: segment.key,
            last: segment.time,
            slot: 0,
            scales: PerDirection::default(),
            first_is_low: segment.is_from_low(),
            is_v4: segment.is_v4(),
            is_live: true,
            is_open: false,
            is_closed: false,
            lingers: false,
            vantage: None,
            id,
            first: segment.time,
            cut_by_tool: 0,
            reset_by: None,
            is_tunnelled: segment.is_tunnelled(),
            counts_marks: false,
            opening: HandshakeTimes::default(),
            halves: PerDirection::default(),
        }
    }

    /// The same in the place of another flow, which has ended, with what it holds of memory.
    pub(crate) fn renew(&mut self, id: u64, segment: &SegmentRecord) {
        // In its place: it is large, and would be copied more than once.
        self.halves.iter_mut().for_each(Half::renew);
        let Self {
            key,
            last,
            slot,
            scales,
            first_is_low,
            is_v4,
            is_live,
            is_open,
            is_closed,
            lingers,
            vantage,
            id: own_id,
            first,
            cut_by_tool,
            reset_by,
            is_tunnelled,
            counts_marks,
            opening,
            halves: _,
        } = self;
        (*key, *own_id, *slot) = (segment.key, id, 0);
        (*first, *last) = (segment.time, segment.time);
        *scales = PerDirection::default();
        (*first_is_low, *is_v4, *is_tunnelled) =
            (segment.is_from_low(), segment.is_v4(), segment.is_tunnelled());
        *is_live = true;
        (*is_open, *is_closed, *lingers, *counts_marks) = (false, false, false, false);
        (*vantage, *reset_by, *cut_by_tool) = (None, None, 0);
        *opening = HandshakeTimes::default();
    }

    /// It has ended: only the memory it holds may be of use.
    pub(crate) fn retire(&mut self, keeps_buffers: bool) {
        self.is_live = false;
        if !keeps_buffers {
            self.halves.iter_mut().for_each(|half| *half = Half::default());
        }
    }

    /// Sender of the first packet, then the other.
    pub(crate) fn ends(&self) -> [SocketAddr; 2] {
        let [low, high] = self.key.ends(self.is_v4);
        if self.first_is_low { [low, high] } else { [high, low] }
    }

    /// What both SYNs say, if both were seen.
    pub(crate) fn opening_mark(&self) -> Option<OpeningMark> {
        let client = self.opening.client?;
        let halves = [client, client.reverse()].map(|direction| &self.halves[direction].cold);
        let [Some(own), Some(other)] = halves.map(|cold| cold.isn) else { return None };
        let stamps = match halves.map(|cold| cold.offered.stamp) {
            [Some(own), Some(other)] => Some([own, other]),
            _ => None,
        };
        Some(OpeningMark { numbers: [own.get(), other.get()], stamps })
    }

    /// The lines of its memory that `segment`, sent by `direction`, will need: a bit for each.
    #[inline]
    pub(crate) fn lines_for(direction: Direction, segment: &SegmentRecord) -> u64 {
        const FIRST: usize = offset_of!(Flow, halves) / LINE;
        const SECOND: usize = FIRST + size_of::<Half>() / LINE;
        const fn both(sent: u64, acked: u64) -> PerDirection<u64> {
            PerDirection::new(sent << FIRST | acked << SECOND, sent << SECOND | acked << FIRST)
        }
        const DATA: [PerDirection<u64>; 2] =
            [both(Half::SENT_DATA[0], Half::ACKED_BY_DATA), both(Half::SENT_DATA[1], Half::ACKED_BY_DATA)];
        const BARE: [PerDirection<u64>; 2] =
            [both(Half::SENT_BARE, Half::ACKED_BARE[0]), both(Half::SENT_BARE, Half::ACKED_BARE[1])];
        const CONTROL: PerDirection<u64> = both(Half::CONTROL, Half::CONTROL);
        let with_stamps = usize::from(segment.stamp().is_some());
        // Of the flow's own lines acknowledgements need that with the times of the handshake, too.
        let lines = match segment.len() > 0 {
            true => 0b1 | DATA[with_stamps][direction],
            false => 0b11 | BARE[with_stamps][direction],
        };
        match segment.flags.contains(TcpFlags::FIN) {
            true => lines | CONTROL[direction],
            false => lines,
        }
    }

    /// The address of what `segment` will change of the segments in flight.
    #[inline]
    pub(crate) fn place_in_flight(&self, direction: Direction, segment: &SegmentRecord) -> Option<usize> {
        let place = match segment.len() > 0 {
            true => self.halves[direction].data.in_flight.next_place(),
            false => self.halves[direction.reverse()].data.in_flight.first_place(),
        };
        place.map(|place| std::ptr::from_ref(place) as usize)
    }

    /// The lines that `segment` will need besides, where the capture was made beside its sender: it tells the
    /// edge of a window.
    #[inline]
    pub(crate) fn lines_for_edges(&self, direction: Direction) -> u64 {
        const FIRST: usize = offset_of!(Flow, halves) / LINE;
        const SECOND: usize = FIRST + size_of::<Half>() / LINE;
        const LINES: PerDirection<u64> = PerDirection::new(Half::EDGES << FIRST, Half::EDGES << SECOND);
        if self.is_beside_receiver(direction.reverse()) { LINES[direction] } else { 0 }
    }

    /// The direction that a segment was sent in.
    #[inline]
    pub(crate) fn direction(&self, segment: &SegmentRecord) -> Direction {
        Direction::from_second_if(segment.is_from_low() != self.first_is_low)
    }

    /// True when a SYN opens another connection between the same ends (as after quick reuse of a port).
    pub(crate) fn is_reopened_by(&self, direction: Direction, segment: &SegmentRecord) -> bool {
        let own = &self.halves[direction];
        let seq = segment.seq;
        if !segment.flags.contains(TcpFlags::SYN) || own.cold.isn == Some(seq) {
            return false;
        }
        let is_answer = segment.flags.contains(TcpFlags::ACK);
        let is_idle = own.cold.isn.is_none() && own.edge.coverage.is_none();
        if is_idle && (is_answer || self.opening.client.is_none()) {
            // The answer to the SYN seen, or the start of a connection of which only the other side was seen.
            return false;
        }
        if own.cold.isn.is_none() && !self.is_closed {
            // The handshake comes after its data: packets out of order in the file.
            return own.edge.coverage.as_ref().is_some_and(|c| c.first as u32 != (seq + 1).get());
        }
        true
    }

    /// The shift of windows advertised by `direction`; none when the handshake was not seen.
    #[inline]
    pub(crate) fn scale(&self, direction: Direction) -> Option<WindowScale> {
        self.scales[direction]
    }

    fn negotiated_scale(&self, direction: Direction) -> Option<WindowScale> {
        let [own, other] = [&self.halves[direction], &self.halves[direction.reverse()]];
        let offer = |half: &Half| half.cold.isn.map(|_| half.cold.offered.scale);
        match (offer(own), offer(other)) {
            (Some(Some(own)), Some(Some(_))) => Some(own),
            (Some(_), Some(_)) | (Some(None), None) | (None, Some(None)) => Some(WindowScale::NONE),
            _ => None,
        }
    }

    /// The window that the receiver of `direction`'s data advertised last, bytes.
    #[inline]
    pub(crate) fn window_towards(&self, direction: Direction) -> Option<u64> {
        self.halves[direction.reverse()].edge.window.get().map(u64::from)
    }

    pub(crate) fn uses_sack(&self) -> bool {
        self.halves.iter().all(|half| half.cold.offered.sack_permitted)
            || self.halves.iter().any(|half| half.cold.acks.with_sack > 0)
    }

    /// Shortest time for the whole path and back that was seen.
    pub(crate) fn path_rtt(&self) -> Option<Duration> {
        let handshake = self.opening.to_server().zip(self.opening.to_client()).map(|(a, b)| a + b);
        handshake.or_else(|| {
            let [a, b] = self.halves.as_array().each_ref().map(|half| half.rtt.karn.min());
            a.zip(b).map(|(a, b)| a + b)
        })
    }

    /// Of the time of the handshake, what its last acknowledgement came late because it had been lost: with
    /// the data that was sent again, and later than a time-out after a round trip of data.
    pub(crate) fn reopened(&self) -> Duration {
        let opening = self.opening.to_client().filter(|_| self.opening.ack_has_data);
        let [first, second] = self.halves.as_array().each_ref().map(|half| half.rtt.karn.min());
        let late = opening.zip(first.zip(second)).map(|(took, (a, b))| took.saturating_sub(a + b));
        late.filter(|late| *late >= TIME_OUT).unwrap_or(Duration::ZERO)
    }

    /// What tells whether `segment` is a copy of one seen before.
    #[inline]
    pub(crate) fn copy_context(&self, direction: Direction, segment: &SegmentRecord) -> CopyContext {
        let (own, other) = (&self.halves[direction], &self.halves[direction.reverse()]);
        let is_at_edge =
            |half: &Half| half.edge.coverage.as_ref().is_some_and(|c| c.next as u32 == segment.seq.get());
        let is_news = match segment.takes_sequence_space() {
            true => own.edge.coverage.is_none() || is_at_edge(own),
            false => {
                let una = SeqNum::new(other.edge.una as u32);
                segment.flags.contains(TcpFlags::ACK) && una.is_before(segment.ack)
            }
        };
        CopyContext {
            piece: own.wire_segment(segment.len()),
            has_ids: own.packets.repeated_ids < REPEATED_IDS_MAX,
            has_copies: !is_news && own.cold.copies > 0,
            is_news,
        }
    }

    /// Takes one segment: notes in `seen`, which is new, what was learned from it, and gives each event to
    /// `emit`.
    #[inline]
    pub(crate) fn handle(
        &mut self,
        direction: Direction,
        segment: &SegmentRecord,
        seen: &mut PacketFindings,
        emit: &mut dyn FnMut(Event),
    ) {
        let now = segment.time;
        self.share_time(direction, segment, now);
        let pause = now.saturating_since(self.last);
        self.last = self.last.max(now);
        if segment.is_cut_by_tool() {
            self.cut_by_tool = self.cut_by_tool.saturating_add(1);
        }
        self.count(direction, segment, now);
        if segment.flags.intersects(TcpFlags::SYN | TcpFlags::RST) || !self.is_open {
            self.on_control(direction, segment, now, emit);
        }
        let is_same_window = self.on_window(direction, segment, now, emit);
        if segment.flags.contains(TcpFlags::ACK) {
            self.on_ack(direction, segment, is_same_window, now, seen, emit);
        }
        // A reset's sequence number is the receiver's expectation, or made up: no place in the stream.
        if !segment.flags.contains(TcpFlags::RST) {
            seen.kind = self.on_data(direction, segment, now, emit);
            let has_id = segment.is_v4() && !segment.flags.contains(TcpFlags::SYN);
            let is_after_loss = has_id && self.on_id(direction, segment, pause, seen);
            self.resume(direction, segment, seen.kind, is_after_loss);
        }
        let cwr = segment.flags.contains(TcpFlags::CWR) && !segment.flags.contains(TcpFlags::SYN);
        let answers = cwr && !self.counts_marks;
        if segment.ecn() == 3 || answers {
            self.on_ecn(direction, segment, answers, emit);
        }
    }

    #[cold]
    fn on_ecn(
        &self,
        direction: Direction,
        segment: &SegmentRecord,
        answers: bool,
        emit: &mut dyn FnMut(Event),
    ) {
        let is_marked = segment.ecn() == 3;
        let kinds = [(is_marked, EventKind::CongestionMark), (answers, EventKind::CongestionAnswer)];
        for (_, kind) in kinds.into_iter().filter(|(happened, _)| *happened) {
            emit(self.event(direction, segment, kind));
        }
    }

    /// What happened with a segment, at its place in the stream.
    fn event(&self, direction: Direction, segment: &SegmentRecord, kind: EventKind) -> Event {
        let coverage = self.halves[direction].edge.coverage.as_ref();
        let distance = segment.seq.since(wire_seq(coverage.map_or(0, |c| c.first))) as i32;
        Event {
            flow: self.id,
            time_ns: segment.time.as_nanos(),
            direction,
            offset: if coverage.is_some() { i64::from(distance) } else { 0 },
            len: segment.len(),
            kind,
        }
    }

    /// True when identifications say that packets of a pause before this one are missing.
    fn on_id(
        &mut self,
        direction: Direction,
        segment: &SegmentRecord,
        pause: Duration,
        seen: &PacketFindings,
    ) -> bool {
        let (len, kind) = (segment.len(), seen.kind);
        let own = &mut self.halves[direction];
        let standing = PacketContext {
            has_data: len > 0,
            is_at_hole: matches!(kind, PacketKind::Repaired | PacketKind::Reordered)
                || own.edge.coverage.as_ref().is_some_and(Coverage::has_open_hole),
            pause,
            segments: own.wire_segments(len).max(1),
        };
        if len > 0 && kind == PacketKind::Usual {
            let repeated = &mut own.packets.repeated_ids;
            *repeated = match own.packets.ids.is_new(segment.id) {
                true => repeated.saturating_sub(1),
                false => repeated.saturating_add(1),
            };
        }
        match own.packets.ids.on_packet(segment.id, &standing) {
            AckStep::Usual => {}
            AckStep::AfterLoss => return true,
            AckStep::Ahead(missing) => own.cold.ack_gaps.ahead(missing, seen.acked),
            AckStep::Late if own.cold.ack_gaps.late() => {}
            AckStep::Late => own.packets.ids.on_unsound(),
        }
        false
    }

    /// True when data of `direction` is seen beside its receiver.
    #[inline]
    pub(crate) fn is_beside_receiver(&self, direction: Direction) -> bool {
        self.vantage.is_some_and(|place| !place.sees_sender(direction))
    }

    /// Where the capture was made: from the handshake, or from the shortest round trips of data.
    pub(crate) fn place(&self) -> Option<Vantage> {
        let opening = &self.opening;
        let client = opening.client.unwrap_or(Direction::FromFirst);
        let handshake = match opening.client {
            Some(_) => [opening.to_server(), opening.to_client()],
            None => [None, None],
        };
        let data = [client, client.reverse()].map(|direction| self.halves[direction].rtt.karn.min());
        let [server, to_client] = [handshake[0].or(data[0]), handshake[1].or(data[1])];
        let found = match (server, to_client) {
            // A way that may be longer than this cannot make the other end less near.
            (Some(_), None) => {
                vantage(server, opening.least_to_client()).filter(|place| *place == Vantage::Second)
            }
            (None, Some(_)) => {
                vantage(opening.least_to_server(), to_client).filter(|place| *place == Vantage::First)
            }
            _ => vantage(server, to_client),
        };
        // As if the client were the first.
        match client {
            Direction::FromFirst => found,
            Direction::FromSecond => found.map(Vantage::exchanged),
        }
    }

    /// Data or FIN in the time of its direction.
    fn resume(
        &mut self,
        direction: Direction,
        segment: &SegmentRecord,
        kind: PacketKind,
        is_after_loss: bool,
    ) {
        let is_fin = segment.flags.contains(TcpFlags::FIN);
        let is_probe = matches!(kind, PacketKind::WindowProbe | PacketKind::KeepAlive);
        if is_probe || (segment.len() == 0 && !is_fin) {
            return;
        }
        let is_beside_receiver = self.is_beside_receiver(direction);
        let rtt = if is_beside_receiver { self.path_rtt() } else { None };
        // The last piece of a merged packet, too, is full while there is more to send.
        let own = &self.halves[direction];
        let largest = u64::from(own.edge.segment_max);
        let piece = own.wire_segment(largest).min(largest).max(1);
        let is_short = !segment.len().is_multiple_of(piece);
        // Asked for once: it lies where packets of this direction have nothing to fetch.
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
            is_after_loss,
            is_time_out: matches!(kind, PacketKind::Retransmission { cause: Cause::Rto, .. }),
            stamp: segment.stamp(),
            echo: segment.echo(),
            rtt,
            repaired_before,
        });
    }

    /// Where the time since the last packet went, for the senders whose situation `segment` may change. What
    /// the other one waited for goes on: its time is given to it later, at once.
    #[inline]
    fn share_time(&mut self, direction: Direction, segment: &SegmentRecord, now: Instant) {
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
        let una = SeqNum::new(self.halves[direction.reverse()].edge.una as u32);
        let is_same_window = self.halves[direction].packets.window.is(segment.window);
        segment.ack != una || !is_same_window || !segment.sack().is_empty()
    }

    /// Gives the sender of `direction` all time that it has not had, up to `passed` after the last packet.
    #[inline]
    fn spend_until(&mut self, direction: Direction, passed: Duration) {
        let is_beside_receiver = self.is_beside_receiver(direction);
        let is_answered = self.halves[direction.reverse()].edge.coverage.is_some();
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
                half.cold.idle_gaps.count += 1;
                half.cold.idle_gaps.longest = half.cold.idle_gaps.longest.max(passed);
            }
        }
        half.spend(&Spending { passed: unspent, window, is_closed, is_beside_receiver, is_answered });
        if window.is_some_and(|window| outstanding + u64::from(half.edge.segment_max) > window) {
            half.time.shares.window_limited += unspent;
        }
    }

    /// Gives both senders their time up to the last packet.
    pub(crate) fn spend_all(&mut self) {
        Direction::BOTH.into_iter().for_each(|direction| self.spend_until(direction, Duration::ZERO));
    }

    fn count(&mut self, direction: Direction, segment: &SegmentRecord, now: Instant) {
        let counts_marks = self.counts_marks;
        let own = &mut self.halves[direction];
        let len = segment.len();
        if let Some(last) = own.packets.last.get() {
            own.packets.pause_max = own.packets.pause_max.max(now.saturating_since(last));
        }
        own.packets.last = OptionalInstant::at(now);
        if len > 0 && own.packets.peer_mss.is_none() && segment.ip_len() <= PLAIN_IP_MAX {
            own.cold.plain_max = own.cold.plain_max.max(len as u32);
        }
        let wire = if len > 0 { own.wire_segments(len) } else { 1 };
        own.packets.totals.packets += 1;
        own.packets.totals.ip_bytes += segment.ip_len();
        if wire > 1 {
            own.packets.exceptions.more_segments += wire - 1;
        }
        let has = |flag| u64::from(segment.flags.contains(flag));
        if segment.flags.contains(TcpFlags::PSH) {
            own.packets.exceptions.psh += 1;
        }
        if !(TcpFlags::ACK | TcpFlags::PSH).contains(segment.flags) {
            let flags = &mut own.cold.flags;
            flags.urg += has(TcpFlags::URG);
            flags.fin += has(TcpFlags::FIN);
            flags.syn += has(TcpFlags::SYN);
            flags.rst += has(TcpFlags::RST);
            flags.ece += has(TcpFlags::ECE);
            flags.cwr += has(TcpFlags::CWR);
            if !segment.flags.contains(TcpFlags::SYN) && !counts_marks {
                own.cold.ecn.reductions += has(TcpFlags::CWR);
            }
        }
        if segment.ecn() != 0 {
            let ecn = &mut own.cold.ecn;
            ecn.ce += u64::from(segment.ecn() == 3);
            ecn.ect += u64::from(segment.ecn() != 3);
        }
        if len > 0 {
            let data = &mut own.data.totals;
            if data.packets == 0 {
                own.packets.hop_limits.data = Some(segment.hop_limit);
            }
            data.packets += 1;
            data.payload += len;
            if segment.flags.contains(TcpFlags::RST) {
                // No part of the stream.
                own.packets.exceptions.not_unique += len;
            }
            let len = u32::try_from(len).unwrap_or(u32::MAX);
            data.segment_min = if data.segment_min == 0 { len } else { data.segment_min.min(len) };
            own.edge.segment_max = own.edge.segment_max.max(len);
        } else if segment.flags & !(TcpFlags::PSH | TcpFlags::URG | TcpFlags::ECE | TcpFlags::CWR)
            != TcpFlags::ACK
        {
            own.packets.exceptions.control += 1;
            if segment.flags.contains(TcpFlags::SYN) {
                own.packets.hop_limits.syn.get_or_insert(segment.hop_limit);
            }
        }
        if segment.is_mptcp() {
            own.cold.has_mptcp = true;
        }
        own.packets.has_timestamps |= segment.stamp().is_some();
    }

    fn on_control(
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
            let own = &mut self.halves[direction];
            own.cold.isn = Some(segment.seq);
            own.cold.offered = SynOptions {
                mss: segment.mss(),
                scale: segment.scale(),
                sack_permitted: segment.is_sack_permitted(),
                // Of the first: one that is sent again may have another, and be the only one at another place.
                stamp: own.cold.offered.stamp.or(segment.stamp()),
            };
            let mss = own.cold.offered.mss.and_then(NonZeroU16::new);
            self.halves[direction.reverse()].packets.peer_mss = mss;
            self.scales = PerDirection::each(|direction| self.negotiated_scale(direction));
            self.halves.iter_mut().for_each(|half| half.packets.window.rescale());
            let ecn = [TcpFlags::AE, TcpFlags::CWR, TcpFlags::ECE].map(|flag| segment.flags.contains(flag));
            let opening = &mut self.opening;
            if segment.flags.contains(TcpFlags::ACK) {
                // RFC 9768 §3.1.2, table 2: all else agrees on classic ECN or on none.
                self.counts_marks =
                    opening.offers_to_count_marks && matches!(ecn, [false, true, _] | [true, _, false]);
                opening.client.get_or_insert(direction.reverse());
                opening.syn_acks = opening.syn_acks.saturating_add(1);
                if opening.syn_ack.is_none() {
                    opening.syn_ack = OptionalInstant::at(now);
                }
                if opening.ack.is_none() {
                    opening.last_syn_ack = OptionalInstant::at(now);
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
            self.opening.ack = OptionalInstant::at(now);
            self.opening.ack_has_data = segment.len() > 0;
            self.vantage = self.place();
        }
    }

    /// The advertised window; true if it is the same as before.
    fn on_window(
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
        let last = half.packets.window;
        let is_same = last.is(segment.window);
        if last.is_counted(segment.window) && !is_syn && segment.window != 0 {
            // As most packets: nothing changes.
            return is_same;
        }
        let windows = &mut half.packets.windows;
        if let Some(bytes) = scale.map(|scale| scale.window(segment.window)) {
            windows.max = windows.max.max(bytes);
            if !is_syn {
                windows.min = Window::new(Some(windows.min.get().map_or(bytes, |min| min.min(bytes))));
            }
        }
        if segment.window == 0 && !is_syn && !segment.flags.contains(TcpFlags::FIN) {
            half.cold.window_events.zero += 1;
            if windows.zero_since.is_none() {
                windows.zero_since = OptionalInstant::at(now);
                let kind = EventKind::ZeroWindow;
                emit(Event { flow: id, time_ns: now.as_nanos(), direction, offset: 0, len: 0, kind });
            }
        } else if let Some(since) = windows.zero_since.take() {
            half.cold.window_events.zero_time += now.saturating_since(since);
        }
        // In a SYN the field is not scaled: it says nothing about the same window later.
        let bytes =
            if segment.window == 0 { Some(0) } else { scale.map(|scale| scale.window(segment.window)) };
        let keeps = !is_syn || self.scale(direction) == Some(WindowScale::NONE);
        let half = &mut self.halves[direction];
        half.packets.window = match scale {
            Some(_) if !is_syn => LastWindow::counted(segment.window),
            _ => LastWindow::new(Some(segment.window).filter(|_| keeps)),
        };
        half.edge.window = Window::new(bytes.filter(|_| keeps));
        is_same
    }

    fn on_ack(
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
        if let Some(value) = echo.filter(|value| own.packets.settled_echo != *value || *value == 0) {
            seen.rtt_timestamps = other.data.echo.0.on_echo(value, now);
            if let Some(rtt) = seen.rtt_timestamps {
                other.rtt.timestamps.record(rtt);
            }
            own.packets.settled_echo = if other.data.echo.0.is_settled(value) { value } else { 0 };
        }
        let before = other.edge.una;
        let has_sack = !segment.sack().is_empty();
        let acks_before = if has_sack { other.cold.acks } else { AckCounts::default() };
        let first = other.edge.coverage.as_ref().map_or(0, |c| c.first);
        let ack = Ack { number: segment.ack, now, echo, sack: segment.sack(), is_bare };
        let outcome = other.on_ack(&ack, |retransmission| {
            emit(spurious(id, direction.reverse(), now, first, retransmission));
        });
        (seen.rtt_karn, seen.is_duplicate_ack) = (outcome.rtt(), outcome.is_duplicate);
        if has_sack {
            // Counted for who says it.
            let (own, other) = (&mut own.cold.acks, &mut other.cold.acks);
            own.with_sack += 1;
            own.dsacks += other.dsacks - acks_before.dsacks;
            own.dsacks_unexplained += other.dsacks_unexplained - acks_before.dsacks_unexplained;
            (other.dsacks, other.dsacks_unexplained) = (acks_before.dsacks, acks_before.dsacks_unexplained);
        }
        if outcome.is_duplicate {
            own.cold.acks.duplicate += 1;
            own.cold.acks.triple_duplicate += u64::from(other.duplicate_acks() == 3);
        }
        let is_progress = before != other.edge.una;
        if is_progress && before != 0 {
            seen.acked = other.edge.una - before;
        }
        let wants_edge = beside && own.packets.wants_edge(now);
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
        let is_update = plain && segment.len() == 0 && !is_same_window && before == other.edge.una;
        if is_update && before != 0 {
            own.cold.window_events.updates += 1;
        }
        if before != other.edge.una && other.data.fin_acked && own.data.fin_acked {
            self.spend_all();
            self.is_closed = true;
        }
    }

    /// Notes up to where the sender of `segment` takes data.
    fn on_edge(&mut self, direction: Direction, segment: &SegmentRecord, now: Instant) {
        let Some(rtt) = self.path_rtt() else { return };
        let [own, other] = self.halves.pair_mut(direction);
        if let Some(window) = own.edge.window.get() {
            own.packets.edge_noted(now, rtt);
            other.time.on_edge(now, segment.ack.get().wrapping_add(window));
        }
    }

    fn on_data(
        &mut self,
        direction: Direction,
        segment: &SegmentRecord,
        now: Instant,
        emit: &mut dyn FnMut(Event),
    ) -> PacketKind {
        let stamp = segment.stamp();
        let is_unusual = segment.len() <= 1 || segment.flags.intersects(TcpFlags::SYN | TcpFlags::FIN);
        let is_next =
            self.halves[direction].edge.coverage.as_ref().is_some_and(|c| c.next as u32 == segment.seq.get());
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
                self.halves[direction].wire_segments(segment.len()).max(1)
            },
            path_rtt: if is_next { None } else { self.path_rtt() },
        };
        let own = &mut self.halves[direction];
        let kind = own.on_segment(&sent);
        if let Some(stamp) = stamp.filter(|_| segment.takes_sequence_space()) {
            own.data.echo.0.on_sent(stamp, now);
        }
        if segment.len() > 0 && own.time.until.is_none() && !own.edge.first_data.is_none() {
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

fn wire_seq(position: u64) -> units::SeqNum {
    units::SeqNum::new(position as u32)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flow_stays_small() {
        // A hundred thousand flows in progress are common in captures of networks.
        assert!(size_of::<Flow>() <= 3_328, "{}", size_of::<Flow>());
    }
}
