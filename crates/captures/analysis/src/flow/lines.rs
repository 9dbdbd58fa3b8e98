//! Choice of the lines of a flow's memory that a segment will need, to be fetched before.

use std::mem::offset_of;

use wire::TcpFlags;

use super::Flow;
use crate::direction::{Direction, PerDirection};
use crate::half::{Half, LINE};
use crate::segment_record::SegmentRecord;

impl Flow {
    /// The lines of its memory that `segment`, sent by `direction`, will need: a bit for each.
    #[inline]
    pub(crate) fn lines_for(direction: Direction, segment: &SegmentRecord) -> u64 {
        const FIRST: usize = offset_of!(Flow, halves) / LINE;
        const SECOND: usize = FIRST + size_of::<Half>() / LINE;
        const fn both(sent: u64, acked: u64) -> PerDirection<u64> {
            PerDirection::new(sent << FIRST | acked << SECOND, sent << SECOND | acked << FIRST)
        }
        const DATA: [PerDirection<u64>; 2] =
            [both(Half::SENT_DATA[0], Half::ACKED_BY_DATA), both(Half::SENT_DATA[1], Half::ACKED_BY_DATA)];
        const BARE: [PerDirection<u64>; 2] =
            [both(Half::SENT_BARE, Half::ACKED_BARE[0]), both(Half::SENT_BARE, Half::ACKED_BARE[1])];
        const CONTROL: PerDirection<u64> = both(Half::CONTROL, Half::CONTROL);
        let with_stamps = usize::from(segment.stamp().is_some());
        // Of the flow's own lines acknowledgements need that with the times of the handshake, too.
        let lines = match segment.len() > 0 {
            true => 0b1 | DATA[with_stamps][direction],
            false => 0b11 | BARE[with_stamps][direction],
        };
        match segment.flags.contains(TcpFlags::FIN) {
            true => lines | CONTROL[direction],
            false => lines,
        }
    }

    /// The address of what `segment` will change of the segments in flight.
    #[inline]
    pub(crate) fn place_in_flight(&self, direction: Direction, segment: &SegmentRecord) -> Option<usize> {
        let place = match segment.len() > 0 {
            true => self.halves[direction].data.in_flight.next_place(),
            false => self.halves[direction.reverse()].data.in_flight.first_place(),
        };
        place.map(|place| std::ptr::from_ref(place) as usize)
    }

    /// The lines that `segment` will need besides, where the capture was made beside its sender: it tells the
    /// edge of a window.
    #[inline]
    pub(crate) fn lines_for_edges(&self, direction: Direction) -> u64 {
        const FIRST: usize = offset_of!(Flow, halves) / LINE;
        const SECOND: usize = FIRST + size_of::<Half>() / LINE;
        const LINES: PerDirection<u64> = PerDirection::new(Half::EDGES << FIRST, Half::EDGES << SECOND);
        if self.is_beside_receiver(direction.reverse()) { LINES[direction] } else { 0 }
    }
}
