//! [`html`]: all results as one self-contained page.

use std::fmt::Write as _;

use report::{STYLE, escape};

use crate::draw::svg;
use crate::table::Shown;
use crate::{Check, Experiment, Figure, Prose, ReproduceError, Reproduction, Source, Table};

const OWN_STYLE: &str = "\
.mark { font-weight: 600; } .pass { color: var(--good); } .miss { color: var(--bad); }\n\
.who { font-weight: 600; } .sentences { list-style: none; padding: 0; max-width: 92ch; } \
.sentences li { margin: .3rem 0; }\n\
section > figure svg { max-width: 860px; }\n\
section th { white-space: normal; overflow-wrap: break-word; } section th small { white-space: nowrap; }\n\
.overview th, .overview td { text-align: left; } .overview td:first-child { white-space: normal; }\n\
.figures { display: grid; grid-template-columns: 1fr 1fr; gap: .6rem 1.8rem; } \
.wide { grid-column: 1 / -1; }\n\
section td:first-child { white-space: nowrap; } \
section th:first-child, section td:first-child { position: sticky; left: 0; \
background: var(--bg); padding-right: 1.2rem; } \
td.paper, th.paper, td.simulated, th.simulated { color: var(--soft); } \
td.adaptive, th.adaptive { font-weight: 600; }\n\
@media (max-width: 900px) { .figures { grid-template-columns: 1fr; } }\n\
@media (max-width: 620px) { section figure { overflow-x: auto; } \
section figure svg { width: 600px; } .overview .place { display: none; } \
section td:first-child { white-space: normal; } \
.figures { min-width: 0; } .figures > figure { min-width: 0; } \
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
    let title = "Reproduction of the papers";
    let mut page = format!(
        "<!doctype html>\n<html lang=\"en\">\n<head><meta charset=\"utf-8\"><meta name=\"viewport\" \
         content=\"width=device-width, initial-scale=1\">\n<title>{title}</title>\n<style>\n{STYLE}{OWN_STYLE}</style>\
         </head>\n<body>\n<h1>{title}</h1>\n<p>Every experiment below was run by this program on an emulated link, and \
         stands beside what the paper prints. The papers ran on real networks: expect the shape and the ratios, not the \
         digits.</p>\n"
    );
    if let Some(interrupted) = interrupted {
        let _ = writeln!(page, "<p class=\"finding warning\">{}</p>", escape(interrupted));
    }
    overview(&mut page, experiments, results)?;
    let mut paper = None;
    for experiment in experiments {
        let own: Vec<&Reproduction> = results.iter().filter(|r| r.experiment == experiment.name).collect();
        if own.is_empty() {
            continue;
        }
        if paper != Some(experiment.paper) {
            paper = Some(experiment.paper);
            let (key, title) = (experiment.paper.key(), experiment.paper.title());
            let _ = writeln!(page, "<h1>[{key}] {}</h1>", escape(title));
        }
        section(&mut page, experiment, &own)?;
    }
    page.push_str("</body>\n</html>\n");
    Ok(page)
}

fn overview(
    page: &mut String,
    experiments: &[&Experiment],
    results: &[Reproduction],
) -> Result<(), ReproduceError> {
    page.push_str(
        "<div class=\"scroll\"><table class=\"overview\"><thead><tr><th>experiment</th><th class=\"place\">paper</th><th>run by</th>\
         <th>aims reached</th></tr></thead><tbody>\n",
    );
    for experiment in experiments {
        for result in results.iter().filter(|r| r.experiment == experiment.name) {
            let (passed, all) = result.score();
            let class = match all {
                0 => "soft",
                _ if passed == all => "pass",
                _ => "miss",
            };
            let score = if all == 0 { "none set".to_owned() } else { format!("{passed} of {all}") };
            let _ = writeln!(
                page,
                "<tr><td><a href=\"#{0}\">{0}</a>: {1}</td><td class=\"place\">[{2}] {3}</td><td>{4}</td>\
                 <td class=\"{class}\">{score}</td></tr>",
                experiment.name,
                escape(&experiment.prose()?.title),
                experiment.paper.key(),
                experiment.part,
                escape(&result.made_by.runner)
            );
        }
    }
    page.push_str("</tbody></table></div>\n");
    Ok(())
}

