//! H20: more than the accelerator is made for. What runs goes on, what is new passes, and memory
//! has its bounds.
//!
//! Sizes that fit every run; those of an attack are ignored by default:
//! `make long-test`.

use std::io::{ErrorKind, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use io::{Clock, Waiter};
use socket2::{Domain, SockAddr, Socket, Type};
use units::{Duration, Instant};
use wire::{TcpFlags, TcpHeaderSpec, Timestamps};

use crate::accelerated::verdict;
use crate::raw::{Raw, syn};
use crate::topology::{Connection, PATIENCE, Program, SERVER, SIGTERM, Topology, wait_until};

/// What a few thousand flows may cost beyond what their buffers hold.
const TABLE_BYTES_MAX: u64 = 200_000_000;

/// A second subscriber on the client's machine.
const SECOND_CLIENT: Ipv4Addr = Ipv4Addr::new(10, 1, 0, 3);

/// Lines of a start, an end, and their warnings.
const LINES_MAX: usize = 80;

/// Addresses of clients that do not exist: what is sent to them reaches the client's machine and vanishes.
fn imaginary(n: u32) -> SocketAddr {
    let address = Ipv4Addr::from(u32::from(Ipv4Addr::new(10, 64, 0, 0)) + n % (1 << 20));
    SocketAddr::new(address.into(), 1_024 + (n >> 20) as u16)
}

fn built(what: &str) -> Topology {
    let topology = Topology::build(what);
    topology.exec("ip", &["route", "add", "10.64.0.0/10", "via", "10.1.0.2"]);
    topology
}

/// A download that goes on until told to stop, and counts its bytes.
struct Stream {
    connection: Connection,
}

impl Stream {
    fn start(topology: &Topology) -> Self {
        Self { connection: topology.connect(&topology.server, SERVER[0]) }
    }

    /// Bytes per second without `attack`, and during it. The bytes must be those that were sent.
    fn rates(self, attack: impl FnOnce()) -> [f64; 2] {
        self.rates_after(|| {}, |&()| attack())
    }

    /// The same; `prepare` is not measured, and what it gives lives as long as the attack.
    fn rates_after<T>(self, prepare: impl FnOnce() -> T, attack: impl FnOnce(&T)) -> [f64; 2] {
        let Connection { mut client, mut server, .. } = self.connection;
        let (is_over, received) = (AtomicBool::new(false), AtomicU64::new(0));
        std::thread::scope(|scope| {
            let (is_over, received) = (&is_over, &received);
            // However this ends, the threads end too.
            let _end = SetOnDrop(is_over);
            scope.spawn(move || {
                let block: Vec<u8> = (0..251).cycle().take(251 * 256).collect();
                while !is_over.load(Ordering::SeqCst) {
                    server.write_all(&block).unwrap();
                }
            });
            scope.spawn(move || {
                let (mut block, mut at) = (vec![0; 1 << 16], 0_usize);
                loop {
                    let len = client.read(&mut block).unwrap();
                    if len == 0 {
                        return;
                    }
                    let is_right =
                        block[..len].iter().enumerate().all(|(i, &b)| usize::from(b) == (at + i) % 251);
                    assert!(is_right, "other bytes than were sent");
                    at += len;
                    received.fetch_add(len as u64, Ordering::SeqCst);
                }
            });
            let rate_since = |at: Instant, bytes: u64| {
                let time = Clock::now().saturating_since(at).as_nanos() as f64 / 1e9;
                (received.load(Ordering::SeqCst) - bytes) as f64 / time
            };
            let (at, bytes) = (Clock::now(), received.load(Ordering::SeqCst));
            wait_until("a second has passed", || Clock::now().saturating_since(at) > Duration::from_secs(1));
            let alone = rate_since(at, bytes);
            let prepared = prepare();
            let (at, bytes) = (Clock::now(), received.load(Ordering::SeqCst));
            attack(&prepared);
            let attacked = rate_since(at, bytes);
            assert!(attacked > 0.0, "the flow stood still");
            [alone, attacked]
        })
    }
}

/// Sets a flag when it goes, even by a panic.
struct SetOnDrop<'a>(&'a AtomicBool);

impl Drop for SetOnDrop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::SeqCst);
    }
}

fn resident(program: &Program) -> u64 {
    io::resident_bytes_of(program.pid()).unwrap()
}

/// A counter or level of the engine.
fn counter(topology: &Topology, name: &str) -> u64 {
    let found = run::choose(run::find(&topology.state).unwrap(), None).unwrap();
    match found.ask(&run::Question::Status).unwrap() {
        run::Answer::Status(status) => status.processor.counters[name],
        other => panic!("{other:?}"),
    }
}

fn report(what: &str, [alone, attacked]: [f64; 2], before: u64, after: u64) {
    println!(
        "{what}: a flow alone {:.0} Mbit/s, beside it {:.0} Mbit/s ({:.2} of it); memory {:.1} MB before, \
         {:.1} MB after",
        alone * 8e-6,
        attacked * 8e-6,
        attacked / alone,
        before as f64 * 1e-6,
        after as f64 * 1e-6
    );
}

