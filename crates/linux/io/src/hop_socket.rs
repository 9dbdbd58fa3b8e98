//! [`HopSocket`]: UDP that goes a set number of hops, and what routers say of it.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};

use socket2::{Domain, Protocol, SockAddr, Socket, Type};
use units::Instant;

use crate::af_packet::{self, control_message};
use crate::error::Context;
use crate::{Clock, IoError};

/// `SO_EE_ORIGIN_ICMP` and `SO_EE_ORIGIN_ICMP6`.
const ORIGINS: [u8; 2] = [2, 3];
/// ICMP's "time exceeded", and ICMPv6's.
const EXCEEDED: [u8; 2] = [11, 3];

/// A UDP socket whose datagrams live for a set number of hops (no root is needed: `IP_RECVERR`).
#[derive(Debug)]
pub struct HopSocket {
    socket: Socket,
}

/// Answer that came to a [`HopSocket`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HopAnswer {
    /// The router that speaks by ICMP; none for a datagram of the destination.
    pub router: Option<IpAddr>,
    /// True where a router says that a datagram ran out of hops.
    pub is_exceeded: bool,
    /// Bytes in the buffer: of the answer, or as much of the datagram's own payload as the router gave back.
    pub len: usize,
    /// Time when the kernel received it.
    pub at: Instant,
}

/// `struct sock_extended_err` with an address behind it.
#[derive(Clone, Copy)]
#[repr(C)]
struct Extended {
    errno: u32,
    origin: u8,
    kind: u8,
    code: u8,
    pad: u8,
    info: u32,
    data: u32,
    offender: Offender,
}

/// The beginning of `sockaddr_in`: family, port, address.
#[derive(Clone, Copy)]
#[repr(C)]
struct Offender {
    family: u16,
    port: u16,
    v4: [u8; 4],
    /// Of a `sockaddr_in6` the address, behind the flow label at the place of `v4`.
    v6: [u8; 16],
}

/// Room for an error with an IPv6 address, and a timestamp.
#[repr(align(8))]
struct Control([u8; 256]);

impl HopSocket {
    /// Opens a socket towards `to`, non-blocking, for datagrams that live for `hops`.
    ///
    /// # Errors
    /// When no descriptor is left, or there is no way to `to`.
    pub fn towards(to: SocketAddr, hops: u8) -> Result<Self, IoError> {
        let what = || format!("open a UDP socket for {hops} hops towards {to}");
        let socket = Socket::new(Domain::for_address(to), Type::DGRAM, Some(Protocol::UDP)).doing(what)?;
        socket.set_nonblocking(true).doing(what)?;
        let on: libc::c_int = 1;
        af_packet::set(&socket, libc::SOL_SOCKET, libc::SO_TIMESTAMPNS, &on)?;
        if to.is_ipv4() {
            socket.set_ttl_v4(hops.into()).doing(what)?;
            af_packet::set(&socket, libc::IPPROTO_IP, libc::IP_RECVERR, &on)?;
        } else {
            socket.set_unicast_hops_v6(hops.into()).doing(what)?;
            af_packet::set(&socket, libc::IPPROTO_IPV6, libc::IPV6_RECVERR, &on)?;
        }
        socket.connect(&SockAddr::from(to)).doing(what)?;
        Ok(Self { socket })
    }

    /// Sends `bytes`; false when the system does not take them now.
    pub fn send(&self, bytes: &[u8]) -> bool {
        // An error of an earlier datagram is told first, and once: what it is says the queue of errors.
        self.socket.send(bytes).is_ok() || self.socket.send(bytes).is_ok()
    }

    /// Receives the next answer; none when there is nothing now.
    pub fn recv(&self, buffer: &mut [u8]) -> Option<HopAnswer> {
        self.take(buffer, libc::MSG_ERRQUEUE).or_else(|| self.take(buffer, 0))
    }

