//! The path manager by itself, as users start it, ask it and kill it: between two namespaces without emulator.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::process::{Child, Command, Output, Stdio};
use std::sync::{Arc, Mutex};

use io::netlink::{EndpointFlags, Family, MptcpEndpoint, Netlink, PathManager, Place, SocketDiagnosis};
use io::{Clock, Host, Namespace, SpawnOptions, Waiter, lay_cable, sysctl};
use serde_json::Value;
use units::Duration;

use super::has_mptcp;
use crate::schema;

/// Interface, the client's address, the server's.
const UPLINKS: [(&str, &str, &str); 2] =
    [("wifi0", "10.100.0.2", "10.100.0.1"), ("lte0", "10.101.0.2", "10.101.0.1")];
pub(super) const SERVER: &str = "10.9.0.1";
pub(super) const SIGKILL: i32 = 9;
pub(super) const SIGTERM: i32 = 15;
const PATIENCE: Duration = Duration::from_secs(15);

fn pause() {
    Waiter::new(Duration::ZERO).unwrap().wait(Some(Clock::now() + Duration::from_millis(20))).unwrap();
}

/// Waits until `is_so`; what is not so in time is a failure.
pub(super) fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    let limit = Clock::now() + PATIENCE;
    while !is_so() {
        assert!(Clock::now() < limit, "not in time: {what}");
        pause();
    }
}

/// A client with two uplinks and a server with `cellerator probe server`.
pub(super) struct World {
    pub(super) client: Host,
    pub(super) server: Host,
    probes: Child,
}

impl World {
    pub(super) fn new(name: &str) -> Self {
        let make = |host: &str| {
            let name = format!("cellmp-{name}-{}-{host}", std::process::id());
            // A name that a killed run of this test has left.
            let _ = Namespace::remove(&name);
            Host::create(&name).unwrap()
        };
        let (client, server) = (make("c"), make("s"));
        ip(&client, "link set lo up");
        ip(&server, &format!("link set lo up\naddr add {SERVER}/32 dev lo"));
        for (i, (name, own, peer)) in UPLINKS.into_iter().enumerate() {
            let [own, far] = [own, peer].map(|address| format!("{address}/24"));
            lay_cable([(&client, name, &[&own]), (&server, name, &[&far])]).unwrap();
            ip(&client, &format!("route add default via {peer} dev {name} metric {}", 100 + i));
        }
        for namespace in [&client, &server] {
            namespace.set("net/mptcp/enabled", "1").unwrap();
            namespace.set("net/ipv4/conf/all/rp_filter", "0").unwrap();
        }
        let probes = spawn(&server, &["probe", "server", "--listen", &format!("{SERVER}:7311")]);
        Self { client, server, probes }
    }

    /// Runs `cellerator` at the client to its end.
    pub(super) fn cellerator(&self, arguments: &[&str]) -> Output {
        spawn(&self.client, arguments).wait_with_output().unwrap()
    }

    pub(super) fn status(&self) -> Value {
        let output = self.cellerator(&["multipath", "status", "--json"]);
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let status: Value = serde_json::from_slice(&output.stdout).unwrap();
        schema::check_against(&status, include_str!("../../../../schemas/multipath-status.schema.json"));
        status
    }

    fn sysctl(&self, name: &str) -> String {
        sysctl::read(&self.client, &format!("net/ipv4/{name}")).unwrap()
    }

    pub(super) fn endpoints(&self) -> usize {
        self.client.run(|| PathManager::open().unwrap().endpoints().unwrap().len()).unwrap()
    }

    /// A connection with a byte each way; further subflows need the listener.
    pub(super) fn connect(&self) -> (TcpStream, TcpStream, TcpListener) {
        self.connect_at(format!("{SERVER}:9000").parse().unwrap())
    }

