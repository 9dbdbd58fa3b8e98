//! Default routes of dead paths: demoted, so that new connections avoid them, and restored.
//!
//! A route of one next hop gets a copy with a large metric, and goes. Of a route with several next hops the others
//! stay, and the copy leads through the dead one alone. What is restored stands again where it stood.

use io::IoError;
use io::netlink::{DefaultRoute, Family, InterfaceIndex, Netlink, Place};

/// A default route of which the next hops through one interface are demoted.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Demoted {
    /// As it was, with all its next hops.
    route: DefaultRoute,
    /// The interface, by its number.
    device: u32,
}

/// Between the parts of a [`Demoted`] as text.
const SEPARATOR: char = '/';

impl Demoted {
    /// As text that [`Demoted::from_text`] reads.
    pub fn to_text(&self) -> String {
        format!("{}{SEPARATOR}{}", self.route.to_text(), self.device)
    }

    /// Reads what [`Demoted::to_text`] wrote, or a route by itself.
    pub fn from_text(text: &str) -> Option<Self> {
        let (route, device) = text.split_once(SEPARATOR).unwrap_or((text, ""));
        let route = DefaultRoute::from_text(route)?;
        let device = device.parse().ok().or_else(|| route.device().map(InterfaceIndex::get))?;
        Some(Self { route, device })
    }

    /// The same route, whatever has changed of it, such as its lifetime.
    pub fn is_same(&self, other: &Self) -> bool {
        self.device == other.device && self.route.is_beside(&other.route) && self.route.leads_as(&other.route)
    }

    /// The next hops through the interface alone.
    fn hop(&self) -> Option<DefaultRoute> {
        self.route.with_hops(|device| device.get() == self.device)
    }

    /// Rest of the route that is there without the interface.
    fn rests<'a>(&self, all: &'a [DefaultRoute]) -> Vec<&'a DefaultRoute> {
        let is_rest = |one: &&DefaultRoute| one.is_beside(&self.route) && one.is_part_of(&self.route);
        all.iter().filter(|_| self.route.is_shared()).filter(is_rest).collect()
    }
}

/// Routes of `all` to be demoted, so that nothing new goes through `device`; with each the route as it stands
/// there. Of a route whose other next hops are `known` to be demoted, the whole is remembered.
pub(crate) fn plan(
    all: &[DefaultRoute],
    device: InterfaceIndex,
    known: &[Demoted],
) -> Vec<(Demoted, DefaultRoute)> {
    let there = all.iter().filter(|route| !route.is_demoted() && route.leads_through(device));
    let whole = |route: &DefaultRoute| {
        let is_whole = |one: &&Demoted| {
            one.route.is_shared() && route.is_beside(&one.route) && route.is_part_of(&one.route)
        };
        known.iter().find(is_whole).map_or_else(|| route.clone(), |one| one.route.clone())
    };
    there.map(|route| (Demoted { route: whole(route), device: device.get() }, route.clone())).collect()
}

/// Demotes what [`plan`] said; `there` is the route as it stands.
pub(crate) fn demote(netlink: &Netlink, demoted: &Demoted, there: &DefaultRoute) -> Result<(), IoError> {
    let Some(hop) = there.with_hops(|device| device.get() == demoted.device) else { return Ok(()) };
    // First the copy, so that there is always a route.
    match netlink.add_default_route(&hop.demoted(), Place::Last) {
        Err(error) if !error.is_already_there() => return Err(error),
        _ => {}
    }
    match there.with_hops(|device| device.get() != demoted.device) {
        Some(rest) => netlink.replace_default_route(there, &rest),
        None => netlink.delete_default_route(there),
    }
}

/// Puts a route in the place of its demoted copy. `order` is that of routes of one metric, as they once stood.
///
/// Where the copy is gone the route has gone with it: with its interface, at the end of its lifetime, or because
/// somebody took it away.
pub(crate) fn restore(netlink: &Netlink, demoted: &Demoted, order: &[DefaultRoute]) -> Result<(), IoError> {
    let all = netlink.default_routes(demoted.route.family())?;
    let Some(hop) = demoted.hop() else { return Ok(()) };
    let is_copy = |one: &&DefaultRoute| one.is_beside(&hop.demoted()) && one.leads_as(&hop);
    let Some(copy) = all.iter().find(is_copy) else { return Ok(()) };
    let rests = demoted.rests(&all);
    let added = if let Some(first) = rests.first() {
        let is_there = |device: InterfaceIndex| rests.iter().any(|rest| rest.leads_through(device));
        let back = demoted.route.with_hops(|device| device.get() == demoted.device || is_there(device));
        let back = back.unwrap_or_else(|| hop.clone());
        let others = rests.iter().skip(1).map(|rest| netlink.delete_default_route(rest));
        netlink.replace_default_route(first, &back).and(others.collect())
    } else {
        put(netlink, &hop.with_lifetime_of(copy), &all, order)
    };
    unless_gone(added.or_else(|error| if error.is_already_there() { Ok(()) } else { Err(error) }))
        .and(unless_gone(netlink.delete_default_route(copy)))
}

/// Adds a route at its place among those of its metric. IPv6 knows no such places: next hops of one metric share.
fn put(
    netlink: &Netlink,
    route: &DefaultRoute,
    all: &[DefaultRoute],
    order: &[DefaultRoute],
) -> Result<(), IoError> {
    let place = |one: &DefaultRoute| order.iter().position(|of| of.is_beside(one) && one.is_part_of(of));
    let Some(at) = place(route).filter(|_| route.family() == Family::V4) else {
        return netlink.add_default_route(route, Place::Last);
    };
    let beside = all.iter().filter(|one| one.is_beside(route));
    let (behind, before): (Vec<&DefaultRoute>, Vec<&DefaultRoute>) =
        beside.filter(|one| place(one).is_some_and(|its| its != at)).partition(|one| place(one) > Some(at));
    if before.is_empty() {
        return netlink.add_default_route(route, Place::First);
    }
    netlink.add_default_route(route, Place::Last)?;
    // Those before it stay, so that there is always a route.
    for one in behind {
        netlink.delete_default_route(one)?;
        netlink.add_default_route(one, Place::Last)?;
    }
    Ok(())
}

/// Notes in which order routes of one metric stand; those that are demoted keep their place.
pub(crate) fn note_order(order: &mut Vec<DefaultRoute>, all: &[DefaultRoute]) {
    let mut last: Option<usize> = None;
    for route in all.iter().filter(|route| !route.is_demoted() && route.family() == Family::V4) {
        let found = order.iter().position(|of| of.is_beside(route) && route.is_part_of(of));
        last = Some(found.unwrap_or_else(|| {
            let at = last.map_or(0, |at| at + 1);
            order.insert(at, route.clone());
            at
        }));
    }
}

/// A route whose interface or address is gone went with it.
fn unless_gone(result: Result<(), IoError>) -> Result<(), IoError> {
    let is_gone = |error: &IoError| {
        error.is_not_there()
            || matches!(
                error.raw_os_error(),
                Some(libc::ENODEV | libc::ENETUNREACH | libc::EHOSTUNREACH | libc::ENETDOWN | libc::EINVAL)
            )
    };
    result.or_else(|error| if is_gone(&error) { Ok(()) } else { Err(error) })
}
