//! [`AbReport`]: what an A/B phase has shown.
//!
//! Half of the subscribers, chosen by a hash, are the control group: their flows pass bit for bit. What is compared
//! are subscribers, not flows: a subscriber's flows share one radio, and were put into a group together. So each
//! subscriber counts once, with the mean over its flows, however many it has.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, PoisonError, TryLockError};

use engine::{Direction, MeasuredFlow};
use figures::stats::{self, compare, quantiles};
use serde::{Deserialize, Serialize};

/// Flows with less data have no goodput: it would be that of TCP's beginning.
const GOODPUT_BYTES_MIN: u64 = 100_000;

/// Subscribers of a shard that are told apart.
const SUBSCRIBERS_MAX: usize = 65_536;

/// Quantiles of a group that are told: at 0, 5, … 100 %.
const QUANTILES: usize = 21;

/// Measurements of each subscriber's flows.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Tally {
    subscribers: BTreeMap<(bool, IpAddr), Sums>,
    /// Flows that had no room.
    pub(crate) lost: u64,
}

/// Sums over a subscriber's flows.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Sums {
    is_control: bool,
    flows: u64,
    delivered: u64,
    resent: u64,
    goodput_flows: u64,
    /// Of the goodput of each, bit/s.
    ln_goodput: f64,
    rtt_flows: u64,
    rtt_ms: f64,
    queueing_ms: f64,
}

impl Sums {
    fn add(&mut self, flow: &MeasuredFlow) {
        self.is_control = flow.is_control;
        self.flows += 1;
        self.delivered += flow.delivered_bytes;
        self.resent += flow.resent_bytes;
        let busy_us = flow.busy.as_micros();
        if flow.delivered_bytes >= GOODPUT_BYTES_MIN && busy_us > 0 {
            self.goodput_flows += 1;
            self.ln_goodput += (flow.delivered_bytes as f64 * 8e6 / busy_us as f64).ln();
        }
        if let Some(least) = flow.rtt_min.filter(|_| flow.rtt_samples > 0) {
            let mean = flow.rtt_sum.as_micros() as f64 / flow.rtt_samples as f64 / 1e3;
            self.rtt_flows += 1;
            self.rtt_ms += mean;
            self.queueing_ms += (mean - least.as_micros() as f64 / 1e3).max(0.0);
        }
    }
}

impl Tally {
    /// Takes in a flow.
    pub(crate) fn add(&mut self, flow: &MeasuredFlow) {
        let key = (flow.direction == Direction::Uplink, flow.subscriber);
        if self.subscribers.len() >= SUBSCRIBERS_MAX && !self.subscribers.contains_key(&key) {
            self.lost += 1;
            return;
        }
        self.subscribers.entry(key).or_default().add(flow);
    }

    /// The sums of each subscriber with flows in a direction of data.
    fn of(&self, is_uplink: bool) -> impl Iterator<Item = Sums> {
        self.subscribers.iter().filter(move |((uplink, _), _)| *uplink == is_uplink).map(|(_, sums)| *sums)
    }
}

/// A [`Tally`] that a packet loop fills and the thread that answers reads. So an answer copies nothing in the packet
/// loop, whose time for it does not depend on the number of subscribers.
#[derive(Clone, Debug, Default)]
pub struct SharedTally(Arc<Mutex<Tally>>);

impl SharedTally {
    /// Takes in what `fill` does; nothing while somebody reads: then it is time for it later.
    pub(crate) fn try_fill(&self, fill: impl FnOnce(&mut Tally)) {
        match self.0.try_lock() {
            Ok(mut tally) => fill(&mut tally),
            Err(TryLockError::Poisoned(tally)) => fill(&mut tally.into_inner()),
            Err(TryLockError::WouldBlock) => {}
        }
    }

