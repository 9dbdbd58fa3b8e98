//! Results of a contest: the document `cellerator/contest/1`.
//!
//! Its schema is `schemas/contest.schema.json`. Numbers name their unit.

use link::Percentiles;
use scenario::results::Interrupted;
use serde::{Deserialize, Serialize};
use units::Duration;

use crate::{Estimate, LimitPoint, PathDocument};

/// Name and version of the document.
pub const SCHEMA: &str = "cellerator/contest/1";

/// Results of a contest: schemes against each other on capacity traces.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Document {
    /// [`SCHEMA`].
    pub schema: String,
    /// Maker of the document: program and command line.
    pub made_by: Maker,
    /// Length of each run.
    pub seconds: f64,
    /// Seeds: each run is made with each.
    pub seeds: Vec<u64>,
    /// Runs that had ended when the user ended it; none when all was run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub interrupted: Option<Interrupted>,
    /// Settings of the path around the radio link.
    #[serde(default)]
    pub path: PathDocument,
    /// The traces.
    pub traces: Vec<TraceFigures>,
    /// Bulk flow and ping, means over the seeds: one entry per trace, buffer and scheme. Only of several
    /// seeds.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub summaries: Vec<Summary>,
    /// Bulk flow and ping: one entry per trace, buffer, scheme and seed.
    pub runs: Vec<Run>,
    /// Short downloads: one entry per trace, buffer, scheme, seed, size and kind of client.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub short: Vec<ShortRun>,
    /// Four flows at a time: one entry per trace, buffer, scheme and seed.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub mixed: Vec<MixedRun>,
    /// Many downloads at once: one entry per trace, buffer, scheme, seed and number of downloads.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub flows: Vec<FlowsRun>,
    /// A download beside others that pass: one entry per trace, buffer, scheme, seed and kind of neighbour.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub beside: Vec<BesideRun>,
    /// Limits of the possible: one entry per trace, seed that changes it, buffer and lateness.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub limits: Vec<Limit>,
}

impl Document {
    /// The limits of a trace with a queue, in the order of how late their senders know.
    #[must_use]
    pub fn limits_of(&self, trace: &str, buffer: &str) -> Vec<&Limit> {
        self.limits.iter().filter(|limit| limit.trace == trace && limit.buffer == buffer).collect()
    }

    /// Every run of every part.
    pub(crate) fn all_runs(&self) -> impl Iterator<Item = &dyn Seeded> {
        fn each<R: Seeded>(runs: &[R]) -> impl Iterator<Item = &dyn Seeded> {
            runs.iter().map(|run| run as &dyn Seeded)
        }
        let alone = each(&self.runs).chain(each(&self.short)).chain(each(&self.mixed));
        alone.chain(each(&self.flows)).chain(each(&self.beside))
    }

    /// Fills in [`Document::summaries`].
    pub(crate) fn summarise(&mut self) {
        if self.seeds.len() > 1 {
            let all: Vec<&Run> = self.runs.iter().collect();
            self.summaries = grouped(&all).iter().map(|runs| Summary::of(runs)).collect();
        }
    }
}

/// Runs that differ in their seed alone, in the order of the first of each.
pub(crate) fn grouped<'a, R: Seeded>(runs: &[&'a R]) -> Vec<Vec<&'a R>> {
    let mut groups: Vec<Vec<&R>> = Vec::new();
    for &run in runs {
        match groups.iter_mut().find(|group| group[0].place() == run.place()) {
            Some(group) => group.push(run),
            None => groups.push(vec![run]),
        }
    }
    groups
}

/// A run of which there is one per seed.
pub(crate) trait Seeded {
    /// One without figures yet, of a trace, a buffer and a scheme.
    fn of(place: [String; 3], seed: u64) -> Self
    where
        Self: Sized;
    /// Trace, buffer and scheme.
    fn place(&self) -> (&str, &str, &str);
    fn problems(&self) -> &[String];
}

