//! H2, H37: another process goes on with the flows of one that died or hangs.

use std::io::{BufRead, Read, Write};
use std::net::TcpStream;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};

use run::{Config, RecoveryStatus, SteeringChoice, Wishes};

use crate::crash::{assert_reset, kill_with_watchdog, with_debt};
use crate::firewall::by_state;
use crate::nat::masquerade;
use crate::topology::{
    Connection, PATIENCE, Program, SERVER, SIGCONT, SIGKILL, SIGSTOP, SIGTERM, Topology, pattern, wait_until,
};

/// One that is followed by another process, however long that takes on a loaded machine.
fn config(topology: &Topology) -> Config {
    let mut config = topology.config();
    config.watchdog.successor = vec!["self".to_owned()];
    config.watchdog.recover_within_ms = 10_000;
    config
}

/// Waits until another process goes on; gives its number.
pub fn successor(program: &mut Program) -> u32 {
    let line = program.await_line("goes on with the flows of the one that died");
    let (_, after) = line.split_once("process ").unwrap();
    after.split_ascii_whitespace().next().unwrap().parse().unwrap()
}

pub fn signal(process: u32, signal: i32) {
    io::PidFd::open(process).unwrap().send_signal(signal).unwrap();
}

/// A transfer whose receiver begins to read late: until then the box holds what it has taken.
pub struct Late {
    receiver: TcpStream,
    sender: JoinHandle<std::io::Result<()>>,
    sent: Vec<u8>,
}

impl Late {
    pub fn start(receiver: TcpStream, mut sender: TcpStream, len: usize) -> Self {
        let sent = pattern(len);
        let bytes = sent.clone();
        let sender = thread::spawn(move || {
            sender.write_all(&bytes)?;
            sender.shutdown(std::net::Shutdown::Write)
        });
        Self { receiver, sender, sent }
    }

    pub fn finish(mut self) {
        let mut got = Vec::new();
        self.receiver.read_to_end(&mut got).unwrap();
        self.sender.join().unwrap().unwrap();
        assert!(got == self.sent, "{} of {} bytes arrived intact", got.len(), self.sent.len());
    }
}

/// Two deaths under downloads, uploads and idle flows: none of them notices.
pub fn no_flow_notices(topology: &Topology, config: &Config, servers: [&str; 2]) {
    let mut program = Program::launch_with(topology, config, &["--both-ways", "--engine"]);
    program.await_line("ready: ");
    let opened = |n: usize| {
        let mut connection = topology.connect(&topology.server, servers[n % 2]);
        connection.exchange(b"opening.");
        connection
    };
    let mut idle: Vec<Connection> = (0..4).map(opened).collect();
    let before = topology.received_packets();
    let late: Vec<Late> = (0..8)
        .map(|n| {
            let Connection { client, server, .. } = opened(n);
            let (receiver, sender) = if n < 4 { (client, server) } else { (server, client) };
            Late::start(receiver, sender, 5_000_000)
        })
        .collect();
    wait_until("the transfers are under way", || topology.received_packets() > before + 300);
    let recovery = topology.status().recovery;
    assert_eq!(recovery, RecoveryStatus { is_ready: true, ..RecoveryStatus::default() });
    program.signal(SIGKILL);
    let first = successor(&mut program);
    idle[0].exchange(b"between.");
    signal(first, SIGKILL);
    let last = successor(&mut program);
    let recovery = topology.status().recovery;
    assert_eq!((recovery.deaths, recovery.flows_lost), (2, 0), "{recovery:?}");
    // Each flow is in the tables of both directions, and went on twice.
    assert_eq!(recovery.flows_recovered, 2 * 2 * 12, "{recovery:?}");
    assert!(recovery.last_death_ms.is_some_and(|ms| ms < 60_000), "{recovery:?}");
    assert!(!recovery.is_ready && recovery.why_not.contains("number 3 within a minute"), "{recovery:?}");
    late.into_iter().for_each(Late::finish);
    idle.iter_mut().for_each(|connection| connection.exchange(b"survived"));
    // A new flow is taken over, and in the end nothing is left.
    opened(1).download(1_000_000);
    signal(last, SIGTERM);
    let (_, said) = program.wait();
    wait_until("all is undone", || topology.leftovers().is_empty());
    assert_eq!(said.matches("held; 0 are lost").count(), 2, "{said}");
    assert!(said.contains("warning: that was death 2 within a minute"), "{said}");
    assert!(!said.contains("flows reset") && !said.contains("resetting"), "{said}");
}

