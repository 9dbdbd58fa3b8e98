//! [`markdown`]: what documents show of a contest.

use std::fmt::Write as _;

use figures::{distinct, number};

use crate::limit::limit_at;
use crate::results::{Document, Run, ShortRun, here};
use crate::table::{beside_rows, buffers, first_seeds};

/// The bulk part as a table in Markdown: a row for each trace and queue, by falling rate; for each scheme the
/// share of the link in %, the 95th percentile of the queueing delay and that of the ping in ms. Behind them
/// the limit of who knows the link latest, at the share of the last scheme. First seeds alone.
#[must_use]
pub fn bulk_markdown(document: &Document) -> String {
    let schemes = distinct(document.runs.iter().map(|run| run.scheme.as_str()));
    let mut text = heading("trace | Mbit/s", &schemes, " | limit");
    let mut traces = first_seeds(document);
    traces.sort_by(|a, b| b.mean_mbps.total_cmp(&a.mean_mbps));
    for trace in traces {
        let queues = buffers(document, &trace.trace);
        for buffer in &queues {
            let of = |scheme: &str| -> Option<&Run> {
                let is_here = |r: &&Run| r.trace == trace.trace && r.buffer == *buffer && r.scheme == scheme;
                document.runs.iter().find(is_here)
            };
            let queue = if queues.len() > 1 { format!(", {buffer}") } else { String::new() };
            // Writing into a String cannot fail.
            let _ = write!(text, "| {}{queue} | {:.1}", trace.trace, trace.mean_mbps);
            for scheme in &schemes {
                let cell = of(scheme).map_or_else(
                    || "–".to_owned(),
                    |run| {
                        let (share, queue) = (run.utilisation * 100.0, run.queue_ms.p95);
                        format!("{share:.1} · {queue:.0} · {:.0}", run.ping_ms.p95)
                    },
                );
                let _ = write!(text, " | {cell}");
            }
            let limits = document.limits_of(&trace.trace, buffer);
            let last = schemes.last().and_then(|scheme| of(scheme));
            let point =
                last.zip(limits.last()).and_then(|(run, limit)| limit_at(&limit.points, run.utilisation));
            let limit = number(point.map(|point| point.queue_p95_ms), 0);
            let _ = writeln!(text, " | {limit} |");
        }
    }
    text
}

/// The part `beside` as a table in Markdown: a row for each trace, queue, kind of neighbour and scheme, with the
/// means over the seeds.
#[must_use]
pub fn beside_markdown(document: &Document) -> String {
    let mut text = String::new();
    for trace in first_seeds(document) {
        for buffer in buffers(document, &trace.trace) {
            let table = beside_rows(&here(&document.beside, &trace.trace, buffer));
            if text.is_empty() {
                let name = |(name, unit): &(&str, &str)| match *unit {
                    "" => format!(" {name} |"),
                    unit => format!(" {name}, {unit} |"),
                };
                let names: String = table.headings.iter().map(name).collect();
                text = format!("| trace | queue |{names}\n|{}\n", "---|".repeat(table.headings.len() + 2));
            }
            for row in table.rows {
                let _ = writeln!(text, "| {} | {buffer} | {} |", trace.trace, row.join(" | "));
            }
        }
    }
    text
}

/// Short downloads of new clients as a table in Markdown: a row for each trace and size; the median for each
/// scheme, and the bound's, in ms. First seeds alone.
#[must_use]
pub fn short_markdown(document: &Document) -> String {
    let schemes = distinct(document.short.iter().map(|run| run.scheme.as_str()));
    let mut text = heading("trace | size, KB", &schemes, " | bound");
    for trace in first_seeds(document) {
        let here = |r: &&ShortRun| r.trace == trace.trace && r.client == "new" && r.seed == trace.seed;
        let mut sizes: Vec<u64> = document.short.iter().filter(here).map(|run| run.size_bytes).collect();
        sizes.sort_unstable();
        sizes.dedup();
        for size in sizes {
            let of = |scheme: &str| {
                document.short.iter().filter(here).find(|run| run.size_bytes == size && run.scheme == scheme)
            };
            let _ = write!(text, "| {} | {}", trace.trace, size / 1_000);
            for scheme in &schemes {
                let _ = write!(text, " | {}", number(of(scheme).map(|run| run.completion_ms.p50), 0));
            }
            let bound = schemes.last().and_then(|scheme| of(scheme)).map(|run| run.bound_ms.p50);
            let _ = writeln!(text, " | {} |", number(bound, 0));
        }
    }
    text
}

fn heading(first: &str, schemes: &[&str], last: &str) -> String {
    let names: String = schemes.iter().map(|scheme| format!(" | `{scheme}`")).collect();
    let count = first.split('|').count() + schemes.len() + 1;
    format!("| {first}{names}{last} |\n|{}\n", "---|".repeat(count))
}

impl Document {
    /// Without what only plots need: figures over time, distributions, and points of the limit below a share
    /// of four fifths.
    #[must_use]
    pub fn without_plots(mut self) -> Self {
        const SHARE_MIN: f64 = 0.8;
        for trace in &mut self.traces {
            trace.capacity_mbps.clear();
        }
        for run in &mut self.runs {
            run.series = None;
            run.queue_quantiles_ms.clear();
        }
        for limit in &mut self.limits {
            limit.points.retain(|point| point.utilisation >= SHARE_MIN);
        }
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::results::{Delays, TraceFigures};

    #[test]
    fn a_row_has_every_scheme_and_a_dash_for_what_is_missing() {
        let run = |scheme: &str, utilisation: f64| Run {
            trace: "a".to_owned(),
            buffer: "4 MB".to_owned(),
            scheme: scheme.to_owned(),
            utilisation,
            queue_ms: Delays { p95: 20.4, ..Delays::default() },
            ping_ms: Delays { p95: 60.0, ..Delays::default() },
            ..Run::default()
        };
        let trace = |name: &str, mean_mbps: f64| TraceFigures {
            trace: name.to_owned(),
            seed: 1,
            mean_mbps,
            bdp_bytes: 0,
            offset_p95_ms: 0.0,
            idle_ping_ms: Delays::default(),
            capacity_mbps: Vec::new(),
        };
        let document = Document {
            traces: vec![trace("a", 10.0), trace("b", 20.0)],
            runs: vec![
                run("direct:bbr", 0.97),
                run("accel:adaptive", 0.99),
                Run { trace: "b".to_owned(), ..run("accel:adaptive", 0.5) },
            ],
            ..Document::default()
        };
        assert_eq!(
            bulk_markdown(&document),
            "| trace | Mbit/s | `direct:bbr` | `accel:adaptive` | limit |\n|---|---|---|---|---|\n\
             | b | 20.0 | – | 50.0 · 20 · 60 | – |\n| a | 10.0 | 97.0 · 20 · 60 | 99.0 · 20 · 60 | – |\n"
        );
    }
}
