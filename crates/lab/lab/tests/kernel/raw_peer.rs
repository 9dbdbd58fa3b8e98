//! [`RawPeer`]: one end of a TCP connection made by hand, for headers that no kernel makes.
//!
//! Its address belongs to no host, so that the kernel beside it does not answer in its place.

use std::net::{IpAddr, SocketAddr};

use io::{Clock, Interest, PacketSocket, Waiter};
use lab::{RADIO, Role, WAN, client_address};
use scenario::Family;
use socket2::{Domain, Protocol, SockAddr, Socket, Type};
use units::Duration;
use wire::checksum::Sum;
use wire::{Tcp, TcpFlags, Transport};

use crate::kernel::testbed::{PATIENCE, Testbed, unassigned};

/// `IPPROTO_RAW`: headers are given.
const RAW: i32 = 255;
const TCP: u8 = 6;
const WINDOW: u16 = 60_000;
/// MSS of 1,460, then kind 200 (unassigned), kind 253 (experiments), and padding.
pub const STRANGE_OPTIONS: [u8; 20] =
    [2, 4, 0x05, 0xb4, 200, 6, 1, 2, 3, 4, 253, 8, 0xce, 0x11, 5, 6, 7, 8, 1, 1];

pub struct RawPeer {
    socket: Socket,
    tap: PacketSocket,
    waiter: Waiter,
    pub own: SocketAddr,
    peer: Option<SocketAddr>,
    /// Next number to send, and next one expected.
    nxt: u32,
    expected: u32,
}

impl RawPeer {
    /// A peer beside `host`; it talks to `peer`, or to whoever talks to it.
    pub fn new(bed: &Testbed, host: Role, family: Family, peer: Option<SocketAddr>) -> Self {
        let address = match (host, client_address(family)) {
            (Role::Server, _) => unassigned(family),
            (_, IpAddr::V4(client)) => IpAddr::V4((u32::from(client) + 75).into()),
            (_, IpAddr::V6(client)) => IpAddr::V6((u128::from(client) + 75).into()),
        };
        let own = SocketAddr::new(address, 7_000);
        let device = if host == Role::Server { WAN } else { RADIO };
        let namespace = bed.host(host);
        let index = namespace.netlink().unwrap().index_of(device).unwrap();
        let make = || {
            let protocol = Some(Protocol::from(RAW));
            let socket = Socket::new(Domain::for_address(own), Type::RAW, protocol).unwrap();
            (socket, PacketSocket::open(index).unwrap())
        };
        let (socket, tap) = namespace.run(make).unwrap();
        let waiter = Waiter::new(Duration::ZERO).unwrap();
        waiter.add(&tap, Interest::Read, 0).unwrap();
        Self { socket, tap, waiter, own, peer, nxt: 4_000_000_000, expected: 0 }
    }

    /// Sends a segment with the next number; acknowledges what was received.
    pub fn send(&mut self, flags: TcpFlags, options: &[u8], payload: &[u8]) {
        let peer = self.peer.unwrap();
        let mut segment = Vec::new();
        segment.extend(self.own.port().to_be_bytes());
        segment.extend(peer.port().to_be_bytes());
        segment.extend(self.nxt.to_be_bytes());
        segment.extend(self.expected.to_be_bytes());
        segment.push(((20 + options.len()) / 4 * 16) as u8);
        segment.push(flags.bits() as u8);
        segment.extend(WINDOW.to_be_bytes());
        segment.extend([0; 4]);
        segment.extend(options);
        segment.extend(payload);
        let mut sum = Sum::pseudo_header(self.own.ip(), peer.ip(), TCP, segment.len());
        sum.add_bytes(&segment);
        segment[16..18].copy_from_slice(&sum.checksum().to_be_bytes());
        let packet = [ip_header(self.own.ip(), peer.ip(), segment.len()), segment].concat();
        let to = SockAddr::from(SocketAddr::new(peer.ip(), 0));
        assert_eq!(self.socket.send_to(&packet, &to).unwrap(), packet.len());
        let takes_number = flags.intersects(TcpFlags::SYN | TcpFlags::FIN);
        self.nxt = self.nxt.wrapping_add(payload.len() as u32 + u32::from(takes_number));
    }

    /// The next segment that is in order, with its payload.
    pub fn receive(&mut self) -> (Tcp, Vec<u8>) {
        let give_up = Clock::now() + Duration::from_nanos(PATIENCE.as_nanos() as u64);
        let mut buffer = [0; 2_048];
        loop {
            assert!(Clock::now() < give_up, "nothing arrived for {}", self.own);
            let Some(received) = self.tap.recv(&mut buffer).unwrap() else {
                self.waiter.wait(Some(give_up)).unwrap();
                continue;
            };
            let bytes = &buffer[..received.len];
            let Ok(packet) = wire::parse(bytes) else { continue };
            let Transport::Tcp(tcp) = packet.transport else { continue };
            if received.is_outgoing || SocketAddr::new(packet.ip.dst, tcp.dst_port) != self.own {
                continue;
            }
            self.peer.get_or_insert(SocketAddr::new(packet.ip.src, tcp.src_port));
            if tcp.flags.contains(TcpFlags::SYN) {
                self.expected = tcp.seq.get();
            }
            assert!(!tcp.flags.contains(TcpFlags::RST), "{} was reset", self.own);
            if tcp.seq.get() == self.expected {
                self.expected = self.expected.wrapping_add(tcp.segment_len());
                return (tcp, tcp.payload(bytes).to_vec());
            }
        }
    }

    /// Receives and acknowledges everything up to the peer's FIN.
    pub fn receive_to_end(&mut self) -> Vec<u8> {
        let mut all = Vec::new();
        loop {
            let (tcp, payload) = self.receive();
            all.extend(payload);
            if tcp.segment_len() > 0 {
                self.send(TcpFlags::ACK, &[], &[]);
            }
            if tcp.flags.contains(TcpFlags::FIN) {
                return all;
            }
        }
    }
}

fn ip_header(src: IpAddr, dst: IpAddr, len: usize) -> Vec<u8> {
    match (src, dst) {
        (IpAddr::V4(src), IpAddr::V4(dst)) => {
            // The kernel fills in length and checksum (raw(7)).
            let mut header = vec![0x45, 0, 0, 0, 0x12, 0x34, 0x40, 0, 64, TCP, 0, 0];
            header.extend(src.octets());
            header.extend(dst.octets());
            header
        }
        (IpAddr::V6(src), IpAddr::V6(dst)) => {
            let mut header = vec![0x60, 0, 0, 0];
            header.extend((len as u16).to_be_bytes());
            header.extend([TCP, 64]);
            header.extend(src.octets());
            header.extend(dst.octets());
            header
        }
        _ => panic!("{src} and {dst} are of different families"),
    }
}
