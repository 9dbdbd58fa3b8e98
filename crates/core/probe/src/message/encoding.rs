//! Messages as bytes, and bytes as messages: the tables of `docs/probe.md`.

use std::net::{IpAddr, Ipv6Addr, SocketAddr};

use units::{Bytes, Duration, Instant, Rate};

use super::{
    Arrival, CONTROL_LEN_MAX, DATA_LEN, Data, Direction, Echo, HEADER_LEN, HELLO_LEN, Limits, MAGIC, Message,
    MessageError, PORT_STATES, PORTS_MAX, Pattern, Port, RECORDS_MAX, Refusal, RunSpec, RunSummary, SEEN_MAX,
    SIGNED, SessionId, StatusReport, VERSION,
};
use crate::auth::{Cookie, Key, TAG_LEN};
use crate::octets::{Read, Write};

mod kind {
    pub(super) const HELLO: u8 = 1;
    pub(super) const CHALLENGE: u8 = 2;
    pub(super) const ACCEPT: u8 = 3;
    pub(super) const REFUSE: u8 = 4;
    pub(super) const ASK: u8 = 5;
    pub(super) const GRANT: u8 = 6;
    pub(super) const WAIT: u8 = 7;
    pub(super) const DENY: u8 = 8;
    pub(super) const STATUS: u8 = 9;
    pub(super) const FINISH: u8 = 10;
    pub(super) const SUMMARY: u8 = 11;
    pub(super) const FETCH: u8 = 12;
    pub(super) const RECORDS: u8 = 13;
    pub(super) const CONFIRM: u8 = 14;
    pub(super) const CONFIRMED: u8 = 15;
    pub(super) const BYE: u8 = 16;
    pub(super) const DATA: u8 = 17;
    pub(super) const ECHO: u8 = 18;
    pub(super) const IDLE: u8 = 19;
    pub(super) const HELD: u8 = 20;
    pub(super) const SPEAK: u8 = 21;
    pub(super) const ASK_PORTS: u8 = 32;
    pub(super) const PORTS: u8 = 33;
    pub(super) const ASK_SEEN: u8 = 34;
    pub(super) const SEEN: u8 = 35;
    pub(super) const PING: u8 = 48;
    pub(super) const PONG: u8 = 49;
    pub(super) const LOCATE: u8 = 50;
    pub(super) const LOCATED: u8 = 51;
}

impl Message {
    fn kind(&self) -> u8 {
        match self {
            Self::Hello { .. } => kind::HELLO,
            Self::Challenge { .. } => kind::CHALLENGE,
            Self::Accept { .. } => kind::ACCEPT,
            Self::Refuse { .. } => kind::REFUSE,
            Self::Ask { .. } => kind::ASK,
            Self::Grant { .. } => kind::GRANT,
            Self::Wait { .. } => kind::WAIT,
            Self::Deny { .. } => kind::DENY,
            Self::Status { .. } => kind::STATUS,
            Self::Finish { .. } => kind::FINISH,
            Self::Summary { .. } => kind::SUMMARY,
            Self::Fetch { .. } => kind::FETCH,
            Self::Records { .. } => kind::RECORDS,
            Self::Confirm { .. } => kind::CONFIRM,
            Self::Confirmed { .. } => kind::CONFIRMED,
            Self::Bye { .. } => kind::BYE,
            Self::Idle { .. } => kind::IDLE,
            Self::Held { .. } => kind::HELD,
            Self::Speak { .. } => kind::SPEAK,
            Self::AskPorts { .. } => kind::ASK_PORTS,
            Self::Ports { .. } => kind::PORTS,
            Self::AskSeen { .. } => kind::ASK_SEEN,
            Self::Seen { .. } => kind::SEEN,
            Self::Data(_) => kind::DATA,
            Self::Echo(_) => kind::ECHO,
            Self::Ping(_) => kind::PING,
            Self::Pong(_) => kind::PONG,
            Self::Locate { .. } => kind::LOCATE,
            Self::Located { .. } => kind::LOCATED,
        }
    }

