//! The sender's timers: retransmission or tail probe, reordering, persist.

use control::LossKind;
use units::{Duration, Instant};

use crate::rtt::RttEstimator;

/// Longest the peer may delay an acknowledgement of a lone segment (RFC 8985 §7.2).
const ACK_DELAY_MAX: Duration = Duration::from_millis(200);

/// Tail probe time-out before the first round trip is known (RFC 8985 §7.2).
const PTO_INITIAL: Duration = Duration::from_secs(1);

/// What the timers did.
#[derive(Clone, Copy, Debug, Default)]
pub struct TimeoutOutcome {
    /// Bytes newly marked lost.
    pub lost: u32,
    /// How they were found.
    pub kind: Option<LossKind>,
    /// A new recovery episode began.
    pub is_new_loss: bool,
    /// The retransmission time-out fired.
    pub is_timeout: bool,
    /// A probe waits to be sent.
    pub sent_probe: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum LossTimer {
    Retransmission,
    TailProbe,
}

#[derive(Clone, Debug)]
pub(super) struct Timers {
    rto_max: Duration,
    loss: Option<(Instant, LossTimer)>,
    reordering: Option<Instant>,
    persist: Option<Instant>,
    backoff: u32,
    persist_backoff: u32,
    /// A tail probe is unanswered: no second one (RFC 8985 §7.2).
    is_probe_out: bool,
}

impl Timers {
    pub(super) fn new(rto_max: Duration) -> Self {
        Self {
            rto_max,
            loss: None,
            reordering: None,
            persist: None,
            backoff: 0,
            persist_backoff: 0,
            is_probe_out: false,
        }
    }

    fn rto(&self, rtt: &RttEstimator) -> Duration {
        (rtt.rto() * (1u64 << self.backoff.min(20))).min(self.rto_max)
    }

    /// RFC 8985 §7.2: two round trips, longer for a lone segment, never beyond the time-out.
    fn pto(&self, rtt: &RttEstimator, segments: u32) -> Duration {
        let base = rtt.smoothed().map_or(PTO_INITIAL, |srtt| srtt * 2);
        let wait = if segments <= 1 { base + ACK_DELAY_MAX } else { base };
        wait.min(self.rto(rtt))
    }

    pub(super) fn on_send(&mut self, rtt: &RttEstimator, segments: u32, may_probe: bool, now: Instant) {
        self.persist = None;
        if may_probe && !self.is_probe_out {
            self.loss = Some((now + self.pto(rtt, segments), LossTimer::TailProbe));
        } else if self.loss.is_none() {
            self.arm_rto(rtt, now);
        }
    }

    pub(super) fn on_probe(&mut self, rtt: &RttEstimator, now: Instant) {
        self.is_probe_out = true;
        self.arm_rto(rtt, now);
    }

    /// New data was acknowledged (RFC 6298 §5.7).
    pub(super) fn on_progress(&mut self) {
        self.backoff = 0;
        self.is_probe_out = false;
    }

    pub(super) fn rearm(&mut self, rtt: &RttEstimator, segments: u32, may_probe: bool, now: Instant) {
        self.loss = None;
        if segments == 0 {
            self.reordering = None;
        } else {
            self.on_send(rtt, segments, may_probe, now);
        }
    }

    pub(super) fn arm_rto(&mut self, rtt: &RttEstimator, now: Instant) {
        self.loss = Some((now + self.rto(rtt), LossTimer::Retransmission));
    }

    /// RFC 6298 §5.5, §5.6.
    pub(super) fn back_off(&mut self, rtt: &RttEstimator, now: Instant) {
        self.backoff += 1;
        self.is_probe_out = false;
        self.arm_rto(rtt, now);
    }

    /// Segments that this time-out sends, as many as there were halves of the rate of attempts: 1, 2, 4 and so on.
    pub(super) fn attempts(&self) -> u8 {
        1 << self.backoff.saturating_sub(1).min(7)
    }

    pub(super) fn set_reordering(&mut self, at: Option<Instant>) {
        self.reordering = at;
    }

    pub(super) fn set_persist(&mut self, is_stuck: bool, rto: Duration, now: Instant) {
        if !is_stuck {
            self.persist = None;
            self.persist_backoff = 0;
        } else if self.persist.is_none() {
            let wait = (rto * (1u64 << self.persist_backoff.min(20))).min(self.rto_max);
            self.persist = Some(now + wait);
        }
    }

    pub(super) fn take_reordering(&mut self, now: Instant) -> bool {
        let due = self.reordering.is_some_and(|at| at <= now);
        if due {
            self.reordering = None;
        }
        due
    }

    pub(super) fn take_persist(&mut self, now: Instant) -> bool {
        let due = self.persist.is_some_and(|at| at <= now);
        if due {
            self.persist = None;
            self.persist_backoff += 1;
        }
        due
    }

    fn is_due(&self, timer: LossTimer, now: Instant) -> bool {
        self.loss.is_some_and(|(at, which)| which == timer && at <= now)
    }

    pub(super) fn take_tail_probe(&mut self, now: Instant) -> bool {
        let due = self.is_due(LossTimer::TailProbe, now);
        if due {
            self.loss = None;
        }
        due
    }

    pub(super) fn take_rto(&mut self, now: Instant) -> bool {
        let due = self.is_due(LossTimer::Retransmission, now);
        if due {
            self.loss = None;
        }
        due
    }

    /// The earliest timer; the loss timer counts only while something is unacknowledged.
    pub(super) fn next_deadline(&self, is_idle: bool) -> Option<Instant> {
        let loss = self.loss.filter(|_| !is_idle).map(|(at, _)| at);
        [loss, self.reordering, self.persist].into_iter().flatten().min()
    }
}
