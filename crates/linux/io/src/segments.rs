//! [`Segments`] and [`SilentPort`]: TCP segments of this machine, read beside its own TCP, and a port at
//! which its own TCP says nothing.

use std::net::{IpAddr, SocketAddr, TcpListener};

use socket2::{Domain, Protocol, SockAddr, SockFilter, SockRef, Socket, Type};

use crate::error::Context;
use crate::{IoError, PacketSocket, af_packet};

/// Instructions of classic BPF (`linux/bpf_common.h`).
mod bpf {
    pub(super) const LOAD_BYTE: u16 = 0x30;
    pub(super) const LOAD_WORD: u16 = 0x20;
    pub(super) const LOAD_BYTE_AT_X: u16 = 0x50;
    /// X ← 4 × (byte & 15): the length of an IPv4 header.
    pub(super) const LENGTH_TO_X: u16 = 0xb1;
    pub(super) const SET_X: u16 = 0x01;
    pub(super) const AND: u16 = 0x54;
    pub(super) const IF_EQUAL: u16 = 0x15;
    pub(super) const RETURN: u16 = 0x06;
}

/// Longest segment that is read; of longer ones the beginning is.
const LEN_MAX: u32 = 1 << 18;
const TCP: u32 = 6;
const SYN_ACK: u32 = 0x12;

/// Choice of the segments that are read.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Segments {
    /// All from an address.
    From(IpAddr),
    /// All with SYN and ACK.
    SynAck,
}

/// A step of a filter: what to do, or a condition without which the packet is not wanted.
#[derive(Clone, Copy)]
enum Step {
    Do(u16, u32),
    Need(u32),
}

impl Segments {
    /// The filter: an IPv4 and an IPv6 half, each a row of conditions.
    fn program(self) -> Vec<SockFilter> {
        use Step::{Do, Need};
        let (mut v4, mut v6) = (Vec::new(), Vec::new());
        v4.extend([Do(bpf::LOAD_BYTE, 9), Need(TCP)]);
        v6.extend([Do(bpf::LOAD_BYTE, 6), Need(TCP)]);
        match self {
            Self::From(IpAddr::V4(from)) => {
                v4.extend([Do(bpf::LOAD_WORD, 12), Need(u32::from(from))]);
                v6.extend([Do(bpf::LOAD_BYTE, 0), Need(u32::MAX)]);
            }
            Self::From(IpAddr::V6(from)) => {
                v4.extend([Do(bpf::LOAD_BYTE, 0), Need(u32::MAX)]);
                for (at, word) in (8_u32..).step_by(4).zip(from.octets().as_chunks::<4>().0) {
                    v6.extend([Do(bpf::LOAD_WORD, at), Need(u32::from_be_bytes(*word))]);
                }
            }
            Self::SynAck => {
                let flags = [Do(bpf::LOAD_BYTE_AT_X, 13), Do(bpf::AND, SYN_ACK), Need(SYN_ACK)];
                v4.extend([&[Do(bpf::LENGTH_TO_X, 0)][..], &flags].concat());
                v6.extend([&[Do(bpf::SET_X, 40)][..], &flags].concat());
            }
        }
        let half = |steps: &[Step]| -> Vec<SockFilter> {
            let len = steps.len();
            let steps = steps.iter().enumerate().map(|(at, step)| match *step {
                Do(code, value) => SockFilter::new(code, 0, 0, value),
                // To the half's last instruction, which says no.
                Need(value) => SockFilter::new(bpf::IF_EQUAL, 0, (len - at) as u8, value),
            });
            let ends = [SockFilter::new(bpf::RETURN, 0, 0, LEN_MAX), SockFilter::new(bpf::RETURN, 0, 0, 0)];
            steps.chain(ends).collect()
        };
        let (v4, v6) = (half(&v4), half(&v6));
        let mut all = vec![
            SockFilter::new(bpf::LOAD_BYTE, 0, 0, 0),
            SockFilter::new(bpf::AND, 0, 0, 0xf0),
            SockFilter::new(bpf::IF_EQUAL, 0, v4.len() as u8, 0x40),
        ];
        all.extend(v4);
        all.extend(v6);
        all
    }
}

impl PacketSocket {
    /// Opens all interfaces of the calling thread's namespace for the wanted segments, non-blocking.
    ///
    /// # Errors
    /// Without CAP_NET_RAW.
    pub fn of_segments(which: Segments) -> Result<Self, IoError> {
        let fd = af_packet::open(libc::SOCK_DGRAM)?;
        let on: libc::c_int = 1;
        af_packet::set(&fd, libc::SOL_SOCKET, libc::SO_TIMESTAMPNS, &on)?;
        SockRef::from(&fd)
            .attach_filter(&which.program())
            .doing(|| "attach a filter to a packet socket".to_owned())?;
        af_packet::bind_everywhere(&fd)?;
        Ok(Self::of_descriptor(fd))
    }
}

