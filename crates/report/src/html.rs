//! [`page`]: one self-contained HTML page, light and dark, made to be printed as well.

use std::fmt::Write as _;

use scenario::results::{CaseResult, Figures, MadeBy, Results, ScenarioResult, Timing};

use crate::case_flow::{self, CaseFlow};
use crate::chart::{self, Scales};
use crate::picture::{PICTURE_STYLE, picture_figure};
use crate::table::{grouped, summary};
use crate::{finding, network};

/// Style sheet of the pages: light, dark and print; text, tables, figures, and the colours `c0` to `c5`.
pub const STYLE: &str = include_str!("style.css");
const COLOURS: usize = 6;

/// Text made safe for HTML.
#[must_use]
pub fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

/// Numbers and their units on one line.
fn units_kept(text: &str) -> String {
    [" %", " ms", " Mbit/s", " KB", " MB", " ±"]
        .iter()
        .fold(text.to_owned(), |text, unit| text.replace(unit, &unit.replacen(' ', "&nbsp;", 1)))
}

/// The whole page for `results`, under `title`.
#[must_use]
pub fn page(title: &str, results: &Results) -> String {
    page_with_flows(title, results, &[])
}

/// As [`page`], with charts and findings from captures of the cases.
#[must_use]
pub fn page_with_flows(title: &str, results: &Results, flows: &[CaseFlow]) -> String {
    let mut html = format!(
        "<!doctype html>\n<html lang=\"en\">\n<head><meta charset=\"utf-8\"><meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n<title>{0}</title>\n<style>\n{STYLE}{PICTURE_STYLE}</style></head>\n<body>\n<h1>{0}</h1>\n",
        escape(title)
    );
    let _ = writeln!(html, "<p class=\"soft\">{}</p>", escape(&made_by(&results.made_by)));
    if let Some(interrupted) = results.interrupted {
        let _ = writeln!(
            html,
            "<p class=\"finding warning\">The user ended this early: it was {interrupted}. What follows was finished.</p>"
        );
    }
    if !results.pictures.is_empty() {
        html.push_str("<section class=\"pictures\">\n<h2>In pictures</h2>\n");
        results.pictures.iter().for_each(|picture| html.push_str(&picture_figure(picture)));
        html.push_str("</section>\n");
    }
    for result in &results.scenarios {
        let flows: Vec<&CaseFlow> =
            flows.iter().filter(|flow| flow.scenario == result.scenario.name).collect();
        section(&mut html, result, &flows);
    }
    method(&mut html, results);
    html.push_str("</body>\n</html>\n");
    html
}

/// Where the figures come from, in a sentence.
fn made_by(made: &MadeBy) -> String {
    let version = &made.cellerator;
    if made.runner == "sim" {
        return format!(
            "Simulated in virtual time by Cellerator {version}: the same command gives the same figures, to the last digit."
        );
    }
    format!(
        "Real files over real kernel TCP through an emulated cellular link. Cellerator {version}, Linux {}, {} processors, {}.",
        made.kernel,
        made.processors,
        date(made.started_unix_s)
    )
}

fn section(html: &mut String, result: &ScenarioResult, flows: &[&CaseFlow]) {
    let scenario = &result.scenario;
    let _ = writeln!(html, "<section>\n<h2>{}</h2>", escape(scenario.heading()));
    if let Some(text) = &scenario.description {
        let _ = writeln!(html, "<p>{}</p>", escape(text.trim()));
    }
    let _ = writeln!(html, "<p class=\"facts\">{}</p>", escape(&network::describe(scenario)));
    let _ = writeln!(html, "<p class=\"finding\">{}</p>", units_kept(&escape(&finding::sentence(result))));
    summary_table(html, result);
    faults(html, result);
    panels(html, result);
    let colour =
        |case: &str| grouped(result).iter().position(|(name, _)| *name == case).unwrap_or_default() % COLOURS;
    case_flow::panels(html, flows, &colour);
    html.push_str("</section>\n");
}

/// What was not run, what did not come out as it must, and what is doubtful: all that the JSON has, with the seed where there are several.
fn faults(html: &mut String, result: &ScenarioResult) {
    let name = |case: &CaseResult| match result.scenario.repetitions {
        0 | 1 => case.name.clone(),
        _ => format!("{} (seed {})", case.name, case.seed),
    };
    let mut list = |title: &str, class: &str, of: &dyn Fn(&CaseResult) -> Vec<String>| {
        let all: Vec<(String, String)> = result
            .cases
            .iter()
            .flat_map(|case| of(case).into_iter().map(move |what| (name(case), what)))
            .collect();
        if all.is_empty() {
            return;
        }
        let _ = write!(html, "<div class=\"faults {class}\"><b>{title}</b><ul>");
        for (case, what) in all {
            let _ = write!(html, "<li>{}: {}.</li>", escape(&case), units_kept(&escape(&what)));
        }
        html.push_str("</ul></div>\n");
    };
    list("Failed", "failed", &|case| case.problems.clone());
    list("Doubtful", "doubtful", &|case| case.doubts.clone());
    list("Not run", "soft", &|case| case.skipped.clone().into_iter().collect());
}

