//! [`Raw`]: segments made by hand, and a look at those that pass a machine's interface.

use std::net::SocketAddr;

use io::{Clock, Interest, Namespace, PacketSocket, RawSocket, Waiter};
use units::{Duration, SeqNum};
use wire::{Packet, Tcp, TcpFlags, TcpHeaderSpec, Timestamps, Transport};

use crate::topology::PATIENCE;

/// A machine's raw socket and a tap on its interface.
pub struct Raw {
    socket: RawSocket,
    tap: PacketSocket,
    waiter: Waiter,
}

/// A segment as seen by the tap.
#[derive(Clone, Copy, Debug)]
pub struct Seen {
    pub packet: Packet,
    pub tcp: Tcp,
}

impl Seen {
    pub fn source(&self) -> SocketAddr {
        SocketAddr::new(self.packet.ip.src, self.tcp.src_port)
    }

    pub fn destination(&self) -> SocketAddr {
        SocketAddr::new(self.packet.ip.dst, self.tcp.dst_port)
    }

    /// A segment that follows it, in the name of the same host.
    pub fn next(&self, flags: TcpFlags) -> TcpHeaderSpec {
        TcpHeaderSpec {
            window: self.tcp.window,
            timestamps: self.tcp.options.timestamps,
            ..TcpHeaderSpec::new(self.source(), self.destination(), self.tcp.seq_end(), self.tcp.ack, flags)
        }
    }
}

impl Raw {
    pub fn open(namespace: &Namespace, interface: &str) -> Self {
        let index = namespace.netlink().unwrap().index_of(interface).unwrap();
        let open = || (RawSocket::open().unwrap(), PacketSocket::open(index).unwrap());
        let (socket, tap) = namespace.run(open).unwrap();
        let waiter = Waiter::new(Duration::ZERO).unwrap();
        waiter.add(&tap, Interest::Read, 0).unwrap();
        Self { socket, tap, waiter }
    }

    /// Sends a segment; false when the kernel has no room for it.
    pub fn send(&self, spec: &TcpHeaderSpec, payload: &[u8]) -> bool {
        let mut packet = vec![0; TcpHeaderSpec::MAX_LEN];
        let header = spec.emit(&mut packet, &[payload]).unwrap();
        packet.truncate(header.len);
        packet.extend_from_slice(payload);
        self.socket.send(&packet, spec.dst.ip())
    }

    /// The next segment that has come, if any.
    pub fn next(&mut self) -> Option<Seen> {
        let mut buffer = [0; 256];
        while let Some(received) = self.tap.recv(&mut buffer).unwrap() {
            let Ok(packet) = wire::parse_prefix(&buffer[..received.len]) else { continue };
            if let Transport::Tcp(tcp) = packet.transport {
                return Some(Seen { packet, tcp });
            }
        }
        None
    }

    /// Waits for a segment that `is_wanted`.
    pub fn see(&mut self, mut is_wanted: impl FnMut(&Seen) -> bool) -> Seen {
        let give_up = Clock::now() + Duration::from_nanos(PATIENCE.as_nanos() as u64);
        loop {
            match self.next() {
                Some(seen) if is_wanted(&seen) => return seen,
                Some(_) => {}
                None => {
                    assert!(Clock::now() < give_up, "no such segment came");
                    self.waiter.wait(Some(give_up)).unwrap();
                }
            }
        }
    }

    /// Forgets what has come so far.
    pub fn forget(&mut self) {
        while self.tap.recv(&mut [0; 16]).unwrap().is_some() {}
    }
}

/// A SYN with the usual options.
pub fn syn(from: SocketAddr, to: SocketAddr, seq: u32) -> TcpHeaderSpec {
    TcpHeaderSpec {
        window: 60_000,
        mss: Some(1_460),
        sack_permitted: true,
        timestamps: Some(Timestamps { value: 1_000, echo: 0 }),
        ..TcpHeaderSpec::new(from, to, SeqNum::new(seq), SeqNum::new(0), TcpFlags::SYN)
    }
}