#[test]
fn h02_another_process_goes_on_where_programs_steer() {
    let topology = Topology::build("heir");
    no_flow_notices(&topology, &config(&topology), SERVER);
}

#[test]
fn h02_another_process_goes_on_where_rules_steer_and_addresses_are_translated() {
    let topology = Topology::build("heirnat");
    masquerade(&topology);
    let config = Config { steering: SteeringChoice::Rules, shards: 2, ..config(&topology) };
    no_flow_notices(&topology, &config, SERVER);
}

/// Whether the interface is of use is seen by who goes on, as by the one before.
#[test]
fn h02_another_process_goes_on_although_an_interface_is_down_or_has_no_address() {
    for (steering, is_down) in
        [SteeringChoice::Tcx, SteeringChoice::Rules].into_iter().flat_map(|way| [(way, true), (way, false)])
    {
        let topology = Topology::build("heirdown");
        // Or IPv6 addresses would go with it.
        topology.set("net/ipv6/conf/all/keep_addr_on_down", "1");
        let mut program = Program::start_ready(&topology, &Config { steering, ..config(&topology) });
        let mut idle = topology.connect(&topology.server, SERVER[1]);
        idle.exchange(b"opening.");
        let Connection { client, server, .. } = topology.connect(&topology.server, SERVER[0]);
        let late = Late::start(client, server, 5_000_000);
        wait_until("it owes more than it can deliver", || topology.status().processor.debt_bytes > 500_000);
        let own = ["10.1.0.1/24", "fd01::1/64"];
        if is_down {
            topology.exec("ip", &["link", "set", "m0", "down"]);
        } else {
            own.iter().for_each(|own| drop(topology.exec("ip", &["address", "del", own, "dev", "m0"])));
        }
        program.signal(SIGKILL);
        let last = successor(&mut program);
        if is_down {
            topology.exec("ip", &["link", "set", "m0", "up"]);
        } else {
            own.iter().for_each(|own| drop(topology.exec("ip", &["address", "add", own, "dev", "m0"])));
        }
        late.finish();
        idle.exchange(b"survived");
        signal(last, SIGTERM);
        let (_, said) = program.wait();
        assert!(!said.contains("flows reset") && !said.contains("resetting"), "{said}");
        wait_until("all is undone", || topology.leftovers().is_empty());
    }
}

/// Who told the one that died to end does not tell its successor.
#[test]
fn h02_who_goes_on_for_one_that_was_to_end_delivers_what_is_owed_and_ends() {
    let topology = Topology::build("heirends");
    let mut config = config(&topology);
    config.drain_ms_max = 60_000;
    let mut program = Program::start_ready(&topology, &config);
    let Connection { client, server, .. } = topology.connect(&topology.server, SERVER[0]);
    let late = Late::start(client, server, 5_000_000);
    // More than the kernel of a client that does not read takes.
    wait_until("it owes more than it can deliver", || topology.status().processor.debt_bytes > 500_000);
    program.signal(SIGTERM);
    wait_until("it ends", || topology.status().is_draining);
    program.signal(SIGKILL);
    let last = successor(&mut program);
    let status = topology.status();
    assert_eq!((status.process, status.is_draining), (last, true), "{status:?}");
    assert!(status.processor.debt_bytes > 0, "{status:?}");
    late.finish();
    wait_until("all is undone", || topology.leftovers().is_empty());
    let (_, said) = program.wait();
    assert!(!said.contains("flows reset") && !said.contains("resetting"), "{said}");
}

