//! `adaptive` as a congestion control of the running kernel: every window and rate is the reference's, only those that
//! are meant use it, it ends with who loaded it, and it keeps a queue shorter than BBR does.

use std::io::{BufRead, BufReader, Read};
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::Path;
use std::process::{Child, Command};
use std::sync::{Mutex, MutexGuard, PoisonError};

use congestion::layout::{Event, EventKind, handle};
use congestion::{ControlProgram, KERNEL_NAME, Setup};
use control::server::{Bound, Law};
use io::{Namespace, Waiter, sysctl};
use serde_json::Value;
use units::Duration;

use super::coupled::{available, of_port, scenario, signal, transfer};
use super::daemon::{SIGKILL, SIGTERM, World, spawn, until};
use super::{cellerator, has_mptcp, lab};
use crate::schema;

/// The name is the whole kernel's, and tests run at the same time.
static NAME: Mutex<()> = Mutex::new(());

pub(super) fn own_name() -> MutexGuard<'static, ()> {
    NAME.lock().unwrap_or_else(PoisonError::into_inner)
}

/// True where the kernel takes such programs; else a line says why not.
pub(super) fn is_possible() -> bool {
    let needs =
        io::bpf::congestion_controls(None).and_then(|_| io::features::require(io::features::Feature::Bpf));
    if let Err(error) = &needs {
        eprintln!("left out: {error}");
    }
    has_mptcp() && needs.is_ok()
}

/// What happens in the kernel while downloads run over two radios with losses, a death and a return.
fn watched() -> Vec<Event> {
    let program = loaded(Setup::private());
    let file = scenario("congestion-adaptive", program.name(), "");
    let (events, results) = events_during(&program, || lab(std::slice::from_ref(&file), &[]));
    std::fs::remove_file(&file).unwrap();
    let run = &results["scenarios"][0]["runs"][0];
    assert!(run["is_intact"] == true && run["is_multi_path"] == true, "{run}");
    events
}

/// The program, registered, which writes down what happens.
fn loaded(setup: Setup) -> ControlProgram {
    let setup = Setup { is_test: true, ..setup };
    let mut program = ControlProgram::load(&setup)
        .unwrap_or_else(|error| panic!("{error}\n{}", error.log().unwrap_or_default()));
    program.register().unwrap();
    program
}

/// What happens in the kernel while `run` runs, and what that returns.
fn events_during<T: Send>(program: &ControlProgram, run: impl FnOnce() -> T + Send) -> (Vec<Event>, T) {
    let mut events = Vec::new();
    let result = std::thread::scope(|scope| {
        let run = scope.spawn(run);
        while !run.is_finished() {
            events.extend(program.events().unwrap().0);
            let mut waiter = Waiter::new(Duration::ZERO).unwrap();
            waiter.wait(Some(io::Clock::now() + Duration::from_millis(50))).unwrap();
        }
        run.join().unwrap()
    });
    let (more, lost) = program.events().unwrap();
    events.extend(more);
    assert_eq!(lost, 0, "events found no room");
    events.sort_by_key(|event| (event.number, event.sequence));
    (events, result)
}

/// Hands the events of a connection to the reference; what it says after each must be what the kernel's said.
fn replay(events: &[Event], bounds: &mut [u32; Bound::ALL.len()]) {
    let mut reference = Law::new(1);
    for (event, sequence) in events.iter().zip(1..) {
        assert_eq!(event.sequence, sequence, "an event is missing: {event:?}");
        assert_eq!(event.kind == EventKind::Begin, sequence == 1, "{event:?}");
        reference.mss = event.mss;
        handle(&mut reference, event.kind, event.mss, &event.ack, &event.peers);
        assert_eq!((reference.window, reference.pacing_rate), (event.window, event.pacing_rate), "{event:?}");
        if event.kind == EventKind::Ack {
            assert_eq!(event.cwnd, event.window.div_ceil(event.mss), "{event:?}");
        }
        bounds[reference.bound as usize] += 1;
    }
}

#[test]
fn every_window_and_rate_in_the_kernel_is_the_references() {
    if !is_possible() {
        return;
    }
    let events = watched();
    let mut bounds = [0; Bound::ALL.len()];
    events.chunk_by(|a, b| a.number == b.number).for_each(|one| replay(one, &mut bounds));
    let of = |kind| events.iter().filter(|event| event.kind == kind).count();
    let counts = EventKind::ALL.map(of);
    eprintln!("{} events, of each kind {counts:?}; bounds {bounds:?}", events.len());
    let losses = events.iter().filter(|event| event.ack.lost > 0).count();
    assert!(counts[3] > 2_000 && losses >= 10, "{counts:?}, {losses} with losses");
    assert!(counts[2] >= 1, "a radio that dies is a time-out: {counts:?}");
    let reached = |bound: Bound| bounds[bound.number() as usize] > 0;
    assert!(reached(Bound::Start) && reached(Bound::Forecast) && reached(Bound::Buffer), "{bounds:?}");
}

