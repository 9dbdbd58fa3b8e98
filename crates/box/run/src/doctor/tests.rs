//! Made-up machines.

use io::Capabilities;
use io::offers::{LinkOffloads, TunOffer};

use super::*;
use crate::doctor::kernel::BuildOptions;
use crate::doctor::machine::{Interface, Seen};

const ALL: [Capability; 3] = [Capability::NetAdmin, Capability::NetRaw, Capability::Bpf];

/// A machine that lacks nothing.
fn able() -> Machine {
    let offloads = LinkOffloads {
        receive_checksum: true,
        send_checksum: true,
        tcp_segmentation: true,
        generic_segmentation: true,
        generic_receive: true,
        large_receive: false,
    };
    let seen = Seen {
        is_up: true,
        has_carrier: true,
        mtu: 1_500,
        has_ethernet: true,
        reverse_path_filter: Some(0),
        answers_for_others: false,
        is_filtered_bridge: false,
        offloads: Some(offloads),
    };
    Machine {
        release: "6.12.9-amd64".to_owned(),
        options: BuildOptions::parse("CONFIG_TUN=m\nCONFIG_NET_XGRESS=y\nCONFIG_NET_SCH_INGRESS=m\n"),
        capabilities: Capabilities::of(&ALL),
        tun: Ok(Some(TunOffer { super_packets: true, queues: true })),
        has_tun_node: true,
        has_tun_module: true,
        tcx: Offer::There,
        packet_sockets: Offer::There,
        xdp_sockets: Offer::There,
        has_objects: true,
        has_btf: true,
        translates_programs: Some(true),
        multi_path: Some(true),
        has_ipv6: true,
        forwards: [Some(true); 2],
        reverse_path_filter: Some(0),
        tracks: Ok(false),
        has_nft: true,
        processors: 4,
        interfaces: ["w0", "m0"]
            .map(|name| Interface { name: name.to_owned(), seen: Some(seen.clone()) })
            .into(),
        steering: Some(Ok("tcx".to_owned())),
    }
}

/// The finding about `subject`, after `change`; and the verdict.
fn after(change: impl FnOnce(&mut Machine), subject: &str) -> (Finding, Health) {
    let mut machine = able();
    change(&mut machine);
    let diagnosis = of(&machine);
    let finding = diagnosis.findings.into_iter().find(|finding| finding.subject == subject);
    (finding.unwrap_or_else(|| panic!("nothing about {subject}")), diagnosis.verdict)
}

/// After `change` the machine is limited by `subject`, and `mend` is how to mend it.
fn limited(change: impl FnOnce(&mut Machine), subject: &str, mend: &str) {
    let (finding, verdict) = after(change, subject);
    assert_eq!((finding.health, verdict), (Health::Limited, Health::Limited), "{finding:?}");
    assert!(finding.mend.contains(mend) && !finding.means.is_empty(), "{finding:?}");
}

fn missing(change: impl FnOnce(&mut Machine), subject: &str, mend: &str) {
    let (finding, verdict) = after(change, subject);
    assert_eq!((finding.health, verdict), (Health::Missing, Health::Missing), "{finding:?}");
    assert!(finding.mend.contains(mend) && !finding.means.is_empty(), "{finding:?}");
}

#[test]
fn a_machine_that_lacks_nothing_is_good_in_everything() {
    let diagnosis = of(&able());
    assert_eq!(diagnosis.verdict, Health::Good);
    for finding in &diagnosis.findings {
        assert_eq!((finding.health, finding.mend.as_str()), (Health::Good, ""), "{finding:?}");
    }
    assert_eq!(diagnosis.interfaces, ["w0", "m0"]);
}

#[test]
fn an_old_kernel_steers_by_rules_or_not_at_all() {
    let bookworm = |machine: &mut Machine| {
        machine.release = "6.1.0-28-amd64".to_owned();
        machine.tcx = Offer::Missing;
    };
    limited(bookworm, "tcx", "bookworm-backports");
    let (offloads, _) = after(bookworm, "TUN offloads");
    assert!(offloads.found.starts_with("TCP super-packets") && offloads.health == Health::Good);
    limited(|machine| machine.tcx = Offer::Missing, "tcx", "CONFIG_NET_XGRESS");
    missing(|machine| machine.release = "4.19.0-27-amd64".to_owned(), "kernel", "5.3");
    let (kernel, verdict) = after(|machine| machine.release = "unreadable".to_owned(), "kernel");
    assert_eq!((kernel.health, verdict), (Health::Unknown, Health::Good), "what is not known is no lack");
}

