//! [`Checks`]: the rules every packet that leaves the middlebox must keep, whatever it does inside.
//!
//! Per flow and direction it is remembered what reached the middlebox and what its hosts acknowledged.
//! From that follows what it may say: never acknowledge what it does not have, never owe more than agreed,
//! never acknowledge an end of stream before the other host did, never let a timestamp go back.

use core::net::{IpAddr, SocketAddr};
use std::collections::BTreeMap;

use engine::Port;
use units::{Bytes, Duration, Instant, SeqNum};
use wire::{Packet, Tcp, TcpFlags, Transport};

use crate::ip_header::is_intact;

mod marks;

use marks::MarksTold;

const WINDOW_SHRINKS: &str = "it takes back a part of the window";
/// Distance by which the number of a question is behind at least.
const QUESTION_BEHIND_MIN: i32 = 1 << 29;

const TIME_GOES_BACK: &str = "its TSval is older than one sent before in this direction";

/// Limits of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CheckConfig {
    /// Bytes the middlebox may have acknowledged that the receiving host has not.
    pub debt_max: Bytes,
    /// Largest packet on any link.
    pub mtu: usize,
    /// The run must have come to its end by then.
    pub ends_by: Instant,
    /// Bytes the middlebox may hold for all flows.
    pub memory_max: Bytes,
    /// While the middlebox owes a client something, it sends it a packet at least this often.
    pub silence_max: Duration,
    /// Faults that the line-up excuses.
    pub tolerance: Tolerance,
    /// The middlebox may make no packets, and change nothing but the windows of clients, to smaller ones.
    pub lowers_windows_only: bool,
    /// Packets go past the middlebox for a while: it cannot know what was used last.
    pub is_passed_by: bool,
}

/// Faults that the line-up itself may cause.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Default)]
pub enum Tolerance {
    /// Nothing: every flow ends as its applications want.
    #[default]
    Nothing,
    /// Flows may end in an error that the other side learns, or cannot learn. What ends cleanly is whole.
    Failures,
    /// Somebody changes segments and their checksums: applications may read anything.
    Tampering,
}

impl Default for CheckConfig {
    /// 64 MiB, what one flow may hold by default, and one unit of the largest scale more; MTU 1500; an hour.
    fn default() -> Self {
        Self {
            debt_max: Bytes::from_mib(64) + Bytes::new(65_536),
            mtu: 1_500,
            ends_by: Instant::ZERO + Duration::from_secs(3_600),
            memory_max: Bytes::MAX,
            silence_max: Duration::from_secs(40),
            tolerance: Tolerance::Nothing,
            lowers_windows_only: false,
            is_passed_by: false,
        }
    }
}

