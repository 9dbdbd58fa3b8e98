//! Routes as they come from other programs: several next hops, tables of their own, advertisements, other metrics.

use std::net::{Ipv6Addr, SocketAddrV6};
use std::process::{Command, Stdio};

use io::netlink::Family;
use io::{Clock, SpawnOptions, Waiter, sysctl};
use socket2::{Domain, Protocol, Socket, Type};
use units::Duration;

use super::daemon::{Daemon, SIGKILL, SIGTERM, World, default_routes, ip, spawn, until};
use super::has_mptcp;

const SERVER_6: &str = "fd09::1";

/// What `ip` shows at the client, a line each, without what the kernel adds to the ends of lines.
fn shown(world: &World, arguments: &[&str]) -> Vec<String> {
    let mut command = Command::new("ip");
    command.args(arguments).stdout(Stdio::piped());
    let child = world.client.spawn(command, SpawnOptions::default()).unwrap();
    let text = String::from_utf8(child.wait_with_output().unwrap().stdout).unwrap();
    text.lines().map(|line| line.split_whitespace().collect::<Vec<_>>().join(" ")).collect()
}

fn default_4(world: &World) -> Vec<String> {
    shown(world, &["-4", "route", "show", "default"])
}

/// What the server answers over Wi-Fi is lost, or no longer.
fn wifi_dies(world: &World, is_dead: bool) {
    let what = if is_dead { "add" } else { "del" };
    ip(&world.server, &format!("route {what} blackhole 10.100.0.2/32"));
}

fn wait(time: Duration) {
    Waiter::new(Duration::ZERO).unwrap().wait(Some(Clock::now() + time)).unwrap();
}

const BOTH_HOPS: [&str; 3] =
    ["default", "nexthop via 10.100.0.1 dev wifi0 weight 1", "nexthop via 10.101.0.1 dev lte0 weight 2"];
const WIFI_GONE: [&str; 2] =
    ["default via 10.101.0.1 dev lte0", "default via 10.100.0.1 dev wifi0 metric 1000000"];

#[test]
fn of_a_route_with_several_next_hops_only_the_dead_one_is_left() {
    if !has_mptcp() {
        return;
    }
    let world = World::new("hops");
    ip(
        &world.client,
        "route del default dev wifi0\nroute del default dev lte0\nroute add default nexthop via 10.100.0.1 dev wifi0 \
         nexthop via 10.101.0.1 dev lte0 weight 2",
    );
    assert_eq!(default_4(&world), BOTH_HOPS);
    let daemon = Daemon::start(&world, &[]);
    wifi_dies(&world, true);
    until("the dead next hop is demoted", || default_4(&world) == WIFI_GONE);
    wifi_dies(&world, false);
    until("both are there again", || default_4(&world) == BOTH_HOPS);
    // Its guard undoes the same.
    wifi_dies(&world, true);
    until("the dead next hop is demoted again", || default_4(&world) == WIFI_GONE);
    daemon.end(SIGKILL);
    until("the guard restores it", || default_4(&world) == BOTH_HOPS);
}

#[test]
fn a_route_through_an_object_of_next_hops_comes_back_as_one() {
    if !has_mptcp() {
        return;
    }
    let world = World::new("nexthop");
    ip(
        &world.client,
        "route del default dev wifi0\nroute del default dev lte0\nnexthop add id 1 via 10.100.0.1 dev wifi0\n\
         nexthop add id 2 via 10.101.0.1 dev lte0\nnexthop add id 3 group 1/2\nroute add default nhid 3",
    );
    let before = default_4(&world);
    assert!(before[0].contains("nhid 3"), "{before:?}");
    let daemon = Daemon::start(&world, &[]);
    wifi_dies(&world, true);
    until("the dead next hop is demoted", || default_4(&world) == WIFI_GONE);
    wifi_dies(&world, false);
    until("the object is used again", || default_4(&world) == before);
    daemon.end(SIGTERM);
    assert_eq!(default_4(&world), before);
}

