//! [`page`]: one self-contained HTML page, light and dark, made to be printed as well.

use figures::Table;
use figures::chart::key;
use figures::page::with_units;
use maud::{Markup, html};
use scenario::results::{CaseResult, Figures, MadeBy, Results, ScenarioResult, Timing};

use crate::case_charts::{self, Axes};
use crate::case_flow::{self, CaseFlow, of_case};
use crate::picture::picture_chart;
use crate::summary::{grouped, run_name, summary};
use crate::{beside, finding, network};

/// The whole page for `results`, under `title`.
#[must_use]
pub fn page(title: &str, results: &Results) -> String {
    page_with_flows(title, results, &[])
}

/// As [`page`], with charts and findings from captures of the cases.
#[must_use]
pub fn page_with_flows(title: &str, results: &Results, flows: &[CaseFlow]) -> String {
    let of = |result: &ScenarioResult| -> Vec<&CaseFlow> {
        flows.iter().filter(|flow| flow.scenario == result.scenario.name).collect()
    };
    let body = html! {
        p class="soft" { (made_by(&results.made_by)) }
        @if let Some(interrupted) = results.interrupted {
            p class="finding warning" {
                "The user ended this early: it was " (interrupted) ". What follows was finished."
            }
        }
        @if !results.pictures.is_empty() {
            section class="pictures" {
                h2 { "In pictures" }
                @for picture in &results.pictures {
                    @let chart = picture_chart(picture);
                    (figures::chart::Chart { note: picture.text.clone(), ..chart }.figure())
                }
            }
        }
        @for result in &results.scenarios { (section(result, &of(result))) }
        (method(results))
    };
    figures::page::page(title, "", &body)
}

/// Origin of the figures, in a sentence.
fn made_by(made: &MadeBy) -> String {
    let version = &made.cellerator;
    if made.runner == "sim" {
        return format!(
            "Simulated in virtual time by Cellerator {version}: the same command gives the same figures, \
             to the last digit."
        );
    }
    format!(
        "Real files over real kernel TCP through an emulated cellular link. Cellerator {version}, Linux {}, \
         {} processors, {}.",
        made.kernel,
        made.processors,
        figures::date_and_time(made.started_unix_s)
    )
}

fn section(result: &ScenarioResult, flows: &[&CaseFlow]) -> Markup {
    let scenario = &result.scenario;
    let colour = |case: &str| grouped(result).iter().position(|(name, _)| *name == case).unwrap_or_default();
    html! {
        section {
            h2 { (scenario.heading()) }
            @if let Some(text) = &scenario.description { p { (text.trim()) } }
            p class="facts" { (network::describe(scenario)) }
            p class="finding" { (with_units(&finding::sentence(result))) }
            (summary_table(result))
            (faults(result))
            (panels(result))
            (beside::shown(result))
            (case_flow::panels(flows, &colour))
        }
    }
}

/// Faults: what was not run, what did not come out as it must, and what is doubtful: all that the JSON has,
/// with the seed where there are several.
fn faults(result: &ScenarioResult) -> Markup {
    let list = |title: &str, class: &str, of: &dyn Fn(&CaseResult) -> Vec<String>| {
        let all: Vec<(String, String)> = result
            .cases
            .iter()
            .flat_map(|case| of(case).into_iter().map(|what| (run_name(result, case), what)))
            .collect();
        html! {
            @if !all.is_empty() {
                div class={ "faults " (class) } {
                    b { (title) }
                    ul { @for (case, what) in all { li { (case) ": " (with_units(&what)) "." } } }
                }
            }
        }
    };
    html! {
        (list("Failed", "failed", &|case| case.problems.clone()))
        (list("Doubtful", "doubtful", &|case| case.doubts.clone()))
        (list("Not run", "soft", &|case| case.skipped.clone().into_iter().collect()))
    }
}

fn summary_table(result: &ScenarioResult) -> Markup {
    let table = summary(result);
    let place = |row: &[String]| table.rows.iter().position(|other| other == row);
    let look = |field: &str| match field {
        "equal" => Some("equal"),
        text if text.starts_with("DIFF") => Some("different"),
        _ => None,
    };
    let first = result.cases.first().map_or(result.scenario.seed, |case| case.seed);
    html! {
        (table.html(&place, &look))
        @if result.scenario.repetitions > 1 {
            p class="soft" {
                "Means of " (result.scenario.repetitions) " seeds; behind ± the standard deviation from seed \
                 to seed. The charts show the first seed, " (first) "."
            }
        }
    }
}

/// Throughput and queueing delay of each case's first repetition, with the same axes.
fn panels(result: &ScenarioResult) -> Markup {
    let groups = grouped(result);
    let firsts: Vec<(usize, &CaseResult, &Figures)> = groups
        .iter()
        .enumerate()
        .filter_map(|(i, (_, cases))| cases.iter().find_map(|case| Some((i, *case, case.figures.as_ref()?))))
        .collect();
    if firsts.is_empty() {
        return html! {};
    }
    let axes = Axes::of(&firsts.iter().map(|(_, case, _)| *case).collect::<Vec<_>>());
    html! {
        p class="facts" { (key(case_charts::KEY)) }
        div class="panels" {
            div class="heading" { "Throughput over the link’s capacity" }
            div class="heading" { "Queueing delay" }
            @for (colour, case, f) in firsts {
                @let throughput = case_charts::throughput(&f.series, &axes, &case.name, colour);
                @let delay = case_charts::delay(&f.series, &axes, &case.name, colour);
                (of_case(colour, &case.name, &carried(f), &throughput))
                (of_case(colour, &case.name, &queued(f), &delay))
            }
        }
    }
}

