//! [`Part`] and [`FindingMerger`]: one analysis divided among threads, with the same result as
//! [`crate::Analyzer`]'s.
//!
//! The caller reads the segments, gives each to the part of [`part_of`], and hands what the parts find back
//! in rounds: a round is any number of segments that follow each other, the same for all parts. No thread is
//! started here.

use foldhash::fast::FixedState;
use hashbrown::HashMap;

use crate::analyzer::{BATCH, Flows, Sink};
use crate::event::Event;
use crate::packet::PacketView;
use crate::report::FlowReport;
use crate::segment_record::SegmentRecord;
use crate::table::{Config, Receiver, SHARDS, shard_of};

/// Number of the part, of `parts`, that takes this segment: the one that has its flow.
#[inline]
#[must_use]
pub fn part_of(segment: &SegmentRecord, parts: usize) -> usize {
    shard_of(segment) % parts.max(1)
}

/// Most parts that have something to do.
pub const PARTS_MAX: usize = SHARDS;

/// FindingKind a part has found.
#[derive(Debug)]
pub struct Finding {
    /// The segment at which; the last number for the end of the capture.
    segment: u64,
    what: FindingKind,
}

#[derive(Debug)]
enum FindingKind {
    /// By the segment with this number.
    Opened {
        first: u64,
    },
    Flow(Box<FlowReport>),
    Event(Event),
}

impl Finding {
    /// The order in which one thread alone would find it.
    fn place(&self) -> (u64, u64) {
        match &self.what {
            FindingKind::Flow(flow) if self.segment == u64::MAX => (self.segment, flow.id),
            _ => (self.segment, 0),
        }
    }
}

/// The flows of some shards; numbers them by their first segments until [`FindingMerger`] knows better.
#[derive(Debug)]
pub struct Part {
    config: Config,
    flows: Flows,
    found: Collected,
}

#[derive(Debug, Default)]
struct Collected(Vec<Finding>);

impl Receiver for Collected {
    fn open(&mut self, segment: u64, first: u64) -> u64 {
        self.0.push(Finding { segment, what: FindingKind::Opened { first } });
        first
    }
    fn on_flow(&mut self, segment: u64, flow: FlowReport) {
        self.0.push(Finding { segment, what: FindingKind::Flow(Box::new(flow)) });
    }
    fn on_event(&mut self, segment: u64, event: Event) {
        self.0.push(Finding { segment, what: FindingKind::Event(event) });
    }
    fn wants_packets(&self) -> bool {
        false
    }
    fn on_packet(&mut self, _packet: &PacketView<'_>) {}
}

impl Part {
    /// A part without flows.
    #[must_use]
    pub fn new(config: Config) -> Self {
        Self { flows: Flows::new(&config), config, found: Collected::default() }
    }

    /// Takes this part's segments of a round, and gives what it found.
    pub fn handle(&mut self, segments: &[SegmentRecord]) -> Vec<Finding> {
        for batch in segments.chunks(BATCH) {
            self.flows.handle_batch(&self.config, batch, &mut self.found);
        }
        std::mem::take(&mut self.found.0)
    }

    /// Ends all flows.
    #[must_use]
    pub fn finish(mut self) -> Vec<Finding> {
        self.flows.end_all(&mut self.found);
        self.found.0
    }
}

/// Puts what the parts found into the order of one thread, and numbers the flows as one thread would.
pub struct FindingMerger<S> {
    sink: S,
    /// Numbers of flows in progress, by the numbers of their first segments.
    numbers: HashMap<u64, u64, FixedState>,
    flows: u64,
}

impl<S: Sink> FindingMerger<S> {
    /// Nothing gathered.
    pub fn new(config: Config, sink: S) -> Self {
        let numbers = HashMap::with_hasher(FixedState::with_seed(0));
        Self { sink, numbers, flows: config.first_flow }
    }

    /// Takes what all parts found in a round, each after the other, and leaves `found` empty.
    pub fn take(&mut self, found: &mut Vec<Finding>) {
        // FindingKind one part found at one segment stays in its order.
        found.sort_by_key(Finding::place);
        for Finding { what, .. } in found.drain(..) {
            match what {
                FindingKind::Opened { first } => {
                    self.numbers.insert(first, self.flows);
                    self.flows += 1;
                }
                FindingKind::Flow(mut flow) => {
                    flow.id = self.numbers.remove(&flow.id).unwrap_or(flow.id);
                    self.sink.on_flow(&flow);
                }
                FindingKind::Event(mut event) => {
                    event.flow = self.numbers.get(&event.flow).copied().unwrap_or(event.flow);
                    self.sink.on_event(&event);
                }
            }
        }
    }

    /// Gives the sink back.
    pub fn finish(self) -> S {
        self.sink
    }
}