/// A broken rule.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Violation {
    /// A packet that left the middlebox breaks a rule of the wire.
    #[error("the middlebox sent a wrong packet towards the {to:?} side: {rule}: {packet}")]
    Packet {
        /// Side that it went to.
        to: Port,
        /// Rule that it breaks.
        rule: &'static str,
        /// The packet as tcpdump would print it.
        packet: String,
    },
    /// More was acknowledged to the sender than the receiver acknowledged, beyond the limit.
    #[error("debt of {debt} exceeds {limit}: {packet}")]
    Debt {
        /// Bytes owed.
        debt: Bytes,
        /// Bytes allowed.
        limit: Bytes,
        /// The acknowledgement.
        packet: String,
    },
    /// An application read a byte the peer never wrote there.
    #[error("flow {flow}: {host} read a wrong byte at offset {offset}")]
    WrongByte {
        /// Number of the flow.
        flow: usize,
        /// `server` or `client`.
        host: &'static str,
        /// Offset of the first wrong byte.
        offset: u64,
    },
    /// A flow did not come to its end.
    #[error("flow {flow} does not end: {state}")]
    Stalled {
        /// Number of the flow.
        flow: usize,
        /// State of both hosts.
        state: String,
    },
    /// A flow ended otherwise than its applications wanted.
    #[error("flow {flow} ended wrongly: {state}")]
    WrongEnd {
        /// Number of the flow.
        flow: usize,
        /// State of both hosts.
        state: String,
    },
    /// Marks of the wire never reached the sender of what was marked.
    #[error("flow {flow}: {what}")]
    MarkLost {
        /// Number of the flow.
        flow: usize,
        /// Host whose marks were lost, and their number.
        what: String,
    },
    /// The middlebox holds more than it may.
    #[error("the middlebox holds {memory}, more than {limit}")]
    Memory {
        /// Bytes held.
        memory: Bytes,
        /// Bytes allowed.
        limit: Bytes,
    },
    /// The middlebox owes a client something and sends it nothing.
    #[error("flow {flow}: the middlebox owes {debt} and has sent nothing since {since}")]
    Silent {
        /// Number of the flow.
        flow: usize,
        /// Bytes owed.
        debt: Bytes,
        /// Time of the last packet sent to it.
        since: Instant,
    },
    /// The middlebox, called twice with the same time, did something the second time.
    #[error("called again with the same time, the middlebox acts once more: {what}")]
    Twice {
        /// Action of the second call.
        what: String,
    },
    /// Something acts again and again at one point of time.
    #[error("no end of events at one point of time: a deadline that never moves or a node that never stops")]
    Busy,
}

/// State of the stream that one host sends.
#[derive(Clone, Debug, Default)]
struct Stream {
    isn: Option<SeqNum>,
    mss: Option<u16>,
    /// Window that its SYN allowed the other host.
    syn_window: u16,
    has_timestamps: bool,
    has_sack: bool,
    scale: Option<units::WindowScale>,
    /// All before it has reached the middlebox, the end of the stream included.
    contiguous: SeqNum,
    /// Ranges that reached it beyond a hole, in order.
    beyond: Vec<(SeqNum, SeqNum)>,
    highest: SeqNum,
    /// One past the FIN.
    fin_end: Option<SeqNum>,
    /// Highest number the other host acknowledged, as seen by the middlebox.
    acked_by_peer: SeqNum,
    /// Highest number the middlebox told this host.
    acked_to_host: SeqNum,
    /// Highest window edge the middlebox told this host, once the flow is accelerated.
    edge_to_host: Option<SeqNum>,
    /// Largest window told to this host before: the middlebox keeps what the other host promised.
    window_before: u32,
    /// The same where windows are only lowered, handshake included.
    edge_passed_on: Option<SeqNum>,
    /// The middlebox has sent some of it in packets of its own: the stream's delivery is its business.
    is_accelerated: bool,
    /// One past the highest number sent on to the other host.
    sent_on: SeqNum,
    /// Newest timestamp sent on to the other host.
    tsval_sent_on: Option<u32>,
    marks: MarksTold,
}

impl Stream {
    fn begin(&mut self, tcp: &Tcp) {
        *self = Self {
            isn: Some(tcp.seq),
            mss: tcp.options.mss,
            syn_window: tcp.window,
            has_timestamps: tcp.options.timestamps.is_some(),
            has_sack: tcp.options.sack_permitted,
            scale: tcp.options.window_scale,
            contiguous: tcp.seq + 1,
            highest: tcp.seq + 1,
            acked_by_peer: tcp.seq,
            acked_to_host: tcp.seq,
            sent_on: tcp.seq,
            tsval_sent_on: self.tsval_sent_on,
            marks: MarksTold::begin(tcp),
            ..Self::default()
        };
    }

