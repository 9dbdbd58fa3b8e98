//! Coupled congestion control in the running kernel: every window is that of the reference, only MPTCP's subflows use
//! it, and it ends with who loaded it.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::process::{Child, Command, Stdio};

use ::coupled::layout::{Event, EventKind};
use ::coupled::{SchemeProgram, Setup, kernel_name};
use control::coupled::{Coupled, Scheme, SubflowId};
use io::{Namespace, SpawnOptions, Waiter, sysctl};
use serde_json::Value;
use tempfile::TempPath;
use units::Duration;

use super::daemon::{Daemon, SIGKILL, SIGTERM, World, spawn, until};
use super::{has_mptcp, lab};
use crate::schema;

/// True where the kernel takes such programs; else a line says why not.
fn has_struct_ops() -> bool {
    let needs = io::bpf::require_congestion_control(None)
        .and_then(|()| io::features::require(io::features::Feature::Bpf));
    if let Err(error) = &needs {
        eprintln!("left out: {error}");
    }
    has_mptcp() && needs.is_ok()
}

/// Two radios that lose at random and by full queues; the first is dead for a second and a half.
pub(super) fn scenario(name: &str, control: &str, keys: &str) -> TempPath {
    let text = format!(
        r#"
name = "{name}"
title = "Losses, a death and a return"
time = "7 s"
congestion_control = "{control}"
{keys}

[[radio]]
name = "wifi0"
down = {{ rate = "10 Mbit/s", delay = "8 ms", queue = "40 KB", loss = "0.5 %" }}
up = {{ rate = "5 Mbit/s", delay = "8 ms" }}
event = [{{ at = "3 s", does = "dies" }}, {{ at = "4.5 s", does = "returns" }}]

[[radio]]
name = "lte0"
down = {{ rate = "6 Mbit/s", delay = "25 ms", queue = "40 KB" }}
up = {{ rate = "3 Mbit/s", delay = "25 ms" }}

[[case]]
name = "kernel"
"#
    );
    let file = tempfile::Builder::new().suffix(".toml").tempfile().unwrap().into_temp_path();
    std::fs::write(&file, text).unwrap();
    file
}

/// What happens in the kernel while the scenario with these `keys` runs under `scheme`.
fn watched(scheme: Scheme, keys: &str) -> Vec<Event> {
    let setup = Setup { is_test: true, ..Setup::private(scheme) };
    let mut program = SchemeProgram::load(&setup)
        .unwrap_or_else(|error| panic!("{error}\n{}", error.log().unwrap_or_default()));
    program.register().unwrap();
    let file = scenario(&format!("coupled-{}", scheme.name()), program.name(), keys);
    let mut events = Vec::new();
    std::thread::scope(|scope| {
        let run = scope.spawn(|| lab(std::slice::from_ref(&file), &[]));
        // Sockets may go a moment after the lab.
        while !run.is_finished() {
            events.extend(program.events().unwrap().0);
            let mut waiter = Waiter::new(Duration::ZERO).unwrap();
            waiter.wait(Some(io::Clock::now() + Duration::from_millis(50))).unwrap();
        }
        let results = run.join().unwrap();
        let run = &results["scenarios"][0]["runs"][0];
        assert!(run["is_intact"] == true && run["is_multi_path"] == true, "{run}");
    });
    let (more, lost) = program.events().unwrap();
    events.extend(more);
    assert_eq!(lost, 0, "events found no room");
    // Of one connection in the order in which they happened.
    events.sort_by_key(|event| (event.token, event.sequence));
    events
}

/// How a connection's events went in the reference.
#[derive(Debug, Default)]
struct Replayed {
    /// ACKs whose window before was the reference's own.
    acks: u32,
    /// Of these, those that came while two subflows or more were there.
    coupled_acks: u32,
    /// Events before which the kernel had set another window: in a recovery, and after a pause.
    set_by_kernel: u32,
    losses: u32,
    timeouts: u32,
}

/// Hands the events of one connection to the reference; each window afterwards must be the kernel's.
fn replay(scheme: Scheme, events: &[Event]) -> Replayed {
    let mut reference = Coupled::new(scheme);
    let mut ids: BTreeMap<u64, SubflowId> = BTreeMap::new();
    let mut replayed = Replayed::default();
    for (event, sequence) in events.iter().zip(1..) {
        assert_eq!(event.sequence, sequence, "{scheme:?}: an event is missing: {event:?}");
        let before = event.before;
        if event.kind == EventKind::Join {
            let joined = event.after;
            let id = reference.add(joined.window.into(), joined.ssthresh.into()).unwrap();
            reference.resume(id, joined.window.into(), joined.ssthresh.into(), joined.credit.into());
            reference.on_round_trip(id, joined.srtt_us.into());
            assert_eq!(id.place(), event.place as usize);
            ids.insert(event.number, id);
            continue;
        }
        let id = ids[&event.number];
        if event.kind == EventKind::Leave {
            reference.remove(id);
            ids.remove(&event.number);
            continue;
        }
        let own = reference.subflow(id).unwrap();
        let is_own = own.window == u64::from(before.window) && own.credit == u64::from(before.credit);
        if !is_own || own.ssthresh != u64::from(before.ssthresh) {
            replayed.set_by_kernel += 1;
            reference.resume(id, before.window.into(), before.ssthresh.into(), before.credit.into());
        }
        reference.on_round_trip(id, before.srtt_us.into());
        match event.kind {
            EventKind::Ack => {
                replayed.acks += u32::from(is_own);
                replayed.coupled_acks += u32::from(is_own && ids.len() > 1);
                reference.on_ack(id, event.a.into(), event.b == 1);
            }
            EventKind::Loss => {
                replayed.losses += 1;
                reference.on_loss(id);
            }
            EventKind::Timeout => {
                replayed.timeouts += 1;
                reference.on_timeout(id, before.window.into());
            }
            EventKind::Undo => reference.on_undo(id),
            EventKind::Join | EventKind::Leave => {}
        }
        let own = reference.subflow(id).unwrap();
        // The aim is a segment; both count in the same integers.
        let after = (u64::from(event.after.window), u64::from(event.after.ssthresh));
        assert_eq!((own.window, own.ssthresh), after, "{scheme:?}, {event:?}");
    }
    replayed
}

