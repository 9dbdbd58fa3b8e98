//! Throughput and queue over time, how long packets waited, and the matrix of fairness.

use figures::chart::{Axis, Chart, Ink, Mark, Point, Range, key};
use figures::{chart, distinct, number, stats};
use maud::{Markup, html};

use super::colour;
use crate::results::{Document, Run, RunSeries, TraceFigures};

/// Throughput on the trace, queue over time, and how long packets waited: of the first seed.
pub(super) fn over_time(trace: &TraceFigures, runs: &[&Run], size: &str, schemes: &[&str]) -> Markup {
    let with_series = runs.iter().filter_map(|run| run.series.as_ref().map(|series| (*run, series)));
    let runs: Vec<(&Run, &RunSeries)> = with_series.collect();
    let Some((_, first)) = runs.first() else { return html! {} };
    let ink = |run: &Run| Ink::Colour(colour(schemes, &run.scheme));
    let bin = format!("{:.0} ms a bin: ", first.bin_ms);
    let names = runs.iter().map(|(run, _)| (run.scheme.as_str(), ink(run), Mark::Line));
    html! {
        p { b { "Queue of " (size) } ", " (bin) (key(names)) }
        div class="halves" { @for chart in charts(trace, &runs, &ink) { (chart.half_figure()) } }
    }
}

fn charts(trace: &TraceFigures, runs: &[(&Run, &RunSeries)], ink: &dyn Fn(&Run) -> Ink) -> [Chart; 3] {
    let bin_s = runs.first().map_or(0.0, |(_, series)| series.bin_ms / 1e3);
    let timed = |ink, mark, values: &[f64]| {
        chart::Series::of_bins("", ink, mark, bin_s, values.iter().copied().map(Some))
    };
    let capacity = timed(Ink::Limit, Mark::Ground, &trace.capacity_mbps);
    let rates = runs.iter().map(|(run, series)| timed(ink(run), Mark::Line, &series.throughput_mbps));
    let queues = runs.iter().map(|(run, series)| timed(ink(run), Mark::Line, &series.queue_ms));
    let share = |(percent, ms): (usize, &f64)| Point::new(*ms, percent as f64);
    let waits = runs.iter().map(|(run, _)| {
        chart::Series::new("", ink(run), Mark::Line, run.queue_quantiles_ms.iter().enumerate().map(share))
    });
    let (seconds, delay) = (|| Axis::exact("time, s"), delay(runs));
    [
        Chart::new("What the link offers (grey), and throughput", seconds())
            .panel(Axis::linear("Mbit/s"), std::iter::once(capacity).chain(rates).collect()),
        Chart::new("Queueing delay over time", seconds()).panel(delay.clone(), queues.collect()),
        Chart::new("How long packets wait in the queue", delay)
            .panel(Axis::linear("% of packets that waited no longer"), waits.collect()),
    ]
}

/// Delays below a millisecond are one opportunity.
fn delay(runs: &[(&Run, &RunSeries)]) -> Axis {
    let over_time = runs.iter().flat_map(|(_, series)| &series.queue_ms);
    let all = over_time.chain(runs.iter().flat_map(|(run, _)| &run.queue_quantiles_ms));
    let longest = all.copied().fold(10.0, f64::max);
    Axis::log("queueing delay, ms").over(Range::Between(1.0, longest))
}

/// Jain's index of a run of several downloads.
struct Shared<'a> {
    /// Trace, queue, and number of downloads.
    place: (&'a str, &'a str, u64),
    scheme: &'a str,
    fairness: f64,
}

const FAIRNESS: &str = "\
    Jain's index of the downloads' goodput: 1 for equal ones, 1/n where one of n gets everything; \
    the redder, the less fair. A line for each trace and queue, a column for each scheme; of the \
    mixed part the two downloads count, the second of which joins later.";

/// Jain's index of each scheme on each trace: rows are traces with their queue, columns schemes.
pub(super) fn fairness(document: &Document, schemes: &[&str]) -> Markup {
    let mixed = document.mixed.iter().map(|r| Shared {
        place: (&r.trace, &r.buffer, 2),
        scheme: &r.scheme,
        fairness: r.fairness,
    });
    let flows = document.flows.iter().map(|r| Shared {
        place: (&r.trace, &r.buffer, r.flows),
        scheme: &r.scheme,
        fairness: r.fairness,
    });
    let all: Vec<Shared<'_>> = mixed.chain(flows).collect();
    let places = distinct(all.iter().map(|shared| shared.place));
    let mean = |place: (&str, &str, u64), scheme: &str| {
        let own = all.iter().filter(|shared| shared.place == place && shared.scheme == scheme);
        stats::mean(own.map(|shared| shared.fairness))
    };
    let heat = |mean: f64| format!("--w:{:.0}%", (1.0 - mean).clamp(0.0, 1.0) * 100.0);
    html! {
        @if !places.is_empty() {
            section {
                h2 { "Fairness" }
                p { (FAIRNESS) }
                div class="scroll" {
                    table class="fields matrix" {
                        thead {
                            tr { th { "downloads of one client" } @for scheme in schemes { th { (scheme) } } }
                        }
                        tbody {
                            @for place in &places {
                                tr {
                                    td { (place.2) " on " (place.0) ", queue of " (place.1) }
                                    @for scheme in schemes {
                                        @let mean = mean(*place, scheme);
                                        td data-label=(scheme) style=[mean.map(heat)] {
                                            (number(mean, 3))
                                        }
                                    }
                                }
                            }
                        }
                    }
                }
            }
        }
    }
}
