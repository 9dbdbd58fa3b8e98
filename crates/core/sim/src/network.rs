//! [`Network`]: hosts, links and a middlebox in virtual time.

use core::net::{IpAddr, SocketAddr};
use std::collections::{BTreeMap, BTreeSet, VecDeque};

use control::server::SharedPath;
use engine::Port;
use link::BaseStation;
use scenario::segments::Observer;
use units::{Bytes, Duration, Instant};

use crate::checks::Checks;
use crate::datagrams::Datagrams;
use crate::ping::Pinger;
use crate::strangers::Strangers;
use crate::{
    CheckConfig, DatagramConfig, DatagramLog, Endpoint, EndpointConfig, LogMode, MiddleboxUnderTest,
    PacketLog, Path, PathConfig, SimError, StrangerConfig, TapPoint, Violation,
};
use agenda::Agenda;

mod agenda;
mod base_stations;
mod boxed;
mod ends;
mod hosts;

/// Rounds of events, or packets of one node, at one point of time; more means that some deadline never moves.
const ROUNDS_MAX: usize = 20_000;

/// The two hosts of a flow.
#[derive(Clone, Debug)]
pub struct FlowConfig {
    /// Endpoint on the wired side.
    pub server: EndpointConfig,
    /// Endpoint on the mobile side.
    pub client: EndpointConfig,
    /// The client's radio link: index into [`NetworkConfig::radios`].
    pub radio: usize,
}

/// Both directions of a client's radio link.
#[derive(Clone, Debug, Default)]
pub struct RadioConfig {
    /// Middlebox to client.
    pub down: PathConfig,
    /// Client to middlebox.
    pub up: PathConfig,
}

/// Traffic that goes on beside the flows of a run, and ends with them.
#[derive(Clone, Debug, Default)]
pub struct BesideConfig {
    /// Flows; their numbers follow those of the run's own.
    pub flows: Vec<FlowConfig>,
    /// Sources of UDP datagrams.
    pub datagrams: Vec<DatagramConfig>,
}

/// Everything that describes a run.
#[derive(Clone, Debug, Default)]
pub struct NetworkConfig {
    /// Server to middlebox.
    pub wan_down: PathConfig,
    /// Middlebox to server.
    pub wan_up: PathConfig,
    /// The radio links, at least one.
    pub radios: Vec<RadioConfig>,
    /// The flows; each has its own hosts, all share the WAN.
    pub flows: Vec<FlowConfig>,
    /// The clock at the start.
    pub starts_at: Instant,
    /// Limits of the run.
    pub checks: CheckConfig,
    /// Form in which the packet log is kept.
    pub log: LogMode,
    /// Packets that reach the middlebox together are handed to it as super-packets, as a TUN device does.
    pub merges_arrivals: bool,
    /// The first flow's client pings its server this often.
    pub ping: Option<Duration>,
    /// Clients leave echo requests unanswered (RFC 1122 §3.2.2.6 wants an answer).
    pub ignores_echo: bool,
    /// A UDP source beside the flows, or alone.
    pub datagrams: Option<DatagramConfig>,
    /// Traffic that nobody waits for: the run is over when all else has ended.
    pub beside: BesideConfig,
    /// Hosts that are no ends of the flows, and send packets in their names.
    pub strangers: Option<StrangerConfig>,
    /// The base stations report each client's downlink to the middlebox.
    pub feedback: Option<link::BaseStationConfig>,
    /// The TCP segments that enter the radio links are noted, for [`Network::take_segments`].
    pub notes_segments: bool,
    /// Bytes of each packet at the hosts that are kept, for [`PacketLog::take_kept`]; none of none.
    pub keeps_packets: Option<usize>,
}

/// Outcome of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Outcome {
    /// Time at which the last flow had come to its end.
    pub ended_at: Instant,
    /// Largest debt of a flow.
    pub debt_max: Bytes,
    /// [`PacketLog::hash`].
    pub log_hash: u64,
    /// Packets seen at all points together.
    pub packets: u64,
}

#[derive(Debug)]
struct Radio {
    down: Path,
    up: Path,
    station: Option<BaseStation>,
}

impl Radio {
    /// Time at which a packet comes out of it next, either way.
    fn next_deadline(&self) -> Option<Instant> {
        [&self.down, &self.up].into_iter().filter_map(Path::next_deadline).min()
    }
    /// Time at which its base station measures or reports next.
    fn next_report(&self) -> Option<Instant> {
        self.station.as_ref().map(BaseStation::next_deadline)
    }
}

