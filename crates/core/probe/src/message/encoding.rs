//! Messages as bytes, and bytes as messages: the tables of `docs/probe.md`.

use std::net::{IpAddr, Ipv6Addr, SocketAddr};

use units::Instant;

use super::{
    Arrival, CONTROL_LEN_MAX, DATA_LEN, Data, Direction, Echo, HEADER_LEN, HELLO_LEN, Limits, MAGIC, Message,
    MessageError, PORT_STATES, PORTS_MAX, Pattern, Port, PortState, RECORDS_MAX, REFUSALS, Refusal, RunSpec,
    RunSummary, SEEN_MAX, SIGNED, SessionId, StatusReport, TimerFigures, VERSION,
};
use crate::auth::{Cookie, Key, TAG_LEN};
use crate::octets::{Field, Read, Write, fields};

const HELLO: u8 = 1;
const REFUSE: u8 = 4;

/// Defines the number of each kind of message, and its fields in the order in which they are written. Messages of a
/// session begin with that.
macro_rules! messages {
    (
        without_session [ $($number:tt $name:ident { $($field:ident),* })* ]
        of_session [ $($own_number:literal $own_name:ident { $($own_field:ident),* })* ]
        packets [ $($packet_number:literal $packet_name:ident)* ]
    ) => {
        impl Message {
            fn kind(&self) -> u8 {
                match self {
                    Self::Refuse { .. } => REFUSE,
                    $(Self::$name { .. } => $number,)*
                    $(Self::$own_name { .. } => $own_number,)*
                    $(Self::$packet_name(_) => $packet_number,)*
                }
            }

            /// The session it is about; none before there is one.
            #[must_use]
            pub fn session(&self) -> Option<SessionId> {
                match self {
                    Self::Refuse { .. } => None,
                    $(Self::$name { .. } => None,)*
                    $(Self::$own_name { session, .. } => Some(*session),)*
                    $(Self::$packet_name(packet) => Some(packet.session()),)*
                }
            }

            fn put_fields(&self, out: &mut Vec<u8>) {
                match self {
                    Self::Refuse { about, reason, detail, .. } => {
                        about.put(out);
                        reason.put(out);
                        detail.put(out);
                    }
                    $(Self::$name { $($field),* } => { $($field.put(out);)* })*
                    $(Self::$own_name { session, $($own_field),* } => {
                        session.put(out);
                        $($own_field.put(out);)*
                    })*
                    $(Self::$packet_name(packet) => packet.put(out),)*
                }
            }

            /// Reads the fields of a message of any kind but `Refuse`.
            fn take_fields(kind: u8, r: &mut Read<'_>) -> Option<Self> {
                Some(match kind {
                    $($number => Self::$name { $($field: Field::take(r)?),* },)*
                    $($own_number => Self::$own_name {
                        session: Field::take(r)?,
                        $($own_field: Field::take(r)?),*
                    },)*
                    $($packet_number => Self::$packet_name(Field::take(r)?),)*
                    _ => return None,
                })
            }
        }
    };
}

messages! {
    without_session [
        HELLO Hello { nonce, cookie }
        2 Challenge { nonce, cookie }
        3 Accept { nonce, session, limits }
        50 Locate { number, sent }
        51 Located { number, sent, address }
    ]
    of_session [
        5 Ask { run, spec }
        6 Grant { run }
        7 Wait { run, place }
        8 Deny { run, reason, detail }
        9 Status { run, number, report }
        10 Finish { run }
        11 Summary { run, summary }
        12 Fetch { run, from }
        13 Records { run, from, arrivals }
        14 Confirm { cookie }
        15 Confirmed { cookie }
        16 Bye {}
        19 Idle { flow, after, cookie }
        20 Held { flow }
        21 Speak { flow }
        32 AskPorts { ports }
        33 Ports { ports }
        34 AskSeen { run, from }
        35 Seen { run, from, len, bytes }
    ]
    packets [
        17 Data
        18 Echo
        48 Ping
        49 Pong
    ]
}

impl Data {
    fn session(&self) -> SessionId {
        self.session
    }
}

impl Echo {
    fn session(&self) -> SessionId {
        self.data.session
    }
}

impl Message {
    /// True for what carries a tag where there is a key.
    pub(super) fn is_signed(&self) -> bool {
        match self {
            Self::Hello { cookie, .. } => *cookie != Cookie::default(),
            Self::Challenge { .. } | Self::Refuse { .. } => false,
            Self::Data(_) | Self::Echo(_) | Self::Ping(_) | Self::Pong(_) => false,
            _ => true,
        }
    }

