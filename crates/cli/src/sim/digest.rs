//! `cellerator sim digest`.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, Error, Result};
use parallel::in_parallel;
use sim::{CaseRun, Digest, LogMode, RandomRun};

use super::{engine, threads};
use crate::outcome;

/// Random runs whose digests are told as one line.
const BLOCK: u64 = 100;

#[derive(clap::Args)]
pub struct Args {
    /// Scenario files; every case runs with its first seed
    scenarios: Vec<PathBuf>,
    /// Number of random runs, from seed 1 on
    #[arg(long, default_value_t = 5_000)]
    seeds: u64,
    /// Compare with this file, an earlier output of the same command. Print lines that differ, and exit
    /// with 1
    #[arg(long, value_name = "FILE")]
    against: Option<PathBuf>,
    /// Runs at the same time; does not change the digests [default: the number of processors]
    #[arg(long)]
    threads: Option<usize>,
}

/// A piece of the work: a line of the output.
enum Piece {
    Random { first: u64, last: u64 },
    Case { file: String, name: String, run: Box<CaseRun> },
}

pub fn main(args: &Args) -> Result<ExitCode> {
    let mut pieces = Vec::new();
    for file in &args.scenarios {
        add_cases(file, &mut pieces)?;
    }
    let firsts = (1..=args.seeds).step_by(BLOCK as usize);
    pieces.extend(firsts.map(|first| Piece::Random { first, last: (first + BLOCK - 1).min(args.seeds) }));
    let earlier = args.against.as_deref().map(read).transpose()?;
    let lines = in_parallel(pieces.len(), threads(args.threads), |index| pieces[index].line());
    let lines = lines.into_iter().collect::<Result<Vec<_>, _>>()?;
    let whole = lines.iter().fold(Digest::default(), |digest, line| digest.and_text(line));
    let lines: Vec<String> = lines.into_iter().chain([format!("{whole} all of these")]).collect();
    match (earlier, &args.against) {
        (Some(earlier), Some(file)) => Ok(compare(&earlier, &lines, file)),
        _ => {
            for line in lines {
                println!("{line}");
            }
            Ok(ExitCode::SUCCESS)
        }
    }
}

fn read(file: &Path) -> Result<Vec<String>> {
    let whole = fs::read_to_string(file).with_context(|| format!("cannot read {}", file.display()))?;
    Ok(whole.lines().map(str::to_owned).collect())
}

fn add_cases(file: &Path, pieces: &mut Vec<Piece>) -> Result<()> {
    let (scenario, traces) = outcome::read(file)?;
    let name = file.file_name().unwrap_or(file.as_os_str()).to_string_lossy().into_owned();
    for case in scenario.chosen(None)? {
        let plan = case.links(scenario.seed, &mut |file| lab::read_trace(&traces, file))?;
        let seed = (scenario.seed, scenario.time_limit.0);
        let engine = engine(&case).map_err(Error::msg)?;
        let run = CaseRun::new(&case, &plan, engine, seed, LogMode::Hash);
        pieces.push(Piece::Case { file: name.clone(), name: case.name.clone(), run: Box::new(run) });
    }
    Ok(())
}

fn compare(earlier: &[String], now: &[String], file: &Path) -> ExitCode {
    let differing: Vec<&String> = now.iter().filter(|line| !earlier.contains(line)).collect();
    for line in &differing {
        println!("not in {}: {line}", file.display());
    }
    let missing = earlier.iter().filter(|line| !now.contains(line)).count();
    println!("{} lines, {} new, {missing} of {} gone", now.len(), differing.len(), file.display());
    if differing.is_empty() && missing == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

impl Piece {
    /// Its digest and what it is of.
    fn line(&self) -> Result<String> {
        match self {
            Self::Random { first, last } => {
                let mut digest = Digest::default();
                for seed in *first..=*last {
                    let outcome = RandomRun::draw(seed, LogMode::Hash).run()?;
                    digest = digest.and_digest(outcome.digest);
                }
                Ok(format!("{digest} random runs {first} to {last}"))
            }
            Self::Case { file, name, run } => {
                let digest = run.digest().with_context(|| format!("{file}: {name}"))?;
                Ok(format!("{digest} {file}: {name}"))
            }
        }
    }
}
