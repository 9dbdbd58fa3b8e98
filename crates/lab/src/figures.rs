//! From what was kept of a case to its [`Figures`].

use link::{Link, PacketRecord, Summary, time_bins};
use scenario::results::{
    Distribution, Figures, Flow, RadioFigures, Retransmissions, Series, Transfer, rounded,
};
use scenario::{Kind, Workload};
use units::{Bytes, Duration, Instant, Rate};

use crate::emulator::Emulation;
use crate::observer;
use crate::origin::Content;
use crate::transfer::Outcome;

/// Length of a bin, and the longest transfer for which it is taken. A quarter of a second spans several round
/// trips of a cellular link: shorter bins show the bursts of single round trips.
const BINS: [(Duration, Duration); 3] = [
    (Duration::from_millis(50), Duration::from_secs(4)),
    (Duration::from_millis(250), Duration::from_secs(100)),
    (Duration::from_secs(1), Duration::from_secs(600)),
];
const LONGEST_BIN: Duration = Duration::from_secs(10);

/// Everything known of a case that has ended.
pub struct Evidence<'a> {
    /// What the emulator kept.
    pub emulation: Emulation,
    /// What became of the flows.
    pub outcomes: &'a [Outcome],
    /// What was asked for.
    pub workload: &'a Workload,
    /// What was served.
    pub content: &'a Content,
    /// SHA-256 of every upload that the server got.
    pub uploaded: Vec<String>,
    /// `Tcp RetransSegs` of the sending host.
    pub resent_by_sender: u64,
    /// Round-trip times of the ping alongside, ms.
    pub ping_ms: Vec<f64>,
}

impl Evidence<'_> {
    /// Computes the figures.
    #[must_use]
    pub fn figures(mut self) -> Figures {
        let began = self.outcomes.iter().map(|o| o.started).min().unwrap_or_default();
        let ended = self.outcomes.iter().map(|o| o.ended).max().unwrap_or_default();
        // The radio direction that carries the data: index into records, and into links after the two of the WAN.
        let data = usize::from(self.workload.kind() == Kind::Upload);
        let link = &self.emulation.links[2 + data];
        let records = &self.emulation.records[data];
        let [data_segments, ack_segments] =
            [&self.emulation.segments[data], &self.emulation.segments[1 - data]];
        let (segments, over_radio) = observer::repeats(data_segments);
        Figures {
            transfer: self.transfer(began, ended),
            radio: radio(link, records, began, ended),
            window: observer::window(ack_segments, data_segments),
            retransmissions: Retransmissions { by_sender: self.resent_by_sender, over_radio, segments },
            series: series(link, records, self.outcomes, began, ended),
            timing: self.emulation.timing.clone(),
            ping_ms: Distribution::of(&mut self.ping_ms),
        }
    }

    fn transfer(&self, began: Instant, ended: Instant) -> Transfer {
        let mut uploaded = self.uploaded.clone();
        let mut flows: Vec<Flow> = Vec::new();
        for outcome in self.outcomes {
            let sha256_received = match self.workload.kind() {
                Kind::Download => outcome.sha256.clone(),
                // Uploads are all of the same content: each flow takes one that came out right, if there is one.
                Kind::Upload => {
                    let right = uploaded.iter().position(|hash| *hash == self.content.sha256).unwrap_or(0);
                    if uploaded.is_empty() { String::new() } else { uploaded.swap_remove(right) }
                }
            };
            let time = outcome.ended.saturating_since(outcome.started);
            flows.push(Flow {
                start_s: seconds(outcome.started.saturating_since(began)),
                first_byte_s: outcome.first_byte.map(|at| seconds(at.saturating_since(began))),
                end_s: seconds(outcome.ended.saturating_since(began)),
                received_bytes: outcome.bytes,
                goodput_mbps: mbps(outcome.bytes, time),
                sha256_served: self.content.sha256.clone(),
                sha256_received,
                error: outcome.error.clone(),
            });
        }
        let received_bytes = self.outcomes.iter().map(|o| o.bytes).sum();
        let time = ended.saturating_since(began);
        Transfer {
            expected_bytes: self.content.size.get().saturating_mul(self.outcomes.len() as u64),
            received_bytes,
            seconds: seconds(time),
            goodput_mbps: mbps(received_bytes, time),
            hashes_equal: flows.iter().all(|f| f.sha256_served == f.sha256_received && f.error.is_none()),
            cut_short: self.outcomes.iter().any(|o| o.is_cut_short),
            flows,
        }
    }
}

fn seconds(time: Duration) -> f64 {
    rounded(time.as_secs_f64())
}

fn mbps(bytes: u64, time: Duration) -> f64 {
    if time.is_zero() { 0.0 } else { rounded(Rate::from_transfer(Bytes::new(bytes), time).as_mbps_f64()) }
}

/// The data direction of the radio link in `[began, ended)`.
fn radio(link: &Link<Vec<u8>>, records: &[PacketRecord], began: Instant, ended: Instant) -> RadioFigures {
    let offered = link.offered_bytes(began, ended);
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
        dropped_loss: summary.lost_before + summary.harq_failed + summary.lost_after,
    }
}

fn series(
    link: &Link<Vec<u8>>,
    records: &[PacketRecord],
    outcomes: &[Outcome],
    began: Instant,
    ended: Instant,
) -> Series {
    let time = ended.saturating_since(began);
    let bin = BINS.iter().find(|(_, longest)| time <= *longest).map_or(LONGEST_BIN, |(bin, _)| *bin);
    let bins = time_bins(records, |from, to| link.offered_bytes(from, to), (began, ended), bin);
    let rate = |rate: Rate| rounded(rate.as_mbps_f64());
    let delay = |delay: Option<Duration>| delay.map(|d| rounded(d.as_millis_f64()));
    let is_limited = bins.iter().all(|b| b.capacity != Rate::MAX);
    Series {
        bin_s: bin.as_secs_f64(),
        capacity_mbps: bins.iter().filter(|_| is_limited).map(|b| rate(b.capacity)).collect(),
        delivered_mbps: bins.iter().map(|b| rate(b.throughput)).collect(),
        queue_delay_ms: bins.iter().map(|b| delay(b.queueing_delay_mean)).collect(),
        queue_delay_max_ms: bins.iter().map(|b| delay(b.queueing_delay_max)).collect(),
        goodput_mbps: goodput(outcomes, began, bin, bins.len()),
    }
}

/// What the applications received in each bin.
fn goodput(outcomes: &[Outcome], began: Instant, bin: Duration, bins: usize) -> Vec<f64> {
    let mut bytes = vec![0; bins];
    for outcome in outcomes {
        let mut before = 0;
        for (at, total) in &outcome.marks {
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
