//! Interfaces that go down, vanish, come back, and get other addresses and MTUs, under a running accelerator.

use io::Clock;
use io::netlink::LinkChange;
use run::{Config, InlineFallback, SteeringChoice};
use units::Duration;

use crate::accelerated::verdict;
use crate::topology::{Connection, Program, SERVER, SIGCONT, SIGKILL, SIGSTOP, Topology, wait_until};
use crate::{crash, inline};

const WAYS: [SteeringChoice; 2] = [SteeringChoice::Tcx, SteeringChoice::Rules];

fn config(topology: &Topology, steering: SteeringChoice) -> Config {
    Config { steering, ..topology.config() }
}

/// Connections over both families, used once.
fn connections(topology: &Topology) -> [Connection; 2] {
    SERVER.map(|address| {
        let mut connection = topology.connect(&topology.server, address);
        connection.exchange(b"opening.");
        connection
    })
}

fn switch(topology: &Topology, interface: &str, up: bool) {
    let netlink = topology.netlink();
    let index = netlink.index_of(interface).unwrap();
    netlink.change_link(index, &LinkChange { up: Some(up), ..LinkChange::default() }).unwrap();
    if up {
        wait_until("the cable is in operation", || netlink.link(interface).unwrap().is_running);
    }
}

fn downloads(topology: &Topology) {
    let before = topology.steered_packets();
    SERVER.iter().for_each(|address| topology.connect(&topology.server, address).download(3_000_000));
    assert!(topology.steered_packets() > before + 20, "they went past");
}

#[test]
fn interfaces_that_are_swapped_are_told_of() {
    let topology = Topology::build("swapped");
    let config = Config { wired: "m0".to_owned(), mobile: "w0".to_owned(), ..topology.config() };
    let mut program = Program::start_engine(&topology, &config);
    for _ in 0..40 {
        topology.connect(&topology.server, SERVER[0]).exchange(b"anything");
    }
    program.await_line("connections were opened from the wired side");
    program.stop(&topology);
}

#[test]
fn an_interface_that_goes_down_is_waited_for_and_flows_go_on() {
    for steering in WAYS {
        let topology = Topology::build("down");
        // Or IPv6 addresses would go with it.
        topology.set("net/ipv6/conf/all/keep_addr_on_down", "1");
        let mut program = Program::start_engine(&topology, &config(&topology, steering));
        let mut under_way = connections(&topology);
        for (interface, conditions) in [("w0", ["down", "up"]), ("m0", ["up", "down"])] {
            switch(&topology, interface, false);
            program.await_line(&format!("warning: interface '{interface}' is down: waiting for it"));
            assert_eq!(topology.status().interfaces, conditions);
            switch(&topology, interface, true);
            program.await_line(&format!("interface '{interface}' is back: going on"));
            assert_eq!(topology.status().interfaces, ["up", "up"]);
            under_way.iter_mut().for_each(|connection| connection.exchange(b"returned"));
            downloads(&topology);
        }
        let said = program.stop(&topology);
        assert_eq!(verdict(&said), (6, 0), "{said}");
        under_way.into_iter().for_each(|connection| connection.download(100_000));
    }
}

/// Deletes an interface and lays its cable anew: flows go on, and new ones are steered.
fn make_anew(topology: &Topology, program: &mut Program, interface: &str, under_way: &mut [Connection]) {
    topology.exec("ip", &["link", "delete", interface]);
    // The kernel says first that it is down; whether that is seen depends on what else runs.
    program.await_line(&format!("warning: interface '{interface}' is "));
    topology.lay_cables([interface]);
    program.await_line(&format!("interface '{interface}' was made anew"));
    under_way.iter_mut().for_each(|connection| connection.exchange(b"returned"));
    // The programs follow a moment later than the line.
    wait_until("it is steered again", || {
        let before = topology.steered_packets();
        topology.connect(&topology.server, SERVER[0]).download(100_000);
        topology.steered_packets() > before + 4
    });
    downloads(topology);
}

