//! The state directory is deleted, or full: flows, and whoever goes on with them, do not depend on it.

use std::path::{Path, PathBuf};
use std::process::Command;

use io::PidFd;
use run::{Config, InlineFallback, SteeringChoice};

use crate::crash::{assert_reset, with_debt};
use crate::successor::{Late, signal, successor};
use crate::topology::{Program, SERVER, SIGKILL, SIGSTOP, SIGTERM, Topology, wait_until};

/// One that is followed by another process, however long that takes on a loaded machine.
fn config(topology: &Topology, steering: SteeringChoice) -> Config {
    let mut config = Config { steering, ..topology.config() };
    config.watchdog.successor = vec!["self".to_owned()];
    config.watchdog.recover_within_ms = 10_000;
    config
}

fn directory(topology: &Topology, process: u32) -> PathBuf {
    topology.state.join(format!("run-{process}"))
}

/// Deletes what an instance has written down, and stops it before it can see that: all at once, as it were.
fn delete_and_kill(program: &Program, deleted: &Path) {
    program.signal(SIGSTOP);
    std::fs::remove_dir_all(deleted).unwrap();
    program.signal(SIGKILL);
}

#[test]
fn h02_another_process_goes_on_although_the_directory_was_deleted() {
    for (what, steering) in [("gonetcx", SteeringChoice::Tcx), ("gonerules", SteeringChoice::Rules)] {
        let topology = Topology::build(what);
        let mut program = Program::start_engine(&topology, &config(&topology, steering));
        let late = SERVER.map(|address| {
            let mut connection = topology.connect(&topology.server, address);
            connection.exchange(b"opening.");
            Late::start(connection.client, connection.server, 3_000_000)
        });
        wait_until("they are under way", || topology.steered_packets() > 20);
        delete_and_kill(&program, &topology.state);
        let next = successor(&mut program);
        late.into_iter().for_each(Late::finish);
        wait_until("it can be asked", || !run::find(&topology.state).unwrap().is_empty());
        assert_eq!(topology.status().recovery.flows_lost, 0);
        signal(next, SIGTERM);
        program.wait();
        wait_until("all is undone", || topology.leftovers().is_empty());
    }
}

/// What a process has left that died before, since its flows were being reset when the next one died, too.
#[test]
fn h02_another_process_goes_on_although_a_dead_one_had_the_same_interfaces() {
    let topology = Topology::build("goneboth");
    let mut program = Program::start_engine(&topology, &config(&topology, SteeringChoice::Tcx));
    let mut connection = topology.connect(&topology.server, SERVER[0]);
    connection.exchange(b"opening.");
    let late = Late::start(connection.client, connection.server, 3_000_000);
    wait_until("it is under way", || topology.steered_packets() > 20);
    let (own, dead) = (directory(&topology, program.pid()), directory(&topology, u32::MAX >> 1));
    std::fs::create_dir(&dead).unwrap();
    std::fs::copy(own.join(io::RECORD), dead.join(io::RECORD)).unwrap();
    delete_and_kill(&program, &own);
    let next = successor(&mut program);
    late.finish();
    std::fs::remove_dir_all(&dead).unwrap();
    signal(next, SIGTERM);
    program.wait();
    wait_until("all is undone", || topology.leftovers().is_empty());
}

#[test]
fn h02_without_a_successor_flows_with_debt_are_reset_although_the_directory_was_deleted() {
    for (what, inline) in [("gonereset", None), ("gonebridge", Some(InlineFallback::Bridge))] {
        let topology = Topology::build(what);
        let (config, address) = match inline {
            None => (Config { steering: SteeringChoice::Rules, ..topology.config() }, SERVER[0]),
            Some(_) => {
                crate::inline::settle_in(&topology);
                (Config { inline, ..topology.config() }, crate::inline::HERE[0])
            }
        };
        let program = Program::start_ready(&topology, &config);
        let mut idle = topology.connect(&topology.server, address);
        idle.exchange(b"opening.");
        let owed = with_debt(&topology, address);
        delete_and_kill(&program, &directory(&topology, program.pid()));
        assert_reset(owed);
        program.wait();
        idle.exchange(b"survived");
        // A bridge of the kernel's stands until the next start, which finds it.
        Program::start_ready(&topology, &config).stop(&topology);
    }
}

#[test]
fn h02_a_deleted_directory_is_made_anew_with_all_that_the_next_start_needs() {
    let topology = Topology::build("goneanew");
    let mut program = Program::start_engine(&topology, &topology.config());
    let mut idle = topology.connect(&topology.server, SERVER[0]);
    idle.exchange(b"opening.");
    let owed = with_debt(&topology, SERVER[1]);
    for deleted in [topology.state.clone(), directory(&topology, program.pid())] {
        let before = program.watchdog();
        std::fs::remove_dir_all(deleted).unwrap();
        program.await_line("was made anew");
        assert_eq!(topology.status().process, program.pid());
        wait_until("it has a watchdog with the new lock", || {
            program.watchdog().is_some_and(|dog| Some(dog) != before)
        });
    }
    // Nobody is left to clean up.
    program.signal(SIGSTOP);
    PidFd::open(program.watchdog().unwrap()).unwrap().send_signal(SIGKILL).unwrap();
    program.signal(SIGKILL);
    program.wait();
    let mut program = Program::start_engine(&topology, &topology.config());
    assert_reset(owed);
    program.await_line("1 flows reset: 2 of 2 ends are gone");
    idle.exchange(b"survived");
    program.stop(&topology);
}

/// A small file system for the state directory.
struct Mounted(PathBuf);

impl Mounted {
    fn at(path: &Path) -> Self {
        std::fs::create_dir(path).unwrap();
        Self(path.to_owned()).run("mount", &["-t", "tmpfs", "-o", "size=4m", "tmpfs"])
    }

    /// Programs in namespaces have mounts of their own, as those of this test were when they began.
    fn run(self, program: &str, arguments: &[&str]) -> Self {
        let status = Command::new(program).args(arguments).arg(&self.0).status().unwrap();
        assert!(status.success(), "{program} {arguments:?} {}", self.0.display());
        self
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        drop(Command::new("umount").arg("--lazy").arg(&self.0).status());
    }
}

#[test]
fn h02_another_process_goes_on_although_there_is_no_room_for_its_directory() {
    let topology = Topology::build("full");
    let mounted = Mounted::at(&topology.state);
    let mut program = Program::start_engine(&topology, &config(&topology, SteeringChoice::Auto));
    let mut connection = topology.connect(&topology.server, SERVER[0]);
    connection.exchange(b"opening.");
    let late = Late::start(connection.client, connection.server, 3_000_000);
    wait_until("it is under way", || topology.steered_packets() > 20);
    assert!(topology.status().recovery.is_ready);
    let fill = topology.state.join("fill");
    drop(std::fs::write(&fill, vec![0; 4 << 20]));
    program.signal(SIGKILL);
    let next = successor(&mut program);
    late.finish();
    std::fs::remove_file(&fill).unwrap();
    wait_until("it can be asked", || !run::find(&topology.state).unwrap().is_empty());
    signal(next, SIGTERM);
    program.wait();
    drop(mounted);
    wait_until("all is undone", || topology.leftovers().is_empty());
}
