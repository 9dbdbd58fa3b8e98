//! [`DatagramSocket`]: UDP with the time at which the kernel received each datagram.

use std::cell::Cell;
use std::io;
use std::net::{IpAddr, SocketAddr, SocketAddrV6};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};

use socket2::{Domain, Protocol, SockAddr, Socket, Type};
use units::Instant;

use crate::af_packet::{self, Control};
use crate::error::Context;
use crate::{Clock, IoError};

/// Room asked for, each way; the kernel gives at most `net.core.rmem_max` and `wmem_max` to who is not
/// root.
const BUFFER: usize = 8 << 20;

/// A UDP socket that is not connected, so that it outlives a change of this machine's address.
///
/// Receive timestamps (`SO_TIMESTAMPNS`) are taken by the kernel when the packet comes in, so they do not
/// contain our own waiting time. What ICMP says of datagrams sent is reported by the next call
/// (`IP_RECVERR`).
#[derive(Debug)]
pub struct DatagramSocket {
    socket: Socket,
    is_ipv6: bool,
    overflowed: Cell<u32>,
}

/// A datagram's circumstances.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReceivedDatagram {
    /// Bytes it had; more than the buffer when that was too short.
    pub len: usize,
    /// From whom; IPv4 as IPv4, also on a socket for both.
    pub from: SocketAddr,
    /// The address of this machine that it was sent to; none where the kernel does not tell.
    pub to: Option<IpAddr>,
    /// Time when the kernel received it, on [`Clock`]'s scale.
    pub at: Instant,
    /// Datagrams that the kernel has dropped at this socket for want of room since the last one that was
    /// received.
    pub overflowed: u32,
}

impl DatagramSocket {
    /// Opens a socket at `at`, non-blocking; `[::]` takes IPv4 too.
    ///
    /// # Errors
    /// When the address is not of this machine, or is taken.
    pub fn bind(at: SocketAddr) -> Result<Self, IoError> {
        let what = || format!("open a UDP socket at {at}");
        let socket = Socket::new(Domain::for_address(at), Type::DGRAM, Some(Protocol::UDP)).doing(what)?;
        if at.is_ipv6() {
            socket.set_only_v6(false).doing(what)?;
        }
        socket.set_nonblocking(true).doing(what)?;
        // More room is better, and less still works.
        let _ = socket.set_recv_buffer_size(BUFFER);
        let _ = socket.set_send_buffer_size(BUFFER);
        for (option, name) in [(libc::SO_RCVBUFFORCE, BUFFER), (libc::SO_SNDBUFFORCE, BUFFER)] {
            let room = libc::c_int::try_from(name).unwrap_or(libc::c_int::MAX);
            let _ = af_packet::set(&socket, libc::SOL_SOCKET, option, &room);
        }
        let on: libc::c_int = 1;
        af_packet::set(&socket, libc::SOL_SOCKET, libc::SO_TIMESTAMPNS, &on)?;
        af_packet::set(&socket, libc::SOL_SOCKET, libc::SO_RXQ_OVFL, &on)?;
        if at.is_ipv6() {
            af_packet::set(&socket, libc::IPPROTO_IPV6, libc::IPV6_RECVERR, &on)?;
        }
        // On a socket for both families it is needed for IPv4 too, and refused by one for IPv6 only.
        let _ = af_packet::set(&socket, libc::IPPROTO_IP, libc::IP_RECVERR, &on);
        // One for both families tells addresses of IPv4 as IPv6, too (`ipv6(7)`).
        match at.is_ipv6() {
            true => af_packet::set(&socket, libc::IPPROTO_IPV6, libc::IPV6_RECVPKTINFO, &on)?,
            false => af_packet::set(&socket, libc::IPPROTO_IP, libc::IP_PKTINFO, &on)?,
        }
        socket.bind(&SockAddr::from(at)).doing(what)?;
        Ok(Self { socket, is_ipv6: at.is_ipv6(), overflowed: Cell::new(0) })
    }

    /// Has everything leave and come through one interface, whatever the routes say (`SO_BINDTODEVICE`).
    ///
    /// # Errors
    /// When there is no such interface.
    pub fn bind_to_device(&self, name: &str) -> Result<(), IoError> {
        let bound = self.socket.bind_device(Some(name.as_bytes()));
        bound.doing(|| format!("bind a UDP socket to the interface '{name}'"))
    }

    /// Address to which it is bound.
    ///
    /// # Errors
    /// Never for a socket that was opened.
    pub fn local_address(&self) -> Result<SocketAddr, IoError> {
        let what = || "ask a UDP socket for its address".to_owned();
        let address = self.socket.local_addr().doing(what)?;
        address.as_socket().ok_or_else(|| IoError::system(what(), io::ErrorKind::InvalidData.into()))
    }

