//! [`Report`]: what a history says of a stretch of time.

use std::collections::BTreeMap;

use figures::stats;
use run::{AbReport, Distribution};
use serde::{Deserialize, Serialize};

use crate::{FlowFigures, HalfFigures, HistoryError, Slice, TurnsFigures, ab};

/// The document's version.
pub const SCHEMA: &str = "cellerator/live-report/1";

/// Classes of flows by what they delivered: name, and bytes below which a flow belongs to it. A short flow is made
/// of round trips, a long one of the link's rate: neither says anything of the other.
pub const SIZE_CLASSES: [(&str, u64); 3] =
    [("below 100 KB", 100_000), ("100 KB to 1 MB", 1_000_000), ("above 1 MB", u64::MAX)];

/// Rates of a class that a document keeps, evenly from all: what another report is compared with.
const RATES_KEPT: usize = 400;

/// Program and command that made the figures.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct MadeBy {
    /// The program's version.
    pub version: String,
    /// The command.
    pub command: String,
}

/// Report of what happened to live traffic in a stretch of time.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Report {
    /// [`SCHEMA`].
    pub schema: String,
    /// Maker of the report.
    pub made_by: MadeBy,
    /// The accelerator's name.
    pub accelerator: String,
    /// Beginning of the stretch, ms since 1970.
    pub from_ms: u64,
    /// End of the stretch.
    pub to_ms: u64,
    /// Of that, time of which there are figures, ms. In the rest nobody recorded, or no accelerator was there.
    pub covered_ms: u64,
    /// Sums.
    pub totals: Totals,
    /// By time.
    pub series: Vec<SlicePoint>,
    /// Accelerated flows that have ended.
    pub flows: FlowsFigures,
    /// Flows that were passed.
    pub passed: PassedFigures,
    /// Limits of these figures: conclusions that nobody can draw from them.
    pub limits: Vec<String>,
    /// A/B phases of which a part lies in the stretch, each as it was seen last.
    #[serde(default)]
    pub ab: Vec<AbReport>,
    /// An earlier report beside this one; none without one.
    #[serde(default)]
    pub before: Option<Compared>,
}

/// Sums of a report.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Totals {
    /// The most subscribers that were known at once.
    pub subscribers_max: u64,
    /// Flows whose handshake was seen to begin.
    pub flows_opened: u64,
    /// Flows that were accelerated.
    pub flows_accelerated: u64,
    /// Payload that arrived at clients, bytes.
    pub downlink_bytes: u64,
    /// Payload that arrived at servers from accelerated uploads, bytes.
    pub uplink_bytes: u64,
    /// The busiest slice's goodput towards clients, bit/s.
    pub downlink_max_bps: f64,
    /// Packets with data that were sent to clients.
    pub data_packets: u64,
    /// Of those, packets sent again: repairs over the mobile segment alone.
    pub resent_packets: u64,
    /// Retransmission time-outs, and those that were taken back.
    pub timeouts: u64,
    /// Those of them that were taken back.
    pub spurious_timeouts: u64,
    /// Acknowledged to a server and never by its client, bytes.
    pub undelivered_bytes: u64,
    /// Class in which half of the round trips to clients are, its upper bound in ms; none above all classes or
    /// without any.
    pub round_trip_p50_ms: Option<f64>,
    /// The same of 95 %.
    pub round_trip_p95_ms: Option<f64>,
    /// The same of the estimated time in queues.
    pub queueing_p50_ms: Option<f64>,
    /// And of 95 % of it.
    pub queueing_p95_ms: Option<f64>,
    /// Round trips that were measured.
    pub round_trips: u64,
}

/// A slice's figures.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct SlicePoint {
    /// Its end, ms since 1970.
    pub at_ms: u64,
    /// Its length, ms.
    pub span_ms: u64,
    /// Payload that arrived at clients, bit/s.
    pub goodput_bps: f64,
    /// Estimated times in queues: half of them are at most this, ms, as in the totals.
    pub queueing_p50_ms: Option<f64>,
    /// The same of 95 %.
    pub queueing_p95_ms: Option<f64>,
    /// Time in queues of half of the round trips, ms, as if the values of a class lay evenly between its bounds; none as
    /// with those bounds, and in reports of older versions.
    #[serde(default)]
    pub queueing_p50_estimate_ms: Option<f64>,
    /// The same of 95 %.
    #[serde(default)]
    pub queueing_p95_estimate_ms: Option<f64>,
    /// Share of data packets that were sent again; none without any.
    pub resent_share: Option<f64>,
}

