//! TCP beside a case's own flows: servers that write as much as is asked for or read all there is, and their clients.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;

use io::{Clock, Namespace, set_congestion_control};
use scenario::Beside;
use units::Duration;

use super::{Arrived, PATIENCE, Seen, TURN, Times};
use crate::LabError;
use crate::error::Context;
use crate::pause::pause;
use crate::shaped_origin::is_time_out;

const BLOCK: usize = 1 << 16;
/// Length of the request that a client of a server that writes sends first: the number of bytes it wants.
const REQUEST_LEN: usize = 8;

/// A server of TCP; ended when dropped.
#[derive(Debug)]
pub(super) struct Server {
    is_over: Arc<AtomicBool>,
    accepting: Option<JoinHandle<Vec<Arrived>>>,
}

/// Service of a server to each client.
#[derive(Clone, Copy, Debug)]
enum Service {
    /// Writes what it asks for, with this congestion control or that of the route.
    Writes(Option<&'static str>),
    /// Reads what it sends.
    Reads,
}

impl Server {
    /// Listens at `at` in `server`, and writes to each client as much as it asks for.
    ///
    /// # Errors
    /// When the port is taken, or the kernel has no such congestion control.
    pub(super) fn writing(
        server: &Namespace,
        at: SocketAddr,
        congestion_control: Option<&'static str>,
    ) -> Result<Self, LabError> {
        Self::start(server, at, Service::Writes(congestion_control))
    }

    /// Listens at `at` in `server`, and reads all that clients send.
    ///
    /// # Errors
    /// When the port is taken.
    pub(super) fn reading(server: &Namespace, at: SocketAddr) -> Result<Self, LabError> {
        Self::start(server, at, Service::Reads)
    }

    fn start(server: &Namespace, at: SocketAddr, service: Service) -> Result<Self, LabError> {
        let listener = server.run(|| {
            let listener = TcpListener::bind(at)?;
            listener.set_nonblocking(true)?;
            Ok(listener)
        })?;
        let listener = listener.doing(|| format!("listen at {at}"))?;
        if let Service::Writes(Some(name)) = service {
            // Only to learn whether the kernel has it: connections take that of their route.
            set_congestion_control(&listener, name)
                .map_err(|error| LabError::NoCongestionControl { name, said: error.to_string() })?;
        }
        let is_over = Arc::<AtomicBool>::default();
        let ends = Arc::clone(&is_over);
        let accepting = std::thread::spawn(move || accept(&listener, service, &ends));
        Ok(Self { is_over, accepting: Some(accepting) })
    }

    /// Ends it; what each client has sent, beside requests.
    pub(super) fn finish(mut self) -> Vec<Arrived> {
        self.end()
    }

