//! [`Accelerator`]: the engine as the packet loop's processor.

use engine::{Engine, Journal, Port};
use io::{VNET_HEADER_LEN, VnetHeader};
use units::Instant;
use wire::VirtioNetHeader;

use crate::{Processor, Side, Transmit, Verdict};

/// The engine, with the second router hop of this machine given back.
#[derive(Debug)]
pub struct Accelerator {
    engine: Engine,
}

impl Accelerator {
    /// A processor around `engine`.
    #[must_use]
    pub fn new(engine: Engine) -> Self {
        Self { engine }
    }

    /// The engine's counters.
    #[must_use]
    pub fn stats(&self) -> &engine::Stats {
        self.engine.stats()
    }
}

const fn port_of(side: Side) -> Port {
    match side {
        Side::Wired => Port::Wired,
        Side::Mobile => Port::Mobile,
    }
}

const fn side_of(port: Port) -> Side {
    match port {
        Port::Wired => Side::Wired,
        Port::Mobile => Side::Mobile,
    }
}

impl Processor for Accelerator {
    fn handle_packet(
        &mut self,
        from: Side,
        virtio: &mut VnetHeader,
        packet: &mut [u8],
        now: Instant,
    ) -> Verdict {
        crate::processor::give_back_hop(packet);
        let Ok(parsed) = VirtioNetHeader::parse(virtio) else { return Verdict::Forward };
        match self.engine.handle_packet(port_of(from), &parsed, packet, now) {
            engine::Verdict::Forward => Verdict::Forward,
            engine::Verdict::Consumed => Verdict::Consumed,
        }
    }

    fn handle_timeout(&mut self, now: Instant) {
        self.engine.handle_timeout(now);
    }

    fn poll_transmit(&mut self, now: Instant) -> Option<Transmit<'_>> {
        self.engine.poll_transmit(now).map(|made| {
            let virtio: [u8; VNET_HEADER_LEN] = made.virtio.to_bytes();
            Transmit { to: side_of(made.to), virtio, header: made.header, payload: made.payload }
        })
    }

    fn next_deadline(&self) -> Option<Instant> {
        self.engine.next_deadline()
    }

    fn keep_journal(&mut self, journal: Box<dyn Journal>) {
        self.engine.set_journal(journal);
    }

    fn begin_drain(&mut self, now: Instant) {
        self.engine.drain(now);
    }

    fn is_drained(&self) -> bool {
        self.engine.stats().flows_now == 0
    }
}
