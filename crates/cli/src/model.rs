//! `cellerator model`: what the algorithms do, computed.

use std::path::PathBuf;
use std::process::ExitCode;

use ::contest::{Scheme, Study, TraceSource};
use anyhow::{Context, Result};
use clap::Subcommand;
use figures::chart::Width;
use scenario::Quantity;
use units::{Bytes, Duration};

use crate::{outcome, stability};

/// Arguments of `cellerator model`.
#[derive(clap::Args)]
pub struct Args {
    #[command(subcommand)]
    command: ModelCommand,
}

#[derive(Subcommand)]
enum ModelCommand {
    /// Draw what a controller does to one link over time: rates, window, data in flight and queue, as SVG
    Figure(FigureArgs),
    /// Compute whether a queue under the window of [WA] is stable: eigenvalues and simulated queues
    Stability(stability::Args),
}

#[derive(clap::Args)]
struct FigureArgs {
    /// Scheme that controls the sending: direct:NAME (the server), accel:NAME (the accelerator, per client),
    /// split:NAME (the accelerator, per flow), drwa:NAME (the server, with a lowered window). Parameters:
    /// direct:cubic?beta_permille=800
    scheme: String,
    /// Capacity of the radio link: a file in Mahimahi's format or with lines of `seconds Mbit/s`, or a
    /// preset's name [default: 24 Mbit/s, 6 from 10 s on, 24 from 20 s on]
    #[arg(long, value_name = "TRACE")]
    trace: Option<String>,
    /// Drop-tail queue of the radio link
    #[arg(long, default_value = "2 MB", value_name = "SIZE")]
    queue: Quantity<Bytes>,
    /// Length of the run
    #[arg(long, default_value_t = 30, value_parser = clap::value_parser!(u64).range(1..=600))]
    seconds: u64,
    /// Seed of all random choices
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// File to write the picture to
    #[arg(long, value_name = "FILE", default_value = "figure.svg")]
    out: PathBuf,
}

/// Runs `cellerator model`; an error is one clear line: what, where, what to do.
pub fn main(args: Args) -> Result<ExitCode> {
    match args.command {
        ModelCommand::Figure(args) => figure(&args),
        ModelCommand::Stability(args) => stability::main(&args),
    }
}

fn figure(args: &FigureArgs) -> Result<ExitCode> {
    let length = Duration::from_secs(args.seconds);
    let trace = match &args.trace {
        Some(name) => TraceSource::open(name, Duration::ZERO, length, args.seed),
        None => TraceSource::steps(),
    };
    let scheme: Scheme = args.scheme.parse()?;
    let study = Study { scheme, trace: trace?, queue: args.queue.0, length, seed: args.seed };
    let svg = study.run(&outcome::command_line())?.file(Width::Wide);
    std::fs::write(&args.out, svg).with_context(|| format!("cannot write {}", args.out.display()))?;
    println!("{}", args.out.display());
    Ok(ExitCode::SUCCESS)
}
