//! [`Benchmark`]: how exact and how fast the emulator itself is.
//!
//! Everything is measured from outside, as a user of the network would see it: by ping, by UDP datagrams
//! with the receiver's clock, by one TCP flow. The emulator's own account of its lateness stands beside it.

use std::fmt::Write as _;
use std::io::{Read, Write};
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};

use io::{Clock, Namespace, PidFd, Signals, SpawnOptions, Waiter};
use link::Trace;
use scenario::results::{Distribution, MadeBy, Timing, rounded};
use scenario::{Family, Scenario};
use serde::Serialize;
use units::{Bytes, Duration, Instant, Rate};

use crate::emulator::{Emulation, Keep};
use crate::error::Context;
use crate::pause::pause;
use crate::session::{Session, read_trace};
use crate::topology::{Role, client_address, radio_gateway, server_address};
use crate::transfer::round_trips;
use crate::{Instance, LabError};

mod highest_rate;

pub use highest_rate::RateStep;

const PINGS: u64 = 1_500;
const PING_INTERVAL: Duration = Duration::from_millis(5);
const RATE: Rate = Rate::from_mbps(12);
const RATE_TIME: Duration = Duration::from_secs(10);
const FLOW_TIME: Duration = Duration::from_secs(5);
const TRACE_TIME_MAX: Duration = Duration::from_secs(60);
const TRACE_BIN: Duration = Duration::from_millis(100);
/// Below the emulator's own thread.
const RECEIVER_PRIORITY: u8 = 10;
/// A UDP payload that makes an IP packet of 1500 bytes.
const DATAGRAM: usize = 1_472;

/// All figures of one run.
#[derive(Clone, Debug, Serialize)]
pub struct BenchmarkFigures {
    /// Programs and machine.
    pub made_by: MadeBy,
    /// Round trips over 10 + 10 ms of delay.
    pub delay: Vec<DelayFigures>,
    /// A fixed rate.
    pub rate: RateFigures,
    /// One TCP flow through 10 + 10 ms of delay and no rate limit.
    pub flow: Vec<FlowFigures>,
    /// Rates from 100 Mbit/s on, with the accelerator, up to the first that the emulator is late for.
    pub highest_rate: Vec<RateStep>,
    /// Traces replayed.
    pub traces: Vec<TraceFigures>,
}

/// Round trips over a fixed delay.
#[derive(Clone, Debug, Serialize)]
pub struct DelayFigures {
    /// Over which links.
    pub path: String,
    /// As ping measures them, ms.
    pub round_trip_ms: Distribution,
    /// The emulator's own account.
    pub timing: Timing,
}

/// A fixed rate, saturated with 1500-byte packets.
#[derive(Clone, Debug, Serialize)]
pub struct RateFigures {
    /// Rate that the link is set to.
    pub set_mbps: f64,
    /// Rate that the receiver counted.
    pub measured_mbps: f64,
    /// Arrival at the receiver after the link's own plan, µs.
    pub lag_us: Distribution,
    /// The emulator's own account.
    pub timing: Timing,
}

/// One TCP flow.
#[derive(Clone, Debug, Serialize)]
pub struct FlowFigures {
    /// Over which links.
    pub path: String,
    /// Goodput of the receiver.
    pub goodput_gbps: f64,
    /// The emulator's own account.
    pub timing: Timing,
}

/// A trace replayed under saturation.
#[derive(Clone, Debug, Serialize)]
pub struct TraceFigures {
    /// File name.
    pub trace: String,
    /// Duration of the replay, s.
    pub seconds: f64,
    /// Bytes that the trace offers in that time.
    pub offered_bytes: u64,
    /// Σ|planned − trace| ÷ Σ trace over 100 ms bins.
    pub planned_error: f64,
    /// The same for arrivals at the receiver.
    pub arrival_error: f64,
    /// The emulator's own account.
    pub timing: Timing,
}

/// Runs the benchmarks in the lab `instance`.
#[derive(Debug)]
pub struct Benchmark<'a> {
    /// The lab's name and directory.
    pub instance: &'a Instance,
    /// The program whose `run` accelerates.
    pub program: &'a Path,
    /// Ends everything when one comes.
    pub signals: &'a Signals,
}

