//! BBRv3's two memories of loss.
//!
//! Long term: how much in flight the path is known to bear, found by probing. Short term: what it
//! bears at the time, cut by β in each round with loss and forgotten at the next probe.
//!
//! ```text
//!   round with loss, not probing:  bw_short = max(latest bw, 0.7·bw_short)
//!                                  inflight_short = max(latest delivered, 0.7·inflight_short)
//!   more than 2 % of a probe lost: inflight_long = max(in flight when it left, 0.7·target)
//! ```

use units::{Bytes, Rate};

use super::flights::Flight;
use crate::{Ack, RateSample};

/// BBRBeta, in tenths (draft-ietf-ccwg-bbr-02 §2: 0.7).
const BETA_TENTHS: u64 = 7;
/// BBRLossThresh: tolerated loss of a probe (§2: 2 %).
const LOSS_THRESHOLD_PERCENT: u64 = 2;
/// BBRHeadroom: share of the long-term bound that is left free while cruising (§2: 0.15).
const HEADROOM_PERCENT: u64 = 15;

#[derive(Clone, Debug, Default, stored::Stored)]
pub(super) struct Bounds {
    /// Largest volume in flight; `None` before a probe was too much.
    pub(super) long: Option<u64>,
    short: Option<(Rate, u64)>,
    /// Largest rate and volume delivered in this round.
    latest_rate: Rate,
    latest_volume: u64,
    has_loss_in_round: bool,
    losses_in_round: u32,
    round_ends_at: Bytes,
    is_round_start: bool,
}

/// 2 % of a flight, or more, was lost.
pub(super) fn is_too_high(flight: Flight, lost_total: u64) -> bool {
    lost_total.saturating_sub(flight.lost) * 100 > flight.in_flight * LOSS_THRESHOLD_PERCENT
}

impl Bounds {
    /// Takes in a rate sample, before the model does.
    pub(super) fn on_sample(&mut self, ack: &Ack, sample: &RateSample) {
        self.latest_rate = self.latest_rate.max(sample.rate);
        self.latest_volume = self.latest_volume.max(sample.delivered.get());
        let sent_at = ack.delivered_total.saturating_sub(sample.delivered);
        self.is_round_start = sent_at >= self.round_ends_at;
        if self.is_round_start {
            self.round_ends_at = ack.delivered_total;
        }
    }

    pub(super) fn on_loss(&mut self, delivered_total: Bytes) {
        self.losses_in_round += 1;
        if !self.has_loss_in_round {
            self.has_loss_in_round = true;
            self.round_ends_at = delivered_total;
        }
    }

    /// A packet-timed round has begun.
    pub(super) fn begin_round(&mut self) {
        self.losses_in_round = 0;
    }

    pub(super) fn losses_in_round(&self) -> u32 {
        self.losses_in_round
    }
    pub(super) fn latest_volume(&self) -> u64 {
        self.latest_volume
    }

    /// Adapts the short-term bounds at the end of a round with loss, unless a probe is under way.
    pub(super) fn adapt(&mut self, is_probing: bool, max_rate: Rate, cwnd: u64) {
        if !self.is_round_start {
            return;
        }
        if self.has_loss_in_round && !is_probing {
            let (rate, volume) = self.short.unwrap_or((max_rate, cwnd));
            self.short = Some((
                rate.mul_ratio(BETA_TENTHS, 10).max(self.latest_rate),
                (volume * BETA_TENTHS / 10).max(self.latest_volume),
            ));
        }
        self.has_loss_in_round = false;
    }

    /// A round is over: the next one's largest values begin with this sample.
    pub(super) fn advance(&mut self, sample: &RateSample) {
        if self.is_round_start {
            self.latest_rate = sample.rate;
            self.latest_volume = sample.delivered.get();
        }
    }

    pub(super) fn forget_round(&mut self) {
        self.has_loss_in_round = false;
        self.latest_rate = Rate::default();
        self.latest_volume = 0;
    }

