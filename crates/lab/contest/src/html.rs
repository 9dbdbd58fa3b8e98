//! [`page`]: a contest as one self-contained HTML page, light and dark.

mod over_time;
mod plane;

use figures::Table;
use figures::chart::{Ink, Mark, key};
use figures::{distinct, stats};
use maud::{Markup, html};

use crate::results::{Document, Limit, Run, TraceFigures, grouped, here};
use crate::table::{beside_rows, buffers, bulk_rows, first_seeds, flows_rows, mixed_rows, short_rows};
use over_time::{fairness, over_time};
use plane::{Dot, plane};

/// The matrix of fairness: the redder a field, the less fair.
const OWN_STYLE: &str = "\
.matrix td:not(:first-child) { padding-left: .45rem; }
.matrix td[style] { background: color-mix(in srgb, #c33 var(--w), transparent); }
.fields th { white-space: normal; } .fields th, .fields td { padding: .35rem .45rem; font-size: .88rem; }
.fields td:first-child { white-space: nowrap; }
";

/// The whole page.
#[must_use]
pub fn page(document: &Document) -> String {
    let schemes = schemes(document);
    let sizes = distinct(document.traces.iter().flat_map(|t| buffers(document, &t.trace)));
    let place = if document.made_by.runner == "lab" {
        "Real kernel TCP through an emulated cellular link, in real time"
    } else {
        "Simulated in virtual time: the same command gives the same figures"
    };
    let length = format!("{:.0} s a run", document.seconds);
    let body = html! {
        p class="soft" {
            (place) ". Cellerator " (document.made_by.cellerator) ", " (length) ", " (seeds(document)) "; "
            (document.path.to_string()) "."
        }
        @if let Some(interrupted) = document.interrupted {
            p class="finding warning" { (interrupted) ": this is not the whole." }
        }
        @if !document.runs.is_empty() { (overview(document, &schemes, &sizes)) }
        @for trace in first_seeds(document) { (section(document, trace, &schemes)) }
        (fairness(document, &schemes))
        (method(document))
    };
    figures::page::page("Schemes on capacity traces", OWN_STYLE, &body)
}

fn seeds(document: &Document) -> String {
    match document.seeds.as_slice() {
        [seed] => format!("seed {seed}"),
        seeds => format!("{} seeds: means and 95 % confidence intervals", seeds.len()),
    }
}

/// All schemes, in the order run: their places are their colours.
fn schemes(document: &Document) -> Vec<&str> {
    distinct(document.all_runs().map(|run| run.place().2))
}

fn colour(schemes: &[&str], scheme: &str) -> usize {
    schemes.iter().position(|s| *s == scheme).unwrap_or(0)
}

fn mean(runs: &[&Run], value: impl Fn(&Run) -> f64) -> f64 {
    stats::mean(runs.iter().map(|run| value(run))).unwrap_or(f64::NAN)
}

/// Means over all traces, one plot per queue.
fn overview(document: &Document, schemes: &[&str], sizes: &[&str]) -> Markup {
    let dots = |size: &str| -> Vec<Dot<'_>> {
        let of_scheme = |name: &&'_ str| {
            let is_own = |run: &&Run| run.scheme == *name && run.buffer == size;
            let runs: Vec<&Run> = document.runs.iter().filter(is_own).collect();
            let delay_ms = mean(&runs, |run| run.queue_ms.p95.max(0.1).ln()).exp();
            let colour = colour(schemes, name);
            runs.first().map(|run| Dot {
                name: &run.scheme,
                utilisation: mean(&runs, |run| run.utilisation),
                delay_ms,
                colour,
            })
        };
        schemes.iter().filter_map(of_scheme).collect()
    };
    html! {
        section {
            h2 { "Over all traces" }
            p {
                "Mean share of the link used against the geometric mean of the queueing delay's 95th \
                 percentile."
            }
            div class="halves" {
                @for size in sizes {
                    (plane(&format!("All traces, queue of {size}"), &dots(size), &[]).half_figure())
                }
            }
        }
    }
}

