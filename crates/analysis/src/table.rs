//! [`Analyzer`]: all flows in progress.

use std::collections::VecDeque;
use std::net::IpAddr;

use capture::Segment;
use foldhash::fast::FixedState;
use hashbrown::HashMap;
use units::{Duration, Instant};
use wire::TcpFlags;

use crate::flow::{Event, Flow};
use crate::packet::PacketView;
use crate::report::FlowReport;

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

/// When flows end.
#[derive(Clone, Copy, Debug)]
pub struct Config {
    /// A flow without a packet for so long has ended.
    pub idle: Duration,
    /// A closed flow is kept for so long, to take late segments.
    pub linger: Duration,
    /// Number of the first flow.
    pub first_flow: u64,
}

impl Default for Config {
    fn default() -> Self {
        // Beyond the two hours of default keep-alives nobody waits; a closed flow's stragglers come within seconds.
        Self { idle: Duration::from_secs(15 * 60), linger: Duration::from_secs(10), first_flow: 0 }
    }
}

/// Closed flows kept for stragglers at most.
const LINGERING_MAX: usize = 4_096;

/// Slots looked at per packet when searching for flows that have ended: all of 65,536 in as many packets.
const SWEEP: usize = 1;

/// Two ends in a fixed order, packed: this is what a packet looks for among all flows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Key {
    low: [u64; 2],
    high: [u64; 2],
    ports: u32,
    point: u16,
}

/// Segments handled together.
const BATCH: usize = 32;

/// A segment of the batch.
struct Pending {
    segment: Segment,
    key: Key,
    time: Instant,
    /// Its flow's slot when the batch was looked up.
    slot: Option<u32>,
}

/// Flows in progress, and what becomes of each segment.
pub struct Analyzer<S> {
    sink: S,
    wants_packets: bool,
    /// Segments handled.
    segments: u64,
    config: Config,
    index: HashMap<Key, u32, FixedState>,
    slots: Vec<Option<Box<Flow>>>,
    /// When each slot's flow ends if nothing comes.
    deadlines: Vec<Instant>,
    free: Vec<u32>,
    /// Closed flows, oldest first: slot and number of the flow that was there.
    closed: VecDeque<(u32, u64)>,
    pending: Vec<Pending>,
    hand: usize,
    now: Instant,
    flows: u64,
}

impl<S: Sink> Analyzer<S> {
    /// An analysis without flows.
    pub fn new(config: Config, sink: S) -> Self {
        Self {
            wants_packets: sink.wants_packets(),
            segments: 0,
            sink,
            config,
            index: HashMap::with_hasher(FixedState::with_seed(0)),
            slots: Vec::new(),
            deadlines: Vec::new(),
            free: Vec::new(),
            closed: VecDeque::new(),
            pending: Vec::with_capacity(BATCH),
            hand: 0,
            now: Instant::ZERO,
            flows: config.first_flow,
        }
    }

    /// Takes the next segment, captured at `time` at capture point `point`.
    ///
    /// A segment seen at two points belongs to two flows: together they would look like repetitions.
    ///
    /// Segments are handled in batches, in their order: looking for the flows of a whole batch at once lets the memory
    /// accesses of independent flows overlap, which are most of the cost with many flows.
    #[inline]
    pub fn handle_segment(&mut self, point: u16, segment: &Segment, time: Instant) {
        self.pending.push(Pending { segment: *segment, key: Key::of(point, segment), time, slot: None });
        if self.pending.len() == BATCH {
            self.flush();
        }
    }

    fn flush(&mut self) {
        let mut pending = std::mem::take(&mut self.pending);
        for one in &mut pending {
            one.slot = self.index.get(&one.key).copied();
        }
        let mut touched = 0;
        for slot in pending.iter().filter_map(|one| one.slot) {
            touched ^= self.slots.get(slot as usize).and_then(Option::as_deref).map_or(0, Flow::touch);
        }
        std::hint::black_box(touched);
        pending.iter().for_each(|one| self.handle(one));
        pending.clear();
        self.pending = pending;
    }

