//! [`Table`]: flows in progress of one shard.
//!
//! Flows are divided among a fixed number of shards by a hash of their ends, whatever the number of threads:
//! when a flow ends depends on its shard alone, so that the result is the same with one thread and with many.

use std::collections::VecDeque;

use hashbrown::HashTable;
use units::{Duration, Instant};
use wire::TcpFlags;

use crate::copies::{Copies, Identity};
use crate::direction::Direction;
use crate::event::Event;
use crate::fetch::{Fetch, fetch_value};
use crate::flow::{Flow, Reopening};
use crate::packet::{PacketFindings, PacketView};
use crate::report::FlowReport;
use crate::segment_record::SegmentRecord;
use crate::slab::{Place, Slab};

/// Time limits of flows, and other settings of the table.
#[derive(Clone, Copy, Debug)]
pub struct Config {
    /// Time without a packet after which a flow has ended.
    pub idle: Duration,
    /// Time for which a closed flow is kept, to take late segments.
    pub linger: Duration,
    /// Number of the first flow.
    pub first_flow: u64,
    /// Called with address and length of each large piece of memory for flows before it is used, so that the
    /// caller may ask the operating system for huge pages.
    pub on_memory: Option<fn(usize, usize)>,
    /// Called with address and length of what will be needed soon, such as a flow, so that the caller may tell
    /// the processor to fetch it from memory.
    pub fetch: Option<Fetch>,
}

impl Default for Config {
    fn default() -> Self {
        // Beyond the two hours of default keep-alives nobody waits; a closed flow's stragglers come within
        // seconds.
        Self {
            idle: Duration::from_secs(15 * 60),
            linger: Duration::from_secs(10),
            first_flow: 0,
            on_memory: None,
            fetch: None,
        }
    }
}

/// Shards, whatever the number of threads.
pub(crate) const SHARDS: usize = 16;

/// Closed flows of a shard kept for stragglers at most.
const LINGERING_MAX: usize = 4_096 / SHARDS;

/// Slots looked at per packet when searching for flows that have ended: all of 4,096 in as many packets of
/// the shard.
const SWEEP: usize = 1;
/// Deadlines that are fetched together, before the search comes to them.
const DEADLINES_AHEAD: usize = 8;

/// The shard of a segment.
#[inline]
pub(crate) fn shard_of(segment: &SegmentRecord) -> usize {
    (segment.hash >> 28) as usize % SHARDS
}

/// Takes what a [`Table`] finds.
pub(crate) trait Receiver {
    /// A flow begins with the segment `first`, while `segment` is handled; gives its own number.
    fn open(&mut self, segment: u64, first: u64) -> u64;
    fn on_flow(&mut self, segment: u64, flow: FlowReport);
    fn on_event(&mut self, segment: u64, event: Event);
    fn wants_packets(&self) -> bool;
    fn on_packet(&mut self, packet: &PacketView<'_>);
}

/// Place of a flow, with a hash of its key: most look-ups end here.
#[derive(Clone, Copy, Debug)]
struct Entry {
    hash: u32,
    /// The place, and in the lowest bit whether the flow's first sender is the lower end.
    place: u32,
}

impl Entry {
    fn new(hash: u32, place: Place, first_is_low: bool) -> Self {
        Self { hash, place: place.number() << 1 | u32::from(first_is_low) }
    }

    #[inline]
    fn place(self) -> Place {
        Place::numbered(self.place >> 1)
    }

    /// Bits of all parts of the hash in all places.
    #[inline]
    fn spread(hash: u32) -> u64 {
        u64::from(hash).wrapping_mul(0x9e37_79b9_7f4a_7c15)
    }
}

/// Flows in progress of one shard; they live in a [`Slab`] that shards share.
#[derive(Debug, Default)]
pub(crate) struct Table {
    index: HashTable<Entry>,
    slots: Vec<Option<Place>>,
    /// Time when each slot's flow ends if nothing comes.
    deadlines: Vec<Instant>,
    free: Vec<u32>,
    /// Closed flows, oldest first: slot and number of the flow that was there.
    closed: VecDeque<(u32, u64)>,
    hand: usize,
    now: Instant,
    copies: Copies,
}

/// A flow that a segment most likely belongs to, found without looking at the flow.
#[derive(Clone, Copy, Debug)]
pub(crate) struct FlowHint {
    pub(crate) place: Place,
    pub(crate) direction: Direction,
}

/// Facts known of a segment before its turn.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Hint {
    pub(crate) identity: Identity,
    /// Its flow, most likely.
    pub(crate) flow: Option<FlowHint>,
}

impl Table {
    /// Place at which a segment's flow most likely is.
    #[inline]
    pub(crate) fn likely(&self, segment: &SegmentRecord) -> Option<FlowHint> {
        let found = self.index.find(Entry::spread(segment.hash), |entry| entry.hash == segment.hash)?;
        let direction = Direction::from_second_if(segment.is_from_low() != (found.place & 1 == 1));
        Some(FlowHint { place: found.place(), direction })
    }