macro_rules! seeded {
    ($($run:ty),*) => {$(
        impl Seeded for $run {
            fn of([trace, buffer, scheme]: [String; 3], seed: u64) -> Self {
                Self { trace, buffer, scheme, seed, ..Self::default() }
            }
            fn place(&self) -> (&str, &str, &str) {
                (&self.trace, &self.buffer, &self.scheme)
            }
            fn problems(&self) -> &[String] {
                &self.problems
            }
        }
    )*};
}
seeded!(Run, ShortRun, MixedRun, FlowsRun, BesideRun);

/// Those of a trace with a queue.
pub(crate) fn here<'a, R: Seeded>(runs: &'a [R], trace: &str, buffer: &str) -> Vec<&'a R> {
    runs.iter().filter(|run| (run.place().0, run.place().1) == (trace, buffer)).collect()
}

/// Bulk runs that differ in their seed alone.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Summary {
    /// The trace.
    pub trace: String,
    /// Size of the queue as asked for.
    pub buffer: String,
    /// The scheme.
    pub scheme: String,
    /// Number of runs.
    pub runs: u64,
    /// Share of the capacity that was used, as in a run, and so the others.
    pub utilisation: Estimate,
    /// Throughput.
    pub throughput_mbps: Estimate,
    /// Mean queueing delay.
    pub queue_mean_ms: Estimate,
    /// Its 95th percentile.
    pub queue_p95_ms: Estimate,
    /// Share of packets that the queue dropped.
    pub loss: Estimate,
    /// Median of the ping.
    pub ping_p50_ms: Estimate,
    /// Its 95th percentile.
    pub ping_p95_ms: Estimate,
}

impl Summary {
    fn of(runs: &[&Run]) -> Self {
        let (trace, buffer, scheme) = runs.first().map_or(("", "", ""), |run| run.place());
        let of =
            |value: fn(&Run) -> f64| Estimate::of(&runs.iter().map(|run| value(run)).collect::<Vec<_>>());
        Self {
            trace: trace.to_owned(),
            buffer: buffer.to_owned(),
            scheme: scheme.to_owned(),
            runs: runs.len() as u64,
            utilisation: of(|run| run.utilisation),
            throughput_mbps: of(|run| run.throughput_mbps),
            queue_mean_ms: of(|run| run.queue_ms.mean),
            queue_p95_ms: of(|run| run.queue_ms.p95),
            loss: of(|run| run.loss),
            ping_p50_ms: of(|run| run.ping_ms.p50),
            ping_p95_ms: of(|run| run.ping_ms.p95),
        }
    }
}

/// The best that senders reach who are told everything a little late, on one trace.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Limit {
    /// The trace.
    pub trace: String,
    /// Size of the queue as asked for.
    pub buffer: String,
    /// The first seed that has this trace.
    #[serde(default)]
    pub seed: u64,
    /// Lateness of their knowledge, ms.
    pub late_ms: f64,
    /// Points that no other beats, rising in utilisation and delay.
    pub points: Vec<LimitPoint>,
}

/// Short downloads.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ShortRun {
    /// The trace.
    pub trace: String,
    /// Size of the queue as asked for.
    pub buffer: String,
    /// The scheme.
    pub scheme: String,
    /// The seed.
    #[serde(default)]
    pub seed: u64,
    /// Bytes of each download.
    pub size_bytes: u64,
    /// `known` for a client that has downloaded before, `new` for one that has not.
    #[cfg_attr(feature = "schema", schemars(extend("enum" = ["known", "new"])))]
    pub client: String,
    /// From the client's SYN to the last byte.
    pub completion_ms: Delays,
    /// The soonest that is possible on this path at those moments: handshake, the server's slow start, the
    /// radio; computed.
    #[serde(default)]
    pub bound_ms: Delays,
    /// Median completion over the median of the bound.
    #[serde(default)]
    pub over_bound: f64,
    /// Downloads that took more than a minute.
    pub unfinished: u64,
    /// Problems of the run; empty when all is well.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub problems: Vec<String>,
}

