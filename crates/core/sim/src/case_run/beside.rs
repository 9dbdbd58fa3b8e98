//! Traffic beside a case's own flows: hosts for it, and what came of them.

use control::{ControllerConfig, CubicParams};
use scenario::figures::Neighbour;
use scenario::{Beside, BesideKind, Case};
use units::{Bytes, Duration, Instant};

use super::{HTTP_HEAD, addresses, flow, scale_for};
use crate::{
    Application, BesideConfig, DatagramConfig, Ending, Endpoint, FlowConfig, MiddleboxUnderTest, Network,
    ReceiveWindow, Role,
};

/// Bytes of an endless transfer: nobody transfers as much in a run.
const ENDLESS: u64 = 1 << 40;
/// Numbers of flows beside others begin here: their clients' ports follow those of the case's own.
const FIRST_NUMBER: u16 = 10_000;
/// Receive window and send buffer of QUIC hosts.
const QUIC_BUFFER: Bytes = Bytes::from_mib(16);
/// QUIC implementations begin with more segments than TCP's ten (quic-go: 32).
const QUIC_SEGMENTS: u64 = 32;

/// Hosts of an entry in the network.
enum Hosts {
    /// One flow, by its place among those beside the case's own.
    Flow(usize),
    /// A source of datagrams, by its place, and its port.
    Call(usize, u16),
    /// Pages: when each begins, the place of its first flow, and how many it has.
    Pages(Vec<(Duration, usize)>, usize),
}

/// Entry by entry, its number in the file and its hosts, in the order in which they are made.
fn planned(case: &Case, time_limit: Duration) -> Vec<(usize, &Beside, Hosts)> {
    let (mut flows, mut calls) = (0, 0);
    let mut all = Vec::new();
    for (index, entry) in case.workload.beside().iter().enumerate() {
        let each = usize::from(entry.flows());
        match entry.kind {
            BesideKind::Download | BesideKind::Quic | BesideKind::Upload => {
                all.extend((flows..flows + each).map(|place| (index, entry, Hosts::Flow(place))));
                flows += each;
            }
            BesideKind::Call => {
                let ports = (0..entry.flows()).map(|number| entry.call_port(index, number));
                all.extend(ports.enumerate().map(|(n, port)| (index, entry, Hosts::Call(calls + n, port))));
                calls += each;
            }
            BesideKind::Pages => {
                let starts: Vec<Duration> = entry.page_starts(time_limit).collect();
                let pages: Vec<_> =
                    starts.iter().enumerate().map(|(n, at)| (*at, flows + n * each)).collect();
                flows += starts.len() * each;
                all.push((index, entry, Hosts::Pages(pages, each)));
            }
        }
    }
    all
}

/// The hosts beside those of `case`.
pub(super) fn config(case: &Case, seed: u64, time_limit: Duration) -> BesideConfig {
    let mut config = BesideConfig::default();
    for (index, entry, hosts) in planned(case, time_limit) {
        let port = entry.port(index);
        match hosts {
            Hosts::Flow(place) => {
                let begins = Instant::ZERO + entry.start();
                let mut hosts = hosts_of(case, (place, port), begins, seed);
                (hosts.server.app, hosts.client.app) = endless(entry, time_limit);
                if entry.kind.is_download() {
                    hosts.server.controller = entry.congestion_control().config();
                }
                config.flows.push(if entry.kind == BesideKind::Quic { over_quic(hosts) } else { hosts });
            }
            Hosts::Call(_, port) => config.datagrams.push(call(case, entry, port, time_limit)),
            Hosts::Pages(pages, each) => {
                let piece = entry.piece().get();
                for (at, first) in pages {
                    for place in first..first + each {
                        let mut hosts = hosts_of(case, (place, port), Instant::ZERO + at, seed);
                        hosts.server.app = Application::server(HTTP_HEAD, piece);
                        hosts.client.app = Application::client(HTTP_HEAD);
                        config.flows.push(hosts);
                    }
                }
            }
        }
    }
    config
}

/// Hosts like the case's own, of the first device.
fn hosts_of(case: &Case, (place, port): (usize, u16), begins: Instant, seed: u64) -> FlowConfig {
    let number = FIRST_NUMBER.wrapping_add(place as u16);
    let mut hosts = flow(case, 0, number, seed);
    hosts.server.local.set_port(port);
    hosts.client.remote.set_port(port);
    hosts.client.role = Role::Connects(begins);
    hosts
}

/// Programs that transfer until the client ends it.
fn endless(entry: &Beside, time_limit: Duration) -> (Application, Application) {
    let (server, client) = if entry.kind == BesideKind::Upload {
        (Application::server(ENDLESS, HTTP_HEAD), Application::client(ENDLESS))
    } else {
        (Application::server(HTTP_HEAD, ENDLESS), Application::client(HTTP_HEAD))
    };
    (server, client.aborting_at(Instant::ZERO + entry.stop_within(time_limit)))
}

