//! [`Analyzer`]: all flows in progress, in one thread.

use capture::Segment;
use units::Instant;

use crate::copies::Identity;
use crate::event::Event;
use crate::fetch::fetch_value;
use crate::packet::PacketView;
use crate::report::FlowReport;
use crate::segment_record::SegmentRecord;
use crate::slab::Slab;
use crate::table::{Config, Hint, Receiver, SHARDS, Table, shard_of};

/// Receives what the analysis finds.
pub trait Sink {
    /// A flow has ended, or the capture has.
    fn on_flow(&mut self, flow: &FlowReport);
    /// Something happened in a flow. What happens with a packet is told before the packet itself.
    fn on_event(&mut self, _event: &Event) {}
    /// True when [`Sink::on_packet`] is wanted; asked once, at the start.
    fn wants_packets(&self) -> bool {
        false
    }
    /// A packet was handled.
    fn on_packet(&mut self, _packet: &PacketView<'_>) {}
}

impl<S: Sink + ?Sized> Sink for &mut S {
    fn on_flow(&mut self, flow: &FlowReport) {
        (**self).on_flow(flow);
    }
    fn on_event(&mut self, event: &Event) {
        (**self).on_event(event);
    }
    fn wants_packets(&self) -> bool {
        (**self).wants_packets()
    }
    fn on_packet(&mut self, packet: &PacketView<'_>) {
        (**self).on_packet(packet);
    }
}

/// Segments whose flows are looked up together.
pub(crate) const BATCH: usize = 128;

/// Number of segments before its turn at which a segment's flow is fetched: as many as memory takes to answer.
const AHEAD: usize = 8;

/// Flows in progress, and what becomes of each segment.
pub struct Analyzer<S> {
    out: Direct<S>,
    config: Config,
    flows: Flows,
    pending: Vec<SegmentRecord>,
    /// Segments taken.
    segments: u64,
}

/// Numbers flows in the order of their first segments, and passes everything on at once.
struct Direct<S> {
    sink: S,
    wants_packets: bool,
    flows: u64,
}

impl<S: Sink> Receiver for Direct<S> {
    fn open(&mut self, _segment: u64, _first: u64) -> u64 {
        self.flows += 1;
        self.flows - 1
    }
    fn on_flow(&mut self, _segment: u64, flow: FlowReport) {
        self.sink.on_flow(&flow);
    }
    fn on_event(&mut self, _segment: u64, event: Event) {
        self.sink.on_event(&event);
    }
    fn wants_packets(&self) -> bool {
        self.wants_packets
    }
    fn on_packet(&mut self, packet: &PacketView<'_>) {
        self.sink.on_packet(packet);
    }
}

impl<S: Sink> Analyzer<S> {
    /// An analysis without flows.
    pub fn new(config: Config, sink: S) -> Self {
        Self {
            out: Direct { wants_packets: sink.wants_packets(), sink, flows: config.first_flow },
            flows: Flows::new(&config),
            config,
            pending: Vec::with_capacity(BATCH),
            segments: 0,
        }
    }

    /// Takes the next segment, captured at `time` at capture point `point`.
    ///
    /// A segment seen at two points belongs to two flows: together they would look like repetitions.
    #[inline]
    pub fn handle_segment(&mut self, point: u16, segment: &Segment, time: Instant) {
        self.pending.push(SegmentRecord::of(self.segments, point, segment, time));
        self.segments += 1;
        if self.pending.len() == BATCH {
            self.flush();
        }
    }

    /// Takes the next segments, in the order of their numbers. An analysis gets all its segments in one of
    /// the two ways.
    pub fn handle_records(&mut self, records: &[SegmentRecord]) {
        for batch in records.chunks(BATCH) {
            self.flows.handle_batch(&self.config, batch, &mut self.out);
        }
    }

    fn flush(&mut self) {
        self.flows.handle_batch(&self.config, &self.pending, &mut self.out);
        self.pending.clear();
    }

    /// Ends all flows, in the order of their first packets, and gives the sink back.
    pub fn finish(mut self) -> S {
        self.flush();
        self.flows.end_all(&mut self.out);
        self.out.sink
    }
}

/// Flows in progress of all shards, or of those of one part.
#[derive(Debug)]
pub(crate) struct Flows {
    tables: Vec<Table>,
    slab: Slab,
}

impl Flows {
    pub(crate) fn new(config: &Config) -> Self {
        Self { tables: (0..SHARDS).map(|_| Table::default()).collect(), slab: Slab::new(config.on_memory) }
    }

    /// Handles up to [`BATCH`] segments in their order.
    ///
    /// With many flows most of the cost is waiting for their state from memory. So their places are looked up
    /// for the whole batch at once, and what a segment will need of its flow is fetched some segments before its turn.
    pub(crate) fn handle_batch(&mut self, config: &Config, batch: &[SegmentRecord], out: &mut dyn Receiver) {
        let mut hints = [Hint::default(); BATCH];
        for (hint, segment) in hints.iter_mut().zip(batch) {
            let flow = self.tables.get(shard_of(segment)).and_then(|table| table.likely(segment));
            *hint = Hint { identity: Identity::of(segment), flow };
        }
        let of = |at: usize| Some((batch.get(at)?, *hints.get(at)?));
        for at in 0..AHEAD {
            self.fetch(config, of(at));
        }
        for (at, (segment, hint)) in batch.iter().zip(&hints).enumerate() {
            self.fetch(config, of(at + AHEAD));
            self.fetch_in_flight(config, of(at + AHEAD / 2));
            if let Some(table) = self.tables.get_mut(shard_of(segment)) {
                table.handle(&mut self.slab, config, segment, *hint, out);
            }
        }
    }

    /// Fetches what a segment will need of its flow, and of the packets seen.
    #[inline]
    fn fetch(&self, config: &Config, coming: Option<(&SegmentRecord, Hint)>) {
        let (Some(fetch), Some((segment, hint))) = (config.fetch, coming) else { return };
        if let Some(likely) = hint.flow
            && let Some(flow) = self.slab.get(likely.place)
        {
            flow.fetch_for(fetch, likely.direction, segment);
        }
        let table = self.tables.get(shard_of(segment));
        if let Some(head) = table.and_then(|table| table.place_among_copies(hint.identity)) {
            fetch_value(fetch, head);
        }
    }

    /// The same for segments in flight and for when the flow ends, whose places are known when the flow has
    /// come.
    #[inline]
    fn fetch_in_flight(&self, config: &Config, coming: Option<(&SegmentRecord, Hint)>) {
        if let (Some(fetch), Some((segment, hint))) = (config.fetch, coming)
            && let Some(likely) = hint.flow
            && let Some(flow) = self.slab.get(likely.place)
        {
            let table = self.tables.get(shard_of(segment));
            if let Some(deadline) = table.and_then(|table| table.deadline(flow.slot)) {
                fetch_value(fetch, deadline);
            }
            if let Some(segment) = flow.next_in_flight(likely.direction, segment) {
                fetch_value(fetch, segment);
            }
        }
    }

    /// Ends all flows, in the order of their numbers.
    pub(crate) fn end_all(&mut self, out: &mut dyn Receiver) {
        let mut left: Vec<(u64, usize, usize)> = Vec::new();
        for (shard, table) in self.tables.iter().enumerate() {
            left.extend(table.left(&self.slab).map(|(id, slot)| (id, shard, slot)));
        }
        left.sort_unstable();
        for (_, shard, slot) in left {
            self.tables[shard].end(&mut self.slab, slot, out);
        }
    }
}