/// Two bulk downloads, a video in pieces, a ping, and a call past the accelerator's control.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct MixedRun {
    /// The trace.
    pub trace: String,
    /// Size of the queue as asked for.
    pub buffer: String,
    /// The scheme.
    pub scheme: String,
    /// The seed.
    #[serde(default)]
    pub seed: u64,
    /// Bytes delivered over bytes that could have been.
    pub utilisation: f64,
    /// From arrival in the radio queue to departure, of delivered packets.
    pub queue_ms: Delays,
    /// Round trips of the ping.
    pub ping_ms: Delays,
    /// From asking for a piece of 500 KB to its last byte.
    pub piece_ms: Delays,
    /// One-way delay of the call's packets to the client.
    #[serde(default)]
    pub call_ms: Delays,
    /// The same from it.
    #[serde(default)]
    pub call_up_ms: Delays,
    /// Share of the call's packets that did not reach the client.
    #[serde(default)]
    pub call_loss: f64,
    /// The same from it.
    #[serde(default)]
    pub call_up_loss: f64,
    /// Goodput of the downloads from when the second has joined.
    pub bulk_mbps: [f64; 2],
    /// Jain's index of these: 1 for equal ones, a half where one gets everything.
    pub fairness: f64,
    /// Problems of the run; empty when all is well.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub problems: Vec<String>,
}

/// A download beside others of the same client that pass, and a ping.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct BesideRun {
    /// The trace.
    pub trace: String,
    /// Size of the queue as asked for.
    pub buffer: String,
    /// The scheme.
    pub scheme: String,
    /// The seed.
    pub seed: u64,
    /// Traffic beside it; `alone …` where there is nothing but that.
    pub beside: String,
    /// Goodput of the download from a quarter of the run on; 0 where there is none.
    pub own_mbps: f64,
    /// Goodput of each of the others, in the same time.
    pub beside_mbps: Vec<f64>,
    /// Bytes delivered over bytes that could have been.
    pub utilisation: f64,
    /// From arrival in the radio queue to departure, of delivered packets.
    pub queue_ms: Delays,
    /// Share of packets that the queue dropped.
    pub loss: f64,
    /// Round trips of the ping.
    pub ping_ms: Delays,
    /// Problems of the run; empty when all is well.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub problems: Vec<String>,
}

/// Many downloads of one client at once, and a ping.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct FlowsRun {
    /// The trace.
    pub trace: String,
    /// Size of the queue as asked for.
    pub buffer: String,
    /// The scheme.
    pub scheme: String,
    /// The seed.
    pub seed: u64,
    /// Number of downloads.
    pub flows: u64,
    /// Bytes delivered over bytes that could have been.
    pub utilisation: f64,
    /// From arrival in the radio queue to departure, of delivered packets.
    pub queue_ms: Delays,
    /// Share of packets that the queue dropped.
    pub loss: f64,
    /// Round trips of the ping.
    pub ping_ms: Delays,
    /// Jain's index of the downloads' goodput from a quarter of the run on.
    pub fairness: f64,
    /// Goodput of the slowest of them.
    pub slowest_mbps: f64,
    /// Goodput of the fastest of them.
    pub fastest_mbps: f64,
    /// Problems of the run; empty when all is well.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub problems: Vec<String>,
}

/// Program and command line.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Maker {
    /// Version of cellerator.
    pub cellerator: String,
    /// The command line.
    pub command: String,
    /// `sim` or `lab`: virtual or real time.
    #[cfg_attr(feature = "schema", schemars(extend("enum" = ["sim", "lab"])))]
    pub runner: String,
}

/// Limits that a trace itself imposes, in the time of a run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct TraceFigures {
    /// Its name.
    pub trace: String,
    /// The first seed that has this trace.
    #[serde(default)]
    pub seed: u64,
    /// Mean rate offered.
    pub mean_mbps: f64,
    /// Bandwidth-delay product of that rate and the empty path's round trip.
    pub bdp_bytes: u64,
    /// 95th percentile over time of the time since the last opportunity: the omniscient sender's delay.
    pub offset_p95_ms: f64,
    /// The ping alone on the link.
    pub idle_ping_ms: Delays,
    /// Capacity of the link, in bins as long as those of a run's series.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub capacity_mbps: Vec<f64>,
}

