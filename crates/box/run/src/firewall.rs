//! Effects of packet filters of others that matter here: whether they would decide otherwise of TCP once it is steered.
//!
//! Steered TCP passes the hooks under the names of the TUN devices. Where programs steer it passes them once, from the
//! other side's device to the interface it leaves by; where rules steer also before that, from the interface it came
//! in by to the device, and on the mobile side untracked (`notrack.rs`). So for every chain at a hook, what is left of
//! it for TCP under those names ([`Residual`]) is compared with what is left of it under the names of the interfaces.
//! Where that is not the same a filter would be passed by, or would drop what it lets through now.

use std::fs;
use std::io::ErrorKind;
use std::process::{Command, Stdio};

use io::netlink::{Action, Chain, Family, FilterFamily, Hook, Netlink, PacketFilter, Ruleset, legacy_chains};

mod residual;
mod watch;

pub(crate) use watch::{FilterWatch, Watched, Way as WatchedWay, at_interfaces};

pub(crate) use residual::Face;
use residual::{Line, Passage, Residual, sees};
use wire::protocol;

/// Findings about the packet filters.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Firewall {
    /// NAT or connection tracking is in use.
    pub tracks_connections: bool,
    /// Reason why a filter would be passed by or break flows where programs steer: the first thing found.
    pub against_tcx: Option<String>,
    /// The same where rules steer.
    pub against_rules: Option<String>,
    /// Reason why frames are not to be taken from the interfaces by sockets, in place of a bridge of the kernel's.
    pub against_frames: Option<String>,
    /// Reasons why other packets to subscribers than TCP are not to be steered, by programs and by rules: a
    /// filter would decide otherwise of them.
    pub against_turns: [Option<String>; 2],
    /// One line for each thing that is no reason against either, and to be known.
    pub cautions: Vec<String>,
    /// One line for each thing that could not be examined.
    pub unknown: Vec<String>,
}

/// Stands for whatever is neither TCP nor UDP.
const ESP: u8 = 50;

/// Prefix of the names of our own nft tables.
pub(crate) const TABLE_PREFIX: &str = "cellerator_";

/// The interfaces on both sides and their TUN devices.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Names<'a> {
    pub wired: &'a str,
    pub mobile: &'a str,
    pub wired_tun: &'a str,
    pub mobile_tun: &'a str,
}

/// Reads the rules of the kernel, and notes what could not be read of them.
pub(crate) fn read() -> (Ruleset, Vec<String>) {
    let mut unknown = Vec::new();
    let read = PacketFilter::open().and_then(|filter| filter.read());
    let mut ruleset = read.unwrap_or_else(|error| {
        unknown.push(error.to_string());
        Ruleset::default()
    });
    ruleset.chains.extend(read_legacy(&mut unknown));
    ruleset.chains.retain(|chain| !chain.table.starts_with(TABLE_PREFIX));
    (ruleset, unknown)
}

/// The chains of the older iptables.
fn read_legacy(unknown: &mut Vec<String>) -> Vec<Chain> {
    let mut all = Vec::new();
    for (family, list) in [(Family::V4, "ip_tables_names"), (Family::V6, "ip6_tables_names")] {
        match legacy_tables(list) {
            Ok(tables) => {
                for table in tables {
                    match legacy_chains(family, &table) {
                        Ok(chains) => all.extend(chains),
                        Err(error) => unknown.push(error.to_string()),
                    }
                }
            }
            // Only root may see it.
            Err(error) if error.kind() == ErrorKind::PermissionDenied => {
                unknown.push(format!(
                    "/proc/net/{list} is for root to see: rules of iptables-legacy were not examined"
                ));
            }
            // The kernel has none.
            Err(_) => {}
        }
    }
    all
}

/// The tables of the older iptables that are in use.
fn legacy_tables(list: &str) -> std::io::Result<Vec<String>> {
    let text = fs::read_to_string(format!("/proc/thread-self/net/{list}"))?;
    Ok(text.lines().map(str::to_owned).collect())
}

