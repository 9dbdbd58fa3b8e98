//! [`markdown`] and [`lab_markdown`]: results as pages for the repository, with their figures as files.

use std::fmt::Write as _;

use figures::chart::Width;
use figures::page::escape;
use figures::stats::median;
use report::date_of;
use units::{Duration, Instant};

use crate::chart::chart;
use crate::page::command;
use crate::record::RunRecord;
use crate::{Experiment, Figure, Prose, ReproduceError, Reproduction, Table};

/// A page and the pictures it shows.
#[derive(Clone, Debug)]
pub struct Document {
    /// The page.
    pub text: String,
    /// Names of the pictures and what they hold.
    pub pictures: Vec<(String, String)>,
}

/// The page over what the simulator found; pictures are looked for in `folder`, relative to the page.
///
/// # Errors
/// An experiment's text is not written as it must be.
pub fn markdown(
    experiments: &[&Experiment],
    results: &[Reproduction],
    folder: &str,
    interrupted: Option<&str>,
) -> Result<Document, ReproduceError> {
    let mut page = Document { text: HEAD.to_owned(), pictures: Vec::new() };
    let results: Vec<&Reproduction> = results.iter().filter(|result| !result.is_lab()).collect();
    if let Some(first) = results.first() {
        let _ = writeln!(page.text, "Made by Cellerator {}.\n", first.made_by.cellerator);
    }
    note(&mut page.text, interrupted);
    overview(&mut page.text, experiments, &results)?;
    sections(&mut page, experiments, &results, folder)?;
    Ok(page)
}

/// The page over what kernel TCP in the lab gave: the paper's values, the same scenario files in
/// virtual time, and the lab's.
///
/// # Errors
/// An experiment's text is not written as it must be.
pub fn lab_markdown(
    experiments: &[&Experiment],
    results: &[Reproduction],
    folder: &str,
    interrupted: Option<&str>,
) -> Result<Document, ReproduceError> {
    let mut page = Document { text: LAB_HEAD.to_owned(), pictures: Vec::new() };
    let results: Vec<&Reproduction> = results.iter().filter(|result| result.is_lab()).collect();
    made_on(&mut page.text, &results);
    note(&mut page.text, interrupted);
    lab_overview(&mut page.text, experiments, &results)?;
    sections(&mut page, experiments, &results, folder)?;
    Ok(page)
}

/// That the user ended it early.
fn note(text: &mut String, interrupted: Option<&str>) {
    if let Some(interrupted) = interrupted {
        let _ = writeln!(text, "**{}**\n", plain(interrupted));
    }
}

/// Text at the top of the page.
const HEAD: &str = include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/../../../experiments/head.md"));

/// Text at the top of the lab's page.
const LAB_HEAD: &str = include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/../../../experiments/head-lab.md"));

/// The machine, and how long all took.
fn made_on(text: &mut String, results: &[&Reproduction]) {
    let Some(first) = results.first() else { return };
    let made = &first.made_by;
    let processor = first.processor.as_deref().unwrap_or("processor unknown");
    let started = Instant::ZERO + Duration::from_secs(made.started_unix_s);
    let _ = write!(
        text,
        "Made on {} by Cellerator {} on Linux {}, {} × {processor}, with {}",
        date_of(started),
        made.cellerator,
        made.kernel,
        made.processors,
        made.programs.join(" and ")
    );
    let took: u32 = results.iter().filter_map(|result| result.took_s).sum();
    let _ = writeln!(text, "; it took {}.\n", in_words(took));
    let others = results.iter().filter(|other| {
        let other = &other.made_by;
        (&other.cellerator, &other.kernel, other.processors)
            != (&made.cellerator, &made.kernel, made.processors)
    });
    for other in others {
        let made = &other.made_by;
        let _ = writeln!(
            text,
            "`{}` was made by Cellerator {} on Linux {}, {} processors.\n",
            other.experiment, made.cellerator, made.kernel, made.processors
        );
    }
}

/// A time for people.
#[must_use]
pub fn in_words(seconds: u32) -> String {
    if seconds < 100 { format!("{seconds} s") } else { format!("{} min", seconds.div_ceil(60)) }
}

/// Each experiment with each of its results.
fn pairs<'a>(
    experiments: &'a [&Experiment],
    results: &'a [&Reproduction],
) -> impl Iterator<Item = (&'a Experiment, &'a Reproduction)> {
    experiments.iter().flat_map(|experiment| {
        let own = results.iter().filter(|result| result.experiment == experiment.name);
        own.map(|result| (*experiment, *result))
    })
}

