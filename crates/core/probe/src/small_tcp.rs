//! [`SmallTcp`]: a TCP client that sends the SYN it is told to, makes one request, and delays its
//! acknowledgements.
//!
//! It is what a test of middleboxes needs, and no more: no window to fill, no congestion control, no FIN of
//! its own. INVARIANT: no segment that it sends acknowledges data before that data is
//! [`SmallTcpSpec::ack_delay`] old. The SYN/ACK is acknowledged at once.
//!
//! ```text
//!  SYN ─────▶        ◀───── SYN/ACK        ACK, request ─────▶        ◀───── data
//!                                                                             │ ack_delay
//!                                                              ACK ─────▶ ◀───┘
//! ```

use core::net::SocketAddr;
use std::collections::{BTreeMap, VecDeque};

use units::{Duration, Instant, SeqNum};
use wire::checksum::Sum;
use wire::{Tcp, TcpFlags, TcpHeaderSpec, Timestamps, protocol};

/// SYNs that are not answered before the client gives up.
const SYN_TRIES: u32 = 7;
/// The same of requests.
const REQUEST_TRIES: u32 = 10;
/// Bytes of the fixed TCP header, and where its length and its checksum stand.
const TCP_HEADER_LEN: usize = 20;
const OFFSET_AT: usize = 12;
const CHECKSUM_AT: usize = 16;
/// Bytes that may come out of order.
const AHEAD_MAX: u32 = 1 << 16;
/// Window that is offered; where the window is scaled it means more, which does not matter.
const WINDOW: u16 = 0xffff;
const HOP_LIMIT: u8 = 64;

/// Specification of a connection.
#[derive(Clone, Debug)]
pub struct SmallTcpSpec {
    /// Own address and port.
    pub local: SocketAddr,
    /// The server's.
    pub remote: SocketAddr,
    /// First sequence number.
    pub isn: SeqNum,
    /// Options of the SYN, whole words.
    pub options: Vec<u8>,
    /// The value of timestamps; none where the options have none. It rises by one each millisecond.
    pub timestamp: Option<u32>,
    /// Flags of the SYN beside SYN.
    pub flags: TcpFlags,
    /// ECN field of packets with data.
    pub ecn: u8,
    /// Request to send.
    pub request: Vec<u8>,
    /// Age of data when it is acknowledged.
    pub ack_delay: Duration,
    /// Time after which what is not answered is sent again.
    pub retry: Duration,
    /// Bytes of the answer that are kept.
    pub keep: usize,
    /// The answer is whole when this many bytes of it are there, or at its end.
    pub enough: u64,
}

/// End of a connection.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SmallTcpEnd {
    /// The server ended it, or enough has come.
    Finished,
    /// A reset came instead of a SYN/ACK.
    Refused,
    /// A reset came later.
    Reset,
    /// No SYN was answered.
    NoHandshake,
    /// The request was not.
    NoAnswer,
    /// It was stopped.
    Stopped,
}

/// Log of a connection.
#[derive(Clone, Debug, Default)]
pub struct SmallTcpLog {
    /// The SYN as it left, from its IP header on.
    pub syn: Vec<u8>,
    /// SYNs sent.
    pub syns: u32,
    /// The SYN/ACK as it came.
    pub syn_ack: Option<Vec<u8>>,
    /// Time from SYN to SYN/ACK; none where more than one SYN was sent.
    pub handshake: Option<Duration>,
    /// Time from the request to its acknowledgement; none where the request was sent more than once.
    pub acknowledged: Option<Duration>,
    /// Time from the request to the first byte of the answer; none where the request was sent more than once.
    pub answered: Option<Duration>,
    /// Times to live that data came with, each once.
    pub data_hop_limits: Vec<u8>,
    /// Time to live of the first reset.
    pub reset_hop_limit: Option<u8>,
    /// Bytes of the answer, in order.
    pub received: u64,
    /// The first of them.
    pub answer: Vec<u8>,
    /// Arrival time of the first data.
    pub first_data: Option<Instant>,
    /// Time at which data was first acknowledged.
    pub first_ack: Option<Instant>,
}

#[derive(Clone, Copy, Debug)]
struct Timer {
    at: Instant,
    tries: u32,
}

/// One that waits for its time, with the timestamp that it echoes: a younger one would tell the server of a
/// shorter round trip.
#[derive(Clone, Copy, Debug)]
struct Acknowledgement {
    due: Instant,
    expected: SeqNum,
    timestamp: u32,
}

#[derive(Debug)]
enum Stage {
    SynSent(Timer),
    Open,
    /// A reset is still to be sent.
    Closing(SmallTcpEnd),
    Over(SmallTcpEnd),
}