/// Examines the packet filters of the calling thread's namespace. `tracks_mobile` says that the mobile side stays
/// tracked where rules steer.
pub(crate) fn examine(names: Names<'_>, netlink: &Netlink, tracks_mobile: bool) -> Firewall {
    let (ruleset, unknown) = read();
    let interfaces = faces(names, netlink);
    let mut found = judge(&ruleset, names, interfaces, tracks_mobile, &list_chain);
    // What cannot be seen may track.
    found.tracks_connections |= !unknown.is_empty();
    found.unknown = unknown;
    found
}

/// The interfaces as rules may know them: wired, mobile.
fn faces<'a>(names: Names<'a>, netlink: &Netlink) -> [Face<'a>; 2] {
    [names.wired, names.mobile].map(|name| match netlink.link(name) {
        Ok(link) => {
            Face { name, index: Some(link.index.get()), is_bridge: link.kind.as_deref() == Some("bridge") }
        }
        Err(_) => Face { name, index: Some(0), is_bridge: true },
    })
}

/// Finds the first reason against either way to steer, and what else is to be known.
pub(crate) fn judge(
    ruleset: &Ruleset,
    names: Names<'_>,
    interfaces: [Face<'_>; 2],
    tracks_mobile: bool,
    list: List<'_>,
) -> Firewall {
    let mut found = Firewall { tracks_connections: tracks(ruleset), ..Firewall::default() };
    let scene = Scene { ruleset, names, interfaces, tracks_mobile, list, protocol: protocol::TCP };
    found.against_tcx = scene
        .at_arrival()
        .map(|(rule, name)| format!("{rule} sees what comes in by {name}, which programs take before it"))
        .or_else(|| scene.first_difference(Scene::differs_by_programs));
    found.against_rules = scene.first_difference(Scene::differs_by_rules);
    for other in [protocol::UDP, ESP] {
        let scene = Scene { protocol: other, ..scene };
        let [by_programs, by_rules] = &mut found.against_turns;
        let at_arrival =
            || scene.at_arrival().map(|(rule, name)| format!("{rule} sees what comes in by {name}"));
        *by_programs = by_programs
            .take()
            .or_else(|| at_arrival().or_else(|| scene.first_difference(Scene::differs_by_programs)));
        *by_rules = by_rules.take().or_else(|| scene.first_difference(Scene::differs_by_rules));
    }
    // Of frames all protocols come, and nothing of what is for IP's hooks.
    found.against_frames = [protocol::TCP, protocol::UDP, protocol::ICMP, protocol::ICMPV6, ESP]
        .into_iter()
        .find_map(|protocol| Scene { protocol, ..scene }.at_frames());
    if let Some(program) = ruleset.programs.first() {
        let why = format!(
            "a BPF program of netfilter's ({}) is at the {} hook of {}, and what it decides by is not known",
            program.name,
            hook_name(program.hook),
            program.family.name()
        );
        found.against_tcx.get_or_insert_with(|| why.clone());
        found.against_rules.get_or_insert(why);
    }
    for name in &ruleset.flowtables {
        found.cautions.push(io::one_line(format!(
            "nft flowtable '{name}' takes forwarded flows past the routing rules: they are not accelerated"
        )));
        found.against_tcx.get_or_insert_with(|| io::one_line(format!("nft flowtable '{name}'")));
    }
    found.cautions.extend(scene.translation_towards_clients());
    found
}

const fn hook_name(hook: Hook) -> &'static str {
    match hook {
        Hook::Ingress => "ingress",
        Hook::Prerouting => "prerouting",
        Hook::Input => "input",
        Hook::Forward => "forward",
        Hook::Output => "output",
        Hook::Postrouting => "postrouting",
        Hook::Egress => "egress",
    }
}

/// True when a rule needs connection tracking, which then sees everything.
pub(crate) fn tracks(ruleset: &Ruleset) -> bool {
    const MATCHES: [&str; 7] =
        ["conntrack", "state", "connmark", "connbytes", "connlimit", "connlabel", "helper"];
    let by_rule = |chain: &Chain| {
        chain.rules.iter().flat_map(|rule| &rule.expressions).any(|expression| match &expression.action {
            Action::Track { .. } => true,
            Action::Match { name, .. } => MATCHES.contains(&name.as_str()),
            Action::Target { name } => {
                ["CONNMARK", "MASQUERADE", "SNAT", "DNAT", "REDIRECT", "NETMAP"].contains(&name.as_str())
            }
            _ => ["ct", "nat", "masq", "redir", "connlimit"].contains(&expression.name.as_str()),
        })
    };
    ruleset.chains.iter().any(|chain| {
        let is_nat = chain.base.as_ref().is_some_and(|base| base.kind == "nat");
        // An empty table of the older iptables was made by who looked at it.
        let is_empty = chain.is_legacy && chain.rules.is_empty();
        (is_nat && !is_empty) || by_rule(chain)
    })
}

