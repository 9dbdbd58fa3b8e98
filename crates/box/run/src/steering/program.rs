//! Treatment by the kernel of each packet that comes in through an interface: the steering as a BPF program.
//!
//! ```text
//!   not to this machine's MAC address, or with a VLAN tag ──▶ the kernel
//!   at its last hop ──▶ the kernel
//!   neither TCP nor an ICMP error, a fragment, TCP of a flow in the map, and not its first SYN ──▶ the kernel, unless
//!     it is to a subscriber in the map (of TCP and long headers of QUIC also: from one), or to one that has had more than a
//!     trickle of such within a second, while subscribers may be scheduled
//!   the reply to an echo request of the engine's ──▶ as anything else
//!   a first SYN, while no flow is to begin ──▶ the kernel
//!   nobody has beaten the heart for too long ──▶ the kernel
//!   not to be forwarded out of the other side's interface ──▶ the kernel
//!   anything else ──▶ into the TUN device
//! ```
//!
//! "The kernel" is whatever it would have done without us. All of the kernel's own checks of a
//! packet are made when it comes back from the TUN device.

use std::os::fd::AsFd;

use engine::Port;
use io::IoError;
use io::bpf::Condition::{Above, AtLeast, Below, Differs, Equal, HasAny};
use io::bpf::Operation::{Add, And, ExclusiveOr, Or, ShiftLeft, ShiftRight};
use io::bpf::Register::{R0, R1, R2, R3, R4, R5, R6, R7, R8, R9, R10};
use io::bpf::Width::{Byte, Double, Half, Word};
use io::bpf::{Assembler, Helper, Instruction, Label, Register, Width};
use io::netlink::InterfaceIndex;
use units::Duration;
use wire::protocol;

/// Specification of one program.
#[derive(Clone, Copy, Debug)]
pub(super) struct Spec {
    /// The side the packets come from.
    pub from: Port,
    /// The interface they come in through.
    pub interface: InterfaceIndex,
    /// Only what would leave through this interface is taken.
    pub leaves_through: InterfaceIndex,
    /// The device they are redirected into.
    pub tun: InterfaceIndex,
    /// Only packets whose source would be reached through the interface they came from (RFC 3704 §2.2).
    pub checks_reverse_path: bool,
    /// Silence of the packet loop after which nothing is redirected.
    pub hang_after: Duration,
    /// Offset of the counters of this program in the shared array, bytes.
    pub counters: i32,
    /// Offset in it of the counters of the bytes of flows in the map: 8 bytes for each of [`REASONS`].
    pub reasons: i32,
    /// IPv6 prefix length that makes one subscriber, bits.
    pub ipv6_prefix_len: u8,
    /// A trickle is not of TCP alone, and the engine sends echo requests.
    pub counts_datagrams: bool,
}

/// The maps of all programs of an instance.
#[derive(Clone, Copy, Debug)]
pub(super) struct Maps<'a, M, A> {
    /// Flows that are left alone, and subscribers whose whole traffic is wanted: [`KEY_LEN`] and [`VALUE_LEN`] bytes.
    pub passed: &'a M,
    /// [`HEARTBEAT`], and the programs' counters.
    pub shared: &'a A,
    /// Map of the traffic that the kernel has forwarded to subscribers that are not in the map: [`KEY_LEN`]
    /// and [`VALUE_LEN`] bytes.
    pub trickles: &'a M,
}

/// Bytes of a flow's key: the client's address and the server's (IPv4 in the first four bytes), the
/// client's port and the server's, in network order; then 4 or 6 as a 32-bit number.
///
/// That of a subscriber has its address or prefix, and [`SUBSCRIBER`] in the last number beside 4 or 6.
pub(super) const KEY_LEN: usize = 40;
pub(super) const SUBSCRIBER: i32 = 0x100;
/// Bytes of its value: a 64-bit number. Its two lowest bits say from which sides a FIN has come; from [`REASON_SHIFT`] on
/// stands why it passes: one of [`REASONS`].
pub(super) const VALUE_LEN: usize = 8;
pub(super) const REASON_SHIFT: i32 = 8;
pub(super) const REASONS: usize = 32;
const FINS: i32 = 3;

