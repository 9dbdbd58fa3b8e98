//! [`Middlebox`]: where packets, time and feedback come in and packets and deadlines go out.
//!
//! ```text
//!   handle_packet, handle_feedback, handle_timeout ──▶ Middlebox ──▶ Verdict, poll_transmit, next_deadline
//! ```
//!
//! The caller of an engine (a packet loop on real devices, a simulated network, a benchmark, a fuzzer)
//! knows it by this trait, and by its own needs beside it. Calls are dispatched statically; a packet is
//! copied nowhere.

use std::net::IpAddr;

use control::Feedback;
use units::Instant;
use wire::VirtioNetHeader;

/// A port of the accelerator.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Port {
    /// Side of the servers.
    Wired,
    /// Side of the clients.
    Mobile,
}

impl Port {
    /// Both of them, in the order of [`Port::index`].
    pub const BOTH: [Self; 2] = [Self::Wired, Self::Mobile];

    /// The other one.
    #[must_use]
    pub const fn opposite(self) -> Self {
        match self {
            Self::Wired => Self::Mobile,
            Self::Mobile => Self::Wired,
        }
    }

    /// Its place in a pair: wired, then mobile.
    #[must_use]
    pub const fn index(self) -> usize {
        match self {
            Self::Wired => 0,
            Self::Mobile => 1,
        }
    }
}

/// Verdict on a packet that was handed in.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Verdict {
    /// Send it, as it is in its buffer now, out of the other port.
    Forward,
    /// The engine has taken what it needs: drop it.
    Consumed,
}

/// A packet of the engine's own making.
#[derive(Clone, Copy, Debug)]
pub struct Transmit<'a> {
    /// Port at which it goes out.
    pub to: Port,
    /// Its checksum is partial; longer than the MSS, it is to be cut into segments.
    pub virtio: VirtioNetHeader,
    /// IP and TCP headers.
    pub header: &'a [u8],
    /// Payload, in two pieces where the buffer wraps.
    pub payload: (&'a [u8], &'a [u8]),
}

impl Transmit<'_> {
    /// The whole packet in one piece, as a copy.
    #[must_use]
    pub fn to_vec(&self) -> Vec<u8> {
        [self.header, self.payload.0, self.payload.1].concat()
    }
}

/// Middlebox between the servers and the clients; it does no I/O and reads no clock.
pub trait Middlebox {
    /// Takes in a packet that arrived at `from` with its virtio header; `packet` starts at the IP header.
    ///
    /// [`Verdict::Forward`] asks for the packet, as edited in place, to be sent out of the other port with
    /// the same
    /// virtio header. After this, [`Middlebox::poll_transmit`] may have packets to send.
    fn handle_packet(
        &mut self,
        from: Port,
        virtio: &VirtioNetHeader,
        packet: &mut [u8],
        now: Instant,
    ) -> Verdict;

    /// Acts on every deadline up to `now`; calling it early does nothing.
    fn handle_timeout(&mut self, now: Instant);

    /// The next packet of its own making to send at `now`; call it until there is none.
    fn poll_transmit(&mut self, now: Instant) -> Option<Transmit<'_>>;

    /// Time at which [`Middlebox::handle_timeout`] or [`Middlebox::poll_transmit`] wants to be called again.
    fn next_deadline(&self) -> Option<Instant>;

    /// Takes in a base station's report about the downlink of `client`, an address or one of its prefix.
    ///
    /// False when nobody is known by that address: there is nothing to control.
    fn handle_feedback(&mut self, _client: IpAddr, _feedback: &Feedback) -> bool {
        false
    }
}

/// A plain router: every packet passes untouched.
#[derive(Clone, Copy, Debug, Default)]
pub struct PassThrough;

impl Middlebox for PassThrough {
    fn handle_packet(&mut self, _: Port, _: &VirtioNetHeader, _: &mut [u8], _: Instant) -> Verdict {
        Verdict::Forward
    }

    fn handle_timeout(&mut self, _: Instant) {}

    fn poll_transmit(&mut self, _: Instant) -> Option<Transmit<'_>> {
        None
    }

    fn next_deadline(&self) -> Option<Instant> {
        None
    }
}
