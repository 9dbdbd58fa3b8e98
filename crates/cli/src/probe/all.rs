//! `cellerator probe all`.

use std::process::ExitCode;

use anyhow::Result;
use clap::builder::PossibleValuesParser;
use io::Signals;
use measure::{AllPlan, HopsPlan, MiddleboxPart, MiddleboxPlan, SweepPlan, TcpPlan, TimeoutPlan};
use scenario::Quantity;
use units::Duration;

use super::{ClientArgs, LoadArgs, LocalArgs, directions, positive};
use crate::error_line;

/// Between two packets of `rtt`, and of one hop.
const RTT_EVERY: Duration = Duration::from_millis(20);
const HOP_EVERY: Duration = Duration::from_secs(1);
/// The longest way that is looked for.
const HOPS_MAX: u8 = 30;

/// Shortest run of `sweep`, where there is time.
const RUN_MIN: Duration = Duration::from_secs(2);
/// Ports that `probe middlebox` tests unless told otherwise.
const MIDDLEBOX_PORTS: [u16; 7] = [20, 21, 22, 80, 110, 443, 5_201];
const MIDDLEBOX_DELAY: Duration = Duration::from_secs(5);

/// `cellerator probe all`.
#[derive(clap::Args)]
pub struct Args {
    #[command(flatten)]
    client: ClientArgs,
    #[command(flatten)]
    load_args: LoadArgs,
    #[command(flatten)]
    local: LocalArgs,
    /// Measurements to make
    #[arg(long, value_delimiter = ',', value_name = "NAME", default_values = measure::ALL_NAMES,
        value_parser = PossibleValuesParser::new(measure::ALL_NAMES))]
    parts: Vec<String>,
    /// Length of a phase of `rtt` and `hops` and of a transfer; a run of `sweep` takes half of it
    #[arg(long, default_value = "10 s", value_name = "TIME")]
    time: Quantity<Duration>,
    /// TCP transfers each way
    #[arg(long, default_value_t = 3, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=100))]
    repetitions: u32,
    /// Silences of `timeout`, all at once; `probe timeout` alone tries up to two hours
    #[arg(long, value_delimiter = ',', default_value = "15s,30s,60s", value_name = "TIME")]
    silences: Vec<Quantity<Duration>>,
}

/// Measures all.
pub fn main(args: &Args) -> Result<ExitCode> {
    positive(&[("--time", args.time.0), ("--search-time", args.load_args.search_time.0)])?;
    let (ways, length) = (directions(&args.load_args.ways), args.time.0);
    let key = args.client.key()?;
    let plan = AllPlan {
        wanted: args.parts.clone(),
        rtt: args.load_args.rtt_plan(RTT_EVERY, length, None),
        sweep: SweepPlan {
            directions: ways.clone(),
            rates: Vec::new(),
            // A capacity needs a whole second.
            length: (length / 2).max(RUN_MIN.min(length)),
            search_length: args.load_args.search_time.0,
            rate_max: args.load_args.rate_max.0,
            packet: args.load_args.packet,
        },
        tcp: TcpPlan {
            directions: ways,
            length,
            repetitions: args.repetitions,
            congestion_controls: vec![String::new()],
            windows: vec![0],
            key: key.clone(),
        },
        middlebox: MiddleboxPlan {
            ports: MIDDLEBOX_PORTS.to_vec(),
            has_random: true,
            delay: MIDDLEBOX_DELAY,
            parts: vec![
                MiddleboxPart::Split,
                MiddleboxPart::Options,
                MiddleboxPart::Requests,
                MiddleboxPart::Refused,
            ],
            key: key.clone(),
        },
        hops: HopsPlan { rtt: args.load_args.rtt_plan(HOP_EVERY, length, None), hops_max: HOPS_MAX },
        timeout: TimeoutPlan {
            silences: super::silences(&args.silences)?,
            has_udp: true,
            has_tcp: true,
            key,
            known: Vec::new(),
        },
    };
    let signals = Signals::terminating()?;
    let local = args.local.open(&args.client, &signals).unwrap_or_else(|error| {
        eprintln!("  without a local peer: {}", error_line(&error));
        None
    });
    args.client.measure(
        |session, made_by, display| measure::all(session, &plan, local, &made_by, display),
        |document| document.parts.iter().any(|part| part.document.is_some()),
    )
}
