//! [`Prober`]: sends a path's probes through its interface, and hears the answers.

use std::net::{IpAddr, SocketAddr};

use io::{Clock, DatagramSocket, EchoSocket, IoError};
use probe::Key;
use units::{Duration, Instant};

use crate::settings::ProbeBy;

/// An answer: number, round trip, and the address that the server sees.
pub(crate) type Answered = (u64, Duration, Option<IpAddr>);

/// Sends a path's probes.
#[derive(Debug)]
pub(crate) struct Prober {
    by: ProbeBy,
    socket: Socket,
}

#[derive(Debug)]
enum Socket {
    Datagrams(DatagramSocket),
    /// With the times at which the last probes left, by number.
    Echo(EchoSocket, Vec<(u64, Instant)>),
}

/// Probes whose time of departure is kept.
const KEPT: usize = 256;

impl Prober {
    /// Opens a socket at `address` and bound to the interface.
    pub fn open(by: ProbeBy, interface: &str, address: IpAddr, identifier: u16) -> Result<Self, IoError> {
        let socket = match by {
            ProbeBy::Server(_) => {
                let socket = DatagramSocket::bind(SocketAddr::new(address, 0))?;
                socket.bind_to_device(interface)?;
                Socket::Datagrams(socket)
            }
            ProbeBy::Ping(_) => {
                let socket = EchoSocket::open(interface, address.is_ipv6(), identifier)?;
                socket.bind(address)?;
                Socket::Echo(socket, Vec::new())
            }
        };
        Ok(Self { by, socket })
    }

    /// Sends one. What the kernel does not take is lost like what the path does not take.
    pub fn send(&mut self, number: u64, key: Option<&Key>, now: Instant) {
        match (&mut self.socket, self.by) {
            (Socket::Datagrams(socket), ProbeBy::Server(to)) => {
                let mut bytes = Vec::new();
                probe::ask_location(number, now, key, &mut bytes);
                // An ICMP error of an earlier probe is no answer either, but must not keep this one back.
                if socket.send_to(&bytes, to).is_err() {
                    let _ = socket.send_to(&bytes, to);
                }
            }
            (Socket::Echo(socket, sent), ProbeBy::Ping(to)) => {
                if sent.len() >= KEPT {
                    sent.remove(0);
                }
                sent.push((number, now));
                let _ = socket.send(to, number as u16, number);
            }
            _ => {}
        }
    }

    /// The next answer; none when there is none now.
    pub fn recv(&mut self, key: Option<&Key>) -> Option<Answered> {
        let mut buffer = [0_u8; 256];
        // Errors are those of single probes; after some the rest is heard at the next turn.
        for _ in 0..16 {
            match &mut self.socket {
                Socket::Datagrams(socket) => match socket.recv(&mut buffer) {
                    Ok(None) => return None,
                    Err(_) => {}
                    Ok(Some(came)) => {
                        let bytes = buffer.get(..came.len).unwrap_or(&buffer);
                        if let Some(located) = probe::read_location(bytes, key)
                            && ProbeBy::Server(came.from) == self.by
                        {
                            let rtt = came.at.saturating_since(located.sent);
                            return Some((located.number, rtt, Some(located.address.ip())));
                        }
                    }
                },
                Socket::Echo(socket, sent) => {
                    let number = socket.recv()?;
                    if let Some(at) = sent.iter().position(|(n, _)| *n == number) {
                        let (_, left) = sent.remove(at);
                        return Some((number, Clock::now().saturating_since(left), None));
                    }
                }
            }
        }
        None
    }

    /// To wait for.
    pub fn fd(&self) -> std::os::fd::BorrowedFd<'_> {
        match &self.socket {
            Socket::Datagrams(socket) => std::os::fd::AsFd::as_fd(socket),
            Socket::Echo(socket, _) => std::os::fd::AsFd::as_fd(socket),
        }
    }
}