/// The programs are those of the process before, and the next one gets those that have followed.
#[test]
fn h34_an_interface_that_is_made_anew_between_two_upgrades_is_steered_again() {
    for steering in WAYS {
        let topology = Topology::build("anewupgrade");
        let named = |number: u32| Config {
            name: format!("number-{number}"),
            replace: number.checked_sub(1).map(|before| format!("number-{before}")),
            ..config(&topology, steering)
        };
        let hang_after = Duration::from_millis(named(0).watchdog.hang_after_ms);
        let mut running = Program::start_engine(&topology, &named(0));
        let mut under_way = connections(&topology);
        for (number, interface) in [(1, "w0"), (2, "m0"), (3, "w0")] {
            let mut successor = Program::start_engine(&topology, &named(number));
            successor.await_line("the replaced one has ended");
            let (status, said) = std::mem::replace(&mut running, successor).wait();
            assert!(status.success() && said.contains("handed over"), "{said}");
            make_anew(&topology, &mut running, interface, &mut under_way);
            // What went past meanwhile is known to the processor from the next sign of life on: until then no other
            // process gets the flows.
            let heard = Clock::now() + hang_after;
            wait_until("a sign of life", || Clock::now() > heard);
        }
        let said = running.stop(&topology);
        assert!(said.contains(" 0 B lost"), "{said}");
        under_way.into_iter().for_each(|connection| connection.download(100_000));
        assert_eq!(topology.leftovers(), Vec::<String>::new());
    }
}

#[test]
fn an_interface_that_is_made_anew_is_steered_again() {
    for steering in WAYS {
        let topology = Topology::build("anew");
        let mut program = Program::start_engine(&topology, &config(&topology, steering));
        let mut under_way = connections(&topology);
        for interface in ["w0", "m0"] {
            make_anew(&topology, &mut program, interface, &mut under_way);
        }
        // Both, and quickly.
        ["w0", "m0"].iter().for_each(|interface| drop(topology.exec("ip", &["link", "delete", interface])));
        topology.lay_cables(["m0", "w0"]);
        under_way.iter_mut().for_each(|connection| connection.exchange(b"returned"));
        program.await_line("was made anew");
        let said = program.stop(&topology);
        assert!(said.contains(" 0 B lost"), "{said}");
        under_way.into_iter().for_each(|connection| connection.download(100_000));
    }
}

#[test]
fn other_addresses_and_routes_are_followed() {
    for steering in WAYS {
        let topology = Topology::build("renumber");
        let program = Program::start_engine(&topology, &config(&topology, steering));
        let mut under_way = connections(&topology);
        topology.exec("ip", &["address", "flush", "dev", "m0", "scope", "global"]);
        for (address, family) in [("10.1.0.7/24", "-4"), ("fd01::7/64", "-6")] {
            topology.exec("ip", &["address", "add", address, "dev", "m0"]);
            let gateway = address.split('/').next().unwrap();
            let mut command = std::process::Command::new("ip");
            command.args([family, "route", "replace", "default", "via", gateway]);
            let child = topology.client.spawn(command, io::SpawnOptions::default());
            assert!(child.unwrap().wait().unwrap().success());
        }
        under_way.iter_mut().for_each(|connection| connection.exchange(b"moved-on"));
        downloads(&topology);
        let said = program.stop(&topology);
        assert_eq!(verdict(&said), (4, 0), "{said}");
    }
}

#[test]
fn the_devices_take_packets_as_long_as_the_interfaces_do() {
    for steering in WAYS {
        let topology = Topology::build("jumbo");
        let mut program = Program::start_engine(&topology, &config(&topology, steering));
        let mut under_way = connections(&topology);
        for mtu in ["9000", "1280", "4000"] {
            for (namespace, interface) in [
                (&topology.client, "c0"),
                (&topology.middle, "m0"),
                (&topology.middle, "w0"),
                (&topology.server, "s0"),
            ] {
                let mut command = std::process::Command::new("ip");
                command.args(["link", "set", interface, "mtu", mtu]);
                let child = namespace.spawn(command, io::SpawnOptions::default());
                assert!(child.unwrap().wait().unwrap().success());
            }
            // In whatever order they are noticed.
            for _ in 0..2 {
                program.await_line(&format!("0 is {mtu}"));
            }
            under_way.iter_mut().for_each(|connection| connection.exchange(b"resized."));
            downloads(&topology);
            let mtus = ["cellw0", "cellm0"].map(|name| topology.netlink().link(name).unwrap().mtu);
            assert_eq!(mtus, [9_000; 2], "never less than before");
        }
        let said = program.stop(&topology);
        assert_eq!(verdict(&said), (8, 0), "{said}");
    }
}

