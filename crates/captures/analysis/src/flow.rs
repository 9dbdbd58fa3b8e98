//! [`Flow`]: both directions of one connection.

mod packet;
mod report;
mod stray;
mod stream;
mod time;

use std::net::SocketAddr;

use units::{Duration, Instant, SeqNum, WindowScale};
use wire::TcpFlags;

use crate::copies::CopyContext;
use crate::direction::{Direction, PerDirection};
use crate::event::{Event, EventKind};
use crate::fetch::{Fetch, fetch_value};
use crate::half::{Half, TIME_OUT};
use crate::in_flight::Segment as InFlightSegment;
use crate::opening::{HandshakeTimes, OpeningMark};
use crate::packet::PacketFindings;
use crate::segment_record::{Key, SegmentRecord};
use crate::vantage::{Vantage, vantage};

pub(crate) use stray::Reopening;

/// Packets of fresh data with an identification that is not new, more than others, from which on
/// identifications tell nothing.
const REPEATED_IDS_MAX: u8 = 3;

/// One connection.
#[derive(Clone, Debug)]
pub(crate) struct Flow {
    pub(crate) id: u64,
    pub(crate) key: Key,
    /// Its slot in its table.
    pub(crate) slot: u32,
    /// The sender of the first packet is the lower end of the key.
    first_is_low: bool,
    is_v4: bool,
    pub(crate) is_tunnelled: bool,
    pub(crate) first: Instant,
    pub(crate) last: Instant,
    pub(crate) opening: HandshakeTimes,
    scales: PerDirection<Option<WindowScale>>,
    /// ECE, CWR and AE count marks (RFC 9768 §3.1.1), agreed in the handshake: CWR is no answer to a mark.
    counts_marks: bool,
    /// Place of the capture on the path, as far as known yet.
    vantage: Option<Vantage>,
    /// A SYN that may open another connection, until its answer tells.
    waiting_syn: Option<Box<SegmentRecord>>,
    /// It has not ended.
    pub(crate) is_live: bool,
    /// The ACK of the handshake has come, so that nothing more is expected of it.
    is_open: bool,
    /// Nothing but stray segments is expected.
    pub(crate) is_closed: bool,
    /// It has closed and is kept for stragglers.
    pub(crate) lingers: bool,
    pub(crate) reset_by: Option<Direction>,
    pub(crate) cut_by_tool: u32,
    pub(crate) halves: PerDirection<Half>,
}

