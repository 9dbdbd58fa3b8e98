//! A client that moves between two boxes: its flows go on, with kernel TCP at both ends.
//!
//! ```text
//!             ┌ 10.1 ─ box a ─ 10.2 ┐
//!   client ───┤          │ 10.5     ├─── server
//!   10.9.0.2  └ 10.3 ─ box b ─ 10.4 ┘    10.8.0.2
//! ```

use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use io::{Clock, Host, Namespace, SpawnOptions, Waiter, lay_cable};
use run::{Answer, Config, HandoverConfig, PeerConfig, Question};
use units::Duration;

use crate::topology::{
    Connection, PATIENCE, Program, SIGKILL, Topology, pattern, state_directory, wait_until,
};

pub const CLIENT: &str = "10.9.0.2";
const SERVER: &str = "10.8.0.2";

const A: [&str; 2] = [include_str!("certificates/a.pem"), include_str!("certificates/a.key")];
pub const B: [&str; 2] = [include_str!("certificates/b.pem"), include_str!("certificates/b.key")];
const STRANGER: [&str; 2] =
    [include_str!("certificates/stranger.pem"), include_str!("certificates/stranger.key")];

pub struct Sites {
    /// Client, box a and server.
    pub a: Topology,
    /// Box b.
    pub b: Topology,
}

impl Sites {
    pub fn build(what: &str) -> Self {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let a = Topology::build(what);
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let tag = format!("ct-roam-{what}-{}-{number}", std::process::id());
        let create = |role: &str| Host::create(&format!("{tag}-{role}")).unwrap();
        let b = Topology {
            client: create("c"),
            middle: create("b"),
            server: create("s"),
            state: state_directory(&tag),
        };
        let sites = Self { a, b };
        let Self { a, b } = &sites;
        b.set("net/ipv4/ip_forward", "1");
        for ends in [
            [(&a.client, "c1", "10.3.0.2/24"), (&b.middle, "m0", "10.3.0.1/24")],
            [(&a.server, "s1", "10.4.0.2/24"), (&b.middle, "w0", "10.4.0.1/24")],
            [(&a.middle, "ab", "10.5.0.1/24"), (&b.middle, "ab", "10.5.0.2/24")],
        ] {
            let [(near, name, own), (far, other, theirs)] = ends;
            lay_cable([(near, name, &[own]), (far, other, &[theirs])]).unwrap();
        }
        for (host, own) in [(&a.client, CLIENT), (&a.server, SERVER)] {
            host.ip(&format!("addr add {own}/32 dev lo\nlink set lo up")).unwrap();
        }
        for (middle, client, server) in
            [(&a.middle, "10.1.0.2", "10.2.0.2"), (&b.middle, "10.3.0.2", "10.4.0.2")]
        {
            let lines = format!("route add {CLIENT}/32 via {client}\nroute add {SERVER}/32 via {server}");
            middle.ip(&lines).unwrap();
        }
        sites.route_over(false);
        sites
    }

    /// Packets of client and server go over box a, or b.
    pub fn route_over(&self, is_b: bool) {
        let [up, down] = if is_b { ["10.3.0.1", "10.4.0.1"] } else { ["10.1.0.1", "10.2.0.1"] };
        shell(&self.a.client, &format!("ip route replace {SERVER}/32 via {up} src {CLIENT}"));
        shell(&self.a.server, &format!("ip route replace {CLIENT}/32 via {down} src {SERVER}"));
    }

    pub fn configs(&self) -> [Config; 2] {
        let config =
            |topology: &Topology, own: [&str; 2], at: &str, (peer, address, theirs): (&str, &str, &str)| {
                let peer = PeerConfig {
                    name: peer.to_owned(),
                    address: address.parse().unwrap(),
                    certificate: theirs.to_owned(),
                    takes: None,
                    gives: None,
                };
                let [certificate, key] = own.map(str::to_owned);
                let handover = HandoverConfig {
                    listen: at.parse().unwrap(),
                    certificate,
                    key,
                    authorities: None,
                    encapsulation: String::new(),
                    peers: vec![peer],
                };
                Config { handover: Some(handover), ..topology.config() }
            };
        [
            config(&self.a, A, "10.5.0.1:7320", ("b", "10.5.0.2:7320", B[0])),
            config(&self.b, B, "10.5.0.2:7320", ("a", "10.5.0.1:7320", A[0])),
        ]
    }

    pub fn start(&self) -> [Program; 2] {
        self.start_with(self.configs())
    }

