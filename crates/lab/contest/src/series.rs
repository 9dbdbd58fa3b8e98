//! Figures over time: throughput and queue in bins, and how long packets waited.

use figures::stats;
use link::{PacketRecord, Trace, time_bins};
use units::{Bytes, Duration, Instant, Rate};

use crate::results::RunSeries;

/// Bins of a run: as many as a plot shows.
const BINS: u64 = 240;
/// No bin is shorter.
const BIN_MIN: Duration = Duration::from_millis(100);

fn bin(length: Duration) -> Duration {
    length.mul_ratio(1, BINS).max(BIN_MIN)
}

/// Two decimals are enough for eyes.
fn rounded(value: f64) -> f64 {
    (value * 100.0).round() / 100.0
}

/// Throughput and queue of a run.
pub(crate) fn of_run(records: &[PacketRecord], length: Duration) -> RunSeries {
    let (from, to) = (Instant::ZERO, Instant::ZERO + length);
    let bins = time_bins(records, |_, _| Bytes::ZERO, (from, to), bin(length));
    let ms = |delay: Option<Duration>| rounded(delay.map_or(0.0, Duration::as_millis_f64));
    RunSeries {
        bin_ms: bin(length).as_millis_f64(),
        throughput_mbps: bins.iter().map(|bin| rounded(bin.throughput.as_mbps_f64())).collect(),
        queue_ms: bins.iter().map(|bin| ms(bin.queueing_delay_mean)).collect(),
    }
}

/// Capacity of the link in the same bins.
pub(crate) fn of_trace(trace: &Trace, length: Duration) -> Vec<f64> {
    let width = bin(length);
    (0..length.as_nanos().div_ceil(width.as_nanos()))
        .map(|number| {
            let from = width * number;
            let to = (from + width).min(length);
            rounded(Rate::from_transfer(trace.offered_bytes(from, to), to - from).as_mbps_f64())
        })
        .collect()
}

/// Quantiles of the queueing delay of the packets that left in `[0, length)` and were delivered, from 0 to
/// 100 %.
pub(crate) fn quantiles(records: &[PacketRecord], length: Duration) -> Vec<f64> {
    let end = Instant::ZERO + length;
    let is_here = |r: &&PacketRecord| r.delivered.is_some() && r.departure.is_some_and(|at| at < end);
    let mut delays: Vec<Duration> =
        records.iter().filter(is_here).filter_map(|r| r.queueing_delay()).collect();
    delays.sort_unstable();
    let at = |percent: u32| stats::percentile(&delays, percent * 10).map(Duration::as_millis_f64);
    (0..=100).filter_map(at).collect()
}
