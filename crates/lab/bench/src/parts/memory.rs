//! Resident memory of `run`: at rest, with data that clients do not read, and once they have read it.

use units::Duration;

use super::count_text;
use super::upgrade::{HELD, MEMORY, fill, missing};
use crate::boxed::BoxProgram;
use crate::comparison::Comparison;
use crate::load::Held;
use crate::machine::children_of;
use crate::results::Sample;
use crate::stage::{Measure, Plan, Stage, metric};
use crate::topology::NetworkOptions;
use crate::{BenchError, Way};

/// Flows that hold [`HELD`] bytes together, as far as their windows grow.
const FLOWS: [u32; 3] = [1_000, 4_000, 10_000];

/// Addresses of clients.
const SUBSCRIBERS: u32 = 1_000;

/// Buffer of a socket of the load, bytes: small, so that nearly all of what is sent waits in the box.
const BUFFER: usize = 4 * 1024;

/// Time within which memory that is not needed any more is to be given back.
const GIVEN_BACK: Duration = Duration::from_secs(10);

/// Time until a program that has started has touched what it needs.
const REST: Duration = Duration::from_secs(1);

pub(crate) struct MemoryPart;

impl Measure for MemoryPart {
    fn plan(&self) -> Plan {
        let alone = |title: &str, metric, flows| {
            Comparison::alone(title, metric, &count_text(flows, "flow"), Way::Adaptive)
        };
        Plan {
            title: "Memory",
            how: "These are real TCP flows of 1,000 client addresses, opened through the box. The servers send 1 GB, the \
                  same on each flow, to clients that do not read, as far as the windows that the box offers allow. \
                  *Resident* is the program's memory as the kernel counts it, *held* the bytes that it has acknowledged to \
                  servers and that clients lack. Then the clients read everything. *Given back* is which share of the \
                  memory that the data took has gone 10 s later. The watchdog is a process of its own, which shares the \
                  program's code with it.",
            metrics: vec![
                metric("rest_mb", "resident at rest, MB", 1),
                metric("watchdog_mb", "watchdog, MB", 1),
                metric("held_mb", "held, MB", 0),
                metric("resident_mb", "resident then, MB", 0),
                metric("resident_per_held", "resident ÷ held", 3),
                metric("after_mb", "10 s after all was read, MB", 1),
                metric("given_back", "given back", 3),
            ],
            ways: vec![Way::Adaptive],
            rounds: 3,
            time: GIVEN_BACK,
            network: NetworkOptions { subscribers: SUBSCRIBERS, ..NetworkOptions::default() },
            comparisons: vec![
                alone("Resident at rest", "rest_mb", FLOWS[0]).in_unit(" MB", 1).at_most(40.0),
                alone("Resident ÷ held, 1,000 flows", "resident_per_held", FLOWS[0]).at_most(1.15),
                alone("Resident ÷ held, 4,000 flows", "resident_per_held", FLOWS[1]).at_most(1.15),
                alone("Given back after 10 s, 1,000 flows", "given_back", FLOWS[0]).at_least(0.95),
                alone("Given back after 10 s, 4,000 flows", "given_back", FLOWS[1]).at_least(0.95),
            ],
        }
    }

    fn measure(&mut self, stage: &mut Stage<'_>, way: Way, round: u32) -> Result<Vec<Sample>, BenchError> {
        FLOWS.into_iter().map(|flows| measure(stage, way, round, flows)).collect()
    }
}

fn measure(stage: &mut Stage<'_>, way: Way, round: u32, flows: u32) -> Result<Sample, BenchError> {
    let window = format!("{} B", HELD / flows);
    let arguments = [&MEMORY[..], &["--window-max", &window]].concat();
    let boxed =
        stage.start_with(way, &arguments)?.ok_or_else(|| BenchError::Nothing(way.name().to_owned()))?;
    stage.pause.wait(REST)?;
    let rest = resident(&boxed);
    let watchdog: u64 = children_of(boxed.pid()).into_iter().filter_map(io::resident_bytes_of).sum();
    stage.step(&format!("opening {}", count_text(flows, "flow")));
    let mut held = Held::open(stage, flows, SUBSCRIBERS.min(flows), BUFFER)?;
    held.deafen()?;
    stage.step("filling the box");
    fill(stage, &mut held, flows + 1)?;
    let bytes = boxed.status()?.processor.debt_bytes;
    let full = resident(&boxed);
    held.hear()?;
    stage.step("reading all of it");
    let lacking = missing(stage, &mut held)?;
    if lacking > 0 {
        return Err(BenchError::Load(format!("{lacking} B never arrived")));
    }
    stage.pause.wait(stage.time)?;
    let after = resident(&boxed);
    drop(held);
    boxed.stop_after(u64::from(flows), &mut stage.pause)?;
    let mb = |bytes: u64| bytes as f64 / 1e6;
    let values = [
        ("rest_mb", mb(rest)),
        ("watchdog_mb", mb(watchdog)),
        ("held_mb", mb(bytes)),
        ("resident_mb", mb(full)),
        ("resident_per_held", full as f64 / bytes as f64),
        ("after_mb", mb(after)),
        ("given_back", full.saturating_sub(after) as f64 / full.saturating_sub(rest).max(1) as f64),
    ];
    Ok(Sample::new(count_text(flows, "flow"), way, round, values))
}

fn resident(boxed: &BoxProgram) -> u64 {
    io::resident_bytes_of(boxed.pid()).unwrap_or(0)
}
