//! A download over a radio link whose queue marks, with the accelerator in the middle or without.
//!
//! ```text
//!   server, CUBIC or a scalable sender ── 10 ms ── accelerator, or nothing ── AQM, link, 20 ms ── client
//! ```

use control::{ControllerConfig, CubicParams, NewRenoParams};
use engine::{ClientEcn, Engine, EngineConfig, PassThrough};
use link::{Aqm, Capacity, CoDelParams, DualPi2Params, LinkDirection, Preset, QueueLimit};
use sim::{
    Application, EndpointConfig, FlowConfig, LineUp, LogMode, MarkResponse, MiddleboxUnderTest, Network, Role,
};
use units::{Bytes, Duration, Instant, Rate};

/// A download that no run ends.
const ENDLESS: u64 = 2_000_000_000;

/// Start of a run, which is not counted.
const WARM_UP: Duration = Duration::from_secs(5);

/// Capacity of the radio link.
#[derive(Clone, Copy, Debug)]
pub enum Link {
    /// So many Mbit/s.
    Steady(u64),
    /// A generated trace.
    Trace(Preset),
}

impl Link {
    pub fn name(self) -> String {
        match self {
            Self::Steady(mbps) => format!("{mbps} Mbit/s"),
            Self::Trace(preset) => preset.name().to_owned(),
        }
    }

    fn capacity(self, seed: u64) -> Capacity {
        match self {
            Self::Steady(mbps) => Capacity::Constant(Rate::from_mbps(mbps)),
            Self::Trace(preset) => {
                let trace = preset.generate(LinkDirection::Down, Duration::from_secs(60), seed);
                Capacity::Trace(std::sync::Arc::new(trace.unwrap()))
            }
        }
    }
}

/// Middlebox between the wired segment and the radio link.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Way {
    /// Nothing.
    Direct,
    /// An accelerator, which sends data to the client so.
    Accelerated(ClientEcn),
}

impl Way {
    pub const fn name(self) -> &'static str {
        match self {
            Self::Direct => "direct",
            Self::Accelerated(ClientEcn::NotEct) => "not-ect",
            Self::Accelerated(ClientEcn::Ect0) => "ect0",
            Self::Accelerated(ClientEcn::Ect1) => "ect1",
        }
    }
}

/// The hosts of a flow.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Hosts {
    /// CUBIC and classic ECN.
    Classic,
    /// CUBIC and accurate ECN.
    Accurate,
    /// A scalable sender as TCP Prague is one, without its pacing: accurate ECN, ECT(1), α ÷ 2 once a round trip.
    Scalable,
}

/// One run.
#[derive(Clone, Debug)]
pub struct Run {
    pub link: Link,
    pub aqm: Aqm,
    pub way: Way,
    /// The flow through the accelerator, and those of the same radio queue beside it that pass.
    pub hosts: Hosts,
    pub beside: Vec<Hosts>,
    /// One way, of the wired segment.
    pub wired: Duration,
    pub length: Duration,
    pub seed: u64,
}

impl Run {
    pub fn new(link: Link, aqm: Aqm, way: Way, seed: u64) -> Self {
        Self {
            link,
            aqm,
            way,
            hosts: Hosts::Classic,
            beside: Vec::new(),
            wired: Duration::from_millis(10),
            length: Duration::from_secs(25),
            seed,
        }
    }
}

/// Results of a run after its start.
#[derive(Clone, Debug)]
pub struct Figures {
    /// Goodput of each flow, Mbit/s.
    pub goodput: Vec<f64>,
    /// Queueing time on the radio link, ms: mean and 95th percentile over packets.
    pub queue_mean: f64,
    pub queue_p95: f64,
    /// Share of the link's capacity that was used, in per cent.
    pub utilisation: f64,
    /// Packets marked and dropped by the queue's management, over the whole run.
    pub marked: u64,
    pub dropped: u64,
    /// Marks of a round trip of the path, queue included.
    pub marks_per_round_trip: f64,
}

pub fn codel() -> Aqm {
    Aqm::CoDel(CoDelParams::default())
}

pub fn dual_pi2() -> Aqm {
    Aqm::DualPi2(DualPi2Params::default())
}