#[test]
fn ipv6_next_hops_of_one_metric_are_paths_of_their_own() {
    if !has_mptcp() {
        return;
    }
    let world = World::new("hops6");
    six(&world, true);
    let (of, metrics) = (|name| default_routes(&world, Family::V6, name), |metric| vec![(metric, None)]);
    assert_eq!([of("wifi0"), of("lte0")], [metrics(1_024), metrics(1_024)]);
    let shared = shown(&world, &["-6", "route", "show", "default"]);
    assert!(shared.iter().filter(|line| line.starts_with("nexthop")).count() == 2, "{shared:?}");
    let mut probes = spawn(&world.server, &["probe", "server", "--listen", "[fd09::1]:7311"]);
    let daemon = Daemon::start_at(&world, SERVER_6, 2, &[]);
    ip(&world.server, "route add blackhole fd00:100::2/128");
    until("the dead next hop is demoted", || of("wifi0") == metrics(1_001_024));
    assert_eq!(of("lte0"), metrics(1_024));
    ip(&world.server, "route del blackhole fd00:100::2/128");
    until("it is back", || of("wifi0") == metrics(1_024));
    assert_eq!(shown(&world, &["-6", "route", "show", "default"]).len(), shared.len());
    daemon.end(SIGTERM);
    let _ = (probes.kill(), probes.wait());
}

/// Addresses for IPv6, and with `is_routed` default routes of one metric.
pub(super) fn six(world: &World, is_routed: bool) {
    let mut ours = String::new();
    let mut theirs = format!("addr add {SERVER_6}/128 dev lo nodad\n");
    for (name, net) in [("wifi0", "fd00:100::"), ("lte0", "fd00:101::")] {
        ours += &format!("addr add {net}2/64 dev {name} nodad\n");
        theirs += &format!("addr add {net}1/64 dev {name} nodad\n");
        if is_routed {
            ours += &format!("route append default via {net}1 dev {name} proto ra metric 1024\n");
        }
    }
    ip(&world.server, theirs.trim_end());
    ip(&world.client, ours.trim_end());
}

#[test]
fn an_uplink_whose_routes_stand_in_a_table_of_their_own_is_a_path() {
    if !has_mptcp() {
        return;
    }
    let world = World::new("tables");
    ip(
        &world.client,
        "route del default dev lte0\nroute add default via 10.101.0.1 dev lte0 table 2\nrule add from 10.101.0.2 table 2\n\
         link add tun0 type veth peer name tun1\nlink set tun1 up\nlink set tun0 up\naddr add 10.55.0.2/24 dev tun0\n\
         route add default dev tun0 table 51820\nrule add not fwmark 0xca6c table 51820 priority 40000",
    );
    let daemon = Daemon::start(&world, &[]);
    let connection = world.connect();
    until("a second subflow joins", || world.subflows().iter().filter(|s| s.is_established).count() == 2);
    let names: Vec<String> = world.status()["paths"]
        .as_array()
        .unwrap()
        .iter()
        .map(|path| path["name"].as_str().unwrap().to_owned())
        .collect();
    assert_eq!(names, ["lte0", "wifi0"], "a tunnel's table is not asked for what leaves from its address");
    // Only the main table's are demoted, and it is said that nothing else is there.
    wifi_dies(&world, true);
    until("it is said", || daemon.has_said("1 default routes demoted; there is no other in the main table"));
    assert_eq!(default_routes(&world, Family::V4, "lte0"), [(0, None)]);
    drop(connection);
    until("the connection is gone", || world.subflows().iter().all(|s| !s.is_established));
    daemon.end(SIGTERM);
    assert_eq!(default_routes(&world, Family::V4, "wifi0"), [(100, None)]);
}

