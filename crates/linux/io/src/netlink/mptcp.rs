//! [`PathManager`]: the kernel's MPTCP path manager (`linux/mptcp_pm.h`), its endpoints, limits and events.

use std::net::IpAddr;
use std::os::fd::{AsFd, BorrowedFd};

use super::InterfaceIndex;
use super::attributes::{Attributes, attributes, bytes_of, find, ip_of, u16_of, u32_of};
use super::generic::{GenericEvents, GenericFamily};
use crate::IoError;
use crate::error::Context;

const FAMILY: &str = "mptcp_pm";
const VERSION: u8 = 1;
const EVENTS: &str = "mptcp_pm_events";

const ADD_ADDR: u8 = 1;
const DEL_ADDR: u8 = 2;
const GET_ADDR: u8 = 3;
const SET_LIMITS: u8 = 5;
const GET_LIMITS: u8 = 6;
const SET_FLAGS: u8 = 7;

const ATTR_ADDR: u16 = 1;
const ATTR_RCV_ADD_ADDRS: u16 = 2;
const ATTR_SUBFLOWS: u16 = 3;

const ADDR_FAMILY: u16 = 1;
const ADDR_ID: u16 = 2;
const ADDR_V4: u16 = 3;
const ADDR_V6: u16 = 4;
const ADDR_PORT: u16 = 5;
const ADDR_FLAGS: u16 = 6;
const ADDR_INTERFACE: u16 = 7;

/// Purpose of an endpoint (`MPTCP_PM_ADDR_FLAG_*`).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Hash)]
pub struct EndpointFlags(pub u32);

impl EndpointFlags {
    /// Its address is announced to the peer.
    pub const SIGNAL: Self = Self(1);
    /// Subflows are opened from it.
    pub const SUBFLOW: Self = Self(2);
    /// Its subflows are used when no others are there.
    pub const BACKUP: Self = Self(4);
    /// Subflows are opened from it to every address of the peer.
    pub const FULL_MESH: Self = Self(8);
    /// Made by the kernel itself.
    pub const IMPLICIT: Self = Self(16);

    /// All of `other` is in it.
    #[must_use]
    pub const fn contains(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }

    /// Both.
    #[must_use]
    pub const fn with(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// This without the other.
    #[must_use]
    pub const fn without(self, other: Self) -> Self {
        Self(self.0 & !other.0)
    }
}

/// An address that the path manager knows.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct MptcpEndpoint {
    /// Its number, 1 to 255; zero when it is to be added: the kernel chooses.
    pub id: u8,
    /// The address.
    pub address: IpAddr,
    /// The port, of one that listens; zero otherwise.
    pub port: u16,
    /// The interface to which its subflows are bound.
    pub interface: Option<u32>,
    /// Purpose of the endpoint.
    pub flags: EndpointFlags,
}

/// Numbers of subflows and addresses that the path manager takes per connection, 0 to 8.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct MptcpLimits {
    /// Further subflows.
    pub subflows: u32,
    /// Addresses that the peer announces.
    pub add_addr_accepted: u32,
}

/// The kernel's path manager in one network namespace.
#[derive(Debug)]
pub struct PathManager {
    family: GenericFamily,
}

impl PathManager {
    /// Connects, in the calling thread's namespace.
    ///
    /// # Errors
    /// When this kernel has no MPTCP (`CONFIG_MPTCP`, Linux 5.6 and later).
    pub fn open() -> Result<Self, IoError> {
        let family = GenericFamily::open(FAMILY, VERSION)?;
        family.map(|family| Self { family }).ok_or_else(|| IoError::Missing {
            what: "MPTCP in this kernel".to_owned(),
            remedy: "use a kernel with CONFIG_MPTCP, 5.6 or later".to_owned(),
        })
    }

    /// All endpoints, in the order of their numbers.
    ///
    /// # Errors
    /// When the kernel does not answer.
    pub fn endpoints(&self) -> Result<Vec<MptcpEndpoint>, IoError> {
        let answers = self.family.dump(GET_ADDR, &Attributes::default());
        let answers = answers.doing(|| "list the MPTCP endpoints".to_owned())?;
        let mut all: Vec<MptcpEndpoint> =
            answers.iter().filter_map(|answer| parse_endpoint(answer)).collect();
        all.sort_by_key(|endpoint| endpoint.id);
        Ok(all)
    }

    /// Adds an endpoint: live connections open subflows from it.
    ///
    /// # Errors
    /// When the address is known already, or the privilege is missing.
    pub fn add(&self, endpoint: &MptcpEndpoint) -> Result<(), IoError> {
        let request = Attributes::default().nested(ATTR_ADDR, &of(endpoint));
        self.family
            .change(ADD_ADDR, &request)
            .doing(|| format!("add the MPTCP endpoint {}", endpoint.address))
    }

