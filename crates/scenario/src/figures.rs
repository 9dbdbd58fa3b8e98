//! Figures that the lab and the simulator compute alike: the radio link's, and everything against time.

use link::{PacketRecord, Summary, time_bins};
use units::{Bytes, Duration, Instant, Rate};

use crate::results::{Distribution, RadioFigures, Series, UdpFigures, rounded};

/// Length of a bin, and the longest transfer for which it is taken. A quarter of a second spans several round
/// trips of a cellular link: shorter bins show the bursts of single round trips.
const BINS: [(Duration, Duration); 3] = [
    (Duration::from_millis(50), Duration::from_secs(4)),
    (Duration::from_millis(250), Duration::from_secs(100)),
    (Duration::from_secs(1), Duration::from_secs(600)),
];
const LONGEST_BIN: Duration = Duration::from_secs(10);

/// A time as results say it.
#[must_use]
pub fn seconds(time: Duration) -> f64 {
    rounded(time.as_secs_f64())
}

/// The rate of `bytes` in `time` as results say it; zero for no time.
#[must_use]
pub fn mbps(bytes: u64, time: Duration) -> f64 {
    if time.is_zero() { 0.0 } else { rounded(Rate::from_transfer(Bytes::new(bytes), time).as_mbps_f64()) }
}

/// What a link did in `[began, ended)`, by the log of its packets; `offered` says what it could have carried.
#[must_use]
pub fn radio(
    offered: impl Fn(Instant, Instant) -> Bytes,
    records: &[PacketRecord],
    began: Instant,
    ended: Instant,
) -> RadioFigures {
    let offered = offered(began, ended);
    let summary = Summary::from_records(records, offered, began, ended);
    let is_limited = offered != Bytes::MAX && offered != Bytes::ZERO;
    let mut delays: Vec<f64> = records
        .iter()
        .filter(|r| r.delivered.is_some() && r.departure.is_some_and(|at| at >= began && at < ended))
        .filter_map(|r| Some(r.queueing_delay()?.as_millis_f64()))
        .collect();
    RadioFigures {
        offered_bytes: (offered != Bytes::MAX).then_some(offered.get()),
        delivered_bytes: summary.delivered_bytes.get(),
        utilisation: is_limited.then_some(rounded(summary.utilisation)),
        queue_delay_ms: Distribution::of(&mut delays).unwrap_or_default(),
        dropped_full: summary.queue_full,
        dropped_loss: summary.lost_before + summary.harq_failed + summary.faded + summary.lost_after,
    }
}

/// The same in bins, with what the applications received: `marks` has bytes so far at some moments, per flow.
#[must_use]
pub fn series(
    offered: impl Fn(Instant, Instant) -> Bytes,
    records: &[PacketRecord],
    marks: &[&[(Instant, u64)]],
    began: Instant,
    ended: Instant,
) -> Series {
    let time = ended.saturating_since(began);
    let bin = BINS.iter().find(|(_, longest)| time <= *longest).map_or(LONGEST_BIN, |(bin, _)| *bin);
    let bins = time_bins(records, offered, (began, ended), bin);
    let rate = |rate: Rate| rounded(rate.as_mbps_f64());
    let delay = |delay: Option<Duration>| delay.map(|d| rounded(d.as_millis_f64()));
    let is_limited = bins.iter().all(|b| b.capacity != Rate::MAX);
    Series {
        bin_s: bin.as_secs_f64(),
        capacity_mbps: bins.iter().filter(|_| is_limited).map(|b| rate(b.capacity)).collect(),
        delivered_mbps: bins.iter().map(|b| rate(b.throughput)).collect(),
        queue_delay_ms: bins.iter().map(|b| delay(b.queueing_delay_mean)).collect(),
        queue_delay_max_ms: bins.iter().map(|b| delay(b.queueing_delay_max)).collect(),
        goodput_mbps: goodput(marks, began, bin, bins.len()),
    }
}

/// Of datagrams `sent` and `received`, and when each acknowledgement came and how long after its
/// datagram had left; in the bins of `series`, which begin at `began`.
#[must_use]
pub fn udp(
    (sent, received): (u64, u64),
    round_trips: &[(Instant, Duration)],
    began: Instant,
    series: &Series,
) -> UdpFigures {
    let mut sums = vec![(0.0, 0u32); series.delivered_mbps.len()];
    for (at, rtt) in round_trips {
        let bin = at.saturating_since(began).as_secs_f64() / series.bin_s;
        if let Some((sum, count)) = sums.get_mut(bin as usize) {
            (*sum, *count) = (*sum + rtt.as_millis_f64(), *count + 1);
        }
    }
    let mean = |(sum, count): (f64, u32)| (count > 0).then(|| rounded(sum / f64::from(count)));
    let mut rtts: Vec<f64> = round_trips.iter().map(|(_, rtt)| rtt.as_millis_f64()).collect();
    UdpFigures {
        sent,
        received,
        // Six decimals: a loss of 0.01 % has two digits then.
        loss: ((sent - received.min(sent)) as f64 / sent.max(1) as f64 * 1e6).round() / 1e6,
        rtt_ms: Distribution::of(&mut rtts),
        rtt_series_ms: sums.into_iter().map(mean).collect(),
    }
}

/// Of each answered ping when it was sent after `began`, in s, and its round-trip time in ms.
#[must_use]
pub fn pings(round_trips: &[(Instant, Duration)], began: Instant) -> Vec<(f64, f64)> {
    let mut pings: Vec<(f64, f64)> = round_trips
        .iter()
        .map(|(sent, time)| (seconds(sent.saturating_since(began)), rounded(time.as_millis_f64())))
        .collect();
    pings.sort_by(|a, b| a.0.total_cmp(&b.0));
    pings
}

/// What the applications received in each bin.
fn goodput(marks: &[&[(Instant, u64)]], began: Instant, bin: Duration, bins: usize) -> Vec<f64> {
    let mut bytes = vec![0; bins];
    for flow in marks {
        let mut before = 0;
        for (at, total) in *flow {
            let index = at.saturating_since(began).as_nanos() / bin.as_nanos();
            // The last byte may stand exactly on the end of the last bin.
            let index = usize::try_from(index).unwrap_or(usize::MAX).min(bins.saturating_sub(1));
            if let Some(bytes) = bytes.get_mut(index) {
                *bytes += total - before;
            }
            before = *total;
        }
    }
    bytes.into_iter().map(|bytes| mbps(bytes, bin)).collect()
}
