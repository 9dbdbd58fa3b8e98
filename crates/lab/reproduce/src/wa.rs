//! The experiments of [WA], TCP over HSDPA with a window adaptation proxy.

mod collapse;
mod figure_3;
mod figure_4;
mod figure_7;
pub(crate) mod stability;
mod table_1;

use figures::stats::Moments;

use crate::runs::mean;
use crate::{CaseId, Experiment, Runs};

/// All of them, in the order of the paper.
pub(crate) const EXPERIMENTS: &[&Experiment] =
    &[&figure_3::EXPERIMENT, &figure_7::EXPERIMENT, &table_1::EXPERIMENT, &collapse::EXPERIMENT];

/// Packets of the paper, bytes.
const PACKET: f64 = 1_500.0;
/// Length of every run, seconds.
const RUN_S: f64 = 150.0;

/// Delivered over offered bytes, percent.
fn percent<C: CaseId>(runs: &Runs<C>, case: C) -> Option<Moments> {
    runs.moments(case, |figures| figures.radio.utilisation.unwrap_or(f64::NAN) * 100.0)
}

/// Packets per second that the link could carry.
fn upper_bound<C: CaseId>(runs: &Runs<C>, case: C) -> Option<Moments> {
    runs.moments(case, |figures| {
        figures.radio.offered_bytes.unwrap_or(0) as f64 / PACKET / figures.transfer.seconds
    })
}

/// Packets per second that it carried.
fn packets_per_second<C: CaseId>(runs: &Runs<C>, case: C) -> Option<Moments> {
    runs.moments(case, |figures| figures.radio.delivered_bytes as f64 / PACKET / figures.transfer.seconds)
}

/// Packets dropped by the full queue.
fn dropped<C: CaseId>(runs: &Runs<C>, case: C) -> Option<Moments> {
    runs.moments(case, |figures| figures.radio.dropped_full as f64)
}

#[cfg(test)]
mod tests;