    /// Removes an endpoint: its subflows are closed, and peers are told over others (REMOVE_ADDR).
    ///
    /// # Errors
    /// When there is none of that number.
    pub fn delete(&self, endpoint: &MptcpEndpoint) -> Result<(), IoError> {
        let request = Attributes::default().nested(ATTR_ADDR, &of(endpoint));
        let what = || format!("remove the MPTCP endpoint {} ({})", endpoint.id, endpoint.address);
        self.family.change(DEL_ADDR, &request).doing(what)
    }

    /// Changes what an endpoint is for: a changed [`EndpointFlags::BACKUP`] is told to peers (MP_PRIO).
    ///
    /// # Errors
    /// When there is none of that number.
    pub fn set_flags(&self, endpoint: &MptcpEndpoint) -> Result<(), IoError> {
        let request = Attributes::default().nested(ATTR_ADDR, &of(endpoint));
        let what = || format!("change the MPTCP endpoint {} ({})", endpoint.id, endpoint.address);
        self.family.change(SET_FLAGS, &request).doing(what)
    }

    /// The limits.
    ///
    /// # Errors
    /// When the kernel does not answer.
    pub fn limits(&self) -> Result<MptcpLimits, IoError> {
        let answers = self.family.get(GET_LIMITS, &Attributes::default());
        let answers = answers.doing(|| "ask for the MPTCP limits".to_owned())?;
        let all = attributes(answers.first().map_or(&[], Vec::as_slice));
        let of = |kind| find(&all, kind).and_then(u32_of).unwrap_or(0);
        Ok(MptcpLimits { subflows: of(ATTR_SUBFLOWS), add_addr_accepted: of(ATTR_RCV_ADD_ADDRS) })
    }

    /// Sets the limits.
    ///
    /// # Errors
    /// Above 8, or without the privilege.
    pub fn set_limits(&self, limits: MptcpLimits) -> Result<(), IoError> {
        let request = Attributes::default()
            .u32(ATTR_RCV_ADD_ADDRS, limits.add_addr_accepted)
            .u32(ATTR_SUBFLOWS, limits.subflows);
        self.family.change(SET_LIMITS, &request).doing(|| "set the MPTCP limits".to_owned())
    }

    /// Hears of connections and subflows from here on.
    ///
    /// # Errors
    /// Without the privilege.
    pub fn events(&self) -> Result<MptcpEvents, IoError> {
        Ok(MptcpEvents { events: self.family.listen(EVENTS)? })
    }
}

fn of(endpoint: &MptcpEndpoint) -> Attributes {
    let (family, kind) = match endpoint.address {
        IpAddr::V4(_) => (libc::AF_INET, ADDR_V4),
        IpAddr::V6(_) => (libc::AF_INET6, ADDR_V6),
    };
    let mut all = Attributes::default()
        .u16(ADDR_FAMILY, u16::try_from(family).unwrap_or(0))
        .bytes(kind, &bytes_of(endpoint.address))
        .u32(ADDR_FLAGS, endpoint.flags.0);
    if endpoint.id > 0 {
        all = all.u8(ADDR_ID, endpoint.id);
    }
    if endpoint.port > 0 {
        // In this message in the order of the host, in events in that of the network.
        all = all.u16(ADDR_PORT, endpoint.port);
    }
    match endpoint.interface {
        Some(index) => all.u32(ADDR_INTERFACE, index),
        None => all,
    }
}

pub(super) fn parse_endpoint(answer: &[u8]) -> Option<MptcpEndpoint> {
    let all = attributes(answer);
    let inside = attributes(find(&all, ATTR_ADDR)?);
    let address = find(&inside, ADDR_V4).or_else(|| find(&inside, ADDR_V6)).and_then(ip_of)?;
    let interface = find(&inside, ADDR_INTERFACE).and_then(u32_of).filter(|index| *index > 0);
    Some(MptcpEndpoint {
        id: find(&inside, ADDR_ID).and_then(|v| v.first().copied()).unwrap_or(0),
        address,
        port: find(&inside, ADDR_PORT).and_then(u16_of).unwrap_or(0),
        interface,
        flags: EndpointFlags(find(&inside, ADDR_FLAGS).and_then(u32_of).unwrap_or(0)),
    })
}

/// Event of a connection or a subflow, as the kernel reports it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct MptcpEvent {
    /// Kind of the event.
    pub kind: MptcpEventKind,
    /// The connection.
    pub token: Option<u32>,
    /// This host's address and port.
    pub local: Option<(IpAddr, u16)>,
    /// The peer's.
    pub remote: Option<(IpAddr, u16)>,
    /// Number of this host's address.
    pub local_id: Option<u8>,
    /// Number of the peer's.
    pub remote_id: Option<u8>,
    /// The subflow is backup.
    pub is_backup: Option<bool>,
    /// Reason why a subflow ended, as `errno`.
    pub error: Option<u8>,
    /// Its interface.
    pub interface: Option<InterfaceIndex>,
}

