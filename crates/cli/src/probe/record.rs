//! `cellerator probe record`.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Result, bail};
use measure::{RecordDocument, RecordPlan};
use scenario::Quantity;
use units::{Duration, Rate};

use super::{ClientArgs, Way, directions, json_of, positive};
use crate::{output, writable};

/// Names of the files beside the traces.
const SCENARIO: &str = "link.toml";
const DOCUMENT: &str = "record.json";

/// `cellerator probe record`.
#[derive(clap::Args)]
pub struct Args {
    #[command(flatten)]
    client: ClientArgs,
    /// Folder for the traces (down.trace, up.trace: Mahimahi's format), a scenario for `lab run` and `sim run`
    /// (link.toml), and the whole record (record.json)
    #[arg(long, value_name = "DIR")]
    out: PathBuf,
    /// Ways to record, at the same time
    #[arg(long, value_delimiter = ',', default_value = "down,up", value_name = "WAY")]
    ways: Vec<Way>,
    /// For how long the path is saturated
    #[arg(long, default_value = "60 s", value_name = "TIME")]
    time: Quantity<Duration>,
    /// For how long trains are sent over the idle path before
    #[arg(long, default_value = "10 s", value_name = "TIME")]
    light_time: Quantity<Duration>,
    /// The path is sent no more than this
    #[arg(long, default_value = "1 Gbit/s", value_name = "RATE")]
    rate_max: Quantity<Rate>,
    /// Length of the IP packets, bytes
    #[arg(long, default_value_t = 1_400, value_name = "BYTES", value_parser = clap::value_parser!(u16).range(100..=9_000))]
    packet: u16,
}

/// Records, and writes the folder.
pub fn main(args: &Args) -> Result<ExitCode> {
    positive(&[("--time", args.time.0), ("--light-time", args.light_time.0)])?;
    if args.rate_max.0.is_zero() {
        bail!("--rate-max must be more than zero");
    }
    writable::folder(&args.out)?;
    let mut directions = directions(&args.ways);
    directions.sort_unstable_by_key(|direction| direction.name());
    directions.dedup();
    let plan = RecordPlan {
        directions,
        length: args.time.0,
        light_length: args.light_time.0,
        rate_max: args.rate_max.0,
        packet: args.packet,
    };
    args.client.measure_and(
        |session, made_by, display| measure::record(session, &plan, made_by, display),
        |document| !document.ways.is_empty(),
        |document| save(document, &args.out),
    )
}

fn save(document: &RecordDocument, folder: &Path) -> Result<()> {
    for (name, text) in measure::traces(document) {
        output::save(&folder.join(name), &text)?;
    }
    output::save(&folder.join(SCENARIO), &measure::scenario(document))?;
    output::save(&folder.join(DOCUMENT), &json_of(document)?)
}
