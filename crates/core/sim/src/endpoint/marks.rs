//! [`Marks`]: a host's side of accurate ECN (RFC 9768): what it counts, and what it tells.

use wire::{Tcp, TcpFlags};

use super::mark_response::MarkResponse;

/// Data is sent as ECT(0), or by a scalable sender as ECT(1); a queue makes CE of it (RFC 3168 §5, RFC 9331 §2).
pub(super) const ECT_0: u8 = 2;
const ECT_1: u8 = 1;
pub(super) const CE: u8 = 3;

/// The ECN field of data whose sender does this about marks.
pub(super) const fn capable(response: MarkResponse) -> u8 {
    if matches!(response, MarkResponse::Scalable) { ECT_1 } else { ECT_0 }
}

/// Value that tells of an unmarked SYN-ACK, and a server's for an unmarked SYN (RFC 9768 §3.1.2, §3.2.2.1).
const NOT_ECT: u8 = 2;

/// A SYN offers accurate ECN by all three flags, and a SYN-ACK accepts it by one of these.
pub(super) fn is_offer(syn: &Tcp) -> bool {
    syn.flags.ace() == 7
}

pub(super) fn is_acceptance(syn_ack: &Tcp) -> bool {
    matches!(syn_ack.flags.ace(), 2..=4 | 6)
}

/// The same of classic ECN (RFC 3168 §6.1.1).
pub(super) fn is_classic_offer(syn: &Tcp) -> bool {
    syn.flags.ace() & 3 == 3
}

pub(super) fn is_classic_acceptance(syn_ack: &Tcp) -> bool {
    syn_ack.flags.ace() == 1
}

pub(super) fn offer(flags: TcpFlags) -> TcpFlags {
    flags.with_ace(7)
}

pub(super) fn acceptance(flags: TcpFlags) -> TcpFlags {
    flags.with_ace(NOT_ECT)
}

/// Counts of the marks on what a host has taken.
#[derive(Clone, Copy, Debug)]
pub(super) struct Marks {
    ce_packets: u32,
    /// Payload by mark: ECT(0), CE, ECT(1).
    bytes: [u32; 3],
    /// It tells of bytes, too.
    pub tells_bytes: bool,
    /// Its next packet, if it has no data, tells how the SYN-ACK arrived.
    completes_handshake: bool,
}

impl Marks {
    /// Counts of a host that has begun the connection, or was connected to.
    pub(super) const fn new(tells_bytes: bool, completes_handshake: bool) -> Self {
        Self { ce_packets: 5, bytes: [1, 0, 1], tells_bytes, completes_handshake }
    }

    pub(super) fn count(&mut self, ecn: u8, payload: u32) {
        let Some(place) = [None, Some(2), Some(0), Some(1)][usize::from(ecn & 3)] else { return };
        self.bytes[place] = self.bytes[place].wrapping_add(payload);
        self.ce_packets = self.ce_packets.wrapping_add(u32::from(ecn & 3 == 3));
    }

    /// The flags of the next packet.
    pub(super) fn tell(&mut self, flags: TcpFlags, has_data: bool) -> TcpFlags {
        let is_third = std::mem::take(&mut self.completes_handshake) && !has_data;
        flags.with_ace(if is_third { NOT_ECT } else { self.ce_packets as u8 })
    }

    pub(super) fn bytes(&self) -> Option<[u32; 3]> {
        self.tells_bytes.then_some(self.bytes)
    }
}
