//! [`Plan`]: everything that will be set up, decided before anything is touched.

use engine::Port;
use io::netlink::{Family, InterfaceIndex, Link, Netlink, OWNER_PROTOCOL, Rule, Table};
use io::{IoError, NamespaceId, bpf, features};
use wire::protocol;

use crate::firewall::Firewall;
use crate::inherited_resources::{InheritedResources, Inventory};
use crate::record::{Record, RecordedRule, RecordedSysctl};
use crate::steering::method::{self, Method};
use crate::steering::program;
use crate::upgrade::predecessor::Predecessor;
use crate::{
    Config, Event, EventSink, Notrack, RunError, SteeringChoice, firewall, forwarding, instances, notrack,
    placement, shards,
};

/// First routing table and first rule priority; each instance takes two of each, and a table for its subscribers.
const TABLE_BASE: u32 = 20_600;
const PRIORITY_BASE: u32 = 206;

/// Most instances side by side in one namespace.
const SLOTS: u32 = 100;

/// Distance of the table of an instance's subscribers behind that of its wired side.
const SUBSCRIBERS_BEHIND: u32 = 2 * SLOTS;

/// Packets a TUN holds for us: a bare echo lost 600 segments in 3 s with 1,000.
pub(crate) const QUEUE_LEN_PACKETS: u32 = 10_000;

/// Plan for one side.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct SidePlan {
    /// The interface whose TCP is steered.
    pub interface: String,
    /// The TUN device it is steered into.
    pub tun: String,
    /// The routing table whose only routes lead into the TUN.
    pub table: Table,
    /// The priority of the rule that leads to the table.
    pub priority: u32,
}

/// Everything that will be set up, and what the user should know about it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Plan {
    pub(crate) sides: [SidePlan; 2],
    /// Steering method, and why not by tcx.
    pub(crate) method: Method,
    pub(crate) families: Vec<Family>,
    /// The interfaces: wired, then mobile.
    pub(crate) links: [InterfaceIndex; 2],
    /// Of the interfaces: wired, then mobile.
    pub(crate) mtus: [u32; 2],
    /// The least that routes through them state, or the most there is.
    pub(crate) route_mtus: [u32; 2],
    pub(crate) gso: bool,
    /// Threads that handle packets, and queues of each device.
    pub(crate) shards: usize,
    pub(crate) sysctls: Vec<RecordedSysctl>,
    /// IPv6 prefix length that makes one subscriber, bits.
    pub(crate) ipv6_prefix_len: u8,
    /// More than a trickle of UDP leads a subscriber here, too.
    pub(crate) counts_datagrams: bool,
    /// Name and commands of the nft table, if one is needed.
    pub(crate) notrack: Option<(String, Vec<String>)>,
    pub(crate) namespace: NamespaceId,
    /// The instance whose place this one takes.
    pub(crate) predecessor: Option<Predecessor>,
    /// Changed for as long as that one is there.
    pub(crate) upgrade_sysctls: Vec<RecordedSysctl>,
    /// Whether only packets may come in through the wired and the mobile interface whose source is
    /// reached through it.
    pub(crate) strict_interfaces: [bool; 2],
    /// Reason why rules may not steer in place of programs.
    against_rules: Option<String>,
    /// The filter that is known to be passed by, as the settings allow.
    bypassed: Option<String>,
    /// A table keeps tracking away from the mobile side.
    has_notrack: bool,
    warnings: Vec<String>,
}

