//! [`Transfers`]: curl in the client's namespace, each byte counted, timed and hashed as it arrives. A
//! download that is to be read late is read by a thread of this program ([`late_reader`]).

mod late_reader;

use std::io::Read;
use std::net::{IpAddr, SocketAddr};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::thread::JoinHandle;

use io::{Clock, Namespace, OwnedChild, PidFd, Signals, SpawnOptions};
use scenario::{Kind, Workload};
use sha2::{Digest, Sha256};
use units::{Duration, Instant};

use crate::LabError;
use crate::error::Context;
use crate::origin::{Content, FILE, hexadecimal};
use crate::pause::pause;
use crate::topology::server_address;
use late_reader::Asked;

/// Marks of progress are at least this far apart.
const MARK_SPACING: Duration = Duration::from_millis(5);
/// Interval at which signals and time limits are looked at.
const TURN: Duration = Duration::from_millis(20);
/// Ping sends no more often.
const PING_INTERVAL_MIN: Duration = Duration::from_millis(2);
/// Priority of the client's program, below the emulator's: a client is a machine of its own, so nothing that
/// runs here may keep it from reading. Where 17 KB arrive in 2 ms, a busy machine would decide what it holds.
const CLIENT_PRIORITY: u8 = 10;
/// Time by which curl may outlive its own time limit.
const GRACE: Duration = Duration::from_secs(5);

/// Outcome of one flow.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// Number of the flow, from 0.
    pub flow: usize,
    /// Time when curl began its request, by its own account.
    pub started: Instant,
    /// Time when the first byte arrived.
    pub first_byte: Option<Instant>,
    /// Time when the last byte arrived, or curl gave up.
    pub ended: Instant,
    /// Bytes that arrived (or were sent).
    pub bytes: u64,
    /// SHA-256 of what arrived; empty for uploads.
    pub sha256: String,
    /// Bytes that had arrived at some moments.
    pub marks: Vec<(Instant, u64)>,
    /// True when the time limit ended it.
    pub is_cut_short: bool,
    /// Message of curl when it failed otherwise.
    pub error: Option<String>,
}

/// Report of curl at its end (`--write-out %{json}`).
#[derive(serde::Deserialize, Default)]
#[serde(default)]
struct CurlReport {
    time_total: f64,
    size_upload: u64,
    http_code: u16,
    exitcode: i32,
    errormsg: Option<String>,
}

const CURL_TIMED_OUT: i32 = 28;

/// The flows of one case; killed when dropped.
#[derive(Debug)]
pub struct Transfers<'a> {
    client: &'a Namespace,
    workload: &'a Workload,
    content: &'a Content,
    time_limit: Duration,
    reads_after: Option<Duration>,
    running: Vec<PidFd>,
    received: Arc<AtomicU64>,
    send: Sender<Outcome>,
    outcomes: Receiver<Outcome>,
}

impl<'a> Transfers<'a> {
    /// Prepares the flows of `workload`; nothing is started yet.
    #[must_use]
    pub fn new(
        client: &'a Namespace,
        workload: &'a Workload,
        content: &'a Content,
        time_limit: Duration,
    ) -> Self {
        let (send, outcomes) = mpsc::channel();
        Self {
            client,
            workload,
            content,
            time_limit,
            reads_after: None,
            running: Vec::new(),
            received: Arc::default(),
            send,
            outcomes,
        }
    }

    /// The same, and downloads are read with a delay after something to read has come, if one is set.
    #[must_use]
    pub fn reading_after(mut self, delay: Option<Duration>) -> Self {
        self.reads_after = delay;
        self
    }

    /// Runs all flows to their end, showing `progress(bytes so far)` from time to time.
    ///
    /// # Errors
    /// When curl cannot be started, `check` refuses to go on, or the user interrupts.
    pub fn run(
        mut self,
        signals: &Signals,
        progress: &mut dyn FnMut(u64),
        check: &mut dyn FnMut() -> Result<(), LabError>,
    ) -> Result<Vec<Outcome>, LabError> {
        let flows = usize::from(self.workload.flows());
        let stagger = self.workload.stagger.map_or(Duration::ZERO, |q| q.0);
        let began = Clock::now();
        let mut outcomes: Vec<Outcome> = Vec::new();
        let mut started = 0;
        while outcomes.len() < flows {
            while started < flows && Clock::now() >= began + stagger * started as u64 {
                self.start(started, (began + self.time_limit).saturating_since(Clock::now()))?;
                started += 1;
            }
            match self.outcomes.recv_timeout(std::time::Duration::from_nanos(TURN.as_nanos())) {
                Ok(outcome) => outcomes.push(outcome),
                Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => {}
            }
            if signals.take().is_some() {
                return Err(LabError::Interrupted);
            }
            check()?;
            if Clock::now() > began + self.time_limit + GRACE {
                return Err(failed("did not end although its time is over".to_owned()));
            }
            progress(self.received.load(Ordering::Relaxed));
        }
        outcomes.sort_by_key(|outcome| outcome.flow);
        Ok(outcomes)
    }

