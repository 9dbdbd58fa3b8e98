//! Meaning of a [`Machine`] for the user. Pure: no look at this machine.

use io::Capability;
use io::offers::Offer;

use super::kernel::{Built, version_of};
use super::machine::Machine;
use super::{Diagnosis, Finding, Health, finding, interface};

/// Since when the kernel has descriptors of processes, without which nobody could be replaced or watched.
const LEAST: (u32, u32) = (5, 3);
/// Since when it has congestion controls in BPF that end with their owner.
const STRUCT_OPS_SINCE: (u32, u32) = (6, 4);
/// Since when it has tcx, and UDP super-packets at TUN devices.
const TCX_SINCE: (u32, u32) = (6, 6);
const UDP_SINCE: (u32, u32) = (6, 2);

pub(super) fn of(machine: &Machine) -> Diagnosis {
    let mut findings = vec![kernel(machine), privileges(machine), tun(machine), super_packets(machine)];
    findings.extend([tcx(machine), clsact(machine), jit(machine), types(machine), objects(machine)]);
    findings.extend([packet_sockets(machine), xdp(machine), multi_path(machine)]);
    findings.extend(forwarding(machine));
    findings.extend([tracking(machine), reverse_paths(machine), processors(machine)]);
    findings.extend(interface::findings(&machine.interfaces));
    findings.extend(steering(machine));
    let verdict = |health| findings.iter().any(|finding| finding.health == health);
    Diagnosis {
        version: env!("CARGO_PKG_VERSION").to_owned(),
        kernel: machine.release.clone(),
        interfaces: machine.interfaces.iter().map(|interface| interface.name.clone()).collect(),
        verdict: match (verdict(Health::Missing), verdict(Health::Limited)) {
            (true, _) => Health::Missing,
            (false, true) => Health::Limited,
            (false, false) => Health::Good,
        },
        findings,
    }
}

fn kernel(machine: &Machine) -> Finding {
    let release = machine.release.as_str();
    match version_of(release) {
        Some(version) if version >= LEAST => finding("kernel", Health::Good, [release, "", ""]),
        Some(_) => finding(
            "kernel",
            Health::Missing,
            [release, "descriptors of processes are missing (Linux 5.3)", "install a kernel of 5.3 or later"],
        ),
        None => finding("kernel", Health::Unknown, [release, "its version cannot be read", ""]),
    }
}

fn privileges(machine: &Machine) -> Finding {
    let needed = [Capability::NetAdmin, Capability::NetRaw, Capability::Bpf];
    let lacks: Vec<&str> = needed
        .into_iter()
        .filter(|one| !machine.capabilities.has(*one))
        // Who may administrate the system may load programs, too.
        .filter(|one| *one != Capability::Bpf || !machine.capabilities.has(Capability::SysAdmin))
        .map(Capability::name)
        .collect();
    if lacks.is_empty() {
        return finding("privileges", Health::Good, ["all that are needed", "", ""]);
    }
    let found = format!("without {}", lacks.join(", "));
    let means = "this user cannot accelerate, and cannot find out all of what follows";
    finding("privileges", Health::Limited, [&found, means, "run it as root, or as a service"])
}

fn tun(machine: &Machine) -> Finding {
    let of = |health, texts| finding("TUN devices", health, texts);
    match (&machine.tun, machine.options.get("TUN")) {
        (Ok(Some(_)), _) => of(Health::Good, ["there", "", ""]),
        (Err(why), _) => of(Health::Unknown, [why, "they are there, but this user may not ask", ""]),
        (Ok(None), options) if machine.has_tun_node && options != Some(Built::Not) => {
            if options.is_some() || machine.has_tun_module {
                return of(Health::Good, ["there; the driver is loaded with the first one", "", ""]);
            }
            let means = "the kernel may have it: then the first device loads it";
            of(Health::Unknown, ["the driver is not loaded", means, "modprobe tun"])
        }
        (Ok(None), Some(Built::AsModule | Built::In)) => of(
            Health::Limited,
            ["the driver is not loaded", "no router can start before it is", "modprobe tun"],
        ),
        (Ok(None), Some(Built::Not)) => of(
            Health::Missing,
            ["the kernel has none", "only a bridge (--inline) works", "install a kernel with CONFIG_TUN"],
        ),
        (Ok(None), None) => {
            of(Health::Missing, ["there is no driver", "only a bridge (--inline) works", "modprobe tun"])
        }
    }
}

