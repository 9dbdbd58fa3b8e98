//! [`tables`]: a contest as text for the terminal.

use core::fmt::Write as _;

use figures::{Table, distinct};

use crate::results::{
    BesideRun, Document, FlowsRun, Limit, MixedRun, Run, Seeded, ShortRun, TraceFigures, Waiting, grouped,
    here,
};
use crate::{Estimate, limit_at};

/// Tables per trace and buffer, with a line about the trace above them, none wider than `columns`: what does
/// not fit goes, and is counted.
#[must_use]
pub fn tables(document: &Document, columns: usize) -> String {
    let mut text = format!("\n{}\n", wrapped(&document.path.to_string(), columns));
    if let Some(interrupted) = document.interrupted {
        text += &format!("{interrupted}: what follows is not the whole\n");
    }
    for trace in first_seeds(document) {
        for buffer in buffers(document, &trace.trace) {
            // Writing into a String cannot fail.
            let _ = writeln!(
                text,
                "\n{}: {:.0} s, {:.2} Mbit/s offered; queue of {buffer}\n  \
                 the trace's own: omniscient sender's p95 {:.0} ms;\n  idle ping mean {:.0}, p50 {:.0}, p95 \
                 {:.0} ms",
                trace.trace,
                document.seconds,
                trace.mean_mbps,
                trace.offset_p95_ms,
                trace.idle_ping_ms.mean,
                trace.idle_ping_ms.p50,
                trace.idle_ping_ms.p95,
            );
            let limits = document.limits_of(&trace.trace, buffer);
            text += &limits.iter().map(|limit| limit_line(limit)).collect::<String>();
            let place = (trace.trace.as_str(), buffer);
            text += &shown(&document.runs, place, columns, &BULK_MAY_GO, |runs| bulk_rows(runs, &limits));
            text += &shown(&document.short, place, columns, &SHORT_MAY_GO, short_rows);
            text += &shown(&document.mixed, place, columns, &MIXED_MAY_GO, mixed_rows);
            text += &shown(&document.flows, place, columns, &FLOWS_MAY_GO, flows_rows);
            text += &shown(&document.beside, place, columns, &BESIDE_MAY_GO, beside_rows);
        }
    }
    text
}

/// The queues of a trace's runs, in order.
pub(crate) fn buffers<'a>(document: &'a Document, trace: &str) -> Vec<&'a str> {
    let places = document.all_runs().map(Seeded::place);
    distinct(places.filter(|(of, ..)| *of == trace).map(|(_, buffer, _)| buffer))
}

fn limit_line(limit: &Limit) -> String {
    let at = |share: f64| {
        let point = limit_at(&limit.points, share);
        point.map_or_else(String::new, |p| {
            format!("{:.1} % at {:.0} ms", p.utilisation * 100.0, p.queue_p95_ms)
        })
    };
    format!("  the limit, all known {:.0} ms late: {}, {}, {}\n", limit.late_ms, at(0.9), at(0.95), at(0.98))
}

/// Clauses in lines of at most `columns`, unless one alone is longer.
fn wrapped(text: &str, columns: usize) -> String {
    let mut lines: Vec<String> = Vec::new();
    for clause in text.split("; ") {
        match lines.last_mut() {
            Some(line) if line.chars().count() + clause.chars().count() + 2 < columns => {
                *line += &format!("; {clause}");
            }
            _ => lines.push(clause.to_owned()),
        }
    }
    lines.join(";\n")
}

/// Estimate of a figure from several seeds; its own value where there is one.
fn estimate<R>(runs: &[&R], value: impl Fn(&R) -> f64) -> Estimate {
    Estimate::of(&runs.iter().map(|run| value(run)).collect::<Vec<_>>())
}

const HEADINGS: [(&str, &str); 15] = [
    ("scheme", ""),
    ("used", "%"),
    ("queue mean", "ms"),
    ("queue p50", "ms"),
    ("queue p95", "ms"),
    ("queue p99", "ms"),
    ("limit p95", "ms"),
    ("loss", "%"),
    ("radio loss", "%"),
    ("ping mean", "ms"),
    ("ping p50", "ms"),
    ("ping p95", "ms"),
    ("lost pings", ""),
    ("waiting mean", "KB"),
    ("waiting most", "KB"),
];

