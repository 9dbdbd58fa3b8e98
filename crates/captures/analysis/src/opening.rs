//! [`HandshakeTimes`]: when the packets of a handshake were seen, and what they tell of the path.

use units::{Duration, SeqNum};

use crate::direction::Direction;
use crate::optional_instant::OptionalInstant;

/// Times of the handshake.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct HandshakeTimes {
    /// Direction of the first SYN.
    pub(crate) client: Option<Direction>,
    /// The SYN last seen before the first SYN-ACK.
    pub(crate) syn: OptionalInstant,
    /// The first SYN-ACK.
    pub(crate) syn_ack: OptionalInstant,
    /// Number that it acknowledges.
    pub(crate) answered: SeqNum,
    /// The SYN-ACK last seen before the ACK.
    pub(crate) last_syn_ack: OptionalInstant,
    pub(crate) ack: OptionalInstant,
    /// It came with data: a plain one may have been lost before.
    pub(crate) ack_has_data: bool,
    pub(crate) syns: u16,
    pub(crate) syn_acks: u16,
    /// Another SYN was seen before the first SYN-ACK.
    pub(crate) has_more_syns: bool,
    /// The SYN offers AccECN (RFC 9768 §3.1.1).
    pub(crate) offers_to_count_marks: bool,
}

impl HandshakeTimes {
    /// SYN to the first SYN-ACK; none when several SYNs came before, because it is not known which was
    /// answered.
    pub(crate) fn to_server(self) -> Option<Duration> {
        self.least_to_server().filter(|_| !self.has_more_syns)
    }
    /// The last SYN before the first SYN-ACK, to that: no way to the server and back is shorter.
    pub(crate) fn least_to_server(self) -> Option<Duration> {
        Some(self.syn_ack.get()?.saturating_since(self.syn.get()?))
    }
    /// SYN-ACK to ACK; none when several SYN-ACKs came before.
    pub(crate) fn to_client(self) -> Option<Duration> {
        self.least_to_client().filter(|_| self.syn_ack == self.last_syn_ack)
    }
    /// The last SYN-ACK before the ACK, to the ACK: no way to the client and back is shorter.
    pub(crate) fn least_to_client(self) -> Option<Duration> {
        Some(self.ack.get()?.saturating_since(self.last_syn_ack.get()?))
    }
}

/// Values in both SYNs of a connection that no translation of addresses changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct OpeningMark {
    /// Sequence numbers of the SYNs of client and server.
    pub(crate) numbers: [u32; 2],
    /// Their timestamps.
    pub(crate) stamps: Option<[u32; 2]>,
}
