//! [`trace_chart`]: a capacity trace over time, with its outages.

use figures::chart::{Axis, Chart, Ink, Mark, Point, Series};
use link::{Trace, TraceStats, bin_rates_mbps, outages_ms};

/// Bins of a tenth of a second, per second.
const BINS_PER_S: f64 = 10.0;
/// Columns of the band at most.
const COLUMNS: usize = 600;

/// Rate over 100 ms as a band from the smallest to the largest value of each column, over 1 s as a line,
/// and pauses above 200 ms as stretches below.
#[must_use]
pub fn trace_chart(trace: &Trace, title: &str) -> Chart {
    let stats = TraceStats::of(trace);
    let fine = bin_rates_mbps(trace, 100);
    let per_column = fine.len().div_ceil(COLUMNS).max(1);
    let column = |(number, bins): (usize, &[f64])| {
        let most = bins.iter().copied().fold(0.0, f64::max);
        // With one value per column the band reaches down to the axis: an area.
        let least = if per_column == 1 { 0.0 } else { bins.iter().copied().fold(f64::MAX, f64::min) };
        let middle = (number * per_column) as f64 + bins.len() as f64 / 2.0;
        Point::within(middle / BINS_PER_S, most, least, most)
    };
    let band = fine.chunks(per_column).enumerate().map(column);
    let second = Series::of_bins(
        "over 1 s",
        Ink::Colour(0),
        Mark::Line,
        1.0,
        bin_rates_mbps(trace, 1000).into_iter().map(Some),
    );
    let outages =
        outages_ms(trace).into_iter().map(|(from, to)| Point::new(from as f64 / 1e3, to as f64 / 1e3));
    let note = format!(
        "{:.1} s · mean {:.2} Mbit/s · variation over 1 s {:.2} · gap p50/p99 {}/{} ms · \
         {} outages above 200 ms, longest gap {:.2} s",
        stats.seconds,
        stats.mean_mbps,
        stats.bins_1s.variation,
        stats.gap_ms_p50,
        stats.gap_ms_p99,
        stats.outages,
        stats.gap_ms_max as f64 / 1e3
    );
    Chart { note, ..Chart::new(title, Axis::exact("time, s")) }.panel(
        Axis::linear("Rate, Mbit/s"),
        vec![
            Series::new("over 100 ms", Ink::Colour(0), Mark::Band, band),
            second,
            Series::new("outage above 200 ms", Ink::Bad, Mark::Spans, outages),
        ],
    )
}

#[cfg(test)]
mod tests {
    use figures::chart::Width;

    use super::*;

    #[test]
    fn rates_and_outages_are_there_and_one_opportunity_is_enough() {
        let lines = (1..=1000).chain(1500..=4000).flat_map(|ms| [ms, ms]);
        let chart = trace_chart(&Trace::from_opportunities_ms(lines).unwrap(), "a<b>&\"c\"");
        let series = &chart.panels[0].series;
        assert_eq!(series[2].points, [Point::new(1.0, 1.5)]);
        assert_eq!((series[0].points.len(), series[1].points.len()), (40, 4));
        assert!(chart.note.contains("1 outages above 200 ms, longest gap 0.50 s"), "{}", chart.note);
        let svg = chart.file(Width::Wide);
        assert!(svg.contains("a&lt;b&gt;&amp;&quot;c&quot;") && svg.contains("outage above 200 ms"));
        let one = trace_chart(&Trace::from_opportunities_ms([1]).unwrap(), "one");
        assert!(!one.file(Width::Wide).contains("NaN"));
    }
}
