//! What is set up, what passes, what is said, and that nothing stays.

use engine::PassThrough;
use io::netlink::Family;
use run::{Config, Event, Notrack, SteeringChoice};

use crate::topology::{
    BOX_MOBILE, BOX_WIRED, Program, SERVER, SIGKILL, SIGTERM, Topology, unwatched, wait_until,
};

/// With policy rules, which are the choice where BPF programs cannot be.
fn by_rules(topology: &Topology) -> Config {
    Config { steering: SteeringChoice::Rules, ..topology.config() }
}

#[test]
fn downloads_pass_through_the_devices_intact() {
    let topology = Topology::build("pass");
    let program = Program::start(&topology, &topology.config());
    for address in SERVER {
        let before = topology.steered_packets();
        let mut connection = topology.connect(&topology.server, address);
        connection.exchange(b"keepword");
        connection.download(20_000_000);
        assert!(topology.steered_packets() > before + 100, "{address} did not go through the devices");
    }
    program.stop(&topology);
}

#[test]
fn downloads_pass_without_super_packets() {
    let topology = Topology::build("nogso");
    let program = Program::start(&topology, &Config { gso: false, ..topology.config() });
    for address in SERVER {
        topology.connect(&topology.server, address).download(3_000_000);
    }
    program.stop(&topology);
}

#[test]
fn strict_reverse_path_filtering_is_satisfied() {
    let topology = Topology::build("rpf");
    for interface in ["all", "default", "w0", "m0"] {
        topology.set(&format!("net/ipv4/conf/{interface}/rp_filter"), "1");
    }
    let program = Program::start(&topology, &topology.config());
    topology.connect(&topology.server, SERVER[0]).download(2_000_000);
    assert!(topology.steered_packets() > 20);
    program.stop(&topology);
}

#[test]
fn tcp_to_the_machine_itself_is_not_steered() {
    let topology = Topology::build("local");
    let program = Program::start(&topology, &topology.config());
    for address in BOX_MOBILE.into_iter().chain(BOX_WIRED) {
        topology.connect(&topology.middle, address).exchange(b"to-a-box");
    }
    assert_eq!(topology.steered_packets(), 0);
    program.stop(&topology);
}

#[test]
fn a_connection_survives_start_and_stop() {
    let topology = Topology::build("startstop");
    let mut connections = SERVER.map(|address| topology.connect(&topology.server, address));
    let mut exchange = |word| connections.iter_mut().for_each(|connection| connection.exchange(word));
    exchange(b"before-1");
    let program = Program::start(&topology, &topology.config());
    exchange(b"during-2");
    assert!(topology.steered_packets() > 0);
    program.stop(&topology);
    exchange(b"after--3");
}

#[test]
fn a_dry_run_says_the_same_and_changes_nothing() {
    let topology = Topology::build("dry");
    let before = topology.snapshot();
    let config = serde_json::to_string(&Config { notrack: Notrack::Always, ..topology.config() }).unwrap();
    let printed = topology.exec(env!("CARGO_BIN_EXE_tun-echo"), &["--dry-run", &config]);
    assert_eq!(topology.snapshot(), before);
    assert!(!topology.state.exists());
    for command in [
        "ip tuntap add dev cellw0 mode tun vnet_hdr",
        "ip link set cellm0 mtu 1500 txqueuelen 10000 multicast off up",
        "ip -6 route add default dev cellm0 table 20601 protocol 206",
        "ip -4 rule add iif w0 ipproto tcp lookup 20600 priority 206 protocol 206",
        "ip -6 rule add iif m0 ipproto tcp lookup 20601 priority 207 protocol 206",
    ] {
        assert!(printed.lines().any(|line| line == command), "{command} is not in\n{printed}");
    }
    assert_eq!(printed.matches("nft 'add rule").count(), 5);
    let config = Config { notrack: Notrack::Always, ..topology.config() };
    let program = Program::start(&topology, &config);
    let said = program.stop(&topology);
    // The table's name holds the process number.
    for line in printed.lines().filter(|line| !line.contains("nft")) {
        assert!(said.contains(line), "{line} is not in\n{said}");
    }
}

