//! Inputs and answers of a [`Sender`](crate::sender::Sender).

use control::{LossKind, RateSampler, SendStamp};
use units::{Duration, Instant, SeqNum};
use wire::SackBlocks;

/// Whether the peer's window limits what is sent.
#[derive(
    Clone, Copy, PartialEq, Eq, Debug, Default, stored::Stored, serde::Serialize, serde::Deserialize,
)]
#[serde(rename_all = "lowercase")]
pub enum WindowPolicy {
    /// Never send beyond the window (RFC 9293).
    #[default]
    Honour,
    /// Send beyond it unless it is zero: it will have moved by the time data arrives (\[MA\]).
    Opportunistic,
}

/// Parameters that a connection agreed on.
#[derive(Clone, Copy, Debug)]
pub struct SenderConfig {
    /// First sequence number to send.
    pub start: SeqNum,
    /// Payload bytes per segment at most, options deducted.
    pub mss: u32,
    /// The peer reports SACK blocks.
    pub sack: bool,
    /// The peer's window in bytes at the start.
    pub window: u32,
    /// The lowest number that a segment of the peer may have.
    pub peer_seq: SeqNum,
    /// Whether it limits what is sent.
    pub policy: WindowPolicy,
    /// Longest retransmission time-out. After an outage the first attempt comes at most this late.
    pub rto_max: Duration,
    /// Segments that one time-out sends at most. The first in a row sends one, each further one twice as
    /// many, within the caller's room: the back-off takes nothing from the rate of attempts. 1 for RFC 6298's
    /// single one.
    pub timeout_segments: u8,
}

/// Progress of another sender of the same stream, of which nothing else is known any more.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SentBefore {
    /// The next number to send, one past a FIN that was sent.
    pub nxt: SeqNum,
    /// One past the last byte that may be sent.
    pub end: SeqNum,
    /// The stream ends there.
    pub fin: bool,
    /// Round trip that it had measured, smoothed.
    pub srtt: Option<Duration>,
    /// The smallest one.
    pub min_rtt: Option<Duration>,
    /// Fate of the data that it had under way.
    pub flight: FlightBefore,
}

/// Fate of the data that another sender had under way.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum FlightBefore {
    /// It arrives, as any other does: it counts as in flight, and what follows it shows what was lost.
    #[default]
    Arrives,
    /// Nobody knows. All of it is suspect, as after a retransmission time-out (RFC 6298 §5.4): the oldest
    /// segment goes again, and the peer's answer says what it has.
    Suspect,
}

/// Limits that the caller sets for one transmission, and the stamp it is noted with.
#[derive(Debug)]
pub struct SendContext<'a> {
    /// The time.
    pub now: Instant,
    /// Payload bytes of one transmission at most: pacing's quantum. At least one segment is always tried.
    pub quantum: u32,
    /// Bytes that may still be added to what is in flight.
    pub window_room: u32,
    /// Nothing is in flight of all that share the path.
    pub is_path_idle: bool,
    /// Stamps what is sent, for the path's delivery rate.
    pub sampler: &'a mut RateSampler,
}

impl SendContext<'_> {
    pub(crate) fn stamp(&mut self) -> SendStamp {
        self.sampler.on_send(self.is_path_idle, self.now)
    }
}

/// One transmission to make now.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Transmission {
    /// Number of its first byte.
    pub seq: SeqNum,
    /// Bytes of payload; may exceed the MSS, to be cut into segments by the caller that sends it.
    pub len: u32,
    /// It ends the stream.
    pub fin: bool,
    /// It was sent before.
    pub is_retransmission: bool,
    /// It carries nothing and only asks for an acknowledgement.
    pub is_probe: bool,
}

/// An acknowledgement from the peer.
#[derive(Clone, Copy, Debug)]
pub struct AckIn<'a> {
    /// Its sequence number.
    pub seq: SeqNum,
    /// Its acknowledgement number.
    pub ack: SeqNum,
    /// Its window in bytes, scaled.
    pub window: u32,
    /// Its SACK blocks.
    pub sack: &'a SackBlocks,
    /// It also carries data, so that it is no duplicate (RFC 5681 §2).
    pub has_payload: bool,
}

/// Changes that an acknowledgement made.
#[derive(Clone, Copy, Debug, Default)]
pub struct AckOutcome {
    /// Bytes the left edge moved by.
    pub acked: u32,
    /// Bytes newly reported as delivered, cumulatively or selectively.
    pub delivered: u32,
    /// Stamp of the newest transmission among them, for a rate sample.
    pub newest: Option<SendStamp>,
    /// Round trip of the newest segment that was sent only once.
    pub rtt: Option<Duration>,
    /// Bytes that reached the peer and were discarded by it, because they lay beyond its window (H18): the
    /// path has carried them as well as any.
    pub discarded: u32,
    /// The peer's window in bytes.
    pub window: u32,
    /// Bytes newly found lost on the way: marked so, or repaired by a tail loss probe already; not
    /// those that will be discarded.
    pub lost: u32,
    /// Those of them that another sender had sent ([`FlightBefore`]): not the fault of what is sent here.
    pub lost_before: u32,
    /// A new recovery episode began; one of a tail loss probe is over at once (RFC 8985 §7.4.2).
    pub is_new_loss: bool,
    /// It repeats what was known: no new delivery, no window change.
    pub is_duplicate: bool,
    /// It reports something that arrived twice (D-SACK).
    pub has_d_sack: bool,
    /// It acknowledges what was never sent; nothing was changed.
    pub is_unacceptable: bool,
    /// SACK blocks that make no sense here (H12).
    pub invalid_sack_blocks: u32,
    /// A time-out turned out to be needless and was taken back.
    pub undid_timeout: bool,
    /// Not all that had been sent when a loss was found has been acknowledged.
    pub is_recovering: bool,
    /// The window is honoured for a while: the peer discards what is sent beyond it (H18).
    pub fell_back: bool,
}

/// Effects of the timers.
#[derive(Clone, Copy, Debug, Default)]
pub struct TimeoutOutcome {
    /// Bytes newly marked lost.
    pub lost: u32,
    /// Those of them that another sender had sent.
    pub lost_before: u32,
    /// Way in which the losses were found.
    pub kind: Option<LossKind>,
    /// A new recovery episode began.
    pub is_new_loss: bool,
    /// The retransmission time-out fired.
    pub is_timeout: bool,
    /// A probe waits to be sent.
    pub sent_probe: bool,
}