    /// Writes it to `out`, which is emptied first, signed where `key` is given. Of `Records` those that
    /// fit.
    pub fn encode(&self, key: Option<&Key>, out: &mut Vec<u8>) {
        out.clear();
        let key = key.filter(|_| self.is_signed());
        MAGIC.put(out);
        let version = if let Self::Refuse { version, .. } = self { *version } else { VERSION };
        out.put(&[version, self.kind() | if key.is_some() { SIGNED } else { 0 }]);
        self.put_fields(out);
        match self {
            Self::Hello { .. } | Self::Locate { .. } => {
                out.resize(HELLO_LEN - if key.is_some() { TAG_LEN } else { 0 }, 0);
            }
            Self::AskSeen { .. } | Self::Data(_) | Self::Ping(_) => out.resize(DATA_LEN, 0),
            _ => {}
        }
        if let Some(key) = key {
            let tag = key.tag(&[out]);
            out.put(&tag);
        }
    }

    /// Reads a datagram; with a key, signed ones only where they have to be.
    ///
    /// # Errors
    /// When it is none of ours, of another version, or not signed as it must be.
    pub fn decode(bytes: &[u8], key: Option<&Key>) -> Result<Self, MessageError> {
        let malformed = MessageError::Malformed;
        let mut read = Read(bytes);
        let (magic, version, kind) = (u16::take(&mut read), u8::take(&mut read), u8::take(&mut read));
        let (Some(MAGIC), Some(version), Some(kind)) = (magic, version, kind) else { return Err(malformed) };
        if kind == REFUSE {
            return refuse(read, version).ok_or(malformed);
        }
        if version != VERSION {
            return Err(MessageError::Version(version));
        }
        let is_tagged = kind & SIGNED != 0;
        let (signed, tag) = if is_tagged {
            let at = bytes.len().checked_sub(TAG_LEN).filter(|at| *at >= HEADER_LEN).ok_or(malformed)?;
            bytes.split_at(at)
        } else {
            (bytes, &[][..])
        };
        let message = body(kind & !SIGNED, signed.get(HEADER_LEN..).ok_or(malformed)?).ok_or(malformed)?;
        if matches!(message, Self::Hello { .. } | Self::Locate { .. }) && bytes.len() != HELLO_LEN {
            return Err(malformed);
        }
        match key.filter(|_| message.is_signed()) {
            Some(key) if is_tagged && key.is_tag(&[signed], tag) => Ok(message),
            None if !is_tagged => Ok(message),
            _ => Err(MessageError::WrongKey),
        }
    }

    /// The nonce of a Hello of any version, for an answer that its sender understands.
    pub(crate) fn hello_nonce(bytes: &[u8]) -> Option<u64> {
        let mut read = Read(bytes);
        let is_hello = u16::take(&mut read) == Some(MAGIC)
            && u8::take(&mut read).is_some()
            && u8::take(&mut read).is_some_and(|kind| kind & !SIGNED == HELLO);
        (is_hello && bytes.len() >= HELLO_LEN).then(|| u64::take(&mut read)).flatten()
    }
}

fn refuse(mut r: Read<'_>, version: u8) -> Option<Message> {
    let (about, reason, detail) = (Field::take(&mut r)?, Field::take(&mut r)?, Field::take(&mut r)?);
    r.0.is_empty().then_some(Message::Refuse { about, reason, detail, version })
}

fn body(kind: u8, bytes: &[u8]) -> Option<Message> {
    let mut read = Read(bytes);
    let message = Message::take_fields(kind, &mut read)?;
    let is_filling = read.0.iter().all(|byte| *byte == 0);
    let is_whole = match message {
        Message::Hello { .. } | Message::Locate { .. } => is_filling,
        Message::AskSeen { .. } => is_filling && bytes.len() == DATA_LEN - HEADER_LEN,
        // Their filling may be anything.
        Message::Data(_) | Message::Ping(_) => bytes.len() >= DATA_LEN - HEADER_LEN,
        _ => read.0.is_empty(),
    };
    is_whole.then_some(message)
}

fields! {
    Limits { rate_max, time_max, volume_max }
    StatusReport { received, next, recent, errors, delay_us }
    RunSummary { sent, refused, received, overflowed, moves, timer }
    TimerFigures { late_p50_us, late_p99_us, late_max_us, gap_error_p99_us }
    Data { session, run, number, sent }
    Echo { data, received, echoed }
    Port { number, state }
}

/// Reads and writes values as their places in a list.
macro_rules! listed {
    ($($kind:ty: $list:ident),*) => {$(
        impl Field for $kind {
            fn put(&self, out: &mut Vec<u8>) {
                let place = $list.iter().position(|other| other == self);
                place.map_or(u8::MAX, |place| place as u8).put(out);
            }

            fn take(r: &mut Read<'_>) -> Option<Self> {
                $list.get(usize::from(u8::take(r)?)).copied()
            }
        }
    )*};
}

listed!(Refusal: REFUSALS, PortState: PORT_STATES);

