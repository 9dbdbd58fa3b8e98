//! What other programs and the network do to a running path manager: endpoints, limits, interfaces, addresses.

use std::io::{Read, Write};

use io::netlink::{MptcpLimits, PathManager};
use io::{Clock, Waiter};
use units::Duration;

use super::daemon::{Daemon, SIGTERM, World, ip, spawn, until};
use super::has_mptcp;
use super::routes::six;

fn wait(time: Duration) {
    Waiter::new(Duration::ZERO).unwrap().wait(Some(Clock::now() + time)).unwrap();
}

fn established(world: &World) -> usize {
    world.subflows().iter().filter(|s| s.is_established).count()
}

#[test]
fn endpoints_and_limits_that_another_program_takes_away_are_set_again() {
    if !has_mptcp() {
        return;
    }
    let world = World::new("flush");
    let daemon = Daemon::start(&world, &[]);
    until("both endpoints are there", || world.endpoints() == 2);
    // Without a connection nothing is heard of it.
    ip(&world.client, "mptcp endpoint flush");
    until("both endpoints are there again", || world.endpoints() == 2);
    until("it is said", || {
        daemon.has_said("another program removed the endpoint 10.100.0.2: it is set again")
    });
    let (mut near, mut far, _listener) = world.connect();
    until("a second subflow joins", || established(&world) == 2);
    ip(&world.client, "mptcp endpoint flush");
    until("both subflows are there again", || world.endpoints() == 2 && established(&world) == 2);
    near.write_all(b"c").unwrap();
    far.read_exact(&mut [0]).unwrap();
    ip(&world.client, "mptcp limits set subflow 0 add_addr_accepted 0");
    let limits = || world.client.run(|| PathManager::open().unwrap().limits().unwrap()).unwrap();
    until("the limits are set again", || limits() == MptcpLimits { subflows: 8, add_addr_accepted: 8 });
    until("it is said", || {
        daemon.has_said(
            "set the MPTCP limits to 0 subflows and 0 addresses: no connection could use a second path",
        )
    });
    // What the daemon removes itself is no one else's doing.
    let said = "another program removed the endpoint 10.101.0.2";
    let before = world.status()["events"].to_string().matches(said).count();
    assert!(world.cellerator(&["multipath", "paths", "--retire", "lte0"]).status.success());
    until("the endpoint is gone", || world.endpoints() == 1);
    wait(Duration::from_millis(2_500));
    assert_eq!((world.endpoints(), world.status()["events"].to_string().matches(said).count()), (1, before));
    drop((near, far));
    until("the connection is gone", || established(&world) == 0);
    daemon.end(SIGTERM);
}

/// A modem that comes back has the same name and address, and another number.
#[test]
fn an_interface_that_comes_back_with_another_number_is_used_again() {
    if !has_mptcp() {
        return;
    }
    let world = World::new("index");
    ip(&world.client, "link del lte0");
    let daemon = Daemon::start_at(&world, "10.9.0.1", 1, &[]);
    until("its endpoint is there", || world.endpoints() == 1);
    let (mut near, mut far, _listener) = world.connect();
    let index = || world.client.netlink().unwrap().index_of("wifi0").unwrap().get();
    for (round, is_slow) in [false, true].into_iter().enumerate() {
        let before = index();
        let add = format!(
            "link add wifi0 type veth peer name wifi0 netns {}\naddr add 10.100.0.2/24 dev wifi0\nlink set wifi0 up",
            world.server.name()
        );
        if is_slow {
            ip(&world.client, "link del wifi0");
            until("it is gone", || daemon.has_said("up -> absent: vanished"));
            // Numbers are not used again at once; this one is another in any case.
            ip(&world.client, &add);
        } else {
            ip(&world.client, &format!("link del wifi0\n{add}"));
        }
        ip(&world.server, "addr add 10.100.0.1/24 dev wifi0\nlink set wifi0 up");
        ip(&world.client, "route add default via 10.100.0.1 dev wifi0 metric 100");
        assert_ne!(index(), before);
        let endpoint = || {
            let all = world.client.run(|| PathManager::open().unwrap().endpoints().unwrap()).unwrap();
            all.iter().map(|one| one.interface).collect::<Vec<_>>()
        };
        until("its endpoint is bound to the new one", || endpoint() == [Some(index())]);
        near.write_all(b"c").unwrap();
        far.read_exact(&mut [0]).unwrap();
        until(&format!("it is said in round {round}"), || daemon.has_said("up: replaced"));
    }
    drop((near, far));
    until("the connection is gone", || established(&world) == 0);
    daemon.end(SIGTERM);
}

/// Temporary addresses (RFC 8981) come one after the other, the newest first; the older ones are deprecated.
#[test]
fn temporary_addresses_that_change_tear_nothing_down() {
    if !has_mptcp() {
        return;
    }
    let world = World::new("temporary");
    six(&world, true);
    let mut probes = spawn(&world.server, &["probe", "server", "--listen", "[fd09::1]:7311"]);
    let daemon = Daemon::start_at(&world, "fd09::1", 2, &[]);
    until("both endpoints are there", || world.endpoints() == 2);
    let connection = world.connect_at("[fd09::1]:9000".parse().unwrap());
    until("a second subflow joins", || established(&world) == 2);
    let wifi = || {
        let path = world.status()["paths"][1].clone();
        assert_eq!(path["name"], "wifi0/6");
        (path["state"].as_str().unwrap().to_owned(), path["address"].as_str().unwrap().to_owned())
    };
    let as_before = ("up".to_owned(), "fd00:100::2".to_owned());
    ip(&world.client, "addr add fd00:100::77/64 dev wifi0 nodad");
    wait(Duration::from_millis(700));
    assert_eq!(wifi(), as_before);
    ip(&world.client, "addr change fd00:100::2/64 dev wifi0 valid_lft 900 preferred_lft 0");
    wait(Duration::from_millis(700));
    assert_eq!(wifi(), as_before, "connections use it");
    assert!(established(&world) == 2 && !daemon.has_said("readdressed") && !daemon.has_said("vanished"));
    drop(connection);
    until("nothing uses it, and the new one is taken", || wifi().1 == "fd00:100::77");
    daemon.end(SIGTERM);
    let _ = (probes.kill(), probes.wait());
}
