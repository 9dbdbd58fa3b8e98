//! Reports from results: a text table for the terminal, one self-contained HTML page, sentences that say
//! what was found.
//!
//! The lab's page is computed from [`scenario::results`], that of captures from what [`analysis`] finds;
//! nothing is read from elsewhere, and the pages need no network, script or font from outside.

mod beside;
mod capture_page;
mod case_charts;
mod case_flow;
mod compare;
mod dataset;
mod finding;
#[cfg(test)]
mod fixture;
mod flow_lines;
mod flow_row;
mod graphs;
mod html;
mod network;
mod perfetto;
mod picture;
mod pictures;
mod summary;
mod trace_chart;
mod variant_name;

pub use capture_page::CapturePage;
pub use case_flow::CaseFlow;
pub use compare::{CaptureCounts, Environment, Run, comparison};
pub use dataset::{CaptureId, Dataset, capture_id, columns, date_of, series_run};
pub use finding::sentence;
pub use flow_lines::{FlowLines, LineFormat};
pub use graphs::{GraphFormat, Graphs, Wanted};
pub use html::{page, page_with_flows};
pub use perfetto::PerfettoTrace;
pub use picture::picture_chart;
pub use pictures::{drive_picture, loss_picture, phone_picture, ping_picture};
pub use summary::{SUMMARY_MAY_GO, summary};
pub use trace_chart::trace_chart;
