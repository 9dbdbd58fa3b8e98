//! `cellerator sim`.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use anyhow::{Context, Error, Result};
use clap::Subcommand;
use engine::EngineConfig;
use io::Clock;
use parallel::in_parallel_until;
use scenario::results::{CaseResult, Interrupted, MadeBy, Results, SCHEMA, ScenarioResult};
use scenario::{Case, Scenario};
use sim::{CaseOutcome, CaseRun, LogMode, SimError};
use units::{Bytes, Duration};

use crate::interruption::{self, Interruption};
use crate::outcome::{self, Files};
use crate::progress::{self, Line};

mod captures;
mod digest;
mod radios;
mod soak;

/// Arguments of `cellerator sim`.
#[derive(clap::Args)]
pub struct Args {
    #[command(subcommand)]
    command: SimCommand,
}

#[derive(Subcommand)]
enum SimCommand {
    /// Run every case of a scenario in virtual time and report
    Run(RunArgs),
    /// Search for faults of the engine: random networks, with every rule of the simulator checked
    Soak(soak::Args),
    /// Print a hash of all packets, times and counters of scenarios and random runs, to show that a
    /// change left them as they were
    Digest(digest::Args),
}

#[derive(clap::Args)]
struct RunArgs {
    /// Scenario file
    scenario: PathBuf,
    /// Run only this case
    #[arg(long)]
    case: Option<String>,
    /// Seed of the first repetition [default: the scenario's]
    #[arg(long)]
    seed: Option<u64>,
    /// Number of seeds, from the first on [default: the scenario's `repetitions`]
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..))]
    seeds: Option<u32>,
    /// Runs at the same time; does not change the results [default: the number of processors]
    #[arg(long)]
    threads: Option<usize>,
    /// Write results.json and report.html to this folder
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// With --out: also write every packet of every run, as text
    #[arg(long, requires = "out")]
    packets: bool,
    /// Write a capture of each run to this folder: CASE-SEED.pcapng
    #[arg(long, value_name = "DIR")]
    captures: Option<PathBuf>,
    #[command(flatten)]
    captured: captures::Captured,
    /// Write the results as JSON (schemas/lab-results.schema.json; of several radios: multipath-lab.schema.json)
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Write a report as one HTML page
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
}

/// Runs `cellerator sim`; an error is one clear line: what, where, what to do.
pub fn main(args: Args) -> Result<ExitCode> {
    match args.command {
        SimCommand::Run(args) => run(&args),
        SimCommand::Soak(args) => soak::main(&args),
        SimCommand::Digest(args) => digest::main(&args),
    }
}

/// Number of runs at the same time.
fn threads(asked: Option<usize>) -> usize {
    asked.unwrap_or_else(io::sched::cpu_count).max(1)
}

/// A case and repetition to run.
struct Job {
    case: Case,
    repetition: u32,
    seed: u64,
    run: CaseRun,
    capture: Option<PathBuf>,
    accelerator_command: Option<String>,
}