/// Deadlines of what is due next.
#[derive(Debug)]
struct Due {
    /// Servers and clients in turn.
    hosts: Agenda,
    /// Radio links, either way.
    links: Agenda,
    /// Their base stations.
    stations: Agenda,
}

/// Hosts, links and a middlebox:
///
/// ```text
///   servers ── wan_down ──▶ ┌─────┐ ── radio.down ──▶ clients
///                           │ box │
///           ◀── wan_up ──── └─────┘ ◀── radio.up ────
/// ```
#[derive(Debug)]
pub struct Network<M> {
    servers: Vec<Endpoint>,
    clients: Vec<Endpoint>,
    /// Flows that the run waits for; the others are beside them.
    own_flows: usize,
    /// Radio link of each flow.
    radio_of: Vec<usize>,
    /// Flows by their client's and their server's address.
    flow_of: BTreeMap<(SocketAddr, SocketAddr), usize>,
    /// State that the connections of a server's kernel to one client share, by both addresses.
    paths: BTreeMap<(IpAddr, IpAddr), SharedPath>,
    /// Radio links by the addresses of the clients behind them.
    radio_to: BTreeMap<IpAddr, usize>,
    wan_down: Path,
    wan_up: Path,
    middlebox: M,
    radios: Vec<Radio>,
    now: Instant,
    checks: Checks,
    limits: CheckConfig,
    log: PacketLog,
    merges_arrivals: bool,
    pinger: Option<Pinger>,
    ignores_echo: bool,
    datagrams: Option<Datagrams>,
    datagrams_beside: Vec<Datagrams>,
    strangers: Option<Strangers>,
    /// Packets that they have sent, and that were taken in.
    strange: BTreeSet<Vec<u8>>,
    observers: [Observer; 2],
    /// Packets that are about to enter the middlebox: they wait while nobody is there.
    waiting: VecDeque<boxed::Waiting>,
    due: Due,
    /// A flow that had not ended when that was last looked at.
    unfinished: usize,
}

impl<M: MiddleboxUnderTest> Network<M> {
    /// The line-up of `config` around `middlebox`, at its start.
    ///
    /// # Errors
    /// A link's settings are out of range, or there is no radio link for a flow.
    pub fn new(config: &NetworkConfig, middlebox: M) -> Result<Self, SimError> {
        let start = config.starts_at;
        let flows: Vec<&FlowConfig> = config.flows.iter().chain(&config.beside.flows).collect();
        // A source of datagrams needs the first.
        let has_datagrams = config.datagrams.is_some() || !config.beside.datagrams.is_empty();
        let lacks_first = has_datagrams && config.radios.is_empty();
        let flow = flows.iter().position(|f| f.radio >= config.radios.len()).or(lacks_first.then_some(0));
        if let Some(flow) = flow {
            return Err(SimError::NoRadio { flow });
        }
        let radio = |radio: &RadioConfig| {
            Ok::<_, SimError>(Radio {
                down: Path::new(&radio.down, "radio down", start)?,
                up: Path::new(&radio.up, "radio up", start)?,
                station: base_stations::station(config.feedback, radio, start)?,
            })
        };
        let radios = config.radios.iter().map(radio).collect::<Result<Vec<_>, _>>()?;
        let ends = |f: &FlowConfig| (f.client.local, f.server.local);
        // Of several flows of an address the first says where it is.
        let radio_to = flows.iter().rev().map(|f| (f.client.local.ip(), f.radio)).collect();
        let mut network = Self {
            servers: flows.iter().map(|f| Endpoint::new(f.server.clone())).collect(),
            clients: flows.iter().map(|f| Endpoint::new(f.client.clone())).collect(),
            own_flows: config.flows.len(),
            radio_of: flows.iter().map(|f| f.radio).collect(),
            flow_of: flows.iter().enumerate().map(|(i, f)| (ends(f), i)).collect(),
            paths: BTreeMap::new(),
            radio_to,
            wan_down: Path::new(&config.wan_down, "WAN down", start)?,
            wan_up: Path::new(&config.wan_up, "WAN up", start)?,
            middlebox,
            due: Due {
                hosts: Agenda::new(vec![None; 2 * flows.len()].into_iter()),
                links: Agenda::new(radios.iter().map(Radio::next_deadline)),
                stations: Agenda::new(radios.iter().map(Radio::next_report)),
            },
            unfinished: 0,
            radios,
            now: start,
            checks: Checks::new(config.checks, flows.iter().map(|f| ends(f))),
            limits: config.checks,
            log: PacketLog::new(config.log, config.keeps_packets),
            merges_arrivals: config.merges_arrivals,
            ignores_echo: config.ignores_echo,
            pinger: config.ping.zip(flows.first()).map(|(every, flow)| {
                Pinger::new(flow.client.local.ip(), flow.server.local.ip(), every, start)
            }),
            datagrams: config.datagrams.clone().map(|config| Datagrams::new(config, start)),
            datagrams_beside: config
                .beside
                .datagrams
                .iter()
                .map(|c| Datagrams::new(c.clone(), start))
                .collect(),
            strangers: config.strangers.map(|config| Strangers::new(config, start)),
            strange: BTreeSet::new(),
            observers: [Observer::new(config.notes_segments), Observer::new(config.notes_segments)],
            waiting: VecDeque::new(),
        };
        for flow in 0..flows.len() {
            network.renew_server(flow);
            network.renew_client(flow);
        }
        Ok(network)
    }

