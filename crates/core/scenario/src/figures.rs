//! Figures that the lab and the simulator compute alike: the radio link's, and everything against time.

use link::{PacketRecord, Summary, time_bins};
use units::{Bytes, Duration, Instant, Rate};

use crate::results::{BesideFigures, Distribution, RadioFigures, Series, UdpFigures, rounded};
use crate::{Beside, BesideKind};

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

/// Figures of a link in `[began, ended)`, by the log of its packets; `offered` says what it could carry.
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

/// Figures of datagrams `sent` and `received`, and when each acknowledgement came and how long
/// after its datagram had left; in the bins of `series`, which begin at `began`.
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

/// Measurements of a flow beside those of the workload.
#[derive(Clone, Debug)]
pub struct Neighbour {
    /// Entry of the scenario that it comes from.
    pub entry: Beside,
    /// Time at which it began.
    pub began: Instant,
    /// Time at which it ended by the scenario; the workload's end may come first.
    pub stopped: Instant,
    /// Bytes that had arrived at some moments.
    pub marks: Vec<(Instant, u64)>,
    /// Times that the pages took that ended.
    pub pages: Vec<Duration>,
    /// Delays of a call's packets towards the client, and from it.
    pub delays: [Vec<Duration>; 2],
    /// Packets of a call sent towards the client that were to arrive, and those that did.
    pub sent: u64,
    /// Error that it ended with.
    pub error: Option<String>,
}

impl Neighbour {
    /// One of which nothing has arrived.
    #[must_use]
    pub fn new(entry: &Beside, began: Instant, stopped: Instant) -> Self {
        Self {
            entry: entry.clone(),
            began,
            stopped,
            marks: Vec::new(),
            pages: Vec::new(),
            delays: [Vec::new(), Vec::new()],
            sent: 0,
            error: None,
        }
    }

    /// Its figures beside the workload's flows, whose bytes so far are `own`, and who took `time`.
    #[must_use]
    pub fn figures(
        &self,
        own: &[&[(Instant, u64)]],
        time: (Instant, Instant),
        series: &Series,
    ) -> BesideFigures {
        let from = self.began.clamp(time.0, time.1);
        let until = self.stopped.clamp(from, time.1);
        let lasting = until.saturating_since(from);
        let received = arrived(&self.marks, from, until);
        let own_bytes: u64 = own.iter().map(|marks| arrived(marks, from, until)).sum();
        let within: Vec<(Instant, u64)> =
            self.marks.iter().take_while(|(at, _)| *at < time.1).copied().collect();
        let bin = Duration::from_nanos((series.bin_s * 1e9).round() as u64);
        let bins = series.delivered_mbps.len();
        let summary = |times: &[Duration]| {
            Distribution::of(&mut times.iter().map(|time| time.as_millis_f64()).collect::<Vec<_>>())
        };
        let came = self.delays[0].len() as u64;
        BesideFigures {
            kind: self.entry.kind,
            congestion_control: self.entry.kind.is_download().then(|| self.entry.congestion_control()),
            start_s: seconds(from.saturating_since(time.0)),
            end_s: seconds(until.saturating_since(time.0)),
            received_bytes: received,
            goodput_mbps: mbps(received, lasting),
            own_mbps: mbps(own_bytes, lasting),
            response_ms: summary(&self.pages),
            delay_ms: summary(&self.delays[0]),
            delay_up_ms: summary(&self.delays[1]),
            loss: (self.entry.kind == BesideKind::Call && self.sent > 0)
                .then(|| rounded((self.sent - came.min(self.sent)) as f64 / self.sent as f64)),
            goodput_series_mbps: if bin.is_zero() {
                Vec::new()
            } else {
                goodput(&[&within], time.0, bin, bins)
            },
            error: self.error.clone(),
        }
    }
}

/// Bytes that arrived from one moment to another, by bytes so far at some moments.
fn arrived(marks: &[(Instant, u64)], from: Instant, until: Instant) -> u64 {
    let so_far = |at: Instant| {
        let before = marks.partition_point(|(mark, _)| *mark <= at);
        before.checked_sub(1).and_then(|last| marks.get(last)).map_or(0, |(_, bytes)| *bytes)
    };
    so_far(until).saturating_sub(so_far(from))
}

/// Time after `began`, in s, at which each answered ping was sent, and its round-trip time in ms.
#[must_use]
pub fn pings(round_trips: &[(Instant, Duration)], began: Instant) -> Vec<(f64, f64)> {
    let mut pings: Vec<(f64, f64)> = round_trips
        .iter()
        .map(|(sent, time)| (seconds(sent.saturating_since(began)), rounded(time.as_millis_f64())))
        .collect();
    pings.sort_by(|a, b| a.0.total_cmp(&b.0));
    pings
}

/// Goodput that the applications received in each bin.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_neighbour_and_the_own_flow_are_measured_over_the_same_time() {
        let at = |ms: u64| Instant::ZERO + Duration::from_millis(ms);
        let series = Series { bin_s: 1.0, delivered_mbps: vec![0.0; 4], ..Series::default() };
        // The own flow has 1 Mbit/s all the time, and ends after 4 s; the neighbour 2 Mbit/s from second 2 on.
        let own: Vec<(Instant, u64)> = (1..=16).map(|n| (at(n * 250), n * 31_250)).collect();
        let mut one = Neighbour::new(&Beside::new(BesideKind::Quic), at(2_000), at(60_000));
        one.marks = (9..=40).map(|n| (at(n * 250), (n - 8) * 62_500)).collect();
        let figures = one.figures(&[&own], (at(0), at(4_000)), &series);
        assert_eq!((figures.start_s, figures.end_s), (2.0, 4.0));
        assert_eq!((figures.received_bytes, figures.goodput_mbps, figures.own_mbps), (500_000, 2.0, 1.0));
        assert_eq!(figures.goodput_series_mbps.iter().sum::<f64>(), 1.5 + 2.0);
        assert_eq!(figures.name(), "quic, cubic");
        assert!(figures.loss.is_none() && figures.response_ms.is_none());
        // One that would have begun later got nothing, and no share of any time.
        let late = Neighbour { began: at(9_000), ..one };
        let figures = late.figures(&[&own], (at(0), at(4_000)), &series);
        assert_eq!((figures.start_s, figures.goodput_mbps, figures.own_mbps), (4.0, 0.0, 0.0));
    }
}
