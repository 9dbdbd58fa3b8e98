//! H2: killed while flows are under way.

use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use io::{Clock, NamespaceId, SpawnOptions, Tethered};
use units::Duration;

use crate::nat::masquerade;
use crate::topology::{
    Connection, PATIENCE, Program, SERVER, SIGKILL, SIGSTOP, SIGTERM, Topology, wait_until,
};

/// How soon both ends of a flow with debt must know, when nobody is far away.
const PROMPTLY: Duration = Duration::from_secs(5);

/// A connection whose client reads nothing: the server has written all that fits anywhere.
pub fn with_debt(topology: &Topology, address: &str) -> Connection {
    let mut connection = topology.connect(&topology.server, address);
    connection.exchange(b"opening.");
    fill(&mut connection.server);
    connection
}

pub fn fill(server: &mut TcpStream) {
    server.set_nonblocking(true).unwrap();
    let block = [0x5a; 65_536];
    let mut full_for = 0;
    wait_until("no more fits", || {
        full_for += 1;
        loop {
            match server.write(&block) {
                Ok(_) => full_for = 0,
                Err(e) if e.kind() == ErrorKind::WouldBlock => break,
                Err(e) => panic!("{e}"),
            }
        }
        // Nothing has moved for a tenth of a second.
        full_for > 10
    });
    server.set_nonblocking(false).unwrap();
}

/// How the stream ended: with everything before it read.
fn end_of(stream: &mut TcpStream) -> std::io::Result<()> {
    let mut block = vec![0; 65_536];
    loop {
        if stream.read(&mut block)? == 0 {
            return Ok(());
        }
    }
}

/// Both ends must hear of it, and neither may take it for a clean end.
pub fn assert_reset(connection: Connection) {
    let Connection { mut client, mut server, .. } = connection;
    for (end, name) in [(&mut client, "client"), (&mut server, "server")] {
        let error = end_of(end).expect_err("a clean end of what is not whole");
        assert_eq!(error.kind(), ErrorKind::ConnectionReset, "{name}: {error}");
    }
}

/// This process has the other end of the line in place of an accelerator, closes it, and lives.
#[test]
fn h02_a_watchdog_undoes_nothing_of_a_process_that_lives() {
    const FORWARDING: &str = "net/ipv4/ip_forward";
    let topology = Topology::build("lives");
    let directory = topology.state.join(format!("run-{}", std::process::id()));
    std::fs::create_dir_all(&directory).unwrap();
    let namespace = topology.middle.run(NamespaceId::here).unwrap().unwrap();
    let mut record = serde_json::to_value(namespace).unwrap();
    record["rules"] = serde_json::json!([]);
    record["sysctls"] = serde_json::json!([{"path": FORWARDING, "before": "0", "during": "1"}]);
    let path = directory.join("record");
    std::fs::write(&path, record.to_string()).unwrap();
    let (own, theirs) = UnixStream::pair().unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_tun-echo"));
    command.arg("--watchdog").arg(&path).arg("60000");
    command.stdin(OwnedFd::from(theirs)).stderr(Stdio::piped());
    let mut watchdog = Tethered::spawn(&topology.middle, command, SpawnOptions::default()).unwrap();
    drop(own);
    let mut said = String::new();
    watchdog.stderr.take().unwrap().read_to_string(&mut said).unwrap();
    let what = "is not watched any more, and runs: nothing is undone";
    assert!(watchdog.wait().unwrap().success() && said.contains(what), "{said}");
    assert_eq!(io::sysctl::read(&topology.middle, FORWARDING).unwrap(), "1");
    assert!(path.exists());
}

#[test]
fn h02_after_a_crash_flows_without_debt_go_on_and_those_with_debt_are_reset() {
    let topology = Topology::build("crash");
    let program = Program::start_engine(&topology, &topology.config());
    let idle: Vec<Connection> = (0..20)
        .map(|n| {
            let mut connection = topology.connect(&topology.server, SERVER[n % 2]);
            connection.exchange(b"opening.");
            connection
        })
        .collect();
    let owed: Vec<Connection> = (0..10).map(|n| with_debt(&topology, SERVER[n % 2])).collect();
    program.signal(SIGKILL);
    let killed_at = Clock::now();
    let (_, said) = program.wait();
    owed.into_iter().for_each(assert_reset);
    let took = Clock::now().saturating_since(killed_at);
    assert!(took < PROMPTLY, "{took}");
    assert!(said.contains("owed 10 flows"), "{said}");
    wait_until("the watchdog has undone everything", || topology.leftovers().is_empty());
    // A new one takes none of them over, and does them no harm.
    let program = Program::start_engine(&topology, &topology.config());
    for mut connection in idle {
        connection.exchange(b"survived");
        connection.download(1_000_000);
    }
    program.stop(&topology);
}

