//! Whether sending beyond the window pays (H18).

/// What sending beyond the window has cost and brought lately (H18).
#[derive(Clone, Copy, Default, Debug)]
pub(super) struct Bet {
    /// Bytes delivered.
    pub(super) delivered: u64,
    /// Bytes sent more than once before.
    pub(super) retransmitted_before: u64,
    /// Times the window shut on what was under way beyond it.
    pub(super) shut: u32,
    /// Most bytes under way: what a single loss makes the client discard, however well it holds the rest.
    pub(super) under_way: u64,
}

impl Bet {
    /// Bytes after which the accounts begin anew, unless more is under way.
    const EPOCH: u64 = 1 << 20;
    /// Bytes sent again that are no reason to give up, however little was delivered.
    const STAKE: u64 = 128 * 1024;
    /// Losses whose price, all that was under way, may be paid before as much was delivered: they come in groups.
    const LOSSES: u64 = 4;
    /// Times the window may shut in an epoch.
    const SHUT_MAX: u32 = 4;

    /// True when the client throws away twice what it takes, or again and again has no room: it cannot hold what is
    /// sent beyond its window, and betting on it only fills the link with copies.
    pub(super) fn is_lost(&self, retransmitted: u64) -> bool {
        let again = retransmitted - self.retransmitted_before;
        self.shut >= Self::SHUT_MAX
            || again > (2 * self.delivered).max(Self::STAKE).max(Self::LOSSES * self.under_way)
    }

    /// True when the accounts begin anew: there was time for several losses to show what they cost.
    pub(super) fn is_over(&self) -> bool {
        self.delivered >= Self::EPOCH.max(Self::LOSSES * self.under_way)
    }
}