fn agree(flow: &mut FlowConfig, hosts: Hosts) {
    let prepare = |host: &mut EndpointConfig| {
        host.controller = match hosts {
            Hosts::Scalable => ControllerConfig::NewReno(NewRenoParams::default()),
            Hosts::Classic | Hosts::Accurate => ControllerConfig::Cubic(CubicParams::default()),
        };
        host.classic_ecn = hosts == Hosts::Classic;
        host.accurate_ecn = (hosts != Hosts::Classic).then_some(true);
        host.mark_response =
            if hosts == Hosts::Scalable { MarkResponse::Scalable } else { MarkResponse::Classic };
    };
    prepare(&mut flow.server);
    prepare(&mut flow.client);
}

fn line_up(run: &Run) -> LineUp {
    LineUp::server(Application::bulk(ENDLESS))
        .wan(Rate::from_mbps(1_000), run.wired)
        .radio(Rate::from_mbps(100), Duration::from_millis(20))
        .client(Application::sink())
        .with(|config| {
            config.log = LogMode::Hash;
            config.wan_down.link.queue = QueueLimit::Bytes(Bytes::new(4_000_000));
            let down = &mut config.radios[0].down.link;
            down.capacity = run.link.capacity(run.seed);
            down.queue = QueueLimit::Bytes(Bytes::new(4_000_000));
            (down.aqm, down.seed, down.keeps_log) = (Some(run.aqm), run.seed, true);
            agree(&mut config.flows[0], run.hosts);
            for (n, hosts) in run.beside.iter().enumerate() {
                let mut other = LineUp::flow(Application::bulk(ENDLESS), Application::sink());
                let port = 40_001 + n as u16;
                other.server.local.set_port(443);
                other.client.remote.set_port(443);
                other.client.local.set_port(port);
                other.server.remote.set_port(port);
                other.client.role = Role::Connects(Instant::from_millis(500));
                agree(&mut other, *hosts);
                config.flows.push(other);
            }
        })
}

fn watch<M: MiddleboxUnderTest>(run: &Run, mut network: Network<M>) -> Figures {
    let (from, until) = (Instant::ZERO + WARM_UP, Instant::ZERO + run.length);
    let read = |network: &Network<M>| -> Vec<u64> {
        network.clients().iter().map(|client| client.bytes_received()).collect()
    };
    assert!(!network.run_until(from).unwrap());
    let before = read(&network);
    assert!(!network.run_until(until).unwrap());
    let seconds = (run.length - WARM_UP).as_secs_f64();
    let got = read(&network).into_iter().zip(before).map(|(after, before)| after - before);
    let goodput: Vec<f64> = got.map(|bytes| bytes as f64 * 8.0 / 1e6 / seconds).collect();
    let link = network.radio_down(0).unwrap().link_mut();
    let counters = *link.counters();
    let offered = link.offered_bytes(from, until).get() as f64;
    let log = link.take_log();
    let served = log.iter().filter(|p| p.departure.is_some_and(|at| at >= from && at < until));
    let carried: f64 = served.clone().map(|packet| packet.size.get() as f64).sum();
    let mut waits: Vec<f64> =
        served.filter_map(|p| p.queueing_delay()).map(|wait| wait.as_nanos() as f64 / 1e6).collect();
    waits.sort_by(f64::total_cmp);
    let queue_mean = waits.iter().sum::<f64>() / waits.len().max(1) as f64;
    let path_ms = 40.0 + if run.way == Way::Direct { 2.0 * run.wired.as_nanos() as f64 / 1e6 } else { 0.0 };
    let round_trips = run.length.as_secs_f64() * 1e3 / (path_ms + queue_mean);
    Figures {
        goodput,
        queue_mean,
        queue_p95: waits.get(waits.len() * 95 / 100).copied().unwrap_or(0.0),
        utilisation: carried / offered * 100.0,
        marked: counters.marked.packets,
        dropped: counters.managed.packets,
        marks_per_round_trip: counters.marked.packets as f64 / round_trips,
    }
}

/// Runs it.
pub fn figures(run: &Run) -> Figures {
    let line_up = line_up(run);
    match run.way {
        Way::Direct => watch(run, line_up.around(PassThrough).unwrap()),
        Way::Accelerated(client_ecn) => {
            // What passes beside it is not in one schedule with it: that is another box's, or another device's.
            let config = EngineConfig { client_ecn, schedule_passed: false, ..EngineConfig::default() };
            let mut config = EngineConfig { super_packets: false, ..config };
            config.policy.rules.push("pass port 443".parse().unwrap());
            watch(run, line_up.around(Engine::new(config).unwrap()).unwrap())
        }
    }
}
