//! Parts that all window controllers share.
//!
//! ```text
//!               found a loss                                     all of it repaired
//!   growing ───────────────────▶ reducing: PRR brings cwnd to ssthresh ─────────────▶ growing
//!     ▲  │ time-out
//!     │  └─▶ cwnd = in flight + 1 segment, slow start to ssthresh; taken back when the time-out was needless
//!     └──────────┘
//! ```
//!
//! - Slow start: cwnd grows by what is acknowledged, up to ssthresh (RFC 5681 §3.1, RFC 3465
//!   without its limit, as Linux does); what is left of an acknowledgement counts for congestion
//!   avoidance.
//! - Nothing grows while the window is not what limits the sender (RFC 7661's reason, Linux's test).
//! - A mark (RFC 3168) reduces at once, to the rule's threshold for marks, and nothing is repaired.
//! - Proportional rate reduction (RFC 9937): during recovery, acknowledgements release ssthresh ÷
//!   prior cwnd of what they report, so that there is neither a burst nor half a round trip of
//!   silence.

use units::{Bytes, Instant, Rate};

use crate::{Ack, Control, Controller, Loss, LossKind, Mark, Sent};

/// A congestion window under a rule's control. All in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, stored::Stored)]
pub struct Window {
    /// Payload of a segment.
    pub mss: u64,
    /// May be in flight.
    pub cwnd: u64,
    /// Slow start ends here.
    pub ssthresh: u64,
    /// Acknowledged towards the next segment of growth.
    credit: u64,
}

impl Window {
    pub(crate) fn new(mss: Bytes, initial_segments: u64) -> Self {
        let mss = mss.get().max(1);
        Self { mss, cwnd: mss * initial_segments.max(1), ssthresh: u64::MAX, credit: 0 }
    }

    pub(crate) fn is_slow_start(&self) -> bool {
        self.cwnd < self.ssthresh
    }

    /// Grows by `acked` up to ssthresh; returns what of it is left.
    pub(crate) fn slow_start(&mut self, acked: u64) -> u64 {
        let grown = self.cwnd.saturating_add(acked).min(self.ssthresh).max(self.cwnd);
        let left = acked - (grown - self.cwnd);
        self.cwnd = grown;
        left
    }

    /// Grows by a segment for every `per` bytes acknowledged.
    pub(crate) fn grow(&mut self, per: u64, acked: u64) {
        let per = per.max(1);
        if self.credit >= per {
            // `per` has shrunk since: one segment, and the rest does not count at the new price.
            self.credit = 0;
            self.cwnd += self.mss;
        }
        self.credit += acked;
        let segments = self.credit / per;
        self.credit -= segments * per;
        self.cwnd += segments * self.mss;
    }

    /// One segment per window acknowledged (RFC 5681 §3.1).
    pub(crate) fn reno(&mut self, acked: u64) {
        self.grow(self.cwnd, acked);
    }

    /// `numerator ÷ denominator` of the window.
    pub(crate) fn share(&self, numerator: u64, denominator: u64) -> u64 {
        let share = u128::from(self.cwnd) * u128::from(numerator) / u128::from(denominator.max(1));
        u64::try_from(share).unwrap_or(u64::MAX)
    }
}

/// Rule by which a window grows and shrinks: it distinguishes one window controller from another.
pub trait Rule {
    /// The algorithm's name.
    const NAME: &'static str;

    /// Takes in an acknowledgement's measurements, whether or not the window may grow.
    fn on_sample(&mut self, _ack: &Ack, _window: &mut Window) {}

    /// Grows the window below its threshold; returns what of `acked` bytes is left for congestion avoidance.
    fn slow_start(&mut self, acked: u64, window: &mut Window) -> u64 {
        window.slow_start(acked)
    }

    /// Grows the window for `acked` bytes beyond slow start.
    fn avoid_congestion(&mut self, ack: &Ack, acked: u64, window: &mut Window);

    /// The threshold a loss sets, in bytes; at least two segments are kept whatever it says.
    fn threshold(&mut self, window: &Window, loss: &Loss) -> u64;

    /// The threshold a mark sets (RFC 3168 §6.1.2), in bytes: that of a loss, unless the rule knows better (RFC 8511).
    fn threshold_of_mark(&mut self, window: &Window, ack: &Ack) -> u64 {
        let (now, in_flight) = (ack.now, ack.in_flight);
        let loss = Loss { now, lost: Bytes::ZERO, kind: LossKind::Fast, is_new_event: true, in_flight };
        self.threshold(window, &loss)
    }

    /// A transmission leaves.
    fn on_send(&mut self, _sent: &Sent) {}

    /// A recovery has ended.
    fn on_recovered(&mut self) {}
}

/// Counts of proportional rate reduction during one recovery (RFC 9937 §6).
#[derive(Clone, Copy, Debug, stored::Stored)]
struct Reduction {
    /// cwnd when it began: RecoverFS.
    prior_cwnd: u64,
    delivered: u64,
    sent: u64,
}

