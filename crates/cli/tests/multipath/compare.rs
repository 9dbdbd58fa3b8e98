//! `cellerator congestion compare` in the running kernel: each connection has the congestion control of its group, all
//! are counted, and nothing is left of it.

use std::collections::BTreeSet;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{IpAddr, Ipv6Addr, SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, Output};

use congestion::{Group, KERNEL_NAME, Split, Unit};
use io::{Namespace, sysctl};
use serde_json::Value;
use socket2::{Domain, SockAddr, SockRef, Socket, Type};

use super::congestion::{is_available, is_possible, own_name, refusal};
use super::coupled::of_port;
use super::daemon::{SERVER, SIGKILL, SIGTERM, World, ip, spawn, until};
use crate::schema;

const SIGINT: i32 = 2;
/// What each download has, bytes.
const LEN: usize = 500_000;
/// The link to the clients: its rate, and the bytes that may wait.
const RATE_MBPS: f64 = 40.0;
const QUEUE_LEN: f64 = 250_000.0;

/// `cellerator congestion compare …` in a namespace, once it is ready.
fn compare(namespace: &Namespace, more: &[&str]) -> Child {
    let mut child = spawn(namespace, &[&["congestion", "compare", "--json"], more].concat());
    // Words go beside the document.
    let mut said = BufReader::new(child.stderr.take().unwrap());
    let mut line = String::new();
    said.read_line(&mut line).unwrap();
    assert!(line.starts_with("ready: "), "{line}");
    // What it says later must not fill the pipe.
    std::thread::spawn(move || std::io::copy(&mut said, &mut std::io::sink()));
    child
}

/// Ends one; what it printed, which is as the schema says.
fn finish(child: Child, signal: i32) -> Value {
    io::PidFd::open(child.id()).unwrap().send_signal(signal).unwrap();
    let Output { status, stdout, .. } = child.wait_with_output().unwrap();
    assert_eq!(status.code(), Some(128 + signal));
    let report: Value = serde_json::from_slice(&stdout).unwrap();
    schema::check_against(&report, include_str!("../../../../schemas/congestion-compare.schema.json"));
    report
}

/// A download: its two ends.
struct Download {
    near: TcpStream,
    far: TcpStream,
}

impl Download {
    /// From the server to an address of the client.
    fn begin(world: &World, listener: &TcpListener, from: &str) -> Self {
        let at = SocketAddr::new(SERVER.parse().unwrap(), listener.local_addr().unwrap().port());
        let connect = || {
            let socket = Socket::new(Domain::IPV4, Type::STREAM, None)?;
            socket.bind(&SockAddr::from(SocketAddr::new(from.parse().unwrap(), 0)))?;
            socket.connect(&SockAddr::from(at))?;
            std::io::Result::Ok(TcpStream::from(socket))
        };
        let near = world.client.run(connect).unwrap().unwrap();
        Self { near, far: listener.accept().unwrap().0 }
    }

    fn carry(&mut self) {
        let (near, far) = (&mut self.near, &mut self.far);
        std::thread::scope(|scope| {
            scope.spawn(|| far.write_all(&vec![7; LEN]).unwrap());
            near.read_exact(&mut vec![0; LEN]).unwrap();
        });
    }

    /// Which congestion control its server's end has.
    fn control(&self) -> String {
        let name = SockRef::from(&self.far).tcp_congestion().unwrap();
        String::from_utf8(name).unwrap().trim_end_matches('\0').to_owned()
    }

    fn group(&self, split: Split) -> Group {
        split.group(self.far.peer_addr().unwrap(), self.far.local_addr().unwrap())
    }

    /// Both ends close, the server's first, and the kernel forgets it.
    fn end(self) {
        drop(self.far);
        let mut near = self.near;
        assert_eq!(near.read(&mut [0]).unwrap(), 0);
    }
}

/// A listener of IPv6 that takes IPv4, as most servers have it.
fn listen(world: &World, port: u16) -> TcpListener {
    let at = SocketAddr::new(IpAddr::V6(Ipv6Addr::UNSPECIFIED), port);
    world.server.run(|| TcpListener::bind(at)).unwrap().unwrap()
}

fn world(name: &str, clients: u8) -> (World, Vec<String>) {
    let world = World::new(name);
    let addresses: Vec<String> = (0..clients).map(|n| format!("10.100.0.{}", 10 + n)).collect();
    let lines: Vec<String> = addresses.iter().map(|one| format!("addr add {one}/24 dev wifi0")).collect();
    ip(&world.client, &lines.join("\n"));
    let bucket = format!("rate {RATE_MBPS}mbit burst 10000 limit {QUEUE_LEN}");
    let mut tc = std::process::Command::new("tc");
    tc.args(format!("qdisc add dev wifi0 root tbf {bucket}").split(' '));
    let mut child = world.server.spawn(tc, io::SpawnOptions::default()).unwrap();
    assert!(child.wait().unwrap().success());
    (world, addresses)
}

