//! [`DefaultRoute`]: default routes as they are, to be demoted and restored.

use netlink_packet_core::{
    NLM_F_APPEND, NLM_F_CREATE, NLM_F_REPLACE, NetlinkHeader, NetlinkMessage, NetlinkPayload,
};
use netlink_packet_route::RouteNetlinkMessage;
use netlink_packet_route::route::{
    RouteAttribute, RouteFlags, RouteMessage, RouteNextHop, RouteNextHopFlags, RouteType,
};

use units::Duration;

use super::{Family, InterfaceIndex, Netlink, Table};
use crate::IoError;

/// Increase of a demoted route's metric.
pub const DEMOTION: u32 = 1_000_000;

/// A default route, whole: gateway, source, metrics and whatever else it has. It leads through one next hop, or
/// through several (`ip route add default nexthop … nexthop …`).
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct DefaultRoute {
    message: RouteMessage,
}

/// Place of a route among those of its metric.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Place {
    /// Before them; IPv6 knows only behind.
    First,
    /// Behind them.
    Last,
}

impl DefaultRoute {
    fn find<T>(&self, of: impl Fn(&RouteAttribute) -> Option<T>) -> Option<T> {
        self.message.attributes.iter().find_map(of)
    }

    fn without_attributes(&self, is_left_out: impl Fn(&RouteAttribute) -> bool) -> Self {
        let mut message = self.message.clone();
        message.attributes.retain(|attribute| !is_left_out(attribute));
        Self { message }
    }

    /// Its metric (priority): less is preferred.
    #[must_use]
    pub fn metric(&self) -> u32 {
        let metric = self.find(|attribute| match attribute {
            RouteAttribute::Priority(metric) => Some(*metric),
            _ => None,
        });
        metric.unwrap_or(0)
    }

    /// The same route with another metric.
    #[must_use]
    pub fn with_metric(&self, metric: u32) -> Self {
        let mut route = self.without_attributes(|one| matches!(one, RouteAttribute::Priority(_)));
        if metric > 0 {
            route.message.attributes.push(RouteAttribute::Priority(metric));
        }
        route
    }

    /// The table that it stands in.
    #[must_use]
    pub fn table(&self) -> Table {
        let stated = self.find(|attribute| match attribute {
            RouteAttribute::Table(table) => Some(*table),
            _ => None,
        });
        Table(stated.unwrap_or(u32::from(self.message.header.table)))
    }

    /// Its next hops; the attributes of each are its way out, such as the gateway.
    fn hops(&self) -> Vec<(u32, Vec<RouteAttribute>)> {
        let several = self.find(|attribute| match attribute {
            RouteAttribute::MultiPath(hops) => Some(hops.clone()),
            _ => None,
        });
        if let Some(hops) = several {
            return hops.into_iter().map(|hop| (hop.interface_index, ways(&hop.attributes))).collect();
        }
        self.oif().map(|index| (index, ways(&self.message.attributes))).into_iter().collect()
    }

    fn oif(&self) -> Option<u32> {
        self.find(|attribute| match attribute {
            RouteAttribute::Oif(index) => Some(*index),
            _ => None,
        })
    }

    /// It leads where `other` does, by the same routers and interfaces, whatever the metrics.
    #[must_use]
    pub fn leads_as(&self, other: &Self) -> bool {
        self.hops().len() == other.hops().len() && self.is_part_of(other)
    }

    /// All its next hops are `other`'s, too.
    #[must_use]
    pub fn is_part_of(&self, other: &Self) -> bool {
        let its = other.hops();
        self.hops().iter().all(|hop| its.contains(hop))
    }

    /// It stands in the same table with the same metric.
    #[must_use]
    pub fn is_beside(&self, other: &Self) -> bool {
        (self.family(), self.table(), self.metric()) == (other.family(), other.table(), other.metric())
    }

    /// It has several next hops.
    #[must_use]
    pub fn is_shared(&self) -> bool {
        self.hops().len() > 1
    }

    /// A next hop of it leads through this interface.
    #[must_use]
    pub fn leads_through(&self, device: InterfaceIndex) -> bool {
        self.hops().iter().any(|(index, _)| *index == device.get())
    }

