//! [`middlebox`]: what stands between client and server, and what it does to TCP ([MP], after Wei et al.).
//!
//! ```text
//!   raw      split: each acknowledgement delayed ──▶ the server sees when its data is acknowledged
//!   raw      a SYN for each option               ──▶ the server keeps the SYN as it came
//!   system   the same request, three times       ──▶ the server counts what reaches it
//!   system   a connection that reads nothing     ──▶ the server sees how much is acknowledged
//!   system   a port where nobody listens         ──▶ who answers?
//! ```
//!
//! [`raw`] and [`plain`] make the connections, [`judge`] says what they show, and [`verdict`] all of it
//! in one sentence.

mod judge;
mod plain;
mod raw;
pub(crate) mod verdict;

use std::collections::BTreeMap;
use std::hash::{BuildHasher as _, Hasher as _, RandomState};
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread::JoinHandle;

use io::features::{Feature, require};
use io::{Clock, IoError, TcpInfo};
use probe::{DelayFigures, Key, PortState, SessionId, delay_figures, http_request};
use serde::Serialize;
use units::Duration;

use self::judge::Evidence;
use self::plain::{Failed, Filled, Get, PortPlan};
use self::raw::{Kind, RawFlow, RawPlan, Wanted};
use crate::document::{Document, Measured};
use crate::error::MeasureError;
use crate::maker::Maker;
use crate::seen::Seen;
use crate::session::{Moment, Session, Watcher};
use crate::tcp_serve::delay_max;
use probe::order::{Order, What};

/// Name and version of the document; its schema is `schemas/probe-middlebox.schema.json`.
pub const SCHEMA: &str = "cellerator/probe-middlebox/1";

/// For how long the path's round trip is measured first, and how often.
const RTT_TIME: Duration = Duration::from_millis(1_200);
const RTT_EVERY: Duration = Duration::from_millis(50);
/// The same request so often.
const REPETITIONS: u32 = 3;
/// A server without a word of its client for longer forgets it.
const KEEP_EVERY: Duration = Duration::from_secs(3);
const TURN: Duration = Duration::from_millis(100);
/// Segment size where the system does not say its own.
const MSS: u16 = 1_400;

/// Reason why a port of the server was not tested, which people need not read.
pub(crate) const NOT_ASKED: &str = "it was not asked for";

/// Plan of the measurement.
#[derive(Clone, Debug)]
pub struct MiddleboxPlan {
    /// TCP ports, where the server has them.
    pub ports: Vec<u16>,
    /// Also the port that the server has chosen at random.
    pub has_random: bool,
    /// By how much acknowledgements are delayed.
    pub delay: Duration,
    /// Tests.
    pub parts: Vec<MiddleboxPart>,
    /// The server's key.
    pub key: Option<Key>,
}

/// A group of tests.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum MiddleboxPart {
    /// Is the path split? By delayed acknowledgements.
    Split,
    /// Changes to options, numbers and flags.
    Options,
    /// Caches, and what can be learned by the system's TCP.
    Requests,
    /// Ports where nobody listens.
    Refused,
}

/// Outcome of a finding.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum CheckOutcome {
    /// Something in between acts.
    Found,
    /// Nothing in between acts.
    Clear,
    /// Not to be told.
    Unknown,
}

/// Finding of one test at one port.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Finding {
    /// TCP port of the server.
    pub port: u16,
    /// Name of the test.
    pub test: &'static str,
    /// Outcome of the test.
    pub outcome: CheckOutcome,
    /// In a few words.
    pub verdict: String,
    /// Evidence that was seen.
    pub evidence: String,
}

/// A port that was asked for or offered.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct PortFigures {
    /// Its number.
    pub port: u16,
    /// `open`, `random` or `refused`; `not the server's` of one that was asked for in vain. Servers of older
    /// programs also say `free`, `occupied` or `not permitted`.
    pub state: &'static str,
    /// Reason why it was not tested; none of one that was.
    pub untested: Option<String>,
}

/// A piece of the server's data.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Piece {
    /// Time at which it was sent, ms after the first piece.
    pub at_ms: f64,
    /// Time from then until the server had its acknowledgement, ms; none where it did not come.
    pub acknowledged_after_ms: Option<f64>,
}

