//! [`PacketRecord`]: what happened to one packet, and when.

use core::fmt;

use units::{Bytes, Duration, Instant};

/// Number of a packet on one link: 0, 1, 2, … in order of arrival, dropped ones included.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PacketId(pub u64);

/// Reason why a packet was not delivered.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum DropReason {
    /// Lost ahead of the queue: at random, or by the policer.
    LossBefore,
    /// The queue was full (drop-tail).
    QueueFull,
    /// The queue's management dropped it (AQM).
    Managed,
    /// Every radio try failed.
    HarqFailed,
    /// Put on the air in a fade.
    Fade,
    /// Random loss behind the queue.
    LossAfter,
}

impl fmt::Display for DropReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::LossBefore => "loss before the queue",
            Self::QueueFull => "queue full",
            Self::Managed => "queue management",
            Self::HarqFailed => "radio tries failed",
            Self::Fade => "fade",
            Self::LossAfter => "loss after the queue",
        })
    }
}

/// The log entry of one packet. Times are planned times: exact, whatever the driver's own delays.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PacketRecord {
    /// Its number.
    pub id: PacketId,
    /// IP packet length.
    pub size: Bytes,
    /// Time at which it was handed to the link.
    pub arrival: Instant,
    /// Time at which its first byte was served; none when it never entered service.
    pub service_start: Option<Instant>,
    /// Time at which its last byte was served, or of the uplink slot after that; none when it never was.
    pub departure: Option<Instant>,
    /// Time at which it came out at the far end; none when it did not.
    pub delivered: Option<Instant>,
    /// Failed radio tries.
    pub failed_tries: u8,
    /// Reason why it was not delivered.
    pub drop: Option<DropReason>,
}

impl PacketRecord {
    /// Queueing delay: from arrival to the end of service, which includes the packet's own service.
    #[must_use]
    pub fn queueing_delay(&self) -> Option<Duration> {
        self.departure.map(|departure| departure.saturating_since(self.arrival))
    }

    /// Time from arrival to delivery.
    #[must_use]
    pub fn one_way_delay(&self) -> Option<Duration> {
        self.delivered.map(|delivered| delivered.saturating_since(self.arrival))
    }
}