    /// The same with those next hops alone of which `is_kept` is true; none where none is left.
    #[must_use]
    pub fn with_hops(&self, is_kept: impl Fn(InterfaceIndex) -> bool) -> Option<Self> {
        let hops = self.find(|attribute| match attribute {
            RouteAttribute::MultiPath(hops) => Some(hops.clone()),
            _ => None,
        });
        let Some(all) = hops else {
            return self.device().is_some_and(is_kept).then(|| self.clone());
        };
        let is_kept = |hop: &RouteNextHop| is_kept(InterfaceIndex(hop.interface_index));
        let mut kept: Vec<RouteNextHop> = all.iter().filter(|hop| is_kept(hop)).cloned().collect();
        if kept.len() == all.len() {
            return Some(self.clone());
        }
        // An object of the kernel's (`ip nexthop`) would be all of them.
        let is_of_hops =
            |one: &RouteAttribute| matches!(one, RouteAttribute::MultiPath(_) | RouteAttribute::NhId(_));
        let mut route = self.without_attributes(is_of_hops);
        match kept.len() {
            0 => return None,
            1 => {
                let hop = kept.remove(0);
                route.message.header.flags |= route_flags(hop.flags);
                route.message.attributes.extend(hop.attributes);
                route.message.attributes.push(RouteAttribute::Oif(hop.interface_index));
            }
            _ => route.message.attributes.push(RouteAttribute::MultiPath(kept)),
        }
        Some(route)
    }

    /// The time after which the kernel forgets it, as a router has told.
    #[must_use]
    pub fn lifetime(&self) -> Option<Duration> {
        self.find(|attribute| match attribute {
            RouteAttribute::Expires(seconds) => Some(Duration::from_secs((*seconds).into())),
            _ => None,
        })
    }

    /// The same route with the lifetime that `other` has left.
    #[must_use]
    pub fn with_lifetime_of(&self, other: &Self) -> Self {
        let mut route = self.without_attributes(|one| matches!(one, RouteAttribute::Expires(_)));
        let left = other.lifetime().map(|left| RouteAttribute::Expires(left.as_secs() as u32));
        route.message.attributes.extend(left);
        route
    }

    /// The interface that it leads through; none where it has several next hops.
    #[must_use]
    pub fn device(&self) -> Option<InterfaceIndex> {
        self.oif().map(InterfaceIndex)
    }

    /// IPv4 or IPv6.
    #[must_use]
    pub fn family(&self) -> Family {
        if self.message.header.address_family == Family::V4.to_netlink() { Family::V4 } else { Family::V6 }
    }

    /// It has been demoted, and not been restored.
    #[must_use]
    pub fn is_demoted(&self) -> bool {
        (DEMOTION..DEMOTION * 2).contains(&self.metric())
    }

    /// The same, demoted.
    #[must_use]
    pub fn demoted(&self) -> Self {
        let route = self.with_metric(self.metric().saturating_add(DEMOTION));
        // The copy outlives an object of the kernel's (`ip nexthop`) that the route may have been made with.
        if self.oif().is_some() {
            route.without_attributes(|one| matches!(one, RouteAttribute::NhId(_)))
        } else {
            route
        }
    }

    /// As text that [`DefaultRoute::from_text`] reads.
    #[must_use]
    pub fn to_text(&self) -> String {
        let payload = NetlinkPayload::from(RouteNetlinkMessage::NewRoute(self.message.clone()));
        let mut message = NetlinkMessage::new(NetlinkHeader::default(), payload);
        message.finalize();
        let mut bytes = vec![0; message.buffer_len()];
        message.serialize(&mut bytes);
        bytes.iter().map(|byte| format!("{byte:02x}")).collect()
    }

    /// Reads what [`DefaultRoute::to_text`] wrote; none when it is something else.
    #[must_use]
    pub fn from_text(text: &str) -> Option<Self> {
        let digits = text.as_bytes();
        let byte = |pair: &[u8]| u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok();
        let bytes: Option<Vec<u8>> = digits.chunks(2).map(byte).collect();
        let message = NetlinkMessage::<RouteNetlinkMessage>::deserialize(&bytes?).ok()?;
        match message.payload {
            NetlinkPayload::InnerMessage(RouteNetlinkMessage::NewRoute(message)) => Some(Self { message }),
            _ => None,
        }
    }

    /// As the kernel takes it: what stands in an object of its own (`ip nexthop`) must not be said again.
    fn sent(&self) -> RouteMessage {
        let has_object = self.find(|one| matches!(one, RouteAttribute::NhId(_)).then_some(())).is_some();
        if !has_object {
            return self.message.clone();
        }
        let is_of_object = |one: &RouteAttribute| {
            is_way(one) || matches!(one, RouteAttribute::Oif(_) | RouteAttribute::MultiPath(_))
        };
        self.without_attributes(is_of_object).message
    }
}

impl Netlink {
    /// The default routes of all tables, in the kernel's order.
    ///
    /// IPv6 has no routes with several next hops, but shows routes of one metric as one; here they are several again.
    ///
    /// # Errors
    /// When the kernel does not answer.
    pub fn default_routes(&self, family: Family) -> Result<Vec<DefaultRoute>, IoError> {
        let mut request = RouteMessage::default();
        request.header.address_family = family.to_netlink();
        let answers = self.dump(RouteNetlinkMessage::GetRoute(request), || "list routes".to_owned())?;
        let is_it =
            |m: &RouteMessage| m.header.destination_prefix_length == 0 && m.header.kind == RouteType::Unicast;
        let found = answers.into_iter().filter_map(|answer| match answer {
            RouteNetlinkMessage::NewRoute(m) if is_it(&m) => Some(DefaultRoute { message: sendable(m) }),
            _ => None,
        });
        Ok(found.flat_map(|route| apart(route, family)).collect())
    }