pub(crate) fn bulk_rows(runs: &[&Run], limits: &[&Limit]) -> Table {
    let mut table = Table { headings: HEADINGS.to_vec(), rows: Vec::new() };
    table.rows.extend(grouped(runs).iter().map(|runs| row(runs, limits)));
    table
}

/// The table of the runs here with their problems below it; nothing of no runs.
fn shown<R: Seeded>(
    all: &[R],
    (trace, buffer): (&str, &str),
    columns: usize,
    may_go: &[&str],
    table: impl Fn(&[&R]) -> Table,
) -> String {
    let runs = here(all, trace, buffer);
    if runs.is_empty() {
        return String::new();
    }
    let (table, gone) = table(&runs).fitting(columns, may_go);
    let gone = match gone.as_slice() {
        [] => String::new(),
        gone => format!("  {} columns left out for want of width\n", gone.len()),
    };
    let problems = runs.iter().flat_map(|run| run.problems().iter().map(|p| (run.place().2, p)));
    let problems: String = problems.map(|(name, problem)| format!("  {name}: {problem}\n")).collect();
    format!("\n{table}{gone}{problems}")
}

/// Columns that go first where the terminal is narrow.
const BULK_MAY_GO: [&str; 8] = [
    "waiting most",
    "waiting mean",
    "queue mean",
    "ping mean",
    "queue p99",
    "lost pings",
    "radio loss",
    "queue p50",
];

fn row(runs: &[&Run], limits: &[&Limit]) -> Vec<String> {
    let of = |value: fn(&Run) -> f64| estimate(runs, value);
    let ms = |value: fn(&Run) -> f64| format!("{:.0}", of(value));
    let is_accelerated = runs.iter().any(|run| run.waiting.is_some());
    let kb = |value: fn(&Waiting) -> f64| {
        let all: Vec<f64> = runs.iter().filter_map(|run| run.waiting.as_ref()).map(value).collect();
        if is_accelerated { format!("{:.0}", Estimate::of(&all).times(1e-3)) } else { "–".to_owned() }
    };
    vec![
        runs.first().map_or_else(String::new, |run| run.scheme.clone()),
        format!("{:.1}", of(|run| run.utilisation * 100.0)),
        ms(|run| run.queue_ms.mean),
        ms(|run| run.queue_ms.p50),
        ms(|run| run.queue_ms.p95),
        ms(|run| run.queue_ms.p99),
        possible(runs, limits),
        format!("{:.2}", of(|run| run.loss * 100.0)),
        format!("{:.2}", of(|run| run.radio_loss * 100.0)),
        ms(|run| run.ping_ms.mean),
        ms(|run| run.ping_ms.p50),
        ms(|run| run.ping_ms.p95),
        runs.iter().map(|run| run.pings_unanswered).sum::<u64>().to_string(),
        kb(|w| w.mean_bytes),
        kb(|w| w.max_bytes as f64),
    ]
}

/// The limits' 95th percentiles at the share of the runs: means over the seeds, one for each lateness.
fn possible(runs: &[&Run], limits: &[&Limit]) -> String {
    let mut late: Vec<f64> = limits.iter().map(|limit| limit.late_ms).collect();
    late.sort_by(f64::total_cmp);
    late.dedup();
    let at = |late: &f64, run: &Run| {
        let own = || limits.iter().filter(|limit| limit.late_ms == *late);
        let limit = own().find(|limit| limit.seed == run.seed).or_else(|| own().next())?;
        limit_at(&limit.points, run.utilisation).map(|point| point.queue_p95_ms)
    };
    let mean = |late: f64| {
        let all: Vec<f64> = runs.iter().filter_map(|run| at(&late, run)).collect();
        format!("{:.0}", Estimate::of(&all).mean)
    };
    if late.is_empty() { "–".to_owned() } else { late.into_iter().map(mean).collect::<Vec<_>>().join("/") }
}

const SHORT_HEADINGS: [(&str, &str); 8] = [
    ("short downloads", ""),
    ("size", "KB"),
    ("client", ""),
    ("p50", "ms"),
    ("p95", "ms"),
    ("bound", "p50 ms"),
    ("÷ bound", ""),
    ("unfinished", ""),
];

/// Columns that go first where the terminal is narrow.
const SHORT_MAY_GO: [&str; 2] = ["unfinished", "p95"];

