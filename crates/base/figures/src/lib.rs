//! Figures: what values say ([`stats`]), and how that is shown: as charts ([`chart`]), as tables
//! ([`Table`]), in pages ([`page`]).
//!
//! Nothing here knows what is measured. The program that measures brings values, names and units.

mod calendar;
pub mod chart;
pub mod page;
pub mod stats;
mod table;
mod terminal;
mod words;

pub use calendar::{date, date_and_time};
pub use table::{Table, TableColumn};
pub use terminal::for_terminal;
pub use words::{distinct, number, wrapped};
