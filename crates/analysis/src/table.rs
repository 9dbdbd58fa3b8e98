//! [`Analyzer`]: all flows in progress.

use std::net::IpAddr;

use capture::Segment;
use foldhash::fast::FixedState;
use hashbrown::HashMap;
use units::{Duration, Instant};

use crate::flow::{Event, Flow};
use crate::report::FlowReport;

/// Receives what the analysis finds.
pub trait Sink {
    /// A flow has ended, or the capture has.
    fn on_flow(&mut self, flow: FlowReport);
    /// Something happened in a flow.
    fn on_event(&mut self, _event: &Event) {}
}

/// When flows end.
#[derive(Clone, Copy, Debug)]
pub struct Config {
    /// A flow without a packet for so long has ended.
    pub idle: Duration,
    /// A closed flow is kept for so long, to take late segments.
    pub linger: Duration,
}

impl Default for Config {
    fn default() -> Self {
        // Beyond the two hours of default keep-alives nobody waits; a closed flow's stragglers come within seconds.
        Self { idle: Duration::from_secs(15 * 60), linger: Duration::from_secs(10) }
    }
}

/// Slots looked at per packet when searching for flows that have ended: all of 65,536 in as many packets.
const SWEEP: usize = 1;

/// Two ends in a fixed order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Key {
    low: (u128, u16),
    high: (u128, u16),
}

/// Flows in progress, and what becomes of each segment.
pub struct Analyzer<S> {
    sink: S,
    config: Config,
    index: HashMap<Key, u32, FixedState>,
    slots: Vec<Option<(Key, Box<Flow>)>>,
    /// When each slot's flow ends if nothing comes.
    deadlines: Vec<Instant>,
    free: Vec<u32>,
    hand: usize,
    now: Instant,
    flows: u64,
    segments: u64,
}

impl<S: Sink> Analyzer<S> {
    /// An analysis without flows.
    pub fn new(config: Config, sink: S) -> Self {
        Self {
            sink,
            config,
            index: HashMap::with_hasher(FixedState::with_seed(0)),
            slots: Vec::new(),
            deadlines: Vec::new(),
            free: Vec::new(),
            hand: 0,
            now: Instant::ZERO,
            flows: 0,
            segments: 0,
        }
    }

    /// Segments taken so far.
    #[must_use]
    pub fn segments(&self) -> u64 {
        self.segments
    }

    /// Flows seen so far.
    #[must_use]
    pub fn flows(&self) -> u64 {
        self.flows
    }

    /// Flows in progress.
    #[must_use]
    pub fn in_progress(&self) -> usize {
        self.index.len()
    }

    /// Takes the next segment, captured at `time`.
    #[inline]
    pub fn handle_segment(&mut self, segment: &Segment, time: Instant) {
        self.segments += 1;
        self.now = self.now.max(time);
        self.sweep();
        let key = Key::of(segment);
        let slot = match self.index.get(&key) {
            Some(&slot) => self.same_or_new(slot as usize, key, segment, time),
            None => self.open(key, segment, time),
        };
        let Some((_, flow)) = self.slots.get_mut(slot).and_then(Option::as_mut) else { return };
        let direction = flow.direction(segment.ip.src, segment.tcp.src_port);
        let sink = &mut self.sink;
        flow.handle(direction, segment, time, &mut |event| sink.on_event(&event));
        let wait = if flow.is_closed() { self.config.linger } else { self.config.idle };
        if let Some(deadline) = self.deadlines.get_mut(slot) {
            *deadline = self.now + wait;
        }
    }

    /// The slot of a known pair of ends; a new flow if this segment opens one.
    #[inline]
    fn same_or_new(&mut self, slot: usize, key: Key, segment: &Segment, time: Instant) -> usize {
        let has_ended = self.deadlines.get(slot).is_some_and(|deadline| *deadline < self.now);
        let is_reopened = self.slots.get(slot).and_then(Option::as_ref).is_some_and(|(_, flow)| {
            let direction = flow.direction(segment.ip.src, segment.tcp.src_port);
            flow.is_reopened_by(direction, segment)
        });
        if !has_ended && !is_reopened {
            return slot;
        }
        self.close(slot);
        self.open(key, segment, time)
    }

    fn open(&mut self, key: Key, segment: &Segment, time: Instant) -> usize {
        let flow = Box::new(Flow::new(self.flows, segment, time));
        self.flows += 1;
        let slot = match self.free.pop() {
            Some(slot) => slot as usize,
            None => {
                self.slots.push(None);
                self.deadlines.push(Instant::ZERO);
                self.slots.len() - 1
            }
        };
        self.index.insert(key, slot as u32);
        self.slots[slot] = Some((key, flow));
        slot
    }

    fn close(&mut self, slot: usize) {
        let Some((key, mut flow)) = self.slots.get_mut(slot).and_then(Option::take) else { return };
        self.index.remove(&key);
        self.free.push(slot as u32);
        self.sink.on_flow(FlowReport::of(&mut flow));
    }

    /// Ends flows whose time has come; a few slots at each packet.
    #[inline]
    fn sweep(&mut self) {
        for _ in 0..SWEEP {
            self.hand = if self.hand + 1 < self.deadlines.len() { self.hand + 1 } else { 0 };
            let is_due = self.deadlines.get(self.hand).is_some_and(|deadline| *deadline < self.now);
            if is_due && self.slots[self.hand].is_some() {
                self.close(self.hand);
            }
        }
    }

    /// Ends all flows, in the order of their first packets, and gives the sink back.
    pub fn finish(mut self) -> S {
        let mut left: Vec<(u64, usize)> = Vec::new();
        for (slot, held) in self.slots.iter().enumerate() {
            left.extend(held.as_ref().map(|(_, flow)| (flow.id, slot)));
        }
        left.sort_unstable();
        for (_, slot) in left {
            self.close(slot);
        }
        self.sink
    }
}

impl Key {
    #[inline]
    fn of(segment: &Segment) -> Self {
        let source = (bits(segment.ip.src), segment.tcp.src_port);
        let destination = (bits(segment.ip.dst), segment.tcp.dst_port);
        if source <= destination {
            Self { low: source, high: destination }
        } else {
            Self { low: destination, high: source }
        }
    }
}

#[inline]
fn bits(address: IpAddr) -> u128 {
    match address {
        IpAddr::V4(v4) => v4.to_ipv6_mapped().to_bits(),
        IpAddr::V6(v6) => v6.to_bits(),
    }
}
