//! [`Persist`]: asking a peer whose window is shut (RFC 9293 §3.8.6.1, RFC 6429).

use units::{Duration, Instant};

/// Times the wait doubles at most; the longest one is reached long before.
const DOUBLINGS_MAX: u8 = 20;

/// The timer of window probes.
#[derive(Clone, Debug, Default, stored::Stored)]
pub(super) struct Persist {
    at: Option<Instant>,
    /// Probes in a row.
    backoff: u8,
}

impl Persist {
    /// The window is shut (or too small for a segment) and nothing under way will bring news of it.
    pub(super) fn start(&mut self, rto: Duration, rto_max: Duration, now: Instant) {
        let wait = || (rto * (1u64 << self.backoff.min(DOUBLINGS_MAX))).min(rto_max);
        self.at = self.at.or_else(|| Some(now + wait()));
    }

    /// There is nothing to ask.
    pub(super) fn stop(&mut self) {
        *self = Self::default();
    }

    /// Something was sent that will be answered.
    pub(super) fn on_send(&mut self) {
        self.at = None;
    }

    /// True once when a probe is due.
    pub(super) fn take_due(&mut self, now: Instant) -> bool {
        let is_due = self.at.take_if(|at| *at <= now).is_some();
        self.backoff = self.backoff.saturating_add(u8::from(is_due));
        is_due
    }

    pub(super) fn deadline(&self) -> Option<Instant> {
        self.at
    }
}
