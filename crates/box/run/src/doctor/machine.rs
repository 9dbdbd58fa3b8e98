//! [`Machine`]: what there is, as the kernel tells it. No judgement.

use std::path::Path;

use io::netlink::Netlink;
use io::offers::{self, LinkOffloads, Offer, TunOffer};
use io::{Capabilities, Capability, INSTANCE_DIRECTORY, IoError, NamespaceId, bpf, features, sysctl};

use super::kernel::BuildOptions;
use crate::firewall;
use crate::{Config, Plan, instances};

/// A machine, or what this user can see of it.
#[derive(Clone, Debug)]
pub(super) struct Machine {
    pub release: String,
    pub options: BuildOptions,
    pub capabilities: Capabilities,
    /// Offer of the TUN driver; none where it is not loaded. An error where it may not be asked.
    pub tun: Result<Option<TunOffer>, String>,
    /// `/dev/net/tun`, the opening of which loads the driver where the kernel has it, is there.
    pub has_tun_node: bool,
    /// The kernel's modules, as far as they are installed here, say that they have the driver.
    pub has_tun_module: bool,
    pub tcx: Offer,
    pub packet_sockets: Offer,
    pub xdp_sockets: Offer,
    /// This program has BPF programs in C.
    pub has_objects: bool,
    /// Types of the running kernel are there for BPF programs.
    pub has_btf: bool,
    /// `net.core.bpf_jit_enable`.
    pub translates_programs: Option<bool>,
    /// `net.mptcp.enabled`; none where the kernel has no MPTCP.
    pub multi_path: Option<bool>,
    pub has_ipv6: bool,
    /// For IPv4, for IPv6.
    pub forwards: [Option<bool>; 2],
    /// `net.ipv4.conf.all.rp_filter`.
    pub reverse_path_filter: Option<u32>,
    /// Connections are tracked or translated; or why that is not known.
    pub tracks: Result<bool, String>,
    pub has_nft: bool,
    pub processors: usize,
    pub interfaces: Vec<Interface>,
    /// Steering that the two interfaces would get, or the reason why they would get none.
    pub steering: Option<Result<String, String>>,
}

/// An interface that was named.
#[derive(Clone, Debug)]
pub(super) struct Interface {
    pub name: String,
    /// None where there is no such interface.
    pub seen: Option<Seen>,
}

/// Facts seen of an interface.
#[derive(Clone, Debug)]
pub(super) struct Seen {
    pub is_up: bool,
    pub has_carrier: bool,
    pub mtu: u32,
    pub has_ethernet: bool,
    pub reverse_path_filter: Option<u32>,
    /// It is one of several on one card (MACVLAN), and answers ARP requests for the addresses of all.
    pub answers_for_others: bool,
    /// It is a bridge whose frames the filters of IP see (`br_netfilter`).
    pub is_filtered_bridge: bool,
    pub offloads: Option<LinkOffloads>,
}

impl Machine {
    /// Looks; changes nothing.
    pub fn read(names: &[String]) -> Result<Self, IoError> {
        let release = sysctl::read_here("kernel/osrelease")?;
        let netlink = Netlink::open()?;
        let capabilities = Capabilities::effective()?;
        Ok(Self {
            options: BuildOptions::read(&release),
            has_tun_module: offers::has_module_for(&release, TUN_NODE),
            release,
            capabilities,
            tun: offers::tun().map_err(|error| error.to_string()),
            has_tun_node: Path::new("/dev").join(TUN_NODE).exists(),
            tcx: tcx(&netlink),
            packet_sockets: offers::packet_sockets(),
            xdp_sockets: offers::xdp_sockets(),
            has_objects: bpf::HAS_OBJECTS,
            has_btf: Path::new("/sys/kernel/btf/vmlinux").exists(),
            translates_programs: is_on("net/core/bpf_jit_enable"),
            multi_path: is_on("net/mptcp/enabled"),
            has_ipv6: features::require(features::Feature::Ipv6).is_ok(),
            forwards: ["net/ipv4/ip_forward", "net/ipv6/conf/all/forwarding"].map(is_on),
            reverse_path_filter: number("net/ipv4/conf/all/rp_filter"),
            tracks: tracks(),
            has_nft: features::find_program("nft").is_some(),
            processors: std::thread::available_parallelism().map_or(1, usize::from),
            interfaces: names.iter().map(|name| Interface::read(name, &netlink)).collect::<Result<_, _>>()?,
            steering: match names {
                [wired, mobile] if capabilities.has(Capability::NetAdmin) => {
                    Some(steering(wired, mobile, &netlink))
                }
                _ => None,
            },
        })
    }
}

