//! [`Tun`]: a network device of layer 3, or of layer 2, whose other end is this process.

use std::fs::{File, OpenOptions};
use std::io;
use std::ops::Deref;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::os::unix::fs::OpenOptionsExt;

use crate::bpf::Program;
use crate::netlink::{InterfaceIndex, LinkChange, LinkStats, Netlink};
use crate::{IoError, sysctl};

/// Length of the virtio header in front of every packet of a device with GSO.
pub const VNET_HEADER_LEN: usize = 10;

/// The virtio header in front of a packet, as the kernel reads and writes it (`struct virtio_net_hdr`):
/// flags, gso_type, then hdr_len, gso_size, csum_start, csum_offset as 16-bit numbers in host order.
pub type VnetHeader = [u8; VNET_HEADER_LEN];

/// Largest IP packet a device hands over in one piece.
pub const PACKET_LEN_MAX: usize = 65_535;

/// Form of a device's packets as this process sees them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Framing {
    /// Packets alone, each with its checksums.
    Bare,
    /// A virtio header before each packet; the kernel hands over nothing undone, but may be handed it.
    Header,
    /// The same, with super-packets and partial checksums both ways.
    SuperPackets,
}

/// Settings for making a [`Tun`].
#[derive(Clone, Debug)]
pub struct TunConfig {
    /// Name of 1 to 15 characters, or a template such as `cellw%d` that the kernel completes.
    pub name: String,
    /// Largest packet on the wire, 1,280 to 65,535 bytes.
    pub mtu: u32,
    /// Packets the kernel holds for us before it drops. A bare echo lost 600 segments in 3 s with
    /// 1,000, none with 10,000.
    pub queue_len_packets: u32,
    /// Form of the packets.
    pub framing: Framing,
    /// Further queues can be opened ([`Tun::open_queue`]).
    pub multi_queue: bool,
    /// Frames with Ethernet headers go in and out, as by a card (TAP), and not packets.
    pub has_frames: bool,
}

impl Default for TunConfig {
    fn default() -> Self {
        Self {
            name: "cell%d".to_owned(),
            mtu: 1_500,
            queue_len_packets: 10_000,
            framing: Framing::SuperPackets,
            multi_queue: false,
            has_frames: false,
        }
    }
}

/// Work that the kernel may hand us undone, as accepted by the device.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Offloads {
    /// Partial TCP and UDP checksums.
    pub checksum: bool,
    /// TCP super-packets over IPv4 and IPv6.
    pub tcp: bool,
    /// UDP super-packets over IPv4 and IPv6 (Linux 6.2 and later).
    pub udp: bool,
}

/// A TUN device in the namespace where it was made, with its first queue; it vanishes, with its
/// routes, when its last queue is dropped.
#[derive(Debug)]
pub struct Tun {
    queue: TunQueue,
    index: InterfaceIndex,
    offloads: Offloads,
    netlink: Netlink,
    has_frames: bool,
}

/// Below IPv6's least MTU of 1,280 (RFC 8200 §5).
const MTU_WITHOUT_IPV6: u32 = 1_000;

/// `_IOR('T', 224, int)` of Linux's `if_tun.h`.
const TUNSETSTEERINGEBPF: libc::Ioctl = 0x8004_54e0_u32 as _;

const TUN_F_CSUM: libc::c_uint = 0x01;
const TUN_F_TSO4: libc::c_uint = 0x02;
const TUN_F_TSO6: libc::c_uint = 0x04;
const TUN_F_USO4: libc::c_uint = 0x20;
const TUN_F_USO6: libc::c_uint = 0x40;

impl Tun {
    /// Makes the device, not yet up, in the calling thread's network namespace.
    ///
    /// Nothing but routed packets enters one without frames: automatic link-local addresses and multicast are off. The
    /// device has no receive timestamps: the kernel offers them for sockets only ([`crate::PacketSocket`]).
    ///
    /// # Errors
    /// When the name is taken or too long, `/dev/net/tun` is missing, or the privilege is.
    pub fn create(config: &TunConfig) -> Result<Self, IoError> {
        let file = open_control()?;
        let has_vnet_header = config.framing != Framing::Bare;
        // Without the last flag, a device with several queues that is there already would get one more.
        let flags = flags_of(config, has_vnet_header) | libc::IFF_TUN_EXCL;
        let name = attach(&file, &config.name, flags)?;
        let offloads = match config.framing {
            Framing::SuperPackets => set_offloads(&file, &name)?,
            // A device that is made has none.
            Framing::Bare | Framing::Header => Offloads::default(),
        };
        let netlink = Netlink::open()?;
        let index = netlink.index_of(&name)?;
        let queue_len_packets = Some(config.queue_len_packets);
        let change = LinkChange { mtu: Some(config.mtu), queue_len_packets, ..LinkChange::default() };
        if config.has_frames {
            netlink.change_link(index, &change)?;
        } else {
            change_quietly(&netlink, index, &name, &change)?;
        }
        let queue = TunQueue { file, name, has_vnet_header };
        Ok(Self { queue, index, offloads, netlink, has_frames: config.has_frames })
    }