    /// True for what carries a tag where there is a key.
    pub(super) fn is_signed(&self) -> bool {
        match self {
            Self::Hello { cookie, .. } => *cookie != Cookie::default(),
            Self::Challenge { .. } | Self::Refuse { .. } => false,
            Self::Data(_) | Self::Echo(_) | Self::Ping(_) | Self::Pong(_) => false,
            _ => true,
        }
    }

    /// The session it is about; none before there is one.
    #[must_use]
    pub fn session(&self) -> Option<SessionId> {
        match self {
            Self::Hello { .. } | Self::Challenge { .. } | Self::Accept { .. } | Self::Refuse { .. } => None,
            Self::Locate { .. } | Self::Located { .. } => None,
            Self::Ask { session, .. }
            | Self::Grant { session, .. }
            | Self::Wait { session, .. }
            | Self::Deny { session, .. }
            | Self::Status { session, .. }
            | Self::Finish { session, .. }
            | Self::Summary { session, .. }
            | Self::Fetch { session, .. }
            | Self::Records { session, .. }
            | Self::Confirm { session, .. }
            | Self::Confirmed { session, .. }
            | Self::Idle { session, .. }
            | Self::Held { session, .. }
            | Self::Speak { session, .. }
            | Self::AskPorts { session, .. }
            | Self::Ports { session, .. }
            | Self::AskSeen { session, .. }
            | Self::Seen { session, .. }
            | Self::Bye { session } => Some(*session),
            Self::Data(data) | Self::Ping(data) => Some(data.session),
            Self::Echo(echo) | Self::Pong(echo) => Some(echo.data.session),
        }
    }

    /// Writes it to `out`, which is emptied first, signed where `key` is given. Of `Records` those that
    /// fit.
    pub fn encode(&self, key: Option<&Key>, out: &mut Vec<u8>) {
        out.clear();
        let key = key.filter(|_| self.is_signed());
        out.put(&MAGIC.to_be_bytes());
        let version = if let Self::Refuse { version, .. } = self { *version } else { VERSION };
        out.put(&[version, self.kind() | if key.is_some() { SIGNED } else { 0 }]);
        self.body(out);
        if matches!(self, Self::Hello { .. } | Self::Locate { .. }) {
            out.resize(HELLO_LEN - if key.is_some() { TAG_LEN } else { 0 }, 0);
        }
        if let Some(key) = key {
            let tag = key.tag(&[out]);
            out.put(&tag);
        }
    }

    fn body(&self, out: &mut Vec<u8>) {
        match self {
            Self::Hello { nonce, cookie } | Self::Challenge { nonce, cookie } => {
                out.put(&nonce.to_be_bytes());
                out.put(cookie);
            }
            Self::Accept { nonce, session, limits } => {
                out.put(&nonce.to_be_bytes());
                out.put(&session.to_be_bytes());
                put_limits(limits, out);
            }
            Self::Refuse { about, reason, detail, .. } => {
                out.put(&about.to_be_bytes());
                out.put(&[reason.number()]);
                out.put(&detail.to_be_bytes());
            }
            Self::Ask { session, run, spec } => {
                of_run(*session, *run, out);
                put_spec(spec, out);
            }
            Self::Grant { session, run } | Self::Finish { session, run } => of_run(*session, *run, out),
            Self::Wait { session, run, place: number } | Self::Fetch { session, run, from: number } => {
                of_run(*session, *run, out);
                out.put(&number.to_be_bytes());
            }
            Self::Deny { session, run, reason, detail } => {
                of_run(*session, *run, out);
                out.put(&[reason.number()]);
                out.put(&detail.to_be_bytes());
            }
            Self::Status { session, run, number, report } => {
                of_run(*session, *run, out);
                out.put(&number.to_be_bytes());
                put_report(report, out);
            }
            Self::Summary { session, run, summary } => {
                of_run(*session, *run, out);
                put_summary(summary, out);
            }
            Self::Records { session, run, from, arrivals } => {
                of_run(*session, *run, out);
                out.put(&from.to_be_bytes());
                put_records(arrivals, out);
            }
            Self::Confirm { session, cookie } | Self::Confirmed { session, cookie } => {
                out.put(&session.to_be_bytes());
                out.put(cookie);
            }
            Self::Bye { session } => out.put(&session.to_be_bytes()),
            Self::Idle { session, flow, after, cookie } => {
                of_run(*session, *flow, out);
                out.put(&millis(*after).to_be_bytes());
                out.put(cookie);
            }
            Self::Held { session, flow } | Self::Speak { session, flow } => of_run(*session, *flow, out),
            Self::AskPorts { session, ports } => put_asked_ports(*session, ports, out),
            Self::Ports { session, ports } => put_ports(*session, ports, out),
            Self::AskSeen { session, run, from } => {
                of_run(*session, *run, out);
                out.put(&from.to_be_bytes());
                out.resize(DATA_LEN, 0);
            }
            Self::Seen { session, run, from, len, bytes } => {
                of_run(*session, *run, out);
                out.put(&from.to_be_bytes());
                out.put(&len.to_be_bytes());
                out.put(bytes.get(..SEEN_MAX).unwrap_or(bytes));
            }
            Self::Data(data) | Self::Ping(data) => {
                put_data(data, out);
                out.resize(DATA_LEN, 0);
            }
            Self::Echo(echo) | Self::Pong(echo) => put_echo(echo, out),
            Self::Locate { number, sent } => put_numbered(*number, *sent, out),
            Self::Located { number, sent, address } => {
                put_numbered(*number, *sent, out);
                put_address(*address, out);
            }
        }
    }

