//! [`Medium`]: how the ends of flows are heard and spoken to, once the process between them is gone.

use engine::Port;
use io::netlink::Netlink;
use io::{FrameSocket, Interest, IoError, PacketSocket, RawSocket, VNET_HEADER_LEN, Waiter};
use wire::TcpHeaderSpec;

use super::End;
use crate::config::Config;
use crate::inline::frame::{self, ETHERNET_LEN};
use crate::inline::link_headers::LinkHeader;
use crate::record::Record;

/// Longest part of a packet that is looked at: IPv6, TCP and options, and room for extension headers.
const HEADERS_LEN_MAX: usize = 256;

/// Passage of flows.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Passage<'a> {
    /// Through the kernel's routing, under their own addresses at the mobile interface (NAT is on the wired side). The
    /// wired one is empty where an older program has not written it down.
    Routed { wired: &'a str, mobile: &'a str },
    /// From one interface to the other, frame by frame, whoever bridges now: wired, mobile.
    Bridged { interfaces: [&'a str; 2] },
}

impl<'a> Passage<'a> {
    /// Passage of the flows of an instance with these settings.
    pub fn of(config: &'a Config) -> Self {
        match config.inline {
            Some(_) => Self::Bridged { interfaces: [&config.wired, &config.mobile] },
            None => Self::Routed { wired: &config.wired, mobile: &config.mobile },
        }
    }

    /// Passage of the flows of the instance that has written `record`.
    pub fn of_record(record: &'a Record) -> Self {
        if record.is_inline {
            Self::Bridged { interfaces: [&record.wired, &record.mobile] }
        } else {
            Self::Routed { wired: &record.wired, mobile: &record.mobile }
        }
    }
}

/// Sockets for a [`Passage`].
pub(super) enum Medium {
    Routed {
        /// Taps on packets that come in and go out: at the wired interface, at the mobile one.
        taps: [Option<PacketSocket>; 2],
        sender: RawSocket,
        /// Tap that is heard next.
        turn: Port,
    },
    Bridged {
        sockets: [FrameSocket; 2],
        /// Socket that is heard next.
        turn: Port,
    },
}

/// A packet that was heard.
pub(super) struct Heard<'a> {
    /// From its IP header on; its end may be missing.
    pub packet: &'a [u8],
    /// At which interface.
    pub side: Port,
    /// It leaves through that: the dead process may have sent it, and it has waited in the interface's queue since.
    pub is_outgoing: bool,
    /// Header in front of packets to the host it is for, where frames are bridged.
    pub link: Option<LinkHeader>,
}

/// Room for what is heard.
pub(super) type Buffer = [u8; ETHERNET_LEN + HEADERS_LEN_MAX];

pub(super) const fn buffer() -> Buffer {
    [0; ETHERNET_LEN + HEADERS_LEN_MAX]
}

impl Medium {
    pub fn open(passage: Passage<'_>, netlink: &Netlink) -> Result<Self, IoError> {
        Ok(match passage {
            Passage::Routed { wired, mobile } => {
                let open = |name: &str| PacketSocket::open(netlink.index_of(name)?);
                let wired = Some(wired).filter(|wired| !wired.is_empty()).map(open).transpose()?;
                let taps = [wired, Some(open(mobile)?)];
                Self::Routed { taps, sender: RawSocket::open()?, turn: Port::Wired }
            }
            Passage::Bridged { interfaces: [wired, mobile] } => {
                let open = |name: &str| FrameSocket::open(netlink.index_of(name)?, name);
                Self::Bridged { sockets: [open(wired)?, open(mobile)?], turn: Port::Wired }
            }
        })
    }

    pub fn watch(&self, waiter: &Waiter) -> Result<(), IoError> {
        match self {
            Self::Routed { taps, .. } => {
                taps.iter().flatten().try_for_each(|tap| waiter.add(tap, Interest::Read, 0))
            }
            Self::Bridged { sockets, .. } => {
                sockets.iter().try_for_each(|socket| waiter.add(socket, Interest::Read, 0))
            }
        }
    }

    /// The next packet, if there is one now.
    pub fn hear<'a>(&mut self, buffer: &'a mut Buffer) -> Result<Option<Heard<'a>>, IoError> {
        match self {
            Self::Routed { taps, turn, .. } => {
                for _ in Port::BOTH {
                    let side = std::mem::replace(turn, turn.opposite());
                    let received = taps[side.index()].as_ref().map(|tap| tap.recv(buffer)).transpose()?;
                    if let Some(received) = received.flatten() {
                        let packet = &buffer[..received.len];
                        let is_outgoing = received.is_outgoing;
                        return Ok(Some(Heard { packet, side, is_outgoing, link: None }));
                    }
                }
                Ok(None)
            }
            Self::Bridged { sockets, turn } => {
                let mut virtio = [0; VNET_HEADER_LEN];
                for _ in Port::BOTH {
                    let side = std::mem::replace(turn, turn.opposite());
                    let socket = &sockets[side.index()];
                    if let Some(received) = socket.recv(&mut virtio, buffer)? {
                        let frame = buffer.get(..received.len).unwrap_or_default();
                        // What is no IP is nothing that was waited for.
                        let found = frame::split(frame, received.tag);
                        let (link, packet) =
                            found.map_or((None, &[][..]), |(link, packet)| (Some(link), packet));
                        return Ok(Some(Heard { packet, side, is_outgoing: false, link }));
                    }
                }
                Ok(None)
            }
        }
    }

    /// Sends a segment to `to`. What does not go out is sent again with the next question.
    pub fn send(&self, to: &End, spec: &TcpHeaderSpec) {
        let mut packet = [0; TcpHeaderSpec::MAX_LEN];
        let Ok(header) = spec.emit(&mut packet, &[]) else { return };
        match self {
            Self::Routed { sender, .. } => drop(sender.send(&packet[..header.len], spec.dst.ip())),
            Self::Bridged { sockets, .. } => {
                // Of a flow whose frames nobody has seen nothing can be said.
                let Some(link) = to.link else { return };
                let kind = frame::kind_of(spec.dst.is_ipv4());
                let pieces = [&link.addresses[..], &kind, &packet[..header.len], &[]];
                drop(frame::write(&sockets[to.side.index()], [0; VNET_HEADER_LEN], link.tag, pieces));
            }
        }
    }
}