    /// Opens one more queue of a device made with `multi_queue`. Which packets come out of it is
    /// the kernel's choice, by a hash of addresses and ports, unless a program is set to choose.
    ///
    /// # Errors
    /// When the device has no further queues, or too many (256).
    pub fn open_queue(&self) -> Result<TunQueue, IoError> {
        let file = open_control()?;
        let has_vnet_header = self.queue.has_vnet_header;
        let config = TunConfig { multi_queue: true, has_frames: self.has_frames, ..TunConfig::default() };
        attach(&file, self.name(), flags_of(&config, has_vnet_header))?;
        Ok(TunQueue { file, name: self.name().to_owned(), has_vnet_header })
    }

    /// Has `program` choose the queue of each packet that the kernel hands over: what it returns,
    /// modulo the number of queues, counts them in the order in which they were opened. It works as
    /// long as the device is there.
    ///
    /// # Errors
    /// When the kernel is too old (before Linux 4.16), or the program is of another kind.
    pub fn set_queue_chooser(&self, program: &Program) -> Result<(), IoError> {
        let fd = program.as_fd().as_raw_fd();
        // SAFETY: TUNSETSTEERINGEBPF reads one int, which `fd` is for the duration of the call.
        let done = unsafe { libc::ioctl(self.as_fd().as_raw_fd(), TUNSETSTEERINGEBPF, &raw const fd) };
        if done < 0 {
            return Err(IoError::last(format!("have a BPF program choose the queues of '{}'", self.name())));
        }
        Ok(())
    }

    /// The first queue alone; the device lives as long as that or another one.
    #[must_use]
    pub fn into_queue(self) -> TunQueue {
        self.queue
    }

    /// The device's number in its namespace.
    #[must_use]
    pub fn index(&self) -> InterfaceIndex {
        self.index
    }

    /// Work that the kernel may hand us undone.
    #[must_use]
    pub fn offloads(&self) -> Offloads {
        self.offloads
    }

    /// Brings the device up.
    ///
    /// # Errors
    /// When the device is gone.
    pub fn set_up(&self) -> Result<(), IoError> {
        self.netlink.set_up(self.index)
    }

    /// Sets the largest packet on the wire.
    ///
    /// # Errors
    /// When the size is out of range or the device is gone.
    pub fn set_mtu(&self, mtu: u32) -> Result<(), IoError> {
        self.netlink.change_link(self.index, &LinkChange { mtu: Some(mtu), ..LinkChange::default() })
    }

    /// The kernel's counters. `tx_dropped` counts packets lost because our queue was full.
    ///
    /// # Errors
    /// When the device is gone.
    pub fn stats(&self) -> Result<LinkStats, IoError> {
        Ok(self.netlink.link_by_index(self.index)?.stats)
    }

    /// Netlink in the device's namespace, from any thread.
    #[must_use]
    pub fn netlink(&self) -> &Netlink {
        &self.netlink
    }
}

impl Deref for Tun {
    type Target = TunQueue;

    fn deref(&self) -> &TunQueue {
        &self.queue
    }
}

impl AsFd for Tun {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.queue.as_fd()
    }
}

/// Makes a change of a device through which the kernel is to send nothing of its own accord.
fn change_quietly(
    netlink: &Netlink,
    index: InterfaceIndex,
    name: &str,
    change: &LinkChange,
) -> Result<(), IoError> {
    // A router's interface joins IPv6 multicast groups and says so into the device. Without the multicast
    // flag it does not, but the groups were joined when the device was made: below IPv6's least MTU it
    // forgets them all.
    let quiet = LinkChange { multicast: Some(false), mtu: Some(MTU_WITHOUT_IPV6), ..LinkChange::default() };
    netlink.change_link(index, &quiet)?;
    netlink.change_link(index, change)?;
    // No automatic link-local address: nothing but routed packets shall enter the device. Without IPv6 there
    // is no such setting.
    match sysctl::write_here(&format!("net/ipv6/conf/{name}/addr_gen_mode"), "1") {
        Err(error) if !error.is_not_there() => Err(error),
        _ => Ok(()),
    }
}

