//! The parsers of what a netlink socket says, for the fuzz target `netlink`. Nothing here is for programs.

use super::attributes::{attributes, messages, verdict};
use super::{Chain, DefaultRoute, Family, InterfaceIndex, Ruleset};
use super::{addresses, diagnosis, legacy_filter, links, mptcp, routes, rules, take_answers, wireless};

/// Counts of what was understood of a datagram.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Understood {
    /// Messages of the routing family.
    pub answers: usize,
    /// Links, addresses, routes and rules among them.
    pub parsed: usize,
    /// Messages of other families, by their headers.
    pub messages: usize,
    /// Bytes in their attributes.
    pub attribute_bytes: usize,
}

/// A datagram as the answer to request `number`, through every parser that there is; the error's text where it is
/// a refusal or senseless.
pub fn read(datagram: &[u8], number: u32) -> (Understood, Option<String>) {
    let mut answers = Vec::new();
    let error = take_answers(datagram, number, &mut answers).err();
    let mut all = Understood { answers: answers.len(), ..Understood::default() };
    for answer in answers {
        let families = Family::BOTH.into_iter();
        let both = families.map(|family| {
            let route = routes::parse(answer.clone(), family);
            // Its text is shown to people.
            let route = route.map(|route| route.to_string().len()).is_some();
            let mtu = routes::stated_mtu(&answer, InterfaceIndex(1)).is_some();
            let rule = rules::parse(answer.clone(), family).map(|rule| rule.to_string().len()).is_some();
            let _ = rules::lookup(answer.clone());
            usize::from(route) + usize::from(mtu) + usize::from(rule)
        });
        all.parsed += both.sum::<usize>();
        all.parsed += usize::from(addresses::parse(answer.clone(), InterfaceIndex(1)).is_some());
        all.parsed += usize::from(links::parse(answer).is_some());
    }
    let others = messages(datagram);
    all.messages = others.len();
    for (_, _, flags, body) in others {
        // With and without the header of a generic family.
        for body in [body, body.get(4..).unwrap_or_default()] {
            let length = |bytes: &[u8]| attributes(bytes).iter().map(|(_, value)| value.len()).sum::<usize>();
            all.attribute_bytes = all.attribute_bytes.max(length(body));
            let _ = mptcp::parse_endpoint(body);
            let _ = mptcp::parse_event(body.first().copied().unwrap_or(0), body);
            let _ = wireless::signal(body);
            let _ = diagnosis::parse(body);
        }
        drop(verdict(body, flags));
    }
    (all, error.map(|error| error.to_string()))
}

/// The packet filter's rules as the kernel says them, in one piece.
#[must_use]
pub fn ruleset(bytes: &[u8]) -> Ruleset {
    let mut ruleset = Ruleset::default();
    messages(bytes).into_iter().for_each(|(kind, _, _, body)| ruleset.take(kind, body));
    ruleset
}

/// The chains of a table of the older iptables, by what the kernel says of its entries and the entries themselves.
#[must_use]
pub fn legacy(family: Family, bytes: &[u8]) -> Vec<Chain> {
    let (info, entries) = bytes.split_at(bytes.len().min(legacy_filter::INFO_LEN));
    legacy_filter::chains(family, "filter", info, entries)
}

/// A default route as it was written down ([`DefaultRoute::to_text`]); its text again.
#[must_use]
pub fn default_route(text: &str) -> Option<String> {
    let route = DefaultRoute::from_text(text)?;
    // The settings of one that stands behind others.
    let _ = (route.metric(), route.is_demoted(), route.demoted().to_text());
    let part = route.with_hops(|device| device == InterfaceIndex(1));
    let _ = part.map(|part| (part.is_part_of(&route), part.is_shared()));
    Some(route.to_text())
}
