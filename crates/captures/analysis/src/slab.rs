//! [`Slab`]: the memory that flows live in, in few large pieces.
//!
//! With many flows in progress most of the time goes into fetching their state. In large pieces the processor
//! needs few entries to translate its addresses, and huge pages can serve it. Places of flows that have ended
//! are used again.

use crate::flow::Flow;
use crate::segment_record::SegmentRecord;

/// Flows of the first piece, as a power of two; each further piece has twice as many as the one before.
const FIRST: u32 = 6;

/// Ended flows whose buffers are kept for the next ones.
const KEPT_BUFFERS_MAX: usize = 512;

/// Place of a flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Place(u32);

/// Flows, by their places.
#[derive(Debug, Default)]
pub(crate) struct Slab {
    pieces: Vec<Vec<Flow>>,
    free: Vec<Place>,
    /// Flows that have had a place.
    used: u32,
    /// See [`crate::Config::on_memory`].
    on_memory: Option<fn(usize, usize)>,
}

impl Place {
    /// The place with this number; numbers are below 2^31.
    #[inline]
    pub(crate) fn numbered(number: u32) -> Self {
        Self(number)
    }

    #[inline]
    pub(crate) fn number(self) -> u32 {
        self.0
    }

    #[inline]
    fn split(self) -> (usize, usize) {
        let shifted = self.0 + (1 << FIRST);
        let piece = shifted.ilog2();
        ((piece - FIRST) as usize, (shifted - (1 << piece)) as usize)
    }
}

impl Slab {
    /// Without flows; calls `on_memory` with address and length of each piece before it is used.
    pub(crate) fn new(on_memory: Option<fn(usize, usize)>) -> Self {
        Self { on_memory, ..Self::default() }
    }

    #[inline]
    pub(crate) fn get(&self, place: Place) -> Option<&Flow> {
        let (piece, at) = place.split();
        self.pieces.get(piece)?.get(at)
    }

    #[inline]
    pub(crate) fn get_mut(&mut self, place: Place) -> Option<&mut Flow> {
        let (piece, at) = place.split();
        self.pieces.get_mut(piece)?.get_mut(at)
    }

    /// A place for the flow that `segment` opens.
    pub(crate) fn open(&mut self, id: u64, segment: &SegmentRecord) -> Place {
        if let Some(place) = self.free.pop()
            && let Some(flow) = self.get_mut(place)
        {
            flow.renew(id, segment);
            return place;
        }
        let place = Place(self.used);
        let (piece, _) = place.split();
        if piece == self.pieces.len() {
            let flows: Vec<Flow> = Vec::with_capacity(1 << (FIRST + piece as u32));
            if let Some(on_memory) = self.on_memory {
                on_memory(flows.as_ptr().expose_provenance(), flows.capacity() * size_of::<Flow>());
            }
            self.pieces.push(flows);
        }
        if let Some(flows) = self.pieces.get_mut(piece) {
            flows.push(Flow::new(id, segment));
            self.used += 1;
        }
        place
    }

    /// Gives a place back.
    pub(crate) fn close(&mut self, place: Place) {
        let keeps_buffers = self.free.len() < KEPT_BUFFERS_MAX;
        if let Some(flow) = self.get_mut(place) {
            flow.retire(keeps_buffers);
            self.free.push(place);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_follow_each_other_through_all_pieces() {
        let mut next = (0, 0);
        for place in 0..10_000 {
            assert_eq!(Place(place).split(), next);
            let is_last = next.1 + 1 == 1 << (FIRST + next.0 as u32);
            next = if is_last { (next.0 + 1, 0) } else { (next.0, next.1 + 1) };
        }
    }
}