fn run(args: &RunArgs) -> Result<ExitCode> {
    if let Some(scenario) = radios::read(&args.scenario)? {
        return radios::run(args, scenario);
    }
    let (mut scenario, traces) = outcome::read(&args.scenario)?;
    scenario.seed = args.seed.unwrap_or(scenario.seed);
    scenario.repetitions = args.seeds.unwrap_or(scenario.repetitions).max(1);
    let title = format!("Cellerator: {}", scenario.heading());
    let in_out = |name: &str| args.out.as_ref().map(|out| out.join(name));
    let json = args.json.clone().or_else(|| in_out("results.json"));
    let html = args.html.clone().or_else(|| in_out("report.html"));
    let files =
        Files { json: json.as_deref(), html: html.as_deref(), title: &title, captures: None, pictures: None };
    let words = files.words()?;
    files.prepare()?;
    let log = if args.packets { LogMode::Text } else { LogMode::Hash };
    let mut jobs = jobs(&scenario, args.case.as_deref(), log, &traces)?;
    if let Some(folder) = &args.captures {
        captures::prepare(folder, &mut jobs)?;
    }
    eprintln!("{}", scenario.heading());
    let (interruption, wanted) = (Interruption::listen()?, jobs.len());
    let began = Clock::now();
    let outcomes = run_all(&jobs, &args.captured, threads(args.threads), interruption.flag());
    let took = Clock::now().saturating_since(began);
    let mut cases = Vec::new();
    for (job, outcome) in jobs.into_iter().zip(outcomes) {
        let Some(outcome) = outcome else { continue };
        let (result, packets) = job.result(outcome?);
        progress::tell(&result);
        tell_replay(args, &result);
        if let Some(out) = args.out.as_ref().filter(|_| args.packets) {
            save_packets(out, &result, &packets)?;
        }
        cases.push(result);
    }
    let finished = cases.len();
    let interrupted = (finished < wanted).then_some(Interrupted { finished, of: wanted });
    if let Some(interrupted) = interrupted.filter(|_| finished == 0) {
        eprintln!("cellerator: sim run: {interrupted}; nothing is written");
        return Ok(interruption.code());
    }
    let simulated: f64 = cases.iter().filter_map(|c| c.simulation.as_ref()).map(|s| s.simulated_s).sum();
    let result = ScenarioResult { scenario, cases };
    outcome::print(words, &result);
    words.say(&format!(
        "  {simulated:.1} simulated seconds in {:.2} s: {:.0} times as fast as real time\n",
        took.as_secs_f64(),
        simulated / took.as_secs_f64().max(1e-9)
    ));
    let is_good = outcome::is_good(&result);
    let scenarios = vec![result];
    let pictures = Vec::new();
    let results =
        Results { schema: SCHEMA.to_owned(), made_by: made_by(args), scenarios, pictures, interrupted };
    files.write(&results, &[])?;
    if let Some(interrupted) = interrupted {
        interruption::tell(&format!("sim run: {interrupted}"), files.all());
        return Ok(interruption.code());
    }
    Ok(if is_good { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Every case and repetition of `scenario`, which has no trace files, on all processors; nothing
/// where `is_over` ended it.
pub(crate) fn simulated(scenario: &Scenario, is_over: &AtomicBool) -> Result<Option<ScenarioResult>> {
    let jobs = jobs(scenario, None, LogMode::Hash, Path::new("."))?;
    let outcomes = run_all(&jobs, &captures::Captured::default(), threads(None), is_over);
    let Some(outcomes) = outcomes.into_iter().collect::<Option<Vec<_>>>() else { return Ok(None) };
    let cases = jobs.into_iter().zip(outcomes).map(|(job, outcome)| Ok(job.result(outcome?).0));
    Ok(Some(ScenarioResult { scenario: scenario.clone(), cases: cases.collect::<Result<_>>()? }))
}

fn jobs(scenario: &Scenario, only: Option<&str>, log: LogMode, traces: &Path) -> Result<Vec<Job>> {
    let cases = scenario.chosen(only)?;
    let mut jobs = Vec::new();
    for repetition in 1..=scenario.repetitions {
        let seed = scenario.seed.wrapping_add(u64::from(repetition - 1));
        for case in &cases {
            let plan = case.links(seed, &mut |file| lab::read_trace(traces, file))?;
            let engine = engine(case).map_err(Error::msg)?;
            let arguments = engine.as_ref().map(|_| case.run_arguments());
            jobs.push(Job {
                run: CaseRun::new(case, &plan, engine, (seed, scenario.time_limit.0), log),
                capture: None,
                case: case.clone(),
                repetition,
                seed,
                accelerator_command: arguments
                    .map(|list| format!("engine of `cellerator run {}`", list.join(" "))),
            });
        }
    }
    Ok(jobs)
}

/// The engine that `cellerator run` would be started with, by the same reading of its arguments. Its error is text:
/// so do crates take it that make runs of cases.
pub(crate) fn engine(case: &Case) -> Result<Option<EngineConfig>, String> {
    if !case.accelerator.enabled.unwrap_or(false) {
        return Ok(None);
    }
    let config = run::engine_config_of(&case.run_arguments()).map_err(|error| {
        format!("case `{}`: the simulator has only the engine of `cellerator run`: {error}", case.name)
    })?;
    // The hash of the flow table is random elsewhere.
    Ok(Some(EngineConfig { hash_seed: 0, ..config }))
}

type Outcome = Result<CaseOutcome>;

/// True of a run that nobody waits for any more.
fn is_stopped(outcome: &Outcome) -> bool {
    outcome.as_ref().is_err_and(|error| matches!(error.downcast_ref(), Some(SimError::Stopped)))
}

/// Outcome of each job; nothing of those that the user did not wait for.
fn run_all(
    jobs: &[Job],
    captured: &captures::Captured,
    threads: usize,
    is_over: &AtomicBool,
) -> Vec<Option<Outcome>> {
    let expected = jobs.iter().fold(Bytes::ZERO, |sum, job| sum + job.run.expected());
    let progress = |ended: usize| format!("{ended} of {} runs", jobs.len());
    let line = Line::of_bytes(expected, &progress(0));
    let ended = AtomicUsize::new(0);
    let outcomes = in_parallel_until(jobs.len(), threads, is_over, |index| {
        let mut seen = 0;
        let mut tell_progress = |received: Bytes| {
            line.add(received.get().saturating_sub(seen));
            seen = received.get();
        };
        let outcome = match &jobs[index].capture {
            Some(file) => captured.run(&jobs[index], file, is_over, &mut tell_progress),
            None => jobs[index].run.run_until(is_over, &mut tell_progress).map_err(Into::into),
        };
        if !is_stopped(&outcome) {
            line.say(progress(ended.fetch_add(1, Ordering::Relaxed) + 1));
        }
        outcome
    });
    drop(line);
    outcomes.into_iter().map(|outcome| outcome.filter(|outcome| !is_stopped(outcome))).collect()
}

impl Job {
    fn result(self, outcome: CaseOutcome) -> (CaseResult, String) {
        let result = CaseResult {
            accelerator_command: self.accelerator_command,
            problems: outcome.problems,
            doubts: outcome.doubts,
            figures: Some(outcome.figures),
            simulation: Some(outcome.simulation),
            ..CaseResult::new(self.case, self.repetition, self.seed)
        };
        (result, outcome.log)
    }
}

/// A run that did not come out right can be had again.
fn tell_replay(args: &RunArgs, result: &CaseResult) {
    if !result.problems.is_empty() {
        let file = args.scenario.display();
        eprintln!(
            "    again: cellerator sim run {file} --case '{}' --seed {} --seeds 1 --out DIR --packets",
            result.name, result.seed
        );
    }
}

fn save_packets(out: &Path, result: &CaseResult, packets: &str) -> Result<()> {
    let plain = |c: char| if c.is_ascii_alphanumeric() { c } else { '-' };
    let name: String = result.name.chars().map(plain).collect();
    let path = out.join(format!("packets-{name}-seed-{}.txt", result.seed));
    fs::write(&path, packets).with_context(|| format!("cannot write {}", path.display()))
}

/// Maker of the results. Neither the time nor the machine is named: the same command gives the same bytes.
fn made_by(args: &RunArgs) -> MadeBy {
    let mut command = format!("cellerator sim run {}", args.scenario.display());
    let mut option = |name: &str, value: Option<String>| {
        if let Some(value) = value {
            command += &format!(" --{name} {value}");
        }
    };
    option("case", args.case.as_ref().map(|case| format!("'{case}'")));
    option("seed", args.seed.map(|n| n.to_string()));
    option("seeds", args.seeds.map(|n| n.to_string()));
    MadeBy {
        cellerator: env!("CARGO_PKG_VERSION").to_owned(),
        command,
        runner: "sim".to_owned(),
        ..MadeBy::default()
    }
}

/// Duration in words, for people.
fn in_words(time: Duration) -> String {
    let seconds = time.as_secs_f64();
    if seconds < 120.0 { format!("{seconds:.1} s") } else { format!("{:.1} min", seconds / 60.0) }
}
