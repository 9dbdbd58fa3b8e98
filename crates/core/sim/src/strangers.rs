//! [`Strangers`]: two hosts that are no ends of a flow. One knows its addresses and ports and nothing else;
//! the other one is on the path, and sends again what has passed.
//!
//! A blind host that sweeps the numbers hits the window of a flow once in a hundred thousand packets. So that
//! few packets do, some are lucky: they have the right sequence number, or the right acknowledgement, and
//! never both. Both is what no host can tell from its peer.

use std::collections::{BTreeMap, VecDeque};
use std::net::SocketAddr;

use engine::Port;
use units::{Duration, Instant, SeqNum};
use wire::{SackBlock, TcpFlags, TcpHeaderSpec, Timestamps};

use crate::build::build_packet;
use crate::endpoint::Standing;
use crate::{Endpoint, Random};

/// Least distance of a wrong number from a right one: no window of a run is as large.
const FAR: u32 = 1 << 28;

/// Packets that the one on the path remembers.
const REMEMBERED: usize = 256;

/// Byte of which foreign data is made.
const FOREIGN: u8 = 0xee;

/// Settings of the strangers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StrangerConfig {
    /// Packets that the blind host sends.
    pub forged: u32,
    /// Packets that are sent again.
    pub repeated: u32,
    /// Whole handshakes that are sent again, in order.
    pub replayed: u32,
    /// Longest time between two of either.
    pub pause_max: Duration,
    /// Some of the forged ones have one right number.
    pub are_lucky: bool,
    /// Seed of all choices.
    pub seed: u64,
}

/// A packet, and the port at which it came to the middlebox.
type Seen = (Port, Vec<u8>);

/// Both of them.
#[derive(Debug)]
pub(crate) struct Strangers {
    config: StrangerConfig,
    random: Random,
    next: Instant,
    forged: u32,
    repeated: u32,
    replayed: u32,
    passed: VecDeque<Seen>,
    /// SYN, SYN-ACK and the third packet of each pair of addresses and ports.
    handshakes: BTreeMap<(SocketAddr, SocketAddr), Vec<Seen>>,
    /// Packets of a handshake sent again that are to come at once.
    rest: VecDeque<Seen>,
}

/// Number of a forged packet that is right.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Luck {
    None,
    Sequence,
    Acknowledgement,
}

impl Strangers {
    pub(crate) fn new(config: StrangerConfig, start: Instant) -> Self {
        let StrangerConfig { forged, repeated, replayed, .. } = config;
        let mut strangers = Self {
            config,
            random: Random::new(config.seed),
            next: start,
            forged,
            repeated,
            replayed,
            passed: VecDeque::new(),
            handshakes: BTreeMap::new(),
            rest: VecDeque::new(),
        };
        strangers.pause(start);
        strangers
    }

    /// Time at which one of them acts next.
    pub(crate) fn next_deadline(&self) -> Option<Instant> {
        (self.forged + self.repeated + self.replayed > 0).then_some(self.next)
    }

    fn pause(&mut self, now: Instant) {
        let longest = self.config.pause_max.as_micros().max(1);
        self.next = now + Duration::from_micros(self.random.spread(1, longest));
    }

    /// A packet reaches the middlebox.
    pub(crate) fn note(&mut self, from: Port, packet: &[u8]) {
        if self.replayed > 0 {
            self.note_handshake(from, packet);
        }
        if self.repeated == 0 {
            return;
        }
        // A reset ends its flow, as often as it comes, and a host gives up after some SYNs.
        let opens_or_resets = wire::parse(packet).is_ok_and(|parsed| {
            parsed.tcp().is_some_and(|tcp| tcp.flags.intersects(TcpFlags::RST | TcpFlags::SYN))
        });
        if opens_or_resets {
            return;
        }
        if self.passed.len() == REMEMBERED {
            let forgotten = self.random.below(REMEMBERED as u64) as usize;
            self.passed.swap_remove_back(forgotten);
        }
        self.passed.push_back((from, packet.to_vec()));
    }

    /// Keeps a packet that belongs to the last handshake of its hosts.
    fn note_handshake(&mut self, from: Port, packet: &[u8]) {
        let Ok(parsed) = wire::parse(packet) else { return };
        let Some(tcp) = parsed.tcp() else { return };
        let ends = [(parsed.ip.src, tcp.src_port), (parsed.ip.dst, tcp.dst_port)].map(SocketAddr::from);
        let [client, server] = if from == Port::Mobile { ends } else { [ends[1], ends[0]] };
        let is_syn = tcp.flags.contains(TcpFlags::SYN);
        let is_first = is_syn && !tcp.flags.contains(TcpFlags::ACK);
        if tcp.flags.contains(TcpFlags::RST) || tcp.payload_len > 0 {
            return;
        }
        let known = self.handshakes.entry((client, server)).or_default();
        if is_first {
            known.clear();
        }
        if known.len() == if is_first { 0 } else { 2 - usize::from(is_syn) } {
            known.push((from, packet.to_vec()));
        }
    }

