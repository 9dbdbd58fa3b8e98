//! Several radios between one client and one server: kernel MPTCP, with and without the path manager.

mod air;
mod compared;
mod ends;
mod manager;
mod middlebox;
mod page;
pub mod results;
mod runner;
mod world;

pub use compared::{goodputs, shares};
pub use page::{markdown, page, table, throughput, without_series};
pub use results::{MultiPathResult, MultiPathResults, MultiPathRun, SCHEMA};
pub use runner::MultiPathRunner;