impl Plan {
    /// Looks at the machine and decides; changes nothing.
    ///
    /// # Errors
    /// When the interfaces cannot be used or something that is needed is missing.
    pub(crate) fn make(config: &Config, netlink: &Netlink) -> Result<Self, RunError> {
        let predecessor = Predecessor::find(config)?;
        let interfaces = check_interfaces(config, netlink)?;
        let (links, mtus) = (interfaces.map(|(index, _)| index), interfaces.map(|(_, mtu)| mtu));
        let route_mtus = route_mtus([&config.wired, &config.mobile], netlink)?;
        let namespace = NamespaceId::here()?;
        instances::refuse_taken(config, namespace, false, std::process::id())?;
        let families = families()?;
        let rules = all_rules(netlink, &families)?;
        let names = [config.wired.as_str(), config.mobile.as_str()];
        let programs = method::programs(netlink, names)?;
        refuse_steered(names, &rules, &programs, predecessor.as_ref())?;
        let behind = predecessor.as_ref().and_then(Predecessor::last_priority);
        let sides = free_slot(names, netlink, &families, (&rules, behind))?;
        let mut warnings = placement::cautions(names, netlink)?;
        for rule in rules.iter().filter(|rule| !rule.is_own && is_for(rule, names)) {
            warnings.push(format!(
                "rule '{rule}' names an interface: TCP comes back in through {} or {}, write it for those \
                 too",
                sides[0].tun, sides[1].tun
            ));
        }
        let sysctls = plan_forwarding(config, netlink, &families, predecessor.as_ref(), &mut warnings)?;
        let mut found = examine_firewall(config, &sides, netlink);
        warnings.append(&mut found.cautions);
        warnings.append(&mut found.unknown);
        let machine = method::Machine {
            names,
            netlink,
            found: &found,
            programs: &programs,
            predecessor: predecessor.as_ref(),
        };
        let method = method::choose(config, &machine)?;
        let reason = if method == Method::Tcx { &found.against_tcx } else { &found.against_rules };
        let bypassed = reason.clone().filter(|_| config.bypass_filters);
        warnings.extend(bypassed.iter().map(|rule| format!("--bypass-filters: {rule}")));
        let [by_programs, by_rules] = &found.against_turns;
        let against_turns = if method == Method::Tcx { by_programs } else { by_rules };
        warnings.extend(against_turns.iter().map(|rule| {
            format!("QUIC, other UDP and ESP do not take turns with TCP, because a filter decides about them: {rule}")
        }));
        let notrack = plan_notrack(config, &method, &found, &sides, predecessor.as_ref())?;
        let shards = plan_shards(config, &mut warnings);
        let upgrade_sysctls = predecessor.as_ref().map_or(Ok(Vec::new()), |before| before.sysctls(names))?;
        Ok(Self {
            strict_interfaces: names.map(method::is_strict),
            against_rules: method::against_rules(config, &found),
            bypassed,
            has_notrack: notrack.is_some(),
            method,
            sides,
            families,
            links,
            mtus,
            route_mtus,
            gso: config.gso,
            shards,
            sysctls,
            ipv6_prefix_len: config.ipv6_prefix_len,
            counts_datagrams: config.echo_markers,
            notrack,
            namespace,
            predecessor,
            upgrade_sysctls,
            warnings,
        })
    }

    /// Plan from what another instance has set up and noted in `record`, as it still is: to go on with.
    ///
    /// # Errors
    /// When an interface is not there, or the settings want it otherwise.
    pub(crate) fn inherited(
        config: &Config,
        netlink: &Netlink,
        record: &Record,
        inherited: &InheritedResources,
    ) -> Result<Self, RunError> {
        let kept = &inherited.inventory;
        let names = [config.wired.as_str(), config.mobile.as_str()];
        let namespace = NamespaceId::here()?;
        if names != [record.wired.as_str(), record.mobile.as_str()] || !namespace.is(&record.namespace) {
            let (wired, mobile) = (&record.wired, &record.mobile);
            return Err(RunError::Settings(format!("it has steered {wired} and {mobile}, elsewhere")));
        }
        if kept.is_bridge {
            return Err(RunError::Settings("it is a bridge, the settings say none".to_owned()));
        }
        if let Some(difference) = difference(config, kept) {
            return Err(RunError::Settings(difference));
        }
        // One that is down, or has no address, is waited for.
        let interfaces = find_interfaces(config, netlink)?.map(|link| (link.index, link.mtu));
        let has_programs = kept.shared_words > 0;
        let is_steered = |index| inherited.links.iter().any(|program| bpf::is_at(program, index));
        if has_programs && !interfaces.iter().all(|(index, _)| is_steered(*index)) {
            return Err(RunError::Settings("its programs are no longer at the interfaces".to_owned()));
        }
        let side = |at: usize| {
            let is_meant =
                |rule: &&RecordedRule| rule.interface == names[at] && rule.protocol == protocol::TCP;
            let rule = record.rules.iter().find(is_meant);
            SidePlan {
                interface: names[at].to_owned(),
                tun: record.tuns[at].clone(),
                table: Table(rule.map_or(0, |rule| rule.table)),
                priority: rule.map_or(0, |rule| rule.priority),
            }
        };
        Ok(Self {
            sides: [side(0), side(1)],
            method: if has_programs { Method::Tcx } else { Method::Rules { why: None } },
            families: families()?,
            links: interfaces.map(|(index, _)| index),
            mtus: interfaces.map(|(_, mtu)| mtu),
            route_mtus: route_mtus(names, netlink)?,
            gso: kept.gso,
            shards: kept.shards,
            sysctls: record.sysctls.clone(),
            ipv6_prefix_len: config.ipv6_prefix_len,
            counts_datagrams: config.echo_markers,
            notrack: None,
            namespace,
            predecessor: None,
            upgrade_sysctls: Vec::new(),
            strict_interfaces: names.map(method::is_strict),
            against_rules: None,
            bypassed: None,
            has_notrack: kept.has_table_owner,
            warnings: Vec::new(),
        })
    }