    /// Flows that the run waits for: the first of all. Those behind them are beside it.
    #[must_use]
    pub fn own_flows(&self) -> usize {
        self.own_flows
    }
    /// The servers, by flow.
    #[must_use]
    pub fn servers(&self) -> &[Endpoint] {
        &self.servers
    }
    /// The clients, by flow.
    #[must_use]
    pub fn clients(&self) -> &[Endpoint] {
        &self.clients
    }
    /// The middlebox.
    #[must_use]
    pub fn middlebox(&self) -> &M {
        &self.middlebox
    }
    /// A radio link towards clients, to read its packet log.
    pub fn radio_down(&mut self, radio: usize) -> Option<&mut Path> {
        self.radios.get_mut(radio).map(|r| &mut r.down)
    }
    /// A radio link from clients, to read its packet log.
    pub fn radio_up(&mut self, radio: usize) -> Option<&mut Path> {
        self.radios.get_mut(radio).map(|r| &mut r.up)
    }
    /// A radio link of the network, towards its client or from it.
    #[must_use]
    pub fn radio(&self, radio: usize, down: bool) -> Option<&Path> {
        self.radios.get(radio).map(|r| if down { &r.down } else { &r.up })
    }
    /// The segments that entered the radio links, towards the clients and from them.
    pub fn take_segments(&mut self) -> [Vec<scenario::segments::Segment>; 2] {
        let observers = core::mem::replace(&mut self.observers, [Observer::new(false), Observer::new(false)]);
        observers.map(Observer::into_segments)
    }
    /// Times at which the pings were sent, and their round-trip times.
    #[must_use]
    pub fn round_trips(&self) -> &[(Instant, Duration)] {
        self.pinger.as_ref().map_or(&[], Pinger::round_trips)
    }
    /// Observations of the UDP source and its sink.
    #[must_use]
    pub fn datagrams(&self) -> Option<&DatagramLog> {
        self.datagrams.as_ref().map(Datagrams::log)
    }
    /// The same of the sources beside the run's flows.
    pub fn datagrams_beside(&self) -> impl Iterator<Item = &DatagramLog> {
        self.datagrams_beside.iter().map(Datagrams::log)
    }
    /// Log of the packets that passed each point.
    #[must_use]
    pub fn log(&self) -> &PacketLog {
        &self.log
    }
    /// The same, to take kept packets from it.
    pub fn log_mut(&mut self) -> &mut PacketLog {
        &mut self.log
    }
    /// The present.
    #[must_use]
    pub fn now(&self) -> Instant {
        self.now
    }
    /// True when the middlebox made packets of its own for a flow.
    #[must_use]
    pub fn is_accelerated(&self, flow: usize) -> bool {
        self.checks.is_accelerated(flow)
    }
    /// Outcome so far.
    #[must_use]
    pub fn outcome(&self) -> Outcome {
        Outcome {
            ended_at: self.now,
            debt_max: self.checks.debt_max(),
            log_hash: self.log.hash(),
            packets: self.log.packets(),
        }
    }

    /// Runs until every flow of its own has come to its end.
    ///
    /// # Errors
    /// A rule was broken, or a flow does not end in time.
    pub fn run(&mut self) -> Result<Outcome, SimError> {
        if self.run_until(self.limits.ends_by)? {
            return Ok(self.outcome());
        }
        if self.waits_by_tampering() {
            return Ok(self.outcome());
        }
        Err(SimError::Broken { at: self.now, violation: self.stalled() })
    }

