//! `cellerator sweep`.

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::OnceLock;

use ::contest::{CaseCell, Elimination, Progress, Shard, Sweep, SweepSpec, Tolerance, merge};
use anyhow::{Context, Result, bail};
use clap::Subcommand;
use figures::Table;
use io::Clock;
use scenario::Scenario;
use units::Instant;

use crate::interruption::Interruption;
use crate::output::{self, Words};
use crate::progress::Line;
use crate::{interruption, outcome};

/// Arguments of `cellerator sweep`.
#[derive(clap::Args)]
#[command(args_conflicts_with_subcommands = true, subcommand_negates_reqs = true)]
pub struct Args {
    #[command(subcommand)]
    command: Option<SweepCommand>,
    #[command(flatten)]
    run: Option<RunArgs>,
}

#[derive(Subcommand)]
enum SweepCommand {
    /// Merge the Parquet tables of all shards
    Merge {
        /// Tables of the shards
        #[arg(required = true, value_name = "PART")]
        parts: Vec<PathBuf>,
        /// The table to write: .parquet, .csv or .jsonl
        #[arg(long, value_name = "FILE")]
        out: PathBuf,
    },
    /// Take out the terms of `adaptive` one after the other, the cheapest first
    Eliminate(EliminateArgs),
}

#[derive(clap::Args)]
struct EliminateArgs {
    /// Grids without parameters; every one of their cells counts
    #[arg(required_unless_present = "scenarios", value_name = "SPEC.toml")]
    specs: Vec<PathBuf>,
    /// A scenario file; those of its cases count whose accelerator has the controller `adaptive`
    #[arg(long = "scenario", value_name = "FILE.toml")]
    scenarios: Vec<PathBuf>,
    /// Folder of the traces that the grids name [default: that of the grid's file]
    #[arg(long, value_name = "FOLDER")]
    traces: Option<PathBuf>,
    /// Repetitions of the scenarios' cases [default: as they say]
    #[arg(long, value_name = "N")]
    repetitions: Option<u32>,
    /// Try these terms only [default: all]
    #[arg(long, value_name = "TERM,…", value_delimiter = ',')]
    terms: Vec<String>,
    /// Stop after so many rounds
    #[arg(long, value_name = "N", default_value_t = 32)]
    rounds: usize,
    /// Write the rounds as JSON (schemas/elimination.schema.json); - is standard output
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Write the tables as Markdown
    #[arg(long, value_name = "FILE")]
    markdown: Option<PathBuf>,
    /// Runs at the same time; does not change the tables [default: the number of processors]
    #[arg(long)]
    threads: Option<usize>,
}

#[derive(clap::Args)]
struct RunArgs {
    /// Specification of the sweep to run (docs/contest.md)
    #[arg(value_name = "SPEC.toml")]
    spec: PathBuf,
    /// The table to write: .parquet, .csv or .jsonl
    #[arg(long, value_name = "FILE")]
    out: PathBuf,
    /// Run every nth cell from the ith on, counted from 0 as in job arrays
    #[arg(long, value_name = "i/n", default_value = "0/1")]
    shard: Shard,
    /// Continue a stopped sweep from what it left beside --out
    #[arg(long)]
    resume: bool,
    /// Runs at the same time; does not change the table [default: the number of processors]
    #[arg(long)]
    threads: Option<usize>,
}

/// Runs `cellerator sweep`; an error is one clear line: what, where, what to do.
pub fn main(args: Args) -> Result<ExitCode> {
    match (args.command, args.run) {
        (Some(SweepCommand::Merge { parts, out }), _) => {
            println!("{}", merge(&parts, &out)?);
            Ok(ExitCode::SUCCESS)
        }
        (Some(SweepCommand::Eliminate(args)), _) => eliminate(&args),
        (None, Some(args)) => {
            let spec = SweepSpec::read(&args.spec)?;
            run(&args, spec)
        }
        (None, None) => bail!("sweep: name a specification, or `merge`"),
    }
}

fn run(args: &RunArgs, spec: SweepSpec) -> Result<ExitCode> {
    let interruption = Interruption::listen()?;
    let (threads, out) = (args.threads.unwrap_or_else(io::sched::cpu_count).max(1), args.out.clone());
    let notes = vec![
        ("cellerator".to_owned(), env!("CARGO_PKG_VERSION").to_owned()),
        ("command".to_owned(), outcome::command_line()),
    ];
    let sweep = Sweep { spec, shard: args.shard, threads, out, resume: args.resume, notes };
    let pace = Pace::begin();
    let ran = sweep.run(&|progress| pace.show(progress), interruption.flag());
    drop(pace);
    let (summary, interrupted) = ran?;
    println!("{summary}");
    if let Some(interrupted) = interrupted {
        let what = format!("sweep: {interrupted}, to go on with --resume");
        interruption::tell(&what, [args.out.as_path()]);
        return Ok(interruption.code());
    }
    eprintln!("  wrote {}", args.out.display());
    Ok(ExitCode::SUCCESS)
}

