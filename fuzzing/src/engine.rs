//! Sequences of operations into the engine, and what must hold after each.

use std::collections::BTreeMap;

use arbitrary::Unstructured;
use control::{ControllerConfig, FixedParams, NewRenoParams, RateParams};
use engine::{Engine, EngineConfig, Middlebox, Port, Verdict, WindowPolicy};
use units::{Bytes, Duration, Instant, Rate, SeqNum};
use wire::{GsoType, SackBlock, Tcp, TcpFlags, VirtioNetHeader};

mod host;
mod operation;

use host::{Host, Pair, stream_byte};
use operation::{Odd, Operation, Stranger};

use crate::capture::Study;

/// Flows of a session: two of one subscriber, one of another, one over IPv6.
const FLOWS: u8 = 4;
/// Operations of a session at most.
const OPERATIONS_MAX: usize = 400;
/// Packets at one point of time at most; more means that the engine never stops.
const BURST_MAX: usize = 20_000;

/// Runs one session and checks it; `bytes` are read as settings and [`Operation`]s.
pub fn engine(bytes: &[u8]) {
    Session::run(bytes, None);
}

/// The same, with everything the engine takes in and sends analysed beside it, as two captures.
pub fn engine_analyzed(bytes: &[u8]) {
    let study = Session::run(bytes, Some(Study::new()));
    let Some(study) = study else { return };
    study.finish();
}

struct Session {
    engine: Engine,
    pairs: BTreeMap<u8, Pair>,
    now: Instant,
    /// Bytes a flow may owe at most.
    debt_max: u64,
    study: Option<Study>,
    /// Damaged packets went in: there may be flows between hosts that nobody knows.
    has_strangers: bool,
}

/// Settings from four bytes.
fn settings(u: &mut Unstructured<'_>) -> arbitrary::Result<EngineConfig> {
    let [kind, rate, window, limits] = u.arbitrary::<[u8; 4]>()?;
    let rate = Rate::from_kbps(64 << (rate % 12));
    let controller = match kind % 3 {
        0 => ControllerConfig::Fixed(FixedParams { rate, ..FixedParams::default() }),
        1 => ControllerConfig::Rate(RateParams { r_cap: rate, ..RateParams::default() }),
        _ => ControllerConfig::NewReno(NewRenoParams::default()),
    };
    let window_floor = Bytes::new(2_000 << (window % 8));
    Ok(EngineConfig {
        controller,
        window_policy: if kind & 0x80 == 0 { WindowPolicy::Honour } else { WindowPolicy::Opportunistic },
        window_floor,
        window_max: Bytes::new(window_floor.get() * (1 + u64::from(window >> 6))),
        flows_max: if limits & 1 == 0 { 100 } else { 2 },
        half_open_max: if limits & 2 == 0 { 100 } else { 1 },
        buffer_max: if limits & 4 == 0 { Bytes::from_mib(64) } else { Bytes::from_kib(64) },
        ..EngineConfig::default()
    })
}

impl Session {
    fn run(bytes: &[u8], study: Option<Study>) -> Option<Study> {
        let mut u = Unstructured::new(bytes);
        let config = settings(&mut u).ok()?;
        let window_max = config.window_max.get();
        let engine = Engine::new(config).expect("the settings fit together");
        // What the client promises in its SYN holds, two units of its scale are the least that is
        // offered, and a window told in units may reach one unit further.
        let unit = 1 << 14;
        let debt_max = window_max.max(65_535).max(2 * unit) + unit;
        let now = Instant::from_millis(1_000);
        let mut session = Self { engine, pairs: BTreeMap::new(), now, debt_max, study, has_strangers: false };
        for _ in 0..OPERATIONS_MAX {
            if u.is_empty() {
                break;
            }
            let Ok(operation) = u.arbitrary::<Operation>() else { break };
            session.act(&operation);
            session.settle();
        }
        session.end();
        session.study
    }

