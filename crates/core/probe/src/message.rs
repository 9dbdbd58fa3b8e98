//! [`Message`]: what client and server say to each other in UDP datagrams. `docs/probe.md`.
//!
//! ```text
//!    0               2        3        4
//!   +---------------+--------+--------+------------------------- … -+----------------------+
//!   | magic 0xCE12  | version| kind   | body, by kind               | tag, 16 bytes        |
//!   +---------------+--------+--------+------------------------- … -+----------------------+
//! ```
//!
//! All numbers are big-endian. Bit 128 of the kind says that there is a tag: HMAC-SHA-256 over all
//! before, cut to 16 bytes. With a key everything is signed but [`Data`] and [`Echo`], also as `Ping`
//! and `Pong`, whose session nobody can guess, and what is said before a session is there: `Challenge`,
//! `Refuse` and a `Hello` without a cookie. `Refuse` is read whatever its version is.

use std::net::SocketAddr;

use serde::Serialize;
use units::{Bytes, Duration, Instant, Rate};

use crate::auth::Cookie;

const MAGIC: u16 = 0xce12;
/// Version of the protocol.
pub const VERSION: u8 = 1;
const SIGNED: u8 = 0x80;
const HEADER_LEN: usize = 4;

/// A Hello, and a Locate, is filled up to this, so that no answer to one without a cookie is longer.
pub(crate) const HELLO_LEN: usize = 64;
/// Length of a data packet's header, and so the least payload: as long as an [`Echo`].
pub const DATA_LEN: usize = 44;
/// The longest control message: fits the least MTU of IPv6 with its headers.
pub(crate) const CONTROL_LEN_MAX: usize = 1_200;
/// Longest payload of a data packet.
pub(crate) const PAYLOAD_MAX: u16 = 9_000;
/// Records in one message at most.
pub(crate) const RECORDS_MAX: u32 = 256;

/// Ports in one message at most.
pub(crate) const PORTS_MAX: usize = 64;
/// Bytes of a report in one message at most.
pub(crate) const SEEN_MAX: usize = 1_000;

/// A session: a number that only its client and the server know.
pub type SessionId = u64;

/// Direction of data.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Hash)]
pub enum Direction {
    /// Data from the client to the server.
    Up,
    /// Data from the server to the client.
    Down,
}

impl Direction {
    /// `up` or `down`.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Up => "up",
            Self::Down => "down",
        }
    }
}

/// Course of the rate of a run.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Pattern {
    /// The same all the time.
    Steady,
    /// Adjusted by what the receiver reports ([`crate::Search`]), up to the rate given.
    Search,
    /// Adjusted so that the link's queue is never empty ([`crate::Saturation`]), up to the rate given.
    Saturate,
    /// The rate given in the mean, in trains of [`TRAIN`] packets that leave at once.
    Trains,
}

/// Packets of a train.
pub const TRAIN: u32 = 10;

impl Pattern {
    /// True where the rate follows the receiver's reports.
    #[must_use]
    pub const fn is_adapted(self) -> bool {
        matches!(self, Self::Search | Self::Saturate)
    }
}

/// Specification of a run to be measured.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RunSpec {
    /// Direction of its data.
    pub direction: Direction,
    /// Course of its rate.
    pub pattern: Pattern,
    /// IP packets with their headers; not zero.
    pub rate: Rate,
    /// Payload of each UDP datagram, bytes: [`DATA_LEN`] to 9000.
    pub payload: u16,
    /// IP and UDP headers of each as the client's network has them, bytes: 28 or 48.
    pub overhead: u16,
    /// Time for which data is sent, whole ms.
    pub length: Duration,
    /// The receiver sends each packet's header back at once.
    pub is_echoed: bool,
}

impl RunSpec {
    /// Bytes of each packet with its headers.
    #[must_use]
    pub fn packet(&self) -> Bytes {
        Bytes::new(u64::from(self.payload) + u64::from(self.overhead))
    }

