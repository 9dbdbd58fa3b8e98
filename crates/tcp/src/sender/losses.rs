//! What an acknowledgement shows to be lost: by time (RACK), by counting where there is no SACK, and what a client discards.

use units::{Duration, Instant};

use super::{AckIn, AckOutcome, Sender};
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
        let head_was_lost = self.is_head_lost();
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
        if !head_was_lost && self.is_head_lost() {
            out.lost += self.lose_hole(now);
            self.lose_beyond_window();
        }
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
        } else if self.is_beyond_edge()
            && self.duplicate_acks >= DUP_THRESHOLD
            && self.is_of_discards()
            && self.rack.is_overdue(&head, &self.rtt, now)
        {
            // A client that drops what lies beyond its window answers without SACK: only the count and
            // the time tell that the head is missing (H18).
            out.lost += self.lose_head();
        }
    }

    /// Acknowledgements without news cannot be of copies of what had arrived; a peer need not tell these apart by D-SACK, and
    /// to take them for a loss would send copies for ever.
    fn is_of_discards(&self) -> bool {
        self.board.sacked_bytes() > 0 || self.board.una().is_after(self.resent_until)
    }

    /// The peer could have answered it.
    fn has_had_time(&self, entry: &Sent, now: Instant) -> bool {
        now.saturating_since(entry.sent_at()) >= self.rtt.min().unwrap_or(Duration::MAX)
    }

    /// Data was sent beyond the window, on purpose.
    fn is_beyond_edge(&self) -> bool {
        self.is_opportunistic() && self.board.nxt().is_after(self.right_edge())
    }

    pub(super) fn lose_head(&mut self) -> u32 {
        self.board.split_at(self.board.una() + self.config.mss.max(1));
        self.board.mark_lost(0)
    }

    /// H18: all of the hole at once. What goes out behind the oldest segment would reach the client before the rest of the
    /// hole, and be discarded in its turn.
    pub(super) fn lose_hole(&mut self, now: Instant) -> u32 {
        if !self.is_beyond_edge() {
            return 0;
        }
        let edge = self.right_edge();
        self.board.split_at(edge);
        let behind = self.board.position(edge);
        // Without a SACK nothing of the window has arrived, and what was discarded left behind all of it.
        let is_empty = self.board.sacked_bytes() == 0;
        let mut lost = 0;
        for index in 1..behind {
            let is_missing = self.board.entry(index).is_some_and(|e| {
                if is_empty {
                    self.has_had_time(e, now)
                } else {
                    self.rack.is_before_newest(e) && !e.is_sacked
                }
            });
            lost += if is_missing { self.board.mark_lost(index) } else { 0 };
        }
        lost
    }

    /// H18: while the head is missing the client holds one window behind it and discards the rest.
    pub(super) fn lose_beyond_window(&mut self) {
        if !self.is_beyond_edge() {
            return;
        }
        let edge = self.right_edge();
        self.board.split_at(edge);
        let first = self.board.position(edge);
        let lost: u32 = (first..self.board.len()).map(|index| self.board.mark_lost(index)).sum();
        // Sent again at once all of that would be in the queue twice. Some have arrived, and were answered already.
        let arrived = self.unexplained_acks.saturating_mul(self.config.mss);
        self.doomed = self.doomed.saturating_add(lost.saturating_sub(arrived));
        self.unexplained_acks = 0;
    }

    /// An acknowledgement without news is of a segment that the peer has discarded; with the repair, which left behind them,
    /// the last has arrived. True when it was expected.
    pub(super) fn count_doomed(&mut self, ack: &AckIn<'_>, out: &mut AckOutcome) -> bool {
        let is_news = out.acked > 0 || out.delivered > 0 || out.has_d_sack || ack.has_payload;
        let expected = match (out.acked > 0, is_news) {
            (true, _) => self.doomed,
            (_, true) => 0,
            _ => self.doomed.min(self.config.mss),
        };
        self.doomed -= expected;
        out.discarded = if !is_news && self.is_beyond_edge() { self.config.mss } else { expected };
        expected > 0
    }
}