    fn start(&mut self, flow: usize, time_limit: Duration) -> Result<(), LabError> {
        if let (Some(delay), Kind::Download) = (self.reads_after, self.workload.kind()) {
            let asked = Asked {
                flow,
                server: SocketAddr::from((server_address(self.workload.family()), self.port(flow))),
                delay,
                until: Clock::now() + time_limit,
            };
            return self.start_late_reader(asked);
        }
        let command = self.command(flow, time_limit);
        let spawned = Clock::now();
        let mut child = self.client.spawn(command, SpawnOptions::KILLED_WITH_PARENT)?;
        self.running.push(PidFd::open(child.id())?);
        // Without the privilege it reads as an ordinary program does.
        let _ = io::sched::set_realtime_priority_of(child.id(), CLIENT_PRIORITY);
        let stdout = child.stdout.take().ok_or_else(|| failed("has no output".to_owned()))?;
        let (send, received) = (self.send.clone(), Arc::clone(&self.received));
        std::thread::Builder::new()
            .name(format!("flow {flow}"))
            .spawn(move || {
                let _ = io::sched::set_realtime_priority(CLIENT_PRIORITY);
                // Nobody waiting any more is fine.
                let _ = send.send(follow(flow, child, stdout, &received, spawned));
            })
            .doing(|| "start a thread".to_owned())?;
        Ok(())
    }

    /// Reads a download on a thread in the client's namespace.
    fn start_late_reader(&self, asked: Asked) -> Result<(), LabError> {
        let client = Namespace::open(self.client.name())?;
        let (send, received) = (self.send.clone(), Arc::clone(&self.received));
        let thread = std::thread::Builder::new().name(format!("flow {}", asked.flow));
        let read = move || {
            let _ = io::sched::set_realtime_priority(CLIENT_PRIORITY);
            // Nobody waiting any more is fine.
            let _ = send.send(late_reader::download(&client, &asked, &received));
        };
        thread.spawn(read).doing(|| "start a thread".to_owned())?;
        Ok(())
    }

    fn port(&self, flow: usize) -> u16 {
        let is_second = self.workload.second_port == Some(true) && flow % 2 == 1;
        if is_second { SECOND_PORT } else { FIRST_PORT }
    }

    fn command(&self, flow: usize, time_limit: Duration) -> Command {
        let host = host_of(self.workload, self.port(flow));
        let mut command = Command::new("curl");
        // -q first: nothing of the user's own configuration.
        command.args(["-q", "--silent", "--http1.1", "--noproxy", "*", "--write-out", "%{stderr}%{json}"]);
        command.args(["--max-time", &format!("{:.3}", time_limit.as_secs_f64().max(0.001))]);
        if let Some(rate) = self.workload.read_rate {
            command.args(["--limit-rate", &(rate.0.as_bps() / 8).max(1).to_string()]);
        }
        match self.workload.kind() {
            Kind::Download | Kind::Request | Kind::Udp => {
                command.args(["--no-buffer", &format!("http://{host}/{FILE}")])
            }
            Kind::Upload => {
                command.arg("--upload-file").arg(&self.content.path).arg(format!("http://{host}/up/{flow}"))
            }
        };
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    }
}

impl Drop for Transfers<'_> {
    fn drop(&mut self) {
        for process in &self.running {
            // Ended by itself is the usual case.
            let _ = process.send_signal(libc::SIGKILL);
        }
    }
}

/// First port on which nginx listens.
const FIRST_PORT: u16 = 80;
const SECOND_PORT: u16 = 8080;

/// The server, as in a URL.
fn host_of(workload: &Workload, port: u16) -> String {
    match server_address(workload.family()) {
        IpAddr::V4(v4) => format!("{v4}:{port}"),
        IpAddr::V6(v6) => format!("[{v6}]:{port}"),
    }
}

fn failed(message: String) -> LabError {
    LabError::Program { program: "curl".to_owned(), message }
}

