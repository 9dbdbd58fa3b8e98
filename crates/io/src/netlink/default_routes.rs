//! [`DefaultRoute`]: default routes as they are, to be demoted and restored.

use netlink_packet_core::{NLM_F_APPEND, NLM_F_CREATE, NetlinkHeader, NetlinkMessage, NetlinkPayload};
use netlink_packet_route::RouteNetlinkMessage;
use netlink_packet_route::route::{RouteAttribute, RouteMessage, RouteType};

use units::Duration;

use super::{Family, InterfaceIndex, Netlink, Table};
use crate::IoError;

/// What a demoted route's metric is more than before.
pub const DEMOTION: u32 = 1_000_000;

/// A default route in the main table, whole: gateway, source, metrics and whatever else it has.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct DefaultRoute {
    message: RouteMessage,
}

impl DefaultRoute {
    /// Its metric (priority): less is preferred.
    #[must_use]
    pub fn metric(&self) -> u32 {
        let metric = self.message.attributes.iter().find_map(|attribute| match attribute {
            RouteAttribute::Priority(metric) => Some(*metric),
            _ => None,
        });
        metric.unwrap_or(0)
    }

    /// The same route with another metric.
    #[must_use]
    pub fn with_metric(&self, metric: u32) -> Self {
        let mut message = self.message.clone();
        message.attributes.retain(|attribute| !matches!(attribute, RouteAttribute::Priority(_)));
        if metric > 0 {
            message.attributes.push(RouteAttribute::Priority(metric));
        }
        Self { message }
    }

    /// It leads where `other` does, by the same router and interface, whatever the metrics.
    #[must_use]
    pub fn leads_as(&self, other: &Self) -> bool {
        let way = |route: &Self| {
            let is_way = |one: &&RouteAttribute| {
                matches!(one, RouteAttribute::Gateway(_) | RouteAttribute::Via(_) | RouteAttribute::Oif(_))
            };
            route.message.attributes.iter().filter(is_way).cloned().collect::<Vec<_>>()
        };
        let (mine, its) = (way(self), way(other));
        mine.len() == its.len() && mine.iter().all(|one| its.contains(one))
    }

    /// The time after which the kernel forgets it, as a router has told.
    #[must_use]
    pub fn lifetime(&self) -> Option<Duration> {
        self.message.attributes.iter().find_map(|attribute| match attribute {
            RouteAttribute::Expires(seconds) => Some(Duration::from_secs((*seconds).into())),
            _ => None,
        })
    }

    /// The same route with the lifetime that `other` has left.
    #[must_use]
    pub fn with_lifetime_of(&self, other: &Self) -> Self {
        let mut message = self.message.clone();
        message.attributes.retain(|attribute| !matches!(attribute, RouteAttribute::Expires(_)));
        message
            .attributes
            .extend(other.lifetime().map(|left| RouteAttribute::Expires(left.as_secs() as u32)));
        Self { message }
    }

    /// The interface that it leads through.
    #[must_use]
    pub fn device(&self) -> Option<InterfaceIndex> {
        self.message.attributes.iter().find_map(|attribute| match attribute {
            RouteAttribute::Oif(index) => Some(InterfaceIndex(*index)),
            _ => None,
        })
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
        self.with_metric(self.metric().saturating_add(DEMOTION))
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
}

impl Netlink {
    /// The default routes of the main table through an interface, in the kernel's order; those with several
    /// next hops are left out.
    ///
    /// # Errors
    /// When the kernel does not answer.
    pub fn default_routes(
        &self,
        family: Family,
        device: InterfaceIndex,
    ) -> Result<Vec<DefaultRoute>, IoError> {
        let mut request = RouteMessage::default();
        request.header.address_family = family.to_netlink();
        let answers = self.dump(RouteNetlinkMessage::GetRoute(request), || "list routes".to_owned())?;
        let table = |m: &RouteMessage| {
            let stated = m.attributes.iter().find_map(|a| match a {
                RouteAttribute::Table(table) => Some(*table),
                _ => None,
            });
            Table(stated.unwrap_or(u32::from(m.header.table)))
        };
        let is_it = |m: &RouteMessage| {
            m.header.destination_prefix_length == 0
                && m.header.kind == RouteType::Unicast
                && table(m) == Table::MAIN
                && m.attributes.contains(&RouteAttribute::Oif(device.get()))
        };
        let found = answers.into_iter().filter_map(|answer| match answer {
            RouteNetlinkMessage::NewRoute(m) if is_it(&m) => Some(m),
            _ => None,
        });
        Ok(found.map(|message| DefaultRoute { message: sendable(message) }).collect())
    }

    /// Adds a route as it is, also beside one of another interface with the same metric.
    ///
    /// # Errors
    /// When this very route is there, its gateway cannot be reached, or the privilege is missing.
    pub fn add_default_route(&self, route: &DefaultRoute) -> Result<(), IoError> {
        let message = RouteNetlinkMessage::NewRoute(route.message.clone());
        self.change(message, NLM_F_CREATE | NLM_F_APPEND, || {
            format!("add a default route with metric {}", route.metric())
        })
    }

    /// Deletes a route.
    ///
    /// # Errors
    /// When it is not there.
    pub fn delete_default_route(&self, route: &DefaultRoute) -> Result<(), IoError> {
        let message = RouteNetlinkMessage::DelRoute(route.message.clone());
        self.change(message, 0, || format!("delete a default route with metric {}", route.metric()))
    }
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
    message.header.flags = Default::default();
    message
}
