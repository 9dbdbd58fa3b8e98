//! [`Method`]: how packets are steered on this machine, and why not by tcx.

use std::fmt;
use std::net::Ipv4Addr;

use io::netlink::Netlink;
use io::{IoError, bpf, sysctl};

use super::program;
use crate::firewall::Firewall;
use crate::upgrade::predecessor::Predecessor;
use crate::{Config, Notrack, RunError, SteeringChoice, forwarding};

/// Method by which packets are steered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Method {
    /// By BPF programs at the interfaces.
    Tcx,
    /// By policy rules.
    Rules {
        /// Reason why it is not by tcx, unless rules were asked for.
        why: Option<String>,
    },
}

impl Method {
    /// The name used in the status and by `--steering`.
    pub const fn name(&self) -> &'static str {
        match self {
            Self::Tcx => "tcx",
            Self::Rules { .. } => "rules",
        }
    }
}

impl fmt::Display for Method {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tcx => f.write_str("tcx"),
            Self::Rules { why: None } => f.write_str("rules"),
            Self::Rules { why: Some(why) } => write!(f, "rules, not by tcx: {why}"),
        }
    }
}

/// Facts that the choice depends on. The interfaces are wired, then mobile.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Machine<'a> {
    pub names: [&'a str; 2],
    pub netlink: &'a Netlink,
    pub found: &'a Firewall,
    /// The programs at the interfaces.
    pub programs: &'a [Vec<String>; 2],
    pub predecessor: Option<&'a Predecessor>,
}

/// The names of the programs at each of `interfaces`.
pub(crate) fn programs(netlink: &Netlink, interfaces: [&str; 2]) -> Result<[Vec<String>; 2], IoError> {
    let [wired, mobile] = interfaces.map(|name| netlink.index_of(name));
    Ok([bpf::programs_at(wired?), bpf::programs_at(mobile?)])
}

/// Text where a filter is the reason.
const BY_FILTER: &str = "a filter would be passed by, or would break flows";

/// Chooses as the settings and the machine allow.
pub(crate) fn choose(config: &Config, machine: &Machine<'_>) -> Result<Method, RunError> {
    let by_rules = |why: Option<String>| match against_rules(config, machine.found) {
        None => Ok(Method::Rules { why }),
        // What is said of programs is said of rules, too.
        Some(rule) => {
            Err(RunError::Filtered { rule, not_tcx: why.filter(|why| !why.starts_with(BY_FILTER)) })
        }
    };
    if config.steering == SteeringChoice::Rules {
        return by_rules(None);
    }
    match (why_not_tcx(config, machine)?, config.steering) {
        (None, _) => Ok(Method::Tcx),
        (Some(why), SteeringChoice::Tcx) => Err(RunError::NoTcx(why)),
        (Some(why), _) => by_rules(Some(why)),
    }
}

/// Reason why rules may not steer: a filter would be passed by, or would break flows.
pub(crate) fn against_rules(config: &Config, found: &Firewall) -> Option<String> {
    found.against_rules.clone().filter(|_| !config.bypass_filters)
}

/// Reason why packets cannot be steered by tcx without doing somebody harm; `None` if they can.
fn why_not_tcx(config: &Config, machine: &Machine<'_>) -> Result<Option<String>, IoError> {
    if config.notrack == Notrack::Always {
        return Ok(Some("--notrack always is for steering by rules".to_owned()));
    }
    // What comes back to a translated address is for this machine, until connection tracking has
    // had it; and a filter by state would see acknowledgements of what it has not seen.
    if machine.found.tracks_connections {
        return Ok(Some("connections are tracked or translated on this machine".to_owned()));
    }
    if let Some(rule) = machine.found.against_tcx.as_ref().filter(|_| !config.bypass_filters) {
        return Ok(Some(format!("{BY_FILTER}: {rule}")));
    }
    if machine.predecessor.is_some_and(Predecessor::steers_by_rules) {
        return Ok(Some("the replaced one steers by rules".to_owned()));
    }
    // The one before has a program at each interface, whose name is not for everybody to see.
    let is_before_by_programs = machine.predecessor.is_some_and(|before| !before.steers_by_rules());
    for (name, programs) in machine.names.iter().zip(machine.programs) {
        let mut unnamed = usize::from(is_before_by_programs);
        let is_anothers = |program: &&String| {
            let is_before = bpf::is_number(program) && unnamed > 0;
            unnamed -= usize::from(is_before);
            *program != program::NAME && !is_before
        };
        if let Some(program) = programs.iter().find(is_anothers) {
            return Ok(Some(format!("BPF program '{program}' is at {name} already")));
        }
        let index = machine.netlink.index_of(name)?;
        match machine.netlink.ingress_discipline(index) {
            Ok(None) => {}
            Ok(Some(kind)) => {
                return Ok(Some(format!("{name} has a queueing discipline for what comes in ({kind})")));
            }
            Err(error) => return Ok(Some(error.to_string())),
        }
        if !forwarding::is_consistent(name) {
            return Ok(Some(format!(
                "IPv6 forwarding is off for {name} alone, to which BPF programs adhere"
            )));
        }
        // The kernel last: what is said above can be changed.
        if let Err(error) = bpf::is_tcx_there(index) {
            return Ok(Some(error.to_string()));
        }
    }
    Ok(None)
}

const STRICT: u32 = 1;
const LOOSE: u32 = 2;

/// True where only packets may come in through `interface` whose source is reached through it
/// (`rp_filter` 1).
pub(crate) fn is_strict(interface: &str) -> bool {
    reverse_path_filter("all").max(reverse_path_filter(interface)) == STRICT
}

/// True when reverse paths are checked on all interfaces, in whatever way; none when that cannot be read.
pub(crate) fn is_filter_for_all() -> Option<bool> {
    let text = sysctl::read_here("net/ipv4/conf/all/rp_filter").ok()?;
    Some(text != "0")
}

/// The setting of an interface, or of `all`: the larger one of the two is in force.
fn reverse_path_filter(interface: &str) -> u32 {
    let text = sysctl::read_here(&format!("net/ipv4/conf/{interface}/rp_filter"));
    text.ok().and_then(|text| text.parse().ok()).unwrap_or(0)
}

/// Has `tun` let through what comes from hosts behind another interface.
///
/// Packets for the clients come out of the mobile side's device, and their sources are behind the
/// wired interface: the program there has seen to it that they are. If the filter cannot be off
/// because it is on for all, it is loose; and then the device needs an address, since the loose
/// filter lets nothing in through an interface without one.
pub(crate) fn let_through(tun: &str, netlink: &Netlink) -> Result<(), IoError> {
    let wanted = if is_filter_for_all() == Some(true) { LOOSE } else { 0 };
    if wanted == LOOSE {
        match netlink.add_host_address(netlink.index_of(tun)?, DUMMY) {
            Err(error) if error.is_already_there() => {}
            result => result?,
        }
    }
    sysctl::write_here(&format!("net/ipv4/conf/{tun}/rp_filter"), &wanted.to_string())
}

/// The IPv4 dummy address (RFC 7600 §4.8): means nothing anywhere.
const DUMMY: Ipv4Addr = Ipv4Addr::new(192, 0, 0, 8);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_method_says_why() {
        assert_eq!(Method::Tcx.to_string(), "tcx");
        let why = Some("connections are tracked".to_owned());
        assert_eq!(Method::Rules { why }.to_string(), "rules, not by tcx: connections are tracked");
    }
}
