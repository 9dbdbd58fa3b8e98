//! [`Overcommit`]: bytes that may be under way beyond the window (H18).
//!
//! ```text
//!              overflow: the allowance falls to 3/4      it costs more than it brings,
//!                   ┌────────┐                           or the allowance is under half a window
//!                   │        ▼
//!   unbounded ──▶ sending within an allowance ────────────────────────▶ paused: the window is honoured
//!                   ▲        │  ▲                                          │
//!                   └────────┘  └──────────────────────────────────────────┘
//!              3 % of what is                 enough was delivered meanwhile, and the window never fell
//!              delivered is added             to 3/4: twice as much each time; the allowance is a window then
//! ```
//!
//! What ends beyond the window is taken by a client that reads as it comes. It overflows when more than a
//! window arrives before its program is awake: what a radio link held back behind a repair, all at once. How
//! much that may be depends on how much is under way, so that is what is tried out, as a congestion window
//! is.

use units::SeqNum;

/// Allowance of bytes beyond the window, with what they have cost and brought lately (H18).
#[derive(Clone, Copy, Default, Debug, stored::Stored)]
pub(super) struct Overcommit {
    /// Bytes that may be under way beyond the window; none: any number, for the client has taken all so far.
    allowance: Option<u32>,
    /// Overflows until this is acknowledged belong to the last one.
    blamed_until: Option<SeqNum>,
    /// Bytes delivered in this epoch, or in this pause.
    delivered: u32,
    /// Bytes sent again when the epoch began, counted with wrap-around.
    retransmitted_before: u32,
    /// Most bytes under way: what a single loss makes the client discard, however well it holds the rest. In
    /// a pause the widest window.
    most: u32,
    /// The allowance has become too small to be worth it.
    is_too_small: bool,
    /// The window fell while it was honoured: the client reads slowly.
    is_slow: bool,
    /// Times that it did not pay, less those that it did.
    losses: u8,
    is_paused: bool,
}

/// Data under way when a client had no room.
#[derive(Clone, Copy, Debug)]
pub(super) struct Overflow {
    pub una: SeqNum,
    pub nxt: SeqNum,
    /// Bytes beyond the window.
    pub beyond: u32,
    /// The widest window so far.
    pub window: u32,
}

impl Overcommit {
    /// Bytes after which the accounts begin anew, unless more is under way.
    const EPOCH: u32 = 1 << 20;
    /// Bytes sent again that are no reason to give up, however little was delivered.
    const TOLERATED: u32 = 128 * 1024;
    /// Losses whose price, all that was under way, may be paid before as much was delivered: they come in
    /// groups.
    const LOSSES: u32 = 4;
    /// Bytes delivered within the window before the allowance is tried again; twice as many before each further try.
    const PAUSE: u32 = 1 << 16;
    /// Times the pause doubles at most: 64 MiB.
    const DOUBLINGS_MAX: u8 = 10;
    /// Part of the allowance that an overflow leaves, in quarters. Half would stay further below what the client
    /// takes.
    const KEPT_QUARTERS: u32 = 3;
    /// Divisor of the bytes delivered within the allowance; the quotient is added to it: 3 % more each round trip, nine
    /// of them to make up for an overflow. Faster growth finds the next overflow sooner than it brings
    /// anything.
    const GROWTH: u32 = 32;

    /// The window is honoured for the time being.
    pub(super) fn is_paused(&self) -> bool {
        self.is_paused
    }

    /// Bytes that may be under way beyond the window; the largest number if any.
    pub(super) fn allowance(&self) -> u32 {
        if self.is_paused { 0 } else { self.allowance.unwrap_or(u32::MAX) }
    }

    /// All up to `una` is acknowledged: what it was blamed for is over once it lies before that.
    pub(super) fn on_progress(&mut self, una: SeqNum) {
        self.blamed_until = self.blamed_until.filter(|until| una.is_before(*until));
    }

    /// The client had no room for what was sent beyond its window.
    pub(super) fn on_overflow(&mut self, overflow: Overflow) {
        if self.blamed_until.is_some_and(|until| overflow.una.is_before(until)) {
            return;
        }
        self.blamed_until = Some(overflow.nxt);
        let allowance = self.allowance().min(overflow.beyond) / 4 * Self::KEPT_QUARTERS;
        self.allowance = Some(allowance);
        self.is_too_small = allowance < overflow.window / 2;
    }

    /// Takes in an acknowledgement while sending beyond the window, with the bytes `under_way` in all and
    /// those `beyond` the window; true when it does not pay: a pause begins.
    pub(super) fn on_delivered(
        &mut self,
        delivered: u32,
        under_way: u32,
        beyond: u32,
        retransmitted: u64,
    ) -> bool {
        self.delivered = self.delivered.saturating_add(delivered);
        self.most = self.most.max(under_way);
        if self.does_not_pay(retransmitted as u32) {
            // A client that only wakes up late has no reason to be left alone for longer each time.
            let is_late = self.is_too_small && !self.is_slow;
            let losses = if is_late { self.losses.max(1) } else { self.losses + 1 };
            let losses = losses.min(Self::DOUBLINGS_MAX + 1);
            *self = Self { losses, is_slow: self.is_slow, is_paused: true, ..Self::default() };
            return true;
        }
        // What has just been delivered was under way beyond the window before.
        if let Some(allowance) =
            self.allowance.as_mut().filter(|allowance| beyond.saturating_add(delivered) >= **allowance)
        {
            *allowance = allowance.saturating_add(delivered / Self::GROWTH);
        }
        // There was time for several losses to show what they cost.
        if self.delivered >= Self::EPOCH.max(self.most.saturating_mul(Self::LOSSES)) {
            self.begin(self.losses.saturating_sub(1), retransmitted);
        }
        false
    }

    /// Takes in an acknowledgement during a pause. A client that lets its window fall to three quarters has
    /// no room to spare for what lies beyond: the pause begins again.
    pub(super) fn on_honoured(&mut self, delivered: u32, window: u32, retransmitted: u64) {
        self.most = self.most.max(window);
        if window > self.most / 4 * 3 {
            self.delivered = self.delivered.saturating_add(delivered);
        } else {
            (self.delivered, self.is_slow) = (0, true);
        }
        if self.delivered >= Self::PAUSE << self.losses.saturating_sub(1) {
            self.allowance = Some(self.most);
            self.begin(self.losses, retransmitted);
        }
    }

    fn begin(&mut self, losses: u8, retransmitted: u64) {
        let (retransmitted_before, is_slow) = (retransmitted as u32, self.is_slow);
        let (allowance, blamed_until) = (self.allowance, self.blamed_until);
        *self = Self { losses, retransmitted_before, allowance, blamed_until, is_slow, ..Self::default() };
    }

    /// True when the client throws away twice what it takes, or has no room however little lies beyond its
    /// window: it cannot hold that, and sending it only fills the link with copies.
    fn does_not_pay(&self, retransmitted: u32) -> bool {
        let again = retransmitted.wrapping_sub(self.retransmitted_before);
        let allowed = self.delivered.saturating_mul(2).max(self.most.saturating_mul(Self::LOSSES));
        self.is_too_small || again > allowed.max(Self::TOLERATED)
    }
}

#[cfg(test)]
mod tests;