    pub fn start_with(&self, [a, b]: [Config; 2]) -> [Program; 2] {
        let programs =
            [Program::start_both_ways_with(&self.a, &a), Program::start_both_ways_with(&self.b, &b)];
        self.await_connected();
        programs
    }

    pub fn await_connected(&self) {
        wait_until("the boxes hear each other", || {
            [&self.a, &self.b].iter().all(|one| counter(one, "handover_peers_connected") == 1)
        });
    }

    pub fn connect(&self) -> Connection {
        self.connect_from(CLIENT)
    }

    /// From another of the client's addresses.
    pub fn connect_from(&self, client: &str) -> Connection {
        let listener = self.a.server.run(|| TcpListener::bind((SERVER, 0))).unwrap().unwrap();
        let to = listener.local_addr().unwrap();
        let from: SocketAddr = format!("{client}:0").parse().unwrap();
        let connect = || {
            let socket = socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::STREAM, None)?;
            socket.bind(&from.into())?;
            socket.connect_timeout(&to.into(), PATIENCE)?;
            Ok::<TcpStream, std::io::Error>(socket.into())
        };
        let client = self.a.client.run(connect).unwrap().unwrap();
        let (server, peer) = listener.accept().unwrap();
        for end in [&client, &server] {
            end.set_read_timeout(Some(PATIENCE)).unwrap();
            end.set_write_timeout(Some(PATIENCE)).unwrap();
        }
        Connection { client, server, peer }
    }
}

pub fn shell(at: &Namespace, line: &str) {
    let mut words = line.split_whitespace();
    let mut command = Command::new(words.next().unwrap());
    command.args(words).stdout(Stdio::null());
    let status = at.spawn(command, SpawnOptions::default()).unwrap().wait().unwrap();
    assert!(status.success(), "{line}");
}

pub fn counter(at: &Topology, name: &str) -> u64 {
    at.status().processor.counter(name)
}

pub fn hand_over(from: &Topology, to: &str) -> Answer {
    hand_over_of(CLIENT, from, to)
}

pub fn hand_over_of(client: &str, from: &Topology, to: &str) -> Answer {
    let found = run::choose(run::find(&from.state).unwrap(), None).unwrap();
    found.ask(&Question::MoveSubscriber { client: client.parse().unwrap(), to: to.to_owned() }).unwrap()
}

pub fn pause(ms: u64) {
    let mut waiter = Waiter::new(Duration::ZERO).unwrap();
    waiter.wait(Some(Clock::now() + Duration::from_millis(ms))).unwrap();
}

/// Sends `data` in pieces, until it is told that it is enough and all of it has gone at least once.
pub fn send(mut stream: TcpStream, data: &[u8], is_over: &AtomicBool) -> usize {
    let mut rounds = 0;
    while rounds == 0 || !is_over.load(Ordering::Relaxed) {
        for piece in data.chunks(30_000) {
            stream.write_all(piece).unwrap();
            pause(3);
        }
        rounds += 1;
    }
    stream.shutdown(Shutdown::Write).unwrap();
    rounds
}

/// Reads to the end: every byte must be that of `data`, again and again.
pub fn receive(mut stream: TcpStream, data: &[u8]) -> usize {
    let (mut at, mut buffer) = (0, vec![0; 65_536]);
    loop {
        let len = stream.read(&mut buffer).unwrap();
        if len == 0 {
            return at;
        }
        for byte in &buffer[..len] {
            assert_eq!(*byte, data[at % data.len()], "byte {at}");
            at += 1;
        }
    }
}