    /// Notes that `[start, end)` reached the middlebox.
    fn arrive(&mut self, start: SeqNum, end: SeqNum) {
        self.highest = self.highest.later_of(end);
        if start.is_after(self.contiguous) {
            let at = self.beyond.partition_point(|&(s, _)| s.is_before(start));
            self.beyond.insert(at, (start, end));
            return;
        }
        self.contiguous = self.contiguous.later_of(end);
        while let Some(&(s, e)) = self.beyond.first()
            && s.is_at_or_before(self.contiguous)
        {
            self.contiguous = self.contiguous.later_of(e);
            self.beyond.remove(0);
        }
    }
}

/// One flow: the stream of the server and that of the client.
#[derive(Clone, Debug)]
struct FlowChecks {
    client: SocketAddr,
    server: SocketAddr,
    down: Stream,
    up: Stream,
    /// The middlebox has made packets of its own for it, and not handed it back.
    is_accelerated: bool,
    was_accelerated: bool,
    /// A reset went out: what follows may be stray packets of hosts that have forgotten it.
    is_reset: bool,
    /// The middlebox has lost what it owed to a host.
    is_orphaned: bool,
    /// Somebody has sent its handshake again: the middlebox may speak as then, and hosts see that it is old.
    is_replayed: bool,
    /// Time at which it last sent a packet to the client and to the server, or began to owe it something.
    heard: [Instant; 2],
}

/// Origin of a packet that leaves the middlebox.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Origin {
    Forwarded,
    Made,
}

/// The rules of all flows.
#[derive(Clone, Debug)]
pub(crate) struct Checks {
    config: CheckConfig,
    flows: Vec<FlowChecks>,
    /// Flows by their client's and their server's address.
    flow_of: BTreeMap<(SocketAddr, SocketAddr), usize>,
    debt_max: Bytes,
    is_leaving: bool,
    /// Flows that something has happened to since the last pause.
    touched: Vec<usize>,
    /// Time until which, or for ever, no other flow can have been left without a word for too long.
    heard_until: Option<Instant>,
}

impl Checks {
    pub(crate) fn new(config: CheckConfig, flows: impl Iterator<Item = (SocketAddr, SocketAddr)>) -> Self {
        let flows: Vec<_> = flows
            .map(|(client, server)| FlowChecks {
                client,
                server,
                down: Stream::default(),
                up: Stream::default(),
                is_accelerated: false,
                was_accelerated: false,
                is_reset: false,
                is_orphaned: false,
                is_replayed: false,
                heard: [Instant::ZERO; 2],
            })
            .collect();
        let flow_of = flows.iter().enumerate().rev().map(|(i, f)| ((f.client, f.server), i)).collect();
        let (debt_max, is_leaving) = (Bytes::ZERO, false);
        Self { config, flows, flow_of, debt_max, is_leaving, touched: Vec::new(), heard_until: None }
    }

    /// The middlebox hands flows back.
    pub(crate) fn note_leaving(&mut self, is_leaving: bool) {
        self.is_leaving = is_leaving;
    }

    /// Largest debt seen.
    pub(crate) fn debt_max(&self) -> Bytes {
        self.debt_max
    }

    pub(crate) fn is_accelerated(&self, flow: usize) -> bool {
        self.flows.get(flow).is_some_and(|f| f.was_accelerated)
    }

    /// True when the data that the middlebox owed to the hosts of a flow was lost.
    pub(crate) fn is_orphaned(&self, flow: usize) -> bool {
        self.flows.get(flow).is_some_and(|f| f.is_orphaned)
    }

    /// The middlebox still has something to deliver, or to give up.
    ///
    /// Where somebody changes acknowledgements nobody can tell, from outside.
    pub(crate) fn is_owed(&self, flow: usize) -> bool {
        if self.config.tolerance == Tolerance::Tampering {
            return false;
        }
        self.flows.get(flow).is_some_and(|f| {
            let debt = f.owes(Port::Mobile).max(f.owes(Port::Wired));
            debt > 0 && f.is_accelerated && !f.is_reset && !f.is_orphaned
        })
    }

