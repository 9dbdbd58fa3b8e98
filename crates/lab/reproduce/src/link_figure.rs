//! [`link_figure`]: what a link does over time, by packets of our own.

use std::path::Path;

use figures::stats;
use link::{Link, LinkConfig};
use scenario::Scenario;
use units::{Bytes, Duration, Instant, Rate};

use crate::{Axis, Figure, Mark, Point, ReproduceError, Series, Source};

/// Links shown of one scenario at most: a sweep over links need not show each.
const LINKS_MAX: usize = 4;
/// Longest time for which the links of a scenario are shown.
const LINK_SHOWN: Duration = Duration::from_secs(60);
/// Bins of the figure.
const BINS: u64 = 120;
/// Probes are full packets.
const PROBE: Bytes = Bytes::new(1_500);
/// Probes to a link without a limit.
const PROBE_RATE: Rate = Rate::from_mbps(1);

/// The different downlinks of a scenario's cases.
pub(crate) fn links_of(scenario: &Scenario, traces: &Path) -> Result<Vec<Figure>, ReproduceError> {
    let mut seen: Vec<LinkConfig> = Vec::new();
    let mut figures = Vec::new();
    for case in scenario.resolved() {
        let plan = case.links(scenario.seed, &mut |file| lab::read_trace(traces, file))?;
        if seen.contains(&plan.radio_down) || seen.len() == LINKS_MAX {
            continue;
        }
        let name = match seen.len() {
            0 => format!("The link of {}", scenario.name),
            _ => format!("The link of {}, case {}", scenario.name, case.name),
        };
        let length = scenario.time_limit.0.min(LINK_SHOWN);
        let figure = link_figure(&name, &plan.radio_down, length);
        figures.push(figure.map_err(|error| ReproduceError::meaning(&scenario.name, error))?);
        seen.push(plan.radio_down);
    }
    Ok(figures)
}

/// Capacity, delay and loss of a link over time, as full packets at half its mean rate find them.
///
/// # Errors
/// A setting is out of its range.
pub fn link_figure(title: &str, config: &LinkConfig, length: Duration) -> Result<Figure, link::LinkError> {
    let mut link = Link::new(&LinkConfig { keeps_log: true, ..config.clone() }, Instant::ZERO)?;
    let bin = Duration::from_nanos((length.as_nanos() / BINS).max(1));
    let offered = |link: &Link<()>, from, to| match link.offered_bytes(from, to) {
        Bytes::MAX => None,
        bytes => Some(Rate::from_transfer(bytes, to.saturating_since(from))),
    };
    let mean = offered(&link, Instant::ZERO, Instant::ZERO + length);
    let rate = mean.filter(|rate| !rate.is_zero()).map_or(PROBE_RATE, |rate| rate.mul_ratio(1, 2));
    let every = rate.time_for(PROBE);
    let mut now = Instant::ZERO;
    while now < Instant::ZERO + length {
        while link.poll(now).is_some() {}
        // A packet that is lost at once is in the log too.
        let _ = link.enqueue((), PROBE, now);
        now += every;
    }
    let log = link.take_log();
    let (mut capacity, mut delay, mut loss) = (Vec::new(), Vec::new(), Vec::new());
    for number in 0..BINS {
        let from = Instant::ZERO + Duration::from_nanos(bin.as_nanos() * number);
        let to = from + bin;
        let x = from.as_nanos() as f64 / 1e9;
        capacity.extend(offered(&link, from, to).map(|rate| Point::new(x, rate.as_mbps_f64())));
        let inside: Vec<_> = log.iter().filter(|r| r.arrival >= from && r.arrival < to).collect();
        let delays = inside.iter().filter_map(|r| Some(r.one_way_delay()?.as_millis_f64()));
        let middle = x + bin.as_secs_f64() / 2.0;
        delay.extend(stats::mean(delays).map(|mean| Point::new(middle, mean)));
        let lost = inside.iter().filter(|r| r.drop.is_some()).count();
        if lost > 0 {
            loss.push(Point::new(middle, lost as f64));
        }
    }
    let limit = match capacity.is_empty() {
        true => "No limit of capacity".to_owned(),
        false => format!("Capacity in bins of {:.2} s", bin.as_secs_f64()),
    };
    let caption = format!(
        "{limit}; one-way delay and losses of full packets sent at {:.2} Mbit/s{}.",
        rate.as_mbps_f64(),
        if loss.is_empty() { ", of which none was lost" } else { "" }
    );
    let mut figure = Figure::titled(title, &caption, Axis::linear("seconds"));
    if !capacity.is_empty() {
        let series = Series::new("capacity", Source::Limit, Mark::Ground, capacity);
        figure = figure.panel(Axis::linear("Mbit/s"), vec![series]);
    }
    figure =
        figure.panel(Axis::linear("delay, ms"), vec![Series::new("delay", Source::Ours, Mark::Line, delay)]);
    if !loss.is_empty() {
        let series = Series::new("lost packets", Source::Ours, Mark::Stems, loss);
        figure = figure.panel(Axis::linear("lost"), vec![series]);
    }
    Ok(figure)
}

