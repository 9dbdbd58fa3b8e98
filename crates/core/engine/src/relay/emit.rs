//! Packets of our own making: their headers, from what each side has sent so far.

use tcp::Transmission;
use units::SeqNum;
use wire::{BuildError, EmittedHeader, IpVersion, TcpFlags, TcpHeaderSpec, Timestamps, VirtioNetHeader};

use super::Relay;
use super::accurate_ecn::AccurateEcn;
use super::departure::Departure;
use super::sides::{IpTemplate, Outbox};
use crate::direction::End;
use crate::key::FlowKey;
use crate::pass::PassReason;
use crate::segment::Context;

/// Room for any IP and TCP header.
pub(crate) type HeaderBuffer = [u8; TcpHeaderSpec::MAX_LEN];

/// Congestion experienced, in the ECN field (RFC 3168 §5).
const CE: u8 = 3;

/// Distance by which the number of a question lies back: before any window.
const QUESTION_BEHIND: u32 = 1 << 30;

/// SACK blocks that fit beside timestamps, and without them (RFC 2018 §3).
const BLOCKS_WITH_TIMESTAMPS: usize = 3;
const BLOCKS_ALONE: usize = 4;
/// And how many fewer beside byte counters of accurate ECN.
const BLOCKS_FOR_COUNTERS: usize = 2;

/// A packet without data, of our own making.
#[derive(Debug)]
pub(crate) struct ControlPacket {
    pub(crate) to: End,
    /// Its header lies in the buffer; none where it cannot be built.
    pub(crate) header: Option<EmittedHeader>,
    /// The flow leaves the table with it.
    pub(crate) end: Option<PassReason>,
}

impl Relay {
    /// Packets that wait to be made.
    pub(crate) fn outbox(&self) -> Outbox {
        let has_mark = |accurate_ecn: &AccurateEcn| accurate_ecn.has_mark_for_sink();
        // Without SACK an acknowledgement that says nothing new would count as a duplicate (RFC 5681 §2).
        let mark_sink = self.receiver.has_sack() && self.accurate_ecn.as_deref().is_some_and(has_mark);
        Outbox { mark_sink, ..self.outbox }
    }

    /// Makes one of the control packets that wait.
    pub(crate) fn make_control(
        &mut self,
        key: &FlowKey,
        departure: Option<&Departure>,
        cx: &mut Context<'_>,
        buf: &mut HeaderBuffer,
    ) -> Option<ControlPacket> {
        let pending = self.outbox();
        let (to, made, end) = if pending.reset_source {
            self.outbox.reset_source = false;
            (End::Source, self.reset_for_source(key, buf), None)
        } else if pending.reset_sink {
            cx.stats.bytes_acked_but_lost += u64::from(self.debt());
            let reason = if self.source_reset { PassReason::Reset } else { PassReason::ClientGone };
            (End::Sink, self.reset_for_sink(key, buf), Some(reason))
        } else if pending.ack_source {
            self.outbox.ack_source = false;
            cx.stats.acks_made += 1;
            (End::Source, self.ack_for_source(key, departure, cx, buf), None)
        } else if pending.mark_sink {
            self.outbox.ack_sink = false;
            (End::Sink, self.mark_for_sink(key, buf), None)
        } else if pending.ack_sink {
            self.outbox.ack_sink = false;
            (End::Sink, self.ack_for_sink(key, buf), None)
        } else {
            return None;
        };
        Some(ControlPacket { to, header: made.ok(), end })
    }

    /// An acknowledgement for the source, in the sink's name.
    fn ack_for_source(
        &mut self,
        key: &FlowKey,
        departure: Option<&Departure>,
        cx: &Context<'_>,
        buf: &mut HeaderBuffer,
    ) -> Result<EmittedHeader, BuildError> {
        let (ack, window) = self.acknowledge(departure, cx);
        self.outbox.ack_source = ack.is_before(self.receiver.ack_number());
        let flags = if self.echo_congestion { TcpFlags::ACK.with(TcpFlags::ECE) } else { TcpFlags::ACK };
        let mut spec = self.spec_of_sink(key, flags);
        let mut room = if self.agreed.timestamps { BLOCKS_WITH_TIMESTAMPS } else { BLOCKS_ALONE };
        if let Some(accurate_ecn) = self.accurate_ecn.as_deref_mut() {
            let has_blocks = self.receiver.has_holes() || self.receiver.has_d_sack();
            spec.ecn_byte_counters = accurate_ecn.bytes_beside(has_blocks);
            if spec.ecn_byte_counters.is_some() {
                room -= BLOCKS_FOR_COUNTERS;
            }
            accurate_ecn.tell(End::Source, &mut spec, true);
        }
        if !departure.is_some_and(Departure::is_doubtful) {
            // What the sink has sent beyond the source's window may have been discarded there, and with its
            // number our acknowledgement would be, too (Linux `tcp_acceptable_seq`).
            spec.seq = self.sink.nxt.earlier_of(self.source.edge);
        }
        spec.ack = ack;
        spec.window = window;
        spec.sack = self.receiver.sack_blocks(room);
        if self.agreed.timestamps {
            let echo = self.receiver.ts_recent().unwrap_or(0);
            spec.timestamps = Some(Timestamps { value: self.sink.tsval, echo });
        }
        spec.emit_partial(buf, 0)
    }

