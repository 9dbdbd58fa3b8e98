//! [`TraceStats`]: a capacity trace in figures.

use figures::stats::{Moments, percentile};
use serde::Serialize;

use crate::{OPPORTUNITY, Trace};

/// A pause between opportunities longer than this is an outage.
pub const OUTAGE_MS_MIN: u64 = 200;

/// Figures that describe a trace. Gaps and outages are pauses between milliseconds with opportunities.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct TraceStats {
    /// Length of one period in seconds.
    pub seconds: f64,
    /// Delivery opportunities in one period.
    pub opportunities: u64,
    /// Mean rate.
    pub mean_mbps: f64,
    /// Share of milliseconds with at least one opportunity.
    pub busy_share: f64,
    /// Mean number of opportunities in such a millisecond.
    pub per_busy_ms: f64,
    /// Median gap in ms.
    pub gap_ms_p50: u64,
    /// 95th percentile of the gaps in ms.
    pub gap_ms_p95: u64,
    /// 99th percentile of the gaps in ms.
    pub gap_ms_p99: u64,
    /// Longest gap in ms.
    pub gap_ms_max: u64,
    /// Number of gaps above 200 ms.
    pub outages: u64,
    /// Outages per minute.
    pub outages_per_min: f64,
    /// Median length of an outage in seconds, zero without any.
    pub outage_s_p50: f64,
    /// 95th percentile of the lengths in seconds.
    pub outage_s_p95: f64,
    /// Rates over 100 ms.
    pub bins_100ms: BinStats,
    /// Rates over 1 s.
    pub bins_1s: BinStats,
    /// Share of 100 ms bins without any opportunity.
    pub empty_100ms_share: f64,
    /// Autocorrelation of the 100 ms bins at a distance of 0.1 s.
    pub autocorrelation_100ms: f64,
    /// Autocorrelation of the 1 s bins at a distance of 1 s.
    pub autocorrelation_1s: f64,
    /// Autocorrelation of the 1 s bins at a distance of 5 s.
    pub autocorrelation_5s: f64,
}

/// Rates over bins of one width, in Mbit/s.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct BinStats {
    /// 5th percentile.
    pub p5_mbps: f64,
    /// Median.
    pub p50_mbps: f64,
    /// 95th percentile.
    pub p95_mbps: f64,
    /// Standard deviation over mean.
    pub variation: f64,
}

impl TraceStats {
    /// Figures of one period of `trace`.
    #[must_use]
    pub fn of(trace: &Trace) -> Self {
        let seconds = trace.period().as_secs_f64();
        let busy = trace.busy_ms().count() as f64;
        let gaps = sorted_gaps_ms(trace);
        let outages = &gaps[gaps.partition_point(|gap| *gap <= OUTAGE_MS_MIN)..];
        let gap = |per_mille| percentile(&gaps, per_mille).unwrap_or(0);
        let outage = |per_mille| percentile(outages, per_mille).unwrap_or(0) as f64 / 1e3;
        let bins_100ms = bin_rates_mbps(trace, 100);
        let bins_1s = bin_rates_mbps(trace, 1000);
        let empty = bins_100ms.iter().filter(|rate| **rate == 0.0).count();
        Self {
            seconds,
            opportunities: trace.opportunities(),
            mean_mbps: trace.mean_rate().as_mbps_f64(),
            busy_share: busy / (seconds * 1e3),
            per_busy_ms: trace.opportunities() as f64 / busy,
            gap_ms_p50: gap(500),
            gap_ms_p95: gap(950),
            gap_ms_p99: gap(990),
            gap_ms_max: gap(1000),
            outages: outages.len() as u64,
            outages_per_min: outages.len() as f64 * 60.0 / seconds,
            outage_s_p50: outage(500),
            outage_s_p95: outage(950),
            empty_100ms_share: empty as f64 / bins_100ms.len().max(1) as f64,
            autocorrelation_100ms: autocorrelation(&bins_100ms, 1),
            autocorrelation_1s: autocorrelation(&bins_1s, 1),
            autocorrelation_5s: autocorrelation(&bins_1s, 5),
            bins_100ms: BinStats::of(bins_100ms),
            bins_1s: BinStats::of(bins_1s),
        }
    }
}

impl BinStats {
    fn of(mut rates: Vec<f64>) -> Self {
        let (mean, deviation) = mean_and_deviation(&rates);
        rates.sort_unstable_by(f64::total_cmp);
        let at = |per_mille| percentile(&rates, per_mille).unwrap_or(0.0);
        let variation = if mean > 0.0 { deviation / mean } else { 0.0 };
        Self { p5_mbps: at(50), p50_mbps: at(500), p95_mbps: at(950), variation }
    }
}

/// Gaps between neighbouring busy milliseconds and from the start to the first one, in rising order.
fn sorted_gaps_ms(trace: &Trace) -> Vec<u64> {
    let mut gaps: Vec<u64> = outage_candidates(trace).map(|(begin, end)| end - begin).collect();
    gaps.sort_unstable();
    gaps
}