    fn act(&mut self, operation: &Operation) {
        match operation {
            Operation::Wait { microseconds } => self.now += Duration::from_micros(*microseconds),
            Operation::ToDeadline => {
                let next = self.engine.next_deadline().unwrap_or(self.now);
                // Hours pass only at the end.
                if next.saturating_since(self.now) < Duration::from_secs(300) {
                    self.now = self.now.max(next);
                }
            }
            Operation::Drain => self.engine.drain(self.now),
            Operation::Open { flow, agreed, upto } => self.open(*flow % FLOWS, *agreed, *upto % 8),
            Operation::Data { flow, from, len, gso } => {
                self.with(*flow, |s, pair| s.data(pair, *from, *len, *gso));
            }
            Operation::Lose { flow, from, len } => self.with(*flow, |_, pair| {
                let host = pair.host_mut(*from);
                host.next += u32::from(*len);
            }),
            Operation::Again { flow, from, back, len } => self.with(*flow, |s, pair| {
                let host = pair.host(*from);
                let back = u32::from(*back).min(host.next.since(host.isn).saturating_sub(1));
                let len = u32::from(*len).min(back) as usize;
                s.send(pair, *from, host.next - back, TcpFlags::ACK, len);
            }),
            Operation::Acknowledge { flow } => self.with(*flow, |s, pair| {
                let seq = pair.client.next;
                s.send(pair, Port::Mobile, seq, TcpFlags::ACK, 0);
            }),
            Operation::Window { flow, from, window } => self.with(*flow, |s, pair| {
                pair.host_mut(*from).window = *window;
                let seq = pair.host(*from).next;
                s.send(pair, *from, seq, TcpFlags::ACK, 0);
            }),
            Operation::LoseNext { flow, count } => self.with(*flow, |_, pair| pair.lost_next = *count % 16),
            Operation::Fin { flow, from } => self.with(*flow, |s, pair| {
                let host = pair.host_mut(*from);
                if !host.is_open {
                    return;
                }
                let seq = *host.fin.get_or_insert(host.next);
                host.next = host.next.later_of(seq + 1);
                s.send(pair, *from, seq, TcpFlags::ACK | TcpFlags::FIN, 0);
            }),
            Operation::Reset { flow, from, off } => self.with(*flow, |s, pair| {
                let seq = SeqNum::new(pair.host(*from).next.get().wrapping_add_signed(i32::from(*off)));
                s.send(pair, *from, seq, TcpFlags::RST, 0);
            }),
            Operation::Odd(odd) => self.with(odd.flow, |s, pair| s.odd(pair, odd)),
            Operation::Stranger(stranger) => self.with(stranger.flow, |s, pair| s.strange(pair, stranger)),
            Operation::Raw { from, bytes } => {
                let mut bytes = bytes.clone();
                self.has_strangers = true;
                self.hand_in(*from, &VirtioNetHeader::default(), &mut bytes);
            }
        }
    }

    /// Lends a flow's hosts together with the session.
    fn with(&mut self, flow: u8, act: impl FnOnce(&mut Self, &mut Pair)) {
        let Some(mut pair) = self.pairs.remove(&(flow % FLOWS)) else { return };
        act(self, &mut pair);
        self.pairs.insert(flow % FLOWS, pair);
    }

    /// Milliseconds, as the hosts' timestamps count.
    fn clock(&self) -> u32 {
        (self.now.as_nanos() / 1_000_000) as u32
    }

    fn open(&mut self, flow: u8, agreed: u8, upto: u8) {
        let (client, server) = match flow {
            0 => ("10.0.0.2:40000", "10.9.0.1:80"),
            1 => ("10.0.0.2:40001", "10.9.0.1:80"),
            2 => ("10.0.0.3:40000", "10.9.0.1:80"),
            _ => ("[fd00::2]:40000", "[fd00:9::1]:80"),
        };
        let address = |text: &str| text.parse().expect("an address");
        // Numbers wrap soon, and differ with each time the ports are used.
        let age = self.clock().wrapping_mul(77_777);
        let mut pair = Pair {
            client: Host::new(address(client), 0xffff_ff00_u32.wrapping_add(age), 65_000),
            server: Host::new(address(server), 0xffff_0000_u32.wrapping_add(age), 60_000),
            sack: agreed & 1 == 0,
            stamps: agreed & 2 == 0,
            scale: (agreed & 4 == 0).then_some(agreed >> 4),
            mss: if agreed & 8 == 0 { 1_460 } else { 88 + u16::from(agreed) },
            is_wild: false,
            lost_next: 0,
        };
        // A flow of the same name whose hosts have not ended may live on in the engine: old and new
        // packets mix.
        pair.is_wild = self.pairs.contains_key(&flow);
        let seq = pair.client.isn;
        pair.client.next += 1;
        self.send(&mut pair, Port::Mobile, seq, TcpFlags::SYN, 0);
        if upto > 0 && pair.server.is_open {
            let seq = pair.server.isn;
            pair.server.next += 1;
            self.send(&mut pair, Port::Wired, seq, TcpFlags::SYN | TcpFlags::ACK, 0);
        }
        if upto > 1 && pair.client.is_open {
            let seq = pair.client.next;
            self.send(&mut pair, Port::Mobile, seq, TcpFlags::ACK, 0);
        }
        self.pairs.insert(flow, pair);
    }

