//! [`TcpImage`]: the state of a TCP connection, taken from one socket and put into another (`TCP_REPAIR`).

use std::net::{SocketAddr, TcpStream};
use std::os::fd::{AsFd, AsRawFd};

use socket2::{Domain, Protocol, SockAddr, Socket, Type};
use units::SeqNum;

use crate::af_packet::set;
use crate::error::Context;
use crate::{IoError, TcpInfo};

// Of `linux/tcp.h`.
const TCP_REPAIR: libc::c_int = 19;
const TCP_REPAIR_QUEUE: libc::c_int = 20;
const TCP_QUEUE_SEQ: libc::c_int = 21;
const TCP_REPAIR_OPTIONS: libc::c_int = 22;
const TCP_TIMESTAMP: libc::c_int = 24;
const TCP_REPAIR_WINDOW: libc::c_int = 29;
const RECEIVE_QUEUE: libc::c_int = 1;
const SEND_QUEUE: libc::c_int = 2;
/// Of `linux/sockios.h`: bytes that are not acknowledged.
const SIOCOUTQ: libc::Ioctl = 0x5411;
/// Bytes that the application has not read.
const SIOCINQ: libc::Ioctl = 0x541b;
// Kinds of TCP options (RFC 9293 §3.2, RFC 7323, RFC 2018).
const MAXIMUM_SEGMENT_SIZE: u32 = 2;
const WINDOW_SCALE: u32 = 3;
const SACK_PERMITTED: u32 = 4;
const TIMESTAMPS: u32 = 8;

/// `struct tcp_repair_opt`.
#[repr(C)]
struct RepairOption {
    kind: u32,
    value: u32,
}

/// `struct tcp_repair_window`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, stored::Stored)]
struct RepairWindow {
    snd_wl1: u32,
    snd_wnd: u32,
    max_window: u32,
    rcv_wnd: u32,
    rcv_wup: u32,
}

/// State of a connection without the bytes that its socket holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, stored::Stored)]
pub struct TcpImage {
    /// Its own end.
    pub local: SocketAddr,
    /// The other.
    pub remote: SocketAddr,
    /// Oldest byte that the other end has not acknowledged (SND.UNA).
    pub snd_una: SeqNum,
    /// Bytes from there on that the socket holds: the application has written them.
    pub unacknowledged: u32,
    /// Next byte that is expected from the other end (RCV.NXT).
    pub rcv_nxt: SeqNum,
    /// Bytes before it that the socket holds: the application has not read them.
    pub unread: u32,
    mss: u32,
    /// Shifts of the other end's window and of its own.
    scales: Option<[u8; 2]>,
    has_sack: bool,
    timestamp: Option<u32>,
    window: RepairWindow,
}

impl TcpImage {
    /// Of a connected socket, which sends nothing more, not even when it is closed.
    ///
    /// # Errors
    /// When it is no connected TCP socket, or CAP_NET_ADMIN is missing.
    pub fn take(socket: &TcpStream) -> Result<Self, IoError> {
        let what = || "take the state of a TCP connection".to_owned();
        let (local, remote) = (socket.local_addr().doing(what)?, socket.peer_addr().doing(what)?);
        let info = TcpInfo::of(socket)?;
        repair(socket, true)?;
        let end_of = |queue: libc::c_int| -> Result<SeqNum, IoError> {
            set(&socket.as_fd(), libc::IPPROTO_TCP, TCP_REPAIR_QUEUE, &queue)?;
            get::<u32>(socket, TCP_QUEUE_SEQ).map(SeqNum::new)
        };
        let (sent, rcv_nxt) = (end_of(SEND_QUEUE)?, end_of(RECEIVE_QUEUE)?);
        let (unacknowledged, unread) = (held(socket, SIOCOUTQ)?, held(socket, SIOCINQ)?);
        let timestamp = info.has_timestamps.then(|| get::<u32>(socket, TCP_TIMESTAMP)).transpose()?;
        Ok(Self {
            local,
            remote,
            snd_una: sent - unacknowledged,
            unacknowledged,
            rcv_nxt,
            unread,
            mss: get::<u32>(socket, libc::TCP_MAXSEG)?,
            scales: info.has_window_scale.then_some([info.peer_shift, info.own_shift]),
            has_sack: info.has_sack,
            timestamp,
            window: get(socket, TCP_REPAIR_WINDOW)?,
        })
    }

    /// The same connection before the last `bytes` came: they are expected once more.
    #[must_use]
    pub fn before(mut self, bytes: u32) -> Self {
        let shut = self.window.rcv_wup.wrapping_add(self.window.rcv_wnd);
        self.rcv_nxt = self.rcv_nxt - bytes;
        // What was offered stays so.
        self.window.rcv_wup = self.rcv_nxt.get();
        self.window.rcv_wnd = shut.wrapping_sub(self.rcv_nxt.get());
        self
    }