    /// Says what is set up, and what the user should know.
    pub(crate) fn tell(&self, events: &mut dyn EventSink) {
        self.commands().into_iter().for_each(|command| events.on_event(&Event::SetUp { command }));
        let cautions = self.warnings.iter().cloned();
        cautions.for_each(|advice| events.on_event(&Event::Caution { advice }));
    }

    /// Facts needed to watch packet filters while it is at work.
    pub(crate) fn watched(&self, config: &Config) -> firewall::Watched {
        firewall::Watched {
            interfaces: self.sides.each_ref().map(|side| side.interface.clone()),
            tuns: self.sides.each_ref().map(|side| side.tun.clone()),
            way: if self.method == Method::Tcx {
                firewall::WatchedWay::Programs(program::NAME)
            } else {
                let is_never = config.notrack == Notrack::Never;
                firewall::WatchedWay::Rules { has_notrack: self.has_notrack, is_never }
            },
            known: self.bypassed.clone(),
        }
    }

    /// Of the devices: what comes in through either interface fits.
    pub(crate) fn mtu(&self) -> u32 {
        let [wired, mobile] = self.mtus;
        wired.max(mobile)
    }

    pub(crate) fn side(&self, side: Port) -> &SidePlan {
        &self.sides[side.index()]
    }

    /// Steers by rules after all, because tcx failed.
    ///
    /// # Errors
    /// When a filter is against that.
    pub(crate) fn fall_back(&mut self, why: String) -> Result<(), RunError> {
        if let Some(rule) = self.against_rules.clone() {
            return Err(RunError::Filtered { rule, not_tcx: Some(why) });
        }
        self.method = Method::Rules { why: Some(why) };
        Ok(())
    }

    /// The steering rules, in the order in which they are installed; none where programs steer.
    pub(crate) fn rules(&self) -> Vec<Rule> {
        self.rules_at(self.sides.each_ref().map(|side| side.priority))
    }

    /// The same with other priorities: wired, mobile.
    pub(crate) fn rules_at(&self, priorities: [u32; 2]) -> Vec<Rule> {
        let [wired, mobile] = &self.sides;
        self.rules_for([&wired.interface, &mobile.interface], priorities)
    }

    /// The rules that steer what the instance before this one lets through: what it writes into its
    /// mobile device came from the servers.
    pub(crate) fn chain_rules(&self) -> Vec<Rule> {
        self.predecessor.as_ref().map_or_else(Vec::new, |before| {
            let [wired, mobile] = &before.tuns;
            self.rules_for([mobile, wired], self.sides.each_ref().map(|side| side.priority))
        })
    }

    /// Rules for packets that come in through `interfaces`, from servers and from clients.
    fn rules_for(&self, interfaces: [&str; 2], priorities: [u32; 2]) -> Vec<Rule> {
        let mut rules = Vec::new();
        if self.method == Method::Tcx {
            return rules;
        }
        for &family in &self.families {
            let icmp = if family == Family::V4 { protocol::ICMP } else { protocol::ICMPV6 };
            for protocol in [protocol::TCP, icmp] {
                let places = self.sides.iter().zip(priorities).zip(interfaces);
                rules.extend(places.map(|((side, priority), interface)| Rule {
                    family,
                    priority,
                    iif: Some(interface.to_owned()),
                    protocol: Some(protocol),
                    table: side.table,
                    is_own: true,
                }));
            }
            // Whatever else is sent to subscribers all of whose traffic is wanted.
            rules.push(Rule {
                family,
                priority: priorities[0],
                iif: Some(interfaces[0].to_owned()),
                protocol: None,
                table: self.subscribers_table(),
                is_own: true,
            });
        }
        rules
    }