    fn position(&self, packet: &Packet, tcp: &Tcp, towards: Port) -> Option<usize> {
        let ends = ends(packet.ip.src, packet.ip.dst, tcp);
        let (client, server) = if towards == Port::Mobile { (ends.1, ends.0) } else { ends };
        self.flow_of.get(&(client, server)).copied()
    }

    fn flow(&mut self, packet: &Packet, tcp: &Tcp, towards: Port) -> Option<&mut FlowChecks> {
        let flow = self.position(packet, tcp, towards)?;
        self.touched.push(flow);
        self.flows.get_mut(flow)
    }

    /// Client and server of the flow that a packet belongs to.
    pub(crate) fn ends_of(&self, packet: &Packet, towards: Port) -> Option<(SocketAddr, SocketAddr)> {
        let flow = self.flows.get(self.position(packet, packet.tcp()?, towards)?)?;
        Some((flow.client, flow.server))
    }

    /// True for a segment of one of the flows.
    pub(crate) fn knows(&self, packet: &Packet, towards: Port) -> bool {
        packet.tcp().is_some_and(|tcp| self.position(packet, tcp, towards).is_some())
    }

    /// Somebody has sent the SYN of a flow again.
    pub(crate) fn on_replay(&mut self, packet: &[u8], to: Port) {
        let Ok(parsed) = wire::parse(packet) else { return };
        if let Some(tcp) = parsed.tcp().filter(|tcp| tcp.flags.contains(TcpFlags::SYN))
            && let Some(flow) = self.flow(&parsed, tcp, to)
        {
            flow.is_replayed = true;
        }
    }

    /// The middlebox has forgotten everything: what it owed is lost, the rest goes on without it.
    pub(crate) fn on_crash(&mut self) {
        for flow in &mut self.flows {
            flow.is_orphaned |= flow.is_accelerated
                && !flow.is_reset
                && flow.owes(Port::Mobile).max(flow.owes(Port::Wired)) > 0;
            flow.hand_back();
        }
    }

    /// A flow's packet was forwarded as it is: its hosts speak for themselves again.
    pub(crate) fn on_hand_back(&mut self, packet: &[u8], to: Port) {
        let Ok(parsed) = wire::parse(packet) else { return };
        if let Some(tcp) = parsed.tcp()
            && let Some(flow) = self.flow(&parsed, tcp, to)
        {
            flow.hand_back();
        }
    }

    /// Marks of a flow that never reached their sender; asked at its end, where everything was delivered.
    pub(crate) fn marks_lost(&self, flow: usize) -> Option<String> {
        let flow = self.flows.get(flow)?;
        if !flow.agrees_on_accurate_ecn() || flow.is_reset || flow.is_orphaned || flow.is_replayed {
            return None;
        }
        [("server", &flow.down), ("client", &flow.up)].into_iter().find_map(|(host, stream)| {
            let lost = stream.marks.lost().filter(|_| stream.is_accelerated);
            lost.map(|lost| format!("the {host} was told of {lost}"))
        })
    }

    /// Checks between two points of time whether the middlebox has left a host without a word for too long.
    pub(crate) fn on_pause(&mut self, now: Instant) -> Result<(), Violation> {
        let touched = core::mem::take(&mut self.touched);
        if self.config.tolerance == Tolerance::Tampering {
            return Ok(());
        }
        let silence_max = self.config.silence_max;
        let waits =
            touched.iter().filter_map(|&flow| self.flows.get(flow)?.waiting().map(|(_, since)| since));
        let heard_until = waits.map(|since| since + silence_max).chain(self.heard_until).min();
        if heard_until.is_none_or(|until| now <= until) {
            (self.heard_until, self.touched) = (heard_until, touched);
            self.touched.clear();
            return Ok(());
        }
        self.heard_until = None;
        for (number, flow) in self.flows.iter().enumerate() {
            let Some((debt, since)) = flow.waiting() else { continue };
            if now.saturating_since(since) > silence_max {
                return Err(Violation::Silent { flow: number, debt, since });
            }
            self.heard_until = self.heard_until.into_iter().chain([since + silence_max]).min();
        }
        Ok(())
    }

