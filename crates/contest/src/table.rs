//! [`tables`]: a contest as text for the terminal.

use core::fmt::Write as _;

use report::Table;

use crate::results::{Document, Run};

/// One table per trace and buffer, with a line about the trace above it.
#[must_use]
pub fn tables(document: &Document) -> String {
    let mut text = String::new();
    for trace in &document.traces {
        let runs: Vec<&Run> = document.runs.iter().filter(|run| run.trace == trace.trace).collect();
        let mut buffers: Vec<(&str, u64)> =
            runs.iter().map(|run| (run.buffer.as_str(), run.buffer_bytes)).collect();
        buffers.dedup();
        for (buffer, bytes) in buffers {
            // Writing into a String cannot fail.
            let _ = writeln!(
                text,
                "\n{}: {:.0} s, {:.2} Mbit/s offered; queue of {buffer} ({:.0} KB)\n  \
                 the trace's own: omniscient sender's p95 {:.0} ms; idle ping mean {:.0}, p50 {:.0}, p95 {:.0} ms\n",
                trace.trace,
                document.seconds,
                trace.mean_mbps,
                bytes as f64 / 1e3,
                trace.offset_p95_ms,
                trace.idle_ping_ms.mean,
                trace.idle_ping_ms.p50,
                trace.idle_ping_ms.p95,
            );
            let mut table = Table { headings: HEADINGS.to_vec(), rows: Vec::new() };
            table.rows.extend(runs.iter().filter(|run| run.buffer == buffer).map(|run| row(run)));
            let _ = write!(text, "{table}");
            for run in runs.iter().filter(|run| run.buffer == buffer) {
                for problem in &run.problems {
                    let _ = writeln!(text, "  {}: {problem}", run.scheme);
                }
            }
        }
    }
    text
}

const HEADINGS: [(&str, &str); 13] = [
    ("scheme", ""),
    ("used", "%"),
    ("queue", "mean ms"),
    ("", "p50"),
    ("", "p95"),
    ("", "p99"),
    ("loss", "%"),
    ("ping", "mean ms"),
    ("", "p50"),
    ("", "p95"),
    ("lost", "pings"),
    ("waiting", "mean KB"),
    ("", "max KB"),
];

fn row(run: &Run) -> Vec<String> {
    let ms = |value: f64| format!("{value:.0}");
    let kb = |value: Option<f64>| value.map_or_else(|| "–".to_owned(), |bytes| format!("{:.0}", bytes / 1e3));
    vec![
        run.scheme.clone(),
        format!("{:.1}", run.utilisation * 100.0),
        ms(run.queue_ms.mean),
        ms(run.queue_ms.p50),
        ms(run.queue_ms.p95),
        ms(run.queue_ms.p99),
        format!("{:.2}", run.loss * 100.0),
        ms(run.ping_ms.mean),
        ms(run.ping_ms.p50),
        ms(run.ping_ms.p95),
        run.pings_unanswered.to_string(),
        kb(run.waiting.map(|w| w.mean_bytes)),
        kb(run.waiting.map(|w| w.max_bytes as f64)),
    ]
}
