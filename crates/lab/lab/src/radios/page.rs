//! Multi-path results for people: a table for the terminal, and one HTML page.

use figures::chart::{Axis, Chart, Ink, Mark, Point, Series};
use figures::{Table, distinct, number};
use maud::{Markup, html};

use scenario::multi_path_results::{BIN_MS, MultiPathResult, MultiPathResults, MultiPathRun};

/// The table has many columns: headings and words may go on below, so that it fits where it is a table at all.
const OWN_STYLE: &str = ".fields th, .fields td { white-space: normal; padding: .38rem .28rem; }\n\
    dt { font-weight: 600; } dd { margin: 0 0 .4rem 1.2rem; max-width: 92ch; }\n";

/// Width of a bin in a chart, s.
const CHART_BIN_S: f64 = 0.5;

/// The cases of a scenario, each with its means and worst values.
#[must_use]
pub fn table(result: &MultiPathResult) -> String {
    format!("\n{}\n\n{}", result.scenario.title, cases(result))
}

fn cases(result: &MultiPathResult) -> Table {
    let row = |name: &String| {
        let goodput = result.moments(name, |run| Some(run.goodput_mbps));
        let reuses = result.of(name).flat_map(|run| &run.reuses);
        let reused: Vec<_> = reuses.map(|reuse| reuse.after_ms).collect();
        let connects: Vec<_> = result.of(name).flat_map(|run| &run.connects).collect();
        let limit_s = connects.iter().map(|connect| connect.limit_s).fold(0.0, f64::max);
        let up: Vec<_> = connects.iter().map(|connect| connect.up_ms).collect();
        let failed = result.runs.iter().filter(|r| r.case == *name && (r.error.is_some() || !r.is_intact));
        let doubtful = result.of(name).filter(|run| run.distrusted.is_some());
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
            most_or_never(&reused, "never"),
            most_or_never(&up, &format!("never within {limit_s:.0}\u{a0}s")),
            failed.count().to_string(),
            doubtful.count().to_string(),
        ]
    };
    let names = distinct(result.runs.iter().map(|run| run.case.clone()));
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
            ("doubtful", ""),
        ],
        rows: names.iter().map(row).collect(),
    }
}

/// The longest time, ms; where some never came, how many of how many. Without any a dash.
fn most_or_never(times_ms: &[Option<f64>], never: &str) -> String {
    let missing = times_ms.iter().filter(|ms| ms.is_none()).count();
    match times_ms.iter().copied().flatten().reduce(f64::max) {
        _ if missing > 0 => format!("{missing} of {} {never}", times_ms.len()),
        Some(most) => format!("{most:.0}"),
        None => "–".to_owned(),
    }
}

/// Meanings of the columns of the table.
const MEANING: [(&str, &str); 7] = [
    (
        "goodput",
        "what the receiving program got; over all runs of a case the mean, and their standard deviation",
    ),
    (
        "stall",
        "a time of 50 ms and more without a byte: the longest of each run, the mean and the most of them",
    ),
    (
        "at a death",
        "the longest stall that began within a second of a radio's death, or of its own or its NAT's new address; \
         beside it the longest queue of any radio then, and what the sender had given to the other paths and not \
         sent: what is sent again waits behind both",
    ),
    (
        "used again",
        "from a radio's return until 10 KB had come through it; never: not before it died again, or the end",
    ),
    ("connect", "until a new connection was up"),
    ("failed", "runs that ended early, or in which a byte was wrong; they are in no other figure"),
    (
        "doubtful",
        "runs in which the emulator was so late that it can have moved the goodput by over 2 %; the results in JSON \
         say by how much",
    ),
];

/// All cases of all scenarios in one Markdown table, for documents.
#[must_use]
pub fn markdown(results: &MultiPathResults) -> String {
    let mut rows = Vec::new();
    for result in &results.scenarios {
        for row in cases(result).rows {
            let cell = |at: usize| row.get(at).cloned().unwrap_or_default();
            let mut columns = vec![result.scenario.title.clone()];
            columns.extend([0, 1, 2, 3, 7, 8, 9, 10, 11, 13].map(cell));
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
        ("doubtful runs", ""),
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
        OWN_STYLE,
        &html! {
            p {
                "Kernel MPTCP between network namespaces over emulated radios, with and without "
                code { "cellerator multipath run" } " at the client. The server is unchanged Linux."
            }
            p { "Cellerator " (made.cellerator) " on Linux " (made.kernel) ": " code { (made.command) } }
            h2 { "What the columns mean" }
            dl {
                @for (name, meaning) in MEANING { dt { (name) } dd { (meaning) "." } }
                dt { "–" } dd { "nothing of the kind happened, or it was not measured." }
            }
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
        @for case in &s.cases {
            @if let Some(run) = result.of(&case.name).next() {
                // Results that documents keep have no figures over time.
                @if !run.flows.is_empty() { (over_time(result, run).figure()) }
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
