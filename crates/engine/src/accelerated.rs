//! An accelerated flow: a receiver that faces the server, a sender that faces the client, and what must be
//! known of each side's headers to speak in the other's name.

use control::Controller;
use tcp::{Receiver, Sender, SenderConfig, StreamBuffer};
use units::{Bytes, Duration, Instant, SeqNum, WindowScale};
use wire::{Ip, Tcp, TcpFlags};

use crate::hand_back::HandBack;
use crate::handshake::Agreement;
use crate::path::Path;
use crate::spare::RingSize;
use crate::timer::Moment;
use crate::{EngineConfig, PassReason, Port};

/// Acknowledgements that make no sense, in a row, before a flow is given up.
const NONSENSE_MAX: u8 = 8;

/// How long data may come in behind a hole that is not filled. A server that lives retransmits within its time-out,
/// which RFC 6298 lets grow to 60 s, though not while data arrives.
const HOLE_MAX: Duration = Duration::from_secs(60);

/// Time between answers to unacceptable packets without data, per flow; that of Linux.
const CHALLENGE_INTERVAL: Duration = Duration::from_millis(500);

/// Segments that one time-out sends at most, if the controller has room for them. All that waits on the way to the client is
/// its own: what backs off there need not send less, only less often.
const TIMEOUT_SEGMENTS: u8 = 8;

/// MSS when the peer states none (RFC 9293 §3.7.1).
const MSS_DEFAULT_V4: u16 = 536;
const MSS_DEFAULT_V6: u16 = 1_220;

/// Least MSS of either side of a flow that is taken over, that of Linux (`TCP_MIN_MSS`): who says less would be sent more than that, or
/// more headers than data.
const MSS_MIN: u16 = 88;

/// Most payload of one segment, whatever the client says: with the longest headers it fits into a packet.
const MSS_MAX: u32 = 65_535 - 40 - 60;

/// How far beyond the server's window a client's number is believed: its end of stream, a probe, and windows that
/// we have not seen because they were told before we took over.
const BEYOND_WINDOW: u32 = 65_535;

/// The same where packets may have gone past us: a quarter of the circle.
const DOUBTFUL_MAX: u32 = 1 << 30;

/// How far behind what the server has acknowledged a packet of the client may come.
const LATE_MAX: u32 = 1 << 20;

/// How long a timestamp can be compared with a later one: a clock that counts microseconds has gone half its circle then.
/// RFC 7323 §5.5 says 24 days, for clocks that count milliseconds; Linux takes this time for all (`TCP_PAWS_WRAP`).
pub(crate) const TIMESTAMPS_HOLD: Duration = Duration::from_secs((1 << 31) / 1_000_000);

/// Bytes of the timestamps option with its padding.
const TIMESTAMPS_LEN: u32 = 12;

/// Header fields that are copied from one side's latest packet.
#[derive(Clone, Copy, Debug)]
pub(crate) struct IpTemplate {
    pub(crate) hop_limit: u8,
    /// Without the ECN bits: what we send is our own.
    pub(crate) traffic_class: u8,
    pub(crate) flow_label: u32,
    pub(crate) dont_fragment: bool,
    pub(crate) id: u16,
}

impl IpTemplate {
    fn of(ip: &Ip) -> Self {
        Self {
            hop_limit: ip.hop_limit,
            traffic_class: ip.traffic_class & !3,
            flow_label: ip.flow_label,
            dont_fragment: ip.dont_fragment,
            id: ip.id,
        }
    }

    pub(crate) fn refresh(&mut self, ip: &Ip) {
        let id = self.id;
        *self = Self::of(ip);
        self.id = id;
    }

    /// The next IPv4 identification for a packet of `segments` segments.
    pub(crate) fn next_id(&mut self, segments: u16) -> u16 {
        let id = self.id.wrapping_add(1);
        self.id = self.id.wrapping_add(segments.max(1));
        id
    }
}

/// What the client has sent so far: the source of packets made in its name.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ClientSide {
    pub(crate) ip: IpTemplate,
    /// Number of its SYN.
    pub(crate) isn: SeqNum,
    /// One past the highest number it has sent.
    pub(crate) nxt: SeqNum,
    /// Newest TSval it has used.
    pub(crate) tsval: u32,
    /// One past its FIN, once sent.
    pub(crate) fin_end: Option<SeqNum>,
}