    /// Notes a packet that reached the middlebox with right checksums.
    pub(crate) fn on_arrival(&mut self, from: Port, packet: &Packet) {
        let Some(tcp) = packet.tcp() else { return };
        let Some(flow) = self.flow(packet, tcp, from.opposite()) else { return };
        let (own, peer) = flow.streams(from);
        let is_new = own.is_accelerated && tcp.seq_end().is_after(own.highest);
        if tcp.flags.contains(TcpFlags::SYN) {
            if own.isn != Some(tcp.seq) {
                own.begin(tcp);
            }
        } else if tcp.segment_len() > 0 && !tcp.flags.contains(TcpFlags::RST) && own.isn.is_some() {
            own.arrive(tcp.seq, tcp.seq_end());
            if tcp.flags.contains(TcpFlags::FIN) {
                own.fin_end = Some(tcp.seq_end());
            }
        }
        own.marks.arrive(packet.ip.is_congestion_experienced(), tcp, is_new);
        if tcp.flags.contains(TcpFlags::ACK) && !tcp.flags.contains(TcpFlags::RST) {
            peer.acked_by_peer = peer.acked_by_peer.later_of(tcp.ack);
        }
    }

    /// Judges how the middlebox, which may only lower windows, changed a packet that passes
    /// (`before` is what came in): the right edge never moves back unless the client's own does.
    pub(crate) fn on_passage(&mut self, to: Port, before: &[u8], after: &[u8]) -> Result<(), Violation> {
        if !self.config.lowers_windows_only || self.config.tolerance == Tolerance::Tampering {
            return Ok(());
        }
        let (Ok(old), Ok(new)) = (wire::parse(before), wire::parse(after)) else { return Ok(()) };
        let Some((own, told)) = old.tcp().zip(new.tcp()) else { return Ok(()) };
        let wrong = |rule| Err(Violation::Packet { to, rule, packet: new.to_string() });
        let at = own.offset + 14;
        let is_same = before.len() == after.len()
            && before.iter().zip(after).enumerate().all(|(i, (a, b))| a == b || (at..at + 4).contains(&i));
        if !is_same || (to == Port::Mobile && before != after) {
            return wrong("it was changed otherwise than in the client's window");
        }
        if told.window > own.window {
            return wrong("its window is larger than the client's own");
        }
        let Some(flow) = self.flow(&new, told, to).filter(|_| to == Port::Wired) else { return Ok(()) };
        let is_replayed = flow.is_replayed;
        let (server, client) = flow.streams(Port::Wired);
        // Who has ended sends nothing into a window any more.
        let has_ended = server.fin_end.is_some();
        if told.flags.intersects(TcpFlags::RST) || !told.flags.contains(TcpFlags::ACK) || has_ended {
            return Ok(());
        }
        let is_syn = told.flags.contains(TcpFlags::SYN);
        let scale = if is_syn { None } else { server.scale.and(client.scale) }.unwrap_or_default();
        let (edge, own_edge) = (told.ack + scale.window(told.window), own.ack + scale.window(own.window));
        let by_syn = server.isn.map_or(edge, |isn| isn + 1 + u32::from(client.syn_window));
        let promised = server.edge_passed_on.unwrap_or(by_syn);
        // Who has its handshake again takes it for a flow that begins.
        if edge.is_before(promised.earlier_of(own_edge)) && !is_replayed {
            return wrong(WINDOW_SHRINKS);
        }
        server.edge_passed_on = Some(promised.later_of(edge));
        Ok(())
    }