    /// Adds a route as it is, also beside others of the same metric.
    ///
    /// # Errors
    /// When this very route is there, its gateway cannot be reached, or the privilege is missing.
    pub fn add_default_route(&self, route: &DefaultRoute, place: Place) -> Result<(), IoError> {
        let message = RouteNetlinkMessage::NewRoute(route.sent());
        let flags = match place {
            Place::First => NLM_F_CREATE,
            Place::Last => NLM_F_CREATE | NLM_F_APPEND,
        };
        self.change(message, flags, || format!("add a default route with metric {}", route.metric()))
    }

    /// Puts a route in the place of another one of the same table and metric.
    ///
    /// # Errors
    /// As [`Netlink::add_default_route`].
    pub fn replace_default_route(&self, old: &DefaultRoute, new: &DefaultRoute) -> Result<(), IoError> {
        let all = self.default_routes(old.family())?;
        // The kernel replaces the first one of a metric, whichever it is.
        let is_first = all.iter().find(|one| one.is_beside(old)).is_some_and(|one| one.leads_as(old));
        if old.family() == Family::V4 && is_first {
            let message = RouteNetlinkMessage::NewRoute(new.sent());
            return self.change(message, NLM_F_CREATE | NLM_F_REPLACE, || {
                format!("replace a default route with metric {}", new.metric())
            });
        }
        self.add_default_route(new, Place::Last)?;
        self.delete_default_route(old)
    }

    /// Deletes a route.
    ///
    /// # Errors
    /// When it is not there.
    pub fn delete_default_route(&self, route: &DefaultRoute) -> Result<(), IoError> {
        let message = RouteNetlinkMessage::DelRoute(route.sent());
        self.change(message, 0, || format!("delete a default route with metric {}", route.metric()))
    }
}

/// True if a next hop has the attribute besides its interface.
fn is_way(attribute: &RouteAttribute) -> bool {
    matches!(
        attribute,
        RouteAttribute::Gateway(_)
            | RouteAttribute::Via(_)
            | RouteAttribute::Encap(_)
            | RouteAttribute::EncapType(_)
    )
}

/// The way of a next hop, in one order.
fn ways(attributes: &[RouteAttribute]) -> Vec<RouteAttribute> {
    attributes
        .iter()
        .filter(|one| matches!(one, RouteAttribute::Gateway(_) | RouteAttribute::Via(_)))
        .cloned()
        .collect()
}

/// A route of each next hop, of an IPv6 route that was made of several.
fn apart(route: DefaultRoute, family: Family) -> Vec<DefaultRoute> {
    let has_object = route.find(|one| matches!(one, RouteAttribute::NhId(_)).then_some(())).is_some();
    if family == Family::V4 || has_object || !route.is_shared() {
        return vec![route];
    }
    let devices: Vec<u32> = route.hops().into_iter().map(|(index, _)| index).collect();
    devices.iter().filter_map(|index| route.with_hops(|device| device.get() == *index)).collect()
}

/// Part of a next hop's flags that is a setting.
fn route_flags(flags: RouteNextHopFlags) -> RouteFlags {
    if flags.contains(RouteNextHopFlags::Onlink) { RouteFlags::Onlink } else { RouteFlags::default() }
}

/// Ticks in which the kernel tells the rest of a lifetime (`USER_HZ`).
const TICKS_PER_S: u32 = 100;

/// Without what the kernel only tells; a lifetime as it is told to the kernel.
fn sendable(mut message: RouteMessage) -> RouteMessage {
    let told = message.attributes.iter().find_map(|attribute| match attribute {
        RouteAttribute::CacheInfo(info) if info.expires > 0 => Some(info.expires),
        _ => None,
    });
    message.attributes.retain(|attribute| !matches!(attribute, RouteAttribute::Expires(_)));
    // Rounded up: zero would be for ever.
    message.attributes.extend(told.map(|ticks| RouteAttribute::Expires(ticks.div_ceil(TICKS_PER_S))));
    message.attributes.retain(|attribute| !matches!(attribute, RouteAttribute::CacheInfo(_)));
    // Whether the gateway is reached without a route to it is a setting; the other flags are its state.
    message.header.flags &= RouteFlags::Onlink;
    for attribute in &mut message.attributes {
        if let RouteAttribute::MultiPath(hops) = attribute {
            hops.iter_mut().for_each(|hop| hop.flags &= RouteNextHopFlags::Onlink);
        }
    }
    message
}
