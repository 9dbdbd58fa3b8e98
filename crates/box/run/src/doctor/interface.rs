//! Meaning of the named interfaces for the user.

use super::machine::{Interface, Seen};
use super::{Finding, Health, finding};

/// Of each, and of both together.
pub(super) fn findings(interfaces: &[Interface]) -> Vec<Finding> {
    let mut found: Vec<Finding> = interfaces.iter().flat_map(of_one).collect();
    if let [a, b] = interfaces
        && let (Some(one), Some(other)) = (&a.seen, &b.seen)
        && one.mtu != other.mtu
    {
        let sizes = format!("{} {}, {} {}", a.name, one.mtu, b.name, other.mtu);
        // A tunnel's follows from what it adds, and no bridge has one: there is nothing to mend.
        if one.has_ethernet && other.has_ethernet {
            let mend = format!("for a bridge: ip link set {} mtu {}", b.name, one.mtu);
            let means = "a router segments as each side needs; a bridge (--inline) needs the same on both";
            found.push(finding("MTU", Health::Limited, [&sizes, means, &mend]));
        } else {
            found.push(finding("MTU", Health::Good, [&sizes, "packets are cut as each side needs", ""]));
        }
    }
    if interfaces.len() == 2
        && interfaces.iter().any(|one| one.seen.as_ref().is_some_and(|seen| seen.answers_for_others))
    {
        let means = "packets of one side come in through the other, and pass without acceleration";
        let mend = "sysctl -w net.ipv4.conf.all.arp_ignore=1";
        let shown = "each MACVLAN answers for the addresses of both";
        found.push(finding("ARP", Health::Limited, [shown, means, mend]));
    }
    found
}

fn of_one(interface: &Interface) -> Vec<Finding> {
    let name = interface.name.as_str();
    let Some(seen) = &interface.seen else {
        let means = "nothing can be steered there";
        return vec![finding(name, Health::Missing, ["there is no such interface", means, "ip link"])];
    };
    let mut found = vec![state(name, seen)];
    found.extend(offloads(name, seen));
    if seen.is_filtered_bridge {
        let shown = "a bridge whose frames the filters of IP see (br_netfilter)";
        let means = "they see each packet once, as ever; where rules ask for its ports, rules steer";
        found.push(finding(&format!("{name} bridge"), Health::Good, [shown, means, ""]));
    }
    if seen.reverse_path_filter == Some(1) {
        let mend = format!("sysctl -w net.ipv4.conf.{name}.rp_filter=2, where loose is enough");
        let means = "the steering program asks routing about every source";
        found.push(finding(&format!("{name} rp_filter"), Health::Limited, ["strict", means, &mend]));
    }
    found
}

fn state(name: &str, seen: &Seen) -> Finding {
    let medium = if seen.has_ethernet { "Ethernet" } else { "no Ethernet" };
    let described = format!("MTU {}, {medium}", seen.mtu);
    if !seen.is_up {
        let mend = format!("ip link set {name} up");
        return finding(
            name,
            Health::Limited,
            [&format!("off, {described}"), "the accelerator waits", &mend],
        );
    }
    if !seen.has_carrier {
        let means = "the accelerator waits: a cable or a peer is missing";
        return finding(name, Health::Limited, [&format!("no link, {described}"), means, ""]);
    }
    if !seen.has_ethernet {
        let means = "it cannot be a side of a bridge (--inline)";
        return finding(name, Health::Good, [&described, means, ""]);
    }
    finding(name, Health::Good, [&described, "", ""])
}

fn offloads(name: &str, seen: &Seen) -> Vec<Finding> {
    let subject = format!("{name} offloads");
    let Some(offloads) = seen.offloads else {
        return vec![finding(&subject, Health::Unknown, ["cannot be read", "", ""])];
    };
    let mut found = Vec::new();
    if offloads.large_receive {
        let means = "segments are merged for good: a bridge sends what no wire takes";
        let mend = format!("ethtool -K {name} lro off");
        found.push(finding(&subject, Health::Limited, ["LRO is on", means, &mend]));
    }
    let costs = "every segment passes alone, which costs processor time";
    for (is_on, what, flag) in [
        (offloads.generic_receive, "GRO is off", "gro"),
        (offloads.generic_segmentation, "GSO is off", "gso"),
    ] {
        if !is_on {
            let mend = format!("ethtool -K {name} {flag} on");
            found.push(finding(&subject, Health::Limited, [what, costs, &mend]));
        }
    }
    if found.is_empty() {
        let on = |is_on: bool, what: &'static str| is_on.then_some(what);
        let all = [
            on(offloads.receive_checksum, "checksums in"),
            on(offloads.send_checksum, "checksums out"),
            on(offloads.tcp_segmentation, "TSO"),
            Some("GSO"),
            Some("GRO"),
        ];
        let all: Vec<&str> = all.into_iter().flatten().collect();
        found.push(finding(&subject, Health::Good, [&all.join(", "), "", ""]));
    }
    found
}
