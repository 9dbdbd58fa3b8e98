//! [`Table`]: flows in progress of one shard.
//!
//! Flows are divided among a fixed number of shards by a hash of their ends, whatever the number of threads: when a
//! flow ends depends on its shard alone, so that the result is the same with one thread and with many.

use std::collections::VecDeque;

use hashbrown::HashTable;
use units::{Duration, Instant};
use wire::TcpFlags;

use crate::flow::{Event, Flow};
use crate::packet::PacketView;
use crate::passage::Passage;
use crate::report::FlowReport;

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

/// Shards, whatever the number of threads.
pub(crate) const SHARDS: usize = 16;

/// Closed flows of a shard kept for stragglers at most.
const LINGERING_MAX: usize = 4_096 / SHARDS;

/// Slots looked at per packet when searching for flows that have ended: all of 4,096 in as many packets of the shard.
const SWEEP: usize = 1;

/// Ended flows of a shard whose memory is kept for the next ones.
const SPARE_MAX: usize = 32;

/// The shard of a segment.
#[inline]
pub(crate) fn shard_of(segment: &Passage) -> usize {
    (segment.hash >> 28) as usize % SHARDS
}

/// Takes what a [`Table`] finds.
pub(crate) trait Receiver {
    /// A flow begins with the segment of this number; gives its own number.
    fn open(&mut self, segment: u64) -> u64;
    fn on_flow(&mut self, segment: u64, flow: FlowReport);
    fn on_event(&mut self, segment: u64, event: Event);
    fn wants_packets(&self) -> bool;
    fn on_packet(&mut self, packet: &PacketView<'_>);
}

/// Where a flow is, with a hash of its key: most look-ups end here.
#[derive(Clone, Copy, Debug)]
struct Entry {
    hash: u32,
    slot: u32,
}

impl Entry {
    /// Bits of all parts of the hash in all places.
    #[inline]
    fn spread(hash: u32) -> u64 {
        u64::from(hash).wrapping_mul(0x9e37_79b9_7f4a_7c15)
    }
}

/// Flows in progress of one shard.
#[derive(Debug, Default)]
pub(crate) struct Table {
    index: HashTable<Entry>,
    slots: Vec<Option<Box<Flow>>>,
    /// When each slot's flow ends if nothing comes.
    deadlines: Vec<Instant>,
    free: Vec<u32>,
    #[allow(clippy::vec_box)] // They come from boxes and go into boxes.
    spare: Vec<Box<Flow>>,
    /// Closed flows, oldest first: slot and number of the flow that was there.
    closed: VecDeque<(u32, u64)>,
    hand: usize,
    now: Instant,
}

impl Table {
    /// The slot that a segment's flow is most likely in.
    #[inline]
    pub(crate) fn likely(&self, segment: &Passage) -> Option<u32> {
        let found = self.index.find(Entry::spread(segment.hash), |entry| entry.hash == segment.hash);
        found.map(|entry| entry.slot)
    }

    /// Reads what a segment of the flow in `slot` will need; the value means nothing.
    #[inline]
    pub(crate) fn touch(&self, slot: u32, segment: &Passage) -> u64 {
        let flow = self.slots.get(slot as usize).and_then(Option::as_deref);
        flow.map_or(0, |flow| flow.touch(segment))
    }

    #[inline]
    fn is_in(&self, slot: u32, segment: &Passage) -> bool {
        self.slots.get(slot as usize).and_then(Option::as_ref).is_some_and(|flow| flow.key == segment.key)
    }

    fn find(&self, segment: &Passage) -> Option<u32> {
        let is_it = |entry: &Entry| entry.hash == segment.hash && self.is_in(entry.slot, segment);
        self.index.find(Entry::spread(segment.hash), is_it).map(|entry| entry.slot)
    }

