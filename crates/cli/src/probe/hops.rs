//! `cellerator probe hops`.

use std::process::ExitCode;

use anyhow::Result;
use measure::HopsPlan;
use scenario::Quantity;
use units::{Duration, Rate};

use super::{ClientArgs, LoadArgs, positive};

/// `cellerator probe hops`.
#[derive(clap::Args)]
pub struct Args {
    #[command(flatten)]
    client: ClientArgs,
    #[command(flatten)]
    load_args: LoadArgs,
    /// Between two packets for one hop; many routers answer one in a second
    #[arg(long, default_value = "1 s", value_name = "TIME")]
    every: Quantity<Duration>,
    /// Length of each phase: idle, and loaded each way
    #[arg(long, default_value = "15 s", value_name = "TIME")]
    time: Quantity<Duration>,
    /// Rate of the load; without it the capacity is searched for, and the load is 15 % above it
    #[arg(long, value_name = "RATE")]
    load: Option<Quantity<Rate>>,
    /// The longest way that is looked for
    #[arg(long, default_value_t = 30, value_name = "HOPS", value_parser = clap::value_parser!(u8).range(1..=64))]
    hops_max: u8,
}

/// Measures each hop.
pub fn main(args: &Args) -> Result<ExitCode> {
    positive(&[
        ("--time", args.time.0),
        ("--search-time", args.load_args.search_time.0),
        ("--every", args.every.0),
    ])?;
    let plan = HopsPlan {
        rtt: args.load_args.rtt_plan(args.every.0, args.time.0, args.load.map(|rate| rate.0)),
        hops_max: args.hops_max,
    };
    args.client.measure(
        |session, made_by, display| measure::hops(session, &plan, made_by, display),
        |document| !document.hops.is_empty(),
    )
}