fn carried(f: &Figures) -> String {
    let bytes = units::Bytes::new(f.transfer.received_bytes);
    format!("{bytes} in {:.1} s, {:.2} Mbit/s", f.transfer.seconds, f.transfer.goodput_mbps)
}

fn queued(f: &Figures) -> String {
    let delay = f.radio.queue_delay_ms;
    format!("queue median {:.1} ms, 95 % below {:.1} ms", delay.p50, delay.p95)
}

const EMULATED: &str = "\
    Server, accelerator and client are network namespaces of one machine, with the kernel’s own TCP. \
    The wired segment and the radio link between them are a model run in real time: capacity, \
    drop-tail queue, delay and loss are applied to every real packet.";
const SIMULATED: &str = "\
    Server and client are TCP hosts of the simulator, which exchange whole packets with checksums; \
    the accelerator is the engine that runs on real networks. The wired segment and the radio link \
    between them are the link model of the lab, in virtual time.";
const FIGURES: &str = "\
    Throughput is what the receiving application got over the time from its start to its end. “Link \
    used” is what the radio link carried in that time over what it could have carried. Queueing \
    delay is the time from a packet’s arrival at the radio queue to the end of its service. “Resent” \
    counts data segments that entered the radio link although all their bytes had been there before. \
    “Sender” is the congestion control of the host that sends the data. “Window” is the largest \
    receive window in the client’s own ACKs. Where something goes on beside the workload’s flows, “beside” is what \
    the downloads there got from their start to their end, and “meanwhile” what the workload got in that time.";
const COMPARED: &str = "Every byte that arrived was compared with the one that was sent.";
const HASHED: &str = "SHA-256 compares what was served with what arrived.";
const LATE: &str = "\
    How much later than planned each packet was handed to the kernel; it is never early. Throughput \
    is stated to 2 %, round trips measured by hosts to 1 ms: where lateness can have moved one by \
    more, the run is marked as doubtful.";

/// Method: the measurement, the accuracy of the emulator, and the way to repeat it.
fn method(results: &Results) -> Markup {
    let is_simulated = results.made_by.runner == "sim";
    let seeds: Vec<String> =
        results.scenarios.iter().map(|r| format!("{} {}", r.scenario.name, r.scenario.seed)).collect();
    let programs = results.made_by.programs.join(", ");
    html! {
        section {
            h2 { "How this was measured" }
            p {
                (if is_simulated { SIMULATED } else { EMULATED }) " " (FIGURES) " "
                (if is_simulated { COMPARED } else { HASHED })
            }
            @if !is_simulated {
                h3 { "Timing error of the emulator" }
                p class="soft" { (LATE) }
                (timing(results).html(&|_| None, &|_| None))
            }
            h3 { "Repeat it" }
            pre { (results.made_by.command) }
            p class="soft" {
                "Seeds: " (seeds.join(", ")) "."
                @if !programs.is_empty() { " Other programs: " (programs) "." }
            }
            @for result in &results.scenarios { (how_started(result)) }
        }
    }
}

fn how_started(result: &ScenarioResult) -> Markup {
    let command = |case: &CaseResult| Some(format!("{}: {}", case.name, case.accelerator_command.as_ref()?));
    let commands: Vec<String> = result.cases.iter().filter_map(command).collect();
    html! {
        @if !commands.is_empty() {
            details {
                summary { "How the accelerator was started: " (result.scenario.heading()) }
                pre { (commands.join("\n")) }
            }
        }
    }
}

/// The emulator's lateness in every run.
fn timing(results: &Results) -> Table {
    let mut runs: Vec<(String, &Timing)> = Vec::new();
    for result in &results.scenarios {
        let run = |case: &CaseResult| match result.scenario.repetitions {
            0 | 1 => format!("{}, {}", case.name, result.scenario.name),
            _ => format!("{} ({}), {}", case.name, case.repetition, result.scenario.name),
        };
        let cases = result.cases.iter();
        runs.extend(cases.filter_map(|case| Some((run(case), &case.figures.as_ref()?.timing))));
    }
    Table::of(
        &runs,
        &[
            ("case", "", &|(run, _)| run.clone()),
            ("packets", "", &|(_, timing)| timing.late_us.count.to_string()),
            ("mean", "µs", &|(_, timing)| format!("{:.1}", timing.late_us.mean)),
            ("p50", "µs", &|(_, timing)| format!("{:.1}", timing.late_us.p50)),
            ("p99", "µs", &|(_, timing)| format!("{:.1}", timing.late_us.p99)),
            ("largest", "µs", &|(_, timing)| format!("{:.0}", timing.late_us.max)),
            ("over 0.2 ms", "%", &|(_, timing)| format!("{:.2}", 100.0 * timing.share_over_200_us)),
            ("over 1 ms", "%", &|(_, timing)| format!("{:.2}", 100.0 * timing.share_over_1_ms)),
            ("missed", "packets", &|(_, timing)| timing.missed_packets.to_string()),
            ("throughput off", "≤ %", &|(_, timing)| format!("{:.2}", 100.0 * timing.throughput_error)),
        ],
    )
}

#[cfg(test)]
mod tests;