fn summary_table(html: &mut String, result: &ScenarioResult) {
    let table = summary(result);
    html.push_str("<div class=\"scroll\"><table class=\"summary\"><thead><tr>");
    for (name, unit) in &table.headings {
        let _ = write!(html, "<th>{name}<small>{unit}</small></th>");
    }
    html.push_str("</tr></thead><tbody>\n");
    for (i, row) in table.rows.iter().enumerate() {
        let _ = write!(html, "<tr class=\"c{}\">", i % COLOURS);
        for ((name, unit), field) in table.headings.iter().zip(row) {
            // Where the table is too wide for the screen, each field names itself.
            let label = if unit.is_empty() { (*name).to_owned() } else { format!("{name}, {unit}") };
            let class = match field.as_str() {
                "equal" => " class=\"equal\"",
                text if text.starts_with("DIFF") => " class=\"different\"",
                _ => "",
            };
            let swatch = if *name == "case" { "<span class=\"swatch\"></span>" } else { "" };
            let _ = write!(html, "<td{class} data-label=\"{label}\">{swatch}{}</td>", escape(field));
        }
        html.push_str("</tr>\n");
    }
    html.push_str("</tbody></table></div>\n");
    if result.scenario.repetitions > 1 {
        let _ = writeln!(
            html,
            "<p class=\"soft\">Means of {} seeds; behind ± the standard deviation from seed to seed. The charts show the first seed, {}.</p>",
            result.scenario.repetitions,
            result.cases.first().map_or(result.scenario.seed, |case| case.seed)
        );
    }
}

/// Throughput and queueing delay of each case's first repetition, with the same scales.
fn panels(html: &mut String, result: &ScenarioResult) {
    let groups = grouped(result);
    let firsts: Vec<(usize, &CaseResult)> = groups
        .iter()
        .enumerate()
        .filter_map(|(i, (_, cases))| cases.iter().find(|c| c.figures.is_some()).map(|c| (i, *c)))
        .collect();
    if firsts.is_empty() {
        return;
    }
    let scales = Scales::of(&firsts.iter().map(|(_, c)| *c).collect::<Vec<_>>());
    html.push_str("<p class=\"facts\"><span class=\"key grey\"></span>what the link can carry <span class=\"key stroke\"></span>throughput; mean queueing delay <span class=\"key shade\"></span>up to the longest queueing delay</p>\n");
    html.push_str("<div class=\"panels\">\n<div class=\"heading\">Throughput over the link’s capacity</div><div class=\"heading\">Queueing delay</div>\n");
    for (i, case) in firsts {
        let Some(f) = &case.figures else { continue };
        let colour = i % COLOURS;
        let name = escape(&case.name);
        let _ = writeln!(
            html,
            "<figure class=\"c{colour}\"><figcaption><span class=\"swatch\"></span><b>{name}</b>: {}</figcaption>{}</figure>",
            escape(&carried(f)),
            chart::throughput(&f.series, &scales, &case.name)
        );
        let d = f.radio.queue_delay_ms;
        let _ = writeln!(
            html,
            "<figure class=\"c{colour}\"><figcaption><span class=\"swatch\"></span><b>{name}</b>: queue median {:.1} ms, 95 % below {:.1} ms</figcaption>{}</figure>",
            d.p50,
            d.p95,
            chart::delay(&f.series, &scales, &case.name)
        );
    }
    html.push_str("</div>\n");
}

fn carried(f: &Figures) -> String {
    let bytes = units::Bytes::new(f.transfer.received_bytes);
    format!("{bytes} in {:.1} s, {:.2} Mbit/s", f.transfer.seconds, f.transfer.goodput_mbps)
}

const EMULATED: &str = "Server, accelerator and client are network namespaces of one machine, with the kernel’s own TCP. The wired segment and the radio link between them are a model run in real time: capacity, drop-tail queue, delay and loss are applied to every real packet.";
const SIMULATED: &str = "Server and client are TCP hosts of the simulator, which exchange whole packets with checksums; the accelerator is the engine that runs on real networks. The wired segment and the radio link between them are the link model of the lab, in virtual time.";
const FIGURES: &str = "Throughput is what the receiving application got over the time from its start to its end. “Link used” is what the radio link carried in that time over what it could have carried. Queueing delay is the time from a packet’s arrival at the radio queue to the end of its service. “Resent” counts data segments that entered the radio link although all their bytes had been there before. “Sender” is the congestion control of the host that sends the data. “Window” is the largest receive window in the client’s own ACKs.";

