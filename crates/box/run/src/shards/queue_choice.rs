//! Choice of the shard of a subscriber: the same hash here and, as a BPF program at each TUN device, in the
//! kernel.
//!
//! ```text
//!   from servers:  destination address ─┐
//!                                       ├─▶ prefix of a subscriber ─▶ hash ─▶ queue
//!   from clients:  source address ──────┤
//!   their ICMP errors: destination of   │
//!   the packet quoted, which was ours ──┘
//! ```
//!
//! So both directions of a flow, and all flows of a subscriber, meet in one shard.

use std::net::IpAddr;

use engine::Port;
use io::bpf::Condition::{AtLeast, Differs, Equal};
use io::bpf::Operation::{Add, And, Multiply, ShiftLeft, ShiftRight};
use io::bpf::Register::{R0, R1, R2, R3, R4, R5, R6, R8, R10};
use io::bpf::Width::{Byte, Word};
use io::bpf::{Assembler, Helper, Instruction, Label, Program};
use io::{IoError, Tun};
use wire::protocol;

/// Odd, with its ones and zeros spread evenly: 2⁶⁴ over the golden ratio (Knuth, TAOCP volume 3, §6.4).
const MULTIPLIER: u64 = 0x9e37_79b9_7f4a_7c15;
/// Shift that leaves its best 16 bits, as many as the kernel takes before it divides by the number of queues.
const HASH_SHIFT: i32 = 48;

/// The bits of each 32-bit word, as it lies in memory, that make a subscriber: of IPv4 addresses,
/// and of IPv6 prefixes.
fn masks(address: IpAddr, ipv6_prefix_len: u8) -> Vec<u32> {
    let bits = match address {
        IpAddr::V4(_) => return vec![u32::MAX],
        IpAddr::V6(_) => u128::MAX.checked_shl(128 - u32::from(ipv6_prefix_len.clamp(1, 128))).unwrap_or(0),
    };
    words(&bits.to_be_bytes())
}

fn words(bytes: &[u8]) -> Vec<u32> {
    bytes.as_chunks::<4>().0.iter().map(|word| u32::from_ne_bytes(*word)).collect()
}

/// The shard of `shards` that a client is in.
pub(crate) fn shard_of(client: IpAddr, ipv6_prefix_len: u8, shards: usize) -> usize {
    let address = match client {
        IpAddr::V4(v4) => words(&v4.octets()),
        IpAddr::V6(v6) => words(&v6.octets()),
    };
    let parts = address.iter().zip(masks(client, ipv6_prefix_len)).filter(|(_, mask)| *mask != 0);
    let hash =
        parts.fold(0u64, |hash, (word, mask)| (hash + u64::from(word & mask)).wrapping_mul(MULTIPLIER));
    (hash >> HASH_SHIFT) as usize % shards.max(1)
}

/// Has `tun` lead the packets of each subscriber into the queue of its shard.
pub(crate) fn install(tun: &Tun, from: Port, ipv6_prefix_len: u8) -> Result<(), IoError> {
    tun.set_queue_chooser(&load(from, ipv6_prefix_len)?)
}

/// Checks that the kernel takes such programs; changes nothing.
pub(crate) fn is_possible(ipv6_prefix_len: u8) -> Result<(), IoError> {
    load(Port::Mobile, ipv6_prefix_len).map(drop)
}

fn load(from: Port, ipv6_prefix_len: u8) -> Result<Program, IoError> {
    Program::load_filter("cellerator_shrd", &assemble(from, ipv6_prefix_len)?)
}

// The stack: places below R10, and what lies where in the headers put there.
const HEADER: i16 = -40;
const ADDRESS: i16 = -56;
const TYPE: i16 = -64;
const IPV4_LEN: i32 = 20;
const IPV4_PROTOCOL: i16 = 9;
const IPV4_SOURCE: i16 = 12;
const IPV4_DESTINATION: i16 = 16;
const IPV6_LEN: i32 = 40;
const IPV6_NEXT_HEADER: i16 = 6;
const IPV6_SOURCE: i16 = 8;
const IPV6_DESTINATION: i16 = 24;
/// Length of the header in front of the packet that an ICMP error quotes.
const ICMP_LEN: i32 = 8;
/// The errors of ICMP (RFC 792) have types from 3 to 12, with others among them that quote nothing.
const ICMP_ERRORS: [i32; 5] = [3, 4, 5, 11, 12];
/// Those of ICMPv6 have all types below this (RFC 4443 §2.1).
const ICMPV6_INFORMATIONAL: i32 = 128;
/// `BPF_HDR_START_NET`.
const FROM_NETWORK_HEADER: i32 = 1;

