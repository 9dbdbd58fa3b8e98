//! Results of a scenario: the document `cellerator/lab-results/1`, the same from lab and simulator.
//!
//! Its schema is `schemas/lab-results.schema.json`. Numbers name their unit; times of a case count from
//! the moment its first transfer is started.

use std::fmt;

use figures::stats::{Moments, Quantiles};
use serde::{Deserialize, Serialize};

use units::Bytes;

use crate::{BesideKind, Case, CongestionControl, Kind, Scenario};

/// Name and version of the document.
pub const SCHEMA: &str = "cellerator/lab-results/1";

/// Results of scenarios that the lab (real time) or the simulator (virtual time) has run.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Results {
    /// [`SCHEMA`].
    pub schema: String,
    /// Program and machine that made it.
    pub made_by: MadeBy,
    /// One entry per scenario, in the order run.
    pub scenarios: Vec<ScenarioResult>,
    /// Charts over several cases.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub pictures: Vec<Picture>,
    /// Runs that had ended when the user ended it; none when all was run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub interrupted: Option<Interrupted>,
}

/// A chart of what several cases did, with what is seen in it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Picture {
    /// Its name, which files have.
    pub name: String,
    /// Title that says what is seen, in a few words.
    pub title: String,
    /// Text that says what is seen, where there is no gain, and how it was measured: a few sentences.
    pub text: String,
    /// `lab` (real time) or `sim` (virtual time).
    #[cfg_attr(feature = "schema", schemars(extend("enum" = ["lab", "sim"])))]
    pub runner: String,
    /// The axis that all panels share.
    pub x: PictureAxis,
    /// The panels, from the top.
    pub panels: Vec<PicturePanel>,
}

/// Axis of a picture: its name and range.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct PictureAxis {
    /// Quantity and unit.
    pub label: String,
    /// Spread of the values.
    pub spread: PictureSpread,
}

/// Spread of values along the axis of a picture.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
pub enum PictureSpread {
    /// Equal steps for equal differences, from zero.
    Linear,
    /// Equal steps for equal ratios.
    Log,
    /// Equal steps from each value to the next.
    Places,
}

/// Lines over one another.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct PicturePanel {
    /// Its upward axis.
    pub y: PictureAxis,
    /// Capacity of the link, in Mbit/s, behind the lines; empty when there is nothing to show.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub capacity: Vec<(f64, f64)>,
    /// The lines.
    pub lines: Vec<PictureLine>,
}

/// One line of a picture.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct PictureLine {
    /// The case it belongs to.
    pub name: String,
    /// Its points, pairs of x and y, by rising x.
    pub points: Vec<(f64, f64)>,
}

/// Progress of something that the user ended. Prints as `interrupted after 3 of 8 runs`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Interrupted {
    /// Runs that had ended.
    pub finished: usize,
    /// All that were wanted.
    pub of: usize,
}

impl fmt::Display for Interrupted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "interrupted after {} of {} runs", self.finished, self.of)
    }
}

/// Programs and machine.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct MadeBy {
    /// Version of cellerator.
    pub cellerator: String,
    /// Kernel release.
    pub kernel: String,
    /// Processors available.
    pub processors: usize,
    /// The command line.
    pub command: String,
    /// Time of its start: seconds since 1970-01-01 UTC.
    pub started_unix_s: u64,
    /// `lab` (real time) or `sim` (virtual time).
    #[cfg_attr(feature = "schema", schemars(extend("enum" = ["lab", "sim"])))]
    pub runner: String,
    /// Other programs that took part: name and version.
    pub programs: Vec<String>,
    /// Queueing discipline of the lab's interfaces; empty in virtual time.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub qdisc: String,
    /// `net.core.default_qdisc`, which an accelerator's own devices have; empty in virtual time.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub default_qdisc: String,
}

/// One scenario's outcome.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ScenarioResult {
    /// The scenario as read, with the keys of its file.
    #[cfg_attr(feature = "schema", schemars(with = "String", extend("type" = "object")))]
    pub scenario: Scenario,
    /// Every case and repetition, in the order run.
    pub cases: Vec<CaseResult>,
}

