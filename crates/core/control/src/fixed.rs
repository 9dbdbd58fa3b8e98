//! `fixed`: a constant rate, whatever happens. \[MA\] Fig 2.
//!
//! The accelerator sends at a set rate and reacts neither to round-trip times nor to loss; a zero
//! window of the client suspends it (the sender sees to that, not the controller). It is what \[MA\]
//! used to show that the window, not the link, limits a small client.
//!
//! Weakness: set above the link's rate it fills the buffer; set below it wastes capacity.

use units::{Bytes, Rate};

use crate::{Ack, Control, Controller, Loss, MSS_DEFAULT, quantum_for};

/// Parameters of [`Fixed`].
#[derive(Clone, Copy, PartialEq, Eq, Debug, stored::Stored)]
pub struct FixedParams {
    /// Rate of sending. Default 5.6 Mbit/s (\[MA\] Fig 2).
    pub rate: Rate,
    /// Segment size. Default [`MSS_DEFAULT`].
    pub mss: Bytes,
    /// Bytes in flight at most. Default none, as in the paper.
    pub window: Bytes,
}

impl Default for FixedParams {
    fn default() -> Self {
        Self { rate: Rate::from_kbps(5_600), mss: MSS_DEFAULT, window: Bytes::MAX }
    }
}

/// A constant rate.
#[derive(Clone, Debug, stored::Stored)]
pub struct Fixed {
    params: FixedParams,
}

impl Fixed {
    /// A controller that always answers with `params.rate`.
    #[must_use]
    pub fn new(params: FixedParams) -> Self {
        Self { params }
    }
}

impl Controller for Fixed {
    fn name(&self) -> &'static str {
        "fixed"
    }
    fn on_ack(&mut self, _ack: &Ack) {}
    fn on_loss(&mut self, _loss: &Loss) {}
    fn control(&self) -> Control {
        Control {
            window: self.params.window,
            pacing_rate: self.params.rate,
            send_quantum: quantum_for(self.params.rate, self.params.mss),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::LossKind;
    use units::{Duration, Instant};

    #[test]
    fn neither_delay_nor_loss_changes_the_rate() {
        let mut c = Fixed::new(FixedParams::default());
        let before = c.control();
        c.on_ack(&Ack {
            now: Instant::from_millis(900),
            delivered: Bytes::new(1),
            delivered_total: Bytes::new(1),
            rtt: Some(Duration::from_secs(3)),
            ..Ack::default()
        });
        c.on_loss(&Loss {
            now: Instant::from_millis(901),
            lost: Bytes::new(100_000),
            kind: LossKind::Timeout,
            is_new_event: true,
            in_flight: Bytes::ZERO,
        });
        assert_eq!(c.control(), before);
        assert_eq!(before.pacing_rate, Rate::from_kbps(5_600));
        assert_eq!(before.send_quantum, Bytes::new(1_448));
    }
}
