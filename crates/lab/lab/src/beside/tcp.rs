//! TCP beside a case's own flows: servers that write as much as is asked for or read all there is, and their clients.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};

use io::{Clock, Namespace, set_congestion_control};
use scenario::Beside;
use units::Duration;

use super::{Arrived, PATIENCE, Seen, TURN, Times};
use crate::LabError;
use crate::listener::{self, Listener, is_time_out, read_exact};

const BLOCK: usize = 1 << 16;

/// Service of a server to each client.
#[derive(Clone, Copy, Debug)]
enum Service {
    /// Writes what it asks for, with this congestion control or that of the route.
    Writes(Option<&'static str>),
    /// Reads what it sends.
    Reads,
}

/// Server at `at` in `server` that writes to each client as much as it asks for.
///
/// # Errors
/// When the port is taken, or the kernel has no such congestion control.
pub(super) fn writing(
    server: &Namespace,
    at: SocketAddr,
    congestion_control: Option<&'static str>,
) -> Result<Listener<Arrived>, LabError> {
    let socket = listener::bind(server, at)?;
    if let Some(name) = congestion_control {
        // Only to learn whether the kernel has it: connections take that of their route.
        set_congestion_control(&socket, name)
            .map_err(|error| LabError::NoCongestionControl { name, said: error.to_string() })?;
    }
    Listener::of(server, socket, serving(Service::Writes(congestion_control)))
}

/// Server at `at` in `server` that reads all that clients send.
///
/// # Errors
/// When the port is taken.
pub(super) fn reading(server: &Namespace, at: SocketAddr) -> Result<Listener<Arrived>, LabError> {
    Listener::start(server, at, serving(Service::Reads))
}

/// Work of a server on a connection; gives what has arrived from it, beside requests.
fn serving(service: Service) -> impl Fn(TcpStream, &AtomicBool) -> Arrived + Send + Sync {
    move |client, is_over| {
        let mut arrived = Arrived::default();
        // A client that goes away is its own affair: it says so itself.
        let _ = serve(client, service, &mut arrived, is_over);
        arrived
    }
}

fn serve(
    mut client: TcpStream,
    service: Service,
    arrived: &mut Arrived,
    is_over: &AtomicBool,
) -> std::io::Result<()> {
    client.set_read_timeout(Some(TURN))?;
    client.set_write_timeout(Some(TURN))?;
    let is_over = || is_over.load(Ordering::Relaxed);
    match service {
        Service::Reads => read_all(&mut client, &is_over, &mut |len| arrived.add(len)),
        Service::Writes(control) => {
            if let Some(name) = control {
                set_congestion_control(&client, name).map_err(std::io::Error::other)?;
            }
            // The request: the number of bytes that the client wants.
            let mut wanted = [0; size_of::<u64>()];
            if !read_exact(&mut client, &mut wanted, &is_over)? {
                return Ok(());
            }
            write_all(&mut client, u64::from_be_bytes(wanted), &is_over)
        }
    }
}

/// Writes `left` bytes, or until all is over.
fn write_all(stream: &mut TcpStream, mut left: u64, is_over: &dyn Fn() -> bool) -> std::io::Result<()> {
    let block = vec![0x5a; BLOCK];
    while left > 0 && !is_over() {
        let len = usize::try_from(left).unwrap_or(BLOCK).min(BLOCK);
        if !listener::write_all(stream, &block[..len], is_over)? {
            break;
        }
        left -= len as u64;
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
