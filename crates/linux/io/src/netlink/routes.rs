//! Routes.

use std::fmt;
use std::net::IpAddr;

use netlink_packet_core::{NLM_F_CREATE, NLM_F_EXCL};
use netlink_packet_route::RouteNetlinkMessage;
use netlink_packet_route::route::{
    RouteAddress, RouteAttribute, RouteMessage, RouteMetric, RouteProtocol, RouteScope, RouteType,
};

use super::{Cidr, Family, InterfaceIndex, Netlink, OWNER_PROTOCOL, Table};
use crate::IoError;

/// Route of packets to a destination.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Route {
    /// The destination network; [`Cidr::everything`] for a default route.
    pub destination: Cidr,
    /// The next router, if any.
    pub gateway: Option<IpAddr>,
    /// The interface to leave through; may be left out when there is a gateway.
    pub device: Option<InterfaceIndex>,
    /// The table the route stands in.
    pub table: Table,
}

impl Route {
    /// A default route through an interface.
    #[must_use]
    pub const fn default_via_device(family: Family, device: InterfaceIndex, table: Table) -> Self {
        Self { destination: Cidr::everything(family), gateway: None, device: Some(device), table }
    }

    /// A route in the main table through a router.
    #[must_use]
    pub const fn via(destination: Cidr, gateway: IpAddr) -> Self {
        Self { destination, gateway: Some(gateway), device: None, table: Table::MAIN }
    }
}

impl fmt::Display for Route {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.destination)?;
        if let Some(gateway) = self.gateway {
            write!(f, " via {gateway}")?;
        }
        if let Some(device) = self.device {
            write!(f, " dev number {}", device.get())?;
        }
        write!(f, " table {}", self.table)
    }
}

impl Netlink {
    /// Adds a route, marked with [`OWNER_PROTOCOL`].
    ///
    /// # Errors
    /// When it is there already, the gateway cannot be reached, or the privilege is missing.
    pub fn add_route(&self, route: &Route) -> Result<(), IoError> {
        self.change(RouteNetlinkMessage::NewRoute(message(route)), NLM_F_CREATE | NLM_F_EXCL, || {
            format!("add the route {route}")
        })
    }

    /// Deletes a route.
    ///
    /// # Errors
    /// When it is not there.
    pub fn delete_route(&self, route: &Route) -> Result<(), IoError> {
        self.change(RouteNetlinkMessage::DelRoute(message(route)), 0, || format!("delete the route {route}"))
    }

    /// All routes of a family in one table, in the kernel's order; those with several next hops are left out.
    ///
    /// # Errors
    /// When the kernel does not answer.
    pub fn routes(&self, family: Family, table: Table) -> Result<Vec<Route>, IoError> {
        let mut request = RouteMessage::default();
        request.header.address_family = family.to_netlink();
        let answers = self.dump(RouteNetlinkMessage::GetRoute(request), || "list routes".to_owned())?;
        let routes = answers.into_iter().filter_map(|answer| parse(answer, family));
        Ok(routes.filter(|route| route.table == table).collect())
    }

    /// The least MTU that a route through an interface states, in whatever table; routes with
    /// several next hops are left out.
    ///
    /// # Errors
    /// When the kernel does not answer.
    pub fn least_route_mtu(&self, family: Family, device: InterfaceIndex) -> Result<Option<u32>, IoError> {
        let mut request = RouteMessage::default();
        request.header.address_family = family.to_netlink();
        // The kernel leaves out those through others.
        request.attributes.push(RouteAttribute::Oif(device.get()));
        let answers = self.dump(RouteNetlinkMessage::GetRoute(request), || "list routes".to_owned())?;
        Ok(answers.iter().filter_map(|answer| stated_mtu(answer, device)).min())
    }

    /// Routing tables of a family in use by anyone, in order, each once.
    ///
    /// # Errors
    /// When the kernel does not answer.
    pub fn tables_in_use(&self, family: Family) -> Result<Vec<Table>, IoError> {
        let mut request = RouteMessage::default();
        request.header.address_family = family.to_netlink();
        let answers = self.dump(RouteNetlinkMessage::GetRoute(request), || "list routes".to_owned())?;
        let mut tables: Vec<Table> =
            answers.into_iter().filter_map(|answer| Some(parse(answer, family)?.table)).collect();
        tables.sort_unstable();
        tables.dedup();
        Ok(tables)
    }
}

fn message(route: &Route) -> RouteMessage {
    let mut message = RouteMessage::default();
    message.header.address_family = route.destination.family().to_netlink();
    message.header.destination_prefix_length = route.destination.prefix_len_bits;
    message.header.protocol = RouteProtocol::from(OWNER_PROTOCOL);
    message.header.kind = RouteType::Unicast;
    // What `ip route` does: a neighbour is in link scope, a router in universe; IPv6 has no scopes.
    let is_neighbour = route.gateway.is_none() && route.destination.family() == Family::V4;
    message.header.scope = if is_neighbour { RouteScope::Link } else { RouteScope::Universe };
    message.header.table = u8::try_from(route.table.0).unwrap_or(0);
    message.attributes.push(RouteAttribute::Table(route.table.0));
    if route.destination.prefix_len_bits > 0 {
        message.attributes.push(RouteAttribute::Destination(RouteAddress::from(route.destination.address)));
    }
    message
        .attributes
        .extend(route.gateway.map(|address| RouteAttribute::Gateway(RouteAddress::from(address))));
    message.attributes.extend(route.device.map(|device| RouteAttribute::Oif(device.get())));
    message
}

pub(super) fn parse(answer: RouteNetlinkMessage, family: Family) -> Option<Route> {
    let RouteNetlinkMessage::NewRoute(message) = answer else { return None };
    let mut route = Route {
        destination: Cidr {
            prefix_len_bits: message.header.destination_prefix_length,
            ..Cidr::everything(family)
        },
        gateway: None,
        device: None,
        table: Table(u32::from(message.header.table)),
    };
    for attribute in message.attributes {
        match attribute {
            RouteAttribute::Destination(address) => route.destination.address = ip(&address)?,
            RouteAttribute::Gateway(address) => route.gateway = ip(&address),
            RouteAttribute::Oif(index) => route.device = Some(InterfaceIndex(index)),
            RouteAttribute::Table(table) => route.table = Table(table),
            RouteAttribute::MultiPath(_) => return None,
            _ => {}
        }
    }
    Some(route)
}

/// The MTU that a route through `device` states; zero states none.
pub(super) fn stated_mtu(answer: &RouteNetlinkMessage, device: InterfaceIndex) -> Option<u32> {
    let RouteNetlinkMessage::NewRoute(message) = answer else { return None };
    let is_through_it = message.attributes.contains(&RouteAttribute::Oif(device.get()));
    let metrics = message.attributes.iter().filter_map(|attribute| match attribute {
        RouteAttribute::Metrics(metrics) if is_through_it => Some(metrics),
        _ => None,
    });
    let stated = metrics.flatten().filter_map(|metric| match metric {
        RouteMetric::Mtu(mtu) if *mtu > 0 => Some(*mtu),
        _ => None,
    });
    stated.min()
}

fn ip(address: &RouteAddress) -> Option<IpAddr> {
    match address {
        RouteAddress::Inet(address) => Some((*address).into()),
        RouteAddress::Inet6(address) => Some((*address).into()),
        _ => None,
    }
}
