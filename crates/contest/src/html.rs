//! [`page`]: a contest as one self-contained HTML page, light and dark.

use std::fmt::Write as _;

use report::{STYLE, Table, escape};

use crate::pareto::{Mark, plot};
use crate::results::{
    Document, FlowsRun, Limit, MixedRun, Run, Seeded as _, ShortRun, TraceFigures, grouped,
};
use crate::table::{buffers, bulk_rows, first_seeds, flows_rows, mixed_rows, short_rows};

const OWN_STYLE: &str = ".limit { fill: none; stroke: var(--soft); stroke-width: 1.5; stroke-dasharray: 5 4; }\n\
    .dot { fill: var(--c); } .name { font-size: 12px; fill: var(--c); }\n\
    .plots { display: grid; grid-template-columns: repeat(2, minmax(0, 1fr)); gap: .6rem 2rem; }\n\
    .plots figcaption { font-size: .95rem; }\n\
    .key.dashes { border-top: 2px dashed var(--soft); height: 0; vertical-align: .25em; }\n\
    @media (max-width: 900px) { .plots { grid-template-columns: minmax(0, 1fr); } }\n\
    .plots svg { width: 100%; height: auto; } figure { margin: 0; min-width: 0; }\n\
    .line { fill: none; stroke: var(--c); stroke-width: 1.5; stroke-linejoin: round; }\n\
    .capacity { fill: var(--soft); opacity: .22; }\n\
    .legend .item { white-space: nowrap; margin-right: .8em; }\n\
    @media (max-width: 620px) { .plots svg .tick, .plots svg .unit, .plots svg .name { font-size: 17px; } }\n\
    .scroll .matrix td:not(:first-child) { padding-left: .45rem; }\n\
    .matrix td[style] { background: color-mix(in srgb, #c33 var(--w), transparent); }\n\
    h1, h2, p, figcaption { overflow-wrap: anywhere; } pre { white-space: pre-wrap; overflow-wrap: anywhere; }\n\
    .scroll th { white-space: normal; } .scroll th, .scroll td { padding: .35rem .45rem; font-size: .88rem; }\n\
    .scroll td:first-child { white-space: nowrap; } .scroll td:first-child, .scroll th:first-child { padding-left: 0; }\n\
    @media (max-width: 1000px) { .scroll thead { display: none; }\n\
    .scroll tr { display: grid; grid-template-columns: repeat(auto-fill, minmax(7rem, 1fr)); padding: .4rem 0;\n\
    border-bottom: 1px solid var(--rule); }\n\
    .scroll td, .scroll td:first-child { border: 0; text-align: left; white-space: normal; padding: .1rem .4rem .1rem 0; }\n\
    .scroll td:first-child { grid-column: 1 / -1; font-weight: 600; }\n\
    .scroll td:not(:first-child)::before { content: attr(data-is); display: block; color: var(--soft); font-size: .78rem; } }\n";
const COLOURS: usize = 6;

mod over_time;
use over_time::{fairness, over_time};

/// The whole page.
#[must_use]
pub fn page(document: &Document) -> String {
    let title = "Schemes on capacity traces";
    let mut html = format!(
        "<!doctype html>\n<html lang=\"en\">\n<head><meta charset=\"utf-8\"><meta name=\"viewport\" \
         content=\"width=device-width, initial-scale=1\">\n<title>{title}</title>\n<style>\n{STYLE}{OWN_STYLE}</style>\
         </head>\n<body>\n<h1>{title}</h1>\n"
    );
    let place = if document.made_by.runner == "lab" {
        "Real kernel TCP through an emulated cellular link, in real time"
    } else {
        "Simulated in virtual time: the same command gives the same figures"
    };
    let _ = writeln!(
        html,
        "<p class=\"soft\">{place}. Cellerator {}, {:.0} s a run, {}; {}.</p>",
        escape(&document.made_by.cellerator),
        document.seconds,
        seeds(document),
        escape(&document.path.to_string())
    );
    if let Some(interrupted) = document.interrupted {
        let _ = writeln!(html, "<p class=\"finding warning\">{interrupted}: this is not the whole.</p>");
    }
    let schemes = schemes(document);
    let all: Vec<&str> = document.traces.iter().flat_map(|t| buffers(document, &t.trace)).collect();
    let mut sizes: Vec<&str> = Vec::new();
    for size in all {
        if !sizes.contains(&size) {
            sizes.push(size);
        }
    }
    if !document.runs.is_empty() {
        overview(&mut html, document, &schemes, &sizes);
    }
    for trace in first_seeds(document) {
        section(&mut html, document, trace, &schemes);
    }
    fairness(&mut html, document, &schemes);
    method(&mut html, document);
    html.push_str("</body>\n</html>\n");
    html
}

