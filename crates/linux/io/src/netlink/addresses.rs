//! Addresses of interfaces.

use std::net::{IpAddr, Ipv4Addr};

use netlink_packet_core::{NLM_F_CREATE, NLM_F_EXCL};
use netlink_packet_route::RouteNetlinkMessage;
use netlink_packet_route::address::{AddressAttribute, AddressHeaderFlags, AddressMessage, AddressScope};

use super::{Cidr, Family, InterfaceIndex, Netlink};
use crate::IoError;

/// An address from which an interface can be reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Usable {
    /// The address.
    pub address: IpAddr,
    /// The kernel no longer chooses it for what is new, such as a temporary one that was followed by another.
    pub is_deprecated: bool,
}

impl Netlink {
    /// Gives an interface an address, usable at once (no duplicate-address detection for IPv6).
    ///
    /// # Errors
    /// When it has the address already or the privilege is missing.
    pub fn add_address(&self, index: InterfaceIndex, address: Cidr) -> Result<(), IoError> {
        let mut message = message(index, address);
        if address.family() == Family::V6 {
            message.header.flags = AddressHeaderFlags::Nodad;
        }
        self.change(RouteNetlinkMessage::NewAddress(message), NLM_F_CREATE | NLM_F_EXCL, || {
            format!("give {address} to interface number {}", index.get())
        })
    }

    /// Gives an interface an IPv4 address of its own that is never taken for the source of a packet
    /// that leaves.
    ///
    /// # Errors
    /// When it has the address already or the privilege is missing.
    pub fn add_host_address(&self, index: InterfaceIndex, address: Ipv4Addr) -> Result<(), IoError> {
        let mut message = message(index, Cidr::new(address, 32));
        message.header.scope = AddressScope::Host;
        self.change(RouteNetlinkMessage::NewAddress(message), NLM_F_CREATE | NLM_F_EXCL, || {
            format!("give {address} to interface number {}", index.get())
        })
    }

    /// Takes an address from an interface.
    ///
    /// # Errors
    /// When it does not have it.
    pub fn delete_address(&self, index: InterfaceIndex, address: Cidr) -> Result<(), IoError> {
        self.change(RouteNetlinkMessage::DelAddress(message(index, address)), 0, || {
            format!("take {address} from interface number {}", index.get())
        })
    }

    /// All addresses of an interface, IPv4 first, link-local ones included.
    ///
    /// # Errors
    /// When the kernel does not answer.
    pub fn addresses(&self, index: InterfaceIndex) -> Result<Vec<Cidr>, IoError> {
        let mut found = Vec::new();
        for family in Family::BOTH {
            let mut request = AddressMessage::default();
            request.header.family = family.to_netlink();
            let answers =
                self.dump(RouteNetlinkMessage::GetAddress(request), || "list addresses".to_owned())?;
            found.extend(answers.into_iter().filter_map(|answer| parse(answer, index)));
        }
        Ok(found)
    }

    /// The addresses from which an interface can be reached, in the kernel's order: not tentative or link-local.
    ///
    /// # Errors
    /// When the kernel does not answer.
    pub fn usable_addresses(&self, family: Family, index: InterfaceIndex) -> Result<Vec<Usable>, IoError> {
        let mut request = AddressMessage::default();
        request.header.family = family.to_netlink();
        let answers = self.dump(RouteNetlinkMessage::GetAddress(request), || "list addresses".to_owned())?;
        let usable = answers.into_iter().filter_map(|answer| {
            let RouteNetlinkMessage::NewAddress(m) = &answer else { return None };
            let flags = m.header.flags;
            let cannot = AddressHeaderFlags::Tentative | AddressHeaderFlags::Dadfailed;
            let is_usable = m.header.scope == AddressScope::Universe && !flags.intersects(cannot);
            let is_deprecated = flags.contains(AddressHeaderFlags::Deprecated);
            let cidr = parse(answer, index).filter(|_| is_usable)?;
            Some(Usable { address: cidr.address, is_deprecated })
        });
        Ok(usable.collect())
    }
}

fn message(index: InterfaceIndex, address: Cidr) -> AddressMessage {
    let mut message = AddressMessage::default();
    message.header.family = address.family().to_netlink();
    message.header.prefix_len = address.prefix_len_bits;
    message.header.index = index.get();
    message.attributes.push(AddressAttribute::Local(address.address));
    message.attributes.push(AddressAttribute::Address(address.address));
    message
}

pub(super) fn parse(answer: RouteNetlinkMessage, index: InterfaceIndex) -> Option<Cidr> {
    let RouteNetlinkMessage::NewAddress(message) = answer else { return None };
    if message.header.index != index.get() {
        return None;
    }
    // A point-to-point address has its own end in LOCAL; IPv6 has ADDRESS only.
    let local = message.attributes.iter().find_map(|attribute| match attribute {
        AddressAttribute::Local(address) => Some(*address),
        _ => None,
    });
    let only = message.attributes.iter().find_map(|attribute| match attribute {
        AddressAttribute::Address(address) => Some(*address),
        _ => None,
    });
    Some(Cidr { address: local.or(only)?, prefix_len_bits: message.header.prefix_len })
}
