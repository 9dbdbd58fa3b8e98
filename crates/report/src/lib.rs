//! Reports from results: a text table for the terminal, one self-contained HTML page, sentences that say what was found.
//!
//! Everything shown is computed from [`scenario::results`]; nothing is read from elsewhere, and the page
//! needs no network, script or font from outside.

mod axis;
mod chart;
mod finding;
mod html;
mod network;
mod table;

pub use finding::sentence;
pub use html::page;
pub use table::{Table, summary};