/// Every window after every event in the kernel is the reference's, for each scheme, over IPv4, over IPv6, and over
/// IPv6 with further subflows over IPv4; the events are those of downloads over two radios with losses, a death and a
/// return.
#[test]
fn every_window_in_the_kernel_is_the_references() {
    if !has_struct_ops() {
        return;
    }
    let mut cases: Vec<(Scheme, &str)> = Scheme::ALL.map(|scheme| (scheme, "")).to_vec();
    // A connection on a socket of IPv6 may have subflows over both, one on a socket of IPv4 may not.
    cases.extend([
        (Scheme::Lia, "family = 'ipv6'"),
        (Scheme::Balia, "family = 'ipv6'\nfurther_family = 'ipv4'"),
    ]);
    // Two at a time: more would make the emulators late.
    for cases in cases.chunks(2) {
        std::thread::scope(|scope| {
            let runs = cases.iter().map(|(scheme, keys)| (*scheme, scope.spawn(|| watched(*scheme, keys))));
            for (scheme, run) in runs.collect::<Vec<_>>() {
                let events = run.join().unwrap();
                let by_connection: Vec<Replayed> =
                    events.chunk_by(|a, b| a.token == b.token).map(|one| replay(scheme, one)).collect();
                let all = by_connection.iter().max_by_key(|replayed| replayed.acks).unwrap();
                eprintln!("{}: {} events, {all:?}", scheme.name(), events.len());
                assert!(all.coupled_acks > 1_000, "{all:?}");
                assert!(all.losses >= 5 && all.timeouts >= 1, "{all:?}");
                // The kernel sets windows in recoveries only: a few events each.
                assert!(all.set_by_kernel <= 8 * (all.losses + all.timeouts), "{all:?}");
            }
        });
    }
}

/// What `ss` says of a namespace's connections: end points, and the congestion control.
pub(super) fn controls(namespace: &Namespace) -> Vec<(String, String)> {
    let mut command = Command::new("ss");
    command.args(["-HtinO", "state", "established"]).stdout(Stdio::piped());
    let child = namespace.spawn(command, SpawnOptions::default()).unwrap();
    let said = String::from_utf8(child.wait_with_output().unwrap().stdout).unwrap();
    let known = ["cubic", "reno", "bbr", "lia", "balia", "adaptive"];
    let of_line = |line: &str| {
        let control = line.split_whitespace().find(|word| known.contains(word)).unwrap_or_default();
        (line.to_owned(), control.to_owned())
    };
    said.lines().map(of_line).collect()
}

/// The controls of connections of the server's port.
pub(super) fn of_port(namespace: &Namespace, port: u16) -> Vec<String> {
    let is_of = |line: &str| line.contains(&format!(":{port} "));
    controls(namespace).into_iter().filter(|(line, _)| is_of(line)).map(|(_, control)| control).collect()
}

/// `cellerator multipath congestion load` in a namespace, once it is ready.
fn load(namespace: &Namespace, scheme: &str) -> Child {
    let mut child = spawn(namespace, &["multipath", "congestion", "load", scheme]);
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let ready = lines.by_ref().map_while(Result::ok).any(|line| line.starts_with("ready"));
    if !ready {
        let mut said = String::new();
        child.stderr.take().unwrap().read_to_string(&mut said).unwrap();
        panic!("{said}");
    }
    child
}

pub(super) fn available() -> String {
    sysctl::read_here("net/ipv4/tcp_available_congestion_control").unwrap()
}

pub(super) fn signal(child: &mut Child, signal: i32) {
    io::PidFd::open(child.id()).unwrap().send_signal(signal).unwrap();
    child.wait().unwrap();
}

/// A megabyte from the server's end to the client's.
pub(super) fn transfer(far: &mut TcpStream, near: &mut TcpStream) {
    std::thread::scope(|scope| {
        scope.spawn(|| far.write_all(&vec![7; 1 << 20]).unwrap());
        near.read_exact(&mut vec![0; 1 << 20]).unwrap();
    });
}