fn over_quic(mut hosts: FlowConfig) -> FlowConfig {
    for host in [&mut hosts.server, &mut hosts.client] {
        host.window = ReceiveWindow::Fixed(QUIC_BUFFER);
        host.window_scale = Some(scale_for(host.window.max()));
        host.send_buffer = host.window.max();
        (host.sack, host.timestamps) = (true, host.timestamps.or(Some(1)));
    }
    if let ControllerConfig::Cubic(cubic) = hosts.server.controller {
        let cubic = CubicParams { initial_window_segments: QUIC_SEGMENTS, ..cubic };
        hosts.server.controller = ControllerConfig::Cubic(cubic);
    }
    FlowConfig { server: hosts.server.over_quic(), client: hosts.client.over_quic(), ..hosts }
}

/// Call in which as many packets come back as arrive.
fn call(case: &Case, entry: &Beside, port: u16, time_limit: Duration) -> DatagramConfig {
    let family = case.workload.family();
    let (payload, rate) = entry.call(family);
    let stop = entry.stop_within(time_limit);
    let length = stop - entry.start().min(stop);
    let (mut server, mut client) = addresses(family, 0, 0);
    server.set_port(port);
    client.set_port(port);
    let count = rate.bytes_in(length).get() / payload.get();
    DatagramConfig { server, client, begins: entry.start(), rate, payload, count, answer: payload }
}

/// Figures of everything beside the flows of `case`, which were to end by `limit`.
pub(super) fn neighbours<M: MiddleboxUnderTest>(
    case: &Case,
    network: &Network<M>,
    limit: Instant,
) -> Vec<Neighbour> {
    let time_limit = limit.saturating_since(Instant::ZERO);
    let calls: Vec<_> = network.datagrams_beside().collect();
    let hosts = |place: usize| {
        let flow = network.own_flows() + place;
        Some((network.servers().get(flow)?, network.clients().get(flow)?))
    };
    let one = |entry: &Beside, what: Hosts| {
        let (began, stopped) = (entry.start(), entry.stop_within(time_limit));
        let mut one = Neighbour::new(entry, Instant::ZERO + began, Instant::ZERO + stopped);
        match what {
            Hosts::Flow(place) => {
                if let Some((server, client)) = hosts(place) {
                    let receiver = if entry.kind == BesideKind::Upload { server } else { client };
                    one.marks = receiver.progress().marks.to_vec();
                    one.error = failure(server).or_else(|| failure(client));
                }
            }
            Hosts::Call(place, _) => {
                if let Some(log) = calls.get(place) {
                    one.marks.clone_from(&log.marks);
                    one.delays = [log.delays.clone(), log.answer_delays.clone()];
                    one.sent = log.reached;
                }
            }
            Hosts::Pages(pages, each) => {
                for (at, first) in pages {
                    let flows: Vec<_> = (first..first + each).filter_map(hosts).collect();
                    one.pages.extend(took(&flows, Instant::ZERO + at));
                    one.marks.extend(flows.iter().flat_map(|(_, client)| increments(client)));
                }
                one.marks.sort_unstable();
                let mut sum = 0;
                for (_, bytes) in &mut one.marks {
                    sum += *bytes;
                    *bytes = sum;
                }
            }
        }
        one
    };
    planned(case, time_limit).into_iter().map(|(_, entry, what)| one(entry, what)).collect()
}

fn failure(host: &Endpoint) -> Option<String> {
    let ending = host.ending().filter(|ending| matches!(ending, Ending::TimedOut | Ending::Refused))?;
    Some(format!("the connection ended: {ending:?}"))
}

/// Time that a page took whose connections have all ended.
fn took(flows: &[(&Endpoint, &Endpoint)], began: Instant) -> Option<Duration> {
    let ends = flows.iter().map(|(server, client)| {
        let is_whole = client.bytes_read() == server.config().app.total();
        client.progress().last.filter(|_| is_whole)
    });
    let last = ends.collect::<Option<Vec<Instant>>>()?.into_iter().max()?;
    Some(last.saturating_since(began))
}

/// Bytes that a host's program read, with the times at which it read them.
fn increments(host: &Endpoint) -> Vec<(Instant, u64)> {
    let progress = host.progress();
    let mut before = 0;
    let last = progress.last.map(|at| (at, host.bytes_read()));
    let marks = progress.marks.iter().copied().chain(last);
    marks.map(|(at, bytes)| (at, bytes - core::mem::replace(&mut before, bytes))).collect()
}