    pub(super) fn forget_short(&mut self) {
        self.short = None;
    }

    pub(super) fn short_rate(&self) -> Option<Rate> {
        self.short.map(|(rate, _)| rate)
    }
    pub(super) fn short_volume(&self) -> Option<u64> {
        self.short.map(|(_, volume)| volume)
    }

    /// A probe of `flight` was too much; `target` is what the model would hold.
    pub(super) fn cut(&mut self, flight: Flight, target: u64) {
        self.long = Some(flight.in_flight.max(target * BETA_TENTHS / 10));
    }

    /// The long-term bound with room left for others.
    pub(super) fn with_headroom(&self, mss: u64) -> Option<u64> {
        self.long.map(|long| long - (long * HEADROOM_PERCENT / 100).max(mss).min(long))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use units::{Duration, Instant};

    fn sample(mbps: u64, delivered: u64) -> RateSample {
        RateSample {
            rate: Rate::from_mbps(mbps),
            delivered: Bytes::new(delivered),
            interval: Duration::from_millis(40),
            is_app_limited: false,
        }
    }

    fn ack(total: u64) -> Ack {
        Ack { now: Instant::ZERO, delivered_total: Bytes::new(total), ..Ack::default() }
    }

    /// A round that delivered `volume` at `mbps`, with or without loss.
    fn round(bounds: &mut Bounds, total: u64, mbps: u64, volume: u64, has_loss: bool) {
        if has_loss {
            bounds.on_loss(Bytes::new(total - volume));
        }
        let sample = sample(mbps, volume);
        bounds.on_sample(&ack(total), &sample);
        bounds.adapt(false, Rate::from_mbps(10), 100_000);
        bounds.advance(&sample);
    }

    #[test]
    fn a_round_with_loss_cuts_to_what_was_delivered_or_seven_tenths() {
        let mut bounds = Bounds::default();
        round(&mut bounds, 50_000, 8, 50_000, true);
        assert_eq!((bounds.short_rate(), bounds.short_volume()), (Some(Rate::from_mbps(8)), Some(70_000)));
        round(&mut bounds, 90_000, 3, 40_000, true);
        // The latest values begin with the last round's end.
        assert_eq!(bounds.short_rate(), Some(Rate::from_mbps(8)));
        round(&mut bounds, 130_000, 3, 40_000, true);
        assert_eq!(bounds.short_rate(), Some(Rate::from_kbps(5_600)));
    }

    #[test]
    fn a_round_without_loss_cuts_nothing() {
        let mut bounds = Bounds::default();
        round(&mut bounds, 50_000, 8, 50_000, false);
        assert_eq!(bounds.short_rate(), None);
    }

    #[test]
    fn a_probe_is_too_much_from_two_per_cent_on() {
        let mut flights = super::super::flights::Flights::default();
        flights.on_send(Bytes::ZERO, 100_000, 5_000);
        let flight = flights.find(Bytes::ZERO).expect("a flight");
        assert!(!is_too_high(flight, 7_000));
        assert!(is_too_high(flight, 7_001));
        let mut bounds = Bounds::default();
        bounds.cut(flight, 80_000);
        assert_eq!((bounds.long, bounds.with_headroom(1_000)), (Some(100_000), Some(85_000)));
        bounds.cut(flight, 200_000);
        assert_eq!(bounds.long, Some(140_000));
    }

    #[test]
    fn headroom_is_a_segment_at_least_and_never_more_than_there_is() {
        let mut bounds = Bounds { long: Some(3_000), ..Bounds::default() };
        assert_eq!(bounds.with_headroom(1_000), Some(2_000));
        bounds.long = Some(500);
        assert_eq!(bounds.with_headroom(1_000), Some(0));
        bounds.long = None;
        assert_eq!(bounds.with_headroom(1_000), None);
    }
}