/// Fields of a row that name an experiment and its part of a paper; it links to its section in `page`.
fn named(experiment: &Experiment, page: &str) -> Result<String, ReproduceError> {
    let Experiment { name, part, paper, .. } = experiment;
    let title = plain(&experiment.prose()?.title);
    Ok(format!("[{name}]({page}#{name}): {title} | [{}] {part}", paper.key()))
}

fn overview(
    text: &mut String,
    experiments: &[&Experiment],
    results: &[&Reproduction],
) -> Result<(), ReproduceError> {
    text.push_str("| experiment | paper | run by | aims reached |\n|---|---|---|---|\n");
    for (experiment, result) in pairs(experiments, results) {
        let (passed, all) = result.score();
        let _ = writeln!(
            text,
            "| {} | {} | {} |",
            named(experiment, "")?,
            result.made_by.runner,
            if all == 0 { "none set".to_owned() } else { format!("{passed} of {all}") }
        );
    }
    Ok(())
}

fn lab_overview(
    text: &mut String,
    experiments: &[&Experiment],
    results: &[&Reproduction],
) -> Result<(), ReproduceError> {
    text.push_str(
        "| experiment | paper | aims reached | simulated | \
        goodput, kernel ÷ simulated: median, least, most | runs | late p99 of the worst run, µs | \
        doubtful runs |\n\
         |---|---|---|---|---:|---:|---:|---:|\n",
    );
    for (experiment, result) in pairs(experiments, results) {
        let (passed, all) = result.score();
        let simulated = result.outcome.checks.iter().filter(|check| check.passes_simulated()).count();
        let measured: Vec<&RunRecord> = result.runs.iter().filter(|run| run.skipped.is_none()).collect();
        let _ = writeln!(
            text,
            "| {} | {passed} of {all} | {simulated} of {all} | {} | {} | {:.0} | {} |",
            named(experiment, "")?,
            agreement(result),
            measured.len(),
            result.latest_us(),
            measured.iter().filter(|run| run.distrusted.is_some()).count()
        );
    }
    text.push_str("\n**What the lab does not have**\n\n| experiment | paper | why |\n|---|---|---|\n");
    for experiment in experiments.iter().filter(|experiment| experiment.lab.seconds().is_none()) {
        let why = experiment.prose()?.not_in_lab.unwrap_or_default();
        let _ = writeln!(text, "| {} | {} |", named(experiment, "reproduction.md")?, plain(&why));
    }
    let missing = experiments.iter().filter(|experiment| {
        experiment.lab.seconds().is_some() && !results.iter().any(|r| r.experiment == experiment.name)
    });
    for experiment in missing {
        let _ = writeln!(
            text,
            "| {} | [{}] {} | not run yet |",
            experiment.name,
            experiment.paper.key(),
            experiment.part
        );
    }
    Ok(())
}

/// Median, least and most of what the lab's goodput is over that of virtual time.
fn agreement(result: &Reproduction) -> String {
    let ratios = result.agreement();
    match (median(&ratios), ratios.first(), ratios.last()) {
        (Some(median), Some(least), Some(most)) => format!("{median:.2}, {least:.2}, {most:.2}"),
        _ => "–".to_owned(),
    }
}

fn sections(
    page: &mut Document,
    experiments: &[&Experiment],
    results: &[&Reproduction],
    folder: &str,
) -> Result<(), ReproduceError> {
    let mut paper = None;
    for (experiment, result) in pairs(experiments, results) {
        if paper != Some(experiment.paper) {
            paper = Some(experiment.paper);
            let (key, title) = (experiment.paper.key(), experiment.paper.title());
            let _ = write!(page.text, "\n# [{key}] {title}\n");
        }
        section(page, experiment, result, folder)?;
    }
    Ok(())
}

/// Text that cannot end a table's field.
fn plain(text: &str) -> String {
    text.replace('|', "\\|")
}

fn section(
    page: &mut Document,
    experiment: &Experiment,
    result: &Reproduction,
    folder: &str,
) -> Result<(), ReproduceError> {
    let is_lab = result.is_lab();
    let Experiment { name, part, .. } = experiment;
    let Prose { title, asked, found, .. } = experiment.prose()?;
    let place = if is_lab { ", with kernel TCP" } else { "" };
    let _ = write!(
        page.text,
        "\n<a id=\"{name}\"></a>\n## {part}: {title}{place}\n\n{asked} {found} {}\n\n    {}\n\n",
        result.outcome.we_see,
        command(experiment, is_lab)
    );
    for check in &result.outcome.checks {
        let mark = if check.passed { "✓" } else { "✗" };
        let _ = writeln!(page.text, "- {mark} {}: {}", check.claim, check.numbers());
    }
    let suffix = if is_lab { "-lab" } else { "" };
    for (number, figure) in result.outcome.figures.iter().enumerate() {
        picture(
            page,
            folder,
            &format!("{name}{suffix}-{}", number + 1),
            figure,
            &command(experiment, is_lab),
        );
    }
    for table in &result.outcome.tables {
        tabled(&mut page.text, table);
    }
    for note in &result.outcome.notes {
        let _ = write!(page.text, "\n{note}\n");
    }
    for used in result.scenarios.iter().filter(|used| !used.description.is_empty()) {
        let _ = write!(page.text, "\nThe link: {}\n", used.description.replace('\n', " "));
    }
    if let Some(link) = result.links.first() {
        picture(page, folder, &format!("{name}{suffix}-link"), link, &command(experiment, is_lab));
    }
    made_of(&mut page.text, result);
    Ok(())
}

