//! Active measurements of a live path: sockets around [`probe`], and what is told of the results.
//! `docs/probe.md`.
//!
//! [`serve`] is the server's loop. [`Session`] is a client's: it brings runs to their end. [`sweep`],
//! [`rtt`], [`tcp`], [`hops`], [`record`] and others are measurements made of runs; each gives a document,
//! which is JSON, a summary for the terminal and a page.

mod all;
mod compare;
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

pub use all::{
    AllDocument, AllPlan, NAMES as ALL_NAMES, PartRun, all, page as all_page, summary as all_summary,
};
pub use compare::{
    CapacityRow, Environment, EnvironmentComparison, RttRow, TransferRow, compare, page as compare_page,
    summary as compare_summary,
};
pub use error::{MeasureError, refusal};
pub use hops::{Growth, Hop, HopPhase, HopsDocument, HopsPhase, HopsPlan, hops};
pub use hops_page::{page as hops_page, summary as hops_summary};
pub use local::{LocalFigures, LocalPeer};
pub use maker::{Maker, Peer};
pub use middlebox::{
    CheckOutcome, Connection, Finding, MiddleboxDocument, MiddleboxPart, MiddleboxPlan, NotDone, Piece,
    PortFigures, middlebox,
};
pub use middlebox_page::{page as middlebox_page, summary as middlebox_summary};
pub use record::{RecordDocument, RecordPlan, RecordedWay, record, scenario, traces};
pub use record_page::{page as record_page, summary as record_summary};
pub use rtt::{Phase, RttDocument, RttPlan, Way, rtt, rtt_beside};
pub use rtt_page::{page as rtt_page, summary as rtt_summary};
pub use serve::{ServeOptions, serve};
pub use session::{Address, Moment, Session, SessionOptions, Watcher};
pub use sweep::{Capacity, DirectionFigures, SweepDocument, SweepPlan, SweepStep, sweep};
pub use sweep_page::{page as sweep_page, summary as sweep_summary};
pub use tcp::{Spread, TcpDocument, TcpPlan, TcpRow, TcpRun, TcpSettings, tcp};
pub use tcp_limit::Limit;
pub use tcp_page::{page as tcp_page, summary as tcp_summary};
pub use tcp_side::{TcpSample, TcpSide};
pub use timeout::{Bindings, Silence, TimeoutDocument, TimeoutPlan, timeout};
pub use timeout_page::{page as timeout_page, summary as timeout_summary};
