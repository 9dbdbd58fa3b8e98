//! A/B phases in reports: which lie in a stretch of time, and what they have shown.

use figures::chart::{Axis, Chart, Ink, Mark, Point, Range, Series};
use figures::stats::metric_words;
use figures::{Table, stats};
use run::{AbMetric, AbReport, Estimate};

use crate::format::span;

/// Readings of the beginning of one phase differ by less: the machine's clock is adjusted.
const SAME_WITHIN_MS: u64 = 1_000;

/// Fewer subscribers make no curve.
const CURVE_OF: usize = 5;

/// True if both are of one phase.
pub(crate) fn is_same(one: &AbReport, other: &AbReport) -> bool {
    one.phase.seed == other.phase.seed && one.phase.began_ms.abs_diff(other.phase.began_ms) < SAME_WITHIN_MS
}

/// Phases of which a part lies between two times, each as it was seen last, by their beginnings.
pub(crate) fn within<'a>(
    seen: impl Iterator<Item = &'a AbReport>,
    from_ms: u64,
    to_ms: u64,
) -> Vec<AbReport> {
    let mut phases: Vec<AbReport> = Vec::new();
    for report in seen {
        let (begin, end) = (report.phase.began_ms, report.phase.began_ms + report.phase.elapsed_ms);
        if begin >= to_ms || end <= from_ms {
            continue;
        }
        match phases.iter_mut().find(|own| is_same(own, report)) {
            Some(own) => *own = report.clone(),
            None => phases.push(report.clone()),
        }
    }
    phases.sort_by_key(|report| report.phase.began_ms);
    phases
}

/// In a sentence: what a phase says of goodput, and of the time in queues where that differs; none if it has too few
/// subscribers for an interval.
pub(crate) fn finding(report: &AbReport) -> Option<String> {
    let of = |name: &str| {
        let is_it = |metric: &&AbMetric| metric.name == name && metric.direction == "downlink";
        let change = report.metrics.iter().find(is_it)?.change?;
        Some((change.value, change.low?, change.high?))
    };
    let (factor, low, high) = of("goodput")?;
    let long = span(report.phase.elapsed_ms);
    let mut said = Vec::new();
    if !(low..=high).contains(&1.0) {
        said.push(format!(
            "had {factor:.2} times the goodput of the control group (95 % interval {low:.2} to {high:.2})"
        ));
    }
    if let Some((by, low, high)) = of("queueing-delay").filter(|(_, low, high)| low * high > 0.0) {
        let (less, low, high) = if by < 0.0 { ("less", -high, -low) } else { ("more", low, high) };
        let than = if said.is_empty() { " than the control group" } else { "" };
        let by = by.abs();
        said.push(format!(
            "waited {by:.0} ms {less} in queues{than} (95 % interval {low:.0} to {high:.0} ms)"
        ));
    }
    Some(if said.is_empty() {
        format!("An A/B phase of {long} has shown no difference.")
    } else {
        format!("In an A/B phase of {long} accelerated subscribers {}.", said.join(" and "))
    })
}

/// Comparison of a phase, a row for each metric and direction.
#[must_use]
pub fn comparison(report: &AbReport) -> Table {
    Table {
        headings: ["data", "metric", "passed", "accelerated", "change"].map(|name| (name, "")).to_vec(),
        rows: report.metrics.iter().map(row).collect(),
    }
}

/// Distributions of the subscribers of both groups: over the share of subscribers, what these have at most.
/// None if the phase has no metric with enough subscribers in both groups.
#[must_use]
pub fn distributions(report: &AbReport) -> Option<Chart> {
    let x = Axis::linear("share of the subscribers, %").over(Range::Between(0.0, 100.0));
    let mut chart = Chart::new("What subscribers have at most", x);
    for metric in &report.metrics {
        let groups =
            [("passed", 1, &metric.control_quantiles), ("accelerated", 0, &metric.accelerated_quantiles)];
        if groups.iter().any(|(_, _, values)| values.len() < CURVE_OF) {
            continue;
        }
        let (scale, unit) = scaled(metric);
        let series = groups.map(|(name, colour, values)| {
            let share = |at: usize| 100.0 * at as f64 / (values.len() - 1) as f64;
            let points = values.iter().enumerate().map(|(at, value)| Point::new(share(at), value * scale));
            Series::new(name, Ink::Colour(colour), Mark::Line, points)
        });
        let of = if metric.direction == "uplink" { "uploads, " } else { "" };
        let label = format!("{of}{}, {unit}", metric_words(&metric.name));
        chart = chart.panel(Axis::linear(&label), series.into());
    }
    (!chart.panels.is_empty()).then_some(chart)
}

/// The factor and the unit in which a metric is shown.
fn scaled(metric: &AbMetric) -> (f64, &str) {
    if metric.unit == "bit/s" { (1e-6, "Mbit/s") } else { (1.0, metric.unit.as_str()) }
}

fn row(metric: &AbMetric) -> Vec<String> {
    let (scale, unit) = scaled(metric);
    let value = |estimate: Option<Estimate>| shown(estimate, scale, unit, false);
    let change = match metric.unit.as_str() {
        "bit/s" => shown(metric.change, 1.0, "times", false),
        unit => shown(metric.change, 1.0, unit, true),
    };
    vec![
        metric.direction.clone(),
        metric_words(&metric.name).to_owned(),
        value(metric.control),
        value(metric.accelerated),
        change,
    ]
}

