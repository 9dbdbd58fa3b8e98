//! Views and edits of IPv4, IPv6, TCP, UDP and ICMP packets, checksums, GSO split and merge.
//!
//! A packet is a byte slice that starts at the IP header. [`parse`] reads it once into a [`Packet`]: a
//! `Copy` value of facts and offsets that borrows nothing, so the bytes stay free for edits. Edits
//! ([`TcpEditor`], [`set_hop_limit`]) work in place and keep checksums right by RFC 1624. New headers come
//! from [`TcpHeaderSpec`] and [`emit_icmp`]. [`split`] cuts a GSO super-packet, [`Merger`] builds one, and
//! [`VirtioNetHeader`] is the header in front of both on a TUN device.
//!
//! Nothing here allocates, reads a clock or panics on any bytes.

#![deny(clippy::float_arithmetic)]

mod accurate_ecn;
pub mod checksum;
mod display;
mod edit;
mod emit;
mod feedback;
mod icmp;
mod ip;
mod merge;
mod octets;
mod options;
mod order;
mod packet;
mod split;
mod tcp;
mod udp;
mod virtio;

pub use accurate_ecn::EcnByteCounters;
pub use checksum::ChecksumState;
pub use edit::{TcpEditor, decrement_hop_limit, set_hop_limit, set_traffic_class};
pub use emit::{EmittedHeader, TcpHeaderSpec};
pub use feedback::{EncodedFeedback, FeedbackDatagram, FeedbackError, FeedbackKey};
pub use icmp::{Icmp, QuotedPacket, emit_icmp};
pub use ip::{Ip, IpVersion, ParseError, ipv4_checksum_is_valid, protocol};
pub use merge::{MergeOutcome, Merged, Merger};
pub use options::{SackBlock, SackBlocks, TcpOptions, Timestamps};
pub use order::HandoverOrder;
pub use packet::{Packet, Transport, parse, parse_prefix, tcp_checksum_is_valid, udp_checksum_is_valid};
pub use split::{Splitter, split};
pub use tcp::{Tcp, TcpFlags};
pub use udp::Udp;
pub use virtio::{GsoType, VirtioNetHeader, complete_checksum};

/// A packet cannot be built as asked: the caller's fault, never the peer's.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BuildError {
    /// Source and destination are of different address families.
    #[error("source and destination are of different IP versions: give both as IPv4 or both as IPv6")]
    MixedFamilies,
    /// The caller's buffer cannot hold the result.
    #[error("the buffer holds {have} bytes and {needed} are needed: give a larger one")]
    BufferTooSmall {
        /// Bytes needed.
        needed: usize,
        /// Bytes there are.
        have: usize,
    },
    /// The packet would be longer than IP's 16-bit length field can say.
    #[error("a packet of {len} bytes is longer than IP's length field can say: give less payload")]
    TooLong {
        /// Length asked for, bytes.
        len: usize,
    },
    /// The packet is none that can be cut: not whole TCP or UDP, or a SYN with data.
    #[error("only whole TCP (no SYN) and UDP packets can be cut: pass this one as it is")]
    NotSplittable,
    /// A segment size of zero.
    #[error("the segment size is zero: give at least one byte")]
    ZeroSegmentSize,
    /// A virtio header that is shorter than ten bytes, of an unknown kind, or does not fit its packet.
    #[error("the virtio header is cut, of an unknown kind or points outside its packet: drop the packet")]
    BadVirtioHeader,
}
