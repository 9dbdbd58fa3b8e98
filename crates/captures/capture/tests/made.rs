//! Captures made in memory.
#![allow(dead_code, clippy::unwrap_used)] // Each test file uses a part; broken test data shall stop the test.

use std::net::SocketAddr;

use units::SeqNum;
use wire::{TcpFlags, TcpHeaderSpec};

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Order {
    Big,
    Little,
}

impl Order {
    pub fn u16(self, value: u16) -> [u8; 2] {
        if self == Self::Big { value.to_be_bytes() } else { value.to_le_bytes() }
    }
    pub fn u32(self, value: u32) -> [u8; 4] {
        if self == Self::Big { value.to_be_bytes() } else { value.to_le_bytes() }
    }
    pub fn u64(self, value: u64) -> [u8; 8] {
        if self == Self::Big { value.to_be_bytes() } else { value.to_le_bytes() }
    }
}

/// An IPv4 (or IPv6) TCP packet with `payload` bytes.
pub fn packet(v6: bool, seq: u32, payload: usize) -> Vec<u8> {
    let (a, b) =
        if v6 { ("[2001:db8::1]:1000", "[2001:db8::2]:80") } else { ("10.0.0.1:1000", "10.0.0.2:80") };
    let (a, b): (SocketAddr, SocketAddr) = (a.parse().unwrap(), b.parse().unwrap());
    let flags = TcpFlags::ACK | TcpFlags::PSH;
    let spec = TcpHeaderSpec::new(a, b, SeqNum::new(seq), SeqNum::new(77), flags);
    let body = vec![0x55; payload];
    let mut buffer = vec![0; TcpHeaderSpec::MAX_LEN];
    spec.emit(&mut buffer, &[&body]).unwrap();
    let len = if v6 { 60 } else { 40 };
    let mut packet = buffer[..len].to_vec();
    packet.extend(body);
    packet
}

/// `packet` behind an Ethernet header.
pub fn ethernet(packet: &[u8]) -> Vec<u8> {
    let kind: [u8; 2] = if packet[0] >> 4 == 6 { [0x86, 0xdd] } else { [8, 0] };
    [&[2; 12][..], &kind, packet].concat()
}

pub struct PcapStyle {
    pub order: Order,
    pub nanos: bool,
    pub modified: bool,
    pub minor: u16,
}

/// A pcap file: frames with their times in ns and wire lengths.
pub fn pcap(style: &PcapStyle, link: u32, frames: &[(u64, u32, Vec<u8>)]) -> Vec<u8> {
    let o = style.order;
    let magic = match (style.modified, style.nanos) {
        (true, _) => 0xa1b2_cd34,
        (_, true) => 0xa1b2_3c4d,
        _ => 0xa1b2_c3d4_u32,
    };
    let mut file = o.u32(magic).to_vec();
    file.extend([o.u16(2), o.u16(style.minor)].concat());
    file.extend([o.u32(0), o.u32(0), o.u32(65_535), o.u32(link)].concat());
    for (time, wire, frame) in frames {
        let fraction = time % 1_000_000_000 / if style.nanos { 1 } else { 1_000 };
        let captured = frame.len() as u32;
        let lengths = if style.minor < 3 { [*wire, captured] } else { [captured, *wire] };
        file.extend([o.u32((time / 1_000_000_000) as u32), o.u32(fraction as u32)].concat());
        file.extend([o.u32(lengths[0]), o.u32(lengths[1])].concat());
        if style.modified {
            file.extend([0; 8]);
        }
        file.extend(frame);
    }
    file
}

/// A snoop file (RFC 1761) of datalink type `kind`: frames with their times in ns and wire lengths, padded to
/// four bytes; after each another packet was lost.
pub fn snoop(kind: u32, frames: &[(u64, u32, Vec<u8>)]) -> Vec<u8> {
    let mut file = [&b"snoop\0\0\0"[..], &2_u32.to_be_bytes(), &kind.to_be_bytes()].concat();
    for ((time, wire, frame), dropped) in frames.iter().zip(0..) {
        let padded = frame.len().next_multiple_of(4);
        let (seconds, micros) = (time / 1_000_000_000, time % 1_000_000_000 / 1_000);
        let lengths = [*wire, frame.len() as u32, 24 + padded as u32];
        for word in lengths.into_iter().chain([dropped, seconds as u32, micros as u32]) {
            file.extend(word.to_be_bytes());
        }
        file.extend(frame);
        file.resize(file.len() + padded - frame.len(), 0);
    }
    file
}

pub fn block(o: Order, kind: u32, body: &[u8]) -> Vec<u8> {
    let mut body = body.to_vec();
    body.resize(body.len().next_multiple_of(4), 0);
    let len = o.u32(body.len() as u32 + 12);
    [&o.u32(kind)[..], &len, &body, &len].concat()
}

pub fn section(o: Order) -> Vec<u8> {
    block(o, 0x0a0d_0d0a, &[&o.u32(0x1a2b_3c4d)[..], &o.u16(1), &o.u16(0), &o.u64(u64::MAX)].concat())
}

/// An interface with options of (code, value).
pub fn interface(o: Order, link: u16, options: &[(u16, Vec<u8>)]) -> Vec<u8> {
    let mut body = [&o.u16(link)[..], &o.u16(0), &o.u32(65_535)].concat();
    for (code, value) in options {
        body.extend([o.u16(*code), o.u16(value.len() as u16)].concat());
        body.extend(value);
        body.resize(body.len().next_multiple_of(4), 0);
    }
    body.extend([0; 4]);
    block(o, 1, &body)
}

pub fn enhanced(o: Order, interface: u32, stamp: u64, frame: &[u8]) -> Vec<u8> {
    let len = o.u32(frame.len() as u32);
    let (high, low) = (o.u32((stamp >> 32) as u32), o.u32(stamp as u32));
    block(o, 6, &[&o.u32(interface)[..], &high, &low, &len, &len, frame].concat())
}

/// A pcapng file that uses what the format offers.
pub fn rich_pcapng() -> Vec<u8> {
    let (big, little) = (Order::Big, Order::Little);
    let frame = ethernet(&packet(false, 1, 10));
    [
        section(big),
        interface(big, 1, &[(2, b"eth0".to_vec()), (9, vec![9])]),
        interface(big, 101, &[(9, vec![0x80 | 10]), (14, big.u64(5).to_vec())]),
        block(big, 0x0000_0bad, b"an unknown one"),
        enhanced(big, 0, 1_500_000_000, &frame),
        block(big, 5, &[&[0; 12][..], &big.u16(5), &big.u16(8), &big.u64(40), &[0; 4]].concat()),
        enhanced(big, 1, 1024 + 512, &packet(true, 1, 20)),
        block(big, 5, &[&[0; 12][..], &big.u16(5), &big.u16(8), &big.u64(42), &[0; 4]].concat()),
        section(little),
        interface(little, 1, &[]),
        block(little, 3, &[&little.u32(frame.len() as u32)[..], &frame].concat()),
        enhanced(little, 0, 9_000_001, &frame),
        enhanced(little, 7, 9_000_001, &frame),
    ]
    .concat()
}

/// Little-endian pcap in microseconds.
pub const USUAL: PcapStyle = PcapStyle { order: Order::Little, nanos: false, modified: false, minor: 4 };
