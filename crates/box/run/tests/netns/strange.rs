//! H26: what is rare and allowed, and what is old or forged, between real kernels.

use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};

use io::{Clock, Waiter};
use socket2::{Domain, SockAddr, SockRef, Socket, Type};
use units::Duration;
use wire::{TcpFlags, TcpHeaderSpec, Timestamps};

use crate::accelerated::verdict;
use crate::raw::Raw;
use crate::topology::{Connection, PATIENCE, Program, SERVER, Topology, pattern, wait_until};

/// Both directions of a connection, one after the other: from, to.
fn directions(connection: &Connection) -> [(&TcpStream, &TcpStream); 2] {
    [(&connection.server, &connection.client), (&connection.client, &connection.server)]
}

#[test]
fn h26_urgent_data_arrives_marked() {
    let topology = Topology::build("urgent");
    let program = Program::start_engine(&topology, &topology.config());
    for address in SERVER {
        let connection = topology.connect(&topology.server, address);
        for (from, mut to) in directions(&connection) {
            // Out of line, the urgent byte is not part of the stream; its place is known by the
            // pointer alone.
            SockRef::from(from).send(b"before").unwrap();
            SockRef::from(from).send_out_of_band(b"!").unwrap();
            SockRef::from(from).send(b"after.").unwrap();
            let mut urgent = [std::mem::MaybeUninit::new(0)];
            let sock = SockRef::from(to);
            wait_until("the urgent byte has come", || {
                sock.recv_out_of_band(&mut urgent).is_ok_and(|n| n == 1)
            });
            let mut stream = Vec::new();
            while stream.len() < 12 {
                let mut part = [0; 12];
                let len = to.read(&mut part).unwrap();
                assert!(len > 0);
                stream.extend_from_slice(&part[..len]);
            }
            assert_eq!(stream, b"beforeafter.");
        }
        connection.download(100_000);
    }
    let said = program.stop(&topology);
    assert_eq!(verdict(&said), (2, 0), "{said}");
}

#[test]
fn h26_a_simultaneous_open_passes() {
    let topology = Topology::build("simopen");
    // The first SYN finds nobody: without the reset it waits for the other's.
    let rules = "add table inet quiet; add chain inet quiet out { type filter hook output priority 0; }; \
                 add rule inet quiet out tcp flags rst drop";
    let mut nft = std::process::Command::new("nft");
    nft.arg(rules);
    let status = topology.server.spawn(nft, io::SpawnOptions::default()).unwrap().wait().unwrap();
    assert!(status.success());
    let program = Program::start_engine(&topology, &topology.config());
    for (client_ip, server_ip) in [("10.1.0.2", "10.2.0.2"), ("fd01::2", "fd02::2")] {
        let client_address = SocketAddr::new(client_ip.parse().unwrap(), 7_001);
        let server_address = SocketAddr::new(server_ip.parse().unwrap(), 7_002);
        let socket = |own: SocketAddr| {
            let socket = Socket::new(Domain::for_address(own), Type::STREAM, None).unwrap();
            socket.set_nonblocking(true).unwrap();
            socket.bind(&SockAddr::from(own)).unwrap();
            socket
        };
        let client = topology.client.run(|| socket(client_address)).unwrap();
        let server = topology.server.run(|| socket(server_address)).unwrap();
        let before = topology.steered_packets();
        let _in_progress = client.connect(&SockAddr::from(server_address));
        wait_until("the first SYN has passed", || topology.steered_packets() > before);
        let _in_progress = server.connect(&SockAddr::from(client_address));
        wait_until("both are connected", || client.peer_addr().is_ok() && server.peer_addr().is_ok());
        let streams = [client, server].map(|socket| {
            socket.set_nonblocking(false).unwrap();
            socket.set_read_timeout(Some(PATIENCE)).unwrap();
            TcpStream::from(socket)
        });
        let [client, server] = streams;
        let mut connection = Connection { client, server, peer: client_address };
        connection.exchange(b"at-once.");
        connection.download(1_000_000);
    }
    let said = program.stop(&topology);
    assert_eq!(verdict(&said), (0, 0), "{said}");
}