/// Outcome of one case and repetition.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct CaseResult {
    /// Name of the case.
    pub name: String,
    /// Number of the repetition, from 1.
    pub repetition: u32,
    /// Seed of this repetition.
    pub seed: u64,
    /// All settings of the case, filled in.
    #[cfg_attr(feature = "schema", schemars(with = "String", extend("type" = "object")))]
    pub settings: Case,
    /// The accelerator's command line, when there was one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub accelerator_command: Option<String>,
    /// Reason why the case did not run; the figures are absent then.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub skipped: Option<String>,
    /// Results that are not as they must be; empty when all is well.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub problems: Vec<String>,
    /// Reasons why a figure is not worth what is stated beside it, and what to do: one sentence each; empty
    /// when all is well.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub doubts: Vec<String>,
    /// Figures that were measured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub figures: Option<Figures>,
    /// Figures that only the simulator knows.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub simulation: Option<Simulation>,
}

impl CaseResult {
    /// A run of the case `settings` that nothing is known of yet.
    #[must_use]
    pub fn new(settings: Case, repetition: u32, seed: u64) -> Self {
        Self {
            name: settings.name.clone(),
            repetition,
            seed,
            settings,
            accelerator_command: None,
            skipped: None,
            problems: Vec::new(),
            doubts: Vec::new(),
            figures: None,
            simulation: None,
        }
    }

    /// Congestion control of the sending host, `cubic` unless the scenario says otherwise; `udp` without one.
    #[must_use]
    pub fn sender(&self) -> &'static str {
        match self.settings.workload.kind() {
            Kind::Udp => "udp",
            _ => self.settings.server.congestion_control.unwrap_or_default().name(),
        }
    }
}

/// Figures of a case that only the simulator knows.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Simulation {
    /// Virtual time that passed.
    pub simulated_s: f64,
    /// Packets seen at all points together.
    pub packets: u64,
    /// A number that every packet, place and time went into, hexadecimal: equal for equal runs.
    pub log_hash: String,
    /// Most bytes of one flow that the accelerator had acknowledged and the receiving host had not.
    pub debt_max_bytes: u64,
    /// Flows that were accelerated.
    pub accelerated_flows: u64,
}

impl Figures {
    /// Results of `case` that are not as they must be, one clause each.
    #[must_use]
    pub fn problems(&self, case: &Case) -> Vec<String> {
        let errors = self.transfer.flows.iter().enumerate();
        let mut problems: Vec<String> = errors
            .filter_map(|(i, flow)| Some(format!("flow {} failed: {}", i + 1, flow.error.as_ref()?)))
            .collect();
        let beside = self.beside.iter();
        problems
            .extend(beside.filter_map(|one| {
                Some(format!("beside it, {} failed: {}", one.name(), one.error.as_ref()?))
            }));
        if self.transfer.cut_short {
            let is_planned = case.workload.ends_at_limit == Some(true);
            let told = (!is_planned).then(|| "the time limit ended the transfer".to_owned());
            problems.extend(told);
        } else if !self.transfer.hashes_equal && problems.is_empty() {
            problems.push("what arrived is not what was sent".to_owned());
        }
        problems
    }

    /// Reasons why figures are not worth what is stated beside them, one sentence each: the emulator's
    /// timing, and a client whose window is not what the scenario is about.
    #[must_use]
    pub fn doubts(&self, case: &Case) -> Vec<String> {
        let mut doubts: Vec<String> = self.timing.why_not.clone().into_iter().collect();
        if let (Some(range), Some(window)) = (case.client.expected_window, self.window) {
            let (min, max, own) = (range.min.0.get(), range.max.0.get(), window.max_bytes);
            let near = own.clamp(min, max);
            if own != near {
                let moved = 100.0 * (own as f64 / near.max(1) as f64 - 1.0);
                doubts.push(format!(
                    "the client advertised a window of {}, the scenario is about {} to {}: where the window \
                     limits, the throughput is off by {moved:+.0} %; run it again with nothing else running",
                    Bytes::new(own),
                    range.min,
                    range.max
                ));
            }
        }
        doubts
    }
}

/// Figures that were measured in one case.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Figures {
    /// The application's view of all flows together.
    pub transfer: Transfer,
    /// The data direction of the radio link during the transfer.
    pub radio: RadioFigures,
    /// The receive window that the data's receiver advertised.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub window: Option<WindowFigures>,
    /// Segments sent more than once.
    pub retransmissions: Retransmissions,
    /// Round-trip times of the ping alongside, in ms.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ping_ms: Option<Distribution>,
    /// Each ping that was answered: when it was sent, in s, and its round-trip time in ms.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub pings: Vec<(f64, f64)>,
    /// Time from each request to the end of its response, in ms; of pages alongside, from the SYN to the last
    /// byte.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub response_ms: Option<Distribution>,
    /// Of UDP datagrams that the receiver acknowledges.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub udp: Option<UdpFigures>,
    /// Figures of each flow beside those of the workload; of pages and calls one entry each.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub beside: Vec<BesideFigures>,
    /// The emulator's own timing error: planned departure against the moment of writing.
    pub timing: Timing,
    /// Figures against time.
    pub series: Series,
}

