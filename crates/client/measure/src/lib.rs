//! Active measurements of a live path: sockets around [`probe`], and what is told of the results.
//! `docs/probe.md`.
//!
//! [`serve`] is the server's loop. [`Session`] is a client's: it brings runs to their end. [`sweep`],
//! [`rtt`], [`tcp`], [`hops`], [`record`] and others are measurements made of runs; each gives a document,
//! which is JSON, a summary for the terminal and a page.

mod all;
mod compare;
mod document;
mod error;
mod hops;
mod hops_page;
mod local;
mod longest_packet;
mod maker;
mod middlebox;
mod middlebox_page;
mod overload;
mod pinger;
mod record;
mod record_page;
mod rtt;
mod rtt_page;
mod seen;
mod serve;
mod session;
mod sweep;
mod sweep_page;
mod tcp;
mod tcp_limit;
mod tcp_page;
mod tcp_serve;
mod tcp_side;
mod tcp_socket;
mod timeout;
mod timeout_page;
mod verdict;

pub use all::{AllDocument, AllFigures, AllPlan, NAMES as ALL_NAMES, PartRun, all};
pub use compare::{
    CapacityRow, Environment, EnvironmentComparison, RttRow, TransferRow, compare, page as compare_page,
    summary as compare_summary,
};
pub use document::{Document, Figures};
pub use error::{MeasureError, refusal};
pub use hops::{Growth, Hop, HopPhase, HopsDocument, HopsFigures, HopsPhase, HopsPlan, hops};
pub use local::{LocalFigures, LocalPeer};
pub use maker::{Maker, Peer};
pub use middlebox::{
    CheckOutcome, Connection, Finding, MiddleboxDocument, MiddleboxFigures, MiddleboxPart, MiddleboxPlan,
    NotDone, Piece, PortFigures, middlebox,
};
pub use record::{RecordDocument, RecordFigures, RecordPlan, RecordedWay, record, scenario, traces};
pub use rtt::{Phase, RttDocument, RttFigures, RttPlan, Way, rtt, rtt_beside};
pub use serve::{ServeOptions, serve};
pub use session::{Address, Moment, Session, SessionOptions, Watcher};
pub use sweep::{Capacity, DirectionFigures, SweepDocument, SweepFigures, SweepPlan, SweepStep, sweep};
pub use tcp::{Spread, TcpDocument, TcpFigures, TcpPlan, TcpRow, TcpRun, TcpSettings, tcp};
pub use tcp_limit::Limit;
pub use tcp_side::{TcpSample, TcpSide};
pub use timeout::{Bindings, Silence, TimeoutDocument, TimeoutFigures, TimeoutPlan, timeout};