fn super_packets(machine: &Machine) -> Finding {
    let of = |health, texts| finding("TUN offloads", health, texts);
    let offer = match machine.tun {
        Ok(Some(offer)) => offer,
        Ok(None) => return of(Health::Unknown, ["known once the driver is loaded", "", ""]),
        Err(_) => return of(Health::Unknown, ["the driver cannot be asked", "", ""]),
    };
    let has_udp = version_of(&machine.release).is_some_and(|version| version >= UDP_SINCE);
    match (offer.super_packets, offer.queues) {
        (true, true) if has_udp => of(Health::Good, ["TCP and UDP super-packets, several queues", "", ""]),
        (true, true) => {
            of(Health::Good, ["TCP super-packets, several queues", "UDP: Linux 6.2 or later", ""])
        }
        (true, false) => of(
            Health::Limited,
            ["one queue", "one thread (shard) handles all packets", "Linux 3.8 or later has several"],
        ),
        (false, _) => of(
            Health::Limited,
            ["no super-packets", "every packet comes alone: start with --no-gso", "Linux 2.6.27 or later"],
        ),
    }
}

fn tcx(machine: &Machine) -> Finding {
    let of = |health, texts| finding("tcx", health, texts);
    let rules = "packets are steered by rules: they pass routing and filter hooks twice";
    let is_new = version_of(&machine.release).is_some_and(|version| version >= TCX_SINCE);
    match machine.tcx {
        Offer::There => of(Health::Good, ["there", "", ""]),
        Offer::Missing if is_new => {
            of(Health::Limited, ["missing", rules, "use a kernel with CONFIG_NET_XGRESS"])
        }
        Offer::Missing => of(
            Health::Limited,
            ["missing", rules, "Linux 6.6 or later (Debian 12: linux-image-amd64 of bookworm-backports)"],
        ),
        Offer::Forbidden if !is_new => {
            of(Health::Limited, ["this kernel is too old", rules, "Linux 6.6 or later"])
        }
        Offer::Forbidden => {
            let built = match machine.options.get("NET_XGRESS") {
                Some(Built::In | Built::AsModule) => "the kernel was built with it; only root can ask",
                Some(Built::Not) => return of(Health::Limited, ["the kernel was built without", rules, ""]),
                None => "this kernel may have it; only root can ask",
            };
            of(Health::Unknown, [built, "", "sudo cellerator doctor"])
        }
    }
}

fn clsact(machine: &Machine) -> Finding {
    let of = |health, texts| finding("clsact", health, texts);
    match (machine.options.get("NET_SCH_INGRESS"), machine.tcx) {
        (Some(Built::In | Built::AsModule), _) => of(Health::Good, ["there", "", ""]),
        (_, Offer::There) => of(Health::Good, ["not needed where tcx is", "", ""]),
        (Some(Built::Not), _) => of(
            Health::Limited,
            ["missing", "`cellerator drwa` cannot attach", "use a kernel with CONFIG_NET_SCH_INGRESS"],
        ),
        (None, _) => of(
            Health::Unknown,
            [
                "the kernel's build options are not here",
                "`cellerator drwa` needs it without tcx",
                "modinfo sch_ingress",
            ],
        ),
    }
}

fn jit(machine: &Machine) -> Finding {
    let of = |health, texts| finding("BPF translation", health, texts);
    match machine.translates_programs {
        Some(true) => of(Health::Good, ["on", "", ""]),
        Some(false) => of(
            Health::Limited,
            ["off", "BPF programs are interpreted for every packet", "sysctl -w net.core.bpf_jit_enable=1"],
        ),
        None => of(
            Health::Unknown,
            [
                "net.core.bpf_jit_enable cannot be read",
                "it is the whole machine's: not in each network namespace",
                "",
            ],
        ),
    }
}

/// Of the running kernel, as congestion controls in BPF need them (`struct_ops`): one that ends with its owner.
fn types(machine: &Machine) -> Finding {
    let of = |health, texts| finding("kernel types", health, texts);
    let means = "`cellerator congestion` and `multipath congestion` cannot load theirs";
    match (machine.has_btf, version_of(&machine.release)) {
        (true, Some(version)) if version >= STRUCT_OPS_SINCE => {
            of(Health::Good, ["BTF and struct_ops", "", ""])
        }
        (true, Some(_)) => {
            of(Health::Limited, ["BTF, no struct_ops that ends with its owner", means, "Linux 6.4 or later"])
        }
        (true, None) => of(Health::Unknown, ["BTF; the kernel's version is unreadable", "", ""]),
        (false, _) => of(
            Health::Limited,
            ["no BTF, so no struct_ops", means, "use a kernel with CONFIG_DEBUG_INFO_BTF"],
        ),
    }
}

/// Finding about objects that were left out when this program was built.
fn objects(machine: &Machine) -> Finding {
    let of = |health, texts| finding("BPF programs", health, texts);
    match machine.has_objects {
        true => of(Health::Good, ["built in", "", ""]),
        false => of(
            Health::Limited,
            [
                "this program was built without BPF",
                "no `drwa`, `congestion` or `multipath congestion`; `run` needs none of them",
                "make build, or cargo build --release --features bpf",
            ],
        ),
    }
}

