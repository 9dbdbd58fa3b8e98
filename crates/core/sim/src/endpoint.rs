//! [`Endpoint`]: a TCP host of the simulator.
//!
//! It speaks real packets: a three-way handshake with options, delayed acknowledgements, FIN in both
//! directions, RST, and the checks that break flows behind careless middleboxes: PAWS (RFC 7323 §5), the
//! window (RFC 9293 §3.10.7.4) and challenge acknowledgements (RFC 5961).

use std::collections::VecDeque;

use control::Control;
use control::server::SharedPath;
use units::{Bytes, Duration, Instant, SeqNum, WindowScale};
use wire::{Icmp, Packet, Tcp, TcpFlags, TcpHeaderSpec, Timestamps, Transport};

use crate::build::build_packet;
use crate::ip_header::{ends, is_intact};

mod ack_compression;
mod application;
mod auto_tuning;
mod config;
mod connection;
mod mark_response;
mod marks;
mod program;
mod quic;
mod reno_sack;

pub use config::{
    Application, BeyondWindow, Closing, EndpointConfig, PlannedWrite, Protocol, Reading, ReceiveWindow, Role,
};
use connection::{Connection, Negotiated};
use mark_response::Echo;
pub use mark_response::MarkResponse;
use marks::Marks;

/// First retransmission of a SYN (RFC 6298 §2).
const SYN_TIMEOUT: Duration = Duration::from_secs(1);

/// SYNs sent at most; then the connection has failed.
pub(crate) const SYN_TRIES: u32 = 8;

/// Counts of events at an endpoint that a well-behaved path rarely shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct EndpointStats {
    /// Packets with a wrong checksum.
    pub bad_checksums: u64,
    /// Segments refused for an old timestamp.
    pub paws_rejected: u64,
    /// Segments with data beyond or before the window.
    pub out_of_window_segments: u64,
    /// Packets without data outside the window: their acknowledgement was not taken.
    pub out_of_window_acks: u64,
    /// Segments that came twice.
    pub duplicate_segments: u64,
    /// Challenge acknowledgements sent (RFC 5961).
    pub challenge_acks: u64,
    /// Acknowledgements of what was never sent.
    pub unacceptable_acks: u64,
    /// SACK blocks that made no sense.
    pub invalid_sack_blocks: u64,
    /// Segments sent again.
    pub retransmitted_segments: u64,
}

/// Progress of an application in reading.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct ReadProgress<'a> {
    /// Time at which it read the first byte.
    pub first: Option<Instant>,
    /// Time at which it read the last one so far.
    pub last: Option<Instant>,
    /// Bytes read so far at some moments, at least 5 ms apart.
    pub marks: &'a [(Instant, u64)],
}

/// Sequence numbers that a host has come to.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Standing {
    /// The oldest number of its own that is not acknowledged.
    pub una: SeqNum,
    /// The next one that it sends.
    pub nxt: SeqNum,
    /// The newest time that it has heard.
    pub ts_recent: Option<u32>,
}

/// End of a connection other than by both FINs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ending {
    /// The application aborted it.
    Aborted,
    /// The peer reset it.
    Reset,
    /// The peer refused it.
    Refused,
    /// No answer to the SYN, or to anything for too long.
    TimedOut,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Idle,
    SynSent,
    SynReceived,
    Open,
    Closed(Ending),
}

/// A TCP host with one connection.
#[derive(Debug)]
pub struct Endpoint {
    config: EndpointConfig,
    state: State,
    connection: Option<Box<Connection>>,
    /// Answers that belong to no connection.
    replies: VecDeque<Vec<u8>>,
    syn_due: Option<Instant>,
    syn_tries: u32,
    syn_sent_at: Instant,
    ip_id: u16,
    stats: EndpointStats,
    first_wrong_offset: Option<u64>,
    has_opened: bool,
}

