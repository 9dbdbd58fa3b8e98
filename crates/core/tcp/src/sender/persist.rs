//! [`Persist`]: asking a peer whose window is shut (RFC 9293 §3.8.6.1, RFC 6429).

use stored::{Absent, Rare};
use units::{Duration, Instant};

/// Times the wait doubles at most; the longest one is reached long before.
const DOUBLINGS_MAX: u8 = 20;

/// The timer of window probes.
#[derive(Clone, Debug, Default, stored::Stored)]
pub(super) struct Persist(Rare<Asking>);

/// A peer that is being asked.
#[derive(Clone, Debug, Default, stored::Stored)]
struct Asking {
    at: Option<Instant>,
    /// Probes in a row.
    backoff: u8,
}

impl Absent for Asking {
    const ABSENT: &'static Self = &Self { at: None, backoff: 0 };
    fn is_absent(&self) -> bool {
        self.at.is_none() && self.backoff == 0
    }
}

impl Persist {
    /// Calls `prefetch` for what does not lie in it.
    #[inline]
    pub(super) fn ask_for(&self, prefetch: fn(usize, usize)) {
        self.0.ask_for(prefetch);
    }

    /// The window is shut (or too small for a segment) and nothing under way will bring news of it.
    pub(super) fn start(&mut self, rto: Duration, rto_max: Duration, now: Instant) {
        if self.0.at.is_none() {
            let wait = (rto * (1u64 << self.0.backoff.min(DOUBLINGS_MAX))).min(rto_max);
            self.0.change(|asking| asking.at = Some(now + wait));
        }
    }

    /// There is nothing to ask.
    pub(super) fn stop(&mut self) {
        self.0 = Rare::default();
    }

    /// Something was sent that will be answered.
    pub(super) fn on_send(&mut self) {
        if self.0.at.is_some() {
            self.0.change(|asking| asking.at = None);
        }
    }

    /// True once when a probe is due.
    pub(super) fn take_due(&mut self, now: Instant) -> bool {
        let is_due = self.0.at.is_some_and(|at| at <= now);
        if is_due {
            self.0.change(|asking| *asking = Asking { at: None, backoff: asking.backoff.saturating_add(1) });
        }
        is_due
    }

    pub(super) fn deadline(&self) -> Option<Instant> {
        self.0.at
    }
}
