//! What an acknowledgement shows to be lost: by time (RACK), by counting where there is no SACK, and what a client discards.

use units::{Duration, Instant, SeqNum};

use super::{AckOutcome, Sender};
use crate::rack::DUP_THRESHOLD;
use crate::scoreboard::Sent;

impl Sender {
    pub(super) fn detect_losses(
        &mut self,
        is_duplicate: bool,
        is_explained: bool,
        out: &mut AckOutcome,
        now: Instant,
    ) {
        self.board.take_lowest_marked();
        if self.config.sack {
            out.lost += self.detect_by_time(now);
        }
        if is_duplicate && !out.has_d_sack {
            self.duplicate_acks += 1;
            self.unexplained_acks += u32::from(!is_explained && out.delivered == 0);
            self.on_duplicate_ack(out, now);
        } else if !self.config.sack && out.acked > 0 && self.timeout.is_none() && self.is_partial_ack() {
            out.lost += self.lose_head(); // RFC 6582 §3.2 step 3
        }
        let (lost, discarded) = self.lose_behind(now);
        out.lost += lost;
        out.discarded += discarded;
    }

    /// RFC 8985 §6.2 step 5; arms the timer for what is merely late.
    pub(super) fn detect_by_time(&mut self, now: Instant) -> u32 {
        let in_recovery = self.recover.is_some() || self.timeout.is_some();
        let (lost, again) = self.rack.detect(&mut self.board, &self.rtt, in_recovery, self.config.mss, now);
        self.timers.set_reordering(again);
        lost
    }

    pub(super) fn is_head_lost(&self) -> bool {
        self.board.front().is_some_and(|e| e.is_lost)
    }

    fn is_partial_ack(&self) -> bool {
        self.recover.is_some_and(|recover| self.board.una().is_before(recover))
    }

    /// Duplicates count where SACK is missing, and where the client discards what it cannot hold.
    fn on_duplicate_ack(&mut self, out: &mut AckOutcome, now: Instant) {
        let Some(head) = self.board.front().copied() else { return };
        if !self.config.sack {
            if self.duplicate_acks == DUP_THRESHOLD && self.recover.is_none() {
                out.lost += self.lose_head();
            }
        } else if self.is_beyond_edge() && self.duplicate_acks >= DUP_THRESHOLD {
            self.on_discards(&head, out, now);
        }
    }

    /// A client that drops what lies beyond its window answers without SACK: only the count and the time tell that the head is
    /// missing (H18).
    fn on_discards(&mut self, head: &Sent, out: &mut AckOutcome, now: Instant) {
        // Copies of what had arrived are answered like this too, if the peer does not tell them apart by D-SACK.
        let is_certain = self.board.sacked_bytes() > 0 || self.board.una().is_after(self.resent_until);
        let is_first =
            is_certain && !head.is_retransmitted && !self.rack.sees_reordering() && self.has_room();
        let is_due =
            if is_first { self.has_had_time(head, now) } else { self.rack.is_overdue(head, &self.rtt, now) };
        if !is_due || head.is_lost {
            return;
        }
        out.lost += self.lose_head();
        if !is_certain {
            // To take the rest for lost as well would send copies for ever; the answer to the head will tell.
            self.board.take_lowest_marked();
            self.note_overflow();
        }
    }

    fn note_overflow(&mut self) {
        if !self.has_room() {
            self.on_overflow();
        }
    }

    /// The peer could have answered it.
    fn has_had_time(&self, entry: &Sent, now: Instant) -> bool {
        now.saturating_since(entry.sent_at()) >= self.rtt.min().unwrap_or(Duration::MAX)
    }

    /// The client takes what arrives: what is missing did not.
    fn has_room(&self) -> bool {
        self.least_window > self.widest_window / 2
    }

    pub(super) fn note_window(&mut self, has_moved: bool) {
        self.least_window = if has_moved { self.window } else { self.least_window.min(self.window) };
        self.widest_window = self.widest_window.max(self.window);
    }

    /// Data was sent beyond the window, on purpose.
    fn is_beyond_edge(&self) -> bool {
        self.is_opportunistic() && self.board.nxt().is_after(self.right_edge())
    }

    pub(super) fn lose_head(&mut self) -> u32 {
        self.board.split_at(self.board.una() + self.config.mss.max(1));
        self.board.mark_lost(0)
    }

    /// H18: what the client does not hold because of what has just been found missing. Returns the bytes that were lost on the way,
    /// without those that it discards, and of these what it has answered already.
    pub(super) fn lose_behind(&mut self, now: Instant) -> (u32, u32) {
        let Some(hole) = self.board.take_lowest_marked() else { return (0, 0) };
        // A window from the hole on is what the client will hold, once it has all before.
        let edge = hole + self.right_edge().distance_from(self.board.una()).max(0).unsigned_abs();
        if !self.is_opportunistic() || edge.is_at_or_after(self.board.nxt()) {
            return (0, 0);
        }
        self.board.split_at(edge);
        let lost = self.lose_hole(hole, edge, now);
        let first = self.board.position(edge);
        let doomed: u32 = (first..self.board.len()).map(|index| self.board.mark_lost(index)).sum();
        self.board.take_lowest_marked();
        // Sent again at once all of that would be in the queue twice. Some have arrived, and were answered already.
        let arrived = self.unexplained_acks.saturating_mul(self.config.mss).min(doomed);
        self.doomed = self.doomed.saturating_add(doomed - arrived);
        self.doomed_until = Some(self.board.last_order());
        self.unexplained_acks = 0;
        self.note_overflow();
        if self.has_room() { (lost, arrived) } else { (lost + doomed, 0) }
    }

    /// All of the hole at once. What goes out behind the oldest segment would reach the client before the rest of the
    /// hole, and be discarded in its turn.
    fn lose_hole(&mut self, hole: SeqNum, edge: SeqNum, now: Instant) -> u32 {
        // Without a SACK nothing of the window has arrived, and what was discarded left behind all of it.
        let is_empty = self.board.sacked_bytes() == 0;
        let mut lost = 0;
        for index in self.board.position(hole)..self.board.position(edge) {
            let is_missing = self.board.entry(index).is_some_and(|e| {
                if is_empty {
                    self.has_had_time(e, now)
                } else {
                    self.rack.is_before_newest(e.order()) && !e.is_sacked
                }
            });
            lost += if is_missing { self.board.mark_lost(index) } else { 0 };
        }
        lost
    }

    /// An acknowledgement without news is of a segment that the peer has discarded; with one of what was sent after them
    /// the last has arrived. True when it was expected.
    pub(super) fn count_doomed(&mut self, is_answer: bool, out: &mut AckOutcome) -> bool {
        let was_taken = self.doomed_until.is_some_and(|last| self.board.una().is_at_or_after(last.end()));
        let is_over = was_taken || self.doomed_until.is_some_and(|last| self.rack.is_before_newest(last));
        let arrived = match (is_over, is_answer) {
            (true, _) => self.doomed,
            (false, true) => self.doomed.min(self.config.mss),
            (false, false) => 0,
        };
        self.doomed -= arrived;
        self.doomed_until = self.doomed_until.filter(|_| !is_over);
        if self.has_room() && !was_taken {
            out.discarded = arrived;
        }
        arrived > 0
    }
}
