//! What the link has offered of late, and from it what it will offer next.
//!
//! ```text
//!   acknowledged bytes ──▶ bins of ≥ B ──▶ last N of them ──▶ r̂ = 0.7·q₀.₇ + 0.3·max     (forecast)
//!                                                          └▶ r̄ = mean of the last M      (recent)
//! ```
//!
//! A bin is closed by an acknowledgement, so that bunched ones (radio slots, H15) fall into one bin with the time
//! they waited. An outage is not an offer of nothing but the absence of offers: a bin lasts `BINS_SPANNED` times B
//! at most, and what the link did before an outage is remembered over it.

use units::{Bytes, Duration, Instant, Rate};

/// Bins remembered at most.
pub(super) const BINS_MAX: usize = 32;

/// A bin in which acknowledgements came late lasts so many times its length at most.
const BINS_SPANNED: u64 = 4;

/// Rates of the most recent bins, and the one under way.
#[derive(Clone, Debug)]
pub(super) struct Offer {
    length: Duration,
    bins: [Rate; BINS_MAX],
    /// Bins written so far, the oldest overwritten.
    written: usize,
    /// Bins that tell the forecast.
    remembered: usize,
    started: Option<Instant>,
    bytes: Bytes,
    /// When the last report came.
    reported: Instant,
    /// In the bin under way the window, not the data, limited what was sent.
    is_limited: bool,
    forecast: Option<Rate>,
}

impl Offer {
    pub(super) fn new(length: Duration, remembered: usize) -> Self {
        Self {
            length,
            bins: [Rate::from_bps(0); BINS_MAX],
            written: 0,
            remembered: remembered.clamp(1, BINS_MAX),
            started: None,
            bytes: Bytes::ZERO,
            reported: Instant::ZERO,
            is_limited: false,
            forecast: None,
        }
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
        }
        tells
    }

    /// Takes in a rate that somebody else measured, the base station, as often as it likes: the mean of a bin's time
    /// is one bin.
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
            }
        }
    }

    fn push(&mut self, rate: Rate) {
        self.bins[self.written % BINS_MAX] = rate;
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
        (1..=n.min(known)).map(|back| self.bins[(self.written + BINS_MAX - back) % BINS_MAX])
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
