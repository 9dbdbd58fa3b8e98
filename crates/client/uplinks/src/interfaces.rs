//! Interfaces that can be used, from which addresses, by which routes.

use std::collections::BTreeMap;
use std::net::IpAddr;

use io::netlink::{DefaultRoute, Family, InterfaceIndex, Link, Lookup, Netlink, Table, Usable};

use crate::{Settings, UplinkError};

/// A path by interface and IP version.
pub(crate) type Key = (String, Family);

/// State found of a path.
#[derive(Clone, Debug, Default)]
pub(crate) struct Found {
    pub index: Option<InterfaceIndex>,
    /// With carrier.
    pub is_ready: bool,
    /// A default route leads through it: one for everybody, or one for who sends from here.
    pub has_route: bool,
    /// Addresses that can be used, in the kernel's order: of IPv6, newest first.
    pub usable: Vec<Usable>,
    /// Default routes for everybody.
    pub routes: Vec<DefaultRoute>,
}

impl Found {
    /// The address to be used. One that `is_in_use` stays as long as it is there, also when the kernel has others
    /// for what is new; any other stays as long as it is not deprecated.
    pub fn address(&self, before: Option<IpAddr>, is_in_use: bool) -> Option<IpAddr> {
        if !self.is_ready || !self.has_route {
            return None;
        }
        let is_same = |one: &&Usable| Some(one.address) == before && (is_in_use || !one.is_deprecated);
        let fresh = || self.usable.iter().find(|one| !one.is_deprecated);
        self.usable.iter().find(is_same).or_else(fresh).map(|one| one.address)
    }
}

/// Contents of routes and rules, of one IP version.
struct Routing {
    routes: Vec<DefaultRoute>,
    lookups: Vec<Lookup>,
}

impl Routing {
    fn read(netlink: &Netlink, family: Family) -> Result<Self, UplinkError> {
        Ok(Self { routes: netlink.default_routes(family)?, lookups: netlink.lookups(family)? })
    }

    /// Packets of everybody are looked up in this table.
    fn is_general(&self, table: Table) -> bool {
        let is_for_all =
            |one: &Lookup| one.table == table && one.source.is_none() && one.oif.is_none() && !one.has_other;
        table == Table::MAIN || self.lookups.iter().any(is_for_all)
    }

    /// Packets that leave from an interface, or from one of its addresses, are looked up in this table.
    fn is_own(&self, table: Table, name: &str, usable: &[Usable]) -> bool {
        let is_it = |one: &Lookup| {
            let is_source =
                |source: &io::netlink::Cidr| usable.iter().any(|own| source.contains(own.address));
            one.table == table
                && !one.has_other
                && (one.source.is_some() || one.oif.is_some())
                && one.source.as_ref().is_none_or(is_source)
                && one.oif.as_ref().is_none_or(|oif| oif == name)
        };
        self.lookups.iter().any(is_it)
    }
}

/// The default routes for everybody, of all interfaces.
pub(crate) fn general_routes(netlink: &Netlink, family: Family) -> Result<Vec<DefaultRoute>, UplinkError> {
    let mut routing = Routing::read(netlink, family)?;
    let routes = std::mem::take(&mut routing.routes);
    Ok(routes.into_iter().filter(|route| routing.is_general(route.table())).collect())
}

/// Looks at all interfaces, or only those of `settings`. Those without a default route are no paths, unless named, but
/// may have been some a moment ago.
pub(crate) fn look(netlink: &Netlink, settings: &Settings) -> Result<BTreeMap<Key, Found>, UplinkError> {
    let mut found = BTreeMap::new();
    let families: Vec<Family> = Family::BOTH
        .into_iter()
        .filter(|family| settings.probes.iter().any(|p| p.is_ipv4() == (*family == Family::V4)))
        .collect();
    let links = netlink.links()?;
    for family in &families {
        let routing = Routing::read(netlink, *family)?;
        for link in &links {
            let is_named = settings.interfaces.contains(&link.name);
            if link.name == "lo" || (!settings.interfaces.is_empty() && !is_named) {
                continue;
            }
            let here = one(netlink, link, *family, &routing)?;
            found.insert((link.name.clone(), *family), here);
        }
    }
    for name in &settings.interfaces {
        for family in &families {
            found.entry((name.clone(), *family)).or_default();
        }
    }
    Ok(found)
}

/// Parts of `settings` that are not there, one line each; they may come later.
pub(crate) fn missing(netlink: &Netlink, settings: &Settings) -> Result<Vec<String>, UplinkError> {
    let links = netlink.links()?;
    let is_there = |name: &String| links.iter().any(|link| link.name == *name);
    let mut missing: Vec<String> = settings
        .interfaces
        .iter()
        .filter(|name| !is_there(name))
        .map(|name| format!("no interface is called {name}: it becomes a path when it is there"))
        .collect();
    let has_path = look(netlink, settings)?.values().any(|here| here.has_route);
    if settings.interfaces.is_empty() && !has_path {
        missing.push("no interface has a default route: there are no paths yet".to_owned());
    }
    let strengths = settings.strength_file.as_ref();
    missing.extend(strengths.and_then(|path| {
        let error = std::fs::File::open(path).err()?;
        Some(format!("cannot read strengths from {}: {error}; it is tried again", path.display()))
    }));
    Ok(missing)
}

fn one(netlink: &Netlink, link: &Link, family: Family, routing: &Routing) -> Result<Found, UplinkError> {
    let through: Vec<&DefaultRoute> =
        routing.routes.iter().filter(|route| route.leads_through(link.index)).collect();
    let mut found = Found { index: Some(link.index), ..Found::default() };
    found.is_ready = link.is_up && link.has_carrier;
    // Where there was a route, another may come, so addresses are asked for also without.
    found.usable = netlink.usable_addresses(family, link.index)?;
    let general = through.iter().filter(|route| routing.is_general(route.table()));
    found.routes = general.map(|route| (*route).clone()).collect();
    let is_own = |route: &&DefaultRoute| routing.is_own(route.table(), &link.name, &found.usable);
    found.has_route = !found.routes.is_empty() || through.iter().any(is_own);
    Ok(found)
}