/// A connection over raw sockets.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Connection {
    /// TCP port of the server.
    pub port: u16,
    /// `split`, `plain`, or what its SYN had besides.
    pub kind: &'static str,
    /// End of the connection.
    pub end: &'static str,
    /// SYNs sent.
    pub syns: u32,
    /// From SYN to SYN/ACK.
    pub handshake_ms: Option<f64>,
    /// From the request to the first byte of the answer.
    pub answered_ms: Option<f64>,
    /// Bytes of the answer.
    pub received_bytes: u64,
    /// The SYN as it left, in hexadecimal digits.
    pub syn_sent: String,
    /// The SYN as the server received it.
    pub syn_received: Option<String>,
    /// The SYN/ACK as it left the server; none where the server may not see it.
    pub syn_ack_sent: Option<String>,
    /// The SYN/ACK as it came.
    pub syn_ack_received: Option<String>,
    /// Pieces of the server's data and their acknowledgements, in the test with delayed acknowledgements.
    pub pieces: Vec<Piece>,
}

/// A part that could not be done.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct NotDone {
    /// Part that was not done.
    pub what: String,
    /// Reason, and what to do.
    pub why: String,
}

/// Result of the measurement.
pub type MiddleboxDocument = Document<MiddleboxFigures>;

/// Figures of the measurement.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct MiddleboxFigures {
    /// By how much acknowledgements were delayed.
    pub delay_s: f64,
    /// Round trips of small UDP packets before.
    pub udp_rtt: Option<DelayFigures>,
    /// Parts that were not done.
    pub not_done: Vec<NotDone>,
    /// Ports.
    pub ports: Vec<PortFigures>,
    /// By test, then by port.
    pub findings: Vec<Finding>,
    /// Connections over raw sockets.
    pub connections: Vec<Connection>,
}

/// A number that nobody can guess.
fn random() -> u64 {
    RandomState::new().build_hasher().finish()
}

/// Numbers the runs of a measurement, and makes their requests.
struct Requests<'a> {
    session: SessionId,
    key: Option<&'a Key>,
    to: SocketAddr,
    next: u32,
}

impl Requests<'_> {
    fn new_run(&mut self, what: What, length: Duration, port: u16) -> (u32, Vec<u8>) {
        // Runs of the session itself have the low numbers.
        self.next += 1;
        let order = Order {
            what,
            session: self.session,
            run: self.next,
            length,
            window: 0,
            congestion_control: String::new(),
        };
        let host = SocketAddr::new(self.to.ip(), port).to_string();
        (self.next, http_request(&order.encode(self.key), &host))
    }
}

type PlainThread = JoinHandle<Result<(Vec<Get>, Filled), IoError>>;

/// Threads that make connections.
#[derive(Default)]
struct Work {
    is_stopped: Arc<AtomicBool>,
    done: Arc<AtomicUsize>,
    planned: usize,
    raw: Option<JoinHandle<Result<Vec<RawFlow>, IoError>>>,
    plain: Vec<PlainThread>,
    refused: Vec<(u16, JoinHandle<Result<(), Failed>>)>,
}

impl Work {
    fn is_over(&self) -> bool {
        self.raw.as_ref().is_none_or(JoinHandle::is_finished)
            && self.plain.iter().all(JoinHandle::is_finished)
            && self.refused.iter().all(|(_, thread)| thread.is_finished())
    }
}

