//! H21: packets in the forms in which cards and their drivers hand them over.

use std::io::{IoSlice, Read, Write};
use std::net::{IpAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};

use io::{
    Clock, FrameSocket, Framing, Host, Interest, Namespace, Tun, TunConfig, VNET_HEADER_LEN, VnetHeader,
    Waiter, lay_cable,
};
use run::{InlineFallback, SteeringChoice};
use units::Duration;
use wire::{Packet, Transport, VirtioNetHeader};

use crate::accelerated::verdict;
use crate::inline;
use crate::topology::{BOX_MOBILE, BOX_WIRED, PATIENCE, Program, Topology, pattern};

const ETHERNET_LEN: usize = 14;
/// Bytes of TCP's payload in a full packet of either version, beside timestamps.
const SEGMENT_LEN: u16 = 1_428;

/// Form in which a packet is handed over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Form {
    /// As it came: a super-packet with a partial checksum, as between virtual machines.
    Unchanged,
    /// In packets of ordinary size with complete checksums: no offload at all.
    Segments,
    /// The same with partial checksums.
    PartialSegments,
    /// As one super-packet with a complete checksum, as a driver that merges without a word about it.
    Merged,
    /// In super-packets of small segments.
    SmallSegments,
    /// As [`Form::Segments`], of which the first is damaged: its checksum is wrong.
    Damaged,
    /// As [`Form::Merged`], damaged. What routes cuts it and makes it look right, whoever does: of a bridge alone.
    DamagedMerged,
}

impl Form {
    const ROUTED: [Self; 5] =
        [Self::Unchanged, Self::Segments, Self::PartialSegments, Self::Merged, Self::SmallSegments];

    /// The form of the packet with that number, and with that number among those with data: one of six is damaged.
    fn of(number: u64, with_data: Option<u64>, is_bridge: bool) -> Self {
        match with_data.map(|number| number % 12) {
            Some(8) if is_bridge => Self::DamagedMerged,
            Some(2 | 8) => Self::Damaged,
            _ => Self::ROUTED[(number % Self::ROUTED.len() as u64) as usize],
        }
    }

    /// The packets that `packet` becomes, each with its virtio header.
    fn apply(
        self,
        virtio: &VirtioNetHeader,
        mut packet: Vec<u8>,
        parsed: &Packet,
    ) -> Vec<(VirtioNetHeader, Vec<u8>)> {
        let whole = |packet| (VirtioNetHeader::parse(&[0; VNET_HEADER_LEN]).unwrap(), packet);
        let damage = |packet: &mut Vec<u8>| {
            if let Some(byte) = packet.get_mut(parsed.tcp().unwrap().payload_offset) {
                *byte ^= 0x10;
            }
        };
        match self {
            Self::Unchanged => vec![(*virtio, packet)],
            Self::Segments => cut(&packet, parsed, SEGMENT_LEN).into_iter().map(whole).collect(),
            Self::PartialSegments => {
                let all = cut(&packet, parsed, SEGMENT_LEN).into_iter();
                all.map(|packet| with_partial_checksum(packet, parsed)).collect()
            }
            Self::SmallSegments => {
                let all = cut(&packet, parsed, 7_000).into_iter();
                let all = all.map(|packet| with_partial_checksum(packet, parsed));
                all.map(|(virtio, packet)| (in_segments(virtio, &packet, parsed, 700), packet)).collect()
            }
            Self::Damaged => {
                let mut all = cut(&packet, parsed, SEGMENT_LEN);
                damage(&mut all[0]);
                all.into_iter().map(whole).collect()
            }
            Self::Merged | Self::DamagedMerged => {
                wire::complete_checksum(&mut packet, virtio).unwrap();
                if self == Self::DamagedMerged {
                    damage(&mut packet);
                }
                vec![(VirtioNetHeader { flags: 0, csum_start: 0, csum_offset: 0, ..*virtio }, packet)]
            }
        }
    }
}

/// Packets with at most `len` bytes of payload, and complete checksums.
fn cut(packet: &[u8], parsed: &Packet, len: u16) -> Vec<Vec<u8>> {
    let mut splitter = wire::split(packet, parsed, len).unwrap();
    let mut all = Vec::new();
    while let Some(len) = splitter.next_len() {
        let mut segment = vec![0; len];
        splitter.next_into(&mut segment).unwrap();
        all.push(segment);
    }
    all
}

