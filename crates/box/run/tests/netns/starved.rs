//! A process without a processor is not one that hangs, and one that cannot die at once is followed all the same.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use io::{Clock, Waiter};
use run::Config;
use units::Duration;

use crate::crash::{assert_reset, with_debt};
use crate::successor::{Late, signal, successor};
use crate::topology::{Program, SERVER, SIGKILL, SIGTERM, Topology, wait_until};

fn config(topology: &Topology) -> Config {
    let mut config = topology.config();
    config.watchdog.successor = vec!["self".to_owned()];
    config.watchdog.recover_within_ms = 10_000;
    config
}

/// Others that keep a processor busy.
struct Busy(Vec<Child>);

impl Busy {
    fn start() -> Self {
        let words = ["-c", "0", "sh", "-c", "while :; do :; done"];
        Self((0..2).map(|_| Command::new("taskset").args(words).spawn().unwrap()).collect())
    }
}

impl Drop for Busy {
    fn drop(&mut self) {
        self.0.iter_mut().for_each(|child| drop((child.kill(), child.wait())));
    }
}

/// Has all threads of a process run on one processor as `policy` says.
fn schedule(process: u32, policy: &str) {
    let process = process.to_string();
    for (program, arguments) in
        [("taskset", ["-a", "-c", "-p", "0"]), ("chrt", ["--all-tasks", policy, "--pid", "0"])]
    {
        let mut command = Command::new(program);
        let status = command.args(arguments).arg(&process).stdout(Stdio::null()).status().unwrap();
        assert!(status.success(), "{program} {arguments:?} {process}");
    }
}

#[test]
fn h37_a_process_without_a_processor_is_waited_for() {
    let topology = Topology::build("starved");
    let mut program = Program::start_engine(&topology, &config(&topology));
    let late = SERVER.map(|address| {
        let mut connection = topology.connect(&topology.server, address);
        connection.exchange(b"opening.");
        Late::start(connection.client, connection.server, 5_000_000)
    });
    wait_until("they are under way", || topology.steered_packets() > 20);
    // It comes after all others at its only processor.
    let busy = Busy::start();
    schedule(program.pid(), "--idle");
    program.await_line("waits for a processor: it is no hang");
    // Three times as long as one that runs may be silent.
    Waiter::new(Duration::ZERO).unwrap().wait(Some(Clock::now() + Duration::from_secs(3))).unwrap();
    schedule(program.pid(), "--other");
    drop(busy);
    late.into_iter().for_each(Late::finish);
    let said = program.stop(&topology);
    assert!(!said.contains("hangs") && !said.contains("no sign of life") && !said.contains("hung"), "{said}");
}

/// A control group whose processes can be frozen; none where the kernel has no such groups of the first version. In one
/// of the second version a frozen process dies at once.
struct Freezer(PathBuf);

impl Freezer {
    fn find(what: &str) -> Option<Self> {
        let path = Path::new("/sys/fs/cgroup/freezer").join(format!("{what}-{}", std::process::id()));
        std::fs::create_dir(&path).ok().map(|()| Self(path))
    }

    fn write(&self, file: &str, text: &str) {
        std::fs::write(self.0.join(file), text).unwrap();
    }
}

impl Drop for Freezer {
    fn drop(&mut self) {
        self.write("freezer.state", "THAWED");
        wait_until("all of it have ended", || std::fs::remove_dir(&self.0).is_ok());
    }
}

#[test]
fn h37_a_frozen_process_is_followed_before_it_can_die() {
    let Some(freezer) = Freezer::find("ct-run-freezer") else {
        eprintln!("no control groups of the first version here: not tested");
        return;
    };
    let topology = Topology::build("frozen");
    let mut program = Program::start_engine(&topology, &config(&topology));
    let mut connection = topology.connect(&topology.server, SERVER[0]);
    connection.exchange(b"opening.");
    let late = Late::start(connection.client, connection.server, 5_000_000);
    wait_until("it is under way", || topology.steered_packets() > 20);
    freezer.write("cgroup.procs", &program.pid().to_string());
    freezer.write("freezer.state", "FROZEN");
    program.await_line("hangs and owes flows data: it is killed");
    let next = successor(&mut program);
    late.finish();
    assert_eq!(topology.status().recovery.flows_lost, 0);
    // What it would do is not done.
    drop(freezer);
    topology.connect(&topology.server, SERVER[1]).download(300_000);
    signal(next, SIGTERM);
    program.wait();
    wait_until("all is undone", || topology.leftovers().is_empty());
}

#[test]
fn h02_whose_successor_fails_starts_anew_as_from_nothing() {
    let topology = Topology::build("anew");
    let alone = serde_json::to_string(&topology.config()).unwrap();
    let script = "case \"$*\" in *--recover*) exit 1;; esac; exec \"$0\" --engine \"$1\"";
    let mut config = config(&topology);
    config.watchdog.successor =
        ["/bin/sh", "-c", script, env!("CARGO_BIN_EXE_tun-echo"), &alone].map(str::to_owned).to_vec();
    let mut program = Program::start_engine(&topology, &config);
    let mut idle = topology.connect(&topology.server, SERVER[0]);
    idle.exchange(b"opening.");
    let owed = with_debt(&topology, SERVER[0]);
    program.signal(SIGKILL);
    program.await_line("nobody goes on with the flows of the process that died: its successor has ended");
    assert_reset(owed);
    program.await_line("has started anew in its place");
    idle.exchange(b"survived");
    let status = topology.status();
    assert!(status.process != program.pid() && status.recovery.deaths == 0, "{status:?}");
    let before = topology.steered_packets();
    topology.connect(&topology.server, SERVER[1]).download(300_000);
    assert!(topology.steered_packets() > before, "it accelerates");
    signal(status.process, SIGTERM);
    program.wait();
    wait_until("all is undone", || topology.leftovers().is_empty());
}
