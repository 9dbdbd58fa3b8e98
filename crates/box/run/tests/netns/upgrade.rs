//! H34: another instance takes the place of the running one.

use std::io::{Read, Write};
use std::net::Shutdown;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

use io::netlink::Family;
use io::{Clock, Waiter, sysctl};
use run::{Answer, Config, FeedbackConfig, InlineFallback, Question, SteeringChoice, WatchdogConfig};
use units::Duration;

use crate::accelerated::verdict;
use crate::firewall::by_state;
use crate::nat::masquerade;
use crate::successor::Late;
use crate::topology::{
    Connection, Program, SERVER, SIGCONT, SIGKILL, SIGSTOP, SIGTERM, Topology, is_soon, unwatched, wait_until,
};

const PIECE: usize = 20_000;
const PIECES: usize = 150;

/// A download that takes as long as the server wants: pieces at intervals.
fn trickle(connection: Connection) {
    trickle_while(connection, |piece| piece < PIECES);
}

/// The same while `goes_on` says so of the next piece.
pub fn trickle_while(connection: Connection, goes_on: impl Fn(usize) -> bool + Send) {
    let Connection { mut client, mut server, .. } = connection;
    std::thread::scope(|scope| {
        let serving = scope.spawn(move || {
            let mut waiter = Waiter::new(Duration::ZERO).unwrap();
            let mut pieces = 0;
            while goes_on(pieces) {
                server.write_all(&[pieces as u8; PIECE]).unwrap();
                waiter.wait(Some(Clock::now() + Duration::from_millis(20))).unwrap();
                pieces += 1;
            }
            server.shutdown(Shutdown::Write).unwrap();
            assert_eq!(server.read(&mut [0]).unwrap(), 0);
            pieces
        });
        let mut got = Vec::new();
        client.read_to_end(&mut got).unwrap();
        let is_whole = got.chunks(PIECE).enumerate().all(|(n, piece)| piece.iter().all(|&b| b == n as u8));
        client.shutdown(Shutdown::Write).unwrap();
        let pieces = serving.join().unwrap();
        assert!(got.len() == PIECE * pieces && is_whole, "{} bytes of {pieces} pieces", got.len());
    });
}

fn replaced_in_the_middle(topology: &Topology) {
    let before = topology.snapshot();
    let old = Program::start_engine(topology, &Config { name: "old".to_owned(), ..topology.config() });
    old_is_replaced_in_the_middle(topology, old, &topology.config());
    assert_eq!(topology.snapshot(), before);
}

/// The successor has the settings of `config`.
fn old_is_replaced_in_the_middle(topology: &Topology, old: Program, config: &Config) {
    let mut idle = SERVER.map(|address| topology.connect(&topology.server, address));
    idle.iter_mut().for_each(|connection| connection.exchange(b"idle-now"));
    let under_way: Vec<Connection> =
        (0..8).map(|n| topology.connect(&topology.server, SERVER[n % 2])).collect();
    let config = Config { name: "new".to_owned(), replace: Some("old".to_owned()), ..config.clone() };
    let new = std::thread::scope(|scope| {
        let transfers: Vec<_> =
            under_way.into_iter().map(|connection| scope.spawn(|| trickle(connection))).collect();
        let flows = topology.steered_packets();
        wait_until("all are under way", || topology.steered_packets() > flows + 200);
        let mut new = Program::start_engine(topology, &config);
        SERVER.iter().for_each(|address| topology.connect(&topology.server, address).download(300_000));
        new.await_line("the replaced one has ended");
        assert!(transfers.iter().all(|transfer| !transfer.is_finished()), "ended before the old one did");
        transfers.into_iter().for_each(|transfer| transfer.join().unwrap());
        new
    });
    let (status, said) = old.wait();
    assert!(status.success(), "{said}");
    assert_eq!(verdict(&said), (10, 0), "{said}");
    assert!(said.contains("handed over 10 flows"), "{said}");
    // They are accelerated still, all of them.
    let counters = topology.status().processor;
    let wrong = ["unacceptable_acks", "inexact_resets", "bytes_acked_but_lost", "out_of_window"];
    assert_eq!(wrong.map(|name| counters.counter(name)), [0; 4], "{counters:?}");
    let handed_back = |reason: &&str| !["closed", "idle"].contains(reason);
    let passed: Vec<&str> = counters.passed.keys().map(String::as_str).filter(handed_back).collect();
    assert_eq!(passed, [""; 0], "{counters:?}");
    idle.iter_mut().for_each(|connection| connection.exchange(b"new-one."));
    SERVER.iter().for_each(|address| topology.connect(&topology.server, address).download(300_000));
    let said = new.stop(topology);
    assert_eq!(verdict(&said), (14, 0), "{said}");
    idle.iter_mut().for_each(|connection| connection.exchange(b"plain---"));
}

