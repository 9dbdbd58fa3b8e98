//! The integration tests as one program, which is linked once.

// In helpers of tests, too, a failure is a failed test.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod additions;
mod beside;
mod broken_middleboxes;
mod cases_beside;
mod congestion_controls;
mod crashes;
mod endpoint_model;
mod fairness;
mod handover_rates;
mod handovers;
mod marking_queues;
mod memory;
mod moves;
mod opaque;
mod opportunistic;
mod packet_scripts;
mod random;
mod split_tcp;
mod watched_runs;
mod windows;