/// Capacity of a link from `span.0` to `span.1` seconds, Mbit/s in bins of `bin`; nothing for a link without
/// a limit.
///
/// # Errors
/// A setting is out of its range.
pub(crate) fn capacity_over_time(
    config: &LinkConfig,
    span: (f64, f64),
    bin: Duration,
) -> Result<Vec<Point>, link::LinkError> {
    let link: Link<()> = Link::new(config, Instant::ZERO)?;
    let bins = ((span.0 / bin.as_secs_f64()).round() as u64)..((span.1 / bin.as_secs_f64()).round() as u64);
    let at = |number: u64| Instant::ZERO + Duration::from_nanos(bin.as_nanos() * number);
    let point = |number: u64| match link.offered_bytes(at(number), at(number + 1)) {
        Bytes::MAX => None,
        bytes => {
            let x = bin.as_secs_f64() * number as f64;
            Some(Point::new(x, Rate::from_transfer(bytes, bin).as_mbps_f64()))
        }
    };
    Ok(bins.filter_map(point).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use link::{Capacity, DelayModel, LossModel, OutageModel};

    #[test]
    fn capacity_is_that_of_each_bin() {
        let capacity = Capacity::Constant(Rate::from_mbps(10));
        let outages = OutageModel::Scheduled(vec![(Duration::from_secs(2), Duration::from_secs(1))]);
        let config = LinkConfig { capacity, outages, ..LinkConfig::default() };
        let points = capacity_over_time(&config, (1.0, 4.0), Duration::from_millis(500)).unwrap();
        let rates: Vec<f64> = points.iter().map(|p| p.y.round()).collect();
        assert_eq!((points[0].x, rates), (1.0, vec![10.0, 10.0, 0.0, 0.0, 10.0, 10.0]));
    }

    #[test]
    fn rate_delay_loss_and_outages_are_seen() {
        let config = LinkConfig {
            capacity: Capacity::Constant(Rate::from_mbps(10)),
            delay: DelayModel::Fixed(Duration::from_millis(30)),
            loss_after: LossModel::Bernoulli { ppm: 100_000 },
            outages: OutageModel::Scheduled(vec![(Duration::from_secs(2), Duration::from_secs(1))]),
            ..LinkConfig::default()
        };
        let figure = link_figure("a link", &config, Duration::from_secs(12)).unwrap();
        let points = |n: usize| &figure.panels[n].series[0].points;
        let at = |n: usize, x: f64| points(n).iter().rfind(|p| p.x <= x).unwrap().y;
        assert!((at(0, 1.0) - 10.0).abs() < 1e-6 && at(0, 2.5) < 1e-6);
        assert!((at(1, 1.0) - 31.2).abs() < 0.1, "{}", at(1, 1.0));
        assert!(at(1, 2.1) > 500.0, "waits for the end of the outage");
        // A tenth of 12 s at 5 Mbit/s are 500 packets.
        let lost: f64 = points(2).iter().map(|p| p.y).sum();
        assert!((400.0..600.0).contains(&lost), "{lost}");
    }
}
