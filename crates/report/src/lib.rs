//! Reports from results: a text table for the terminal, one self-contained HTML page, sentences that say what was found.
//!
//! The lab's page is computed from [`scenario::results`], that of captures from what [`analysis`] finds; nothing is read
//! from elsewhere, and the pages need no network, script or font from outside.

mod axis;
mod capture_page;
mod chart;
mod finding;
mod html;
mod network;
mod table;

pub use capture_page::CapturePage;
pub use finding::sentence;
pub use html::page;
pub use table::{Table, summary};