/// Kills a process in the middle of the handling of a packet of its only flow.
fn kill_in_hand(topology: &Topology, process: u32) {
    let journal = topology.state.join(format!("run-{process}/journal"));
    // Its second word says which flow that is.
    let is_in_hand = || std::fs::read(&journal).is_ok_and(|bytes| bytes[4..8] != [0; 4]);
    wait_until("a packet is being handled", || {
        signal(process, SIGSTOP);
        let is_stopped_there = is_in_hand();
        signal(process, if is_stopped_there { SIGKILL } else { SIGCONT });
        is_stopped_there
    });
}

/// Who is killed has died of no flow, whatever it was doing.
#[test]
fn h02_a_flow_that_was_in_hand_at_two_kills_goes_on() {
    let topology = Topology::build("heirhand");
    let mut program = Program::start_engine(&topology, &config(&topology));
    let mut connection = topology.connect(&topology.server, SERVER[0]);
    connection.exchange(b"opening.");
    let Connection { mut client, mut server, .. } = connection;
    let is_over = AtomicBool::new(false);
    thread::scope(|scope| {
        let sender = scope.spawn(|| {
            let (block, mut sent) = ([0x5a; 65_536], 0);
            while !is_over.load(Ordering::Relaxed) {
                server.write_all(&block).unwrap();
                sent += block.len();
            }
            server.shutdown(std::net::Shutdown::Write).unwrap();
            sent
        });
        let receiver = scope.spawn(|| {
            let (mut block, mut received) = (vec![0; 65_536], 0);
            loop {
                match client.read(&mut block).unwrap() {
                    0 => return received,
                    len => received += len,
                }
            }
        });
        kill_in_hand(&topology, program.pid());
        let first = successor(&mut program);
        kill_in_hand(&topology, first);
        let second = successor(&mut program);
        is_over.store(true, Ordering::Relaxed);
        assert_eq!(receiver.join().unwrap(), sender.join().unwrap());
        signal(second, SIGTERM);
    });
    let (_, said) = program.wait();
    assert_eq!(said.matches("held; 0 are lost").count(), 2, "{said}");
    assert!(!said.contains("flows reset"), "{said}");
    wait_until("all is undone", || topology.leftovers().is_empty());
}

#[test]
fn h08_another_process_goes_on_behind_a_firewall_by_state() {
    let topology = Topology::build("heirfw");
    by_state(&topology);
    no_flow_notices(&topology, &config(&topology), SERVER);
}

#[test]
fn h37_a_hang_with_debt_becomes_a_death_and_another_process_goes_on() {
    let topology = Topology::build("heirhang");
    let mut program = Program::start_engine(&topology, &config(&topology));
    let mut connection = topology.connect(&topology.server, SERVER[0]);
    connection.exchange(b"opening.");
    let late = Late::start(connection.client, connection.server, 5_000_000);
    wait_until("it is under way", || topology.steered_packets() > 20);
    program.signal(SIGSTOP);
    program.await_line("hangs and owes flows data: it is killed");
    let successor = successor(&mut program);
    late.finish();
    // Who listened to the one that died, and looks for who goes on, hears of it.
    let found = run::choose(run::find(&topology.state).unwrap(), None).unwrap();
    let wishes = Wishes { events: true, ..Wishes::default() };
    let mut line = String::new();
    found.listen(wishes, PATIENCE).unwrap().read_line(&mut line).unwrap();
    assert!(line.contains("flows-recovered") && line.contains("\"deaths\":1"), "{line}");
    signal(successor, SIGTERM);
    program.wait();
    wait_until("all is undone", || topology.leftovers().is_empty());
}

