//! Timers for another try: retransmission time-out, tail loss probe and reordering timer.
//!
//! The first two exclude each other and share one deadline (RFC 8985 §8).

use stored::{Layouts, Reader, Stored, StoredError, Writer};
use units::{Duration, Instant};

use super::{Recovery, RttEstimator};
use crate::scoreboard::Scoreboard;

/// Longest the peer may delay an acknowledgement of a lone segment (RFC 8985 §7.2).
const ACK_DELAY_MAX: Duration = Duration::from_millis(200);

/// Tail probe time-out before the first round trip is known (RFC 8985 §7.2).
const PTO_INITIAL: Duration = Duration::from_secs(1);

/// In nanoseconds.
const MILLISECOND: u64 = 1_000_000;

/// Times the time-out doubles at most; the longest one is reached long before.
const DOUBLINGS_MAX: u8 = 20;

/// Action of the loss timer when it is due.
#[derive(Clone, Copy, PartialEq, Eq, Debug, stored::Stored)]
pub(crate) enum LossTimer {
    /// RFC 6298 §5.
    Retransmission,
    /// RFC 8985 §7.
    TailProbe,
}

/// A deadline and what it is for.
#[derive(Clone, Copy, Debug, stored::Stored)]
struct Deadline {
    at: Instant,
    timer: LossTimer,
}

#[derive(Clone, Debug)]
pub(super) struct Timers {
    /// Whole milliseconds.
    rto_max_ms: u32,
    loss_at: Option<Instant>,
    /// Purpose of that.
    loss_timer: LossTimer,
    /// RFC 8985 §6.2 step 5.
    reordering: Option<Instant>,
    /// Time-outs in a row.
    backoff: u8,
    /// A tail probe is unanswered: no second one (RFC 8985 §7.2).
    is_probe_out: bool,
}

/// With the loss timer as one value, and the longest time-out in nanoseconds.
impl Stored for Timers {
    fn store(&self, out: &mut Writer) {
        (self.rto_max(), self.loss()).store(out);
        self.reordering.store(out);
        (self.backoff, self.is_probe_out).store(out);
    }
    fn restore(from: &mut Reader<'_>) -> Result<Self, StoredError> {
        let mut timers = Self::new(from.value()?);
        if let Some(Deadline { at, timer }) = from.value()? {
            timers.arm(timer, at);
        }
        timers.reordering = from.value()?;
        (timers.backoff, timers.is_probe_out) = from.value()?;
        Ok(timers)
    }
    fn layout(layouts: &mut Layouts) {
        layouts.of::<Self>("Timers", |layouts| {
            layouts.value::<Duration>("rto_max");
            layouts.value::<Option<Deadline>>("loss");
            layouts.value::<Option<Instant>>("reordering");
            layouts.value::<u8>("backoff");
            layouts.value::<bool>("is_probe_out");
        });
    }
}

impl Timers {
    pub(super) fn new(rto_max: Duration) -> Self {
        let rto_max_ms = u32::try_from(rto_max.as_nanos().div_ceil(MILLISECOND)).unwrap_or(u32::MAX);
        let loss_timer = LossTimer::Retransmission;
        Self { rto_max_ms, loss_at: None, loss_timer, reordering: None, backoff: 0, is_probe_out: false }
    }

    fn rto_max(&self) -> Duration {
        Duration::from_millis(self.rto_max_ms.into())
    }

    fn loss(&self) -> Option<Deadline> {
        self.loss_at.map(|at| Deadline { at, timer: self.loss_timer })
    }

    fn arm(&mut self, timer: LossTimer, at: Instant) {
        (self.loss_at, self.loss_timer) = (Some(at), timer);
    }

    /// RFC 6298 §2.4, §5.5: backed off, with an upper bound.
    fn rto(&self, rtt: &RttEstimator) -> Duration {
        (rtt.rto() * (1u64 << self.backoff.min(DOUBLINGS_MAX))).min(self.rto_max())
    }

