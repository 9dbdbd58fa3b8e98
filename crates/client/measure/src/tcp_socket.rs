//! TCP sockets as `probe tcp` needs them.

use std::io::Read;
use std::net::{SocketAddr, TcpListener, TcpStream};

use io::{Clock, IoError};
use socket2::{Domain, Protocol, SockAddr, SockRef, Socket, Type};
use units::{Duration, Instant};

/// Longest wait for a word of the other end.
pub(crate) const TIMEOUT: Duration = Duration::from_secs(10);

fn std_time(time: Duration) -> std::time::Duration {
    std::time::Duration::from_nanos(time.as_nanos())
}

/// Listens at `at`, non-blocking; `[::]` takes IPv4 too.
pub(crate) fn listen(at: SocketAddr) -> Result<TcpListener, IoError> {
    let open = || -> std::io::Result<TcpListener> {
        let socket = Socket::new(Domain::for_address(at), Type::STREAM, Some(Protocol::TCP))?;
        if at.is_ipv6() {
            socket.set_only_v6(false)?;
        }
        socket.set_reuse_address(true)?;
        socket.set_nonblocking(true)?;
        socket.bind(&SockAddr::from(at))?;
        socket.listen(64)?;
        Ok(socket.into())
    };
    open().map_err(|error| IoError::system(format!("listen at {at} (TCP)"), error))
}

/// Connects to `to`; offers at most `window` bytes, zero for the system's.
pub(crate) fn connect(to: SocketAddr, window: u32) -> Result<TcpStream, IoError> {
    let doing = |error| IoError::system(format!("connect to {to} (TCP)"), error);
    let socket = Socket::new(Domain::for_address(to), Type::STREAM, Some(Protocol::TCP)).map_err(doing)?;
    if window > 0 {
        bound_window(&SockRef::from(&socket), window)?;
    }
    socket.connect_timeout(&SockAddr::from(to), std_time(TIMEOUT)).map_err(doing)?;
    Ok(socket.into())
}

/// Has a socket offer at most `bytes`. A buffer that was set is not tuned by the kernel, which would raise
/// the clamp again.
pub(crate) fn bound_window(socket: &Socket, bytes: u32) -> Result<(), IoError> {
    let room = usize::try_from(bytes).unwrap_or(usize::MAX);
    socket.set_recv_buffer_size(room).map_err(|error| IoError::system("set a receive buffer", error))?;
    io::set_window_clamp(socket, bytes)
}

/// No read or write takes longer.
pub(crate) fn wait_at_most(stream: &TcpStream, time: Duration) -> Result<(), IoError> {
    let time = Some(std_time(time));
    let set = stream.set_nonblocking(false).and_then(|()| stream.set_read_timeout(time));
    let set = set.and_then(|()| stream.set_write_timeout(time));
    set.map_err(|error| IoError::system("set the time-outs of a TCP socket", error))
}

/// Reads what there is, and waits for it until `deadline` at most; none at the end, after an error, or when the
/// time is over. The time-out of a single read does not bound who sends a byte now and then.
pub(crate) fn read_by(mut stream: &TcpStream, into: &mut [u8], deadline: Instant) -> Option<usize> {
    let left = deadline.saturating_since(Clock::now());
    if left.is_zero() {
        return None;
    }
    stream.set_read_timeout(Some(std_time(left))).ok()?;
    stream.read(into).ok().filter(|count| *count > 0)
}

/// The same until `into` is full; false where it is not.
pub(crate) fn fill_by(stream: &TcpStream, into: &mut [u8], deadline: Instant) -> bool {
    let mut filled = 0;
    while let Some(rest) = into.get_mut(filled..).filter(|rest| !rest.is_empty()) {
        let Some(count) = read_by(stream, rest, deadline) else { return false };
        filled += count;
    }
    true
}

/// False where the kernel has no such congestion control, or does not permit it.
pub(crate) fn set_congestion_control(stream: &TcpStream, name: &str) -> bool {
    SockRef::from(stream).set_tcp_congestion(name.as_bytes()).is_ok()
}

/// Ends a connection at once: what waits to be sent is given up.
pub(crate) fn abort(stream: &TcpStream) {
    let _ = SockRef::from(stream).set_linger(Some(std::time::Duration::ZERO));
}
