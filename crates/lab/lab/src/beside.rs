//! [`Servers`] and [`Neighbours`]: what goes on beside the flows of a case: TCP and QUIC that the accelerator passes,
//! uploads, calls and pages, each by sockets of its own in the namespaces of server and client.
//!
//! Servers listen before the links move packets. Clients are threads that wait for their time.

mod call;
mod quic;
mod tcp;

use std::net::{SocketAddr, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;

use io::{Clock, Namespace, Waiter};
use scenario::figures::Neighbour;
use scenario::{Beside, BesideKind, Workload};
use units::{Duration, Instant};

use crate::LabError;
use crate::error::Context;
use crate::listener::Listener;
use crate::topology::{client_address, server_address};
use crate::transfer::mark;

/// Longest time that a socket may hold a thread up before it looks whether it is to end.
const TURN: std::time::Duration = std::time::Duration::from_millis(50);
/// Longest time that a connection may take to open: a full queue holds seconds.
const PATIENCE: std::time::Duration = std::time::Duration::from_secs(20);

/// Times at which a flow's client begins and ends; all ends before if it is told to.
#[derive(Clone, Debug)]
struct Times {
    begins: Instant,
    stops: Instant,
    is_over: Arc<AtomicBool>,
}

impl Times {
    fn is_over(&self) -> bool {
        self.is_over.load(Ordering::Relaxed) || Clock::now() >= self.stops
    }

    /// Waits for a moment; false when all was over before.
    fn wait_for(&self, at: Instant) -> bool {
        let Ok(mut waiter) = Waiter::new(Duration::ZERO) else { return false };
        while !self.is_over() && Clock::now() < at {
            let turn = Clock::now() + Duration::from_nanos(TURN.as_nanos() as u64);
            if waiter.wait(Some(turn.min(at))).is_err() {
                return false;
            }
        }
        !self.is_over()
    }
}

/// Bytes that have arrived, and how many had at some moments.
#[derive(Debug, Default)]
struct Arrived {
    bytes: u64,
    marks: Vec<(Instant, u64)>,
}

impl Arrived {
    fn add(&mut self, len: usize) {
        self.bytes += len as u64;
        mark(&mut self.marks, Clock::now(), self.bytes);
    }
}

/// Observations of a thread about a flow.
#[derive(Debug, Default)]
struct Seen {
    arrived: Arrived,
    pages: Vec<Duration>,
    delays: [Vec<Duration>; 2],
    sent: u64,
    error: Option<String>,
}

impl Seen {
    fn failed(error: impl std::fmt::Display) -> Self {
        Self { error: Some(error.to_string()), ..Self::default() }
    }

    fn into_neighbour(self, entry: &Beside, times: &Times) -> Neighbour {
        Neighbour {
            marks: self.arrived.marks,
            pages: self.pages,
            delays: self.delays,
            sent: self.sent,
            error: self.error,
            ..Neighbour::new(entry, times.begins, times.stops)
        }
    }
}

/// The server of an entry.
#[derive(Debug)]
enum Server {
    Tcp(Listener<Arrived>),
    Quic(quic::Server),
    /// The server's ends of calls.
    Calls(Vec<UdpSocket>),
}

/// The servers of everything beside a workload; they end when this is dropped.
#[derive(Debug)]
pub(crate) struct Servers {
    workload: Workload,
    entries: Vec<(Beside, Server)>,
}

impl Servers {
    /// Listens in `server` for everything beside `workload`.
    ///
    /// # Errors
    /// When a port is taken, or the kernel lacks a congestion control.
    pub(crate) fn listen(server: &Namespace, workload: &Workload) -> Result<Self, LabError> {
        let mut servers = Self { workload: workload.clone(), entries: Vec::new() };
        for (index, entry) in workload.beside().iter().enumerate() {
            let at = SocketAddr::from((server_address(workload.family()), entry.port(index)));
            let made = match entry.kind {
                BesideKind::Download => {
                    Server::Tcp(tcp::writing(server, at, Some(entry.congestion_control().name()))?)
                }
                BesideKind::Pages => Server::Tcp(tcp::writing(server, at, None)?),
                BesideKind::Upload => Server::Tcp(tcp::reading(server, at)?),
                BesideKind::Quic => {
                    Server::Quic(quic::Server::start(bind(server, at)?, entry.congestion_control())?)
                }
                BesideKind::Call => {
                    let ports = (0..entry.flows()).map(|number| entry.call_port(index, number));
                    let sockets = ports.map(|port| bind(server, (at.ip(), port).into()));
                    Server::Calls(sockets.collect::<Result<_, _>>()?)
                }
            };
            servers.entries.push((entry.clone(), made));
        }
        Ok(servers)
    }

    /// Has the clients in `client` begin, each at its time: the workload begins now, and has `time_limit`.
    ///
    /// # Errors
    /// When the system has no more sockets or threads.
    pub(crate) fn begin(self, client: &Namespace, time_limit: Duration) -> Result<Neighbours, LabError> {
        let Self { workload, entries } = self;
        let (began, is_over) = (Clock::now(), Arc::<AtomicBool>::default());
        let mut neighbours = Neighbours { entries: Vec::new(), is_over: Arc::clone(&is_over) };
        for (index, (entry, server)) in entries.into_iter().enumerate() {
            let stops = began + entry.stop_within(time_limit);
            let times = Times { begins: began + entry.start(), stops, is_over: Arc::clone(&is_over) };
            let at = SocketAddr::from((server_address(workload.family()), entry.port(index)));
            let clients = clients(client, &workload, (&entry, &server), &times, at)?;
            neighbours.entries.push(Entry { entry, times, server, clients });
        }
        Ok(neighbours)
    }
}

/// The clients of an entry, as threads.
fn clients(
    client: &Namespace,
    workload: &Workload,
    (entry, server): (&Beside, &Server),
    times: &Times,
    at: SocketAddr,
) -> Result<Vec<JoinHandle<Seen>>, LabError> {
    let mut threads = Vec::new();
    let flows = if entry.kind == BesideKind::Pages { 1 } else { entry.flows() };
    for number in 0..flows {
        let (entry, times) = (entry.clone(), times.clone());
        // Each thread has a handle of its own: it outlives the call.
        let namespace = Namespace::open(client.name())?;
        let work: Box<dyn FnOnce() -> Seen + Send> = match server {
            Server::Quic(server) => {
                let socket = bind(client, SocketAddr::from((client_address(workload.family()), 0)))?;
                let (to, identity) = (server.address(), server.identity());
                Box::new(move || quic::download(socket, to, &identity, &times))
            }
            Server::Calls(sockets) => {
                let Some(far) = sockets.get(usize::from(number)) else { continue };
                let far = far.try_clone().doing(|| "copy a UDP socket".to_owned())?;
                let port = far.local_addr().doing(|| "look at a UDP socket".to_owned())?.port();
                let near = bind(client, SocketAddr::from((client_address(workload.family()), port)))?;
                let (payload, rate) = entry.call(workload.family());
                Box::new(move || call::call([far, near], (payload, rate), &times))
            }
            Server::Tcp(_) => match entry.kind {
                BesideKind::Upload => Box::new(move || tcp::upload(&namespace, at, &times)),
                BesideKind::Pages => Box::new(move || tcp::pages(&namespace, at, &entry, &times)),
                BesideKind::Download | BesideKind::Quic | BesideKind::Call => {
                    Box::new(move || tcp::download(&namespace, at, &times))
                }
            },
        };
        let thread = std::thread::Builder::new().name(format!("beside {number}")).spawn(work);
        threads.push(thread.doing(|| "start a thread".to_owned())?);
    }
    Ok(threads)
}

/// A UDP socket in `namespace`.
fn bind(namespace: &Namespace, at: SocketAddr) -> Result<UdpSocket, LabError> {
    namespace.run(|| UdpSocket::bind(at))?.doing(|| format!("open a UDP socket at {at}"))
}

/// One entry that runs.
#[derive(Debug)]
struct Entry {
    entry: Beside,
    times: Times,
    server: Server,
    clients: Vec<JoinHandle<Seen>>,
}

/// Traffic beside a workload; ended when dropped.
#[derive(Debug)]
pub(crate) struct Neighbours {
    entries: Vec<Entry>,
    is_over: Arc<AtomicBool>,
}

impl Neighbours {
    /// Ends all that has not ended; what came of it.
    pub(crate) fn finish(mut self) -> Vec<Neighbour> {
        self.is_over.store(true, Ordering::Relaxed);
        let entries = std::mem::take(&mut self.entries);
        entries.into_iter().flat_map(Entry::finish).collect()
    }
}

impl Drop for Neighbours {
    /// Has everything end, and does not wait for it: a connection that is being opened may take its time.
    fn drop(&mut self) {
        self.is_over.store(true, Ordering::Relaxed);
    }
}

impl Entry {
    fn finish(self) -> Vec<Neighbour> {
        let Self { entry, times, server, clients } = self;
        let joined = |thread: JoinHandle<Seen>| {
            thread.join().unwrap_or_else(|_| Seen::failed("its thread ended with a panic"))
        };
        let mut all: Vec<Seen> = clients.into_iter().map(joined).collect();
        if let Server::Tcp(server) = server {
            // What was uploaded has arrived there.
            let arrived = server.finish();
            if entry.kind == BesideKind::Upload {
                all.iter_mut().zip(arrived).for_each(|(seen, arrived)| seen.arrived = arrived);
            }
        }
        all.into_iter().map(|seen| seen.into_neighbour(&entry, &times)).collect()
    }
}
