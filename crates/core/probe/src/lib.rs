//! Active measurement of a path between two hosts: `docs/probe.md`.
//!
//! ```text
//!      client                                   server
//!        │  Hello, no cookie ─────────────────▶   │   keeps nothing, answers with no more than it got
//!        │  ◀───────────────── Challenge, cookie  │
//!        │  Hello, cookie, signed ────────────▶   │   the address is proven: a session
//!        │  ◀──────────────────── Accept, limits  │
//!        │  Ask run 1: up, 4 Mbit/s, 5 s ─────▶   │
//!        │  ◀───────────────── Grant, or Wait: 2  │   one client at a time is measured
//!        │  Data Data Data … ─────────────────▶   │   notes when each arrives
//!        │  ◀────────────────────────── Status …  │
//!        │  Finish ───────────────────────────▶   │
//!        │  ◀──────────────────────────  Summary  │
//!        │  Fetch from 0, 256, … ─────────────▶   │
//!        │  ◀─────────────────────────── Records  │
//! ```
//!
//! [`Client`] and [`Server`] take datagrams and the time, and give datagrams and deadlines. They read
//! no clock and know no socket. [`Sender`] says when each packet leaves, [`Receiver`] notes when each
//! arrives, and [`RunFigures`] says what came of it. [`Search`] is the load adjustment of RFC 9097.

mod auth;
mod client;
mod client_path;
mod clock;
mod fetch;
mod figures_of;
mod http_order;
mod idle;
mod locate;
mod log;
mod message;
mod octets;
pub mod order;
mod ping;
mod receiver;
mod record;
mod saturation;
mod search;
mod sender;
mod server;
mod small_tcp;
mod syn;

pub use auth::{Cookie, CookieJar, Key};
pub use client::{Client, ClientConfig, ClientEvent, Failure};
pub use client_path::ClientPath;
pub use clock::ClockEstimate;
pub use figures_of::{
    BinnedSeries, Burst, Correlation, DelayFigures, Doubt, LossEvent, Outage, RunFigures, delay_figures,
    outages,
};
pub use http_order::{HttpOrder, REQUEST_MAX, from_digits, http_order, http_request, to_digits};
pub use idle::{IdleEnd, IdleFlow};
pub use locate::{Located, answer_location, ask_location, read_location};
pub use log::{EchoSample, Ending, RunLog};
pub use message::{
    Arrival, DATA_LEN, Data, Direction, Echo, Limits, Message, MessageError, Pattern, Port, PortState,
    Refusal, RunSpec, RunSummary, SessionId, StatusReport, TRAIN, TimerFigures, VERSION,
};
pub use ping::{PingSample, Pings};
pub use receiver::Receiver;
pub use record::{Buffer, BufferKind, Light, Recording, Share, Train, WayRecord};
pub use saturation::Saturation;
pub use search::{Search, rate_of_row};
pub use sender::{LateLog, Sender};
pub use server::{ARRIVALS_MAX, Question, Server, ServerConfig, ServerCounters, Transmit, client_of};
pub use small_tcp::{SmallTcp, SmallTcpEnd, SmallTcpLog, SmallTcpSpec};
pub use syn::{Handshake, TcpOption, option_kind, options_bytes};