#[test]
fn a_metric_that_is_changed_by_deleting_and_adding_is_no_death() {
    if !has_mptcp() {
        return;
    }
    let world = World::new("grace");
    let daemon = Daemon::start(&world, &[]);
    until("both endpoints are there", || world.endpoints() == 2);
    ip(&world.client, "route del default dev wifi0");
    wait(Duration::from_millis(300));
    ip(&world.client, "route add default via 10.100.0.1 dev wifi0 metric 700");
    wait(Duration::from_millis(1_500));
    let wifi = world.status()["paths"][1].clone();
    assert!(wifi["name"] == "wifi0" && wifi["state"] == "up", "{wifi}");
    assert!(!daemon.has_said("vanished") && world.endpoints() == 2);
    // For good it is one, a second later.
    ip(&world.client, "route del default dev wifi0");
    until("the path vanishes", || daemon.has_said("up -> absent: vanished"));
    daemon.end(SIGTERM);
    // A route that somebody deletes while it is demoted stays deleted.
    ip(&world.client, "route add default via 10.100.0.1 dev wifi0 metric 100");
    let daemon = Daemon::start(&world, &[]);
    wifi_dies(&world, true);
    let of = |name| default_routes(&world, Family::V4, name);
    until("its route is demoted", || of("wifi0") == [(1_000_100, None)]);
    ip(
        &world.client,
        "route del default dev wifi0 metric 1000100\nroute add default via 10.100.0.1 dev wifi0 metric 300",
    );
    until("the new one is demoted, too", || of("wifi0") == [(1_000_300, None)]);
    wifi_dies(&world, false);
    until("only that one is back", || of("wifi0") == [(300, None)]);
    daemon.end(SIGTERM);
    assert_eq!(of("wifi0"), [(300, None)]);
}

#[test]
fn routes_of_one_metric_come_back_in_their_order() {
    if !has_mptcp() {
        return;
    }
    let world = World::new("order");
    ip(
        &world.client,
        "route del default dev wifi0\nroute del default dev lte0\nlink add eth0 type veth peer name eth1\nlink set eth1 up\naddr add 10.7.0.2/24 dev eth0\n\
         link set eth0 up\nroute append default via 10.100.0.1 dev wifi0 metric 100\n\
         route append default via 10.101.0.1 dev lte0 metric 100\nroute append default via 10.7.0.1 dev eth0 metric 100",
    );
    let before = default_4(&world);
    assert_eq!(before.len(), 3);
    let daemon = Daemon::start(&world, &["wifi0", "lte0"]);
    let demoted =
        |name: &str| shown(&world, &["route", "show", "default", "dev", name]).join("").contains("1000100");
    for (name, address) in [("wifi0", "10.100.0.2"), ("lte0", "10.101.0.2")] {
        ip(&world.server, &format!("route add blackhole {address}/32"));
        until("its route is demoted", || demoted(name));
        ip(&world.server, &format!("route del blackhole {address}/32"));
        until("it is back where it was", || default_4(&world) == before);
    }
    // At the end and after a kill, too.
    ip(&world.server, "route add blackhole 10.101.0.2/32");
    until("its route is demoted", || demoted("lte0"));
    daemon.end(SIGKILL);
    until("the guard puts it back where it was", || default_4(&world) == before);
}

/// A router's advertisement to all hosts of a link: a default route, and a prefix for addresses.
fn advertise(world: &World, name: &str, prefix: Ipv6Addr, lifetime_s: u16) {
    let mut message = vec![134, 0, 0, 0, 64, 0];
    message.extend(lifetime_s.to_be_bytes());
    message.extend([0; 8]);
    // On link, for addresses; valid for 3000 s, preferred for 2000 s (RFC 4861 §4.6.2).
    message.extend([3, 4, 64, 0xc0]);
    message.extend(3_000_u32.to_be_bytes());
    message.extend(2_000_u32.to_be_bytes());
    message.extend([0; 4]);
    message.extend(prefix.octets());
    let index = world.server.netlink().unwrap().index_of(name).unwrap().get();
    let send = || -> std::io::Result<usize> {
        let socket = Socket::new(Domain::IPV6, Type::RAW, Some(Protocol::ICMPV6))?;
        socket.set_multicast_hops_v6(255)?;
        socket.bind_device(Some(name.as_bytes()))?;
        let all = SocketAddrV6::new("ff02::1".parse().unwrap(), 0, 0, index);
        socket.send_to(&message, &all.into())
    };
    // Not before the router's own address has been proved.
    until("an advertisement is sent", || world.server.run(send).unwrap().is_ok());
}