/// A TCP port that is taken, and at which the kernel answers nothing: no SYN/ACK, and no reset either.
///
/// A TCP of one's own can use the port through raw sockets, and the kernel's does not end its connections.
/// Nothing is left behind, whatever ends the process: a listening socket drops all that comes by a filter.
#[derive(Debug)]
pub struct SilentPort {
    _listener: TcpListener,
    address: SocketAddr,
}

impl SilentPort {
    /// Takes any free port of an address of this machine.
    ///
    /// # Errors
    /// When the address is not of this machine, or no port is free.
    pub fn take(address: IpAddr) -> Result<Self, IoError> {
        let at = SocketAddr::new(address, 0);
        let open = || -> std::io::Result<(TcpListener, SocketAddr)> {
            let socket = Socket::new(Domain::for_address(at), Type::STREAM, Some(Protocol::TCP))?;
            socket.attach_filter(&[SockFilter::new(bpf::RETURN, 0, 0, 0)])?;
            socket.bind(&SockAddr::from(at))?;
            socket.listen(1)?;
            let listener = TcpListener::from(socket);
            let address = listener.local_addr()?;
            Ok((listener, address))
        };
        let (_listener, address) = open().doing(|| format!("take a TCP port of {address}"))?;
        Ok(Self { _listener, address })
    }

    /// Address and port.
    #[must_use]
    pub const fn address(&self) -> SocketAddr {
        self.address
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::net::TcpStream;

    use units::Duration;

    use super::*;
    use crate::netns::test_host;
    use crate::{Clock, Interest, Waiter};

    /// Segments that come within a moment.
    fn read(socket: &PacketSocket) -> Vec<Vec<u8>> {
        let mut waiter = Waiter::new(Duration::ZERO).unwrap();
        waiter.add(socket, Interest::Read, 0).unwrap();
        let (end, mut all, mut buffer) = (Clock::now() + Duration::from_millis(300), Vec::new(), [0; 2_000]);
        while !waiter.wait(Some(end)).unwrap().is_empty() {
            while let Some(packet) = socket.recv(&mut buffer).unwrap() {
                if !packet.is_outgoing {
                    all.push(buffer[..packet.len].to_vec());
                }
            }
        }
        all
    }

    #[test]
    fn only_the_wanted_segments_are_read() {
        let ns = test_host("segments");
        let netlink = ns.netlink().unwrap();
        netlink.set_up(netlink.index_of("lo").unwrap()).unwrap();
        for host in ["127.0.0.1", "::1"] {
            let address: IpAddr = host.parse().unwrap();
            let (all, other, syn_acks) = ns
                .run(|| {
                    let other = if address.is_ipv4() { "127.0.0.2" } else { "fe80::1" };
                    let open = |which| PacketSocket::of_segments(which).unwrap();
                    let sockets =
                        [Segments::From(address), Segments::From(other.parse().unwrap()), Segments::SynAck]
                            .map(open);
                    let listener = TcpListener::bind((address, 0)).unwrap();
                    let mut client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
                    let mut server = listener.accept().unwrap().0;
                    client.write_all(b"hello").unwrap();
                    server.read_exact(&mut [0; 5]).unwrap();
                    std::net::UdpSocket::bind((address, 0)).unwrap().send_to(b"x", (address, 9)).unwrap();
                    (read(&sockets[0]), read(&sockets[1]), read(&sockets[2]))
                })
                .unwrap();
            let header = if address.is_ipv4() { 20 } else { 40 };
            assert!(all.len() >= 4 && all.iter().any(|segment| segment.ends_with(b"hello")), "{all:?}");
            assert_eq!(other, Vec::<Vec<u8>>::new());
            assert_eq!(syn_acks.len(), 1, "{host}");
            assert_eq!(syn_acks[0][header + 13], 0x12, "{host}");
        }
    }

    #[test]
    fn at_a_silent_port_nothing_answers() {
        let ns = test_host("silent");
        let netlink = ns.netlink().unwrap();
        netlink.set_up(netlink.index_of("lo").unwrap()).unwrap();
        let (silent, loud) = ns
            .run(|| {
                let address: IpAddr = "127.0.0.1".parse().unwrap();
                let connect = |to: SocketAddr| {
                    TcpStream::connect_timeout(&to, std::time::Duration::from_millis(300)).unwrap_err().kind()
                };
                let port = SilentPort::take(address).unwrap();
                let silent = connect(port.address());
                let at = port.address();
                drop(port);
                (silent, connect(at))
            })
            .unwrap();
        assert_eq!((silent, loud), (std::io::ErrorKind::TimedOut, std::io::ErrorKind::ConnectionRefused));
    }
}
