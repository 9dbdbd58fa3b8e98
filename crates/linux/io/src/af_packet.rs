//! Functions that sockets of AF_PACKET have in common.

use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

use crate::IoError;
use crate::netlink::InterfaceIndex;

/// Opens a packet socket of a kind (`SOCK_RAW`, `SOCK_DGRAM`) in the calling thread's namespace,
/// non-blocking, that receives nothing until it is bound.
pub(crate) fn open(kind: libc::c_int) -> Result<OwnedFd, IoError> {
    let kind = kind | libc::SOCK_NONBLOCK | libc::SOCK_CLOEXEC;
    // SAFETY: socket takes integers only; the result is checked before use.
    let fd = unsafe { libc::socket(libc::AF_PACKET, kind, 0) };
    if fd < 0 {
        return Err(last("open a packet socket"));
    }
    // SAFETY: the kernel just created `fd` for us alone.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// The error of the system call before, while doing `what`.
pub(crate) fn last(what: &str) -> IoError {
    let error = io::Error::last_os_error();
    match error.raw_os_error() {
        Some(libc::EPERM) => IoError::NotPrivileged { what: what.to_owned(), capability: "CAP_NET_RAW" },
        _ => IoError::system(what, error),
    }
}

/// Sets an option, whose value the kernel reads as T.
pub(crate) fn set<T>(
    fd: &impl AsRawFd,
    level: libc::c_int,
    option: libc::c_int,
    value: &T,
) -> Result<(), IoError> {
    // SAFETY: the kernel reads `size_of::<T>()` bytes at `value`, which are T's.
    let done = unsafe {
        libc::setsockopt(
            fd.as_raw_fd(),
            level,
            option,
            std::ptr::from_ref(value).cast(),
            size_of::<T>() as libc::socklen_t,
        )
    };
    if done < 0 { Err(last(&format!("set option {option} of a socket"))) } else { Ok(()) }
}

/// Takes the error that the socket has noted and reports until then, if there is one.
pub(crate) fn take_error(fd: &impl AsRawFd) -> io::Result<()> {
    let mut error: libc::c_int = 0;
    get(fd, libc::SOL_SOCKET, libc::SO_ERROR, &mut error)?;
    if error == 0 { Ok(()) } else { Err(io::Error::from_raw_os_error(error)) }
}

/// Packets that found no room since the last call.
pub(crate) fn drops(fd: &impl AsRawFd) -> u64 {
    let mut stats = libc::tpacket_stats { tp_packets: 0, tp_drops: 0 };
    let found = get(fd, libc::SOL_PACKET, libc::PACKET_STATISTICS, &mut stats);
    if found.is_ok() { u64::from(stats.tp_drops) } else { 0 }
}

/// Reads an option, whose value is a T of integers.
pub(crate) fn get<T>(
    fd: &impl AsRawFd,
    level: libc::c_int,
    option: libc::c_int,
    value: &mut T,
) -> io::Result<()> {
    let mut len = size_of::<T>() as libc::socklen_t;
    // SAFETY: the kernel writes at most `len` bytes to `value`, which has as many.
    let done = unsafe {
        libc::getsockopt(fd.as_raw_fd(), level, option, std::ptr::from_mut(value).cast(), &raw mut len)
    };
    if done < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// Has everything that passes an interface received from here on.
pub(crate) fn bind(fd: &impl AsRawFd, index: InterfaceIndex) -> Result<(), IoError> {
    let number = index.get();
    bind_to(fd, number.cast_signed(), || format!("open interface number {number} for reading packets"))
}

/// Has what passes any interface received from here on.
pub(crate) fn bind_everywhere(fd: &OwnedFd) -> Result<(), IoError> {
    bind_to(fd, 0, || "open all interfaces for reading packets".to_owned())
}

fn bind_to(fd: &impl AsRawFd, index: libc::c_int, what: impl FnOnce() -> String) -> Result<(), IoError> {
    let address = address(index);
    // SAFETY: `address` is a sockaddr_ll and its size is given.
    let done = unsafe {
        libc::bind(
            fd.as_raw_fd(),
            (&raw const address).cast(),
            size_of::<libc::sockaddr_ll>() as libc::socklen_t,
        )
    };
    if done < 0 { Err(last(&what())) } else { Ok(()) }
}

/// The number of the interface that a packet socket is bound to; -1 when that is gone.
pub(crate) fn bound_to(fd: &OwnedFd) -> Result<libc::c_int, IoError> {
    let mut address = address(0);
    let mut len = size_of::<libc::sockaddr_ll>() as libc::socklen_t;
    // SAFETY: the kernel writes at most `len` bytes to `address`, which has as many.
    let done = unsafe { libc::getsockname(fd.as_raw_fd(), (&raw mut address).cast(), &raw mut len) };
    let is_one = done == 0 && address.sll_family == libc::AF_PACKET as u16;
    if is_one { Ok(address.sll_ifindex) } else { Err(last("ask a packet socket for its interface")) }
}

/// An address of all protocols of an interface; of all interfaces for zero.
pub(crate) const fn address(index: libc::c_int) -> libc::sockaddr_ll {
    libc::sockaddr_ll {
        sll_family: libc::AF_PACKET as u16,
        sll_protocol: (libc::ETH_P_ALL as u16).to_be(),
        sll_ifindex: index,
        sll_hatype: 0,
        sll_pkttype: 0,
        sll_halen: 0,
        sll_addr: [0; 8],
    }
}

/// Result of a receiving call: a length, or nothing now.
pub(crate) fn received(len: isize, what: impl FnOnce() -> String) -> Result<Option<usize>, IoError> {
    let Ok(len) = usize::try_from(len) else {
        let error = io::Error::last_os_error();
        return match error.kind() {
            io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted => Ok(None),
            _ => Err(IoError::system(what(), error)),
        };
    };
    Ok(Some(len))
}

/// Room for control messages, aligned as they must be.
#[repr(align(8))]
pub(crate) struct Control<const N: usize>(pub [u8; N]);

/// The control message of a level and kind, if a received message has one.
///
/// # Safety
/// `message` was filled by recvmsg with a live control buffer, and T is what the kernel sends under
/// that kind.
pub(crate) unsafe fn control_message<T: Copy>(
    message: &libc::msghdr,
    level: libc::c_int,
    kind: libc::c_int,
) -> Option<T> {
    // SAFETY: the control pointer and length describe live, aligned memory with well-formed control
    // messages, which the CMSG functions walk; the caller answers for T.
    unsafe {
        let mut header = libc::CMSG_FIRSTHDR(message);
        loop {
            let current = header.as_ref()?;
            if current.cmsg_level == level && current.cmsg_type == kind {
                return Some(libc::CMSG_DATA(header).cast::<T>().read_unaligned());
            }
            header = libc::CMSG_NXTHDR(message, header);
        }
    }
}