/// To and fro, while a download, an upload and an exchange are under way.
#[test]
fn a_client_moves_to_and_fro_and_no_flow_notices() {
    let sites = Sites::build("move");
    let programs = sites.start();
    let [down, up, mut idle, mut talk] = [(); 4].map(|()| sites.connect());
    idle.exchange(b"idle-now");
    let data = pattern(1_000_000);
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let (data, is_over) = (&data[..], &is_over);
        let Connection { client, server, .. } = down;
        let sent_down = scope.spawn(move || send(server, data, is_over));
        let got_down = scope.spawn(move || receive(client, data));
        let Connection { client, server, .. } = up;
        let sent_up = scope.spawn(move || send(client, data, is_over));
        let got_up = scope.spawn(move || receive(server, data));
        let talks = scope.spawn(move || {
            let mut times = 0;
            while !is_over.load(Ordering::Relaxed) {
                talk.exchange(b"question");
                pause(5);
                times += 1;
            }
            times
        });
        for turn in 0..6 {
            pause(400);
            let (from, to) = if turn % 2 == 0 { (&sites.a, "b") } else { (&sites.b, "a") };
            let answer = hand_over(from, to);
            let Answer::Done(line) = &answer else { panic!("turn {turn}: {answer:?}") };
            assert!(line.contains("4 flows moved") || line.contains("8 flows moved"), "{line}");
            pause(20);
            sites.route_over(turn % 2 == 0);
        }
        pause(400);
        is_over.store(true, Ordering::Relaxed);
        assert_eq!(got_down.join().unwrap(), sent_down.join().unwrap() * data.len());
        assert_eq!(got_up.join().unwrap(), sent_up.join().unwrap() * data.len());
        assert!(talks.join().unwrap() > 50);
    });
    idle.exchange(b"six-more");
    for site in [&sites.a, &sites.b] {
        assert_eq!(
            [("handover_gone", 3), ("handover_come", 3), ("handover_broken", 0), ("bytes_acked_but_lost", 0)]
                .map(|(name, expected)| (name, counter(site, name) == expected))
                .iter()
                .filter(|(_, is)| !is)
                .count(),
            0,
            "{:?}",
            site.status().processor.counters
        );
    }
    let early = [&sites.a, &sites.b].map(|site| counter(site, "handover_packets_early"));
    println!("packets that came before their flows: {early:?}");
    let [a, b] = programs;
    let said = a.stop(&sites.a);
    assert!(said.contains("has moved to b") && said.contains("has moved from b"), "{said}");
    b.stop(&sites.b);
}

#[test]
fn without_a_key_or_with_anothers_nothing_moves() {
    let sites = Sites::build("key");
    let [a, _] = sites.configs();
    let without = Program::start_both_ways_with(&sites.b, &sites.b.config());
    let Answer::Refused(why) = hand_over(&sites.b, "a") else { panic!("it moves without a key") };
    assert!(why.contains("has no peers"), "{why}");
    without.stop(&sites.b);
    let program = Program::start_both_ways_with(&sites.a, &a);
    let [_, mut b] = sites.configs();
    if let Some(handover) = b.handover.as_mut() {
        [handover.certificate, handover.key] = STRANGER.map(str::to_owned);
    }
    let stranger = Program::start_both_ways_with(&sites.b, &b);
    let mut connection = sites.connect();
    connection.exchange(b"first---");
    let Answer::Refused(why) = hand_over(&sites.a, "b") else { panic!("a stranger has it") };
    assert!(why.contains("does not answer"), "{why}");
    let Answer::Refused(why) = hand_over(&sites.a, "c") else { panic!("there is no such peer") };
    assert!(why.contains("there are: b"), "{why}");
    assert_eq!(counter(&sites.a, "handover_peers_connected"), 0);
    connection.exchange(b"goes on-");
    drop(connection);
    program.stop(&sites.a);
    stranger.stop(&sites.b);
}

/// The box that a client has come from dies: the other one goes on.
#[test]
fn the_box_that_a_client_has_left_dies() {
    let sites = Sites::build("left");
    let [a, b] = sites.start();
    let connection = sites.connect();
    let data = pattern(500_000);
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let (data, is_over) = (&data[..], &is_over);
        let Connection { client, server, .. } = connection;
        let sent = scope.spawn(move || send(server, data, is_over));
        let got = scope.spawn(move || receive(client, data));
        pause(300);
        let answer = hand_over(&sites.a, "b");
        assert!(matches!(answer, Answer::Done(_)), "{answer:?}");
        sites.route_over(true);
        pause(100);
        a.signal(SIGKILL);
        pause(500);
        is_over.store(true, Ordering::Relaxed);
        assert_eq!(got.join().unwrap(), sent.join().unwrap() * data.len());
    });
    assert_eq!(counter(&sites.b, "handover_broken"), 0);
    b.stop(&sites.b);
}

/// The box that a client is to go to has died: the client stays.
#[test]
fn a_box_that_has_died_gets_no_client() {
    let sites = Sites::build("dead");
    let [a, b] = sites.start();
    let mut connection = sites.connect();
    connection.exchange(b"first---");
    b.signal(SIGKILL);
    let (_, _) = b.wait();
    let Answer::Refused(why) = hand_over(&sites.a, "b") else { panic!("a dead box has it") };
    assert!(why.contains("does not answer"), "{why}");
    connection.exchange(b"goes on-");
    drop(connection);
    a.stop(&sites.a);
}