    fn read<T>(&self, read: impl FnOnce(&Tally) -> T) -> T {
        read(&self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// An A/B phase.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct AbPhase {
    /// The instance's name.
    pub name: String,
    /// The phase goes on.
    pub is_running: bool,
    /// Cause of the end: `time`, `request` or `upgrade`; none while it goes on.
    #[cfg_attr(feature = "schema", schemars(extend("enum" = ["time", "request", "upgrade", null])))]
    pub ended_by: Option<String>,
    /// Seed that selects the half of the subscribers that is the control group.
    pub seed: u32,
    /// Time of the beginning, ms since 1970, by this machine's clock as it is.
    #[serde(default)]
    pub began_ms: u64,
    /// Planned duration, ms.
    pub planned_ms: u64,
    /// Time elapsed so far, ms.
    pub elapsed_ms: u64,
}

/// Results of an A/B phase so far, which `cellerator ab status --json` prints.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct AbReport {
    /// Identity and times of the phase.
    #[serde(flatten)]
    pub phase: AbPhase,
    /// Flows that were measured and had no room.
    pub lost_flows: u64,
    /// Group that was passed, by direction of data: downlink, then uplink if any flow was measured there.
    pub control: Vec<AbGroup>,
    /// Group that was accelerated, by direction of data as well.
    pub accelerated: Vec<AbGroup>,
    /// Comparison of each metric, for each direction.
    pub metrics: Vec<AbMetric>,
}

/// A group of subscribers, in one direction of data.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct AbGroup {
    /// `downlink` or `uplink`.
    #[cfg_attr(feature = "schema", schemars(extend("enum" = ["downlink", "uplink"])))]
    pub direction: String,
    /// Subscribers with flows that were measured.
    pub subscribers: u64,
    /// Those flows: ended, or under way at the end of the phase.
    pub flows: u64,
    /// Payload that receiving hosts acknowledged, bytes.
    pub delivered_bytes: u64,
}

/// A mean over subscribers, with its 95 % confidence interval.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Estimate {
    /// Subscribers that it is of.
    pub subscribers: u64,
    /// The mean; of goodput the geometric one.
    pub value: f64,
    /// Lower end of the interval; none for a single subscriber.
    pub low: Option<f64>,
    /// Upper end.
    pub high: Option<f64>,
}

impl From<stats::Estimate> for Estimate {
    fn from(one: stats::Estimate) -> Self {
        let interval = one.interval;
        Self {
            subscribers: one.count as u64,
            value: one.value,
            low: interval.map(|(low, _)| low),
            high: interval.map(|(_, high)| high),
        }
    }
}

/// Something that is compared.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct AbMetric {
    /// `goodput`, `rtt`, `queueing-delay` or `resent`.
    #[cfg_attr(feature = "schema", schemars(extend("enum" = ["goodput", "rtt", "queueing-delay", "resent"])))]
    pub name: String,
    /// `downlink` or `uplink`.
    #[cfg_attr(feature = "schema", schemars(extend("enum" = ["downlink", "uplink"])))]
    pub direction: String,
    /// `bit/s`, `ms` or `%`.
    #[cfg_attr(feature = "schema", schemars(extend("enum" = ["bit/s", "ms", "%"])))]
    pub unit: String,
    /// Value of the passed group; none where nobody has such flows.
    pub control: Option<Estimate>,
    /// Value of the accelerated group.
    pub accelerated: Option<Estimate>,
    /// Effect of acceleration: for goodput the factor, otherwise the difference in the unit.
    pub change: Option<Estimate>,
    /// Distribution of the values of the passed group: quantiles at 0, 5, … 100 % of the subscribers, in
    /// rising order and with four digits; all values where there are fewer.
    #[serde(default)]
    pub control_quantiles: Vec<f64>,
    /// Distribution of the values of the accelerated group, in the same way.
    #[serde(default)]
    pub accelerated_quantiles: Vec<f64>,
}

impl AbReport {
    /// Report of a phase from the measurements of the shards, each of other subscribers.
    pub(crate) fn of(phase: AbPhase, tallies: &[SharedTally]) -> Self {
        let lost_flows = tallies.iter().map(|tally| tally.read(|tally| tally.lost)).sum();
        let mut report = Self { phase, lost_flows, ..Self::default() };
        for (is_uplink, direction) in [(false, "downlink"), (true, "uplink")] {
            let of = |tally: &SharedTally| tally.read(|tally| tally.of(is_uplink).collect::<Vec<Sums>>());
            let all: Vec<Sums> = tallies.iter().flat_map(of).collect();
            if is_uplink && all.is_empty() {
                continue;
            }
            let (control, accelerated): (Vec<Sums>, Vec<Sums>) =
                all.into_iter().partition(|sums| sums.is_control);
            report.control.push(group(direction, &control));
            report.accelerated.push(group(direction, &accelerated));
            for kind in KINDS {
                report.metrics.push(kind.compare(direction, &control, &accelerated));
            }
        }
        report
    }
}

fn group(direction: &str, sums: &[Sums]) -> AbGroup {
    AbGroup {
        direction: direction.to_owned(),
        subscribers: sums.len() as u64,
        flows: sums.iter().map(|sums| sums.flows).sum(),
        delivered_bytes: sums.iter().map(|sums| sums.delivered).sum(),
    }
}

/// Way of comparing a metric.
struct Kind {
    name: &'static str,
    unit: &'static str,
    /// Of a subscriber.
    value: fn(&Sums) -> Option<f64>,
    /// The values are logarithms: means are geometric ones, differences factors.
    is_logarithm: bool,
}