#[test]
fn h37_an_end_that_takes_its_time_is_no_hang() {
    let topology = Topology::build("slowend");
    let mut config = config(&topology);
    config.drain_ms_max = 300;
    // Twice as long as a packet loop may be silent.
    let mut program = Program::launch_with(&topology, &config, &["--slow-end", "2000", "--engine"]);
    program.await_line("steering TCP between");
    let mut idle = topology.connect(&topology.server, SERVER[0]);
    idle.exchange(b"opening.");
    let owed = with_debt(&topology, SERVER[0]);
    program.signal(SIGTERM);
    let (status, said) = program.wait();
    assert!(status.success() && !said.contains("hangs") && !said.contains("no sign of life"), "{said}");
    // It was not delivered in time, and both ends hear of that.
    assert!(said.contains("1 flows reset: 2 of 2 ends are gone"), "{said}");
    assert!(!said.contains("the accelerator died"), "once: {said}");
    assert_reset(owed);
    idle.exchange(b"survived");
    assert_eq!(topology.leftovers(), [""; 0]);
}

/// A process dies with its watchdog, the next one while it resets the flows of that one: another one has both to see to.
#[test]
fn h02_another_process_resets_what_the_one_that_died_was_resetting() {
    let topology = Topology::build("heirdebts");
    let program = Program::start_engine(&topology, &config(&topology));
    let owed = SERVER.map(|address| with_debt(&topology, address));
    let dead = kill_with_watchdog(&topology, program);
    // Until its clients are heard they cannot be reset.
    let client_nft = |words: &str| {
        let output = topology.client.output(&["nft", words]).unwrap();
        assert!(output.status.success(), "{words}: {output:?}");
    };
    client_nft("add table inet mute; add chain inet mute out { type filter hook output priority 0; }");
    for connection in &owed {
        let port = connection.client.local_addr().unwrap().port();
        client_nft(&format!("add rule inet mute out tcp sport {port} drop"));
    }
    let mut program = Program::start_engine(&topology, &config(&topology));
    let mut idle = topology.connect(&topology.server, SERVER[0]);
    idle.exchange(b"opening.");
    let late = Late::start(idle.client.try_clone().unwrap(), idle.server.try_clone().unwrap(), 3_000_000);
    wait_until("it is under way", || topology.steered_packets() > 20);
    program.signal(SIGKILL);
    let next = successor(&mut program);
    client_nft("delete table inet mute");
    late.finish();
    owed.into_iter().for_each(assert_reset);
    program.await_line("2 flows reset: 4 of 4 ends are gone");
    assert!(!dead.exists(), "the next start would reset them once more");
    signal(next, SIGTERM);
    program.wait();
    wait_until("all is undone", || topology.leftovers().is_empty());
}

#[test]
fn h02_without_a_successor_that_does_its_work_flows_with_debt_are_reset() {
    for (successor, deaths_max, said) in [
        (vec!["/bin/false"], 3, "its successor has ended"),
        (vec!["/bin/sh", "-c", "exec sleep 60"], 3, "its successor has taken longer than 300 ms"),
        (vec!["/nonexistent"], 3, "/nonexistent: No such file or directory"),
        (vec!["self"], 1, "that was death 1 within a minute"),
    ] {
        let topology = Topology::build("noheir");
        let mut config = config(&topology);
        config.watchdog.successor = successor.into_iter().map(str::to_owned).collect();
        (config.watchdog.deaths_max, config.watchdog.recover_within_ms) = (deaths_max, 300);
        let mut program = Program::start_engine(&topology, &config);
        let mut idle = topology.connect(&topology.server, SERVER[0]);
        idle.exchange(b"opening.");
        let owed = with_debt(&topology, SERVER[0]);
        program.signal(SIGKILL);
        program.await_line(said);
        assert_reset(owed);
        idle.exchange(b"survived");
        wait_until("all is undone", || topology.leftovers().is_empty());
    }
}