/// Opens `/dev/net/tun`, non-blocking, closed on exec.
fn open_control() -> Result<File, IoError> {
    OpenOptions::new()
        .read(true)
        .write(true)
        .custom_flags(libc::O_NONBLOCK | libc::O_CLOEXEC)
        .open("/dev/net/tun")
        .map_err(|error| match error.kind() {
            io::ErrorKind::NotFound => IoError::Missing {
                what: "/dev/net/tun".to_owned(),
                remedy: "load the driver with `modprobe tun`".to_owned(),
            },
            // Of the file alone, so far: no capability helps but that to pass over every file's mode.
            io::ErrorKind::PermissionDenied => IoError::Missing {
                what: "the right to read and write /dev/net/tun".to_owned(),
                remedy: "`chmod 666 /dev/net/tun`, as udev does, or run as root".to_owned(),
            },
            _ => IoError::system("open /dev/net/tun", error),
        })
}

fn flags_of(config: &TunConfig, vnet_header: bool) -> libc::c_int {
    let kind = if config.has_frames { libc::IFF_TAP } else { libc::IFF_TUN };
    let header = if vnet_header { libc::IFF_VNET_HDR } else { 0 };
    let queues = if config.multi_queue { libc::IFF_MULTI_QUEUE } else { 0 };
    kind | libc::IFF_NO_PI | header | queues
}

/// Makes the device, or another queue of it, and gives the name the kernel chose.
fn attach(file: &File, wanted: &str, flags: libc::c_int) -> Result<String, IoError> {
    let name = wanted.as_bytes();
    if name.is_empty() || name.len() >= libc::IFNAMSIZ || name.contains(&0) || name.contains(&b'/') {
        return Err(IoError::Invalid {
            what: format!("interface name '{wanted}'"),
            why: "1 to 15 characters without '/' are allowed".to_owned(),
        });
    }
    // SAFETY: ifreq is integers, pointers and arrays, for which all zero bytes are a valid value.
    let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
    for (to, from) in request.ifr_name.iter_mut().zip(name) {
        // Signed on x86-64, unsigned on arm64.
        *to = libc::c_char::from_ne_bytes([*from]);
    }
    request.ifr_ifru.ifru_flags = flags as libc::c_short;
    // SAFETY: TUNSETIFF reads and writes one ifreq, which `request` is for the duration of the call.
    let done = unsafe { libc::ioctl(file.as_raw_fd(), libc::TUNSETIFF, &raw mut request) };
    if done < 0 {
        let error = io::Error::last_os_error();
        return Err(match error.raw_os_error() {
            Some(libc::EPERM) => IoError::NotPrivileged {
                what: format!("create the TUN device '{wanted}'"),
                capability: "CAP_NET_ADMIN",
            },
            _ => IoError::system(format!("create the TUN device '{wanted}'"), error),
        });
    }
    let chosen: Vec<u8> =
        request.ifr_name.iter().take_while(|c| **c != 0).flat_map(|c| c.to_ne_bytes()).collect();
    Ok(String::from_utf8_lossy(&chosen).into_owned())
}

/// Asks for all offloads, then without UDP for kernels before 6.2.
fn set_offloads(file: &File, name: &str) -> Result<Offloads, IoError> {
    let tcp = TUN_F_CSUM | TUN_F_TSO4 | TUN_F_TSO6;
    let attempts = [
        (tcp | TUN_F_USO4 | TUN_F_USO6, Offloads { checksum: true, tcp: true, udp: true }),
        (tcp, Offloads { checksum: true, tcp: true, udp: false }),
    ];
    for (bits, offloads) in attempts {
        // SAFETY: TUNSETOFFLOAD takes its argument by value.
        let done = unsafe { libc::ioctl(file.as_raw_fd(), libc::TUNSETOFFLOAD, libc::c_ulong::from(bits)) };
        if done == 0 {
            return Ok(offloads);
        }
    }
    Err(IoError::last(format!("enable super-packets on '{name}'")))
}

mod queue;

pub use queue::{PIECES_MAX, TunQueue};

#[cfg(test)]
mod tests;
