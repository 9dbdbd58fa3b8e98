//! [`Sender`]: what to send, what was lost, when to try again.
//!
//! | part | what it knows | source |
//! |---|---|---|
//! | [`SendQueue`] | how far the data goes | RFC 9293 §3.4 |
//! | [`Scoreboard`] | what was sent and is not acknowledged | RFC 6675 §3 |
//! | [`Recovery`] | what was lost, and the timers that find it | RFC 6675, 8985, 6298, 5682 |
//! | [`PeerWindow`] | how far the peer lets us send | RFC 9293 §3.8.6 |
//! | [`Opportunism`] | what is sent beyond that, and what becomes of it | \[MA\], H18 |
//! | [`Persist`] | when to ask a peer whose window is shut | RFC 9293 §3.8.6.1 |
//!
//! How *much* may be sent is not decided here: the caller's controller says it in a
//! [`SendContext`](crate::SendContext), and loss is only reported to it.

mod memory;
mod persist;
mod queue;
mod transmit;

use control::{LossKind, SendStamp};
use units::{Instant, SeqNum};

use persist::Persist;
use queue::SendQueue;

use crate::interface::{
    AckIn, AckOutcome, FlightBefore, SenderConfig, SentBefore, TimeoutOutcome, WindowPolicy,
};
use crate::opportunism::{Flight, Opportunism};
use crate::peer_window::PeerWindow;
use crate::recovery::{LossTimer, Recovery, RttEstimator};
use crate::scoreboard::Scoreboard;

/// Least segment size that a narrow path leaves.
const MSS_MIN: u32 = 64;

/// The sending half of a connection.
#[derive(Clone, Debug, stored::Stored)]
pub struct Sender {
    queue: SendQueue,
    board: Scoreboard,
    recovery: Recovery,
    window: PeerWindow,
    opportunism: Opportunism,
    persist: Persist,
    /// Probe to send out of turn.
    probe_due: Option<Probe>,
    retransmitted_bytes: u64,
}

/// A transmission that only asks for an answer.
#[derive(Clone, Copy, PartialEq, Eq, Debug, stored::Stored)]
enum Probe {
    /// RFC 8985 §7.3.
    TailLoss,
    /// RFC 9293 §3.8.6.1.
    Window,
}

impl Sender {
    /// A sender that has sent nothing.
    #[must_use]
    pub fn new(config: SenderConfig) -> Self {
        Self {
            queue: SendQueue::new(config.start),
            board: Scoreboard::new(config.start, config.mss),
            recovery: Recovery::new(&config),
            window: PeerWindow::new(config.window, config.start, config.peer_seq),
            opportunism: Opportunism::new(&config),
            persist: Persist::default(),
            probe_due: None,
            retransmitted_bytes: 0,
        }
    }

    /// A sender that goes on where another one ended whose notes are lost: `config.start` is the oldest
    /// number that was not acknowledged then.
    ///
    /// What that one had under way is part of what is in flight; `before` says what is to be thought of it. Its
    /// acknowledgements tell no round trip, since nobody knows when it was sent. `stamp` is of now.
    #[must_use]
    pub fn resumed(config: SenderConfig, before: SentBefore, stamp: SendStamp) -> Self {
        let now = stamp.sent_at;
        let mut sender = Self::new(config);
        sender.queue = SendQueue::resumed(before.end, before.fin, before.nxt);
        if let Some(srtt) = before.srtt {
            sender.recovery.note_round_trip(srtt, before.min_rtt, now);
        }
        let under_way = before.nxt.distance_from(config.start).max(0).unsigned_abs();
        if under_way > 0 {
            sender.board.push_earlier(under_way, stamp);
            sender.opportunism.on_resend(before.nxt);
            match before.flight {
                // A probe would only repeat what arrives: the time-out comes first.
                FlightBefore::Arrives => sender.recovery.on_probe(now),
                FlightBefore::Suspect => {
                    sender.recovery.on_timeout(&mut sender.board, &mut TimeoutOutcome::default(), now);
                }
            }
        }
        sender.refresh_timers(now);
        sender
    }