/// Flows that were accelerated and have ended.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct FlowsFigures {
    /// All of which there is a record.
    pub ended: u64,
    /// Those of which figures were kept.
    pub kept: u64,
    /// Downloads by size.
    pub downloads: Vec<ClassFigures>,
}

/// Flows of one size.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ClassFigures {
    /// Name of the class.
    pub size: String,
    /// Number of flows.
    pub flows: u64,
    /// The median of payload over a flow's life, bit/s.
    pub rate_median_bps: Option<f64>,
    /// Its 95 % confidence interval.
    pub rate_interval_bps: Option<[f64; 2]>,
    /// Payload sent again over payload delivered.
    pub resent_share: Option<f64>,
    /// Some of the rates, evenly from all, ascending, bit/s.
    pub rates_bps: Vec<f64>,
}

/// Flows that were passed.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct PassedFigures {
    /// Number of flows, by reason.
    pub flows: BTreeMap<String, u64>,
    /// Bytes of TCP that passed, by the same reasons, headers included; nothing where programs do not steer. `unknown`
    /// are those of flows that began before the process.
    #[serde(default)]
    pub bytes: BTreeMap<String, u64>,
    /// Packets of passed flows that stayed in the kernel; none where passed flows go through the process, which
    /// does not count them apart.
    pub kernel_packets: Option<u64>,
    /// Traffic that took turns with accelerated flows of its client, QUIC and other UDP too.
    #[serde(default)]
    pub in_turns: TurnsFigures,
}

/// An earlier report beside a later one.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Compared {
    /// Beginning of the earlier one, ms since 1970.
    pub from_ms: u64,
    /// End of the earlier one, ms since 1970.
    pub to_ms: u64,
    /// The earlier one's accelerator.
    pub accelerator: String,
    /// Downloads by size.
    pub downloads: Vec<Verdict>,
    /// The time in queues, upper bounds of classes in ms: half and 95 % of it, before.
    pub queueing_ms: [Option<f64>; 2],
    /// Share of data packets sent again, before.
    pub resent_share: Option<f64>,
}

/// Flows of one size, before and after.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Verdict {
    /// The size class.
    pub size: String,
    /// Flows before and after.
    pub flows: [u64; 2],
    /// Medians of their rates, bit/s.
    pub rate_median_bps: [Option<f64>; 2],
    /// That both are one distribution (Mann-Whitney, two-sided); none with fewer than four flows.
    pub p_value: Option<f64>,
    /// Verdict with p below 0.05: `faster`, `slower`, `no difference shown`, or `too few flows`.
    #[cfg_attr(feature = "schema", schemars(extend("enum" = ["faster", "slower", "no difference shown", "too few flows"])))]
    pub says: String,
}

/// The upper bound of the class in which a share of the values is, in ms.
fn class_ms(seen: &Distribution, per_mille: u32) -> Option<f64> {
    let bounds = seen.bounds.iter().map(|bound| Some(*bound)).chain([None]);
    let counts = bounds.zip(seen.counts.iter().copied());
    if seen.counts.iter().all(|count| *count == 0) {
        return None;
    }
    stats::percentile_of_counts(counts, per_mille).flatten().map(|us: u64| us as f64 / 1e3)
}

/// The value below which a share of the values is, in ms, as if those of a class lay evenly between its bounds. None
/// where the last class has it, which has no upper one.
fn estimate_ms(seen: &Distribution, per_mille: u32) -> Option<f64> {
    let total: u64 = seen.counts.iter().sum();
    let wanted = total as f64 * f64::from(per_mille) / 1e3;
    let (mut below, mut least) = (0.0, 0);
    for (bound, count) in seen.bounds.iter().zip(&seen.counts) {
        let count = *count as f64;
        if count > 0.0 && below + count >= wanted {
            let part = (wanted - below) / count;
            return Some((least as f64 + part * bound.saturating_sub(least) as f64) / 1e3);
        }
        (below, least) = (below + count, *bound);
    }
    None
}

/// Part of a whole; none of nothing.
pub(crate) fn share(part: u64, whole: u64) -> Option<f64> {
    (whole > 0).then(|| part as f64 / whole as f64)
}

fn bps(bytes: u64, span_ms: u64) -> f64 {
    if span_ms == 0 { 0.0 } else { bytes as f64 * 8e3 / span_ms as f64 }
}