/// The rules of each successor come behind those of the one before, or that one's flows would be
/// led past it, for ever.
#[test]
fn h34_replaced_again_and_again_by_rules() {
    let topology = Topology::build("replagain");
    let before = topology.snapshot();
    let by_rules = Config { steering: SteeringChoice::Rules, ..topology.config() };
    let mut running =
        Program::start_engine(&topology, &Config { name: "first".to_owned(), ..by_rules.clone() });
    // With other devices each time, or the same.
    let names = [("first", "second"), ("second", "third"), ("third", "fourth"), ("fourth", "old")];
    for ((replaced, name), gso) in names.into_iter().zip([false, true, true, false]) {
        let replace = Some(replaced.to_owned());
        let config = Config { name: name.to_owned(), replace, gso, ..by_rules.clone() };
        let mut successor = Program::start_engine(&topology, &config);
        successor.await_line("the replaced one has ended");
        let (status, said) = std::mem::replace(&mut running, successor).wait();
        assert!(status.success(), "{said}");
        let rules = topology.netlink().rules(Family::V4).unwrap();
        let priorities: Vec<u32> =
            rules.iter().filter(|rule| rule.is_own).map(|rule| rule.priority).collect();
        assert_eq!(priorities, [206, 206, 206, 207, 207], "they have moved to the front");
    }
    old_is_replaced_in_the_middle(&topology, running, &by_rules);
    assert_eq!(topology.snapshot(), before);
}

/// What a start undoes it may not have forgotten when it is killed itself: the next one finds it once more.
#[test]
fn h02_what_is_undone_a_second_time_is_not_that_of_who_has_come_since() {
    for (what, inline) in [("twicerule", None), ("twicebridge", Some(InlineFallback::Bridge))] {
        let topology = Topology::build(what);
        let config = Config { watchdog: unwatched(), steering: SteeringChoice::Rules, ..topology.config() };
        let (config, address) = match inline {
            None => (config, SERVER[0]),
            Some(_) => {
                crate::inline::settle_in(&topology);
                (Config { inline, steering: SteeringChoice::Auto, ..config }, crate::inline::HERE[0])
            }
        };
        let start = |config: &Config| {
            let mut program = Program::launch_with(&topology, config, &["--engine"]);
            program.await_line("ready");
            program
        };
        let killed = start(&config);
        let directory = topology.state.join(format!("run-{}", killed.pid()));
        killed.signal(SIGKILL);
        killed.wait();
        let copy = |from: &Path, to: &Path| {
            std::fs::create_dir_all(to).unwrap();
            for file in ["owner", "record"] {
                std::fs::copy(from.join(file), to.join(file)).unwrap();
            }
        };
        let kept = topology.state.with_extension("kept");
        copy(&directory, &kept);
        let old = start(&Config { name: "old".to_owned(), ..config.clone() });
        assert!(!directory.exists(), "it was undone");
        // Without the subscriber's, which comes and goes.
        let set_up = || topology.leftovers().into_iter().filter(|left| left != "20800").count();
        let at_first = set_up();
        let mut idle = topology.connect(&topology.server, address);
        idle.exchange(b"opening.");
        copy(&kept, &directory);
        std::fs::remove_dir_all(&kept).unwrap();
        let replace = Some("old".to_owned());
        let mut new = start(&Config { name: "new".to_owned(), replace, ..config.clone() });
        new.await_line("the replaced one has ended");
        let (status, said) = old.wait();
        assert!(status.success() && said.contains("handed over 1 flows"), "{said}");
        assert!(!directory.exists());
        assert_eq!(set_up(), at_first, "{:?}", topology.leftovers());
        idle.exchange(b"new-one.");
        idle.download(1_000_000);
        let said = new.stop(&topology);
        assert!(said.contains("left behind"), "{said}");
    }
}

#[test]
fn h34_replaced_it_hands_over_and_no_flow_notices() {
    replaced_in_the_middle(&Topology::build("replace"));
}