    /// The same to an address of the server.
    pub(super) fn connect_at(&self, at: SocketAddr) -> (TcpStream, TcpStream, TcpListener) {
        let listener = self.server.run(|| io::listen_multi_path(at, true)).unwrap().unwrap();
        let time = Duration::from_secs(5);
        let mut near = self.client.run(|| io::connect_multi_path(at, true, time)).unwrap().unwrap();
        let (mut far, _) = listener.accept().unwrap();
        near.write_all(b"a").unwrap();
        far.read_exact(&mut [0]).unwrap();
        far.write_all(b"b").unwrap();
        near.read_exact(&mut [0]).unwrap();
        (near, far, listener)
    }

    /// What an administrator without a path manager does: an endpoint for each uplink.
    pub(super) fn add_endpoints(&self) {
        let add = || {
            let (manager, netlink) = (PathManager::open().unwrap(), Netlink::open().unwrap());
            for (name, address, _) in UPLINKS {
                let interface = Some(netlink.index_of(name).unwrap().get());
                let address = address.parse().unwrap();
                let flags = EndpointFlags::SUBFLOW;
                manager.add(&MptcpEndpoint { id: 0, address, port: 0, interface, flags }).unwrap();
            }
        };
        self.client.run(add).unwrap();
    }

    pub(super) fn subflows(&self) -> Vec<io::netlink::Subflow> {
        self.client.run(|| SocketDiagnosis::open().unwrap().subflows().unwrap()).unwrap()
    }
}

impl Drop for World {
    fn drop(&mut self) {
        let _ = self.probes.kill();
        let _ = self.probes.wait();
    }
}

pub(super) fn spawn(namespace: &Namespace, arguments: &[&str]) -> Child {
    let mut command = Command::new(env!("CARGO_BIN_EXE_cellerator"));
    command.args(arguments).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let options = SpawnOptions { death_signal: Some(SIGKILL), own_process_group: true };
    namespace.spawn(command, options).unwrap()
}

pub(super) fn ip(namespace: &Namespace, lines: &str) {
    namespace.ip(lines).unwrap_or_else(|error| panic!("{error}: {lines}"));
}

/// A running path manager.
pub(super) struct Daemon {
    child: Child,
    said: Arc<Mutex<Vec<String>>>,
}

impl Daemon {
    pub(super) fn start(world: &World, more: &[&str]) -> Self {
        let daemon = Self::start_at(world, SERVER, 2, more);
        // Of a connection that begins between the two, the kernel does not know that its first subflow has the address of
        // the second one, and has that join, too.
        until("both endpoints are there", || world.endpoints() == 2);
        daemon
    }

    /// Starts one whose probes go to `server`, and waits until so many paths are up.
    pub(super) fn start_at(world: &World, server: &str, paths: usize, more: &[&str]) -> Self {
        let mut arguments = vec!["multipath", "run", "--server", server];
        arguments.extend(more);
        let mut child = spawn(&world.client, &arguments);
        let said: Arc<Mutex<Vec<String>>> = Arc::default();
        let (lines, stdout) = (Arc::clone(&said), child.stdout.take().unwrap());
        std::thread::spawn(move || {
            BufReader::new(stdout).lines().map_while(Result::ok).for_each(|l| lines.lock().unwrap().push(l));
        });
        let daemon = Self { child, said };
        until("the paths are up", || {
            daemon.said.lock().unwrap().iter().filter(|line| line.contains("down -> up")).count() == paths
        });
        daemon
    }

    pub(super) fn has_said(&self, words: &str) -> bool {
        self.said.lock().unwrap().iter().any(|line| line.contains(words))
    }

    /// The process that would undo everything after a kill.
    fn guard(&self) -> u32 {
        let record = format!("/run/cellerator/multipath-{}/record", self.child.id());
        let record: Value = serde_json::from_str(&std::fs::read_to_string(record).unwrap()).unwrap();
        u32::try_from(record["guard"].as_u64().unwrap()).unwrap()
    }

    pub(super) fn end(mut self, signal: i32) {
        io::PidFd::open(self.child.id()).unwrap().send_signal(signal).unwrap();
        self.child.wait().unwrap();
    }
}

