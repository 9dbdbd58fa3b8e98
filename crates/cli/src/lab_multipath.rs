//! `cellerator lab multipath`.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, Result, bail};
use io::Signals;
use lab::radios::{MultiPathResult, MultiPathResults, MultiPathRun, SCHEMA};
use lab::{Instance, LabError, Runner};
use scenario::MultiPath;

use crate::output::{self, Words};
use crate::{interruption, outcome, writable};

/// Arguments of `cellerator lab multipath`.
#[derive(clap::Args)]
pub struct Args {
    /// Scenario files
    #[arg(required = true)]
    scenarios: Vec<PathBuf>,
    /// Run only this case
    #[arg(long)]
    case: Option<String>,
    /// Run each case so often [default: as the file says]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    repetitions: Option<u32>,
    /// Of each case, run only the repetition of this number, with its seed
    #[arg(long, value_name = "N", conflicts_with = "repetitions", value_parser = clap::value_parser!(u32).range(1..))]
    run: Option<u32>,
    /// Name of the lab [default: the process's number]
    #[arg(long)]
    name: Option<String>,
    /// Write the results as JSON (schemas/multipath-lab.schema.json)
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Write a report as one HTML page
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
    /// Put the results in these files together, without a run; a run in a later file replaces the same in an
    /// earlier one
    #[arg(long, conflicts_with_all = ["case", "repetitions", "run", "events"])]
    from_json: bool,
    /// Print what the path manager said in each run
    #[arg(long)]
    events: bool,
}

/// Runs `cellerator lab multipath`; an error is one clear line: what, where, what to do.
pub fn main(args: &Args) -> Result<ExitCode> {
    let words = Words::beside([args.json.as_deref(), args.html.as_deref()])?;
    [&args.json, &args.html].into_iter().flatten().try_for_each(|path| writable::file(path))?;
    if args.from_json {
        return from_json(args, words);
    }
    let mut scenarios = Vec::new();
    for path in &args.scenarios {
        let text = fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))?;
        let mut read = MultiPath::from_toml(&path.display().to_string(), &text)?;
        read.repetitions = args.repetitions.unwrap_or(read.repetitions);
        if let Some(name) = args.case.as_deref().filter(|name| read.cases.iter().all(|c| c.name != *name)) {
            let names: Vec<&str> = read.cases.iter().map(|c| c.name.as_str()).collect();
            bail!("{}: no case is named `{name}`; there are {}", path.display(), names.join(", "));
        }
        scenarios.push((path, read));
    }
    io::features::require(io::features::Feature::Namespaces)?;
    io::netlink::PathManager::open()?;
    let signals = Signals::terminating()?;
    let instance = Instance::register(args.name.as_deref(), "multi-path")?;
    let program = std::env::current_exe().context("cannot find this program's own file")?;
    let mut results = MultiPathResults {
        schema: SCHEMA.to_owned(),
        made_by: lab::made_by(env!("CARGO_PKG_VERSION"), &outcome::command_line()),
        scenarios: Vec::new(),
    };
    let mut code = ExitCode::SUCCESS;
    for (path, scenario) in &scenarios {
        let (program, traces) = (program.clone(), path.parent().unwrap_or(Path::new(".")).to_owned());
        let runner = Runner { instance: &instance, signals: &signals, program, traces, captures: None };
        let mut tell = |run: &MultiPathRun| {
            eprintln!("{}: {}", scenario.name, line(run));
            if args.events {
                run.events.iter().for_each(|event| eprintln!("    {event}"));
            }
        };
        match runner.run_radios(scenario, args.case.as_deref(), args.run, &mut tell) {
            Ok(result) => {
                words.say(&lab::radios::table(&result));
                if result.runs.iter().any(|run| run.error.is_some() || !run.is_intact) {
                    code = ExitCode::FAILURE;
                }
                results.scenarios.push(result);
            }
            Err(LabError::Interrupted) => return Ok(interruption::code(signals.taken())),
            Err(error) => return Err(error.into()),
        }
    }
    write(args.json.as_deref(), args.html.as_deref(), &results)?;
    Ok(code)
}

/// A run in one line.
pub(crate) fn line(run: &MultiPathRun) -> String {
    let mut line = format!(
        "{}, run {}: {:.2} Mbit/s, longest stall {:.0} ms at {:.2} s",
        run.case, run.repetition, run.goodput_mbps, run.longest_stall_ms, run.stalled_at_s
    );
    for reuse in &run.reuses {
        let after = reuse.after_ms.map_or("never".to_owned(), |ms| format!("{ms:.0} ms"));
        line.push_str(&format!(", {} used again after {after}", reuse.radio));
    }
    for connect in &run.connects {
        let never = || format!("never within {} s", connect.limit_s);
        let up = connect.up_ms.map_or_else(never, |ms| format!("{ms:.0} ms"));
        line.push_str(&format!(", connect at {} s: {up}", connect.at_s));
    }
    if let Some(error) = &run.error {
        line.push_str(&format!("; FAILED: {error}"));
    }
    if let Some(why) = &run.distrusted {
        line.push_str(&format!("; DOUBTFUL: {why}"));
    }
    if !run.is_intact {
        line.push_str("; NOT INTACT");
    }
    if let Some(is_restored) = run.is_profile_restored {
        line.push_str(if is_restored {
            ", profile restored after the kill"
        } else {
            ", profile NOT restored"
        });
    }
    line
}

fn from_json(args: &Args, words: Words) -> Result<ExitCode> {
    let mut results: Option<MultiPathResults> = None;
    for path in &args.scenarios {
        let text = fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))?;
        let read = read_results(&text).with_context(|| path.display().to_string())?;
        match &mut results {
            None => results = Some(read),
            Some(all) => all.add(read),
        }
    }
    let Some(results) = results else { return Ok(ExitCode::SUCCESS) };
    let each = |result: &MultiPathResult| words.say(&lab::radios::table(result));
    results.scenarios.iter().for_each(each);
    write(args.json.as_deref(), args.html.as_deref(), &results)?;
    Ok(ExitCode::SUCCESS)
}

fn read_results(text: &str) -> Result<MultiPathResults> {
    let read: serde_json::Value = serde_json::from_str(text).context("no JSON")?;
    match read["schema"].as_str() {
        Some(SCHEMA) => serde_json::from_str(text).with_context(|| format!("not as `{SCHEMA}` says")),
        other => {
            let what = other.map_or("something else".to_owned(), |schema| format!("`{schema}`"));
            bail!("has {what}, not the results of `lab multipath --json` (`{SCHEMA}`)")
        }
    }
}

/// Writes results and report to the files that are wanted.
pub(crate) fn write(json: Option<&Path>, html: Option<&Path>, results: &MultiPathResults) -> Result<()> {
    if let Some(path) = json {
        let json = serde_json::to_string(results).context("as JSON")?;
        output::save(path, &(json + "\n"))?;
    }
    if let Some(path) = html {
        output::save(path, &lab::radios::page(results))?;
    }
    Ok(())
}