impl ClassFigures {
    fn of(size: &str, flows: &[FlowFigures]) -> Self {
        let mut rates: Vec<f64> = flows.iter().filter_map(FlowFigures::rate_bps).collect();
        rates.sort_by(f64::total_cmp);
        let median = stats::median_interval(&rates);
        let (resent, delivered) = flows.iter().fold((0, 0), |(resent, delivered), flow| {
            (resent + flow.resent_bytes, delivered + flow.delivered_bytes)
        });
        Self {
            size: size.to_owned(),
            flows: flows.len() as u64,
            rate_median_bps: median.map(|it| it.median),
            rate_interval_bps: median.and_then(|it| it.interval).map(|(low, high)| [low, high]),
            resent_share: share(resent, delivered),
            rates_bps: stats::quantiles(&rates, RATES_KEPT),
        }
    }
}

/// Subject of a report.
#[derive(Clone, Copy, Debug)]
pub struct About<'a> {
    /// The accelerator.
    pub accelerator: &'a str,
    /// From when to when, ms since 1970.
    pub from_ms: u64,
    /// The second of these.
    pub to_ms: u64,
    /// An A/B phase that the accelerator tells of now, which is newer than what slices have.
    pub phase: Option<&'a AbReport>,
}

impl Report {
    /// Report of `slices` on a stretch of time.
    ///
    /// # Errors
    /// None of them lies in it.
    pub fn of(slices: &[Slice], about: About<'_>, made_by: MadeBy) -> Result<Self, HistoryError> {
        let begins = |slice: &Slice| slice.at_ms.saturating_sub(slice.span_ms);
        // Half of a slice within is enough.
        let is_within = |slice: &&Slice| {
            let middle = begins(slice) + slice.span_ms / 2;
            (about.from_ms..=about.to_ms).contains(&middle)
        };
        let within: Vec<&Slice> = slices.iter().filter(is_within).collect();
        if within.is_empty() {
            return Err(HistoryError::Empty("nothing was recorded in this time".to_owned()));
        }
        let (mut down, mut up) = (HalfFigures::default(), HalfFigures::default());
        let mut totals = Totals::default();
        let mut passed = PassedFigures::default();
        for slice in &within {
            down.add(&slice.downlink);
            slice.uplink.iter().for_each(|half| up.add(half));
            totals.subscribers_max = totals.subscribers_max.max(slice.subscribers);
            totals.flows_opened += slice.flows_opened;
            totals.flows_accelerated += slice.flows_accelerated;
            totals.downlink_max_bps =
                totals.downlink_max_bps.max(bps(slice.downlink.goodput_bytes, slice.span_ms));
            for (sums, parts) in
                [(&mut passed.flows, &slice.passed), (&mut passed.bytes, &slice.passed_bytes)]
            {
                for (reason, part) in parts {
                    *sums.entry(reason.clone()).or_default() += part;
                }
            }
            passed.in_turns.add(&slice.in_turns);
            if slice.steering == "tcx" {
                *passed.kernel_packets.get_or_insert_default() += slice.bypass_packets;
            }
        }
        let totals = Totals {
            downlink_bytes: down.goodput_bytes,
            uplink_bytes: up.goodput_bytes,
            data_packets: down.data_packets,
            resent_packets: down.resent_packets,
            timeouts: down.timeouts,
            spurious_timeouts: down.spurious_timeouts,
            undelivered_bytes: down.undelivered_bytes,
            round_trip_p50_ms: class_ms(&down.round_trip, 500),
            round_trip_p95_ms: class_ms(&down.round_trip, 950),
            queueing_p50_ms: class_ms(&down.queueing, 500),
            queueing_p95_ms: class_ms(&down.queueing, 950),
            round_trips: down.round_trip.counts.iter().sum(),
            ..totals
        };
        let flows = FlowsFigures::of(&within);
        let seen = slices.iter().filter_map(|slice| slice.ab.as_deref()).chain(about.phase);
        let ab = ab::within(seen, about.from_ms, about.to_ms);
        Ok(Self {
            schema: SCHEMA.to_owned(),
            made_by,
            accelerator: about.accelerator.to_owned(),
            from_ms: about.from_ms,
            to_ms: about.to_ms,
            covered_ms: within.iter().map(|slice| slice.span_ms).sum(),
            limits: limits(&flows, &passed, !ab.is_empty()),
            totals,
            series: within.iter().map(|slice| SlicePoint::of(slice)).collect(),
            flows,
            passed,
            ab,
            before: None,
        })
    }
}

