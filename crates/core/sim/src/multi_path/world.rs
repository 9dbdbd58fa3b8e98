//! [`World`]: connections over radios in virtual time.

use std::collections::BTreeMap;

use link::Link;
use scenario::CongestionControl;
use units::{Bytes, Duration, Instant};

use super::data_level::{Body, Connection};
use super::{CaseControl, WorldConfig, bin, headers};
use crate::SimError;

/// Largest packet: Ethernet's.
const MTU: u64 = 1_500;

/// Bytes that the options of MPTCP take of a segment of data, and of an acknowledgement (RFC 8684 §3.3:
/// 64-bit numbers, without checksums, padded).
const DATA_OPTIONS: u64 = 28;
const ACK_OPTIONS: u64 = 12;

/// Rounds of events at one point of time; more means that some deadline never moves.
const ROUNDS_MAX: usize = 20_000;

/// A packet on a radio: connection, subflow, and what it carries.
type Parcel = (usize, usize, Body);

/// Connections, and the radios that they share.
#[derive(Debug)]
pub(super) struct World {
    pub connections: Vec<Connection>,
    /// TCP payload of the first connection by `RADIO-ADDRESS`, in bins.
    pub flows: BTreeMap<String, Vec<u64>>,
    /// Longest queue by radio in bins, ms.
    pub queues_ms: BTreeMap<String, Vec<u32>>,
    names: Vec<String>,
    /// Links towards the client, and from it.
    radios: Vec<[Link<Parcel>; 2]>,
    headers: Bytes,
    is_multi_path: bool,
    now: Instant,
    start: Instant,
}

impl World {
    pub(super) fn new(config: &WorldConfig) -> Result<Self, SimError> {
        let mut radios = Vec::new();
        for (_, [down, up]) in &config.radios {
            let made = |config, place| {
                Link::new(config, Instant::ZERO).map_err(|source| SimError::Link { place, source })
            };
            radios.push([made(down, "radio down")?, made(up, "radio up")?]);
        }
        let now = config.starts_at;
        let headers = headers(config.family);
        let payload = |options: u64| (MTU - headers.get() - options) as u32;
        let addresses = if config.is_multi_path { config.server_addresses } else { 1 };
        let radio_count = if config.is_multi_path { radios.len() } else { 1 };
        let routes: Vec<(usize, u32)> =
            (0..radio_count).flat_map(|radio| (0..addresses).map(move |address| (radio, address))).collect();
        let mss = if config.is_multi_path { payload(DATA_OPTIONS) } else { payload(0) };
        let mut connections =
            vec![Connection::new(&routes, config.control, mss, (config.seed, config.size), now)];
        let reno = CongestionControl::named("reno").unwrap_or_default();
        for number in 1..=u64::from(config.beside) {
            let content = (config.seed ^ (number << 32), u64::MAX);
            let control = CaseControl::Uncoupled(reno);
            connections.push(Connection::new(&[(0, 0)], control, payload(0), content, now));
        }
        Ok(Self {
            connections,
            flows: BTreeMap::new(),
            queues_ms: BTreeMap::new(),
            names: config.radios.iter().map(|(name, _)| name.clone()).collect(),
            radios,
            headers,
            is_multi_path: config.is_multi_path,
            now,
            start: now,
        })
    }

    /// Runs until `end`, or until the first connection has everything.
    pub(super) fn run_until(&mut self, end: Instant) -> Result<(), SimError> {
        let mut rounds = 0;
        loop {
            self.deliver();
            self.act();
            let Some(next) = self.next_deadline() else { return Ok(()) };
            if next > end || self.connections[0].reading().ended_at.is_some() {
                return Ok(());
            }
            rounds = if next > self.now { 0 } else { rounds + 1 };
            if rounds > ROUNDS_MAX {
                return Err(SimError::Broken { at: self.now, violation: crate::Violation::Busy });
            }
            self.now = self.now.max(next);
        }
    }

    fn next_deadline(&self) -> Option<Instant> {
        let links = self.radios.iter().flatten().filter_map(Link::next_deadline);
        links.chain(self.connections.iter().filter_map(Connection::next_deadline)).min()
    }

    /// Hands over what has crossed a radio.
    fn deliver(&mut self) {
        for radio in 0..self.radios.len() {
            for way in 0..2 {
                while let Some(came) = self.radios[radio][way].poll(self.now) {
                    let (connection, subflow, body) = came.payload;
                    if let Body::Data { payload, .. } = &body {
                        let waited =
                            came.record.service_start.map(|at| at.saturating_since(came.record.arrival));
                        let name = (connection == 0).then(|| {
                            let address = self.connections[0].subflows[subflow].address;
                            format!("{}-{}", self.names[radio], address + 1)
                        });
                        self.note(
                            radio,
                            name,
                            payload.len() as u64,
                            (came.planned, waited.unwrap_or(Duration::ZERO)),
                        );
                    }
                    self.connections[connection].on_packet(subflow, body, self.now);
                }
            }
        }
    }

    fn note(&mut self, radio: usize, flow: Option<String>, bytes: u64, (at, waited): (Instant, Duration)) {
        let bin = bin(at, self.start);
        let queues = self.queues_ms.entry(self.names[radio].clone()).or_default();
        if queues.len() <= bin {
            queues.resize(bin + 1, 0);
        }
        queues[bin] = queues[bin].max(u32::try_from(waited.as_millis()).unwrap_or(u32::MAX));
        let Some(flow) = flow else { return };
        let bins = self.flows.entry(flow).or_default();
        if bins.len() <= bin {
            bins.resize(bin + 1, 0);
        }
        bins[bin] += bytes;
    }

    /// Timers, and what the ends send.
    fn act(&mut self) {
        for number in 0..self.connections.len() {
            self.connections[number].on_timeout(self.now);
            while let Some((subflow, body)) = self.connections[number].poll_server(self.now) {
                self.send(number, subflow, body, 0);
            }
            while let Some((subflow, body)) = self.connections[number].poll_client(self.now) {
                self.send(number, subflow, body, 1);
            }
        }
    }

    fn send(&mut self, connection: usize, subflow: usize, body: Body, way: usize) {
        let is_multi_path = connection == 0 && self.is_multi_path;
        let options = |bytes: u64| Bytes::new(if is_multi_path { bytes } else { 0 });
        let size = self.headers
            + match &body {
                Body::Data { payload, .. } => Bytes::from(payload.len()) + options(DATA_OPTIONS),
                // Blocks of 8 bytes behind a head of 4 (RFC 2018 §3, padded).
                Body::Ack { sack, .. } if !sack.as_slice().is_empty() => {
                    Bytes::from(4 + 8 * sack.as_slice().len()) + options(ACK_OPTIONS)
                }
                _ => options(ACK_OPTIONS),
            };
        let radio = self.connections[connection].subflows[subflow].radio;
        // What the queue does not take is lost.
        let _ = self.radios[radio][way].enqueue((connection, subflow, body), size, self.now);
    }
}
