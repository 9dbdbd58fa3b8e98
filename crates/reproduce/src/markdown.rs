//! [`markdown`]: all results as a page for the repository, with its figures as files.

use std::fmt::Write as _;

use crate::draw::svg;
use crate::page::command;
use crate::{Experiment, Figure, Reproduction, Source, Table};

/// A page and the pictures it shows.
#[derive(Clone, Debug)]
pub struct Document {
    /// The page.
    pub text: String,
    /// Names of the pictures and what they hold.
    pub pictures: Vec<(String, String)>,
}

/// The page over `results`; pictures are looked for in `folder`, relative to the page.
#[must_use]
pub fn markdown(experiments: &[&Experiment], results: &[Reproduction], folder: &str) -> Document {
    let mut page = Document { text: HEAD.to_owned(), pictures: Vec::new() };
    overview(&mut page.text, experiments, results);
    let mut paper = None;
    for experiment in experiments {
        for result in results.iter().filter(|r| r.experiment == experiment.name) {
            if paper != Some(experiment.paper) {
                paper = Some(experiment.paper);
                let (key, title) = (experiment.paper.key(), experiment.paper.title());
                let _ = write!(page.text, "\n# [{key}] {title}\n");
            }
            section(&mut page, experiment, result, folder);
        }
    }
    page
}

const HEAD: &str = "# Reproduction of the papers

Written by `cellerator reproduce --all --markdown docs/reproduction.md`: do not edit. Every value of ours comes from the runs of that
command; the paper's are printed beside them. The papers ran on real networks, we on links fitted to what they tell of theirs: expect the shape and
the ratios, not the digits. `cellerator reproduce --list` names the experiments, `cellerator reproduce NAME` runs one and writes an HTML page
that also shows the links; `--lab` runs with kernel TCP what exists there.

";

fn overview(text: &mut String, experiments: &[&Experiment], results: &[Reproduction]) {
    text.push_str("| experiment | paper | run by | aims reached |\n|---|---|---|---|\n");
    for experiment in experiments {
        for result in results.iter().filter(|r| r.experiment == experiment.name) {
            let (passed, all) = result.score();
            let _ = writeln!(
                text,
                "| [{0}](#{0}): {1} | [{2}] {3} | {4} | {passed} of {all} |",
                experiment.name,
                plain(experiment.title),
                experiment.paper.key(),
                experiment.part,
                result.made_by.runner
            );
        }
    }
}

/// Text that cannot end a table's field.
fn plain(text: &str) -> String {
    text.replace('|', "\\|")
}

fn section(page: &mut Document, experiment: &Experiment, result: &Reproduction, folder: &str) {
    let is_lab = result.made_by.runner == "lab";
    let Experiment { name, part, title, asked, found, .. } = experiment;
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
            &format!("{name}{suffix}-{}.svg", number + 1),
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
        picture(page, folder, &format!("{name}{suffix}-link.svg"), link, &command(experiment, is_lab));
    }
    made_of(&mut page.text, result);
}

fn picture(page: &mut Document, folder: &str, name: &str, figure: &Figure, command: &str) {
    let _ = write!(page.text, "\n![{}]({folder}/{name})\n\n{}\n", figure.title, figure.caption);
    page.pictures.push((name.to_owned(), svg(figure, command)));
}

fn tabled(text: &mut String, table: &Table) {
    let _ = write!(text, "\n**{}**\n\n| {} |", table.title, plain(&table.rows_are));
    for column in &table.columns {
        let unit = if column.unit.is_empty() { String::new() } else { format!(", {}", column.unit) };
        let word = match column.source {
            Source::Ratio => String::new(),
            source => format!(", {}", source.word()),
        };
        let _ = write!(text, " {}{word}{unit} |", plain(&column.heading));
    }
    text.push_str("\n|---|");
    text.push_str(&"---:|".repeat(table.columns.len()));
    text.push('\n');
    for row in &table.rows {
        let _ = write!(text, "| {} |", plain(&row.label));
        for (_, value) in table.texts(row) {
            let _ = write!(text, " {} |", plain(&value));
        }
        text.push('\n');
    }
}

fn made_of(text: &mut String, result: &Reproduction) {
    let files: Vec<String> =
        result.scenarios.iter().map(|used| format!("`{}` (seed {})", used.file, used.seed)).collect();
    let _ = write!(text, "\nScenario: {}.", files.join(", "));
    if result.made_by.runner == "lab" {
        let late = result.runs.iter().filter_map(|run| run.late_p99_us).fold(0.0, f64::max);
        let _ = write!(
            text,
            " Linux {}; the emulator's own lateness: p99 of the worst run {late:.0} µs.",
            result.made_by.kernel
        );
    }
    text.push('\n');
    for run in &result.runs {
        for fault in run.problems.iter().chain(&run.distrusted) {
            let _ = writeln!(text, "\n{}, case {}, seed {}: {fault}.", run.scenario, run.case, run.seed);
        }
    }
}
