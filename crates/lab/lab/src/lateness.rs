//! [`Lateness`]: how much later than planned packets were handed over.

use figures::stats;
use scenario::results::{Distribution, Timing, rounded};
use units::{Bytes, Duration, Instant};

/// Width of a bucket: 0.1 µs resolves the spinning waiter's error.
const BUCKET_NS: u64 = 100;
/// Above this only the exact largest value and the shares are kept.
const BUCKETS: usize = 50_000;

/// A histogram with fixed memory, so that recording never allocates. Mean, extremes and shares are exact;
/// `hdrhistogram` would round them.
#[derive(Clone, Debug)]
pub struct Lateness {
    buckets: Vec<u32>,
    count: u64,
    sum_ns: u128,
    sum_of_squares: u128,
    min_ns: u64,
    max_ns: u64,
    over_200_us: u64,
    over_1_ms: u64,
}

impl Default for Lateness {
    fn default() -> Self {
        Self {
            buckets: vec![0; BUCKETS],
            count: 0,
            sum_ns: 0,
            sum_of_squares: 0,
            min_ns: u64::MAX,
            max_ns: 0,
            over_200_us: 0,
            over_1_ms: 0,
        }
    }
}

impl Lateness {
    /// Counts one packet.
    pub fn record(&mut self, late: Duration) {
        let ns = late.as_nanos();
        let bucket = usize::try_from(ns / BUCKET_NS).unwrap_or(usize::MAX).min(BUCKETS - 1);
        self.buckets[bucket] = self.buckets[bucket].saturating_add(1);
        self.count += 1;
        self.sum_ns += u128::from(ns);
        self.sum_of_squares += u128::from(ns) * u128::from(ns);
        self.min_ns = self.min_ns.min(ns);
        self.max_ns = self.max_ns.max(ns);
        self.over_200_us += u64::from(ns > 200_000);
        self.over_1_ms += u64::from(ns > 1_000_000);
    }

    /// A percentile in µs, to the upper end of its bucket.
    fn percentile_us(&self, per_mille: u32) -> f64 {
        let upper = |bucket: usize| {
            let end = (bucket as u64 + 1) * BUCKET_NS;
            // The last bucket has no upper end of its own.
            if bucket + 1 == BUCKETS { self.max_ns } else { end.min(self.max_ns) }
        };
        let counts = self.buckets.iter().enumerate().map(|(bucket, count)| (bucket, u64::from(*count)));
        stats::percentile_of_counts(counts, per_mille).map_or(0.0, |bucket| upper(bucket) as f64 / 1e3)
    }

    /// The timing report of a run in which the kernel dropped `missed_packets` that were not fetched in
    /// time. What it means for a figure says [`Timing::judged`].
    #[must_use]
    pub fn report(&self, missed_packets: u64) -> Timing {
        let n = self.count.max(1) as f64;
        let mean_ns = self.sum_ns as f64 / n;
        let variance = (self.sum_of_squares as f64 / n - mean_ns * mean_ns).max(0.0);
        let (over_200_us, over_1_ms) = (self.over_200_us as f64 / n, self.over_1_ms as f64 / n);
        Timing {
            late_us: Distribution {
                count: self.count,
                min: if self.count == 0 { 0.0 } else { rounded(self.min_ns as f64 / 1e3) },
                mean: rounded(mean_ns / 1e3),
                p50: rounded(self.percentile_us(500)),
                p95: rounded(self.percentile_us(950)),
                p99: rounded(self.percentile_us(990)),
                max: rounded(self.max_ns as f64 / 1e3),
                deviation: rounded(variance.sqrt() / 1e3),
            },
            share_over_200_us: rounded(over_200_us),
            share_over_1_ms: rounded(over_1_ms),
            missed_packets,
            throughput_error: 0.0,
            trustworthy: true,
            why_not: None,
        }
    }
}

/// Share of each 100 ms that is lost to lateness: of a bin placed anywhere, the bytes that are missing at its
/// end because they are late, over all of its bytes. That is the mean lateness of the bytes over the bin's
/// length.
#[derive(Clone, Debug)]
pub struct LateBins {
    start: Instant,
    bins: Vec<Bin>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Bin {
    bytes: u64,
    late_byte_ns: u128,
}

impl LateBins {
    const WIDTH: Duration = Duration::from_millis(100);

    /// Bins from `start` on.
    pub(crate) fn new(start: Instant) -> Self {
        Self { start, bins: Vec::new() }
    }

    /// Counts a packet of `size` in the bin for which it was `planned`, handed over with the delay `late`.
    pub(crate) fn record(&mut self, size: Bytes, planned: Instant, late: Duration) {
        let number = planned.saturating_since(self.start).as_nanos() / Self::WIDTH.as_nanos();
        let Ok(index) = usize::try_from(number) else { return };
        if index >= self.bins.len() {
            self.bins.resize(index + 1, Bin::default());
        }
        let bin = &mut self.bins[index];
        bin.bytes += size.get();
        bin.late_byte_ns += u128::from(size.get()) * u128::from(late.as_nanos());
    }

    /// The share of each bin, in order; nothing is lost of a bin for which nothing was planned.
    pub fn shares(&self) -> impl Iterator<Item = f64> + '_ {
        let width = Self::WIDTH.as_nanos() as f64;
        self.bins.iter().map(move |bin| bin.late_byte_ns as f64 / bin.bytes.max(1) as f64 / width)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_and_shares() {
        let mut lateness = Lateness::default();
        for us in 1..=100 {
            lateness.record(Duration::from_micros(us));
        }
        let timing = lateness.report(0);
        assert_eq!((timing.late_us.min, timing.late_us.max, timing.late_us.count), (1.0, 100.0, 100));
        assert!((timing.late_us.mean - 50.5).abs() < 1e-9);
        assert!((timing.late_us.p99 - 99.1).abs() < 1e-9);
        lateness.record(Duration::from_millis(700));
        let timing = lateness.report(3);
        assert_eq!((timing.late_us.max, timing.missed_packets), (700_000.0, 3));
        assert!((timing.share_over_1_ms - 1.0 / 101.0).abs() < 1e-4);
    }

    #[test]
    fn the_share_of_a_bin_is_the_mean_lateness_of_its_bytes_over_its_length() {
        let (ms, late) = (Instant::from_millis, Duration::from_micros);
        let mut bins = LateBins::new(ms(1_000));
        bins.record(Bytes::new(750), ms(1_050), late(0));
        bins.record(Bytes::new(250), ms(1_099), late(400));
        bins.record(Bytes::new(500), ms(1_200), late(2_000));
        let permille: Vec<i64> = bins.shares().map(|share| (share * 1e3).round() as i64).collect();
        assert_eq!(permille, [1, 0, 20]);
    }

    #[test]
    fn nothing_recorded_is_no_error() {
        assert_eq!(Lateness::default().report(0).late_us.max, 0.0);
    }
}