    /// RFC 8985 §7.2: two round trips, longer for a lone segment, never beyond the time-out.
    fn pto(&self, rtt: &RttEstimator, is_lone_segment: bool) -> Duration {
        let base = rtt.smoothed().map_or(PTO_INITIAL, |srtt| srtt * 2);
        let wait = if is_lone_segment { base + ACK_DELAY_MAX } else { base };
        wait.min(self.rto(rtt))
    }

    fn arm_rto(&mut self, rtt: &RttEstimator, now: Instant) {
        self.arm(LossTimer::Retransmission, now + self.rto(rtt));
    }

    /// New data was acknowledged (RFC 6298 §5.3). DEVIATION: the back-off ends without a new sample
    /// of the round trip, too.
    pub(super) fn on_progress(&mut self) {
        self.backoff = 0;
        self.is_probe_out = false;
    }

    /// The time-out has fired (RFC 6298 §5.5, §5.6).
    pub(super) fn back_off(&mut self, rtt: &RttEstimator, now: Instant) {
        self.backoff = self.backoff.saturating_add(1);
        self.is_probe_out = false;
        self.arm_rto(rtt, now);
    }

    /// Segments that this time-out sends, as many as there were halves of the rate of attempts: 1, 2, 4 and
    /// so on.
    pub(super) fn attempts(&self) -> u8 {
        1 << self.backoff.saturating_sub(1).min(7)
    }

    pub(super) fn set_reordering(&mut self, at: Option<Instant>) {
        self.reordering = at;
    }
}

impl Recovery {
    /// The longest time-out.
    pub(crate) fn rto_max(&self) -> Duration {
        self.timers.rto_max()
    }

    /// RFC 8985 §7.2: a probe helps when a SACK can answer it and no recovery is under way.
    fn allows_tail_probe(&self) -> bool {
        self.sack && !self.is_recovering() && self.timeout.is_none()
    }

    /// Something has left, the first time or again (RFC 6298 §5.1, RFC 8985 §7.2).
    pub(crate) fn on_send(&mut self, board: &Scoreboard, now: Instant) {
        if self.allows_tail_probe() && !self.timers.is_probe_out {
            let at = now + self.timers.pto(&self.rtt, board.is_lone_segment());
            self.timers.arm(LossTimer::TailProbe, at);
        } else if self.timers.loss_at.is_none() {
            self.timers.arm_rto(&self.rtt, now);
        }
    }

    /// A lost segment was sent again.
    pub(crate) fn on_resend(&mut self, board: &Scoreboard, now: Instant) {
        self.on_timeout_segment();
        self.on_send(board, now);
    }

    /// A tail loss probe has left: the time-out comes next (RFC 8985 §7.3).
    pub(crate) fn on_probe(&mut self, now: Instant) {
        self.timers.is_probe_out = true;
        self.arm_rto(now);
    }

    /// An acknowledgement brought news: the timer runs from here on, or stops (RFC 6298 §5.2, §5.3).
    pub(crate) fn rearm(&mut self, board: &Scoreboard, now: Instant) {
        self.timers.loss_at = None;
        if board.is_empty() {
            self.timers.reordering = None;
        } else {
            self.on_send(board, now);
        }
    }

    pub(crate) fn arm_rto(&mut self, now: Instant) {
        self.timers.arm_rto(&self.rtt, now);
    }

    /// True once when the reordering timer is due.
    pub(crate) fn take_reordering(&mut self, now: Instant) -> bool {
        self.timers.reordering.take_if(|at| *at <= now).is_some()
    }

    /// The loss timer, once when it is due.
    pub(crate) fn take_due(&mut self, now: Instant) -> Option<LossTimer> {
        self.timers.loss_at.take_if(|at| *at <= now).map(|_| self.timers.loss_timer)
    }

    /// The earliest timer; the loss timer counts only while something is unacknowledged.
    pub(crate) fn next_deadline(&self, board: &Scoreboard) -> Option<Instant> {
        let loss = self.timers.loss_at.filter(|_| !board.is_empty());
        loss.into_iter().chain(self.timers.reordering).min()
    }
}