#[test]
fn the_printed_commands_are_what_ip_shows() {
    let topology = Topology::build("shown");
    let program = Program::start(&topology, &by_rules(&topology));
    for family in Family::BOTH {
        // Without /etc/protocols `ip` shows the protocol's number.
        let shown =
            topology.exec("ip", &[&family.to_string(), "rule"]).replace("ipproto ipproto-6", "ipproto tcp");
        assert!(shown.lines().next().unwrap().starts_with("0:\tfrom all lookup local"), "{shown}");
        assert!(shown.contains("206:\tfrom all iif w0 ipproto tcp lookup 20600"), "{shown}");
        assert!(shown.contains("207:\tfrom all iif m0 ipproto tcp lookup 20601"), "{shown}");
    }
    program.stop(&topology);
}

#[test]
fn rules_that_somebody_takes_away_come_back() {
    let topology = Topology::build("flushed");
    let mut program = Program::start(&topology, &by_rules(&topology));
    topology.exec("ip", &["-4", "rule", "del", "priority", "206"]);
    topology.exec("ip", &["-6", "rule", "del", "priority", "207"]);
    program.await_line("had vanished");
    let count = || topology.leftovers().iter().filter(|line| line.contains("ipproto tcp")).count();
    wait_until("all four rules are there", || count() == 4);
    let before = topology.steered_packets();
    for address in SERVER {
        topology.connect(&topology.server, address).exchange(b"steered!");
    }
    assert!(topology.steered_packets() > before);
    program.stop(&topology);
}

#[test]
fn forwarding_is_asked_for_or_switched_on_and_back() {
    let topology = Topology::build("forward");
    topology.set("net/ipv4/ip_forward", "0");
    topology.set("net/ipv6/conf/all/forwarding", "0");
    let before = topology.snapshot();
    let program = Program::start(&topology, &topology.config());
    let said = program.stop(&topology);
    assert!(said.contains("sysctl -w net.ipv4.ip_forward=1"), "{said}");
    assert!(said.contains("sysctl -w net.ipv6.conf.all.forwarding=1"), "{said}");
    let program = Program::start(&topology, &Config { set_forwarding: true, ..topology.config() });
    for address in SERVER {
        topology.connect(&topology.server, address).download(100_000);
    }
    program.stop(&topology);
    assert_eq!(topology.snapshot(), before);
}

/// Lays cables for a second instance, and gives its settings.
fn beside(topology: &Topology) -> Config {
    topology.cable(
        &topology.server,
        "s1",
        ["10.4.0.2/24", "fd04::2/64"],
        "w1",
        ["10.4.0.1/24", "fd04::1/64"],
    );
    topology.cable(
        &topology.client,
        "c1",
        ["10.3.0.2/24", "fd03::2/64"],
        "m1",
        ["10.3.0.1/24", "fd03::1/64"],
    );
    Config { wired: "w1".to_owned(), mobile: "m1".to_owned(), ..by_rules(topology) }
}

#[test]
fn the_last_of_two_that_have_switched_forwarding_on_puts_it_back() {
    let topology = Topology::build("twoforward");
    let other = beside(&topology);
    let switches = ["net/ipv4/ip_forward", "net/ipv6/conf/all/forwarding"];
    let values = || switches.map(|path| io::sysctl::read(&topology.middle, path).unwrap());
    switches.iter().for_each(|path| topology.set(path, "0"));
    let first = Program::start(&topology, &Config { set_forwarding: true, ..by_rules(&topology) });
    let second = Program::start(&topology, &Config { set_forwarding: true, ..other });
    first.signal(SIGTERM);
    let (status, said) = first.wait();
    assert!(status.success(), "{said}");
    assert_eq!(values(), ["1", "1"], "the second one needs it");
    second.stop(&topology);
    assert_eq!(values(), ["0", "0"]);
}