    fn data(&mut self, pair: &mut Pair, from: Port, len: u16, gso: bool) {
        let host = pair.host_mut(from);
        if host.fin.is_some() || !host.is_open {
            return;
        }
        let seq = host.next;
        host.next += u32::from(len);
        let spec = pair.header(from, seq, TcpFlags::ACK | TcpFlags::PSH, self.clock());
        let payload = pair.data(from, seq, usize::from(len));
        let Ok(mut packet) = sim::build_packet(&spec, &[], &[&payload]) else { return };
        let parsed = wire::parse(&packet).expect("what was built is a packet");
        let tcp = parsed.tcp().expect("and a segment");
        let mut virtio = VirtioNetHeader::default();
        if gso && len > pair.mss {
            virtio =
                VirtioNetHeader::for_tcp_gso(parsed.ip.version, tcp.offset, tcp.payload_offset, pair.mss);
            virtio.flags = VirtioNetHeader::DATA_VALID;
        }
        self.deliver(pair, from, &virtio, &mut packet);
    }

    /// A packet as a sane host writes it; nothing if it would have to acknowledge a SYN that it has not seen.
    fn send(&mut self, pair: &mut Pair, from: Port, seq: SeqNum, flags: TcpFlags, len: usize) {
        if flags.contains(TcpFlags::ACK) && !pair.host(from).is_open {
            return;
        }
        let spec = pair.header(from, seq, flags, self.clock());
        let payload = pair.data(from, seq, len);
        let Ok(mut packet) = sim::build_packet(&spec, &[], &[&payload]) else { return };
        self.deliver(pair, from, &VirtioNetHeader::default(), &mut packet);
    }

    fn odd(&mut self, pair: &mut Pair, odd: &Odd) {
        pair.is_wild = true;
        self.has_strangers = true;
        let off = |number: SeqNum, by: i32| SeqNum::new(number.get().wrapping_add_signed(by));
        let clock = self.clock().wrapping_add_signed(i32::from(odd.stamp_off) * 100);
        let mut spec = pair.header(odd.from, off(pair.host(odd.from).next, odd.seq_off), odd.flags, clock);
        spec.ack = off(spec.ack, odd.ack_off);
        spec.window = odd.window;
        if odd.sack.1 > 0 {
            let start = spec.ack + u32::from(odd.sack.0) * 100;
            spec.sack.push(SackBlock { start, end: start + u32::from(odd.sack.1) * 100 });
        }
        let payload = pair.data(odd.from, spec.seq, usize::from(odd.len));
        let Ok(mut packet) = sim::build_packet(&spec, &odd.options, &[&payload]) else { return };
        let at = usize::from(odd.damage.0);
        if let Some(byte) = packet.get_mut(at) {
            *byte ^= odd.damage.1;
        }
        let mut virtio = VirtioNetHeader::default();
        if let Ok(parsed) = wire::parse(&packet)
            && let Some(tcp) = parsed.tcp()
        {
            match odd.flow_of_virtio % 8 {
                0 => virtio.flags = VirtioNetHeader::DATA_VALID,
                1 => virtio = VirtioNetHeader::for_partial_checksum(tcp.offset),
                2 => {
                    virtio =
                        VirtioNetHeader::for_tcp_gso(parsed.ip.version, tcp.offset, tcp.payload_offset, 99);
                }
                _ => {}
            }
        }
        self.deliver(pair, odd.from, &virtio, &mut packet);
    }

    /// A stranger's packet. The host that it is for would drop it, and whatever the engine makes of it must
    /// not differ from that: the flow is as sane as before.
    fn strange(&mut self, pair: &mut Pair, stranger: &Stranger) {
        let seq = SeqNum::new(pair.host(stranger.from).next.get().wrapping_add_signed(stranger.seq_off));
        let clock = self.clock().wrapping_add(stranger.stamp_off.unwrap_or(0));
        let mut spec = pair.header(stranger.from, seq, stranger.flags, clock);
        if stranger.flags.contains(TcpFlags::ACK) {
            spec.ack += stranger.ack_off;
        }
        spec.window = stranger.window;
        spec.timestamps = spec.timestamps.filter(|_| stranger.stamp_off.is_some());
        let Ok(mut packet) = sim::build_packet(&spec, &[], &[&vec![0; usize::from(stranger.len)]]) else {
            return;
        };
        self.hand_in(stranger.from, &VirtioNetHeader::default(), &mut packet);
    }

