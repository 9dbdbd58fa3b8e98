//! [`RawSocket`]: sends whole IP packets, whatever their source address.

use std::net::{IpAddr, SocketAddr};

use socket2::{Domain, Protocol, SockAddr, Socket, Type};

use crate::IoError;

/// `IPPROTO_RAW`: the IP header is given.
const HEADER_INCLUDED: i32 = 255;

/// A raw socket for each IP version; packets take the route of this machine's own packets.
#[derive(Debug)]
pub struct RawSocket {
    v4: Socket,
    v6: Option<Socket>,
}

impl RawSocket {
    /// Opens the sockets in the calling thread's namespace; a machine without IPv6 has only one.
    ///
    /// # Errors
    /// Without CAP_NET_RAW.
    pub fn open() -> Result<Self, IoError> {
        let open = |domain| {
            let socket = Socket::new(domain, Type::RAW, Some(Protocol::from(HEADER_INCLUDED)))?;
            socket.set_nonblocking(true)?;
            Ok(socket)
        };
        let v4 = open(Domain::IPV4).map_err(|error: std::io::Error| match error.raw_os_error() {
            Some(libc::EPERM) => {
                IoError::NotPrivileged { what: "open a raw socket".to_owned(), capability: "CAP_NET_RAW" }
            }
            _ => IoError::system("open a raw socket", error),
        })?;
        Ok(Self { v4, v6: open(Domain::IPV6).ok() })
    }

    /// Sends `packet`, which begins with its IP header, towards `to`; false when the kernel does
    /// not take it now (no route, a full queue): lost, as on any link.
    #[must_use]
    pub fn send(&self, packet: &[u8], to: IpAddr) -> bool {
        let socket = if to.is_ipv4() { Some(&self.v4) } else { self.v6.as_ref() };
        let to = SockAddr::from(SocketAddr::new(to, 0));
        socket.is_some_and(|socket| socket.send_to(packet, &to).is_ok())
    }
}