    /// The oldest unacknowledged number.
    #[must_use]
    pub fn una(&self) -> SeqNum {
        self.board.una()
    }
    /// The next number to send.
    #[must_use]
    pub fn nxt(&self) -> SeqNum {
        self.board.nxt()
    }
    /// Bytes believed to be in the network, those included that the peer will discard.
    #[must_use]
    pub fn in_flight(&self) -> u32 {
        self.board.in_flight().saturating_add(self.opportunism.expected_discards())
    }
    /// True when nothing waits for an acknowledgement.
    #[must_use]
    pub fn is_idle(&self) -> bool {
        self.board.is_empty()
    }
    /// The peer's window in bytes.
    #[must_use]
    pub fn window(&self) -> u32 {
        self.window.size()
    }
    /// Round-trip figures of this connection.
    #[must_use]
    pub fn rtt(&self) -> &RttEstimator {
        self.recovery.rtt()
    }
    /// Payload bytes sent more than once.
    #[must_use]
    pub fn retransmitted_bytes(&self) -> u64 {
        self.retransmitted_bytes
    }
    /// Largest payload of one segment.
    #[must_use]
    pub fn mss(&self) -> u32 {
        self.board.mss()
    }
    /// Bytes waiting to be sent for the first time.
    #[must_use]
    #[inline]
    pub fn unsent(&self) -> u32 {
        self.queue.unsent(self.board.nxt())
    }
    /// True when everything, the end included, has been acknowledged.
    #[must_use]
    pub fn is_fin_acked(&self) -> bool {
        self.queue.is_fin_acked(self.board.una())
    }
    /// True when all data has been acknowledged; a FIN need not be.
    #[must_use]
    pub fn is_data_acked(&self) -> bool {
        self.board.una().is_at_or_after(self.queue.end())
    }

    /// Changes whether the peer's window limits what is sent.
    pub fn set_window_policy(&mut self, policy: WindowPolicy) {
        self.opportunism.set_policy(policy);
    }

    /// Lowers the segment size, because the path turned out narrower (RFC 1191); returns the bytes under way
    /// that were too long for it and are to be sent again.
    pub fn on_path_mtu(&mut self, mss: u32) -> u32 {
        let mss = mss.max(MSS_MIN);
        if mss < self.board.mss() { self.board.lower_mss(mss) } else { 0 }
    }

    /// Says that bytes up to `end` may be sent, and whether the stream ends there.
    pub fn set_available(&mut self, end: SeqNum, fin: bool) {
        self.queue.extend(end, fin);
    }

    /// Takes for sent and acknowledged what the peer has of elsewhere, up to `to`, of the data that may be
    /// sent; it has all that was sent. Does nothing otherwise.
    pub fn skip_to(&mut self, to: SeqNum) {
        if self.board.una() == self.board.nxt()
            && to.is_after(self.board.nxt())
            && to.is_at_or_before(self.queue.end())
        {
            self.board.skip_to(to);
            self.window.move_to(to);
        }
    }

    /// Data under way, beside what is known of discards, for judging it.
    fn flight(&mut self, now: Instant) -> (&mut Opportunism, Flight<'_>) {
        let flight = Flight { board: &mut self.board, recovery: &self.recovery, window: self.window, now };
        (&mut self.opportunism, flight)
    }

    /// Takes in an acknowledgement (RFC 9293 §3.10.7.4, RFC 6675 §5).
    pub fn on_ack(&mut self, ack: &AckIn<'_>, now: Instant) -> AckOutcome {
        let mut out = AckOutcome::default();
        if ack.ack.is_after(self.board.nxt()) {
            out.is_unacceptable = true;
            return out;
        }
        let before = self.window;
        let was_shut = before.discards_all(self.board.nxt());
        self.window.update(ack.window, ack.ack, ack.seq);
        out.window = self.window.size();
        let has_opened = was_shut && out.window > 0;
        self.recovery.take_d_sack(ack, &self.board, &mut out);
        let has_original = self.recovery.take_deliveries(ack, &mut self.board, &mut out, now);
        self.opportunism.note_window(self.window, out.acked > 0, self.board.una());
        // RFC 5681 §2; one that reports something new behind a hole counts as well.
        let is_duplicate = out.acked == 0
            && ack.ack == self.board.una()
            && !ack.has_payload
            && self.window == before
            && !self.board.is_empty();
        out.is_duplicate = is_duplicate && out.delivered == 0;
        let retransmitted = self.retransmitted_bytes;
        let (opportunism, flight) = self.flight(now);
        let is_answer = out.is_duplicate && !out.has_d_sack;
        let was_expected = opportunism.count_arrived(&flight, is_answer, &mut out);
        opportunism.judge(&flight, before, retransmitted, &mut out);
        self.recovery.judge_timeout(has_original, has_opened, &mut self.board, &mut out);
        self.detect_losses(is_duplicate, was_expected, &mut out, now);
        self.recovery.end_if_done(&self.board);
        out.is_new_loss = out.lost > 0 && self.recovery.begin(&self.board);
        let brings_nothing =
            out.acked == 0 && out.delivered == 0 && !ack.has_payload && self.window == before;
        let repaired = self.recovery.judge_tail_probe(ack, brings_nothing, out.has_d_sack);
        out.lost += repaired;
        out.is_new_loss |= repaired > 0;
        out.is_recovering = self.recovery.is_recovering();
        // Not for an acknowledgement without news: a peer that uploads sends those all the time.
        if out.acked > 0 || out.delivered > 0 || out.lost > 0 {
            self.recovery.rearm(&self.board, now);
        }
        self.refresh_timers(now);
        out
    }

