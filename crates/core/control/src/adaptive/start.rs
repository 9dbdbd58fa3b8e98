//! The beginning, when nothing is known of the link.
//!
//! ```text
//!   W = W₀ + what is acknowledged while at least half of W is in flight,
//!   until RTT > τ + T + max(d₀, ½·d₁), or a buffer is full
//! ```
//!
//! Half of W in use is use enough (as in RFC 7661 §4.4): pacing has not yet sent what the growth allows.

use units::{Bytes, Duration};

use crate::Ack;

/// W of a start; none once it is over.
#[derive(Clone, Debug, stored::Stored)]
pub(super) struct Start {
    window: Option<Bytes>,
}

/// Signs that end a start, or let it grow.
#[derive(Clone, Copy, Debug)]
pub(super) struct Signs {
    /// A longer round trip has a queue in it: τ + T + max(d₀, ½·d₁).
    pub queueing_above: Duration,
    /// A buffer bounds the window.
    pub is_bounded: bool,
    /// There is a forecast to go on with.
    pub has_forecast: bool,
    /// Parts of the window that must be in use, in halves: 1, or 2 without the term.
    pub halves: u64,
}

impl Start {
    pub(super) fn new(window: Bytes) -> Self {
        Self { window: Some(window) }
    }

    /// W, while it lasts.
    pub(super) fn window(&self) -> Option<Bytes> {
        self.window
    }

    /// It begins again, from `window`.
    pub(super) fn again(&mut self, window: Bytes) {
        self.window = Some(window);
    }

    pub(super) fn on_ack(&mut self, ack: &Ack, signs: &Signs) {
        let (Some(window), Some(rtt)) = (self.window, ack.rtt) else { return };
        let is_queueing = rtt > signs.queueing_above;
        if (is_queueing || signs.is_bounded) && signs.has_forecast {
            self.window = None;
        } else if ack.in_flight_before.get() >= window.get() * signs.halves / 2 && !is_queueing {
            self.window = Some(window + ack.delivered);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn on_ack(start: &mut Start, rtt_ms: u64, in_flight: u64, (is_bounded, has_forecast): (bool, bool)) {
        let ack = Ack {
            delivered: Bytes::new(1_000),
            rtt: Some(Duration::from_millis(rtt_ms)),
            in_flight_before: Bytes::new(in_flight),
            ..Ack::default()
        };
        let queueing_above = Duration::from_millis(40);
        start.on_ack(&ack, &Signs { queueing_above, is_bounded, has_forecast, halves: 1 });
    }

    #[test]
    fn it_grows_in_use_and_ends_at_a_queue() {
        let mut start = Start::new(Bytes::new(10_000));
        on_ack(&mut start, 30, 4_999, (false, true));
        assert_eq!(start.window(), Some(Bytes::new(10_000)));
        on_ack(&mut start, 40, 5_000, (false, true));
        assert_eq!(start.window(), Some(Bytes::new(11_000)));
        // With a queue it does not grow, and without a forecast it does not end.
        on_ack(&mut start, 41, 11_000, (false, false));
        assert_eq!(start.window(), Some(Bytes::new(11_000)));
        on_ack(&mut start, 41, 11_000, (false, true));
        assert_eq!(start.window(), None);
        start.again(Bytes::new(3_000));
        on_ack(&mut start, 20, 3_000, (true, true));
        assert_eq!(start.window(), None);
    }
}
