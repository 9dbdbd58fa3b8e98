//! [`datagram`]: from a captured frame to its innermost UDP datagram.

use wire::{Ip, Transport, Udp};

use crate::decode::{Skip, innermost};
use crate::link::LinkType;

/// The innermost UDP datagram of a frame.
#[derive(Clone, Copy, Debug)]
pub struct Datagram {
    /// Its IP header.
    pub ip: Ip,
    /// Its UDP header; `payload_len` is what the IP header says, whatever the capture kept.
    pub udp: Udp,
    /// True when another IP packet or a tunnel was around it.
    pub is_tunnelled: bool,
    /// Offset of its IP header in the frame.
    pub ip_at: usize,
}

impl Datagram {
    /// Bytes of the payload that the capture kept.
    ///
    /// `frame` is the frame that it was found in. May be shorter than `udp.payload_len`, and empty.
    #[must_use]
    pub fn payload<'a>(&self, frame: &'a [u8]) -> &'a [u8] {
        self.udp.payload(frame.get(self.ip_at..).unwrap_or_default())
    }
}

/// Finds the innermost UDP datagram of `frame`, which was `wire_len` bytes long on the wire.
///
/// A datagram on a tunnel's port is one only if no header of that tunnel is in it.
///
/// # Errors
/// There is none, with the reason: [`Skip::NotTcp`] for another protocol, TCP included.
pub fn datagram(link: LinkType, frame: &[u8], wire_len: u32) -> Result<Datagram, Skip> {
    let found = innermost(link, frame, wire_len as usize)?;
    match found.packet.transport {
        Transport::Udp(udp) => {
            Ok(Datagram { ip: found.packet.ip, udp, is_tunnelled: found.is_tunnelled, ip_at: found.at })
        }
        Transport::Fragment => Err(Skip::Fragment),
        Transport::Truncated => Err(Skip::Cut),
        _ => Err(Skip::NotTcp),
    }
}
