//! [`QuicAnalyzer`]: the UDP of a capture, and what can be known of its QUIC flows without keys.
//!
//! Nothing is decrypted, though anybody could derive the keys of Initial packets (RFC 9001 §5.2): what they hide, the
//! server's name above all, is no matter of this analysis. What is visible are long headers, one bit of short ones,
//! sizes and times.
//!
//! ```text
//!   datagram ── known ends? ──▶ flow, which may be QUIC ── ended, with evidence ──▶ QuicFlowReport
//!                  │ no                                 └─ without ─┐
//!                  ├─ ID of a flow: its client has moved            ▼
//!                  ├─ port 443, or a known version: a new flow   other UDP, by port
//!                  └─ else: a conversation, counted ───────────────▲
//! ```
//!
//! Memory is bounded: of flows and of conversations there is a largest number each, and the ones that were silent
//! longest end when there are more; of flows that have ended those with most data are kept.

mod connection_ids;
mod course;
mod flow;
mod handshake;
mod header;
mod lru;
mod pauses;
mod report;
mod spin;

use std::collections::BTreeMap;
use std::net::SocketAddr;

use capture::Datagram;
use units::{Duration, Instant};

use connection_ids::ConnectionIds;
use flow::{HTTPS, MOVES_MAX, QuicFlow, Seen};
use foldhash::fast::FixedState;
use hashbrown::HashMap;
use header::{Headers, is_known};
use lru::{Key, Lru};

pub use report::{
    CourseReport, FlowletReport, Move, OtherUdp, PauseReport, PortUdp, QuicDirection, QuicEvidence,
    QuicFlowReport, QuicHandshake, QuicInferred, QuicPackets, QuicVersion, SpinReport, UdpReport,
};
pub use spin::SpinState;

/// Flows in progress that may be QUIC: some 4 KB each when they last long, half of it when they begin.
const FLOWS_MAX: usize = 1 << 16;
/// Conversations in progress of other UDP: some 100 bytes each.
const CONVERSATIONS_MAX: usize = 1 << 17;
/// Reports of ended flows that are kept.
const REPORTS_MAX: usize = 10_000;
/// Ports listed of other UDP.
const PORTS_MAX: usize = 10;

/// Other UDP between two ends, or of one port.
#[derive(Clone, Copy, Debug, Default)]
struct Counts {
    conversations: u64,
    datagrams: u64,
    ip_bytes: u64,
}

/// Follows the UDP of captures; give it all datagrams in the order of capture.
#[derive(Clone, Debug)]
pub struct QuicAnalyzer {
    /// Silence that ends a flow.
    idle: Duration,
    now: Instant,
    flows: Lru<Box<QuicFlow>>,
    conversations: Lru<Counts>,
    ids: ConnectionIds,
    /// Flows whose client has moved, by the ends that they had.
    old_keys: HashMap<Key, u32, FixedState>,
    /// Flows that may be QUIC so far.
    opened: u64,
    ports: BTreeMap<u16, Counts>,
    reports: Vec<QuicFlowReport>,
    result: UdpReport,
}

impl QuicAnalyzer {
    /// Without flows; one that is silent for `idle` has ended.
    #[must_use]
    pub fn new(idle: Duration) -> Self {
        Self::bounded(idle, FLOWS_MAX, CONVERSATIONS_MAX)
    }

    fn bounded(idle: Duration, flows_max: usize, conversations_max: usize) -> Self {
        Self {
            idle,
            now: Instant::ZERO,
            flows: Lru::new(flows_max),
            conversations: Lru::new(conversations_max),
            ids: ConnectionIds::default(),
            old_keys: HashMap::with_hasher(FixedState::with_seed(0)),
            opened: 0,
            ports: BTreeMap::new(),
            reports: Vec::new(),
            result: UdpReport::default(),
        }
    }

