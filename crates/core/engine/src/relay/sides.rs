//! State of each host of a relayed flow by what it has sent: packets are made in its name for the other.

use stored::Rare;
use tcp::ReturnDelay;
use units::SeqNum;
use wire::{Ip, Tcp, TcpFlags};

use super::acceptance::AckRange;
use crate::handshake::Offer;
use crate::timestamp::{is_earlier, later_of};

/// Header fields that are copied from one side's latest packet.
#[derive(Clone, Copy, Debug, stored::Stored)]
pub(crate) struct IpTemplate {
    pub(crate) hop_limit: u8,
    /// Traffic class without the ECN bits: what we send is our own.
    pub(crate) traffic_class: u8,
    pub(crate) flow_label: u32,
    pub(crate) dont_fragment: bool,
    pub(super) id: u16,
}

impl IpTemplate {
    /// Takes the fields of `ip`, with identifications of its own.
    pub(super) fn of(ip: &Ip) -> Self {
        Self {
            hop_limit: ip.hop_limit,
            traffic_class: ip.traffic_class & !3,
            flow_label: ip.flow_label,
            dont_fragment: ip.dont_fragment,
            id: 0,
        }
    }

    fn refresh(&mut self, ip: &Ip) {
        *self = Self { id: self.id, ..Self::of(ip) };
    }

    /// The next IPv4 identification for a packet of `segments` segments.
    pub(super) fn next_id(&mut self, segments: u16) -> u16 {
        let id = self.id.wrapping_add(1);
        self.id = self.id.wrapping_add(segments.max(1));
        id
    }
}

/// State of what the sink has sent so far: the origin of packets made in its name.
#[derive(Clone, Debug, stored::Stored)]
pub(crate) struct SinkSide {
    pub(super) ip: IpTemplate,
    /// Number of its SYN.
    pub(super) isn: SeqNum,
    /// One past the highest number it has sent.
    pub(super) nxt: SeqNum,
    /// Range of its acknowledgements: how far back they may lie.
    pub(super) acks: AckRange,
    /// Newest TSval it has used.
    pub(super) tsval: u32,
    /// The flow was silent for so long that this TSval says nothing any more.
    pub(super) is_tsval_old: bool,
    /// One past its FIN, once sent.
    pub(super) fin_end: Option<SeqNum>,
    /// Newest TSval that the source has surely taken: its TS.Recent is no older. Never further behind `tsval` than
    /// [`nothing_taken`].
    pub(super) taken_tsval: u32,
    /// Its way to us.
    #[stored(since(5, Rare::default()))]
    pub(super) return_delay: Rare<ReturnDelay>,
}

impl SinkSide {
    /// State after the handshake; `window` is the sink's, bytes.
    pub(super) fn new(sink: &Offer, ip: IpTemplate, window: u32) -> Self {
        let tsval = sink.timestamp.unwrap_or(0);
        Self {
            ip,
            isn: sink.isn,
            nxt: sink.isn + 1,
            acks: AckRange::new(sink.granted.max(window)),
            tsval,
            taken_tsval: nothing_taken(tsval),
            is_tsval_old: false,
            fin_end: None,
            return_delay: Rare::default(),
        }
    }

    /// Notes what numbers an acceptable segment takes up: they are believed up to `limit`.
    ///
    /// One without data takes up none (Linux moves RCV.NXT by nothing else), unless `may_skip`.
    // Each packet comes through here: a call would cost as much again.
    #[inline(always)]
    pub(super) fn note_numbers(&mut self, tcp: &Tcp, limit: SeqNum, may_skip: bool) {
        let end = tcp.seq_end();
        // Within what the source allows, probes and the end of the stream included: a stray number
        // must not drag ours along.
        if end.is_after(limit) || !(tcp.segment_len() > 0 || may_skip) {
            return;
        }
        self.nxt = self.nxt.later_of(end);
        // Behind the end of a stream there is nothing.
        self.fin_end = self.fin_end.filter(|fin_end| !end.is_after(*fin_end));
        if tcp.flags.contains(TcpFlags::FIN) && end == self.nxt {
            self.fin_end = Some(end);
        }
    }