/// Figures of a flow beside those of the workload, from its start to its end or that of the workload's last
/// flow.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct BesideFigures {
    /// Kind of the flow.
    pub kind: BesideKind,
    /// Congestion control of its server, of downloads and QUIC.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schemars(with = "Option<String>"))]
    pub congestion_control: Option<CongestionControl>,
    /// Time of its start.
    pub start_s: f64,
    /// Time at which it ended, or the workload's last flow did.
    pub end_s: f64,
    /// Bytes that arrived until then; of a call those towards the client.
    pub received_bytes: u64,
    /// Over that time.
    pub goodput_mbps: f64,
    /// Goodput of the workload's flows in the same time, together.
    pub own_mbps: f64,
    /// Times of pages, from the SYNs to the last byte, in ms.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub response_ms: Option<Distribution>,
    /// Delays of calls, one way towards the client, in ms.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub delay_ms: Option<Distribution>,
    /// The same from the client.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub delay_up_ms: Option<Distribution>,
    /// Of calls: share of the packets towards the client that did not arrive, 0 to 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub loss: Option<f64>,
    /// Goodput in each bin of the series.
    pub goodput_series_mbps: Vec<f64>,
    /// Error that it ended with.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

impl BesideFigures {
    /// Name that describes it in a few words: `quic, bbr`.
    #[must_use]
    pub fn name(&self) -> String {
        match self.congestion_control {
            Some(control) => format!("{}, {}", self.kind.name(), control.in_scenarios()),
            None => self.kind.name().to_owned(),
        }
    }
}

/// UDP datagrams at a set rate, each acknowledged by its receiver.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct UdpFigures {
    /// Datagrams sent.
    pub sent: u64,
    /// Datagrams that arrived.
    pub received: u64,
    /// Share of the sent that did not arrive, 0 to 1.
    pub loss: f64,
    /// From sending a datagram to its acknowledgement.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rtt_ms: Option<Distribution>,
    /// Mean round-trip time of the acknowledgements that came in each bin of the series; `null` without any.
    pub rtt_series_ms: Vec<Option<f64>>,
}

/// The application's view of all flows together.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Transfer {
    /// Bytes that were to arrive.
    pub expected_bytes: u64,
    /// Bytes that arrived.
    pub received_bytes: u64,
    /// Time from the start of the first flow to the end of the last one.
    pub seconds: f64,
    /// Received bytes over that time.
    pub goodput_mbps: f64,
    /// True when every byte that arrived is the one that was sent: by SHA-256, or byte by byte in the
    /// simulator.
    pub hashes_equal: bool,
    /// True when the time limit ended it.
    pub cut_short: bool,
    /// Each flow.
    pub flows: Vec<Flow>,
}

/// One flow's view.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Flow {
    /// Time of its start.
    pub start_s: f64,
    /// Arrival time of its first byte.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub first_byte_s: Option<f64>,
    /// Time of its end.
    pub end_s: f64,
    /// Bytes that arrived.
    pub received_bytes: u64,
    /// Over its own time.
    pub goodput_mbps: f64,
    /// Goodput over the second half of the case, when all flows have started; none from the simulator.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub late_mbps: Option<f64>,
    /// SHA-256 of what was served, hexadecimal; none from the simulator, which compares each byte.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub sha256_served: String,
    /// SHA-256 of what arrived, hexadecimal.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub sha256_received: String,
    /// Error message of the client program when it failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

/// The radio link in the direction of the data.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct RadioFigures {
    /// Bytes the link could have carried; absent for an unlimited link.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub offered_bytes: Option<u64>,
    /// Bytes of IP packets it carried.
    pub delivered_bytes: u64,
    /// Delivered over offered, 0 to 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub utilisation: Option<f64>,
    /// Time from arrival to the end of service, in ms, of delivered packets.
    pub queue_delay_ms: Distribution,
    /// Packets dropped because the queue was full.
    pub dropped_full: u64,
    /// Packets lost by the loss model.
    pub dropped_loss: u64,
}

