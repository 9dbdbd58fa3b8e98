//! The experiments of [EV], Mobile TCP Evaluation.

mod environments;
mod moves;

use crate::Experiment;

pub(crate) use moves::{FILE as MOVES, read as read_moves};

/// All of them.
pub(crate) const EXPERIMENTS: &[&Experiment] = &[&environments::EXPERIMENT, &moves::EXPERIMENT];

#[cfg(test)]
mod tests;
