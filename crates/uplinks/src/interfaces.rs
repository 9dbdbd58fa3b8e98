//! Which interfaces can be used, from which addresses, by which routes.

use std::collections::BTreeMap;
use std::net::IpAddr;

use io::netlink::{DefaultRoute, Family, InterfaceIndex, Link, Netlink};

use crate::{Settings, UplinkError};

/// A path by interface and IP version.
pub(crate) type Key = (String, Family);

/// What there is of a path.
#[derive(Clone, Debug, Default)]
pub(crate) struct Found {
    pub index: Option<InterfaceIndex>,
    /// With carrier and a default route.
    pub address: Option<IpAddr>,
    pub routes: Vec<DefaultRoute>,
}

/// Looks at all interfaces. Only those of `settings`, or all with a default route.
pub(crate) fn look(netlink: &Netlink, settings: &Settings) -> Result<BTreeMap<Key, Found>, UplinkError> {
    let mut found = BTreeMap::new();
    let families: Vec<Family> = Family::BOTH
        .into_iter()
        .filter(|family| settings.probes.iter().any(|p| p.is_ipv4() == (*family == Family::V4)))
        .collect();
    for link in netlink.links()? {
        let is_named = settings.interfaces.contains(&link.name);
        if link.name == "lo" || (!settings.interfaces.is_empty() && !is_named) {
            continue;
        }
        for family in &families {
            let here = one(netlink, &link, *family)?;
            if is_named || !here.routes.is_empty() {
                found.insert((link.name.clone(), *family), here);
            }
        }
    }
    for name in &settings.interfaces {
        for family in &families {
            found.entry((name.clone(), *family)).or_default();
        }
    }
    Ok(found)
}

/// What of `settings` is not there, one line each; it may come later.
pub(crate) fn missing(netlink: &Netlink, settings: &Settings) -> Result<Vec<String>, UplinkError> {
    let links = netlink.links()?;
    let is_there = |name: &String| links.iter().any(|link| link.name == *name);
    let mut missing: Vec<String> = settings
        .interfaces
        .iter()
        .filter(|name| !is_there(name))
        .map(|name| format!("no interface is called {name}: it becomes a path when it is there"))
        .collect();
    if settings.interfaces.is_empty() && look(netlink, settings)?.is_empty() {
        missing.push("no interface has a default route: there are no paths yet".to_owned());
    }
    let strengths = settings.strength_file.as_ref();
    missing.extend(strengths.and_then(|path| {
        let error = std::fs::File::open(path).err()?;
        Some(format!("cannot read strengths from {}: {error}; it is tried again", path.display()))
    }));
    Ok(missing)
}

fn one(netlink: &Netlink, link: &Link, family: Family) -> Result<Found, UplinkError> {
    let routes = netlink.default_routes(family, link.index)?;
    let address = if link.is_up && link.has_carrier && !routes.is_empty() {
        netlink.usable_addresses(family, link.index)?.first().map(|cidr| cidr.address)
    } else {
        None
    };
    Ok(Found { index: Some(link.index), address, routes })
}
