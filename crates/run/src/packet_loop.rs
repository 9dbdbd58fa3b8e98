//! [`PacketLoop`]: moves packets between a path and the processor.

use std::sync::Arc;

use engine::{Port, Verdict};
use io::{Clock, IoError};
use units::{Duration, Instant};
use wire::VirtioNetHeader;

use crate::Processor;
use crate::packet_path::{Batch, PacketPath, Received};
use crate::steering::Bypass;

/// Packets read from one side before the other has its turn.
const READ_BUDGET_PACKETS: usize = 64;

/// Bytes read from one side before what the processor made of them is sent: what waits longer has left the
/// processor's cache and is fetched from memory again.
const READ_BUDGET_BYTES: usize = 256 * 1024;

/// Packets sent on the processor's behalf before the devices are read again.
const TRANSMIT_BUDGET_PACKETS: usize = 256;

/// How long a loop that ends hands on what has come in: what sockets and devices hold takes far
/// less. It is shorter than any time after which a process without a heartbeat is taken for hung.
pub(crate) const LAST_TURNS: Duration = Duration::from_millis(100);

/// What happened so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// By the side a packet came from or, for sent ones, left to: wired, then mobile.
    pub sides: [SideCounters; 2],
}

impl Counters {
    /// Adds what happened elsewhere.
    pub(crate) fn add(&mut self, other: &Self) {
        for (own, other) in self.sides.iter_mut().zip(&other.sides) {
            own.received_packets += other.received_packets;
            own.received_bytes += other.received_bytes;
            own.consumed_packets += other.consumed_packets;
            own.sent_packets += other.sent_packets;
            own.refused_packets += other.refused_packets;
        }
    }
}

/// What happened on one side. A super-packet counts as one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SideCounters {
    /// Packets the kernel handed over.
    pub received_packets: u64,
    /// Bytes of those, IP headers included.
    pub received_bytes: u64,
    /// Of those, packets the processor took.
    pub consumed_packets: u64,
    /// Packets written, forwarded and made by the processor.
    pub sent_packets: u64,
    /// Packets the kernel refused to take.
    pub refused_packets: u64,
}

impl SideCounters {
    fn count(&mut self, is_sent: bool) {
        if is_sent {
            self.sent_packets += 1;
        } else {
            self.refused_packets += 1;
        }
    }
}

/// A path and what passed along it.
#[derive(Debug)]
pub(crate) struct PacketLoop<P> {
    path: P,
    counters: Counters,
    /// Where flows go that the processor takes no part in.
    bypass: Option<Arc<Bypass>>,
}

impl<P: PacketPath> PacketLoop<P> {
    /// A loop along `path`. Flows that the processor takes no part in are left to the kernel by `bypass`.
    pub fn new(path: P, bypass: Option<Arc<Bypass>>) -> Self {
        Self { path, counters: Counters::default(), bypass }
    }

    pub fn counters(&self) -> Counters {
        self.counters
    }

    pub fn path(&self) -> &P {
        &self.path
    }

    pub fn path_mut(&mut self) -> &mut P {
        &mut self.path
    }

    /// Reads, handles and sends a bounded amount; true when there may be more at once.
    ///
    /// # Errors
    /// When a device is gone or down.
    pub fn turn(&mut self, processor: &mut impl Processor) -> Result<bool, IoError> {
        let mut more = false;
        for side in [Port::Wired, Port::Mobile] {
            more |= self.read(side, processor)?;
        }
        let now = Clock::now();
        if processor.next_deadline().is_some_and(|at| at <= now) {
            processor.handle_timeout(now);
        }
        more |= self.transmit(processor, now)?;
        Ok(more)
    }

    /// Hands on what has come in already, before the loop ends: for [`LAST_TURNS`] at most. Where
    /// packets go on to come, and faster than they are handled, there is always more.
    pub fn finish(&mut self, processor: &mut impl Processor) {
        let end = Clock::now() + LAST_TURNS;
        while self.turn(processor).unwrap_or(false) && Clock::now() < end {}
    }

    fn read(&mut self, from: Port, processor: &mut impl Processor) -> Result<bool, IoError> {
        let (mut packets, mut bytes) = (0, 0);
        while packets < READ_BUDGET_PACKETS && bytes < READ_BUDGET_BYTES {
            let Batch { len, is_last } = self.path.receive(from)?;
            if len > 1 {
                processor.look_ahead(from, self.path.batch());
            }
            let now = Clock::now();
            for index in 0..len {
                bytes += self.handle(from, index, processor, now)?;
            }
            packets += len;
            if is_last {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Handles one packet of the batch read last; gives its length.
    fn handle(
        &mut self,
        from: Port,
        index: usize,
        processor: &mut impl Processor,
        now: Instant,
    ) -> Result<usize, IoError> {
        let Some(Received { virtio, packet }) = self.path.packet(index) else { return Ok(0) };
        let len = packet.len();
        let counters = &mut self.counters.sides[from.index()];
        counters.received_packets += 1;
        counters.received_bytes += len as u64;
        // What the kernel says in a way that nobody understands is left to it.
        let verdict = VirtioNetHeader::parse(virtio)
            .map_or(Verdict::Forward, |virtio| processor.handle_packet(from, &virtio, packet, now));
        match verdict {
            Verdict::Consumed => counters.consumed_packets += 1,
            Verdict::Forward => {
                // Before the next packet: that may open the same ports anew.
                if let (Some(bypass), Some((client, server))) = (&self.bypass, processor.take_unknown_flow())
                {
                    bypass.add(client, server);
                }
                let is_sent = self.path.forward(index)?;
                self.counters.sides[from.opposite().index()].count(is_sent);
            }
        }
        Ok(len)
    }

    fn transmit(&mut self, processor: &mut impl Processor, now: Instant) -> Result<bool, IoError> {
        for _ in 0..TRANSMIT_BUDGET_PACKETS {
            let Some(packet) = processor.poll_transmit(now) else { return Ok(false) };
            let is_sent = self.path.send(&packet)?;
            self.counters.sides[packet.to.index()].count(is_sent);
        }
        Ok(true)
    }
}

#[cfg(test)]
mod tests {
    use engine::{PassThrough, Transmit};
    use io::{VNET_HEADER_LEN, VnetHeader, Waiter};

    use super::*;

    /// Packets come in faster than they are handled.
    struct Flood {
        virtio: VnetHeader,
        packet: [u8; 40],
    }

    impl PacketPath for Flood {
        fn receive(&mut self, _from: Port) -> Result<Batch, IoError> {
            Ok(Batch { len: 1, is_last: false })
        }
        fn batch(&self) -> impl Iterator<Item = &[u8]> + Clone {
            std::iter::once(&self.packet[..])
        }
        fn packet(&mut self, _index: usize) -> Option<Received<'_>> {
            Some(Received { virtio: &mut self.virtio, packet: &mut self.packet })
        }
        fn forward(&mut self, _index: usize) -> Result<bool, IoError> {
            Ok(true)
        }
        fn send(&mut self, _packet: &Transmit<'_>) -> Result<bool, IoError> {
            Ok(true)
        }
        fn watch(&self, _waiter: &Waiter, _tokens: [u64; 2]) -> Result<(), IoError> {
            Ok(())
        }
    }

    #[test]
    fn a_loop_ends_although_packets_go_on_to_come() {
        let path = Flood { virtio: [0; VNET_HEADER_LEN], packet: [0; 40] };
        let mut packet_loop = PacketLoop::new(path, None);
        packet_loop.finish(&mut PassThrough);
        assert!(packet_loop.counters().sides[0].received_packets >= READ_BUDGET_PACKETS as u64);
    }
}