    /// Follows its latest packet's headers and time.
    // Each packet comes through here: a call would cost as much again.
    #[inline(always)]
    pub(super) fn note(&mut self, ip: &Ip, tcp: &Tcp, source_ack: SeqNum) {
        self.ip.refresh(ip);
        let Some(timestamps) = tcp.options.timestamps else { return };
        if std::mem::take(&mut self.is_tsval_old) {
            (self.tsval, self.taken_tsval) = (timestamps.value, nothing_taken(timestamps.value));
        }
        self.tsval = later_of(self.tsval, timestamps.value);
        // A sink that never pauses has always more under way than the source has acknowledged: what it says now must
        // not come to lie before what it said long ago.
        let known =
            if tcp.seq.is_at_or_before(source_ack) { timestamps.value } else { nothing_taken(self.tsval) };
        self.taken_tsval = later_of(self.taken_tsval, known);
    }

    /// True when it has sent this before something that has already arrived.
    pub(super) fn has_overtaken(&self, tcp: &Tcp) -> bool {
        tcp.options.timestamps.is_some_and(|t| !self.is_tsval_old && is_earlier(t.value, self.tsval))
    }

    /// True when the source would reject what goes beyond the `source_ack` that it has acknowledged, because
    /// it has taken a later TSval (RFC 7323 §5.3). We write a newer one into it, so it cannot tell any more.
    pub(super) fn is_too_old(&self, tcp: &Tcp) -> bool {
        let tsval = tcp.options.timestamps.filter(|_| !self.is_tsval_old).map(|t| t.value);
        tsval.is_some_and(|tsval| is_earlier(tsval, self.taken_tsval))
    }
}

/// Value for the newest TSval taken of a host that is at `tsval`, while none is known: it is older than all
/// that may still come.
pub(super) const fn nothing_taken(tsval: u32) -> u32 {
    tsval.wrapping_sub(1 << 30)
}

/// State of what the source has sent so far: the origin of packets made in its name.
#[derive(Clone, Copy, Debug, stored::Stored)]
pub(crate) struct SourceSide {
    pub(super) ip: IpTemplate,
    /// Highest number of the sink it has acknowledged.
    pub(super) ack: SeqNum,
    /// Its window field, as stated.
    pub(super) window: u16,
    /// One past the last number of the sink it has ever allowed.
    pub(super) edge: SeqNum,
    /// Newest TSval it has used.
    pub(super) tsval: u32,
    /// The flow was silent for so long that this TSval says nothing any more.
    pub(super) is_tsval_old: bool,
    /// Newest TSecr it has echoed.
    pub(super) tsecr: u32,
    /// It echoes congestion to the sink.
    pub(super) ece: bool,
    /// One past the last byte it marked urgent.
    pub(super) urgent_end: Option<SeqNum>,
    /// One past the last byte it pushed.
    pub(super) push_end: SeqNum,
    /// Range of its acknowledgements: how far back they may lie.
    pub(super) acks: AckRange,
    /// Number of the segment that stated it (`SND.WL1`).
    pub(super) window_seq: SeqNum,
}

impl SourceSide {
    /// State after the handshake.
    pub(super) fn new(source: &Offer, sink: &Offer, ip: IpTemplate) -> Self {
        Self {
            ip,
            ack: sink.isn + 1,
            acks: AckRange::new(source.granted),
            window: source.window,
            window_seq: source.isn,
            edge: sink.isn + 1 + source.granted,
            tsval: source.timestamp.unwrap_or(0),
            is_tsval_old: false,
            tsecr: sink.timestamp.unwrap_or(0),
            ece: false,
            urgent_end: None,
            push_end: source.isn + 1,
        }
    }

