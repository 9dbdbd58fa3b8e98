//! Machines that translate addresses or filter by state (H36).

use std::io::{Read, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use run::{Config, Notrack};

use crate::topology::{BOX_WIRED, Connection, Program, SERVER, SIGKILL, Topology, pattern, wait_until};

/// The box masquerades towards the servers and drops what its connection tracking finds invalid.
pub fn masquerade(topology: &Topology) {
    for command in [
        "add table inet fw",
        "add chain inet fw post { type nat hook postrouting priority srcnat; }",
        "add rule inet fw post oifname w0 masquerade",
        "add chain inet fw forward { type filter hook forward priority filter; }",
        "add rule inet fw forward ct state invalid drop",
    ] {
        topology.exec("nft", &[command]);
    }
}

#[test]
fn downloads_work_behind_masquerade() {
    let topology = Topology::build("nat");
    masquerade(&topology);
    let before = topology.snapshot();
    let program = Program::start(&topology, &topology.config());
    assert!(program.said.iter().any(|line| line.contains("notrack")), "{:?}", program.said);
    for (address, own) in SERVER.into_iter().zip(BOX_WIRED) {
        let mut connection = topology.connect(&topology.server, address);
        assert_eq!(connection.peer.ip().to_string(), own, "the server sees the box");
        connection.exchange(b"nat-word");
        connection.download(10_000_000);
    }
    assert!(topology.steered_packets() > 200);
    program.stop(&topology);
    assert_eq!(topology.snapshot(), before);
}

#[test]
fn h36_translated_connections_survive_start_kill_and_stop() {
    let topology = Topology::build("natlive");
    masquerade(&topology);
    let mut connections = SERVER.map(|address| topology.connect(&topology.server, address));
    let mut exchange = |word| connections.iter_mut().for_each(|connection| connection.exchange(word));
    exchange(b"plain--1");
    let program = Program::start(&topology, &topology.config());
    exchange(b"steered2");
    program.stop(&topology);
    exchange(b"plain--3");
    let program = Program::start(&topology, &topology.config());
    exchange(b"steered4");
    program.signal(SIGKILL);
    program.wait();
    exchange(b"killed-5");
    wait_until("the watchdog has undone everything", || topology.leftovers().is_empty());
    exchange(b"killed-6");
}

/// Downloads that run, from when they begin to their ends.
pub struct Downloads {
    ends: Vec<std::thread::JoinHandle<()>>,
    is_over: Arc<AtomicBool>,
}

impl Downloads {
    /// Data goes on all of them until they are told to end.
    pub fn start(topology: &Topology, count: usize) -> Self {
        let is_over = Arc::new(AtomicBool::new(false));
        let mut ends = Vec::new();
        for _ in 0..count {
            let Connection { mut client, mut server, .. } = topology.connect(&topology.server, SERVER[0]);
            let over = Arc::clone(&is_over);
            ends.push(std::thread::spawn(move || {
                let piece = pattern(20_000);
                while !over.load(Ordering::Relaxed) {
                    server.write_all(&piece).expect("the server's end was reset");
                    // Not so fast that the machine has time for nothing else.
                    std::thread::park_timeout(std::time::Duration::from_millis(1));
                }
                server.write_all(b"the end.").expect("the server's end was reset");
            }));
            ends.push(std::thread::spawn(move || {
                let mut got = vec![0; 65_536];
                let mut last = Vec::new();
                loop {
                    let len = client.read(&mut got).expect("the client's end was reset");
                    if len == 0 {
                        break;
                    }
                    last.extend_from_slice(&got[..len]);
                    last.drain(..last.len().saturating_sub(8));
                }
                assert_eq!(last, b"the end.");
            }));
        }
        Self { ends, is_over }
    }

    /// Every one of them has gone on to its end.
    pub fn end(self) {
        self.is_over.store(true, Ordering::Relaxed);
        for end in self.ends {
            end.join().unwrap();
        }
    }
}

/// Has the server's packet filter do something.
fn nft_at_server(topology: &Topology, command: &str) -> String {
    let mut nft = std::process::Command::new("nft");
    nft.arg(command).stdout(std::process::Stdio::piped());
    let child = topology.server.spawn(nft, io::SpawnOptions::default()).unwrap();
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success(), "{command}");
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn h36_translated_downloads_go_on_while_it_starts_drains_stops_and_dies() {
    let topology = Topology::build("natunder");
    masquerade(&topology);
    // What goes out untranslated has the server reset the connection: so it is counted.
    nft_at_server(
        &topology,
        "add table ip seen; add chain ip seen input { type filter hook prerouting priority raw; }; \
         add rule ip seen input ip saddr 10.1.0.2 counter",
    );
    for round in 0..9 {
        // They are passed, so nothing is owed to them.
        let passed = Downloads::start(&topology, 4);
        let mut config = topology.config();
        config.watchdog.successor = vec!["self".to_owned()];
        let program = if round % 2 == 0 {
            Program::start_engine(&topology, &config)
        } else {
            Program::start(&topology, &config)
        };
        if round % 3 == 2 {
            program.signal(SIGKILL);
            program.wait();
            wait_until("all is undone", || topology.leftovers().is_empty());
        } else {
            let begun = Downloads::start(&topology, 4);
            program.stop(&topology);
            begun.end();
        }
        passed.end();
        let seen = nft_at_server(&topology, "list table ip seen");
        assert!(
            seen.contains("counter packets 0 "),
            "round {round}: the server saw the client's own address: {seen}"
        );
    }
}

/// The processes called `nft` in the box.
fn nft_processes(topology: &Topology) -> Vec<u32> {
    let here = |path: &str| {
        topology
            .middle
            .run(|| std::fs::read_link("/proc/thread-self/ns/net"))
            .unwrap()
            .is_ok_and(|own| std::fs::read_link(path).is_ok_and(|theirs| theirs == own))
    };
    let all = std::fs::read_dir("/proc").unwrap().flatten();
    let numbers = all.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    let is_nft =
        |pid: &u32| std::fs::read_to_string(format!("/proc/{pid}/comm")).is_ok_and(|name| name == "nft\n");
    numbers.filter(is_nft).filter(|pid| here(&format!("/proc/{pid}/ns/net"))).collect()
}

#[test]
fn h36_no_process_that_may_be_killed_holds_the_table() {
    let topology = Topology::build("natholder");
    masquerade(&topology);
    let program = Program::start_engine(&topology, &topology.config());
    let mut connections = SERVER.map(|address| topology.connect(&topology.server, address));
    let mut exchange = |word| connections.iter_mut().for_each(|connection| connection.exchange(word));
    exchange(b"tracked1");
    for process in nft_processes(&topology) {
        io::PidFd::open(process).unwrap().send_signal(SIGKILL).unwrap();
    }
    exchange(b"tracked2");
    let has_table = || topology.leftovers().iter().any(|line| line.contains("table inet cellerator"));
    assert!(has_table() && nft_processes(&topology).is_empty());
    exchange(b"tracked3");
    let said = program.stop(&topology);
    assert!(!said.contains("vanished"), "{said}");
    exchange(b"plain--4");
}

#[test]
fn a_machine_without_tracking_gets_no_table() {
    let topology = Topology::build("notrack");
    let program = Program::start(&topology, &topology.config());
    assert!(!topology.exec("nft", &["list", "tables"]).contains("cellerator"));
    program.stop(&topology);
    masquerade(&topology);
    let program = Program::start(&topology, &Config { notrack: Notrack::Never, ..topology.config() });
    assert!(!topology.exec("nft", &["list", "tables"]).contains("cellerator"));
    program.stop(&topology);
}
