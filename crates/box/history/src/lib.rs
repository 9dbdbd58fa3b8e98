//! History of accelerators: a bounded history of minutes, and a report of it with what was before.
//!
//! ```text
//!   run ◀─ control socket ─ Recorder ─ a Slice per minute ─▶ HistoryFile ─▶ Report::of ─▶ HTML, JSON, one page
//!                                                                              ▲
//!                                                      an earlier report ──────┘
//! ```
//!
//! The recorder is a process of its own behind the control socket, and needs no right but to use that. It keeps
//! no addresses.

mod ab;
mod before;
mod error;
mod file;
mod format;
mod page;
mod pdf;
mod recorder;
mod report;
mod slice;

pub use ab::comparison;
pub use error::HistoryError;
pub use file::HistoryFile;
pub use page::{html, one_page};
pub use pdf::{print, printer};
pub use recorder::{Recorder, phase};
pub use report::{
    About, ClassFigures, Compared, FlowsFigures, MadeBy, PassedFigures, Report, SCHEMA, SIZE_CLASSES,
    SlicePoint, Totals, Verdict,
};
pub use slice::{FLOWS_PER_SLICE, FlowFigures, HalfFigures, Slice, TurnsFigures};