    /// Sends `bytes` to `to`.
    ///
    /// # Errors
    /// Error of the system for it, or for an earlier one: no room, no route, nobody listens.
    pub fn send_to(&self, bytes: &[u8], to: SocketAddr) -> Result<(), IoError> {
        let address = SockAddr::from(self.of_its_family(to));
        let sent = self.socket.send_to(bytes, &address).doing(|| format!("send to {to}"));
        sent.map(drop).inspect_err(|_| self.forget_errors())
    }

    /// Sends `bytes` to `to` from this address of the machine, which need not be the one that the routes say:
    /// whoever has asked another one believes no answer from that (RFC 1122 §4.1.3.5).
    ///
    /// # Errors
    /// As of [`DatagramSocket::send_to`]; the address is not of this machine (any more).
    pub fn send_from(&self, bytes: &[u8], to: SocketAddr, from: IpAddr) -> Result<(), IoError> {
        let address = SockAddr::from(self.of_its_family(to));
        let mut iov = libc::iovec { iov_base: bytes.as_ptr().cast_mut().cast(), iov_len: bytes.len() };
        let mut control = Control([0; 64]);
        // SAFETY: msghdr is integers and pointers, for which all zero bytes are a valid value.
        let mut message: libc::msghdr = unsafe { std::mem::zeroed() };
        message.msg_name = address.as_ptr().cast_mut().cast();
        message.msg_namelen = address.len();
        message.msg_iov = &raw mut iov;
        message.msg_iovlen = 1;
        message.msg_control = control.0.as_mut_ptr().cast();
        message.msg_controllen = control.0.len() as _;
        let len = match (self.is_ipv6, from.to_canonical()) {
            (false, IpAddr::V4(v4)) => {
                let info = libc::in_pktinfo {
                    ipi_ifindex: 0,
                    ipi_spec_dst: libc::in_addr { s_addr: u32::from_ne_bytes(v4.octets()) },
                    ipi_addr: libc::in_addr { s_addr: 0 },
                };
                put_control(&message, libc::IPPROTO_IP, libc::IP_PKTINFO, &info)
            }
            (true, from) => {
                let v6 = match from {
                    IpAddr::V4(v4) => v4.to_ipv6_mapped(),
                    IpAddr::V6(v6) => v6,
                };
                let info = libc::in6_pktinfo {
                    ipi6_addr: libc::in6_addr { s6_addr: v6.octets() },
                    // Of a link-local destination its own scope says it.
                    ipi6_ifindex: 0,
                };
                put_control(&message, libc::IPPROTO_IPV6, libc::IPV6_PKTINFO, &info)
            }
            (false, IpAddr::V6(_)) => return self.send_to(bytes, to),
        };
        message.msg_controllen = len as _;
        // SAFETY: every pointer in `message` points to live memory of the length given beside it; the kernel only
        // reads it.
        let sent = unsafe { libc::sendmsg(self.socket.as_raw_fd(), &raw const message, 0) };
        match sent {
            0.. => Ok(()),
            _ => {
                let error = io::Error::last_os_error();
                self.forget_errors();
                Err(error).doing(|| format!("send to {to} from {from}"))
            }
        }
    }

    /// The same address as this socket takes it: one for both families takes IPv4 as IPv6.
    fn of_its_family(&self, to: SocketAddr) -> SocketAddr {
        match to {
            SocketAddr::V4(v4) if self.is_ipv6 => SocketAddr::from((v4.ip().to_ipv6_mapped(), v4.port())),
            to => to,
        }
    }

