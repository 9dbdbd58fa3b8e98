//! Killed or hung, it must not stand in the way.

use io::PidFd;
use run::{AfterHang, Config, Notrack, WatchdogConfig};

use crate::topology::{
    Connection, Program, SERVER, SIGCONT, SIGHUP, SIGKILL, SIGSTOP, SIGTERM, Topology, wait_until,
};

/// Connections over both families, used once.
fn connections(topology: &Topology) -> [Connection; 2] {
    SERVER.map(|address| {
        let mut connection = topology.connect(&topology.server, address);
        connection.exchange(b"opening.");
        connection
    })
}

fn has_rules(topology: &Topology) -> bool {
    topology.leftovers().iter().any(|line| line.contains("iif"))
}

fn has_table(topology: &Topology) -> bool {
    topology.leftovers().iter().any(|line| line.contains("table inet"))
}

#[test]
fn killed_it_leaves_connections_working_and_nothing_behind() {
    let topology = Topology::build("kill");
    for notrack in [Notrack::Never, Notrack::Always] {
        let program = Program::start(&topology, &Config { notrack, ..topology.config() });
        let mut connections = connections(&topology);
        program.signal(SIGKILL);
        program.wait();
        connections.iter_mut().for_each(|connection| connection.exchange(b"survived"));
        wait_until("the watchdog has undone everything", || topology.leftovers().is_empty());
        for connection in connections {
            connection.download(1_000_000);
        }
    }
}

#[test]
fn killed_in_the_middle_of_a_download_it_continues() {
    let topology = Topology::build("killmid");
    let program = Program::start(&topology, &topology.config());
    let connection = topology.connect(&topology.server, SERVER[0]);
    let process = io::PidFd::open(program.pid()).unwrap();
    std::thread::scope(|scope| {
        scope.spawn(|| {
            wait_until("the download is under way", || topology.steered_packets() > 200);
            process.send_signal(SIGKILL).unwrap();
        });
        connection.download(50_000_000);
    });
    program.wait();
    wait_until("the watchdog has undone everything", || topology.leftovers().is_empty());
}

#[test]
fn h37_stopped_it_is_passed_by_and_continued_it_steers_again() {
    let topology = Topology::build("stop");
    let mut program = Program::start(&topology, &Config { notrack: Notrack::Always, ..topology.config() });
    let mut connections = connections(&topology);
    program.signal(SIGSTOP);
    connections.iter_mut().for_each(|connection| connection.exchange(b"hanging."));
    assert!(!has_rules(&topology));
    wait_until("the nft table is gone too", || !has_table(&topology));
    program.await_line("no sign of life");
    program.signal(SIGCONT);
    program.await_line("installed again");
    wait_until("rules and table are back", || has_rules(&topology) && has_table(&topology));
    let before = topology.steered_packets();
    connections.iter_mut().for_each(|connection| connection.exchange(b"resumed."));
    assert!(topology.steered_packets() > before);
    // And a second time: the watchdog watches on.
    program.signal(SIGSTOP);
    connections.iter_mut().for_each(|connection| connection.exchange(b"hanging2"));
    // The program at the interfaces lets packets pass before the watchdog acts, where that one is late.
    program.await_line("no sign of life");
    assert!(!has_rules(&topology));
    program.signal(SIGCONT);
    program.await_line("installed again");
    program.stop(&topology);
    connections.iter_mut().for_each(|connection| connection.exchange(b"finished"));
}

#[test]
fn killed_while_stopped_it_leaves_nothing() {
    let topology = Topology::build("stopkill");
    topology.set("net/ipv4/ip_forward", "0");
    let mut program = Program::start(&topology, &Config { set_forwarding: true, ..topology.config() });
    program.signal(SIGSTOP);
    program.await_line("no sign of life");
    program.signal(SIGKILL);
    program.wait();
    wait_until("the watchdog has undone everything", || topology.leftovers().is_empty());
    assert_eq!(io::sysctl::read(&topology.middle, "net/ipv4/ip_forward").unwrap(), "0");
}

