//! Multi-path results for people: a table for the terminal, and one HTML page.

use figures::Table;
use figures::chart::{Axis, Chart, Ink, Mark, Point, Series};
use maud::{Markup, html};

use super::results::{BIN_MS, MultiPathResult, MultiPathResults, MultiPathRun};

/// Width of a bin in a chart, s.
const CHART_BIN_S: f64 = 0.5;

/// The cases of a scenario, each with its means and worst values.
#[must_use]
pub fn table(result: &MultiPathResult) -> String {
    format!("\n{}\n\n{}", result.scenario.title, cases(result))
}

fn cases(result: &MultiPathResult) -> Table {
    let number = |value: Option<f64>, digits: usize| {
        value.map_or("–".to_owned(), |value| format!("{value:.digits$}"))
    };
    let row = |name: &String| {
        let goodput = result.moments(name, |run| Some(run.goodput_mbps));
        let reuses = result.of(name).flat_map(|run| &run.reuses);
        let (mut worst, mut never) = (None::<f64>, 0);
        for reuse in reuses {
            match reuse.after_ms {
                Some(ms) => worst = Some(worst.map_or(ms, |w| w.max(ms))),
                None => never += 1,
            }
        }
        let reused = match (worst, never) {
            (worst, 0) => number(worst, 0),
            (_, never) => format!("{never} never"),
        };
        let connects: Vec<_> = result.of(name).flat_map(|run| &run.connects).collect();
        let up = connects.iter().map(|c| c.up_ms.unwrap_or(f64::INFINITY)).reduce(f64::max);
        let failed = result.runs.iter().filter(|r| r.case == *name && (r.error.is_some() || !r.is_intact));
        vec![
            name.clone(),
            result.of(name).count().to_string(),
            number(goodput.map(|m| m.mean), 2),
            number(goodput.and_then(|m| m.deviation()), 2),
            number(result.moments(name, |r| Some(r.seconds)).map(|m| m.mean), 2),
            number(result.moments(name, |r| Some(r.longest_stall_ms)).map(|m| m.mean), 0),
            number(result.largest(name, |r| Some(r.longest_stall_ms)), 0),
            number(result.largest(name, |r| r.death_stall_ms), 0),
            number(result.largest(name, |r| r.death_queue_ms), 0),
            number(result.largest(name, |r| r.death_unsent_ms), 0),
            reused,
            number(up, 0),
            failed.count().to_string(),
            number(result.largest(name, |r| Some(r.late_p99_us)), 0),
        ]
    };
    let mut names: Vec<String> = Vec::new();
    for run in &result.runs {
        if !names.contains(&run.case) {
            names.push(run.case.clone());
        }
    }
    Table {
        headings: vec![
            ("case", ""),
            ("runs", ""),
            ("goodput", "Mbit/s"),
            ("deviation", "Mbit/s"),
            ("took", "s"),
            ("stall", "mean, ms"),
            ("stall", "most, ms"),
            ("at a death", "most, ms"),
            ("queue then", "ms"),
            ("unsent then", "ms"),
            ("used again", "most, ms"),
            ("connect", "most, ms"),
            ("failed", ""),
            ("late p99", "µs"),
        ],
        rows: names.iter().map(row).collect(),
    }
}

/// All cases of all scenarios in one Markdown table, for documents.
#[must_use]
pub fn markdown(results: &MultiPathResults) -> String {
    let mut rows = Vec::new();
    for result in &results.scenarios {
        for row in cases(result).rows {
            let cell = |at: usize| row.get(at).cloned().unwrap_or_default();
            let mut columns = vec![result.scenario.title.clone()];
            columns.extend([0, 1, 2, 3, 7, 8, 9, 10, 11].map(cell));
            rows.push(columns);
        }
    }
    let headings = vec![
        ("scenario", ""),
        ("case", ""),
        ("runs", ""),
        ("goodput", "Mbit/s"),
        ("deviation", "Mbit/s"),
        ("stall at a death", "most, ms"),
        ("queue then", "ms"),
        ("unsent then", "ms"),
        ("used again after", "most, ms"),
        ("connect", "most, ms"),
    ];
    Table { headings, rows }.markdown()
}

/// The same results without what only pages show.
#[must_use]
pub fn without_series(mut results: MultiPathResults) -> MultiPathResults {
    for run in results.scenarios.iter_mut().flat_map(|s| &mut s.runs) {
        run.flows.clear();
        run.queues_ms.clear();
        run.events.clear();
        run.stalls.clear();
    }
    results
}

/// The report.
#[must_use]
pub fn page(results: &MultiPathResults) -> String {
    let made = &results.made_by;
    figures::page::page(
        "Several radios, one connection",
        "",
        &html! {
            p {
                "Kernel MPTCP between network namespaces over emulated radios, with and without "
                code { "cellerator multipath run" } " at the client. The server is unchanged Linux."
            }
            p { "Cellerator " (made.cellerator) " on Linux " (made.kernel) ": " code { (made.command) } }
            @for result in &results.scenarios { (scenario(result)) }
        },
    )
}

fn scenario(result: &MultiPathResult) -> Markup {
    let s = &result.scenario;
    html! {
        h2 { (s.title) }
        p { (s.description) }
        (cases(result).html(&|_| None, &|_| None))
        p {
            "Goodput is what the client's program received. A stall is a time without a byte; at a death are those "
            "that began within a second of a radio's death or change. Beside it stands the longest queue of any radio "
            "in that time, and what the sender had not sent yet: what was sent again waited behind both. Other stalls are a link's own losses."
        }
        @for case in &s.cases {
            @if let Some(run) = result.of(&case.name).next() {
                (over_time(result, run).figure())
                @if !run.events.is_empty() {
                    details {
                        summary { "What the path manager said, first run" }
                        pre { (run.events.join("\n")) }
                    }
                }
            }
        }
    }
}

/// Throughput of each flow over time, as in [MP] Figs 7 to 12.
fn over_time(result: &MultiPathResult, run: &MultiPathRun) -> Chart {
    let series = run.flows.iter().enumerate().map(|(i, (name, bins))| {
        Series::new(name, Ink::Colour(i), Mark::Line, throughput(bins, CHART_BIN_S))
    });
    let mut sum: Vec<u64> = Vec::new();
    for bins in run.flows.values() {
        sum.resize(sum.len().max(bins.len()), 0);
        sum.iter_mut().zip(bins).for_each(|(sum, bytes)| *sum += bytes);
    }
    let whole = Series::new("all", Ink::Colour(run.flows.len()), Mark::Line, throughput(&sum, CHART_BIN_S));
    let title = format!("{}: {}", result.scenario.title, run.case);
    Chart::new(&title, Axis::exact("s after the transfer's start"))
        .panel(Axis::linear("by flow, Mbit/s"), series.collect())
        .panel(Axis::linear("sum, Mbit/s"), vec![whole])
}

/// Bins of bytes as throughput in wider bins: a point in the middle of each.
#[must_use]
pub fn throughput(bins: &[u64], width_s: f64) -> Vec<Point> {
    let wide = ((width_s * 1e3) as usize / BIN_MS as usize).max(1);
    let point = |(i, chunk): (usize, &[u64])| {
        let seconds = chunk.len() as f64 * BIN_MS as f64 / 1e3;
        let mbps = chunk.iter().sum::<u64>() as f64 * 8.0 / 1e6 / seconds;
        Point::new((i as f64 + 0.5) * width_s, mbps)
    };
    bins.chunks(wide).enumerate().map(point).collect()
}