#[test]
fn it_says_how_it_is_and_lets_a_path_be_retired() {
    if !has_mptcp() {
        return;
    }
    let world = World::new("status");
    let limits = || world.client.run(|| PathManager::open().unwrap().limits().unwrap()).unwrap();
    let (before, rto) = (limits(), world.sysctl("tcp_keepalive_time"));
    let daemon = Daemon::start(&world, &["--keep-alive", "50 s"]);
    assert_eq!(world.sysctl("tcp_keepalive_time"), "50");
    // A connection of before has a second subflow on the path of its first one.
    until("both endpoints are there", || world.endpoints() == 2);
    let connection = world.connect();
    until("a second subflow joins", || world.subflows().iter().filter(|s| s.is_established).count() == 2);
    until("it is in the status", || {
        let status = world.status();
        let flows = |i: usize| status["paths"][i]["subflows"].as_array().unwrap().len();
        status["connections"] == 1 && flows(0) == 1 && flows(1) == 1
    });
    let output = world.cellerator(&["multipath", "paths", "--retire", "lte0"]);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    until("it drains and its endpoint goes", || world.endpoints() == 1);
    let lte = world.status()["paths"][0].clone();
    assert!(lte["name"] == "lte0" && lte["is_retired"] == true && lte["state"] == "down", "{lte}");
    assert!(world.cellerator(&["multipath", "paths", "--resume", "lte0"]).status.success());
    until("it comes back", || world.endpoints() == 2);
    let refused = world.cellerator(&["multipath", "paths", "--retire", "nowhere0"]);
    let stderr = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(!refused.status.success() && stderr.contains("nowhere0") && stderr.contains("wifi0"), "{stderr}");
    let second = world.cellerator(&["multipath", "run", "--server", SERVER]);
    assert!(String::from_utf8_lossy(&second.stderr).contains("runs here already"));
    drop(connection);
    until("the connection is gone", || world.subflows().iter().all(|s| !s.is_established));
    daemon.end(SIGTERM);
    assert_eq!((limits(), world.sysctl("tcp_keepalive_time"), world.endpoints()), (before, rto, 0));
}

#[test]
fn a_server_that_never_answers_is_named() {
    if !has_mptcp() {
        return;
    }
    let world = World::new("silent");
    let mut child = spawn(&world.client, &["multipath", "run", "--server", "10.9.9.77"]);
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines().map_while(Result::ok);
    let said = lines.find(|line| line.contains("no answer from 10.9.9.77:7311 on any path")).unwrap();
    assert!(said.contains("cellerator probe server") && said.contains("UDP port 7311"), "{said}");
    let lacks = world.status()["lacks"].to_string();
    assert!(lacks.contains("no answer from 10.9.9.77"), "{lacks}");
    // It begins to answer: that is said, and nothing is lacking any more.
    ip(&world.server, "addr add 10.9.9.77/32 dev lo");
    let mut late = spawn(&world.server, &["probe", "server", "--listen", "10.9.9.77:7311"]);
    assert!(lines.any(|line| line.contains("probes are answered now")));
    assert!(!world.status()["lacks"].to_string().contains("no answer from"));
    for child in [&mut child, &mut late] {
        io::PidFd::open(child.id()).unwrap().send_signal(SIGTERM).unwrap();
        child.wait().unwrap();
    }
}

/// Metrics of the client's default routes through an interface, and the rest of a lifetime that they have.
pub(super) fn default_routes(world: &World, family: Family, name: &str) -> Vec<(u32, Option<u64>)> {
    let netlink = world.client.netlink().unwrap();
    let index = netlink.index_of(name).unwrap();
    let routes = netlink.default_routes(family).unwrap();
    routes
        .iter()
        .filter(|route| route.leads_through(index))
        .map(|route| (route.metric(), route.lifetime().map(Duration::as_secs)))
        .collect()
}