/// Completion times beside what is possible, a row per scheme, size and kind of client.
pub(crate) fn short_rows(runs: &[&ShortRun]) -> Table {
    let mut groups: Vec<Vec<&ShortRun>> = Vec::new();
    let key = |run: &ShortRun| (run.scheme.clone(), run.size_bytes, run.client.clone());
    for &run in runs {
        match groups.iter_mut().find(|group| key(group[0]) == key(run)) {
            Some(group) => group.push(run),
            None => groups.push(vec![run]),
        }
    }
    let row = |runs: &Vec<&ShortRun>| {
        let ms = |value: fn(&ShortRun) -> f64| format!("{:.0}", estimate(runs, value));
        vec![
            runs[0].scheme.clone(),
            (runs[0].size_bytes / 1_000).to_string(),
            runs[0].client.clone(),
            ms(|run| run.completion_ms.p50),
            ms(|run| run.completion_ms.p95),
            ms(|run| run.bound_ms.p50),
            format!("{:.2}", estimate(runs, |run| run.over_bound)),
            runs.iter().map(|run| run.unfinished).sum::<u64>().to_string(),
        ]
    };
    Table { headings: SHORT_HEADINGS.to_vec(), rows: groups.iter().map(row).collect() }
}

const FLOWS_HEADINGS: [(&str, &str); 10] = [
    ("many downloads", ""),
    ("flows", ""),
    ("used", "%"),
    ("queue p50", "ms"),
    ("queue p95", "ms"),
    ("loss", "%"),
    ("ping p95", "ms"),
    ("fairness", ""),
    ("slowest", "Mbit/s"),
    ("fastest", "Mbit/s"),
];

/// Columns that go first where the terminal is narrow.
const FLOWS_MAY_GO: [&str; 4] = ["queue p50", "fastest", "slowest", "loss"];

pub(crate) fn flows_rows(runs: &[&FlowsRun]) -> Table {
    let mut counts: Vec<u64> = runs.iter().map(|run| run.flows).collect();
    let of = |count: u64| runs.iter().filter(move |run| run.flows == count).copied().collect::<Vec<_>>();
    let row = |runs: &Vec<&FlowsRun>| {
        let ms = |value: fn(&FlowsRun) -> f64| format!("{:.0}", estimate(runs, value));
        vec![
            runs[0].scheme.clone(),
            runs[0].flows.to_string(),
            format!("{:.1}", estimate(runs, |run| run.utilisation * 100.0)),
            ms(|run| run.queue_ms.p50),
            ms(|run| run.queue_ms.p95),
            format!("{:.2}", estimate(runs, |run| run.loss * 100.0)),
            ms(|run| run.ping_ms.p95),
            format!("{:.3}", estimate(runs, |run| run.fairness)),
            format!("{:.2}", estimate(runs, |run| run.slowest_mbps)),
            format!("{:.2}", estimate(runs, |run| run.fastest_mbps)),
        ]
    };
    counts.sort_unstable();
    counts.dedup();
    let rows = counts.iter().flat_map(|count| grouped(&of(*count)).iter().map(row).collect::<Vec<_>>());
    Table { headings: FLOWS_HEADINGS.to_vec(), rows: rows.collect() }
}

const BESIDE_HEADINGS: [(&str, &str); 9] = [
    ("beside others", ""),
    ("others", ""),
    ("own", "Mbit/s"),
    ("others'", "Mbit/s"),
    ("own ÷ fair", ""),
    ("used", "%"),
    ("queue p95", "ms"),
    ("loss", "%"),
    ("ping p95", "ms"),
];

/// Columns that go first where the terminal is narrow.
const BESIDE_MAY_GO: [&str; 3] = ["loss", "used", "queue p95"];

/// Throughput that a download has without an accelerator beside the same, at most an equal share of all.
fn fair_mbps(run: &BesideRun, all: &[&BesideRun]) -> Option<f64> {
    let mut direct = all.iter().filter(|one| one.beside == run.beside && one.seed == run.seed);
    let direct = direct.find(|one| one.scheme.starts_with("direct:"))?;
    if run.own_mbps == 0.0 && direct.own_mbps == 0.0 {
        return None;
    }
    let whole = direct.own_mbps + direct.beside_mbps.iter().sum::<f64>();
    Some(direct.own_mbps.min(whole / (1 + direct.beside_mbps.len()) as f64))
}