    /// Receives one datagram; `None` when there is none now.
    ///
    /// # Errors
    /// ICMP error for a datagram sent: nobody listens there, no route.
    pub fn recv(&self, buffer: &mut [u8]) -> Result<Option<ReceivedDatagram>, IoError> {
        let what = || "receive from a UDP socket".to_owned();
        let mut iov = libc::iovec { iov_base: buffer.as_mut_ptr().cast(), iov_len: buffer.len() };
        let mut control = Control([0; 128]);
        // SAFETY: msghdr is integers and pointers, for which all zero bytes are a valid value.
        let mut message: libc::msghdr = unsafe { std::mem::zeroed() };
        message.msg_iov = &raw mut iov;
        message.msg_iovlen = 1;
        message.msg_control = control.0.as_mut_ptr().cast();
        message.msg_controllen = control.0.len() as _;
        // SAFETY: the closure tells the length that the kernel wrote to the storage it was given, and every
        // pointer in `message` points to live memory of the length given beside it.
        let received = unsafe {
            SockAddr::try_init(|storage, len| {
                message.msg_name = storage.cast();
                message.msg_namelen = *len;
                let count = libc::recvmsg(self.socket.as_raw_fd(), &raw mut message, libc::MSG_TRUNC);
                *len = message.msg_namelen;
                usize::try_from(count).map_err(|_| io::Error::last_os_error())
            })
        };
        let (len, from) = match received {
            Ok(received) => received,
            Err(error) if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted) => {
                return Ok(None);
            }
            Err(error) => {
                self.forget_errors();
                return Err(error).doing(what);
            }
        };
        let Some(from) = from.as_socket() else { return Ok(None) };
        // SAFETY: `message` was filled by recvmsg and its control buffer lives; the kernel sends a timespec
        // and a count under these kinds.
        let (stamp, overflows): (Option<libc::timespec>, Option<u32>) = unsafe {
            (
                af_packet::control_message(&message, libc::SOL_SOCKET, libc::SCM_TIMESTAMPNS),
                af_packet::control_message(&message, libc::SOL_SOCKET, libc::SO_RXQ_OVFL),
            )
        };
        // SAFETY: the same; under these kinds the kernel sends the addresses of a packet.
        let (v4, v6): (Option<libc::in_pktinfo>, Option<libc::in6_pktinfo>) = unsafe {
            (
                af_packet::control_message(&message, libc::IPPROTO_IP, libc::IP_PKTINFO),
                af_packet::control_message(&message, libc::IPPROTO_IPV6, libc::IPV6_PKTINFO),
            )
        };
        // Of what was sent to a group the kernel tells the address that this machine would use, or none.
        let v4 = v4.map(|info| IpAddr::from(info.ipi_spec_dst.s_addr.to_ne_bytes()));
        let v6 = v6.map(|info| IpAddr::from(info.ipi6_addr.s6_addr).to_canonical());
        let to = v4.or(v6).filter(|to| !to.is_multicast() && !to.is_unspecified() && !is_broadcast(*to));
        let total = overflows.unwrap_or(self.overflowed.get());
        let overflowed = total.wrapping_sub(self.overflowed.replace(total));
        let wall = stamp.and_then(|ts| {
            let seconds = u64::try_from(ts.tv_sec).ok()?.saturating_mul(1_000_000_000);
            Some(seconds.saturating_add(u64::try_from(ts.tv_nsec).ok()?))
        });
        Ok(Some(ReceivedDatagram {
            len,
            from: canonical(from),
            to,
            at: wall.map_or_else(Clock::now, Clock::from_wall_nanos),
            overflowed,
        }))
    }

    /// Empties the queue of errors, which takes room from that of datagrams.
    fn forget_errors(&self) {
        let mut byte = [0_u8; 1];
        loop {
            // SAFETY: the buffer is one live byte; errors are queued beside the datagrams.
            let len = unsafe {
                libc::recv(
                    self.socket.as_raw_fd(),
                    byte.as_mut_ptr().cast(),
                    byte.len(),
                    libc::MSG_ERRQUEUE | libc::MSG_DONTWAIT,
                )
            };
            if len < 0 {
                return;
            }
        }
    }
}

/// IPv4 as IPv4, and of IPv6 the scope kept: without it a link-local address cannot be answered.
fn canonical(address: SocketAddr) -> SocketAddr {
    match (address, address.ip().to_canonical()) {
        (_, IpAddr::V4(v4)) => SocketAddr::from((v4, address.port())),
        (SocketAddr::V6(v6), IpAddr::V6(ip)) => SocketAddrV6::new(ip, v6.port(), 0, v6.scope_id()).into(),
        (SocketAddr::V4(_), IpAddr::V6(ip)) => SocketAddr::from((ip, address.port())),
    }
}

fn is_broadcast(address: IpAddr) -> bool {
    matches!(address, IpAddr::V4(v4) if v4.is_broadcast())
}

/// Writes a control message as the first of `message`; its length with its header.
fn put_control<T>(message: &libc::msghdr, level: libc::c_int, kind: libc::c_int, value: &T) -> usize {
    let len = size_of::<T>() as libc::c_uint;
    // SAFETY: callers have given `message` a control buffer of 64 bytes that lives and is aligned for a header, which
    // is more than a header and any T written here.
    unsafe {
        let header = libc::CMSG_FIRSTHDR(message);
        (*header).cmsg_level = level;
        (*header).cmsg_type = kind;
        (*header).cmsg_len = libc::CMSG_LEN(len) as _;
        std::ptr::copy_nonoverlapping(std::ptr::from_ref(value), libc::CMSG_DATA(header).cast(), 1);
        libc::CMSG_SPACE(len) as usize
    }
}