    /// Finds what an acknowledgement shows to be lost: by time, by counting, and behind what is found.
    fn detect_losses(&mut self, is_duplicate: bool, was_expected: bool, out: &mut AckOutcome, now: Instant) {
        self.board.take_lowest_marked();
        if self.recovery.has_sack() {
            let (lost, lost_before) = self.recovery.detect_by_time(&mut self.board, now);
            out.lost += lost;
            out.lost_before += lost_before;
        }
        if is_duplicate && !out.has_d_sack {
            out.lost += self.recovery.on_duplicate_ack(&mut self.board);
            let is_unexplained = !was_expected && out.delivered == 0;
            let (opportunism, mut flight) = self.flight(now);
            out.lost += opportunism.on_duplicate_ack(&mut flight, is_unexplained);
        } else if out.acked > 0 {
            out.lost += self.recovery.on_partial_ack(&mut self.board);
        }
        let (opportunism, mut flight) = self.flight(now);
        let behind = opportunism.lose_behind(&mut flight);
        out.lost += behind.lost;
        out.discarded += behind.discarded;
    }

    /// Time at which [`Sender::on_timeout`] is to be called.
    #[must_use]
    #[inline]
    pub fn next_deadline(&self) -> Option<Instant> {
        self.recovery.next_deadline(&self.board).into_iter().chain(self.persist.deadline()).min()
    }

    /// Says that data or window may have changed without an acknowledgement.
    #[inline]
    pub fn refresh_timers(&mut self, now: Instant) {
        let is_stuck = self.board.is_empty() && self.unsent() > 0 && self.new_len(u32::MAX).is_none();
        if is_stuck {
            self.persist.start(self.rtt().rto(), self.recovery.rto_max(), now);
        } else {
            self.persist.stop();
        }
    }

    /// Acts on every timer that is due; calling it early does nothing.
    pub fn on_timeout(&mut self, now: Instant) -> TimeoutOutcome {
        let mut out = TimeoutOutcome::default();
        if self.recovery.take_reordering(now) {
            self.on_reordering_timer(&mut out, now);
        }
        if self.persist.take_due(now) {
            self.probe_due = Some(Probe::Window);
            out.sent_probe = true;
        }
        let due = if self.board.is_empty() { None } else { self.recovery.take_due(now) };
        match due {
            Some(LossTimer::TailProbe) => {
                self.probe_due = Some(Probe::TailLoss);
                out.sent_probe = true;
                self.recovery.arm_rto(now);
            }
            Some(LossTimer::Retransmission) => {
                self.opportunism.on_timeout();
                self.recovery.on_timeout(&mut self.board, &mut out, now);
            }
            None => {}
        }
        self.refresh_timers(now);
        out
    }

    /// Marks lost what was merely late until now (RFC 8985 §6.2 step 5).
    fn on_reordering_timer(&mut self, out: &mut TimeoutOutcome, now: Instant) {
        self.board.take_lowest_marked();
        let (mut lost, lost_before) = self.recovery.detect_by_time(&mut self.board, now);
        out.lost_before += lost_before;
        let (opportunism, mut flight) = self.flight(now);
        lost += opportunism.lose_behind(&mut flight).lost;
        if lost > 0 {
            out.lost += lost;
            out.kind = Some(LossKind::Fast);
            out.is_new_loss |= self.recovery.begin(&self.board);
        }
    }
}

#[cfg(test)]
mod tests;
