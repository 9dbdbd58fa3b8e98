//! What a service manager hears of an instance, of its successor and of its replacement.

use std::os::unix::net::UnixDatagram;
use std::path::PathBuf;
use std::time::Duration;

use run::Config;
use tempfile::TempDir;

use crate::firewall::BETWEEN_BOTH;
use crate::successor::{Late, signal, successor};
use crate::topology::{
    Connection, Program, SERVER, SIGCONT, SIGKILL, SIGSTOP, SIGTERM, Topology, wait_until,
};

/// Where a service manager listens.
struct Manager {
    socket: UnixDatagram,
    path: PathBuf,
    _folder: TempDir,
}

impl Manager {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("notify");
        let socket = UnixDatagram::bind(&path).unwrap();
        socket.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
        Self { socket, path, _folder: folder }
    }

    fn hear(&self) -> String {
        let mut bytes = [0; 512];
        let len = self.socket.recv(&mut bytes).unwrap();
        String::from_utf8_lossy(&bytes[..len]).into_owned()
    }

    /// Listens until `wanted` is told as a line.
    fn await_line(&self, wanted: &str) {
        while !self.hear().lines().any(|line| line == wanted) {}
    }

    /// Listens until the main process is one for which `is_wanted`.
    fn await_main(&self, is_wanted: impl Fn(u32) -> bool) -> u32 {
        loop {
            if let Some(main) = main_in(&self.hear()).filter(|main| is_wanted(*main)) {
                return main;
            }
        }
    }

    /// Takes what has been told already.
    fn forget(&self) {
        self.socket.set_nonblocking(true).unwrap();
        while self.socket.recv(&mut [0; 512]).is_ok() {}
        self.socket.set_nonblocking(false).unwrap();
    }
}

fn main_in(told: &str) -> Option<u32> {
    told.lines().find_map(|line| line.strip_prefix("MAINPID="))?.parse().ok()
}

/// The process that has started `process`.
fn parent(process: u32) -> Option<u32> {
    let status = std::fs::read_to_string(format!("/proc/{process}/status")).ok()?;
    status.lines().find_map(|line| line.strip_prefix("PPid:"))?.trim().parse().ok()
}

#[test]
fn ready_is_told_once_packets_are_steered_and_life_as_long_as_the_loop_turns() {
    let topology = Topology::build("alive");
    let manager = Manager::new();
    let program = Program::launch_service(&topology, &topology.config(), &manager.path);
    let first = manager.hear();
    assert!(first.starts_with("READY=1\n"), "{first}");
    let before = topology.steered_packets();
    topology.connect(&topology.server, SERVER[0]).exchange(b"steered?");
    assert!(topology.steered_packets() > before, "packets were steered at that time");
    assert_eq!(main_in(&first), program.watchdog(), "the watchdog is the main process");
    manager.await_line("WATCHDOG=1");
    manager.await_line("WATCHDOG=1");
    program.signal(SIGSTOP);
    let state = || std::fs::read_to_string(format!("/proc/{}/stat", program.pid())).unwrap();
    wait_until("it stands still", || state().contains(") T "));
    manager.forget();
    manager.socket.set_read_timeout(Some(Duration::from_secs(1))).unwrap();
    assert!(manager.socket.recv(&mut [0; 512]).is_err(), "one that hangs shows no life");
    manager.socket.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    program.signal(SIGCONT);
    manager.await_line("WATCHDOG=1");
    program.stop(&topology);
}

#[test]
fn after_a_death_the_successor_s_watchdog_is_the_main_process() {
    let topology = Topology::build("heir");
    let manager = Manager::new();
    let mut config = topology.config();
    config.watchdog.successor = vec!["self".to_owned()];
    config.watchdog.recover_within_ms = 10_000;
    let mut program = Program::launch_service(&topology, &config, &manager.path);
    // What the service keeps for the next start may be told before.
    let main = manager.await_main(|_| true);
    let before = topology.received_packets();
    let Connection { client, server, .. } = topology.connect(&topology.server, SERVER[0]);
    let late = Late::start(client, server, 5_000_000);
    wait_until("the transfer is under way", || topology.received_packets() > before + 20);
    program.signal(SIGKILL);
    let successor = successor(&mut program);
    let next = manager.await_main(|next| next != main);
    assert_eq!(parent(next), Some(successor), "told by the successor, of its own watchdog");
    manager.await_line("READY=1");
    manager.await_line("WATCHDOG=1");
    late.finish();
    signal(successor, SIGTERM);
    wait_until("nothing is left", || topology.leftovers().is_empty());
}

#[test]
fn who_is_replaced_names_the_other_one_before_it_ends() {
    let topology = Topology::build("replaced");
    let manager = Manager::new();
    let config = Config { name: "old".to_owned(), ..topology.config() };
    let old = Program::launch_service(&topology, &config, &manager.path);
    let main = main_in(&manager.hear()).unwrap();
    let mut connection = topology.connect(&topology.server, SERVER[0]);
    connection.exchange(b"before..");
    let config = Config { name: "new".to_owned(), replace: Some("old".to_owned()), ..config };
    let new = Program::launch_service(&topology, &config, &manager.path);
    // The old one names the new one, and that its watchdog, in this order: the last word counts.
    assert_eq!(manager.await_main(|named| named != main), new.pid());
    let watchdog = manager.await_main(|named| named != main && named != new.pid());
    assert_eq!(Some(watchdog), new.watchdog());
    let (status, said) = old.wait();
    assert!(status.success(), "{said}");
    manager.await_line("WATCHDOG=1");
    assert_eq!(main_in(&manager.hear()), new.watchdog());
    connection.exchange(b"after...");
    new.stop(&topology);
}

#[test]
fn who_stands_by_is_the_main_process_meanwhile_and_shows_life() {
    let topology = Topology::build("stands");
    let manager = Manager::new();
    let mut program = Program::launch_service(&topology, &topology.config(), &manager.path);
    let main = main_in(&manager.hear()).unwrap();
    topology.exec("nft", &[BETWEEN_BOTH]);
    program.await_line("a filter has come up");
    assert_eq!(manager.await_main(|next| next != main), program.pid(), "before its watchdog ends");
    program.await_line("stands by");
    manager.forget();
    manager.await_line("WATCHDOG=1");
    manager.await_line("WATCHDOG=1");
    topology.exec("nft", &["delete table inet fw"]);
    program.await_line("steering TCP between");
    assert_eq!(Some(manager.await_main(|next| next != program.pid())), program.watchdog());
    program.stop(&topology);
}