const KINDS: [Kind; 4] = [
    Kind {
        name: "goodput",
        unit: "bit/s",
        value: |sums| (sums.goodput_flows > 0).then(|| sums.ln_goodput / sums.goodput_flows as f64),
        is_logarithm: true,
    },
    Kind {
        name: "rtt",
        unit: "ms",
        value: |sums| (sums.rtt_flows > 0).then(|| sums.rtt_ms / sums.rtt_flows as f64),
        is_logarithm: false,
    },
    Kind {
        name: "queueing-delay",
        unit: "ms",
        value: |sums| (sums.rtt_flows > 0).then(|| sums.queueing_ms / sums.rtt_flows as f64),
        is_logarithm: false,
    },
    Kind {
        name: "resent",
        unit: "%",
        value: |sums| {
            let sent = sums.delivered + sums.resent;
            (sent > 0).then(|| sums.resent as f64 / sent as f64 * 100.0)
        },
        is_logarithm: false,
    },
];

impl Kind {
    fn compare(&self, direction: &str, control: &[Sums], accelerated: &[Sums]) -> AbMetric {
        let values = |sums: &[Sums]| sums.iter().filter_map(self.value).collect::<Vec<f64>>();
        let [control_quantiles, accelerated_quantiles] =
            [control, accelerated].map(|sums| self.quantiles(sums));
        let compared = compare(values(control), values(accelerated), self.is_logarithm);
        AbMetric {
            name: self.name.to_owned(),
            direction: direction.to_owned(),
            unit: self.unit.to_owned(),
            control: compared.first.map(Estimate::from),
            accelerated: compared.second.map(Estimate::from),
            change: compared.change.map(Estimate::from),
            control_quantiles,
            accelerated_quantiles,
        }
    }

    fn quantiles(&self, sums: &[Sums]) -> Vec<f64> {
        let mut values: Vec<f64> = sums.iter().filter_map(self.value).collect();
        values.sort_by(f64::total_cmp);
        quantiles(&values, QUANTILES).into_iter().map(|value| four_digits(self.shown(value))).collect()
    }

    fn shown(&self, value: f64) -> f64 {
        if self.is_logarithm { value.exp() } else { value }
    }
}

/// A value with four digits: no picture shows more, and a record of many stays small.
fn four_digits(value: f64) -> f64 {
    if value == 0.0 || !value.is_finite() {
        return value;
    }
    let places = 3 - value.abs().log10().floor() as i32;
    let scale = 10f64.powi(places.abs());
    // By whole powers of ten, which are exact.
    if places >= 0 { (value * scale).round() / scale } else { (value / scale).round() * scale }
}

#[cfg(test)]
mod tests {
    use super::*;
    use units::Duration;

    fn flow(n: u8, is_control: bool, mbps: u64, rtt_ms: u64) -> MeasuredFlow {
        MeasuredFlow {
            subscriber: IpAddr::from([10, 0, 0, n]),
            direction: Direction::Downlink,
            is_control,
            delivered_bytes: 1_000_000,
            resent_bytes: if is_control { 250_000 } else { 0 },
            busy: Duration::from_millis(8_000 / mbps),
            rtt_min: Some(Duration::from_millis(40)),
            rtt_sum: Duration::from_millis(rtt_ms * 10),
            rtt_samples: 10,
        }
    }

    fn report(flows: &[MeasuredFlow]) -> AbReport {
        // Each subscriber is one shard's.
        let shards = [SharedTally::default(), SharedTally::default()];
        for flow in flows {
            let IpAddr::V4(subscriber) = flow.subscriber else { panic!("{flow:?}") };
            shards[usize::from(subscriber.octets()[3] % 2)].try_fill(|tally| tally.add(flow));
        }
        AbReport::of(AbPhase::default(), &shards)
    }

    fn near(value: f64, wanted: f64) -> bool {
        (value - wanted).abs() < 1e-6 * wanted.abs().max(1.0)
    }

    #[test]
    fn subscribers_are_compared_not_flows() {
        let mut flows = vec![flow(1, true, 4, 140), flow(2, true, 1, 240), flow(3, false, 8, 60)];
        // One with many flows counts once.
        flows.extend((0..100).map(|_| flow(4, false, 2, 80)));
        let report = report(&flows);
        assert_eq!((report.control[0].flows, report.accelerated[0].flows), (2, 101));
        assert_eq!((report.control[0].subscribers, report.accelerated[0].subscribers), (2, 2));
        let [goodput, rtt, queueing, resent] = &report.metrics[..] else { panic!("{report:?}") };
        let value = |estimate: Option<Estimate>| estimate.unwrap().value;
        assert!(near(value(goodput.control), 2e6) && near(value(goodput.accelerated), 4e6), "{goodput:?}");
        assert!(near(value(goodput.change), 2.0), "{goodput:?}");
        assert!(near(value(rtt.control), 190.0) && near(value(rtt.change), -120.0), "{rtt:?}");
        assert!(near(value(queueing.control), 150.0) && near(value(queueing.accelerated), 30.0));
        assert!(near(value(resent.control), 20.0) && near(value(resent.change), -20.0), "{resent:?}");
        let change = goodput.change.unwrap();
        assert!(change.low.unwrap() < 1.0 && change.high.unwrap() > 4.0, "two each say little: {change:?}");
    }