/// Twenty upgrades one after the other, while downloads are under way.
#[test]
fn h34_flows_outlive_twenty_upgrades() {
    let topology = Topology::build("upgrades");
    let before = topology.snapshot();
    let feedback = FeedbackConfig { listen: "0.0.0.0:7411".parse().unwrap(), key: None, delay_us: 0 };
    let named = |name: String, replace: Option<String>| {
        let feedback = Some(feedback.clone());
        Config { name, replace, feedback, ..topology.config() }
    };
    let mut running = Program::start_engine(&topology, &named("number-0".to_owned(), None));
    let under_way: Vec<Connection> =
        (0..6).map(|n| topology.connect(&topology.server, SERVER[n % 2])).collect();
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let goes_on = |_| !is_over.load(Ordering::Relaxed);
        let devices = || ["cellw0", "cellm0"].map(|name| topology.netlink().index_of(name).unwrap());
        let before = devices();
        for connection in under_way {
            scope.spawn(move || trickle_while(connection, goes_on));
        }
        for number in 1..=20 {
            let config = named(format!("number-{number}"), Some(format!("number-{}", number - 1)));
            let mut successor = Program::start_engine(&topology, &config);
            successor.await_line("the replaced one has ended");
            let (status, said) = std::mem::replace(&mut running, successor).wait();
            assert!(status.success() && said.contains("handed over 6 flows"), "{said}");
            assert!(!said.contains("without reports"), "{said}");
            assert_eq!(devices(), before, "the same ones");
        }
        is_over.store(true, Ordering::Relaxed);
    });
    let said = running.stop(&topology);
    assert_eq!(verdict(&said), (6, 0), "{said}");
    assert_eq!(topology.snapshot(), before);
}

/// Who is killed, while one takes the place of the other.
#[derive(Clone, Copy, Debug)]
enum Victim {
    Old,
    New,
}

/// The new one's devices stand behind those of the old one.
#[test]
fn h34_replaced_by_one_with_other_devices_no_flow_notices() {
    let topology = Topology::build("replgso");
    let before = topology.snapshot();
    let old = Program::start_engine(&topology, &Config { name: "old".to_owned(), ..topology.config() });
    old_is_replaced_in_the_middle(&topology, old, &Config { gso: false, ..topology.config() });
    assert_eq!(topology.snapshot(), before);
}

/// One that stands behind another one waits for its flows, and is there meanwhile.
#[test]
fn h34_who_waits_for_the_one_before_does_not_hang() {
    let topology = Topology::build("replwait");
    // Its programs have packets wait for it all the time.
    let watchdog = WatchdogConfig { hang_after_ms: 20_000, ..unwatched() };
    let old = Config { name: "old".to_owned(), watchdog, ..topology.config() };
    let old = Program::start_engine(&topology, &old);
    let mut connection = topology.connect(&topology.server, SERVER[0]);
    connection.exchange(b"opening.");
    let replace = Some("old".to_owned());
    let config = Config { name: "new".to_owned(), replace, gso: false, ..topology.config() };
    let mut new = Program::launch_with(&topology, &config, &["--engine"]);
    new.await_line("stand behind them");
    old.signal(SIGSTOP);
    // More than twice as long as a process may be silent.
    Waiter::new(Duration::ZERO).unwrap().wait(Some(Clock::now() + Duration::from_millis(2_500))).unwrap();
    old.signal(SIGCONT);
    new.await_line("took over 1 flows");
    connection.exchange(b"new-one.");
    assert!(old.wait().0.success());
    let said = new.stop(&topology);
    assert!(!said.contains("no sign of life") && !said.contains("hung"), "{said}");
}

/// Either is killed at some moment of an upgrade: one of them has the flows afterwards, or a successor, and no
/// flow notices.
#[test]
fn h34_killed_in_the_middle_of_an_upgrade() {
    let topology = Topology::build("replkill");
    killed_in_the_middle(&topology, &topology.config(), SERVER, Duration::from_millis(85));
}