/// What the server has sent so far: the source of packets made in its name.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ServerSide {
    pub(crate) ip: IpTemplate,
    /// Highest number of the client it has acknowledged.
    pub(crate) ack: SeqNum,
    /// Its window field, as stated.
    pub(crate) window: u16,
    /// One past the last number of the client it has ever allowed.
    pub(crate) edge: SeqNum,
    /// Newest TSval it has used.
    pub(crate) tsval: u32,
    /// Newest TSecr it has echoed.
    pub(crate) tsecr: u32,
    /// It echoes congestion to the client.
    pub(crate) ece: bool,
    /// One past the last byte it marked urgent.
    pub(crate) urgent_end: Option<SeqNum>,
    /// One past the last byte it pushed.
    pub(crate) push_end: SeqNum,
}

/// Packets that wait to be made.
#[derive(Clone, Copy, Default, Debug)]
pub(crate) struct Outbox {
    /// An acknowledgement for the server.
    pub(crate) ack_server: bool,
    /// A server acknowledgement or window that the client has not been told.
    pub(crate) ack_client: bool,
    /// A reset for the server: the client is gone.
    pub(crate) reset_server: bool,
    /// A reset for the client: the server is gone and the debt is paid, or given up.
    pub(crate) reset_client: bool,
}

impl Outbox {
    /// Nothing but an acknowledgement for the client waits.
    pub(crate) fn is_only_for_client(self) -> bool {
        self.ack_client && !(self.ack_server || self.reset_server || self.reset_client)
    }

    pub(crate) fn is_empty(self) -> bool {
        !(self.ack_server || self.ack_client || self.reset_server || self.reset_client)
    }
}

/// How often memory that a flow did not need is given back while others are in use: each time what is kept is copied.
const TRIM_EVERY: Duration = Duration::from_secs(1);

/// A flow whose delivery is ours.
#[derive(Debug)]
pub(crate) struct Accelerated {
    pub(crate) buffer: StreamBuffer,
    /// How much memory its buffer last had, if not much.
    pub(crate) ring: RingSize,
    /// When memory it did not need is given back next.
    trims_at: Instant,
    pub(crate) receiver: Receiver,
    pub(crate) sender: Sender,
    pub(crate) client: ClientSide,
    pub(crate) server: ServerSide,
    pub(crate) has_timestamps: bool,
    pub(crate) has_ecn: bool,
    pub(crate) client_scale: WindowScale,
    pub(crate) server_scale: WindowScale,
    /// The server's data was marked CE and it has not answered with CWR (RFC 3168 §6.1.3).
    pub(crate) echo_congestion: bool,
    pub(crate) outbox: Outbox,
    /// The server reset the flow while there was debt.
    pub(crate) server_reset: bool,
    /// Highest number acknowledged to the server.
    pub(crate) acked_to_server: SeqNum,
    /// Deficit round robin.
    pub(crate) deficit: i32,
    pub(crate) in_round: bool,
    /// When it last had nothing to send.
    pub(crate) left_round: Moment,
    /// When the client last acknowledged something, or had nothing to acknowledge.
    pub(crate) last_progress: Instant,
    pub(crate) is_draining: bool,
    /// Why it is to leave the table, once nothing is owed: it does not behave.
    pub(crate) leaves_for: Option<PassReason>,
    /// What has to be known before it leaves the table.
    pub(crate) hand_back: HandBack,
    /// Packets of it may have gone another way, past us: what its hosts say of each other is believed.
    pub(crate) is_doubtful: bool,
    /// Acknowledgements in a row that make no sense.
    pub(crate) nonsense: u8,
    /// Round trip to the server by the handshake, in microseconds; zero when it is not known.
    wired_rtt_us: u32,
    /// When a packet without data that was not acceptable was last answered.
    pub(crate) challenged: Moment,
    /// Since when the same hole in the server's data has been open.
    pub(crate) hole_since: Moment,
    /// The flow was silent for so long that the newest timestamp of its client, and of its server, says nothing any more.
    are_timestamps_old: [bool; 2],
    /// Both directions have ended; retransmissions are still answered.
    pub(crate) is_closed: bool,
}