impl Field for RunSpec {
    fn put(&self, out: &mut Vec<u8>) {
        let flags = u8::from(self.direction == Direction::Down)
            | u8::from(self.pattern == Pattern::Search) << 1
            | u8::from(self.is_echoed) << 2
            | u8::from(self.pattern == Pattern::Saturate) << 3
            | u8::from(self.pattern == Pattern::Trains) << 4;
        flags.put(out);
        self.rate.put(out);
        self.payload.put(out);
        self.overhead.put(out);
        self.length.put(out);
    }

    fn take(r: &mut Read<'_>) -> Option<Self> {
        let flags = u8::take(r)?;
        let pattern = match flags & !0b101 {
            0 => Pattern::Steady,
            2 => Pattern::Search,
            8 => Pattern::Saturate,
            16 => Pattern::Trains,
            _ => return None,
        };
        Some(Self {
            direction: if flags & 1 == 0 { Direction::Up } else { Direction::Down },
            pattern,
            is_echoed: flags & 4 != 0,
            rate: Field::take(r)?,
            payload: Field::take(r)?,
            overhead: Field::take(r)?,
            length: Field::take(r)?,
        })
    }
}

/// An IPv4 address is written as one of IPv6 that is mapped.
impl Field for SocketAddr {
    fn put(&self, out: &mut Vec<u8>) {
        let v6 = match self.ip() {
            IpAddr::V4(v4) => v4.to_ipv6_mapped(),
            IpAddr::V6(v6) => v6,
        };
        out.put(&v6.octets());
        self.port().put(out);
    }

    fn take(r: &mut Read<'_>) -> Option<Self> {
        let v6 = Ipv6Addr::from(r.array::<16>()?);
        Some(Self::new(v6.to_ipv4_mapped().map_or(IpAddr::V6(v6), IpAddr::V4), Field::take(r)?))
    }
}

/// Ports that are asked for.
impl Field for Vec<u16> {
    fn put(&self, out: &mut Vec<u8>) {
        self.iter().take(PORTS_MAX).for_each(|port| port.put(out));
        // So that no answer to one who has not proven himself is longer.
        out.resize(out.len().max(DATA_LEN), 0);
    }

    fn take(r: &mut Read<'_>) -> Option<Self> {
        let is_long = r.0.len() >= DATA_LEN - HEADER_LEN - size_of::<SessionId>();
        // Zero is no port, but the filling.
        let (pairs, rest) = r.take(r.0.len())?.as_chunks::<2>();
        let numbers = pairs.iter().map(|pair| u16::from_be_bytes(*pair));
        let end = numbers.clone().position(|number| number == 0).unwrap_or(pairs.len());
        let is_filled = numbers.clone().skip(end).all(|number| number == 0);
        let is_sound = is_filled && rest.is_empty() && end <= PORTS_MAX && is_long;
        is_sound.then(|| numbers.take(end).collect())
    }
}

impl Field for Vec<Port> {
    fn put(&self, out: &mut Vec<u8>) {
        self.iter().take(PORTS_MAX).for_each(|port| port.put(out));
    }

    fn take(r: &mut Read<'_>) -> Option<Self> {
        let count = r.0.len().div_ceil(size_of::<u16>() + 1);
        (0..count).map(|_| Port::take(r).filter(|_| count <= PORTS_MAX)).collect()
    }
}

/// A part of a report.
impl Field for Vec<u8> {
    fn put(&self, out: &mut Vec<u8>) {
        Write::put(out, self.get(..SEEN_MAX).unwrap_or(self));
    }

    fn take(r: &mut Read<'_>) -> Option<Self> {
        r.take(r.0.len()).filter(|bytes| bytes.len() <= SEEN_MAX).map(<[u8]>::to_vec)
    }
}

/// Arrivals as differences: of a number to the one after the last, of a time in µs to the last.
impl Field for Vec<Arrival> {
    fn put(&self, out: &mut Vec<u8>) {
        // Room for the largest record and the tag.
        let end = CONTROL_LEN_MAX - TAG_LEN - 20;
        let (mut next, mut last) = (0_i64, 0_i64);
        for arrival in self.iter().take(RECORDS_MAX as usize) {
            if out.len() >= end {
                break;
            }
            let (number, micros) = (i64::from(arrival.number), (arrival.at.as_nanos() / 1_000).cast_signed());
            out.signed(number - next);
            out.signed(micros - last);
            (next, last) = (number + 1, micros);
        }
    }

    fn take(r: &mut Read<'_>) -> Option<Self> {
        let (mut next, mut last) = (0_i64, 0_i64);
        let mut arrivals = Vec::new();
        while !r.0.is_empty() {
            if arrivals.len() >= RECORDS_MAX as usize {
                return None;
            }
            let number = u32::try_from(next.checked_add(r.signed()?)?).ok()?;
            let micros = last.checked_add(r.signed()?)?;
            let at = u64::try_from(micros).ok()?.checked_mul(1_000).map(Instant::from_nanos)?;
            arrivals.push(Arrival { number, at });
            (next, last) = (i64::from(number) + 1, micros);
        }
        Some(arrivals)
    }
}
