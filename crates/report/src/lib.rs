//! Reports from results: a text table for the terminal, one self-contained HTML page, sentences that say what was found.
//!
//! The lab's page is computed from [`scenario::results`], that of captures from what [`analysis`] finds; nothing is read
//! from elsewhere, and the pages need no network, script or font from outside.

mod axis;
mod capture_page;
mod case_flow;
mod chart;
mod compare;
mod controller_figure;
mod dataset;
mod finding;
mod flow_lines;
mod flow_row;
mod graphs;
mod html;
mod line_figure;
mod network;
mod perfetto;
mod picture;
mod pictures;
mod queue_figure;
mod table;
mod terminal;

pub use axis::{Axis, Spread, label as axis_label};
pub use capture_page::CapturePage;
pub use case_flow::CaseFlow;
pub use compare::{
    Environment, Interval, Moments, Run, Sample, comparison, mann_whitney, mean_interval, median_interval,
};
pub use controller_figure::{ControllerFigure, Curve};
pub use dataset::{CaptureId, Dataset, capture_id, columns, date_of};
pub use finding::sentence;
pub use flow_lines::{FlowLines, LineFormat};
pub use graphs::{GraphFormat, Graphs, Wanted};
pub use html::{STYLE, escape, page, page_with_flows};
pub use line_figure::{LinePanel, line_figure};
pub use perfetto::PerfettoTrace;
pub use picture::{PictureWidth, picture_svg};
pub use pictures::{drive_picture, loss_picture, ping_picture};
pub use queue_figure::{QueuePanel, queue_figure};
pub use table::{SUMMARY_MAY_GO, Table, summary};
pub use terminal::{for_terminal, wrapped};