/// Puts the pseudo-header's sum in the place of the checksum (RFC 9293 §3.1).
fn with_partial_checksum(mut packet: Vec<u8>, parsed: &Packet) -> (VirtioNetHeader, Vec<u8>) {
    let at = parsed.ip.header_len;
    let mut words: Vec<u8> = Vec::new();
    for address in [parsed.ip.src, parsed.ip.dst] {
        match address {
            IpAddr::V4(address) => words.extend(address.octets()),
            IpAddr::V6(address) => words.extend(address.octets()),
        }
    }
    words.extend([0, 6]);
    words.extend(((packet.len() - at) as u16).to_be_bytes());
    let pairs = words.chunks(2).map(|pair| u32::from(u16::from_be_bytes([pair[0], pair[1]])));
    let sum = pairs.sum::<u32>();
    let sum = (sum & 0xffff) + (sum >> 16);
    let sum = ((sum & 0xffff) + (sum >> 16)) as u16;
    let virtio = VirtioNetHeader::for_partial_checksum(at);
    let field = at + usize::from(virtio.csum_offset);
    packet[field..field + 2].copy_from_slice(&sum.to_be_bytes());
    (virtio, packet)
}

/// The header of a super-packet of segments of `len` bytes, if it is longer than one.
fn in_segments(virtio: VirtioNetHeader, packet: &[u8], parsed: &Packet, len: u16) -> VirtioNetHeader {
    let headers = parsed.tcp().unwrap().payload_offset;
    if packet.len() - headers <= usize::from(len) {
        return virtio;
    }
    VirtioNetHeader::for_tcp_gso(parsed.ip.version, parsed.ip.header_len, headers, len)
}

/// A card of the box, and what is behind it: hands the packets of a host over in one form or another.
struct Card {
    card: Tun,
    host: FrameSocket,
    is_bridge: bool,
    number: u64,
    /// Packets with data that were handed over.
    with_data: u64,
}

impl Card {
    /// Works until it is told to stop; gives the number of packets with data that were handed over.
    fn work(mut self, stop: &AtomicBool) -> u64 {
        let mut waiter = Waiter::new(Duration::ZERO).unwrap();
        waiter.add(&self.card, Interest::Read, 0).unwrap();
        waiter.add(&self.host, Interest::Read, 1).unwrap();
        let (mut virtio, mut frame) = ([0; VNET_HEADER_LEN], vec![0; 1 << 17]);
        while !stop.load(Ordering::Relaxed) {
            waiter.wait(Some(Clock::now() + Duration::from_millis(10))).unwrap();
            while let Some(len) = self.card.recv_split(&mut virtio, &mut frame).unwrap() {
                // A full queue loses packets, as on any link.
                _ = self.host.send(&virtio, &[IoSlice::new(&frame[..len])]);
            }
            while let Some(received) = self.host.recv(&mut virtio, &mut frame).unwrap() {
                self.hand_over(&virtio, &frame[..received.len]);
            }
        }
        self.with_data
    }

    fn hand_over(&mut self, virtio: &VnetHeader, frame: &[u8]) {
        let (ethernet, packet) = frame.split_at(ETHERNET_LEN);
        let parsed = wire::parse(packet).ok();
        let Some(parsed) = parsed.filter(|parsed| matches!(parsed.transport, Transport::Tcp(_))) else {
            // What is not TCP: without it no host finds the other.
            self.card.send_vectored(virtio, &[IoSlice::new(frame)]).unwrap();
            return;
        };
        let moved = |virtio: VirtioNetHeader, by: i32| {
            let offset = |offset: u16| if offset == 0 { 0 } else { (i32::from(offset) + by) as u16 };
            let (hdr_len, csum_start) = (offset(virtio.hdr_len), offset(virtio.csum_start));
            VirtioNetHeader { hdr_len, csum_start, ..virtio }
        };
        let virtio = moved(VirtioNetHeader::parse(virtio).unwrap(), -(ETHERNET_LEN as i32));
        self.number =
            self.number.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let has_data = parsed.tcp().unwrap().payload_len > 0;
        self.with_data += u64::from(has_data);
        let form = Form::of(self.number >> 33, has_data.then_some(self.with_data), self.is_bridge);
        for (virtio, packet) in form.apply(&virtio, packet[..parsed.ip.total_len].to_vec(), &parsed) {
            let virtio = moved(virtio, ETHERNET_LEN as i32).to_bytes();
            self.card.send_vectored(&virtio, &[IoSlice::new(ethernet), IoSlice::new(&packet)]).unwrap();
        }
    }
}

/// Sends as much one way and then the other; every byte must arrive as it was.
fn transfer(client: &Namespace, server: &Namespace, address: &str) {
    const LEN: usize = 1_000_000;
    let listener = server.run(|| TcpListener::bind((address, 0))).unwrap().unwrap();
    let to = listener.local_addr().unwrap();
    let client = client.run(|| TcpStream::connect_timeout(&to, PATIENCE)).unwrap();
    let client = client.unwrap_or_else(|error| panic!("connect to {to}: {error}"));
    let (server, _) = listener.accept().unwrap();
    for (from, to) in [(&server, &client), (&client, &server)] {
        let sent = pattern(LEN);
        std::thread::scope(|scope| {
            let sent = &sent;
            let sender = scope.spawn(move || { from }.write_all(sent));
            let mut got = vec![0; LEN];
            to.set_read_timeout(Some(PATIENCE)).unwrap();
            { to }.read_exact(&mut got).unwrap();
            sender.join().unwrap().unwrap();
            let intact = got.iter().zip(sent).take_while(|(a, b)| a == b).count();
            assert_eq!(intact, LEN, "bytes that arrived as they were sent");
        });
    }
}