impl Endpoint {
    /// A host that has done nothing.
    #[must_use]
    pub fn new(config: EndpointConfig) -> Self {
        let syn_due = match config.role {
            Role::Connects(at) => Some(at),
            Role::Listens | Role::Refuses => None,
        };
        Self {
            config,
            state: State::Idle,
            connection: None,
            replies: VecDeque::new(),
            syn_due,
            syn_tries: 0,
            syn_sent_at: Instant::ZERO,
            ip_id: 1,
            stats: EndpointStats::default(),
            first_wrong_offset: None,
            has_opened: false,
        }
    }

    /// Configuration that it was made from.
    #[must_use]
    pub fn config(&self) -> &EndpointConfig {
        &self.config
    }
    /// Counts of what it saw.
    #[must_use]
    pub fn stats(&self) -> &EndpointStats {
        &self.stats
    }
    /// Bytes its application has read.
    #[must_use]
    pub fn bytes_read(&self) -> u64 {
        self.connection.as_ref().map_or(0, |c| c.program.read)
    }
    /// Bytes that have arrived in order, read or not.
    #[must_use]
    pub fn bytes_received(&self) -> u64 {
        self.connection.as_ref().map_or(0, |c| c.received())
    }
    /// Bytes of its own that the peer has acknowledged.
    #[must_use]
    pub fn bytes_acked(&self) -> u64 {
        self.connection.as_ref().map_or(0, |c| c.acked(&self.config))
    }
    /// Number of times that a mark has made its window smaller.
    #[must_use]
    pub fn mark_reductions(&self) -> u64 {
        self.connection.as_ref().map_or(0, |c| c.answering.reductions)
    }
    /// Payload bytes it sent more than once.
    #[must_use]
    pub fn retransmitted_bytes(&self) -> u64 {
        self.connection.as_ref().map_or(0, |c| c.sender.retransmitted_bytes())
    }
    /// Limits that its controller sets, and the bytes in flight; none before the connection.
    #[must_use]
    pub fn sending(&self) -> Option<(Control, Bytes)> {
        self.connection.as_deref().map(Connection::sending)
    }
    /// Has a controller that shares its state tell the connections of its path, as number `number` of them,
    /// and hear what they say.
    pub(crate) fn exchange<'a>(
        &mut self,
        path: impl FnOnce() -> &'a mut SharedPath,
        number: u64,
        now: Instant,
    ) {
        if let Some(connection) = self.connection.as_deref_mut() {
            connection.exchange(path, number, now);
        }
    }
    /// Progress of its application in reading.
    #[must_use]
    pub fn progress(&self) -> ReadProgress<'_> {
        self.connection.as_ref().map_or(ReadProgress::default(), |c| c.program.progress())
    }
    /// Time from each request it wrote to the end of the response, when its program is
    /// [`Application::requests`].
    #[must_use]
    pub fn response_times(&self) -> &[Duration] {
        self.connection.as_ref().map_or(&[], |c| c.program.response_times())
    }
    /// Offset of the first byte read that was not the one the peer wrote.
    #[must_use]
    pub fn first_wrong_offset(&self) -> Option<u64> {
        self.first_wrong_offset
    }
    /// End of the connection, if not by both FINs.
    #[must_use]
    pub fn ending(&self) -> Option<Ending> {
        match self.state {
            State::Closed(ending) => Some(ending),
            _ => None,
        }
    }
    /// Its handshake was complete.
    #[must_use]
    pub fn has_opened(&self) -> bool {
        self.has_opened
    }
    /// Both directions were closed by FIN, everything was acknowledged and read.
    #[must_use]
    pub fn is_finished(&self) -> bool {
        self.state == State::Open && self.connection.as_ref().is_some_and(|c| c.is_finished())
    }
    /// Sequence numbers that it has come to, once its handshake is complete.
    pub(crate) fn standing(&self) -> Option<Standing> {
        let connection = self.connection.as_ref().filter(|_| self.state == State::Open)?;
        let (sender, ts_recent) = (&connection.sender, connection.receiver.ts_recent());
        Some(Standing { una: sender.una(), nxt: sender.nxt(), ts_recent })
    }
    /// It has nothing unacknowledged and nothing to send.
    #[must_use]
    pub fn is_quiet(&self) -> bool {
        self.connection.as_ref().is_none_or(|c| c.is_quiet())
    }

    /// It has data, and believes that its peer's window is shut.
    #[must_use]
    pub fn waits_for_window(&self) -> bool {
        self.connection.as_ref().is_some_and(|c| c.waits_for_window())
    }

    /// Time at which it next wants [`Endpoint::handle_timeout`].
    #[must_use]
    pub fn next_deadline(&self) -> Option<Instant> {
        let (connection, end) = match self.state {
            State::Open => (
                self.connection.as_ref().and_then(|c| c.next_deadline(self.config.give_up)),
                self.config.app.abort_at,
            ),
            _ => (None, None),
        };
        [self.syn_due, connection, end].into_iter().flatten().min()
    }

    /// Acts on timers that are due.
    pub fn handle_timeout(&mut self, now: Instant) {
        if self.state == State::Open {
            if let Some(connection) = self.connection.as_mut() {
                if connection.has_given_up(self.config.give_up, now) {
                    return self.close(Ending::TimedOut);
                }
                connection.on_timeout(now);
            }
            self.run_application(now);
        }
    }

    /// The next packet to send; call until `None`.
    pub fn poll_transmit(&mut self, now: Instant) -> Option<Vec<u8>> {
        let packet = self.poll_segment(now)?;
        match self.config.protocol {
            Protocol::Tcp => Some(packet),
            Protocol::Quic => quic::sealed(&packet),
        }
    }

    fn poll_segment(&mut self, now: Instant) -> Option<Vec<u8>> {
        if let Some(reply) = self.replies.pop_front() {
            return Some(reply);
        }
        if self.syn_due.is_some_and(|at| at <= now) {
            return self.send_syn(now);
        }
        if self.state != State::Open {
            return None;
        }
        let connection = self.connection.as_mut()?;
        if connection.owes_lone_ack() {
            return self.send_segment(None, now);
        }
        match connection.poll_data(now) {
            Some(sent) => {
                self.stats.retransmitted_segments += u64::from(sent.is_retransmission);
                self.send_segment(Some(sent), now)
            }
            None if connection.owes_ack() => self.send_segment(None, now),
            None => None,
        }
    }

    /// Takes a packet off the wire.
    pub fn handle_packet(&mut self, packet: &[u8], now: Instant) {
        match self.config.protocol {
            Protocol::Tcp => self.handle_segment(packet, now),
            Protocol::Quic => {
                if let Some(packet) = quic::opened(packet) {
                    self.handle_segment(&packet, now);
                }
            }
        }
    }

    fn handle_segment(&mut self, packet: &[u8], now: Instant) {
        let Ok(parsed) = wire::parse(packet) else { return };
        if let Transport::Icmp(icmp) = &parsed.transport {
            return self.on_icmp(icmp, &parsed, packet, now);
        }
        let Some(tcp) = parsed.tcp() else { return };
        if !is_intact(packet, &parsed) {
            self.stats.bad_checksums += 1;
            return;
        }
        let ecn = parsed.ip.ecn();
        match self.state {
            State::Idle if self.config.role == Role::Listens => self.on_first(tcp),
            State::Idle | State::Closed(_) => self.refuse(tcp),
            State::SynSent => self.on_answer(tcp, now),
            State::SynReceived => self.on_third(tcp, ecn, packet, now),
            State::Open => self.on_segment(tcp, ecn, packet, now),
        }
    }

    /// "Too big" lowers the segment size, if it is about something that is under way (RFC 5927 §7.2).
    fn on_icmp(&mut self, icmp: &Icmp, parsed: &Packet, packet: &[u8], now: Instant) {
        let (Some(mtu), Some(quoted)) = (icmp.next_hop_mtu(), icmp.quoted(packet)) else { return };
        let Some(connection) = self.connection.as_mut() else { return };
        let is_under_way = quoted.seq.is_some_and(|seq| {
            seq.is_at_or_after(connection.sender.una()) && seq.is_before(connection.sender.nxt())
        });
        if icmp.checksum_is_valid(packet, &parsed.ip) && is_under_way {
            let headers = if self.config.local.is_ipv4() { 40 } else { 60 };
            connection.on_path_mtu(mtu.saturating_sub(headers), now);
        }
    }

    /// A listening port takes a SYN, and nothing else (RFC 9293 §3.10.7.2).
    fn on_first(&mut self, tcp: &Tcp) {
        if !tcp.flags.contains(TcpFlags::SYN) || tcp.flags.intersects(TcpFlags::ACK | TcpFlags::RST) {
            self.refuse(tcp);
            return;
        }
        self.open(tcp);
        self.count_marks(marks::is_offer(tcp), false);
        self.echo_marks(marks::is_classic_offer(tcp));
        self.state = State::SynReceived;
        self.syn_due = Some(Instant::ZERO);
    }

    fn open(&mut self, syn: &Tcp) {
        let config = &self.config;
        let scales = config.window_scale.zip(syn.options.window_scale);
        let timestamps = config.timestamps.is_some() && syn.options.timestamps.is_some();
        // RFC 9293 §3.7.1: without the option 536 bytes.
        let mss = u32::from(syn.options.mss.unwrap_or(536).min(config.mss));
        let agreed = Negotiated {
            own_scale: scales.map_or(WindowScale::NONE, |s| s.0),
            peer_scale: scales.map_or(WindowScale::NONE, |s| s.1),
            sack: config.sack && syn.options.sack_permitted,
            timestamps,
            payload_max: mss - if timestamps { 12 } else { 0 },
            mss,
        };
        let offered = u32::from(self.syn_window());
        self.connection = Some(Box::new(Connection::new(config, syn, agreed, offered)));
    }

    /// Counts marks from here on, if both want accurate ECN; `completes` where it is to complete the handshake.
    fn count_marks(&mut self, peer_wants: bool, completes: bool) {
        let tells_bytes = self.config.accurate_ecn.filter(|_| peer_wants);
        if let Some((connection, tells_bytes)) = self.connection.as_mut().zip(tells_bytes) {
            connection.marks = Some(Marks::new(tells_bytes, completes));
        }
    }

    /// Echoes marks from here on, if both want classic ECN and no better.
    fn echo_marks(&mut self, peer_wants: bool) {
        let wants = peer_wants && self.config.classic_ecn;
        if let Some(connection) = self.connection.as_mut().filter(|c| wants && c.marks.is_none()) {
            connection.echo = Some(Echo::default());
        }
    }

    /// The window of a SYN is never scaled (RFC 7323 §2.2).
    fn syn_window(&self) -> u16 {
        self.config.window.initial().min(65_535) as u16
    }

    /// SYN-SENT (RFC 9293 §3.10.7.3).
    fn on_answer(&mut self, tcp: &Tcp, now: Instant) {
        let is_ours = tcp.flags.contains(TcpFlags::ACK) && tcp.ack == self.config.isn + 1;
        if tcp.flags.contains(TcpFlags::RST) {
            if is_ours {
                self.close(Ending::Refused);
            }
        } else if tcp.flags.contains(TcpFlags::ACK) && !is_ours {
            self.refuse(tcp);
        } else if is_ours && tcp.flags.contains(TcpFlags::SYN) {
            self.open(tcp);
            self.count_marks(marks::is_acceptance(tcp), true);
            self.echo_marks(marks::is_classic_acceptance(tcp));
            self.state = State::Open;
            self.has_opened = true;
            self.syn_due = None;
            if let Some(connection) = self.connection.as_mut() {
                connection.acknowledge_now();
            }
            self.measure_handshake(now);
            self.run_application(now);
        }
    }

    /// SYN-RECEIVED.
    fn on_third(&mut self, tcp: &Tcp, ecn: u8, packet: &[u8], now: Instant) {
        if tcp.flags.contains(TcpFlags::RST) {
            self.close(Ending::Reset);
        } else if tcp.flags.contains(TcpFlags::SYN) {
            self.syn_due = Some(Instant::ZERO);
        } else if tcp.flags.contains(TcpFlags::ACK) {
            if tcp.ack != self.config.isn + 1 {
                self.refuse(tcp);
                return;
            }
            self.state = State::Open;
            self.has_opened = true;
            self.syn_due = None;
            self.measure_handshake(now);
            self.on_segment(tcp, ecn, packet, now);
        }
    }

    /// The handshake's round trip, where it is known which SYN was answered (Karn).
    fn measure_handshake(&mut self, now: Instant) {
        if let Some(connection) = self.connection.as_mut().filter(|_| self.syn_tries == 1) {
            connection.on_handshake(now.saturating_since(self.syn_sent_at), now);
        }
    }

    /// An established connection, in the order of Linux's `tcp_validate_incoming`.
    fn on_segment(&mut self, tcp: &Tcp, ecn: u8, packet: &[u8], now: Instant) {
        let Some(connection) = self.connection.as_mut() else { return };
        let has_payload = tcp.segment_len() > 0;
        let is_rst = tcp.flags.contains(TcpFlags::RST);
        if !is_rst && is_too_old(connection, tcp) {
            self.stats.paws_rejected += 1;
            connection.reply_to_refused(has_payload, now);
            return;
        }
        if !is_in_window(connection, tcp) || !connection.takes_beyond(tcp, self.config.beyond_window) {
            if is_rst {
                return;
            }
            if has_payload {
                self.stats.out_of_window_segments += u64::from(tcp.seq.is_after(connection.receiver.next()));
                self.stats.duplicate_segments += u64::from(!tcp.seq.is_after(connection.receiver.next()));
            } else {
                self.stats.out_of_window_acks += 1;
            }
            connection.reply_to_refused(has_payload, now);
            return;
        }
        if is_rst {
            // RFC 5961 §3.2: only the exact number resets.
            if tcp.seq == connection.receiver.ack_number() {
                self.close(Ending::Reset);
            } else if connection.reply_to_refused(false, now) {
                self.stats.challenge_acks += 1;
            }
            return;
        }
        if tcp.flags.contains(TcpFlags::SYN) {
            if connection.reply_to_refused(false, now) {
                self.stats.challenge_acks += 1;
            }
            return;
        }
        if !tcp.flags.contains(TcpFlags::ACK) {
            return;
        }
        if connection.is_ack_too_old(tcp, &self.config) || !connection.on_ack(tcp, &mut self.stats, now) {
            if connection.reply_to_refused(has_payload, now) {
                self.stats.challenge_acks += 1;
            }
            return;
        }
        if let Some(marks) = &mut connection.marks {
            marks.count(ecn, tcp.payload_len as u32);
        }
        if let Some(echo) = connection.echo.as_mut().filter(|_| tcp.payload_len > 0) {
            echo.on_data(tcp.flags.contains(TcpFlags::CWR), ecn == marks::CE);
        }
        connection.on_data(tcp, tcp.payload(packet), &mut self.stats, now);
        self.run_application(now);
    }

    fn run_application(&mut self, now: Instant) {
        let Some(connection) = self.connection.as_mut() else { return };
        let wrong = connection.run_application(&self.config, now);
        self.first_wrong_offset = self.first_wrong_offset.or(wrong);
        let app = &self.config.app;
        let aborts = app.abort_after_reading.is_some_and(|after| connection.program.read >= after)
            || app.abort_after_sending.is_some_and(|after| connection.acked(&self.config) >= after)
            || app.abort_at.is_some_and(|at| now >= at);
        if aborts && self.state == State::Open {
            let (seq, ack) = (connection.sender.nxt(), connection.receiver.ack_number());
            self.push_reset(seq, ack, TcpFlags::RST | TcpFlags::ACK);
            self.close(Ending::Aborted);
        }
    }

    fn close(&mut self, ending: Ending) {
        self.state = State::Closed(ending);
        self.syn_due = None;
    }

    /// Refuses the connection, like [`answer_of_a_closed_port`].
    fn refuse(&mut self, tcp: &Tcp) {
        if let Some((seq, ack, flags)) = reset_for(tcp) {
            self.push_reset(seq, ack, flags);
        }
    }

    fn push_reset(&mut self, seq: SeqNum, ack: SeqNum, flags: TcpFlags) {
        let spec = self.spec(seq, ack, flags);
        self.replies.extend(build_packet(&spec, &[], &[]).ok());
    }

    fn spec(&mut self, seq: SeqNum, ack: SeqNum, flags: TcpFlags) -> TcpHeaderSpec {
        let mut spec = TcpHeaderSpec::new(self.config.local, self.config.remote, seq, ack, flags);
        spec.id = self.ip_id;
        self.ip_id = self.ip_id.wrapping_add(1);
        spec
    }

    fn clock(&self, now: Instant) -> u32 {
        self.config.timestamps.unwrap_or(0).wrapping_add(now.as_millis() as u32)
    }

    fn send_syn(&mut self, now: Instant) -> Option<Vec<u8>> {
        if self.syn_tries >= SYN_TRIES {
            self.close(Ending::TimedOut);
            return None;
        }
        self.syn_due = Some(now + SYN_TIMEOUT * (1 << self.syn_tries));
        self.syn_tries += 1;
        self.syn_sent_at = now;
        let agreed = self.connection.as_ref().map(|c| (c.agreed, c.receiver.next(), c.receiver.ts_recent()));
        let mut spec = match agreed {
            None => {
                self.state = State::SynSent;
                let offers = self.config.accurate_ecn.is_some();
                let flags = match (offers, self.config.classic_ecn) {
                    (true, _) => marks::offer(TcpFlags::SYN),
                    (false, true) => TcpFlags::SYN | TcpFlags::ECE | TcpFlags::CWR,
                    (false, false) => TcpFlags::SYN,
                };
                self.spec(self.config.isn, SeqNum::new(0), flags)
            }
            Some((_, ack, _)) => {
                let flags = TcpFlags::SYN | TcpFlags::ACK;
                let accepts = self.connection.as_ref().is_some_and(|c| c.marks.is_some());
                let echoes = self.connection.as_ref().is_some_and(|c| c.echo.is_some());
                let flags = match (accepts, echoes) {
                    (true, _) => marks::acceptance(flags),
                    (false, true) => flags | TcpFlags::ECE,
                    (false, false) => flags,
                };
                self.spec(self.config.isn, ack, flags)
            }
        };
        spec.window = self.syn_window();
        spec.mss = Some(self.config.mss);
        // A SYN-ACK has only the options the SYN had.
        spec.sack_permitted = agreed.map_or(self.config.sack, |(a, ..)| a.sack);
        let may_scale = agreed
            .is_none_or(|(a, ..)| a.own_scale != WindowScale::NONE || a.peer_scale != WindowScale::NONE);
        spec.window_scale = self.config.window_scale.filter(|_| may_scale);
        if agreed.map_or(self.config.timestamps.is_some(), |(a, ..)| a.timestamps) {
            let echo = agreed.and_then(|(_, _, recent)| recent).unwrap_or(0);
            spec.timestamps = Some(Timestamps { value: self.clock(now), echo });
        }
        build_packet(&spec, &self.config.syn_options, &[]).ok()
    }

    /// A segment with what is to be acknowledged in it; without `sent` a pure acknowledgement.
    fn send_segment(&mut self, sent: Option<tcp::Transmission>, now: Instant) -> Option<Vec<u8>> {
        let clock = self.clock(now);
        let mut spec = self.spec(SeqNum::new(0), SeqNum::new(0), TcpFlags::ACK);
        let connection = self.connection.as_mut()?;
        let agreed = connection.agreed;
        if agreed.timestamps {
            let echo = connection.receiver.ts_recent().unwrap_or(0);
            spec.timestamps = Some(Timestamps { value: clock, echo });
        }
        (spec.ack, spec.window) = connection.acknowledge();
        spec.seq = sent.as_ref().map_or(connection.sender.nxt(), |s| s.seq);
        let options_len = if agreed.timestamps { 12 } else { 0 };
        let payload_len = sent.as_ref().map_or(0, |s| s.len);
        // SACK blocks share the segment with its payload: those that would make it too long stay out.
        let room = agreed.mss.saturating_sub(payload_len + options_len + 4) / 8;
        spec.sack = connection.receiver.sack_blocks(room.min(if agreed.timestamps { 3 } else { 4 }) as usize);
        if sent.as_ref().is_some_and(|s| s.fin) {
            spec.flags |= TcpFlags::FIN;
        }
        if let Some(marks) = &mut connection.marks {
            spec.flags = marks.tell(spec.flags, sent.is_some());
            spec.traffic_class = if payload_len > 0 { marks::capable(self.config.mark_response) } else { 0 };
            spec.ecn_byte_counters = marks.bytes().filter(|_| payload_len == 0);
        }
        if let Some(echo) = connection.echo {
            if echo.is_due {
                spec.flags |= TcpFlags::ECE;
            }
            // RFC 3168 §6.1.5: what is sent again is no help in a congestion, and its mark none.
            if let Some(new) = sent.as_ref().filter(|sent| sent.len > 0 && !sent.is_retransmission) {
                spec.traffic_class = marks::ECT_0;
                if connection.answering.take_cwr(new.seq + new.len) {
                    spec.flags |= TcpFlags::CWR;
                }
            }
        }
        if payload_len > 0 && connection.sender.unsent() == 0 {
            spec.flags |= TcpFlags::PSH;
        }
        let (a, b) = sent.as_ref().map_or((&[][..], &[][..]), |s| connection.payload(s));
        build_packet(&spec, &[], &[a, b]).ok()
    }
}

