//! [`Handshake`]: the round trip that a QUIC handshake shows to whoever is on the way.
//!
//! ```text
//!   client          capture          server
//!     |--- Initial --->|--------------->|     asked
//!     |                |<-- Initial ----|     answered: its source connection ID is new
//!     |<---------------|                |
//!     |--- Initial --->|--------------->|     replied: goes to that connection ID
//! ```
//!
//! The reply proves that the client has the answer: from then on it must use the ID which the server chose (RFC 9000
//! §7.2). Retry (§17.2.5) and Version Negotiation (RFC 8999 §6) are answers, too.

use units::{Duration, Instant};

use super::header::{ConnectionId, Header, Kind};

/// Packets of one flight follow each other within this time. What comes later may have been sent again, and then nobody
/// knows which of them was answered.
const FLIGHT: Duration = Duration::from_millis(5);

/// First and last packet that may have caused the next step.
#[derive(Clone, Copy, Debug)]
struct Flight {
    first: Instant,
    last: Instant,
}

impl Flight {
    fn at(now: Instant) -> Self {
        Self { first: now, last: now }
    }

    /// Time to `next`; none if it is not clear from when.
    fn until(self, next: Instant) -> Option<Duration> {
        (self.last.saturating_since(self.first) <= FLIGHT).then(|| next.saturating_since(self.first))
    }
}

/// Packets seen of a handshake.
#[derive(Clone, Debug, Default)]
pub(crate) struct Handshake {
    asked: Option<Flight>,
    asked_version: Option<u32>,
    /// The ID that the client made up for the server.
    asked_id: Option<ConnectionId>,
    answered: Option<Flight>,
    answer_kind: Option<Kind>,
    /// ID to which the client's reply has to go.
    answer_id: Option<ConnectionId>,
    replied: Option<Instant>,
    /// First 1-RTT packet of the client.
    complete: Option<Instant>,
}

impl Handshake {
    /// A packet of the client with a long header.
    pub(crate) fn on_client(&mut self, header: &Header, now: Instant) {
        let asks = matches!(header.kind, Kind::Initial | Kind::OtherLong);
        match (self.asked, self.answered) {
            (None, None) if asks => {
                self.asked = Some(Flight::at(now));
                (self.asked_version, self.asked_id) = (header.version, header.destination);
            }
            (Some(asked), None) if asks => self.asked = Some(Flight { last: now, ..asked }),
            (Some(_), Some(_)) if self.replied.is_none() && self.is_reply(header) => self.replied = Some(now),
            _ => {}
        }
    }

    fn is_reply(&self, header: &Header) -> bool {
        if self.answer_kind == Some(Kind::VersionNegotiation) {
            return header.version.is_some() && header.version != self.asked_version;
        }
        match (self.answer_id, header.destination, self.asked_id) {
            (Some(chosen), Some(used), _) => chosen == used,
            // The server's ID is cut off: only its answer can have made the client use another one.
            (None, Some(used), Some(asked)) if used != asked => true,
            // Keys for this type come with the server's answer.
            _ => header.kind == Kind::Handshake,
        }
    }

    /// A packet of the server with a long header.
    pub(crate) fn on_server(&mut self, header: &Header, now: Instant) {
        match (&mut self.answered, self.asked) {
            (None, Some(_)) => {
                self.answered = Some(Flight::at(now));
                (self.answer_kind, self.answer_id) = (Some(header.kind), header.source);
            }
            (Some(answered), _) if self.replied.is_none() && header.kind != Kind::Handshake => {
                answered.last = now;
                self.answer_id = self.answer_id.or(header.source);
            }
            _ => {}
        }
    }

    /// A 1-RTT packet of the client.
    pub(crate) fn on_client_short(&mut self, now: Instant) {
        if self.asked.is_some() {
            self.complete = self.complete.or(Some(now));
        }
    }

    /// From the client's first Initial packet to the server's first answer; none if the client had to send it again.
    pub(crate) fn to_server(&self) -> Option<Duration> {
        self.asked?.until(self.answered?.first)
    }

    /// From the server's first answer to the client's reply; none if the server sent it again before.
    pub(crate) fn to_client(&self) -> Option<Duration> {
        self.answered?.until(self.replied?)
    }

    /// Both together: the round trip of the whole path.
    pub(crate) fn total(&self) -> Option<Duration> {
        self.to_server().zip(self.to_client()).map(|(a, b)| a + b)
    }

    /// From the client's first Initial packet to its first 1-RTT packet.
    pub(crate) fn complete(&self) -> Option<Duration> {
        Some(self.complete?.saturating_since(self.asked?.first))
    }
}
