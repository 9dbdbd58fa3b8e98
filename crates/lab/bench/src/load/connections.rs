//! [`Connections`]: one short connection after the other, many side by side.
//!
//! The client connects, the server sends 1 KB and closes, the client reads to the end and closes.

use std::io::{ErrorKind, Read, Write};
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;

use io::{Clock, Interest, Waiter};
use socket2::{Domain, Socket, Type};
use units::Duration;

use crate::BenchError;
use crate::error::Context;
use crate::topology::{Network, SERVER, subscriber};

/// Payload of a connection, bytes.
pub(crate) const PAYLOAD_LEN: usize = 1_000;

/// Connections under way at once.
const SIDE_BY_SIDE: usize = 64;

/// Interval of the checks of a client whether it is to end.
const LOOK: Duration = Duration::from_millis(50);

/// Connections being made; ended when dropped.
#[derive(Debug)]
pub(crate) struct Connections {
    shared: Arc<Shared>,
    threads: Vec<JoinHandle<()>>,
}

#[derive(Debug, Default)]
struct Shared {
    stop: AtomicBool,
    done: AtomicU64,
    failed: AtomicU64,
}

impl Connections {
    /// Begins; the client's end uses the addresses of `subscribers` subscribers in turn.
    pub fn start(network: &Network, subscribers: u32) -> Result<Self, BenchError> {
        let listener = network.server.run(listen)?.doing(|| "listen".to_owned())?;
        let to = listener.local_addr().doing(|| "ask for a port".to_owned())?;
        let shared = Arc::<Shared>::default();
        let (for_server, for_client) = (Arc::clone(&shared), Arc::clone(&shared));
        let server = std::thread::spawn(move || {
            if serve(&listener, &for_server).is_none() {
                for_server.failed.fetch_add(1, Ordering::Relaxed);
            }
        });
        // The client's thread makes its sockets while it lives in the client's namespace.
        let namespace = io::Namespace::open(network.client.name())?;
        let client = std::thread::spawn(move || {
            let entered = namespace.enter().is_ok();
            if !entered || connect_forever(to, subscribers, &for_client).is_none() {
                for_client.failed.fetch_add(1, Ordering::Relaxed);
            }
        });
        Ok(Self { shared, threads: vec![client, server] })
    }

    /// Connections that carried everything, and those that did not.
    pub fn counts(&self) -> (u64, u64) {
        (self.shared.done.load(Ordering::Relaxed), self.shared.failed.load(Ordering::Relaxed))
    }

    /// Ends, and gives how many connections were done in all.
    pub fn stop(self) -> u64 {
        let shared = Arc::clone(&self.shared);
        drop(self);
        shared.done.load(Ordering::Relaxed)
    }
}

impl Drop for Connections {
    fn drop(&mut self) {
        self.shared.stop.store(true, Ordering::Relaxed);
        for thread in self.threads.drain(..) {
            drop(thread.join());
        }
    }
}

fn listen() -> std::io::Result<TcpListener> {
    let socket = Socket::new(Domain::IPV4, Type::STREAM, None)?;
    socket.bind(&SocketAddr::from((SERVER, 0)).into())?;
    socket.listen(16_384)?;
    socket.set_nonblocking(true)?;
    Ok(socket.into())
}

/// Until told to stop; `None` when the listener cannot be watched.
fn serve(listener: &TcpListener, shared: &Shared) -> Option<()> {
    let payload = [b'x'; PAYLOAD_LEN];
    let mut waiter = Waiter::new(Duration::ZERO).ok()?;
    waiter.add(listener, Interest::Read, 0).ok()?;
    while !shared.stop.load(Ordering::Relaxed) {
        waiter.wait(Some(Clock::now() + LOOK)).ok()?;
        while let Ok((mut socket, _)) = listener.accept() {
            // A client that has gone counts on its own side.
            drop(socket.write_all(&payload));
        }
    }
    Some(())
}

/// A connection under way, and what it has received.
struct Slot {
    socket: TcpStream,
    received: usize,
}

/// Until told to stop; `None` when sockets cannot be had at all.
fn connect_forever(to: SocketAddr, subscribers: u32, shared: &Shared) -> Option<()> {
    let mut waiter = Waiter::new(Duration::ZERO).ok()?;
    let mut slots: Vec<Option<Slot>> = (0..SIDE_BY_SIDE).map(|_| None).collect();
    let mut made = 0u32;
    let mut ready: Vec<usize> = (0..SIDE_BY_SIDE).collect();
    while !shared.stop.load(Ordering::Relaxed) {
        for index in ready.drain(..) {
            let slot = &mut slots[index];
            if slot.as_mut().is_some_and(|slot| !advance(slot, shared)) {
                continue;
            }
            let from = if subscribers == 0 { Ipv4Addr::UNSPECIFIED } else { subscriber(made % subscribers) };
            made = made.wrapping_add(1);
            let socket = connect(from.into(), to).ok();
            *slot = socket.map(|socket| Slot { socket, received: 0 });
            match slot {
                Some(slot) => waiter.add(&slot.socket, Interest::Read, index as u64).ok()?,
                None => drop(shared.failed.fetch_add(1, Ordering::Relaxed)),
            }
        }
        let events = waiter.wait(Some(Clock::now() + LOOK)).ok()?;
        ready.extend(events.iter().map(|event| event.token as usize));
        if ready.is_empty() {
            // Slots that got no socket try again.
            ready.extend((0..SIDE_BY_SIDE).filter(|index| slots[*index].is_none()));
        }
    }
    Some(())
}

/// Begins a connection from `from`.
fn connect(from: IpAddr, to: SocketAddr) -> std::io::Result<TcpStream> {
    let socket = Socket::new(Domain::IPV4, Type::STREAM, None)?;
    socket.set_nonblocking(true)?;
    socket.bind(&SocketAddr::new(from, 0).into())?;
    match socket.connect(&to.into()) {
        Err(e) if e.raw_os_error() != Some(libc::EINPROGRESS) => Err(e),
        _ => Ok(socket.into()),
    }
}

/// Reads what is there; true when the connection has ended, well or badly.
fn advance(slot: &mut Slot, shared: &Shared) -> bool {
    let mut buffer = [0; 4_096];
    loop {
        match slot.socket.read(&mut buffer) {
            Ok(0) if slot.received == PAYLOAD_LEN => {
                shared.done.fetch_add(1, Ordering::Relaxed);
                return true;
            }
            Ok(len) if len > 0 => slot.received += len,
            Err(e) if e.kind() == ErrorKind::WouldBlock => return false,
            Err(e) if e.kind() == ErrorKind::Interrupted => {}
            Ok(_) | Err(_) => {
                shared.failed.fetch_add(1, Ordering::Relaxed);
                return true;
            }
        }
    }
}
