//! Whether sending beyond the window pays (H18).
//!
//! ```text
//!                     it costs more than it brings; for good where the window shut
//!   betting ─────────────────────────────────────────▶ paused: the window is honoured
//!      ▲                                                  │
//!      └──────────────────────────────────────────────────┘
//!          so much was delivered meanwhile, and the window never fell to half: twice as much each time
//! ```

use super::{AckOutcome, Sender, WindowPolicy};

/// What sending beyond the window has cost and brought lately (H18).
#[derive(Clone, Copy, Default, Debug)]
pub(super) struct Bet {
    /// Bytes delivered in this epoch, or in this pause.
    delivered: u32,
    /// [`super::Sender::retransmitted_bytes`] when the epoch began, counted with wrap-around.
    retransmitted_before: u32,
    /// Most bytes under way: what a single loss makes the client discard, however well it holds the rest. In a pause the
    /// widest window.
    most: u32,
    /// Times the window shut on what was under way beyond it.
    shut: u8,
    /// The client discarded something because it had no room for it, and not because something before it was missing.
    has_overflowed: bool,
    /// Bets lost, less those won.
    losses: u8,
    is_paused: bool,
}

impl Bet {
    /// Bytes after which the accounts begin anew, unless more is under way.
    const EPOCH: u32 = 1 << 20;
    /// Bytes sent again that are no reason to give up, however little was delivered.
    const STAKE: u32 = 128 * 1024;
    /// Losses whose price, all that was under way, may be paid before as much was delivered: they come in groups.
    const LOSSES: u32 = 4;
    /// Times the window may shut in an epoch.
    const SHUT_MAX: u8 = 4;
    /// Bytes delivered within the window before the second bet; before each further one twice as many.
    const PAUSE: u32 = 1 << 20;
    /// Times the pause doubles at most: 64 MiB.
    const DOUBLINGS_MAX: u8 = 6;

    /// Losses of one whose client showed that it has no room.
    const FOR_GOOD: u8 = u8::MAX;

    /// The window is honoured for the time being.
    pub(super) fn is_paused(&self) -> bool {
        self.is_paused
    }

    /// The client had no room for what was sent beyond its window.
    pub(super) fn on_overflow(&mut self) {
        self.has_overflowed = true;
    }

    /// Takes in an acknowledgement while betting; true when the bet is lost.
    pub(super) fn on_delivered(
        &mut self,
        delivered: u32,
        under_way: u32,
        has_shut: bool,
        retransmitted: u64,
    ) -> bool {
        self.delivered = self.delivered.saturating_add(delivered);
        self.most = self.most.max(under_way);
        self.shut += u8::from(has_shut);
        if self.is_lost(retransmitted as u32) {
            let has_no_room = self.shut >= Self::SHUT_MAX;
            let again = (self.losses + 1).min(Self::DOUBLINGS_MAX + 1);
            let losses = if has_no_room { Self::FOR_GOOD } else { again };
            *self = Self { losses, is_paused: true, ..Self::default() };
            return true;
        }
        // There was time for several losses to show what they cost.
        if self.delivered >= Self::EPOCH.max(self.most.saturating_mul(Self::LOSSES)) {
            self.begin(self.losses.saturating_sub(1), retransmitted);
        }
        false
    }

    /// Takes in an acknowledgement during a pause. A client that lets its window fall to half has no room to spare for what
    /// lies beyond: the pause begins again.
    pub(super) fn on_honoured(&mut self, delivered: u32, window: u32, retransmitted: u64) {
        if self.losses == Self::FOR_GOOD {
            return;
        }
        self.most = self.most.max(window);
        self.delivered = if window > self.most / 2 { self.delivered.saturating_add(delivered) } else { 0 };
        if self.delivered >= Self::PAUSE << self.losses.saturating_sub(1) {
            self.begin(self.losses, retransmitted);
        }
    }

    fn begin(&mut self, losses: u8, retransmitted: u64) {
        *self = Self { losses, retransmitted_before: retransmitted as u32, ..Self::default() };
    }

