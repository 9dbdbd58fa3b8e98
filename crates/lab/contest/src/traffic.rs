//! [`Traffic`]: a bulk download and a ping-pong over real sockets.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;

use io::{Clock, Namespace, Waiter};
use lab::{is_time_out, server_address};
use scenario::Family;
use units::{Duration, Instant};

use crate::line_up::{PING_EVERY, PING_LEN};

/// Ports of the server.
pub(crate) const PING_PORT: u16 = 7_001;
pub(crate) const BULK_PORT: u16 = 7_002;

/// Longest time that a thread may stand still before it looks whether it is to end.
const LOOK_EVERY: std::time::Duration = std::time::Duration::from_millis(100);
/// Bytes of a request.
const LEN: usize = PING_LEN as usize;

/// State that the threads share.
#[derive(Debug, Default)]
struct Shared {
    is_over: AtomicBool,
    asked: AtomicU64,
    round_trips: Mutex<Vec<Duration>>,
    problems: Mutex<Vec<String>>,
}

impl Shared {
    fn is_over(&self) -> bool {
        self.is_over.load(Ordering::Relaxed)
    }

    fn note(&self, problem: String) {
        if let Ok(mut problems) = self.problems.lock() {
            problems.push(problem);
        }
    }
}

/// Running flows; they end when it is dropped.
#[derive(Debug)]
pub(crate) struct Traffic {
    shared: Arc<Shared>,
    threads: Vec<JoinHandle<()>>,
}

impl Traffic {
    /// Starts the ping, and the download if `has_bulk`; pings are sent for `length`.
    pub(crate) fn start(
        (ping, bulk): (TcpListener, TcpListener),
        client: &Arc<Namespace>,
        length: Duration,
        has_bulk: bool,
    ) -> std::io::Result<Self> {
        let mut traffic = Self { shared: Arc::default(), threads: Vec::new() };
        let end = Clock::now() + length;
        traffic.spawn("ping server", move |shared| answer(&ping, shared))?;
        let namespace = Arc::clone(client);
        traffic.spawn("ping", move |shared| {
            namespace.enter().map_err(std::io::Error::other)?;
            ask(end, shared)
        })?;
        if has_bulk {
            traffic.spawn("bulk server", move |shared| send(&bulk, shared))?;
            let namespace = Arc::clone(client);
            traffic.spawn("bulk", move |shared| {
                namespace.enter().map_err(std::io::Error::other)?;
                receive(shared)
            })?;
        }
        Ok(traffic)
    }

    fn spawn(
        &mut self,
        name: &'static str,
        work: impl FnOnce(&Shared) -> std::io::Result<()> + Send + 'static,
    ) -> std::io::Result<()> {
        let shared = Arc::clone(&self.shared);
        let thread = std::thread::Builder::new().name(name.to_owned()).spawn(move || {
            if let Err(error) = work(&shared)
                && !shared.is_over()
            {
                shared.note(format!("{name}: {error}"));
            }
        })?;
        self.threads.push(thread);
        Ok(())
    }

    /// Pings without an answer so far.
    pub(crate) fn unanswered(&self) -> u64 {
        let answered = self.shared.round_trips.lock().map_or(0, |times| times.len() as u64);
        self.shared.asked.load(Ordering::Relaxed).saturating_sub(answered)
    }

    /// Ends everything: round trips, pings without an answer, and what went wrong.
    pub(crate) fn finish(mut self) -> (Vec<Duration>, u64, Vec<String>) {
        let unanswered = self.unanswered();
        self.end();
        let take =
            |list: &Mutex<Vec<String>>| list.lock().map(|mut l| core::mem::take(&mut *l)).unwrap_or_default();
        let times = self.shared.round_trips.lock().map(|mut t| core::mem::take(&mut *t)).unwrap_or_default();
        (times, unanswered, take(&self.shared.problems))
    }

    fn end(&mut self) {
        self.shared.is_over.store(true, Ordering::Relaxed);
        for thread in self.threads.drain(..) {
            // A thread that died has nothing more to say.
            let _ = thread.join();
        }
    }
}

impl Drop for Traffic {
    fn drop(&mut self) {
        self.end();
    }
}