/// Reads a flow to its end on a thread of its own.
fn follow(
    flow: usize,
    mut child: Child,
    stdout: ChildStdout,
    received: &AtomicU64,
    spawned: Instant,
) -> Outcome {
    let mut arrival = Arrival::default();
    let reading = arrival.read(stdout, received);
    let closed = Clock::now();
    let mut said = String::new();
    if let Some(mut stderr) = child.stderr.take() {
        // What cannot be read is not needed: the status below tells.
        let _ = stderr.read_to_string(&mut said);
    }
    let status = child.wait();
    let report: CurlReport = serde_json::from_str(said.trim()).unwrap_or_default();
    let total = Duration::from_nanos((report.time_total.max(0.0) * 1e9) as u64);
    let is_cut_short = report.exitcode == CURL_TIMED_OUT;
    let ended = match arrival.last {
        _ if report.size_upload > 0 => Clock::now(),
        // curl gave up then, however long ago the last byte came.
        _ if is_cut_short => closed,
        last => last.unwrap_or(closed),
    };
    let error = match (reading, status) {
        (Err(e), _) | (_, Err(e)) => Some(e.to_string()),
        (_, Ok(status)) if !status.success() && !is_cut_short => {
            Some(report.errormsg.unwrap_or_else(|| format!("{status} {said}")))
        }
        _ if report.http_code != 200 && !is_cut_short => Some(format!("HTTP status {}", report.http_code)),
        _ => None,
    };
    Outcome {
        flow,
        // curl's own time leaves out the start of its process.
        started: if total.is_zero() {
            spawned
        } else {
            Instant::ZERO + (ended.saturating_since(Instant::ZERO) - total)
        },
        first_byte: arrival.first,
        ended,
        bytes: arrival.bytes.max(report.size_upload),
        sha256: hexadecimal(&arrival.hash.finalize()),
        marks: arrival.marks,
        is_cut_short,
        error,
    }
}

/// Data that arrives on one flow.
#[derive(Default)]
struct Arrival {
    first: Option<Instant>,
    last: Option<Instant>,
    bytes: u64,
    hash: Sha256,
    marks: Vec<(Instant, u64)>,
}

impl Arrival {
    fn read(&mut self, mut stdout: ChildStdout, received: &AtomicU64) -> std::io::Result<()> {
        let mut block = vec![0; 1 << 16];
        loop {
            let len = stdout.read(&mut block)?;
            if len == 0 {
                self.end();
                return Ok(());
            }
            self.take(&block[..len], received);
        }
    }

    fn end(&mut self) {
        self.marks.extend(self.last.map(|at| (at, self.bytes)));
    }

    fn take(&mut self, bytes: &[u8], received: &AtomicU64) {
        let now = Clock::now();
        self.first.get_or_insert(now);
        self.last = Some(now);
        self.hash.update(bytes);
        self.bytes += bytes.len() as u64;
        received.fetch_add(bytes.len() as u64, Ordering::Relaxed);
        mark(&mut self.marks, now, self.bytes);
    }
}

/// Notes how much there is now, unless it was noted a moment ago.
pub(crate) fn mark(marks: &mut Vec<(Instant, u64)>, now: Instant, total: u64) {
    if marks.last().is_none_or(|(at, _)| now.saturating_since(*at) >= MARK_SPACING) {
        marks.push((now, total));
    }
}

/// Longest time that a page may take.
const PAGE_LIMIT: &str = "30";
/// Time between pages, unless the workload says another.
const PAGE_PAUSE: Duration = Duration::from_millis(500);

/// Pages fetched alongside, one after the other, each over a new connection; ended when dropped.
#[derive(Debug)]
pub struct Pages {
    is_over: Arc<AtomicBool>,
    times: Option<JoinHandle<Vec<Duration>>>,
}

impl Pages {
    /// Fetches what `workload` says from `client`.
    ///
    /// # Errors
    /// When the namespace cannot be opened, or no thread be started.
    pub fn start(client: &Namespace, workload: &Workload) -> Result<Option<Self>, LabError> {
        let Some(size) = workload.page else { return Ok(None) };
        let client = Namespace::open(client.name())?;
        let pause_between = workload.page_pause.map_or(PAGE_PAUSE, |q| q.0);
        let range = format!("0-{}", size.0.get().max(1) - 1);
        let url = format!("http://{}/{FILE}", host_of(workload, FIRST_PORT));
        let is_over = Arc::new(AtomicBool::new(false));
        let ends = Arc::clone(&is_over);
        let fetch = move || {
            let mut times = Vec::new();
            while !ends.load(Ordering::Relaxed) {
                times.extend(page(&client, &range, &url));
                if pause(pause_between).is_err() {
                    break;
                }
            }
            times
        };
        let thread = std::thread::Builder::new().name("pages".to_owned()).spawn(fetch);
        let times = Some(thread.doing(|| "start a thread".to_owned())?);
        Ok(Some(Self { is_over, times }))
    }

