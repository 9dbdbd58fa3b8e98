//! [`Capture`]: the packets on both sides of the accelerator.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;

use io::{Clock, Interest, PacketSocket, Waiter};
use lab::{RADIO, Role, WAN};
use units::{Duration, Instant};
use wire::{Packet, Tcp, TcpFlags, Transport};

use crate::kernel::testbed::Testbed;

/// Room for the largest packet of the devices.
const PACKET_LEN_MAX: usize = 2_048;

/// A side of the accelerator.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Side {
    Wired,
    Mobile,
}

#[derive(Clone, Debug)]
pub struct Captured {
    pub at: Instant,
    pub side: Side,
    /// True when the accelerator's machine sent it.
    pub is_outgoing: bool,
    pub bytes: Vec<u8>,
    pub packet: Packet,
    pub tcp: Tcp,
}

impl Captured {
    pub fn is_syn(&self) -> bool {
        self.tcp.flags.contains(TcpFlags::SYN)
    }

    pub fn is_reset(&self) -> bool {
        self.tcp.flags.contains(TcpFlags::RST)
    }

    /// True when the server sent it.
    pub fn is_downward(&self) -> bool {
        (self.side == Side::Mobile) == self.is_outgoing
    }
}

/// Reads both interfaces of the accelerator from now on.
pub struct Capture {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<Vec<Captured>>>,
}

impl Capture {
    pub fn start(bed: &Testbed) -> Self {
        let sockets = [(Side::Wired, WAN), (Side::Mobile, RADIO)].map(|(side, name)| {
            let namespace = bed.host(Role::Accelerator);
            let index = namespace.netlink().unwrap().index_of(name).unwrap();
            (side, namespace.run(|| PacketSocket::open(index)).unwrap().unwrap())
        });
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = Arc::clone(&stop);
        let thread = std::thread::spawn(move || capture(&sockets, &stopped));
        Self { stop, thread: Some(thread) }
    }

    /// Ends it and gives the TCP segments in the order in which the kernel saw them.
    pub fn finish(mut self) -> Vec<Captured> {
        self.stop.store(true, Ordering::Relaxed);
        let mut all = self.thread.take().unwrap().join().unwrap();
        // Those of one side are in their order already. Times are converted from another clock, and are less exact.
        for side in [Side::Wired, Side::Mobile] {
            let mut latest = Instant::ZERO;
            for packet in all.iter_mut().filter(|packet| packet.side == side) {
                latest = latest.max(packet.at);
                packet.at = latest;
            }
        }
        all.sort_by_key(|packet| packet.at);
        all
    }
}

impl Drop for Capture {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
    }
}

fn capture(sockets: &[(Side, PacketSocket)], stopped: &AtomicBool) -> Vec<Captured> {
    let mut waiter = Waiter::new(Duration::ZERO).unwrap();
    for (_, socket) in sockets {
        waiter.add(socket, Interest::Read, 0).unwrap();
    }
    let mut all = Vec::new();
    let mut buffer = [0; PACKET_LEN_MAX];
    let mut is_last = false;
    while !is_last {
        // Looked at before reading, so that everything before the stop is read.
        is_last = stopped.load(Ordering::Relaxed);
        for (side, socket) in sockets {
            while let Ok(Some(received)) = socket.recv(&mut buffer) {
                let bytes = buffer[..received.len].to_vec();
                if let Ok(packet) = wire::parse(&bytes)
                    && let Transport::Tcp(tcp) = packet.transport
                {
                    let (at, is_outgoing) = (received.at, received.is_outgoing);
                    all.push(Captured { at, side: *side, is_outgoing, bytes, packet, tcp });
                }
            }
        }
        waiter.wait(Some(Clock::now() + Duration::from_millis(20))).unwrap();
    }
    all
}
