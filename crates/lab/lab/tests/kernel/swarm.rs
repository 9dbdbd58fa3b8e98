//! [`Swarm`]: many connections at once, each a trickle of its own content.

use std::collections::BTreeMap;
use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};

use io::{Clock, Interest, Waiter};
use scenario::Family;
use units::Duration;

use crate::kernel::content::{Content, Print, Reading};
use crate::kernel::testbed::{PATIENCE, Testbed, pause};

/// Threads that connect.
const CONNECTORS: usize = 16;

/// Connections between the client and the server, both ends, in the same order.
pub struct Swarm {
    clients: Vec<TcpStream>,
    servers: Vec<TcpStream>,
}

/// What each server sends: so many bytes, again and again.
#[derive(Clone, Copy)]
pub struct Trickle {
    pub piece_len: usize,
    pub pieces: usize,
    pub interval: Duration,
}

impl Trickle {
    fn content(self, seed: u64) -> Content {
        Content { seed, len: (self.piece_len * self.pieces) as u64 }
    }
}

impl Swarm {
    pub fn connect(bed: &Testbed, family: Family, count: usize) -> Self {
        let listener = bed.listen(family);
        let to = listener.local_addr().unwrap();
        let (clients, accepted) = std::thread::scope(|scope| {
            let accepting =
                scope.spawn(move || (0..count).map(|_| listener.accept().unwrap()).collect::<Vec<_>>());
            let connecting: Vec<_> = (0..CONNECTORS)
                .map(|n| {
                    let share = (n..count).step_by(CONNECTORS).count();
                    scope.spawn(move || (0..share).map(|_| bed.connect(to)).collect::<Vec<_>>())
                })
                .collect();
            let clients: Vec<TcpStream> =
                connecting.into_iter().flat_map(|thread| thread.join().unwrap()).collect();
            (clients, accepting.join().unwrap())
        });
        let mut by_peer: BTreeMap<SocketAddr, TcpStream> =
            accepted.into_iter().map(|(stream, peer)| (peer, stream)).collect();
        let servers =
            clients.iter().map(|client| by_peer.remove(&client.local_addr().unwrap()).unwrap()).collect();
        Self { clients, servers }
    }

    /// Sends everything, reads everything, closes in order; calls `midway` after the first quarter.
    /// Every client must have got its own content whole. Gives what `midway` gave.
    pub fn trickle<T>(self, trickle: Trickle, midway: impl FnOnce() -> T) -> T {
        let Self { clients, servers } = self;
        std::thread::scope(|scope| {
            let reading = scope.spawn(|| read_all(&clients));
            let (begin, begun) = std::sync::mpsc::channel();
            let writing = scope.spawn(move || write_all(servers, trickle, &begin));
            begun.recv().unwrap();
            let result = midway();
            assert!(!writing.is_finished(), "all were sent before the middle");
            let servers = writing.join().unwrap();
            let prints = reading.join().unwrap();
            for (seed, print) in prints.into_iter().enumerate() {
                let print = print.unwrap_or_else(|e| panic!("connection {seed}: {e}"));
                assert!(print == trickle.content(seed as u64).print(), "connection {seed}: {} B", print.len);
            }
            drop(servers);
            result
        })
    }
}

/// Writes piece by piece to all of them; says when a quarter is written.
fn write_all(
    mut servers: Vec<TcpStream>,
    trickle: Trickle,
    begin: &std::sync::mpsc::Sender<()>,
) -> Vec<TcpStream> {
    let seeds = 0..servers.len() as u64;
    let mut contents: Vec<Vec<u8>> = seeds
        .map(|seed| {
            let mut content = Vec::new();
            trickle.content(seed).write_to(&mut content).unwrap();
            content
        })
        .collect();
    let mut at = Clock::now();
    for piece in 0..trickle.pieces {
        if piece == trickle.pieces / 4 {
            begin.send(()).unwrap();
        }
        for (server, content) in servers.iter_mut().zip(&mut contents) {
            let rest = content.split_off(trickle.piece_len);
            server.write_all(content).unwrap();
            *content = rest;
        }
        at += trickle.interval;
        let now = Clock::now();
        if now < at {
            pause(at.saturating_since(now));
        }
    }
    servers.iter().for_each(|server| server.shutdown(Shutdown::Write).unwrap());
    servers
}

/// Reads all of them to their ends, with one thread.
fn read_all(clients: &[TcpStream]) -> Vec<std::io::Result<Print>> {
    let mut waiter = Waiter::new(Duration::ZERO).unwrap();
    let mut readings: Vec<Option<Reading>> = Vec::new();
    let mut results: Vec<Option<std::io::Result<Print>>> = Vec::new();
    for (token, client) in clients.iter().enumerate() {
        client.set_nonblocking(true).unwrap();
        waiter.add(client, Interest::Read, token as u64).unwrap();
        readings.push(Some(Reading::default()));
        results.push(None);
    }
    let patience = Duration::from_nanos(PATIENCE.as_nanos() as u64);
    let mut block = vec![0; 65_536];
    while readings.iter().any(Option::is_some) {
        let ready = waiter.wait(Some(Clock::now() + patience)).unwrap().to_vec();
        assert!(!ready.is_empty(), "nothing has come for {patience}");
        for ready in ready {
            let index = ready.token as usize;
            let ended = match (&clients[index]).read(&mut block) {
                Ok(0) => Ok(()),
                Ok(len) => {
                    readings[index].as_mut().unwrap().add(&block[..len]);
                    continue;
                }
                Err(e) if e.kind() == ErrorKind::WouldBlock => continue,
                Err(e) => Err(e),
            };
            waiter.remove(&clients[index]).unwrap();
            let print = readings[index].take().unwrap().print();
            results[index] = Some(ended.map(|()| print));
        }
    }
    results.into_iter().map(Option::unwrap).collect()
}
