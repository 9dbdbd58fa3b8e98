//! [`CaseRun`]: a case of a scenario file in virtual time, with the figures the lab would measure.

use core::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use core::sync::atomic::AtomicBool;
use std::sync::Arc;

use control::{ControllerConfig, CubicParams, DrwaParams};
use engine::{Engine, EngineConfig, PassThrough};
use link::Capacity;
use scenario::{Case, ConnectionEnd, DrwaVariant, Family, Kind, LinkPlan, TakesBeyond, Workload};
use units::{Bytes, Duration, Instant, Rate, SeqNum, WindowScale};

use crate::{
    Application, BeyondWindow, CheckConfig, DatagramConfig, Digest, EndpointConfig, FaultConfig, FlowConfig,
    LogMode, Network, NetworkConfig, PathConfig, Pattern, RadioConfig, Reading, ReceiveWindow, Role,
    SimError,
};

mod beside;
mod figures;
mod watch;

use figures::Evidence;
use watch::Progress;
pub use watch::{Sample, Watcher};

/// Window that Linux advertises per byte of receive memory: measured, 30,400 bytes give 17,664.
const WINDOW_PER_RMEM: (u64, u64) = (17_664, 30_400);

/// One case and repetition, ready to be run.
#[derive(Clone, Debug)]
pub struct CaseRun {
    case: Case,
    network: NetworkConfig,
    engine: Option<EngineConfig>,
    time_limit: Duration,
}

/// Outcome of a case.
#[derive(Clone, Debug)]
pub struct CaseOutcome {
    /// Figures that the lab would have measured.
    pub figures: scenario::results::Figures,
    /// Figures that only the simulator knows.
    pub simulation: scenario::results::Simulation,
    /// Results that are not as they must be.
    pub problems: Vec<String>,
    /// Reasons why figures are not worth what is stated beside them.
    pub doubts: Vec<String>,
    /// [`crate::PacketLog::text`].
    pub log: String,
    /// Every packet on the radio links in the direction of the data, link by link.
    pub radio: Vec<link::PacketRecord>,
}

impl CaseRun {
    /// `case` (resolved) over the links of `plan`, with the accelerator as `engine` says, or none.
    ///
    /// `seed` chooses what the hosts send and their numbers.
    #[must_use]
    pub fn new(
        case: &Case,
        plan: &LinkPlan,
        engine: Option<EngineConfig>,
        (seed, time_limit): (u64, Duration),
        log: LogMode,
    ) -> Self {
        let network = network(case, plan, engine.as_ref(), (seed, time_limit), log);
        Self { case: case.clone(), network, engine, time_limit }
    }

    /// The same with other clients: their IPv4 addresses, and the numbers of their IPv6 prefixes, are higher
    /// by `by`, so that captures of several runs are of different subscribers.
    #[must_use]
    pub fn with_clients_moved(mut self, by: u16) -> Self {
        let moved = |address: SocketAddr| match address {
            SocketAddr::V4(ip) => {
                // 10.2.0.2 and on: it stays within 10.2/16.
                let bits = ip.ip().to_bits();
                let number = (bits as u16).wrapping_add(by);
                (Ipv4Addr::from_bits(bits & 0xffff_0000 | u32::from(number)), ip.port()).into()
            }
            SocketAddr::V6(ip) => {
                let mut parts = ip.ip().segments();
                parts[2] = parts[2].wrapping_add(by);
                (Ipv6Addr::from(parts), ip.port()).into()
            }
        };
        let beside = &mut self.network.beside;
        for flow in self.network.flows.iter_mut().chain(&mut beside.flows) {
            flow.client.local = moved(flow.client.local);
            flow.server.remote = moved(flow.server.remote);
        }
        for datagrams in self.network.datagrams.iter_mut().chain(&mut beside.datagrams) {
            datagrams.client = moved(datagrams.client);
        }
        self
    }

    /// Bytes that are to arrive over all flows.
    #[must_use]
    pub fn expected(&self) -> Bytes {
        let flows = self.network.flows.len() + usize::from(self.network.datagrams.is_some());
        let flows = flows as u64;
        Bytes::new(self.case.workload.expected().get().saturating_mul(flows))
    }

    /// Runs it; `progress` is told from time to time how many bytes have arrived.
    ///
    /// # Errors
    /// A link or the engine cannot be made. A broken rule is no error but a problem in the outcome.
    pub fn run(&self, progress: &mut dyn FnMut(Bytes)) -> Result<CaseOutcome, SimError> {
        self.run_until(&AtomicBool::new(false), progress)
    }

