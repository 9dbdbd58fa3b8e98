//! Rates that the link has offered of late, and the forecast of what it will offer next.
//!
//! ```text
//!   acknowledged bytes ──▶ bins of ≥ B ──▶ last N of them ──▶ r̂ = 0.7·q₀.₇ + 0.3·max     (forecast)
//!                                                          └▶ r̄ = mean of the last M      (recent)
//! ```
//!
//! A bin is closed by an acknowledgement, so that bunched ones (radio slots, H15) fall into one bin
//! with the time they waited. An outage is not an offer of nothing but the absence of offers: a bin
//! lasts `BINS_SPANNED` times B at most, and what the link did before an outage is remembered over
//! it.

use std::mem::offset_of;

use units::{Bytes, Duration, Instant, Rate};

/// Bins remembered at most.
pub(super) const BINS_MAX: usize = 32;

/// Multiple of its length that a bin lasts at most in which acknowledgements came late.
const BINS_SPANNED: u64 = 4;

/// Rates of the most recent bins, and the one under way.
#[derive(Clone, Debug, stored::Stored)]
#[repr(C)]
#[stored(order(length, bins, written, remembered, started, bytes, reported, is_limited, forecast, average))]
pub(super) struct Offer {
    started: Option<Instant>,
    bytes: Bytes,
    forecast: Option<Rate>,
    length: Duration,
    /// r̃, in kbit/s.
    average: u32,
    /// True when the window, not the data, limited what was sent in the bin under way.
    is_limited: bool,
    /// Time at which the last report came.
    reported: Instant,
    /// Bins written so far, the oldest overwritten.
    written: usize,
    /// Bins that tell the forecast.
    remembered: usize,
    /// Rates in kbit/s: there is one of these per subscriber.
    bins: [u32; BINS_MAX],
}

/// Time over which the average is taken: long beside any repair, whatever the bins' length.
const AVERAGED: Duration = Duration::from_millis(360);

impl Offer {
    /// Bytes at its beginning that each packet needs.
    pub(super) const ALWAYS_TOUCHED: usize = offset_of!(Self, reported);

    pub(super) fn new(length: Duration, remembered: usize) -> Self {
        Self {
            length,
            bins: [0; BINS_MAX],
            written: 0,
            remembered: remembered.clamp(1, BINS_MAX),
            started: None,
            bytes: Bytes::ZERO,
            reported: Instant::ZERO,
            is_limited: false,
            forecast: None,
            average: 0,
        }
    }

    /// B: how long a bin lasts at least.
    pub(super) fn length(&self) -> Duration {
        self.length
    }

    /// Sets the length of the bins from now on.
    pub(super) fn set_length(&mut self, length: Duration) {
        self.length = length;
    }

    /// Nothing was in flight until now: the time before was not the link's.
    pub(super) fn restart(&mut self, now: Instant) {
        self.started = Some(now);
        self.bytes = Bytes::ZERO;
        self.is_limited = false;
    }

    /// Forgets all, as for a subscriber that has never been seen.
    pub(super) fn forget(&mut self) {
        *self = Self::new(self.length, self.remembered);
    }

    /// Counts acknowledged bytes; true when they closed a bin that tells something new.
    pub(super) fn count(&mut self, bytes: Bytes, is_limited: bool, now: Instant) -> bool {
        let Some(started) = self.started else {
            self.restart(now);
            return false;
        };
        self.bytes += bytes;
        self.is_limited |= is_limited;
        let elapsed = now.saturating_since(started);
        if elapsed < self.length {
            return false;
        }
        let rate = Rate::from_transfer(self.bytes, elapsed.min(self.length * BINS_SPANNED));
        // What came while data was short is a lower bound: it may raise the forecast, never lower it.
        let tells = self.is_limited || self.forecast.is_none_or(|forecast| rate > forecast);
        self.restart(now);
        if tells {
            self.push(rate);
            self.take_average(rate, elapsed.min(self.length * BINS_SPANNED));
        }
        tells
    }

    /// Takes in a rate that somebody else measured, the base station, as often as it likes: the
    /// mean of a bin's time is one bin.
    pub(super) fn report(&mut self, rate: Rate, now: Instant) {
        let since_last = now.saturating_since(self.reported);
        self.reported = now;
        let Some(started) = self.started.filter(|_| since_last < self.length * 8) else {
            return self.restart(now);
        };
        self.bytes += rate.bytes_in(since_last);
        let elapsed = now.saturating_since(started);
        if elapsed >= self.length {
            let mean = Rate::from_transfer(self.bytes, elapsed);
            self.restart(now);
            if !mean.is_zero() {
                self.push(mean);
                self.take_average(mean, elapsed);
            }
        }
    }

    /// Exponentially, by the time it lasted.
    fn take_average(&mut self, rate: Rate, elapsed: Duration) {
        let rate = u32::try_from(rate.as_bps() / 1_000).unwrap_or(u32::MAX);
        let (new, all) = (elapsed.min(AVERAGED).as_nanos(), AVERAGED.as_nanos());
        let sum = u128::from(rate) * u128::from(new) + u128::from(self.average) * u128::from(all - new);
        let is_first = self.average == 0;
        self.average = if is_first { rate } else { u32::try_from(sum / u128::from(all)).unwrap_or(u32::MAX) };
    }

