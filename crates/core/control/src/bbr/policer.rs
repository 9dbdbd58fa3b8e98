//! Long-term sampling: a token bucket lets a burst pass and then drops what exceeds its rate.
//!
//! Two intervals of 4 to 16 rounds that begin and end with a loss, lose a fifth, and agree on the
//! rate within an eighth or 4 kbit/s: the path is policed, and their mean is the rate for the next
//! 48 rounds. Source: draft-cardwell-iccrg-bbr-congestion-control-00 leaves it out; Linux; "An
//! Internet-Wide Analysis of Traffic Policing", SIGCOMM 2016.

use units::{Bytes, Instant, Rate};

use crate::Ack;

/// Rounds of the shortest interval (Linux `bbr_lt_intvl_min_rtts`).
const INTERVAL_ROUNDS_MIN: u32 = 4;
/// Rounds of the longest: four times that (Linux `bbr_lt_bw_sampling`).
const INTERVAL_ROUNDS_MAX: u32 = 4 * INTERVAL_ROUNDS_MIN;
/// Lost per 256 delivered that make a policer likely: 20 % (Linux `bbr_lt_loss_thresh`).
const LOSS_256THS: u64 = 50;
/// Largest difference of two intervals: an eighth (Linux `bbr_lt_bw_ratio`).
const AGREEMENT: u64 = 8;
/// Or this (Linux `bbr_lt_bw_diff`: 4000 bit/s).
const DIFFERENCE_MAX: Rate = Rate::from_kbps(4);
/// Rounds for which the rate is believed (Linux `bbr_lt_bw_max_rtts`).
const ROUNDS_IN_USE: u32 = 48;

#[derive(Clone, Debug, Default, stored::Stored)]
pub(super) struct Policer {
    is_sampling: bool,
    rounds: u32,
    /// Rate of the last interval.
    last: Option<Rate>,
    /// The policed rate, while believed.
    in_use: Option<Rate>,
    lost: Bytes,
    delivered: Bytes,
    began: Instant,
    began_lost: Bytes,
    began_delivered: Bytes,
}

impl Policer {
    pub(super) fn rate(&self) -> Option<Rate> {
        self.in_use
    }

    pub(super) fn count_loss(&mut self, lost: Bytes) {
        self.lost += lost;
    }

    pub(super) fn reset(&mut self, now: Instant) {
        self.last = None;
        self.in_use = None;
        self.is_sampling = false;
        self.begin_interval(now);
    }

    fn begin_interval(&mut self, now: Instant) {
        self.began = now;
        (self.began_lost, self.began_delivered) = (self.lost, self.delivered);
        self.rounds = 0;
    }

    /// Takes in an acknowledgement; true when the policed rate has been used long enough and is to
    /// be probed again.
    pub(super) fn on_sample(
        &mut self,
        ack: &Ack,
        is_round_start: bool,
        is_limited: bool,
        is_probing: bool,
    ) -> bool {
        self.delivered = ack.delivered_total;
        if self.in_use.is_some() {
            self.rounds += u32::from(is_probing && is_round_start);
            let is_over = self.rounds >= ROUNDS_IN_USE;
            if is_over {
                self.reset(ack.now);
            }
            return is_over;
        }
        let has_loss = ack.lost > Bytes::ZERO;
        if !self.is_sampling {
            if !has_loss {
                return false;
            }
            self.begin_interval(ack.now);
            self.is_sampling = true;
        }
        if is_limited {
            self.reset(ack.now);
            return false;
        }
        self.rounds += u32::from(is_round_start);
        if self.rounds > INTERVAL_ROUNDS_MAX {
            self.reset(ack.now);
        } else if self.rounds >= INTERVAL_ROUNDS_MIN && has_loss {
            self.end_interval(ack.now);
        }
        false
    }

    fn end_interval(&mut self, now: Instant) {
        let lost = self.lost - self.began_lost;
        let delivered = self.delivered - self.began_delivered;
        let time = now.saturating_since(self.began);
        let is_heavy = lost.get() * 256 >= LOSS_256THS * delivered.get();
        if delivered == Bytes::ZERO || !is_heavy || time.as_millis() == 0 {
            return;
        }
        let rate = Rate::from_transfer(delivered, time);
        if let Some(last) = self.last {
            let difference = Rate::from_bps(rate.as_bps().abs_diff(last.as_bps()));
            if difference <= last.mul_ratio(1, AGREEMENT) || difference <= DIFFERENCE_MAX {
                self.in_use = Some(Rate::from_bps(rate.as_bps().midpoint(last.as_bps())));
                self.rounds = 0;
                return;
            }
        }
        self.last = Some(rate);
        self.begin_interval(now);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Rounds of 50 ms with `kb` kilobytes delivered and `lost_kb` lost in each.
    fn run(policer: &mut Policer, from: u64, rounds: u64, kb: u64, lost_kb: u64) -> Option<u64> {
        let mut total = policer.delivered.get();
        for i in 0..rounds {
            total += kb * 1_000;
            policer.count_loss(Bytes::new(lost_kb * 1_000));
            let ack = Ack {
                now: Instant::from_millis((from + i) * 50),
                delivered: Bytes::new(kb * 1_000),
                delivered_total: Bytes::new(total),
                lost: Bytes::new(lost_kb * 1_000),
                ..Ack::default()
            };
            if policer.on_sample(&ack, true, false, true) {
                return Some(i);
            }
        }
        None
    }

    #[test]
    fn two_intervals_of_heavy_loss_tell_the_rate() {
        let mut policer = Policer::default();
        run(&mut policer, 1, 10, 50, 15);
        // 50 kB in 50 ms are 8 Mbit/s.
        assert_eq!(policer.rate(), Some(Rate::from_mbps(8)));
    }

    #[test]
    fn light_loss_tells_nothing() {
        let mut policer = Policer::default();
        run(&mut policer, 1, 40, 50, 5);
        assert_eq!(policer.rate(), None);
    }

    #[test]
    fn intervals_that_disagree_tell_nothing() {
        let mut policer = Policer::default();
        for (i, kb) in [50, 100, 25, 60].into_iter().enumerate() {
            run(&mut policer, 1 + i as u64 * 5, 5, kb, kb / 3);
        }
        assert_eq!(policer.rate(), None);
    }

    #[test]
    fn it_is_probed_again_after_48_rounds() {
        let mut policer = Policer::default();
        run(&mut policer, 1, 10, 50, 15);
        assert!(policer.rate().is_some());
        let ended = run(&mut policer, 11, 100, 50, 0).expect("an end");
        assert!((45..=48).contains(&ended), "{ended}");
        assert_eq!(policer.rate(), None);
    }
}
