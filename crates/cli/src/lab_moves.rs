//! `cellerator lab moves`.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, Result, bail};
use io::Signals;
use lab::moves::MovesRun;
use lab::{Instance, LabError, Runner};
use scenario::{Moves, Quantity, Traffic};
use units::Duration;

use crate::output::{self, Words};
use crate::{interruption, writable};

/// Arguments of `cellerator lab moves`.
#[derive(clap::Args)]
pub struct Args {
    /// Scenario file
    scenario: PathBuf,
    /// Run only this case
    #[arg(long)]
    case: Option<String>,
    /// Duration of the transfers [default: as the file says]
    #[arg(long)]
    time: Option<Quantity<Duration>>,
    /// Name of the lab [default: the process's number]
    #[arg(long)]
    name: Option<String>,
    /// Write scenario, flows and moves as JSON
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
}

/// Runs `cellerator lab moves`; an error is one clear line: what, where, what to do.
pub fn main(args: &Args) -> Result<ExitCode> {
    let words = Words::beside([args.json.as_deref(), None])?;
    args.json.iter().try_for_each(|path| writable::file(path))?;
    let path = &args.scenario;
    let text = fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))?;
    let mut scenario = Moves::from_toml(&path.display().to_string(), &text)?;
    scenario.time = args.time.unwrap_or(scenario.time);
    if let Some(name) = &args.case {
        let names: Vec<String> = scenario.cases.iter().map(|case| case.name.clone()).collect();
        scenario.cases.retain(|case| case.name == *name);
        if scenario.cases.is_empty() {
            let names = names.join(", ");
            bail!("{}: no case is named `{name}`; there are {names}", path.display());
        }
    }
    let signals = Signals::terminating()?;
    let instance = Instance::register(args.name.as_deref(), "moves")?;
    let program = std::env::current_exe().context("cannot find this program's own file")?;
    let traces = path.parent().unwrap_or(Path::new(".")).to_owned();
    let runner = Runner { instance: &instance, signals: &signals, program, traces, captures: None };
    let result = match runner.run_moves(&scenario, &mut |run| words.say(&text_of(run))) {
        Ok(result) => result,
        Err(LabError::Interrupted) => return Ok(interruption::code(signals.taken())),
        Err(error) => return Err(error.into()),
    };
    if let Some(path) = &args.json {
        let json = serde_json::to_string(&result).context("as JSON")?;
        output::save(path, &(json + "\n"))?;
    }
    Ok(ExitCode::SUCCESS)
}

/// A run in some lines: a flow each, and what the moves cost.
fn text_of(run: &MovesRun) -> String {
    let mut text = format!("{}, {} s\n", run.case, run.seconds);
    for flow in &run.flows {
        text.push_str(&format!(
            "  {:<17} {:<6} {:>6.3} Mbit/s, {} resets, {:.1} KB lost by the radio, {:.1} KB sent twice{}{}\n",
            flow.traffic.word(),
            if flow.moves { "moves" } else { "stays" },
            flow.goodput_mbps,
            flow.resets,
            flow.lost_bytes as f64 / 1e3,
            flow.needless_bytes as f64 / 1e3,
            if flow.is_intact { "" } else { ", NOT INTACT" },
            flow.error.as_ref().map_or(String::new(), |error| format!(", {error}"))
        ));
    }
    for traffic in [Traffic::Bulk, Traffic::Exchanges, Traffic::Upload] {
        let own = || run.moves.iter().filter(|one| one.traffic == traffic);
        let of = |name: &str, value: &dyn Fn(&lab::moves::Move) -> Option<f64>| {
            let mut values: Vec<f64> = own().filter(|one| one.has_moved()).filter_map(value).collect();
            values.sort_by(f64::total_cmp);
            let at = |part| figures::stats::percentile(&values, part).unwrap_or(f64::NAN);
            format!("{name} {:.1} {:.1} {:.1}", at(500), at(950), at(1_000))
        };
        if own().next().is_none() {
            continue;
        }
        let refused = own().filter(|one| !one.has_moved()).count();
        text.push_str(&format!(
            "  {} moves of a {}, {refused} refused; median, p95, most: {}, {}, {}, {}, {}, {}, {}, {}\n",
            own().count(),
            traffic.word(),
            of("gap ms", &|one| one.gap_ms),
            of("asked", &|one| Some(one.phases_ms[0])),
            of("copied", &|one| Some(one.phases_ms[1])),
            of("nobody's", &|one| Some(one.phases_ms[2])),
            of("command", &|one| Some(one.took_ms)),
            of("held KB", &|one| Some(one.bytes as f64 / 1e3)),
            of("left KB", &|one| Some(one.left_bytes as f64 / 1e3)),
            of("twice KB", &|one| Some(one.needless_bytes as f64 / 1e3)),
        ));
        if let Some(why) = own().find_map(|one| one.refused.as_ref()) {
            text.push_str(&format!("    refused: {why}\n"));
        }
    }
    text.push_str(&format!(
        "  late: p50 {:.0} µs, p99 {:.0} µs, most {:.0} µs{}\n",
        run.late_p50_us,
        run.late_p99_us,
        run.late_max_us,
        run.distrusted.as_ref().map_or(String::new(), |why| format!("; {why}"))
    ));
    text
}