    /// Works like [`CaseRun::run`], but gives the run up soon after `is_over` has become true.
    ///
    /// # Errors
    /// As [`CaseRun::run`], and [`SimError::Stopped`].
    pub fn run_until(
        &self,
        is_over: &AtomicBool,
        progress: &mut dyn FnMut(Bytes),
    ) -> Result<CaseOutcome, SimError> {
        self.watch(&mut Progress { tell: progress, is_over })
    }

    /// Runs it before the eyes of `watcher`. What it sees changes nothing.
    ///
    /// # Errors
    /// As [`CaseRun::run`].
    pub fn watch(&self, watcher: &mut dyn Watcher) -> Result<CaseOutcome, SimError> {
        if let Some(key) = self.case.lab_only() {
            return Err(SimError::LabOnly(key));
        }
        match &self.engine {
            None => self.run_around(PassThrough, watcher),
            Some(config) => self.run_around(Engine::new(config.clone())?, watcher),
        }
    }

    /// Runs it for its [`Digest`] alone: all packets, their times, and what the engine counted.
    ///
    /// # Errors
    /// As [`CaseRun::run`], and a rule that was broken.
    pub fn digest(&self) -> Result<Digest, SimError> {
        let Some(config) = &self.engine else { return Ok(self.digest_around(PassThrough)?.0) };
        let (packets, network) = self.digest_around(Engine::new(config.clone())?)?;
        let engine = network.middlebox();
        let counters = [Some(engine.stats()), engine.uplink_stats()];
        Ok(counters.into_iter().flatten().fold(packets, |digest, stats| digest.and_counters(stats)))
    }

    fn digest_around<M: crate::MiddleboxUnderTest>(
        &self,
        middlebox: M,
    ) -> Result<(Digest, Network<M>), SimError> {
        let mut network = Network::new(&self.network, middlebox)?;
        network.run_until(Instant::ZERO + self.time_limit)?;
        let log = network.log();
        Ok((Digest::default().and_packets(log.hash(), log.packets(), network.now()), network))
    }

    fn run_around<M: crate::MiddleboxUnderTest>(
        &self,
        middlebox: M,
        watcher: &mut dyn Watcher,
    ) -> Result<CaseOutcome, SimError> {
        let config = NetworkConfig {
            keeps_packets: watcher.wants_packets().then(|| watcher.packet_len()),
            ..self.network.clone()
        };
        let mut network = Network::new(&config, middlebox)?;
        let every = watcher.every().unwrap_or(PROGRESS_EVERY);
        let is_upload = self.case.workload.kind() == Kind::Upload;
        let limit = Instant::ZERO + self.time_limit;
        let mut broken = None;
        loop {
            let until = watch::next_look(network.now(), every).min(limit);
            match network.run_until(until) {
                Ok(true) => break,
                Ok(false) if until < limit => {}
                Ok(false) => break,
                Err(SimError::Broken { at, violation }) => {
                    broken = Some(format!("a rule was broken at {at}: {violation}"));
                    break;
                }
                Err(error) => return Err(error),
            }
            watcher.on_progress(Bytes::new(figures::received(&network, &self.case.workload)));
            if watcher.is_over() {
                return Err(SimError::Stopped);
            }
            network.wait_until(until);
            watch::look(&mut network, is_upload, until, watcher);
        }
        watch::hand_on(&mut network, watcher);
        Ok(Evidence { case: &self.case, limit, broken }.outcome(&mut network))
    }
}

/// Virtual time between two reports of progress.
const PROGRESS_EVERY: Duration = Duration::from_secs(1);