    /// The table whose routes lead all that is sent to some subscribers into the wired device.
    pub(crate) fn subscribers_table(&self) -> Table {
        subscribers_table(self.sides[0].table)
    }

    /// The equivalent commands, in order.
    fn commands(&self) -> Vec<String> {
        let mut lines = vec![format!("# steering by {}", self.method)];
        for setting in &self.sysctls {
            lines.push(format!("sysctl -w {}={}", setting.path.replace('/', "."), setting.during));
        }
        for side in &self.sides {
            let queues = if self.shards > 1 { " multi_queue" } else { "" };
            lines.push(format!("ip tuntap add dev {} mode tun vnet_hdr{queues}", side.tun));
            lines.push(format!(
                "sysctl -w net.ipv6.conf.{0}.addr_gen_mode=1 net.ipv4.conf.{0}.forwarding=1",
                side.tun
            ));
            lines.push(format!(
                "ip link set {} mtu {} txqueuelen {QUEUE_LEN_PACKETS} multicast off up",
                side.tun,
                self.mtu()
            ));
            if self.method == Method::Tcx {
                lines.push(format!(
                    "# BPF program {} at {}: TCP and ICMP errors into {}",
                    program::NAME,
                    side.interface,
                    side.tun
                ));
                continue;
            }
            for family in &self.families {
                lines.push(format!(
                    "ip {family} route add default dev {} table {} protocol {OWNER_PROTOCOL}",
                    side.tun, side.table
                ));
            }
        }
        if let Some((_, commands)) = &self.notrack {
            lines.extend(commands.iter().map(|command| format!("nft '{command}'")));
        }
        for setting in &self.upgrade_sysctls {
            lines.push(format!("sysctl -w {}={}", setting.path.replace('/', "."), setting.during));
        }
        lines.extend(
            self.rules()
                .iter()
                .chain(&self.chain_rules())
                .map(|rule| format!("ip {} rule add {rule}", rule.family)),
        );
        lines.extend(self.notrack.iter().map(|(name, _)| format!("nft '{}'", notrack::opening(name))));
        lines
    }
}

/// Difference between `config` and the instance that has `kept`; none if there is none.
fn difference(config: &Config, kept: &Inventory) -> Option<String> {
    let shards = plan_shards(config, &mut Vec::new());
    let hang_after_ms = config.hang_after().as_millis();
    let has_programs = kept.shared_words > 0;
    let (has, wanted) = match config.steering {
        _ if shards != kept.shards => (format!("{} shards", kept.shards), shards.to_string()),
        _ if config.gso != kept.gso => (format!("super-packets {}", kept.gso), config.gso.to_string()),
        _ if hang_after_ms != kept.hang_after_ms => {
            (format!("a hang after {} ms", kept.hang_after_ms), format!("{hang_after_ms} ms"))
        }
        _ if config.notrack == Notrack::Always && !kept.has_table_owner => {
            ("no nft table".to_owned(), "notrack always".to_owned())
        }
        _ if config.notrack == Notrack::Never && kept.has_table_owner => {
            ("an nft table".to_owned(), "notrack never".to_owned())
        }
        SteeringChoice::Tcx if !has_programs => ("steering by rules".to_owned(), "tcx".to_owned()),
        SteeringChoice::Rules if has_programs => ("steering by tcx".to_owned(), "rules".to_owned()),
        _ => return None,
    };
    Some(format!("it has {has}, the settings say {wanted}"))
}

/// Number of shards: one where the kernel cannot lead each subscriber's packets to its own.
fn plan_shards(config: &Config, warnings: &mut Vec<String>) -> usize {
    let wanted = if config.shards == 0 { shards::suitable(config.busy_poll) } else { config.shards };
    if wanted == 1 {
        return 1;
    }
    match shards::is_possible(config.ipv6_prefix_len) {
        Ok(()) => wanted,
        Err(error) => {
            warnings.push(format!("one shard instead of {wanted}: {error}"));
            1
        }
    }
}

