//! Bytes in flight, and bytes lost, at the time a segment left: the two figures by which BBRv3
//! judges whether that flight was too large.

use std::collections::VecDeque;

use units::Bytes;

/// Entries kept: one per acknowledgement of a flight.
const ENTRIES_MAX: usize = 8_192;

/// The network at a departure.
#[derive(Clone, Copy, PartialEq, Eq, Debug, stored::Stored)]
pub(super) struct Flight {
    /// Bytes that had been delivered by then: what a rate sample knows a segment by.
    delivered: Bytes,
    /// Bytes in flight with it.
    pub(super) in_flight: u64,
    /// Lost by then.
    pub(super) lost: u64,
}

/// Departures whose segments are under way, oldest first; of those between two acknowledgements the last.
#[derive(Clone, Debug, Default, stored::Stored)]
pub(super) struct Flights(VecDeque<Flight>);

impl Flights {
    pub(super) fn on_send(&mut self, delivered: Bytes, in_flight: u64, lost: u64) {
        let flight = Flight { delivered, in_flight, lost };
        match self.0.back_mut() {
            Some(last) if last.delivered == delivered => *last = flight,
            _ => {
                if self.0.len() >= ENTRIES_MAX {
                    self.0.pop_front();
                }
                self.0.push_back(flight);
            }
        }
    }

    /// The departure of a segment that left when `delivered` bytes had been delivered; forgets older ones.
    pub(super) fn find(&mut self, delivered: Bytes) -> Option<Flight> {
        while self.0.front().is_some_and(|flight| flight.delivered < delivered) {
            self.0.pop_front();
        }
        self.0.front().filter(|flight| flight.delivered == delivered).copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_segment_is_found_by_what_had_been_delivered() {
        let mut flights = Flights::default();
        for (delivered, in_flight) in [(0, 1), (0, 2), (5, 3), (9, 4)] {
            flights.on_send(Bytes::new(delivered), in_flight, 0);
        }
        assert_eq!(flights.find(Bytes::ZERO).map(|f| f.in_flight), Some(2));
        assert_eq!(flights.find(Bytes::new(5)).map(|f| f.in_flight), Some(3));
        assert_eq!(flights.find(Bytes::ZERO), None, "forgotten");
        assert_eq!(flights.find(Bytes::new(7)), None);
        assert_eq!(flights.find(Bytes::new(9)).map(|f| f.in_flight), Some(4));
    }

    #[test]
    fn memory_is_bounded() {
        let mut flights = Flights::default();
        for i in 0..20_000 {
            flights.on_send(Bytes::new(i), i, 0);
        }
        assert_eq!(flights.0.len(), ENTRIES_MAX);
    }
}