impl Accelerated {
    /// Takes over a flow with the packet that completed its handshake, sent by the client if `by_client`.
    pub(crate) fn new(
        agreement: &Agreement,
        config: &EngineConfig,
        (ip, tcp): (&Ip, &Tcp),
        by_client: bool,
        now: Instant,
    ) -> Self {
        let Agreement { client, server } = agreement;
        let start = server.isn + 1;
        let scale = agreement.client_scale();
        let window = if by_client { scale.window(tcp.window) } else { client.granted };
        let mss = agreed_mss(agreement, ip.src.is_ipv4());
        let mut template = IpTemplate::of(ip);
        template.id = 0;
        let has_timestamps = agreement.timestamps();
        Self {
            buffer: StreamBuffer::new(start),
            ring: RingSize::default(),
            trims_at: now + TRIM_EVERY,
            // What the server was told so far. The window of the packet that completes the handshake is replaced by
            // ours before the server sees it, so it promises nothing.
            receiver: Receiver::new(
                start,
                client.granted,
                agreement.sack(),
                server.timestamp.filter(|_| has_timestamps),
            ),
            sender: Sender::new(SenderConfig {
                start,
                mss,
                sack: agreement.sack(),
                window,
                policy: config.window_policy,
                rto_max: config.rto_max,
                timeout_segments: TIMEOUT_SEGMENTS,
            }),
            client: ClientSide {
                ip: template,
                isn: client.isn,
                nxt: client.isn + 1,
                tsval: client.timestamp.unwrap_or(0),
                fin_end: None,
            },
            server: ServerSide {
                ip: template,
                ack: client.isn + 1,
                window: server.window,
                edge: client.isn + 1 + server.granted,
                tsval: server.timestamp.unwrap_or(0),
                tsecr: client.timestamp.unwrap_or(0),
                ece: false,
                urgent_end: None,
                push_end: start,
            },
            has_timestamps,
            has_ecn: agreement.ecn(),
            client_scale: scale,
            server_scale: agreement.server_scale(),
            echo_congestion: false,
            outbox: Outbox::default(),
            server_reset: false,
            acked_to_server: start,
            deficit: 0,
            in_round: false,
            left_round: Moment::NEVER,
            last_progress: now,
            is_draining: false,
            leaves_for: None,
            hand_back: HandBack::new(false),
            is_doubtful: false,
            nonsense: 0,
            wired_rtt_us: 0,
            hole_since: Moment::NEVER,
            challenged: Moment::NEVER,
            are_timestamps_old: [false; 2],
            is_closed: false,
        }
    }

    /// Gives back memory that the buffer did not need of late.
    pub(crate) fn trim(&mut self, now: Instant) {
        if now >= self.trims_at {
            self.trims_at = now + TRIM_EVERY;
            self.buffer.trim();
        }
    }

    /// Bytes of options on every segment.
    pub(crate) fn options_len(&self) -> u32 {
        if self.has_timestamps { TIMESTAMPS_LEN } else { 0 }
    }

    /// Bytes acknowledged to the server that the client has not acknowledged.
    pub(crate) fn debt(&self) -> u32 {
        self.acked_to_server.distance_from(self.sender.una()).max(0).unsigned_abs()
    }

    /// True when nothing is held for the client: everything it sees is what the server sent.
    pub(crate) fn is_even(&self) -> bool {
        self.sender.una().is_at_or_after(self.receiver.next())
    }

    /// True while something waits for the client's acknowledgement, be it only the server's FIN.
    pub(crate) fn owes(&self) -> bool {
        !(self.is_even() && self.sender.is_idle())
    }

    /// Takes in the round trip to the server.
    pub(crate) fn set_wired_rtt(&mut self, rtt: Duration) {
        self.wired_rtt_us = u32::try_from(rtt.as_micros()).unwrap_or(u32::MAX);
    }

    fn wired_rtt(&self) -> Duration {
        Duration::from_micros(u64::from(self.wired_rtt_us))
    }

    /// Bytes of buffer the server may still fill: twice the path's, plus a floor, less what is held; or \[WA\] (8).
    fn free_window(&self, config: &EngineConfig, path: &Path) -> u32 {
        if let Some(q20) = config.waiting_target {
            return self.window_by_controller(q20, config, path);
        }
        let sent = Bytes::from(self.sender.nxt().distance_from(self.sender.una()).max(0).unsigned_abs());
        let needs = path.needs(self.sender.rtt().smoothed(), self.wired_rtt(), sent);
        // One unit of the client's scale is the least that can be said; with less the server would wait for ever.
        let unit = Bytes::new(1 << self.client_scale.shift());
        // All of it may have to be held: what there is no memory for would be lost, and the server slow down for it.
        let target =
            (needs + config.window_floor).min(path.memory_limit).min(config.window_max).max(unit + unit);
        let held = self.receiver.next().distance_from(self.sender.una()).max(0).unsigned_abs();
        target.saturating_sub(Bytes::from(held)).get().min(u64::from(u32::MAX / 4)) as u32
    }

