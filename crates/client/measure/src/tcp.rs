//! [`tcp`]: bulk transfers over TCP, and what limited each ([MP] Tables II–IV).

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;

use figures::stats::{Moments, mean};
use io::{Clock, IoError};
use probe::{DelayFigures, Direction, Key, Limits, SessionId, delay_figures};
use serde::Serialize;
use units::Duration;

use crate::document::{Document, Measured};
use crate::error::MeasureError;
use crate::maker::Maker;
use crate::session::{Beside, Session, Watcher};
use crate::tcp_limit::Limit;
use crate::tcp_side::{TcpSample, TcpSide, fresh, receive, send};
use crate::tcp_socket::{TIMEOUT, abort, connect, set_congestion_control, wait_at_most};
use crate::verdict::{digits, sentence, way};
use probe::order::{Answer, ORDER_LEN, Order, What};

/// Name and version of the document; its schema is `schemas/probe-tcp.schema.json`.
pub const SCHEMA: &str = "cellerator/probe-tcp/1";

/// Between two of the small packets that measure the round trip beside a transfer.
const ECHO_EVERY: Duration = Duration::from_millis(50);
/// Time that a transfer may take beyond that of its data: handshakes, the report.
const MORE: Duration = Duration::from_secs(8);
const SILENCE_MAX: Duration = Duration::from_secs(8);
/// Longest report.
const REPORT_MAX: u64 = 4 << 20;

/// Plan of the measurement.
#[derive(Clone, Debug)]
pub struct TcpPlan {
    /// Directions, in this order.
    pub directions: Vec<Direction>,
    /// Length of each transfer.
    pub length: Duration,
    /// Transfers each way.
    pub repetitions: u32,
    /// Congestion controls of the sender to try; empty for the system's.
    pub congestion_controls: Vec<String>,
    /// Largest windows of the receiver to try, bytes; zero for the system's.
    pub windows: Vec<u32>,
    /// The server's key.
    pub key: Option<Key>,
}

/// Settings of a transfer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct TcpSettings {
    /// `up` or `down`.
    pub direction: &'static str,
    /// Congestion control of the sender that was asked for; none for its system's.
    pub congestion_control: Option<String>,
    /// Largest window of the receiver that was asked for; none for its system's.
    pub window_bytes: Option<u32>,
}

impl TcpSettings {
    /// Settings that were asked for, in words; empty where nothing was.
    #[must_use]
    pub fn words(&self) -> String {
        let window = self.window_bytes.map(|bytes| format!("{} KB", digits(f64::from(bytes) / 1e3)));
        let words: Vec<String> = self.congestion_control.iter().cloned().chain(window).collect();
        words.join(", ")
    }
}

/// A transfer.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct TcpRun {
    /// Settings of the transfer.
    #[serde(flatten)]
    pub settings: TcpSettings,
    /// From 1.
    pub repetition: u32,
    /// Bytes received.
    pub bytes: u64,
    /// From the first byte to the last that counts.
    pub seconds: f64,
    /// Bytes over seconds.
    pub goodput_mbps: f64,
    /// From SYN to SYN/ACK, at the client.
    pub handshake_ms: f64,
    /// From SYN/ACK to ACK, as the server's kernel has it.
    pub server_handshake_ms: Option<f64>,
    /// Mean of the sender's smoothed round trip.
    pub rtt_mean_ms: Option<f64>,
    /// Round trips of small UDP packets beside the transfer.
    pub udp_rtt: Option<DelayFigures>,
    /// Segments sent again.
    pub retransmitted: u32,
    /// The same of all data segments sent.
    pub loss_percent: Option<f64>,
    /// Limit of the transfer: what kept it from being faster.
    pub limit: Limit,
    /// Segment size.
    pub mss: u32,
    /// Goodput in each 100 ms.
    pub goodput_100ms_mbps: Vec<f64>,
    /// The sender's `TCP_INFO` every 100 ms.
    pub samples: Vec<TcpSample>,
}