impl Interface {
    fn read(name: &str, netlink: &Netlink) -> Result<Self, IoError> {
        let link = match netlink.link(name) {
            Ok(link) => link,
            Err(error) if error.is_not_there() => return Ok(Self { name: name.to_owned(), seen: None }),
            Err(error) => return Err(error),
        };
        let seen = Seen {
            is_up: link.is_up,
            has_carrier: link.has_carrier,
            mtu: link.mtu,
            has_ethernet: link.header_len == Some(ETHERNET_HEADER_LEN),
            reverse_path_filter: number(&format!("net/ipv4/conf/{name}/rp_filter")),
            answers_for_others: link.kind.as_deref() == Some("macvlan")
                && ["all", name]
                    .iter()
                    .all(|of| number(&format!("net/ipv4/conf/{of}/arp_ignore")) == Some(0)),
            is_filtered_bridge: link.kind.as_deref() == Some("bridge")
                && ["ip", "ip6"]
                    .iter()
                    .any(|family| number(&format!("net/bridge/bridge-nf-call-{family}tables")) == Some(1)),
            offloads: offers::link_offloads(name).ok(),
        };
        Ok(Self { name: name.to_owned(), seen: Some(seen) })
    }
}

const ETHERNET_HEADER_LEN: u32 = 14;
/// Below `/dev`.
const TUN_NODE: &str = "net/tun";

fn number(path: &str) -> Option<u32> {
    sysctl::read_here(path).ok()?.trim().parse().ok()
}

fn is_on(path: &str) -> Option<bool> {
    Some(number(path)? != 0)
}

/// Asked at the loopback interface, which every machine has.
fn tcx(netlink: &Netlink) -> Offer {
    match netlink.index_of("lo").and_then(bpf::is_tcx_there) {
        Ok(()) => Offer::There,
        Err(IoError::NotPrivileged { .. }) => Offer::Forbidden,
        Err(_) => Offer::Missing,
    }
}

fn tracks() -> Result<bool, String> {
    let (ruleset, unknown) = firewall::read();
    match unknown.into_iter().next() {
        Some(why) if !firewall::tracks(&ruleset) => Err(why),
        _ => Ok(firewall::tracks(&ruleset)),
    }
}

/// Steering that `cellerator run --dry-run` would state for the two interfaces, which may be steered already.
fn steering(wired: &str, mobile: &str, netlink: &Netlink) -> Result<String, String> {
    if let Some(at_work) = at_work([wired, mobile]) {
        return Ok(at_work);
    }
    let config = Config { wired: wired.to_owned(), mobile: mobile.to_owned(), ..Config::default() };
    let plan = Plan::make(&config, netlink).map_err(|error| error.to_string())?;
    Ok(plan.method.to_string())
}

/// An accelerator between these two, in whatever order, in this network namespace.
fn at_work(mut ends: [&str; 2]) -> Option<String> {
    let here = NamespaceId::here().ok()?;
    ends.sort_unstable();
    instances::find(Path::new(INSTANCE_DIRECTORY)).ok()?.into_iter().find_map(|found| {
        let record = found.record()?;
        let mut of = [record.wired.as_str(), record.mobile.as_str()];
        of.sort_unstable();
        let is_here = record.namespace.is(&here) && of == ends;
        is_here.then(|| {
            let (name, process) = (&found.name, found.process);
            format!(
                "accelerator '{name}' (process {process}) works here: {} to {}",
                record.wired, record.mobile
            )
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_machine_can_be_read() {
        let machine = Machine::read(&["lo".to_owned(), "no-such-if".to_owned()]).unwrap();
        assert_eq!(machine.release, std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap().trim());
        assert!(machine.processors > 0 && machine.forwards[0].is_some());
        let [lo, other] = machine.interfaces.as_slice() else { panic!("two were named") };
        assert!(lo.seen.as_ref().is_some_and(|seen| seen.mtu > 1_500), "{lo:?}");
        assert!(other.seen.is_none());
        assert_eq!(number("net/no/such/setting"), None);
    }
}
