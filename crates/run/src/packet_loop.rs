//! [`PacketLoop`]: moves packets between a path and the processor.

use std::sync::Arc;

use engine::{Port, Verdict};
use io::{Clock, IoError};
use units::Instant;
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
                if let (Some(bypass), Some((client, server))) = (&self.bypass, processor.take_stranger()) {
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
