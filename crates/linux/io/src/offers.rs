//! Offers of the kernel, asked without making or changing anything.

use std::fs::OpenOptions;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::path::Path;

use crate::IoError;
use crate::error::Context;

/// The answer to whether something is there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Offer {
    /// This process can use it.
    There,
    /// It is there, and not for this process.
    Forbidden,
    /// The kernel has no such thing.
    Missing,
}

/// Sockets that see every frame of an interface (packet(7)).
#[must_use]
pub fn packet_sockets() -> Offer {
    socket(libc::AF_PACKET, libc::SOCK_RAW, 0)
}

/// Sockets that take frames from a driver past the network stack (`AF_XDP`).
#[must_use]
pub fn xdp_sockets() -> Offer {
    socket(libc::AF_XDP, libc::SOCK_RAW, 0)
}

/// A socket of that kind, opened and closed again.
fn socket(family: libc::c_int, kind: libc::c_int, protocol: libc::c_int) -> Offer {
    // SAFETY: socket(2) takes three integers and no pointers.
    let fd = unsafe { libc::socket(family, kind | libc::SOCK_CLOEXEC, protocol) };
    if fd >= 0 {
        // SAFETY: the kernel has just made this descriptor for us alone; it is closed at once.
        drop(unsafe { OwnedFd::from_raw_fd(fd) });
        return Offer::There;
    }
    match io::Error::last_os_error().raw_os_error() {
        Some(libc::EPERM | libc::EACCES) => Offer::Forbidden,
        _ => Offer::Missing,
    }
}

/// Abilities of the driver of TUN devices.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TunOffer {
    /// Super-packets and partial checksums (`IFF_VNET_HDR`).
    pub super_packets: bool,
    /// Several queues for one device (`IFF_MULTI_QUEUE`).
    pub queues: bool,
}

/// Asks the driver of TUN devices; none where it is not loaded, since opening its device would load it.
///
/// # Errors
/// When the device may not be opened.
pub fn tun() -> Result<Option<TunOffer>, IoError> {
    let control = Path::new("/dev/net/tun");
    if !Path::new("/sys/class/misc/tun").exists() || !control.exists() {
        return Ok(None);
    }
    let file =
        OpenOptions::new().read(true).write(true).open(control).doing(|| "open /dev/net/tun".to_owned())?;
    let mut features: libc::c_uint = 0;
    // SAFETY: TUNGETFEATURES writes one unsigned int, which `features` is.
    let done = unsafe { libc::ioctl(file.as_raw_fd(), TUNGETFEATURES, &raw mut features) };
    if done < 0 {
        return Err(IoError::last("ask /dev/net/tun for its features"));
    }
    let has = |flag: libc::c_int| features & flag.cast_unsigned() != 0;
    Ok(Some(TunOffer { super_packets: has(libc::IFF_VNET_HDR), queues: has(libc::IFF_MULTI_QUEUE) }))
}

/// True when modules of the kernel `release` are installed, and opening the node below `/dev` loads one of them.
#[must_use]
pub fn has_module_for(release: &str, node: &str) -> bool {
    let nodes = std::fs::read_to_string(format!("/lib/modules/{release}/modules.devname"));
    nodes.is_ok_and(|nodes| is_listed(&nodes, node))
}

/// A line of `modules.devname` is `MODULE NODE NUMBERS`.
fn is_listed(nodes: &str, node: &str) -> bool {
    let mut lines = nodes.lines().filter(|line| !line.starts_with('#'));
    lines.any(|line| line.split(' ').nth(1) == Some(node))
}

/// `_IOR('T', 207, unsigned int)` of Linux's `if_tun.h`.
const TUNGETFEATURES: libc::Ioctl = 0x8004_54cf_u32 as _;

/// Work that an interface leaves to its hardware or driver (`ethtool -k`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[allow(missing_docs)] // The names say all.
pub struct LinkOffloads {
    pub receive_checksum: bool,
    pub send_checksum: bool,
    /// TCP segmentation by the hardware.
    pub tcp_segmentation: bool,
    /// Super-packets are segmented late, by the kernel (GSO).
    pub generic_segmentation: bool,
    /// Received segments are merged by the kernel, so that they can be parted again (GRO).
    pub generic_receive: bool,
    /// Received segments are merged by the hardware, for good (LRO).
    pub large_receive: bool,
}