/// Both interfaces: they exist, and differ.
pub(crate) fn find_interfaces(config: &Config, netlink: &Netlink) -> Result<[Link; 2], RunError> {
    if config.wired == config.mobile {
        return Err(RunError::SameInterface(config.wired.clone()));
    }
    Ok([netlink.link(&config.wired)?, netlink.link(&config.mobile)?])
}

/// The same, and they are up and have addresses; gives their numbers and MTUs.
fn check_interfaces(config: &Config, netlink: &Netlink) -> Result<[(InterfaceIndex, u32); 2], RunError> {
    let links = find_interfaces(config, netlink)?;
    for link in &links {
        let name = &link.name;
        if !link.is_up {
            return Err(RunError::InterfaceDown(name.clone()));
        }
        if !Family::BOTH.iter().any(|family| has_address(netlink, name, *family).unwrap_or(false)) {
            return Err(RunError::NoAddress(name.clone()));
        }
    }
    Ok(links.map(|link| (link.index, link.mtu)))
}

/// The least MTU that routes through each interface state: who sends is told of it by the kernel,
/// and we, in between, are not (H23). IPv6 has routes of its own, which state what a router has
/// announced.
pub(crate) fn route_mtus(interfaces: [&str; 2], netlink: &Netlink) -> Result<[u32; 2], IoError> {
    let mut mtus = [u32::MAX; 2];
    for (name, mtu) in interfaces.into_iter().zip(&mut mtus) {
        let index = netlink.index_of(name)?;
        for family in Family::BOTH {
            *mtu = netlink.least_route_mtu(family, index)?.unwrap_or(u32::MAX).min(*mtu);
        }
    }
    Ok(mtus)
}

/// True when the interface has an address of the family that is not merely link-local.
/// Refuses interfaces that another accelerator steers, but for the one that is replaced.
fn refuse_steered(
    names: [&str; 2],
    rules: &[Rule],
    programs: &[Vec<String>; 2],
    predecessor: Option<&Predecessor>,
) -> Result<(), RunError> {
    let is_known = |rule: &Rule| predecessor.is_some_and(|before| before.has_rule(rule));
    if let Some(rule) = rules.iter().find(|rule| rule.is_own && is_for(rule, names) && !is_known(rule)) {
        let interface = rule.iif.clone().unwrap_or_default();
        return Err(RunError::AlreadySteered { interface, how: format!("rule priority {}", rule.priority) });
    }
    match programs.iter().position(|at| at.iter().any(|name| name == program::NAME)) {
        Some(at) if predecessor.is_none() => {
            let how = format!("BPF program {}", program::NAME);
            Err(RunError::AlreadySteered { interface: names[at].to_owned(), how })
        }
        _ => Ok(()),
    }
}

fn has_address(netlink: &Netlink, name: &str, family: Family) -> Result<bool, IoError> {
    let addresses = netlink.addresses(netlink.index_of(name)?)?;
    Ok(addresses.iter().any(|cidr| match cidr.address {
        std::net::IpAddr::V4(_) => family == Family::V4,
        std::net::IpAddr::V6(address) => family == Family::V6 && !address.is_unicast_link_local(),
    }))
}

/// The IP versions this machine has.
fn families() -> Result<Vec<Family>, IoError> {
    match features::require(features::Feature::Ipv6) {
        Ok(()) => Ok(Family::BOTH.to_vec()),
        Err(IoError::Missing { .. }) => Ok(vec![Family::V4]),
        Err(e) => Err(e),
    }
}

fn all_rules(netlink: &Netlink, families: &[Family]) -> Result<Vec<Rule>, IoError> {
    let mut rules = Vec::new();
    for family in families {
        rules.extend(netlink.rules(*family)?);
    }
    Ok(rules)
}

fn is_for(rule: &Rule, names: [&str; 2]) -> bool {
    rule.iif.as_deref().is_some_and(|iif| names.contains(&iif))
}

/// The priorities of the rules of a slot: wired, mobile.
const fn priorities(slot: u32) -> [u32; 2] {
    [PRIORITY_BASE + 2 * slot, PRIORITY_BASE + 2 * slot + 1]
}

const fn subscribers_table(of_wired: Table) -> Table {
    Table(of_wired.0 + SUBSCRIBERS_BEHIND)
}