/// True when the client has a connection from `port` in any state.
fn is_port_in_use(topology: &Topology, port: u16) -> bool {
    let table = |name| std::fs::read_to_string(format!("/proc/thread-self/net/{name}")).unwrap_or_default();
    let tables = topology.client.run(|| ["tcp", "tcp6"].map(table).concat()).unwrap();
    let has_port = |address: &str| address.ends_with(&format!(":{port:04X}"));
    tables.lines().any(|line| line.split_ascii_whitespace().nth(1).is_some_and(has_port))
}

#[test]
fn h26_ports_are_used_again_while_the_server_waits() {
    const ROUNDS: u64 = 10;
    let topology = Topology::build("reuse");
    let program = Program::start_engine(&topology, &topology.config());
    for (own, address) in ["10.1.0.2", "fd01::2"].into_iter().zip(SERVER) {
        let own = SocketAddr::new(own.parse().unwrap(), 7_100);
        let listener = topology.server.run(|| TcpListener::bind((address, 0))).unwrap().unwrap();
        let to = listener.local_addr().unwrap();
        let sent = pattern(300_000);
        for round in 0..ROUNDS {
            let socket = topology.client.run(|| Socket::new(Domain::for_address(own), Type::STREAM, None));
            let socket = socket.unwrap().unwrap();
            socket.set_reuse_address(true).unwrap();
            socket.bind(&SockAddr::from(own)).unwrap();
            socket.connect_timeout(&SockAddr::from(to), PATIENCE).unwrap();
            let mut client = TcpStream::from(socket);
            client.set_read_timeout(Some(PATIENCE)).unwrap();
            let (mut server, peer) = listener.accept().unwrap();
            assert_eq!(peer, own);
            std::thread::scope(|scope| {
                let sent = &sent;
                scope.spawn(move || {
                    server.write_all(sent).unwrap();
                    // It closes first, so the server's end is the one that waits.
                    server.shutdown(Shutdown::Write).unwrap();
                    assert_eq!(server.read(&mut [0]).unwrap(), 0);
                });
                let mut got = Vec::new();
                client.read_to_end(&mut got).unwrap();
                assert!(got == *sent, "round {round}: {} bytes", got.len());
                client.shutdown(Shutdown::Both).unwrap();
            });
            // Its own end is free with the last acknowledgement, which is still on its way.
            wait_until("the client's end is closed", || !is_port_in_use(&topology, own.port()));
        }
    }
    let said = program.stop(&topology);
    assert_eq!(verdict(&said), (2 * ROUNDS, 0), "{said}");
}

/// A download in pieces; in each pause the tap sees the newest data and `forge` sends what it makes of it.
fn download_with_forgeries(topology: &Topology, forge: impl Fn(&Raw, &TcpHeaderSpec)) {
    let program = Program::start_engine(topology, &topology.config());
    for address in SERVER {
        let Connection { mut client, mut server, .. } = topology.connect(&topology.server, address);
        let own = server.local_addr().unwrap();
        let mut raw = Raw::open(&topology.server, "s0");
        let sent = pattern(40_000);
        let mut got = Vec::new();
        for piece in sent.chunks(1_000) {
            raw.forget();
            server.write_all(piece).unwrap();
            let seen = raw.see(|seen| seen.source() == own && seen.tcp.payload_len > 0);
            forge(&raw, &seen.next(TcpFlags::ACK.with(TcpFlags::PSH)));
            let mut part = vec![0; piece.len()];
            client.read_exact(&mut part).unwrap();
            got.extend(part);
        }
        server.shutdown(Shutdown::Write).unwrap();
        client.read_to_end(&mut got).unwrap();
        let intact = got.iter().zip(&sent).take_while(|(a, b)| a == b).count();
        assert_eq!((intact, got.len()), (sent.len(), sent.len()), "{address}");
    }
    let said = program.stop(topology);
    assert_eq!(verdict(&said), (2, 0), "{said}");
}

