//! The engine as a [`Middlebox`].

use core::net::IpAddr;

use control::Feedback;
use engine::{Engine, Port, Transmit, Verdict};
use units::{Bytes, Instant};
use wire::VirtioNetHeader;

use crate::{Middlebox, Outgoing, Side};

impl From<Port> for Side {
    fn from(port: Port) -> Self {
        match port {
            Port::Wired => Self::Wired,
            Port::Mobile => Self::Mobile,
        }
    }
}

impl From<Side> for Port {
    fn from(side: Side) -> Self {
        match side {
            Side::Wired => Self::Wired,
            Side::Mobile => Self::Mobile,
        }
    }
}

impl Middlebox for Engine {
    fn handle_packet(
        &mut self,
        from: Side,
        virtio: &VirtioNetHeader,
        packet: &mut [u8],
        now: Instant,
    ) -> bool {
        Self::handle_packet(self, from.into(), virtio, packet, now) == Verdict::Forward
    }

    fn handle_timeout(&mut self, now: Instant) {
        Self::handle_timeout(self, now);
    }

    fn poll_transmit(&mut self, now: Instant) -> Option<Outgoing> {
        let Transmit { to, virtio, header, payload: (a, b) } = Self::poll_transmit(self, now)?;
        Some(Outgoing { to: to.into(), virtio, packet: [header, a, b].concat() })
    }

    fn next_deadline(&self) -> Option<Instant> {
        Self::next_deadline(self)
    }

    fn handle_feedback(&mut self, client: IpAddr, feedback: &Feedback) {
        Self::handle_feedback(self, client, feedback);
    }

    fn sending(&self) -> Option<(Bytes, Bytes)> {
        let flows = || self.flow_reports(0);
        let client = flows().map(|flow| flow.client.ip()).next()?;
        let own = flows().filter(|flow| flow.client.ip() == client);
        let in_flight = own.map(|flow| flow.in_flight).fold(Bytes::ZERO, |sum, bytes| sum + bytes);
        Some((flows().next()?.subscriber_window?, in_flight))
    }

    fn memory(&self) -> Bytes {
        let both = [Some(self.stats()), self.uplink_stats()];
        Bytes::new(both.into_iter().flatten().map(|stats| stats.buffer_bytes_now).sum())
    }
}