#[test]
fn only_subflows_use_it_and_a_kill_takes_it_away() {
    if !has_struct_ops() {
        return;
    }
    let world = World::new("cc");
    let name = kernel_name(Scheme::Lia);
    let before = sysctl::read(&world.server, "net/ipv4/tcp_congestion_control").unwrap();
    let mut holder = load(&world.server, "lia");
    assert!(available().split_whitespace().any(|one| one == name), "{}", available());
    // A second one is refused, and told whose the first is.
    let second =
        spawn(&world.server, &["multipath", "congestion", "load", "lia"]).wait_with_output().unwrap();
    let said = String::from_utf8_lossy(&second.stderr).into_owned();
    assert!(said.contains(&format!("by process {}", holder.id())) && said.lines().count() == 1, "{said}");
    // So is another scheme for the same subflows; only to be there it may be loaded. Where subflows are others', the name
    // is taken.
    let another = spawn(&world.server, &["multipath", "congestion", "load", "coupled-increase"]);
    let said = String::from_utf8_lossy(&another.wait_with_output().unwrap().stderr).into_owned();
    assert!(said.contains(&format!("use lia already, by process {}", holder.id())), "{said}");
    assert!(said.lines().count() == 1 && !available().contains("coupled_inc"), "{said}");
    let elsewhere = spawn(&world.client, &["multipath", "congestion", "load", "lia"]);
    let said = String::from_utf8_lossy(&elsewhere.wait_with_output().unwrap().stderr).into_owned();
    assert!(said.contains(&format!("of process {}", holder.id())) && said.lines().count() == 1, "{said}");
    let shown = spawn(&world.client, &["multipath", "congestion", "status"]).wait_with_output().unwrap();
    let shown = String::from_utf8_lossy(&shown.stdout).into_owned();
    let whose = format!("MPTCP subflows of network namespace '{}' use it", world.server.name());
    assert!(shown.contains(&whose), "{shown}");

    world.add_endpoints();
    let (mut near, mut far, listener) = world.connect();
    // An option that is set makes MPTCP copy all of them to subflows that join.
    far.set_nodelay(true).unwrap();
    until("a second subflow joins", || of_port(&world.server, 9_000).len() == 2);
    assert_eq!(of_port(&world.server, 9_000), [name, name], "{:?}", controls(&world.server));
    let at: SocketAddr = "10.9.0.1:9001".parse().unwrap();
    let _plain_listener = world.server.run(|| io::listen_multi_path(at, false)).unwrap().unwrap();
    let _plain =
        world.client.run(|| io::connect_multi_path(at, false, Duration::from_secs(5))).unwrap().unwrap();
    assert_eq!(of_port(&world.server, 9_001), [before.trim()]);
    assert!(of_port(&world.client, 9_000).iter().all(|control| control != name), "the client has its own");
    transfer(&mut far, &mut near);

    let status = spawn(&world.server, &["multipath", "congestion", "status", "--json"]);
    let status: Value = serde_json::from_slice(&status.wait_with_output().unwrap().stdout).unwrap();
    schema::check_against(&status, include_str!("../../../../schemas/coupled-status.schema.json"));
    let loaded = status["loaded"].as_array().unwrap().iter().find(|one| one["name"] == name).unwrap();
    assert_eq!((&loaded["is_here"], &loaded["namespace_name"]), (&true.into(), &world.server.name().into()));
    assert_eq!(loaded["connections"][0]["subflows"].as_array().unwrap().len(), 2, "{status}");

    signal(&mut holder, SIGKILL);
    until("it is taken from the kernel's list", || !available().split_whitespace().any(|one| one == name));
    assert_eq!(sysctl::read(&world.server, "net/ipv4/tcp_congestion_control").unwrap(), before);
    // What runs goes on with it, and carries data.
    assert_eq!(of_port(&world.server, 9_000), [name, name]);
    transfer(&mut far, &mut near);
    drop((near, far, listener));
    until("what ran has ended", || of_port(&world.server, 9_000).iter().all(|control| control != name));
    // What begins does not use it.
    let (_near, _far, _listener) = world.connect();
    assert!(
        of_port(&world.server, 9_000).iter().all(|control| control != name),
        "{:?}",
        controls(&world.server)
    );
    // And it can be loaded again.
    signal(&mut load(&world.server, "lia"), SIGTERM);
    assert!(!available().split_whitespace().any(|one| one == name));
}

#[test]
fn a_path_manager_couples_what_its_host_sends() {
    if !has_struct_ops() {
        return;
    }
    let world = World::new("ccrun");
    let manager = Daemon::start(&world, &["--congestion", "balia"]);
    let (mut near, mut far, _listener) = world.connect();
    until("both subflows are coupled", || of_port(&world.client, 9_000) == ["balia", "balia"]);
    transfer(&mut near, &mut far);
    let unloaded = spawn(&world.client, &["multipath", "congestion", "status"]).wait_with_output().unwrap();
    assert!(String::from_utf8_lossy(&unloaded.stdout).contains("balia"));
    manager.end(SIGTERM);
    assert!(!available().split_whitespace().any(|one| one == "balia"));
}
