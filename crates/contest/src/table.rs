//! [`tables`]: a contest as text for the terminal.

use core::fmt::Write as _;

use report::Table;

use crate::limit_at;
use crate::results::{Document, Limit, MixedRun, Run, ShortRun};
use crate::short::SIZES;

/// Tables per trace and buffer, with a line about the trace above them.
#[must_use]
pub fn tables(document: &Document) -> String {
    let mut text = format!("\n{}\n", document.path);
    for trace in &document.traces {
        for buffer in buffers(document, &trace.trace) {
            // Writing into a String cannot fail.
            let _ = writeln!(
                text,
                "\n{}: {:.0} s, {:.2} Mbit/s offered; queue of {buffer}\n  \
                 the trace's own: omniscient sender's p95 {:.0} ms; idle ping mean {:.0}, p50 {:.0}, p95 {:.0} ms",
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
            let is_here = |t: &str, b: &str| t == trace.trace && b == buffer;
            let runs: Vec<&Run> = document.runs.iter().filter(|r| is_here(&r.trace, &r.buffer)).collect();
            text += &bulk_table(&runs, &limits);
            let short: Vec<&ShortRun> =
                document.short.iter().filter(|r| is_here(&r.trace, &r.buffer)).collect();
            text += &short_table(&short);
            let mixed: Vec<&MixedRun> =
                document.mixed.iter().filter(|r| is_here(&r.trace, &r.buffer)).collect();
            text += &mixed_table(&mixed);
        }
    }
    text
}

/// The queues of a trace's runs, in order.
pub(crate) fn buffers<'a>(document: &'a Document, trace: &str) -> Vec<&'a str> {
    let bulk = document.runs.iter().map(|r| (&r.trace, &r.buffer));
    let short = document.short.iter().map(|r| (&r.trace, &r.buffer));
    let mixed = document.mixed.iter().map(|r| (&r.trace, &r.buffer));
    let mut buffers: Vec<&str> = Vec::new();
    for (_, buffer) in bulk.chain(short).chain(mixed).filter(|(t, _)| *t == trace) {
        if !buffers.contains(&buffer.as_str()) {
            buffers.push(buffer);
        }
    }
    buffers
}

fn limit_line(limit: &Limit) -> String {
    let at = |share: f64| {
        let point = limit_at(&limit.points, share);
        point.map_or_else(String::new, |p| {
            format!("{:.1} % at {:.0} ms", p.utilisation * 100.0, p.queue_p95_ms)
        })
    };
    format!(
        "  the limit when all is known {:.0} ms late: {}, {}, {}\n",
        limit.late_ms,
        at(0.9),
        at(0.95),
        at(0.98)
    )
}

fn problems<'a>(all: impl Iterator<Item = (&'a str, &'a [String])>) -> String {
    all.flat_map(|(scheme, list)| list.iter().map(move |problem| format!("  {scheme}: {problem}\n")))
        .collect()
}

const HEADINGS: [(&str, &str); 14] = [
    ("scheme", ""),
    ("used", "%"),
    ("queue", "mean ms"),
    ("", "p50"),
    ("", "p95"),
    ("", "p99"),
    ("limit", "p95"),
    ("loss", "%"),
    ("ping", "mean ms"),
    ("", "p50"),
    ("", "p95"),
    ("lost", "pings"),
    ("waiting", "mean KB"),
    ("", "max KB"),
];

pub(crate) fn bulk_rows(runs: &[&Run], limits: &[&Limit]) -> Table {
    let mut table = Table { headings: HEADINGS.to_vec(), rows: Vec::new() };
    table.rows.extend(runs.iter().map(|run| row(run, limits)));
    table
}

fn bulk_table(runs: &[&Run], limits: &[&Limit]) -> String {
    if runs.is_empty() {
        return String::new();
    }
    let problems = problems(runs.iter().map(|run| (run.scheme.as_str(), run.problems.as_slice())));
    format!("\n{}{problems}", bulk_rows(runs, limits))
}