#[test]
fn without_kernel_types_windows_are_not_coupled() {
    limited(|machine| machine.has_btf = false, "kernel types", "CONFIG_DEBUG_INFO_BTF");
    limited(|machine| machine.release = "6.3.0".to_owned(), "kernel types", "6.4");
    assert_eq!(after(|machine| machine.release = "6.4.0".to_owned(), "kernel types").0.health, Health::Good);
}

#[test]
fn what_was_not_built_in_is_said() {
    limited(|machine| machine.has_objects = false, "BPF programs", "--features bpf");
}

#[test]
fn tun_devices_are_missing_not_loaded_or_less_able() {
    let unloaded = |machine: &mut Machine| (machine.tun, machine.has_tun_node) = (Ok(None), false);
    limited(unloaded, "TUN devices", "modprobe tun");
    let without = |machine: &mut Machine| {
        machine.tun = Ok(None);
        machine.options = BuildOptions::parse("CONFIG_NET_XGRESS=y\n");
    };
    missing(without, "TUN devices", "CONFIG_TUN");
    let unknown = |machine: &mut Machine| {
        unloaded(machine);
        machine.options = BuildOptions::default();
    };
    missing(unknown, "TUN devices", "modprobe tun");
    let offer = |super_packets, queues| Ok(Some(TunOffer { super_packets, queues }));
    limited(|machine| machine.tun = offer(true, false), "TUN offloads", "3.8");
    limited(|machine| machine.tun = offer(false, true), "TUN offloads", "2.6.27");
    let (denied, _) = after(|machine| machine.tun = Err("no".to_owned()), "TUN devices");
    assert_eq!((denied.health, denied.found.as_str()), (Health::Unknown, "no"));
}

#[test]
fn a_driver_that_is_loaded_with_its_first_device_is_no_lack() {
    let unloaded = |machine: &mut Machine| machine.tun = Ok(None);
    let (tun, verdict) = after(unloaded, "TUN devices");
    assert_eq!((tun.health, verdict, tun.mend.as_str()), (Health::Good, Health::Good, ""), "{tun:?}");
    let (offloads, _) = after(unloaded, "TUN offloads");
    assert_eq!(
        (offloads.health, offloads.found.as_str()),
        (Health::Unknown, "known once the driver is loaded")
    );
    // Where the kernel's options are not here, its modules tell.
    let without_options = |machine: &mut Machine| {
        unloaded(machine);
        machine.options = BuildOptions::default();
    };
    assert_eq!(after(without_options, "TUN devices").0.health, Health::Good);
    let without_modules = |machine: &mut Machine| {
        without_options(machine);
        machine.has_tun_module = false;
    };
    let (tun, verdict) = after(without_modules, "TUN devices");
    assert_eq!((tun.health, verdict, tun.mend.as_str()), (Health::Unknown, Health::Good, "modprobe tun"));
}

#[test]
fn an_ordinary_user_is_told_what_cannot_be_known() {
    let ordinary = |machine: &mut Machine| {
        machine.capabilities = Capabilities::default();
        machine.tcx = Offer::Forbidden;
        machine.packet_sockets = Offer::Forbidden;
        machine.tracks = Err("nft says: not permitted".to_owned());
        machine.steering = None;
    };
    limited(ordinary, "privileges", "root");
    assert!(after(ordinary, "privileges").0.found.contains("CAP_NET_ADMIN, CAP_NET_RAW, CAP_BPF"));
    for subject in ["tcx", "connection tracking"] {
        let (finding, _) = after(ordinary, subject);
        assert_eq!((finding.health, finding.mend.as_str()), (Health::Unknown, "sudo cellerator doctor"));
    }
    assert_eq!(after(ordinary, "AF_PACKET").0.health, Health::Good);
    let old = |machine: &mut Machine| {
        machine.tcx = Offer::Forbidden;
        machine.release = "6.1.0".to_owned();
    };
    limited(old, "tcx", "6.6");
    // Who administrates the system needs no CAP_BPF.
    let system = Capabilities::of(&[Capability::NetAdmin, Capability::NetRaw, Capability::SysAdmin]);
    assert_eq!(after(|machine| machine.capabilities = system, "privileges").1, Health::Good);
}