fn section(document: &Document, trace: &TraceFigures, schemes: &[&str]) -> Markup {
    let sizes = buffers(document, &trace.trace);
    let runs_of = |size: &str| here(&document.runs, &trace.trace, size);
    let run_sizes = || sizes.iter().filter(|size| !runs_of(size).is_empty());
    let idle = trace.idle_ping_ms;
    let facts = format!(
        "{:.2} Mbit/s offered; the omniscient sender's p95 {:.0} ms; ping on the idle link: mean {:.0}, \
         p50 {:.0}, p95 {:.0} ms",
        trace.mean_mbps, trace.offset_p95_ms, idle.mean, idle.p50, idle.p95
    );
    html! {
        section {
            h2 { (trace.trace) }
            p class="facts" { (facts) }
            div class="halves" {
                @for size in run_sizes() { (plane_of(document, trace, size, &runs_of(size), schemes)) }
            }
            @for size in run_sizes() { (over_time(trace, &runs_of(size), size, schemes)) }
            @for size in &sizes {
                h3 { "Queue of " (size) }
                (tables(document, &trace.trace, size, schemes))
            }
        }
    }
}

/// Plane with the schemes on a trace, and the limits.
fn plane_of(
    document: &Document,
    trace: &TraceFigures,
    size: &str,
    runs: &[&Run],
    schemes: &[&str],
) -> Markup {
    let groups = grouped(runs);
    let dots = groups.iter().filter_map(|runs| {
        let name = runs.first()?.scheme.as_str();
        let (utilisation, delay_ms) = (mean(runs, |run| run.utilisation), mean(runs, |run| run.queue_ms.p95));
        Some(Dot { name, utilisation, delay_ms, colour: colour(schemes, name) })
    });
    let dots: Vec<Dot<'_>> = dots.collect();
    let limits = document.limits_of(&trace.trace, size).into_iter().filter(|l| l.seed == trace.seed);
    let curve = |limit: &Limit| limit.points.iter().map(|p| (p.utilisation, p.queue_p95_ms)).collect();
    let curves: Vec<Vec<(f64, f64)>> = limits.map(curve).collect();
    plane(&format!("{}, queue of {size}", trace.trace), &dots, &curves).half_figure()
}

/// The tables of a trace and queue, and what went wrong.
fn tables(document: &Document, trace: &str, size: &str, schemes: &[&str]) -> Markup {
    let bulk = here(&document.runs, trace, size);
    let short = here(&document.short, trace, size);
    let mixed = here(&document.mixed, trace, size);
    let flows = here(&document.flows, trace, size);
    let beside = here(&document.beside, trace, size);
    let tables = [
        bulk_rows(&bulk, &document.limits_of(trace, size)),
        short_rows(&short),
        mixed_rows(&mixed),
        flows_rows(&flows),
        beside_rows(&beside),
    ];
    let runs = document.all_runs().filter(|run| (run.place().0, run.place().1) == (trace, size));
    html! {
        @for table in tables.iter().filter(|table| !table.rows.is_empty()) { (of_schemes(table, schemes)) }
        @for run in runs {
            @for problem in run.problems() { p class="finding warning" { (run.place().2) ": " (problem) } }
        }
    }
}

/// A table whose rows are of schemes.
fn of_schemes(table: &Table, schemes: &[&str]) -> Markup {
    table.html(&|row| row.first().map(|scheme| colour(schemes, scheme)), &|_| None)
}

/// Meaning of the dashed curves, where there are any.
fn limit_method(document: &Document) -> Markup {
    let mut late: Vec<String> = document.limits.iter().map(|limit| format!("{:.0}", limit.late_ms)).collect();
    late.sort_unstable();
    late.dedup();
    html! {
        @if !late.is_empty() {
            (key([("limit", Ink::Limit, Mark::Line)]))
            "is the best of a grid of senders who know the link's capacity and queue " (late.join(" or "))
            " ms late, a curve each; in the tables its p95 at the scheme's share."
        }
    }
}

fn method(document: &Document) -> Markup {
    let (wired, radio) = (document.path.wan_rtt_ms / 2.0, document.path.radio_rtt_ms / 2.0);
    html! {
        section {
            h2 { "How it was measured" }
            p {
                "server – " (wired) " ms – accelerator – radio link: trace, drop-tail queue, " (radio) " ms – client. \
                 A download as fast as the scheme makes it, and a ping-pong of the same client over a \
                 connection of its own, 100 bytes each way ten times a second, through the same accelerator \
                 and queue."
            }
            p {
                b { "used" } ": bytes delivered over bytes the trace offered in the time of the run. "
                b { "queue" } ": from arrival in the radio queue to departure, of delivered packets; nothing is subtracted. "
                b { "ping" } ": from writing the request to reading the answer; it holds what the accelerator holds back. "
                b { "waiting" } ": acknowledged to the server and not yet sent to the client."
            }
            p { (limit_method(document)) }
            pre { (document.made_by.command) }
        }
    }
}