/// Goes through `plan`. What was measured is in the document, whatever happens.
///
/// # Errors
/// When the path's round trip is as long as the delay, and of the system.
pub fn middlebox(
    session: &mut Session<'_>,
    plan: &MiddleboxPlan,
    made_by: Maker,
    watcher: &mut dyn Watcher,
) -> Result<Measured<MiddleboxFigures>, MeasureError> {
    let most = session.limits().map_or(Duration::MAX, |limits| delay_max(limits.time_max));
    if plan.parts.contains(&MiddleboxPart::Split) && plan.delay > most {
        return Err(MeasureError::LongDelay { delay: plan.delay, most });
    }
    watcher.say("round trip");
    let (mut logs, failure) = session.run(&[session.echo_spec(RTT_EVERY, RTT_TIME)], watcher)?;
    let trips: Vec<f64> = logs.pop().flatten().map_or_else(Vec::new, |log| {
        log.echoes.iter().map(|echo| echo.round_trip().as_millis_f64()).collect()
    });
    let udp_rtt = delay_figures(trips);
    if let Some(failure) = failure {
        return Err(failure);
    }
    let longest = udp_rtt.as_ref().map_or(0.0, |rtt| rtt.max_ms);
    if plan.parts.contains(&MiddleboxPart::Split) && longest >= plan.delay.as_millis_f64() {
        return Err(MeasureError::Delay {
            delay: plan.delay,
            rtt: Duration::from_micros((longest * 1e3) as u64),
        });
    }
    let rtt = Duration::from_micros((longest * 1e3) as u64);
    let offered = session.ports(&plan.ports)?;
    let mut ports: Vec<PortFigures> = offered.iter().map(|port| figures(*port, plan, session)).collect();
    ports.extend(lacking(&offered, plan));
    let Some(id) = session.id() else { return Err(MeasureError::Gone { server: session.name() }) };
    let mut requests = Requests { session: id, key: plan.key.as_ref(), to: session.server(), next: 1 << 20 };
    let tested = |states: &[&str]| -> Vec<u16> {
        let wanted = ports.iter().filter(|port| port.untested.is_none() && states.contains(&port.state));
        wanted.map(|port| port.port).collect()
    };
    let (open, closed) = (tested(&["open", "random"]), tested(&["refused", "free"]));
    let mut not_done = Vec::new();
    let mut work = Work::default();
    begin(&mut work, plan, &mut requests, (&open, &closed), rtt, &mut not_done);
    watcher.say(&format!("connections to {} ports, up to {}", open.len() + closed.len(), plan.delay * 2));
    let mut keep_at = Clock::now();
    while !session.is_stopped() && !session.is_refused() && !work.is_over() {
        if Clock::now() >= keep_at {
            keep_at = Clock::now() + KEEP_EVERY;
            session.keep_alive();
        }
        session.rest(TURN)?;
        watcher.show(Moment::Moves(work.done.load(Ordering::SeqCst) as u64, work.planned as u64));
    }
    let mut evidence = finish(work, &mut not_done);
    watcher.say("what the server saw");
    let (reports, lost) = session.seen(&evidence.runs())?;
    let failure = if session.is_stopped() { Some(MeasureError::Interrupted) } else { lost };
    evidence.seen = reports.into_iter().filter_map(|(run, json)| Some((run, read(&json)?))).collect();
    evidence.delay = plan.delay;
    evidence.server = session.server().ip();
    evidence.udp_rtt_ms = udp_rtt.as_ref().map(|rtt| rtt.min_ms);
    evidence.closed = ports.iter().map(|port| (port.port, port.state)).collect();
    let figures = MiddleboxFigures {
        delay_s: plan.delay.as_secs_f64(),
        udp_rtt,
        not_done,
        ports,
        findings: evidence.findings(),
        connections: evidence.connections(),
    };
    Ok(Document::of(made_by, session.peer(), figures, failure))
}

fn read(json: &[u8]) -> Option<Vec<Seen>> {
    serde_json::from_slice(json).ok()
}

/// Work for a port.
fn figures(port: probe::Port, plan: &MiddleboxPlan, session: &Session<'_>) -> PortFigures {
    let is_main = port.number == session.server().port();
    let is_wanted = plan.ports.contains(&port.number) || is_main;
    let (state, lack) = match port.state {
        PortState::Open => ("open", (!is_wanted).then_some(NOT_ASKED)),
        PortState::Random => ("random", (!plan.has_random).then_some(NOT_ASKED)),
        PortState::Occupied => ("occupied", Some("another program of the server's host has it")),
        PortState::NotPermitted => (
            "not permitted",
            Some("the server may not listen there: start it as root, or with CAP_NET_BIND_SERVICE"),
        ),
        PortState::Free => ("free", None),
        PortState::Refused => ("refused", None),
    };
    PortFigures { port: port.number, state, untested: lack.map(str::to_owned) }
}

/// Ports that were asked for, and that the server has not named.
fn lacking(offered: &[probe::Port], plan: &MiddleboxPlan) -> impl Iterator<Item = PortFigures> {
    let is_offered = |number: u16| offered.iter().any(|port| port.number == number);
    let lacking = plan.ports.iter().copied().filter(move |number| !is_offered(*number));
    lacking.map(|port| PortFigures {
        port,
        state: "not the server's",
        untested: Some(
            "the server does not listen there: start it with --ports, and see what it says of them"
                .to_owned(),
        ),
    })
}

/// Another port of the same host, with the zone of a link-local address.
fn at_port(mut host: SocketAddr, port: u16) -> SocketAddr {
    host.set_port(port);
    host
}