/// The control that a group has.
fn of_group(group: Group, other: &str) -> &str {
    if group == Group::Adaptive { KERNEL_NAME } else { other }
}

fn number(report: &Value, path: &str) -> f64 {
    report.pointer(path).and_then(Value::as_f64).unwrap_or_else(|| panic!("{path} in {report}"))
}

/// What is compared, by name and group, is what can be on this link.
fn is_plausible(report: &Value, names: [&str; 2]) {
    for name in names {
        let metric = |metric: usize| number(report, &format!("/metrics/{metric}/{name}/value"));
        let (goodput, rtt, queueing, resent) = (metric(0), metric(1), metric(2), metric(3));
        // The bucket lets a part of so short a download pass at once.
        assert!(goodput > 1e6 && goodput < 2.0 * RATE_MBPS * 1e6, "{name}: {goodput} bit/s");
        assert!(queueing > 0.0 && queueing <= rtt, "{name}: {queueing} ms of {rtt} ms");
        // A processor that is late, too, makes round trips long.
        let full_ms = QUEUE_LEN * 8.0 / RATE_MBPS / 1e3;
        assert!(queueing < 5.0 * full_ms, "{name}: {queueing} ms, a full queue is {full_ms} ms");
        assert!((0.0..50.0).contains(&resent), "{name}: {resent} %");
    }
    for (at, neutral) in [(0, 1.0), (1, 0.0), (2, 0.0), (3, 0.0)] {
        let of = |end: &str| number(report, &format!("/metrics/{at}/change/{end}"));
        let (low, value, high) = (of("low"), of("value"), of("high"));
        assert!(low <= value && value <= high, "{report}");
        let shows = match (low > neutral, high < neutral) {
            (true, _) => "higher",
            (_, true) => "lower",
            _ => "no-change",
        };
        assert_eq!(report["metrics"][at]["shows"], shows, "{report}");
    }
}

#[test]
fn clients_are_in_two_groups_and_all_of_them_are_counted() {
    if !is_possible() {
        return;
    }
    let _own = own_name();
    let (world, clients) = world("cmp", 24);
    let before = sysctl::read(&world.server, "net/ipv4/tcp_congestion_control").unwrap();
    let (listener, other_listener) = (listen(&world, 9_001), listen(&world, 9_002));
    let arguments = ["--with", "reno", "--port", "9001", "--seed", "5", "--for", "10 min"];
    let child = compare(&world.server, &arguments);
    let split = Split { seed: 5, by: Unit::Client };

    let mut counts = [0_u64; 2];
    let mut running = None;
    // Two for each client: the second one has the control of the first one.
    for round in 0..2 {
        for client in &clients {
            let mut download = Download::begin(&world, &listener, client);
            let group = download.group(split);
            assert_eq!(download.control(), of_group(group, "reno"), "{client}");
            download.carry();
            counts[group as usize] += 1;
            match (round, &running) {
                (1, None) => running = Some(download),
                _ => download.end(),
            }
        }
    }
    assert!(counts.iter().all(|count| *count >= 8), "about half: {counts:?}");
    let another = Download::begin(&world, &other_listener, &clients[0]);
    assert_eq!(another.control(), before.trim(), "another port's are left alone");

    let status = spawn(&world.client, &["congestion", "status", "--json"]).wait_with_output().unwrap();
    let status: Value = serde_json::from_slice(&status.stdout).unwrap();
    schema::check_against(&status, include_str!("../../../../schemas/congestion-status.schema.json"));
    let comparison = &status["loaded"][0]["comparison"];
    assert_eq!((&comparison["with"], &comparison["by"]), (&"reno".into(), &"client".into()), "{status}");
    assert_eq!((&comparison["seed"], &comparison["planned_ms"]), (&5.into(), &600_000.into()));
    let told = spawn(&world.server, &["congestion", "status"]).wait_with_output().unwrap();
    let told = String::from_utf8_lossy(&told.stdout).into_owned();
    assert!(told.contains("half 'reno': a comparison is under way, by client, seed 5"), "{told}");
    let second = refusal(&world.server, &["load"]);
    assert!(second.contains(&format!("of process {}", child.id())), "{second}");

    let record = format!("/run/cellerator/server-congestion-{}", child.id());
    assert!(Path::new(&record).exists());
    let report = finish(child, SIGINT);
    assert!(!is_available() && !Path::new(&record).exists(), "nothing is left");
    for (group, name, control) in
        [(Group::Other, "other", "reno"), (Group::Adaptive, "adaptive", KERNEL_NAME)]
    {
        let side = &report[name];
        let connections = counts[group as usize];
        assert_eq!((&side["control"], &side["connections"]), (&control.into(), &connections.into()));
        assert_eq!((&side["units"], &side["refused"]), (&(connections / 2).into(), &0.into()), "{report}");
        // A FIN counts as a byte, and the last acknowledgement of the running one was not looked at.
        let bytes = connections as f64 * LEN as f64;
        let counted = number(side, "/bytes");
        assert!(
            counted > bytes - LEN as f64 && counted < bytes + 2.0 * connections as f64,
            "{counted}, {bytes}"
        );
    }
    let of_both = number(&report, "/other/running") + number(&report, "/adaptive/running");
    assert_eq!((of_both, &report["lost_connections"]), (1.0, &0.into()), "{report}");
    is_plausible(&report, ["other", "adaptive"]);

    // What runs goes on; what begins has what it had before.
    let mut running = running.unwrap();
    assert_eq!(running.control(), of_group(running.group(split), "reno"));
    running.carry();
    for client in &clients {
        assert_eq!(Download::begin(&world, &listener, client).control(), before.trim());
    }
}

