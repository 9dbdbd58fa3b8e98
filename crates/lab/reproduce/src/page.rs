//! [`html`]: all results as one self-contained page.

use figures::chart::Chart;
use maud::{Markup, html as markup};

use crate::chart::chart;
use crate::table::Shown;
use crate::{Check, Experiment, Figure, Prose, ReproduceError, Reproduction, Source, Table};

const OWN_STYLE: &str = "\
.mark { font-weight: 600; } .pass { color: var(--good); } .miss { color: var(--bad); }\n\
.who { font-weight: 600; } .sentences { list-style: none; padding: 0; max-width: 92ch; } \
.sentences li { margin: .3rem 0; }\n\
section > figure { margin-top: 1rem; }\n\
section th { white-space: normal; overflow-wrap: break-word; } section th small { white-space: nowrap; }\n\
.overview th, .overview td { text-align: left; } .overview td:first-child { white-space: normal; }\n\
section td:first-child { white-space: nowrap; } \
section th:first-child, section td:first-child { position: sticky; left: 0; \
background: var(--bg); padding-right: 1.2rem; } \
td.paper, th.paper, td.simulated, th.simulated { color: var(--soft); } \
td.adaptive, th.adaptive { font-weight: 600; }\n\
@media (max-width: 620px) { .overview .place { display: none; } \
section td:first-child { white-space: normal; } \
section th, section td { padding: .38rem .45rem; } \
section th:first-child, section td:first-child { max-width: 42vw; padding-left: 0; } }\n";

/// The page over `results`: what belongs to an experiment follows its heading, from the simulator and
/// from the lab.
///
/// # Errors
/// An experiment's text is not written as it must be.
pub fn html(
    experiments: &[&Experiment],
    results: &[Reproduction],
    interrupted: Option<&str>,
) -> Result<String, ReproduceError> {
    let mut sections = Vec::new();
    let mut paper = None;
    for experiment in experiments {
        let own: Vec<&Reproduction> = results.iter().filter(|r| r.experiment == experiment.name).collect();
        if own.is_empty() {
            continue;
        }
        let is_new = paper.replace(experiment.paper) != Some(experiment.paper);
        let (key, title) = (experiment.paper.key(), experiment.paper.title());
        sections.push(markup! {
            @if is_new { h1 { "[" (key) "] " (title) } }
            (section(experiment, &own)?)
        });
    }
    let body = markup! {
        p {
            "Every experiment below was run by this program on an emulated link, and stands beside what the \
             paper prints. The papers ran on real networks: expect the shape and the ratios, not the digits."
        }
        @if let Some(interrupted) = interrupted { p class="finding warning" { (interrupted) } }
        (overview(experiments, results)?)
        @for section in sections { (section) }
    };
    Ok(figures::page::page("Reproduction of the papers", OWN_STYLE, &body))
}

fn overview(experiments: &[&Experiment], results: &[Reproduction]) -> Result<Markup, ReproduceError> {
    let mut rows = Vec::new();
    for experiment in experiments {
        let Experiment { name, paper, part, .. } = experiment;
        for result in results.iter().filter(|r| r.experiment == *name) {
            let (passed, all) = result.score();
            let (class, score) = match all {
                0 => ("soft", "none set".to_owned()),
                _ => (if passed == all { "pass" } else { "miss" }, format!("{passed} of {all}")),
            };
            rows.push(markup! {
                tr {
                    td { a href={ "#" (name) } { (name) } ": " (experiment.prose()?.title) }
                    td class="place" { "[" (paper.key()) "] " (part) }
                    td { (result.made_by.runner) }
                    td class=(class) { (score) }
                }
            });
        }
    }
    Ok(markup! {
        div class="scroll" {
            table class="overview" {
                thead { tr { th { "experiment" } th class="place" { "paper" } th { "run by" } th { "aims reached" } } }
                tbody { @for row in rows { (row) } }
            }
        }
    })
}

fn section(experiment: &Experiment, results: &[&Reproduction]) -> Result<Markup, ReproduceError> {
    let Experiment { name, part, .. } = experiment;
    let prose = experiment.prose()?;
    Ok(markup! {
        section id=(name) {
            h2 { (part) ": " (prose.title) }
            @for result in results { (reproduction(experiment, &prose, result)) }
        }
    })
}

/// Results of one run of an experiment.
fn reproduction(experiment: &Experiment, prose: &Prose, result: &Reproduction) -> Markup {
    let command = command(experiment, result.is_lab());
    let outcome = &result.outcome;
    let we_see = outcome.we_see.strip_prefix("We see ").unwrap_or(&outcome.we_see);
    let sentences = [("Asked:", prose.asked.as_str()), ("Found:", &prose.found), ("We see:", we_see)];
    markup! {
        @if result.is_lab() { h3 { "With kernel TCP, in real time" } }
        ul class="sentences" {
            @for (who, text) in sentences { li { span class="who" { (who) } " " (plain_text(text)) } }
        }
        pre { (command) }
        (checks(&outcome.checks))
        @for figure in &outcome.figures { (captioned(figure, &command).figure()) }
        @for table in &outcome.tables { (tabled(table)) }
        @for note in &outcome.notes { p { (plain_text(note)) } }
        h3 { "The link" }
        @for used in result.scenarios.iter().filter(|used| !used.description.is_empty()) {
            p { (plain_text(&used.description)) }
        }
        div class="halves" { @for figure in &result.links { (captioned(figure, &command).half_figure()) } }
        (made_of(result))
    }
}