/// Starts all threads.
fn begin(
    work: &mut Work,
    plan: &MiddleboxPlan,
    requests: &mut Requests<'_>,
    (open, closed): (&[u16], &[u16]),
    rtt: Duration,
    not_done: &mut Vec<NotDone>,
) {
    let has = |part| plan.parts.contains(&part);
    let to = requests.to;
    let rows = rows(plan, requests, open);
    let mss = own_mss(to, rtt);
    work.planned += rows.iter().map(Vec::len).sum::<usize>();
    if !rows.is_empty() {
        match require(Feature::PacketSockets) {
            Ok(()) => {
                let raw = RawPlan { to: to.ip(), rows, mss, delay: plan.delay, rtt };
                let (is_stopped, done) = (Arc::clone(&work.is_stopped), Arc::clone(&work.done));
                work.raw = Some(std::thread::spawn(move || raw::connections(&raw, &is_stopped, &done)));
            }
            Err(_) => not_done.push(NotDone {
                what:
                    "delayed acknowledgements; options, flags and numbers of SYNs of our own; times to live"
                        .to_owned(),
                why: "packets of our own making need CAP_NET_RAW: run as root".to_owned(),
            }),
        }
    }
    for port in open.iter().filter(|_| has(MiddleboxPart::Requests)) {
        let fill = Duration::from_secs(1) + rtt * 4;
        let (run, request) = requests.new_run(What::Fill, fill, *port);
        let ask = PortPlan {
            to: at_port(to, *port),
            get: requests.new_run(What::Look, Duration::ZERO, *port),
            repetitions: REPETITIONS,
            fill: (run, request, fill),
            rtt,
        };
        work.planned += REPETITIONS as usize + 1;
        let (is_stopped, done) = (Arc::clone(&work.is_stopped), Arc::clone(&work.done));
        work.plain.push(std::thread::spawn(move || {
            // The thread that starts this one may be a real-time one.
            let _ = io::sched::set_ordinary_priority();
            plain::ask(&ask, &is_stopped, &done)
        }));
    }
    for port in closed.iter().filter(|_| has(MiddleboxPart::Refused)) {
        let at = at_port(to, *port);
        work.planned += 1;
        let done = Arc::clone(&work.done);
        let thread = std::thread::spawn(move || {
            let came = plain::connect(at, plain::patience(rtt), false).map(drop);
            done.fetch_add(1, Ordering::SeqCst);
            came
        });
        work.refused.push((*port, thread));
    }
}

/// Rows of raw connections: of each port one with delayed acknowledgements, and beside it those with options.
fn rows(plan: &MiddleboxPlan, requests: &mut Requests<'_>, open: &[u16]) -> Vec<Vec<Wanted>> {
    let has = |part| plan.parts.contains(&part);
    let mut rows = Vec::new();
    for port in open.iter().copied() {
        let mut wanted = |kind: Kind| {
            let (what, length) = match kind {
                Kind::Split => (What::Split, plan.delay),
                _ => (What::Look, Duration::ZERO),
            };
            let (run, request) = requests.new_run(what, length, port);
            Wanted { port, run, kind, request }
        };
        if has(MiddleboxPart::Split) {
            rows.push(vec![wanted(Kind::Split)]);
        }
        if has(MiddleboxPart::Options) {
            rows.push(Kind::OPTIONS.map(&mut wanted).to_vec());
        }
    }
    rows
}

/// The segment size that the system itself offers on this path.
fn own_mss(to: SocketAddr, rtt: Duration) -> u16 {
    let stream = plain::connect(to, plain::patience(rtt), false).ok();
    let info = stream.and_then(|stream| TcpInfo::of(&stream).ok());
    info.and_then(|info| u16::try_from(info.offered_mss).ok()).filter(|mss| *mss > 0).unwrap_or(MSS)
}

/// Waits for all threads, and gathers what they know.
fn finish(work: Work, not_done: &mut Vec<NotDone>) -> Evidence {
    work.is_stopped.store(true, Ordering::SeqCst);
    let mut evidence = Evidence::new();
    let mut lost = |why: String| not_done.push(NotDone { what: "some connections".to_owned(), why });
    if let Some(thread) = work.raw {
        match thread.join() {
            Ok(Ok(flows)) => evidence.raw = flows,
            Ok(Err(error)) => lost(error.to_string()),
            Err(_) => lost("the thread of raw connections has failed".to_owned()),
        }
    }
    for thread in work.plain {
        match thread.join() {
            Ok(Ok((gets, filled))) => {
                evidence.gets.extend(gets);
                evidence.filled.push(filled);
            }
            Ok(Err(error)) => lost(error.to_string()),
            Err(_) => lost("the thread of a port has failed".to_owned()),
        }
    }
    evidence.refused = work
        .refused
        .into_iter()
        .map(|(port, thread)| (port, thread.join().unwrap_or(Err(Failed::Stopped))))
        .collect();
    evidence
}

/// Reports by run.
type SeenByRun = BTreeMap<u32, Vec<Seen>>;
