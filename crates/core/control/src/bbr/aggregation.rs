//! Acknowledgements in bunches: how much more may come at once than the rate explains.
//!
//! Between two bunches the window must not run out, so the largest excess of the last five to ten
//! rounds is added to it (draft-cardwell-iccrg-bbr-congestion-control-00 leaves this out; IETF 101,
//! "BBR Congestion Control Work at Google", extra_acked).

use units::{Bytes, Duration, Instant, Rate};

use crate::Ack;

/// Rounds of one half of the memory (Linux `bbr_extra_acked_win_rtts`).
const HALF_ROUNDS: u32 = 5;
/// Time at the estimated rate that the allowance never exceeds (Linux `bbr_extra_acked_max_us`).
const TIME_MAX: Duration = Duration::from_millis(100);
/// Segments of an epoch that is long enough to start anew (Linux `bbr_ack_epoch_acked_reset_thresh`).
const EPOCH_SEGMENTS_MAX: u64 = 1 << 20;

#[derive(Clone, Debug, Default, stored::Stored)]
pub(crate) struct Aggregation {
    epoch_began: Instant,
    epoch_acked: u64,
    /// Largest excess of this half and of the one before.
    excess: [u64; 2],
    half: usize,
    rounds: u32,
}

impl Aggregation {
    /// The sender was idle: a new epoch begins.
    pub(crate) fn restart(&mut self, now: Instant) {
        self.epoch_began = now;
        self.epoch_acked = 0;
    }

    pub(crate) fn on_ack(&mut self, ack: &Ack, rate: Rate, is_round_start: bool, cwnd: u64) {
        if is_round_start {
            self.rounds += 1;
            if self.rounds >= HALF_ROUNDS {
                self.rounds = 0;
                self.half = 1 - self.half;
                self.excess[self.half] = 0;
            }
        }
        let acked = ack.delivered.get();
        let mut expected = rate.bytes_in(ack.now.saturating_since(self.epoch_began)).get();
        if self.epoch_acked <= expected || self.epoch_acked + acked >= EPOCH_SEGMENTS_MAX * 1_448 {
            self.restart(ack.now);
            expected = 0;
        }
        self.epoch_acked += acked;
        let excess = self.epoch_acked.saturating_sub(expected).min(cwnd);
        self.excess[self.half] = self.excess[self.half].max(excess);
    }

    /// Bytes to add to the window at `rate`.
    pub(crate) fn allowance(&self, rate: Rate) -> u64 {
        Bytes::get(rate.bytes_in(TIME_MAX)).min(self.excess[0].max(self.excess[1]))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `per_ack` bytes every `every_ms`, at a rate of a byte per microsecond.
    fn allowance_after(per_ack: u64, every_ms: u64, acks: u64) -> u64 {
        let mut aggregation = Aggregation::default();
        let rate = Rate::from_mbps(8);
        for i in 1..=acks {
            let ack = Ack {
                now: Instant::from_millis(i * every_ms),
                delivered: Bytes::new(per_ack),
                ..Ack::default()
            };
            aggregation.on_ack(&ack, rate, i % 10 == 0, u64::MAX);
        }
        aggregation.allowance(rate)
    }

    #[test]
    fn even_acknowledgements_add_their_own_size_only() {
        assert_eq!(allowance_after(2_000, 2, 100), 2_000);
    }

    #[test]
    fn a_bunch_adds_the_bunch() {
        assert_eq!(allowance_after(30_000, 30, 100), 30_000);
    }

    #[test]
    fn a_tenth_of_a_second_is_the_most() {
        assert_eq!(allowance_after(500_000, 500, 100), 100_000);
    }

    #[test]
    fn an_old_bunch_is_forgotten() {
        let mut aggregation = Aggregation::default();
        let rate = Rate::from_mbps(8);
        let ack =
            |ms, bytes| Ack { now: Instant::from_millis(ms), delivered: Bytes::new(bytes), ..Ack::default() };
        aggregation.on_ack(&ack(1, 50_000), rate, false, u64::MAX);
        for round in 1..=10 {
            assert_eq!(aggregation.allowance(rate), 50_000, "round {round}");
            aggregation.on_ack(&ack(60 + round * 2, 2_000), rate, true, u64::MAX);
        }
        assert_eq!(aggregation.allowance(rate), 2_000);
    }
}