fn section(
    page: &mut String,
    experiment: &Experiment,
    results: &[&Reproduction],
) -> Result<(), ReproduceError> {
    let Experiment { name, part, .. } = experiment;
    let Prose { title, asked, found, .. } = experiment.prose()?;
    let _ = writeln!(page, "<section id=\"{name}\">\n<h2>{part}: {}</h2>", escape(&title));
    for result in results {
        let is_lab = result.is_lab();
        if is_lab {
            page.push_str("<h3>With kernel TCP, in real time</h3>\n");
        }
        let we_see = &result.outcome.we_see;
        let we_see = we_see.strip_prefix("We see ").unwrap_or(we_see);
        let _ = writeln!(
            page,
            "<ul class=\"sentences\"><li><span class=\"who\">Asked:</span> {}</li><li><span class=\"who\">Found:</span> {}</li>\
             <li><span class=\"who\">We see:</span> {}</li></ul>",
            plain_text(&asked),
            plain_text(&found),
            plain_text(we_see)
        );
        let _ = writeln!(page, "<pre>{}</pre>", escape(&command(experiment, is_lab)));
        checks(page, &result.outcome.checks);
        for figure in &result.outcome.figures {
            drawn(page, figure, experiment, is_lab);
        }
        for table in &result.outcome.tables {
            tabled(page, table);
        }
        for note in &result.outcome.notes {
            let _ = writeln!(page, "<p>{}</p>", plain_text(note));
        }
        page.push_str("<h3>The link</h3>\n");
        for used in result.scenarios.iter().filter(|used| !used.description.is_empty()) {
            let _ = writeln!(page, "<p>{}</p>", plain_text(&used.description));
        }
        page.push_str("<div class=\"figures\">\n");
        for figure in &result.links {
            drawn(page, figure, experiment, is_lab);
        }
        page.push_str("</div>\n");
        made_of(page, result);
    }
    page.push_str("</section>\n");
    Ok(())
}

/// Text with `code` as Markdown has it.
fn plain_text(text: &str) -> String {
    let escaped = escape(text);
    let mut html = String::with_capacity(escaped.len());
    let mut parts = escaped.split('`').peekable();
    let mut is_code = false;
    while let Some(part) = parts.next() {
        // A mark without its fellow stands for itself.
        match (is_code, parts.peek().is_some()) {
            (true, true) => html.extend(["<code>", part, "</code>"]),
            (true, false) => html.extend(["`", part]),
            (false, _) => html.push_str(part),
        }
        is_code = !is_code;
    }
    html
}

/// The one command that repeats an experiment.
pub(crate) fn command(experiment: &Experiment, is_lab: bool) -> String {
    format!("cellerator reproduce {}{}", experiment.name, if is_lab { " --lab" } else { "" })
}

fn checks(page: &mut String, checks: &[Check]) {
    if checks.is_empty() {
        return;
    }
    page.push_str("<ul class=\"diagnoses\">\n");
    for check in checks {
        let (class, mark) = if check.passed { ("pass", "✓") } else { ("miss", "✗") };
        let _ = writeln!(
            page,
            "<li><span class=\"mark {class}\">{mark}</span> {}: {}</li>",
            escape(&check.claim),
            check.numbers()
        );
    }
    page.push_str("</ul>\n");
}

fn drawn(page: &mut String, figure: &Figure, experiment: &Experiment, is_lab: bool) {
    let _ = writeln!(
        page,
        "<figure>{}<figcaption>{}</figcaption></figure>",
        svg(figure, &command(experiment, is_lab)),
        plain_text(&figure.caption)
    );
}