#[test]
fn connections_of_one_client_are_split_and_subflows_are_left_alone() {
    if !is_possible() {
        return;
    }
    let _own = own_name();
    let (world, clients) = world("cmpc", 1);
    let before = sysctl::read(&world.server, "net/ipv4/tcp_congestion_control").unwrap();
    let listener = listen(&world, 9_001);
    let child = compare(&world.server, &["--by", "connection", "--seed", "7"]);
    let split = Split { seed: 7, by: Unit::Connection };
    let mut controls = BTreeSet::new();
    let mut counts = [0_u64; 2];
    for _ in 0..24 {
        let mut download = Download::begin(&world, &listener, &clients[0]);
        let group = download.group(split);
        // The other one is what the sysctl names.
        assert_eq!(download.control(), of_group(group, before.trim()));
        controls.insert(download.control());
        counts[group as usize] += 1;
        download.carry();
        download.end();
    }
    assert_eq!(controls.len(), 2, "{counts:?}");
    let subflow = world.connect();
    assert_eq!(of_port(&world.server, 9_000), [before.trim()]);
    drop(subflow);
    let report = finish(child, SIGTERM);
    let units = |name: &str| report[name]["units"].as_u64().unwrap();
    assert_eq!([units("other"), units("adaptive")], counts, "{report}");
    is_plausible(&report, ["other", "adaptive"]);
}

#[test]
fn a_killed_comparison_leaves_nothing_and_what_cannot_be_compared_is_one_line() {
    if !is_possible() {
        return;
    }
    let _own = own_name();
    let (world, clients) = world("cmpk", 4);
    let before = sysctl::read(&world.server, "net/ipv4/tcp_congestion_control").unwrap();
    let wrong = |more: &[&str]| refusal(&world.server, &[&["compare"], more].concat());
    let said = wrong(&["--with", "no_such"]);
    assert!(said.contains("'no_such' is missing: this kernel has") && said.contains("reno"), "{said}");
    assert!(wrong(&["--with", KERNEL_NAME]).contains("compared with itself"));
    assert!(wrong(&["--cgroup", "/no/such/group"]).contains("open the control group /no/such/group"));
    assert!(wrong(&["--cgroup", "/proc"]).contains("no folder in the tree of cgroup2"));
    assert!(wrong(&["--for", "900 ms"]).contains("at least 1 s"));
    assert!(!is_available(), "nothing is left of it");

    let listener = listen(&world, 9_001);
    let mut child = compare(&world.server, &["--with", "reno"]);
    let begin = || clients.iter().map(|client| Download::begin(&world, &listener, client));
    assert!(begin().all(|one| [KERNEL_NAME, "reno"].contains(&one.control().as_str())));
    io::PidFd::open(child.id()).unwrap().send_signal(SIGKILL).unwrap();
    child.wait().unwrap();
    until("it is taken from the kernel's list", || !is_available());
    assert!(begin().all(|one| one.control() == before.trim()));
    assert!(refusal(&world.server, &["unload"]).contains("no congestion control is loaded"));

    // Its time is over, and nobody came.
    let arguments = ["congestion", "compare", "--for", "1 s", "--port", "9009"];
    let output = spawn(&world.server, &arguments).wait_with_output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success() && said.contains("nothing was measured"), "{said}");
    assert!(!is_available());
}