fn shown(estimate: Option<Estimate>, scale: f64, unit: &str, is_signed: bool) -> String {
    let Some(estimate) = estimate else { return "-".to_owned() };
    let interval = estimate.low.zip(estimate.high);
    let estimate = stats::Estimate { count: estimate.subscribers as usize, value: estimate.value, interval };
    estimate.told(scale, unit, is_signed)
}

#[cfg(test)]
pub(crate) mod tests {
    use run::AbPhase;

    use super::*;

    /// A phase that began in a minute and has lasted for some, with a factor of goodput and its interval.
    pub(crate) fn phase(minute: u64, minutes: u64, change: Option<[f64; 3]>) -> AbReport {
        let change = change.map(|[value, low, high]| Estimate {
            subscribers: 9,
            value,
            low: Some(low),
            high: Some(high),
        });
        AbReport {
            phase: AbPhase {
                name: "radio".to_owned(),
                seed: 7,
                began_ms: minute * 60_000,
                elapsed_ms: minutes * 60_000,
                ..AbPhase::default()
            },
            metrics: vec![AbMetric {
                name: "goodput".to_owned(),
                direction: "downlink".to_owned(),
                unit: "bit/s".to_owned(),
                control: None,
                accelerated: None,
                change,
                control_quantiles: Vec::new(),
                accelerated_quantiles: Vec::new(),
            }],
            ..AbReport::default()
        }
    }

    #[test]
    fn a_phase_is_taken_as_it_was_seen_last_if_a_part_of_it_is_in_the_time() {
        let seen = [
            phase(10, 1, None),
            AbReport {
                lost_flows: 5,
                phase: AbPhase { began_ms: 600_300, ..phase(10, 3, None).phase },
                ..phase(10, 3, None)
            },
            phase(40, 5, None),
            phase(2, 6, None),
        ];
        let of = |from: u64, to: u64| -> Vec<(u64, u64)> {
            let found = within(seen.iter(), from * 60_000, to * 60_000);
            found.iter().map(|one| (one.phase.began_ms / 60_000, one.lost_flows)).collect()
        };
        assert_eq!(of(0, 60), [(2, 0), (10, 5), (40, 0)]);
        assert_eq!(of(7, 12), [(2, 0), (10, 5)]);
        assert_eq!(of(8, 10), [], "what ended and what begins there is not in it");
        assert_eq!(of(44, 45), [(40, 0)]);
    }

    #[test]
    fn curves_are_of_metrics_with_enough_subscribers() {
        let mut report = phase(0, 30, None);
        assert_eq!(distributions(&report), None);
        let metric = &mut report.metrics[0];
        metric.control_quantiles = vec![1e6, 2e6, 3e6, 4e6, 5e6];
        metric.accelerated_quantiles = vec![2e6, 4e6, 6e6, 8e6];
        assert_eq!(distributions(&report), None, "four are no curve");
        report.metrics[0].accelerated_quantiles.push(1e7);
        let chart = distributions(&report).unwrap();
        let [panel] = &chart.panels[..] else { panic!("{chart:?}") };
        assert_eq!(panel.y.label, "goodput, Mbit/s");
        let points =
            |at: usize| panel.series[at].points.iter().map(|point| (point.x, point.y)).collect::<Vec<_>>();
        assert_eq!((points(0)[0], points(0)[4]), ((0.0, 1.0), (100.0, 5.0)));
        assert_eq!((panel.series[1].name.as_str(), points(1)[2]), ("accelerated", (50.0, 6.0)));
    }

    #[test]
    fn an_interval_of_what_cannot_be_negative_begins_at_zero() {
        let estimate =
            |value, low, high| Some(Estimate { subscribers: 2, value, low: Some(low), high: Some(high) });
        assert_eq!(shown(estimate(38.6, -50.6, 127.8), 1.0, "ms", false), "38.60 ms [0.00, 127.80]");
        assert_eq!(shown(estimate(-7.6, -75.9, 60.7), 1.0, "ms", true), "-7.60 ms [-75.90, +60.70]");
    }

    #[test]
    fn a_sentence_claims_no_more_than_the_interval() {
        let says = |change| finding(&phase(0, 30, change));
        assert_eq!(says(None), None);
        assert!(says(Some([1.1, 0.9, 1.4])).unwrap().contains("no difference"));
        let mut report = phase(0, 30, Some([1.1, 0.9, 1.4]));
        let queueing = |value, low, high| AbMetric {
            name: "queueing-delay".to_owned(),
            unit: "ms".to_owned(),
            change: Some(Estimate { subscribers: 9, value, low: Some(low), high: Some(high) }),
            ..phase(0, 30, None).metrics[0].clone()
        };
        report.metrics.push(queueing(-137.3, -183.0, -91.5));
        let text = finding(&report).unwrap();
        assert!(
            text.ends_with("accelerated subscribers waited 137 ms less in queues than the control group (95 % interval 92 \
                            to 183 ms)."),
            "{text}"
        );
        report.metrics[1] = queueing(20.0, -5.0, 45.0);
        assert!(finding(&report).unwrap().contains("no difference"));
        report.metrics[0] = phase(0, 30, Some([2.5, 1.5, 3.5])).metrics[0].clone();
        report.metrics[1] = queueing(20.0, 5.0, 35.0);
        let text = finding(&report).unwrap();
        assert!(
            text.contains("2.50 times")
                && text.contains("and waited 20 ms more in queues (95 % interval 5 to 35 ms)")
        );
        let text = says(Some([2.5, 1.5, 3.5])).unwrap();
        assert!(
            text.contains("phase of 30 min") && text.contains("2.50 times") && text.contains("1.50 to 3.50"),
            "{text}"
        );
    }
}