fn assert_quiet(said: &str) {
    let lines = said.lines().count();
    assert!(lines < LINES_MAX, "{lines} lines: {:#?}", said.lines().take(100).collect::<Vec<_>>());
}

fn syn_flood(packets: u32) {
    let topology = built("synflood");
    let mut config = topology.config();
    // That of a machine that has other things to do is not the flood's.
    config.watchdog.hang_after_ms = 10_000;
    let program = Program::start_engine(&topology, &config);
    let stream = Stream::start(&topology);
    let raw = Raw::open(&topology.client, "c0");
    let to = SocketAddr::new(SERVER[0].parse().unwrap(), 9);
    let before = resident(&program);
    let mut most = before;
    let rates = stream.rates(|| {
        let mut sent = 0;
        for n in 0..packets {
            sent += u32::from(raw.send(&syn(imaginary(n), to, n), &[]));
            if n % (packets / 8) == 0 {
                most = most.max(resident(&program));
                topology.connect(&topology.server, SERVER[0]).exchange(b"a-new-1.");
            }
        }
        println!("{sent} SYNs sent");
    });
    most = most.max(resident(&program));
    report("SYN flood", rates, before, most);
    assert!(most - before < TABLE_BYTES_MAX);
    let said = program.stop(&topology);
    // The stream, and each connection that was opened in the middle of it: the flood has no place of theirs.
    let (accelerated, lost) = verdict(&said);
    assert!(accelerated >= 9 && lost == 0, "{said}");
    assert_quiet(&said);
}

#[test]
fn h20_a_flood_of_syns() {
    syn_flood(40_000);
}

#[test]
#[ignore = "a million packets, half a minute: make long-test"]
fn h20_a_flood_of_a_million_syns() {
    syn_flood(1_000_000);
}

/// Connections of another subscriber whose clients read nothing: both ends.
fn unread(topology: &Topology, count: usize) -> Vec<(TcpStream, TcpStream)> {
    let listener = topology.server.run(|| TcpListener::bind((SERVER[0], 0))).unwrap().unwrap();
    let to = listener.local_addr().unwrap();
    let own = SocketAddr::from((SECOND_CLIENT, 0));
    let connect = || {
        let connect = |_| {
            let socket = Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
            socket.bind(&SockAddr::from(own)).unwrap();
            socket.connect_timeout(&SockAddr::from(to), PATIENCE).unwrap();
            TcpStream::from(socket)
        };
        (0..count).map(connect).collect::<Vec<_>>()
    };
    let (clients, servers) = std::thread::scope(|scope| {
        let clients = scope.spawn(|| topology.client.run(connect).unwrap());
        let servers: Vec<_> = (0..count).map(|_| listener.accept().unwrap().0).collect();
        (clients.join().unwrap(), servers)
    });
    servers.iter().for_each(|server| server.set_nonblocking(true).unwrap());
    let block = [0x5a; 65_536];
    let fill = |mut server: &TcpStream| {
        let mut has_written = false;
        while server.write(&block).is_ok_and(|len| len > 0) {
            has_written = true;
        }
        has_written
    };
    // Until nothing more fits anywhere; thousands take their time.
    let mut waiter = Waiter::new(Duration::ZERO).unwrap();
    let give_up = Clock::now() + Duration::from_secs(120);
    let mut full_rounds = 0;
    while full_rounds < 20 {
        assert!(Clock::now() < give_up, "the servers write on and on");
        let has_written = servers.iter().fold(false, |any, server| fill(server) | any);
        full_rounds = if has_written { 0 } else { full_rounds + 1 };
        waiter.wait(Some(Clock::now() + Duration::from_millis(10))).unwrap();
    }
    clients.into_iter().zip(servers).collect()
}

fn slow_readers(count: usize) {
    let topology = built("slow");
    let mut command = std::process::Command::new("ip");
    command.args(["address", "add", &format!("{SECOND_CLIENT}/24"), "dev", "c0"]);
    let status = topology.client.spawn(command, io::SpawnOptions::default()).unwrap().wait().unwrap();
    assert!(status.success());
    let program = Program::start_engine(&topology, &topology.config());
    let stream = Stream::start(&topology);
    let before = resident(&program);
    let mut most = before;
    let rates = stream.rates_after(
        || unread(&topology, count),
        |readers| {
            assert_eq!(readers.len(), count);
            let until = Clock::now() + Duration::from_secs(1);
            wait_until("a second has passed", || {
                topology.connect(&topology.server, SERVER[0]).exchange(b"a-new-1.");
                Clock::now() > until
            });
            most = resident(&program);
            let (flows, held) = (counter(&topology, "flows_now"), counter(&topology, "buffer_bytes_now"));
            println!("{flows} flows hold {:.1} MB", held as f64 * 1e-6);
        },
    );
    report(&format!("{count} slow readers"), rates, before, most);
    // 1 GiB is what buffers may hold in all by default.
    assert!(most < before + (1 << 30) + TABLE_BYTES_MAX, "{most}");
    assert_quiet(&program.stop(&topology));
}

