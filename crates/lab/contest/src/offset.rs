//! [`offset_ms`]: the delay that a trace imposes on any sender.

use link::Trace;
use units::Duration;

/// The 95th percentile, over the time `[0, length)`, of the time since the last delivery opportunity, in ms.
///
/// An omniscient sender, whose packets reach the link just when they can leave, has data this old at the
/// receiver: the definition of Sprout's evaluation (NSDI 2013). A lone packet at a random time waits as long
/// for the next one.
#[must_use]
pub fn offset_ms(trace: &Trace, length: Duration) -> f64 {
    let gaps = gaps_ms(trace, length.as_millis());
    let total: u64 = gaps.iter().sum();
    // The age grows from 0 to the length of each gap: the time it spends above x is Σ max(0, gap − x).
    let wanted = total as f64 * 0.05;
    let mut sorted = gaps;
    sorted.sort_unstable_by(|a, b| b.cmp(a));
    let mut sum = 0;
    for (index, gap) in sorted.iter().enumerate() {
        sum += gap;
        let longer = (index + 1) as f64;
        let next = sorted.get(index + 1).copied().unwrap_or(0) as f64;
        let x = (sum as f64 - wanted) / longer;
        if x >= next {
            return x.max(0.0);
        }
    }
    0.0
}

/// Gaps between opportunities within `[0, length)` ms, the first from the start and the last to the end.
fn gaps_ms(trace: &Trace, length: u64) -> Vec<u64> {
    let period = trace.period().as_millis().max(1);
    let mut gaps = Vec::new();
    let mut last = 0;
    let cycles = length.div_ceil(period);
    let times = (0..cycles).flat_map(|cycle| trace.busy_ms().map(move |(ms, _)| cycle * period + ms));
    for ms in times.take_while(|ms| *ms < length).chain([length]) {
        if ms > last {
            gaps.push(ms - last);
            last = ms;
        }
    }
    gaps
}

#[cfg(test)]
mod tests {
    use super::*;

    fn offset(opportunities: &[u64], length_ms: u64) -> f64 {
        let trace = Trace::from_opportunities_ms(opportunities.iter().copied()).unwrap();
        offset_ms(&trace, Duration::from_millis(length_ms))
    }

    #[test]
    fn even_gaps_give_nearly_their_length() {
        // The age is uniform in 0..20: its 95th percentile is 19.
        assert!((offset(&[20], 2_000) - 19.0).abs() < 1e-9);
    }

    #[test]
    fn one_long_gap_counts_with_its_time() {
        // 900 gaps of 1 ms and one of 100 ms: of 1000 ms the last 50 ms of the long one are the oldest.
        let times: Vec<u64> = (1..=900).chain([1_000]).collect();
        assert!((offset(&times, 1_000) - 50.0).abs() < 1e-9);
        // Too short to reach 5 % of the time.
        let times: Vec<u64> = (1..=1_000).collect();
        assert!(offset(&times, 1_000) <= 1.0);
    }

    #[test]
    fn the_run_may_be_longer_than_the_trace() {
        assert!((offset(&[20], 50) - offset(&[20, 40, 60], 50)).abs() < 1e-9);
    }
}