fn packet_sockets(machine: &Machine) -> Finding {
    let of = |health, texts| finding("AF_PACKET", health, texts);
    match machine.packet_sockets {
        Offer::There => of(Health::Good, ["there", "", ""]),
        Offer::Forbidden => of(Health::Good, ["there", "not for this user", ""]),
        Offer::Missing => of(
            Health::Limited,
            [
                "missing",
                "no bridge (--inline), no `capture`",
                "modprobe af_packet, or a kernel with CONFIG_PACKET",
            ],
        ),
    }
}

fn xdp(machine: &Machine) -> Finding {
    let found = match machine.xdp_sockets {
        Offer::There | Offer::Forbidden => "there",
        Offer::Missing => "missing",
    };
    finding("AF_XDP", Health::Good, [found, "this version does not use it", ""])
}

fn multi_path(machine: &Machine) -> Finding {
    let of = |health, texts| finding("MPTCP", health, texts);
    match machine.multi_path {
        Some(true) => of(Health::Good, ["on", "", ""]),
        Some(false) => of(
            Health::Limited,
            ["off", "`cellerator multipath` has nothing to steer", "sysctl -w net.mptcp.enabled=1"],
        ),
        None => of(
            Health::Limited,
            ["missing", "`cellerator multipath` has nothing to steer", "use a kernel with CONFIG_MPTCP"],
        ),
    }
}

fn forwarding(machine: &Machine) -> Vec<Finding> {
    let means = "a router forwards none of it; a bridge (--inline) needs no forwarding";
    let settings =
        [("IPv4 forwarding", "net.ipv4.ip_forward"), ("IPv6 forwarding", "net.ipv6.conf.all.forwarding")];
    let places = settings.into_iter().zip(machine.forwards);
    places
        .map(|((subject, setting), forwards)| match forwards {
            Some(true) => finding(subject, Health::Good, ["on", "", ""]),
            Some(false) => {
                let mend = format!("sysctl -w {setting}=1, or run --set-forwarding");
                finding(subject, Health::Limited, ["off", means, &mend])
            }
            None if subject.starts_with("IPv6") && !machine.has_ipv6 => {
                finding(subject, Health::Good, ["the kernel runs without IPv6", "", ""])
            }
            None => finding(subject, Health::Unknown, ["cannot be read", "", ""]),
        })
        .collect()
}

fn tracking(machine: &Machine) -> Finding {
    let of = |health, texts| finding("connection tracking", health, texts);
    match (&machine.tracks, machine.has_nft) {
        (Ok(false), _) => of(Health::Good, ["not used", "", ""]),
        (Ok(true), true) => of(
            Health::Limited,
            ["used", "packets are steered by rules, and an nft table keeps it off the mobile side", ""],
        ),
        (Ok(true), false) => of(
            Health::Missing,
            [
                "used, and nft is missing",
                "it would have to be kept off the mobile side",
                "apt-get install nftables",
            ],
        ),
        (Err(why), _) => of(Health::Unknown, [why, "", "sudo cellerator doctor"]),
    }
}

fn reverse_paths(machine: &Machine) -> Finding {
    let of = |health, texts| finding("rp_filter", health, texts);
    match machine.reverse_path_filter {
        Some(0) => of(Health::Good, ["off for all, each interface may have its own", "", ""]),
        Some(1) => of(
            Health::Limited,
            [
                "strict for all",
                "the steering program asks routing about every source",
                "sysctl -w net.ipv4.conf.all.rp_filter=2, where loose is enough",
            ],
        ),
        Some(_) => of(Health::Good, ["loose for all", "", ""]),
        None => of(Health::Unknown, ["cannot be read", "", ""]),
    }
}

fn processors(machine: &Machine) -> Finding {
    let found = machine.processors.to_string();
    if machine.processors > 1 {
        return finding("processors", Health::Good, [&found, "", ""]);
    }
    finding("processors", Health::Limited, [&found, "one thread (shard) handles all packets", ""])
}

/// Steering that the two interfaces would get: what `run --dry-run` says.
fn steering(machine: &Machine) -> Option<Finding> {
    let of = |health, texts| finding("steering", health, texts);
    Some(match machine.steering.as_ref()? {
        Ok(method) if method.starts_with("rules") => {
            of(Health::Limited, [method, "they pass routing and filter hooks twice", ""])
        }
        Ok(method) => of(Health::Good, [method, "", ""]),
        Err(why) => of(Health::Missing, [why, "`cellerator run` would not start like this", ""]),
    })
}

#[cfg(test)]
#[path = "tests.rs"]
mod tests;