/// The first priorities that nobody's rules have.
pub(crate) fn free_priorities(netlink: &Netlink, families: &[Family]) -> Result<Option<[u32; 2]>, IoError> {
    let rules = all_rules(netlink, families)?;
    let is_free = |pair: &[u32; 2]| !rules.iter().any(|rule| pair.contains(&rule.priority));
    Ok((0..SLOTS).map(priorities).find(is_free))
}

/// The first numbers that nobody uses; the priorities of its rules come behind `behind`.
fn free_slot(
    names: [&str; 2],
    netlink: &Netlink,
    families: &[Family],
    (rules, behind): (&[Rule], Option<u32>),
) -> Result<[SidePlan; 2], RunError> {
    let mut tables: Vec<Table> = rules.iter().map(|rule| rule.table).collect();
    for family in families {
        tables.extend(netlink.tables_in_use(*family)?);
    }
    let links = netlink.links()?;
    for slot in 0..SLOTS {
        let sides = [(0, 'w'), (1, 'm')].map(|(offset, letter)| SidePlan {
            interface: names[offset as usize].to_owned(),
            tun: format!("cell{letter}{slot}"),
            table: Table(TABLE_BASE + 2 * slot + offset),
            priority: priorities(slot)[offset as usize],
        });
        let is_free = sides.iter().all(|side| {
            ![side.table, subscribers_table(side.table)].iter().any(|table| tables.contains(table))
                && !rules.iter().any(|rule| rule.priority == side.priority)
                && behind.is_none_or(|behind| side.priority > behind)
                && !links.iter().any(|link| link.name == side.tun)
        });
        if is_free {
            return Ok(sides);
        }
    }
    Err(RunError::NoFreeSlot)
}

/// Change so that packets are forwarded, or a warning that they are not.
fn plan_forwarding(
    config: &Config,
    netlink: &Netlink,
    families: &[Family],
    predecessor: Option<&Predecessor>,
    warnings: &mut Vec<String>,
) -> Result<Vec<RecordedSysctl>, RunError> {
    let mut changes = Vec::new();
    let names = [config.wired.as_str(), config.mobile.as_str()];
    for &family in families {
        // It stays on when the instance before ends, and is put back as that one would have.
        let theirs = predecessor.and_then(|before| forwarding::change_in(&before.settings, family));
        if let Some(change) = theirs.filter(|_| config.set_forwarding) {
            changes.push(change);
            continue;
        }
        let is_used = has_address(netlink, names[0], family)? && has_address(netlink, names[1], family)?;
        if !is_used {
            continue;
        }
        let is_on = forwarding::is_on(family, names)?;
        if !config.set_forwarding {
            warnings.extend((!is_on).then(|| forwarding::advice(family)));
            continue;
        }
        // Read before the others' records: whoever has switched it on by then has written that down.
        let own = forwarding::change(family)?;
        // One that another instance has switched on stays on for both: the last one to end puts it back.
        let others = forwarding::change_in(&instances::changed_settings(config)?, family);
        changes.extend(others.or_else(|| (!is_on).then_some(own)));
    }
    Ok(changes)
}

fn examine_firewall(config: &Config, sides: &[SidePlan; 2], netlink: &Netlink) -> Firewall {
    firewall::examine(names_of(sides), netlink, config.notrack == Notrack::Never)
}

fn names_of([wired, mobile]: &[SidePlan; 2]) -> firewall::Names<'_> {
    firewall::Names {
        wired: &wired.interface,
        mobile: &mobile.interface,
        wired_tun: &wired.tun,
        mobile_tun: &mobile.tun,
    }
}

/// The nft table, if it is needed and can be had.
fn plan_notrack(
    config: &Config,
    method: &Method,
    found: &Firewall,
    [_, mobile]: &[SidePlan; 2],
    predecessor: Option<&Predecessor>,
) -> Result<Option<(String, Vec<String>)>, RunError> {
    let is_wanted = match config.notrack {
        Notrack::Auto => found.tracks_connections,
        Notrack::Always => true,
        Notrack::Never => false,
    };
    if !is_wanted || *method == Method::Tcx {
        return Ok(None);
    }
    if features::find_program("nft").is_none() {
        return Err(RunError::NftMissing);
    }
    let name = format!("{}{}", firewall::TABLE_PREFIX, std::process::id());
    let chained = predecessor.map(|before| before.tuns[0].as_str());
    let commands = notrack::commands(&name, &mobile.interface, &mobile.tun, chained);
    Ok(Some((name, commands)))
}