/// Name of the programs, so that an interface is not steered twice.
pub(crate) const NAME: &str = "cell_steer";

/// By how much the clock of the programs may be behind: a tick of the kernel's.
pub(crate) const CLOCK_BEHIND_MAX: Duration = Duration::from_millis(10);

/// Word of the shared array that is the heartbeat.
pub(crate) const HEARTBEAT_WORD: usize = HEARTBEAT as usize / size_of::<u64>();

/// Offset of the time of the last heartbeat in the shared array: nanoseconds of the monotonic clock.
pub(super) const HEARTBEAT: i32 = 0;
/// Offset of the word that says whether flows that begin are left to the kernel: 0 for no.
pub(super) const NO_NEW_FLOWS: i32 = 8;
/// Offset of the word that says whether all traffic of subscribers may come here: 0 for no.
pub(super) const SCHEDULES: i32 = 16;
/// Offset of the places of subscribers in the map: a bit for each [`place`], which is set if any may be
/// there. What is forwarded to others is looked up no further.
pub(super) const PLACES: i32 = 32;
pub(super) const PLACES_COUNT: usize = 256;
/// The place of a subscriber, of 256: the bytes of its address or prefix, exclusive or.
pub(super) fn place(key: &[u8; KEY_LEN]) -> usize {
    let (address, _) = key.split_at(16);
    usize::from(address.iter().fold(0, |place, byte| place ^ byte))
}

/// Counts of a program, 8 bytes each from its counters on: packets of flows in the map, and flows it took out
/// of it.
pub(super) const BYPASSED_PACKETS: i32 = 0;
pub(super) const ENDED_FLOWS: i32 = 8;

// `struct __sk_buff`.
const LEN: i16 = 0;
pub(crate) const PKT_TYPE: i16 = 4;
pub(crate) const PROTOCOL: i16 = 16;
pub(crate) const VLAN_PRESENT: i16 = 20;
const PACKET_HOST: i32 = 0;

pub(crate) const ETHERTYPE_IPV4: u16 = 0x0800;
pub(crate) const ETHERTYPE_IPV6: u16 = 0x86dd;

/// Rate to a subscriber that is no trickle any more, bytes/s. A value holds the second (2³⁰ ns) in its upper
/// half, and the bytes in its lower one.
const TRICKLE: i32 = 64 * 1024;
const SECOND_SHIFT: i32 = 30;

// The stack: places below R10.
const KEY: i16 = -40;
const KEY_CLIENT: i16 = KEY;
const KEY_SERVER: i16 = KEY + 16;
const KEY_PORTS: i16 = KEY + 32;
const KEY_FAMILY: i16 = KEY + 36;
const IP: i16 = -80;
const TCP: i16 = -96;
const FIB: i16 = -160;
const TRICKLE_VALUE: i16 = -168;

const IPV4_LEN: i32 = 20;
const IPV6_LEN: i32 = 40;
/// Of the TCP header what lies up to the flags.
const TCP_PREFIX_LEN: i32 = 14;
const TCP_FLAGS: i16 = 13;
const FIN: i32 = 0x01;
const SYN: i32 = 0x02;
const RST: i32 = 0x04;
const ACK: i32 = 0x10;

const UDP_LEN: i16 = 8;
/// Bit of the first byte of QUIC's long header (RFC 8999 §5.1).
const LONG_HEADER: i32 = 0x80;