/// Summary of a set of values.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Distribution {
    /// Number of values.
    pub count: u64,
    /// Smallest.
    pub min: f64,
    /// Arithmetic mean.
    pub mean: f64,
    /// Median.
    pub p50: f64,
    /// 95th percentile.
    pub p95: f64,
    /// 99th percentile.
    pub p99: f64,
    /// Largest.
    pub max: f64,
    /// Standard deviation.
    pub deviation: f64,
}

impl Distribution {
    /// Summarises `values` in any order; percentiles by the nearest rank. `None` without values.
    #[must_use]
    pub fn of(values: &mut [f64]) -> Option<Self> {
        values.sort_by(f64::total_cmp);
        let moments = Moments::of(values.iter().copied())?;
        let at = Quantiles::of(values)?;
        Some(Self {
            count: values.len() as u64,
            min: rounded(at.min),
            mean: rounded(moments.mean),
            p50: rounded(at.p50),
            p95: rounded(at.p95),
            p99: rounded(at.p99),
            max: rounded(at.max),
            deviation: rounded(moments.population_deviation()),
        })
    }
}

/// `value` with four decimals: enough for every unit used here, and readable in JSON.
#[must_use]
pub fn rounded(value: f64) -> f64 {
    (value * 1e4).round() / 1e4
}

/// A receive window as seen in the ACKs.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct WindowFigures {
    /// Largest.
    pub max_bytes: u64,
    /// Median over all ACKs.
    pub median_bytes: u64,
    /// Shift count from the SYN.
    pub scale: u8,
}

/// Segments sent more than once.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Retransmissions {
    /// `Tcp RetransSegs` of the sending host's kernel.
    pub by_sender: u64,
    /// Data segments that entered the radio link although all their bytes had entered it before.
    pub over_radio: u64,
    /// Data segments that entered the radio link.
    pub segments: u64,
}

/// Planned departures against the moments when the packets were handed to the kernel.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Timing {
    /// Lateness in µs; never negative.
    pub late_us: Distribution,
    /// Share of packets more than 0.2 ms late, 0 to 1.
    pub share_over_200_us: f64,
    /// Share of packets more than 1 ms late, 0 to 1.
    pub share_over_1_ms: f64,
    /// Packets the kernel dropped because the emulator did not fetch them in time.
    pub missed_packets: u64,
    /// Largest share by which the lateness can have moved the throughput: the round trip it added over the
    /// path's, and the longest stall over the transfer's time.
    #[serde(default)]
    pub throughput_error: f64,
    /// False when a figure can have moved by more than is stated: throughput 2 %, round trips measured by
    /// hosts 1 ms.
    pub trustworthy: bool,
    /// Reason why it is not trustworthy.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub why_not: Option<String>,
}

/// The transfer that lateness may have moved.
#[derive(Clone, Copy, Debug)]
pub struct Moved {
    /// The least round trip of the path, without lateness.
    pub path_rtt_ms: f64,
    /// Duration of the transfer.
    pub seconds: f64,
    /// Packets that the links lost of their own.
    pub lost: u64,
    /// True when round trips were measured by a host: pings, or acknowledged datagrams.
    pub has_round_trips: bool,
}

impl Timing {
    /// A throughput from the lab is stated to this share of itself.
    pub const THROUGHPUT_STATED: f64 = 0.02;
    /// A round trip measured by a host of the lab is stated to this.
    pub const DELAY_STATED_MS: f64 = 1.0;
    /// Packets missed by the emulator, to those that the links lost: more than this and the losses are not
    /// the scenario's.
    const MISSED_SHARE: f64 = 0.02;
    /// Links that a packet and its acknowledgement pass.
    const HOPS: f64 = 4.0;

    /// Says by how much the figures of a transfer can have moved, and whether that is more than is stated
    /// beside them.
    #[must_use]
    pub fn judged(mut self, transfer: Moved) -> Self {
        const AGAIN: &str = "run it again with nothing else running, or at a lower rate";
        let late = &self.late_us;
        let added_ms = Self::HOPS * late.mean / 1e3;
        let stall = late.max / 1e6 / transfer.seconds.max(1e-3);
        let error = added_ms / transfer.path_rtt_ms.max(1.0) + stall;
        let delay_ms = Self::HOPS * late.p95 / 1e3;
        let missed = self.missed_packets;
        self.throughput_error = rounded(error);
        self.why_not = if missed as f64 > Self::MISSED_SHARE * transfer.lost as f64 {
            Some(format!(
                "do not trust its figures: the emulator lost {missed} packets of its own, the links {}; \
                 {AGAIN}",
                transfer.lost
            ))
        } else if error > Self::THROUGHPUT_STATED {
            Some(format!(
                "do not trust its throughput: the emulator was late, which can have moved it by {:.0} % \
                 (stated: {:.0} %); {AGAIN}",
                100.0 * error,
                100.0 * Self::THROUGHPUT_STATED
            ))
        } else if transfer.has_round_trips && delay_ms > Self::DELAY_STATED_MS {
            Some(format!(
                "do not trust its round trips: the emulator was late, which moved the longest by \
                 {delay_ms:.1} ms (stated: {:.0} ms); {AGAIN}",
                Self::DELAY_STATED_MS
            ))
        } else {
            None
        };
        self.trustworthy = self.why_not.is_none();
        self
    }
}

