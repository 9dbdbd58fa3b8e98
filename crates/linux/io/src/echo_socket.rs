//! [`EchoSocket`]: ICMP echo through one interface.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::fd::{AsFd, BorrowedFd};

use socket2::{Domain, Protocol, SockAddr, Socket, Type};

use crate::IoError;
use crate::error::Context;

const ECHO_REQUEST: [u8; 2] = [8, 128];
const ECHO_REPLY: [u8; 2] = [0, 129];
const HEADER_LEN: usize = 8;

/// ICMP echo through one interface (`SO_BINDTODEVICE`).
#[derive(Debug)]
pub struct EchoSocket {
    socket: Socket,
    is_ipv6: bool,
    identifier: u16,
}

impl EchoSocket {
    /// Opens one; `identifier` tells its echoes from others'.
    ///
    /// # Errors
    /// Without CAP_NET_RAW, or when there is no such interface.
    pub fn open(interface: &str, is_ipv6: bool, identifier: u16) -> Result<Self, IoError> {
        let what = || format!("open an ICMP socket at the interface '{interface}'");
        let (domain, protocol) =
            if is_ipv6 { (Domain::IPV6, Protocol::ICMPV6) } else { (Domain::IPV4, Protocol::ICMPV4) };
        let socket = Socket::new(domain, Type::RAW, Some(protocol)).doing(what)?;
        socket.set_nonblocking(true).doing(what)?;
        socket.bind_device(Some(interface.as_bytes())).doing(what)?;
        Ok(Self { socket, is_ipv6, identifier })
    }

    /// Uses `address` as source.
    ///
    /// # Errors
    /// When it is not of this machine.
    pub fn bind(&self, address: IpAddr) -> Result<(), IoError> {
        let at = SockAddr::from(SocketAddr::new(address, 0));
        self.socket.bind(&at).doing(|| format!("bind an ICMP socket to {address}"))
    }

    /// Sends an echo request with eight bytes of the sender's own; false when the kernel does not take it.
    #[must_use]
    pub fn send(&self, to: IpAddr, sequence: u16, content: u64) -> bool {
        let kind = ECHO_REQUEST[usize::from(self.is_ipv6)];
        let mut packet = [0_u8; HEADER_LEN + 8];
        packet[0] = kind;
        packet[4..6].copy_from_slice(&self.identifier.to_be_bytes());
        packet[6..8].copy_from_slice(&sequence.to_be_bytes());
        packet[8..].copy_from_slice(&content.to_be_bytes());
        if !self.is_ipv6 {
            // The kernel computes that of ICMPv6.
            let sum =
                packet.chunks_exact(2).map(|c| u32::from(u16::from_be_bytes([c[0], c[1]]))).sum::<u32>();
            let sum = (sum & 0xffff) + (sum >> 16);
            let sum = !(((sum & 0xffff) + (sum >> 16)) as u16);
            packet[2..4].copy_from_slice(&sum.to_be_bytes());
        }
        self.socket.send_to(&packet, &SockAddr::from(SocketAddr::new(to, 0))).is_ok()
    }

    /// Content of the next reply to one of ours; none when there is none now.
    #[must_use]
    pub fn recv(&self) -> Option<u64> {
        loop {
            let mut buffer = [std::mem::MaybeUninit::<u8>::uninit(); 128];
            let (len, _) = self.socket.recv_from(&mut buffer).ok()?;
            // SAFETY: the kernel has written the first `len` bytes.
            let packet: Vec<u8> = buffer[..len].iter().map(|byte| unsafe { byte.assume_init() }).collect();
            let header = if self.is_ipv6 { 0 } else { usize::from(packet.first().unwrap_or(&0) & 0x0f) * 4 };
            let Some(icmp) = packet.get(header..) else { continue };
            let is_reply = icmp.first() == Some(&ECHO_REPLY[usize::from(self.is_ipv6)]);
            let is_own = icmp.get(4..6) == Some(&self.identifier.to_be_bytes());
            let content = icmp.get(8..16).and_then(|b| b.try_into().ok()).map(u64::from_be_bytes);
            if is_reply && is_own && content.is_some() {
                return content;
            }
        }
    }

    /// The unspecified address of its family.
    #[must_use]
    pub fn anywhere(&self) -> IpAddr {
        if self.is_ipv6 { Ipv6Addr::UNSPECIFIED.into() } else { Ipv4Addr::UNSPECIFIED.into() }
    }
}

impl AsFd for EchoSocket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use units::Duration;

    use super::*;
    use crate::{Clock, Host, Interest, Waiter};

    #[test]
    fn an_echo_comes_back_with_its_content() {
        // In a namespace of its own, so that the loopback is there and up whatever the machine has.
        let Ok(namespace) = Host::create(&format!("cellecho-{}", std::process::id())) else { return };
        let netlink = namespace.netlink().unwrap();
        netlink.set_up(netlink.index_of("lo").unwrap()).unwrap();
        let content = namespace.run(|| {
            let socket = EchoSocket::open("lo", false, 77).unwrap();
            assert!(socket.send(Ipv4Addr::LOCALHOST.into(), 1, 4711));
            let mut waiter = Waiter::new(Duration::ZERO).unwrap();
            waiter.add(&socket, Interest::Read, 0).unwrap();
            waiter.wait(Some(Clock::now() + Duration::from_secs(2))).unwrap();
            (socket.recv(), socket.recv())
        });
        assert_eq!(content.unwrap(), (Some(4711), None));
    }
}