impl FlowsFigures {
    fn of(slices: &[&Slice]) -> Self {
        let all: Vec<FlowFigures> = slices.iter().flat_map(|slice| slice.flows.iter().copied()).collect();
        let mut least = 0;
        let class = |(name, below): (&str, u64)| {
            let is_in =
                |flow: &&FlowFigures| !flow.is_uplink && (least..below).contains(&flow.delivered_bytes);
            let flows: Vec<FlowFigures> = all.iter().filter(is_in).copied().collect();
            least = below;
            ClassFigures::of(name, &flows)
        };
        Self {
            ended: slices.iter().map(|slice| slice.ended).sum(),
            kept: all.len() as u64,
            downloads: SIZE_CLASSES.map(class).to_vec(),
        }
    }
}

impl SlicePoint {
    fn of(slice: &Slice) -> Self {
        let down = &slice.downlink;
        Self {
            at_ms: slice.at_ms,
            span_ms: slice.span_ms,
            goodput_bps: bps(down.goodput_bytes, slice.span_ms),
            queueing_p50_ms: class_ms(&down.queueing, 500),
            queueing_p95_ms: class_ms(&down.queueing, 950),
            queueing_p50_estimate_ms: estimate_ms(&down.queueing, 500),
            queueing_p95_estimate_ms: estimate_ms(&down.queueing, 950),
            resent_share: share(down.resent_packets, down.data_packets),
        }
    }
}

