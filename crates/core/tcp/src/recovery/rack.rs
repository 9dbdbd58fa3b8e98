//! RACK: what was sent before something that has been delivered, and is still missing, is lost (RFC 8985
//! §6).
//!
//! ```text
//!   sent:       1   2   3   4   5         delivered so far: 5, sent at t5, round trip R
//!   missing:        2   3                 lost when now ≥ sent_at + R + reo_wnd
//! ```

use units::{Duration, Instant, SeqNum};

use super::{DUP_THRESHOLD, RttEstimator};
use crate::scoreboard::{Entry, Scoreboard, SendOrder};

/// Most the reordering window grows by D-SACKs, in quarters of the smallest round trip.
const REO_WND_MULT_MAX: u8 = 8;

/// Recoveries after which a grown reordering window is forgotten (RFC 8985 §6.2 step 4).
const REO_WND_PERSIST: u8 = 16;

/// Losses that the passing of time has shown.
#[derive(Clone, Copy, Default, Debug)]
pub(super) struct Found {
    /// Bytes newly marked lost.
    pub lost: u32,
    /// Those of them that another sender had sent.
    pub lost_before: u32,
    /// Time at which late segments count as lost.
    pub look_again: Option<Instant>,
}

/// RACK's view of the newest delivery.
#[derive(Clone, Debug, stored::Stored)]
pub(super) struct Rack {
    /// The most recently sent segment that was delivered.
    newest: Option<SendOrder>,
    /// Its round trip.
    rtt: Duration,
    /// Highest number delivered.
    fack: SeqNum,
    /// The same before the acknowledgement under way: its blocks come in any order.
    fack_before: SeqNum,
    reordering_seen: bool,
    reo_wnd_mult: u8,
    reo_wnd_persist: u8,
    /// D-SACKs count once per round: not before this number is acknowledged.
    d_sack_round: Option<SeqNum>,
}

impl Rack {
    pub(super) fn new(start: SeqNum) -> Self {
        Self {
            newest: None,
            rtt: Duration::ZERO,
            fack: start,
            fack_before: start,
            reordering_seen: false,
            reo_wnd_mult: 1,
            reo_wnd_persist: REO_WND_PERSIST,
            d_sack_round: None,
        }
    }

    /// An acknowledgement begins: what it delivers is judged by what was delivered before it, of which all up to `una`
    /// was acknowledged.
    pub(super) fn on_acknowledgement(&mut self, una: SeqNum) {
        self.fack_before = self.fack;
        // Its number would lie ahead again half a circle later.
        self.d_sack_round = self.d_sack_round.filter(|round| una.is_before(*round));
    }

    /// Takes in a delivered segment (RFC 8985 §6.2 steps 1 and 2), and whether it was reordered (step 3).
    pub(super) fn on_delivered(&mut self, entry: &Entry, min_rtt: Option<Duration>, now: Instant) {
        let rtt = now.saturating_since(entry.sent_at());
        // A retransmission acknowledged sooner than any round trip: the original was delivered.
        if entry.is_retransmitted && min_rtt.is_none_or(|min| rtt < min) {
            return;
        }
        if self.newest.is_none_or(|newest| entry.order().is_after(newest)) {
            self.newest = Some(entry.order());
            self.rtt = rtt;
        }
        if entry.end.is_before(self.fack_before) && !entry.is_retransmitted {
            self.reordering_seen = true;
        }
        self.fack = self.fack.later_of(entry.end);
    }

    /// A needless retransmission widens the reordering window once a round (RFC 8985 §6.2 step 4).
    pub(super) fn on_d_sack(&mut self, una: SeqNum, nxt: SeqNum) {
        if self.d_sack_round.is_none_or(|round| una.is_at_or_after(round)) {
            self.d_sack_round = Some(nxt);
            self.reo_wnd_mult = (self.reo_wnd_mult + 1).min(REO_WND_MULT_MAX);
            self.reo_wnd_persist = REO_WND_PERSIST;
            self.reordering_seen = true;
        }
    }

    /// A recovery has ended: a grown window fades after [`REO_WND_PERSIST`] of them (RFC 8985 §6.2 step 4).
    pub(super) fn on_recovery_end(&mut self) {
        self.reo_wnd_persist = self.reo_wnd_persist.saturating_sub(1);
        if self.reo_wnd_persist == 0 {
            self.reo_wnd_mult = 1;
            self.reo_wnd_persist = REO_WND_PERSIST;
        }
    }

    /// Time that a segment may be late before it counts as lost (RFC 8985 §6.2 step 4).
    fn reordering_window(&self, board: &Scoreboard, rtt: &RttEstimator, is_recovering: bool) -> Duration {
        if !self.reordering_seen && (is_recovering || board.has_sacked_segments(DUP_THRESHOLD)) {
            return Duration::ZERO;
        }
        let min = rtt.min().unwrap_or(Duration::ZERO);
        min.mul_ratio(self.reo_wnd_mult.into(), 4).min(rtt.smoothed().unwrap_or(Duration::ZERO))
    }

    /// Marks what is lost (RFC 8985 §6.2 step 5).
    pub(super) fn detect(
        &self,
        board: &mut Scoreboard,
        rtt: &RttEstimator,
        is_recovering: bool,
        now: Instant,
    ) -> Found {
        let mut found = Found::default();
        let Some(newest) = self.newest else { return found };
        // With nothing SACKed and the oldest entry newer than the newest delivery, none can be missing.
        let is_possible =
            board.sacked_bytes() > 0 || board.front().is_some_and(|e| newest.is_after(e.order()));
        if !is_possible {
            return found;
        }
        let patience = self.rtt + self.reordering_window(board, rtt, is_recovering);
        for index in 0..board.len() {
            let Some(entry) = board.entry(index) else { break };
            if entry.is_sacked || entry.is_lost || !newest.is_after(entry.order()) {
                continue;
            }
            let due = entry.sent_at() + patience;
            if due <= now {
                let is_earlier = entry.is_earlier();
                let lost = board.mark_lost(index);
                found.lost += lost;
                found.lost_before += if is_earlier { lost } else { 0 };
            } else {
                found.look_again = Some(found.look_again.map_or(due, |at| at.max(due)));
            }
        }
        found
    }

    /// True when something sent after `order` has been delivered.
    pub(super) fn is_before_newest(&self, order: SendOrder) -> bool {
        self.newest.is_some_and(|newest| newest.is_after(order))
    }

    /// Segments may overtake each other on this path.
    pub(super) fn sees_reordering(&self) -> bool {
        self.reordering_seen
    }

    /// True when `entry` is overdue even if nothing later was delivered.
    ///
    /// A repair gets half a round more: it is queued behind all that was under way, whose round trips
    /// nobody measures, and a sender that takes it for lost sends all of that again.
    pub(super) fn is_overdue(&self, entry: &Entry, rtt: &RttEstimator, now: Instant) -> bool {
        let round = rtt.smoothed().unwrap_or(Duration::ZERO).max(self.rtt);
        let grace = if entry.is_retransmitted { round / 2 } else { rtt.min().unwrap_or(Duration::ZERO) / 4 };
        now >= entry.sent_at() + round + grace
    }
}