/// How it was measured, how exact the emulator was, how to repeat it.
fn method(html: &mut String, results: &Results) {
    html.push_str("<section>\n<h2>How this was measured</h2>\n");
    let is_simulated = results.made_by.runner == "sim";
    let _ = writeln!(
        html,
        "<p>{} {FIGURES} {}</p>",
        if is_simulated { SIMULATED } else { EMULATED },
        if is_simulated {
            "Every byte that arrived was compared with the one that was sent."
        } else {
            "SHA-256 compares what was served with what arrived."
        }
    );
    if !is_simulated {
        timing_table(html, results);
    }
    html.push_str("<h3>Repeat it</h3>\n");
    let _ = writeln!(html, "<pre>{}</pre>", escape(&results.made_by.command));
    let programs = results.made_by.programs.join(", ");
    let seeds: Vec<String> =
        results.scenarios.iter().map(|r| format!("{} {}", r.scenario.name, r.scenario.seed)).collect();
    let _ = writeln!(
        html,
        "<p class=\"soft\">Seeds: {}.{}</p>",
        escape(&seeds.join(", ")),
        if programs.is_empty() { String::new() } else { format!(" Other programs: {}.", escape(&programs)) }
    );
    for result in &results.scenarios {
        let commands: Vec<String> = result
            .cases
            .iter()
            .filter_map(|c| c.accelerator_command.as_ref().map(|command| format!("{}: {command}", c.name)))
            .collect();
        if !commands.is_empty() {
            let _ = writeln!(
                html,
                "<details><summary>How the accelerator was started: {}</summary><pre>{}</pre></details>",
                escape(result.scenario.heading()),
                escape(&commands.join("\n"))
            );
        }
    }
    html.push_str("</section>\n");
}

fn timing_table(html: &mut String, results: &Results) {
    html.push_str("<h3>Timing error of the emulator</h3>\n<p class=\"soft\">How much later than planned each packet was handed to the kernel; it is never early. Throughput is stated to 2 %, round trips measured by hosts to 1 ms: where lateness can have moved one by more, the run is marked as doubtful.</p>\n");
    html.push_str("<div class=\"scroll\"><table><thead><tr><th>case</th><th>packets</th><th>mean<small>µs</small></th><th>p50<small>µs</small></th><th>p99<small>µs</small></th><th>largest<small>µs</small></th><th>over 0.2 ms<small>%</small></th><th>over 1 ms<small>%</small></th><th>missed<small>packets</small></th><th>throughput off<small>≤ %</small></th></tr></thead><tbody>\n");
    for result in &results.scenarios {
        for case in &result.cases {
            if let Some(f) = &case.figures {
                timing_row(html, result, case, &f.timing);
            }
        }
    }
    html.push_str("</tbody></table></div>\n");
}

fn timing_row(html: &mut String, result: &ScenarioResult, case: &CaseResult, t: &Timing) {
    let name = if result.scenario.repetitions > 1 {
        format!("{} ({}), {}", case.name, case.repetition, result.scenario.name)
    } else {
        format!("{}, {}", case.name, result.scenario.name)
    };
    let d = t.late_us;
    let _ = writeln!(
        html,
        "<tr><td>{}</td><td>{}</td><td>{:.1}</td><td>{:.1}</td><td>{:.1}</td><td>{:.0}</td><td>{:.2}</td><td>{:.2}</td><td>{}</td><td>{:.2}</td></tr>",
        escape(&name),
        d.count,
        d.mean,
        d.p50,
        d.p99,
        d.max,
        100.0 * t.share_over_200_us,
        100.0 * t.share_over_1_ms,
        t.missed_packets,
        100.0 * t.throughput_error
    );
}

/// `2026-03-01 14:05 UTC` for seconds since 1970 (proleptic Gregorian, Howard Hinnant's `civil_from_days`).
fn date(unix_s: u64) -> String {
    let (days, rest) = (unix_s / 86_400, unix_s % 86_400);
    let z = days + 719_468;
    let (era, doe) = (z / 146_097, z % 146_097);
    let yoe = (doe - doe / 1_460 + doe / 36_524 - doe / 146_096) / 365;
    let doy = doe - (365 * yoe + yoe / 4 - yoe / 100);
    let mp = (5 * doy + 2) / 153;
    let (day, month) = (doy - (153 * mp + 2) / 5 + 1, if mp < 10 { mp + 3 } else { mp - 9 });
    let year = yoe + era * 400 + u64::from(month <= 2);
    format!("{year}-{month:02}-{day:02} {:02}:{:02} UTC", rest / 3_600, rest % 3_600 / 60)
}

#[cfg(test)]
mod tests;