#[test]
fn routes_of_one_metric_are_demoted_and_come_back() {
    if !has_mptcp() {
        return;
    }
    let world = World::new("metric");
    let other = "default via 10.101.0.1 dev lte0 metric";
    ip(&world.client, &format!("route del {other} 101\nroute append {other} 100"));
    let of = |name| default_routes(&world, Family::V4, name);
    assert_eq!([of("wifi0"), of("lte0")], [[(100, None)], [(100, None)]]);
    let daemon = Daemon::start(&world, &[]);
    // What the server answers over Wi-Fi is lost.
    ip(&world.server, "route add blackhole 10.100.0.2/32");
    until("its route is demoted", || of("wifi0") == [(1_000_100, None)]);
    assert_eq!(of("lte0"), [(100, None)]);
    // Somebody adds it anew, as when a lease is renewed.
    ip(&world.client, "route append default via 10.100.0.1 dev wifi0 metric 100");
    until("that one is demoted, too", || of("wifi0") == [(1_000_100, None)]);
    ip(&world.server, "route del blackhole 10.100.0.2/32");
    until("its route is back", || of("wifi0") == [(100, None)]);
    assert_eq!(of("lte0"), [(100, None)]);
    // Both dead at the same metric, at the end: nothing is lost.
    ip(&world.server, "route add blackhole 10.100.0.2/32");
    until("its route is demoted again", || of("wifi0") == [(1_000_100, None)]);
    daemon.end(SIGTERM);
    assert_eq!([of("wifi0"), of("lte0")], [[(100, None)], [(100, None)]]);
}

#[test]
fn a_route_keeps_the_lifetime_that_its_router_told() {
    let world = World::new("expires");
    ip(
        &world.client,
        "addr add fd00:100::2/64 dev wifi0 nodad\nroute add default via fd00:100::1 dev wifi0 proto ra metric 1024 expires \
         600",
    );
    let netlink = world.client.netlink().unwrap();
    let only = || netlink.default_routes(Family::V6).unwrap().remove(0);
    let route = only();
    let left = |routes: Vec<(u32, Option<u64>)>| {
        let [(metric, Some(left))] = routes[..] else { panic!("{routes:?}") };
        assert!((580..=600).contains(&left), "{left} s are left");
        metric
    };
    assert_eq!(left(default_routes(&world, Family::V6, "wifi0")), 1_024);
    netlink.add_default_route(&route.demoted(), Place::Last).unwrap();
    netlink.delete_default_route(&route).unwrap();
    assert_eq!(left(default_routes(&world, Family::V6, "wifi0")), 1_001_024);
    let copy = only();
    assert!(copy.is_demoted() && copy.leads_as(&route));
    netlink.add_default_route(&route.with_lifetime_of(&copy), Place::Last).unwrap();
    netlink.delete_default_route(&copy).unwrap();
    assert_eq!(left(default_routes(&world, Family::V6, "wifi0")), 1_024);
}

