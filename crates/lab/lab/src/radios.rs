//! Several radios between one client and one server: kernel MPTCP, with and without the path manager.

mod air;
mod client_host;
mod clients;
mod compared;
pub(crate) mod ends;
mod manager;
mod middlebox;
mod page;
mod runner;
mod servers;
pub(crate) mod world;

pub use compared::{goodputs, shares};
pub use page::{markdown, page, table, throughput, without_series};
pub use scenario::multi_path_results::{MultiPathResult, MultiPathResults, MultiPathRun, SCHEMA};