/// The class of a column.
fn class(shown: &Shown<'_>) -> &'static str {
    if shown.is_simulated { Source::Simulated.word() } else { shown.column.source.word() }
}

fn tabled(page: &mut String, table: &Table) {
    let _ = write!(
        page,
        "<h3>{}</h3>\n<div class=\"scroll\"><table><thead><tr><th>{}</th>",
        plain_text(&table.title),
        plain_text(&table.rows_are)
    );
    let columns = table.shown();
    for shown in &columns {
        let _ = write!(
            page,
            "<th class=\"{}\">{}<small>{} {}</small></th>",
            class(shown),
            escape(&shown.column.heading),
            shown.words(),
            escape(&shown.column.unit)
        );
    }
    page.push_str("</tr></thead><tbody>\n");
    for row in &table.rows {
        let _ = write!(page, "<tr><td>{}</td>", escape(&row.label));
        for shown in &columns {
            let _ = write!(page, "<td class=\"{}\">{}</td>", class(shown), escape(&shown.text(row)));
        }
        page.push_str("</tr>\n");
    }
    page.push_str("</tbody></table></div>\n");
}

/// What the result was made of: program, seeds, scenarios, every run, and the emulator's own error.
fn made_of(page: &mut String, result: &Reproduction) {
    let seeds = result.scenarios.iter().map(|used| used.seed.to_string()).collect::<Vec<_>>().join(", ");
    let made = &result.made_by;
    let _ = write!(page, "<p class=\"soft\">Cellerator {}, seed {seeds}", escape(&made.cellerator));
    if result.is_lab() {
        let processor = result.processor.as_deref().unwrap_or("processors");
        let _ = write!(page, ", Linux {}, {} × {}", escape(&made.kernel), made.processors, escape(processor));
        let _ =
            write!(page, "; the emulator's own lateness: p99 of the worst run {:.0} µs", result.latest_us());
    }
    page.push_str(".</p>\n");
    if result.is_lab() {
        runs(page, result);
    }
    for (why, cases) in result.skipped() {
        let _ =
            writeln!(page, "<p class=\"soft\">Not run ({}): {}.</p>", escape(&cases.join("; ")), escape(why));
    }
    for run in &result.runs {
        let faults = run.problems.iter().chain(&run.distrusted);
        for fault in faults {
            let _ = writeln!(
                page,
                "<p class=\"soft\">{}, case {}, seed {}: {}.</p>",
                escape(&run.scenario),
                escape(&run.case),
                run.seed,
                escape(fault)
            );
        }
    }
    for used in &result.scenarios {
        let _ = writeln!(
            page,
            "<details><summary>{} ({})</summary><pre>{}</pre></details>",
            escape(&used.file),
            used.hash,
            escape(&used.text)
        );
    }
}

/// Every run of the lab with its seed and the emulator's own error.
fn runs(page: &mut String, result: &Reproduction) {
    let _ = writeln!(
        page,
        "<details><summary>every run, with the emulator's own error</summary><div class=\"scroll\"><table><thead><tr><th>case</th>\
         <th>scenario</th><th>seed</th><th>goodput<small>simulated Mbit/s</small></th><th>goodput<small>kernel Mbit/s</small></th>\
         <th>queue p95<small>ms</small></th><th>late, median<small>µs</small></th><th>late, p99<small>µs</small></th>\
         <th>late, most<small>µs</small></th></tr></thead><tbody>"
    );
    let number =
        |value: Option<f64>, digits: usize| value.map_or("–".to_owned(), |v| format!("{v:.digits$}"));
    for run in result.runs.iter().filter(|run| run.skipped.is_none()) {
        let _ = write!(
            page,
            "<tr><td>{}</td><td>{}</td><td>{}</td>",
            escape(&run.case),
            escape(&run.scenario),
            run.seed
        );
        let values = [
            (run.simulated_goodput_mbps, 2),
            (run.goodput_mbps, 2),
            (run.queue_p95_ms, 0),
            (run.late_p50_us, 0),
            (run.late_p99_us, 0),
            (run.late_max_us, 0),
        ];
        for (value, digits) in values {
            let _ = write!(page, "<td>{}</td>", number(value, digits));
        }
        page.push_str("</tr>\n");
    }
    page.push_str("</tbody></table></div></details>\n");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn code_is_marked_where_it_has_both_ends() {
        assert_eq!(plain_text("a `b` & c"), "a <code>b</code> &amp; c");
        assert_eq!(plain_text("`a` `b`"), "<code>a</code> <code>b</code>");
        assert_eq!(plain_text("a `b"), "a `b");
    }
}
