//! The papers' tables and figures, run again and laid beside what they print.
//!
//! An [`Experiment`] belongs to one table or figure of one paper. It runs the scenario files of
//! `experiments/` through a [`Context`], in virtual time or in the lab, and hands back an [`Outcome`]:
//! tables and figures with the paper's values beside ours, aims that were reached or missed, and why we
//! differ. What a paper printed is data with its place in the paper; what we found is always computed
//! from runs. A [`Reproduction`] is an outcome with all that made it, stored as JSON, from which
//! [`html`] and [`markdown`] make the pages.

mod accelerated;
mod case_id;
mod chart;
mod context;
mod document;
mod dr;
mod error;
mod ev;
mod experiment;
mod facts;
mod figure;
#[cfg(test)]
mod given;
mod lab_runs;
mod link_figure;
mod ma;
mod markdown;
mod mp;
mod outcome;
mod page;
mod prose;
mod radio_log;
mod record;
mod runs;
mod seen;
mod table;
mod wa;

pub use case_id::CaseId;
pub use chart::chart;
pub use context::{Context, EngineOf, Step, Where};
pub use document::{Maker, Reproduction, SCHEMA, Store};
pub use error::ReproduceError;
pub use experiment::{BuiltIn, Experiment, InLab, Paper, all, chosen};
pub use facts::{Fact, Facts};
pub use figure::{Axis, Figure, Panel, Point, Series};
pub use figures::chart::Mark;
pub use link_figure::link_figure;
pub use markdown::{Document, in_words, lab_markdown, markdown};
pub use outcome::{Check, Outcome};
pub use page::html;
pub use prose::{Prose, ProseError};
pub use radio_log::{LossEvent, RadioLog};
pub use record::{RunRecord, UsedScenario, fingerprint};
pub use runs::{Run, Runs, rebinned};
pub use seen::{Host, Looking, Seen, SeenPacket};
pub use table::{Column, Row, Source, Table, Value};
pub use wa::stability::{ControlledQueue, Stability};
