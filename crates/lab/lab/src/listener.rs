//! [`Listener`]: a TCP server of the lab, and how its connections are read and written until all is over.

use std::io::{Error, ErrorKind, Read, Result, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;

use io::{Clock, Interest, Namespace, Waiter};
use units::Duration;

use crate::LabError;
use crate::error::Context;

/// Interval of the checks whether it is to end.
const TURN: Duration = Duration::from_millis(50);

/// A server that has a thread for each connection, which may give something at its end. When it is dropped, it accepts
/// no more, and the threads are told that all is over.
#[derive(Debug)]
pub(crate) struct Listener<T = ()> {
    is_over: Arc<AtomicBool>,
    accepting: Option<JoinHandle<Vec<JoinHandle<T>>>>,
}

impl<T: Send + 'static> Listener<T> {
    /// Calls `serve` with each connection to `at` in `namespace`.
    ///
    /// # Errors
    /// When the port is taken.
    pub fn start(
        namespace: &Namespace,
        at: SocketAddr,
        serve: impl Fn(TcpStream, &AtomicBool) -> T + Send + Sync + 'static,
    ) -> std::result::Result<Self, LabError> {
        Self::of(namespace, bind(namespace, at)?, serve)
    }

    /// The same with a socket that listens already. The threads live in `namespace`.
    ///
    /// # Errors
    /// When the namespace cannot be entered.
    pub fn of(
        namespace: &Namespace,
        listener: TcpListener,
        serve: impl Fn(TcpStream, &AtomicBool) -> T + Send + Sync + 'static,
    ) -> std::result::Result<Self, LabError> {
        listener.set_nonblocking(true).doing(|| "make a socket non-blocking".to_owned())?;
        let is_over = Arc::<AtomicBool>::default();
        let ends = Arc::clone(&is_over);
        let accept = move || accept(&listener, &ends, &Arc::new(serve)).unwrap_or_default();
        let accepting = namespace.run(|| std::thread::spawn(accept))?;
        Ok(Self { is_over, accepting: Some(accepting) })
    }

    /// Ends it and all of its connections: what each has given, unless it has panicked.
    pub fn finish(mut self) -> Vec<T> {
        self.end().into_iter().filter_map(|thread| thread.join().ok()).collect()
    }
}

impl<T> Listener<T> {
    /// Accepts no more; the threads of the connections so far.
    fn end(&mut self) -> Vec<JoinHandle<T>> {
        self.is_over.store(true, Ordering::Relaxed);
        self.accepting.take().and_then(|thread| thread.join().ok()).unwrap_or_default()
    }
}

impl<T> Drop for Listener<T> {
    fn drop(&mut self) {
        self.end();
    }
}

/// A socket that listens at `at` in `namespace`.
///
/// # Errors
/// When the port is taken.
pub(crate) fn bind(namespace: &Namespace, at: SocketAddr) -> std::result::Result<TcpListener, LabError> {
    namespace.run(|| TcpListener::bind(at))?.doing(|| format!("listen at {at}"))
}

fn accept<T: Send + 'static>(
    listener: &TcpListener,
    is_over: &Arc<AtomicBool>,
    serve: &Arc<impl Fn(TcpStream, &AtomicBool) -> T + Send + Sync + 'static>,
) -> Option<Vec<JoinHandle<T>>> {
    let mut waiter = Waiter::new(Duration::ZERO).ok()?;
    waiter.add(listener, Interest::Read, 0).ok()?;
    let mut serving = Vec::new();
    while !is_over.load(Ordering::Relaxed) {
        if let Ok((stream, _)) = listener.accept() {
            let (is_over, serve) = (Arc::clone(is_over), Arc::clone(serve));
            let _ = stream.set_nonblocking(false);
            serving.push(std::thread::spawn(move || serve(stream, &is_over)));
        } else {
            let _ = waiter.wait(Some(Clock::now() + TURN));
        }
    }
    Some(serving)
}

/// True for a call that a time limit ended, and for one to be made again.
#[must_use]
pub fn is_time_out(error: &Error) -> bool {
    matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut | ErrorKind::Interrupted)
}

/// Fills `room`; false when it is over before. That is looked at with each time limit of the socket.
pub(crate) fn read_exact(
    stream: &mut TcpStream,
    mut room: &mut [u8],
    is_over: &dyn Fn() -> bool,
) -> Result<bool> {
    while !room.is_empty() {
        match stream.read(room) {
            Ok(0) => return Err(ErrorKind::UnexpectedEof.into()),
            Ok(len) => room = &mut room[len..],
            Err(error) if is_time_out(&error) && !is_over() => {}
            Err(error) if is_time_out(&error) => return Ok(false),
            Err(error) => return Err(error),
        }
    }
    Ok(true)
}

/// Writes `bytes`; false when it is over before, or the other end takes no more. That it is over is looked at with each
/// time limit of the socket.
pub(crate) fn write_all(
    stream: &mut TcpStream,
    mut bytes: &[u8],
    is_over: &dyn Fn() -> bool,
) -> Result<bool> {
    while !bytes.is_empty() {
        match stream.write(bytes) {
            Ok(0) => return Ok(false),
            Ok(len) => bytes = &bytes[len..],
            Err(error) if is_time_out(&error) && !is_over() => {}
            Err(error) if is_time_out(&error) => return Ok(false),
            Err(error) => return Err(error),
        }
    }
    Ok(true)
}