    /// A socket of this connection, in the calling thread's namespace, which has its address. It holds nothing.
    ///
    /// # Errors
    /// When the address is not there or taken, or CAP_NET_ADMIN is missing.
    pub fn put(&self) -> Result<TcpStream, IoError> {
        let what = || format!("go on with the connection of {} to {}", self.local, self.remote);
        let domain = Domain::for_address(self.local);
        let socket = Socket::new(domain, Type::STREAM, Some(Protocol::TCP)).doing(what)?;
        repair(&socket, true)?;
        let number = |option: libc::c_int, value: u32| set(&socket, libc::IPPROTO_TCP, option, &value);
        for (queue, seq) in [(SEND_QUEUE, self.snd_una), (RECEIVE_QUEUE, self.rcv_nxt)] {
            number(TCP_REPAIR_QUEUE, queue.cast_unsigned())?;
            number(TCP_QUEUE_SEQ, seq.get())?;
        }
        socket.bind(&SockAddr::from(self.local)).doing(what)?;
        // Nothing is sent for it.
        socket.connect(&SockAddr::from(self.remote)).doing(what)?;
        let option = |kind: u32, value: u32| {
            set(&socket, libc::IPPROTO_TCP, TCP_REPAIR_OPTIONS, &RepairOption { kind, value })
        };
        option(MAXIMUM_SEGMENT_SIZE, self.mss)?;
        if let Some([peer, own]) = self.scales {
            option(WINDOW_SCALE, u32::from(peer) | u32::from(own) << 16)?;
        }
        if self.has_sack {
            option(SACK_PERMITTED, 0)?;
        }
        if let Some(timestamp) = self.timestamp {
            option(TIMESTAMPS, 0)?;
            number(TCP_TIMESTAMP, timestamp)?;
        }
        set(&socket, libc::IPPROTO_TCP, TCP_REPAIR_WINDOW, &self.window)?;
        repair(&socket, false)?;
        Ok(socket.into())
    }
}

fn repair(socket: &impl AsFd, is_on: bool) -> Result<(), IoError> {
    set(&socket.as_fd(), libc::IPPROTO_TCP, TCP_REPAIR, &libc::c_int::from(is_on)).map_err(
        |error| match error {
            IoError::NotPrivileged { what, .. } => {
                IoError::NotPrivileged { what, capability: "CAP_NET_ADMIN" }
            }
            other => other,
        },
    )
}

/// An option of TCP.
fn get<T: Plain>(socket: &impl AsFd, option: libc::c_int) -> Result<T, IoError> {
    let mut value = T::default();
    let mut len = size_of::<T>() as libc::socklen_t;
    // SAFETY: the kernel writes at most `len` bytes to `value`, which has as many and may be any of them.
    let done = unsafe {
        libc::getsockopt(
            socket.as_fd().as_raw_fd(),
            libc::IPPROTO_TCP,
            option,
            (&raw mut value).cast(),
            &raw mut len,
        )
    };
    if done < 0 { Err(IoError::last("ask a TCP socket for its state")) } else { Ok(value) }
}

/// Type whose bytes may have any values.
trait Plain: Default {}
impl Plain for u32 {}
impl Plain for RepairWindow {}

fn held(socket: &impl AsFd, what: libc::Ioctl) -> Result<u32, IoError> {
    let mut bytes: libc::c_int = 0;
    // SAFETY: the kernel writes an int to `bytes`, which is one.
    let done = unsafe { libc::ioctl(socket.as_fd().as_raw_fd(), what, &raw mut bytes) };
    if done < 0 {
        return Err(IoError::last("ask a TCP socket for what it holds"));
    }
    Ok(u32::try_from(bytes).unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::net::TcpListener;

    use super::*;

    fn pair() -> (TcpStream, TcpStream) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        (client, listener.accept().unwrap().0)
    }

    #[test]
    fn a_connection_goes_on_in_another_socket() {
        let (mut client, mut server) = pair();
        client.write_all(b"before").unwrap();
        server.read_exact(&mut [0; 6]).unwrap();
        let image = TcpImage::take(&server).unwrap();
        assert_eq!((image.unacknowledged, image.unread), (0, 0));
        assert_eq!(image.remote, client.local_addr().unwrap());
        drop(server);
        let image: TcpImage = stored::from_bytes(1, &stored::to_bytes(&image)).unwrap();
        let mut successor = image.put().unwrap();
        client.write_all(&[7; 300_000]).unwrap();
        let mut got = vec![0; 300_000];
        successor.read_exact(&mut got).unwrap();
        assert!(got.iter().all(|byte| *byte == 7));
        successor.write_all(b"after").unwrap();
        let mut answer = [0; 5];
        client.read_exact(&mut answer).unwrap();
        assert_eq!(&answer, b"after");
        drop(successor);
        assert_eq!(client.read(&mut answer).unwrap(), 0, "an ordinary end");
    }

    #[test]
    fn what_the_socket_holds_is_counted() {
        let (mut client, server) = pair();
        client.write_all(b"not read").unwrap();
        // They are there once they can be looked at.
        let peeked = server.peek(&mut [0; 8]).unwrap();
        let image = TcpImage::take(&server).unwrap();
        assert_eq!((peeked, image.unread, image.unacknowledged), (8, 8, 0));
        let earlier = image.before(8);
        assert_eq!((earlier.rcv_nxt + 8, earlier.snd_una), (image.rcv_nxt, image.snd_una));
        let right = |of: &TcpImage| of.window.rcv_wup.wrapping_add(of.window.rcv_wnd);
        assert_eq!(right(&earlier), right(&image), "the window's edge stays where it is");
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let unconnected = TcpStream::from(std::os::fd::OwnedFd::from(listener));
        assert!(TcpImage::take(&unconnected).is_err());
    }
}