fn network(
    case: &Case,
    plan: &LinkPlan,
    engine: Option<&EngineConfig>,
    (seed, time_limit): (u64, Duration),
    log: LogMode,
) -> NetworkConfig {
    let workload = &case.workload;
    let path = |link: &link::LinkConfig| PathConfig { link: link.clone(), faults: FaultConfig::default() };
    let wan = |link: &link::LinkConfig| path(&link::LinkConfig { keeps_log: false, ..link.clone() });
    // Each device has a radio link of its own, alike but for its luck.
    let radio = |client: u16| {
        let own = |link: &link::LinkConfig, way: Option<&scenario::RadioDirection>| {
            let seed = link.seed.wrapping_add(u64::from(client).wrapping_mul(0x9e37_79b9_7f4a_7c15));
            let capacity = match (&link.capacity, way.and_then(|way| way.apart)) {
                (Capacity::Trace(trace), Some(apart)) => {
                    Capacity::Trace(Arc::new(trace.begun_at(apart.0 * u64::from(client))))
                }
                (capacity, _) => capacity.clone(),
            };
            path(&link::LinkConfig { seed, capacity, keeps_log: true, ..link.clone() })
        };
        let [down, up] = [&case.radio.down, &case.radio.up].map(Option::as_ref);
        RadioConfig { down: own(&plan.radio_down, down), up: own(&plan.radio_up, up) }
    };
    let is_udp = workload.kind() == Kind::Udp;
    let flows_each = if is_udp { 0 } else { workload.flows() };
    let numbers = (0..workload.clients()).flat_map(|client| (0..flows_each).map(move |n| (client, n)));
    let debt = engine.map_or(Bytes::MAX, |engine| {
        let window_max = engine.window_max.max(engine.uplink.window_max).min(engine.flow_buffer_max);
        window_max.max(Bytes::new(65_535)) + Bytes::new(1 << 14)
    });
    NetworkConfig {
        wan_down: wan(&plan.wan_down),
        wan_up: wan(&plan.wan_up),
        radios: (0..workload.clients()).map(radio).collect(),
        flows: numbers.map(|(client, number)| flow(case, client, number, seed)).collect(),
        starts_at: Instant::ZERO,
        checks: CheckConfig { debt_max: debt, ends_by: Instant::ZERO + time_limit, ..CheckConfig::default() },
        log,
        merges_arrivals: engine.is_some(),
        ping: workload.ping.map(|every| every.0),
        ignores_echo: false,
        datagrams: is_udp.then(|| datagrams(workload)),
        beside: beside::config(case, seed, time_limit),
        strangers: None,
        feedback: plan.feedback,
        notes_segments: true,
        keeps_packets: None,
    }
}

fn datagrams(workload: &Workload) -> DatagramConfig {
    let (server, client) = addresses(workload.family(), 0, 0);
    let payload = workload.datagram();
    let count = workload.expected().get() / payload.get();
    let (begins, answer) = (Duration::ZERO, DatagramConfig::ACK);
    DatagramConfig { server, client, begins, rate: workload.udp_rate(), payload, count, answer }
}

fn flow(case: &Case, client_number: u16, number: u16, seed: u64) -> FlowConfig {
    let workload = &case.workload;
    let (s, c) = match workload.one_address {
        Some(true) => {
            let first = client_number.wrapping_mul(workload.flows());
            addresses(workload.family(), 0, first.wrapping_add(number))
        }
        _ => addresses(workload.family(), client_number, number),
    };
    let begins = workload.stagger.map_or(Duration::ZERO, |time| time.0) * u64::from(number);
    let (server_app, client_app) = applications(workload);
    let mut server = EndpointConfig::new(s, c, Role::Listens, server_app);
    let mut client = EndpointConfig::new(c, s, Role::Connects(Instant::ZERO + begins), client_app);
    client.controller = ControllerConfig::Cubic(CubicParams::default());
    server.controller = case.server.congestion_control.unwrap_or_default().config();
    if let (ControllerConfig::NewReno(reno), Some(threshold)) =
        (&mut server.controller, case.server.initial_ssthresh)
    {
        reno.initial_ssthresh = Some(threshold.0);
    }
    if let Some(size) = case.server.send_buffer() {
        server.send_buffer = size.get().min(u64::from(u32::MAX / 4)) as u32;
    }
    if case.client.sack == Some(false) {
        (server.sack, client.sack) = (false, false);
    }
    if case.client.timestamps == Some(false) {
        (server.timestamps, client.timestamps) = (None, None);
    }
    if let (Some(delay), Reading::AtOnce) = (case.client.reads_after, client.app.reading) {
        client.app = client.app.reading_after(delay.0);
    }
    client.beyond_window = match case.client.takes_beyond {
        Some(TakesBeyond::Always) => BeyondWindow::Always,
        Some(TakesBeyond::WhenEmpty) | None => BeyondWindow::WhenEmpty,
    };
    if let Some(window) = window(case, client.window) {
        client.window = window;
        client.window_scale = Some(scale_for(window.max()));
    }
    let mut random = crate::Random::new(seed ^ (u64::from(client_number) << 32) ^ u64::from(number));
    let (down, up) = (Pattern::new(random.word()), Pattern::new(random.word()));
    (server.writes, server.expects, client.writes, client.expects) = (down, up, up, down);
    (server.isn, client.isn) = (SeqNum::new(random.word() as u32), SeqNum::new(random.word() as u32));
    FlowConfig { server, client, radio: usize::from(client_number) }
}

