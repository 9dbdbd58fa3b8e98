//! The experiment of [EV], Mobile TCP Evaluation.

mod environments;

use crate::Experiment;

/// All of them.
pub(crate) const EXPERIMENTS: &[&Experiment] = &[&environments::EXPERIMENT];

#[cfg(test)]
mod tests;