    /// Takes the datagram that was found in `frame` at `time`, at capture point `point`, in the file in place
    /// `capture` among the captures.
    pub fn handle(&mut self, point: u16, capture: u16, datagram: &Datagram, frame: &[u8], time: Instant) {
        let (ip, udp) = (&datagram.ip, &datagram.udp);
        self.now = self.now.max(time);
        self.result.datagrams += 1;
        self.expire();
        let seen = Seen {
            now: time,
            capture,
            source: SocketAddr::new(ip.src, udp.src_port),
            destination: SocketAddr::new(ip.dst, udp.dst_port),
            payload: datagram.payload(frame),
            payload_len: udp.payload_len,
            ip_bytes: ip.total_len as u64,
            ecn: ip.ecn(),
            is_tunnelled: datagram.is_tunnelled,
        };
        match self.flow_of(point, &seen) {
            Some(place) => self.hand_over(place, &seen),
            None => self.count(Key::new(point, seen.source, seen.destination), &seen),
        }
    }

    /// Ends what was silent for too long.
    fn expire(&mut self) {
        let is_over = |(place, last): (u32, Instant), now: Instant, idle: Duration| {
            (now.saturating_since(last) > idle).then_some(place)
        };
        while let Some(place) = self.flows.oldest().and_then(|one| is_over(one, self.now, self.idle)) {
            self.end_flow(place);
        }
        while let Some(place) = self.conversations.oldest().and_then(|one| is_over(one, self.now, self.idle))
        {
            self.end_conversation(place);
        }
    }

    /// The place of the flow that a datagram belongs to, which may be new; none for other UDP.
    fn flow_of(&mut self, point: u16, seen: &Seen<'_>) -> Option<u32> {
        let key = Key::new(point, seen.source, seen.destination);
        let known = self.flows.place(&key).or_else(|| {
            // What was under way when the client moved.
            self.old_keys.get(&key).copied().filter(|_| seen.is_short())
        });
        if let Some(moved) = self.moved(point, seen, known) {
            return Some(moved);
        }
        match known {
            Some(place) if self.flows.get_mut(place).is_some_and(|flow| flow.is_reopened_by(seen)) => {
                self.end_flow(place);
                Some(self.open(key, point, seen))
            }
            Some(place) => Some(place),
            None => may_be_quic(seen).then(|| self.open(key, point, seen)),
        }
    }

    fn open(&mut self, key: Key, point: u16, seen: &Seen<'_>) -> u32 {
        if self.flows.is_full()
            && let Some((oldest, _)) = self.flows.oldest()
        {
            self.result.ended_early += 1;
            self.end_flow(oldest);
        }
        let flow = QuicFlow::new(self.opened, point, seen);
        self.opened += 1;
        self.flows.insert(key, Box::new(flow), self.now)
    }

    /// The flow whose connection ID a datagram from another address has, which goes on there; `known` is what is known
    /// between its ends.
    fn moved(&mut self, point: u16, seen: &Seen<'_>, known: Option<u32>) -> Option<u32> {
        if self.ids.is_empty() || !seen.is_short() {
            return None;
        }
        if let Some(known) = known.and_then(|place| self.flows.get_mut(place))
            && known.evidence().is_some()
        {
            return None;
        }
        let place = self.ids.owner(point, seen.destination, seen.payload)?;
        let is_other = known != Some(place);
        let is_of_server = self.flows.get_mut(place)?.server() == Some(seen.destination);
        if !is_other || !is_of_server {
            return None;
        }
        let before = known.and_then(|known| self.take_out(known));
        let flow = self.flows.get_mut(place)?;
        flow.move_client(seen.source, seen.now);
        if let Some((_, before)) = before {
            flow.absorb(&before);
        }
        if let Some(old) = self.flows.rename(place, Key::new(point, seen.source, seen.destination))
            && let Some(flow) = self.flows.get_mut(place).filter(|flow| flow.old_keys.len() < MOVES_MAX)
        {
            flow.old_keys.push(old);
            self.old_keys.insert(old, place);
        }
        Some(place)
    }

    fn hand_over(&mut self, place: u32, seen: &Seen<'_>) {
        self.flows.touch(place, self.now);
        let Some(flow) = self.flows.get_mut(place) else { return };
        flow.handle(seen);
        let new_ids = flow.take_new_ids();
        if let Some(server) = flow.server() {
            for id in new_ids {
                self.ids.add(flow.point, server, id, place);
            }
        }
    }