/// Shares of downloads, a row per kind of neighbour and scheme. The fair share is that of the first scheme
/// without an accelerator, at most an equal one.
pub(crate) fn beside_rows(runs: &[&BesideRun]) -> Table {
    let kinds = distinct(runs.iter().map(|run| run.beside.as_str()));
    let row = |of: &Vec<&BesideRun>| {
        let shares: Vec<f64> =
            of.iter().filter_map(|run| fair_mbps(run, runs).map(|fair| run.own_mbps / fair)).collect();
        vec![
            of[0].scheme.clone(),
            of[0].beside.clone(),
            format!("{:.2}", estimate(of, |run| run.own_mbps)),
            format!("{:.2}", estimate(of, |run| run.beside_mbps.iter().sum())),
            if shares.is_empty() { "–".to_owned() } else { format!("{:.2}", Estimate::of(&shares)) },
            format!("{:.1}", estimate(of, |run| run.utilisation * 100.0)),
            format!("{:.0}", estimate(of, |run| run.queue_ms.p95)),
            format!("{:.2}", estimate(of, |run| run.loss * 100.0)),
            format!("{:.0}", estimate(of, |run| run.ping_ms.p95)),
        ]
    };
    let of = |kind: &str| runs.iter().filter(|run| run.beside == kind).copied().collect::<Vec<_>>();
    let rows = kinds.iter().flat_map(|kind| grouped(&of(kind)).iter().map(row).collect::<Vec<_>>());
    Table { headings: BESIDE_HEADINGS.to_vec(), rows: rows.collect() }
}

const MIXED_HEADINGS: [(&str, &str); 16] = [
    ("mixed", ""),
    ("used", "%"),
    ("queue mean", "ms"),
    ("queue p95", "ms"),
    ("ping p50", "ms"),
    ("ping p95", "ms"),
    ("500 KB p50", "ms"),
    ("500 KB p95", "ms"),
    ("call p50", "ms"),
    ("call p95", "ms"),
    ("call p99", "ms"),
    ("call loss", "%"),
    ("call up p95", "ms"),
    ("first", "Mbit/s"),
    ("second", "Mbit/s"),
    ("fairness", ""),
];

pub(crate) fn mixed_rows(runs: &[&MixedRun]) -> Table {
    let mut table = Table { headings: MIXED_HEADINGS.to_vec(), rows: Vec::new() };
    table.rows.extend(grouped(runs).iter().map(|runs| {
        let ms = |value: fn(&MixedRun) -> f64| format!("{:.0}", estimate(runs, value));
        vec![
            runs.first().map_or_else(String::new, |run| run.scheme.clone()),
            format!("{:.1}", estimate(runs, |run| run.utilisation * 100.0)),
            ms(|run| run.queue_ms.mean),
            ms(|run| run.queue_ms.p95),
            ms(|run| run.ping_ms.p50),
            ms(|run| run.ping_ms.p95),
            ms(|run| run.piece_ms.p50),
            ms(|run| run.piece_ms.p95),
            ms(|run| run.call_ms.p50),
            ms(|run| run.call_ms.p95),
            ms(|run| run.call_ms.p99),
            format!("{:.2}", estimate(runs, |run| run.call_loss * 100.0)),
            ms(|run| run.call_up_ms.p95),
            format!("{:.2}", estimate(runs, |run| run.bulk_mbps[0])),
            format!("{:.2}", estimate(runs, |run| run.bulk_mbps[1])),
            format!("{:.3}", estimate(runs, |run| run.fairness)),
        ]
    }));
    table
}

/// Columns that go first where the terminal is narrow.
const MIXED_MAY_GO: [&str; 8] =
    ["queue mean", "first", "second", "ping p50", "call up p95", "call p50", "500 KB p50", "call p99"];

/// The traces, each as its first seed has it.
pub(crate) fn first_seeds(document: &Document) -> Vec<&TraceFigures> {
    let mut first: Vec<&TraceFigures> = Vec::new();
    for trace in &document.traces {
        if !first.iter().any(|known| known.trace == trace.trace) {
            first.push(trace);
        }
    }
    first
}