    /// Reads a datagram; with a key, signed ones only where they have to be.
    ///
    /// # Errors
    /// When it is none of ours, of another version, or not signed as it must be.
    pub fn decode(bytes: &[u8], key: Option<&Key>) -> Result<Self, MessageError> {
        let malformed = MessageError::Malformed;
        let mut read = Read(bytes);
        let (magic, version, kind) = (read.u16(), read.u8(), read.u8());
        let (Some(MAGIC), Some(version), Some(kind)) = (magic, version, kind) else { return Err(malformed) };
        if kind == kind::REFUSE {
            let message = refuse(read, version).ok_or(malformed)?;
            return Ok(message);
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
        let is_hello = read.u16() == Some(MAGIC)
            && read.u8().is_some()
            && read.u8().is_some_and(|kind| kind & !SIGNED == kind::HELLO);
        (is_hello && bytes.len() >= HELLO_LEN).then(|| read.u64()).flatten()
    }
}

fn millis(time: Duration) -> u32 {
    u32::try_from(time.as_millis()).unwrap_or(u32::MAX)
}

fn of_run(session: SessionId, run: u32, out: &mut Vec<u8>) {
    out.put(&session.to_be_bytes());
    out.put(&run.to_be_bytes());
}

fn put_limits(limits: &Limits, out: &mut Vec<u8>) {
    out.put(&limits.rate_max.as_bps().to_be_bytes());
    out.put(&millis(limits.time_max).to_be_bytes());
    out.put(&limits.volume_max.get().to_be_bytes());
}

fn put_spec(spec: &RunSpec, out: &mut Vec<u8>) {
    let flags = u8::from(spec.direction == Direction::Down)
        | u8::from(spec.pattern == Pattern::Search) << 1
        | u8::from(spec.is_echoed) << 2
        | u8::from(spec.pattern == Pattern::Saturate) << 3
        | u8::from(spec.pattern == Pattern::Trains) << 4;
    out.put(&[flags]);
    out.put(&spec.rate.as_bps().to_be_bytes());
    out.put(&spec.payload.to_be_bytes());
    out.put(&spec.overhead.to_be_bytes());
    out.put(&millis(spec.length).to_be_bytes());
}

fn put_report(report: &StatusReport, out: &mut Vec<u8>) {
    let fields = [report.received, report.next, report.recent, report.errors, report.delay_us];
    fields.iter().for_each(|field| out.put(&field.to_be_bytes()));
}

fn put_summary(s: &RunSummary, out: &mut Vec<u8>) {
    let fields = [s.sent, s.refused, s.received, s.overflowed];
    fields.iter().for_each(|field| out.put(&field.to_be_bytes()));
    out.put(&s.moves.to_be_bytes());
    let fields = [s.late_p50_us, s.late_p99_us, s.late_max_us, s.gap_error_p99_us];
    fields.iter().for_each(|field| out.put(&field.to_be_bytes()));
}

fn put_asked_ports(session: SessionId, ports: &[u16], out: &mut Vec<u8>) {
    out.put(&session.to_be_bytes());
    ports.iter().take(PORTS_MAX).for_each(|port| out.put(&port.to_be_bytes()));
    // So that no answer to one who has not proven himself is longer.
    out.resize(out.len().max(DATA_LEN), 0);
}

fn put_ports(session: SessionId, ports: &[Port], out: &mut Vec<u8>) {
    out.put(&session.to_be_bytes());
    for port in ports.iter().take(PORTS_MAX) {
        let state = PORT_STATES.iter().position(|state| *state == port.state);
        out.put(&port.number.to_be_bytes());
        out.put(&[state.map_or(u8::MAX, |state| state as u8)]);
    }
}

fn put_data(data: &Data, out: &mut Vec<u8>) {
    of_run(data.session, data.run, out);
    out.put(&data.number.to_be_bytes());
    out.put(&data.sent.as_nanos().to_be_bytes());
}

fn put_echo(echo: &Echo, out: &mut Vec<u8>) {
    put_data(&echo.data, out);
    out.put(&echo.received.as_nanos().to_be_bytes());
    out.put(&echo.echoed.as_nanos().to_be_bytes());
}

fn put_numbered(number: u64, sent: Instant, out: &mut Vec<u8>) {
    out.put(&number.to_be_bytes());
    out.put(&sent.as_nanos().to_be_bytes());
}

/// An IPv4 address as one of IPv6 that is mapped.
fn put_address(address: SocketAddr, out: &mut Vec<u8>) {
    let v6 = match address.ip() {
        IpAddr::V4(v4) => v4.to_ipv6_mapped(),
        IpAddr::V6(v6) => v6,
    };
    out.put(&v6.octets());
    out.put(&address.port().to_be_bytes());
}

/// Arrivals as differences: of a number to the one after the last, of a time in µs to the last.
fn put_records(arrivals: &[Arrival], out: &mut Vec<u8>) {
    // Room for the largest record and the tag.
    let end = CONTROL_LEN_MAX - TAG_LEN - 20;
    let (mut next, mut last) = (0_i64, 0_i64);
    for arrival in arrivals.iter().take(RECORDS_MAX as usize) {
        if out.len() >= end {
            break;
        }
        let (number, micros) = (i64::from(arrival.number), (arrival.at.as_nanos() / 1_000).cast_signed());
        out.signed(number - next);
        out.signed(micros - last);
        (next, last) = (number + 1, micros);
    }
}

fn records(read: &mut Read<'_>) -> Option<Vec<Arrival>> {
    let (mut next, mut last) = (0_i64, 0_i64);
    let mut arrivals = Vec::new();
    while !read.0.is_empty() {
        if arrivals.len() >= RECORDS_MAX as usize {
            return None;
        }
        let number = u32::try_from(next.checked_add(read.signed()?)?).ok()?;
        let micros = last.checked_add(read.signed()?)?;
        let at = u64::try_from(micros).ok()?.checked_mul(1_000).map(Instant::from_nanos)?;
        arrivals.push(Arrival { number, at });
        (next, last) = (i64::from(number) + 1, micros);
    }
    Some(arrivals)
}

fn refuse(mut read: Read<'_>, version: u8) -> Option<Message> {
    let about = read.u64()?;
    let reason = Refusal::from_number(read.u8()?)?;
    let detail = read.u64()?;
    read.0.is_empty().then_some(Message::Refuse { about, reason, detail, version })
}

fn cookie(read: &mut Read<'_>) -> Option<Cookie> {
    read.take(TAG_LEN)?.try_into().ok()
}

fn data(read: &mut Read<'_>) -> Option<Data> {
    let (session, run, number) = (read.u64()?, read.u32()?, read.u32()?);
    Some(Data { session, run, number, sent: Instant::from_nanos(read.u64()?) })
}

/// The same with its filling, which may be anything.
fn filled(r: &mut Read<'_>) -> Option<Data> {
    let is_long = r.0.len() >= DATA_LEN - HEADER_LEN;
    let data = data(r)?;
    r.take(r.0.len())?;
    is_long.then_some(data)
}

fn echo(r: &mut Read<'_>) -> Option<Echo> {
    let data = data(r)?;
    Some(Echo { data, received: Instant::from_nanos(r.u64()?), echoed: Instant::from_nanos(r.u64()?) })
}

fn body(kind: u8, bytes: &[u8]) -> Option<Message> {
    let mut read = Read(bytes);
    let r = &mut read;
    let message = match kind {
        kind::HELLO => {
            let message = Message::Hello { nonce: r.u64()?, cookie: cookie(r)? };
            zeros(r, r.0.len())?;
            message
        }
        kind::CHALLENGE => Message::Challenge { nonce: r.u64()?, cookie: cookie(r)? },
        kind::ACCEPT => Message::Accept { nonce: r.u64()?, session: r.u64()?, limits: limits(r)? },
        kind::ASK => Message::Ask { session: r.u64()?, run: r.u32()?, spec: spec(r)? },
        kind::GRANT => Message::Grant { session: r.u64()?, run: r.u32()? },
        kind::WAIT => Message::Wait { session: r.u64()?, run: r.u32()?, place: r.u32()? },
        kind::DENY => Message::Deny {
            session: r.u64()?,
            run: r.u32()?,
            reason: Refusal::from_number(r.u8()?)?,
            detail: r.u64()?,
        },
        kind::STATUS => {
            let (session, run, number) = (r.u64()?, r.u32()?, r.u32()?);
            Message::Status { session, run, number, report: report(r)? }
        }
        kind::FINISH => Message::Finish { session: r.u64()?, run: r.u32()? },
        kind::SUMMARY => Message::Summary { session: r.u64()?, run: r.u32()?, summary: summary(r)? },
        kind::FETCH => Message::Fetch { session: r.u64()?, run: r.u32()?, from: r.u32()? },
        kind::RECORDS => {
            let (session, run, from) = (r.u64()?, r.u32()?, r.u32()?);
            Message::Records { session, run, from, arrivals: records(r)? }
        }
        kind::CONFIRM => Message::Confirm { session: r.u64()?, cookie: cookie(r)? },
        kind::CONFIRMED => Message::Confirmed { session: r.u64()?, cookie: cookie(r)? },
        kind::BYE => Message::Bye { session: r.u64()? },
        kind::IDLE => Message::Idle {
            session: r.u64()?,
            flow: r.u32()?,
            after: Duration::from_millis(r.u32()?.into()),
            cookie: cookie(r)?,
        },
        kind::HELD => Message::Held { session: r.u64()?, flow: r.u32()? },
        kind::SPEAK => Message::Speak { session: r.u64()?, flow: r.u32()? },
        kind::ASK_PORTS => Message::AskPorts { session: r.u64()?, ports: asked_ports(r)? },
        kind::PORTS => Message::Ports { session: r.u64()?, ports: ports(r)? },
        kind::ASK_SEEN => {
            let message = Message::AskSeen { session: r.u64()?, run: r.u32()?, from: r.u32()? };
            zeros(r, DATA_LEN - HEADER_LEN - 16)?;
            message
        }
        kind::SEEN => Message::Seen {
            session: r.u64()?,
            run: r.u32()?,
            from: r.u32()?,
            len: r.u32()?,
            bytes: r.take(r.0.len()).filter(|bytes| bytes.len() <= SEEN_MAX)?.to_vec(),
        },
        kind::DATA => Message::Data(filled(r)?),
        kind::PING => Message::Ping(filled(r)?),
        kind::ECHO => Message::Echo(echo(r)?),
        kind::PONG => Message::Pong(echo(r)?),
        kind::LOCATE => {
            let message = Message::Locate { number: r.u64()?, sent: Instant::from_nanos(r.u64()?) };
            zeros(r, r.0.len())?;
            message
        }
        kind::LOCATED => {
            Message::Located { number: r.u64()?, sent: Instant::from_nanos(r.u64()?), address: address(r)? }
        }
        _ => return None,
    };
    read.0.is_empty().then_some(message)
}

/// A filling of `len` bytes that are zero.
fn zeros(r: &mut Read<'_>, len: usize) -> Option<()> {
    r.take(len)?.iter().all(|byte| *byte == 0).then_some(())
}

fn limits(r: &mut Read<'_>) -> Option<Limits> {
    Some(Limits {
        rate_max: Rate::from_bps(r.u64()?),
        time_max: Duration::from_millis(r.u32()?.into()),
        volume_max: Bytes::new(r.u64()?),
    })
}

fn report(r: &mut Read<'_>) -> Option<StatusReport> {
    Some(StatusReport {
        received: r.u32()?,
        next: r.u32()?,
        recent: r.u32()?,
        errors: r.u32()?,
        delay_us: r.u32()?,
    })
}

fn asked_ports(r: &mut Read<'_>) -> Option<Vec<u16>> {
    let is_long = r.0.len() >= DATA_LEN - HEADER_LEN - size_of::<SessionId>();
    // Zero is no port, but the filling.
    let (pairs, rest) = r.take(r.0.len())?.as_chunks::<2>();
    let numbers = pairs.iter().map(|pair| u16::from_be_bytes(*pair));
    let end = numbers.clone().position(|number| number == 0).unwrap_or(pairs.len());
    let is_filled = numbers.clone().skip(end).all(|number| number == 0);
    let is_sound = is_filled && rest.is_empty() && end <= PORTS_MAX && is_long;
    is_sound.then(|| numbers.take(end).collect())
}

fn ports(r: &mut Read<'_>) -> Option<Vec<Port>> {
    let (triples, rest) = r.take(r.0.len())?.as_chunks::<3>();
    if !rest.is_empty() || triples.len() > PORTS_MAX {
        return None;
    }
    let port = |[high, low, state]: &[u8; 3]| {
        let state = PORT_STATES.get(usize::from(*state)).copied()?;
        Some(Port { number: u16::from_be_bytes([*high, *low]), state })
    };
    triples.iter().map(port).collect()
}

fn address(r: &mut Read<'_>) -> Option<SocketAddr> {
    let v6 = Ipv6Addr::from(<[u8; 16]>::try_from(r.take(16)?).ok()?);
    Some(SocketAddr::new(v6.to_ipv4_mapped().map_or(IpAddr::V6(v6), IpAddr::V4), r.u16()?))
}

fn spec(r: &mut Read<'_>) -> Option<RunSpec> {
    let flags = r.u8()?;
    let pattern = match flags & !0b101 {
        0 => Pattern::Steady,
        2 => Pattern::Search,
        8 => Pattern::Saturate,
        16 => Pattern::Trains,
        _ => return None,
    };
    Some(RunSpec {
        direction: if flags & 1 == 0 { Direction::Up } else { Direction::Down },
        pattern,
        is_echoed: flags & 4 != 0,
        rate: Rate::from_bps(r.u64()?),
        payload: r.u16()?,
        overhead: r.u16()?,
        length: Duration::from_millis(r.u32()?.into()),
    })
}

fn summary(r: &mut Read<'_>) -> Option<RunSummary> {
    Some(RunSummary {
        sent: r.u32()?,
        refused: r.u32()?,
        received: r.u32()?,
        overflowed: r.u32()?,
        moves: r.u16()?,
        late_p50_us: r.u32()?,
        late_p99_us: r.u32()?,
        late_max_us: r.u32()?,
        gap_error_p99_us: r.u32()?,
    })
}