    /// aw = w − q2 + q20, \[WA\] (8): w is the flow's share of the controller's window, q2 what waits here for its turn.
    fn window_by_controller(&self, q20: Bytes, config: &EngineConfig, path: &Path) -> u32 {
        let share = path.controller.control().window.get() / u64::from(path.flows.max(1));
        let waiting = self.receiver.next().distance_from(self.sender.nxt()).max(0).unsigned_abs();
        let held = self.receiver.next().distance_from(self.sender.una()).max(0).unsigned_abs();
        let most = config.window_max.min(path.memory_limit).saturating_sub(Bytes::from(held));
        let window = Bytes::new(share.saturating_add(q20.get())).saturating_sub(Bytes::from(waiting));
        // One unit of the client's scale is the least that can be said: none while that would be too much.
        window.min(most).get().min(u64::from(u32::MAX / 4)) as u32
    }

    /// The window field for the server, noted as told.
    ///
    /// Where nothing more is taken, nothing more is allowed: what the client would not take of it once the flow is
    /// handed back would be lost.
    pub(crate) fn offer_window(&mut self, config: &EngineConfig, path: &Path) -> u16 {
        let free = if self.is_draining { 0 } else { self.free_window(config, path) };
        self.receiver.window_field(free, self.client_scale)
    }

    /// True when the server should hear that its window has grown: it may be about to run out of it.
    pub(crate) fn wants_window_update(&self, config: &EngineConfig, path: &Path) -> bool {
        if self.is_draining || self.server_reset || self.receiver.is_finished() {
            return false;
        }
        let free = self.free_window(config, path);
        // Only what the field can say: the same window again is no update, and may count as a duplicate.
        let free = self.client_scale.window(self.client_scale.field(free));
        let growth = self.receiver.window_growth(free);
        let left = self.receiver.right_edge().distance_from(self.receiver.highest()).max(0).unsigned_abs();
        let mss = self.sender.mss();
        // RFC 9293 §3.8.6.2.2: where two segments are more than half of all there is, half is enough.
        let half = (config.window_max.get() / 2).clamp(1, u64::from(u32::MAX)) as u32;
        growth >= half.min(2 * mss) && (left < growth || left < 4 * mss)
    }

    /// The acknowledgement number for the server, noted as told.
    pub(crate) fn acknowledge(&mut self) -> SeqNum {
        let ack = self.receiver.ack();
        self.acked_to_server = self.acked_to_server.later_of(ack);
        ack
    }

    /// After [`TIMESTAMPS_HOLD`] of silence: what comes next tells the time anew.
    pub(crate) fn outdate_timestamps(&mut self) {
        self.are_timestamps_old = [true; 2];
    }

    /// Takes the server's time from a packet that is acceptable, where the time known is too old to judge it by.
    pub(crate) fn renew_server_timestamp(&mut self, tcp: &Tcp) {
        if self.are_timestamps_old[1]
            && let Some(timestamps) = tcp.options.timestamps
        {
            self.are_timestamps_old[1] = false;
            (self.server.tsval, self.server.tsecr) = (timestamps.value, timestamps.echo);
            self.receiver.renew_timestamp(timestamps.value);
        }
    }

    /// Follows the client's latest packet, whose number is one of the client's.
    pub(crate) fn note_client(&mut self, ip: &Ip, tcp: &Tcp) {
        self.client.ip.refresh(ip);
        let end = tcp.seq_end();
        // Within what the server allows, probes and the end of the stream included: a stray number must not drag
        // ours along.
        if end.is_after(self.client.nxt) && end.is_at_or_before(self.client_limit()) {
            self.client.nxt = end;
        }
        if tcp.flags.contains(TcpFlags::FIN) {
            self.client.fin_end = Some(end);
        }
        if let Some(timestamps) = tcp.options.timestamps {
            let is_old = std::mem::take(&mut self.are_timestamps_old[0]);
            let newest = later_timestamp(self.client.tsval, timestamps.value);
            self.client.tsval = if is_old { timestamps.value } else { newest };
        }
    }