/// One connection.
#[derive(Debug)]
pub struct SmallTcp {
    spec: SmallTcpSpec,
    stage: Stage,
    begun: Instant,
    /// Next byte that is expected.
    expected: SeqNum,
    /// First byte of the answer.
    origin: SeqNum,
    /// Data that has come after a gap.
    ahead: BTreeMap<u32, Vec<u8>>,
    fin: Option<SeqNum>,
    /// The latest acknowledgement that was sent.
    acked: SeqNum,
    /// Acknowledgements that wait for their time.
    acks: VecDeque<Acknowledgement>,
    /// An acknowledgement is to be sent again.
    is_ack_due: bool,
    /// Time at which the request is sent (again); none once it is acknowledged.
    request: Option<Timer>,
    asked: Instant,
    is_asked: bool,
    is_asked_once: bool,
    /// The peer's timestamp that is echoed: of the segment that is acknowledged.
    peer_timestamp: u32,
    has_timestamps: bool,
    log: SmallTcpLog,
}

impl SmallTcp {
    /// A connection whose SYN leaves at `now`.
    #[must_use]
    pub fn new(spec: SmallTcpSpec, now: Instant) -> Self {
        Self {
            spec,
            stage: Stage::SynSent(Timer { at: now, tries: 0 }),
            begun: now,
            expected: SeqNum::new(0),
            origin: SeqNum::new(0),
            ahead: BTreeMap::new(),
            fin: None,
            acked: SeqNum::new(0),
            acks: VecDeque::new(),
            is_ack_due: false,
            request: None,
            asked: now,
            is_asked: false,
            is_asked_once: true,
            peer_timestamp: 0,
            has_timestamps: false,
            log: SmallTcpLog::default(),
        }
    }

    /// Its own address.
    #[must_use]
    pub fn local(&self) -> SocketAddr {
        self.spec.local
    }

    /// End of the connection; none while it has not ended.
    #[must_use]
    pub fn end(&self) -> Option<SmallTcpEnd> {
        if let Stage::Over(end) = self.stage { Some(end) } else { None }
    }

    /// Log of what was seen.
    #[must_use]
    pub fn into_log(self) -> SmallTcpLog {
        self.log
    }

    /// Ends it with a reset.
    pub fn stop(&mut self) {
        self.close(SmallTcpEnd::Stopped);
    }

    fn close(&mut self, end: SmallTcpEnd) {
        self.stage = match self.stage {
            Stage::Open => Stage::Closing(end),
            Stage::SynSent(_) => Stage::Over(end),
            Stage::Closing(end) | Stage::Over(end) => Stage::Over(end),
        };
    }

    /// A packet came at `at`, from its IP header on, and is looked at `now`, which is when the delay of its
    /// acknowledgement begins; others than its own are ignored.
    pub fn handle_packet(&mut self, packet: &[u8], at: Instant, now: Instant) {
        let Ok(parsed) = wire::parse_prefix(packet) else { return };
        let Some(tcp) = parsed.tcp() else { return };
        let is_own = SocketAddr::new(parsed.ip.src, tcp.src_port) == self.spec.remote
            && SocketAddr::new(parsed.ip.dst, tcp.dst_port) == self.spec.local;
        if !is_own {
            return;
        }
        let is_answer = tcp.flags.contains(TcpFlags::ACK) && tcp.ack == self.spec.isn + 1;
        if tcp.flags.contains(TcpFlags::RST) {
            let end = match self.stage {
                Stage::SynSent(_) if is_answer => SmallTcpEnd::Refused,
                Stage::Open => SmallTcpEnd::Reset,
                _ => return,
            };
            self.log.reset_hop_limit = Some(parsed.ip.hop_limit);
            self.stage = Stage::Over(end);
            return;
        }
        match self.stage {
            Stage::SynSent(Timer { tries, .. })
                if is_answer && tcp.flags.contains(TcpFlags::SYN.with(TcpFlags::ACK)) =>
            {
                self.log.syn_ack = Some(packet.to_vec());
                self.log.handshake = (tries == 1).then(|| at.saturating_since(self.begun));
                (self.origin, self.expected, self.acked) = (tcp.seq + 1, tcp.seq + 1, tcp.seq + 1);
                self.has_timestamps = self.spec.timestamp.is_some() && tcp.options.timestamps.is_some();
                self.peer_timestamp = tcp.options.timestamps.map_or(0, |timestamps| timestamps.value);
                self.request = Some(Timer { at, tries: 0 });
                (self.is_ack_due, self.stage) = (true, Stage::Open);
            }
            // The server did not hear that its SYN/ACK came.
            Stage::Open if tcp.flags.contains(TcpFlags::SYN) => self.is_ack_due = true,
            Stage::Open => {
                let is_acked = self.is_asked && tcp.ack.is_at_or_after(self.next_seq());
                if is_acked && self.request.take().is_some() && self.is_asked_once {
                    self.log.acknowledged = Some(at.saturating_since(self.asked));
                }
                if tcp.segment_len() > 0 {
                    self.on_data(tcp, tcp.payload(packet), parsed.ip.hop_limit, (at, now));
                }
            }
            _ => {}
        }
    }

