//! Throughput and queue over time, how long packets waited, and the matrix of fairness.

use std::fmt::Write as _;

use report::escape;

use super::colour;
use crate::charts::{Axis, Line, chart};
use crate::results::{Document, Run, Series, TraceFigures};

/// Throughput on the trace, queue over time, and how long packets waited: of the first seed.
pub(super) fn over_time(
    html: &mut String,
    trace: &TraceFigures,
    runs: &[&Run],
    size: &str,
    schemes: &[&str],
) {
    let runs: Vec<(&Run, &Series)> =
        runs.iter().filter_map(|run| run.series.as_ref().map(|series| (*run, series))).collect();
    let Some((_, first)) = runs.first() else { return };
    let names: String = runs
        .iter()
        .map(|(run, _)| {
            let (number, name) = (colour(schemes, &run.scheme), escape(&run.scheme));
            format!("<span class=\"c{number} item\"><span class=\"swatch\"></span>{name}</span> ")
        })
        .collect();
    let _ = writeln!(
        html,
        "<p class=\"legend\"><b>Queue of {size}</b>, {:.0} ms a bin: {names}</p>\n<div class=\"plots\">",
        first.bin_ms
    );
    for (caption, svg) in charts(trace, &runs, schemes) {
        let _ = writeln!(html, "<figure><figcaption>{caption}</figcaption>\n{svg}</figure>");
    }
    html.push_str("</div>\n");
}

fn charts(trace: &TraceFigures, runs: &[(&Run, &Series)], schemes: &[&str]) -> [(&'static str, String); 3] {
    let bin_s = runs.first().map_or(0.0, |(_, series)| series.bin_ms / 1e3);
    let timed = |values: &[f64]| values.iter().enumerate().map(|(n, v)| (n as f64 * bin_s, *v)).collect();
    let of = |run: &Run, points: Vec<(f64, f64)>| Line { colour: Some(colour(schemes, &run.scheme)), points };
    let capacity = Line { colour: None, points: timed(&trace.capacity_mbps) };
    let rates = runs.iter().map(|(run, series)| of(run, timed(&series.throughput_mbps)));
    let rates: Vec<Line> = core::iter::once(capacity).chain(rates).collect();
    let queues: Vec<Line> = runs.iter().map(|(run, series)| of(run, timed(&series.queue_ms))).collect();
    let steps =
        |run: &Run| run.queue_quantiles_ms.iter().enumerate().map(|(n, ms)| (*ms, n as f64)).collect();
    let waits: Vec<Line> = runs.iter().map(|(run, _)| of(run, steps(run))).collect();
    let seconds = Axis { unit: "s", is_log: false };
    let ms = Axis { unit: "queueing delay, ms (log)", is_log: true };
    let share = Axis { unit: "% of packets", is_log: false };
    let rate = Axis { unit: "Mbit/s", is_log: false };
    [
        ("What the link offers (grey), and throughput", chart("throughput", &rates, (&seconds, &rate))),
        ("Queueing delay over time", chart("queue over time", &queues, (&seconds, &ms))),
        (
            "How long packets wait in the queue",
            chart("distribution of the queueing delay", &waits, (&ms, &share)),
        ),
    ]
}

/// Jain's index of a run of several downloads.
struct Shared<'a> {
    /// Trace, queue, and number of downloads.
    place: (&'a str, &'a str, u64),
    scheme: &'a str,
    fairness: f64,
}

/// Jain's index of each scheme on each trace: rows are traces with their queue, columns schemes.
pub(super) fn fairness(html: &mut String, document: &Document, schemes: &[&str]) {
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
    let mut places: Vec<(&str, &str, u64)> = Vec::new();
    for shared in &all {
        if !places.contains(&shared.place) {
            places.push(shared.place);
        }
    }
    if places.is_empty() {
        return;
    }
    html.push_str(
        "<section><h2>Fairness</h2>\n<p>Jain's index of the downloads' goodput: 1 for equal ones, 1/n where one of n \
         gets everything; the redder, the less fair. A line for each trace and queue, a column for each scheme; of the mixed part the two \
         downloads count, the second of which joins later.</p>\n<div class=\"scroll\"><table class=\"matrix\"><thead><tr><th>downloads of one \
         client</th>",
    );
    for scheme in schemes {
        let _ = write!(html, "<th>{}</th>", escape(scheme));
    }
    html.push_str("</tr></thead><tbody>\n");
    for place in places {
        let (trace, queue, downloads) = (escape(place.0), escape(place.1), place.2);
        let _ = write!(html, "<tr><td>{downloads} on {trace}, queue of {queue}</td>");
        for scheme in schemes {
            let own = all.iter().filter(|shared| shared.place == place && shared.scheme == *scheme);
            let values: Vec<f64> = own.map(|shared| shared.fairness).collect();
            let mean = values.iter().sum::<f64>() / values.len().max(1) as f64;
            let _ = if values.is_empty() {
                write!(html, "<td data-is=\"{}\">–</td>", escape(scheme))
            } else {
                let (name, part) = (escape(scheme), (1.0 - mean).clamp(0.0, 1.0) * 100.0);
                write!(html, "<td data-is=\"{name}\" style=\"--w:{part:.0}%\">{mean:.3}</td>")
            };
        }
        html.push_str("</tr>\n");
    }
    html.push_str("</tbody></table></div></section>\n");
}
