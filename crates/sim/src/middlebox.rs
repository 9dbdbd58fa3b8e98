//! [`Middlebox`]: what sits between the wired and the mobile segment.

use core::net::IpAddr;

use control::Feedback;
use units::{Bytes, Instant};
use wire::VirtioNetHeader;

/// A side of the middlebox.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Side {
    /// Towards the server.
    Wired,
    /// Towards the client.
    Mobile,
}

impl Side {
    /// The other side.
    #[must_use]
    pub const fn other(self) -> Self {
        match self {
            Self::Wired => Self::Mobile,
            Self::Mobile => Self::Wired,
        }
    }
}

/// A packet the middlebox made, or one that entered a network in one piece.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outgoing {
    /// Where it leaves.
    pub to: Side,
    /// Its super-packet and checksum header.
    pub virtio: VirtioNetHeader,
    /// The packet from its IP header on.
    pub packet: Vec<u8>,
}

/// A device between server and client, driven from outside like everything else here.
pub trait Middlebox {
    /// Takes a packet that came in at `from`; true when it (perhaps edited) goes out at the other side.
    fn handle_packet(
        &mut self,
        from: Side,
        virtio: &VirtioNetHeader,
        packet: &mut [u8],
        now: Instant,
    ) -> bool;
    /// Acts on timers that are due.
    fn handle_timeout(&mut self, now: Instant);
    /// The next packet of its own making; call until `None`.
    fn poll_transmit(&mut self, now: Instant) -> Option<Outgoing>;
    /// When it next wants [`Middlebox::handle_timeout`].
    fn next_deadline(&self) -> Option<Instant>;
    /// Takes in a base station's report about a client's downlink.
    fn handle_feedback(&mut self, _client: IpAddr, _feedback: &Feedback) {}
    /// What it may have in flight towards the first client, and what it has; none when it sends nothing of its own.
    fn sending(&self) -> Option<(Bytes, Bytes)> {
        None
    }
    /// Bytes it holds for flows.
    fn memory(&self) -> Bytes {
        Bytes::ZERO
    }
    /// It is on its way out, or gone: flows are handed back to plain forwarding.
    fn is_leaving(&self) -> bool {
        false
    }
    /// True, once, after it has lost everything it knew: what it owed is gone.
    fn take_death(&mut self) -> bool {
        false
    }
}

/// A plain router: every packet passes untouched.
#[derive(Clone, Copy, Debug, Default)]
pub struct PassThrough;

impl Middlebox for PassThrough {
    fn handle_packet(&mut self, _: Side, _: &VirtioNetHeader, _: &mut [u8], _: Instant) -> bool {
        true
    }
    fn handle_timeout(&mut self, _: Instant) {}
    fn poll_transmit(&mut self, _: Instant) -> Option<Outgoing> {
        None
    }
    fn next_deadline(&self) -> Option<Instant> {
        None
    }
}
