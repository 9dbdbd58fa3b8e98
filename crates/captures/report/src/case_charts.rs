//! Charts of a case: throughput over capacity, and queueing delay, both against time.

use figures::chart::{Axis, Chart, Ink, Mark, Point, Range, Series};
use figures::stats::percentile;
use scenario::results::{self, CaseResult};

/// From here on, times the smallest, delays are spread by their ratios.
const WIDE_RATIO: f64 = 30.0;

/// The axes that all charts of a scenario share, so that they can be compared by eye.
pub(crate) struct Axes {
    time: Axis,
    rate: Axis,
    delay: Axis,
}

impl Axes {
    /// The axes that fit every case.
    pub(crate) fn of(cases: &[&CaseResult]) -> Self {
        let all = || cases.iter().filter_map(|c| c.figures.as_ref()).map(|f| &f.series);
        let longest = |s: &results::Series| s.delivered_mbps.len() as f64 * s.bin_s;
        let rates = all().flat_map(|s| s.capacity_mbps.iter().chain(&s.delivered_mbps)).copied();
        let mut means: Vec<f64> =
            all().flat_map(|s| s.queue_delay_ms.iter()).flatten().copied().filter(|d| *d > 0.0).collect();
        means.sort_by(f64::total_cmp);
        // One empty moment at the start of a transfer must not stretch a logarithmic axis.
        let smallest = percentile(&means, 50).map_or(0.1, |d| d.max(0.1));
        let largest = all().flat_map(|s| s.queue_delay_max_ms.iter()).flatten().copied().fold(0.0, f64::max);
        let delay = "Queueing delay, ms";
        Self {
            time: Axis::exact("time, s").over(Range::Between(0.0, all().map(longest).fold(0.0, f64::max))),
            rate: Axis::linear("Throughput, Mbit/s").over(Range::Between(0.0, rates.fold(0.0, f64::max))),
            delay: match largest > WIDE_RATIO * smallest {
                true => Axis::log(delay).over(Range::Between(smallest, largest)),
                false => Axis::linear(delay).over(Range::Between(0.0, largest.max(smallest))),
            },
        }
    }
}

/// Marks of all these charts, for the line that says so: name, ink, mark.
pub(crate) const KEY: [(&str, Ink, Mark); 3] = [
    ("what the link can carry", Ink::Limit, Mark::Ground),
    ("throughput; mean queueing delay", Ink::Plain, Mark::Line),
    ("up to the longest queueing delay", Ink::Plain, Mark::Band),
];

/// Throughput of one case over the capacity of its link.
pub(crate) fn throughput(series: &results::Series, axes: &Axes, name: &str, colour: usize) -> Chart {
    let steps = |ink, mark, values: &[f64]| {
        Series::of_bins("", ink, mark, series.bin_s, values.iter().copied().map(Some))
    };
    Chart::new(&format!("Throughput of {name} over the capacity of the link"), axes.time.clone()).panel(
        axes.rate.clone(),
        vec![
            steps(Ink::Limit, Mark::Ground, &series.capacity_mbps),
            steps(Ink::Colour(colour), Mark::Steps, &series.delivered_mbps),
        ],
    )
}

/// Queueing delay of one case: the mean as a line, up to the longest as a band.
pub(crate) fn delay(series: &results::Series, axes: &Axes, name: &str, colour: usize) -> Chart {
    let ink = Ink::Colour(colour);
    let values = || series.queue_delay_ms.iter().copied();
    let mut band = Series::of_bins("", ink, Mark::Band, series.bin_s, values());
    for (point, longest) in band.points.iter_mut().zip(&series.queue_delay_max_ms) {
        *point = Point::within(point.x, point.y, point.y, longest.unwrap_or(point.y));
    }
    Chart::new(&format!("Queueing delay of {name}"), axes.time.clone())
        .panel(axes.delay.clone(), vec![band, Series::of_bins("", ink, Mark::Line, series.bin_s, values())])
}