    /// True when the client may have sent this number lately: with any other one a packet's acknowledgement is not
    /// believed (RFC 9293 §3.10.7.4, RFC 5961 §5).
    pub(crate) fn is_client_number(&self, seq: SeqNum) -> bool {
        seq.is_at_or_after(self.server.ack - LATE_MAX) && seq.is_at_or_before(self.client_limit())
    }

    /// The highest number of the client that is believed.
    fn client_limit(&self) -> SeqNum {
        // What the server has allowed meanwhile we may not have seen.
        let beyond = if self.is_doubtful { DOUBTFUL_MAX } else { BEYOND_WINDOW };
        self.server.edge + beyond
    }

    /// Has it handed back as soon as nothing is owed: packets of it may have gone past us.
    pub(crate) fn doubt(&mut self) {
        self.is_doubtful = true;
        self.give_up(PassReason::Desynchronised);
    }

    /// Takes in a packet of the server of a flow in doubt. What lies before its number went past us or is lost: it is not
    /// waited for, since the client may have it.
    fn doubt_server(&mut self, tcp: &Tcp) {
        if tcp.seq.is_after(self.receiver.next()) {
            self.hand_back = HandBack::new(false);
        }
        if let Some(timestamps) = tcp.options.timestamps {
            self.client.tsval = later_timestamp(self.client.tsval, timestamps.echo);
        }
        if tcp.flags.contains(TcpFlags::ACK) && tcp.ack.is_at_or_before(self.client_limit()) {
            self.client.nxt = self.client.nxt.later_of(tcp.ack);
        }
    }

    /// Takes in a packet of the client of a flow in doubt: it has heard what time it is at the server.
    fn doubt_client(&mut self, tcp: &Tcp) {
        if let Some(timestamps) = tcp.options.timestamps
            && tcp.flags.contains(TcpFlags::ACK)
        {
            self.server.tsval = later_timestamp(self.server.tsval, timestamps.echo);
        }
    }

    /// Takes in what a packet that came in at `from` tells of those that went past us, if there were such.
    pub(crate) fn judge_doubt(&mut self, tcp: &Tcp, from: Port) {
        let is_plain = !tcp.flags.intersects(TcpFlags::SYN.with(TcpFlags::RST));
        match from {
            Port::Wired if self.is_doubtful && is_plain => self.doubt_server(tcp),
            Port::Mobile if self.is_doubtful && is_plain => self.doubt_client(tcp),
            _ => {}
        }
    }

    /// True when the server has sent this before something that has already arrived (RFC 7323 §5): its window, above
    /// all, is no longer true. With our newer TSval in it the client would believe it.
    pub(crate) fn is_overtaken(&self, tcp: &Tcp) -> bool {
        self.has_timestamps
            && tcp.options.timestamps.is_some_and(|t| (t.value.wrapping_sub(self.server.tsval) as i32) < 0)
    }

    /// Follows the server's latest packet; true when it acknowledges or allows something new.
    pub(crate) fn note_server(&mut self, ip: &Ip, tcp: &Tcp) -> bool {
        if self.is_overtaken(tcp) {
            return false;
        }
        self.server.ip.refresh(ip);
        if let Some(timestamps) = tcp.options.timestamps {
            self.server.tsval = later_timestamp(self.server.tsval, timestamps.value);
            self.server.tsecr = later_timestamp(self.server.tsecr, timestamps.echo);
        }
        if !tcp.flags.contains(TcpFlags::ACK)
            || tcp.ack.is_before(self.server.ack)
            || tcp.ack.is_after(self.client.nxt)
        {
            return false;
        }
        let ece = tcp.flags.contains(TcpFlags::ECE);
        let is_news =
            tcp.ack != self.server.ack || tcp.window != self.server.window || ece != self.server.ece;
        self.server.ack = tcp.ack;
        self.server.window = tcp.window;
        self.server.edge = self.server.edge.later_of(tcp.ack + self.server_scale.window(tcp.window));
        self.server.ece = ece;
        is_news
    }

    /// Takes on nothing more and leaves the table once nothing is owed.
    pub(crate) fn give_up(&mut self, reason: PassReason) {
        self.is_draining = true;
        self.leaves_for.get_or_insert(reason);
    }