/// Kinds of events (`MPTCP_EVENT_*`).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[allow(missing_docs)] // The kernel's names.
pub enum MptcpEventKind {
    Created,
    Established,
    Closed,
    Announced,
    Removed,
    SubflowEstablished,
    SubflowClosed,
    SubflowPriority,
    Other(u8),
}

impl MptcpEventKind {
    fn of(command: u8) -> Self {
        match command {
            1 => Self::Created,
            2 => Self::Established,
            3 => Self::Closed,
            6 => Self::Announced,
            7 => Self::Removed,
            10 => Self::SubflowEstablished,
            11 => Self::SubflowClosed,
            13 => Self::SubflowPriority,
            other => Self::Other(other),
        }
    }
}

/// Readable when the kernel has said something.
#[derive(Debug)]
pub struct MptcpEvents {
    events: GenericEvents,
}

impl MptcpEvents {
    /// Events since the last call; true when something was lost for want of room.
    #[must_use]
    pub fn take(&self) -> (Vec<MptcpEvent>, bool) {
        let (said, is_incomplete) = self.events.take();
        (said.into_iter().map(|(command, body)| parse_event(command, &body)).collect(), is_incomplete)
    }
}

impl AsFd for MptcpEvents {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.events.as_fd()
    }
}

pub(super) fn parse_event(command: u8, body: &[u8]) -> MptcpEvent {
    const TOKEN: u16 = 1;
    const LOC_ID: u16 = 3;
    const REM_ID: u16 = 4;
    const SADDR: [u16; 2] = [5, 6];
    const DADDR: [u16; 2] = [7, 8];
    const SPORT: u16 = 9;
    const DPORT: u16 = 10;
    const BACKUP: u16 = 11;
    const ERROR: u16 = 12;
    const IF_IDX: u16 = 15;
    let all = attributes(body);
    let byte = |kind| find(&all, kind).and_then(|v| v.first().copied());
    let end = |address: [u16; 2], port: u16| {
        let ip = address.into_iter().find_map(|kind| find(&all, kind).and_then(ip_of))?;
        let port = find(&all, port).and_then(|v| Some(u16::from_be_bytes(v.get(..2)?.try_into().ok()?)));
        Some((ip, port.unwrap_or(0)))
    };
    MptcpEvent {
        kind: MptcpEventKind::of(command),
        token: find(&all, TOKEN).and_then(u32_of),
        local: end(SADDR, SPORT),
        remote: end(DADDR, DPORT),
        local_id: byte(LOC_ID),
        remote_id: byte(REM_ID),
        is_backup: byte(BACKUP).map(|b| b != 0),
        error: byte(ERROR),
        interface: find(&all, IF_IDX).and_then(u32_of).map(InterfaceIndex),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_endpoint_is_written_and_read_back() {
        let endpoint = MptcpEndpoint {
            id: 7,
            address: [10, 0, 0, 9].into(),
            port: 0,
            interface: Some(3),
            flags: EndpointFlags::SUBFLOW.with(EndpointFlags::BACKUP),
        };
        let message = Attributes::default().nested(ATTR_ADDR, &of(&endpoint)).0;
        assert_eq!(parse_endpoint(&message), Some(endpoint));
        // Golden: what `ip mptcp endpoint add 10.0.0.9 id 7 dev (number 3) subflow backup` says.
        let golden: [u8; 44] = [
            44, 0, 1, 0x80, 6, 0, 1, 0, 2, 0, 0, 0, 8, 0, 3, 0, 10, 0, 0, 9, 8, 0, 6, 0, 6, 0, 0, 0, 5, 0, 2,
            0, 7, 0, 0, 0, 8, 0, 7, 0, 3, 0, 0, 0,
        ];
        assert_eq!(message, golden);
    }

    #[test]
    fn events_have_ports_in_network_order() {
        let body = Attributes::default()
            .u32(1, 0x1234)
            .bytes(5, &[10, 0, 0, 1])
            .bytes(9, &[0x23, 0x28])
            .u8(3, 2)
            .u32(15, 4)
            .0;
        let event = parse_event(10, &body);
        assert_eq!(event.kind, MptcpEventKind::SubflowEstablished);
        assert_eq!((event.token, event.local), (Some(0x1234), Some(([10, 0, 0, 1].into(), 9000))));
        assert_eq!((event.local_id, event.interface.map(InterfaceIndex::get)), (Some(2), Some(4)));
    }
}