const ICMP_DESTINATION_UNREACHABLE: i32 = 3;
const ICMP_ECHO_REPLY: i32 = 0;
/// Of ICMP what lies up to the identifier of an echo (RFC 792).
const ICMP_PREFIX_LEN: i32 = 6;
const ICMP_IDENTIFIER: i16 = 4;
const ICMPV6_ECHO_REPLY: i32 = 129;
/// ICMPv6 errors have smaller types (RFC 4443 §2.1).
const ICMPV6_FIRST_INFORMATIONAL: i32 = 128;
/// Hop-by-hop, routing, destination options: TCP may come behind them.
const IPV6_EXTENSIONS: [i32; 3] = [0, 43, 60];

// `struct bpf_fib_lookup` and its flags.
const FIB_LEN: i32 = 64;
const FIB_FAMILY: i16 = FIB;
const FIB_PROTOCOL: i16 = FIB + 1;
const FIB_SOURCE_PORT: i16 = FIB + 2;
const FIB_DESTINATION_PORT: i16 = FIB + 4;
const FIB_INTERFACE: i16 = FIB + 8;
const FIB_TRAFFIC_CLASS: i16 = FIB + 12;
const FIB_SOURCE: i16 = FIB + 16;
const FIB_DESTINATION: i16 = FIB + 32;
const AF_INET: i32 = 2;
const AF_INET6: i32 = 10;
/// `BPF_FIB_LOOKUP_SKIP_NEIGH`: whether the next hop's MAC address is known does not matter.
const SKIP_NEIGHBOUR: i32 = 4;
/// `BPF_FIB_LKUP_RET_FRAG_NEEDED`: longer than the way out allows. The engine may cut it.
const FRAGMENTATION_NEEDED: i32 = 8;

/// `BPF_HDR_START_NET`.
pub(crate) const FROM_NETWORK_HEADER: i32 = 1;
/// `TCX_NEXT`: the next program, or the kernel.
const NEXT: i32 = -1;

/// The number as a program sees it that loaded it from a packet.
pub(crate) fn from_network(number: u16) -> i32 {
    i32::from(number.to_be())
}

/// The program for one interface.
pub(super) fn assemble<M: AsFd, A: AsFd>(
    spec: &Spec,
    maps: Maps<'_, M, A>,
) -> Result<Vec<Instruction>, IoError> {
    let mut a = Assembler::new();
    let next = a.label();
    let part = Part { spec, maps, next, other: next, datagram: next };
    // R6: the packet. R7: where the transport header begins. R8: TCP's flags. R9: the Ethernet protocol.
    a.copy(R6, R1);
    part.is_for_this_machine(&mut a);
    let (ipv6, tcp, steer) = (a.label(), a.label(), a.label());
    // What is no flow of the engine's interests it only on the way to a client, and what a client answers to it.
    let other = if spec.from == Port::Wired { a.label() } else { next };
    let datagram = if spec.from == Port::Wired { other } else { a.label() };
    let part = Part { other, datagram, ..part };
    a.load(Word, R9, R6, PROTOCOL);
    // ICMP has no ports, and IPv4 only four bytes of address.
    a.store_number(Double, R10, TCP, 0);
    for place in [KEY, KEY + 8, KEY + 16, KEY + 24] {
        a.store_number(Double, R10, place, 0);
    }
    a.jump_if(Equal, R9, from_network(ETHERTYPE_IPV6), ipv6);
    a.jump_if(Differs, R9, from_network(ETHERTYPE_IPV4), next);
    part.read_ipv4(&mut a, tcp, steer);
    a.place(ipv6);
    part.read_ipv6(&mut a, tcp, steer);
    a.place(tcp);
    part.pass_known(&mut a, steer);
    match spec.from {
        Port::Wired => {
            a.place(other);
            part.is_of_scheduled(&mut a, spec.counts_datagrams, next, steer);
        }
        Port::Mobile => {
            a.place(datagram);
            part.is_long_header(&mut a);
            part.is_of_scheduled(&mut a, false, next, steer);
        }
    }
    a.place(steer);
    part.is_loop_alive(&mut a);
    part.is_forwarded(&mut a);
    a.set(R1, spec.tun.get().cast_signed());
    a.set(R2, 0);
    a.call(Helper::Redirect);
    a.exit();
    a.place(next);
    a.set(R0, NEXT);
    a.exit();
    a.finish()
}

