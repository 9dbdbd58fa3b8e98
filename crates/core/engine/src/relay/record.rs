//! A relay as a [`FlowRecord`], and a relay that goes on where another one died.

use control::{Known, SendStamp};
use tcp::{FlightBefore, NoMemory, Receiver, Ring, Sender, SenderConfig, StreamBuffer};
use units::SeqNum;

use super::acceptance::AckRange;
use super::accurate_ecn::AccurateEcn;
use super::conduct::Conduct;
use super::sides::{IpTemplate, Outbox, SinkSide, SourceSide, nothing_taken};
use super::sink_marks::SinkMarks;
use super::{Agreed, Relay, TIMEOUT_SEGMENTS, TRIM_EVERY};
use crate::config::{ClientEcn, EngineConfig};
use crate::memory::buffer_pool::RingSize;
use crate::path::turns::Turn;
use crate::record::{FlowRecord, Mark};

impl Relay {
    /// Record that another process needs to go on with it.
    pub(crate) fn record(&self) -> FlowRecord {
        let Self { agreed, sink, source, sender, receiver, .. } = self;
        let srtt = self.srtt().map_or(0, |srtt| u32::try_from(srtt.as_micros()).unwrap_or(u32::MAX));
        let mut record = FlowRecord {
            scales: u32::from(agreed.sink_scale.shift())
                | u32::from(agreed.source_scale.shift()) << 8
                | self.accurate_ecn.as_deref().map_or(0, AccurateEcn::word) << 16,
            mss: sender.mss(),
            una: sender.una().get(),
            nxt: sender.nxt().get(),
            sink_window: sender.window(),
            srtt_us: srtt,
            source_rtt_us: self.source_rtt_us,
            told: self.acked_to_source.get(),
            sink_isn: sink.isn.get(),
            sink_nxt: sink.nxt.get(),
            sink_most_allowed: sink.acks.most_allowed,
            sink_tsval: sink.tsval,
            sink_fin_end: sink.fin_end.map_or(0, SeqNum::get),
            sink_ip: sink.ip.word(),
            sink_label: sink.ip.flow_label,
            source_ack: source.ack.get(),
            source_edge: source.edge.get(),
            source_window: u32::from(source.window),
            source_tsval: source.tsval,
            source_tsecr: source.tsecr,
            source_urgent_end: source.urgent_end.map_or(0, SeqNum::get),
            source_push_end: source.push_end.get(),
            source_ip: source.ip.word(),
            source_label: source.ip.flow_label,
            ..FlowRecord::default()
        };
        record.keep_known(&Known { round_trip: self.rtt_min(), rate: None });
        record.keep_promises(&receiver.promises());
        record.keep_place(self.buffer.place());
        let marks = [
            (Mark::Timestamps, agreed.timestamps),
            (Mark::Ecn, agreed.ecn),
            (Mark::Sack, receiver.has_sack()),
            (Mark::UplinkOfBoth, self.is_uplink_of_both),
            (Mark::EchoesCongestion, self.echo_congestion),
            (Mark::SourceReset, self.source_reset),
            (Mark::Aborted, self.is_aborted()),
            (Mark::SinkTimeOld, sink.is_tsval_old),
            (Mark::SourceTimeOld, source.is_tsval_old),
            (Mark::SourceEce, source.ece),
            (Mark::SinkFin, sink.fin_end.is_some()),
            (Mark::Urgent, source.urgent_end.is_some()),
            (Mark::SinkDontFragment, sink.ip.dont_fragment),
            (Mark::SourceDontFragment, source.ip.dont_fragment),
            (Mark::AccurateEcn, self.accurate_ecn.is_some()),
        ];
        for (mark, is_so) in marks {
            record.set(mark, is_so);
        }
        record
    }

    /// Goes on where the relay ended that `record` tells of. Its memory is found where `origin` comes from;
    /// `stamp` is of now. Both sides hear where it stands: the sink by its oldest segment, the source by an
    /// acknowledgement.
    ///
    /// # Errors
    /// When its bytes are not to be found, or the record makes no sense.
    pub(crate) fn recovered(
        record: &FlowRecord,
        origin: &Ring,
        config: &EngineConfig,
        stamp: SendStamp,
    ) -> Result<Self, NoMemory> {
        if !record.makes_sense() {
            return Err(NoMemory);
        }
        let next = SeqNum::new(record.next);
        let buffer = match record.place() {
            Some(place) => StreamBuffer::found(&place, next, origin)?,
            None if SeqNum::new(record.una).is_before(next) => return Err(NoMemory),
            None => StreamBuffer::with_ring(next, origin.without_memory()),
        };
        Ok(Self::going_on(record, buffer, FlightBefore::Suspect, config, stamp))
    }

    /// The same in another box, to which `held` has come: what the sink has not acknowledged. What was under way is so
    /// still: the sink is sent what follows it.
    ///
    /// # Errors
    /// When there is no memory for it, or it is not what the record speaks of.
    pub(crate) fn moved(
        record: &FlowRecord,
        held: &[u8],
        origin: &Ring,
        config: &EngineConfig,
        stamp: SendStamp,
    ) -> Result<Self, NoMemory> {
        let (start, end) = record.held();
        if !record.makes_sense() || end.since(start) as usize != held.len() {
            return Err(NoMemory);
        }
        let mut buffer = StreamBuffer::with_ring(start, origin.without_memory());
        buffer.write(start, held)?;
        Ok(Self::going_on(record, buffer, FlightBefore::Arrives, config, stamp))
    }