    #[test]
    fn quantiles_show_what_a_mean_hides() {
        // Of a hundred one in ten waits for a second; nobody who is accelerated does.
        let slow = |n: u8| if n < 20 { 1_040 } else { 60 };
        let passed = (0..200).step_by(2).map(|n: u8| flow(n, true, 8, slow(n)));
        let accelerated = (0..200).skip(1).step_by(2).map(|n: u8| flow(n, false, 8, 50));
        let report = report(&passed.chain(accelerated).collect::<Vec<_>>());
        let queueing = &report.metrics[2];
        assert_eq!((queueing.name.as_str(), queueing.control_quantiles.len()), ("queueing-delay", 21));
        let at = |percent: usize| queueing.control_quantiles[percent / 5];
        assert_eq!([0, 50, 90, 95, 100].map(at), [20.0, 20.0, 20.0, 1_000.0, 1_000.0]);
        assert_eq!(queueing.accelerated_quantiles, [10.0; 21]);
        let goodput = &report.metrics[0];
        assert_eq!(goodput.control_quantiles[10], 8e6, "in the unit, although means are of logarithms");
    }

    #[test]
    fn of_few_all_are_told_and_with_four_digits() {
        let report = report(&[flow(1, true, 4, 140), flow(3, true, 4, 90), flow(5, true, 4, 45)]);
        let rtt = &report.metrics[1];
        assert_eq!(
            (&rtt.control_quantiles[..], &rtt.accelerated_quantiles[..]),
            (&[45.0, 90.0, 140.0][..], &[][..])
        );
        let shown = [0.0, 0.300_04, 1.234_56, 123_456.0, 8e9, 0.000_123_45].map(four_digits);
        assert_eq!(shown, [0.0, 0.3, 1.235, 123_500.0, 8e9, 0.000_123_5]);
    }

    #[test]
    fn who_reads_does_not_keep_the_packet_loop_waiting() {
        let tally = SharedTally::default();
        tally.read(|_| tally.try_fill(|_| panic!("somebody reads")));
        tally.try_fill(|tally| tally.lost += 1);
        assert_eq!(tally.read(|tally| tally.lost), 1);
    }

    #[test]
    fn what_nobody_has_is_none_and_one_alone_has_no_interval() {
        let small = MeasuredFlow { delivered_bytes: 99_999, rtt_samples: 0, ..flow(1, true, 4, 140) };
        let report = report(&[small, flow(2, false, 4, 50)]);
        let [goodput, rtt, _, resent] = &report.metrics[..] else { panic!("{report:?}") };
        assert_eq!((goodput.control, goodput.change, rtt.control), (None, None, None));
        let alone = rtt.accelerated.unwrap();
        assert_eq!((alone.value, alone.low, alone.high), (50.0, None, None));
        assert!(resent.change.is_some_and(|change| change.low.is_none()));
        assert_eq!(report.metrics.len(), 4, "nothing of the uplink");
    }

    #[test]
    fn a_report_is_as_the_schema_says() {
        let text = include_str!("../../../../schemas/ab.schema.json");
        let schema: serde_json::Value = serde_json::from_str(text).unwrap();
        let report = report(&[flow(1, true, 4, 140), flow(2, false, 8, 50)]);
        let value = serde_json::to_value(&report).unwrap();
        let check = |value: &serde_json::Value, schema: &serde_json::Value| {
            let keys = |value: &serde_json::Value| -> Vec<String> {
                value.as_object().unwrap().keys().cloned().collect()
            };
            let mut required: Vec<String> = schema["required"]
                .as_array()
                .unwrap()
                .iter()
                .map(|key| key.as_str().unwrap().into())
                .collect();
            required.sort();
            assert_eq!(keys(value), required);
            assert_eq!(keys(&schema["properties"]), required);
        };
        check(&value, &schema);
        let of = |name: &str| &schema["$defs"][name];
        check(&value["control"][0], of("ab_group"));
        check(&value["metrics"][0], of("ab_metric"));
        check(&value["metrics"][0]["change"], of("estimate"));
        assert_eq!(serde_json::from_value::<AbReport>(value).unwrap(), report);
    }
}