/// Copies `len` bytes at the offset in R2 to `place`; goes to `fail` where the packet is shorter.
fn copy_bytes(a: &mut Assembler, place: i16, len: i32, fail: Label) {
    a.copy(R1, R6);
    a.point(R3, R10, place);
    a.set(R4, len);
    a.set(R5, FROM_NETWORK_HEADER);
    a.call(Helper::LoadBytesRelative);
    a.jump_if(Differs, R0, 0, fail);
}

/// The program for packets that come from one side.
fn assemble(from: Port, ipv6_prefix_len: u8) -> Result<Vec<Instruction>, IoError> {
    let mut a = Assembler::new();
    let (ipv6, fail) = (a.label(), a.label());
    a.copy(R6, R1);
    a.set_wide(R8, MULTIPLIER);
    a.set(R2, 0);
    copy_bytes(&mut a, TYPE, 1, fail);
    a.load(Byte, R0, R10, TYPE);
    a.calculate(ShiftRight, R0, 4);
    a.jump_if(Equal, R0, 6, ipv6);
    a.jump_if(Differs, R0, 4, fail);
    a.set(R2, 0);
    copy_bytes(&mut a, HEADER, IPV4_LEN, fail);
    by_ipv4(&mut a, from, fail);
    a.place(ipv6);
    a.set(R2, 0);
    copy_bytes(&mut a, HEADER, IPV6_LEN, fail);
    by_ipv6(&mut a, from, ipv6_prefix_len, fail);
    a.place(fail);
    a.set(R0, 0);
    a.exit();
    a.finish()
}

fn by_ipv4(a: &mut Assembler, from: Port, fail: Label) {
    let all = [u32::MAX];
    if from == Port::Wired {
        return hash(a, HEADER + IPV4_DESTINATION, &all);
    }
    let (own, quoted) = (a.label(), a.label());
    a.load(Byte, R0, R10, HEADER + IPV4_PROTOCOL);
    a.jump_if(Differs, R0, i32::from(protocol::ICMP), own);
    // R2: where ICMP begins, by the header's length in words of four bytes.
    a.load(Byte, R2, R10, HEADER);
    a.calculate(And, R2, 0x0f);
    a.calculate(ShiftLeft, R2, 2);
    a.copy(io::bpf::Register::R7, R2);
    copy_bytes(a, TYPE, 1, fail);
    a.load(Byte, R0, R10, TYPE);
    for error in ICMP_ERRORS {
        a.jump_if(Equal, R0, error, quoted);
    }
    a.jump(own);
    a.place(quoted);
    a.copy(R2, io::bpf::Register::R7);
    a.calculate(Add, R2, ICMP_LEN + i32::from(IPV4_DESTINATION));
    copy_bytes(a, ADDRESS, 4, fail);
    hash(a, ADDRESS, &all);
    a.place(own);
    hash(a, HEADER + IPV4_SOURCE, &all);
}

fn by_ipv6(a: &mut Assembler, from: Port, prefix_len: u8, fail: Label) {
    let masks = masks(IpAddr::V6(std::net::Ipv6Addr::UNSPECIFIED), prefix_len);
    if from == Port::Wired {
        return hash(a, HEADER + IPV6_DESTINATION, &masks);
    }
    let own = a.label();
    a.load(Byte, R0, R10, HEADER + IPV6_NEXT_HEADER);
    a.jump_if(Differs, R0, i32::from(protocol::ICMPV6), own);
    a.set(R2, IPV6_LEN);
    copy_bytes(a, TYPE, 1, fail);
    a.load(Byte, R0, R10, TYPE);
    a.jump_if(AtLeast, R0, ICMPV6_INFORMATIONAL, own);
    a.set(R2, IPV6_LEN + ICMP_LEN + i32::from(IPV6_DESTINATION));
    copy_bytes(a, ADDRESS, 16, fail);
    hash(a, ADDRESS, &masks);
    a.place(own);
    hash(a, HEADER + IPV6_SOURCE, &masks);
}

/// Ends the program with the hash of the words at `place`: what [`shard_of`] calculates.
fn hash(a: &mut Assembler, place: i16, masks: &[u32]) {
    a.set(R0, 0);
    for (at, mask) in (place..).step_by(4).zip(masks).filter(|(_, mask)| **mask != 0) {
        a.load(Word, R1, R10, at);
        // The number is extended by its sign, and R1 has zeros there.
        a.calculate(And, R1, mask.cast_signed());
        a.calculate_with(Add, R0, R1);
        a.calculate_with(Multiply, R0, R8);
    }
    a.calculate(ShiftRight, R0, HASH_SHIFT);
    a.exit();
}

#[cfg(test)]
mod tests;
