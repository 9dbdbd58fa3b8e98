//! Many downloads of one client at once, and a ping.

use std::sync::atomic::AtomicBool;

use engine::{Engine, PassThrough};
use link::Percentiles;
use sim::{NetworkConfig, SimError};
use units::{Duration, Instant};

use crate::bulk::{Observed, PING, SURPLUS, Watched, pings};
use crate::line_up::{FlowPlan, LineUp};
use crate::mixed::fairness;
use crate::results::FlowsRun;

/// From the begin of one download to the next.
const STAGGER: Duration = Duration::from_millis(20);

/// Runs `count` downloads for `length`; their shares are of the time from a quarter of it on.
pub(crate) fn flows(
    line_up: &LineUp<'_>,
    length: Duration,
    count: usize,
    run: FlowsRun,
) -> Result<FlowsRun, SimError> {
    let all = (line_up.trace.down.offered_bytes(Duration::ZERO, length * 2) + SURPLUS).get();
    let begins = |number: usize| Instant::ZERO + STAGGER * number as u64;
    let downloads = (0..count).map(|number| FlowPlan::download(all, begins(number)));
    let flows: Vec<FlowPlan> = core::iter::once(pings(length)).chain(downloads).collect();
    let network = line_up.network(&flows);
    match line_up.engine() {
        None => through(PassThrough, (&network, line_up.is_over), length, run),
        Some(config) => through(Engine::new(config)?, (&network, line_up.is_over), length, run),
    }
}

fn through<M: Observed>(
    middlebox: M,
    (network, is_over): (&NetworkConfig, &AtomicBool),
    length: Duration,
    mut run: FlowsRun,
) -> Result<FlowsRun, SimError> {
    let mut watched = Watched::new(middlebox, network, is_over)?;
    watched.run(length);
    let (from, end) = (Instant::ZERO + length.mul_ratio(1, 4), Instant::ZERO + length);
    let seconds = end.saturating_since(from).as_secs_f64();
    let mut rates: Vec<f64> = (PING + 1..network.flows.len())
        .map(|flow| (watched.read_by(flow, end) - watched.read_by(flow, from)) as f64 * 8e-6 / seconds)
        .collect();
    rates.sort_by(f64::total_cmp);
    let radio = watched.radio(length);
    let arrived = radio.delivered_packets + radio.queue_full;
    run.flows = rates.len() as u64;
    run.utilisation = radio.utilisation;
    run.queue_ms = radio.queueing_delay.into();
    run.loss = radio.queue_full as f64 / arrived.max(1) as f64;
    run.ping_ms = Percentiles::of(watched.response_times(PING).to_vec()).into();
    run.fairness = fairness(&rates);
    run.slowest_mbps = rates.first().copied().unwrap_or(0.0);
    run.fastest_mbps = rates.last().copied().unwrap_or(0.0);
    run.problems = watched.problems;
    Ok(run)
}