fn seeds(document: &Document) -> String {
    match document.seeds.as_slice() {
        [seed] => format!("seed {seed}"),
        seeds => format!("{} seeds: means and 95 % confidence intervals", seeds.len()),
    }
}

/// All schemes, in the order run: their places are their colours.
fn schemes(document: &Document) -> Vec<&str> {
    let runs = document.runs.iter().map(|run| run.scheme.as_str());
    let short = document.short.iter().map(|run| run.scheme.as_str());
    let mixed = document.mixed.iter().map(|run| run.scheme.as_str());
    let mut schemes: Vec<&str> = Vec::new();
    let flows = document.flows.iter().map(|run| run.scheme.as_str());
    for scheme in runs.chain(short).chain(mixed).chain(flows) {
        if !schemes.contains(&scheme) {
            schemes.push(scheme);
        }
    }
    schemes
}

fn colour(schemes: &[&str], scheme: &str) -> usize {
    schemes.iter().position(|s| *s == scheme).unwrap_or(0) % COLOURS
}

/// Means over all traces, one plot per queue.
fn overview(html: &mut String, document: &Document, schemes: &[&str], sizes: &[&str]) {
    html.push_str("<section><h2>Over all traces</h2>\n<p>Mean share of the link used against the geometric mean of the queueing delay's 95th percentile.</p>\n<div class=\"plots\">\n");
    for size in sizes {
        let marks: Vec<Mark<'_>> = schemes
            .iter()
            .filter_map(|scheme| {
                let runs: Vec<&Run> =
                    document.runs.iter().filter(|r| r.scheme == *scheme && r.buffer == *size).collect();
                let count = runs.len() as f64;
                let logs: f64 = runs.iter().map(|run| run.queue_ms.p95.max(0.1).ln()).sum();
                (!runs.is_empty()).then(|| Mark {
                    name: scheme,
                    utilisation: runs.iter().map(|run| run.utilisation).sum::<f64>() / count,
                    delay_ms: (logs / count).exp(),
                    colour: colour(schemes, scheme),
                })
            })
            .collect();
        figure(html, &format!("All traces, queue of {size}"), &marks, &[]);
    }
    html.push_str("</div></section>\n");
}