impl Benchmark<'_> {
    /// Runs all of it, and replays `traces`; `progress` hears what is measured next.
    ///
    /// # Errors
    /// When the network fails, a trace cannot be used, or the user interrupts.
    pub fn run(
        &self,
        made_by: MadeBy,
        traces: &[PathBuf],
        progress: &mut dyn FnMut(&str),
    ) -> Result<BenchmarkFigures, LabError> {
        progress("round trips over 10 + 10 ms");
        let delay = vec![
            self.delay(
                "one link: radio 10 + 10 ms",
                "radio.down.delay = \"10 ms\"\nradio.up.delay = \"10 ms\"",
                radio_gateway(Family::Ipv4),
            )?,
            self.delay(
                "two links: wired 5 + 5 ms, radio 5 + 5 ms",
                "wan.delay = \"5 ms\"\nradio.down.delay = \"5 ms\"\nradio.up.delay = \"5 ms\"",
                server_address(Family::Ipv4),
            )?,
        ];
        progress("a fixed rate of 12 Mbit/s");
        let rate = self.rate()?;
        progress("one TCP flow");
        let flow = vec![
            self.flow("one link", Role::Accelerator, "radio.down = { delay = \"10 ms\", queue = \"1000000 packets\" }\nradio.up.delay = \"10 ms\"")?,
            self.flow("two links", Role::Server, "wan = { delay = \"5 ms\", queue = \"1000000 packets\" }\nradio.down = { delay = \"5 ms\", queue = \"1000000 packets\" }\nradio.up.delay = \"5 ms\"")?,
        ];
        let highest_rate = self.highest_rate(progress)?;
        let mut replayed = Vec::new();
        for path in traces {
            progress(&format!("trace {}", path.display()));
            replayed.push(self.trace(path)?);
        }
        Ok(BenchmarkFigures { made_by, delay, rate, flow, highest_rate, traces: replayed })
    }

    /// A network as the keys in `settings` say, with packets moving.
    fn session(&self, settings: &str, directory: &Path) -> Result<Session, LabError> {
        let scenario = Scenario::from_toml("benchmark", &format!("name = \"benchmark\"\n{settings}\n"))?;
        let case = scenario.resolved().swap_remove(0);
        let plan = case.links(scenario.seed, &mut |file| read_trace(directory, file))?;
        let mut session = Session::build(self.instance, &case, None)?;
        session.begin(&plan, Keep::Everything)?;
        Ok(session)
    }

    /// Waits, and listens to the user meanwhile.
    fn wait(&self, time: Duration) -> Result<(), LabError> {
        let until = Clock::now() + time;
        while Clock::now() < until {
            pause(Duration::from_millis(50).min(until.saturating_since(Clock::now())))?;
            if self.signals.take().is_some() {
                return Err(LabError::Interrupted);
            }
        }
        Ok(())
    }

    fn delay(&self, path: &str, settings: &str, target: IpAddr) -> Result<DelayFigures, LabError> {
        let mut session = self.session(settings, Path::new("."))?;
        let round_trip_ms = self.ping(session.network().namespace(Role::Client), target)?;
        let timing = session.end()?.judged(true);
        Ok(DelayFigures { path: path.to_owned(), round_trip_ms, timing })
    }

    /// Round trips from `client` to `target`. Single ones are printed with three digits, so
    /// percentiles of those above 10 ms are in steps of 0.1 ms; ping's own summary is exact to the
    /// microsecond.
    fn ping(&self, client: &Namespace, target: IpAddr) -> Result<Distribution, LabError> {
        let interval = format!("{:.3}", PING_INTERVAL.as_secs_f64());
        let mut command = Command::new("ping");
        command.args(["-n", "-c", &PINGS.to_string(), "-i", &interval, &target.to_string()]);
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
        let child = client.spawn(command, SpawnOptions::KILLED_WITH_PARENT)?;
        let process = PidFd::open(child.id())?;
        let waiting = std::thread::spawn(move || child.wait_with_output());
        while !waiting.is_finished() {
            if let Err(interrupted) = self.wait(Duration::from_millis(50)) {
                process.send_signal(libc::SIGKILL)?;
                return Err(interrupted);
            }
        }
        let output = waiting.join().map_err(|_| LabError::Which("ping's thread panicked".to_owned()))?;
        let said = String::from_utf8_lossy(&output.doing(|| "wait for ping".to_owned())?.stdout).into_owned();
        let mut times: Vec<f64> = round_trips(&said).iter().map(|(_, time)| time.as_millis_f64()).collect();
        let mut figures = Distribution::of(&mut times).unwrap_or_default();
        let summary = said.lines().find_map(|line| line.strip_prefix("rtt min/avg/max/mdev = "));
        let exact: Vec<f64> = summary
            .unwrap_or_default()
            .trim_end_matches(" ms")
            .split('/')
            .filter_map(|n| n.parse().ok())
            .collect();
        if let [min, mean, max, deviation] = exact[..] {
            figures = Distribution { min, mean, max, deviation, ..figures };
        }
        Ok(figures)
    }

    fn rate(&self) -> Result<RateFigures, LabError> {
        let settings =
            format!("radio.down = {{ rate = \"{}\", queue = \"100 packets\" }}", scenario::Quantity(RATE));
        let (arrivals, emulation) =
            self.saturate(&settings, Path::new("."), RATE.mul_ratio(3, 2), RATE_TIME)?;
        // The kernel's own small packets (IPv6 multicast reports) are not the receiver's. Nothing
        // is lost behind the link, so the nth arrival is the nth delivery.
        let full = emulation.records[0].iter().filter(|r| r.size == Bytes::new(1_500));
        let planned: Vec<Instant> = full.filter_map(|r| r.delivered).collect();
        let mut lag_us: Vec<f64> = planned
            .iter()
            .zip(&arrivals)
            .map(|(planned, arrived)| arrived.saturating_since(*planned).as_nanos() as f64 / 1e3)
            .collect();
        let (Some(first), Some(last)) = (arrivals.first(), arrivals.last()) else {
            return Err(LabError::Which("no packet came through the 12 Mbit/s link".to_owned()));
        };
        let bytes = Bytes::from((arrivals.len() - 1) * 1_500);
        Ok(RateFigures {
            set_mbps: RATE.as_mbps_f64(),
            measured_mbps: Rate::from_transfer(bytes, last.saturating_since(*first)).as_bps() as f64 / 1e6,
            lag_us: Distribution::of(&mut lag_us).unwrap_or_default(),
            timing: emulation.judged(false),
        })
    }

    fn trace(&self, path: &Path) -> Result<TraceFigures, LabError> {
        let file = path.display().to_string();
        let text = read_trace(
            Path::new("/"),
            &std::path::absolute(path).unwrap_or_else(|_| path.to_owned()).display().to_string(),
        );
        let text = text.map_err(|message| scenario::Error::Trace { name: file.clone(), message })?;
        let trace = Trace::parse_mahimahi(&text, &file)?;
        let time = trace.period().min(TRACE_TIME_MAX);
        let offered = |from: Duration, to: Duration| trace.offered_bytes(from, to);
        let bins = time.as_nanos() / TRACE_BIN.as_nanos();
        let peak = (0..bins).map(|i| offered(TRACE_BIN * i, TRACE_BIN * (i + 1))).max().unwrap_or_default();
        let rate = Rate::from_transfer(peak, TRACE_BIN).mul_ratio(5, 4);
        let name = path.file_name().map(|n| n.to_string_lossy().into_owned()).unwrap_or_default();
        let directory = path.parent().unwrap_or(Path::new("."));
        let settings = format!("radio.down = {{ trace = {name:?}, queue = \"4000 packets\" }}");
        let (arrivals, emulation) = self.saturate(&settings, directory, rate, time)?;
        let start = emulation.links[2].start();
        let planned = emulation.records[0].iter().filter_map(|r| r.departure);
        let error = |times: &mut dyn Iterator<Item = Instant>| {
            let mut counted = vec![0u64; usize::try_from(bins).unwrap_or(0)];
            for at in times {
                let bin = at.saturating_since(start).as_nanos() / TRACE_BIN.as_nanos();
                if let Some(bytes) = usize::try_from(bin).ok().and_then(|bin| counted.get_mut(bin)) {
                    *bytes += 1_500;
                }
            }
            let expected = (0..bins).map(|i| offered(TRACE_BIN * i, TRACE_BIN * (i + 1)).get());
            // The first bins pass before the sender runs.
            let (mut wrong, mut sum) = (0, 0);
            for (counted, expected) in counted.iter().zip(expected).skip(10) {
                wrong += counted.abs_diff(expected);
                sum += expected;
            }
            rounded(wrong as f64 / sum.max(1) as f64)
        };
        Ok(TraceFigures {
            trace: name,
            seconds: rounded(time.as_secs_f64()),
            offered_bytes: offered(Duration::ZERO, time).get(),
            planned_error: error(&mut planned.into_iter()),
            arrival_error: error(&mut arrivals.iter().copied()),
            timing: emulation.judged(false),
        })
    }

    /// Sends 1500-byte packets over the radio link at `rate` for `time`; gives when each arrived.
    fn saturate(
        &self,
        settings: &str,
        directory: &Path,
        rate: Rate,
        time: Duration,
    ) -> Result<(Vec<Instant>, Emulation), LabError> {
        let mut session = self.session(settings, directory)?;
        let bind = |host: Role, address: IpAddr| -> Result<UdpSocket, LabError> {
            let namespace = session.network().namespace(host);
            let socket = namespace.run(|| UdpSocket::bind(SocketAddr::new(address, 5_001)))?;
            socket.map_err(|source| LabError::File { what: "bind a UDP socket".to_owned(), source })
        };
        let (from, to) = (
            bind(Role::Accelerator, radio_gateway(Family::Ipv4))?,
            bind(Role::Client, client_address(Family::Ipv4))?,
        );
        let target = SocketAddr::new(client_address(Family::Ipv4), 5_001);
        let stop = AtomicBool::new(false);
        let arrivals = std::thread::scope(|scope| {
            let receiver = scope.spawn(|| receive(&to, &stop));
            let sender = scope.spawn(|| send(&from, target, rate, &stop));
            let waited = self.wait(time);
            stop.store(true, Ordering::Relaxed);
            let sent =
                sender.join().unwrap_or_else(|_| Err(LabError::Which("the sender panicked".to_owned())));
            let arrivals = receiver.join().unwrap_or_default();
            waited.and(sent).map(|()| arrivals)
        })?;
        Ok((arrivals, session.end()?))
    }

    fn flow(&self, path: &str, from: Role, settings: &str) -> Result<FlowFigures, LabError> {
        let mut session = self.session(settings, Path::new("."))?;
        let address =
            if from == Role::Server { server_address(Family::Ipv4) } else { radio_gateway(Family::Ipv4) };
        let goodput = {
            let network = session.network();
            let (sender, receiver) = (network.namespace(from), network.namespace(Role::Client));
            self.one_flow(sender, receiver, SocketAddr::new(address, 5_002), FLOW_TIME)?
        };
        let timing = session.end()?.judged(false);
        Ok(FlowFigures {
            path: path.to_owned(),
            goodput_gbps: rounded(goodput.as_bps() as f64 / 1e9),
            timing,
        })
    }

    fn one_flow(
        &self,
        sender: &Namespace,
        receiver: &Namespace,
        address: SocketAddr,
        time: Duration,
    ) -> Result<Rate, LabError> {
        let failed = |source| LabError::File { what: "run a TCP flow".to_owned(), source };
        let listener = sender.run(|| TcpListener::bind(address))?.map_err(failed)?;
        let mut incoming = receiver.run(|| TcpStream::connect(address))?.map_err(failed)?;
        let (mut outgoing, _) = listener.accept().map_err(failed)?;
        std::thread::scope(|scope| {
            scope.spawn(move || {
                let block = vec![0; 1 << 18];
                // Ends when the receiver has had enough.
                while outgoing.write_all(&block).is_ok() {}
            });
            let counted = scope.spawn(move || {
                let mut block = vec![0; 1 << 18];
                let (mut began, mut bytes) = (None, 0);
                let warm_up = Clock::now() + Duration::from_secs(1);
                let end = warm_up + time;
                while let Ok(len) = incoming.read(&mut block) {
                    let now = Clock::now();
                    if len == 0 || now >= end {
                        break;
                    }
                    if now >= warm_up {
                        began.get_or_insert(now);
                        bytes += len as u64;
                    }
                }
                began.map(|at| Rate::from_transfer(Bytes::new(bytes), Clock::now().saturating_since(at)))
            });
            self.wait(time + Duration::from_secs(1))?;
            let rate = counted.join().ok().flatten();
            rate.ok_or_else(|| LabError::Which("no byte came through the TCP flow".to_owned()))
        })
    }
}

