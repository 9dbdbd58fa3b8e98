//! Policy rules: which routing table a packet is looked up in.

use std::fmt;

use netlink_packet_core::{NLM_F_CREATE, NLM_F_EXCL};
use netlink_packet_route::RouteNetlinkMessage;
use netlink_packet_route::route::RouteProtocol;
use netlink_packet_route::rule::{RuleAction, RuleAttribute, RuleFlags, RuleMessage};

use super::{Cidr, Family, Netlink, OWNER_PROTOCOL, Table};
use crate::IoError;

const ICMP: u8 = libc::IPPROTO_ICMP as u8;
const TCP: u8 = libc::IPPROTO_TCP as u8;
const ICMPV6: u8 = libc::IPPROTO_ICMPV6 as u8;

/// A policy rule: packets that match are looked up in a table, and go on to the next rule when the
/// table has no route for them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rule {
    /// The IP version it is for.
    pub family: Family,
    /// Rules are asked in rising order of priority; `local` is 0, `main` 32766.
    pub priority: u32,
    /// Only packets that came in through this interface.
    pub iif: Option<String>,
    /// Only this IP protocol, by number.
    pub protocol: Option<u8>,
    /// The table to look in.
    pub table: Table,
    /// Made by this program: carries [`OWNER_PROTOCOL`].
    pub is_own: bool,
}

/// Conditions of packets that are looked up in a table, as far as a rule asks for source and interface.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lookup {
    /// The table.
    pub table: Table,
    /// Packets from these addresses alone.
    pub source: Option<Cidr>,
    /// Packets of sockets that are bound to this interface alone.
    pub oif: Option<String>,
    /// Other conditions, too: a mark, a protocol, an inversion and the like.
    pub has_other: bool,
}

impl fmt::Display for Rule {
    /// As the arguments of `ip -4 rule add`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(iif) = &self.iif {
            write!(f, "iif {iif} ")?;
        }
        match self.protocol {
            Some(TCP) => f.write_str("ipproto tcp ")?,
            Some(ICMP) => f.write_str("ipproto icmp ")?,
            Some(ICMPV6) => f.write_str("ipproto ipv6-icmp ")?,
            Some(other) => write!(f, "ipproto {other} ")?,
            None => {}
        }
        write!(f, "lookup {} priority {}", self.table, self.priority)?;
        if self.is_own { write!(f, " protocol {OWNER_PROTOCOL}") } else { Ok(()) }
    }
}

impl Netlink {
    /// Adds a rule.
    ///
    /// # Errors
    /// When it is there already or the privilege is missing.
    pub fn add_rule(&self, rule: &Rule) -> Result<(), IoError> {
        self.change(RouteNetlinkMessage::NewRule(message(rule)), NLM_F_CREATE | NLM_F_EXCL, || {
            format!("add the {} rule '{rule}'", rule.family)
        })
    }

    /// Deletes the first rule that matches.
    ///
    /// # Errors
    /// When there is none.
    pub fn delete_rule(&self, rule: &Rule) -> Result<(), IoError> {
        self.change(RouteNetlinkMessage::DelRule(message(rule)), 0, || {
            format!("delete the {} rule '{rule}'", rule.family)
        })
    }

    /// All rules of a family that look up a table, in the order in which they are asked.
    ///
    /// # Errors
    /// When the kernel does not answer.
    pub fn rules(&self, family: Family) -> Result<Vec<Rule>, IoError> {
        let mut request = RuleMessage::default();
        request.header.family = family.to_netlink();
        let answers = self.dump(RouteNetlinkMessage::GetRule(request), || "list policy rules".to_owned())?;
        let mut rules: Vec<Rule> = answers.into_iter().filter_map(|answer| parse(answer, family)).collect();
        rules.sort_by_key(|rule| rule.priority);
        Ok(rules)
    }

    /// Look-ups of all rules of a family, including rules of others.
    ///
    /// # Errors
    /// When the kernel does not answer.
    pub fn lookups(&self, family: Family) -> Result<Vec<Lookup>, IoError> {
        let mut request = RuleMessage::default();
        request.header.family = family.to_netlink();
        let answers = self.dump(RouteNetlinkMessage::GetRule(request), || "list policy rules".to_owned())?;
        Ok(answers.into_iter().filter_map(lookup).collect())
    }
}

fn message(rule: &Rule) -> RuleMessage {
    let mut message = RuleMessage::default();
    message.header.family = rule.family.to_netlink();
    message.header.action = RuleAction::ToTable;
    message.header.table = u8::try_from(rule.table.0).unwrap_or(0);
    message.attributes.push(RuleAttribute::Table(rule.table.0));
    message.attributes.push(RuleAttribute::Priority(rule.priority));
    message.attributes.extend(rule.iif.clone().map(RuleAttribute::Iifname));
    message.attributes.extend(rule.protocol.map(|number| RuleAttribute::IpProtocol(number.into())));
    if rule.is_own {
        message.attributes.push(RuleAttribute::Protocol(RouteProtocol::from(OWNER_PROTOCOL)));
    }
    message
}

pub(super) fn lookup(answer: RouteNetlinkMessage) -> Option<Lookup> {
    let RouteNetlinkMessage::NewRule(message) = answer else { return None };
    if message.header.action != RuleAction::ToTable {
        return None;
    }
    let (mut table, mut source, mut oif) = (Table(u32::from(message.header.table)), None, None);
    let mut has_other = message.header.flags.contains(RuleFlags::Invert) || message.header.tos != 0;
    for attribute in message.attributes {
        match attribute {
            RuleAttribute::Table(stated) => table = Table(stated),
            RuleAttribute::Source(address) => source = Some(Cidr::new(address, message.header.src_len)),
            RuleAttribute::Oifname(name) => oif = Some(name),
            // Every rule has these; all bits of `u32` mean that nothing is suppressed.
            RuleAttribute::Priority(_) | RuleAttribute::Protocol(_) => {}
            RuleAttribute::SuppressPrefixLen(u32::MAX) | RuleAttribute::SuppressIfGroup(u32::MAX) => {}
            _ => has_other = true,
        }
    }
    Some(Lookup { table, source, oif, has_other })
}

pub(super) fn parse(answer: RouteNetlinkMessage, family: Family) -> Option<Rule> {
    let RouteNetlinkMessage::NewRule(message) = answer else { return None };
    if message.header.action != RuleAction::ToTable {
        return None;
    }
    let table = Table(u32::from(message.header.table));
    let mut rule = Rule { family, priority: 0, iif: None, protocol: None, table, is_own: false };
    for attribute in message.attributes {
        match attribute {
            RuleAttribute::Priority(priority) => rule.priority = priority,
            RuleAttribute::Iifname(name) => rule.iif = Some(name),
            RuleAttribute::IpProtocol(protocol) => rule.protocol = Some(protocol.into()),
            RuleAttribute::Table(table) => rule.table = Table(table),
            RuleAttribute::Protocol(protocol) => rule.is_own = u8::from(protocol) == OWNER_PROTOCOL,
            _ => {}
        }
    }
    Some(rule)
}
