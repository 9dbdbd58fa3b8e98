//! [`compare`]: the effect of a change, with confidence intervals.

use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;

use crate::flows::{Flow, Flows};
use crate::resample::Resample;

/// `schema` of a comparison.
pub const SCHEMA: &str = "cellerator/dataset-comparison/1";

/// Flows with fewer bytes have no goodput: slow start and the round trip decide it.
const GOODPUT_MIN_BYTES: u64 = 100_000;
/// Fewer subscribers with a value than this say too little of others: no interval.
pub(crate) const SUBSCRIBERS_MIN: usize = 5;
/// The same for a 95th percentile, which rests on the few slowest of them.
pub(crate) const SUBSCRIBERS_MIN_P95: usize = 20;

/// Figure that is compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Measure {
    /// Median over flows of 100 KB and more: bytes over first packet to last.
    Goodput,
    /// Median over flows of the flow's median round-trip time.
    RttP50,
    /// Median over flows of the flow's 95th percentile of the round-trip time.
    RttP95,
    /// Packets with data seen before, of all packets with data.
    Retransmitted,
    /// Median over flows that both ends closed: first packet to last.
    CompletionP50,
    /// 95th percentile of the same.
    CompletionP95,
}

impl Measure {
    /// All.
    pub const ALL: [Self; 6] = [
        Self::Goodput,
        Self::RttP50,
        Self::RttP95,
        Self::Retransmitted,
        Self::CompletionP50,
        Self::CompletionP95,
    ];

    /// Its name for people.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Goodput => "goodput, median",
            Self::RttP50 => "RTT, median",
            Self::RttP95 => "RTT, 95th percentile",
            Self::Retransmitted => "retransmitted",
            Self::CompletionP50 => "completion, median",
            Self::CompletionP95 => "completion, 95th percentile",
        }
    }

    /// Its name where there is little room.
    #[must_use]
    pub const fn short_name(self) -> &'static str {
        match self {
            Self::Goodput => "goodput",
            Self::RttP50 => "RTT",
            Self::RttP95 => "RTT, p95",
            Self::Retransmitted => "retransmitted",
            Self::CompletionP50 => "completion",
            Self::CompletionP95 => "completion, p95",
        }
    }

    /// The unit of its values.
    #[must_use]
    pub const fn unit(self) -> &'static str {
        match self {
            Self::Goodput => "Mbit/s",
            Self::RttP50 | Self::RttP95 => "ms",
            Self::Retransmitted => "%",
            Self::CompletionP50 | Self::CompletionP95 => "s",
        }
    }

    /// More is better.
    #[must_use]
    pub const fn more_is_better(self) -> bool {
        matches!(self, Self::Goodput)
    }

    const fn per_mille(self) -> u64 {
        match self {
            Self::CompletionP95 => 950,
            _ => 500,
        }
    }

    /// Subscribers with a value that an interval needs on either side.
    pub(crate) const fn subscribers_min(self) -> usize {
        match self {
            Self::CompletionP95 => SUBSCRIBERS_MIN_P95,
            _ => SUBSCRIBERS_MIN,
        }
    }

    /// The value of a flow, where the flow has one.
    fn of(self, flow: &Flow) -> Option<f64> {
        match self {
            Self::Goodput if flow.bytes >= GOODPUT_MIN_BYTES && flow.duration_s > 0.0 => {
                Some(flow.bytes as f64 * 8.0 / flow.duration_s / 1e6)
            }
            Self::Goodput | Self::Retransmitted => None,
            Self::RttP50 => flow.rtt_p50_ms,
            Self::RttP95 => flow.rtt_p95_ms,
            Self::CompletionP50 | Self::CompletionP95 => flow.is_complete.then_some(flow.duration_s),
        }
    }
}

/// One of the two datasets.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Side {
    /// Path of the dataset.
    pub dataset: String,
    /// Flows with data.
    pub flows: usize,
    /// Clients: IPv4 addresses, first 64 bits of IPv6 addresses.
    pub subscribers: usize,
}

/// One measure before and after.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Effect {
    /// Figure that is compared.
    pub measure: Measure,
    /// Unit of before, after and difference.
    #[cfg_attr(feature = "schema", schemars(extend("enum" = ["Mbit/s", "ms", "%", "s"])))]
    pub unit: &'static str,
    /// Flows that have a value, before and after.
    pub flows: [usize; 2],
    /// Subscribers with such flows, before and after.
    pub subscribers: [usize; 2],
    /// Its value before; none where no flow has one.
    pub before: Option<f64>,
    /// Its value after.
    pub after: Option<f64>,
    /// After less before.
    pub difference: Option<f64>,
    /// Its 95 % confidence interval; none with too few subscribers that have a value on a side: five, and
    /// twenty for a 95th percentile of flows.
    pub difference_interval: Option<[f64; 2]>,
    /// After over before, less one, in percent; none where it was zero before.
    pub change_percent: Option<f64>,
    /// Its 95 % confidence interval; none where it has no end because it may have been zero before.
    pub change_interval_percent: Option<[f64; 2]>,
    /// Verdict by the interval of the difference.
    pub verdict: Verdict,
}