    /// Ends them after the one under way; how long each took.
    #[must_use]
    pub fn finish(mut self) -> Vec<Duration> {
        self.is_over.store(true, Ordering::Relaxed);
        self.times.take().and_then(|thread| thread.join().ok()).unwrap_or_default()
    }
}

impl Drop for Pages {
    fn drop(&mut self) {
        self.is_over.store(true, Ordering::Relaxed);
    }
}

/// Time that a page took by curl's own account; none that did not arrive whole.
fn page(client: &Namespace, range: &str, url: &str) -> Option<Duration> {
    let mut command = Command::new("curl");
    command.args(["-q", "--silent", "--http1.1", "--noproxy", "*", "--max-time", PAGE_LIMIT]);
    command.args(["--range", range, "--output", "/dev/null", "--write-out", "%{json}", url]);
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
    let output = client.spawn(command, SpawnOptions::KILLED_WITH_PARENT).ok()?.wait_with_output().ok()?;
    let report: CurlReport = serde_json::from_slice(&output.stdout).ok()?;
    let is_whole = output.status.success() && report.http_code == 206;
    is_whole.then(|| Duration::from_nanos((report.time_total.max(0.0) * 1e9) as u64))
}

/// A ping alongside; killed when dropped.
#[derive(Debug)]
pub struct Ping {
    started: Instant,
    interval: Duration,
    child: OwnedChild,
    said: Option<JoinHandle<String>>,
}

impl Ping {
    /// Pings `address` from `from` every `interval`.
    ///
    /// # Errors
    /// When ping is missing.
    pub fn start(from: &Namespace, address: IpAddr, interval: Duration) -> Result<Self, LabError> {
        let interval = interval.max(PING_INTERVAL_MIN);
        let mut command = Command::new("ping");
        command.args(["-n", "-i", &format!("{:.3}", interval.as_secs_f64()), &address.to_string()]);
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
        let started = Clock::now();
        let mut ping = Self { started, interval, child: from.spawn_owned(command)?, said: None };
        // Read as it comes: a full pipe would hold ping up.
        ping.said = ping.child.stdout.take().map(|mut stdout| {
            std::thread::spawn(move || {
                let mut said = String::new();
                // What was read until an error counts.
                let _ = stdout.read_to_string(&mut said);
                said
            })
        });
        Ok(ping)
    }

    /// Ends it; when each ping that was answered was sent, and its round-trip time.
    #[must_use]
    pub fn finish(mut self) -> Vec<(Instant, Duration)> {
        // It may have ended by itself; what it said counts.
        let _ = self.child.kill();
        let said = self.said.take().and_then(|thread| thread.join().ok()).unwrap_or_default();
        // One leaves every interval, whether or not those before were answered.
        let sent = |number: u64| self.started + self.interval * number.saturating_sub(1);
        round_trips(&said).into_iter().map(|(number, time)| (sent(number), time)).collect()
    }
}

/// Number and round-trip time of each reply in what ping prints.
pub fn round_trips(said: &str) -> Vec<(u64, Duration)> {
    let after = |line: &str, key: &str| line.split_once(key)?.1.split_whitespace().next().map(str::to_owned);
    let reply = |line: &str| {
        let milliseconds: f64 = after(line, "time=")?.parse().ok()?;
        Some((
            after(line, "icmp_seq=")?.parse().ok()?,
            Duration::from_nanos((milliseconds * 1e6).round() as u64),
        ))
    };
    said.lines().filter_map(reply).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn replies_of_ping_have_numbers_and_times() {
        let said = "PING 10.1.0.2 (10.1.0.2) 56(84) bytes of data.\n\
                    64 bytes from 10.1.0.2: icmp_seq=1 ttl=63 time=62.1 ms\n\
                    64 bytes from 10.1.0.2: icmp_seq=12 ttl=63 time=1040 ms\n";
        let (first, second) = (Duration::from_micros(62_100), Duration::from_millis(1_040));
        assert_eq!(round_trips(said), [(1, first), (12, second)]);
    }
}