/// Mean and standard deviation of a sample; no deviation of one.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Spread {
    /// Mean.
    pub mean: f64,
    /// Standard deviation.
    pub deviation: Option<f64>,
}

/// A row of the table of [MP].
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct TcpRow {
    /// Settings of its transfers.
    #[serde(flatten)]
    pub settings: TcpSettings,
    /// Transfers.
    pub runs: usize,
    /// Goodput.
    pub bandwidth_mbps: Option<Spread>,
    /// Mean round trip of each transfer.
    pub rtt_ms: Option<Spread>,
    /// Segments sent again of all.
    pub loss_percent: Option<Spread>,
    /// Handshake at the client.
    pub handshake_ms: Option<Spread>,
    /// Limits of the transfers, and how many transfers each of them limited: `network 6×`.
    pub limited_by: String,
}

/// Result of the measurement.
pub type TcpDocument = Document<TcpFigures>;

/// Figures of the measurement.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct TcpFigures {
    /// A row for each way, congestion control and window.
    pub rows: Vec<TcpRow>,
    /// Each transfer.
    pub runs: Vec<TcpRun>,
}

/// Inputs of a transfer.
#[derive(Clone)]
struct Job {
    to: SocketAddr,
    direction: Direction,
    session: SessionId,
    run: u32,
    length: Duration,
    congestion_control: String,
    window: u32,
    key: Option<Key>,
}

impl Job {
    fn settings(&self) -> TcpSettings {
        TcpSettings {
            direction: self.direction.name(),
            congestion_control: Some(self.congestion_control.clone()).filter(|name| !name.is_empty()),
            window_bytes: Some(self.window).filter(|window| *window > 0),
        }
    }
}

/// Every way with every congestion control and window, in the order in which they are repeated.
fn settings(plan: &TcpPlan) -> Vec<(Direction, &str, u32)> {
    let controls = plan.congestion_controls.iter().map(String::as_str);
    let both = controls.flat_map(|control| plan.windows.iter().map(move |window| (control, *window)));
    let all = both.flat_map(|(control, window)| {
        plan.directions.iter().map(move |direction| (*direction, control, window))
    });
    all.collect()
}

/// Result of a transfer.
struct Transfer {
    handshake_ms: f64,
    sender: TcpSide,
    receiver: TcpSide,
    server_handshake_ms: Option<f64>,
    /// Reason why the server's side did not come; none where it did.
    lacks: Option<String>,
}

/// Goes through `plan`. What was measured is in the document, whatever happens.
///
/// # Errors
/// Of the system only.
pub fn tcp(
    session: &mut Session<'_>,
    plan: &TcpPlan,
    made_by: Maker,
    watcher: &mut dyn Watcher,
) -> Result<Measured<TcpFigures>, IoError> {
    let (mut runs, mut failure) = (Vec::<TcpRun>::new(), None);
    // Runs of one session have their own numbers, also where another measurement went before.
    let first_run = session.next_transfer(plan.repetitions * settings(plan).len() as u32);
    'all: for repetition in 1..=plan.repetitions {
        for (direction, control, window) in settings(plan) {
            let Some(id) = session.id() else { break 'all };
            let job = Job {
                to: session.server(),
                direction,
                session: id,
                run: first_run + u32::try_from(runs.len()).unwrap_or(u32::MAX),
                length: plan.length,
                congestion_control: control.to_owned(),
                window,
                key: plan.key.clone(),
            };
            let asked = job.settings();
            let words = asked.words();
            let with = if words.is_empty() { String::new() } else { format!(" ({words})") };
            watcher.say(&format!("{}{with} {repetition}/{}", direction.name(), plan.repetitions));
            let mut task = Task::new(job);
            let echo = session.echo_spec(ECHO_EVERY, plan.length + MORE);
            let (mut logs, failed) = session.run_beside(&[echo], watcher, &mut task)?;
            let transfer = task.end();
            let udp_rtt = logs.pop().flatten().and_then(|log| {
                delay_figures(log.echoes.iter().map(|echo| echo.round_trip().as_millis_f64()).collect())
            });
            let lacks = match transfer {
                Some(Ok(transfer)) => {
                    let mut run = run(asked, repetition, &transfer, udp_rtt);
                    by_server(&mut run, session.limits());
                    runs.push(run);
                    transfer.lacks
                }
                Some(Err(why)) => Some(why),
                None => None,
            };
            let refused = |why| MeasureError::Refused { server: session.name(), why };
            failure = failed.or_else(|| lacks.map(refused));
            if failure.is_some() {
                break 'all;
            }
        }
    }
    Ok(Document::of(made_by, session.peer(), TcpFigures { rows: rows(&runs), runs }, failure))
}