/// The guard undoes what a killed daemon cannot. Without the guard, too, the next start does.
#[test]
fn what_a_killed_one_left_is_undone_by_its_guard_or_by_the_next() {
    if !has_mptcp() {
        return;
    }
    let world = World::new("kill");
    let before = world.sysctl("tcp_retries2");
    let daemon = Daemon::start(&world, &[]);
    // A thread of its own adds them, after the word that a path is up.
    until("both endpoints are there", || world.endpoints() == 2);
    assert_eq!(world.sysctl("tcp_retries2"), "100");
    daemon.end(SIGKILL);
    until("the guard restores", || world.sysctl("tcp_retries2") == before && world.endpoints() == 0);

    let daemon = Daemon::start(&world, &[]);
    let guard = daemon.guard();
    until("both endpoints are there again", || world.endpoints() == 2);
    let connection = world.connect();
    until("a second subflow joins", || world.subflows().iter().filter(|s| s.is_established).count() == 2);
    io::PidFd::open(guard).unwrap().send_signal(SIGKILL).unwrap();
    daemon.end(SIGKILL);
    // Until then it is there to undo what the daemon has left.
    until("the guard has ended", || io::ProcessId::of(guard).is_err());
    assert_eq!((world.sysctl("tcp_retries2").as_str(), world.endpoints()), ("100", 2), "nobody is left");
    // The next adopts endpoints that subflows use; the connection goes on.
    let daemon = Daemon::start(&world, &[]);
    assert!(daemon.has_said("adopted the endpoint 10.100.0.2"), "{:?}", daemon.said);
    let (mut near, mut far, listener) = connection;
    near.write_all(b"c").unwrap();
    far.read_exact(&mut [0]).unwrap();
    assert_eq!(world.subflows().iter().filter(|s| s.is_established).count(), 2);
    drop((near, far, listener));
    until("the connection is gone", || world.subflows().iter().all(|s| !s.is_established));
    daemon.end(SIGTERM);
    assert_eq!((world.sysctl("tcp_retries2"), world.endpoints()), (before, 0));
}

/// With BPF, subflows alone have keep-alives; other connections and sysctls stay as they are.
#[test]
fn keep_alives_can_be_set_for_subflows_alone() {
    if !has_mptcp() {
        return;
    }
    let world = World::new("alone");
    let names = ["tcp_rto_max_ms", "tcp_retries2", "tcp_keepalive_time"];
    let values = || names.map(|name| sysctl::read(&world.client, &format!("net/ipv4/{name}")).ok());
    let before = values();
    let daemon = Daemon::start(&world, &["--per-subflow", "--keep-alive", "77 s"]);
    assert_eq!(values(), before);
    let lacks = world.status()["lacks"].clone();
    if lacks.to_string().contains("BPF") {
        eprintln!("left out: {lacks}");
        return;
    }
    let _connection = world.connect();
    until("a second subflow joins", || world.subflows().iter().filter(|s| s.is_established).count() == 2);
    let at: SocketAddr = format!("{SERVER}:9001").parse().unwrap();
    let _listener = world.server.run(|| io::listen_multi_path(at, false)).unwrap().unwrap();
    let plain = world.client.run(|| io::connect_multi_path(at, false, PATIENCE)).unwrap().unwrap();
    let timers = || {
        let mut command = Command::new("ss");
        command.args(["-Htno", "state", "established"]).stdout(Stdio::piped());
        let child = world.client.spawn(command, SpawnOptions::default()).unwrap();
        String::from_utf8(child.wait_with_output().unwrap().stdout).unwrap()
    };
    // ss rounds down, or up: `1min16sec` or `1min17sec`.
    until("both subflows have a keep-alive timer", || {
        let said = timers();
        said.lines().filter(|line| line.contains(":9000") && line.contains("keepalive,1min1")).count() == 2
    });
    let said = timers();
    let other = said.lines().find(|line| line.contains(":9001")).unwrap();
    assert!(!other.contains("keepalive"), "{other}");
    drop(plain);
    daemon.end(SIGTERM);
}

/// Another that manages endpoints is named, with what to do.
#[test]
fn another_that_manages_endpoints_is_named() {
    if !has_mptcp() {
        return;
    }
    let world = World::new("other");
    // Whatever it is: what counts is its name.
    let folder = tempfile::tempdir().unwrap();
    let program = folder.path().join("mptcpd");
    std::fs::copy("/bin/sleep", &program).unwrap();
    let mut command = Command::new(&program);
    command.arg("60");
    let mut other = world.client.spawn(command, SpawnOptions::default()).unwrap();
    let daemon = Daemon::start(&world, &[]);
    let conflicts = world.status()["conflicts"].to_string();
    daemon.end(SIGTERM);
    let _ = other.kill();
    let _ = other.wait();
    assert!(
        conflicts.contains("mptcpd also manages") && conflicts.contains("systemctl stop mptcp"),
        "{conflicts}"
    );
}