/// Between real kernels: two downloads of one client through one radio prove that they share a queue, and are equal.
#[test]
fn connections_to_one_client_share_what_they_know() {
    if !is_possible() {
        return;
    }
    let _own = own_name();
    let program = loaded(Setup::usual());
    let folder = tempfile::tempdir().unwrap();
    let [file, json] = ["shares.toml", "shares.json"].map(|name| folder.path().join(name));
    let text = r#"
name = "congestion-shares"
title = "Two downloads of one client"
seed = 1
time_limit = "16 s"
wan.delay = "10 ms"
radio.down = { preset = "4g-lte", delay = "10 ms", queue = "4 MB" }
radio.up = { rate = "50 Mbit/s", delay = "10 ms", queue = "1 MB" }
server.congestion_control = "adaptive"
workload = { size = "200 MB", flows = 2, ends_at_limit = true }
[[case]]
name = "two"
"#;
    std::fs::write(&file, text).unwrap();
    let arguments = ["lab", "run", file.to_str().unwrap(), "--json", json.to_str().unwrap()];
    let (events, output) = events_during(&program, || cellerator(&arguments));
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let results: Value = serde_json::from_str(&std::fs::read_to_string(&json).unwrap()).unwrap();
    let mut bounds = [0; Bound::ALL.len()];
    events.chunk_by(|a, b| a.number == b.number).for_each(|one| replay(one, &mut bounds));
    let sharing = |number| events.iter().any(|e| e.number == number && e.peers.others.count == 1);
    let numbers: std::collections::BTreeSet<u64> = events.iter().map(|event| event.number).collect();
    assert_eq!(numbers.into_iter().filter(|number| sharing(*number)).count(), 2, "{} events", events.len());
    let flows = results["scenarios"][0]["cases"][0]["figures"]["transfer"]["flows"].as_array().unwrap();
    let rates: Vec<f64> = flows.iter().map(|flow| flow["goodput_mbps"].as_f64().unwrap()).collect();
    eprintln!("{rates:?} Mbit/s");
    assert!(rates.len() == 2 && rates[0] < rates[1] * 1.25 && rates[1] < rates[0] * 1.25, "{rates:?}");
    assert!(program.paths().unwrap() >= 1);
}

/// `cellerator congestion load …` in a namespace, once it is ready.
fn load(namespace: &Namespace, more: &[&str]) -> Child {
    let mut child = spawn(namespace, &[&["congestion", "load"], more].concat());
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    if !lines.by_ref().map_while(Result::ok).any(|line| line.starts_with("ready")) {
        let mut said = String::new();
        child.stderr.take().unwrap().read_to_string(&mut said).unwrap();
        panic!("{said}");
    }
    child
}

/// What `cellerator congestion …` says where it fails: one line.
pub(super) fn refusal(namespace: &Namespace, arguments: &[&str]) -> String {
    let output = spawn(namespace, &[&["congestion"], arguments].concat()).wait_with_output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(!output.status.success() && said.lines().count() == 1, "{said}");
    said
}

pub(super) fn is_available() -> bool {
    available().split_whitespace().any(|one| one == KERNEL_NAME)
}

/// A connection that is no MPTCP, to a port of the server.
fn plain(world: &World, port: u16) -> (std::net::TcpStream, std::net::TcpStream, std::net::TcpListener) {
    let at = std::net::SocketAddr::new(super::daemon::SERVER.parse().unwrap(), port);
    let listener = world.server.run(|| io::listen_multi_path(at, false)).unwrap().unwrap();
    let time = Duration::from_secs(5);
    let near = world.client.run(|| io::connect_multi_path(at, false, time)).unwrap().unwrap();
    let (far, _) = listener.accept().unwrap();
    (near, far, listener)
}