#[test]
fn after_a_hang_it_can_end_instead() {
    let topology = Topology::build("hangexit");
    let mut program = Program::start(
        &topology,
        &Config {
            watchdog: WatchdogConfig { after_hang: AfterHang::Exit, ..WatchdogConfig::default() },
            ..topology.config()
        },
    );
    program.signal(SIGSTOP);
    program.await_line("no sign of life");
    program.signal(SIGCONT);
    let (status, said) = program.wait();
    assert!(status.success() && said.contains("had hung"), "{said}");
    assert_eq!(topology.leftovers(), [""; 0]);
}

#[test]
fn a_killed_watchdog_is_replaced() {
    let topology = Topology::build("dog");
    let mut program = Program::start(&topology, &topology.config());
    let mut first = None;
    wait_until("there is a watchdog", || {
        first = program.watchdog();
        first.is_some()
    });
    io::PidFd::open(first.unwrap()).unwrap().send_signal(SIGKILL).unwrap();
    program.await_line("the watchdog has ended");
    wait_until("there is another watchdog", || program.watchdog().is_some_and(|pid| Some(pid) != first));
    let mut connections = connections(&topology);
    program.signal(SIGSTOP);
    connections.iter_mut().for_each(|connection| connection.exchange(b"new-dog."));
    program.await_line("no sign of life");
    assert!(!has_rules(&topology));
    program.signal(SIGCONT);
    program.await_line("installed again");
    program.stop(&topology);
}

#[test]
fn signals_to_the_watchdog_do_not_end_it() {
    let topology = Topology::build("dogterm");
    let program = Program::start(&topology, &topology.config());
    let mut dog = None;
    wait_until("there is a watchdog", || {
        dog = program.watchdog();
        dog.is_some()
    });
    let has_ignored = |pid: u32| {
        let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
        let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:\t")).unwrap_or("0");
        u64::from_str_radix(mask, 16).unwrap_or(0) >> (SIGTERM - 1) & 1 == 1
    };
    wait_until("the watchdog ignores SIGTERM", || has_ignored(dog.unwrap()));
    io::PidFd::open(dog.unwrap()).unwrap().send_signal(SIGTERM).unwrap();
    program.signal(SIGKILL);
    program.wait();
    wait_until("the watchdog has undone everything", || topology.leftovers().is_empty());
}

/// Bounds the descriptors that a process may open from here on; those it has stay.
fn bound_descriptors(topology: &Topology, process: u32, most: &str) {
    topology.exec("prlimit", &["--pid", &process.to_string(), &format!("--nofile={most}:")]);
}

#[test]
fn without_descriptors_for_another_watchdog_it_goes_on_and_tries_again() {
    let topology = Topology::build("nofile");
    let mut program = Program::start_engine(&topology, &topology.config());
    let mut watchdog = None;
    wait_until("there is a watchdog", || {
        watchdog = program.watchdog();
        watchdog.is_some()
    });
    let watchdog = watchdog.unwrap();
    bound_descriptors(&topology, program.pid(), "1");
    PidFd::open(watchdog).unwrap().send_signal(SIGKILL).unwrap();
    program.await_line("trying again");
    topology.connect(&topology.server, SERVER[0]).download(1_000_000);
    bound_descriptors(&topology, program.pid(), "1024");
    wait_until("there is another watchdog", || program.watchdog().is_some_and(|new| new != watchdog));
    program.stop(&topology);
}

#[test]
fn a_terminal_that_goes_does_not_end_it() {
    let topology = Topology::build("hangup");
    let mut program = Program::start_engine(&topology, &topology.config());
    for _ in 0..3 {
        program.signal(SIGHUP);
        program.await_line("warning: not reloaded, all is as before: it was started without a settings file");
    }
    topology.connect(&topology.server, SERVER[0]).download(100_000);
    assert!(!topology.status().is_draining);
    program.stop(&topology);
}