    fn end(&mut self) -> Vec<Arrived> {
        self.is_over.store(true, Ordering::Relaxed);
        self.accepting.take().and_then(|thread| thread.join().ok()).unwrap_or_default()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.end();
    }
}

fn accept(listener: &TcpListener, service: Service, is_over: &Arc<AtomicBool>) -> Vec<Arrived> {
    let mut serving = Vec::new();
    while !is_over.load(Ordering::Relaxed) {
        match listener.accept() {
            Ok((client, _)) => {
                let is_over = Arc::clone(is_over);
                serving.push(std::thread::spawn(move || {
                    let mut arrived = Arrived::default();
                    // A client that goes away is its own affair: it says so itself.
                    let _ = serve(client, service, &mut arrived, &is_over);
                    arrived
                }));
            }
            Err(_) if pause(Duration::from_millis(2)).is_ok() => {}
            Err(_) => break,
        }
    }
    serving.into_iter().filter_map(|thread| thread.join().ok()).collect()
}

fn serve(
    mut client: TcpStream,
    service: Service,
    arrived: &mut Arrived,
    is_over: &AtomicBool,
) -> std::io::Result<()> {
    client.set_nonblocking(false)?;
    client.set_read_timeout(Some(TURN))?;
    client.set_write_timeout(Some(TURN))?;
    let is_over = || is_over.load(Ordering::Relaxed);
    match service {
        Service::Reads => read_all(&mut client, &is_over, &mut |len| arrived.add(len)),
        Service::Writes(control) => {
            if let Some(name) = control {
                set_congestion_control(&client, name).map_err(std::io::Error::other)?;
            }
            let Some(wanted) = request(&mut client, &is_over)? else { return Ok(()) };
            write_all(&mut client, wanted, &is_over)
        }
    }
}

/// Number of bytes that a client wants; none when it goes or all is over.
fn request(client: &mut TcpStream, is_over: &dyn Fn() -> bool) -> std::io::Result<Option<u64>> {
    let (mut request, mut len) = ([0; REQUEST_LEN], 0);
    while len < REQUEST_LEN {
        match client.read(&mut request[len..]) {
            Ok(0) => return Ok(None),
            Ok(more) => len += more,
            Err(error) if is_time_out(&error) && !is_over() => {}
            Err(error) if is_time_out(&error) => return Ok(None),
            Err(error) => return Err(error),
        }
    }
    Ok(Some(u64::from_be_bytes(request)))
}

/// Writes `left` bytes, or until all is over.
fn write_all(stream: &mut TcpStream, mut left: u64, is_over: &dyn Fn() -> bool) -> std::io::Result<()> {
    let block = vec![0x5a; BLOCK];
    while left > 0 && !is_over() {
        let len = usize::try_from(left).unwrap_or(BLOCK).min(BLOCK);
        match stream.write(&block[..len]) {
            Ok(len) => left -= len as u64,
            Err(error) if is_time_out(&error) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// Reads to the end, or until all is over; `on_data` is told how much came.
fn read_all(
    stream: &mut TcpStream,
    is_over: &dyn Fn() -> bool,
    on_data: &mut dyn FnMut(usize),
) -> std::io::Result<()> {
    let mut block = vec![0; BLOCK];
    while !is_over() {
        match stream.read(&mut block) {
            Ok(0) => return Ok(()),
            Ok(len) => on_data(len),
            Err(error) if is_time_out(&error) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// A connection from `client`, when it is time for it; none when all was over before.
fn connect(client: &Namespace, to: SocketAddr, times: &Times) -> Result<Option<TcpStream>, String> {
    let open = || {
        let stream = TcpStream::connect_timeout(&to, PATIENCE)?;
        stream.set_read_timeout(Some(TURN))?;
        stream.set_write_timeout(Some(TURN))?;
        Ok::<_, std::io::Error>(stream)
    };
    match client.run(open).map_err(|error| error.to_string())? {
        Ok(stream) => Ok(Some(stream)),
        Err(_) if times.is_over() => Ok(None),
        Err(error) => Err(format!("cannot connect to {to}: {error}")),
    }
}

/// Downloads until it is over.
pub(super) fn download(client: &Namespace, to: SocketAddr, times: &Times) -> Seen {
    let mut seen = Seen::default();
    if times.wait_for(times.begins) {
        let ran = fetch(client, to, (u64::MAX, times), &mut |len| seen.arrived.add(len));
        seen.error = ran.err().or_else(|| (!times.is_over()).then(|| "the server closed".to_owned()));
    }
    seen
}

/// Asks for `wanted` bytes, and reads them.
fn fetch(
    client: &Namespace,
    to: SocketAddr,
    (wanted, times): (u64, &Times),
    on_data: &mut dyn FnMut(usize),
) -> Result<(), String> {
    let Some(mut stream) = connect(client, to, times)? else { return Ok(()) };
    let ran = stream.write_all(&wanted.to_be_bytes());
    ran.and_then(|()| read_all(&mut stream, &|| times.is_over(), on_data)).map_err(|error| error.to_string())
}

/// Uploads until it is over. What has arrived, the server knows.
pub(super) fn upload(client: &Namespace, to: SocketAddr, times: &Times) -> Seen {
    if !times.wait_for(times.begins) {
        return Seen::default();
    }
    let run = || {
        let Some(mut stream) = connect(client, to, times)? else { return Ok(()) };
        write_all(&mut stream, u64::MAX, &|| times.is_over()).map_err(|error| error.to_string())
    };
    run().map_or_else(|error: String| Seen::failed(error), |()| Seen::default())
}

/// Fetches pages until it is over, each at its time, whether or not the one before has come.
pub(super) fn pages(client: &Namespace, to: SocketAddr, entry: &Beside, times: &Times) -> Seen {
    let mut seen = Seen::default();
    let began = times.begins;
    let length = times.stops.saturating_since(began) + entry.start();
    std::thread::scope(|scope| {
        let mut under_way = Vec::new();
        for at in entry.page_starts(length) {
            if !times.wait_for(began + (at - entry.start())) {
                break;
            }
            under_way.push(scope.spawn(|| page(client, to, entry, times)));
        }
        for page in under_way {
            match page.join() {
                Ok(Ok(Some((took, arrived)))) => {
                    seen.pages.push(took);
                    seen.arrived.marks.push(arrived);
                }
                // It was cut short.
                Ok(Ok(None)) => {}
                Ok(Err(error)) => seen.error = Some(error),
                Err(_) => seen.error = Some("a thread of it ended with a panic".to_owned()),
            }
        }
    });
    seen.arrived.marks.sort_unstable();
    for (_, bytes) in &mut seen.arrived.marks {
        seen.arrived.bytes += *bytes;
        *bytes = seen.arrived.bytes;
    }
    seen
}

/// Time that a page took, when it was there, and its bytes.
type Loaded = (Duration, (units::Instant, u64));

/// Loads a page; none for one that was cut short.
fn page(client: &Namespace, to: SocketAddr, entry: &Beside, times: &Times) -> Result<Option<Loaded>, String> {
    let (began, piece) = (Clock::now(), entry.piece().get());
    let arrived: Vec<Result<u64, String>> = std::thread::scope(|scope| {
        let connections: Vec<_> = (0..entry.flows())
            .map(|_| {
                scope.spawn(|| {
                    let mut bytes = 0;
                    fetch(client, to, (piece, times), &mut |len| bytes += len as u64).map(|()| bytes)
                })
            })
            .collect();
        let failed = || Err("a thread of it ended with a panic".to_owned());
        connections.into_iter().map(|thread| thread.join().unwrap_or_else(|_| failed())).collect()
    });
    let ended = Clock::now();
    let bytes: u64 = arrived.into_iter().sum::<Result<u64, String>>()?;
    let is_whole = bytes == piece * u64::from(entry.flows());
    Ok(is_whole.then(|| (ended.saturating_since(began), (ended, bytes))))
}