    /// Judges a packet, cut to its wire size, that leaves the middlebox.
    pub(crate) fn on_departure(
        &mut self,
        to: Port,
        origin: Origin,
        bytes: &[u8],
        packet: &Packet,
        now: Instant,
    ) -> Result<(), Violation> {
        let wrong = |rule| Err(Violation::Packet { to, rule, packet: packet.to_string() });
        if packet.ip.total_len != bytes.len() {
            return wrong("its length field is not its length");
        }
        if bytes.len() > self.config.mtu {
            return wrong("it is longer than the MTU");
        }
        if is_echo_request(bytes, packet) && to == Port::Mobile && origin == Origin::Made {
            return Ok(());
        }
        if !is_intact(bytes, packet) {
            return wrong("a checksum is wrong");
        }
        let Some(tcp) = packet.tcp() else { return wrong("it is not TCP") };
        if self.config.lowers_windows_only && origin == Origin::Made {
            return wrong("it is of the middlebox's own making");
        }
        let limit = self.config.debt_max;
        let (is_leaving, may_be_late) = (self.is_leaving, self.config.is_passed_by);
        let is_tampered = self.config.tolerance == Tolerance::Tampering;
        let Some(flow) = self.flow(packet, tcp, to) else {
            return if origin == Origin::Forwarded { Ok(()) } else { wrong("no such flow") };
        };
        flow.is_accelerated |= origin == Origin::Made;
        flow.was_accelerated |= flow.is_accelerated;
        flow.streams(to).1.is_accelerated |= origin == Origin::Made && tcp.payload_len > 0;
        if is_tampered {
            // Whom to believe is open: the rules of bytes and lengths above are all that remains.
            return Ok(());
        }
        if let Some(rule) = flow.broken_option_rule(to, origin, tcp) {
            return wrong(rule);
        }
        // Once nothing is owed, a flow handed back has its client's own window again, no matter who says it.
        let is_handed_back = is_leaving && flow.owes(Port::Mobile) == 0;
        if is_handed_back {
            (flow.down.edge_to_host, flow.down.is_accelerated) = (None, false);
        }
        if is_leaving && flow.owes(Port::Wired) == 0 {
            (flow.up.edge_to_host, flow.up.is_accelerated) = (None, false);
        }
        if flow.is_question(to, tcp) {
            return Ok(());
        }
        let rule = flow.broken_number_rule(to, origin, tcp);
        // What goes past is the hosts' own.
        let is_own =
            |rule: &str| may_be_late && (rule == TIME_GOES_BACK || (is_leaving && rule == WINDOW_SHRINKS));
        let is_replayed = flow.is_replayed;
        let is_own = |rule: &&str| is_own(rule) || (is_replayed && *rule == TIME_GOES_BACK);
        if let Some(rule) = rule.filter(|rule| !is_own(rule)) {
            return wrong(rule);
        }
        if let Some(rule) = flow.broken_mark_rule(tcp, to).filter(|_| !is_leaving && !is_replayed) {
            return wrong(rule);
        }
        let owed_before = flow.owes(to.opposite());
        let debt = flow.note_departure(to, tcp);
        flow.heard[to as usize] = now;
        if owed_before == 0 {
            flow.heard[to.opposite() as usize] = now;
        }
        let limit = limit.max(Bytes::from(flow.streams(to).0.window_before));
        if debt > limit {
            return Err(Violation::Debt { debt, limit, packet: packet.to_string() });
        }
        self.debt_max = self.debt_max.max(debt);
        Ok(())
    }
}

fn ends(src: IpAddr, dst: IpAddr, tcp: &Tcp) -> (SocketAddr, SocketAddr) {
    (SocketAddr::new(src, tcp.src_port), SocketAddr::new(dst, tcp.dst_port))
}

impl FlowChecks {
    /// The stream of the host on `side` and that of its peer.
    fn streams(&mut self, side: Port) -> (&mut Stream, &mut Stream) {
        match side {
            Port::Wired => (&mut self.down, &mut self.up),
            Port::Mobile => (&mut self.up, &mut self.down),
        }
    }