    /// The number after all that was sent.
    fn next_seq(&self) -> SeqNum {
        let sent = if self.is_asked { self.spec.request.len() as u32 } else { 0 };
        self.spec.isn + 1 + sent
    }

    fn on_data(&mut self, tcp: &Tcp, payload: &[u8], hop_limit: u8, (at, now): (Instant, Instant)) {
        if !payload.is_empty() {
            if self.log.first_data.is_none() {
                self.log.first_data = Some(at);
                self.log.answered = self.is_asked_once.then(|| at.saturating_since(self.asked));
            }
            if !self.log.data_hop_limits.contains(&hop_limit) {
                self.log.data_hop_limits.push(hop_limit);
            }
        }
        let seq = tcp.seq;
        if tcp.flags.contains(TcpFlags::FIN) {
            self.fin.get_or_insert(seq + tcp.payload_len as u32);
        }
        let offset = seq.since(self.origin);
        let ahead = seq.distance_from(self.expected);
        if ahead >= 0 && ahead.unsigned_abs() < AHEAD_MAX && !payload.is_empty() {
            self.ahead.insert(offset, payload.to_vec());
        } else if ahead < 0 {
            // The new part of one that was cut anew.
            let known = ahead.unsigned_abs() as usize;
            if let Some(rest) = payload.get(known..).filter(|rest| !rest.is_empty()) {
                self.ahead.insert(self.expected.since(self.origin), rest.to_vec());
            }
        }
        self.take_in_order();
        if self.fin == Some(self.expected) {
            self.expected += 1;
        }
        // What is acknowledged again, because it came again, waits as long.
        if self.acks.back().is_none_or(|ack| ack.expected != self.expected) {
            let timestamp = tcp.options.timestamps.map_or(self.peer_timestamp, |timestamps| timestamps.value);
            let due = now + self.spec.ack_delay;
            self.acks.push_back(Acknowledgement { due, expected: self.expected, timestamp });
        }
        let is_whole = self.fin.is_some_and(|fin| self.expected.is_after(fin));
        if is_whole || self.log.received >= self.spec.enough {
            self.close(SmallTcpEnd::Finished);
        }
    }

    fn take_in_order(&mut self) {
        while let Some(entry) = self.ahead.first_entry() {
            let at = self.expected.since(self.origin);
            let from = *entry.key();
            if from > at {
                return;
            }
            let bytes = entry.remove();
            let Some(new) = bytes.get((at - from) as usize..).filter(|new| !new.is_empty()) else { continue };
            let room = self.spec.keep.saturating_sub(self.log.answer.len());
            self.log.answer.extend(new.iter().take(room));
            self.log.received += new.len() as u64;
            self.expected += new.len() as u32;
        }
    }

    /// The next packet, from its IP header on, written to `out`; false when there is none at `now`.
    pub fn poll_transmit(&mut self, now: Instant, out: &mut Vec<u8>) -> bool {
        match &mut self.stage {
            Stage::SynSent(timer) if timer.at <= now => {
                if timer.tries >= SYN_TRIES {
                    self.stage = Stage::Over(SmallTcpEnd::NoHandshake);
                    return false;
                }
                *timer = Timer { at: now + self.spec.retry, tries: timer.tries + 1 };
                self.log.syns = timer.tries;
                self.syn(now, out);
                if self.log.syns == 1 {
                    (self.begun, self.log.syn) = (now, out.clone());
                }
                true
            }
            Stage::SynSent(_) | Stage::Over(_) => false,
            Stage::Closing(end) => {
                self.stage = Stage::Over(*end);
                self.segment(self.next_seq(), TcpFlags::RST.with(TcpFlags::ACK), &[], now, out);
                true
            }
            Stage::Open => self.open(now, out),
        }
    }

    fn open(&mut self, now: Instant, out: &mut Vec<u8>) -> bool {
        let mut is_ack_due = std::mem::take(&mut self.is_ack_due);
        while let Some(ack) = self.acks.front().copied().filter(|ack| ack.due <= now) {
            self.acks.pop_front();
            is_ack_due = true;
            (self.acked, self.peer_timestamp) = (ack.expected, ack.timestamp);
            self.log.first_ack.get_or_insert(now);
        }
        if is_ack_due {
            self.segment(self.next_seq(), TcpFlags::ACK, &[], now, out);
            return true;
        }
        let Some(request) = self.request.filter(|request| request.at <= now) else { return false };
        if request.tries >= REQUEST_TRIES {
            self.close(SmallTcpEnd::NoAnswer);
            return self.poll_transmit(now, out);
        }
        if request.tries == 0 {
            self.asked = now;
        }
        (self.is_asked, self.is_asked_once) = (true, request.tries == 0);
        self.request = Some(Timer { at: now + self.spec.retry, tries: request.tries + 1 });
        let payload = std::mem::take(&mut self.spec.request);
        self.segment(self.spec.isn + 1, TcpFlags::PSH.with(TcpFlags::ACK), &payload, now, out);
        self.spec.request = payload;
        true
    }