    fn find(&self, slab: &Slab, segment: &SegmentRecord) -> Option<Place> {
        let is_it = |entry: &Entry| entry.hash == segment.hash && is_in(slab, entry.place(), segment);
        self.index.find(Entry::spread(segment.hash), is_it).map(|entry| entry.place())
    }

    /// Change that a segment of this identity will make to the packets seen.
    #[inline]
    pub(crate) fn place_among_copies(&self, identity: Identity) -> Option<&u16> {
        self.copies.place_of(identity)
    }

    /// Time when the flow in `slot` ends.
    #[inline]
    pub(crate) fn deadline(&self, slot: u32) -> Option<&Instant> {
        self.deadlines.get(slot as usize)
    }

    /// Takes a segment; `hint` is what was known of it some segments ago.
    #[inline]
    pub(crate) fn handle(
        &mut self,
        slab: &mut Slab,
        config: &Config,
        segment: &SegmentRecord,
        hint: Hint,
        out: &mut dyn Receiver,
    ) {
        self.now = self.now.max(segment.time);
        self.sweep(slab, config, segment.number, out);
        // What was found for the batch may have ended since, or begun.
        let likely = hint.flow.map(|likely| likely.place);
        let place = likely.filter(|place| is_in(slab, *place, segment));
        let place = match place.or_else(|| self.find(slab, segment)) {
            Some(place) => self.same_or_ended(slab, place, segment, out),
            None => self.open(slab, segment, segment.number, out),
        };
        let Some(flow) = slab.get_mut(place) else { return };
        let direction = flow.direction(segment);
        if self.copies.is_copy(segment, hint.identity, &flow.copy_context(direction, segment)) {
            flow.halves[direction].counts.packets.copies += 1;
            return;
        }
        let may_open = flow.has_waiting_syn() || segment.flags.contains(TcpFlags::SYN);
        let place = match may_open {
            true => self.same_or_reopened(slab, config, place, segment, out),
            false => Some(place),
        };
        if let Some(place) = place {
            self.take(slab, config, place, segment, segment.number, out);
        }
    }

    /// The flow that a segment belongs to which may open another connection between the same ends, or answer the
    /// SYN that waits for that; none if it waits itself.
    #[cold]
    fn same_or_reopened(
        &mut self,
        slab: &mut Slab,
        config: &Config,
        place: Place,
        segment: &SegmentRecord,
        out: &mut dyn Receiver,
    ) -> Option<Place> {
        let flow = slab.get_mut(place)?;
        if flow.has_waiting_syn()
            && let Some(syn) = flow.settle_waiting_syn(Some(segment))
        {
            let place = self.reopen(slab, place, &syn, segment.number, out);
            self.take(slab, config, place, &syn, segment.number, out);
            return Some(place);
        }
        match flow.is_reopened_by(flow.direction(segment), segment) {
            Reopening::No => Some(place),
            Reopening::Yes => Some(self.reopen(slab, place, segment, segment.number, out)),
            Reopening::IfAnswered => {
                flow.wait_for_answer(segment);
                None
            }
        }
    }

    /// Gives a segment to its flow, while that with number `at` is handled.
    #[inline]
    fn take(
        &mut self,
        slab: &mut Slab,
        config: &Config,
        place: Place,
        segment: &SegmentRecord,
        at: u64,
        out: &mut dyn Receiver,
    ) {
        let Some(flow) = slab.get_mut(place) else { return };
        let direction = flow.direction(segment);
        let mut seen = PacketFindings::default();
        flow.handle(direction, segment, &mut seen, &mut |event| out.on_event(at, event));
        if out.wants_packets() {
            out.on_packet(&flow.view(direction, segment, &seen));
        }
        let is_closed = flow.is_closed;
        let closes_now = is_closed && !flow.lingers;
        flow.lingers = is_closed;
        let slot = flow.slot;
        let wait = if is_closed { config.linger } else { config.idle };
        if let Some(deadline) = self.deadlines.get_mut(slot as usize) {
            *deadline = self.now + wait;
        }
        if closes_now {
            let id = flow.id;
            self.linger(slab, slot, id, at, out);
            self.fetch_next_to_go(slab, config);
        }
    }

    /// Fetches the flow that goes when the next one closes.
    fn fetch_next_to_go(&self, slab: &Slab, config: &Config) {
        if let Some(fetch) = config.fetch.filter(|_| self.closed.len() == LINGERING_MAX)
            && let Some((slot, _)) = self.closed.front()
            && let Some(flow) = self.flow_in(slab, *slot as usize)
        {
            fetch_value(fetch, flow);
        }
    }