    /// Acts, if it is time for it: a packet, and where it reaches the middlebox from.
    pub(crate) fn poll(&mut self, servers: &[Endpoint], clients: &[Endpoint], now: Instant) -> Option<Seen> {
        if let Some(next) = self.rest.pop_front() {
            return Some(next);
        }
        if self.next_deadline().is_none_or(|at| at > now) {
            return None;
        }
        self.pause(now);
        let all = self.forged + self.repeated + self.replayed;
        let which = self.random.below(u64::from(all));
        if which < u64::from(self.replayed) {
            self.replayed -= 1;
            let whole: Vec<_> = self.handshakes.values().filter(|packets| packets.len() == 3).collect();
            let which = self.random.below(whole.len().max(1) as u64) as usize;
            self.rest = whole.get(which).map(|packets| (*packets).clone()).unwrap_or_default().into();
            return self.rest.pop_front();
        }
        if which < u64::from(self.replayed + self.repeated) {
            self.repeated -= 1;
            let which = self.random.below(self.passed.len() as u64) as usize;
            return self.passed.get(which).cloned();
        }
        self.forged -= 1;
        let flow = self.random.below(servers.len() as u64) as usize;
        let (server, client) = (servers.get(flow)?, clients.get(flow)?);
        let from = if self.random.one_in(2) { Port::Wired } else { Port::Mobile };
        let (own, peer) = if from == Port::Wired { (server, client) } else { (client, server) };
        let packet = self.forge(own, peer)?;
        Some((from, packet))
    }

    /// A packet in the name of `own` to `peer`.
    fn forge(&mut self, own: &Endpoint, peer: &Endpoint) -> Option<Vec<u8>> {
        let (stands, peer_stands) = own.standing().zip(peer.standing())?;
        let random = &mut self.random;
        let luck = match random.below(3) {
            0 if self.config.are_lucky => Luck::Sequence,
            1 if self.config.are_lucky => Luck::Acknowledgement,
            _ => Luck::None,
        };
        let flags = forged_flags(random, luck);
        let seq = match luck {
            // Not the exact one: a stranger that has it may reset the flow.
            Luck::Sequence => {
                stands.una + 1 + random.below(u64::from(stands.nxt.since(stands.una)) + 60_000) as u32
            }
            Luck::Acknowledgement => far(random, stands.nxt),
            Luck::None => SeqNum::new(random.word() as u32),
        };
        let has_right_ack = luck == Luck::Acknowledgement || !flags.contains(TcpFlags::ACK);
        let ack = if has_right_ack {
            near(random, peer_stands.una, peer_stands.nxt)
        } else if luck == Luck::Sequence {
            far(random, peer_stands.nxt)
        } else {
            SeqNum::new(random.word() as u32)
        };
        let (src, dst) = (own.config().local, own.config().remote);
        let mut spec = TcpHeaderSpec::new(src, dst, seq, ack, flags);
        spec.hop_limit = random.within(1, 255) as u8;
        spec.traffic_class = random.below(256) as u8;
        spec.window = if random.one_in(3) { 0 } else { random.word() as u16 };
        spec.urgent = random.word() as u16;
        spec.timestamps = forged_timestamps(random, &stands, &peer_stands);
        if random.one_in(4) {
            let start = ack + random.below(100_000) as u32;
            spec.sack.push(SackBlock { start, end: start + random.below(100_000) as u32 });
        }
        let len = if random.one_in(2) { 0 } else { random.spread(1, 1_200) };
        build_packet(&spec, &[], &[&vec![FOREIGN; len as usize]]).ok()
    }
}

/// A number as its host may use it next, or has used a moment ago.
fn near(random: &mut Random, una: SeqNum, nxt: SeqNum) -> SeqNum {
    match random.below(3) {
        0 => una,
        1 => nxt,
        _ => una + random.below(u64::from(nxt.since(una)) + 60_000) as u32,
    }
}

/// A number that its host neither uses nor has used; zero, where that is one.
fn far(random: &mut Random, nxt: SeqNum) -> SeqNum {
    let is_far = |number: SeqNum| nxt.distance_from(number).unsigned_abs() >= FAR;
    if random.one_in(3) && is_far(SeqNum::new(0)) {
        return SeqNum::new(0);
    }
    nxt + FAR + random.below(u64::from(u32::MAX - 2 * FAR)) as u32
}

/// Flags of any kind. A reset with the exact number ends a connection: only who is not lucky sends one.
fn forged_flags(random: &mut Random, luck: Luck) -> TcpFlags {
    let any = [
        TcpFlags::NONE,
        TcpFlags::PSH,
        TcpFlags::FIN,
        TcpFlags::ACK,
        TcpFlags::ACK,
        TcpFlags::ACK | TcpFlags::PSH,
        TcpFlags::ACK | TcpFlags::FIN,
        TcpFlags::ACK | TcpFlags::URG,
        TcpFlags::ACK | TcpFlags::ECE | TcpFlags::CWR,
        TcpFlags::SYN | TcpFlags::ACK,
        TcpFlags::SYN,
    ];
    let resets = [TcpFlags::RST, TcpFlags::RST | TcpFlags::ACK];
    let choices = if luck == Luck::None && random.one_in(4) { &resets[..] } else { &any[..] };
    random.pick(choices).unwrap_or(TcpFlags::ACK)
}

/// Times of any kind: none, such as the hosts might use, and any others.
fn forged_timestamps(random: &mut Random, own: &Standing, peer: &Standing) -> Option<Timestamps> {
    if random.one_in(3) {
        return None;
    }
    // What the other one has heard last.
    let clocks = peer.ts_recent.zip(own.ts_recent).filter(|_| random.one_in(2));
    let (value, echo) = clocks.unwrap_or((random.word() as u32, random.word() as u32));
    Some(Timestamps { value: value.wrapping_add(random.spread(1, 1 << 30) as u32), echo })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wrong_number_is_far_from_the_right_one() {
        let random = &mut Random::new(3);
        for _ in 0..10_000 {
            let nxt = SeqNum::new(random.word() as u32);
            let number = far(random, nxt);
            assert!(number.distance_from(nxt).unsigned_abs() >= FAR - 1, "{number} {nxt}");
        }
    }
}