    /// Takes a segment; `likely` is what [`Table::likely`] said some segments ago.
    #[inline]
    pub(crate) fn handle(
        &mut self,
        config: &Config,
        segment: &Passage,
        likely: Option<u32>,
        out: &mut impl Receiver,
    ) {
        self.now = self.now.max(segment.time);
        self.sweep(segment.number, out);
        // What was found for the batch may have ended since, or begun.
        let slot = likely.filter(|slot| self.is_in(*slot, segment)).or_else(|| self.find(segment));
        let slot = match slot {
            Some(slot) => self.same_or_new(slot as usize, segment, out),
            None => self.open(segment, out),
        };
        let Some(flow) = self.slots.get_mut(slot).and_then(Option::as_mut) else { return };
        let direction = flow.direction(segment);
        let seen = flow.handle(direction, segment, &mut |event| out.on_event(segment.number, event));
        if out.wants_packets() {
            out.on_packet(&PacketView::of(flow, direction, segment, seen));
        }
        let is_closed = flow.is_closed();
        let closes_now = is_closed && !flow.lingers;
        let id = flow.id;
        flow.lingers = is_closed;
        let wait = if is_closed { config.linger } else { config.idle };
        if let Some(deadline) = self.deadlines.get_mut(slot) {
            *deadline = self.now + wait;
        }
        if closes_now {
            self.linger(slot, id, segment.number, out);
        }
    }

    /// Notes a flow that has just closed; the oldest such goes when there are too many.
    fn linger(&mut self, slot: usize, id: u64, segment: u64, out: &mut impl Receiver) {
        self.closed.push_back((slot as u32, id));
        if self.closed.len() <= LINGERING_MAX {
            return;
        }
        if let Some((slot, id)) = self.closed.pop_front()
            && self.slots[slot as usize].as_ref().is_some_and(|flow| flow.id == id)
        {
            self.close(slot as usize, segment, out);
        }
    }

    /// The slot of a known pair of ends; a new flow if this segment opens one.
    #[inline]
    fn same_or_new(&mut self, slot: usize, segment: &Passage, out: &mut impl Receiver) -> usize {
        let has_ended = self.deadlines.get(slot).is_some_and(|deadline| *deadline < self.now);
        let is_opening = segment.flags.contains(TcpFlags::SYN);
        if has_ended || (is_opening && self.is_reopened(slot, segment)) {
            self.close(slot, segment.number, out);
            return self.open(segment, out);
        }
        slot
    }

    fn is_reopened(&self, slot: usize, segment: &Passage) -> bool {
        let flow = self.slots.get(slot).and_then(Option::as_ref);
        flow.is_some_and(|flow| flow.is_reopened_by(flow.direction(segment), segment))
    }

    fn open(&mut self, segment: &Passage, out: &mut impl Receiver) -> usize {
        let id = out.open(segment.number);
        let flow = match self.spare.pop() {
            Some(mut flow) => {
                flow.renew(id, segment);
                flow
            }
            None => Box::new(Flow::new(id, segment)),
        };
        let slot = match self.free.pop() {
            Some(slot) => slot as usize,
            None => {
                self.slots.push(None);
                self.deadlines.push(Instant::ZERO);
                self.slots.len() - 1
            }
        };
        let entry = Entry { hash: segment.hash, slot: slot as u32 };
        self.index.insert_unique(Entry::spread(entry.hash), entry, |entry| Entry::spread(entry.hash));
        self.slots[slot] = Some(flow);
        slot
    }

    fn close(&mut self, slot: usize, segment: u64, out: &mut impl Receiver) {
        let Some(mut flow) = self.slots.get_mut(slot).and_then(Option::take) else { return };
        let is_it = |entry: &Entry| entry.slot as usize == slot;
        if let Ok(entry) = self.index.find_entry(Entry::spread(flow.key.hash()), is_it) {
            entry.remove();
        }
        self.free.push(slot as u32);
        out.on_flow(segment, FlowReport::of(&mut flow));
        if self.spare.len() < SPARE_MAX {
            self.spare.push(flow);
        }
    }

    /// Ends flows whose time has come; a few slots at each packet.
    #[inline]
    fn sweep(&mut self, segment: u64, out: &mut impl Receiver) {
        for _ in 0..SWEEP {
            self.hand = if self.hand + 1 < self.deadlines.len() { self.hand + 1 } else { 0 };
            let is_due = self.deadlines.get(self.hand).is_some_and(|deadline| *deadline < self.now);
            if is_due && self.slots[self.hand].is_some() {
                self.close(self.hand, segment, out);
            }
        }
    }

    /// The flows in progress: number and slot of each.
    pub(crate) fn left(&self) -> impl Iterator<Item = (u64, usize)> + '_ {
        let flows = self.slots.iter().enumerate();
        flows.filter_map(|(slot, held)| held.as_ref().map(|flow| (flow.id, slot)))
    }

    /// Ends the flow in `slot` at the end of the capture.
    pub(crate) fn end(&mut self, slot: usize, out: &mut impl Receiver) {
        self.close(slot, u64::MAX, out);
    }
}