    /// Notes a flow that has just closed; the oldest such goes when there are too many.
    fn linger(&mut self, slab: &mut Slab, slot: u32, id: u64, segment: u64, out: &mut dyn Receiver) {
        self.closed.push_back((slot, id));
        if self.closed.len() <= LINGERING_MAX {
            return;
        }
        if let Some((slot, id)) = self.closed.pop_front()
            && self.flow_in(slab, slot as usize).is_some_and(|flow| flow.id == id)
        {
            self.close(slab, slot as usize, segment, out);
        }
    }

    fn flow_in<'a>(&self, slab: &'a Slab, slot: usize) -> Option<&'a Flow> {
        slab.get(self.slots.get(slot).copied().flatten()?)
    }

    /// The place of a known pair of ends; that of a new flow if the known one has ended.
    #[inline]
    fn same_or_ended(
        &mut self,
        slab: &mut Slab,
        place: Place,
        segment: &SegmentRecord,
        out: &mut dyn Receiver,
    ) -> Place {
        let Some(flow) = slab.get(place) else { return place };
        let has_ended = self.deadlines.get(flow.slot as usize).is_some_and(|deadline| *deadline < self.now);
        match has_ended {
            true => self.reopen(slab, place, segment, segment.number, out),
            false => place,
        }
    }

    /// The flow that `segment` opens in place of another between the same ends, while that with number `at` is
    /// handled.
    fn reopen(
        &mut self,
        slab: &mut Slab,
        place: Place,
        segment: &SegmentRecord,
        at: u64,
        out: &mut dyn Receiver,
    ) -> Place {
        if let Some(flow) = slab.get(place) {
            self.close(slab, flow.slot as usize, at, out);
        }
        self.open(slab, segment, at, out)
    }

    fn open(&mut self, slab: &mut Slab, segment: &SegmentRecord, at: u64, out: &mut dyn Receiver) -> Place {
        let place = slab.open(out.open(at, segment.number), segment);
        let slot = self.free.pop().unwrap_or_else(|| {
            self.slots.push(None);
            self.deadlines.push(Instant::ZERO);
            self.slots.len() as u32 - 1
        });
        if let Some(flow) = slab.get_mut(place) {
            flow.slot = slot;
        }
        let entry = Entry::new(segment.hash, place, segment.is_from_low());
        self.index.insert_unique(Entry::spread(entry.hash), entry, |entry| Entry::spread(entry.hash));
        self.slots[slot as usize] = Some(place);
        place
    }

    fn close(&mut self, slab: &mut Slab, slot: usize, segment: u64, out: &mut dyn Receiver) {
        let Some(place) = self.slots.get_mut(slot).and_then(Option::take) else { return };
        let Some(flow) = slab.get_mut(place) else { return };
        let is_it = |entry: &Entry| entry.place() == place;
        if let Ok(entry) = self.index.find_entry(Entry::spread(flow.key.short_hash()), is_it) {
            entry.remove();
        }
        self.free.push(slot as u32);
        if flow.has_waiting_syn() {
            flow.settle_waiting_syn(None);
        }
        out.on_flow(segment, flow.report());
        slab.close(place);
    }

    /// Ends flows whose time has come; a few slots at each packet.
    #[inline]
    fn sweep(&mut self, slab: &mut Slab, config: &Config, segment: u64, out: &mut dyn Receiver) {
        for _ in 0..SWEEP {
            self.hand = if self.hand + 1 < self.deadlines.len() { self.hand + 1 } else { 0 };
            if let Some(fetch) = config.fetch.filter(|_| self.hand.is_multiple_of(DEADLINES_AHEAD))
                && let Some(next) = self.deadlines.get(self.hand + DEADLINES_AHEAD..)
            {
                fetch_value(fetch, &next[..next.len().min(DEADLINES_AHEAD)]);
            }
            let is_due = self.deadlines.get(self.hand).is_some_and(|deadline| *deadline < self.now);
            if is_due {
                self.close(slab, self.hand, segment, out);
            }
        }
    }

    /// The flows in progress: number and slot of each.
    pub(crate) fn left(&self, slab: &Slab) -> impl Iterator<Item = (u64, usize)> {
        let slots = 0..self.slots.len();
        slots.filter_map(|slot| Some((self.flow_in(slab, slot)?.id, slot)))
    }

    /// Ends the flow in `slot` at the end of the capture.
    pub(crate) fn end(&mut self, slab: &mut Slab, slot: usize, out: &mut dyn Receiver) {
        self.close(slab, slot, u64::MAX, out);
    }
}

/// True when the flow at this place is that of a segment.
#[inline]
fn is_in(slab: &Slab, place: Place, segment: &SegmentRecord) -> bool {
    slab.get(place).is_some_and(|flow| flow.is_live && flow.key == segment.key)
}