#[test]
fn h02_after_a_crash_uploads_with_debt_are_reset_too() {
    let topology = Topology::build("crashup");
    let program = Program::start_both_ways(&topology);
    let owed: Vec<Connection> = SERVER
        .iter()
        .map(|address| {
            let mut connection = topology.connect(&topology.server, address);
            connection.exchange(b"opening.");
            // The server reads nothing: it is owed what the client was told is delivered.
            fill(&mut connection.client);
            connection
        })
        .collect();
    program.signal(SIGKILL);
    let (_, said) = program.wait();
    owed.into_iter().for_each(assert_reset);
    assert!(said.contains("owed 2 flows"), "{said}");
    wait_until("the watchdog has undone everything", || topology.leftovers().is_empty());
}

/// The box's early acknowledgements still wait in the mobile interface's queue when it dies, and leave under the
/// server's name while the ends are asked what they have.
fn early_acknowledgements_in_a_queue_are_not_the_servers(topology: &Topology, address: &str) {
    let shape = |what: &str, device: &str, rate: &str| {
        let bucket = ["root", "tbf", "rate", rate, "burst", "3000", "limit", "200000"];
        topology.exec("tc", &[&["qdisc", what, "dev", device][..], &bucket].concat());
    };
    // Of what is uploaded next to nothing gets through to the server, and what the client is told waits.
    shape("add", "w0", "20kbit");
    shape("add", "m0", "8kbit");
    let mut program = Program::start_both_ways(topology);
    let mut owed = topology.connect(&topology.server, address);
    owed.exchange(b"opening.");
    // Half a minute of others' packets.
    let others = topology.middle.run(|| std::net::UdpSocket::bind("0.0.0.0:0")).unwrap().unwrap();
    for _ in 0..20 {
        others.send_to(&[0; 1_400], "10.1.0.2:9").unwrap();
    }
    fill(&mut owed.client);
    program.signal(SIGKILL);
    // They leave while the ends are asked. What was on its way to the server is lost, and the way is free for questions.
    shape("change", "m0", "100mbit");
    topology.exec("tc", &["qdisc", "del", "dev", "w0", "root"]);
    assert_reset(owed);
    program.await_line("1 flows reset: ");
    program.wait();
    wait_until("the watchdog has undone everything", || topology.leftovers().is_empty());
}

#[test]
fn h02_early_acknowledgements_in_a_queue_are_not_the_servers() {
    for address in SERVER {
        early_acknowledgements_in_a_queue_are_not_the_servers(&Topology::build("crashqueue"), address);
    }
}

#[test]
fn h02_early_acknowledgements_in_a_queue_are_not_the_servers_behind_masquerade() {
    let topology = Topology::build("crashqnat");
    masquerade(&topology);
    early_acknowledgements_in_a_queue_are_not_the_servers(&topology, SERVER[0]);
}

#[test]
fn h02_after_a_crash_behind_masquerade_flows_with_debt_are_reset() {
    let topology = Topology::build("crashnat");
    masquerade(&topology);
    let program = Program::start_engine(&topology, &topology.config());
    let mut idle = topology.connect(&topology.server, SERVER[0]);
    idle.exchange(b"opening.");
    let owed = SERVER.map(|address| with_debt(&topology, address));
    program.signal(SIGKILL);
    program.wait();
    owed.into_iter().for_each(assert_reset);
    idle.exchange(b"survived");
    wait_until("the watchdog has undone everything", || topology.leftovers().is_empty());
}

/// What it owed was on its way when it died, and the hosts went on without it: their timestamps are newer than what it
/// has written down. A question with an old one is answered by nobody (Linux since 6.14, `PAWSOldAck`).
#[test]
fn h02_who_had_everything_and_more_goes_on() {
    let topology = Topology::build("crashmore");
    topology.exec(
        "tc",
        &["qdisc", "add", "dev", "m0", "root", "tbf", "rate", "30kbit", "burst", "3000", "limit", "200000"],
    );
    let program = Program::start_engine(&topology, &topology.config());
    let mut both = SERVER.map(|address| topology.connect(&topology.server, address));
    for connection in &mut both {
        connection.exchange(b"opening.");
    }
    // A second and a half in that queue.
    both.iter_mut().for_each(|connection| connection.server.write_all(&[0x5a; 3_000]).unwrap());
    wait_until("both are owed data", || topology.status().processor.debt_bytes > 3_000);
    let dead = kill_with_watchdog(&topology, program);
    for Connection { client, server, .. } in &mut both {
        client.read_exact(&mut [0; 3_000]).unwrap();
        server.write_all(b"more").unwrap();
        client.read_exact(&mut [0; 4]).unwrap();
    }
    let program = Program::start_engine(&topology, &topology.config());
    wait_until("both are seen to", || !dead.exists());
    both.iter_mut().for_each(|connection| connection.exchange(b"survived"));
    let (_, said) = {
        program.signal(SIGTERM);
        program.wait()
    };
    assert!(!said.contains("of 4 ends are gone"), "{said}");
    assert_eq!(topology.leftovers(), [""; 0]);
}

