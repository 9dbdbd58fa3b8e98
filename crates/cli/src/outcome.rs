//! Running scenarios and saying what came out: shared by `lab run` and `demo`.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, Error, Result};
use io::Signals;
use lab::{Instance, LabError, Recording, Runner};
use report::CaseFlow;
use scenario::Scenario;
use scenario::results::{Interrupted, Picture, Results, SCHEMA, ScenarioResult};

use crate::output::{self, Words};
use crate::progress::Display;
use crate::{interruption, writable};

/// Paths of results.
pub struct Files<'a> {
    /// The results as JSON.
    pub json: Option<&'a Path>,
    /// The report as HTML.
    pub html: Option<&'a Path>,
    /// The report's title.
    pub title: &'a str,
    /// A folder for captures of each run, made at both ends; the report then shows what they say.
    pub captures: Option<&'a Path>,
    /// Draws pictures from what all scenarios gave; may run more.
    pub pictures: Option<Draw<'a>>,
}

/// Draws pictures from results, with more runs where those are not enough.
pub type Draw<'a> = &'a dyn Fn(&Runner<'_>, &Results) -> Result<Vec<Picture>, LabError>;

/// Runs `scenarios`, prints a table and a sentence for each, and writes the files wanted.
///
/// The exit code says failure when a transfer did not come out as it must.
pub fn run(
    scenarios: &[Scenario],
    only: Option<&str>,
    traces: &Path,
    name: Option<&str>,
    files: &Files<'_>,
) -> Result<ExitCode> {
    for scenario in scenarios {
        check(scenario, only, traces)?;
    }
    let (words, folders) = (files.words()?, files.prepare()?);
    let signals = Signals::terminating()?;
    let titles: Vec<&str> = scenarios.iter().map(Scenario::heading).collect();
    let instance = Instance::register(name, &titles.join(", "))?;
    let program = std::env::current_exe().context("cannot find this program's own file")?;
    let captures = files.captures.map(Path::to_owned);
    let runner =
        Runner { instance: &instance, signals: &signals, program, traces: traces.to_owned(), captures };
    let made_by = lab::made_by(env!("CARGO_PKG_VERSION"), &command_line());
    let mut results = Results {
        schema: SCHEMA.to_owned(),
        made_by,
        scenarios: Vec::new(),
        pictures: Vec::new(),
        interrupted: None,
    };
    for scenario in scenarios {
        let mut display = Display::new(scenario.heading());
        let (result, end) = runner.run_while(scenario, only, &mut |step| display.show(&step));
        drop(display);
        if !result.cases.is_empty() {
            print(words, &result);
            results.scenarios.push(result);
        }
        match end {
            Ok(()) => {}
            Err(LabError::Interrupted) => {
                results.interrupted = Some(reached(&results, scenarios, only)?);
                break;
            }
            Err(error) => {
                folders.iter().for_each(|folder| drop(fs::remove_dir(folder)));
                return Err(error.into());
            }
        }
    }
    if let Some(draw) = files.pictures.filter(|_| results.interrupted.is_none()) {
        match draw(&runner, &results) {
            Ok(pictures) => results.pictures = pictures,
            Err(LabError::Interrupted) => {
                let Interrupted { finished, of } = reached(&results, scenarios, only)?;
                results.interrupted = Some(Interrupted { finished, of: of + 1 });
            }
            Err(error) => return Err(error.into()),
        }
    }
    if let Some(interrupted) = results.interrupted.filter(|interrupted| interrupted.finished == 0) {
        folders.iter().for_each(|folder| drop(fs::remove_dir(folder)));
        eprintln!("cellerator: {interrupted}; nothing is written");
        return Ok(interruption::code(signals.taken()));
    }
    let flows = files.captured(&results)?;
    files.write(&results, &flows)?;
    if let Some(interrupted) = results.interrupted {
        interruption::tell(&interrupted.to_string(), files.all());
        return Ok(interruption::code(signals.taken()));
    }
    let is_good = results.scenarios.iter().all(is_good);
    Ok(if is_good { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Progress of the runs of `scenarios`.
fn reached(results: &Results, scenarios: &[Scenario], only: Option<&str>) -> Result<Interrupted> {
    let runs = |scenario: &Scenario| {
        let cases = scenario.chosen(only)?;
        Ok(cases.len() * scenario.repetitions as usize)
    };
    let of = scenarios.iter().map(runs).sum::<Result<usize>>()?;
    Ok(Interrupted { finished: results.scenarios.iter().map(|result| result.cases.len()).sum(), of })
}

/// True when every transfer of `result` came out as it must.
pub fn is_good(result: &ScenarioResult) -> bool {
    result.cases.iter().all(|case| case.problems.is_empty())
}

/// Refuses what a later case could not start with, before an earlier one costs its time.
fn check(scenario: &Scenario, only: Option<&str>, traces: &Path) -> Result<()> {
    for case in scenario.chosen(only)? {
        let at = || format!("{}: case `{}`", scenario.name, case.name);
        if case.accelerator.enabled.unwrap_or(false) {
            let config = run::engine_config_of(&case.run_arguments()).map_err(Error::msg);
            config.context("accelerator").with_context(at)?;
        }
        case.links(scenario.seed, &mut |file| {
            lab::read_trace(traces, file)
                .map_err(|e| format!("cannot read {}: {e}", traces.join(file).display()))
        })
        .with_context(at)?;
    }
    Ok(())
}

/// Prints the table and the sentence of a scenario, and what is doubtful.
pub fn print(words: Words, result: &ScenarioResult) {
    let (table, gone) = report::summary(result).fitting(words.columns(), &report::SUMMARY_MAY_GO);
    let mut text = format!("\n{table}");
    let mut note = |line: String| text += &format!("  {line}\n");
    if result.scenario.repetitions > 1 {
        note(format!("means of {} seeds, ± standard deviation", result.scenario.repetitions));
    }
    if !gone.is_empty() {
        note(format!("the terminal is too narrow for: {}", gone.join(", ")));
    }
    for case in &result.cases {
        let seed =
            if result.scenario.repetitions > 1 { format!(" (seed {})", case.seed) } else { String::new() };
        case.doubts.iter().for_each(|doubt| note(format!("? {}{seed}: {doubt}", case.name)));
    }
    words.say(&format!("{text}\n  {}\n", report::sentence(result)));
}

impl Files<'_> {
    /// Output for the words for people.
    pub fn words(&self) -> Result<Words> {
        Words::beside([self.json, self.html])
    }

    /// All that is written.
    pub fn all(&self) -> impl Iterator<Item = &Path> {
        [self.html, self.json, self.captures].into_iter().flatten()
    }

    /// Makes the directories and tries the files: a path that cannot be written should not cost
    /// minutes. Gives those of captures that were not there, the innermost first.
    pub fn prepare(&self) -> Result<Vec<PathBuf>> {
        let inner = self.captures.into_iter().flat_map(Path::ancestors);
        let made: Vec<PathBuf> = inner.take_while(|folder| !folder.exists()).map(Path::to_owned).collect();
        [self.json, self.html].into_iter().flatten().try_for_each(writable::file)?;
        self.captures.map(writable::folder).transpose()?;
        Ok(made)
    }

    /// Each case's largest flow as its first capture beside the server has it.
    fn captured(&self, results: &Results) -> Result<Vec<CaseFlow>> {
        let mut flows = Vec::new();
        let Some(folder) = self.captures else { return Ok(flows) };
        for result in &results.scenarios {
            let firsts = result.cases.iter().filter(|case| case.repetition == 1 && case.figures.is_some());
            for case in firsts {
                let name = lab::run_name(&result.scenario, &case.settings, case.repetition);
                let path = Recording::in_folder(folder, &name).server;
                let flow = CaseFlow::new(&result.scenario.name, &case.name);
                flows.push(crate::analyze::read_file(&path, flow)?);
            }
        }
        eprintln!("  captures of both ends are in {}", folder.display());
        Ok(flows)
    }

    /// Writes the files wanted.
    pub fn write(&self, results: &Results, flows: &[CaseFlow]) -> Result<()> {
        if let Some(path) = self.html {
            output::save(path, &report::page_with_flows(self.title, results, flows))?;
        }
        if let Some(path) = self.json {
            let json = serde_json::to_string_pretty(results).context("results as JSON")?;
            output::save(path, &(json + "\n"))?;
        }
        Ok(())
    }
}

/// Reads a scenario file; the scenario, and where its trace files are.
pub fn read(path: &Path) -> Result<(Scenario, PathBuf)> {
    let name = path.display().to_string();
    let toml = fs::read_to_string(path).with_context(|| format!("cannot read {name}"))?;
    let traces = path.parent().unwrap_or(Path::new(".")).to_owned();
    Ok((Scenario::from_toml(&name, &toml)?, traces))
}

/// This command as one would type it.
pub fn command_line() -> String {
    let quoted = |argument: String| {
        let is_plain = argument.chars().all(|c| c.is_ascii_alphanumeric() || "-_./:=,+%@".contains(c));
        if is_plain && !argument.is_empty() {
            argument
        } else {
            format!("'{}'", argument.replace('\'', "'\\''"))
        }
    };
    std::iter::once("cellerator".to_owned())
        .chain(std::env::args().skip(1).map(quoted))
        .collect::<Vec<_>>()
        .join(" ")
}