/// Verdict by the interval of a difference.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// It is on the good side of zero.
    Better,
    /// It is on the bad side of zero.
    Worse,
    /// It holds zero.
    Unclear,
    /// There is none: too few subscribers have a value before, or after.
    TooFew,
}

impl Verdict {
    /// All.
    pub const ALL: [Self; 4] = [Self::Better, Self::Worse, Self::Unclear, Self::TooFew];

    /// For people.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Better => "better",
            Self::Worse => "worse",
            Self::Unclear => "unclear",
            Self::TooFew => "too few",
        }
    }
}

/// Two datasets beside each other.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct DatasetComparison {
    /// [`SCHEMA`].
    pub schema: &'static str,
    /// The version of the program.
    pub cellerator: String,
    /// The dataset before the change.
    pub before: Side,
    /// The one after it.
    pub after: Side,
    /// Clients that are in both datasets: the bootstrap draws them for both at once.
    pub subscribers_in_both: usize,
    /// Samples of the bootstrap.
    pub samples: u32,
    /// Seed from which the samples were drawn.
    pub seed: u64,
    /// The measures.
    pub effects: Vec<Effect>,
}

/// Values of one measure on one side, prepared for many samples.
enum Values {
    /// Value and subscriber, in rising order.
    Sorted(Vec<(f64, usize)>, u64),
    /// Numerator, denominator and subscriber.
    Ratio(Vec<(u64, u64, usize)>),
}

impl Values {
    fn of(measure: Measure, flows: &Flows, numbers: &[usize]) -> Self {
        if measure == Measure::Retransmitted {
            // The sums of each subscriber are enough.
            let mut sums: BTreeMap<usize, (u64, u64)> = BTreeMap::new();
            for flow in flows.flows.iter().filter(|flow| flow.data_packets > 0) {
                let sum = sums.entry(numbers[flow.subscriber]).or_default();
                sum.0 += flow.again;
                sum.1 += flow.data_packets;
            }
            return Self::Ratio(sums.into_iter().map(|(who, (again, all))| (again, all, who)).collect());
        }
        let value = |flow: &Flow| Some((measure.of(flow)?, numbers[flow.subscriber]));
        let mut sorted: Vec<(f64, usize)> = flows.flows.iter().filter_map(value).collect();
        sorted.sort_by(|a, b| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1)));
        Self::Sorted(sorted, measure.per_mille())
    }

    /// Flows with a value.
    fn flows(&self, flows: &Flows) -> usize {
        match self {
            Self::Sorted(sorted, _) => sorted.len(),
            Self::Ratio(_) => flows.flows.iter().filter(|flow| flow.data_packets > 0).count(),
        }
    }

    /// Subscribers with such flows.
    fn subscribers(&self) -> usize {
        match self {
            Self::Sorted(sorted, _) => sorted.iter().map(|(_, who)| who).collect::<BTreeSet<_>>().len(),
            Self::Ratio(sums) => sums.len(),
        }
    }

    /// The measure when each subscriber counts so often; none where nothing counts.
    fn statistic(&self, weight: &dyn Fn(usize) -> u32) -> Option<f64> {
        match self {
            Self::Sorted(sorted, per_mille) => {
                let counts = sorted.iter().map(|(value, who)| (*value, u64::from(weight(*who))));
                let total: u64 = counts.clone().map(|(_, count)| count).sum();
                if total == 0 {
                    return None;
                }
                figures::stats::percentile_of_counts(counts, u32::try_from(*per_mille).ok()?)
            }
            Self::Ratio(sums) => {
                let add = |(a, b): (u64, u64), (again, all, who): &(u64, u64, usize)| {
                    let weight = u64::from(weight(*who));
                    (a + again * weight, b + all * weight)
                };
                let (again, all) = sums.iter().fold((0, 0), add);
                (all > 0).then(|| again as f64 * 100.0 / all as f64)
            }
        }
    }
}