/// Sends datagrams at `rate` until told to stop.
fn send(socket: &UdpSocket, target: SocketAddr, rate: Rate, stop: &AtomicBool) -> Result<(), LabError> {
    let mut waiter = Waiter::new(Duration::ZERO)?;
    let payload = [0; DATAGRAM];
    let began = Clock::now();
    let mut sent = 0;
    while !stop.load(Ordering::Relaxed) {
        let due = rate.bytes_in(Clock::now().saturating_since(began)).get() / 1_500;
        while sent < due {
            // A full device queue drops like a full link.
            let _ = socket.send_to(&payload, target);
            sent += 1;
        }
        waiter.wait(Some(Clock::now() + Duration::from_millis(1)))?;
    }
    Ok(())
}

/// Times at which each datagram arrived, until told to stop.
fn receive(socket: &UdpSocket, stop: &AtomicBool) -> Vec<Instant> {
    let mut arrivals = Vec::new();
    let mut buffer = [0; 2_048];
    // So that it is the link that is measured, not the wait for a processor. Without the privilege
    // it is both.
    let _ = io::sched::set_realtime_priority(RECEIVER_PRIORITY);
    if socket.set_read_timeout(Some(std::time::Duration::from_millis(50))).is_err() {
        return arrivals;
    }
    while !stop.load(Ordering::Relaxed) {
        if socket.recv(&mut buffer).is_ok() {
            arrivals.push(Clock::now());
        }
    }
    arrivals
}