    /// Runs until every flow of its own has come to its end, or nothing more happens before `limit`; true for the first.
    ///
    /// # Errors
    /// A rule was broken, or nothing will ever happen again.
    pub fn run_until(&mut self, limit: Instant) -> Result<bool, SimError> {
        loop {
            self.step().map_err(|violation| self.broken(violation))?;
            if self.has_ended() {
                self.judge_ends().map_err(|violation| self.broken(violation))?;
                return Ok(true);
            }
            match self.next_deadline() {
                Some(at) if at <= limit => self.now = at.max(self.now),
                Some(_) => return Ok(false),
                None => return Err(self.broken(self.stalled())),
            }
        }
    }

    fn broken(&self, violation: Violation) -> SimError {
        SimError::Broken { at: self.now, violation }
    }

    /// Lets time pass in which nothing happens.
    pub fn wait_until(&mut self, until: Instant) {
        let next = self.next_deadline().unwrap_or(until);
        self.now = self.now.max(until.min(next));
    }

    /// Time at which anything happens next.
    #[must_use]
    pub fn next_deadline(&self) -> Option<Instant> {
        let many = [&self.due.hosts, &self.due.links, &self.due.stations].map(Agenda::earliest);
        let paths = [&self.wan_down, &self.wan_up].map(Path::next_deadline);
        let ping = self.pinger.as_ref().map(Pinger::next_deadline);
        let sources = self.datagrams.iter().chain(&self.datagrams_beside);
        let datagram = sources.filter_map(Datagrams::next_deadline).min();
        let stranger = self.strangers.as_ref().and_then(Strangers::next_deadline);
        let others = [self.middlebox.next_deadline(), ping, datagram, stranger];
        many.into_iter().chain(paths).chain(others).flatten().min()
    }

    /// A server has acted.
    fn renew_server(&mut self, flow: usize) {
        self.due.hosts.set(2 * flow, self.servers[flow].next_deadline());
    }
    /// A client has acted.
    fn renew_client(&mut self, flow: usize) {
        self.due.hosts.set(2 * flow + 1, self.clients[flow].next_deadline());
    }
    /// Something went into a radio link, or came out of it.
    fn renew_radio(&mut self, radio: usize) {
        self.due.links.set(radio, self.radios[radio].next_deadline());
    }

    /// Lets everything happen that is due at the present.
    fn step(&mut self) -> Result<(), Violation> {
        for _ in 0..ROUNDS_MAX {
            self.let_timers_act()?;
            self.deliver()?;
            if self.next_deadline().is_none_or(|at| at > self.now) {
                return self.settle();
            }
        }
        Err(Violation::Busy)
    }

    fn let_timers_act(&mut self) -> Result<(), Violation> {
        let now = self.now;
        let mut from = 0;
        while let Some(host) = self.due.hosts.next_due(from, now) {
            let flow = host / 2;
            if host.is_multiple_of(2) {
                self.servers[flow].handle_timeout(now);
                self.send_from_server(flow)?;
            } else {
                self.clients[flow].handle_timeout(now);
                self.send_from_client(flow)?;
            }
            from = host + 1;
        }
        if self.pinger.as_ref().is_some_and(|pinger| pinger.next_deadline() <= now) {
            self.send_ping();
        }
        self.send_datagrams();
        self.let_strangers_act();
        self.report()?;
        if self.middlebox.next_deadline().is_some_and(|at| at <= now) {
            self.middlebox.handle_timeout(now);
            self.send_from_middlebox()?;
        }
        self.let_waiting_enter()
    }

    fn deliver(&mut self) -> Result<(), Violation> {
        let arrivals = drain(&mut self.wan_down, self.now);
        self.enter_middlebox(Port::Wired, arrivals)?;
        let mut from = 0;
        while let Some(radio) = self.due.links.next_due(from, self.now) {
            while let Some(packet) = self.radios[radio].down.poll(self.now) {
                self.log.note(self.now, TapPoint::ClientIn, &packet);
                self.arrive_at_client(&packet)?;
            }
            let arrivals = drain(&mut self.radios[radio].up, self.now);
            self.renew_radio(radio);
            self.enter_middlebox(Port::Mobile, arrivals)?;
            from = radio + 1;
        }
        while let Some(packet) = self.wan_up.poll(self.now) {
            self.log.note(self.now, TapPoint::ServerIn, &packet);
            self.arrive_at_server(&packet)?;
        }
        Ok(())
    }
}

/// One more packet of one node at one point of time, which must come to an end.
fn count_one(sent: usize) -> Result<usize, Violation> {
    if sent < ROUNDS_MAX { Ok(sent + 1) } else { Err(Violation::Busy) }
}

fn drain(path: &mut Path, now: Instant) -> Vec<Vec<u8>> {
    core::iter::from_fn(|| path.poll(now)).collect()
}

#[cfg(test)]
mod tests;