    /// True when the client throws away twice what it takes, or again and again has no room: it cannot hold what is
    /// sent beyond its window, and betting on it only fills the link with copies.
    fn is_lost(&self, retransmitted: u32) -> bool {
        let again = retransmitted.wrapping_sub(self.retransmitted_before);
        let allowed = self.delivered.saturating_mul(2).max(self.most.saturating_mul(Self::LOSSES));
        self.shut >= Self::SHUT_MAX || self.has_overflowed || again > allowed.max(Self::STAKE)
    }
}

impl Sender {
    /// H18: goes back to honouring the window of a client that discards what lies beyond it, for a while.
    pub(super) fn judge_bet(&mut self, old_window: u32, out: &mut AckOutcome) {
        if self.config.policy != WindowPolicy::Opportunistic {
            return;
        }
        if self.bet.is_paused() {
            return self.bet.on_honoured(out.delivered, self.window, self.retransmitted_bytes);
        }
        let has_shut = old_window > 0 && self.discards_all();
        let under_way = self.board.nxt().since(self.board.una());
        out.fell_back = self.bet.on_delivered(out.delivered, under_way, has_shut, self.retransmitted_bytes);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Acknowledgements of a segment each, `n` of them, with this window.
    fn honour(bet: &mut Bet, n: u32, window: u32) {
        (0..n).for_each(|_| bet.on_honoured(1_024, window, 0));
    }

    fn lose(bet: &mut Bet) {
        let again = u64::from(bet.retransmitted_before) + u64::from(Bet::STAKE) + 1;
        assert!(bet.on_delivered(0, 0, false, again));
        assert!(bet.is_paused());
    }

    #[test]
    fn a_lost_bet_is_tried_again_after_pauses_that_double() {
        let mut bet = Bet::default();
        for pause in [1_024, 2_048, 4_096, 8_192] {
            lose(&mut bet);
            honour(&mut bet, pause - 1, 17_000);
            assert!(bet.is_paused(), "{pause}");
            honour(&mut bet, 1, 17_000);
            assert!(!bet.is_paused(), "{pause}");
        }
        (0..20).for_each(|_| {
            lose(&mut bet);
            honour(&mut bet, 64 * 1_024, 17_000);
        });
        assert!(!bet.is_paused(), "64 MiB at most");
    }

    #[test]
    fn a_client_without_room_is_never_bet_on_again() {
        let mut bet = Bet::default();
        assert!((0..Bet::SHUT_MAX).any(|_| bet.on_delivered(0, 0, true, 0)));
        honour(&mut bet, 1 << 20, 17_000);
        assert!(bet.is_paused());
    }

    #[test]
    fn a_bet_won_halves_the_next_pause() {
        let mut bet = Bet::default();
        lose(&mut bet);
        honour(&mut bet, 1_024, 17_000);
        assert!(!bet.on_delivered(Bet::EPOCH, 0, false, 0));
        lose(&mut bet);
        honour(&mut bet, 1_024, 17_000);
        assert!(!bet.is_paused());
    }

    #[test]
    fn a_client_whose_window_falls_is_not_bet_on_again() {
        let mut bet = Bet::default();
        lose(&mut bet);
        for _ in 0..100 {
            honour(&mut bet, 200, 17_000);
            honour(&mut bet, 1, 8_000);
        }
        assert!(bet.is_paused());
        honour(&mut bet, 1_024, 17_000);
        assert!(!bet.is_paused(), "it keeps up now");
    }

    #[test]
    fn what_was_sent_again_is_counted_from_the_last_epoch_on_beyond_four_gigabytes() {
        let mut bet = Bet::default();
        let before = u64::from(u32::MAX) - 10;
        bet.begin(0, before);
        assert!(!bet.on_delivered(0, 0, false, before + u64::from(Bet::STAKE)));
        assert!(bet.on_delivered(0, 0, false, before + u64::from(Bet::STAKE) + 1));
    }
}