/// Inputs of all parts of the program.
struct Part<'a, M, A> {
    spec: &'a Spec,
    maps: Maps<'a, M, A>,
    /// Leaves the packet to the kernel.
    next: Label,
    /// Leaves it to the kernel, unless all traffic of its subscriber is wanted.
    other: Label,
    /// The same for UDP, of which clients' long headers of QUIC are wanted, too.
    datagram: Label,
}

impl<M: AsFd, A: AsFd> Part<'_, M, A> {
    /// Tells whether a packet is for this machine: one for another passes a bridge or a capture, and what has
    /// a VLAN tag is for another interface.
    fn is_for_this_machine(&self, a: &mut Assembler) {
        a.load(Word, R0, R6, PKT_TYPE);
        a.jump_if(Differs, R0, PACKET_HOST, self.next);
        a.load(Word, R0, R6, VLAN_PRESENT);
        a.jump_if(Differs, R0, 0, self.next);
    }

    /// Copies `len` bytes to the stack that begin as far behind the network header as `offset` says.
    fn copy_from_packet(&self, a: &mut Assembler, offset: Option<Register>, to: i16, len: i32) {
        a.copy(R1, R6);
        match offset {
            Some(register) => a.copy(R2, register),
            None => a.set(R2, 0),
        }
        a.point(R3, R10, to);
        a.set(R4, len);
        a.set(R5, FROM_NETWORK_HEADER);
        a.call(Helper::LoadBytesRelative);
        a.jump_if(Differs, R0, 0, self.next);
    }

    /// Offsets of source and destination in the key.
    fn places(&self) -> [i16; 2] {
        match self.spec.from {
            Port::Mobile => [KEY_CLIENT, KEY_SERVER],
            Port::Wired => [KEY_SERVER, KEY_CLIENT],
        }
    }

    fn copy_address(&self, a: &mut Assembler, from: i16, to: i16, width: Width, count: i16) {
        let step = if width == Double { 8 } else { 4 };
        for index in 0..count {
            a.load(width, R1, R10, from + step * index);
            a.store(width, R10, to + step * index, R1);
        }
    }

    fn read_ipv4(&self, a: &mut Assembler, tcp: Label, steer: Label) {
        self.copy_from_packet(a, None, IP, IPV4_LEN);
        // A packet at its last hop is answered by the kernel.
        a.load(Byte, R1, R10, IP + 8);
        a.jump_if(Below, R1, 2, self.next);
        a.load(Byte, R7, R10, IP);
        a.calculate(And, R7, 15);
        a.calculate(ShiftLeft, R7, 2);
        a.jump_if(Below, R7, IPV4_LEN, self.next);
        let [source, destination] = self.places();
        self.copy_address(a, IP + 12, source, Word, 1);
        self.copy_address(a, IP + 16, destination, Word, 1);
        a.store_number(Word, R10, KEY_FAMILY, 4);
        a.load(Half, R1, R10, IP + 6);
        a.jump_if(HasAny, R1, from_network(0x3fff), self.other);
        a.load(Byte, R1, R10, IP + 9);
        a.jump_if(Equal, R1, i32::from(protocol::TCP), tcp);
        a.jump_if(Equal, R1, i32::from(protocol::UDP), self.datagram);
        a.jump_if(Differs, R1, i32::from(protocol::ICMP), self.other);
        self.copy_from_packet(a, Some(R7), TCP + 8, ICMP_PREFIX_LEN);
        a.load(Byte, R1, R10, TCP + 8);
        a.jump_if(Equal, R1, ICMP_DESTINATION_UNREACHABLE, steer);
        self.find_reply(a, ICMP_ECHO_REPLY, steer);
        a.jump(self.other);
    }

    fn read_ipv6(&self, a: &mut Assembler, tcp: Label, steer: Label) {
        self.copy_from_packet(a, None, IP, IPV6_LEN);
        a.load(Byte, R1, R10, IP + 7);
        a.jump_if(Below, R1, 2, self.next);
        let [source, destination] = self.places();
        self.copy_address(a, IP + 8, source, Double, 2);
        self.copy_address(a, IP + 24, destination, Double, 2);
        a.store_number(Word, R10, KEY_FAMILY, 6);
        a.set(R7, IPV6_LEN);
        a.load(Byte, R1, R10, IP + 6);
        a.jump_if(Equal, R1, i32::from(protocol::TCP), tcp);
        a.jump_if(Equal, R1, i32::from(protocol::UDP), self.datagram);
        // What comes behind extension headers the engine finds out: such packets are rare.
        for extension in IPV6_EXTENSIONS {
            a.jump_if(Equal, R1, extension, steer);
        }
        a.jump_if(Differs, R1, i32::from(protocol::ICMPV6), self.other);
        self.copy_from_packet(a, Some(R7), TCP + 8, ICMP_PREFIX_LEN);
        a.load(Byte, R1, R10, TCP + 8);
        self.find_reply(a, ICMPV6_ECHO_REPLY, steer);
        a.jump_if(AtLeast, R1, ICMPV6_FIRST_INFORMATIONAL, self.other);
        a.jump(steer);
    }

    /// Steers replies to the engine's echo requests. R1 has the ICMP type, and keeps it.
    fn find_reply(&self, a: &mut Assembler, reply: i32, steer: Label) {
        if self.spec.from == Port::Mobile && self.spec.counts_datagrams {
            let is_other = a.label();
            a.jump_if(Differs, R1, reply, is_other);
            a.load(Half, R2, R10, TCP + 8 + ICMP_IDENTIFIER);
            a.jump_if(Equal, R2, from_network(engine::ECHO_IDENTIFIER), steer);
            a.place(is_other);
        }
    }

    /// Leaves datagrams to the kernel that have no long header of QUIC. R7 is where the UDP header begins.
    fn is_long_header(&self, a: &mut Assembler) {
        // The version stands at a place where a word may be.
        const FIRST: i16 = TCP + 11;
        self.copy_from_packet(a, Some(R7), FIRST - UDP_LEN, i32::from(UDP_LEN) + 1 + 4);
        // UDP has no ports here, as on the other side.
        a.store_number(Word, R10, TCP, 0);
        let is_known = a.label();
        a.load(Byte, R1, R10, FIRST);
        a.load(Word, R2, R10, FIRST + 1);
        a.calculate(And, R1, LONG_HEADER);
        a.jump_if(Equal, R1, 0, self.next);
        for version in engine::QUIC_VERSIONS {
            a.set_wide(R3, u64::from(version.to_be()));
            a.jump_if_register(Equal, R2, R3, is_known);
        }
        a.jump(self.next);
        a.place(is_known);
    }

    /// Leaves segments of flows in the map to the kernel, and takes flows out of it that begin anew or end.
    fn pass_known(&self, a: &mut Assembler, steer: Label) {
        self.copy_from_packet(a, Some(R7), TCP, TCP_PREFIX_LEN);
        a.load(Word, R1, R10, TCP);
        if self.spec.from == Port::Wired {
            // The client's port first.
            a.copy(R2, R1);
            a.calculate(ShiftRight, R1, 16);
            a.calculate(ShiftLeft, R2, 16);
            a.calculate_with(Or, R1, R2);
        }
        a.store(Word, R10, KEY_PORTS, R1);
        a.load(Byte, R8, R10, TCP + TCP_FLAGS);
        let (look_up, ends, gone, count, counted) = (a.label(), a.label(), a.label(), a.label(), a.label());
        a.copy(R1, R8);
        a.calculate(And, R1, SYN | ACK);
        a.jump_if(Differs, R1, SYN, look_up);
        // The ports are used again: what was said about the old flow does not hold.
        self.forget(a);
        a.set_map_value(R1, self.maps.shared, NO_NEW_FLOWS);
        a.load(Double, R1, R1, 0);
        a.jump_if(Differs, R1, 0, self.next);
        a.jump(steer);
        a.place(look_up);
        self.with_key(a);
        a.call(Helper::MapLookup);
        a.jump_if(Equal, R0, 0, steer);
        a.jump_if(HasAny, R8, FIN | RST, ends);
        a.jump(count);
        // After a reset, or a FIN from both sides, the flow has ended. A stray reset costs a detour, no more.
        a.place(ends);
        a.jump_if(HasAny, R8, RST, gone);
        let own = if self.spec.from == Port::Wired { 1 } else { 2 };
        a.load(Double, R1, R0, 0);
        a.calculate(Or, R1, own);
        a.store(Double, R0, 0, R1);
        a.calculate(And, R1, FINS);
        a.jump_if(Differs, R1, FINS, count);
        a.place(gone);
        self.forget(a);
        a.jump(counted);
        a.place(count);
        self.count_bytes(a);
        a.place(counted);
        let bypassed = a.label();
        self.is_of_scheduled(a, true, bypassed, steer);
        a.place(bypassed);
        self.count(a, BYPASSED_PACKETS);
        a.jump(self.next);
    }

    /// Steers what is to or from a subscriber in the map, and, if it is counted, what is to one that has more than a
    /// trickle of such; the rest is handled at `not`. The key and R8 are overwritten.
    fn is_of_scheduled(&self, a: &mut Assembler, is_counted: bool, not: Label, steer: Label) {
        a.store_number(Double, R10, KEY_SERVER, 0);
        a.store_number(Double, R10, KEY_SERVER + 8, 0);
        a.store_number(Word, R10, KEY_PORTS, 0);
        let is_ipv4 = a.label();
        a.load(Word, R1, R10, KEY_FAMILY);
        a.copy(R2, R1);
        a.calculate(Or, R2, SUBSCRIBER);
        a.store(Word, R10, KEY_FAMILY, R2);
        a.jump_if(Equal, R1, 4, is_ipv4);
        let host_bits = 128 - u32::from(self.spec.ipv6_prefix_len.min(128));
        let mask = u128::MAX.checked_shl(host_bits).unwrap_or(0).to_be_bytes();
        let (halves, _) = mask.as_chunks::<8>();
        for (place, half) in [KEY_CLIENT, KEY_CLIENT + 8].into_iter().zip(halves) {
            a.load(Double, R1, R10, place);
            a.set_wide(R2, u64::from_ne_bytes(*half));
            a.calculate_with(And, R1, R2);
            a.store(Double, R10, place, R1);
        }
        a.place(is_ipv4);
        let absent = a.label();
        self.may_be_in_the_map(a, absent);
        self.with_key(a);
        a.call(Helper::MapLookup);
        a.jump_if(Differs, R0, 0, steer);
        a.place(absent);
        match self.spec.from {
            Port::Wired if is_counted => self.is_more_than_a_trickle(a, not, steer),
            Port::Wired | Port::Mobile => a.jump(not),
        }
    }

    /// Jumps if no subscriber in the map has the [`place`] of the one whose key is on the stack.
    fn may_be_in_the_map(&self, a: &mut Assembler, absent: Label) {
        a.load(Double, R1, R10, KEY_CLIENT);
        a.load(Double, R2, R10, KEY_CLIENT + 8);
        a.calculate_with(ExclusiveOr, R1, R2);
        for bits in [32, 16, 8] {
            a.copy(R2, R1);
            a.calculate(ShiftRight, R2, bits);
            a.calculate_with(ExclusiveOr, R1, R2);
        }
        a.copy(R2, R1);
        a.calculate(And, R1, 63);
        a.calculate(And, R2, 192);
        a.calculate(ShiftRight, R2, 3);
        a.set_map_value(R3, self.maps.shared, PLACES);
        a.calculate_with(Add, R3, R2);
        a.load(Double, R3, R3, 0);
        a.calculate_with(ShiftRight, R3, R1);
        a.calculate(And, R3, 1);
        a.jump_if(Equal, R3, 0, absent);
    }

    /// Counts what is forwarded to the subscriber whose key is on the stack: steers what is more than a trickle.
    fn is_more_than_a_trickle(&self, a: &mut Assembler, not: Label, steer: Label) {
        let (is_new, is_this_second) = (a.label(), a.label());
        a.set_map_value(R1, self.maps.shared, SCHEDULES);
        a.load(Double, R1, R1, 0);
        a.jump_if(Equal, R1, 0, not);
        a.call(Helper::CoarseTime);
        a.copy(R8, R0);
        a.calculate(ShiftRight, R8, SECOND_SHIFT);
        a.calculate(ShiftLeft, R8, 32);
        a.set_map(R1, self.maps.trickles);
        a.point(R2, R10, KEY);
        a.call(Helper::MapLookup);
        a.load(Word, R3, R6, LEN);
        a.jump_if(Equal, R0, 0, is_new);
        a.load(Double, R1, R0, 0);
        a.copy(R2, R1);
        a.calculate(ShiftRight, R2, 32);
        a.calculate(ShiftLeft, R2, 32);
        a.jump_if_register(Equal, R2, R8, is_this_second);
        a.copy(R1, R8);
        a.place(is_this_second);
        // Two processors at once may lose a packet of each other's: no more than that.
        a.calculate_with(Add, R1, R3);
        a.store(Double, R0, 0, R1);
        a.calculate(ShiftLeft, R1, 32);
        a.calculate(ShiftRight, R1, 32);
        a.jump_if(AtLeast, R1, TRICKLE, steer);
        a.jump(not);
        a.place(is_new);
        a.calculate_with(Or, R8, R3);
        a.store(Double, R10, TRICKLE_VALUE, R8);
        a.set_map(R1, self.maps.trickles);
        a.point(R2, R10, KEY);
        a.point(R3, R10, TRICKLE_VALUE);
        a.set(R4, 0);
        a.call(Helper::MapUpdate);
        a.jump(not);
    }

    fn with_key(&self, a: &mut Assembler) {
        a.set_map(R1, self.maps.passed);
        a.point(R2, R10, KEY);
    }

    /// Takes the flow out of the map, if it is in there.
    fn forget(&self, a: &mut Assembler) {
        let absent = a.label();
        self.with_key(a);
        a.call(Helper::MapDelete);
        a.jump_if(Differs, R0, 0, absent);
        self.count(a, ENDED_FLOWS);
        a.place(absent);
    }

    fn count(&self, a: &mut Assembler, what: i32) {
        a.set_map_value(R1, self.maps.shared, self.spec.counters + what);
        a.set(R2, 1);
        a.add_atomically(R1, 0, R2);
    }

    /// Counts the packet's bytes for the reason that stands in the value at R0.
    fn count_bytes(&self, a: &mut Assembler) {
        a.load(Double, R1, R0, 0);
        a.calculate(ShiftRight, R1, REASON_SHIFT);
        a.calculate(And, R1, REASONS as i32 - 1);
        a.calculate(ShiftLeft, R1, 3);
        a.set_map_value(R3, self.maps.shared, self.spec.reasons);
        a.calculate_with(Add, R3, R1);
        a.load(Word, R2, R6, LEN);
        a.add_atomically(R3, 0, R2);
    }

    /// A loop that hangs must not swallow anything (H37).
    fn is_loop_alive(&self, a: &mut Assembler) {
        a.call(Helper::CoarseTime);
        a.set_map_value(R1, self.maps.shared, HEARTBEAT);
        a.load(Double, R1, R1, 0);
        a.set_wide(R2, self.spec.hang_after.as_nanos());
        a.calculate_with(Add, R1, R2);
        a.jump_if_register(Above, R0, R1, self.next);
    }

    /// Asks the kernel's routing whether the packet would be forwarded to the other side.
    ///
    /// Packets are not if they are for this machine itself, have no route, are broadcast or multicast, or
    /// came although forwarding is off.
    fn is_forwarded(&self, a: &mut Assembler) {
        let (way_out, way_in) = (self.spec.leaves_through, self.spec.interface);
        self.ask_routing(a, way_in, false);
        let fits = a.label();
        a.jump_if(Equal, R0, FRAGMENTATION_NEEDED, fits);
        a.jump_if(Differs, R0, 0, self.next);
        a.place(fits);
        a.load(Word, R1, R10, FIB_INTERFACE);
        a.jump_if(Differs, R1, way_out.get().cast_signed(), self.next);
        if self.spec.checks_reverse_path {
            let (is_ipv6, done) = (a.label(), a.label());
            a.jump_if(Equal, R9, from_network(ETHERTYPE_IPV6), is_ipv6);
            self.ask_routing(a, way_out, true);
            a.jump_if(Equal, R0, FRAGMENTATION_NEEDED, done);
            a.jump_if(Differs, R0, 0, self.next);
            a.place(done);
            a.load(Word, R1, R10, FIB_INTERFACE);
            a.jump_if(Differs, R1, way_in.get().cast_signed(), self.next);
            a.place(is_ipv6);
        }
    }

    /// Fills in the question and asks it: where would the packet go that came in through `interface`?
    fn ask_routing(&self, a: &mut Assembler, interface: InterfaceIndex, is_back: bool) {
        let (ipv6, ask) = (a.label(), a.label());
        for place in [FIB, FIB + 8, FIB + 16, FIB + 24, FIB + 32, FIB + 40, FIB + 48, FIB + 56] {
            a.store_number(Double, R10, place, 0);
        }
        a.load(Byte, R1, R10, IP + 9);
        a.store_number(Word, R10, FIB_INTERFACE, interface.get().cast_signed());
        let [source_port, destination_port] = if is_back { [TCP + 2, TCP] } else { [TCP, TCP + 2] };
        a.load(Half, R2, R10, source_port);
        a.store(Half, R10, FIB_SOURCE_PORT, R2);
        a.load(Half, R2, R10, destination_port);
        a.store(Half, R10, FIB_DESTINATION_PORT, R2);
        let [source, destination] =
            if is_back { [FIB_DESTINATION, FIB_SOURCE] } else { [FIB_SOURCE, FIB_DESTINATION] };
        a.jump_if(Equal, R9, from_network(ETHERTYPE_IPV6), ipv6);
        a.store(Byte, R10, FIB_PROTOCOL, R1);
        a.store_number(Byte, R10, FIB_FAMILY, AF_INET);
        a.load(Byte, R1, R10, IP + 1);
        a.store(Byte, R10, FIB_TRAFFIC_CLASS, R1);
        self.copy_address(a, IP + 12, source, Word, 1);
        self.copy_address(a, IP + 16, destination, Word, 1);
        a.jump(ask);
        a.place(ipv6);
        a.load(Byte, R1, R10, IP + 6);
        a.store(Byte, R10, FIB_PROTOCOL, R1);
        a.store_number(Byte, R10, FIB_FAMILY, AF_INET6);
        a.load(Word, R1, R10, IP);
        // Traffic class and flow label, without the version.
        a.calculate(And, R1, 0x0fff_ffffu32.to_be().cast_signed());
        a.store(Word, R10, FIB_TRAFFIC_CLASS, R1);
        self.copy_address(a, IP + 8, source, Double, 2);
        self.copy_address(a, IP + 24, destination, Double, 2);
        a.place(ask);
        a.copy(R1, R6);
        a.point(R2, R10, FIB);
        a.set(R3, FIB_LEN);
        a.set(R4, SKIP_NEIGHBOUR);
        a.call(Helper::FibLookup);
    }
}