fn row(run: &Run, limits: &[&Limit]) -> Vec<String> {
    let ms = |value: f64| format!("{value:.0}");
    let kb = |value: Option<f64>| value.map_or_else(|| "–".to_owned(), |bytes| format!("{:.0}", bytes / 1e3));
    let possible = limits.iter().filter_map(|limit| limit_at(&limit.points, run.utilisation));
    let possible: Vec<String> = possible.map(|point| ms(point.queue_p95_ms)).collect();
    vec![
        run.scheme.clone(),
        format!("{:.1}", run.utilisation * 100.0),
        ms(run.queue_ms.mean),
        ms(run.queue_ms.p50),
        ms(run.queue_ms.p95),
        ms(run.queue_ms.p99),
        if possible.is_empty() { "–".to_owned() } else { possible.join("/") },
        format!("{:.2}", run.loss * 100.0),
        ms(run.ping_ms.mean),
        ms(run.ping_ms.p50),
        ms(run.ping_ms.p95),
        run.pings_unanswered.to_string(),
        kb(run.waiting.map(|w| w.mean_bytes)),
        kb(run.waiting.map(|w| w.max_bytes as f64)),
    ]
}

/// Median and 95th percentile of the completion times, a row per scheme.
pub(crate) fn short_rows(runs: &[&ShortRun]) -> Table {
    let mut headings = vec![("short downloads", "")];
    for name in ["16 KB new", "16 KB known", "100 KB new", "100 KB known", "1 MB new", "1 MB known"] {
        headings.extend([(name, "p50 ms"), ("", "p95")]);
    }
    headings.push(("unfinished", ""));
    let mut table = Table { headings, rows: Vec::new() };
    let mut schemes: Vec<&str> = runs.iter().map(|run| run.scheme.as_str()).collect();
    schemes.dedup();
    for scheme in schemes {
        let own: Vec<&&ShortRun> = runs.iter().filter(|run| run.scheme == scheme).collect();
        let mut row = vec![scheme.to_owned()];
        for size in SIZES {
            for client in ["new", "known"] {
                let run = own.iter().find(|run| run.size_bytes == size.get() && run.client == client);
                let ms =
                    |p: fn(&ShortRun) -> f64| run.map_or_else(String::new, |run| format!("{:.0}", p(run)));
                row.extend([ms(|run| run.completion_ms.p50), ms(|run| run.completion_ms.p95)]);
            }
        }
        row.push(own.iter().map(|run| run.unfinished).sum::<u64>().to_string());
        table.rows.push(row);
    }
    table
}

fn short_table(runs: &[&ShortRun]) -> String {
    if runs.is_empty() {
        return String::new();
    }
    let problems = problems(runs.iter().map(|run| (run.scheme.as_str(), run.problems.as_slice())));
    format!("\n{}{problems}", short_rows(runs))
}

const MIXED_HEADINGS: [(&str, &str); 11] = [
    ("two bulk flows, video, ping", ""),
    ("used", "%"),
    ("queue", "mean ms"),
    ("", "p95"),
    ("ping", "p50 ms"),
    ("", "p95"),
    ("500 KB", "p50 ms"),
    ("", "p95"),
    ("first", "Mbit/s"),
    ("second", "Mbit/s"),
    ("fairness", ""),
];

pub(crate) fn mixed_rows(runs: &[&MixedRun]) -> Table {
    let mut table = Table { headings: MIXED_HEADINGS.to_vec(), rows: Vec::new() };
    let ms = |value: f64| format!("{value:.0}");
    table.rows.extend(runs.iter().map(|run| {
        vec![
            run.scheme.clone(),
            format!("{:.1}", run.utilisation * 100.0),
            ms(run.queue_ms.mean),
            ms(run.queue_ms.p95),
            ms(run.ping_ms.p50),
            ms(run.ping_ms.p95),
            ms(run.piece_ms.p50),
            ms(run.piece_ms.p95),
            format!("{:.2}", run.bulk_mbps[0]),
            format!("{:.2}", run.bulk_mbps[1]),
            format!("{:.3}", run.fairness),
        ]
    }));
    table
}

fn mixed_table(runs: &[&MixedRun]) -> String {
    if runs.is_empty() {
        return String::new();
    }
    let problems = problems(runs.iter().map(|run| (run.scheme.as_str(), run.problems.as_slice())));
    format!("\n{}{problems}", mixed_rows(runs))
}