    fn handle(&mut self, one: &Pending) {
        let (segment, time) = (&one.segment, one.time);
        self.now = self.now.max(time);
        self.sweep();
        let is_there = |slot: &u32| {
            self.slots.get(*slot as usize).and_then(Option::as_ref).is_some_and(|flow| flow.key == one.key)
        };
        // What was found for the batch may have ended since, or begun.
        let slot = match one.slot.filter(is_there).or_else(|| self.index.get(&one.key).copied()) {
            Some(slot) => self.same_or_new(slot as usize, one.key, segment, time),
            None => self.open(one.key, segment, time),
        };
        let Some(flow) = self.slots.get_mut(slot).and_then(Option::as_mut) else { return };
        let direction = flow.direction(segment.ip.src, segment.tcp.src_port);
        let sink = &mut self.sink;
        let seen = flow.handle(direction, segment, time, &mut |event| sink.on_event(&event));
        if self.wants_packets {
            sink.on_packet(&PacketView::of(flow, direction, segment, time, self.segments, seen));
        }
        self.segments += 1;
        let is_closed = flow.is_closed();
        let closes_now = is_closed && !flow.lingers;
        let id = flow.id;
        flow.lingers = is_closed;
        let wait = if is_closed { self.config.linger } else { self.config.idle };
        if let Some(deadline) = self.deadlines.get_mut(slot) {
            *deadline = self.now + wait;
        }
        if closes_now {
            self.linger(slot, id);
        }
    }

    /// Notes a flow that has just closed; the oldest such goes when there are too many.
    fn linger(&mut self, slot: usize, id: u64) {
        self.closed.push_back((slot as u32, id));
        if self.closed.len() <= LINGERING_MAX {
            return;
        }
        if let Some((slot, id)) = self.closed.pop_front()
            && self.slots[slot as usize].as_ref().is_some_and(|flow| flow.id == id)
        {
            self.close(slot as usize);
        }
    }

    /// The slot of a known pair of ends; a new flow if this segment opens one.
    #[inline]
    fn same_or_new(&mut self, slot: usize, key: Key, segment: &Segment, time: Instant) -> usize {
        let has_ended = self.deadlines.get(slot).is_some_and(|deadline| *deadline < self.now);
        let is_opening = segment.tcp.flags.contains(TcpFlags::SYN);
        if has_ended || (is_opening && self.is_reopened(slot, segment)) {
            self.close(slot);
            return self.open(key, segment, time);
        }
        slot
    }

    fn is_reopened(&self, slot: usize, segment: &Segment) -> bool {
        self.slots.get(slot).and_then(Option::as_ref).is_some_and(|flow| {
            let direction = flow.direction(segment.ip.src, segment.tcp.src_port);
            flow.is_reopened_by(direction, segment)
        })
    }

    fn open(&mut self, key: Key, segment: &Segment, time: Instant) -> usize {
        let flow = Box::new(Flow::new(self.flows, key, segment, time));
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
        self.slots[slot] = Some(flow);
        slot
    }

    fn close(&mut self, slot: usize) {
        let Some(mut flow) = self.slots.get_mut(slot).and_then(Option::take) else { return };
        self.index.remove(&flow.key);
        self.free.push(slot as u32);
        self.sink.on_flow(&FlowReport::of(&mut flow));
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
        self.flush();
        let mut left: Vec<(u64, usize)> = Vec::new();
        for (slot, held) in self.slots.iter().enumerate() {
            left.extend(held.as_ref().map(|flow| (flow.id, slot)));
        }
        left.sort_unstable();
        for (_, slot) in left {
            self.close(slot);
        }
        self.sink
    }
}

impl Key {
    /// The capture point.
    pub(crate) fn point(&self) -> u16 {
        self.point
    }

    #[inline]
    fn of(point: u16, segment: &Segment) -> Self {
        let source = (bits(segment.ip.src), segment.tcp.src_port);
        let destination = (bits(segment.ip.dst), segment.tcp.dst_port);
        let (low, high) = if source <= destination { (source, destination) } else { (destination, source) };
        let ports = (u32::from(low.1) << 16) | u32::from(high.1);
        Self { low: low.0, high: high.0, ports, point }
    }
}

/// An address as IPv6, IPv4 mapped into it.
#[inline]
fn bits(address: IpAddr) -> [u64; 2] {
    match address {
        IpAddr::V4(v4) => [0, (0xffff << 32) | u64::from(v4.to_bits())],
        IpAddr::V6(v6) => [(v6.to_bits() >> 64) as u64, v6.to_bits() as u64],
    }
}
