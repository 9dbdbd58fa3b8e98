//! A live view of running accelerators in a terminal, of this machine or another one.
//!
//! ```text
//!   run ◀─ control socket ─ Local ◀───────────────────────────── Sampler ─▶ History ─▶ App ─▶ terminal
//!   run ◀─ control socket ─ Gate (may use it) ◀─ Ask ─ server (nobody) ◀─ TLS ─ Remote ─┘
//! ```
//!
//! A sample is some questions through the control socket, each of which the packet loop answers in a time that does
//! not depend on how many flows or subscribers there are. Rates, charts and the order of rows are made here.

mod app;
mod error;
mod gate;
mod history;
mod local;
mod plain;
mod question;
mod remote;
mod sample;
mod server;
mod terminal;
mod timed;
mod tls;
mod totals;
mod view;

pub use app::{App, Column, Screen};
pub use error::TopError;
pub use gate::Gate;
pub use history::{Detail, History, Moment, Row};
pub use local::Local;
pub use plain::{Report, ReportOf, gather, table};
pub use question::{Ask, Greeting, Hello, PROTOCOL, Reply, Source, read_line};
pub use remote::Remote;
pub use sample::{Focus, Sample, Sampler};
pub use server::serve;
pub use terminal::{Live, is_terminal, live};
pub use tls::{Secrets, read_token};
pub use totals::Totals;
pub use view::{draw, three_digits};