    fn take(&self, buffer: &mut [u8], flags: libc::c_int) -> Option<HopAnswer> {
        let mut iov = libc::iovec { iov_base: buffer.as_mut_ptr().cast(), iov_len: buffer.len() };
        let mut control = Control([0; 256]);
        // SAFETY: msghdr is integers and pointers, for which all zero bytes are a valid value.
        let mut message: libc::msghdr = unsafe { std::mem::zeroed() };
        message.msg_iov = &raw mut iov;
        message.msg_iovlen = 1;
        message.msg_control = control.0.as_mut_ptr().cast();
        message.msg_controllen = control.0.len() as _;
        // SAFETY: every pointer in `message` points to live memory of the length given beside it.
        let count =
            unsafe { libc::recvmsg(self.socket.as_raw_fd(), &raw mut message, flags | libc::MSG_DONTWAIT) };
        let Ok(len) = usize::try_from(count) else {
            // An error that is pending is not the answer: that stands in the queue of errors.
            let error = io::Error::last_os_error();
            let is_empty = matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted);
            return if is_empty || flags != 0 { None } else { self.take(buffer, libc::MSG_ERRQUEUE) };
        };
        // SAFETY: `message` was filled by recvmsg and its control buffer lives; the kernel sends a timespec under
        // this kind.
        let stamp: Option<libc::timespec> =
            unsafe { control_message(&message, libc::SOL_SOCKET, libc::SCM_TIMESTAMPNS) };
        // SAFETY: the same; the kernel sends an extended error with the address of who reports it, which is no
        // shorter than IPv4's; the control buffer has room behind it for all of `Extended`.
        let error: Option<Extended> = unsafe {
            control_message(&message, libc::IPPROTO_IP, libc::IP_RECVERR)
                .or_else(|| control_message(&message, libc::IPPROTO_IPV6, libc::IPV6_RECVERR))
        };
        let wall = stamp.and_then(|ts| {
            let seconds = u64::try_from(ts.tv_sec).ok()?.checked_mul(1_000_000_000)?;
            seconds.checked_add(u64::try_from(ts.tv_nsec).ok()?)
        });
        let error = error.filter(|error| ORIGINS.contains(&error.origin));
        Some(HopAnswer {
            router: error.and_then(|error| error.offender.address()),
            is_exceeded: error.is_some_and(|error| EXCEEDED.contains(&error.kind) && error.code == 0),
            len: len.min(buffer.len()),
            at: wall.map_or_else(Clock::now, Clock::from_wall_nanos),
        })
    }
}

impl Offender {
    fn address(&self) -> Option<IpAddr> {
        match i32::from(self.family) {
            libc::AF_INET => Some(Ipv4Addr::from(self.v4).into()),
            libc::AF_INET6 => Some(IpAddr::from(Ipv6Addr::from(self.v6)).to_canonical()),
            _ => None,
        }
    }
}

impl AsFd for HopSocket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use units::Duration;

    use super::*;
    use crate::{DatagramSocket, Interest, Waiter};

    fn wait(socket: &HopSocket) {
        let mut waiter = Waiter::new(Duration::ZERO).unwrap();
        waiter.add(socket, Interest::Read, 0).unwrap();
        let _ = waiter.wait(Some(Clock::now() + Duration::from_secs(5))).unwrap();
    }

    #[test]
    fn answers_of_the_destination_and_of_its_host_are_told_apart() {
        for host in ["127.0.0.1:0", "[::1]:0"] {
            let server = DatagramSocket::bind(host.parse().unwrap()).unwrap();
            let to = server.local_address().unwrap();
            let socket = HopSocket::towards(to, 1).unwrap();
            let mut buffer = [0; 64];
            assert!(socket.send(b"hello") && socket.recv(&mut buffer).is_none());
            let mut waiter = Waiter::new(Duration::ZERO).unwrap();
            waiter.add(&server, Interest::Read, 0).unwrap();
            assert!(!waiter.wait(Some(Clock::now() + Duration::from_secs(5))).unwrap().is_empty());
            let from = server.recv(&mut buffer).unwrap().unwrap().from;
            server.send_to(b"back", from).unwrap();
            wait(&socket);
            let answer = socket.recv(&mut buffer).unwrap();
            assert_eq!((answer.router, answer.len, &buffer[..4]), (None, 4, &b"back"[..]));
            drop(server);
            // Nobody listens there any more: the host itself says so, with what was sent.
            assert!(socket.send(b"again"));
            wait(&socket);
            let answer = socket.recv(&mut buffer).unwrap();
            assert_eq!((answer.router, answer.is_exceeded), (Some(to.ip()), false));
            assert_eq!(&buffer[..answer.len], b"again");
        }
    }
}
