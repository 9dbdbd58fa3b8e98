//! The experiments of [MA], Mobile Accelerator.

mod figure_2;

use crate::Experiment;

/// All of them, in the order of the paper.
pub(crate) const EXPERIMENTS: &[&Experiment] = &[&figure_2::EXPERIMENT];