    /// r̃: the average of the last moments and of what was before, over a third of a second and more.
    pub(super) fn average(&self) -> Option<Rate> {
        (self.average > 0).then(|| Rate::from_kbps(u64::from(self.average)))
    }

    fn push(&mut self, rate: Rate) {
        self.bins[self.written % BINS_MAX] = u32::try_from(rate.as_bps() / 1_000).unwrap_or(u32::MAX);
        // Kept between one and two rings once the ring is full.
        self.written += 1;
        if self.written >= 2 * BINS_MAX {
            self.written -= BINS_MAX;
        }
        self.forecast = self.compute();
    }

    /// The last `n` bins, newest first.
    fn last(&self, n: usize) -> impl Iterator<Item = Rate> + '_ {
        let known = self.written.min(BINS_MAX);
        (1..=n.min(known))
            .map(|back| Rate::from_kbps(u64::from(self.bins[(self.written + BINS_MAX - back) % BINS_MAX])))
    }

    fn compute(&self) -> Option<Rate> {
        let mut sorted = [Rate::from_bps(0); BINS_MAX];
        let mut n = 0;
        for rate in self.last(self.remembered) {
            sorted[n] = rate;
            n += 1;
        }
        let known = sorted.get_mut(..n).filter(|known| known.len() >= 3)?;
        known.sort_unstable();
        let quantile = known[((n - 1) * 7 + 5) / 10];
        let max = known[n - 1];
        Some(Rate::from_bps(quantile.mul_ratio(7, 10).as_bps().saturating_add(max.mul_ratio(3, 10).as_bps())))
    }

    /// r̂: what the link is expected to offer; none before three bins.
    pub(super) fn forecast(&self) -> Option<Rate> {
        self.forecast
    }

    /// r̄: the mean of the last `n` bins.
    pub(super) fn recent(&self, n: usize) -> Option<Rate> {
        let (sum, count) = self
            .last(n)
            .fold((0u64, 0u64), |(sum, count), rate| (sum.saturating_add(rate.as_bps()), count + 1));
        (count > 0).then(|| Rate::from_bps(sum / count))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ms(ms: u64) -> Duration {
        Duration::from_millis(ms)
    }

    fn at(ms: u64) -> Instant {
        Instant::from_millis(ms)
    }

    fn kbps(rate: Option<Rate>) -> u64 {
        rate.map_or(0, |rate| rate.as_bps() / 1_000)
    }

    #[test]
    fn three_bins_make_a_forecast() {
        let mut offer = Offer::new(ms(30), 24);
        let mut closed = 0;
        // 1000 bytes every 10 ms: 800 kbit/s.
        for t in (0..=90).step_by(10) {
            closed += u32::from(offer.count(Bytes::new(1_000), true, at(t)));
            assert_eq!(offer.forecast().is_some(), closed >= 3, "at {t} ms");
        }
        assert_eq!((closed, kbps(offer.forecast())), (3, 800));
    }

    #[test]
    fn the_forecast_is_seven_tenths_of_the_quantile_and_three_of_the_largest() {
        let mut offer = Offer::new(ms(30), 11);
        for rate in 1..=11 {
            offer.push(Rate::from_kbps(rate * 100));
        }
        // Of 100, 200 … 1,100 the 0.7 quantile is 800.
        assert_eq!(kbps(offer.forecast()), 560 + 330);
        assert_eq!(kbps(offer.recent(4)), 950);
    }

    #[test]
    fn only_the_last_bins_count_however_many_there_were() {
        let mut offer = Offer::new(ms(30), 8);
        for round in 0..1_000u64 {
            offer.push(Rate::from_kbps(if round < 992 { 9_000 } else { 500 }));
        }
        assert_eq!(kbps(offer.forecast()), 500);
        assert_eq!(kbps(offer.recent(9)), (8 * 500 + 9_000) / 9);
    }

    #[test]
    fn a_late_acknowledgement_closes_a_bin_of_limited_length() {
        let mut offer = Offer::new(ms(30), 8);
        offer.restart(at(0));
        assert!(offer.count(Bytes::new(12_000), true, at(10_000)));
        // 12,000 bytes in 120 ms, not in ten seconds.
        assert_eq!(kbps(offer.recent(1)), 800);
    }

    #[test]
    fn without_enough_data_only_more_is_news() {
        let mut offer = Offer::new(ms(30), 8);
        (0..4).for_each(|_| offer.push(Rate::from_kbps(800)));
        offer.restart(at(0));
        assert!(!offer.count(Bytes::new(1_000), false, at(30)));
        assert!(offer.count(Bytes::new(9_000), false, at(60)));
        assert_eq!(kbps(offer.recent(1)), 2_400);
    }

    #[test]
    fn what_is_forgotten_is_gone() {
        let mut offer = Offer::new(ms(30), 8);
        (0..4).for_each(|_| offer.push(Rate::from_kbps(800)));
        offer.forget();
        assert_eq!((offer.forecast(), offer.recent(4)), (None, None));
    }

    #[test]
    fn reports_are_averaged_over_a_bin() {
        let mut offer = Offer::new(ms(30), 8);
        for step in 0..30u64 {
            // 1 and 3 Mbit/s in turn, every 5 ms.
            offer.report(Rate::from_mbps(1 + 2 * (step % 2)), at(step * 5));
        }
        assert_eq!(kbps(offer.recent(3)), 2_000);
    }
}