    fn going_on(
        record: &FlowRecord,
        buffer: StreamBuffer,
        flight: FlightBefore,
        config: &EngineConfig,
        stamp: SendStamp,
    ) -> Self {
        let now = stamp.sent_at;
        let sack = record.is(Mark::Sack);
        let sender = SenderConfig {
            start: SeqNum::new(record.una),
            mss: record.mss,
            sack,
            window: record.sink_window,
            peer_seq: SeqNum::new(record.source_ack),
            policy: config.window_policy,
            rto_max: config.rto_max,
            timeout_segments: TIMEOUT_SEGMENTS,
        };
        let [sink_scale, source_scale] = record.window_scales();
        let mut relay = Self {
            buffer,
            ring: RingSize::default(),
            trims_at: now + TRIM_EVERY,
            receiver: Receiver::resumed(&record.promises(), sack),
            sender: Sender::resumed(sender, record.sent_before(flight), stamp),
            sink: record.sink_side(),
            source: record.source_side(),
            agreed: Agreed {
                timestamps: record.is(Mark::Timestamps),
                ecn: record.is(Mark::Ecn),
                sink_scale,
                source_scale,
            },
            is_uplink_of_both: record.is(Mark::UplinkOfBoth),
            outbox: Outbox { ack_source: !record.is(Mark::SourceReset), ..Outbox::default() },
            echo_congestion: record.is(Mark::EchoesCongestion),
            source_reset: record.is(Mark::SourceReset),
            acked_to_source: SeqNum::new(record.told),
            turn: Turn::default(),
            conduct: Conduct::default(),
            last_progress: record.times(now)[0],
            source_rtt_us: record.source_rtt_us,
            accurate_ecn: record.is(Mark::AccurateEcn).then(|| {
                let mut known = AccurateEcn::of_word(record.scales >> 16, SeqNum::new(record.nxt));
                known.is_sink_ect = config.client_ecn != ClientEcn::NotEct;
                Box::new(known)
            }),
            sink_marks: SinkMarks::of(config.client_ecn, record.is(Mark::Ecn), record.is(Mark::AccurateEcn)),
        };
        // The reset may have waited for its turn, or have been made and never left.
        relay.outbox.reset_sink = relay.source_reset && relay.sender.is_data_acked();
        if record.is(Mark::Aborted) {
            relay.abort();
        }
        relay
    }

    /// Data that it holds in order and the sink has not acknowledged, from `from` on, `len_max` bytes at
    /// most: where that begins which is not acknowledged, where the bytes do, and the bytes.
    pub(crate) fn held_from(&self, from: Option<SeqNum>, len_max: usize) -> (SeqNum, SeqNum, Vec<u8>) {
        let next = self.receiver.next();
        // The end of the stream has a number, too, and no byte.
        let una = if self.sender.una().is_after(next) { next } else { self.sender.una() };
        let from = from.filter(|from| from.is_after(una) && !from.is_after(next)).unwrap_or(una);
        let (a, b) = self.slices(from, (next.since(from) as usize).min(len_max));
        (una, from, [a, b].concat())
    }

    /// Number of those bytes.
    pub(crate) fn held_len(&self) -> u64 {
        let (una, next) = (self.sender.una(), self.receiver.next());
        if una.is_after(next) { 0 } else { u64::from(next.since(una)) }
    }
}

impl IpTemplate {
    /// All but the flow label and "don't fragment", as a word.
    fn word(self) -> u32 {
        u32::from(self.hop_limit) | u32::from(self.traffic_class) << 8 | u32::from(self.id) << 16
    }

    /// Identifications go on with a gap, for what was sent and not recorded any more.
    fn of_word(word: u32, flow_label: u32, dont_fragment: bool) -> Self {
        const GAP: u16 = 1_024;
        Self {
            hop_limit: word as u8,
            traffic_class: (word >> 8) as u8,
            flow_label,
            dont_fragment,
            id: ((word >> 16) as u16).wrapping_add(GAP),
        }
    }
}

impl FlowRecord {
    fn sink_side(&self) -> SinkSide {
        SinkSide {
            ip: IpTemplate::of_word(self.sink_ip, self.sink_label, self.is(Mark::SinkDontFragment)),
            isn: SeqNum::new(self.sink_isn),
            nxt: SeqNum::new(self.sink_nxt),
            // How much it has acknowledged nobody has written down.
            acks: AckRange { most_allowed: self.sink_most_allowed, ..AckRange::UNKNOWN },
            tsval: self.sink_tsval,
            taken_tsval: nothing_taken(self.sink_tsval),
            is_tsval_old: self.is(Mark::SinkTimeOld),
            fin_end: self.is(Mark::SinkFin).then_some(SeqNum::new(self.sink_fin_end)),
            return_delay: stored::Rare::default(),
        }
    }

    fn source_side(&self) -> SourceSide {
        SourceSide {
            ip: IpTemplate::of_word(self.source_ip, self.source_label, self.is(Mark::SourceDontFragment)),
            ack: SeqNum::new(self.source_ack),
            acks: AckRange::UNKNOWN,
            window_seq: SeqNum::new(self.told),
            window: self.source_window as u16,
            edge: SeqNum::new(self.source_edge),
            tsval: self.source_tsval,
            is_tsval_old: self.is(Mark::SourceTimeOld),
            tsecr: self.source_tsecr,
            ece: self.is(Mark::SourceEce),
            urgent_end: self.is(Mark::Urgent).then_some(SeqNum::new(self.source_urgent_end)),
            push_end: SeqNum::new(self.source_push_end),
        }
    }
}
