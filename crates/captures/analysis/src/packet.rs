//! [`PacketView`]: one packet with what the analysis thinks of it, for figures and annotations.

use std::net::SocketAddr;

use units::{Duration, Instant};
use wire::{SackBlock, TcpFlags};

use crate::coverage::unwrap;
use crate::direction::Direction;
use crate::recovery::Cause;

/// Classification of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum PacketKind {
    /// Nothing unusual.
    #[default]
    Usual,
    /// Some of its bytes were seen before.
    Retransmission {
        /// Cause of the retransmission.
        cause: Cause,
        /// All of it was acknowledged when it was sent.
        was_acknowledged: bool,
    },
    /// One byte into a window of zero.
    WindowProbe,
    /// It asks whether the other end is there.
    KeepAlive,
    /// It fills a hole: lost before the capture point and sent again.
    Repaired,
    /// It fills a hole: it was only late.
    Reordered,
}

/// One packet of a flow. Positions count bytes of a stream in 64 bits; their lower half is the sequence
/// number.
#[derive(Clone, Copy, Debug)]
pub struct PacketView<'a> {
    /// Number of the segment, in the order in which the analyzer took them.
    pub number: u64,
    /// The flow's number.
    pub flow: u64,
    /// Place, among the captures, of the file in which the flow's first packet lies.
    pub capture: u16,
    /// The flow's ends: sender of its first packet, then the other.
    pub ends: [SocketAddr; 2],
    /// Direction of the packet: its sender.
    pub direction: Direction,
    /// Time of its capture.
    pub time: Instant,
    /// Position at which it starts in its direction's stream; meaningless in a reset.
    pub position: u64,
    /// Payload bytes.
    pub len: u64,
    /// TCP flags.
    pub flags: TcpFlags,
    /// ECN field of the IP header.
    pub ecn: u8,
    /// Position that it acknowledges: a position in the other direction's stream.
    pub ack: Option<u64>,
    /// The window it advertises, bytes; none when its scale is not known.
    pub window: Option<u64>,
    /// Its SACK blocks.
    pub sack: &'a [SackBlock],
    /// Duplicate acknowledgement.
    pub is_duplicate_ack: bool,
    /// Round-trip time of the other direction's data that it gives by Karn's rule.
    pub rtt_karn: Option<Duration>,
    /// The same by timestamps.
    pub rtt_timestamps: Option<Duration>,
    /// Classification; retransmissions may later turn out not to have been needed.
    pub kind: PacketKind,
}

/// Facts that a flow learned from a segment.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct PacketFindings {
    pub(crate) kind: PacketKind,
    pub(crate) is_duplicate_ack: bool,
    pub(crate) rtt_karn: Option<Duration>,
    pub(crate) rtt_timestamps: Option<Duration>,
    /// Bytes that it says for the first time have arrived.
    pub(crate) delivered: u64,
}

impl PacketView<'_> {
    /// Positions of the SACK blocks of this packet in the other direction's stream: start and end.
    pub fn sacked(&self) -> impl Iterator<Item = (u64, u64)> + '_ {
        let ack = self.ack;
        self.sack.iter().filter_map(move |block| {
            let start = unwrap(ack?, block.start);
            Some((start, start + u64::from(block.end.since(block.start))))
        })
    }
}