/// The one connection that a listener is for.
fn accept(listener: &TcpListener, shared: &Shared) -> std::io::Result<Option<TcpStream>> {
    listener.set_nonblocking(true)?;
    let mut waiter = Waiter::new(Duration::ZERO).map_err(std::io::Error::other)?;
    while !shared.is_over() {
        match listener.accept() {
            Ok((stream, _)) => {
                stream.set_nonblocking(false)?;
                stream.set_nodelay(true)?;
                stream.set_read_timeout(Some(LOOK_EVERY))?;
                stream.set_write_timeout(Some(LOOK_EVERY))?;
                return Ok(Some(stream));
            }
            Err(error) if is_time_out(&error) => {
                let soon = Clock::now() + Duration::from_millis(2);
                waiter.wait(Some(soon)).map_err(std::io::Error::other)?;
            }
            Err(error) => return Err(error),
        }
    }
    Ok(None)
}

fn connect(port: u16) -> std::io::Result<TcpStream> {
    let stream = TcpStream::connect(SocketAddr::new(server_address(Family::Ipv4), port))?;
    stream.set_nodelay(true)?;
    stream.set_read_timeout(Some(LOOK_EVERY))?;
    Ok(stream)
}

/// Reads what comes, piece by piece, until the end.
fn read_on(
    stream: &mut TcpStream,
    shared: &Shared,
    mut take: impl FnMut(&[u8]) -> std::io::Result<()>,
) -> std::io::Result<()> {
    let mut block = vec![0; 1 << 17];
    while !shared.is_over() {
        match stream.read(&mut block) {
            Ok(0) => return Ok(()),
            Ok(len) => take(&block[..len])?,
            Err(error) if is_time_out(&error) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// Sends all that the connection takes.
fn send(listener: &TcpListener, shared: &Shared) -> std::io::Result<()> {
    let Some(mut stream) = accept(listener, shared)? else { return Ok(()) };
    let block = vec![0x5a; 1 << 16];
    while !shared.is_over() {
        match stream.write(&block) {
            Ok(_) => {}
            Err(error) if is_time_out(&error) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

fn receive(shared: &Shared) -> std::io::Result<()> {
    read_on(&mut connect(BULK_PORT)?, shared, |_| Ok(()))
}

/// Sends back what comes, a whole request at a time.
fn answer(listener: &TcpListener, shared: &Shared) -> std::io::Result<()> {
    let Some(mut stream) = accept(listener, shared)? else { return Ok(()) };
    let mut back = stream.try_clone()?;
    back.set_write_timeout(None)?;
    let mut waiting = Vec::new();
    read_on(&mut stream, shared, |piece| {
        waiting.extend_from_slice(piece);
        let whole = waiting.len() / LEN * LEN;
        back.write_all(&waiting[..whole])?;
        waiting.drain(..whole);
        Ok(())
    })
}

/// Sends a request every 100 ms until `end`, whether or not the one before was answered, and notes the round
/// trips.
fn ask(end: Instant, shared: &Shared) -> std::io::Result<()> {
    let mut stream = connect(PING_PORT)?;
    let mut requests = stream.try_clone()?;
    let sent: Mutex<Vec<Instant>> = Mutex::default();
    let first = Clock::now();
    std::thread::scope(|scope| {
        let asking = scope.spawn(|| {
            let mut waiter = Waiter::new(Duration::ZERO).map_err(std::io::Error::other)?;
            let mut due = first;
            while due < end && !shared.is_over() {
                while Clock::now() < due {
                    waiter.wait(Some(due)).map_err(std::io::Error::other)?;
                }
                if let Ok(mut sent) = sent.lock() {
                    sent.push(Clock::now());
                }
                shared.asked.fetch_add(1, Ordering::Relaxed);
                requests.write_all(&[0x50; LEN])?;
                due += PING_EVERY;
            }
            Ok::<(), std::io::Error>(())
        });
        let (mut bytes, mut answers) = (0, 0);
        let answered = read_on(&mut stream, shared, |piece| {
            bytes += piece.len();
            let now = Clock::now();
            let (Ok(sent), Ok(mut times)) = (sent.lock(), shared.round_trips.lock()) else { return Ok(()) };
            while answers < bytes / LEN && answers < sent.len() {
                times.push(now.saturating_since(sent[answers]));
                answers += 1;
            }
            Ok(())
        });
        let asked = asking.join().unwrap_or_else(|_| Err(std::io::Error::other("a thread died")));
        answered.and(asked)
    })
}
