//! Segments between the same ends that belong to another connection: what an earlier one has left, and SYNs that
//! nobody took.
//!
//! A client may use a port again that its server has not given up (RFC 9293 §3.5.1): the server answers the SYN
//! with an acknowledgement of the old numbers, the client resets that, and sends its SYN again. And a SYN may be
//! answered twice with different numbers; then the client's acknowledgement says which answer holds. None of
//! these has a place in the stream, so they are only counted.

use units::SeqNum;
use wire::TcpFlags;

use super::Flow;
use crate::direction::Direction;
use crate::half::SynOptions;
use crate::segment_record::SegmentRecord;

/// No SYN carries more, bytes.
const EARLY_MAX: u32 = 1 << 16;

/// Treatment of a segment that may open another connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reopening {
    /// It is of this flow.
    No,
    /// It opens another one.
    Yes,
    /// Only the answer tells.
    IfAnswered,
}

impl Flow {
    /// Whether a SYN opens another connection between the same ends, as after quick reuse of a port.
    pub(crate) fn is_reopened_by(&self, direction: Direction, segment: &SegmentRecord) -> Reopening {
        let own = &self.halves[direction];
        let seq = segment.seq;
        if !segment.flags.contains(TcpFlags::SYN) || own.syn.isn == Some(seq) {
            return Reopening::No;
        }
        let is_answer = segment.flags.contains(TcpFlags::ACK);
        let is_idle = own.syn.isn.is_none() && own.stream.coverage.is_none();
        if is_idle && (is_answer || self.opening.client.is_none()) {
            // The answer to the SYN seen, or the start of a connection of which only the other side was seen.
            return Reopening::No;
        }
        if own.syn.isn.is_none() && !self.is_closed {
            // The handshake comes after its data: packets out of order in the file.
            let is_first = own.stream.coverage.as_ref().is_none_or(|c| c.first as u32 == (seq + 1).get());
            if is_first {
                return Reopening::No;
            }
        }
        if is_answer {
            let is_ours = own.syn.isn.is_some() && self.answers_the_same_syn(direction, segment);
            return if is_ours { Reopening::No } else { Reopening::Yes };
        }
        let has_data = self.halves.iter().any(|half| !half.activity.first_data.is_none());
        let may_go_on = !self.is_closed && (self.is_open || has_data);
        if may_go_on { Reopening::IfAnswered } else { Reopening::Yes }
    }

    /// True when a SYN-ACK answers the SYN that another one has answered.
    fn answers_the_same_syn(&self, direction: Direction, segment: &SegmentRecord) -> bool {
        match self.halves[direction.reverse()].syn.isn {
            Some(isn) => (1..=EARLY_MAX).contains(&segment.ack.since(isn)),
            None => segment.ack == self.opening.answered,
        }
    }

    /// True when a segment has no place in this connection: a further answer to its SYN, which may yet turn out to
    /// be the one that holds, or one of an earlier connection.
    pub(super) fn is_stray(&mut self, direction: Direction, segment: &SegmentRecord) -> bool {
        if segment.flags.contains(TcpFlags::SYN) {
            let own = &mut self.halves[direction];
            let Some(isn) = own.syn.isn.filter(|isn| *isn != segment.seq) else { return false };
            let is_answer = segment.flags.contains(TcpFlags::ACK);
            if is_answer && own.stream.una as u32 == isn.get() {
                own.syn.rival = Some(Box::new((segment.seq, offer(segment))));
            }
            return is_answer;
        }
        self.is_of_earlier_connection(direction, segment)
    }

    /// True when a segment between a SYN and its answer has numbers that do not follow from it: what the server
    /// says before the client has acknowledged anything, and the client's resets of that.
    fn is_of_earlier_connection(&self, direction: Direction, segment: &SegmentRecord) -> bool {
        let Some(client) = self.opening.client.filter(|_| self.opening.syn_ack.is_none()) else {
            return false;
        };
        let half = &self.halves[client];
        let (Some(isn), flags) = (half.syn.isn, &half.counts.flags) else { return false };
        let has_acknowledged = half.counts.packets.all > flags.syn + flags.rst;
        let number = match direction == client {
            true if segment.flags.contains(TcpFlags::RST) => segment.seq,
            false if segment.flags.contains(TcpFlags::ACK) => segment.ack,
            _ => return false,
        };
        !has_acknowledged && number.since(isn) > EARLY_MAX
    }

    /// Counts a segment that has no place in the stream.
    pub(super) fn handle_stray(&mut self, direction: Direction, segment: &SegmentRecord) {
        let now = segment.time;
        self.share_time(direction, segment, now);
        self.last = self.last.max(now);
        self.count(direction, segment, now);
        self.halves[direction].counts.data.not_unique += segment.len();
        if segment.flags.contains(TcpFlags::SYN | TcpFlags::ACK) {
            self.opening.syn_acks = self.opening.syn_acks.saturating_add(1);
        }
    }

    /// The client acknowledges a SYN-ACK: takes that one of two whose number it is.
    pub(super) fn choose_syn_ack(&mut self, client: Direction, segment: &SegmentRecord) {
        let server = &mut self.halves[client.reverse()];
        let Some(rival) = server.syn.rival.take() else { return };
        let (isn, offered) = *rival;
        let beyond = |isn: SeqNum| segment.ack.since(isn + 1);
        if server.syn.isn.is_some_and(|first| beyond(isn) < beyond(first)) {
            server.begin_at(isn);
            self.on_offer(client.reverse(), isn, offered);
        }
    }

    /// Keeps a SYN until its answer tells what it opens.
    pub(crate) fn wait_for_answer(&mut self, syn: &SegmentRecord) {
        self.waiting_syn = Some(Box::new(*syn));
    }

    /// Gives the SYN that waits, if `segment` says that it opens another connection: its answer, or the same again.
    /// Else that SYN is one that nobody took.
    pub(crate) fn settle_waiting_syn(&mut self, segment: Option<&SegmentRecord>) -> Option<SegmentRecord> {
        let syn = *self.waiting_syn.take()?;
        let is_confirmed = segment.is_some_and(|segment| {
            let answers = segment.flags.intersects(TcpFlags::SYN | TcpFlags::RST)
                && segment.flags.contains(TcpFlags::ACK)
                && (1..=EARLY_MAX).contains(&segment.ack.since(syn.seq));
            let is_again = segment.flags.contains(TcpFlags::SYN) && segment.seq == syn.seq;
            if segment.is_from_low() == syn.is_from_low() { is_again } else { answers }
        });
        if is_confirmed {
            return Some(syn);
        }
        self.handle_stray(self.direction(&syn), &syn);
        None
    }
}

/// Offer of a SYN.
pub(super) fn offer(segment: &SegmentRecord) -> SynOptions {
    SynOptions {
        mss: segment.mss(),
        scale: segment.scale(),
        sack_permitted: segment.is_sack_permitted(),
        stamp: segment.stamp(),
    }
}