/// Gives the text of a chain by family, table and name.
type List<'a> = &'a dyn Fn([&str; 3]) -> String;

/// From the clients to the servers, or back.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Way {
    Up,
    Down,
}

/// A chain that is looked at for packets of one family that go one way.
#[derive(Clone, Copy)]
struct Look {
    chain: usize,
    hook: Hook,
    way: Way,
    is_ipv6: bool,
}

/// Packets that are examined, and the interfaces between which they pass.
#[derive(Clone, Copy)]
struct Scene<'a> {
    ruleset: &'a Ruleset,
    names: Names<'a>,
    /// Wired, mobile.
    interfaces: [Face<'a>; 2],
    tracks_mobile: bool,
    list: List<'a>,
    /// Of the packets.
    protocol: u8,
}

impl<'a> Scene<'a> {
    fn wired(&self) -> Face<'a> {
        self.interfaces[0]
    }

    fn mobile(&self) -> Face<'a> {
        self.interfaces[1]
    }

    fn wired_tun(&self) -> Face<'a> {
        Face { name: self.names.wired_tun, index: None, is_bridge: false }
    }

    fn mobile_tun(&self) -> Face<'a> {
        Face { name: self.names.mobile_tun, index: None, is_bridge: false }
    }

    fn residual(&self, look: Look, [way_in, way_out]: [Face<'a>; 2], is_tracked: bool) -> Residual {
        let (is_ipv6, protocol) = (look.is_ipv6, self.protocol);
        let passage = Passage { way_in, way_out, is_tracked, is_ipv6, protocol };
        Residual::of(self.ruleset, look.chain, look.hook, passage)
    }

    /// As it would be without us.
    fn plain(&self, look: Look) -> Residual {
        let ends = [self.mobile(), self.wired()];
        self.residual(look, if look.way == Way::Up { ends } else { [ends[1], ends[0]] }, true)
    }

    /// Looks at all chains at hooks that TCP passes behind a device of ours, each way and in each family.
    fn first_difference(&self, differs: fn(&Self, Look) -> Option<String>) -> Option<String> {
        for (chain, at) in self.ruleset.chains.iter().enumerate() {
            let Some(base) = &at.base else { continue };
            if !matches!(base.hook, Hook::Prerouting | Hook::Forward | Hook::Postrouting) {
                continue;
            }
            for is_ipv6 in [false, true] {
                if !sees(at.family, is_ipv6) {
                    continue;
                }
                // Of other packets only those to subscribers come here.
                let ways: &[Way] =
                    if self.protocol == protocol::TCP { &[Way::Up, Way::Down] } else { &[Way::Down] };
                for &way in ways {
                    let found = differs(self, Look { chain, hook: base.hook, way, is_ipv6 });
                    if found.is_some() {
                        return found;
                    }
                }
            }
        }
        None
    }

    /// A rule that does more than accept to what comes in, before programs of ours or sockets take it, and the
    /// interface.
    fn at_arrival(&self) -> Option<(String, &'a str)> {
        self.first_change(|chain, from| {
            let base = chain.base.as_ref().filter(|base| base.hook == Hook::Ingress)?;
            let is_its = |device: &String| match device.strip_suffix('*') {
                Some(start) => from.starts_with(start),
                None => device == from,
            };
            (base.devices.is_empty() || base.devices.iter().any(is_its)).then_some(Hook::Ingress)
        })
    }

    /// Reason why frames should not be taken from the interfaces, and put out at the other one.
    fn at_frames(&self) -> Option<String> {
        if let Some((rule, name)) = self.at_arrival() {
            return Some(format!("{rule} sees what comes in by {name}, which a socket takes before it"));
        }
        let of_bridge = |chain: &Chain| {
            let is_there = |hook: &Hook| matches!(hook, Hook::Prerouting | Hook::Forward | Hook::Postrouting);
            let base = chain.base.as_ref().filter(|_| chain.family == FilterFamily::Bridge)?;
            Some(base.hook).filter(is_there)
        };
        let (rule, _) = self.first_change(|chain, _| of_bridge(chain))?;
        Some(format!("{rule} sees what the kernel bridges, and this process does that in its place"))
    }

    /// The first rule that does more than accept, of the chains that `hook` gives a hook of for what comes in by an
    /// interface; and that.
    fn first_change(&self, hook: impl Fn(&Chain, &str) -> Option<Hook>) -> Option<(String, &'a str)> {
        for (chain, at) in self.ruleset.chains.iter().enumerate() {
            for (from, to, way) in
                [(self.mobile(), self.wired(), Way::Up), (self.wired(), self.mobile(), Way::Down)]
            {
                let Some(hook) = hook(at, from.name) else { continue };
                for is_ipv6 in [false, true] {
                    let left = self.residual(Look { chain, hook, way, is_ipv6 }, [from, to], true);
                    if !left.accepts_all() {
                        let line =
                            left.lines.iter().find(|line| !matches!(line.effect, residual::Effect::Accept));
                        return Some((line.map_or_else(String::new, |line| self.describe(line)), from.name));
                    }
                }
            }
        }
        None
    }

    /// Difference where programs steer: TCP comes once, from a device.
    fn differs_by_programs(&self, look: Look) -> Option<String> {
        let ends = match look.way {
            Way::Up => [self.wired_tun(), self.wired()],
            Way::Down => [self.mobile_tun(), self.mobile()],
        };
        let (plain, steered) = (self.plain(look), self.residual(look, ends, true));
        let line = plain.difference(&steered)?;
        let Names { wired, mobile, wired_tun, mobile_tun } = self.names;
        Some(format!(
            "{} would not apply as it does: TCP from {mobile} would come by {wired_tun}, and TCP from {wired} by \
             {mobile_tun}; say the same of those",
            self.describe(line)
        ))
    }

    /// Difference where rules steer: TCP comes twice, and on the mobile side untracked. A filter has to work
    /// once, and must not be in the way the other time.
    fn differs_by_rules(&self, look: Look) -> Option<String> {
        let [mobile, wired] = match look.way {
            Way::Up => [[self.mobile(), self.mobile_tun()], [self.wired_tun(), self.wired()]],
            Way::Down => [[self.mobile_tun(), self.mobile()], [self.wired(), self.wired_tun()]],
        };
        let is_nat = self.ruleset.chains[look.chain].base.as_ref().is_some_and(|base| base.kind == "nat");
        let plain = self.plain(look);
        let at_wired = self.residual(look, wired, true);
        // What is not tracked is not translated.
        let at_mobile = self.residual(look, mobile, self.tracks_mobile);
        if is_nat {
            return plain.difference(&at_wired).map(|line| self.advise(look.chain, line, true));
        }
        let excess = at_mobile.excess(&plain);
        if excess.is_none() && at_wired == plain {
            return None;
        }
        if at_mobile == plain && at_wired.accepts_all() && !plain.has_changes() {
            return None;
        }
        if let (Some(all), Some(once), Some(twice)) =
            (plain.drops_only(), at_mobile.drops_only(), at_wired.drops_only())
        {
            let is_either = |line: &Line| once.contains(line) || twice.contains(line);
            let are_known = once.iter().chain(twice).all(|line| all.contains(line));
            if all.iter().all(is_either) && are_known {
                return None;
            }
        }
        let line = plain.difference(&at_wired).map(|line| (line, true));
        let (line, is_wired) = line.or_else(|| Some((excess?, false)))?;
        Some(self.advise(look.chain, line, is_wired))
    }

    /// Advice on what to add where rules steer.
    fn advise(&self, chain: usize, line: &Line, is_wired: bool) -> String {
        let rule = self.describe(line);
        let Names { wired, mobile, wired_tun, mobile_tun } = self.names;
        let hook = self.ruleset.chains.get(chain).and_then(|chain| chain.base.as_ref()).map(|base| base.hook);
        if hook == Some(Hook::Prerouting) {
            format!(
                "{rule} would see TCP come in by {wired_tun} and {mobile_tun} too: accept what comes by those before \
                 it, or say the same of {wired_tun} as of {mobile} if it marks or translates"
            )
        } else if is_wired {
            format!(
                "{rule} would not apply as it does: TCP would go from {wired_tun} to {wired} and back instead of from \
                 {mobile} to {wired}; say the same of {wired_tun} as of {mobile}, and accept from {mobile} to \
                 {mobile_tun} and from {mobile_tun} to {mobile}"
            )
        } else {
            format!(
                "{rule} would drop or change TCP between {mobile} and {mobile_tun}, which is not tracked there: accept \
                 `iifname {mobile} oifname {mobile_tun}` and `iifname {mobile_tun} oifname {mobile}` before it; \
                 {wired_tun} stands for {mobile} in all other rules"
            )
        }
    }

    /// Rules that translate what goes to the clients, where it is not tracked.
    fn translation_towards_clients(&self) -> Vec<String> {
        let mut all = Vec::new();
        for (chain, at) in self.ruleset.chains.iter().enumerate() {
            let is_nat =
                at.base.as_ref().is_some_and(|base| base.kind == "nat" && base.hook == Hook::Postrouting);
            if !is_nat || self.tracks_mobile || self.names.mobile.is_empty() {
                continue;
            }
            let look = Look {
                chain,
                hook: Hook::Postrouting,
                way: Way::Down,
                is_ipv6: at.family == FilterFamily::V6,
            };
            let left = self.plain(look);
            let nobody = Face { name: "", index: Some(0), is_bridge: false };
            let elsewhere = self.residual(look, [self.wired(), nobody], true);
            // What is of any interface is hardly meant for this one, unless it is about everything.
            let is_meant = |line: &&Line| {
                matches!(line.effect, residual::Effect::Change(_))
                    && (line.conditions.is_empty() || !elsewhere.lines.contains(line))
            };
            if let Some(line) = left.lines.iter().find(is_meant) {
                let mobile = self.names.mobile;
                all.push(format!(
                    "{} translates addresses towards {mobile}: TCP there is not tracked, so it is not translated",
                    self.describe(line)
                ));
            }
        }
        all
    }

    /// Names a rule by its place and, if it can be had, its text.
    fn describe(&self, line: &Line) -> String {
        let (number, rule) = line.place;
        let Some(Chain { family, table, name, base, is_legacy, .. }) = self.ruleset.chains.get(number) else {
            return "a rule".to_owned();
        };
        let family = family.name();
        let Some(handle) = rule else {
            let drops = base.as_ref().is_some_and(|base| base.drops);
            let policy = if drops { "drop" } else { "accept" };
            let of = if *is_legacy { "iptables" } else { "nft" };
            return io::one_line(format!("the policy '{policy}' of chain {of} {family} {table} {name}"));
        };
        if *is_legacy {
            let tools = if family == "ip6" { "ip6tables" } else { "iptables" };
            return io::one_line(format!("rule {handle} of {tools} -t {table} {name}"));
        }
        let listing = (self.list)([family, table, name]);
        let suffix = format!("# handle {handle}");
        let text = listing.lines().find_map(|line| line.trim().strip_suffix(&suffix)).unwrap_or("").trim();
        let text = if text.is_empty() { String::new() } else { format!(" '{text}'") };
        io::one_line(format!("rule{text} (nft {family} {table} {name}, handle {handle})"))
    }
}

/// The rules of a chain with their numbers, as people write them; empty where they cannot be had.
fn list_chain([family, table, chain]: [&str; 3]) -> String {
    let Some(nft) = io::features::find_program("nft") else { return String::new() };
    let mut command = Command::new(nft);
    command.args(["-a", "list", "chain", family, table, chain]).stdin(Stdio::null());
    let output = command.output().ok().filter(|output| output.status.success());
    output.map_or_else(String::new, |output| String::from_utf8_lossy(&output.stdout).into_owned())
}

#[cfg(test)]
mod tests;