    /// Hands a flow's packet in; what goes on reaches the other host.
    fn deliver(&mut self, pair: &mut Pair, from: Port, virtio: &VirtioNetHeader, packet: &mut [u8]) {
        if let Ok(parsed) = wire::parse(packet)
            && let Some(tcp) = parsed.tcp()
            && tcp.flags.contains(TcpFlags::ACK)
        {
            let host = pair.host_mut(from);
            host.acked = host.acked.later_of(tcp.ack);
        }
        if self.hand_in(from, virtio, packet) == Verdict::Forward {
            self.arrive(pair, from.opposite(), packet);
        }
    }

    /// Gives any packet to the engine; what it lets go on must be as whole as it was.
    fn hand_in(&mut self, from: Port, virtio: &VirtioNetHeader, packet: &mut [u8]) -> Verdict {
        let before = wire::parse(packet);
        let was_intact = before.as_ref().is_ok_and(|parsed| wire::tcp_checksum_is_valid(packet, parsed));
        self.record(from, packet);
        let verdict = self.engine.handle_packet(from, virtio, packet, self.now);
        if verdict == Verdict::Forward {
            self.record(from.opposite(), packet);
            let after = wire::parse(packet);
            assert_eq!(before.is_ok(), after.is_ok(), "the engine has broken a packet");
            if let (Ok(before), Ok(after)) = (before, after) {
                assert_eq!(before.ip, after.ip, "the engine has changed an IP header");
                let complete = virtio.checksum_state() == wire::ChecksumState::Complete;
                let is_intact = wire::tcp_checksum_is_valid(packet, &after);
                assert!(!complete || is_intact == was_intact, "a checksum changed with a packet");
            }
        } else {
            assert!(before.is_ok(), "what is no packet was consumed");
        }
        verdict
    }

    fn record(&mut self, side: Port, packet: &[u8]) {
        let Some(study) = &mut self.study else { return };
        let point = if side == Port::Wired { 0 } else { 1 };
        if let Ok(segment) = capture::decode(capture::LinkType::RAW, packet, packet.len() as u32) {
            study.take(point, &segment, self.now);
        }
    }

    /// Lets the engine do what is due and send what it wants; checks every packet, and that doing
    /// it again at the same time does nothing.
    fn settle(&mut self) {
        self.drain_output();
        let before = format!("{:?}", self.engine.stats());
        let deadline = self.engine.next_deadline();
        assert!(deadline.is_none_or(|at| at > self.now), "a deadline that is due stays: {deadline:?}");
        self.engine.handle_timeout(self.now);
        assert!(self.engine.poll_transmit(self.now).is_none(), "the same time again made a packet");
        assert_eq!(before, format!("{:?}", self.engine.stats()), "the same time again changed something");
        assert_eq!(deadline, self.engine.next_deadline(), "the same time again moved a deadline");
        let stats = self.engine.stats();
        let config = self.engine.config();
        assert!(
            stats.half_open_now <= stats.flows_now
                && stats.half_open_now <= config.half_open_max as u64
                && stats.flows_now - stats.half_open_now <= config.flows_max as u64
        );
        assert!(
            self.engine.debt().get() <= self.debt_max * stats.flows_now,
            "debt {} with {} flows",
            self.engine.debt(),
            stats.flows_now
        );
    }

    fn drain_output(&mut self) {
        for _ in 0..BURST_MAX {
            self.engine.handle_timeout(self.now);
            let mut packets = Vec::new();
            while let Some(transmit) = self.engine.poll_transmit(self.now) {
                let bytes = [transmit.header, transmit.payload.0, transmit.payload.1].concat();
                packets.push((transmit.to, transmit.virtio, bytes));
                assert!(packets.len() < BURST_MAX, "the engine never stops sending");
            }
            if packets.is_empty() {
                return;
            }
            for (to, virtio, packet) in packets {
                self.record(to, &packet);
                for piece in cut(&virtio, packet) {
                    self.check_made(to, &piece);
                }
            }
        }
        panic!("the engine is never done with one point of time");
    }

    /// A packet of the engine's own making goes to a host that exists.
    fn check_made(&mut self, to: Port, packet: &[u8]) {
        let parsed = wire::parse(packet).expect("checked when it was cut");
        let tcp = parsed.tcp().expect("the engine makes TCP only");
        let (src, dst) = ((parsed.ip.src, tcp.src_port), (parsed.ip.dst, tcp.dst_port));
        let end = |address: core::net::SocketAddr| (address.ip(), address.port());
        let found = self.pairs.iter().find(|(_, pair)| {
            (end(pair.host(to).address), end(pair.host(to.opposite()).address)) == (dst, src)
        });
        let Some((&flow, _)) = found else {
            assert!(self.has_strangers, "a packet for nobody: {parsed}");
            return;
        };
        self.with(flow, |session, pair| session.arrive(pair, to, packet));
    }

