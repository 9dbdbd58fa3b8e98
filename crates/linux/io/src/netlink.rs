//! [`Netlink`]: links, addresses, routes and policy rules of one network namespace.
//!
//! Requests are synchronous: each returns when the kernel has done it or refused.

mod addresses;
mod attributes;
mod default_routes;
mod diagnosis;
mod disciplines;
mod events;
mod generic;
mod glance;
mod legacy_filter;
mod links;
mod mptcp;
#[doc(hidden)]
pub mod outside;
mod packet_filter;
mod routes;
mod rules;
mod settings;
mod wireless;

use std::fmt;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::str::FromStr;
use std::sync::{Mutex, PoisonError};

use netlink_packet_core::{
    NLM_F_ACK, NLM_F_DUMP, NLM_F_REQUEST, NetlinkHeader, NetlinkMessage, NetlinkPayload,
};
use netlink_packet_route::{AddressFamily, RouteNetlinkMessage};
use netlink_sys::{Socket, SocketAddr, protocols::NETLINK_ROUTE};

pub use addresses::Usable;
pub use default_routes::{DEMOTION, DefaultRoute, Place};
pub use diagnosis::{SocketDiagnosis, SocketIdentity, Subflow};
pub use events::LinkEvents;
pub use glance::Glance;
pub use legacy_filter::legacy_chains;
pub use links::{Link, LinkChange, LinkStats, VethEnd};
pub use mptcp::{
    EndpointFlags, MptcpEndpoint, MptcpEvent, MptcpEventKind, MptcpEvents, MptcpLimits, PathManager,
};
pub use packet_filter::{
    Action, Base, Chain, Decision, Element, Expression, FilterFamily, FilterRule, Hook, HookProgram,
    PacketFilter, Ruleset, Set, look_for_hook_programs,
};
pub use routes::Route;
pub use rules::{Lookup, Rule};
pub(crate) use settings::DeviceSetting;
pub use wireless::Wireless;

use crate::IoError;
use crate::error::Context;

/// The mark this program leaves on its routes and rules (`ip rule` shows it as `proto 206`), so that
/// leftovers are told from what the administrator made.
pub const OWNER_PROTOCOL: u8 = 206;

/// A network interface's number in its namespace.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct InterfaceIndex(u32);

impl InterfaceIndex {
    /// The number as the kernel counts, from 1.
    #[must_use]
    pub const fn get(self) -> u32 {
        self.0
    }
}

/// A routing table's number; 254 is `main`, 255 `local`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Table(pub u32);

impl Table {
    /// The table of ordinary routes.
    pub const MAIN: Self = Self(254);
}

impl fmt::Display for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::MAIN => f.write_str("main"),
            Self(255) => f.write_str("local"),
            Self(253) => f.write_str("default"),
            Self(n) => write!(f, "{n}"),
        }
    }
}

/// An IP version.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Family {
    /// IPv4.
    V4,
    /// IPv6.
    V6,
}

impl Family {
    /// Both, for settings made for each.
    pub const BOTH: [Self; 2] = [Self::V4, Self::V6];

    /// The version of an address.
    #[must_use]
    pub const fn of(address: IpAddr) -> Self {
        match address {
            IpAddr::V4(_) => Self::V4,
            IpAddr::V6(_) => Self::V6,
        }
    }

    const fn to_netlink(self) -> AddressFamily {
        match self {
            Self::V4 => AddressFamily::Inet,
            Self::V6 => AddressFamily::Inet6,
        }
    }
}

impl fmt::Display for Family {
    /// As an option of `ip`: `-4`, `-6`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::V4 => "-4",
            Self::V6 => "-6",
        })
    }
}

/// An address with the length of its network's prefix, or a network: `10.0.0.1/24`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Cidr {
    /// The address; for a network its first address.
    pub address: IpAddr,
    /// Leading bits that name the network, at most 32 or 128.
    pub prefix_len_bits: u8,
}

impl Cidr {
    /// `address` in a network whose prefix has `prefix_len_bits` bits.
    #[must_use]
    pub fn new(address: impl Into<IpAddr>, prefix_len_bits: u8) -> Self {
        Self { address: address.into(), prefix_len_bits }
    }

    /// All addresses of a family.
    #[must_use]
    pub const fn everything(family: Family) -> Self {
        let address = match family {
            Family::V4 => IpAddr::V4(Ipv4Addr::UNSPECIFIED),
            Family::V6 => IpAddr::V6(Ipv6Addr::UNSPECIFIED),
        };
        Self { address, prefix_len_bits: 0 }
    }

    /// The IP version.
    #[must_use]
    pub const fn family(&self) -> Family {
        Family::of(self.address)
    }

    /// The address begins with the network's prefix.
    #[must_use]
    pub fn contains(&self, address: IpAddr) -> bool {
        let bits = |address: IpAddr| match address {
            IpAddr::V4(v4) => u128::from(v4.to_bits()) << 96,
            IpAddr::V6(v6) => v6.to_bits(),
        };
        let rest = 128 - u32::from(self.prefix_len_bits.min(128));
        let differ = bits(self.address) ^ bits(address);
        Family::of(address) == self.family() && differ.checked_shr(rest).unwrap_or(0) == 0
    }
}