/// The receive window that the client's settings mean on Linux; none for `default`.
fn window(case: &Case, default: ReceiveWindow) -> Option<ReceiveWindow> {
    let fixed_or_growing = memory_window(case);
    let params = match case.client.drwa {
        None => return fixed_or_growing,
        Some(DrwaVariant::Paper) => DrwaParams::paper(),
        Some(DrwaVariant::Additions) => DrwaParams::default(),
    };
    let max = Bytes::from(fixed_or_growing.unwrap_or(default).max());
    Some(ReceiveWindow::Dynamic { max, params })
}

fn memory_window(case: &Case) -> Option<ReceiveWindow> {
    let memory = case.client.rmem()?;
    let sizes: Vec<u64> = memory.split_whitespace().filter_map(|n| n.parse().ok()).collect();
    let window_of = |memory: u64| {
        Bytes::new(memory.saturating_mul(WINDOW_PER_RMEM.0).checked_div(WINDOW_PER_RMEM.1).unwrap_or(memory))
    };
    let (initial, max) = (window_of(*sizes.get(1)?), window_of(*sizes.get(2)?));
    Some(if initial == max { ReceiveWindow::Fixed(max) } else { ReceiveWindow::Growing { initial, max } })
}

/// The scale Linux gives: 7 by its defaults, more where the window needs it.
fn scale_for(window: u32) -> WindowScale {
    let shift = (7..14).find(|shift| window >> shift <= 65_535).unwrap_or(14);
    WindowScale::new(shift)
}

fn addresses(family: Family, client: u16, number: u16) -> (SocketAddr, SocketAddr) {
    let port = 40_000u16.wrapping_add(number);
    let [high, low] = client.wrapping_add(2).to_be_bytes();
    match family {
        Family::Ipv4 => {
            ((Ipv4Addr::new(10, 1, 0, 2), 80).into(), (Ipv4Addr::new(10, 2, high, low), port).into())
        }
        Family::Ipv6 => {
            let client = Ipv6Addr::new(0xfd00, 2, client, 0, 0, 0, 0, 2);
            ((Ipv6Addr::new(0xfd00, 1, 0, 0, 0, 0, 0, 2), 80).into(), (client, port).into())
        }
    }
}

/// Size of an HTTP request for a file, and of the answer to an upload.
const HTTP_HEAD: u64 = 100;

/// The programs on the server and on the client.
fn applications(workload: &Workload) -> (Application, Application) {
    let size = workload.size().get();
    let (mut server, mut client) = match workload.kind() {
        Kind::Download => (Application::server(HTTP_HEAD, size), Application::client(HTTP_HEAD)),
        Kind::Upload => (Application::server(size, HTTP_HEAD), Application::client(size)),
        Kind::Request => {
            let (count, request, response) =
                (workload.requests(), workload.request().get(), workload.response().get());
            let pause = workload.pause.map_or(Duration::ZERO, |time| time.0);
            (
                Application::responses(count, request, response),
                Application::requests(count, request, response, pause),
            )
        }
        // Its datagrams are no application's.
        Kind::Udp => (Application::sink(), Application::sink()),
    };
    let paced = |app: Application, rate: Option<Rate>| match rate {
        Some(rate) => app.writing_at(rate),
        None => app,
    };
    let write_rate = workload.write_rate.map(|rate| rate.0);
    match workload.kind() {
        Kind::Upload => client = paced(client, write_rate),
        Kind::Download | Kind::Request | Kind::Udp => server = paced(server, write_rate),
    }
    if let Some(rate) = workload.read_rate {
        client = client.reading_at(rate.0);
    }
    if workload.half_close == Some(true) {
        client = client.half_closing();
    }
    if let Some(reset) = workload.reset {
        let after = reset.after.0.get();
        match (reset.by, workload.kind()) {
            (ConnectionEnd::Client, Kind::Upload) => client = client.aborting_after_sending(after),
            (ConnectionEnd::Client, _) => client = client.aborting_after(after),
            (ConnectionEnd::Server, Kind::Upload) => server = server.aborting_after(after),
            (ConnectionEnd::Server, _) => server = server.aborting_after_sending(after),
        }
    }
    (server, client)
}