    /// Packets of a steady run.
    #[must_use]
    pub fn packets(&self) -> u64 {
        let gap = self.rate.time_for(self.packet()).as_nanos().max(1);
        let exact = u128::from(self.rate.as_bps()) * u128::from(self.length.as_nanos());
        let packet_bits = u128::from(self.packet().get()) * 8_000_000_000;
        // The first leaves at once.
        let whole = exact.div_ceil(packet_bits.max(1)).max(1);
        u64::try_from(whole).unwrap_or(u64::MAX / gap)
    }
}

/// Limits of a server.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Limits {
    /// Largest rate of a run.
    pub rate_max: Rate,
    /// Longest run, whole ms.
    pub time_max: Duration,
    /// Bytes one client may have sent or received per hour.
    pub volume_max: Bytes,
}

/// Reason why a server does not do what it is asked for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Refusal {
    /// The server speaks another version of this protocol; detail: which.
    Version,
    /// Not signed with the server's key.
    WrongKey,
    /// Limit on sessions of the server reached; detail: how many.
    Overloaded,
    /// Limit on sessions from one client reached; detail: how many.
    TooMany,
    /// The cookie is too old, or of another address.
    Cookie,
    /// The server knows no such session (any more).
    NoSession,
    /// The rate is above the limit; detail: the limit in bit/s.
    Rate,
    /// The run would take longer than the limit; detail: the limit in ms.
    Time,
    /// The client has used up what it may transfer in an hour; detail: bytes.
    Volume,
    /// The request makes no sense: a payload or an overhead that cannot be.
    Senseless,
}

const REFUSALS: [Refusal; 10] = [
    Refusal::Version,
    Refusal::WrongKey,
    Refusal::Overloaded,
    Refusal::TooMany,
    Refusal::Cookie,
    Refusal::NoSession,
    Refusal::Rate,
    Refusal::Time,
    Refusal::Volume,
    Refusal::Senseless,
];

/// Counts of a receiver since its last report, and in all.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct StatusReport {
    /// Packets in all, each once.
    pub received: u32,
    /// One more than the highest number; zero before the first packet.
    pub next: u32,
    /// Packets since the last report.
    pub recent: u32,
    /// Numbers left out, late or repeated since the last report (RFC 9097 §8.1 counts all three).
    pub errors: u32,
    /// Largest one-way delay since the last report less the smallest of the run, µs.
    pub delay_us: u32,
}

/// A packet that arrived.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Arrival {
    /// Its number within the run.
    pub number: u32,
    /// Time of arrival, by the receiver's clock.
    pub at: Instant,
}

/// Timing errors of the sender.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct TimerFigures {
    /// Departure after the plan, median.
    pub late_p50_us: u32,
    /// 99th percentile.
    pub late_p99_us: u32,
    /// Largest.
    pub late_max_us: u32,
    /// Gap between packets against the planned one, 99th percentile.
    pub gap_error_p99_us: u32,
}

/// Summary of a run by one end when it is over.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct RunSummary {
    /// Packets sent, as sender.
    pub sent: u32,
    /// Packets the system did not take, as sender.
    pub refused: u32,
    /// Packets received, as receiver, repeated ones as often as they came.
    pub received: u32,
    /// Packets that the receiver's system dropped for want of room.
    pub overflowed: u32,
    /// Times the client's address changed in this session.
    pub moves: u16,
    /// Punctuality of the sender.
    pub timer: TimerFigures,
}

/// The header of a packet that measures; the rest of the datagram is filling.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Data {
    /// Session.
    pub session: SessionId,
    /// Run.
    pub run: u32,
    /// Number within the run, from 0.
    pub number: u32,
    /// Time at which it was sent, by the sender's clock.
    pub sent: Instant,
}

/// The answer to a [`Data`] of an echoed run.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Echo {
    /// Data that is answered.
    pub data: Data,
    /// Time at which it came, by the answering end's clock.
    pub received: Instant,
    /// Time at which the answer left, by the same clock.
    pub echoed: Instant,
}

/// State of a TCP port, as its server says.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Port {
    /// Its number.
    pub number: u16,
    /// State of the port.
    pub state: PortState,
}

