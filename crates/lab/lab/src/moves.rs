//! Subscribers that move between two base stations, with a box behind each: kernel TCP, and what becomes of its flows.

mod air;
mod boxes;
mod exchange;
mod indirect;
mod place;
mod results;
mod runner;
mod split;
mod streams;
mod world;

pub use results::{BIN_MS, FlowRun, Move, MovesResult, MovesRun};
pub(crate) use world::HOSTS;