/// A run over time.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct RunSeries {
    /// Length of a bin.
    pub bin_ms: f64,
    /// Bytes delivered over the radio in each.
    pub throughput_mbps: Vec<f64>,
    /// Mean queueing delay of the packets that left in each; zero where none did.
    pub queue_ms: Vec<f64>,
}

/// Delays in milliseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Delays {
    /// Number of values.
    pub count: u64,
    /// Mean.
    pub mean: f64,
    /// Median.
    pub p50: f64,
    /// 95th percentile.
    pub p95: f64,
    /// 99th percentile.
    pub p99: f64,
    /// Largest.
    pub max: f64,
}

impl From<Percentiles> for Delays {
    fn from(p: Percentiles) -> Self {
        let ms = |d: Duration| d.as_millis_f64();
        Self {
            count: p.count,
            mean: ms(p.mean),
            p50: ms(p.p50),
            p95: ms(p.p95),
            p99: ms(p.p99),
            max: ms(p.max),
        }
    }
}

/// Data that waits in the accelerator.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Waiting {
    /// Mean over time, in bytes.
    pub mean_bytes: f64,
    /// Largest, in bytes.
    pub max_bytes: u64,
}

impl Run {
    /// Enters what the radio link did in the time of the run.
    pub(crate) fn set_radio(&mut self, radio: &link::Summary) {
        let lost = radio.lost_after + radio.faded + radio.harq_failed;
        let arrived = radio.delivered_packets + radio.queue_full + lost;
        self.utilisation = radio.utilisation;
        self.throughput_mbps = radio.throughput.as_mbps_f64();
        self.queue_ms = radio.queueing_delay.into();
        self.loss = radio.queue_full as f64 / arrived.max(1) as f64;
        self.radio_loss = lost as f64 / arrived.max(1) as f64;
    }

    /// Use of the link, and waiting of packets, in a few words.
    pub(crate) fn in_words(&self) -> String {
        format!(
            "{:.1} % used, queue p95 {:.0} ms, ping p95 {:.0} ms",
            self.utilisation * 100.0,
            self.queue_ms.p95,
            self.ping_ms.p95
        )
    }
}

/// A bulk flow with the ping beside it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Run {
    /// The trace.
    pub trace: String,
    /// Size of the queue as asked for.
    pub buffer: String,
    /// The same in bytes.
    pub buffer_bytes: u64,
    /// The scheme.
    pub scheme: String,
    /// The seed.
    #[serde(default)]
    pub seed: u64,
    /// Bytes delivered over bytes that could have been, in the time of the run.
    pub utilisation: f64,
    /// Bytes delivered over the radio link, headers included, over the time of the run.
    pub throughput_mbps: f64,
    /// From arrival in the radio queue to departure, of delivered packets.
    pub queue_ms: Delays,
    /// Share of packets that the queue dropped.
    pub loss: f64,
    /// Share of packets that the radio lost behind the queue.
    #[serde(default)]
    pub radio_loss: f64,
    /// Round trips of the pings sent in the time of the run.
    pub ping_ms: Delays,
    /// The run over time; of the first seed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub series: Option<RunSeries>,
    /// Quantiles of the queueing delay from 0 to 100 %, a per cent apart; empty in the lab.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub queue_quantiles_ms: Vec<f64>,
    /// Pings without an answer half a minute after the run.
    pub pings_unanswered: u64,
    /// Data acknowledged to the server and not yet sent to the client; none without an accelerator.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub waiting: Option<Waiting>,
    /// Problems of the run; empty when all is well.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub problems: Vec<String>,
    /// A number that every packet, place and time went into: equal for equal runs; empty in the lab.
    pub log_hash: String,
}

#[cfg(test)]
mod tests;