    /// Time at which [`SmallTcp::poll_transmit`] has something to do next; none when it is over.
    #[must_use]
    pub fn next_deadline(&self) -> Option<Instant> {
        match &self.stage {
            Stage::SynSent(timer) => Some(timer.at),
            Stage::Closing(_) => Some(Instant::ZERO),
            Stage::Over(_) => None,
            Stage::Open if self.is_ack_due => Some(Instant::ZERO),
            Stage::Open => {
                let ack = self.acks.front().map(|ack| ack.due);
                ack.into_iter().chain(self.request.map(|request| request.at)).min()
            }
        }
    }

    fn tsval(&self, now: Instant) -> Option<u32> {
        let millis = now.saturating_since(Instant::ZERO).as_millis() as u32;
        self.spec.timestamp.map(|first| first.wrapping_add(millis))
    }

    fn syn(&self, now: Instant, out: &mut Vec<u8>) {
        let mut options = self.spec.options.clone();
        // The value stands in the option as given; it is the time at which this SYN leaves.
        if let (Some(value), Some(at)) = (self.tsval(now), timestamps_at(&options)) {
            let value = value.to_be_bytes();
            options.iter_mut().skip(at + 2).zip(value).for_each(|(to, from)| *to = from);
        }
        let flags = TcpFlags::SYN.with(self.spec.flags);
        self.write((self.spec.isn, SeqNum::new(0), flags), &options, &[], out);
    }

    fn segment(&self, seq: SeqNum, flags: TcpFlags, payload: &[u8], now: Instant, out: &mut Vec<u8>) {
        let timestamps = self
            .tsval(now)
            .filter(|_| self.has_timestamps)
            .map(|value| Timestamps { value, echo: self.peer_timestamp });
        let options = timestamps.map_or_else(Vec::new, |Timestamps { value, echo }| {
            [&[1, 1, 8, 10][..], &value.to_be_bytes(), &echo.to_be_bytes()].concat()
        });
        self.write((seq, self.acked, flags), &options, payload, out);
    }

    /// Writes a packet with options of whole words.
    fn write(
        &self,
        (seq, ack, flags): (SeqNum, SeqNum, TcpFlags),
        options: &[u8],
        payload: &[u8],
        out: &mut Vec<u8>,
    ) {
        let mut spec = TcpHeaderSpec::new(self.spec.local, self.spec.remote, seq, ack, flags);
        (spec.window, spec.hop_limit) = (WINDOW, HOP_LIMIT);
        spec.traffic_class = if payload.is_empty() { 0 } else { self.spec.ecn };
        out.clear();
        out.resize(TcpHeaderSpec::MAX_LEN, 0);
        // The options are ours: to the writer of headers they are payload.
        let Ok(header) = spec.emit_partial(out, options.len() + payload.len()) else { return out.clear() };
        out.truncate(header.len);
        out.extend(options);
        out.extend(payload);
        let Some(tcp) = out.get_mut(header.transport_offset..) else { return };
        let words = (TCP_HEADER_LEN + options.len()) / 4;
        if let Some(offset) = tcp.get_mut(OFFSET_AT) {
            *offset = (words << 4) as u8 | (*offset & 0x0f);
        }
        tcp.iter_mut().skip(CHECKSUM_AT).take(2).for_each(|byte| *byte = 0);
        let (from, to) = (self.spec.local.ip(), self.spec.remote.ip());
        let mut sum = Sum::pseudo_header(from, to, protocol::TCP, tcp.len());
        sum.add_bytes(tcp);
        let checksum = sum.checksum().to_be_bytes();
        tcp.iter_mut().skip(CHECKSUM_AT).zip(checksum).for_each(|(to, from)| *to = from);
    }
}

/// Offset at which the timestamps option begins.
fn timestamps_at(options: &[u8]) -> Option<usize> {
    let mut at = 0;
    while let Some(kind) = options.get(at) {
        match kind {
            1 => at += 1,
            8 => return Some(at),
            0 => return None,
            _ => at += usize::from(*options.get(at + 1)?).max(2),
        }
    }
    None
}

#[cfg(test)]
mod tests;