/// Kills it so that nobody is left to clean up; gives the directory with its record.
pub fn kill_with_watchdog(topology: &Topology, program: Program) -> PathBuf {
    let directory = topology.state.join(format!("run-{}", program.pid()));
    let dog = program.watchdog().unwrap();
    // Else it might start another one in between.
    program.signal(SIGSTOP);
    io::PidFd::open(dog).unwrap().send_signal(SIGKILL).unwrap();
    program.signal(SIGKILL);
    program.wait();
    assert!(directory.exists() && !topology.leftovers().is_empty(), "nobody was left to clean up");
    directory
}

/// Changes what a process that has died has written down.
fn edit_record(directory: &Path, edit: impl Fn(&mut serde_json::Value)) {
    let path = directory.join(io::RECORD);
    let mut record = serde_json::from_slice(&std::fs::read(&path).unwrap()).unwrap();
    edit(&mut record);
    std::fs::write(&path, record.to_string()).unwrap();
}

#[test]
fn h02_a_stop_does_not_wait_for_an_interface_that_is_away() {
    let topology = Topology::build("crashaway");
    let program = Program::start_engine(&topology, &topology.config());
    let owed = with_debt(&topology, SERVER[0]);
    let directory = kill_with_watchdog(&topology, program);
    edit_record(&directory, |record| record["mobile"] = "away0".into());
    let program = Program::start_engine(&topology, &topology.config());
    // That interface is waited for over a minute, which is longer than the patience of a test.
    program.signal(SIGTERM);
    let (status, said) = program.wait();
    assert!(status.success() && said.contains("the next start tries again"), "{said}");
    // The next start finds it again.
    edit_record(&directory, |record| record["mobile"] = topology.config().mobile.into());
    let mut program = Program::start_engine(&topology, &topology.config());
    assert_reset(owed);
    program.await_line("1 flows reset: 2 of 2 ends are gone");
    program.stop(&topology);
}

#[test]
fn h02_what_is_left_of_a_namespace_that_had_the_same_number_is_left_alone() {
    let topology = Topology::build("crashnumber");
    let program = Program::start_engine(&topology, &topology.config());
    let _owed = with_debt(&topology, SERVER[0]);
    let directory = kill_with_watchdog(&topology, program);
    edit_record(&directory, |record| {
        let cookie = record["namespace_cookie"].as_u64().expect("Linux 5.14 has cookies");
        record["namespace_cookie"] = (cookie + 1_000_000).into();
    });
    let program = Program::start_engine(&topology, &topology.config());
    program.signal(SIGTERM);
    let (status, said) = program.wait();
    assert!(status.success() && !said.contains("reset"), "{said}");
    assert!(directory.exists(), "{said}");
}

#[test]
fn h02_when_the_watchdog_died_too_the_next_start_resets() {
    let topology = Topology::build("crashdog");
    let program = Program::start_engine(&topology, &topology.config());
    let mut idle = topology.connect(&topology.server, SERVER[0]);
    idle.exchange(b"opening.");
    let owed = SERVER.map(|address| with_debt(&topology, address));
    kill_with_watchdog(&topology, program);
    let mut program = Program::start_engine(&topology, &topology.config());
    let started_at = Clock::now();
    owed.into_iter().for_each(assert_reset);
    let took = Clock::now().saturating_since(started_at);
    assert!(took < PROMPTLY, "{took}");
    program.await_line("2 flows reset: 4 of 4 ends are gone");
    idle.exchange(b"survived");
    program.stop(&topology);
    idle.download(1_000_000);
}

#[test]
fn h02_a_crash_in_the_middle_of_downloads_never_shortens_one() {
    let topology = Topology::build("crashmid");
    let program = Program::start_engine(&topology, &topology.config());
    let connections: Vec<Connection> =
        (0..8).map(|n| topology.connect(&topology.server, SERVER[n % 2])).collect();
    let process = io::PidFd::open(program.pid()).unwrap();
    const LEN: usize = 100_000_000;
    let results: Vec<(std::io::Result<usize>, std::io::Result<()>)> = std::thread::scope(|scope| {
        let threads: Vec<_> = connections
            .into_iter()
            .map(|connection| {
                let Connection { mut client, mut server, .. } = connection;
                let sender = scope.spawn(move || server.write_all(&vec![7; LEN]));
                let receiver = scope.spawn(move || {
                    let mut got = Vec::new();
                    client.read_to_end(&mut got)
                });
                (receiver, sender)
            })
            .collect();
        wait_until("the downloads are under way", || topology.steered_packets() > 300);
        process.send_signal(SIGKILL).unwrap();
        threads.into_iter().map(|(r, s)| (r.join().unwrap(), s.join().unwrap())).collect()
    });
    program.wait();
    let mut ended_by_reset = 0;
    for (received, _) in results {
        match received {
            Ok(len) => assert_eq!(len, LEN, "a short clean end"),
            Err(error) => {
                assert_eq!(error.kind(), ErrorKind::ConnectionReset, "{error} within {PATIENCE:?}");
                ended_by_reset += 1;
            }
        }
    }
    println!("{ended_by_reset} of 8 had debt and were reset");
    wait_until("the watchdog has undone everything", || topology.leftovers().is_empty());
}