    /// Leaves both streams to their hosts.
    fn hand_back(&mut self) {
        self.is_accelerated = false;
        for stream in [&mut self.down, &mut self.up] {
            (stream.edge_to_host, stream.is_accelerated) = (None, false);
            stream.marks.break_off();
        }
    }

    /// True for a question to the host on `to`, whose number is of the past: the host takes nothing from it.
    fn is_question(&mut self, to: Port, tcp: &Tcp) -> bool {
        let (_, peer) = self.streams(to);
        tcp.segment_len() == 0 && tcp.seq.distance_from(peer.acked_by_peer) < -QUESTION_BEHIND_MIN
    }

    /// Bytes acknowledged to the other host that the host on `to` has not acknowledged.
    fn owes(&self, to: Port) -> u32 {
        let stream = if to == Port::Mobile { &self.down } else { &self.up };
        stream.acked_to_host.distance_from(stream.acked_by_peer).max(0).unsigned_abs()
    }

    /// Debt to the host that has been without a packet for longest, and since when it has been.
    fn waiting(&self) -> Option<(Bytes, Instant)> {
        let is_bound = self.is_accelerated && !self.is_reset && !self.is_orphaned;
        let of = |to| (Bytes::from(self.owes(to)), self.heard[to as usize]);
        let waits = [Port::Mobile, Port::Wired].map(of).into_iter();
        waits.filter(|&(debt, _)| is_bound && debt > Bytes::ZERO).min_by_key(|&(_, since)| since)
    }