#[test]
fn connections_of_the_port_use_it_and_a_kill_takes_it_away() {
    if !is_possible() {
        return;
    }
    let _own = own_name();
    let world = World::new("ca");
    let before = sysctl::read(&world.server, "net/ipv4/tcp_congestion_control").unwrap();
    assert!(refusal(&world.server, &["unload"]).contains("no congestion control is loaded"));
    let mut holder = load(&world.server, &["--port", "9001"]);
    assert!(is_available());
    let second = refusal(&world.client, &["load"]);
    assert!(second.contains(&format!("of process {}", holder.id())), "{second}");

    let (mut near, mut far, _listener) = plain(&world, 9_001);
    let (_other_near, _other_far, _other_listener) = plain(&world, 9_002);
    // Subflows of MPTCP are left to `multipath congestion`.
    let (_multi_near, _multi_far, _multi_listener) = world.connect();
    assert_eq!(of_port(&world.server, 9_001), [KERNEL_NAME]);
    assert_eq!(of_port(&world.server, 9_002), [before.trim()]);
    assert_eq!(of_port(&world.server, 9_000), [before.trim()]);
    assert_eq!(of_port(&world.client, 9_001), [before.trim()], "the client has its own");
    transfer(&mut far, &mut near);

    let status = spawn(&world.client, &["congestion", "status", "--json"]).wait_with_output().unwrap();
    let status: Value = serde_json::from_slice(&status.stdout).unwrap();
    schema::check_against(&status, include_str!("../../../../schemas/congestion-status.schema.json"));
    let loaded = &status["loaded"][0];
    assert_eq!((&loaded["is_here"], &loaded["namespace_name"]), (&false.into(), &world.server.name().into()));
    let connection = &loaded["connections"][0];
    assert_eq!(loaded["connections"].as_array().unwrap().len(), 1, "{status}");
    let own = near.local_addr().unwrap();
    assert_eq!(connection["remote"], own.ip().to_string());
    assert_eq!((&connection["remote_port"], &connection["local_port"]), (&own.port().into(), &9_001.into()));
    assert!(connection["floor_ms"].as_f64().unwrap() < 100.0, "{status}");
    assert!(connection["window_bytes"].as_u64().unwrap() >= 4 * 1_000, "{status}");
    let told = spawn(&world.server, &["congestion", "status"]).wait_with_output().unwrap();
    let told = String::from_utf8_lossy(&told.stdout).into_owned();
    assert!(told.contains("new connections with local port 9001 in this network namespace use it"), "{told}");

    signal(&mut holder, SIGKILL);
    until("it is taken from the kernel's list", || !is_available());
    assert_eq!(sysctl::read(&world.server, "net/ipv4/tcp_congestion_control").unwrap(), before);
    // What runs goes on with it, and carries data.
    assert_eq!(of_port(&world.server, 9_001), [KERNEL_NAME]);
    transfer(&mut far, &mut near);
    // What begins does not use it.
    let (_near, _far, _again) = plain(&world, 9_003);
    assert_eq!(of_port(&world.server, 9_003), [before.trim()]);
    // And it can be loaded again, for all, and unloaded.
    let mut all = load(&world.server, &[]);
    let (_near, _far, _all) = plain(&world, 9_004);
    assert_eq!(of_port(&world.server, 9_004), [KERNEL_NAME]);
    let unloaded = spawn(&world.client, &["congestion", "unload"]).wait_with_output().unwrap();
    assert!(unloaded.status.success(), "{unloaded:?}");
    all.wait().unwrap();
    assert!(!is_available());
    signal(&mut load(&world.server, &["--register-only"]), SIGTERM);
    assert!(!is_available());
}

#[test]
fn what_cannot_be_loaded_is_one_line() {
    if !is_possible() {
        return;
    }
    let _own = own_name();
    let world = World::new("car");
    let wrong = refusal(&world.server, &["load", "--cgroup", "/no/such/group"]);
    assert!(wrong.contains("open the control group /no/such/group"), "{wrong}");
    assert!(!is_available(), "nothing is left of it");
    let mut command = Command::new("setpriv");
    command.args(["--reuid=65534", "--regid=65534", "--clear-groups", "--bounding-set=-all"]);
    // Where others may not look, it is copied.
    let all = std::fs::Permissions::from_mode(0o755);
    let folder = tempfile::Builder::new().permissions(all).tempdir().unwrap();
    let copy = folder.path().join("cellerator");
    std::fs::copy(env!("CARGO_BIN_EXE_cellerator"), &copy).unwrap();
    let output = command.arg(&copy).args(["congestion", "load"]).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(!output.status.success() && said.lines().count() == 1, "{said}");
    assert!(said.contains("CAP_BPF") || said.contains("root"), "{said}");
    // A kernel before 6.4, by its types.
    let types =
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../linux/coupled/tests/btf/debian-12-linux-6.1.btf");
    let error = io::bpf::congestion_controls(Some(&types)).unwrap_err().to_string();
    assert!(error.contains("is missing") && error.lines().count() == 1, "{error}");
}

