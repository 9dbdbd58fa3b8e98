//! Whether the radio loses something in nearly every round trip: no queue of ours does.

use units::{Duration, Instant};

/// Round trips with losses, more or less in a row, that make them the radio's own.
const STEADY_ROUNDS: u8 = 16;

/// More of them are not remembered.
const STEADY_MAX: u8 = 32;

/// Round trips with a loss that each one without a loss makes forgotten: a small buffer overflows at times.
const STEADY_FADE: u8 = 4;

/// Losses, round trip by round trip.
#[derive(Clone, Debug, Default, stored::Stored)]
pub(super) struct SteadyLoss {
    is_lossy: bool,
    round_ends: Instant,
    /// Round trips with a loss less, fourfold, those without.
    rounds: u8,
}

impl SteadyLoss {
    /// Takes in a loss.
    pub(super) fn on_lost(&mut self) {
        self.is_lossy = true;
    }

    /// Takes in an acknowledgement, `round_trip` after what it acknowledges was sent.
    pub(super) fn on_ack(&mut self, round_trip: Duration, now: Instant) {
        if now >= self.round_ends {
            self.round_ends = now + round_trip;
            self.rounds = match core::mem::take(&mut self.is_lossy) {
                false => self.rounds.saturating_sub(STEADY_FADE),
                true => (self.rounds + 1).min(STEADY_MAX),
            };
        }
    }

    /// Something is lost in nearly every round trip: at random, by the radio.
    pub(super) fn is_steady(&self) -> bool {
        self.rounds >= STEADY_ROUNDS
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Round trips with a loss where `is_lost` says so.
    fn is_steady(is_lost: impl Fn(u64) -> bool) -> bool {
        let mut losses = SteadyLoss::default();
        for round in 0..200 {
            if is_lost(round) {
                losses.on_lost();
            }
            losses.on_ack(Duration::from_millis(50), Instant::from_millis(50 * (round + 1)));
        }
        losses.is_steady()
    }

    #[test]
    fn losses_in_nearly_every_round_trip_are_the_radios() {
        assert!(is_steady(|_| true));
        assert!(is_steady(|round| round % 10 != 0));
        assert!(!is_steady(|round| round % 3 != 0));
        assert!(!is_steady(|round| round % 20 < 10));
        assert!(!is_steady(|_| false));
    }
}