fn picture(page: &mut Document, folder: &str, name: &str, figure: &Figure, command: &str) {
    let Figure { title, caption, .. } = figure;
    let _ = write!(
        page.text,
        "\n<picture><source media=\"(max-width: 620px)\" srcset=\"{folder}/{name}-narrow.svg\">\
         <img src=\"{folder}/{name}.svg\" alt=\"{}\" width=\"860\"></picture>\n\n{caption}\n",
        escape(title)
    );
    let chart = chart(figure, command);
    for (suffix, width) in [("", Width::Wide), ("-narrow", Width::Narrow)] {
        page.pictures.push((format!("{name}{suffix}.svg"), chart.file(width)));
    }
}

fn tabled(text: &mut String, table: &Table) {
    let _ = write!(text, "\n**{}**\n\n| {} |", table.title, plain(&table.rows_are));
    let columns = table.shown();
    for shown in &columns {
        let parts = [plain(&shown.column.heading), shown.words(), shown.column.unit.clone()];
        let parts: Vec<String> = parts.into_iter().filter(|part| !part.is_empty()).collect();
        let _ = write!(text, " {} |", parts.join(", "));
    }
    text.push_str("\n|---|");
    text.push_str(&"---:|".repeat(columns.len()));
    text.push('\n');
    for row in &table.rows {
        let _ = write!(text, "| {} |", plain(&row.label));
        for shown in &columns {
            let _ = write!(text, " {} |", plain(&shown.text(row)));
        }
        text.push('\n');
    }
}

fn made_of(text: &mut String, result: &Reproduction) {
    let files: Vec<String> =
        result.scenarios.iter().map(|used| format!("`{}` (seed {})", used.file, used.seed)).collect();
    if !files.is_empty() {
        let _ = writeln!(text, "\nScenario: {}.", files.join(", "));
    }
    if result.is_lab() {
        runs(text, result);
    } else {
        for run in &result.runs {
            for fault in run.problems.iter().chain(&run.distrusted) {
                let _ = writeln!(text, "\n{}, case {}, seed {}: {fault}.", run.scenario, run.case, run.seed);
            }
        }
    }
}

/// Every run of the lab with its seed and the emulator's own error; below it what was skipped, and what
/// went wrong.
fn runs(text: &mut String, result: &Reproduction) {
    let measured = || result.runs.iter().filter(|run| run.skipped.is_none());
    let _ = write!(
        text,
        "\n<details><summary>{} runs, with the emulator's own error: the worst p99 is {:.0} µs</summary>\n\n\
         | scenario | case | seed | goodput, simulated, Mbit/s | goodput, kernel, Mbit/s | \
         queue p95, ms | late p50, µs | p99, µs | most, µs | to be believed |\n\
         |---|---|---:|---:|---:|---:|---:|---:|---:|---|\n",
        measured().count(),
        result.latest_us()
    );
    for run in measured() {
        let again = match run.repeated {
            None => String::new(),
            Some(1) => ", run again once".to_owned(),
            Some(times) => format!(", run again {times} times"),
        };
        let verdict = match run.distrusted.as_deref() {
            None => format!("yes{again}"),
            Some(why) => format!("no{again}: {}", plain(why)),
        };
        let _ = writeln!(
            text,
            "| {} | {} | {} | {} | {verdict} |",
            plain(&run.scenario),
            plain(&run.case),
            run.seed,
            run.numbers().join(" | ")
        );
    }
    text.push_str("\n</details>\n");
    for run in &result.runs {
        for fault in &run.problems {
            let _ = writeln!(text, "\n{}, case {}, seed {}: {fault}.", run.scenario, run.case, run.seed);
        }
    }
    for (why, cases) in result.skipped() {
        let _ = writeln!(text, "\nNot run ({}): {why}.", cases.join("; "));
    }
}

#[cfg(test)]
mod tests;
