//! [`Fallback`]: a bridge of the kernel's that takes over when this process dies or hangs.
//!
//! ```text
//!   frame ─▶ our socket (a copy)
//!         ─▶ BPF program: has the heart beaten? ─ yes ─▶ dropped: the socket has it
//!                                               ─ no ──▶ kernel bridge ─▶ other interface
//! ```
//!
//! Both interfaces are ports of the bridge all the time, behind a program that lets nothing through
//! to it. The program goes with the last process that has it, however that ends, and lets everything
//! through when the heartbeat stays away: nobody has to notice anything first.

use std::os::fd::{AsFd, OwnedFd};
use std::sync::atomic::Ordering;

use engine::Port;
use io::bpf::Condition::Above;
use io::bpf::Operation::Add;
use io::bpf::Register::{R0, R1, R2};
use io::bpf::Width::Double;
use io::bpf::{Assembler, Attachment, Helper, Program, SharedArray};
use io::netlink::{InterfaceIndex, Netlink};
use io::{Clock, IoError, sysctl};
use units::Duration;

use crate::lasting::LastingPrograms;
use crate::steering::program::{CLOCK_BEHIND_MAX, HEARTBEAT_WORD};

/// `TCX_NEXT`, `TCX_DROP`.
const NEXT: i32 = -1;
const DROP: i32 = 2;

/// Name of the program.
pub(super) const NAME: &str = "cellerator_inl";

/// The bridge, and what keeps frames from it.
#[derive(Debug)]
pub(super) struct Fallback {
    bridge: InterfaceIndex,
    heartbeat: SharedArray,
    hang_after: Duration,
    attached: [Attachment; 2],
}

impl Fallback {
    /// Makes the bridge `name` between two interfaces, with the heart beating.
    pub fn install(
        name: &str,
        interfaces: [InterfaceIndex; 2],
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
            interfaces.iter().try_for_each(|interface| netlink.set_bridge(*interface, bridge))
        };
        match connect() {
            Ok(()) => Ok(fallback),
            Err(error) => {
                fallback.remove(netlink)?;
                Err(error)
            }
        }
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

fn assemble(heartbeat: &SharedArray, hang_after: Duration) -> Result<Vec<io::bpf::Instruction>, IoError> {
    let mut a = Assembler::new();
    let next = a.label();
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