fn figure(html: &mut String, title: &str, marks: &[Mark<'_>], curves: &[Vec<(f64, f64)>]) {
    let _ = writeln!(
        html,
        "<figure><figcaption><b>{}</b></figcaption>\n{}</figure>",
        escape(title),
        plot(title, marks, curves)
    );
}

fn section(html: &mut String, document: &Document, trace: &TraceFigures, schemes: &[&str]) {
    let _ = writeln!(
        html,
        "<section><h2>{}</h2>\n<p class=\"facts\">{:.2} Mbit/s offered; the omniscient sender's p95 {:.0} ms; \
         ping on the idle link: mean {:.0}, p50 {:.0}, p95 {:.0} ms</p>",
        escape(&trace.trace),
        trace.mean_mbps,
        trace.offset_p95_ms,
        trace.idle_ping_ms.mean,
        trace.idle_ping_ms.p50,
        trace.idle_ping_ms.p95
    );
    let sizes = buffers(document, &trace.trace);
    let runs_of = |size: &str| -> Vec<&Run> {
        document.runs.iter().filter(|r| r.trace == trace.trace && r.buffer == size).collect()
    };
    html.push_str("<div class=\"plots\">\n");
    for size in sizes.iter().filter(|size| !runs_of(size).is_empty()) {
        let runs = runs_of(size);
        let groups = grouped(&runs);
        let mean = |runs: &[&Run], value: fn(&Run) -> f64| {
            runs.iter().map(|run| value(run)).sum::<f64>() / runs.len().max(1) as f64
        };
        let marks: Vec<Mark<'_>> = groups
            .iter()
            .map(|runs| Mark {
                name: runs[0].place().2,
                utilisation: mean(runs, |run| run.utilisation),
                delay_ms: mean(runs, |run| run.queue_ms.p95),
                colour: colour(schemes, runs[0].place().2),
            })
            .collect();
        let limits = document.limits_of(&trace.trace, size).into_iter().filter(|l| l.seed == trace.seed);
        let limits: Vec<&Limit> = limits.collect();
        let curve = |limit: &&Limit| limit.points.iter().map(|p| (p.utilisation, p.queue_p95_ms)).collect();
        let curves: Vec<Vec<(f64, f64)>> = limits.iter().map(curve).collect();
        figure(html, &format!("{}, queue of {size}", trace.trace), &marks, &curves);
    }
    html.push_str("</div>\n");
    for size in sizes.iter().filter(|size| !runs_of(size).is_empty()) {
        over_time(html, trace, &runs_of(size), size, schemes);
    }
    for size in sizes {
        let is_here = |t: &str, b: &str| t == trace.trace && b == size;
        let short: Vec<&ShortRun> = document.short.iter().filter(|r| is_here(&r.trace, &r.buffer)).collect();
        let mixed: Vec<&MixedRun> = document.mixed.iter().filter(|r| is_here(&r.trace, &r.buffer)).collect();
        let bulk = runs_of(size);
        let _ = writeln!(html, "<h3>Queue of {size}</h3>");
        if !bulk.is_empty() {
            table(html, &bulk_rows(&bulk, &document.limits_of(&trace.trace, size)), schemes);
        }
        if !short.is_empty() {
            table(html, &short_rows(&short), schemes);
        }
        if !mixed.is_empty() {
            table(html, &mixed_rows(&mixed), schemes);
        }
        let flows: Vec<&FlowsRun> = document.flows.iter().filter(|r| is_here(&r.trace, &r.buffer)).collect();
        if !flows.is_empty() {
            table(html, &flows_rows(&flows), schemes);
        }
        let problems = bulk.iter().map(|r| (&r.scheme, &r.problems));
        let problems = problems.chain(short.iter().map(|r| (&r.scheme, &r.problems)));
        let problems = problems.chain(flows.iter().map(|r| (&r.scheme, &r.problems)));
        for (scheme, problems) in problems.chain(mixed.iter().map(|r| (&r.scheme, &r.problems))) {
            for problem in problems {
                let _ = writeln!(
                    html,
                    "<p class=\"finding warning\">{}: {}</p>",
                    escape(scheme),
                    escape(problem)
                );
            }
        }
    }
    html.push_str("</section>\n");
}

fn table(html: &mut String, table: &Table, schemes: &[&str]) {
    html.push_str("<div class=\"scroll\"><table><thead><tr>");
    for (name, unit) in &table.headings {
        let _ = write!(html, "<th>{name}<small>{unit}</small></th>");
    }
    html.push_str("</tr></thead><tbody>\n");
    for row in &table.rows {
        let scheme = row.first().map_or("", String::as_str);
        let _ = write!(html, "<tr class=\"c{}\">", colour(schemes, scheme));
        for (column, field) in row.iter().enumerate() {
            let swatch = if column == 0 { "<span class=\"swatch\"></span>" } else { "" };
            // Where there is no room for columns each field carries its heading.
            let (name, unit) = table.headings.get(column).copied().unwrap_or_default();
            let _ = write!(html, "<td data-is=\"{name} {unit}\">{swatch}{}</td>", escape(field));
        }
        html.push_str("</tr>\n");
    }
    html.push_str("</tbody></table></div>\n");
}

/// What the dashed curves are, where there are any.
fn limit_method(document: &Document) -> String {
    let mut late: Vec<String> = document.limits.iter().map(|limit| format!("{:.0}", limit.late_ms)).collect();
    late.sort_unstable();
    late.dedup();
    if late.is_empty() {
        return String::new();
    }
    format!(
        "<span class=\"key dashes\"></span><b>limit</b>: the best of a grid of senders who know the link's capacity and \
         queue {} ms late, a curve each; in the tables its p95 at the scheme's share. ",
        late.join(" or ")
    )
}

fn method(html: &mut String, document: &Document) {
    let (wired, radio) = (document.path.wan_rtt_ms / 2.0, document.path.radio_rtt_ms / 2.0);
    let _ = writeln!(
        html,
        "<section><h2>How it was measured</h2>\n\
         <p>server – {wired} ms – accelerator – radio link: trace, drop-tail queue, {radio} ms – client. A download as fast as the \
         scheme makes it, and a ping-pong of the same client over a connection of its own, 100 bytes each way ten times \
         a second, through the same accelerator and queue.</p>\n\
         <p><b>used</b>: bytes delivered over bytes the trace offered in the time of the run. <b>queue</b>: from arrival in \
         the radio queue to departure, of delivered packets; nothing is subtracted. <b>ping</b>: from writing the request \
         to reading the answer; it holds what the accelerator holds back. <b>waiting</b>: acknowledged to the server and \
         not yet sent to the client.</p>\n\
         <p>{}Circles are direct, squares split, diamonds accelerated.</p>\n<pre>{}</pre></section>",
        limit_method(document),
        escape(&document.made_by.command)
    );
}