/// A transfer in a thread of its own.
struct Task {
    job: Option<Job>,
    thread: Option<JoinHandle<Result<Transfer, String>>>,
    is_stopped: Arc<AtomicBool>,
    is_over: Arc<AtomicBool>,
}

impl Task {
    fn new(job: Job) -> Self {
        Self { job: Some(job), thread: None, is_stopped: Arc::default(), is_over: Arc::default() }
    }

    /// Result; none of one that never began.
    fn end(mut self) -> Option<Result<Transfer, String>> {
        self.is_stopped.store(true, Ordering::SeqCst);
        let ended = self.thread.take()?.join();
        Some(ended.unwrap_or_else(|_| Err("the thread of a transfer has failed".to_owned())))
    }
}

impl Beside for Task {
    fn begin(&mut self) {
        let Some(job) = self.job.take() else { return };
        let (is_stopped, is_over) = (Arc::clone(&self.is_stopped), Arc::clone(&self.is_over));
        self.thread = Some(std::thread::spawn(move || {
            // The thread that starts this one may be a real-time one.
            let _ = io::sched::set_ordinary_priority();
            let came = transfer(&job, &is_stopped);
            is_over.store(true, Ordering::SeqCst);
            came
        }));
    }

    fn is_over(&self) -> bool {
        self.is_over.load(Ordering::SeqCst)
    }
}

/// Makes a transfer, and fetches the server's side of it.
fn transfer(job: &Job, is_stopped: &AtomicBool) -> Result<Transfer, String> {
    let words = |error: IoError| error.to_string();
    let is_down = job.direction == Direction::Down;
    let order = |what: What| Order {
        what,
        session: job.session,
        run: job.run,
        length: job.length,
        window: if is_down { 0 } else { job.window },
        congestion_control: if is_down { job.congestion_control.clone() } else { String::new() },
    };
    let began = Clock::now();
    let stream = connect(job.to, if is_down { job.window } else { 0 }).map_err(words)?;
    let handshake_ms = Clock::now().saturating_since(began).as_millis_f64();
    let name = &job.congestion_control;
    if !is_down && !name.is_empty() && !set_congestion_control(&stream, name) {
        return Err(format!(
            "this machine has no congestion control '{name}': load its module (modprobe tcp_{name})"
        ));
    }
    let side = fresh(&stream).map_err(words)?;
    ask(&stream, &order(if is_down { What::Down } else { What::Up }), job.key.as_ref())?;
    stream.set_nonblocking(true).map_err(|e| e.to_string())?;
    let mut stopped = |_| is_stopped.load(Ordering::SeqCst);
    let own = if is_down {
        receive(&stream, side, job.length, SILENCE_MAX, &mut stopped)
    } else {
        let sent = send(&stream, side, job.length, &mut stopped);
        abort(&stream);
        sent
    };
    let own = own.map_err(words)?;
    drop(stream);
    let (theirs, lacks) = match report(job, &order(What::Report)) {
        Ok(theirs) => (theirs, None),
        // What came is known here; what arrived, by its acknowledgements.
        Err(why) if is_down && !own.received_bytes.is_empty() => (TcpSide::default(), Some(why)),
        Err(why) if !is_down && own.acknowledged() > 0 => (own.receiver_as_acknowledged(), Some(why)),
        Err(why) => return Err(why),
    };
    let server_handshake_ms = theirs.handshake_ms;
    let (sender, receiver) = if is_down { (theirs, own) } else { (own, theirs) };
    Ok(Transfer { handshake_ms, sender, receiver, server_handshake_ms, lacks })
}