    /// A question for a host, where it is; `tsval` is the newest time that its peer is said to have used.
    pub(crate) fn question(&mut self, key: &FlowKey, to: End, tsval: Option<u32>) -> TcpHeaderSpec {
        let (mut spec, acked) = match to {
            End::Source => {
                let mut spec = self.spec_of_sink(key, TcpFlags::ACK);
                let echo = self.receiver.ts_recent().unwrap_or(0);
                spec.timestamps =
                    self.agreed.timestamps.then_some(Timestamps { value: self.sink.tsval, echo });
                (spec, self.source.ack)
            }
            End::Sink => (self.spec_of_source(key, TcpFlags::ACK, 1), self.sender.una()),
        };
        if let Some(accurate_ecn) = self.accurate_ecn.as_deref_mut() {
            accurate_ecn.tell(to, &mut spec, false);
        }
        if let (Some(timestamps), Some(value)) = (spec.timestamps.as_mut(), tsval) {
            timestamps.value = value;
        }
        question(spec, acked)
    }

    /// A reset for the source, in the sink's name, with the number the source expects next (RFC 5961 §3).
    fn reset_for_source(
        &mut self,
        key: &FlowKey,
        buf: &mut HeaderBuffer,
    ) -> Result<EmittedHeader, BuildError> {
        let mut spec = self.spec_of_sink(key, TcpFlags::RST.with(TcpFlags::ACK));
        spec.seq = self.source.ack;
        spec.ack = self.receiver.ack_number();
        spec.emit_partial(buf, 0)
    }

    fn spec_of_sink(&mut self, key: &FlowKey, flags: TcpFlags) -> TcpHeaderSpec {
        let (seq, ack) = (self.sink.nxt, self.receiver.next());
        let spec = TcpHeaderSpec::new(key.sink(), key.source(), seq, ack, flags);
        with_template(spec, &mut self.sink.ip, 1)
    }

    /// The source's latest acknowledgement, for the sink, when no data is about to carry it.
    fn ack_for_sink(&mut self, key: &FlowKey, buf: &mut HeaderBuffer) -> Result<EmittedHeader, BuildError> {
        self.bare_spec_of_source(key).emit_partial(buf, 0)
    }

    /// The same, marked CE as a packet of the source was that did not reach the sink (RFC 9768 §3.2.2: it counts).
    fn mark_for_sink(&mut self, key: &FlowKey, buf: &mut HeaderBuffer) -> Result<EmittedHeader, BuildError> {
        let nxt = self.sender.nxt();
        if let Some(accurate_ecn) = self.accurate_ecn.as_deref_mut() {
            accurate_ecn.pass_mark_on(nxt);
        }
        let mut spec = self.bare_spec_of_source(key);
        spec.traffic_class |= CE;
        spec.emit_partial(buf, 0)
    }

    fn bare_spec_of_source(&mut self, key: &FlowKey) -> TcpHeaderSpec {
        let mut spec = self.spec_of_source(key, TcpFlags::ACK, 1);
        spec.seq = self.sender.nxt();
        if let Some(accurate_ecn) = self.accurate_ecn.as_deref_mut() {
            spec.ecn_byte_counters = accurate_ecn.bytes_for_sink();
            accurate_ecn.tell(End::Sink, &mut spec, true);
        }
        spec
    }

    /// A reset for the sink, in the source's name, with the number the sink expects next (H4).
    fn reset_for_sink(&mut self, key: &FlowKey, buf: &mut HeaderBuffer) -> Result<EmittedHeader, BuildError> {
        let mut spec = self.spec_of_source(key, TcpFlags::RST.with(TcpFlags::ACK), 1);
        spec.seq = self.sender.una();
        spec.emit_partial(buf, 0)
    }

