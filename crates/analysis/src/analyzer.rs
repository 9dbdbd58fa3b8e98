//! [`Analyzer`]: all flows in progress, in one thread.

use capture::Segment;
use units::Instant;

use crate::flow::Event;
use crate::packet::PacketView;
use crate::passage::Passage;
use crate::report::FlowReport;
use crate::table::{Config, Receiver, SHARDS, Table, shard_of};

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

/// Segments handled together.
pub(crate) const BATCH: usize = 32;

/// Flows in progress, and what becomes of each segment.
pub struct Analyzer<S> {
    out: Direct<S>,
    config: Config,
    tables: Vec<Table>,
    pending: Vec<Passage>,
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
    fn open(&mut self, _segment: u64) -> u64 {
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
            config,
            tables: (0..SHARDS).map(|_| Table::default()).collect(),
            pending: Vec::with_capacity(BATCH),
            segments: 0,
        }
    }

    /// Takes the next segment, captured at `time` at capture point `point`.
    ///
    /// A segment seen at two points belongs to two flows: together they would look like repetitions.
    #[inline]
    pub fn handle_segment(&mut self, point: u16, segment: &Segment, time: Instant) {
        self.pending.push(Passage::of(self.segments, point, segment, time));
        self.segments += 1;
        if self.pending.len() == BATCH {
            self.flush();
        }
    }

    /// Takes the next segments, in the order of their numbers. An analysis gets all its segments in one of the two ways.
    pub fn handle_passages(&mut self, passages: &[Passage]) {
        for batch in passages.chunks(BATCH) {
            handle_batch(&mut self.tables, &self.config, batch, &mut self.out);
        }
    }

    fn flush(&mut self) {
        handle_batch(&mut self.tables, &self.config, &self.pending, &mut self.out);
        self.pending.clear();
    }

    /// Ends all flows, in the order of their first packets, and gives the sink back.
    pub fn finish(mut self) -> S {
        self.flush();
        end_all(&mut self.tables, &mut self.out);
        self.out.sink
    }
}

/// Handles up to [`BATCH`] segments in their order; `tables` has a table for each shard that they belong to.
///
/// Looking for the flows of a whole batch at once lets the memory accesses of independent flows overlap, which are
/// most of the cost with many flows.
pub(crate) fn handle_batch(
    tables: &mut [Table],
    config: &Config,
    batch: &[Passage],
    out: &mut impl Receiver,
) {
    let mut slots = [None; BATCH];
    for (slot, segment) in slots.iter_mut().zip(batch) {
        *slot = tables.get(shard_of(segment)).and_then(|table| table.likely(segment));
    }
    let mut touched = 0;
    for (slot, segment) in slots.iter().zip(batch) {
        if let (Some(slot), Some(table)) = (slot, tables.get(shard_of(segment))) {
            touched ^= table.touch(*slot, segment);
        }
    }
    std::hint::black_box(touched);
    for (slot, segment) in slots.iter().zip(batch) {
        if let Some(table) = tables.get_mut(shard_of(segment)) {
            table.handle(config, segment, *slot, out);
        }
    }
}

/// Ends all flows, in the order of their numbers.
pub(crate) fn end_all(tables: &mut [Table], out: &mut impl Receiver) {
    let mut left: Vec<(u64, usize, usize)> = Vec::new();
    for (shard, table) in tables.iter().enumerate() {
        left.extend(table.left().map(|(id, slot)| (id, shard, slot)));
    }
    left.sort_unstable();
    for (_, shard, slot) in left {
        tables[shard].end(slot, out);
    }
}