/// Begin and end in ms of each pause between opportunities.
fn outage_candidates(trace: &Trace) -> impl Iterator<Item = (u64, u64)> + '_ {
    trace
        .busy_ms()
        .scan(0, |previous, (ms, _)| Some((core::mem::replace(previous, ms), ms)))
        .filter(|(begin, end)| end > begin)
}

/// Begin and end in ms of each outage.
#[must_use]
pub fn outages_ms(trace: &Trace) -> Vec<(u64, u64)> {
    outage_candidates(trace).filter(|(begin, end)| end - begin > OUTAGE_MS_MIN).collect()
}

/// Rate in Mbit/s over each bin of `width_ms` of one period; a last bin cut short is left out. A period shorter
/// than a bin is one, of its own length: a trace repeats.
#[must_use]
pub fn bin_rates_mbps(trace: &Trace, width_ms: u64) -> Vec<f64> {
    let width_ms = width_ms.min(trace.period().as_millis()).max(1);
    let count = (trace.period().as_millis() / width_ms).max(1);
    let mut bins = vec![0u64; usize::try_from(count).unwrap_or(0)];
    for (ms, opportunities) in trace.busy_ms() {
        // The opportunity at the very end of the period closes the last whole bin.
        let index = if ms == count * width_ms { count - 1 } else { ms / width_ms };
        if let Some(bin) = usize::try_from(index).ok().and_then(|index| bins.get_mut(index)) {
            *bin += opportunities;
        }
    }
    let mbps_each = OPPORTUNITY.get() as f64 * 8.0 / 1e3 / width_ms as f64;
    bins.into_iter().map(|count| count as f64 * mbps_each).collect()
}

/// Mean and deviation of all bins; zero without any.
fn mean_and_deviation(values: &[f64]) -> (f64, f64) {
    Moments::of(values.iter().copied()).map_or((0.0, 0.0), |of| (of.mean, of.population_deviation()))
}

/// Autocorrelation at `lag` bins; zero when it is not defined.
fn autocorrelation(values: &[f64], lag: usize) -> f64 {
    let (mean, deviation) = mean_and_deviation(values);
    if values.len() <= lag || deviation == 0.0 {
        return 0.0;
    }
    let pairs = values.iter().zip(&values[lag..]);
    let sum: f64 = pairs.map(|(a, b)| (a - mean) * (b - mean)).sum();
    sum / (values.len() - lag) as f64 / (deviation * deviation)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn is_near(a: f64, b: f64) -> bool {
        (a - b).abs() < 1e-9
    }

    #[test]
    fn a_regular_trace_in_figures() -> Result<(), crate::LinkError> {
        // Two opportunities every 10 ms for one second, then 500 ms nothing, then one at 1500 ms.
        let lines = (1..=100).flat_map(|i| [i * 10, i * 10]).chain([1500]);
        let trace = Trace::from_opportunities_ms(lines)?;
        let stats = TraceStats::of(&trace);
        assert!(is_near(stats.seconds, 1.5) && stats.opportunities == 201);
        assert!(is_near(stats.mean_mbps, 201.0 * 12_000.0 / 1.5e6));
        assert!(is_near(stats.busy_share, 101.0 / 1500.0));
        assert_eq!((stats.gap_ms_p50, stats.gap_ms_max, stats.outages), (10, 500, 1));
        assert!(is_near(stats.outage_s_p50, 0.5) && is_near(stats.outages_per_min, 40.0));
        assert_eq!(outages_ms(&trace), [(1000, 1500)]);
        // Bins from 1.1 to 1.4 s are empty; the one at 1.0 s has the pair at 1000 ms.
        assert!(is_near(stats.empty_100ms_share, 3.0 / 15.0));
        assert!(is_near(stats.bins_100ms.p50_mbps, 2.4));
        Ok(())
    }

    #[test]
    fn a_trace_shorter_than_a_bin_has_its_own_rate() -> Result<(), crate::LinkError> {
        for period in [1, 10, 99, 100, 500, 999, 1000] {
            let trace = Trace::from_opportunities_ms(1..=period)?;
            let stats = TraceStats::of(&trace);
            for (width, bins) in [(100, stats.bins_100ms), (1000, stats.bins_1s)] {
                let found = [bins.p5_mbps, bins.p50_mbps, bins.p95_mbps, bins.variation];
                let is_right = found.iter().zip([12.0, 12.0, 12.0, 0.0]).all(|(a, b)| is_near(*a, b));
                assert!(is_right || period > width, "{period} {width} {found:?}");
            }
        }
        Ok(())
    }

    #[test]
    fn autocorrelation_of_known_series() {
        let alternating: Vec<f64> = (0..1000).map(|i| f64::from(i % 2)).collect();
        assert!(is_near(autocorrelation(&alternating, 1), -1.0));
        assert!(is_near(autocorrelation(&alternating, 2), 1.0));
        assert!(is_near(autocorrelation(&[3.0; 10], 1), 0.0));
    }
}