impl fmt::Display for Cidr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.address, self.prefix_len_bits)
    }
}

impl FromStr for Cidr {
    type Err = IoError;

    fn from_str(text: &str) -> Result<Self, IoError> {
        let invalid = || IoError::Invalid {
            what: format!("'{text}'"),
            why: "wanted an address with a prefix length, such as 10.0.0.1/24 or fd00::1/64".to_owned(),
        };
        let (address, len) = text.split_once('/').ok_or_else(invalid)?;
        let address: IpAddr = address.parse().map_err(|_| invalid())?;
        let prefix_len_bits: u8 = len.parse().map_err(|_| invalid())?;
        let max = if address.is_ipv4() { 32 } else { 128 };
        if prefix_len_bits > max { Err(invalid()) } else { Ok(Self { address, prefix_len_bits }) }
    }
}

/// A connection to the kernel's routing configuration of one network namespace.
///
/// It stays in the namespace of the thread that opened it, whichever thread uses it.
#[derive(Debug)]
pub struct Netlink {
    /// The socket, and the number of the last request: what is left of the answers to one that
    /// failed has another.
    socket: Mutex<(Socket, u32)>,
}

impl Netlink {
    /// Connects, in the calling thread's namespace.
    ///
    /// # Errors
    /// When the system has no netlink socket left to give.
    pub fn open() -> Result<Self, IoError> {
        let connect = || -> io::Result<Socket> {
            let mut socket = Socket::new(NETLINK_ROUTE)?;
            socket.bind_auto()?;
            socket.connect(&SocketAddr::new(0, 0))?;
            // Dumps honour the filters in the request.
            socket.set_netlink_get_strict_chk(true)?;
            Ok(socket)
        };
        let socket = connect().doing(|| "open a netlink socket".to_owned())?;
        Ok(Self { socket: Mutex::new((socket, 0)) })
    }

    /// Has the kernel do `request`; `what` says what, for the error.
    fn change(
        &self,
        request: RouteNetlinkMessage,
        flags: u16,
        what: impl Fn() -> String,
    ) -> Result<(), IoError> {
        self.exchange(request, NLM_F_REQUEST | NLM_F_ACK | flags).map(drop).doing(what)
    }

    /// Asks the kernel for everything that `request` names.
    fn dump(
        &self,
        request: RouteNetlinkMessage,
        what: impl Fn() -> String,
    ) -> Result<Vec<RouteNetlinkMessage>, IoError> {
        self.exchange(request, NLM_F_REQUEST | NLM_F_DUMP).doing(what)
    }

    /// Asks the kernel for the one thing that `request` names.
    fn get(
        &self,
        request: RouteNetlinkMessage,
        what: impl Fn() -> String,
    ) -> Result<Vec<RouteNetlinkMessage>, IoError> {
        self.exchange(request, NLM_F_REQUEST | NLM_F_ACK).doing(what)
    }

    /// Sends one request and collects its answers until the kernel says done or gives its verdict.
    fn exchange(&self, request: RouteNetlinkMessage, flags: u16) -> io::Result<Vec<RouteNetlinkMessage>> {
        let mut guard = self.socket.lock().unwrap_or_else(PoisonError::into_inner);
        let (socket, number) = &mut *guard;
        *number = number.wrapping_add(1);
        let mut header = NetlinkHeader::default();
        header.flags = flags;
        header.sequence_number = *number;
        let mut message = NetlinkMessage::new(header, NetlinkPayload::from(request));
        message.finalize();
        let mut buffer = vec![0; message.buffer_len()];
        message.serialize(&mut buffer);

        uninterrupted(|| socket.send(&buffer, 0))?;
        let mut answers = Vec::new();
        loop {
            let (datagram, _) = uninterrupted(|| socket.recv_from_full())?;
            if take_answers(&datagram, *number, &mut answers)? {
                return Ok(answers);
            }
        }
    }
}

/// Takes the answers to the request with a number out of a datagram; true when there are no more.
///
/// # Errors
/// The kernel's verdict, or that the datagram makes no sense.
fn take_answers(datagram: &[u8], number: u32, answers: &mut Vec<RouteNetlinkMessage>) -> io::Result<bool> {
    let mut rest = datagram;
    while !rest.is_empty() {
        let answer = NetlinkMessage::<RouteNetlinkMessage>::deserialize(rest)
            .map_err(|e| io::Error::new(io::ErrorKind::InvalidData, e.to_string()))?;
        let padded = (answer.header.length as usize).next_multiple_of(4);
        rest = rest.get(padded.max(16)..).unwrap_or_default();
        if answer.header.sequence_number != number {
            continue;
        }
        match answer.payload {
            NetlinkPayload::InnerMessage(inner) => answers.push(inner),
            NetlinkPayload::Done(_) => return Ok(true),
            NetlinkPayload::Error(error) if error.code.is_none() => return Ok(true),
            NetlinkPayload::Error(error) => return Err(error.to_io()),
            _ => {}
        }
    }
    Ok(false)
}

/// Does it again when a signal came in between.
fn uninterrupted<T>(mut call: impl FnMut() -> io::Result<T>) -> io::Result<T> {
    loop {
        match call() {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            result => return result,
        }
    }
}

#[cfg(test)]
mod tests;