/// Between real kernels on a varying link: more of the link than BBR, with a shorter queue.
#[test]
fn its_queue_is_shorter_than_bbrs_at_no_less_of_the_link() {
    if !is_possible() {
        return;
    }
    let _own = own_name();
    let arguments = ["contest", "4g-lte", "--lab", "--seconds", "12", "--no-limit", "--json", "-"];
    let output = cellerator(&[&arguments[..], &["--schemes", "direct:bbr,kernel:adaptive"]].concat());
    let said = String::from_utf8_lossy(&output.stderr);
    let results: Value = serde_json::from_slice(&output.stdout).unwrap_or_else(|e| panic!("{e}: {said}"));
    let runs = results["runs"].as_array().unwrap().iter();
    // Absent where there are none.
    let problems: Vec<&str> = runs
        .flat_map(|run| run["problems"].as_array().into_iter().flatten())
        .filter_map(Value::as_str)
        .collect();
    assert_eq!(output.status.success(), problems.is_empty(), "{said}");
    // A machine that stood still for a while: throughput can have moved, and the command says by how much.
    let is_late = |problem: &&str| problem.starts_with("do not trust its throughput: the emulator was late");
    assert!(problems.iter().all(is_late), "{said}");
    let moved = if problems.is_empty() { 0.0 } else { 0.1 };
    let of = |scheme: &str, figure: &dyn Fn(&Value) -> Option<f64>| {
        let runs = results["runs"].as_array().unwrap();
        figure(runs.iter().find(|run| run["scheme"] == scheme).unwrap()).unwrap()
    };
    let used = |scheme| of(scheme, &|run| run["utilisation"].as_f64());
    let queue = |scheme| of(scheme, &|run| run["queue_ms"]["p95"].as_f64());
    let (bbr, own) = ("direct:bbr", "kernel:adaptive");
    assert!(used(own) > used(bbr) - 0.03 - moved, "{} of the link, BBR {}", used(own), used(bbr));
    assert!(queue(own) < 0.75 * queue(bbr), "{} ms, BBR {} ms", queue(own), queue(bbr));
    assert!(!is_available(), "the contest takes it away");
}

#[test]
fn the_unit_for_every_boot_is_written_and_taken_away_again() {
    let root = tempfile::tempdir().unwrap();
    let root = root.path();
    let folder = root.join("etc/systemd/system");
    let (unit, wanted) = (
        folder.join("cellerator-congestion.service"),
        folder.join("multi-user.target.wants/cellerator-congestion.service"),
    );
    let install = |more: &[&str]| {
        let root = root.to_str().unwrap();
        let done = cellerator(&[&["congestion", "install", "--root", root], more].concat());
        let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
        (done.status.code(), text(done.stdout) + &text(done.stderr))
    };
    let (code, said) = install(&["--remove"]);
    assert_eq!((code, said.trim_end().lines().count()), (Some(1), 1), "{said}");
    assert!(said.contains("nothing was installed"), "{said}");
    // Twice: the later arguments count.
    for (more, end) in [
        (&["--port", "443", "--cgroup", "/a b"][..], "congestion load --port 443 --cgroup \"/a b\""),
        (&["--register-only"], "congestion load --register-only"),
    ] {
        let (code, said) = install(more);
        assert_eq!(code, Some(0), "{said}");
        let text = std::fs::read_to_string(&unit).unwrap();
        let line = text.lines().find(|line| line.starts_with("ExecStart=/")).unwrap();
        assert!(line.ends_with(end), "{line}");
        let program = line.strip_prefix("ExecStart=").unwrap().split(" congestion").next().unwrap();
        assert!(text.contains(&format!("\nConditionFileIsExecutable={program}\n")), "{text}");
        assert_eq!(
            std::fs::read_link(&wanted).unwrap(),
            Path::new("/etc/systemd/system/cellerator-congestion.service")
        );
    }
    let (code, said) = install(&["--remove"]);
    assert_eq!(code, Some(0), "{said}");
    assert!(!unit.exists() && std::fs::symlink_metadata(&wanted).is_err());
    // A package's unit of this name that is enabled stays so.
    let packaged = Path::new("/lib/systemd/system/cellerator-congestion.service");
    symlink(packaged, &wanted).unwrap();
    assert_eq!((install(&[]).0, install(&["--remove"]).0), (Some(0), Some(0)));
    assert_eq!(std::fs::read_link(&wanted).unwrap(), packaged);
    // A unit that is masked is told from one that was written.
    symlink("/dev/null", &unit).unwrap();
    for more in [&[][..], &["--remove"]] {
        let (code, said) = install(more);
        assert_eq!((code, said.trim_end().lines().count()), (Some(1), 1), "{said}");
        assert!(said.contains("is a link to /dev/null"), "{said}");
    }
    // This machine's own, where systemd is not at work.
    if !Path::new("/run/systemd/system").exists() {
        let done = cellerator(&["congestion", "install"]);
        let said = String::from_utf8(done.stderr).unwrap();
        assert_eq!((done.status.code(), said.trim_end().lines().count()), (Some(1), 1), "{said}");
        assert!(said.contains("systemd does not run here"), "{said}");
    }
}