    /// Data, a FIN or a probe for the sink; it carries the source's latest acknowledgement.
    pub(crate) fn make_data(
        &mut self,
        key: &FlowKey,
        transmission: &Transmission,
        buf: &mut HeaderBuffer,
    ) -> Option<(VirtioNetHeader, EmittedHeader)> {
        let header = self.data_header(key, transmission, buf).ok()?;
        self.outbox.ack_sink =
            self.accurate_ecn.as_deref_mut().is_some_and(|accurate_ecn| accurate_ecn.is_behind(End::Sink));
        let mss = self.sender.mss();
        let virtio = if transmission.len > mss {
            let version = if key.is_ipv4() { IpVersion::V4 } else { IpVersion::V6 };
            VirtioNetHeader::for_tcp_gso(version, header.transport_offset, header.len, mss as u16)
        } else {
            VirtioNetHeader::for_partial_checksum(header.transport_offset)
        };
        Some((virtio, header))
    }

    fn data_header(
        &mut self,
        key: &FlowKey,
        transmission: &Transmission,
        buf: &mut HeaderBuffer,
    ) -> Result<EmittedHeader, BuildError> {
        let end = transmission.seq + transmission.len;
        let push_end = self.source.push_end;
        let mut flags = TcpFlags::ACK;
        let is_pushed = transmission.seq.is_before(push_end) && !push_end.is_after(end);
        let empties = end == self.receiver.next();
        if transmission.len > 0 && (is_pushed || empties) {
            flags = flags.with(TcpFlags::PSH);
        }
        if transmission.fin {
            flags = flags.with(TcpFlags::FIN);
        }
        let segments = transmission.len.div_ceil(self.sender.mss().max(1)).max(1);
        let mut spec = self.spec_of_source(key, flags, segments.min(u32::from(u16::MAX)) as u16);
        if let Some(accurate_ecn) = self.accurate_ecn.as_deref_mut() {
            accurate_ecn.tell(End::Sink, &mut spec, false);
        }
        spec.seq = transmission.seq;
        if let Some(marks) = self.sink_marks.as_deref_mut()
            && transmission.len > 0
            && !transmission.is_retransmission
        {
            let (ect, says_cwr) = marks.for_data(end);
            spec.traffic_class |= ect;
            if says_cwr {
                spec.flags = spec.flags.with(TcpFlags::CWR);
            }
        }
        if let Some(urgent_end) = self.source.urgent_end.filter(|end| transmission.seq.is_before(*end)) {
            spec.flags = spec.flags.with(TcpFlags::URG);
            spec.urgent = urgent_end.since(transmission.seq).min(u32::from(u16::MAX)) as u16;
        }
        spec.emit_partial(buf, transmission.len as usize)
    }

    fn spec_of_source(&mut self, key: &FlowKey, flags: TcpFlags, segments: u16) -> TcpHeaderSpec {
        let echoes = self.source.ece && self.accurate_ecn.is_none();
        let flags = if echoes { flags.with(TcpFlags::ECE) } else { flags };
        let timestamps = Timestamps { value: self.source.tsval, echo: self.source.tsecr };
        let spec = TcpHeaderSpec {
            window: self.source.window,
            timestamps: self.agreed.timestamps.then_some(timestamps),
            ..TcpHeaderSpec::new(key.source(), key.sink(), self.sender.nxt(), self.source.ack, flags)
        };
        with_template(spec, &mut self.source.ip, segments)
    }
}

/// Makes a question of an acknowledgement to a host that has acknowledged all up to `acked`: its number is so old that
/// the host answers wherever it is, and takes nothing from it (RFC 9293 §3.10.7.4). Where both agreed on timestamps the
/// host must not have seen a later one: Linux from 6.14 on does not answer such an acknowledgement
/// (`tcp_disordered_ack_check`).
pub(crate) fn question(spec: TcpHeaderSpec, acked: SeqNum) -> TcpHeaderSpec {
    TcpHeaderSpec { seq: acked - QUESTION_BEHIND, ..spec }
}

/// The IP fields of one side's latest packet, for a packet of `segments` segments in its name.
pub(crate) fn with_template(spec: TcpHeaderSpec, ip: &mut IpTemplate, segments: u16) -> TcpHeaderSpec {
    TcpHeaderSpec {
        hop_limit: ip.hop_limit,
        traffic_class: ip.traffic_class,
        flow_label: ip.flow_label,
        dont_fragment: ip.dont_fragment,
        id: ip.next_id(segments),
        ..spec
    }
}