#[test]
fn an_advertised_route_keeps_its_lifetime_and_is_demoted_while_its_path_is_dead() {
    if !has_mptcp() {
        return;
    }
    let world = World::new("ra");
    // A neighbour that says that it is no router is none, whatever was advertised (RFC 4861 §7.2.5).
    sysctl::write(&world.server, "net/ipv6/conf/all/forwarding", "1").unwrap();
    for name in ["wifi0", "lte0"] {
        for (setting, value) in [("accept_ra", "2"), ("autoconf", "1"), ("dad_transmits", "0")] {
            sysctl::write(&world.client, &format!("net/ipv6/conf/{name}/{setting}"), value).unwrap();
        }
    }
    let nets: [(&str, Ipv6Addr); 2] =
        [("wifi0", "fd00:100::".parse().unwrap()), ("lte0", "fd00:101::".parse().unwrap())];
    let mut theirs = format!("addr add {SERVER_6}/128 dev lo nodad\n");
    for (name, net) in nets {
        theirs += &format!("addr add {net}1/64 dev {name} nodad\n");
    }
    ip(&world.server, theirs.trim_end());
    for (name, net) in nets {
        until("the kernel has the advertised route", || {
            advertise(&world, name, net, 600);
            !default_routes(&world, Family::V6, name).is_empty()
        });
    }
    let mut probes = spawn(&world.server, &["probe", "server", "--listen", "[fd09::1]:7311"]);
    let daemon = Daemon::start_at(&world, SERVER_6, 2, &[]);
    let of = |name| default_routes(&world, Family::V6, name);
    // Its metric, while the rest of its lifetime is some of so many seconds.
    let one = |name, from_s: u64, to_s: u64| match of(name)[..] {
        [(metric, Some(left))] if (from_s..=to_s).contains(&left) => Some(metric),
        _ => None,
    };
    assert_eq!((one("wifi0", 500, 600), one("lte0", 500, 600)), (Some(1_024), Some(1_024)));
    ip(&world.server, "route add blackhole fd00:100::/65\nroute add blackhole fd00:100:0:0:8000::/65");
    until("the route is demoted with its lifetime", || one("wifi0", 500, 600) == Some(1_001_024));
    // The router goes on: only what lies behind it is dead.
    advertise(&world, "wifi0", nets[0].1, 1_800);
    until("the advertised one is demoted with the new lifetime", || {
        one("wifi0", 1_700, 1_800) == Some(1_001_024)
    });
    assert_eq!(one("lte0", 500, 600), Some(1_024));
    ip(&world.server, "route del blackhole fd00:100::/65\nroute del blackhole fd00:100:0:0:8000::/65");
    until("it is back with what is left", || one("wifi0", 1_700, 1_800) == Some(1_024));
    // What it did is said a moment later: it is one route, whatever its lifetime.
    until("it says so", || daemon.has_said("1 default routes restored"));
    // And is the router's again: an advertisement renews it.
    advertise(&world, "wifi0", nets[0].1, 900);
    until("it is renewed", || one("wifi0", 800, 900) == Some(1_024));
    daemon.end(SIGTERM);
    assert_eq!(one("wifi0", 800, 900), Some(1_024));
    let _ = (probes.kill(), probes.wait());
}