/// The chart of a figure with its caption.
fn captioned(figure: &Figure, command: &str) -> Chart {
    Chart { note: figure.caption.replace('`', ""), ..chart(figure, command) }
}

/// Text with `code` as Markdown has it.
fn plain_text(text: &str) -> Markup {
    let parts: Vec<&str> = text.split('`').collect();
    let last = parts.len() - 1;
    markup! {
        @for (number, part) in parts.into_iter().enumerate() {
            @match (number % 2 == 1, number == last) {
                (false, _) => (part),
                (true, false) => code { (part) },
                // A mark without its fellow stands for itself.
                (true, true) => { "`" (part) },
            }
        }
    }
}

/// The one command that repeats an experiment.
pub(crate) fn command(experiment: &Experiment, is_lab: bool) -> String {
    format!("cellerator reproduce {}{}", experiment.name, if is_lab { " --lab" } else { "" })
}

fn checks(checks: &[Check]) -> Markup {
    let look = |check: &Check| if check.passed { ("pass", "✓") } else { ("miss", "✗") };
    markup! {
        @if !checks.is_empty() {
            ul class="diagnoses" {
                @for check in checks {
                    @let (class, mark) = look(check);
                    li { span class={ "mark " (class) } { (mark) } " " (check.claim) ": " (check.numbers()) }
                }
            }
        }
    }
}

/// The class of a column.
fn class(shown: &Shown<'_>) -> &'static str {
    if shown.is_simulated { Source::Simulated.word() } else { shown.column.source.word() }
}

fn tabled(table: &Table) -> Markup {
    let columns = table.shown();
    markup! {
        h3 { (plain_text(&table.title)) }
        div class="scroll" {
            table {
                thead {
                    tr {
                        th { (plain_text(&table.rows_are)) }
                        @for shown in &columns {
                            th class=(class(shown)) {
                                (shown.column.heading)
                                small { (shown.words()) " " (shown.column.unit) }
                            }
                        }
                    }
                }
                tbody {
                    @for row in &table.rows {
                        tr {
                            td { (row.label) }
                            @for shown in &columns { td class=(class(shown)) { (shown.text(row)) } }
                        }
                    }
                }
            }
        }
    }
}

/// Origin of the result: program, seeds, scenarios, every run, and the emulator's own error.
fn made_of(result: &Reproduction) -> Markup {
    let seeds = result.scenarios.iter().map(|used| used.seed.to_string()).collect::<Vec<_>>().join(", ");
    let made = &result.made_by;
    let faults = result.runs.iter().flat_map(|run| {
        let faults = run.problems.iter().chain(&run.distrusted);
        faults.map(|fault| format!("{}, case {}, seed {}: {fault}.", run.scenario, run.case, run.seed))
    });
    markup! {
        p class="soft" {
            "Cellerator " (made.cellerator) ", seed " (seeds)
            @if result.is_lab() {
                ", Linux " (made.kernel) ", " (made.processors) " × "
                (result.processor.as_deref().unwrap_or("processors"))
                "; the emulator's own lateness: p99 of the worst run "
                (format!("{:.0} µs", result.latest_us()))
            }
            "."
        }
        @if result.is_lab() { (runs(result)) }
        @for (why, cases) in result.skipped() {
            p class="soft" { "Not run (" (cases.join("; ")) "): " (why) "." }
        }
        @for fault in faults { p class="soft" { (fault) } }
        @for used in &result.scenarios {
            details { summary { (used.file) " (" (used.hash) ")" } pre { (used.text) } }
        }
    }
}

/// Every run of the lab with its seed and the emulator's own error.
fn runs(result: &Reproduction) -> Markup {
    let headings = [
        ("case", ""),
        ("scenario", ""),
        ("seed", ""),
        ("goodput", "simulated Mbit/s"),
        ("goodput", "kernel Mbit/s"),
        ("queue p95", "ms"),
        ("late, median", "µs"),
        ("late, p99", "µs"),
        ("late, most", "µs"),
    ];
    let row = |run: &crate::RunRecord| {
        let names = [run.case.clone(), run.scenario.clone(), run.seed.to_string()];
        names.into_iter().chain(run.numbers()).collect()
    };
    let rows = result.runs.iter().filter(|run| run.skipped.is_none()).map(row).collect();
    let table = figures::Table { headings: headings.to_vec(), rows };
    markup! {
        details {
            summary { "every run, with the emulator's own error" }
            (table.html(&|_| None, &|_| None))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn code_is_marked_where_it_has_both_ends() {
        let text = |text| plain_text(text).into_string();
        assert_eq!(text("a `b` & c"), "a <code>b</code> &amp; c");
        assert_eq!(text("`a` `b`"), "<code>a</code> <code>b</code>");
        assert_eq!(text("a `b"), "a `b");
    }
}
