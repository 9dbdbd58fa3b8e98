//! [`Fallback`]: a bridge of the kernel's that takes over when this process dies or hangs.
//!
//! ```text
//!   frame ─▶ BPF program: is it passed in any case? ─ yes ─────▶ kernel bridge ─▶ other interface
//!                         has the heart beaten? ───── no ──────▶ the same
//!                                                     yes ─────▶ dropped: our socket has a copy
//! ```
//!
//! Both interfaces are ports of the bridge all the time, behind a program that lets nothing through
//! to it of which this process has a copy. The program goes with the last process that has it, however that ends, and lets
//! everything through when the heartbeat stays away: nobody has to notice anything first.
//!
//! Datagrams and other packets to a host, of which this process wants to know nothing, are the bridge's in any case, and a
//! filter keeps them from the sockets: the kernel passes them faster. Program and filter have the same condition, so no
//! frame goes both ways, and none goes neither way.

use std::os::fd::{AsFd, OwnedFd};
use std::sync::atomic::Ordering;

use engine::Port;
use io::bpf::Condition::{Above, Differs, Equal};
use io::bpf::Operation::Add;
use io::bpf::Register::{R0, R1, R2, R3, R4, R5, R6, R10};
use io::bpf::Width::{Byte, Double, Word};
use io::bpf::{Assembler, Attachment, Helper, Instruction, Label, Program, SharedArray};
use io::netlink::{InterfaceIndex, Netlink};
use io::{Clock, FrameSocket, IoError, sysctl};
use units::Duration;
use wire::protocol;

use crate::lasting::LastingPrograms;
use crate::steering::program::{
    CLOCK_BEHIND_MAX, ETHERTYPE_IPV4, ETHERTYPE_IPV6, FROM_NETWORK_HEADER, HEARTBEAT_WORD, PKT_TYPE,
    PROTOCOL, VLAN_PRESENT, from_network,
};

/// `TCX_NEXT`, `TCX_DROP`.
const NEXT: i32 = -1;
const DROP: i32 = 2;

/// `PACKET_OTHERHOST`: to one host, which is not this machine.
const OTHER_HOST: i32 = 3;

/// The whole frame, as the length that a filter lets through.
const WHOLE: i32 = -1;

/// Place below R10 for the number of the packet's protocol, and its offsets from the network header.
const IP_PROTOCOL: i16 = -8;
const IPV4_PROTOCOL: i32 = 9;
const IPV6_NEXT_HEADER: i32 = 6;

/// Protocols that may follow IPv6's header at once, and are neither TCP nor ICMPv6: UDP, GRE, ESP, SCTP.
const IPV6_PASSED: [u8; 4] = [protocol::UDP, 47, 50, 132];

/// Name of the program, and of the filter of the sockets.
pub(super) const NAME: &str = "cellerator_inl";
const FILTER_NAME: &str = "cellerator_inlf";

/// The bridge, and what keeps frames from it.
#[derive(Debug)]
pub(super) struct Fallback {
    bridge: InterfaceIndex,
    heartbeat: SharedArray,
    hang_after: Duration,
    attached: [Attachment; 2],
}

impl Fallback {
    /// Makes the bridge `name` between two interfaces, where `sockets` are, with the heart beating.
    pub fn install(
        name: &str,
        interfaces: [InterfaceIndex; 2],
        sockets: &[FrameSocket; 2],
        hang_after: Duration,
        netlink: &Netlink,
    ) -> Result<Self, IoError> {
        let heartbeat = SharedArray::create("cell_inline", 1 + HEARTBEAT_WORD)?;
        let program = load(&heartbeat, hang_after)?;
        beat(&heartbeat);
        // First the programs: no frame is to go both ways.
        let attached = [program.attach(interfaces[0])?, program.attach(interfaces[1])?];
        netlink.create_bridge(name)?;
        let bridge = netlink.index_of(name)?;
        let fallback = Self { bridge, heartbeat, hang_after, attached };
        let connect = || {
            // It is a cable and no host: without this it would ask for an IPv6 router on both sides.
            match sysctl::write_here(&format!("net/ipv6/conf/{name}/disable_ipv6"), "1") {
                Err(error) if !error.is_not_there() => return Err(error),
                _ => {}
            }
            netlink.set_up(bridge)?;
            interfaces.iter().try_for_each(|interface| netlink.set_bridge(*interface, bridge))?;
            // Last: until the bridge has both interfaces, the sockets have all frames.
            sockets.iter().try_for_each(Self::filter)
        };
        match connect() {
            Ok(()) => Ok(fallback),
            Err(error) => {
                fallback.remove(netlink)?;
                Err(error)
            }
        }
    }

    /// Keeps from a socket what the bridge passes in any case. Frames that come between a program's attachment and this
    /// may go both ways.
    ///
    /// # Errors
    /// When the kernel refuses the filter.
    pub fn filter(socket: &FrameSocket) -> Result<(), IoError> {
        socket.set_filter(&Program::load_filter(FILTER_NAME, &assemble_filter()?)?)
    }

    /// The bridge `bridge` of another process with its heartbeat, and the `links` of its program: that one's
    /// until [`Fallback::own`]. None where the program is not at two interfaces.
    pub fn inherit(
        bridge: InterfaceIndex,
        heartbeat: SharedArray,
        hang_after: Duration,
        links: Vec<OwnedFd>,
    ) -> Option<Self> {
        let attached: [OwnedFd; 2] = links.try_into().ok()?;
        Some(Self { bridge, heartbeat, hang_after, attached: attached.map(Attachment::adopt) })
    }