/// Asks for the offloads of the interface called `name` in the calling thread's namespace.
///
/// # Errors
/// When there is no such interface, or its name is too long.
pub fn link_offloads(name: &str) -> Result<LinkOffloads, IoError> {
    // SAFETY: socket(2) takes three integers and no pointers.
    let fd = unsafe { libc::socket(libc::AF_INET, libc::SOCK_DGRAM | libc::SOCK_CLOEXEC, 0) };
    if fd < 0 {
        return Err(IoError::last("open a socket"));
    }
    // SAFETY: the kernel has just made this descriptor for us alone.
    let socket = unsafe { OwnedFd::from_raw_fd(fd) };
    // Numbers of Linux's `ethtool.h`: ETHTOOL_GRXCSUM and so on.
    let ask = |command| ask_link(&socket, name, command);
    Ok(LinkOffloads {
        receive_checksum: ask(0x14)? != 0,
        send_checksum: ask(0x16)? != 0,
        tcp_segmentation: ask(0x1e)? != 0,
        generic_segmentation: ask(0x23)? != 0,
        generic_receive: ask(0x2b)? != 0,
        // ETHTOOL_GFLAGS, ETH_FLAG_LRO.
        large_receive: ask(0x25)? & 1 << 15 != 0,
    })
}

/// `struct ethtool_value`.
#[repr(C)]
struct Value {
    command: u32,
    data: u32,
}

/// Asks for one number; an interface that does not know what is asked has zero.
fn ask_link(socket: &OwnedFd, name: &str, command: u32) -> Result<u32, IoError> {
    if name.is_empty() || name.len() >= libc::IFNAMSIZ {
        return Err(IoError::NoInterface { name: name.to_owned() });
    }
    let mut value = Value { command, data: 0 };
    // SAFETY: ifreq is integers, pointers and arrays, for which all zero bytes are a valid value.
    let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
    for (to, from) in request.ifr_name.iter_mut().zip(name.bytes()) {
        // Signed on x86-64, unsigned on arm64.
        *to = libc::c_char::from_ne_bytes([from]);
    }
    request.ifr_ifru.ifru_data = (&raw mut value).cast();
    // SAFETY: SIOCETHTOOL reads one ifreq and, for these commands, reads and writes the eight bytes that it
    // points to, which are `value`.
    let done = unsafe { libc::ioctl(socket.as_raw_fd(), libc::SIOCETHTOOL as _, &raw mut request) };
    if done < 0 {
        let error = io::Error::last_os_error();
        return match error.raw_os_error() {
            Some(libc::EOPNOTSUPP) => Ok(0),
            Some(libc::ENODEV) => Err(IoError::NoInterface { name: name.to_owned() }),
            _ => Err(IoError::system(format!("ask for the offloads of '{name}'"), error)),
        };
    }
    Ok(value.data)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_socket_is_there_or_not() {
        assert_eq!(socket(libc::AF_INET, libc::SOCK_DGRAM, 0), Offer::There);
        assert_eq!(socket(libc::AF_INET, libc::SOCK_DGRAM, 250), Offer::Missing);
    }

    #[test]
    fn a_node_is_known_by_its_whole_name() {
        let nodes =
            "# Device nodes to trigger on-demand module loading.\ntun net/tun c10:200\nfuse fuse c10:229\n";
        assert!(is_listed(nodes, "net/tun") && is_listed(nodes, "fuse"));
        assert!(
            !is_listed(nodes, "tun") && !is_listed(nodes, "net") && !is_listed(nodes, "Device"),
            "{nodes}"
        );
        assert!(!has_module_for("no such release", "net/tun"));
    }

    #[test]
    fn loopback_has_offloads_and_others_must_be_there() {
        let offloads = link_offloads("lo").unwrap();
        assert!(offloads.generic_segmentation && offloads.tcp_segmentation, "{offloads:?}");
        assert!(link_offloads("no-such-if").unwrap_err().is_not_there());
        assert!(link_offloads("a-name-that-is-too-long").unwrap_err().is_not_there());
    }
}
