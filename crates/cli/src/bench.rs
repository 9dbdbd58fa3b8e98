//! `cellerator bench`.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use bench::{PathBenchmark, PathResults, Progress};
use clap::Subcommand;
use io::Signals;
use units::Duration;

use crate::outcome;

/// Arguments of `cellerator bench`.
#[derive(clap::Args)]
pub struct Args {
    #[command(subcommand)]
    command: BenchCommand,
}

#[derive(Subcommand)]
enum BenchCommand {
    /// Bulk TCP through this machine: kernel forwarding, a bare TUN echo, the engine passing and accelerating
    Path(PathArgs),
    /// Be the bare TUN echo between two interfaces until a signal comes
    #[command(hide = true)]
    Echo(EchoArgs),
}

#[derive(clap::Args)]
struct PathArgs {
    /// Time measured in each run, of which a round has ten
    #[arg(long, default_value = "3", value_parser = clap::value_parser!(u64).range(1..=600))]
    seconds: u64,
    /// Rounds; every way through the box is measured once in each and compared within it
    #[arg(long, default_value = "5", value_parser = clap::value_parser!(u32).range(1..=1_000))]
    pairs: u32,
    /// Write the results as JSON (schemas/bench-results.schema.json)
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Write the results as Markdown
    #[arg(long, value_name = "FILE")]
    markdown: Option<PathBuf>,
}

#[derive(clap::Args)]
struct EchoArgs {
    #[arg(long)]
    wired: String,
    #[arg(long)]
    mobile: String,
}

/// Runs `cellerator bench`; an error is one clear line: what, where, what to do.
pub fn main(args: Args) -> Result<ExitCode, String> {
    match args.command {
        BenchCommand::Path(args) => path(&args),
        BenchCommand::Echo(args) => {
            let mut say = |line: &str| drop(writeln!(std::io::stdout(), "{line}"));
            bench::echo(&args.wired, &args.mobile, &mut say).map_err(|error| format!("bench: {error}"))
        }
    }
    .map(|()| ExitCode::SUCCESS)
}

fn path(args: &PathArgs) -> Result<(), String> {
    let text = |error: &dyn std::fmt::Display| format!("bench: {error}");
    // Before minutes of measuring: a path that cannot be written should not cost them.
    for path in [&args.json, &args.markdown].into_iter().flatten() {
        create_parent(path)?;
    }
    let signals = Signals::terminating().map_err(|error| text(&error))?;
    let program = std::env::current_exe().map_err(|e| format!("cannot find this program's own file: {e}"))?;
    let benchmark = PathBenchmark {
        time: Duration::from_secs(args.seconds),
        rounds: args.pairs,
        program,
        version: env!("CARGO_PKG_VERSION").to_owned(),
        command: outcome::command_line(),
    };
    let results = benchmark.run(&signals, &mut show).map_err(|error| text(&error))?;
    // A reader who has gone away is no reason to lose the files.
    drop(writeln!(std::io::stdout(), "\n{}", results.markdown()));
    save(args, &results)
}

fn show(step: Progress<'_>) {
    match step {
        Progress::Round(round, rounds) => eprintln!("round {round} of {rounds}"),
        Progress::Way(_) => {}
        Progress::Run(run) => eprintln!("  {}", run.line()),
    }
}

fn save(args: &PathArgs, results: &PathResults) -> Result<(), String> {
    let write = |path: &Path, text: String| {
        std::fs::write(path, text).map_err(|e| format!("cannot write {}: {e}", path.display()))
    };
    if let Some(path) = &args.markdown {
        write(path, results.markdown())?;
    }
    if let Some(path) = &args.json {
        let json = serde_json::to_string_pretty(results).map_err(|e| format!("results as JSON: {e}"))?;
        write(path, json + "\n")?;
    }
    Ok(())
}

fn create_parent(path: &Path) -> Result<(), String> {
    let parent = path.parent().filter(|p| !p.as_os_str().is_empty()).unwrap_or(Path::new("."));
    std::fs::create_dir_all(parent).map_err(|e| format!("cannot create {}: {e}", parent.display()))
}