    /// H6: what was negotiated, and nothing else.
    fn broken_option_rule(&mut self, to: Port, origin: Origin, tcp: &Tcp) -> Option<&'static str> {
        let agrees_timestamps = self.down.has_timestamps && self.up.has_timestamps;
        let agrees_sack = self.down.has_sack && self.up.has_sack;
        let is_v4 = self.client.is_ipv4();
        let (host, _) = self.streams(to);
        let mss = usize::from(host.mss.unwrap_or(if is_v4 { 536 } else { 1_220 }));
        let options = &tcp.options;
        if options.malformed {
            return Some("an option is malformed");
        }
        if tcp.flags.contains(TcpFlags::SYN) {
            return (origin == Origin::Made).then_some("a SYN of the middlebox's own making");
        }
        if tcp.flags.contains(TcpFlags::RST) {
            return None;
        }
        if tcp.header_len - 20 + tcp.payload_len > mss {
            return Some("it is longer than the receiver's MSS");
        }
        if options.timestamps.is_some() != agrees_timestamps {
            return Some("timestamps are not as negotiated");
        }
        // Blocks of the host's own are its own business.
        let is_ours = origin == Origin::Made || to == Port::Wired;
        if is_ours && !options.sack.is_empty() && !agrees_sack {
            return Some("SACK was not negotiated");
        }
        if options.mss.is_some() || options.window_scale.is_some() || options.sack_permitted {
            return Some("an option of SYNs on another segment");
        }
        None
    }

    fn broken_number_rule(&mut self, to: Port, origin: Origin, tcp: &Tcp) -> Option<&'static str> {
        let (is_accelerated, is_reset) = (self.is_accelerated, self.is_reset);
        let has_ack =
            tcp.flags.contains(TcpFlags::ACK) && !tcp.flags.intersects(TcpFlags::SYN | TcpFlags::RST);
        // `own` is what the receiving host sends and this packet acknowledges; `peer` what it carries.
        let (own, peer) = self.streams(to);
        let scale = own.scale.and(peer.scale).unwrap_or_default();
        if has_ack && own.isn.is_some() {
            // Where only the other direction is the middlebox's, the window is the host's own.
            if is_accelerated && own.is_accelerated && !is_reset && own.fin_end.is_none() {
                let edge = tcp.ack + scale.window(tcp.window);
                // RFC 7323 §2.4: less than a unit of the scale may seem to go.
                let edge = edge + ((1 << scale.shift()) - 1);
                if own.edge_to_host.is_some_and(|told| edge.is_before(told)) && to == Port::Wired {
                    return Some(WINDOW_SHRINKS);
                }
            }
            if tcp.ack.is_after(own.contiguous) {
                return Some("it acknowledges what the middlebox does not have");
            }
            if own.fin_end == Some(tcp.ack) && own.acked_by_peer.is_before(tcp.ack) {
                return Some("it acknowledges an end of stream the other host has not acknowledged");
            }
            // Blocks of the host's own are its own business.
            let is_ours =
                origin == Origin::Made || (is_accelerated && own.is_accelerated && to == Port::Wired);
            if is_ours && tcp.options.sack.iter().any(|b| b.end.is_after(own.highest)) {
                return Some("it SACKs what the middlebox does not have");
            }
        }
        if tcp.flags.contains(TcpFlags::SYN) || peer.isn.is_none() {
            return None;
        }
        if tcp.seq_end().is_after(peer.highest) && tcp.segment_len() > 0 {
            return Some("it carries data the middlebox does not have");
        }
        if !is_accelerated || is_reset || tcp.flags.contains(TcpFlags::RST) {
            return None;
        }
        if peer.is_accelerated && tcp.segment_len() == 0 && tcp.seq.is_after(peer.sent_on) {
            return Some("without data, it carries a number beyond what was sent to the receiving host");
        }
        if let Some((ts, last)) = tcp.options.timestamps.zip(peer.tsval_sent_on)
            && (ts.value.wrapping_sub(last) as i32) < 0
        {
            return Some(TIME_GOES_BACK);
        }
        None
    }

    /// Notes what the packet said; the debt after it.
    fn note_departure(&mut self, to: Port, tcp: &Tcp) -> Bytes {
        let is_accelerated = self.is_accelerated;
        let (own, peer) = self.streams(to);
        if let Some(ts) = tcp.options.timestamps {
            let is_newer = peer.tsval_sent_on.is_none_or(|last| (ts.value.wrapping_sub(last) as i32) > 0);
            if is_newer {
                peer.tsval_sent_on = Some(ts.value);
            }
        }
        if !tcp.flags.contains(TcpFlags::RST) {
            peer.sent_on = peer.sent_on.later_of(tcp.seq_end());
        }
        if tcp.flags.contains(TcpFlags::ACK) && !tcp.flags.contains(TcpFlags::RST) && own.isn.is_some() {
            own.acked_to_host = own.acked_to_host.later_of(tcp.ack);
            let scale = own.scale.and(peer.scale).unwrap_or_default();
            if is_accelerated && own.is_accelerated && !tcp.flags.contains(TcpFlags::SYN) {
                let edge = tcp.ack + scale.window(tcp.window);
                own.edge_to_host = Some(own.edge_to_host.map_or(edge, |told| told.later_of(edge)));
            } else if !own.is_accelerated && !tcp.flags.contains(TcpFlags::SYN) {
                own.window_before = own.window_before.max(scale.window(tcp.window));
            }
        }
        let debt = own.acked_to_host.distance_from(own.acked_by_peer).max(0).unsigned_abs();
        self.is_reset |= tcp.flags.contains(TcpFlags::RST);
        Bytes::from(debt)
    }
}

#[cfg(test)]
#[path = "checks/tests.rs"]
mod tests;
/// A client may be asked by an echo request what has arrived.
fn is_echo_request(bytes: &[u8], packet: &Packet) -> bool {
    let Transport::Icmp(icmp) = &packet.transport else { return false };
    let kind = if packet.ip.src.is_ipv4() { 8 } else { 128 };
    icmp.icmp_type == kind && wire::ipv4_checksum_is_valid(bytes) && icmp.checksum_is_valid(bytes, &packet.ip)
}