    /// Takes ownership of what was inherited.
    pub fn own(&mut self) {
        self.attached.iter_mut().for_each(Attachment::own);
    }

    /// Leaves bridge and program at work for another process.
    pub fn leave(self) {
        self.attached.into_iter().for_each(Attachment::leave);
    }

    /// Resources that have to last for the program to go on.
    pub fn lasting(&self) -> LastingPrograms<'_> {
        LastingPrograms {
            links: self.attached.iter().map(AsFd::as_fd).collect(),
            passed: None,
            shared: (self.heartbeat.as_fd(), self.heartbeat.words().len()),
        }
    }

    /// True when the kernel's bridge has had frames since the packet loop has shown that it is alive, but for the few
    /// milliseconds by which the program's clock is behind.
    pub fn has_bridged(&self) -> bool {
        let word = self.heartbeat.words().get(HEARTBEAT_WORD);
        let last = word.map_or(0, |word| word.load(Ordering::Relaxed));
        Clock::now().as_nanos().saturating_sub(last) + CLOCK_BEHIND_MAX.as_nanos()
            >= self.hang_after.as_nanos()
    }

    /// The packet loop is alive.
    pub fn beat(&self) {
        beat(&self.heartbeat);
    }

    /// Takes in the interface of a side that was made anew.
    pub fn rejoin(
        &mut self,
        side: Port,
        interface: InterfaceIndex,
        netlink: &Netlink,
    ) -> Result<(), IoError> {
        // First the program: no frame is to go both ways.
        self.attached[side.index()] = load(&self.heartbeat, self.hang_after)?.attach(interface)?;
        netlink.set_bridge(interface, self.bridge)
    }

    /// Takes the bridge away; both interfaces stay as they are.
    pub fn remove(self, netlink: &Netlink) -> Result<(), IoError> {
        match netlink.delete_link(self.bridge) {
            Err(error) if !error.is_not_there() => Err(error),
            _ => Ok(()),
        }
    }
}

fn beat(heartbeat: &SharedArray) {
    if let Some(word) = heartbeat.words().get(HEARTBEAT_WORD) {
        word.store(Clock::now().as_nanos(), Ordering::Relaxed);
    }
}

fn load(heartbeat: &SharedArray, hang_after: Duration) -> Result<Program, IoError> {
    Program::load(NAME, &assemble(heartbeat, hang_after)?)
}

fn assemble(heartbeat: &SharedArray, hang_after: Duration) -> Result<Vec<Instruction>, IoError> {
    let mut a = Assembler::new();
    let (next, ours) = (a.label(), a.label());
    find_passed(&mut a, ours);
    a.jump(next);
    a.place(ours);
    a.call(Helper::CoarseTime);
    a.set_map_value(R1, heartbeat, (HEARTBEAT_WORD * size_of::<u64>()) as i32);
    a.load(Double, R1, R1, 0);
    a.set_wide(R2, hang_after.as_nanos());
    a.calculate_with(Add, R1, R2);
    a.jump_if_register(Above, R0, R1, next);
    a.set(R0, DROP);
    a.exit();
    a.place(next);
    a.set(R0, NEXT);
    a.exit();
    a.finish()
}

fn assemble_filter() -> Result<Vec<Instruction>, IoError> {
    let mut a = Assembler::new();
    let ours = a.label();
    find_passed(&mut a, ours);
    a.set(R0, 0);
    a.exit();
    a.place(ours);
    a.set(R0, WHOLE);
    a.exit();
    a.finish()
}

/// Goes on behind this for what the bridge passes in any case, and at `ours` for everything else. R1 is the frame, and
/// goes to R6.
fn find_passed(a: &mut Assembler, ours: Label) {
    let (ipv4, passed) = (a.label(), a.label());
    a.copy(R6, R1);
    // What all hosts get, and what is for this machine, comes to the sockets as ever.
    a.load(Word, R1, R6, PKT_TYPE);
    a.jump_if(Differs, R1, OTHER_HOST, ours);
    // An interface for that VLAN on this machine would have it in the bridge's place.
    a.load(Word, R1, R6, VLAN_PRESENT);
    a.jump_if(Differs, R1, 0, ours);
    a.load(Word, R1, R6, PROTOCOL);
    a.jump_if(Equal, R1, from_network(ETHERTYPE_IPV4), ipv4);
    a.jump_if(Differs, R1, from_network(ETHERTYPE_IPV6), ours);
    load_protocol(a, IPV6_NEXT_HEADER, ours);
    for number in IPV6_PASSED {
        a.jump_if(Equal, R1, i32::from(number), passed);
    }
    a.jump(ours);
    a.place(ipv4);
    load_protocol(a, IPV4_PROTOCOL, ours);
    a.jump_if(Equal, R1, i32::from(protocol::TCP), ours);
    a.jump_if(Equal, R1, i32::from(protocol::ICMP), ours);
    a.place(passed);
}

/// Loads the byte at an offset from the network header into R1.
fn load_protocol(a: &mut Assembler, offset: i32, ours: Label) {
    a.copy(R1, R6);
    a.set(R2, offset);
    a.point(R3, R10, IP_PROTOCOL);
    a.set(R4, 1);
    a.set(R5, FROM_NETWORK_HEADER);
    a.call(Helper::LoadBytesRelative);
    a.jump_if(Differs, R0, 0, ours);
    a.load(Byte, R1, R10, IP_PROTOCOL);
}