impl BenchmarkFigures {
    /// The figures as Markdown.
    #[must_use]
    pub fn markdown(&self) -> String {
        let made = &self.made_by;
        let mut text = format!(
            "# The emulator's own exactness and speed\n\nCellerator {}, Linux {}, {} processors. Made by \
             `{}`.\n\n",
            made.cellerator, made.kernel, made.processors, made.command
        );
        text += "| 10 + 10 ms of delay | pings | min ms | mean ms | p50 ms | p99 ms | max ms | mdev ms |\n|---|---|---|---|---|---|---|---|\n";
        for figures in &self.delay {
            let d = figures.round_trip_ms;
            // Writing into a String cannot fail.
            let _ = writeln!(
                text,
                "| {} | {} | {:.3} | {:.3} | {:.3} | {:.3} | {:.3} | {:.3} |",
                figures.path, d.count, d.min, d.mean, d.p50, d.p99, d.max, d.deviation
            );
        }
        let rate = &self.rate;
        let _ = write!(
            text,
            "\n| fixed rate | measured Mbit/s | off by % | lag p50 µs | lag p99 µs | lag max µs |\n\
             |---|---|---|---|---|---|\n| {:.0} Mbit/s | {:.5} | {:+.4} | {:.1} | {:.1} | {:.0} |\n\n| one \
             TCP flow, 20 ms | Gbit/s |\n|---|---|\n",
            rate.set_mbps,
            rate.measured_mbps,
            100.0 * (rate.measured_mbps / rate.set_mbps - 1.0),
            rate.lag_us.p50,
            rate.lag_us.p99,
            rate.lag_us.max
        );
        for figures in &self.flow {
            let _ = writeln!(text, "| {} | {:.3} |", figures.path, figures.goodput_gbps);
        }
        highest_rate::markdown(&self.highest_rate, &mut text);
        if !self.traces.is_empty() {
            text += "\n| trace, saturated | s | offered MB | planned error % | arrival error % |\n|---|---|---|---|---|\n";
        }
        for t in &self.traces {
            let (planned, arrival) = (100.0 * t.planned_error, 100.0 * t.arrival_error);
            let offered = t.offered_bytes as f64 / 1e6;
            let _ = writeln!(
                text,
                "| {} | {:.0} | {offered:.1} | {planned:.2} | {arrival:.2} |",
                t.trace, t.seconds
            );
        }
        self.lateness(&mut text);
        text
    }

    fn lateness(&self, text: &mut String) {
        text.push_str("\n| lateness by the emulator's own account | packets | mean µs | p50 µs | p99 µs | max µs | over 0.2 ms % | over 1 ms % |\n|---|---|---|---|---|---|---|---|\n");
        let delays = self.delay.iter().map(|d| (d.path.as_str(), &d.timing));
        let flows = self.flow.iter().map(|f| (f.path.as_str(), &f.timing));
        let traces = self.traces.iter().map(|t| (t.trace.as_str(), &t.timing));
        for (what, t) in delays.chain([("fixed rate", &self.rate.timing)]).chain(flows).chain(traces) {
            let d = t.late_us;
            // Writing into a String cannot fail.
            let _ = writeln!(
                text,
                "| {what} | {} | {:.1} | {:.1} | {:.1} | {:.0} | {:.3} | {:.3} |",
                d.count,
                d.mean,
                d.p50,
                d.p99,
                d.max,
                100.0 * t.share_over_200_us,
                100.0 * t.share_over_1_ms
            );
        }
    }
}
