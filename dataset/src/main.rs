//! `cellerator-dataset`: datasets of captures in object stores.
//!
//! What `cellerator analyze --parquet DATASET FOLDER…` does with folders, this does with URLs: `s3://` (S3
//! and what speaks its protocol) and `file://`. A series is fetched, analyzed by the `cellerator` command,
//! and its files are put, each with one request; its record comes last. Names and bytes are those that the
//! command writes into a folder.

mod place;
mod work;

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use clap::Parser;
use datasets::{Settings, Shard, shard};
use futures::StreamExt as _;
use place::{Failure, Place};
use tokio::time::Instant;
use work::{Done, Work};

/// Datasets of captures in object stores.
///
/// Keys, region and address of the store are those of the environment: AWS_ACCESS_KEY_ID,
/// AWS_SECRET_ACCESS_KEY, AWS_REGION, AWS_ENDPOINT, AWS_ALLOW_HTTP.
#[derive(Parser)]
#[command(version)]
struct Args {
    /// Where captures are: s3://BUCKET/PREFIX, file:///FOLDER; all below it
    #[arg(required = true, value_name = "URL")]
    inputs: Vec<String>,
    /// Where the dataset is to be: another URL
    #[arg(long, value_name = "URL")]
    to: String,
    /// Name of the captures' environment (a network, a carrier) in the dataset
    #[arg(long, value_name = "NAME", default_value = "none")]
    env: String,
    /// Do only this part of the series: `2/7` is the second of seven. Parts may run at the same time, on
    /// several machines, and twice
    #[arg(long, value_name = "I/N")]
    shard: Option<Shard>,
    /// A flow has ended after this many seconds without a packet
    #[arg(long, default_value_t = 900, value_name = "S")]
    idle: u64,
    /// Files of a series that overlap in time were captured at one place
    #[arg(long)]
    one_point: bool,
    /// Series at the same time [default: the number of processors]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..))]
    threads: Option<u16>,
    /// The program that analyzes captures [default: `cellerator` beside this one, else in the path]
    #[arg(long, value_name = "PROGRAM", env = "CELLERATOR")]
    cellerator: Option<PathBuf>,
}

fn main() -> ExitCode {
    let args = Args::parse();
    let outcome = tokio::runtime::Runtime::new()
        .map_err(|error| format!("no threads: {error}"))
        .and_then(|runtime| runtime.block_on(run(&args)));
    match outcome {
        Ok(code) => code,
        Err(message) => {
            eprintln!("cellerator-dataset: {message}");
            ExitCode::FAILURE
        }
    }
}

/// Between two lines of progress.
const TELL_EVERY: Duration = Duration::from_secs(10);

async fn run(args: &Args) -> Result<ExitCode, String> {
    let program = program(args);
    let settings =
        Settings { cellerator: version(&program).await?, idle_s: args.idle, one_point: args.one_point };
    let to = Place::open(&args.to)?;
    let mut found = Vec::new();
    for input in &args.inputs {
        let below = work::find(&Place::open(input)?, &args.env).await;
        found.extend(below.map_err(|(Failure::Series(why) | Failure::Store(why))| why)?);
    }
    found.sort_by(|a, b| a.series.name.cmp(&b.series.name));
    if let Some(two) = found.windows(2).find(|two| two[0].series.name == two[1].series.name) {
        return Err(format!("two series have the name {}", two[0].series.name));
    }
    let series: Vec<_> = found.iter().map(|found| found.series.clone()).collect();
    let own = shard(&series, args.shard.unwrap_or_default());
    let processors = std::thread::available_parallelism().map_or(1, usize::from);
    let threads = args.threads.map_or(processors, usize::from);
    let work = Work { to: &to, program: &program, settings: &settings };
    let (began, mut told) = (Instant::now(), Instant::now());
    let (mut before, mut now, mut flows, mut failed, mut bytes) = (0, 0, 0, Vec::new(), 0_u64);
    let total: u64 = own.iter().map(|index| series[*index].bytes).sum();
    let jobs = own.iter().map(|index| {
        let (work, found) = (&work, &found[*index]);
        async move { (found, work.one(found).await) }
    });
    let mut gone = None;
    let mut ended = futures::stream::iter(jobs).buffer_unordered(threads);
    while let Some((found, outcome)) = ended.next().await {
        bytes += found.series.bytes;
        match outcome {
            Ok(Done::Before) => before += 1,
            Ok(Done::Now(count)) => (now, flows) = (now + 1, flows + count),
            Err(Failure::Series(why)) => failed.push(format!("{}: {why}", found.series.name)),
            // What goes on ends with the stream; its folders go, too.
            Err(Failure::Store(why)) => {
                gone = Some(why);
                break;
            }
        }
        if told.elapsed() >= TELL_EVERY {
            told = Instant::now();
            let (count, seconds) = (before + now + failed.len(), began.elapsed().as_secs_f64());
            let rate = bytes as f64 / seconds;
            let left = (total - bytes) as f64 / rate.max(1.0);
            eprintln!("  {count} of {} series, {:.1} MB/s, {left:.0} s left", own.len(), rate / 1e6);
        }
    }
    drop(ended);
    failed.sort_unstable();
    failed.iter().for_each(|why| eprintln!("cellerator-dataset: {why}"));
    if let Some(why) = gone {
        let done = before + now;
        return Err(format!("{why}; {done} of {} series are done, and are not done again", own.len()));
    }
    println!(
        "{} of {} series: {now} analyzed ({flows} flows), {before} unchanged, {} failed; dataset: {}",
        own.len(),
        series.len(),
        failed.len(),
        args.to
    );
    Ok(if failed.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// The analyzing program: beside this one, if it is there.
fn program(args: &Args) -> PathBuf {
    let beside = || {
        let own = std::env::current_exe().ok()?;
        Some(own.with_file_name("cellerator")).filter(|program| program.exists())
    };
    args.cellerator.clone().or_else(beside).unwrap_or_else(|| "cellerator".into())
}

/// The program's version: another one's results are not its own.
async fn version(program: &std::path::Path) -> Result<String, String> {
    let out = tokio::process::Command::new(program).arg("--version").output().await.map_err(|error| {
        format!("{}: cannot be run ({error}): build it, or name it with --cellerator", program.display())
    })?;
    let text = String::from_utf8_lossy(&out.stdout);
    let version = text.split_whitespace().nth(1).filter(|_| out.status.success());
    version.map(str::to_owned).ok_or_else(|| format!("{} does not say its version", program.display()))
}
