//! `cellerator sweep`.

use std::path::PathBuf;
use std::process::ExitCode;

use ::contest::{Progress, Shard, Sweep, SweepSpec, merge};
use clap::Subcommand;
use io::Clock;

use crate::outcome;

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
    /// Put the Parquet tables of all shards together
    Merge {
        /// Tables of the shards
        #[arg(required = true, value_name = "PART")]
        parts: Vec<PathBuf>,
        /// The table to write: .parquet, .csv or .jsonl
        #[arg(long, value_name = "FILE")]
        out: PathBuf,
    },
}

#[derive(clap::Args)]
struct RunArgs {
    /// What to run (docs/contest.md)
    #[arg(value_name = "SPEC.toml")]
    spec: PathBuf,
    /// The table to write: .parquet, .csv or .jsonl
    #[arg(long, value_name = "FILE")]
    out: PathBuf,
    /// Every nth cell from the ith on, counted from 0, as job arrays count
    #[arg(long, value_name = "i/n", default_value = "0/1")]
    shard: Shard,
    /// Go on with what a stopped sweep has left beside --out
    #[arg(long)]
    resume: bool,
    /// Runs at the same time; the table does not depend on it [default: the number of processors]
    #[arg(long)]
    threads: Option<usize>,
}

/// Runs `cellerator sweep`; an error is one clear line: what, where, what to do.
pub fn main(args: Args) -> Result<ExitCode, String> {
    let text = |e: ::contest::ContestError| e.to_string();
    let summary = match (args.command, args.run) {
        (Some(SweepCommand::Merge { parts, out }), _) => merge(&parts, &out).map_err(text)?,
        (None, Some(args)) => {
            let spec = SweepSpec::read(&args.spec).map_err(text)?;
            run(&args, spec).map_err(text)?
        }
        (None, None) => return Err("sweep: name a specification, or `merge`".to_owned()),
    };
    println!("{summary}");
    Ok(ExitCode::SUCCESS)
}

fn run(args: &RunArgs, spec: SweepSpec) -> Result<String, ::contest::ContestError> {
    let began = Clock::now();
    let (threads, out) = (args.threads.unwrap_or_else(io::sched::cpu_count).max(1), args.out.clone());
    let notes = vec![
        ("cellerator".to_owned(), env!("CARGO_PKG_VERSION").to_owned()),
        ("command".to_owned(), outcome::command_line()),
    ];
    let sweep = Sweep { spec, shard: args.shard, threads, out, resume: args.resume, notes };
    let summary = sweep.run(&|Progress { done, of, cell }| {
        let seconds = Clock::now().saturating_since(began).as_secs_f64();
        eprintln!("  [{done}/{of}, {seconds:.0} s] {cell}");
    })?;
    eprintln!("  wrote {}", args.out.display());
    Ok(summary)
}