/// The server's side of a transfer that is over.
fn report(job: &Job, order: &Order) -> Result<TcpSide, String> {
    let stream = connect(job.to, 0).map_err(|error| error.to_string())?;
    ask(&stream, order, job.key.as_ref())?;
    let mut json = Vec::new();
    stream
        .take(REPORT_MAX)
        .read_to_end(&mut json)
        .map_err(|e| format!("the server's report did not come: {e}"))?;
    serde_json::from_slice(&json).map_err(|e| format!("the server's report is not understood: {e}"))
}

/// Says what is wanted, and hears whether it is granted.
pub(crate) fn ask(mut stream: &TcpStream, order: &Order, key: Option<&Key>) -> Result<(), String> {
    wait_at_most(stream, TIMEOUT).map_err(|error| error.to_string())?;
    let bytes: [u8; ORDER_LEN] = order.encode(key);
    let mut answer = [0];
    let asked = stream.write_all(&bytes).and_then(|()| stream.read_exact(&mut answer));
    asked
        .map_err(|e| format!("no answer over TCP ({e}): is something in between that is not the server?"))?;
    let [answer] = answer;
    match Answer::from_byte(answer) {
        Some(Answer::Yes) => Ok(()),
        Some(answer) => Err(answer.words(order)),
        None => Err("something else than a probe server answers over TCP".to_owned()),
    }
}

fn run(settings: TcpSettings, repetition: u32, transfer: &Transfer, udp_rtt: Option<DelayFigures>) -> TcpRun {
    let (sender, receiver) = (&transfer.sender, &transfer.receiver);
    let bytes: u64 = receiver.received_bytes.iter().sum();
    let last = sender.samples.last();
    let retransmitted = last.map_or(0, |sample| sample.retransmitted);
    let segments = last.map_or(0, |sample| sample.segments);
    // Before the first acknowledgement of data it is the handshake's.
    let loaded = sender.samples.iter().filter(|sample| sample.acked_bytes > 1);
    let limit = Limit::of(sender, settings.congestion_control.as_deref());
    TcpRun {
        settings,
        repetition,
        bytes,
        seconds: receiver.seconds,
        goodput_mbps: if receiver.seconds > 0.0 { bytes as f64 * 8.0 / receiver.seconds / 1e6 } else { 0.0 },
        handshake_ms: transfer.handshake_ms,
        server_handshake_ms: transfer.server_handshake_ms,
        rtt_mean_ms: mean(loaded.map(|sample| sample.srtt_ms)),
        udp_rtt,
        retransmitted,
        loss_percent: (segments > 0).then(|| f64::from(retransmitted) * 100.0 / f64::from(segments)),
        limit,
        mss: sender.mss,
        // Each value is 100 ms: ten of them make a second.
        goodput_100ms_mbps: receiver.received_bytes.iter().map(|bytes| *bytes as f64 * 8.0 / 1e5).collect(),
        samples: sender.samples.clone(),
    }
}

/// A server paces what it sends to its largest rate, which is not the network's doing.
fn by_server(run: &mut TcpRun, limits: Option<Limits>) {
    /// Of the rate, headers and start taken off.
    const NEAR: f64 = 0.93;
    let Some(rate_max) = limits.map(|limits| limits.rate_max.as_mbps_f64()) else { return };
    if run.settings.direction == Direction::Down.name()
        && run.limit.by == "network"
        && run.goodput_mbps >= rate_max * NEAR
    {
        run.limit.by = "server";
        run.limit.why = format!("the server, which sends at most {rate_max:.0} Mbit/s (--rate-max)");
    }
}

/// A row for each of the settings, in the order in which they were first tried.
fn rows(runs: &[TcpRun]) -> Vec<TcpRow> {
    let mut tried: Vec<&TcpSettings> = Vec::new();
    for run in runs {
        if !tried.contains(&&run.settings) {
            tried.push(&run.settings);
        }
    }
    tried.into_iter().map(|settings| row(settings, runs)).collect()
}

