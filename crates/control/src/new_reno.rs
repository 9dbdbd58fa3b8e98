//! NewReno: the window-based baseline of the simulator's end hosts.
//!
//! ```text
//!   slow start            cwnd += bytes acknowledged                 RFC 5681 §3.1
//!   congestion avoidance  cwnd += MSS · acked ÷ cwnd                 RFC 5681 §3.1 eq. (3)
//!   loss                  ssthresh = max(in flight ÷ 2, 2·MSS), cwnd = ssthresh    eq. (4)
//!   time-out              ssthresh as above, cwnd = 1 MSS
//! ```

use units::{Bytes, Rate};

use crate::{Ack, Control, Controller, Loss, LossKind};

/// Parameters of [`NewReno`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct NewRenoParams {
    /// Segment size. Default 1448 bytes.
    pub mss: Bytes,
    /// First window in segments. Default 10 (RFC 6928).
    pub initial_window_segments: u64,
}

impl Default for NewRenoParams {
    fn default() -> Self {
        Self { mss: Bytes::new(1_448), initial_window_segments: 10 }
    }
}

/// NewReno's congestion window.
#[derive(Clone, Debug)]
pub struct NewReno {
    mss: u64,
    cwnd: u64,
    ssthresh: u64,
    /// Bytes acknowledged towards the next segment of growth.
    acked: u64,
}

impl NewReno {
    /// A window of `initial_window_segments` in slow start.
    #[must_use]
    pub fn new(params: NewRenoParams) -> Self {
        let mss = params.mss.get().max(1);
        Self { mss, cwnd: mss * params.initial_window_segments.max(1), ssthresh: u64::MAX, acked: 0 }
    }
}

impl Controller for NewReno {
    fn name(&self) -> &'static str {
        "new-reno"
    }

    fn on_ack(&mut self, ack: &Ack) {
        let delivered = ack.delivered.get();
        if self.cwnd < self.ssthresh {
            self.cwnd = self.cwnd.saturating_add(delivered);
            return;
        }
        self.acked += delivered;
        if self.acked >= self.cwnd {
            self.acked -= self.cwnd;
            self.cwnd += self.mss;
        }
    }

    fn on_loss(&mut self, loss: &Loss) {
        if !loss.is_new_event {
            return;
        }
        let flight = (loss.in_flight + loss.lost).get().min(self.cwnd);
        self.ssthresh = (flight / 2).max(2 * self.mss);
        self.acked = 0;
        self.cwnd = match loss.kind {
            LossKind::Fast => self.ssthresh,
            LossKind::Timeout => self.mss,
        };
    }

    fn control(&self) -> Control {
        Control { window: Bytes::new(self.cwnd), pacing_rate: Rate::MAX, send_quantum: Bytes::new(self.mss) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use units::Instant;

    fn ack(bytes: u64) -> Ack {
        Ack {
            now: Instant::ZERO,
            delivered: Bytes::new(bytes),
            delivered_total: Bytes::new(bytes),
            rtt: None,
            min_rtt: None,
            rate: None,
            in_flight: Bytes::ZERO,
        }
    }
    fn loss(kind: LossKind, in_flight: u64, is_new_event: bool) -> Loss {
        Loss {
            now: Instant::ZERO,
            lost: Bytes::new(1_000),
            kind,
            is_new_event,
            in_flight: Bytes::new(in_flight),
        }
    }
    fn reno() -> NewReno {
        NewReno::new(NewRenoParams { mss: Bytes::new(1_000), initial_window_segments: 10 })
    }

    #[test]
    fn slow_start_doubles_per_round() {
        let mut c = reno();
        for _ in 0..10 {
            c.on_ack(&ack(1_000));
        }
        assert_eq!(c.control().window, Bytes::new(20_000));
    }

    #[test]
    fn loss_halves_once_per_event() {
        let mut c = reno();
        c.on_loss(&loss(LossKind::Fast, 9_000, true));
        assert_eq!(c.control().window, Bytes::new(5_000));
        c.on_loss(&loss(LossKind::Fast, 4_000, false));
        assert_eq!(c.control().window, Bytes::new(5_000));
    }

    #[test]
    fn avoidance_adds_one_segment_per_window() {
        let mut c = reno();
        c.on_loss(&loss(LossKind::Fast, 9_000, true));
        for _ in 0..5 {
            c.on_ack(&ack(1_000));
        }
        assert_eq!(c.control().window, Bytes::new(6_000));
    }

    #[test]
    fn time_out_restarts_from_one_segment() {
        let mut c = reno();
        c.on_loss(&loss(LossKind::Timeout, 9_000, true));
        assert_eq!(c.control().window, Bytes::new(1_000));
        for _ in 0..4 {
            c.on_ack(&ack(1_000));
        }
        assert_eq!(c.control().window, Bytes::new(5_000));
    }
}
