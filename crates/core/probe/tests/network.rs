//! [`Network`]: one server and several clients, joined by paths in virtual time.

use std::collections::BTreeMap;
use std::net::SocketAddr;

use probe::{
    ARRIVALS_MAX, Client, ClientConfig, ClientEvent, CookieJar, DATA_LEN, Direction, Failure, IdleEnd,
    IdleFlow, Key, Limits, Message, Pattern, Refusal, RunLog, RunSpec, Server, ServerConfig,
};
use rand::{RngExt, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;
use units::{Bytes, Duration, Instant, Rate};

/// What a path does to packets, both ways.
#[derive(Clone, Copy, Debug)]
pub struct Path {
    pub loss_ppm: u32,
    pub repeat_ppm: u32,
    pub jitter: Duration,
    pub delay_up: Duration,
    pub delay_down: Duration,
    /// Of each way by itself: what it carries, IP packets, and the room of its queue.
    pub bottleneck: Option<(Rate, Bytes)>,
}

impl Default for Path {
    fn default() -> Self {
        Self {
            loss_ppm: 0,
            repeat_ppm: 0,
            jitter: Duration::ZERO,
            delay_up: Duration::from_millis(20),
            delay_down: Duration::from_millis(20),
            bottleneck: None,
        }
    }
}

/// `rate_pps` packets of 1000 bytes a second.
pub fn spec(direction: Direction, rate_pps: u64, ms: u64) -> RunSpec {
    RunSpec {
        direction,
        pattern: Pattern::Steady,
        rate: Rate::from_kbps(rate_pps * 8),
        payload: 972,
        overhead: 28,
        length: Duration::from_millis(ms),
        is_echoed: false,
    }
}

/// What the paths did to data.
#[derive(Clone, Debug, Default)]
pub struct Truth {
    pub lost: u64,
    pub order: Vec<u32>,
}

struct Host {
    client: Client,
    address: SocketAddr,
    logs: Vec<RunLog>,
    failure: Option<Failure>,
    denied: Vec<(Refusal, u64)>,
    waited: u32,
    last_sent: Vec<u8>,
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum To {
    Server(SocketAddr),
    Client(SocketAddr),
}

pub struct Network {
    now: Instant,
    random: Xoshiro256PlusPlus,
    path: Path,
    server: Option<Server>,
    server_offset: Duration,
    server_ppm: u64,
    server_version: u8,
    hosts: Vec<Host>,
    /// By time and order of sending.
    flying: BTreeMap<(Instant, u64), (To, Vec<u8>)>,
    count: u64,
    /// When each way's bottleneck is free.
    free_at: BTreeMap<Direction, Instant>,
    truths: BTreeMap<Direction, Truth>,
    traffic: BTreeMap<SocketAddr, (usize, usize)>,
    forget_after: Duration,
    /// Of the clients that are made from here on.
    pub patience: Duration,
}

fn stranger(number: u16) -> SocketAddr {
    SocketAddr::from(([203, 0, 113, 1], 1_000 + number))
}

impl Network {
    pub fn new(seed: u64, path: Path, has_key: bool) -> Self {
        let server = Server::new(ServerConfig {
            key: has_key.then(|| Key::new(b"key").unwrap()),
            secret: CookieJar::new(&seed.to_be_bytes()).unwrap(),
            limits: Limits {
                rate_max: Rate::from_mbps(100),
                time_max: Duration::from_secs(60),
                volume_max: if path.bottleneck.is_some() { Bytes::MAX } else { Bytes::new(10_000_000) },
            },
            sessions_max: 3,
            sessions_per_client_max: 2,
            measured_max: 1,
            arrivals_max: ARRIVALS_MAX,
        });
        Self {
            now: Instant::from_millis(1_000),
            random: Xoshiro256PlusPlus::seed_from_u64(seed),
            path,
            server: Some(server),
            server_offset: Duration::ZERO,
            server_ppm: 0,
            server_version: 1,
            hosts: Vec::new(),
            flying: BTreeMap::new(),
            count: 0,
            free_at: BTreeMap::new(),
            truths: BTreeMap::new(),
            traffic: BTreeMap::new(),
            forget_after: Duration::MAX,
            patience: Duration::from_secs(10),
        }
    }

    pub fn server_clock(&mut self, ahead: Duration, ppm: u64) {
        (self.server_offset, self.server_ppm) = (ahead, ppm);
    }

    pub fn server_version(&mut self, version: u8) {
        self.server_version = version;
    }

    fn at_server(&self, time: Instant) -> Instant {
        time + self.server_offset + Duration::from_nanos(time.as_nanos() / 1_000_000 * self.server_ppm)
    }

    pub fn server_ahead_ms(&self, time: Instant) -> f64 {
        self.at_server(time).saturating_since(time).as_millis_f64()
    }

    pub fn client(&mut self, key: Option<&str>) -> usize {
        let host = 1 + self.hosts.len() as u8;
        self.client_at(SocketAddr::from(([192, 0, 2, host], 4_000)), key)
    }

    pub fn client_of_one_host(&mut self, key: Option<&str>) -> usize {
        let port = 4_000 + self.hosts.len() as u16;
        self.client_at(SocketAddr::from(([192, 0, 2, 1], port)), key)
    }

    fn client_at(&mut self, address: SocketAddr, key: Option<&str>) -> usize {
        let config = ClientConfig {
            key: key.map(|key| Key::new(key.as_bytes()).unwrap()),
            nonce: self.random.random(),
            patience: self.patience,
        };
        let client = Client::new(config, self.now);
        self.hosts.push(Host {
            client,
            address,
            logs: Vec::new(),
            failure: None,
            denied: Vec::new(),
            waited: 0,
            last_sent: Vec::new(),
        });
        self.hosts.len() - 1
    }

    pub fn begin(&mut self, client: usize, spec: RunSpec) {
        self.hosts[client].client.begin(spec, self.now);
    }

    pub fn stop_client(&mut self, client: usize) {
        self.hosts[client].client.stop(self.now);
    }

    pub fn stop_server(&mut self) {
        self.server = None;
    }

    /// Its packets come from another address from here on, and none come to the old one.
    pub fn move_client(&mut self, client: usize) {
        let address = &mut self.hosts[client].address;
        address.set_port(address.port() + 1_000);
    }

    pub fn log(&self, client: usize, at: usize) -> &RunLog {
        &self.hosts[client].logs[at]
    }

    pub fn failure(&self, client: usize) -> Option<Failure> {
        self.hosts[client].failure
    }

    pub fn denied(&self, client: usize) -> &[(Refusal, u64)] {
        &self.hosts[client].denied
    }

    pub fn waited(&self, client: usize) -> u32 {
        self.hosts[client].waited
    }

    pub fn truth(&self, direction: Direction) -> Truth {
        self.truths.get(&direction).cloned().unwrap_or_default()
    }

    pub fn last_from_client(&self, client: usize) -> Vec<u8> {
        self.hosts[client].last_sent.clone()
    }

    pub fn forge(&mut self, from: u16, bytes: &[u8]) {
        self.serve(stranger(from), bytes.to_vec());
        self.pump();
    }

    /// Bytes that came from a stranger's address, and that were sent to it.
    pub fn traffic_of(&self, from: u16) -> (usize, usize) {
        self.traffic.get(&stranger(from)).copied().unwrap_or_default()
    }

    /// The path forgets addresses that have not sent for so long.
    pub fn forget_after(&mut self, time: Duration) {
        self.forget_after = time;
    }

    /// Silent flows of a client, each from a port of its own: how they end.
    pub fn idle(&mut self, client: usize, key: Option<&str>, seconds: &[u64]) -> Vec<IdleEnd> {
        let key = key.map(|key| Key::new(key.as_bytes()).unwrap());
        let session = self.hosts[client].client.session().unwrap();
        let of = |(flow, s): (u32, &u64)| IdleFlow::new(session, flow, Duration::from_secs(*s), self.now);
        let mut flows: Vec<IdleFlow> = (0..).zip(seconds).map(of).collect();
        let address = |flow: usize| SocketAddr::from(([198, 51, 100, 1], 5_000 + flow as u16));
        let (mut out, mut seen) = (Vec::new(), BTreeMap::new());
        let mut kept = self.now;
        while flows.iter().any(|flow| flow.end().is_none()) {
            for (at, flow) in flows.iter_mut().enumerate() {
                while flow.poll_transmit(key.as_ref(), self.now, &mut out) {
                    seen.insert(address(at), self.now);
                    self.send(To::Server(address(at)), &out);
                }
            }
            if self.now >= kept {
                kept = self.now + Duration::from_secs(10);
                self.hosts[client].client.keep_alive();
            }
            self.pump();
            self.now += Duration::from_millis(5);
            while let Some(entry) = self.flying.first_entry().filter(|entry| entry.key().0 <= self.now) {
                let ((_, _), (to, bytes)) = entry.remove_entry();
                match to {
                    To::Server(from) => self.serve(from, bytes),
                    To::Client(to) => {
                        let last = seen.get(&to).copied().unwrap_or(Instant::ZERO);
                        let is_known = self.now.saturating_since(last) < self.forget_after;
                        if let Some(at) = (0..flows.len()).find(|at| address(*at) == to).filter(|_| is_known)
                        {
                            flows[at].handle_datagram(&bytes, key.as_ref(), self.now);
                        }
                    }
                }
            }
        }
        flows.iter().filter_map(IdleFlow::end).collect()
    }

    /// Until nothing more happens.
    pub fn run(&mut self) {
        self.run_for(Duration::from_secs(100));
    }

    pub fn run_for(&mut self, time: Duration) {
        let end = self.now + time;
        loop {
            self.pump();
            let is_over = self.flying.is_empty()
                && self.hosts.iter().all(|host| {
                    !host.client.is_busy()
                        && (host.failure.is_some() || host.client.next_deadline().is_none())
                });
            let next = self.flying.keys().next().map(|(at, _)| *at);
            let clients = self.hosts.iter().filter_map(|host| host.client.next_deadline()).min();
            // The server's clock is ahead and faster: its deadlines are looked at often enough.
            let server = self.server.as_ref().and_then(Server::next_deadline).map(|at| {
                let left = at.saturating_since(self.at_server(self.now));
                self.now + left.mul_ratio(1_000_000, 1_000_000 + self.server_ppm)
            });
            let Some(next) = [next, clients, server].into_iter().flatten().min().filter(|_| !is_over) else {
                return;
            };
            if next > end {
                self.now = end;
                return;
            }
            self.now = next.max(self.now + Duration::from_nanos(u64::from(next <= self.now)));
            self.arrive();
        }
    }

    fn arrive(&mut self) {
        while let Some(entry) = self.flying.first_entry().filter(|entry| entry.key().0 <= self.now) {
            let ((at, _), (to, bytes)) = entry.remove_entry();
            match to {
                To::Server(from) => self.serve(from, bytes),
                To::Client(address) => {
                    self.note(Direction::Down, &bytes);
                    let host = self.hosts.iter_mut().find(|host| host.address == address);
                    if let Some(host) = host {
                        host.client.handle_datagram(&bytes, at, self.now);
                    }
                }
            }
        }
    }

    fn serve(&mut self, from: SocketAddr, bytes: Vec<u8>) {
        self.note(Direction::Up, &bytes);
        self.traffic.entry(from).or_default().0 += bytes.len();
        let now = self.at_server(self.now);
        let mut bytes = bytes;
        // A server of another version takes all for that of others.
        if self.server_version != 1 && bytes.len() > 2 {
            bytes[2] = self.server_version;
        }
        if let Some(server) = &mut self.server {
            server.handle_datagram(&bytes, from, now, now);
        }
    }

    /// Notes data that arrives.
    fn note(&mut self, direction: Direction, bytes: &[u8]) {
        if let Some(number) = data_number(bytes) {
            self.truths.entry(direction).or_default().order.push(number);
        }
    }

    fn pump(&mut self) {
        let mut out = Vec::new();
        for at in 0..self.hosts.len() {
            while let Some(run) = self.hosts[at].client.poll_transmit(self.now, &mut out) {
                let _ = run;
                self.hosts[at].last_sent.clone_from(&out);
                let address = self.hosts[at].address;
                self.send(To::Server(address), &out);
            }
            while let Some(event) = self.hosts[at].client.poll_event() {
                let host = &mut self.hosts[at];
                match event {
                    ClientEvent::Ended { log, .. } => host.logs.push(*log),
                    ClientEvent::Failed(failure) => host.failure = Some(failure),
                    ClientEvent::Denied { reason, detail, .. } => host.denied.push((reason, detail)),
                    ClientEvent::Waits { .. } => host.waited += 1,
                    ClientEvent::Connected(_) | ClientEvent::Begun { .. } | ClientEvent::Answered(_) => {}
                }
            }
        }
        let now = self.at_server(self.now);
        while let Some(transmit) = self.server.as_mut().and_then(|server| server.poll_transmit(now, &mut out))
        {
            self.traffic.entry(transmit.path.client).or_default().1 += out.len();
            let mut bytes = out.clone();
            if self.server_version != 1 {
                bytes[2] = self.server_version;
            }
            self.send(To::Client(transmit.path.client), &bytes);
        }
    }

    fn send(&mut self, to: To, bytes: &[u8]) {
        let direction = if matches!(to, To::Server(_)) { Direction::Up } else { Direction::Down };
        let is_data = data_number(bytes);
        let mut copies = 1 + u32::from(self.random.random_ratio(self.path.repeat_ppm, 1_000_000));
        if self.random.random_ratio(self.path.loss_ppm, 1_000_000) {
            copies = 0;
        }
        let mut leaves = self.now;
        if let Some((rate, room)) = self.path.bottleneck {
            let packet = Bytes::new(bytes.len() as u64 + 28);
            let free = self.free_at.entry(direction).or_insert(self.now);
            *free = (*free).max(self.now);
            let waiting = rate.bytes_in(free.saturating_since(self.now));
            if waiting.get() + packet.get() > room.get() {
                copies = 0;
            } else {
                *free += rate.time_for(packet);
                leaves = *free;
            }
        }
        if is_data.is_some() && copies == 0 {
            self.truths.entry(direction).or_default().lost += 1;
        }
        let delay = if direction == Direction::Up { self.path.delay_up } else { self.path.delay_down };
        for _ in 0..copies {
            let jitter = self.random.random_range(0..=self.path.jitter.as_nanos());
            self.count += 1;
            let at = leaves + delay + Duration::from_nanos(jitter);
            self.flying.insert((at, self.count), (to, bytes.to_vec()));
        }
    }
}

/// The number of a packet of data that is filled up, as those of a run are and echoes are not.
fn data_number(bytes: &[u8]) -> Option<u32> {
    match Message::decode(bytes, None) {
        Ok(Message::Data(data)) if bytes.len() > DATA_LEN => Some(data.number),
        _ => None,
    }
}