    /// True when it has sent this before something that has already arrived (RFC 7323 §5): its
    /// window, above all, is no longer true. With our newer TSval in it the sink would believe it.
    pub(super) fn has_overtaken(&self, tcp: &Tcp) -> bool {
        tcp.options.timestamps.is_some_and(|t| is_earlier(t.value, self.tsval))
    }

    /// Takes its time from a packet that is acceptable, where the time known is too old to judge it
    /// by; that time then.
    pub(super) fn renew_time(&mut self, tcp: &Tcp) -> Option<u32> {
        let timestamps = tcp.options.timestamps.filter(|_| self.is_tsval_old)?;
        self.is_tsval_old = false;
        (self.tsval, self.tsecr) = (timestamps.value, timestamps.echo);
        Some(timestamps.value)
    }

    /// Follows its latest packet's headers, and its time if the packet `reaches` back to what was
    /// acknowledged to it last (RFC 7323 §4.3). It echoes nothing newer than what the sink has used,
    /// `sink_tsval`.
    pub(super) fn note(&mut self, ip: &Ip, tcp: &Tcp, reaches: bool, sink_tsval: u32) {
        self.ip.refresh(ip);
        let Some(timestamps) = tcp.options.timestamps else { return };
        if reaches {
            self.tsval = later_of(self.tsval, timestamps.value);
        }
        if !is_earlier(sink_tsval, timestamps.echo) {
            self.tsecr = later_of(self.tsecr, timestamps.echo);
        }
    }

    /// Takes in the acknowledgement of a segment of which no later one has come; `window` are the bytes that
    /// it allows. True when it says something new.
    ///
    /// Its window is news unless a later one has come (RFC 9293 §3.10.7.4, as [`tcp::Sender`] has it).
    pub(super) fn note_ack(&mut self, tcp: &Tcp, window: u32) -> bool {
        let is_advance = tcp.ack.is_after(self.ack);
        let ece = tcp.flags.contains(TcpFlags::ECE);
        let mut is_news = is_advance || ece != self.ece;
        if is_advance || tcp.seq.is_at_or_after(self.window_seq) {
            is_news |= tcp.window != self.window;
            (self.window, self.window_seq) = (tcp.window, tcp.seq);
            self.edge = self.edge.later_of(tcp.ack + window);
            self.acks.note_allowed(window);
        }
        self.acks.note_acked(tcp.ack.since(self.ack));
        self.ack = tcp.ack;
        self.ece = ece;
        is_news
    }

    /// Notes where data that was taken is pushed or urgent: `len` bytes of payload.
    pub(super) fn note_marks(&mut self, tcp: &Tcp, len: u32) {
        if tcp.flags.contains(TcpFlags::PSH) {
            self.push_end = self.push_end.later_of(tcp.seq + len);
        }
        if tcp.flags.contains(TcpFlags::URG) {
            self.urgent_end = Some(tcp.seq + u32::from(tcp.urgent));
        }
    }
}

/// Packets that wait to be made.
#[derive(Clone, Copy, Default, Debug, stored::Stored)]
pub(crate) struct Outbox {
    /// An acknowledgement for the source.
    pub(crate) ack_source: bool,
    /// An acknowledgement or window of the source's that the sink has not been told.
    pub(crate) ack_sink: bool,
    /// A reset for the source: the sink is gone.
    pub(crate) reset_source: bool,
    /// A reset for the sink: the source is gone and the debt is paid, or given up.
    pub(crate) reset_sink: bool,
    /// An acknowledgement for the sink that is marked CE, as packets of the source were ([`super::accurate_ecn`]).
    #[stored(since(7, false))]
    pub(crate) mark_sink: bool,
}

impl Outbox {
    /// Nothing but an acknowledgement for the sink waits.
    pub(crate) const fn is_only_for_sink(self) -> bool {
        self.ack_sink && !(self.ack_source || self.reset_source || self.reset_sink || self.mark_sink)
    }

    pub(crate) const fn is_empty(self) -> bool {
        !(self.ack_source || self.ack_sink || self.reset_source || self.reset_sink || self.mark_sink)
    }
}