fn eliminate(args: &EliminateArgs) -> Result<ExitCode> {
    let words = Words::beside([args.json.as_deref(), args.markdown.as_deref()])?;
    let interruption = Interruption::listen()?;
    let mut specs: Vec<SweepSpec> =
        args.specs.iter().map(|spec| SweepSpec::read(spec)).collect::<Result<_, _>>()?;
    if let Some(folder) = &args.traces {
        specs.iter_mut().for_each(|spec| spec.folder.clone_from(folder));
    }
    let elimination = Elimination {
        specs,
        cases: args.scenarios.iter().map(|file| cases(file, args)).collect::<Result<Vec<_>, _>>()?.concat(),
        terms: args.terms.clone(),
        rounds: args.rounds,
        tolerance: Tolerance::default(),
        threads: args.threads.unwrap_or_else(io::sched::cpu_count).max(1),
    };
    let pace = Pace::begin();
    let show = |(title, table): &(String, Table)| {
        words.say(&format!("\n{title}\n{}", table.fitting(words.columns(), &MAY_GO).0));
    };
    let result = elimination.run(
        outcome::command_line(),
        &|progress| pace.show(progress),
        &|round| show(&round.table()),
        interruption.flag(),
    );
    drop(pace);
    let result = result?;
    let tables = result.tables();
    if let Some(file) = &args.markdown {
        let text: String =
            tables.iter().map(|(title, table)| format!("**{title}.**\n\n{}\n", table.markdown())).collect();
        output::save(file, &text)?;
    }
    if let Some(file) = &args.json {
        let json = serde_json::to_string_pretty(&result).context("terms as JSON")?;
        output::save(file, &(json + "\n"))?;
    }
    let files = [args.json.as_deref(), args.markdown.as_deref()];
    if !result.is_complete {
        let written = files.into_iter().flatten().filter(|file| !output::is_standard_output(file));
        interruption::tell("sweep eliminate: interrupted after the rounds shown", written);
        return Ok(interruption.code());
    }
    Ok(ExitCode::SUCCESS)
}

/// The cases of a scenario file that are controlled by `adaptive`.
fn cases(file: &Path, args: &EliminateArgs) -> Result<Vec<CaseCell>> {
    let text =
        std::fs::read_to_string(file).with_context(|| format!("cannot read scenario {}", file.display()))?;
    let mut scenario = Scenario::from_toml(&file.display().to_string(), &text)?;
    if let Some(repetitions) = args.repetitions {
        scenario.repetitions = repetitions;
    }
    let folder = file.parent().unwrap_or(Path::new(""));
    Ok(CaseCell::all_of(&scenario, &mut |trace| lab::read_trace(folder, trace), &crate::sim::engine)?)
}

/// Columns that a narrow terminal does without.
const MAY_GO: [&str; 1] = ["loss"];

/// One line with how far it is, how fast, and how long it still takes.
struct Pace {
    line: Line,
    began: Instant,
    /// Cells that were there before.
    before: OnceLock<usize>,
}

impl Pace {
    fn begin() -> Self {
        Self { line: Line::of_words(), began: Clock::now(), before: OnceLock::new() }
    }

    fn show(&self, Progress { done, of, cell }: Progress<'_>) {
        let before = self.before.get_or_init(|| done - 1);
        let seconds = Clock::now().saturating_since(self.began).as_secs_f64().max(1e-3);
        self.line.say(progress_line((done, of), (done - before) as f64 / seconds, cell));
    }
}

fn progress_line((done, of): (usize, usize), per_second: f64, cell: &str) -> String {
    let left = (of.saturating_sub(done)) as f64 / per_second.max(1e-9);
    let left = match left {
        left if left < 100.0 => format!("{left:.0} s"),
        left if left < 6_000.0 => format!("{:.0} min", left / 60.0),
        left => format!("{:.1} h", left / 3_600.0),
    };
    let rate = if per_second >= 1.0 {
        format!("{per_second:.1} cells/s")
    } else {
        format!("{:.1} cells/min", per_second * 60.0)
    };
    format!("{done} of {of}, {rate}, {left} left; {cell}")
}

#[cfg(test)]
mod tests {
    use super::progress_line;

    #[test]
    fn the_line_tells_rate_and_remaining_time() {
        assert_eq!(progress_line((40, 100), 2.0, "a"), "40 of 100, 2.0 cells/s, 30 s left; a");
        assert_eq!(progress_line((40, 100), 0.1, "a"), "40 of 100, 6.0 cells/min, 10 min left; a");
        assert_eq!(progress_line((1, 10_001), 0.5, "a"), "1 of 10001, 30.0 cells/min, 5.6 h left; a");
        assert_eq!(progress_line((100, 100), 2.0, "a"), "100 of 100, 2.0 cells/s, 0 s left; a");
    }
}