#[test]
fn h20_slow_readers() {
    slow_readers(300);
}

#[test]
#[ignore = "nine thousand connections, twice the descriptors, a gigabyte: make long-test"]
fn h20_nine_thousand_slow_readers() {
    slow_readers(9_000);
}

#[test]
fn h20_clients_that_never_acknowledge() {
    const CLIENTS: u32 = 60;
    let topology = built("silent");
    let config = run::Config { drain_ms_max: 200, ..topology.config() };
    let mut program = Program::start_engine(&topology, &config);
    let stream = Stream::start(&topology);
    let listener = topology.server.run(|| TcpListener::bind((SERVER[0], 0))).unwrap().unwrap();
    let to = listener.local_addr().unwrap();
    let mut raw = Raw::open(&topology.client, "c0");
    let before = resident(&program);
    let mut servers = Vec::new();
    let rates = stream.rates(|| {
        for n in 0..CLIENTS {
            let own = imaginary(n);
            let opening = syn(own, to, n);
            assert!(raw.send(&opening, &[]));
            let reply = raw.see(|seen| seen.destination() == own && seen.tcp.flags.contains(TcpFlags::SYN));
            let echo = reply.tcp.options.timestamps.unwrap().value;
            let third = TcpHeaderSpec {
                ack: reply.tcp.seq + 1,
                flags: TcpFlags::ACK,
                timestamps: Some(Timestamps { value: 1_001, echo }),
                mss: None,
                sack_permitted: false,
                ..opening
            };
            assert!(raw.send(&TcpHeaderSpec { seq: opening.seq + 1, ..third }, &[]));
            let (mut server, peer) = listener.accept().unwrap();
            assert_eq!(peer, own);
            server.set_nonblocking(true).unwrap();
            while server.write(&[0x5a; 65_536]).is_ok_and(|len| len > 0) {}
            servers.push(server);
        }
    });
    let most = resident(&program);
    report(&format!("{CLIENTS} silent clients"), rates, before, most);
    assert!(most - before < u64::from(CLIENTS) * 3_000_000 + 50_000_000);
    // They never take what is owed to them: at the end the servers must hear of it.
    program.signal(SIGTERM);
    program.await_line("could not be delivered");
    let (status, said) = program.wait();
    assert!(status.success(), "{said}");
    assert_quiet(&said);
    let mut buffer = [0; 16];
    for mut server in servers {
        server.set_nonblocking(false).unwrap();
        let error = server.read(&mut buffer).expect_err("a clean end of what is not whole");
        assert_eq!(error.kind(), ErrorKind::ConnectionReset);
    }
    assert_eq!(topology.leftovers(), [""; 0]);
}

#[test]
fn h20_a_storm_of_acknowledgements() {
    const PACKETS: usize = 40_000;
    let topology = built("ackstorm");
    let program = Program::start_engine(&topology, &topology.config());
    let stream = Stream::start(&topology);
    let own = stream.connection.client.local_addr().unwrap();
    let mut raw = Raw::open(&topology.client, "c0");
    let before = resident(&program);
    let rates = stream.rates(|| {
        for _ in 0..PACKETS / 100 {
            raw.forget();
            let seen = raw.see(|seen| seen.source() == own && seen.tcp.flags.contains(TcpFlags::ACK));
            // The same again, from the same place.
            let copy = seen.next(TcpFlags::ACK);
            for _ in 0..100 {
                raw.send(&copy, &[]);
            }
        }
    });
    let after = resident(&program);
    report("ACK storm", rates, before, after);
    assert!(after - before < TABLE_BYTES_MAX);
    let said = program.stop(&topology);
    assert_eq!(verdict(&said), (1, 0), "{said}");
    assert_quiet(&said);
}

#[test]
fn h20_a_full_table() {
    const ROOM: usize = 10;
    let topology = built("full");
    let program = Program::start_with_table(&topology, &ROOM.to_string());
    let mut first: Vec<Connection> =
        (0..ROOM).map(|n| topology.connect(&topology.server, SERVER[n % 2])).collect();
    first.iter_mut().for_each(|connection| connection.exchange(b"opening."));
    for n in 0..ROOM {
        topology.connect(&topology.server, SERVER[n % 2]).download(200_000);
    }
    first.into_iter().for_each(|connection| connection.download(200_000));
    let said = program.stop(&topology);
    // More than that where one was unused for so long that it made room.
    let (accelerated, lost) = verdict(&said);
    assert!(accelerated >= ROOM as u64 && lost == 0, "{said}");
    assert_quiet(&said);
}