/// The second one starts when the first one has looked at the machine and made its devices.
#[test]
fn of_two_that_start_at_the_same_moment_one_ends() {
    for steering in [SteeringChoice::Tcx, SteeringChoice::Rules] {
        let topology = Topology::build("moment");
        let config = Config { steering, watchdog: unwatched(), ..topology.config() };
        let mut second = None;
        let make = |shards| {
            second = Some(Program::start(&topology, &config));
            Ok(vec![PassThrough; shards])
        };
        let mut events = |event: &Event| assert!(!matches!(event, Event::Ready { .. }), "both steer");
        let first = topology.middle.run(|| run::run(&config, make, &mut events)).unwrap();
        let why = first.unwrap_err().to_string();
        assert!(why.contains("'w0' is steered already (by 'w0-m0', process "), "{why}");
        for address in SERVER {
            topology.connect(&topology.server, address).download(100_000);
        }
        second.unwrap().stop(&topology);
    }
}

#[test]
fn two_instances_side_by_side_do_not_touch_each_other() {
    let topology = Topology::build("two");
    let other = beside(&topology);
    let first = Program::start(&topology, &by_rules(&topology));
    let again = Program::launch(&topology, &topology.config());
    let (status, said) = again.wait();
    assert!(!status.success() && said.contains("'w0' is steered already"), "{said}");
    let mut second = Program::start(&topology, &other);
    topology.connect(&topology.server, SERVER[0]).download(100_000);
    first.signal(SIGTERM);
    let (status, said) = first.wait();
    assert!(status.success(), "{said}");
    let left = topology.leftovers();
    assert!(left.iter().any(|line| line.contains("iif w1")), "{left:?}");
    assert!(!left.iter().any(|line| line.contains("iif w0")), "{left:?}");
    second.said.clear();
    second.stop(&topology);
}

#[test]
fn what_cannot_work_is_said_in_one_line() {
    let topology = Topology::build("errors");
    topology.exec("ip", &["link", "add", "bare", "type", "veth", "peer", "name", "bare2"]);
    topology.exec("ip", &["link", "add", "off", "type", "veth", "peer", "name", "off2"]);
    topology.exec("ip", &["link", "set", "bare", "up"]);
    let before = topology.snapshot();
    for (wired, mobile, line) in [
        ("nothere", "m0", "no interface 'nothere'"),
        ("w0", "w0", "'w0' is given as wired and as mobile"),
        ("off", "m0", "interface 'off' is down"),
        ("w0", "bare", "interface 'bare' has no IPv4"),
    ] {
        let config = Config { wired: wired.to_owned(), mobile: mobile.to_owned(), ..topology.config() };
        let (status, said) = Program::launch(&topology, &config).wait();
        assert!(!status.success(), "{line}");
        assert!(said.lines().count() == 1 && said.contains(line), "{line}: {said}");
        assert_eq!(topology.snapshot(), before);
    }
}

#[test]
fn a_lost_device_of_its_own_ends_it_in_good_order() {
    let topology = Topology::build("lost");
    for steering in [SteeringChoice::Tcx, SteeringChoice::Rules] {
        let program = Program::start(&topology, &Config { steering, ..topology.config() });
        topology.exec("ip", &["link", "delete", "cellm0"]);
        let (status, said) = program.wait();
        assert!(!status.success() && said.contains("'cellm0' is gone or down"), "{said}");
        assert_eq!(topology.leftovers(), [""; 0]);
    }
}

#[test]
fn leftovers_of_a_killed_pair_are_removed_by_the_next_start() {
    let topology = Topology::build("next");
    topology.set("net/ipv4/ip_forward", "0");
    let config = Config { set_forwarding: true, watchdog: unwatched(), ..by_rules(&topology) };
    let program = Program::start(&topology, &config);
    let mut connection = topology.connect(&topology.server, SERVER[0]);
    program.signal(SIGKILL);
    program.wait();
    let left = topology.leftovers();
    assert!(left.iter().any(|line| line.contains("iif w0 ipproto tcp")), "{left:?}");
    assert!(!left.iter().any(|line| line.starts_with("cell")), "devices go with the process: {left:?}");
    connection.exchange(b"no-guard");
    let program = Program::start(&topology, &config);
    connection.exchange(b"restarts");
    let said = program.stop(&topology);
    assert!(said.contains("left behind"), "{said}");
    assert_eq!(io::sysctl::read(&topology.middle, "net/ipv4/ip_forward").unwrap(), "0");
}