impl Reduction {
    /// The window after `ack`, which delivered `delivered` bytes.
    fn window(&mut self, ssthresh: u64, mss: u64, ack: &Ack) -> u64 {
        let (delivered, in_flight) = (ack.delivered.get(), ack.in_flight.get());
        self.delivered += delivered;
        let count = if in_flight > ssthresh {
            let due = u128::from(ssthresh) * u128::from(self.delivered);
            let due = due.div_ceil(u128::from(self.prior_cwnd.max(1)));
            u64::try_from(due).unwrap_or(u64::MAX).saturating_sub(self.sent)
        } else {
            let owed = self.delivered.saturating_sub(self.sent).max(delivered);
            // RFC 9937 §6: slow start while each acknowledgement makes progress without new losses.
            let bonus = if ack.lost == Bytes::ZERO { mss } else { 0 };
            (owed + bonus).min(ssthresh - in_flight)
        };
        // The first retransmission leaves at once.
        in_flight + count.max(if self.sent == 0 { mss } else { 0 })
    }
}

/// A window controller that follows rule `R`.
#[derive(Clone, Debug, stored::Stored)]
pub struct WindowControl<R> {
    pub(crate) rule: R,
    pub(crate) window: Window,
    reduction: Option<Reduction>,
    /// cwnd and ssthresh before the last loss, should it have been none.
    before_loss: Option<(u64, u64)>,
}

impl<R: Rule> WindowControl<R> {
    pub(crate) fn with(rule: R, mss: Bytes, initial_segments: u64) -> Self {
        let window = Window::new(mss, initial_segments);
        Self { rule, window, reduction: None, before_loss: None }
    }

    /// One segment and slow start to the rule's threshold, as after a time-out, with nothing lost.
    pub(crate) fn start_again(&mut self, loss: &Loss) {
        self.window.ssthresh = self.rule.threshold(&self.window, loss).max(2 * self.window.mss);
        self.window.cwnd = self.window.mss;
        self.window.credit = 0;
        self.reduction = None;
    }

    /// A mark: the window is the threshold at once, as nothing is lost.
    fn on_mark(&mut self, mark: Mark, ack: &Ack) {
        let threshold = match mark {
            Mark::Classic => self.rule.threshold_of_mark(&self.window, ack),
            Mark::Scalable { share_ppm } => {
                self.window.cwnd - self.window.share(u64::from(share_ppm.min(1_000_000)), 2_000_000)
            }
        };
        self.window.ssthresh = threshold.max(2 * self.window.mss);
        self.window.cwnd = self.window.cwnd.min(self.window.ssthresh);
        self.window.credit = 0;
    }

    /// True when an acknowledgement may let the window grow.
    fn may_grow(&self, ack: &Ack) -> bool {
        // In slow start half a window in flight is enough: the next one will be twice as large.
        ack.is_window_limited
            || (self.window.is_slow_start() && self.window.cwnd < 2 * ack.in_flight_before.get())
    }
}

impl<R: Rule> Controller for WindowControl<R> {
    fn name(&self) -> &'static str {
        R::NAME
    }

    fn on_ack(&mut self, ack: &Ack) {
        if ack.delivered == Bytes::ZERO {
            return;
        }
        self.rule.on_sample(ack, &mut self.window);
        if let Some(reduction) = self.reduction.as_mut() {
            if ack.is_recovering {
                self.window.cwnd = reduction.window(self.window.ssthresh, self.window.mss, ack);
                return;
            }
            self.window.cwnd = self.window.ssthresh;
            self.window.credit = 0;
            self.reduction = None;
            self.rule.on_recovered();
        }
        if let Some(mark) = ack.mark {
            // What is lost in the same round trip has reduced it.
            self.on_mark(mark, ack);
            return;
        }
        if !self.may_grow(ack) {
            return;
        }
        let mut acked = ack.delivered.get();
        if self.window.is_slow_start() {
            acked = self.rule.slow_start(acked, &mut self.window);
        }
        if acked > 0 {
            self.rule.avoid_congestion(ack, acked, &mut self.window);
        }
    }

    fn on_loss(&mut self, loss: &Loss) {
        let is_timeout = loss.kind == LossKind::Timeout;
        if loss.is_new_event {
            self.before_loss = Some((self.window.cwnd, self.window.ssthresh));
            let threshold = self.rule.threshold(&self.window, loss).max(2 * self.window.mss);
            self.window.ssthresh = threshold;
            self.window.credit = 0;
            let reduction = Reduction { prior_cwnd: self.window.cwnd, delivered: 0, sent: 0 };
            self.reduction = (!is_timeout).then_some(reduction);
        }
        if is_timeout || loss.is_new_event {
            // RFC 5681 §3.1: a loss window of one segment; in recovery the first retransmission.
            self.window.cwnd = loss.in_flight.get() + self.window.mss;
        }
        if is_timeout {
            self.reduction = None;
        }
    }

    fn on_send(&mut self, sent: &Sent) {
        if let Some(reduction) = self.reduction.as_mut() {
            reduction.sent += sent.bytes.get();
        }
        self.rule.on_send(sent);
    }

    fn on_undo(&mut self, _now: Instant) {
        if let Some((cwnd, ssthresh)) = self.before_loss.take() {
            self.window.cwnd = self.window.cwnd.max(cwnd);
            self.window.ssthresh = self.window.ssthresh.max(ssthresh);
            self.reduction = None;
        }
    }

    fn control(&self) -> Control {
        Control {
            window: Bytes::new(self.window.cwnd),
            pacing_rate: Rate::MAX,
            send_quantum: Bytes::new(self.window.mss),
        }
    }
}

#[cfg(test)]
#[path = "window/tests.rs"]
mod tests;