/// The reset that a host sends for a packet of no connection (RFC 9293 §3.10.7.1); none for resets
/// and what is broken.
pub(crate) fn answer_of_a_closed_port(packet: &[u8]) -> Option<Vec<u8>> {
    let parsed = wire::parse(packet).ok()?;
    let tcp = parsed.tcp().filter(|_| is_intact(packet, &parsed))?;
    let (seq, ack, flags) = reset_for(tcp)?;
    let (to, from) = ends(&parsed)?;
    build_packet(&TcpHeaderSpec::new(from, to, seq, ack, flags), &[], &[]).ok()
}

/// Numbers and flags of the reset for a segment; none for a reset.
fn reset_for(tcp: &Tcp) -> Option<(SeqNum, SeqNum, TcpFlags)> {
    let none = SeqNum::new(0);
    match tcp.flags {
        flags if flags.contains(TcpFlags::RST) => None,
        flags if flags.contains(TcpFlags::ACK) => Some((tcp.ack, none, TcpFlags::RST)),
        _ => Some((none, tcp.seq_end(), TcpFlags::RST | TcpFlags::ACK)),
    }
}

/// PAWS (RFC 7323 §5.3).
fn is_too_old(connection: &Connection, tcp: &Tcp) -> bool {
    let recent = connection.receiver.ts_recent();
    recent.zip(tcp.options.timestamps).is_some_and(|(recent, ts)| (ts.value.wrapping_sub(recent) as i32) < 0)
}

/// True when any of the segment lies in the window (Linux `tcp_sequence`).
fn is_in_window(connection: &Connection, tcp: &Tcp) -> bool {
    let receiver = &connection.receiver;
    tcp.seq_end().is_at_or_after(connection.acks.last_sent) && tcp.seq.is_at_or_before(receiver.right_edge())
}