    /// True when nothing is left to do for it but to let its hosts go on; its last packet came at `last_activity`.
    pub(crate) fn may_leave(&mut self, last_activity: Instant, now: Instant) -> bool {
        let has_work = !self.is_draining || self.owes() || !self.outbox.is_empty();
        if has_work {
            return false;
        }
        let client_edge = self.sender.una() + self.sender.window();
        let fits = self.receiver.right_edge().is_before(client_edge) || self.receiver.is_finished();
        fits || !self.takes_allowed() || self.hand_back.is_due(&self.receiver, last_activity, now)
    }

    /// True when it drains, and takes what was allowed before it did.
    pub(crate) fn takes_allowed(&self) -> bool {
        // What does not retransmit would be waited for in vain.
        self.hand_back.takes_allowed() && self.leaves_for != Some(PassReason::NotTcpLike)
    }

    /// True when one more answer to an unacceptable packet without data is due: two hosts that disagree would answer
    /// each other for ever (RFC 5961 §10).
    pub(crate) fn may_challenge(&mut self, now: Instant) -> bool {
        let is_due = self.challenged.get().is_none_or(|at| now.saturating_since(at) >= CHALLENGE_INTERVAL);
        if is_due {
            self.challenged = Moment::at(now);
        }
        is_due
    }

    /// Notes an acknowledgement that makes no sense, or one that does; gives up after a few in a row (H12, H27).
    pub(crate) fn judge_sense(&mut self, nonsense: Option<PassReason>) {
        let Some(reason) = nonsense else {
            self.nonsense = 0;
            return;
        };
        self.nonsense = self.nonsense.saturating_add(1);
        if self.nonsense >= NONSENSE_MAX {
            self.give_up(reason);
        }
    }

    /// Follows the oldest hole in the server's data; gives up on one that nobody fills while data goes on to come:
    /// whatever this is, it does not retransmit (H27).
    pub(crate) fn judge_hole(&mut self, has_advanced: bool, now: Instant) {
        if has_advanced || !self.receiver.has_holes() {
            self.hole_since = if self.receiver.has_holes() { Moment::at(now) } else { Moment::NEVER };
            return;
        }
        let since = self.hole_since.get().unwrap_or(now);
        self.hole_since = Moment::at(since);
        if now.saturating_since(since) >= HOLE_MAX {
            self.give_up(PassReason::NotTcpLike);
        }
    }

    /// True when a SYN opens the ports anew: after the end, or when the client has forgotten the connection and
    /// nothing is owed to it. The server's answer to a new SYN would otherwise be taken for its old one (H26).
    ///
    /// A late copy of the client's first SYN opens nothing: what else is still under way would pass with old timestamps (H28).
    pub(crate) fn gives_way_to(&self, syn: &Tcp, from: Port) -> bool {
        let by_client = from == Port::Mobile;
        if by_client && syn.seq == self.client.isn {
            return false;
        }
        self.is_closed || (by_client && self.is_even() && self.sender.is_idle())
    }

    /// True when the stream of each direction has ended and both sides know.
    pub(crate) fn has_ended(&self) -> bool {
        self.receiver.acks_fin() && self.client.fin_end.is_some_and(|end| self.server.ack.is_at_or_after(end))
    }
}

/// Payload of the largest segment towards the client, options deducted.
///
/// What the server can take fits its way to us, and its own segments would be no larger. A client that can take more, by
/// jumbo frames or a number made for the other IP version, says nothing about the way to it.
pub(crate) fn agreed_mss(agreement: &Agreement, is_v4: bool) -> u32 {
    let options_len = if agreement.timestamps() { TIMESTAMPS_LEN } else { 0 };
    u32::from(stated_mss(agreement, is_v4).max(MSS_MIN)).saturating_sub(options_len).min(MSS_MAX)
}

fn stated_mss(agreement: &Agreement, is_v4: bool) -> u16 {
    let default = if is_v4 { MSS_DEFAULT_V4 } else { MSS_DEFAULT_V6 };
    agreement.client.mss.unwrap_or(default).min(agreement.server.mss.unwrap_or(u16::MAX))
}

/// True when segments would be too short to be worth it.
pub(crate) fn has_tiny_segments(agreement: &Agreement, is_v4: bool) -> bool {
    stated_mss(agreement, is_v4) < MSS_MIN
}

/// The later of two timestamps on their circle (RFC 7323 §5.2).
pub(crate) fn later_timestamp(a: u32, b: u32) -> u32 {
    if (b.wrapping_sub(a) as i32) > 0 { b } else { a }
}