/// Compares two datasets.
///
/// Intervals are percentiles of `samples` samples with repetition, drawn over subscribers: flows of one
/// subscriber share a radio, and are no independent observations. The percentiles are those of
/// [`figures::stats::bootstrap_tail`], of the side with fewer subscribers: with few, intervals by the plain ones
/// hold the truth too seldom. `seed` makes them the same each time.
#[must_use]
pub fn compare(
    (before_name, before): (&str, &Flows),
    (after_name, after): (&str, &Flows),
    samples: u32,
    seed: u64,
) -> DatasetComparison {
    let mut all: BTreeMap<&str, [bool; 2]> = BTreeMap::new();
    for (side, flows) in [before, after].into_iter().enumerate() {
        for name in &flows.subscribers {
            all.entry(name).or_default()[side] = true;
        }
    }
    let place: BTreeMap<&str, usize> = all.keys().enumerate().map(|(number, name)| (*name, number)).collect();
    let numbers =
        |flows: &Flows| -> Vec<usize> { flows.subscribers.iter().map(|name| place[name.as_str()]).collect() };
    let numbers = [numbers(before), numbers(after)];
    let stratum = |wanted: [bool; 2]| -> Vec<usize> {
        all.values().enumerate().filter(|(_, sides)| **sides == wanted).map(|(number, _)| number).collect()
    };
    let strata = vec![stratum([true, true]), stratum([true, false]), stratum([false, true])];
    let in_both = strata[0].len();
    let values: Vec<[Values; 2]> = Measure::ALL
        .iter()
        .map(|measure| [Values::of(*measure, before, &numbers[0]), Values::of(*measure, after, &numbers[1])])
        .collect();
    let mut drawn: Vec<Vec<(f64, f64)>> = vec![Vec::new(); values.len()];
    let have = values.iter().map(|sides| [0, 1].map(|side: usize| sides[side].subscribers()));
    let have: Vec<[usize; 2]> = have.collect();
    let is_enough: Vec<bool> = Measure::ALL
        .iter()
        .zip(&have)
        .map(|(measure, have)| have.iter().all(|count| *count >= measure.subscribers_min()))
        .collect();
    if is_enough.contains(&true) {
        let mut resample = Resample::new(seed, all.len(), strata);
        for _ in 0..samples {
            let weights = resample.next();
            let weight = |who: usize| weights[who];
            let wanted = drawn.iter_mut().zip(&values).zip(&is_enough).filter(|(_, is_enough)| **is_enough);
            for ((drawn, [before, after]), _) in wanted {
                if let (Some(b), Some(a)) = (before.statistic(&weight), after.statistic(&weight)) {
                    drawn.push((b, a));
                }
            }
        }
    }
    let effects =
        Measure::ALL.iter().zip(&values).zip(drawn).zip(have).map(|(((measure, sides), drawn), have)| {
            let flows = [sides[0].flows(before), sides[1].flows(after)];
            effect(*measure, flows, have, [sides[0].statistic(&|_| 1), sides[1].statistic(&|_| 1)], &drawn)
        });
    let side = |name: &str, flows: &Flows| Side {
        dataset: name.to_owned(),
        flows: flows.flows.len(),
        subscribers: flows.subscribers.len(),
    };
    DatasetComparison {
        schema: SCHEMA,
        cellerator: env!("CARGO_PKG_VERSION").to_owned(),
        before: side(before_name, before),
        after: side(after_name, after),
        subscribers_in_both: in_both,
        samples,
        seed,
        effects: effects.collect(),
    }
}

fn effect(
    measure: Measure,
    flows: [usize; 2],
    subscribers: [usize; 2],
    [before, after]: [Option<f64>; 2],
    drawn: &[(f64, f64)],
) -> Effect {
    let tail = figures::stats::bootstrap_tail(subscribers[0].min(subscribers[1]));
    let interval = |values: Vec<f64>| interval(values, tail?);
    let change = |(before, after): (f64, f64)| (after / before - 1.0) * 100.0;
    let difference_interval = interval(drawn.iter().map(|(before, after)| after - before).collect());
    // Of nothing to something there is no end; of nothing to nothing there is no change.
    let changes = drawn.iter().map(|pair| if *pair == (0.0, 0.0) { 0.0 } else { change(*pair) });
    let change_interval_percent =
        interval(changes.collect()).filter(|ends| ends.iter().all(|end| end.is_finite()));
    let both = before.zip(after);
    let verdict = match difference_interval {
        Some([low, high]) if low > 0.0 || high < 0.0 => match (low > 0.0) == measure.more_is_better() {
            true => Verdict::Better,
            false => Verdict::Worse,
        },
        Some(_) => Verdict::Unclear,
        None => Verdict::TooFew,
    };
    Effect {
        measure,
        unit: measure.unit(),
        flows,
        subscribers,
        before,
        after,
        difference: both.map(|(before, after)| after - before),
        difference_interval,
        change_percent: both.filter(|(before, _)| *before > 0.0).map(change),
        change_interval_percent: change_interval_percent
            .filter(|_| before.is_some_and(|before| before > 0.0)),
        verdict,
    }
}

/// The values without the share `tail` at either end.
fn interval(mut values: Vec<f64>, tail: f64) -> Option<[f64; 2]> {
    /// Shares are counted in these.
    const WHOLE: u64 = 1_000_000;
    values.sort_by(f64::total_cmp);
    let tail = (tail * WHOLE as f64) as u64;
    let at = |part| {
        let rank = figures::stats::nearest_rank(values.len() as u64, part, WHOLE);
        values.get(usize::try_from(rank).ok()?.checked_sub(1)?).copied()
    };
    Some([at(tail)?, at(WHOLE - tail)?])
}

#[cfg(test)]
#[path = "effect/tests.rs"]
mod tests;