    /// Removes a flow, and whatever leads to it.
    fn take_out(&mut self, place: u32) -> Option<(Key, Box<QuicFlow>)> {
        let (key, flow) = self.flows.remove(place)?;
        if let Some(server) = flow.server() {
            for id in &flow.server_ids {
                self.ids.remove(flow.point, server, *id);
            }
        }
        for old in &flow.old_keys {
            if self.old_keys.get(old) == Some(&place) {
                self.old_keys.remove(old);
            }
        }
        Some((key, flow))
    }

    fn end_flow(&mut self, place: u32) {
        let Some((key, flow)) = self.take_out(place) else { return };
        match flow.evidence() {
            Some(evidence) => {
                self.result.quic_flows += 1;
                self.reports.push(flow.report(evidence));
                if self.reports.len() >= 2 * REPORTS_MAX {
                    self.thin();
                }
            }
            None => {
                let sum = |of: fn(&flow::Way) -> u64| flow.ways.iter().map(of).sum();
                let counts = Counts {
                    conversations: 1,
                    datagrams: sum(|way| way.datagrams + way.duplicates),
                    ip_bytes: sum(|way| way.ip_bytes),
                };
                self.add_other(key.low_port(), counts);
            }
        }
    }

    /// Keeps the flows with most data.
    fn thin(&mut self) {
        self.reports.sort_by_key(|flow| (std::cmp::Reverse(flow.payload_bytes()), flow.id));
        self.result.quic_flows_left_out += self.reports.len().saturating_sub(REPORTS_MAX) as u64;
        self.reports.truncate(REPORTS_MAX);
    }

    /// Counts a datagram of other UDP.
    fn count(&mut self, key: Key, seen: &Seen<'_>) {
        let place = self.conversations.place(&key).unwrap_or_else(|| {
            if self.conversations.is_full()
                && let Some((oldest, _)) = self.conversations.oldest()
            {
                self.end_conversation(oldest);
            }
            let counts = Counts { conversations: 1, ..Counts::default() };
            self.conversations.insert(key, counts, self.now)
        });
        self.conversations.touch(place, self.now);
        if let Some(counts) = self.conversations.get_mut(place) {
            counts.datagrams += 1;
            counts.ip_bytes += seen.ip_bytes;
        }
    }

    fn end_conversation(&mut self, place: u32) {
        if let Some((key, counts)) = self.conversations.remove(place) {
            self.add_other(key.low_port(), counts);
        }
    }

    fn add_other(&mut self, port: u16, counts: Counts) {
        let of_port = self.ports.entry(port).or_default();
        of_port.conversations += counts.conversations;
        of_port.datagrams += counts.datagrams;
        of_port.ip_bytes += counts.ip_bytes;
    }

    /// Report of the findings.
    #[must_use]
    pub fn finish(mut self) -> UdpReport {
        while let Some((place, _)) = self.flows.oldest() {
            self.end_flow(place);
        }
        while let Some((place, _)) = self.conversations.oldest() {
            self.end_conversation(place);
        }
        self.thin();
        self.reports.sort_by_key(|flow| flow.id);
        for (id, report) in self.reports.iter_mut().enumerate() {
            report.id = id as u64;
        }
        let mut ports: Vec<PortUdp> = self
            .ports
            .iter()
            .map(|(port, counts)| PortUdp {
                port: *port,
                conversations: counts.conversations,
                datagrams: counts.datagrams,
                ip_bytes: counts.ip_bytes,
            })
            .collect();
        let sum = |of: fn(&PortUdp) -> u64| ports.iter().map(of).sum();
        let (conversations, datagrams) = (sum(|port| port.conversations), sum(|port| port.datagrams));
        let ip_bytes = sum(|port| port.ip_bytes);
        ports.sort_by_key(|port| (std::cmp::Reverse(port.ip_bytes), port.port));
        ports.truncate(PORTS_MAX);
        self.result.other = OtherUdp { conversations, datagrams, ip_bytes, ports };
        self.result.quic = self.reports;
        self.result
    }
}

/// True when a flow that begins with this datagram is followed.
fn may_be_quic(seen: &Seen<'_>) -> bool {
    let has_version = || {
        let mut headers = Headers::new(seen.payload, seen.payload_len);
        headers.next().and_then(|header| header.version).is_some_and(is_known)
    };
    seen.source.port() == HTTPS || seen.destination.port() == HTTPS || has_version()
}