/// State of a TCP port of a server.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum PortState {
    /// The server listens.
    Open,
    /// The server listens; it has chosen the port at random.
    Random,
    /// Another program has it. No server tells clients of this version so: it is nobody's business.
    Occupied,
    /// The server may not listen there, and does not know whether somebody does. Told as `Occupied` is.
    NotPermitted,
    /// Nobody listens. Told as `Occupied` is.
    Free,
    /// Nobody listens; the server holds the port so that it stays so.
    Refused,
}

const PORT_STATES: [PortState; 6] = [
    PortState::Open,
    PortState::Random,
    PortState::Occupied,
    PortState::NotPermitted,
    PortState::Free,
    PortState::Refused,
];

/// Everything that is said.
#[derive(Clone, PartialEq, Eq, Debug)]
#[allow(missing_docs)]
pub enum Message {
    /// Client: may I? `cookie` is zero at first.
    Hello { nonce: u64, cookie: Cookie },
    /// Server: prove your address by sending this back.
    Challenge { nonce: u64, cookie: Cookie },
    /// Server: you have a session.
    Accept { nonce: u64, session: SessionId, limits: Limits },
    /// Server: no; `about` is the nonce of a Hello, or a session.
    Refuse { about: u64, reason: Refusal, detail: u64, version: u8 },
    /// Client: measure this. A repeated one gets the same answer.
    Ask { session: SessionId, run: u32, spec: RunSpec },
    /// Server: begun.
    Grant { session: SessionId, run: u32 },
    /// Server: others are before you; ask again in a moment.
    Wait { session: SessionId, run: u32, place: u32 },
    /// Server: not that.
    Deny { session: SessionId, run: u32, reason: Refusal, detail: u64 },
    /// Receiver: what came.
    Status { session: SessionId, run: u32, number: u32, report: StatusReport },
    /// Client: the run is over.
    Finish { session: SessionId, run: u32 },
    /// Server: what it knows of it.
    Summary { session: SessionId, run: u32, summary: RunSummary },
    /// Client: the arrivals from this one on.
    Fetch { session: SessionId, run: u32, from: u32 },
    /// Server: some of them, in the order of arrival.
    Records { session: SessionId, run: u32, from: u32, arrivals: Vec<Arrival> },
    /// Server, to a new address: prove that it is yours.
    Confirm { session: SessionId, cookie: Cookie },
    /// Client: the cookie back.
    Confirmed { session: SessionId, cookie: Cookie },
    /// Client: I am done.
    Bye { session: SessionId },
    /// Client, from an address of its own: say something after this time in which I am silent. `cookie` is
    /// zero at first, and then that of a Confirm.
    Idle { session: SessionId, flow: u32, after: Duration, cookie: Cookie },
    /// Server: I shall.
    Held { session: SessionId, flow: u32 },
    /// Server: it is time.
    Speak { session: SessionId, flow: u32 },
    /// Client: at which TCP ports do you listen? These are wanted.
    AskPorts { session: SessionId, ports: Vec<u16> },
    /// Server: at these, whatever is wanted.
    Ports { session: SessionId, ports: Vec<Port> },
    /// Client: what have you seen of this TCP run, from this byte of the report on?
    AskSeen { session: SessionId, run: u32, from: u32 },
    /// Server: a part of the report, and how long all of it is.
    Seen { session: SessionId, run: u32, from: u32, len: u32, bytes: Vec<u8> },
    /// A packet that measures.
    Data(Data),
    /// Its answer.
    Echo(Echo),
    /// Client, from a port of its own: send this back.
    Ping(Data),
    /// Server: here it is.
    Pong(Echo),
    /// Client, before any session: from which address do you see this?
    Locate { number: u64, sent: Instant },
    /// Server: from this one. Shorter than what it answers.
    Located { number: u64, sent: Instant, address: SocketAddr },
}

/// Reason why bytes are no message.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum MessageError {
    /// Not one of these datagrams, or cut.
    #[error("no probe datagram, or cut")]
    Malformed,
    /// Another version than this program's.
    #[error("a probe datagram of version {0}, this program speaks version {VERSION}")]
    Version(u8),
    /// Not signed, or with another key, or signed although there is no key.
    #[error("not signed with the key that was given here")]
    WrongKey,
}

mod encoding;

#[cfg(test)]
mod tests;