/// A card in the place of the box's interface `at`, and a host behind it in the place of the one that was there.
fn put_behind_card(topology: &Topology, at: &str, framing: Framing, is_bridge: bool) -> (Host, Card) {
    let (own, addresses) = match (is_bridge, at) {
        (false, "w0") => (&["10.2.0.1/24", "fd02::1/64"][..], ["10.2.0.2/24", "fd02::2/64"]),
        (false, _) => (&["10.1.0.1/24", "fd01::1/64"][..], ["10.1.0.2/24", "fd01::2/64"]),
        (true, "w0") => (&[][..], ["10.1.0.9/24", "fd01::9/64"]),
        (true, _) => (&[][..], ["10.1.0.2/24", "fd01::2/64"]),
    };
    let netlink = topology.netlink();
    netlink.delete_link(netlink.index_of(at).unwrap()).unwrap();
    let config = TunConfig { name: at.to_owned(), framing, has_frames: true, ..TunConfig::default() };
    let card = topology.middle.run(|| Tun::create(&config)).unwrap().unwrap();
    card.set_up().unwrap();
    own.iter().for_each(|address| netlink.add_address(card.index(), address.parse().unwrap()).unwrap());
    let host = Host::create(&format!("{}-{at}", topology.middle.name())).unwrap();
    host.set("net/ipv6/conf/default/accept_dad", "0").unwrap();
    lay_cable([(&host, "f0", &addresses), (&host, "f1", &[])]).unwrap();
    if !is_bridge {
        let gateways = if at == "w0" { BOX_WIRED } else { BOX_MOBILE };
        gateways.iter().for_each(|gateway| host.add_default_route(gateway.parse().unwrap()).unwrap());
    }
    let index = host.netlink().unwrap().index_of("f1").unwrap();
    let socket = host.run(|| FrameSocket::open(index, "f1")).unwrap().unwrap();
    (host, Card { card, host: socket, is_bridge, number: 0, with_data: 0 })
}

fn passes_whole(
    topology: &Topology,
    mut program: Program,
    (host, card): (Host, Card),
    is_bridge: bool,
    at: &str,
) {
    let (client, server) = if at == "w0" { (&topology.client, &host) } else { (&host, &topology.server) };
    let servers = if is_bridge { inline::HERE } else { crate::topology::SERVER };
    let stop = AtomicBool::new(false);
    let with_data = std::thread::scope(|scope| {
        let working = scope.spawn(|| card.work(&stop));
        let done = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            servers.iter().for_each(|address| transfer(client, server, address));
        }));
        stop.store(true, Ordering::Relaxed);
        let with_data = working.join().unwrap();
        done.unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        with_data
    });
    assert!(with_data >= 8, "{with_data} packets with data were handed over, and so were damaged ones");
    assert!(!program.reap(), "it runs");
    let said = program.stop(topology);
    assert_eq!(verdict(&said), (2, 0), "{said}");
}

/// Cards that the kernel may leave work to, and such that it may not: no checksums, no super-packets.
const CARDS: [(&str, Framing); 4] = [
    ("w0", Framing::SuperPackets),
    ("w0", Framing::Header),
    ("m0", Framing::SuperPackets),
    ("m0", Framing::Header),
];

#[test]
fn h21_packets_of_all_cards_pass_whole_by_programs() {
    all_are_routed_whole("cards", SteeringChoice::Tcx);
}

#[test]
fn h21_packets_of_all_cards_pass_whole_by_rules() {
    all_are_routed_whole("cardsrules", SteeringChoice::Rules);
}

fn all_are_routed_whole(name: &str, steering: SteeringChoice) {
    for (at, framing) in CARDS {
        let topology = Topology::build(name);
        let behind = put_behind_card(&topology, at, framing, false);
        let config = run::Config { steering, ..topology.config() };
        let program = Program::start_both_ways_with(&topology, &config);
        passes_whole(&topology, program, behind, false, at);
    }
}

#[test]
fn h21_packets_of_all_cards_pass_whole_by_a_bridge() {
    for (at, framing) in CARDS {
        let (topology, config) = inline::build("cardsbr", InlineFallback::None);
        let behind = put_behind_card(&topology, at, framing, true);
        let program = inline::start(&topology, &config);
        passes_whole(&topology, program, behind, true, at);
    }
}
