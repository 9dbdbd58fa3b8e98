//! `cellerator sim run` of a scenario with several radios.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, Result, bail};
use lab::radios::{MultiPathResult, MultiPathResults, MultiPathRun, SCHEMA};
use parallel::in_parallel_until;
use scenario::MultiPath;
use sim::MultiPathCaseRun;

use super::{RunArgs, made_by, threads};
use crate::interruption::{self, Interruption};
use crate::output::Words;
use crate::{lab_multipath, writable};

/// The scenario in a file, if it is one of several radios.
pub(super) fn read(path: &Path) -> Result<Option<MultiPath>> {
    let name = path.display().to_string();
    let toml = fs::read_to_string(path).with_context(|| format!("cannot read {name}"))?;
    Ok(MultiPath::is_meant(&toml).then(|| MultiPath::from_toml(&name, &toml)).transpose()?)
}

/// Runs its cases and reports.
pub(super) fn run(args: &RunArgs, mut scenario: MultiPath) -> Result<ExitCode> {
    let file = args.scenario.display();
    if args.packets {
        bail!("{file}: with several radios the simulator has no packets to write: leave --packets");
    }
    if args.captures.is_some() {
        bail!("{file}: with several radios the simulator has no packets to capture: leave --captures");
    }
    scenario.seed = args.seed.unwrap_or(scenario.seed);
    scenario.repetitions = args.seeds.unwrap_or(scenario.repetitions).max(1);
    let in_out = |name: &str| args.out.as_ref().map(|out| out.join(name));
    let json = args.json.clone().or_else(|| in_out("results.json"));
    let html = args.html.clone().or_else(|| in_out("report.html"));
    if let Some(out) = &args.out {
        fs::create_dir_all(out).with_context(|| format!("cannot make {}", out.display()))?;
    }
    let words = Words::beside([json.as_deref(), html.as_deref()])?;
    [&json, &html].into_iter().flatten().try_for_each(|path: &PathBuf| writable::file(path))?;
    let jobs = jobs(args, &scenario)?;
    let interruption = Interruption::listen()?;
    let outcomes = in_parallel_until(jobs.len(), threads(args.threads), interruption.flag(), |index| {
        let outcome = jobs[index].run();
        if let Ok(run) = &outcome {
            eprintln!("{}: {}", scenario.name, lab_multipath::line(run));
        }
        outcome
    });
    let runs: Vec<MultiPathRun> = outcomes.into_iter().flatten().collect::<Result<_, _>>()?;
    let (finished, wanted) = (runs.len(), jobs.len());
    let is_good = runs.iter().all(|run| run.error.is_none() && run.is_intact);
    let result = MultiPathResult { scenario, runs };
    words.say(&lab::radios::table(&result));
    let results =
        MultiPathResults { schema: SCHEMA.to_owned(), made_by: made_by(args), scenarios: vec![result] };
    lab_multipath::write(json.as_deref(), html.as_deref(), &results)?;
    if finished < wanted {
        let files = [&json, &html].into_iter().flatten().map(PathBuf::as_path);
        interruption::tell(&format!("sim run: interrupted after {finished} of {wanted} runs"), files);
        return Ok(interruption.code());
    }
    Ok(if is_good { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn jobs(args: &RunArgs, scenario: &MultiPath) -> Result<Vec<MultiPathCaseRun>> {
    let is_wanted = |name: &str| args.case.as_deref().is_none_or(|only| only == name);
    if let Some(name) = args.case.as_deref().filter(|only| scenario.cases.iter().all(|c| c.name != *only)) {
        let names: Vec<&str> = scenario.cases.iter().map(|case| case.name.as_str()).collect();
        bail!("{}: no case is named `{name}`; there are {}", args.scenario.display(), names.join(", "));
    }
    let traces = args.scenario.parent().unwrap_or(Path::new("."));
    let mut jobs = Vec::new();
    for repetition in 1..=scenario.repetitions {
        for case in scenario.cases.iter().filter(|case| is_wanted(&case.name)) {
            let read = &mut |file: &str| lab::read_trace(traces, file);
            jobs.push(MultiPathCaseRun::new(scenario, case, repetition, read)?);
        }
    }
    Ok(jobs)
}
