//! The experiments of [MA], Mobile Accelerator.

mod figure_2;
mod figure_3;
mod figure_4;
mod figure_5;
mod table_3;
mod table_5;
mod udp_sweep;

use crate::Experiment;
use crate::runs::mean;

/// All of them, in the order of the paper.
pub(crate) const EXPERIMENTS: &[&Experiment] = &[
    &udp_sweep::TABLE_1,
    &figure_2::EXPERIMENT,
    &figure_3::EXPERIMENT,
    &figure_4::EXPERIMENT,
    &figure_5::EXPERIMENT,
    &table_3::EXPERIMENT,
    &udp_sweep::TABLE_4,
    &table_5::EXPERIMENT,
];

#[cfg(test)]
mod tests;
