//! Readers of packet captures, down to the innermost TCP segment or UDP datagram of each packet.
//!
//! [`Reader`] reads pcap, pcapng and snoop from any [`std::io::Read`], one packet at a time and without a copy:
//! [`Reader::advance`] moves to the next packet, [`Reader::current`] lends it. [`decompressed`]
//! looks through gzip and Zstandard, [`Merged`] reads several files in the order of time,
//! [`Ordered`] those of one file that are a little out of it, [`decode`] finds the TCP segment behind link headers and
//! tunnels, and [`datagram`] the UDP datagram.
//!
//! Why own parsers: a file that ends or breaks anywhere must give everything before that place and
//! say where it is, records of the three old header layouts must be told apart, and a packet must
//! cost tens of nanoseconds. The formats are small; what costs is exactly that behaviour.
//!
//! Nothing here reads a clock, needs a privilege or panics on any bytes.

#![deny(clippy::float_arithmetic)]

mod compression;
mod datagram;
mod decode;
mod error;
mod link;
mod merge;
mod mptcp;
mod octets;
mod order;
mod pcap;
mod pcapng;
mod reader;
mod reassembly;
mod snoop;
mod tunnel;
mod window;
mod writer;

pub use compression::decompressed;
pub use datagram::{Datagram, datagram};
pub use decode::{Segment, Skip, decode};
pub use error::CaptureError;
pub use link::LinkType;
pub use merge::{CaptureSource, Merged, Problem};
pub use mptcp::{Mapping, MptcpOptions, mptcp_options};
pub use order::Ordered;
pub use reader::{Format, Health, Reader, Record};
pub use reassembly::Reassembly;
pub use writer::PcapngWriter;