#[test]
fn h26_paws_keeps_old_segments_out() {
    let topology = Topology::build("paws");
    download_with_forgeries(&topology, |raw, next| {
        // The next bytes of the stream, by their number; the time says that they are old.
        let Timestamps { value, echo } = next.timestamps.unwrap();
        let old = Timestamps { value: value.wrapping_sub(100_000), echo };
        assert!(raw.send(&TcpHeaderSpec { timestamps: Some(old), ..*next }, &[0xee; 500]));
    });
}

#[test]
fn h26_of_different_bytes_the_first_win() {
    let topology = Topology::build("rewrite");
    download_with_forgeries(&topology, |raw, next| {
        // What was just sent, sent again with other bytes.
        assert!(raw.send(&TcpHeaderSpec { seq: next.seq - 1_000, ..*next }, &[0xee; 1_000]));
    });
}

#[test]
fn h26_of_different_bytes_the_first_win_while_they_are_held() {
    let topology = Topology::build("rewriteheld");
    let program = Program::start_engine(&topology, &topology.config());
    let Connection { mut client, mut server, .. } = topology.connect(&topology.server, SERVER[0]);
    let own = server.local_addr().unwrap();
    let mut raw = Raw::open(&topology.server, "s0");
    let sent = pattern(8_000_000);
    std::thread::scope(|scope| {
        let sent = &sent;
        scope.spawn(move || {
            server.write_all(sent).unwrap();
            server.shutdown(Shutdown::Write).unwrap();
        });
        // The client reads nothing yet: all that the server may send is sent, and held.
        let mut newest = raw.see(|seen| seen.source() == own && seen.tcp.payload_len > 0);
        let mut waiter = Waiter::new(Duration::ZERO).unwrap();
        let mut quiet_for = 0;
        while quiet_for < 30 {
            quiet_for += 1;
            while let Some(seen) = raw.next() {
                let is_data = seen.source() == own && seen.tcp.payload_len > 0;
                if is_data && seen.tcp.seq_end().is_after(newest.tcp.seq_end()) {
                    newest = seen;
                    quiet_for = 0;
                }
            }
            waiter.wait(Some(Clock::now() + Duration::from_millis(10))).unwrap();
        }
        let next = newest.next(TcpFlags::ACK);
        for back in (1..=40).map(|n| 1_000 * n) {
            assert!(raw.send(&TcpHeaderSpec { seq: next.seq - back, ..next }, &[0xee; 1_000]));
        }
        let mut got = Vec::new();
        client.read_to_end(&mut got).unwrap();
        let intact = got.iter().zip(sent).take_while(|(a, b)| a == b).count();
        assert_eq!((intact, got.len()), (sent.len(), sent.len()));
    });
    let said = program.stop(&topology);
    assert_eq!(verdict(&said), (1, 0), "{said}");
}

/// Too long for every run.
#[test]
#[ignore = "five gigabytes, a minute or two: make long-test"]
fn h26_a_stream_longer_than_its_numbers() {
    const BLOCK: usize = 1 << 20;
    const BLOCKS: usize = 5 * 1024;
    let topology = Topology::build("wrap");
    let program = Program::start_engine(&topology, &topology.config());
    let Connection { mut client, mut server, .. } = topology.connect(&topology.server, SERVER[0]);
    let block = pattern(BLOCK);
    let stamp = |n: usize| (n as u64).to_be_bytes();
    std::thread::scope(|scope| {
        let block = &block;
        scope.spawn(move || {
            for n in 0..BLOCKS {
                server.write_all(&stamp(n)).unwrap();
                server.write_all(&block[8..]).unwrap();
            }
            server.shutdown(Shutdown::Write).unwrap();
        });
        let mut got = vec![0; BLOCK];
        for n in 0..BLOCKS {
            client.read_exact(&mut got).unwrap();
            assert!(got[..8] == stamp(n) && got[8..] == block[8..], "block {n}");
        }
        assert_eq!(client.read(&mut got).unwrap(), 0);
    });
    let said = program.stop(&topology);
    assert_eq!(verdict(&said), (1, 0), "{said}");
}