    /// A packet reaches a host, if the radio lets it; checks what it says.
    fn arrive(&mut self, pair: &mut Pair, to: Port, packet: &[u8]) {
        let parsed = wire::parse(packet).ok();
        let Some(tcp) = parsed.as_ref().and_then(|parsed| parsed.tcp()) else { return };
        if !pair.is_wild {
            check_promises(pair, to, tcp, packet);
        }
        if to == Port::Mobile && pair.lost_next > 0 {
            pair.lost_next -= 1;
            return;
        }
        pair.host_mut(to).hear(tcp);
    }

    /// Nobody says anything any more: everything must be forgotten by itself.
    fn end(&mut self) {
        for _ in 0..5_000 {
            let Some(next) = self.engine.next_deadline() else { break };
            assert!(next < Instant::FAR_FUTURE, "a deadline that never comes");
            self.now = self.now.max(next);
            self.settle();
        }
        let stats = self.engine.stats();
        assert_eq!(self.engine.next_deadline(), None, "it is never done: {stats:?}");
        let left = (stats.flows_now, stats.half_open_now, stats.buffer_bytes_now, self.engine.debt().get());
        assert_eq!(left, (0, 0, 0, 0), "flows, half-open ones, buffer bytes and debt that stay for ever");
    }
}

/// The packets that go onto the wire for one of the engine's making, checksums complete; all its
/// lengths are checked.
fn cut(virtio: &VirtioNetHeader, mut packet: Vec<u8>) -> Vec<Vec<u8>> {
    let parsed = wire::parse(&packet).expect("the engine makes packets");
    assert_eq!(parsed.ip.total_len, packet.len(), "its length field is not its length");
    assert!(virtio.fits(&packet, &parsed), "its virtio header does not fit: {virtio:?} {parsed}");
    if virtio.gso_type == GsoType::None {
        wire::complete_checksum(&mut packet, virtio).expect("a header that fits can be completed");
        check_whole(&packet);
        return vec![packet];
    }
    let mut splitter = wire::split(&packet, &parsed, virtio.gso_size).expect("a super-packet can be cut");
    let mut pieces = Vec::new();
    while let Some(len) = splitter.next_len() {
        let mut piece = vec![0; len];
        splitter.next_into(&mut piece).expect("the piece has its length");
        check_whole(&piece);
        pieces.push(piece);
    }
    pieces
}

fn check_whole(packet: &[u8]) {
    let parsed = wire::parse(packet).expect("the engine makes packets");
    assert!(wire::tcp_checksum_is_valid(packet, &parsed), "its checksum is wrong: {parsed}");
    assert!(parsed.ip.version == wire::IpVersion::V6 || wire::ipv4_checksum_is_valid(packet));
    assert!(parsed.tcp().is_some_and(|tcp| !tcp.options.malformed), "its options are wrong: {parsed}");
}

/// Checks the promises that a sane flow may rely on, whatever was lost: bytes are the stream's, nothing is
/// acknowledged that was never sent, and the server's FIN not before the client has everything.
fn check_promises(pair: &Pair, to: Port, tcp: &Tcp, packet: &[u8]) {
    let (host, peer) = (pair.host(to), pair.host(to.opposite()));
    if tcp.flags.intersects(TcpFlags::SYN | TcpFlags::RST) {
        return;
    }
    let start = tcp.seq.since(peer.isn);
    let is_probe = tcp.payload_len <= 1 && host.is_open && tcp.seq.is_before(host.expects);
    for (i, byte) in tcp.payload(packet).iter().enumerate() {
        let wanted = stream_byte(to.opposite(), start.wrapping_add(i as u32));
        assert!(is_probe || *byte == wanted, "byte {i} at {start} is not the stream's");
    }
    assert!(!tcp.seq_end().is_after(peer.next), "numbers the peer has never sent: {}", tcp.seq_end());
    if tcp.flags.contains(TcpFlags::ACK) && host.next != host.isn {
        assert!(!tcp.ack.is_after(host.next), "{to:?} gets an acknowledgement of what it has not sent");
        let acks_fin = host.fin.is_some_and(|fin| tcp.ack.is_after(fin));
        assert!(
            to == Port::Mobile || !acks_fin || !peer.acked.is_before(tcp.ack),
            "the server's FIN is acknowledged before the client has it"
        );
    }
}