/// Figures in bins of equal length.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Series {
    /// Length of a bin.
    pub bin_s: f64,
    /// Capacity of the radio link; empty for an unlimited link.
    pub capacity_mbps: Vec<f64>,
    /// Rate that it carried.
    pub delivered_mbps: Vec<f64>,
    /// Mean queueing delay of the packets whose service ended in the bin; `null` without packets.
    pub queue_delay_ms: Vec<Option<f64>>,
    /// Longest queueing delay in the bin.
    pub queue_delay_max_ms: Vec<Option<f64>>,
    /// Goodput of the receiving application.
    pub goodput_mbps: Vec<f64>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_by_nearest_rank() {
        let mut values: Vec<f64> = (1..=100).rev().map(f64::from).collect();
        let d = Distribution::of(&mut values).unwrap();
        assert_eq!((d.min, d.p50, d.p95, d.p99, d.max, d.count), (1.0, 50.0, 95.0, 99.0, 100.0, 100));
        assert!((d.mean - 50.5).abs() < 1e-9);
        assert!(Distribution::of(&mut []).is_none());
        assert_eq!(Distribution::of(&mut [3.0]).unwrap().p99, 3.0);
    }

    fn timing(mean_us: f64, max_us: f64, missed_packets: u64) -> Timing {
        let late_us =
            Distribution { mean: mean_us, p95: 2.0 * mean_us, max: max_us, ..Distribution::default() };
        Timing { late_us, missed_packets, ..Timing::default() }
    }

    #[test]
    fn lateness_is_a_doubt_where_a_figure_moves_by_more_than_is_stated() {
        let moved =
            |rtt: f64, has_round_trips| Moved { path_rtt_ms: rtt, seconds: 10.0, lost: 100, has_round_trips };
        // Many packets 0.25 ms late: 1 ms of a round trip of 60 is 1.7 %, of one of 10 it is 10 %.
        let late = |rtt, pings| timing(250.0, 1_000.0, 0).judged(moved(rtt, pings));
        assert!(late(60.0, false).trustworthy && late(60.0, false).why_not.is_none());
        let why = late(10.0, false).why_not.unwrap();
        assert!(
            why.contains("throughput")
                && why.contains("by 10 % (stated: 2 %)")
                && why.contains("run it again"),
            "{why}"
        );
        assert!(late(60.0, true).why_not.unwrap().contains("round trips"));
        // One stall of half a second in ten.
        assert!(!timing(10.0, 500_000.0, 0).judged(moved(60.0, false)).trustworthy);
        // Two packets more than the hundred that the links lost change nothing, three do.
        assert!(timing(10.0, 100.0, 2).judged(moved(60.0, false)).trustworthy);
        assert!(
            timing(10.0, 100.0, 3)
                .judged(moved(60.0, false))
                .why_not
                .unwrap()
                .contains("lost 3 packets of its own")
        );
    }

    #[test]
    fn a_window_that_is_not_the_scenarios_is_a_doubt_and_no_problem() {
        let text = "name = \"t\"\nclient.expected_window = { min = \"16.5 KB\", max = \"18.5 KB\" }\n";
        let case = Scenario::from_toml("t.toml", text).unwrap().resolved().remove(0);
        let figures = |max_bytes| Figures {
            window: Some(WindowFigures { max_bytes, ..WindowFigures::default() }),
            transfer: Transfer { hashes_equal: true, ..Transfer::default() },
            ..Figures::default()
        };
        let doubts = figures(19_000).doubts(&case);
        assert_eq!(doubts.len(), 1);
        assert!(
            doubts[0].contains("19.0 KB") && doubts[0].contains("+3 %") && doubts[0].contains("run it again"),
            "{}",
            doubts[0]
        );
        assert!(figures(19_000).problems(&case).is_empty());
        assert!(figures(17_000).doubts(&case).is_empty());
    }
}