impl AsFd for DatagramSocket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use units::Duration;

    use super::*;
    use crate::{Interest, Waiter};

    fn wait(socket: &DatagramSocket) {
        let mut waiter = Waiter::new(Duration::ZERO).unwrap();
        waiter.add(socket, Interest::Read, 0).unwrap();
        assert!(!waiter.wait(Some(Clock::now() + Duration::from_secs(5))).unwrap().is_empty());
    }

    #[test]
    fn datagrams_carry_their_time_and_address_of_both_families() {
        let server = DatagramSocket::bind("[::]:0".parse().unwrap()).unwrap();
        let port = server.local_address().unwrap().port();
        let mut buffer = [0; 4];
        for host in ["127.0.0.1", "::1"] {
            let to: SocketAddr = (host.parse::<std::net::IpAddr>().unwrap(), port).into();
            let any: SocketAddr = if to.is_ipv4() { "0.0.0.0:0" } else { "[::]:0" }.parse().unwrap();
            let client = DatagramSocket::bind(any).unwrap();
            let before = Clock::now();
            client.send_to(b"hello", to).unwrap();
            wait(&server);
            let received = server.recv(&mut buffer).unwrap().unwrap();
            assert_eq!((received.len, &buffer), (5, b"hell"), "longer than the buffer");
            assert_eq!((received.from.ip(), received.overflowed), (to.ip(), 0));
            let slack = Duration::from_millis(50);
            assert!(received.at + slack >= before && received.at <= Clock::now() + slack);
            server.send_to(b"back", received.from).unwrap();
            wait(&client);
            assert_eq!(client.recv(&mut buffer).unwrap().unwrap().from, to);
            assert_eq!(client.recv(&mut buffer).unwrap(), None);
        }
    }

    #[test]
    fn answers_leave_from_the_address_that_was_asked() {
        for (listens, asked) in [
            ("0.0.0.0:0", vec!["127.0.0.1", "127.0.0.5"]),
            ("[::]:0", vec!["127.0.0.1", "127.0.0.5", "::1"]),
            ("[::1]:0", vec!["::1"]),
        ] {
            let server = DatagramSocket::bind(listens.parse().unwrap()).unwrap();
            let port = server.local_address().unwrap().port();
            for host in asked {
                let to: SocketAddr = (host.parse::<IpAddr>().unwrap(), port).into();
                let any: SocketAddr = if to.is_ipv4() { "0.0.0.0:0" } else { "[::]:0" }.parse().unwrap();
                let client = DatagramSocket::bind(any).unwrap();
                client.send_to(b"hello", to).unwrap();
                wait(&server);
                let received = server.recv(&mut [0; 9]).unwrap().unwrap();
                assert_eq!(received.to, Some(to.ip()), "{listens}");
                server.send_from(b"back", received.from, to.ip()).unwrap();
                wait(&client);
                assert_eq!(client.recv(&mut [0; 9]).unwrap().unwrap().from, to, "{listens}");
            }
        }
        let server = DatagramSocket::bind("0.0.0.0:0".parse().unwrap()).unwrap();
        let to = "127.0.0.1:9".parse().unwrap();
        assert!(server.send_from(b"x", to, "192.0.2.1".parse().unwrap()).is_err(), "not of this machine");
    }

    #[test]
    fn a_port_where_nobody_listens_is_named() {
        let gone = DatagramSocket::bind("127.0.0.1:0".parse().unwrap()).unwrap().local_address().unwrap();
        let client = DatagramSocket::bind("0.0.0.0:0".parse().unwrap()).unwrap();
        client.send_to(b"hello", gone).unwrap();
        wait(&client);
        let error = client.recv(&mut [0; 9]).unwrap_err();
        assert_eq!(error.raw_os_error(), Some(libc::ECONNREFUSED));
        assert_eq!(client.recv(&mut [0; 9]).unwrap(), None, "once");
    }

    #[test]
    fn what_has_no_room_is_counted() {
        let server = DatagramSocket::bind("127.0.0.1:0".parse().unwrap()).unwrap();
        server.socket.set_recv_buffer_size(4_096).unwrap();
        let to = server.local_address().unwrap();
        let client = DatagramSocket::bind("127.0.0.1:0".parse().unwrap()).unwrap();
        (0..50).for_each(|_| client.send_to(&[0; 1_000], to).unwrap());
        let (mut came, mut dropped) = (0, 0);
        while let Some(received) = server.recv(&mut [0; 2_000]).unwrap() {
            (came, dropped) = (came + 1, dropped + received.overflowed);
        }
        // The count comes with the next datagram that has room.
        client.send_to(b"x", to).unwrap();
        wait(&server);
        dropped += server.recv(&mut [0; 9]).unwrap().unwrap().overflowed;
        assert!(dropped > 0 && came + dropped == 50, "{came} came, {dropped} dropped");
    }
}
