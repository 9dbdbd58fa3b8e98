//! [`page`]: a contest as one self-contained HTML page, light and dark.

mod over_time;
mod plane;

use figures::Table;
use figures::chart::{Ink, Mark, key};
use figures::stats;
use maud::{Markup, html};

use crate::results::{Document, Limit, Run, TraceFigures, grouped};
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

/// Each once, in the order of the first.
fn distinct<'a>(all: impl Iterator<Item = &'a str>) -> Vec<&'a str> {
    let mut kept: Vec<&str> = Vec::new();
    for one in all {
        if !kept.contains(&one) {
            kept.push(one);
        }
    }
    kept
}

/// All schemes, in the order run: their places are their colours.
fn schemes(document: &Document) -> Vec<&str> {
    let runs = document.runs.iter().map(|run| run.scheme.as_str());
    let short = document.short.iter().map(|run| run.scheme.as_str());
    let mixed = document.mixed.iter().map(|run| run.scheme.as_str());
    let flows = document.flows.iter().map(|run| run.scheme.as_str());
    let beside = document.beside.iter().map(|run| run.scheme.as_str());
    distinct(runs.chain(short).chain(mixed).chain(flows).chain(beside))
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
    let runs_of = |size: &str| -> Vec<&Run> {
        document.runs.iter().filter(|r| r.trace == trace.trace && r.buffer == size).collect()
    };
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
    fn here<R>(runs: &[R], is_here: impl Fn(&R) -> bool) -> Vec<&R> {
        runs.iter().filter(|run| is_here(run)).collect()
    }
    let is_here = |t: &str, b: &str| t == trace && b == size;
    let bulk = here(&document.runs, |r| is_here(&r.trace, &r.buffer));
    let short = here(&document.short, |r| is_here(&r.trace, &r.buffer));
    let mixed = here(&document.mixed, |r| is_here(&r.trace, &r.buffer));
    let flows = here(&document.flows, |r| is_here(&r.trace, &r.buffer));
    let beside = here(&document.beside, |r| is_here(&r.trace, &r.buffer));
    let tables = [
        bulk_rows(&bulk, &document.limits_of(trace, size)),
        short_rows(&short),
        mixed_rows(&mixed),
        flows_rows(&flows),
        beside_rows(&beside),
    ];
    let problems = bulk.iter().map(|r| (&r.scheme, &r.problems));
    let problems = problems.chain(short.iter().map(|r| (&r.scheme, &r.problems)));
    let problems = problems.chain(flows.iter().map(|r| (&r.scheme, &r.problems)));
    let problems = problems.chain(beside.iter().map(|r| (&r.scheme, &r.problems)));
    let problems = problems.chain(mixed.iter().map(|r| (&r.scheme, &r.problems)));
    html! {
        @for table in tables.iter().filter(|table| !table.rows.is_empty()) { (of_schemes(table, schemes)) }
        @for (scheme, problems) in problems {
            @for problem in problems { p class="finding warning" { (scheme) ": " (problem) } }
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