/// Upgrades with the settings of `config`, while flows from `servers` are under way. The last one is killed `last`
/// after its start, the others before that.
pub fn killed_in_the_middle(topology: &Topology, config: &Config, servers: [&str; 2], last: Duration) {
    const UPGRADES: u64 = 24;
    const FIRST_US: u64 = 2_000;
    let with_heir = |name: String, replace: Option<String>| {
        let mut config = Config { name, replace, ..config.clone() };
        config.watchdog.successor = vec!["self".to_owned()];
        config.watchdog.recover_within_ms = 10_000;
        // Each of them begins a line of its own.
        config.watchdog.deaths_max = 100;
        config
    };
    let running = || run::find(&topology.state).unwrap();
    let mut programs = vec![Program::start_ready(topology, &with_heir("number-0".to_owned(), None))];
    let under_way: Vec<Connection> =
        (0..4).map(|n| topology.connect(&topology.server, servers[n % 2])).collect();
    // It is owed something all the time.
    let Connection { client, server, .. } = topology.connect(&topology.server, servers[0]);
    let before = topology.received_packets();
    let late = Late::start(client, server, 5_000_000);
    wait_until("it is owed something", || topology.received_packets() > before + 30);
    let is_over = AtomicBool::new(false);
    let mut endings = [0; 3];
    let mut deaths = vec![(0, 0)];
    std::thread::scope(|scope| {
        // Threads end, too, when what follows fails.
        let _end = Flag(&is_over);
        for connection in under_way {
            scope.spawn(|| trickle_while(connection, |_| !is_over.load(Ordering::Relaxed)));
        }
        let mut waiter = Waiter::new(Duration::ZERO).unwrap();
        for number in 1..=UPGRADES {
            let old = running().remove(0);
            let config = with_heir(format!("number-{number}"), Some(old.name.clone()));
            let new = Program::launch_with(topology, &config, &["--engine"]);
            let span_us = last.as_micros().saturating_sub(FIRST_US);
            let moment = Duration::from_micros(FIRST_US + number * span_us / UPGRADES);
            waiter.wait(Some(Clock::now() + moment)).unwrap();
            let (victim, process) =
                if number % 2 == 0 { (Victim::Old, old.process) } else { (Victim::New, new.pid()) };
            if let Ok(process) = io::PidFd::open(process) {
                drop(process.send_signal(SIGKILL));
            }
            programs.push(new);
            let mut seen = String::new();
            let mut goes_on = None;
            let is_well = is_soon(|| {
                programs.iter_mut().for_each(|program| _ = program.reap());
                let all = running();
                seen = format!("{all:?}");
                let [one] = all.as_slice() else { return false };
                // One that was launched may take its place at any time: what it says itself is true of it.
                let deaths = (one.process != process).then(|| deaths_of(one)).flatten();
                goes_on = deaths.map(|deaths| (one.process, deaths));
                goes_on.is_some()
            });
            if !is_well {
                let said: Vec<String> = programs.drain(..).map(|program| program.wait().1).collect();
                panic!("{victim:?} {process} killed after {moment}, {seen}: {said:#?}");
            }
            let (last, dead) = goes_on.unwrap();
            // One that was launched for an earlier upgrade may have waited for a successor, and come late.
            let is_launched = programs.iter().any(|program| program.pid() == last);
            let ending = match last == old.process {
                true => 0,
                false if is_launched => 1,
                false => 2,
            };
            endings[ending] += 1;
            // One that was launched may also take the place of the successor of a dead one.
            deaths.push((ending, dead));
        }
    });
    late.finish();
    println!("{endings:?}: the old one went on, the new one has them, a successor goes on");
    // Upgrades do not begin the count anew.
    for pair in deaths.windows(2) {
        let [(_, before), (ending, after)] = [pair[0], pair[1]];
        let possible: [&[u64]; 3] = [&[0], &[0, 1], &[1]];
        assert!(after >= before && possible[ending].contains(&(after - before)), "{deaths:?}");
    }
    // The last one that was launched may yet take the place of the successor of the one that was killed, or give up.
    let mut last = 0;
    wait_until("nobody is about to take a place", || {
        let all = running();
        let [one] = all.as_slice() else { return false };
        last = one.process;
        programs.iter_mut().all(|program| program.pid() == last || program.reap())
    });
    assert_eq!(topology.status().recovery.flows_lost, 0);
    io::PidFd::open(last).unwrap().send_signal(SIGTERM).unwrap();
    assert!(is_soon(|| topology.leftovers().is_empty()), "not all is undone: {:#?}", topology.leftovers());
    for program in programs {
        let (_, said) = program.wait();
        assert!(!said.contains("resetting") && !said.contains("flows reset"), "{said}");
    }
}

/// True when it serves, with all flows.
/// The deaths of its line, once it has the flows.
fn deaths_of(found: &run::Found) -> Option<u64> {
    let Ok(Answer::Status(status)) = found.ask(&Question::Status) else { return None };
    (status.processor.counter("flows_now") >= 5).then_some(status.recovery.deaths)
}

/// Set when it is dropped.
struct Flag<'a>(&'a AtomicBool);

impl Drop for Flag<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

#[test]
fn h34_replaced_behind_masquerade() {
    let topology = Topology::build("replnat");
    masquerade(&topology);
    replaced_in_the_middle(&topology);
}