/// Limits of the figures. They are part of every report.
fn limits(flows: &FlowsFigures, passed: &PassedFigures, has_phase: bool) -> Vec<String> {
    let unknown = if has_phase {
        "Only the A/B phase says what flows would have got without acceleration, and that for its own time."
    } else {
        "What these flows would have got without acceleration is not in these figures. It takes another time or a \
         control group to compare with."
    };
    let passed_ones = if has_phase { "Passed flows of no control group" } else { "Passed flows" };
    let mut limits = vec![
        unknown.to_owned(),
        format!("{passed_ones} were not measured: no throughput, delay or loss of them is known. They also differ from \
         accelerated ones by the reason for which they passed, so a difference would not be the accelerator's."),
        "A flow's rate is its payload over its whole life. Time in which the application was silent counts, so \
         connections that are kept open look slow. Flows have records only if they ended while they were recorded, and \
         those that close in good order only half a minute later."
            .to_owned(),
        "The time in queues is an estimate: a round trip less the shortest one of its flow. Times are upper bounds \
         of classes (1, 2, 5, 10, … ms)."
            .to_owned(),
        "QUIC and other UDP are not accelerated. Bytes towards clients that took turns with accelerated flows are \
         counted by kind, with IP headers; of those that did not, and of all that clients sent, nothing is known. What \
         comes from UDP port 443, or begins as QUIC does, counts as QUIC."
            .to_owned(),
    ];
    if passed.kernel_packets.is_none() {
        limits
            .push("Packets of passed flows went through the process and were not counted apart.".to_owned());
    }
    if flows.kept < flows.ended {
        limits.push(format!(
            "Of {} flows that have ended, figures of {} were kept: the first of each slice.",
            flows.ended, flows.kept
        ));
    }
    limits
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// Minutes with downloads of `rate` Mbit/s, each within a second.
    pub(crate) fn minutes(count: u64, rate: u64) -> Vec<Slice> {
        let flow = |n: u64| FlowFigures {
            is_uplink: false,
            delivered_bytes: rate * 125_000 + n * 1_000,
            resent_bytes: 1_000,
            lasted_ms: 1_000,
        };
        let seen = |at: usize| {
            let mut counts = vec![0; 4];
            counts[at] = 100;
            Distribution { bounds: vec![10_000, 20_000, 50_000], counts, sum: 1 }
        };
        let slice = |minute: u64| Slice {
            at_ms: (minute + 1) * 60_000,
            span_ms: 60_000,
            steering: "tcx".to_owned(),
            subscribers: 7,
            flows_opened: 12,
            flows_accelerated: 10,
            passed: BTreeMap::from([("mptcp".to_owned(), 2)]),
            passed_bytes: [("mptcp", 700), ("unknown", 9)].map(|(name, n)| (name.to_owned(), n)).into(),
            bypass_packets: 5,
            in_turns: TurnsFigures {
                tcp_bytes: 1_000,
                quic_bytes: 3_000_000,
                other_bytes: 20,
                dropped_packets: 2,
            },
            downlink: HalfFigures {
                goodput_bytes: 7_500_000,
                data_packets: 1_000,
                resent_packets: 10,
                queueing: seen((minute % 2) as usize),
                round_trip: seen(2),
                ..HalfFigures::default()
            },
            ended: 20,
            flows: (0..10).map(flow).collect(),
            ..Slice::default()
        };
        (0..count).map(slice).collect()
    }

    pub(crate) fn report(slices: &[Slice], from_minute: u64, to_minute: u64) -> Report {
        let (from_ms, to_ms) = (from_minute * 60_000, to_minute * 60_000);
        let about = About { accelerator: "radio", from_ms, to_ms, phase: None };
        Report::of(slices, about, MadeBy::default()).unwrap()
    }

    #[test]
    fn a_report_has_the_stretch_that_was_asked_for_and_no_more() {
        let report = report(&minutes(10, 20), 2, 6);
        assert_eq!((report.covered_ms, report.series.len()), (4 * 60_000, 4));
        let totals = &report.totals;
        assert_eq!(
            (totals.downlink_bytes, totals.flows_accelerated, totals.subscribers_max),
            (30_000_000, 40, 7)
        );
        assert!((totals.downlink_max_bps - 1e6).abs() < 1.0);
        assert_eq!((totals.queueing_p50_ms, totals.queueing_p95_ms), (Some(10.0), Some(20.0)));
        assert_eq!(totals.round_trip_p95_ms, Some(50.0));
        assert_eq!(report.series[0].resent_share, Some(0.01));
        assert_eq!(report.passed.flows["mptcp"], 8);
        assert_eq!((report.passed.bytes["mptcp"], report.passed.bytes["unknown"]), (2_800, 36));
        let kinds = report.kinds().rows;
        assert_eq!(kinds[1], ["passed, mptcp", "8", "2.80 KB"]);
        assert_eq!(kinds[2], ["passed, unknown", "–", "36.0 B"]);
        assert_eq!(report.passed.kernel_packets, Some(20));
        assert_eq!(
            (report.passed.in_turns.quic_bytes, report.passed.in_turns.dropped_packets),
            (12_000_000, 8)
        );
        let long = &report.flows.downloads[2];
        assert_eq!((long.size.as_str(), long.flows), ("above 1 MB", 40));
        let [low, high] = long.rate_interval_bps.unwrap();
        assert!(low >= 20e6 && low <= long.rate_median_bps.unwrap() && high < 20.1e6);
        assert!(report.limits.iter().any(|limit| limit.contains("Of 80 flows")), "{:?}", report.limits);
        let json = serde_json::to_string(&report).unwrap();
        let read: Report = serde_json::from_str(&json).unwrap();
        assert_eq!((read.flows.kept, read.passed, read.series.len()), (40, report.passed, 4));
    }

    #[test]
    fn nothing_recorded_is_said_and_no_class_is_made_up() {
        let about = About { accelerator: "radio", from_ms: 0, to_ms: 1, phase: None };
        let error = Report::of(
            &minutes(3, 20),
            About { from_ms: 9_000_000, to_ms: 9_900_000, ..about },
            MadeBy::default(),
        );
        assert!(error.unwrap_err().to_string().contains("nothing was recorded"));
        let none = Distribution { bounds: vec![1_000], counts: vec![0, 0], sum: 0 };
        assert_eq!(class_ms(&none, 500), None);
        // Above the last class there is no bound to tell.
        let above = Distribution { counts: vec![0, 3], ..none };
        assert_eq!((class_ms(&above, 500), estimate_ms(&above, 500)), (None, None));
    }

    #[test]
    fn within_a_class_times_in_queues_go_with_its_share() {
        let seen = |counts: [u64; 4]| Distribution {
            bounds: vec![10_000, 20_000, 50_000],
            counts: counts.to_vec(),
            sum: 1,
        };
        // The bound of the class would be 20 for all of these.
        for (counts, ms) in [([40, 60, 0, 0], 11.666), ([10, 90, 0, 0], 14.444), ([0, 100, 0, 0], 15.0)] {
            let found = estimate_ms(&seen(counts), 500).unwrap();
            assert!((found - ms).abs() < 1e-3, "{counts:?}: {found}");
            assert_eq!(class_ms(&seen(counts), 500), Some(20.0));
        }
        assert_eq!(estimate_ms(&seen([0; 4]), 500), None);
        assert_eq!(estimate_ms(&seen([0, 0, 10, 0]), 1_000), Some(50.0));
    }
}
