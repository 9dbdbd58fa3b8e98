//! Running scenarios and saying what came out: shared by `lab run` and `demo`.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use io::Signals;
use lab::{Instance, Runner};
use scenario::Scenario;
use scenario::results::{Results, SCHEMA, ScenarioResult};

use crate::progress::Display;

/// Where to write results.
pub struct Files<'a> {
    /// The results as JSON.
    pub json: Option<&'a Path>,
    /// The report as HTML.
    pub html: Option<&'a Path>,
    /// The report's title.
    pub title: &'a str,
}

/// Runs `scenarios`, prints a table and a sentence for each, and writes the files wanted.
///
/// The exit code says failure when a transfer did not come out as it must.
pub fn run(
    scenarios: &[Scenario],
    only: Option<&str>,
    traces: &Path,
    name: Option<&str>,
    files: &Files<'_>,
) -> Result<ExitCode, String> {
    // Before the first case: a path that cannot be written should not cost minutes.
    for path in [files.json, files.html].into_iter().flatten() {
        create_parent(path)?;
    }
    let signals = Signals::terminating().map_err(|e| e.to_string())?;
    let titles: Vec<&str> = scenarios.iter().map(Scenario::heading).collect();
    let instance = Instance::register(name, &titles.join(", ")).map_err(|e| e.to_string())?;
    let program = std::env::current_exe().map_err(|e| format!("cannot find this program's own file: {e}"))?;
    let runner = Runner { instance: &instance, signals: &signals, program, traces: traces.to_owned() };
    let made_by = lab::made_by(env!("CARGO_PKG_VERSION"), &command_line());
    let mut results = Results { schema: SCHEMA.to_owned(), made_by, scenarios: Vec::new() };
    for scenario in scenarios {
        let mut display = Display::new(scenario.heading());
        let result =
            runner.run(scenario, only, &mut |step| display.show(&step)).map_err(|e| e.to_string())?;
        drop(display);
        print(&result);
        results.scenarios.push(result);
    }
    write(&results, files)?;
    let cases = results.scenarios.iter().flat_map(|s| &s.cases);
    Ok(if cases.into_iter().all(|c| c.problems.is_empty()) { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn print(result: &ScenarioResult) {
    println!("\n{}\n\n  {}\n", report::summary(result), report::sentence(result));
}

fn write(results: &Results, files: &Files<'_>) -> Result<(), String> {
    let save = |path: &Path, text: String| {
        fs::write(path, text).map_err(|e| format!("cannot write {}: {e}", path.display()))?;
        println!("  wrote {}", path.display());
        Ok::<(), String>(())
    };
    if let Some(path) = files.html {
        save(path, report::page(files.title, results))?;
    }
    if let Some(path) = files.json {
        let json = serde_json::to_string_pretty(results).map_err(|e| format!("results as JSON: {e}"))?;
        save(path, json + "\n")?;
    }
    Ok(())
}

fn create_parent(path: &Path) -> Result<(), String> {
    let parent =
        path.parent().filter(|p| !p.as_os_str().is_empty()).map_or(PathBuf::from("."), Path::to_owned);
    fs::create_dir_all(&parent).map_err(|e| format!("cannot create {}: {e}", parent.display()))
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
