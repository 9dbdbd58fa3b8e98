//! Boxes with a long way between them: how long nobody has a client, how much goes twice, and boxes that die in the
//! midst.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, mpsc};
use std::thread;

use handover::Note;
use io::{Clock, Namespace, PidFd, Waiter};
use run::{Answer, Config, Question, SteeringChoice};
use units::{Duration, Instant};
use wire::{TcpFlags, TcpHeaderSpec};

use crate::handover::{CLIENT, Sites, counter, hand_over, hand_over_of, pause, receive, send, shell};
use crate::handover_deaths::Over;
use crate::raw::Raw;
use crate::successor::{Late, successor};
use crate::topology::{Connection, Program, SIGKILL, SIGTERM, Topology, is_soon, pattern, wait_until};

/// A way between two boxes that takes its time: ends when it is dropped.
struct Way(Arc<AtomicBool>);

impl Drop for Way {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

impl Way {
    /// From `listen` in a namespace to `to`, `delay` each way.
    fn open(at: &Namespace, listen: &str, to: &'static str, delay: Duration) -> Self {
        let listener = at.run(|| TcpListener::bind(listen)).unwrap().unwrap();
        listener.set_nonblocking(true).unwrap();
        let is_over = Arc::new(AtomicBool::new(false));
        let (over, at) = (Arc::clone(&is_over), Namespace::open(at.name()).unwrap());
        thread::spawn(move || {
            while !over.load(Ordering::Relaxed) {
                let Ok((near, _)) = listener.accept() else {
                    pause(5);
                    continue;
                };
                let Ok(Ok(far)) = at.run(|| TcpStream::connect(to)) else { continue };
                near.set_nonblocking(false).unwrap();
                for (from, to) in [(&near, &far), (&far, &near)] {
                    to.set_nodelay(true).unwrap();
                    carry(from.try_clone().unwrap(), to.try_clone().unwrap(), delay, Arc::clone(&over));
                }
            }
        });
        Self(is_over)
    }
}

/// Carries what comes until an end closes.
fn carry(mut from: TcpStream, mut to: TcpStream, delay: Duration, over: Arc<AtomicBool>) {
    let (put, taken) = mpsc::sync_channel::<(Instant, Vec<u8>)>(256);
    from.set_read_timeout(Some(std::time::Duration::from_millis(100))).unwrap();
    let out = from.try_clone().unwrap();
    thread::spawn(move || {
        let mut buffer = vec![0; 16 * 1024];
        while !over.load(Ordering::Relaxed) {
            match from.read(&mut buffer) {
                Ok(0) => break,
                Ok(len) if put.send((Clock::now() + delay, buffer[..len].to_vec())).is_err() => break,
                Ok(_) => {}
                Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => {}
                Err(_) => break,
            }
        }
    });
    thread::spawn(move || {
        let mut waiter = Waiter::new(Duration::ZERO).unwrap();
        for (due, bytes) in taken {
            waiter.wait(Some(due)).unwrap();
            if to.write_all(&bytes).is_err() {
                break;
            }
        }
        // Either end may be closed already.
        drop(to.shutdown(Shutdown::Both));
        drop(out.shutdown(Shutdown::Both));
    });
}

/// Boxes that hear each other over ways of `delay` each.
fn far(sites: &Sites, delay: Duration) -> ([Config; 2], [Way; 2]) {
    // They connect to addresses of their own.
    [&sites.a, &sites.b].into_iter().for_each(|at| shell(&at.middle, "ip link set lo up"));
    let ways = [
        Way::open(&sites.a.middle, "10.5.0.1:7321", "10.5.0.2:7320", delay),
        Way::open(&sites.b.middle, "10.5.0.2:7321", "10.5.0.1:7320", delay),
    ];
    let mut configs = sites.configs();
    for (config, way) in configs.iter_mut().zip(["10.5.0.1:7321", "10.5.0.2:7321"]) {
        if let Some(handover) = config.handover.as_mut() {
            handover.peers[0].address = way.parse().unwrap();
        }
    }
    (configs, ways)
}

/// A client's downloads that the box holds until they are finished.
fn held(sites: &Sites, client: &str, flows: usize, each: usize) -> Vec<Late> {
    (0..flows)
        .map(|_| {
            let Connection { client, server, .. } = sites.connect_from(client);
            Late::start(client, server, each)
        })
        .collect()
}

/// Bytes that a box holds, once that does not grow any more.
fn settled(at: &Topology) -> u64 {
    let mut before = 0;
    wait_until("the box holds all that it takes", || {
        pause(200);
        let now = counter(at, "buffer_bytes_now");
        std::mem::replace(&mut before, now) == now && now > 0
    });
    before
}

/// The number that is after `word` in a line, in ms.
fn number_after(line: &str, word: &str) -> f64 {
    let (_, after) = line.split_once(word).unwrap_or_else(|| panic!("no '{word}' in '{line}'"));
    let mut words = after.split_ascii_whitespace();
    let number: f64 = words.next().unwrap().parse().unwrap();
    match words.next().unwrap() {
        "s" => number * 1_000.0,
        "ms" => number,
        "µs" => number / 1_000.0,
        _ => number / 1e6,
    }
}

/// Nobody has a client for a round trip and little more, however much data goes ahead, and that goes once.
#[test]
fn nobody_has_a_client_for_a_round_trip_and_little_more() {
    for delay_ms in [10, 50] {
        let sites = Sites::build(&format!("far{delay_ms}"));
        let (configs, _ways) = far(&sites, Duration::from_millis(delay_ms));
        let [a, b] = sites.start_with(configs);
        let downloads = held(&sites, CLIENT, 4, 400_000);
        let held = settled(&sites.a);
        let answer = hand_over(&sites.a, "b");
        let Answer::Done(line) = answer else { panic!("{answer:?}") };
        wait_until("box b knows that box a knows", || counter(&sites.b, "handover_come") == 1);
        let (sent, taken) =
            (counter(&sites.a, "handover_bytes_sent"), counter(&sites.b, "handover_bytes_taken"));
        let trip = 2 * delay_ms;
        let frozen = number_after(&line, "nobody's for ");
        let kept = [&sites.a, &sites.b].map(|at| counter(at, "handover_loop_kept_us_max"));
        println!(
            "round trip {trip} ms, {held} bytes held: {line}\n{sent} sent, {taken} taken; packet loops kept for {kept:?} µs"
        );
        assert!(taken > 1_000_000, "{taken}");
        assert!(sent <= taken + taken / 4, "{sent} sent, {taken} taken");
        assert!(frozen < 2.0 * trip as f64 + 60.0, "{line}");
        sites.route_over(true);
        downloads.into_iter().for_each(Late::finish);
        a.stop(&sites.a);
        b.stop(&sites.b);
    }
}

/// Many clients at once take little more time than one: they wait for the same round trips.
#[test]
fn many_clients_move_at_once() {
    const CLIENTS: usize = 16;
    let sites = Sites::build("many");
    for (at, via) in [(&sites.a, "10.1.0.2"), (&sites.b, "10.3.0.2")] {
        shell(&at.middle, &format!("ip route add 10.9.1.0/24 via {via}"));
    }
    let clients: Vec<String> = (1..=CLIENTS + 1).map(|n| format!("10.9.1.{n}")).collect();
    for client in &clients {
        shell(&sites.a.client, &format!("ip addr add {client}/32 dev lo"));
    }
    let route = |up: &str, down: &str| {
        shell(&sites.a.server, &format!("ip route replace 10.9.1.0/24 via {down} src 10.8.0.2"));
        shell(&sites.a.client, &format!("ip route replace 10.8.0.2/32 via {up}"));
    };
    route("10.1.0.1", "10.2.0.1");
    let (configs, _ways) = far(&sites, Duration::from_millis(10));
    let [a, b] = sites.start_with(configs);
    let downloads: Vec<Late> = clients.iter().flat_map(|client| held(&sites, client, 1, 200_000)).collect();
    let held = settled(&sites.a);
    let timed = |clients: &[String]| {
        let began = Clock::now();
        thread::scope(|scope| {
            for client in clients {
                scope.spawn(|| {
                    let answer = hand_over_of(client, &sites.a, "b");
                    assert!(matches!(answer, Answer::Done(_)), "{answer:?}");
                });
            }
        });
        Clock::now().saturating_since(began)
    };
    let one = timed(&clients[..1]);
    let all = timed(&clients[1..]);
    println!("{held} bytes held: one takes {one:?}, {CLIENTS} at once {all:?}");
    assert!(all < one * CLIENTS as u64 / 2, "one takes {one:?}, {CLIENTS} at once {all:?}");
    route("10.3.0.1", "10.4.0.1");
    downloads.into_iter().for_each(Late::finish);
    a.stop(&sites.a);
    b.stop(&sites.b);
}

/// What a box has written down of the client.
fn note(at: &Topology) -> Option<Note> {
    let namespace = at.middle.cookie().unwrap();
    let name = at.config().instance_name();
    let path: PathBuf = at.state.join(format!("handover-{namespace}-{name}")).join(CLIENT);
    let bytes = std::fs::read(path).ok()?;
    let end = bytes.iter().position(|byte| *byte == b'\n')?;
    Note::decode(&bytes[end + 1..]).ok()
}

fn await_note(at: &Topology, is_it: impl Fn(&Note) -> bool) {
    let give_up = Clock::now() + Duration::from_secs(15);
    while !note(at).is_some_and(|note| is_it(&note)) {
        assert!(Clock::now() < give_up, "it stays at {:?}", note(at));
        pause(1);
    }
}

/// Ends all processes of a box.
fn end(at: &Topology, program: Program) -> String {
    let all = || run::find(&at.state).unwrap_or_default();
    wait_until("one process is there", || all().len() == 1);
    all().iter().for_each(|found| drop(PidFd::open(found.process).map(|one| one.send_signal(SIGTERM))));
    let (_, said) = program.wait();
    let left =
        || at.leftovers().into_iter().filter(|left| !left.starts_with("handover-")).collect::<Vec<_>>();
    assert!(is_soon(|| left().is_empty()), "not all is undone: {:#?} is left; it said:\n{said}", left());
    said
}

/// One of the boxes is killed at a step, and another process goes on: every byte comes, and nobody is reset.
fn dies_at(what: &str, victim: usize, seen_at: usize, is_it: impl Fn(&Note) -> bool) {
    let sites = Sites::build(what);
    let (mut configs, _ways) = far(&sites, Duration::from_millis(100));
    for config in &mut configs {
        config.watchdog.successor = vec!["self".to_owned()];
        config.watchdog.recover_within_ms = 10_000;
    }
    let mut programs = sites.start_with(configs);
    let data = pattern(500_000);
    let is_over = AtomicBool::new(false);
    let Connection { client, server, .. } = sites.connect();
    let upward = sites.connect();
    let mut talk = sites.connect();
    talk.exchange(b"opening.");
    thread::scope(|scope| {
        let (data, is_over) = (&data[..], &is_over);
        let over = Over(is_over);
        let sent = scope.spawn(move || send(server, data, is_over));
        let got = scope.spawn(move || receive(client, data));
        let Connection { client, server, .. } = upward;
        let sent_up = scope.spawn(move || send(client, data, is_over));
        let got_up = scope.spawn(move || receive(server, data));
        pause(300);
        let asked = scope.spawn(|| {
            let found = run::choose(run::find(&sites.a.state).unwrap(), None).unwrap();
            // Who is asked may die.
            drop(
                found.ask(&Question::MoveSubscriber { client: CLIENT.parse().unwrap(), to: "b".to_owned() }),
            );
        });
        let at = [&sites.a, &sites.b];
        await_note(at[seen_at], is_it);
        programs[victim].signal(SIGKILL);
        successor(&mut programs[victim]);
        asked.join().unwrap();
        let is_decided = |at: &Topology| {
            let found = run::choose(run::find(&at.state).ok()?, None).ok()?;
            let Answer::Status(status) = found.ask(&Question::Status).ok()? else { return None };
            Some(status.processor.counter("handover_under_way") == 0)
        };
        let both = || at.iter().all(|at| is_decided(at) == Some(true));
        let is_soon = is_soon(both);
        drop(over);
        assert!(is_soon, "{what}: it is not decided; {:?}", at.map(note));
        assert_eq!(got.join().unwrap(), sent.join().unwrap() * data.len(), "{what}");
        assert_eq!(got_up.join().unwrap(), sent_up.join().unwrap() * data.len(), "{what}");
    });
    // Routing has not changed: where it went, its packets are sent on.
    talk.exchange(b"goes on-");
    let broken = [&sites.a, &sites.b].map(|at| counter(at, "handover_broken"));
    assert_eq!(broken, [0, 0], "{what}");
    drop(talk);
    let [a, b] = programs;
    let said = [end(&sites.a, a), end(&sites.b, b)].join("\n");
    assert!(!said.contains("flows reset") && !said.contains("resetting"), "{what}: {said}");
}

#[test]
fn h34_a_box_that_a_client_is_to_come_to_dies_while_it_is_promised() {
    dies_at("b-holds", 1, 1, |note| matches!(note, Note::Holding(_)));
}

#[test]
fn h34_a_box_that_a_client_leaves_dies_while_it_is_frozen() {
    dies_at("a-frozen", 0, 0, |note| matches!(note, Note::Frozen { .. }));
}

#[test]
fn h34_a_box_that_a_client_comes_to_dies_while_the_other_one_has_frozen_it() {
    dies_at("b-frozen", 1, 0, |note| matches!(note, Note::Frozen { .. }));
}

#[test]
fn h34_a_box_that_has_taken_a_client_dies_before_the_other_one_knows() {
    dies_at("b-took", 1, 1, |note| matches!(note, Note::Taken(_)));
}

#[test]
fn h34_a_box_that_a_client_has_left_dies_before_it_knows() {
    dies_at("a-took", 0, 1, |note| matches!(note, Note::Taken(_)));
}

/// Both know that it has moved, and owe it nothing: who goes on still sends its packets on, or has them.
#[test]
fn h34_a_box_that_remembers_a_client_is_followed() {
    dies_at("a-over", 0, 0, |note| matches!(note, Note::Over { gone: Some(_), .. }));
    dies_at("b-over", 1, 1, |note| matches!(note, Note::Over { .. }));
}

/// Box b knows nothing of a flow that is box a's, and has let it past itself. While it is promised to b, and afterwards,
/// its packets are b's concern again.
#[test]
fn a_flow_that_went_past_a_box_comes_back_when_it_is_promised_to_it() {
    let sites = Sites::build("past");
    let (mut configs, _ways) = far(&sites, Duration::from_millis(200));
    configs.iter_mut().for_each(|config| config.steering = SteeringChoice::Tcx);
    let [a, b] = sites.start_with(configs);
    let mut talk = sites.connect();
    let raw = Raw::open(&sites.a.client, "c0");
    let mut arrived = Raw::open(&sites.a.server, "s0");
    talk.exchange(b"opening.");
    let from = talk.client.local_addr().unwrap();
    let seen = arrived.see(|seen| seen.source() == from && seen.tcp.payload_len == 8);
    // A byte that the server has: it takes no notice of it, and box b sees data of a flow that it does not know.
    let old = TcpHeaderSpec { seq: seen.tcp.seq, ..seen.next(TcpFlags::ACK) };
    let way_up = |via: &str| {
        shell(&sites.a.client, &format!("ip route replace 10.8.0.2/32 via {via} src {CLIENT}"));
    };
    way_up("10.3.0.1");
    assert!(raw.send(&old, b"o"));
    wait_until("box b leaves the flow to the kernel", || counter(&sites.b, "bypass_flows") == 1);
    // So does what follows of it.
    assert!(raw.send(&old, b"o"));
    wait_until("packets of the flow go past box b", || counter(&sites.b, "bypass_packets") == 1);
    way_up("10.1.0.1");
    thread::scope(|scope| {
        let asked = scope.spawn(|| hand_over(&sites.a, "b"));
        await_note(&sites.b, |note| matches!(note, Note::Holding(_)));
        // Its packet loop hears of it right after that is written.
        pause(50);
        sites.route_over(true);
        talk.exchange(b"promised");
        let answer = asked.join().unwrap();
        assert!(matches!(answer, Answer::Done(_)), "{answer:?}");
    });
    talk.exchange(b"b has it");
    assert_eq!(counter(&sites.b, "bypass_packets"), 1, "packets of a flow that is promised went past box b");
    drop(talk);
    a.stop(&sites.a);
    b.stop(&sites.b);
}

/// Neither box has room for the flows any more: they are owed something, so their hosts are reset.
#[test]
fn flows_that_nobody_has_room_for_are_reset() {
    let sites = Sites::build("room");
    let other = "10.9.0.3";
    shell(&sites.a.client, &format!("ip addr add {other}/32 dev lo"));
    shell(&sites.a.middle, &format!("ip route add {other}/32 via 10.1.0.2"));
    shell(&sites.b.middle, &format!("ip route add {other}/32 via 10.3.0.2"));
    shell(&sites.a.server, &format!("ip route replace {other}/32 via 10.2.0.1 src 10.8.0.2"));
    let ([a, b], _ways) = far(&sites, Duration::from_millis(200));
    let launch = |at: &Topology, config: &Config| {
        let mut program = Program::launch_with(at, config, &["--flows-max", "2", "--engine"]);
        program.await_line("steering TCP between");
        program
    };
    let (a, b) = (launch(&sites.a, &a), launch(&sites.b, &b));
    sites.await_connected();
    let Connection { client: mut reader, server: mut writer, .. } = sites.connect();
    let data = pattern(1_000_000);
    thread::scope(|scope| {
        writer.write_all(&data).unwrap();
        settled(&sites.a);
        let asked = scope.spawn(|| hand_over(&sites.a, "b"));
        await_note(&sites.b, |note| matches!(note, Note::Holding(_)));
        // Box b becomes full while it waits for the commit.
        let filling = |sites: &Sites| -> Vec<Connection> {
            (0..2)
                .map(|_| {
                    let mut one = sites.connect_from(other);
                    one.exchange(b"opening.");
                    one
                })
                .collect()
        };
        shell(&sites.a.client, "ip route replace 10.8.0.2/32 via 10.3.0.1 src 10.9.0.2");
        shell(&sites.a.server, &format!("ip route replace {other}/32 via 10.4.0.1 src 10.8.0.2"));
        let at_b = filling(&sites);
        await_note(&sites.a, |note| matches!(note, Note::Frozen { .. }));
        shell(&sites.a.client, "ip route replace 10.8.0.2/32 via 10.1.0.1 src 10.9.0.2");
        shell(&sites.a.server, &format!("ip route replace {other}/32 via 10.2.0.1 src 10.8.0.2"));
        let at_a = filling(&sites);
        let Answer::Refused(why) = asked.join().unwrap() else { panic!("it has moved") };
        assert!(why.contains("its flows are reset"), "{why}");
        let error = writer.read(&mut [0]).unwrap_err();
        assert_eq!(error.kind(), std::io::ErrorKind::ConnectionReset);
        let mut got = Vec::new();
        let error = reader.read_to_end(&mut got).unwrap_err();
        assert_eq!(error.kind(), std::io::ErrorKind::ConnectionReset);
        assert!(data.starts_with(&got));
        drop((at_a, at_b));
    });
    assert_eq!([&sites.a, &sites.b].map(|at| counter(at, "handover_broken")), [1, 0]);
    a.stop(&sites.a);
    b.stop(&sites.b);
}
