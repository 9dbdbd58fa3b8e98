//! [`PacketLoop`]: moves packets between the two TUN devices and the processor.

use std::io::IoSlice;

use io::{Clock, IoError, PACKET_LEN_MAX, Tun, VNET_HEADER_LEN};
use units::Instant;

use crate::{Processor, Side, Transmit, Verdict};

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

/// The two devices, and room for one packet.
#[derive(Debug)]
pub(crate) struct PacketLoop {
    tuns: [Tun; 2],
    packet: Vec<u8>,
    counters: Counters,
}

impl PacketLoop {
    /// A loop over the wired and the mobile device.
    pub fn new(tuns: [Tun; 2]) -> Self {
        Self { tuns, packet: vec![0; PACKET_LEN_MAX], counters: Counters::default() }
    }

    pub fn counters(&self) -> Counters {
        self.counters
    }

    pub fn tuns(&self) -> &[Tun; 2] {
        &self.tuns
    }

    /// Reads, handles and sends a bounded amount; true when there may be more at once.
    ///
    /// # Errors
    /// When a device is gone or down.
    pub fn turn(&mut self, processor: &mut impl Processor) -> Result<bool, IoError> {
        let mut more = false;
        for side in [Side::Wired, Side::Mobile] {
            more |= self.read(side, processor)?;
        }
        let now = Clock::now();
        if processor.next_deadline().is_some_and(|at| at <= now) {
            processor.handle_timeout(now);
        }
        Ok(more | self.transmit(processor, now)?)
    }

    fn read(&mut self, from: Side, processor: &mut impl Processor) -> Result<bool, IoError> {
        let mut virtio = [0; VNET_HEADER_LEN];
        let mut bytes = 0;
        for _ in 0..READ_BUDGET_PACKETS {
            if bytes >= READ_BUDGET_BYTES {
                break;
            }
            let received = self.tuns[from.index()].recv_split(&mut virtio, &mut self.packet)?;
            let Some(packet) = received.and_then(|len| self.packet.get_mut(..len)) else {
                return Ok(false);
            };
            bytes += packet.len();
            let counters = &mut self.counters.sides[from.index()];
            counters.received_packets += 1;
            counters.received_bytes += packet.len() as u64;
            match processor.handle_packet(from, &mut virtio, packet, Clock::now()) {
                Verdict::Consumed => counters.consumed_packets += 1,
                Verdict::Forward => {
                    let packet = Transmit { to: from.other(), virtio, header: packet, payload: (&[], &[]) };
                    send(&self.tuns, &mut self.counters, &packet)?;
                }
            }
        }
        Ok(true)
    }

    fn transmit(&mut self, processor: &mut impl Processor, now: Instant) -> Result<bool, IoError> {
        for _ in 0..TRANSMIT_BUDGET_PACKETS {
            let Some(packet) = processor.poll_transmit(now) else { return Ok(false) };
            send(&self.tuns, &mut self.counters, &packet)?;
        }
        Ok(true)
    }
}

/// Writes one packet; what the kernel refuses is lost and counted, as on any link.
fn send(tuns: &[Tun; 2], counters: &mut Counters, packet: &Transmit<'_>) -> Result<(), IoError> {
    let pieces = [packet.header, packet.payload.0, packet.payload.1].map(IoSlice::new);
    let used = pieces.iter().rposition(|piece| !piece.is_empty()).map_or(0, |last| last + 1);
    let counters = &mut counters.sides[packet.to.index()];
    match tuns[packet.to.index()].send_vectored(&packet.virtio, &pieces[..used]) {
        Ok(()) => counters.sent_packets += 1,
        Err(e) if e.is_device_gone() => return Err(e),
        Err(_) => counters.refused_packets += 1,
    }
    Ok(())
}
