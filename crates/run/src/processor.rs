//! [`Processor`]: what the packet loop needs of whatever handles the packets.

use std::fmt;
use std::net::{IpAddr, SocketAddr};

use control::Feedback;
use engine::Journal;
use io::VnetHeader;
use units::Instant;

use crate::{FlowList, ProcessorStatus};

/// A side of the accelerator.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Side {
    /// Towards the servers.
    Wired,
    /// Towards the clients.
    Mobile,
}

impl Side {
    pub(crate) const BOTH: [Self; 2] = [Self::Wired, Self::Mobile];

    /// The side across.
    #[must_use]
    pub const fn other(self) -> Self {
        match self {
            Self::Wired => Self::Mobile,
            Self::Mobile => Self::Wired,
        }
    }

    pub(crate) const fn index(self) -> usize {
        match self {
            Self::Wired => 0,
            Self::Mobile => 1,
        }
    }
}

/// What becomes of a packet that was handled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Write it, as edited, to the other side.
    Forward,
    /// The processor has taken what it needs of it.
    Consumed,
}

/// A packet to send: its pieces are written with one system call, without copying.
#[derive(Clone, Copy, Debug)]
pub struct Transmit<'a> {
    /// The side it leaves to.
    pub to: Side,
    /// The virtio header, for a super-packet or a partial checksum; else zeros.
    pub virtio: VnetHeader,
    /// IP and TCP header.
    pub header: &'a [u8],
    /// The payload, in up to two pieces (a ring buffer's two ends); either may be empty.
    pub payload: (&'a [u8], &'a [u8]),
}

/// Handles packets; never does I/O and never reads a clock.
pub trait Processor {
    /// Settings that can be put in force while it works.
    type Settings: Clone + Send + fmt::Debug;

    /// Takes one packet, which may be edited in place; `packet` starts at the IP header.
    fn handle_packet(
        &mut self,
        from: Side,
        virtio: &mut VnetHeader,
        packet: &mut [u8],
        now: Instant,
    ) -> Verdict;

    /// Is shown packets that are about to be handled, one after the other.
    fn look_ahead<'a>(&mut self, _from: Side, _packets: impl Iterator<Item = &'a [u8]> + Clone) {}

    /// Client and server of the packet handled last, if it was forwarded, its flow is none of ours, and none of its packets
    /// is going to be before its ports are opened anew.
    fn take_stranger(&mut self) -> Option<(SocketAddr, SocketAddr)> {
        None
    }

    /// Tells the time; called at or after [`Processor::next_deadline`].
    fn handle_timeout(&mut self, now: Instant);

    /// The next packet to send at `now`, if any; asked until there is none.
    fn poll_transmit(&mut self, now: Instant) -> Option<Transmit<'_>>;

    /// Takes in a base station's report about a client's downlink; false when nobody is known by that address.
    fn handle_feedback(&mut self, _client: IpAddr, _feedback: &Feedback) -> bool {
        false
    }

    /// When [`Processor::handle_timeout`] is to be called next.
    fn next_deadline(&self) -> Option<Instant>;

    /// Notes what it owes to clients in `downlink` and what to servers in `uplink`, if it ever owes anything.
    fn keep_journals(&mut self, _downlink: Box<dyn Journal>, _uplink: Box<dyn Journal>) {}

    /// Packets to a side may be `mtu` bytes long from here on: so its interface says.
    fn set_mtu(&mut self, _to: Side, _mtu: u32, _now: Instant) {}

    /// What it sends may not be longer than the path's packets from here on.
    fn refuse_super_packets(&mut self) {}

    /// True when there are settings to read anew.
    fn has_settings(&self) -> bool {
        false
    }

    /// Reads its settings anew from wherever they came from.
    ///
    /// # Errors
    /// Why that is not possible, in one line.
    fn read_settings(&mut self) -> Result<Self::Settings, String> {
        Err("there are no settings to read anew".to_owned())
    }

    /// Puts settings in force; gives one line on what holds.
    ///
    /// # Errors
    /// Why not, in one line; then everything stays as it was.
    fn apply(&mut self, _settings: &Self::Settings) -> Result<String, String> {
        Err("there are no settings to put in force".to_owned())
    }

    /// What it has counted.
    fn status(&self) -> ProcessorStatus {
        ProcessorStatus::default()
    }

    /// Its flows from the `skip`th on, `count` at most.
    fn flows(&self, _skip: usize, _count: usize, _now: Instant) -> FlowList {
        FlowList::default()
    }

    /// How many flows it has.
    fn flow_count(&self) -> usize {
        0
    }

    /// Packets may have gone past for a while: hand back every flow there is as soon as nothing is owed to it.
    fn resynchronise(&mut self, _now: Instant) {}

    /// The accelerator is to stop: take nothing new over and deliver what is owed.
    fn begin_drain(&mut self, _now: Instant) {}

    /// True when nothing is owed to anybody.
    fn is_drained(&self) -> bool {
        true
    }
}

/// A processor that forwards everything: the bare path.
#[derive(Clone, Copy, Debug, Default)]
pub struct PassThrough;

impl Processor for PassThrough {
    type Settings = ();

    fn handle_packet(&mut self, _: Side, _: &mut VnetHeader, _: &mut [u8], _: Instant) -> Verdict {
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
