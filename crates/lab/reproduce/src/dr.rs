//! The experiments of [DR], dynamic receive window adjustment.

mod congestion_controls;
mod figure_20;
mod receiver;
mod sharing;
mod window_sweep;

use figures::stats::Moments;

use crate::runs::mean;
use crate::{CaseId, Experiment, Runs};

/// All of them, in the order of the paper.
pub(crate) const EXPERIMENTS: &[&Experiment] = &[
    &congestion_controls::EXPERIMENT,
    &receiver::EXPERIMENT,
    &sharing::EXPERIMENT,
    &window_sweep::EXPERIMENT,
    &figure_20::EXPERIMENT,
];

/// Mean RTT of data in a capture at the server, ms: with an accelerator that splits it is the wired
/// segment's only.
fn rtt_at_server<C: CaseId>(runs: &Runs<C>, case: C) -> Option<Moments> {
    let mean = |run: &crate::Run| {
        Some(run.seen.at_server.first()?.directions[analysis::Direction::FromSecond].rtt.karn?.mean_ms)
    };
    Moments::of(runs.of(case).filter_map(mean))
}

/// Propagation both ways and the mean queueing delay, ms.
fn rtt_by_queue<C: CaseId>(runs: &Runs<C>, case: C, propagation_ms: f64) -> Option<Moments> {
    runs.moments(case, |figures| propagation_ms + figures.radio.queue_delay_ms.mean)
}

#[cfg(test)]
mod tests;