#[test]
fn a_bridge_takes_an_interface_that_is_made_anew_in_again() {
    for fallback in [InlineFallback::None, InlineFallback::Bridge] {
        let (topology, config) = inline::build("inlanew", fallback);
        let mut program = inline::start(&topology, &config);
        let mut under_way = inline::HERE.map(|address| topology.connect(&topology.server, address));
        under_way.iter_mut().for_each(|connection| connection.exchange(b"opening."));
        switch(&topology, "m0", false);
        program.await_line("interface 'm0' is down");
        switch(&topology, "m0", true);
        program.await_line("interface 'm0' is back");
        under_way.iter_mut().for_each(|connection| connection.exchange(b"returned"));
        for interface in ["m0", "w0"] {
            topology.exec("ip", &["link", "delete", interface]);
            program.await_line(&format!("interface '{interface}' is "));
            topology.lay_cables([interface]);
            inline::settle_in(&topology);
            // The hosts hear of the new address of the other one's interface by themselves only
            // when they have lost patience.
            for host in [&topology.client, &topology.server] {
                let mut command = std::process::Command::new("ip");
                command.args(["neighbour", "flush", "all"]);
                let child = host.spawn(command, io::SpawnOptions::default());
                assert!(child.unwrap().wait().unwrap().success());
            }
            program.await_line(&format!("interface '{interface}' was made anew: joined again"));
            under_way.iter_mut().for_each(|connection| connection.exchange(b"returned"));
            for address in inline::HERE {
                topology.connect(&topology.server, address).download(2_000_000);
            }
        }
        let said = program.stop(&topology);
        assert_eq!(verdict(&said), (6, 0), "{said}");
    }
}

/// The process dies while it owes, and the interface towards the clients is away until after the
/// watchdog has begun.
#[test]
fn h02_flows_with_debt_are_reset_though_the_interface_is_away_at_first() {
    for is_deleted in [false, true] {
        let topology = Topology::build("awayowed");
        topology.set("net/ipv6/conf/all/keep_addr_on_down", "1");
        let mut program = Program::start_engine(&topology, &topology.config());
        let owed: Vec<_> = (0..4).map(|n| crash::with_debt(&topology, SERVER[n % 2])).collect();
        let away = || {
            if is_deleted {
                topology.exec("ip", &["link", "delete", "m0"]);
            } else {
                switch(&topology, "m0", false);
            }
        };
        away();
        program.signal(SIGKILL);
        program.await_line("the accelerator died and owed 4 flows");
        if is_deleted {
            topology.lay_cables(["m0"]);
        } else {
            switch(&topology, "m0", true);
        }
        owed.into_iter().for_each(crash::assert_reset);
        program.await_line("4 flows reset");
        program.wait();
        wait_until("the watchdog has undone everything", || topology.leftovers().is_empty());
    }
}

/// What went past while the process was stopped must not be waited for when it goes on: neither in
/// the downlink nor in the uplink, and least of all by a flow that is idle then.
#[test]
fn h37_what_went_past_a_stopped_process_is_known_when_it_goes_on() {
    for steering in WAYS {
        let topology = Topology::build("wentpast");
        let mut program =
            Program::launch_with(&topology, &config(&topology, steering), &["--both-ways", "--engine"]);
        program.await_line("steering TCP between");
        let mut under_way = connections(&topology);
        for _ in 0..3 {
            program.signal(SIGSTOP);
            program.await_line("no sign of life");
            for _ in 0..3 {
                under_way.iter_mut().for_each(|connection| connection.exchange(b"past-it!"));
            }
            program.signal(SIGCONT);
            program.await_line("installed again");
            under_way.iter_mut().for_each(|connection| connection.exchange(b"returned"));
            let mut new = connections(&topology);
            new.iter_mut().for_each(|connection| connection.exchange(b"new-one."));
            under_way.into_iter().for_each(|connection| connection.download(200_000));
            under_way = new;
        }
        program.stop(&topology);
    }
}

#[test]
fn exchanged_interfaces_and_parts_of_others_are_named() {
    let topology = Topology::build("exchanged");
    topology.exec("ip", &["route", "add", "default", "via", "10.2.0.2"]);
    let said = Program::start(&topology, &topology.config()).stop(&topology);
    assert!(!said.contains("warning"), "{said}");
    let exchanged = Config { wired: "m0".to_owned(), mobile: "w0".to_owned(), ..topology.config() };
    let said = Program::start(&topology, &exchanged).stop(&topology);
    assert!(
        said.contains("warning: the default route leads through 'w0'") && said.contains("--wired w0"),
        "{said}"
    );
    topology.exec("ip", &["link", "add", "br0", "type", "bridge"]);
    topology.exec("ip", &["link", "set", "m0", "master", "br0"]);
    let said = Program::start(&topology, &topology.config()).stop(&topology);
    assert!(said.contains("warning: interface 'm0' is part of bridge 'br0'"), "{said}");
}
