//! MPTCP sockets (`IPPROTO_MPTCP`), as ordinary streams.

use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::fd::{AsFd, AsRawFd};

use socket2::{Domain, Protocol, SockAddr, SockRef, Socket, Type};
use units::Duration;

use crate::IoError;
use crate::error::Context;

/// `IPPROTO_MPTCP`.
const MPTCP: i32 = 262;
/// `TCP_IS_MPTCP`.
const TCP_IS_MPTCP: libc::c_int = 43;
/// Connections that may wait to be accepted.
const BACKLOG: i32 = 128;

fn open(at: SocketAddr, is_multi_path: bool) -> std::io::Result<Socket> {
    let protocol = if is_multi_path { Protocol::from(MPTCP) } else { Protocol::TCP };
    Socket::new(Domain::for_address(at), Type::STREAM, Some(protocol))
}

/// Listens at `at`, with MPTCP or without.
///
/// # Errors
/// When this kernel has no MPTCP, or the address is taken.
pub fn listen_multi_path(at: SocketAddr, is_multi_path: bool) -> Result<TcpListener, IoError> {
    let listen = || -> std::io::Result<Socket> {
        let socket = open(at, is_multi_path)?;
        socket.set_reuse_address(true)?;
        socket.bind(&SockAddr::from(at))?;
        socket.listen(BACKLOG)?;
        Ok(socket)
    };
    Ok(listen().doing(|| format!("listen at {at}"))?.into())
}

/// Connects to `to`, with MPTCP or without.
///
/// # Errors
/// When this kernel has no MPTCP, nobody listens, or it takes longer than `time_max`.
pub fn connect_multi_path(
    to: SocketAddr,
    is_multi_path: bool,
    time_max: Duration,
) -> Result<TcpStream, IoError> {
    let connect = || -> std::io::Result<Socket> {
        let socket = open(to, is_multi_path)?;
        let time = std::time::Duration::from_nanos(time_max.as_nanos());
        socket.connect_timeout(&SockAddr::from(to), time)?;
        Ok(socket)
    };
    Ok(connect().doing(|| format!("connect to {to}"))?.into())
}

/// Has a connection use the congestion control `name`; one of several paths, on each of them, also on those to come.
///
/// # Errors
/// When the kernel has none of that name, or it is not for everybody and the privilege is missing.
pub fn set_congestion_control(stream: &impl AsFd, name: &str) -> Result<(), IoError> {
    let set = SockRef::from(stream).set_tcp_congestion(name.as_bytes());
    set.doing(|| format!("use the congestion control '{name}'"))
}

/// Checks that the kernel has a congestion control `name` that this network namespace's sockets can use; one that is a
/// module is loaded for that.
///
/// # Errors
/// One line with the names of those that there are.
pub fn find_congestion_control(name: &str) -> Result<(), IoError> {
    let socket = Socket::new(Domain::IPV4, Type::STREAM, None).doing(|| "open a TCP socket".to_owned())?;
    if socket.set_tcp_congestion(name.as_bytes()).is_ok() {
        return Ok(());
    }
    let there = crate::sysctl::read_here("net/ipv4/tcp_available_congestion_control").unwrap_or_default();
    Err(IoError::Missing {
        what: format!("the congestion control '{name}'"),
        remedy: format!("this kernel has {}; `modprobe tcp_{name}` may load it", there.replace(' ', ", ")),
    })
}

/// True while a connection is MPTCP; false when it has fallen back to TCP.
#[must_use]
pub fn is_multi_path(stream: &impl AsFd) -> bool {
    let mut value: libc::c_int = 0;
    let mut len = size_of::<libc::c_int>() as libc::socklen_t;
    // SAFETY: the kernel writes at most `len` bytes to `value`, which has as many.
    let done = unsafe {
        libc::getsockopt(
            stream.as_fd().as_raw_fd(),
            libc::IPPROTO_TCP,
            TCP_IS_MPTCP,
            (&raw mut value).cast(),
            &raw mut len,
        )
    };
    done == 0 && value != 0
}
