//! [`Event`]: something that happened in a flow.

use serde::Serialize;
use units::Instant;

use crate::direction::Direction;
use crate::recovery::{Cause, Retransmission, SpuriousBy};

/// Something that happened in a flow.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Event {
    /// The flow's number.
    pub flow: u64,
    /// Nanoseconds since 1970-01-01 UTC.
    pub time_ns: u64,
    /// 0: sent by the flow's first endpoint; 1: by its second.
    pub direction: Direction,
    /// Position in the stream, bytes after the first seen; negative below it.
    pub offset: i64,
    /// Bytes.
    pub len: u64,
    /// Kind of the event.
    #[serde(flatten)]
    pub kind: EventKind,
}

/// Kinds of [`Event`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(tag = "event", rename_all = "snake_case")]
pub enum EventKind {
    /// Bytes were seen again.
    Retransmission {
        /// Cause of a retransmission, also of one found spurious.
        cause: Cause,
    },
    /// An earlier repetition turned out not to have been needed; place and time are those of the finding.
    Spurious {
        /// Cause of a retransmission, also of one found spurious.
        cause: Cause,
        /// Evidence by which a retransmission was found spurious.
        by: SpuriousBy,
        /// Time when a retransmission found spurious had been sent.
        sent_ns: u64,
    },
    /// A probe of a zero window.
    WindowProbe,
    /// A keep-alive.
    KeepAlive,
    /// A hole was filled by a segment sent again: lost before the capture point.
    Repaired,
    /// A hole was filled by a segment that was only late.
    Reordered,
    /// A zero window was advertised.
    ZeroWindow,
    /// A packet arrived with the mark of congestion (CE).
    CongestionMark,
    /// The sender says that it has answered to a mark of congestion: CWR after the handshake.
    CongestionAnswer,
    /// The connection was reset.
    Reset,
}

/// A retransmission of which it is known now, with data of `first` on, that it was not needed.
pub(crate) fn spurious(
    flow: u64,
    direction: Direction,
    now: Instant,
    first: u64,
    retransmission: &Retransmission,
) -> Event {
    Event {
        flow,
        time_ns: now.as_nanos(),
        direction,
        offset: retransmission.start as i64 - first as i64,
        len: retransmission.end - retransmission.start,
        kind: EventKind::Spurious {
            cause: retransmission.cause,
            by: retransmission.spurious(),
            sent_ns: retransmission.time.as_nanos(),
        },
    }
}