#[test]
fn h08_replaced_behind_a_firewall_by_state() {
    let topology = Topology::build("replfw");
    by_state(&topology);
    replaced_in_the_middle(&topology);
}

#[test]
fn h34_replaced_where_the_reverse_path_is_checked() {
    let topology = Topology::build("replrp");
    for interface in ["all", "w0", "m0"] {
        topology.set(&format!("net/ipv4/conf/{interface}/rp_filter"), "1");
    }
    replaced_in_the_middle(&topology);
    for interface in ["all", "w0", "m0"] {
        let path = format!("net/ipv4/conf/{interface}/rp_filter");
        assert_eq!(sysctl::read(&topology.middle, &path).unwrap(), "1");
    }
}

#[test]
fn h34_a_start_that_fails_leaves_the_running_one_as_it_was() {
    let topology = Topology::build("replfail");
    let before = topology.snapshot();
    let old = Program::start_engine(&topology, &Config { name: "old".to_owned(), ..topology.config() });
    let running = topology.snapshot();
    let mut under_way = SERVER.map(|address| topology.connect(&topology.server, address));
    under_way.iter_mut().for_each(|connection| connection.exchange(b"old-one."));
    // An address that this machine does not have.
    let feedback = FeedbackConfig { listen: "192.0.2.1:9".parse().unwrap(), key: None, delay_us: 0 };
    let replace = Config { name: "new".to_owned(), replace: Some("old".to_owned()), ..topology.config() };
    for config in [
        Config { feedback: Some(feedback), ..replace.clone() },
        // After everything is set up.
        Config {
            watchdog: WatchdogConfig {
                command: vec!["/nonexistent/watchdog".to_owned()],
                ..replace.watchdog.clone()
            },
            ..replace
        },
    ] {
        let (status, said) = Program::launch(&topology, &config).wait();
        assert!(!status.success(), "{said}");
        assert_eq!(topology.snapshot(), running);
        assert!(!topology.status().is_draining, "{said}");
    }
    under_way.iter_mut().for_each(|connection| connection.exchange(b"the-same"));
    SERVER.iter().for_each(|address| topology.connect(&topology.server, address).download(300_000));
    let said = old.stop(&topology);
    assert_eq!(verdict(&said), (4, 0), "{said}");
    assert_eq!(topology.snapshot(), before);
}

#[test]
fn what_is_not_there_is_not_replaced() {
    let topology = Topology::build("replnone");
    let config = Config { replace: Some("nobody".to_owned()), ..topology.config() };
    let (status, said) = Program::launch(&topology, &config).wait();
    assert!(!status.success() && said.contains("no accelerator 'nobody'"), "{said}");
    assert_eq!(topology.leftovers(), [""; 0]);
}

/// Who wants to take its place while another one does so waits, and then takes the place of who has its name.
#[test]
fn h34_one_at_a_time_takes_an_instances_place() {
    let topology = Topology::build("replturn");
    let config = Config { name: "same".to_owned(), ..topology.config() };
    let first = Program::start_engine(&topology, &config);
    let directory = topology.state.join(format!("run-{}", first.pid()));
    let turn = std::fs::File::open(&directory).unwrap();
    assert!(io::try_lock(&turn).unwrap());
    let mut connection = topology.connect(&topology.server, SERVER[0]);
    connection.exchange(b"opening.");
    let replace = Config { replace: Some("same".to_owned()), ..config };
    let mut waiting: Vec<Program> =
        (0..3).map(|_| Program::launch_with(&topology, &replace, &["--engine"])).collect();
    // Alone, each would have taken its place by then.
    assert!(!waiting.iter_mut().any(|program| program.says_within("ready: ", 300)), "out of turn");
    assert_eq!(topology.status().process, first.pid());
    drop(turn);
    let (status, said) = first.wait();
    assert!(status.success() && said.contains("handed over 1 flows"), "{said}");
    waiting.iter_mut().for_each(|program| drop(program.await_line("ready: ")));
    connection.exchange(b"the-same");
    wait_until("one is left", || run::find(&topology.state).unwrap().len() == 1);
    let last = topology.status().process;
    let (last, replaced): (Vec<_>, Vec<_>) = waiting.into_iter().partition(|program| program.pid() == last);
    for program in replaced {
        let (status, said) = program.wait();
        assert!(status.success() && said.contains("took over 1 flows"), "{said}");
    }
    connection.exchange(b"last-one");
    last.into_iter().for_each(|program| drop(program.stop(&topology)));
}