fn row(settings: &TcpSettings, runs: &[TcpRun]) -> TcpRow {
    let own: Vec<&TcpRun> = runs.iter().filter(|run| run.settings == *settings).collect();
    let spread = |of: &dyn Fn(&TcpRun) -> Option<f64>| {
        let moments = Moments::of(own.iter().filter_map(|run| of(run)))?;
        Some(Spread { mean: moments.mean, deviation: moments.deviation() })
    };
    let mut limits: Vec<(&str, usize)> = Vec::new();
    for run in &own {
        match limits.iter_mut().find(|(by, _)| *by == run.limit.by) {
            Some((_, count)) => *count += 1,
            None => limits.push((run.limit.by, 1)),
        }
    }
    let limited_by: Vec<String> = limits.iter().map(|(by, count)| format!("{by} {count}×")).collect();
    TcpRow {
        settings: settings.clone(),
        runs: own.len(),
        bandwidth_mbps: spread(&|run| Some(run.goodput_mbps)),
        rtt_ms: spread(&|run| run.rtt_mean_ms),
        loss_percent: spread(&|run| run.loss_percent),
        handshake_ms: spread(&|run| Some(run.handshake_ms)),
        limited_by: limited_by.join(", "),
    }
}

/// One sentence: what TCP gets each way, and what held most of the transfers back.
pub(crate) fn verdict(document: &TcpDocument) -> String {
    let mut clauses: Vec<String> =
        ["down", "up"].into_iter().filter_map(|direction| of_way(document, direction)).collect();
    if clauses.is_empty() {
        let why = document.incomplete.as_ref().map_or(String::new(), |why| format!(": {why}"));
        return format!("Nothing was measured{why}.");
    }
    clauses.extend(document.incomplete.as_ref().map(|why| format!("not complete: {why}")));
    sentence(&clauses)
}

fn of_way(document: &TcpDocument, direction: &'static str) -> Option<String> {
    let name = way(direction).to_lowercase();
    let measured = document.rows.iter().filter(|row| row.settings.direction == direction);
    let measured: Vec<(&TcpRow, f64)> =
        measured.filter_map(|row| Some((row, row.bandwidth_mbps?.mean))).collect();
    let [(row, mbps)] = measured[..] else {
        let least = measured.iter().min_by(|a, b| a.1.total_cmp(&b.1))?;
        let most = measured.iter().max_by(|a, b| a.1.total_cmp(&b.1))?;
        let runs = document.runs.iter().filter(|run| run.settings.direction == direction);
        let by: std::collections::BTreeSet<&str> = runs.map(|run| run.limit.by).collect();
        return Some(format!(
            "{name}: TCP gets {} ({}) to {} Mbit/s ({}), limited by the {}",
            digits(least.1),
            with_words(least.0),
            digits(most.1),
            with_words(most.0),
            by.into_iter().collect::<Vec<_>>().join(", ")
        ));
    };
    // What limited the most of them speaks for all.
    let own = || document.runs.iter().filter(|run| run.settings == row.settings);
    let most = own().find(|run| own().filter(|other| other.limit.by == run.limit.by).count() * 2 > row.runs);
    let by = match most {
        Some(run) if ["receive window", "loss", "application"].contains(&run.limit.by) => {
            format!("held back by {}", run.limit.why)
        }
        _ => limits(&row.limited_by),
    };
    let words = row.settings.words();
    let with = if words.is_empty() { String::new() } else { format!(" with {words}") };
    Some(format!("{name}{with}: TCP gets {} Mbit/s, {by}", digits(mbps)))
}

fn with_words(row: &TcpRow) -> String {
    let words = row.settings.words();
    if words.is_empty() { "as it is".to_owned() } else { words }
}

/// Limits of the transfers of a row, in words: `network 6×` as all, `network 4×, sender 2×` as some.
fn limits(by: &str) -> String {
    match by.rsplit_once(' ') {
        Some((only, _)) if !by.contains(',') => format!("limited by the {only}"),
        _ => format!("limited by: {by}"),
    }
}