#[test]
fn settings_that_limit_have_a_command() {
    limited(|machine| machine.reverse_path_filter = Some(1), "rp_filter", "net.ipv4.conf.all.rp_filter=2");
    assert_eq!(after(|machine| machine.reverse_path_filter = Some(2), "rp_filter").1, Health::Good);
    limited(|machine| machine.forwards[0] = Some(false), "IPv4 forwarding", "net.ipv4.ip_forward=1");
    limited(|machine| machine.forwards[1] = Some(false), "IPv6 forwarding", "net.ipv6.conf.all.forwarding=1");
    limited(|machine| machine.multi_path = Some(false), "MPTCP", "net.mptcp.enabled=1");
    limited(|machine| machine.multi_path = None, "MPTCP", "CONFIG_MPTCP");
    limited(|machine| machine.translates_programs = Some(false), "BPF translation", "bpf_jit_enable=1");
    let v4_only = |machine: &mut Machine| (machine.has_ipv6, machine.forwards[1]) = (false, None);
    assert_eq!(after(v4_only, "IPv6 forwarding").1, Health::Good);
    let (tracking, verdict) = after(|machine| machine.tracks = Ok(true), "connection tracking");
    assert_eq!((tracking.health, verdict), (Health::Limited, Health::Limited));
    let without_nft = |machine: &mut Machine| (machine.tracks, machine.has_nft) = (Ok(true), false);
    missing(without_nft, "connection tracking", "apt-get install nftables");
}

#[test]
fn interfaces_are_missing_off_or_unlike() {
    let seen = |machine: &mut Machine, change: fn(&mut Seen)| {
        change(machine.interfaces[1].seen.as_mut().unwrap());
    };
    missing(|machine| machine.interfaces[1].seen = None, "m0", "ip link");
    limited(|machine| seen(machine, |m0| m0.is_up = false), "m0", "ip link set m0 up");
    limited(|machine| seen(machine, |m0| m0.mtu = 1_400), "MTU", "ip link set m0 mtu 1500");
    let tunnel = |m0: &mut Seen| (m0.mtu, m0.has_ethernet) = (1_420, false);
    let (sizes, verdict) = after(|machine| seen(machine, tunnel), "MTU");
    assert_eq!((sizes.found.as_str(), sizes.mend.as_str()), ("w0 1500, m0 1420", ""));
    assert_eq!((sizes.health, verdict), (Health::Good, Health::Good), "a tunnel's is right as it is");
    limited(|machine| seen(machine, |m0| m0.answers_for_others = true), "ARP", "all.arp_ignore=1");
    let offloads = |machine: &mut Machine, change: fn(&mut LinkOffloads)| {
        change(machine.interfaces[1].seen.as_mut().unwrap().offloads.as_mut().unwrap());
    };
    limited(|machine| offloads(machine, |all| all.large_receive = true), "m0 offloads", "lro off");
    limited(|machine| offloads(machine, |all| all.generic_receive = false), "m0 offloads", "gro on");
    limited(|machine| offloads(machine, |all| all.generic_segmentation = false), "m0 offloads", "gso on");
    limited(|machine| seen(machine, |m0| m0.reverse_path_filter = Some(1)), "m0 rp_filter", "m0.rp_filter=2");
    let (link, _) = after(|machine| seen(machine, |m0| m0.has_carrier = false), "m0");
    assert!(link.health == Health::Limited && link.found.starts_with("no link"));
    let (tunnel, verdict) = after(|machine| seen(machine, |m0| m0.has_ethernet = false), "m0");
    assert!(verdict == Health::Good && tunnel.means.contains("--inline"));
}

#[test]
fn what_a_start_would_say_counts() {
    let rules = || Some(Ok("rules, not by tcx: connections are tracked".to_owned()));
    assert_eq!(after(|machine| machine.steering = rules(), "steering").1, Health::Limited);
    let taken = || Some(Err("w0 is steered already".to_owned()));
    assert_eq!(after(|machine| machine.steering = taken(), "steering").1, Health::Missing);
}