impl Flow {
    /// The flow that `segment` opens.
    pub(crate) fn new(id: u64, segment: &SegmentRecord) -> Self {
        Self {
            id,
            key: segment.key,
            slot: 0,
            first_is_low: segment.is_from_low(),
            is_v4: segment.is_v4(),
            is_tunnelled: segment.is_tunnelled(),
            first: segment.time,
            last: segment.time,
            opening: HandshakeTimes::default(),
            scales: PerDirection::default(),
            counts_marks: false,
            vantage: None,
            waiting_syn: None,
            is_live: true,
            is_open: false,
            is_closed: false,
            lingers: false,
            reset_by: None,
            cut_by_tool: 0,
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
            waiting_syn,
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
        *waiting_syn = None;
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

    /// Values in both SYNs, if both were seen.
    pub(crate) fn opening_mark(&self) -> Option<OpeningMark> {
        let client = self.opening.client?;
        let halves = [client, client.reverse()].map(|direction| &self.halves[direction].syn);
        let [Some(own), Some(other)] = halves.map(|syn| syn.isn) else { return None };
        let stamps = match halves.map(|syn| syn.offered.stamp) {
            [Some(own), Some(other)] => Some([own, other]),
            _ => None,
        };
        Some(OpeningMark { numbers: [own.get(), other.get()], stamps })
    }

    /// True while a SYN waits for its answer.
    #[inline]
    pub(crate) fn has_waiting_syn(&self) -> bool {
        self.waiting_syn.is_some()
    }

    /// The direction that a segment was sent in.
    #[inline]
    pub(crate) fn direction(&self, segment: &SegmentRecord) -> Direction {
        Direction::from_second_if(segment.is_from_low() != self.first_is_low)
    }

    /// The shift of windows advertised by `direction`; none when the handshake was not seen.
    #[inline]
    pub(crate) fn scale(&self, direction: Direction) -> Option<WindowScale> {
        self.scales[direction]
    }

    fn negotiated_scale(&self, direction: Direction) -> Option<WindowScale> {
        let [own, other] = [&self.halves[direction], &self.halves[direction.reverse()]];
        let offer = |half: &Half| half.syn.isn.map(|_| half.syn.offered.scale);
        match (offer(own), offer(other)) {
            (Some(Some(own)), Some(Some(_))) => Some(own),
            (Some(_), Some(_)) | (Some(None), None) | (None, Some(None)) => Some(WindowScale::NONE),
            _ => None,
        }
    }

    /// The window that the receiver of `direction`'s data advertised last, bytes.
    #[inline]
    pub(crate) fn window_towards(&self, direction: Direction) -> Option<u64> {
        self.halves[direction.reverse()].windows.advertised.get().map(u64::from)
    }

    pub(crate) fn uses_sack(&self) -> bool {
        self.halves.iter().all(|half| half.syn.offered.sack_permitted)
            || self.halves.iter().any(|half| half.counts.acks.with_sack > 0)
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

    /// Fetches what `segment`, sent by `direction`, will need.
    #[inline]
    pub(crate) fn fetch_for(&self, fetch: Fetch, direction: Direction, segment: &SegmentRecord) {
        let (has_data, has_stamp) = (segment.len() > 0, segment.stamp().is_some());
        fetch_value(fetch, &self.id);
        fetch_value(fetch, &self.key);
        fetch_value(fetch, &self.opening);
        fetch_value(fetch, &self.vantage);
        self.halves[direction].fetch_for_packet(fetch, has_data, has_stamp);
        self.halves[direction.reverse()].fetch_for_ack(fetch, !has_data, has_stamp);
    }

    /// The segment in flight that `segment` will change first.
    #[inline]
    pub(crate) fn next_in_flight(
        &self,
        direction: Direction,
        segment: &SegmentRecord,
    ) -> Option<&InFlightSegment> {
        match segment.len() > 0 {
            true => self.halves[direction].stream.in_flight.next_place(),
            false => self.halves[direction.reverse()].stream.in_flight.first_place(),
        }
    }

    /// Facts that tell whether `segment` is a copy of one seen before.
    #[inline]
    pub(crate) fn copy_context(&self, direction: Direction, segment: &SegmentRecord) -> CopyContext {
        let (own, other) = (&self.halves[direction], &self.halves[direction.reverse()]);
        let is_at_edge =
            |half: &Half| half.stream.coverage.as_ref().is_some_and(|c| c.next as u32 == segment.seq.get());
        let is_news = match segment.takes_sequence_space() {
            true => own.stream.coverage.is_none() || is_at_edge(own),
            false => {
                let una = SeqNum::new(other.stream.una as u32);
                segment.flags.contains(TcpFlags::ACK) && una.is_before(segment.ack)
            }
        };
        CopyContext {
            piece: own.sizes.wire_segment(segment.len()),
            has_ids: own.ids.repeated < REPEATED_IDS_MAX,
            has_copies: !is_news && own.counts.packets.copies > 0,
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
        let may_open = segment.flags.intersects(TcpFlags::SYN | TcpFlags::RST) || !self.is_open;
        if may_open && self.is_stray(direction, segment) {
            self.handle_stray(direction, segment);
            return;
        }
        self.share_time(direction, segment, now);
        self.last = self.last.max(now);
        if segment.is_cut_by_tool() {
            self.cut_by_tool = self.cut_by_tool.saturating_add(1);
        }
        self.count(direction, segment, now);
        if may_open {
            self.on_control(direction, segment, now, emit);
        }
        let is_same_window = self.on_window(direction, segment, now, emit);
        if segment.flags.contains(TcpFlags::ACK) {
            self.on_ack(direction, segment, is_same_window, now, seen, emit);
        }
        // A reset's sequence number is the receiver's expectation, or made up: no place in the stream.
        if !segment.flags.contains(TcpFlags::RST) {
            seen.kind = self.on_data(direction, segment, now, emit);
            if segment.is_v4() && !segment.flags.contains(TcpFlags::SYN) {
                self.on_id(direction, segment, seen);
            }
            self.resume(direction, segment, seen.kind);
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

    /// Event at a segment, at its place in the stream.
    fn event(&self, direction: Direction, segment: &SegmentRecord, kind: EventKind) -> Event {
        let coverage = self.halves[direction].stream.coverage.as_ref();
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

    /// True when data of `direction` is seen beside its receiver.
    #[inline]
    pub(crate) fn is_beside_receiver(&self, direction: Direction) -> bool {
        self.vantage.is_some_and(|place| !place.sees_sender(direction))
    }

    /// Place of the capture on the path: from the handshake, or from the shortest round trips of data.
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
        assert!(size_of::<Flow>() <= 3_264, "{}", size_of::<Flow>());
    }
}
