//! Clients of all kinds: without options, with small windows, with small packets.

use std::io::Write;
use std::process::{Command, Stdio};

use io::SpawnOptions;
use lab::{RADIO, Role};
use scenario::Family;
use units::Rate;

use crate::kernel::content::{Content, read_to_end};
use crate::kernel::counters::assert_healthy;
use crate::kernel::server::{Server, request};
use crate::kernel::testbed::{FAMILIES, Radio, Testbed, burst_loss};

const LEN: u64 = 1_000_000;

/// A kind of client: what it is, its kernel settings, its MTU, the bytes it fetches.
struct Kind {
    what: &'static str,
    settings: &'static [(&'static str, &'static str)],
    mtu: u32,
    len: u64,
}

const fn kind(what: &'static str, settings: &'static [(&'static str, &'static str)]) -> Kind {
    Kind { what, settings, mtu: 1_500, len: LEN }
}

const KINDS: &[Kind] = &[
    kind("all options", &[]),
    kind("no window scale", &[("tcp_window_scaling", "0")]),
    kind("no timestamps", &[("tcp_window_scaling", "1"), ("tcp_timestamps", "0")]),
    kind("no SACK", &[("tcp_timestamps", "1"), ("tcp_sack", "0")]),
    kind("no options", &[("tcp_window_scaling", "0"), ("tcp_timestamps", "0")]),
    kind("SACK alone", &[("tcp_sack", "1")]),
    Kind {
        mtu: 9_000,
        ..kind("jumbo frames that no one else has", &[("tcp_window_scaling", "1"), ("tcp_timestamps", "1")])
    },
    kind("a window of 17 KB", &[("tcp_rmem", "4096 30400 30400")]),
    kind("a window of 17 KB without SACK", &[("tcp_sack", "0")]),
    Kind { mtu: 296, len: 200_000, ..kind("tiny packets and window", &[("tcp_sack", "1")]) },
    Kind { mtu: 296, len: 300_000, ..kind("tiny packets", &[("tcp_rmem", "4096 131072 6291456")]) },
];

fn set_mtu(bed: &Testbed, mtu: u32) {
    let mut command = Command::new("ip");
    command.args(["link", "set", RADIO, "mtu", &mtu.to_string()]).stdin(Stdio::null());
    assert!(
        bed.host(Role::Client).spawn(command, SpawnOptions::default()).unwrap().wait().unwrap().success()
    );
}

fn fetch(bed: &Testbed, server: &Server, content: Content) {
    let mut stream = bed.connect(server.address);
    stream.write_all(request(content, false).as_bytes()).unwrap();
    assert_eq!(read_to_end(&mut stream).unwrap(), content.print());
    drop(stream);
    assert!(server.ends(1).iter().all(|(_, end)| end.is_ok()));
}

fn every_kind_of_client(policy: &str) {
    let radio = Radio { loss_down: burst_loss(3_000), ..Radio::steady(Rate::from_mbps(20)) };
    let options = ["--window-policy", policy];
    let mut bed = Testbed::accelerated(&format!("peers-{policy}"), &radio, &options);
    let servers = FAMILIES.map(|family| Server::start(&bed, family));
    let mut flows = 0;
    // The kernel takes IPv6 from an interface whose packets become too small for it.
    let mut has_ipv6 = true;
    for (seed, kind) in (30..).zip(KINDS) {
        for (setting, value) in kind.settings {
            bed.set(Role::Client, &format!("net/ipv4/{setting}"), value);
        }
        set_mtu(&bed, kind.mtu);
        println!("{policy}: {}", kind.what);
        has_ipv6 &= kind.mtu >= 1_280;
        for (family, server) in FAMILIES.into_iter().zip(&servers) {
            if family == Family::Ipv4 || has_ipv6 {
                fetch(&bed, server, Content { seed, len: kind.len });
                flows += 1;
            }
        }
    }
    assert_healthy(&bed);
    let said = bed.stop();
    println!("{:#?}", &said.lines[said.lines.len() - 4..]);
    assert_eq!(said.accelerated_flows(), flows);
    said.assert_no_warning();
}

#[test]
fn every_kind_of_client_is_served_with_honour() {
    every_kind_of_client("honour");
}

#[test]
fn every_kind_of_client_is_served_with_opportunistic() {
    every_kind_of_client("opportunistic");
}
