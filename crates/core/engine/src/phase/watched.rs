//! [`Watched`]: a flow of a trial's control group. It passes bit for bit, and is measured between here and its sink.

use std::collections::VecDeque;

use units::{Duration, Instant, SeqNum};
use wire::{Tcp, TcpFlags};

use super::bounds::{Bounds, Sender};
use super::next::Next;
use crate::boundary::Verdict;
use crate::direction::End;
use crate::handshake::Agreement;
use crate::pass::PassReason;
use crate::segment::{Context, Segment};
use crate::trial::Seen;

/// Segments under way that are timed at most.
const MARKS_MAX: usize = 256;

/// Holes that are remembered at most: of what fills others it is not known that it comes for the first time.
const HOLES_MAX: usize = 32;

/// Distance ahead of all data within which a number is believed: no window is larger (RFC 7323 §2.2).
const AHEAD_MAX: u32 = 1 << 30;

/// A flow that passes and is measured.
#[derive(Debug, stored::Stored)]
pub(crate) struct Watched {
    source_isn: SeqNum,
    sink_isn: SeqNum,
    /// Highest number the sink has acknowledged.
    una: SeqNum,
    /// One past the highest number that went to it.
    nxt: SeqNum,
    marks: VecDeque<Mark>,
    /// Numbers below `nxt` that have not come: lost before us, or overtaken.
    holes: VecDeque<(SeqNum, SeqNum)>,
    resent: u64,
    has_ended: [bool; 2],
    /// Bytes that the last segment has shown to be delivered.
    delivered: u64,
    rtt: Option<Duration>,
    /// Bounds of the hosts whose segments are believed; all are where that is not known.
    bounds: Option<Bounds>,
}

/// A segment, or a super-packet, on its way to the sink for the first time.
#[derive(Clone, Copy, Debug, stored::Stored)]
struct Mark {
    start: SeqNum,
    end: SeqNum,
    at: Instant,
}

impl Watched {
    /// Begins with a handshake that is complete.
    pub(crate) fn new(agreement: &Agreement) -> Self {
        let start = agreement.source.isn + 1;
        Self {
            source_isn: agreement.source.isn,
            sink_isn: agreement.sink.isn,
            una: start,
            nxt: start,
            marks: VecDeque::new(),
            holes: VecDeque::new(),
            resent: 0,
            has_ended: [false; 2],
            delivered: 0,
            rtt: None,
            bounds: Some(Bounds::new(agreement)),
        }
    }

    /// Takes in a segment, which goes on as it is.
    pub(super) fn on_segment(&mut self, segment: &Segment<'_>, now: Instant) -> (Verdict, Next) {
        (self.delivered, self.rtt) = (0, None);
        let is_syn = segment.has(TcpFlags::SYN) && !segment.has(TcpFlags::RST);
        let bounds = self.bounds.as_mut().filter(|_| !is_syn);
        let sender = bounds.map_or(Sender::Host, |bounds| bounds.note(segment.from, segment.tcp));
        if is_syn || sender == Sender::Stranger {
            return (Verdict::Forward, Next::Stay);
        }
        if segment.has(TcpFlags::RST) {
            return (Verdict::Forward, Next::Leave(PassReason::Reset));
        }
        match segment.from {
            End::Source => self.on_data(segment.tcp, now),
            End::Sink => self.on_ack(segment.tcp, now),
        }
        self.has_ended[usize::from(segment.from == End::Sink)] |=
            segment.has(TcpFlags::FIN) && sender == Sender::Host;
        // What is still under way is measured, too.
        let is_over = self.has_ended == [true; 2] && self.una == self.nxt;
        (Verdict::Forward, if is_over { Next::Leave(PassReason::Closed) } else { Next::Stay })
    }

    /// Silence ends it.
    pub(super) fn on_deadline(&self, last_activity: Instant, cx: &Context<'_>) -> Next {
        let is_silent = cx.now.saturating_since(last_activity) >= cx.config.idle_timeout;
        if is_silent { Next::Leave(PassReason::Idle) } else { Next::Stay }
    }

    fn on_data(&mut self, tcp: &Tcp, now: Instant) {
        let (start, end) = (tcp.seq, tcp.seq_end());
        if tcp.segment_len() == 0 || end.is_after(self.nxt + AHEAD_MAX) {
            return;
        }
        if start.is_before(self.nxt) {
            self.on_old(start, if end.is_before(self.nxt) { end } else { self.nxt });
        }
        if !end.is_after(self.nxt) {
            return;
        }
        if start.is_after(self.nxt) && self.holes.len() < HOLES_MAX {
            self.holes.push_back((self.nxt, start));
        }
        if self.marks.len() < MARKS_MAX {
            let start = self.nxt.later_of(start);
            self.marks.push_back(Mark { start, end, at: now });
        }
        self.nxt = end;
    }

    /// Numbers below the highest one: sent again, unless they fill a hole.
    fn on_old(&mut self, start: SeqNum, end: SeqNum) {
        let mut again = u64::from(end.since(start));
        for _ in 0..self.holes.len() {
            let Some((from, to)) = self.holes.pop_front() else { break };
            let (first, last) = (from.later_of(start), if to.is_before(end) { to } else { end });
            if !last.is_after(first) {
                self.holes.push_back((from, to));
                continue;
            }
            again -= u64::from(last.since(first));
            let rests = [(from, first), (last, to)];
            self.holes.extend(rests.into_iter().filter(|(from, to)| to.is_after(*from)));
        }
        self.resent += again;
        // Which of the two copies an acknowledgement answers, nobody knows (Karn).
        self.marks.retain(|mark| !(mark.start.is_before(end) && mark.end.is_after(start)));
    }

    fn on_ack(&mut self, tcp: &Tcp, now: Instant) {
        if !tcp.flags.contains(TcpFlags::ACK) || tcp.ack.is_after(self.nxt) {
            return;
        }
        if !tcp.options.sack.is_empty() {
            // What waits behind a hole is acknowledged when the hole is filled, not when it came.
            self.marks.clear();
        }
        if !tcp.ack.is_after(self.una) {
            return;
        }
        self.delivered = u64::from(tcp.ack.since(self.una));
        self.una = tcp.ack;
        self.holes.retain(|(_, to)| to.is_after(tcp.ack));
        while let Some(mark) = self.marks.front().filter(|mark| mark.start.is_before(tcp.ack)) {
            let is_whole = mark.end.is_at_or_before(tcp.ack);
            // That of a segment of an older one would have the time until the last one was sent in it.
            if tcp.ack.is_at_or_before(mark.end) {
                self.rtt = Some(now.saturating_since(mark.at));
            }
            if !is_whole {
                break;
            }
            self.marks.pop_front();
        }
    }

    /// Nothing is owed: a SYN that is not one of this connection's own, sent again, begins something new.
    pub(super) fn gives_way_to(&self, syn: &Segment<'_>) -> bool {
        let own = if syn.from == End::Sink { self.sink_isn } else { self.source_isn };
        syn.tcp.seq != own
    }

    /// Facts that the last segment has shown.
    pub(crate) fn seen(&self) -> Seen {
        Seen { delivered: self.delivered, rtt: self.rtt, owes: self.una != self.nxt }
    }

    /// Payload that went to the sink more than once, bytes.
    pub(crate) fn resent_bytes(&self) -> u64 {
        self.resent
    }

    /// Passed on and not acknowledged, bytes.
    pub(crate) fn in_flight(&self) -> u32 {
        self.nxt.since(self.una)
    }
}
