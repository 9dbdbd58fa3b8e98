//! [`InFlight`]: segments sent and not yet acknowledged; RTT samples by Karn's rule.

use units::{Duration, Instant};

use crate::ring::Ring;

/// Segments remembered when nothing acknowledges them, as in a capture of one direction.
const SEGMENTS_MAX: usize = 16_384;

/// A segment in flight, in 16 bytes: with many flows in progress the time goes into fetching their state.
///
/// Of its position it has the lower half: positions in flight lie within 2^31 of each other, or
/// [`crate::coverage::unwrap`] would have given others.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Segment {
    last: Instant,
    start: u32,
    /// Length in sequence space, and marks.
    len_and_marks: u32,
}

impl Segment {
    const WAS_RETRANSMITTED: u32 = 1 << 31;
    const IS_SACKED: u32 = 1 << 30;
    /// Something with a lower position was sent after it.
    const HAS_LATER_BELOW: u32 = 1 << 29;
    /// No packet is so long.
    const LEN_MAX: u32 = Self::HAS_LATER_BELOW - 1;

    fn new(start: u64, end: u64, last: Instant) -> Self {
        let len = u32::try_from(end.saturating_sub(start)).unwrap_or(u32::MAX).min(Self::LEN_MAX);
        Self { last, start: start as u32, len_and_marks: len }
    }

    #[inline]
    fn has(&self, mark: u32) -> bool {
        self.len_and_marks & mark != 0
    }

    #[inline]
    fn mark(&mut self, mark: u32) {
        self.len_and_marks |= mark;
    }

    #[inline]
    fn len(&self) -> u32 {
        self.len_and_marks & Self::LEN_MAX
    }

    /// Distance of its start above `position`; negative below.
    #[inline]
    fn start_above(&self, position: u64) -> i64 {
        i64::from(self.start.wrapping_sub(position as u32) as i32)
    }

    /// The same of its end.
    #[inline]
    fn end_above(&self, position: u64) -> i64 {
        self.start_above(position) + i64::from(self.len())
    }
}

/// Round-trip sample of an acknowledgement.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct AckSample {
    /// Plain Karn: the segment acknowledged exactly was sent once, and none newly acknowledged was sent after
    /// it.
    pub(crate) karn: Option<Duration>,
    /// As tcptrace: also nothing acknowledged earlier was sent after it.
    pub(crate) tcptrace: Option<Duration>,
    /// The exactly acknowledged segment was sent more than once.
    pub(crate) is_ambiguous: bool,
    /// Bytes newly acknowledged that the receiver was known to hold.
    pub(crate) sacked: u64,
}

/// Segments in flight, by position.
#[derive(Clone, Debug, Default)]
pub(crate) struct InFlight {
    segments: Ring<Segment>,
}

impl InFlight {
    /// Slot for the next segment.
    #[inline]
    pub(crate) fn next_place(&self) -> Option<&Segment> {
        self.segments.next_slot()
    }

    /// Slot of the segment that the next acknowledgement takes away.
    #[inline]
    pub(crate) fn first_place(&self) -> Option<&Segment> {
        self.segments.front()
    }

    /// A new segment was sent, or one that fills a hole.
    #[inline]
    pub(crate) fn push(&mut self, start: u64, end: u64, now: Instant) {
        let segment = Segment::new(start, end, now);
        if self.segments.back().is_none_or(|last| last.start_above(start) < 0) {
            self.segments.push_back(segment);
        } else {
            let at = self.segments.partition_point(|other| other.start_above(start) < 0);
            self.segments.insert(at, segment);
            self.from(at + 1, |above| {
                above.mark(Segment::HAS_LATER_BELOW);
                true
            });
        }
        if self.segments.len() > SEGMENTS_MAX {
            self.segments.pop_front();
        }
    }

    /// Gives each segment from `at` on to `change`, until it says that this was enough.
    fn from(&mut self, at: usize, mut change: impl FnMut(&mut Segment) -> bool) {
        for at in at..self.segments.len() {
            if !self.segments.get_mut(at).is_some_and(&mut change) {
                return;
            }
        }
    }

    /// Time when the first was sent last.
    pub(crate) fn first_sent(&self) -> Option<Instant> {
        self.segments.front().map(|segment| segment.last)
    }

    /// `[start, end)` was sent again.
    pub(crate) fn retransmit(&mut self, start: u64, end: u64, now: Instant) {
        let from = self.segments.partition_point(|segment| segment.end_above(start) <= 0);
        self.from(from, |segment| {
            if segment.start_above(end) < 0 {
                segment.mark(Segment::WAS_RETRANSMITTED);
                segment.last = now;
            } else {
                segment.mark(Segment::HAS_LATER_BELOW);
            }
            true
        });
    }

    /// The receiver holds `[start, end)`; gives the bytes of it that this was not known of.
    pub(crate) fn sack(&mut self, start: u64, end: u64) -> u64 {
        let from = self.segments.partition_point(|segment| segment.start_above(start) < 0);
        let mut news = 0;
        self.from(from, |segment| {
            let is_within = segment.end_above(end) <= 0;
            if is_within && !segment.has(Segment::IS_SACKED) {
                segment.mark(Segment::IS_SACKED);
                news += u64::from(segment.len());
            }
            is_within
        });
        news
    }

    /// True when the receiver has said that it holds all of `[start, end)`.
    pub(crate) fn is_sacked(&self, start: u64, end: u64) -> bool {
        let from = self.segments.partition_point(|segment| segment.end_above(start) <= 0);
        let covered = self.segments.iter_from(from).take_while(|segment| segment.start_above(end) < 0);
        let mut covered = covered.peekable();
        covered.peek().is_some() && covered.all(|segment| segment.has(Segment::IS_SACKED))
    }

    /// Everything below `ack` has arrived.
    #[inline]
    pub(crate) fn acknowledge(&mut self, ack: u64, now: Instant) -> AckSample {
        let mut latest_below = Instant::ZERO;
        let mut exact = None;
        let mut sacked = 0;
        while let Some(segment) = self.segments.front().copied().filter(|segment| segment.end_above(ack) <= 0)
        {
            self.segments.pop_front();
            sacked += if segment.has(Segment::IS_SACKED) { u64::from(segment.len()) } else { 0 };
            if let Some(previous) = exact.replace(segment) {
                latest_below = latest_below.max(previous.last);
            }
        }
        let nothing = AckSample { sacked, ..AckSample::default() };
        let Some(segment) = exact.filter(|segment| segment.end_above(ack) == 0) else { return nothing };
        if segment.has(Segment::WAS_RETRANSMITTED) {
            return AckSample { is_ambiguous: true, ..nothing };
        }
        let karn = (latest_below <= segment.last).then(|| now.saturating_since(segment.last));
        AckSample { karn, tcptrace: karn.filter(|_| !segment.has(Segment::HAS_LATER_BELOW)), ..nothing }
    }

    /// A new one with the memory that this one holds.
    pub(crate) fn renewed(&mut self) -> Self {
        Self { segments: self.segments.renewed(KEPT_MAX) }
    }
}

/// Elements for which a queue's memory is worth keeping for the next flow.
const KEPT_MAX: usize = 128;

#[cfg(test)]
mod tests {
    use super::*;

    const fn at(ms: u64) -> Instant {
        Instant::from_millis(ms)
    }

    #[test]
    fn karn_takes_only_what_was_sent_once_and_last() {
        let mut flight = InFlight::default();
        flight.push(0, 10, at(0));
        flight.push(10, 20, at(1));
        flight.push(20, 30, at(2));
        assert_eq!(flight.acknowledge(10, at(40)).karn, Some(Duration::from_millis(40)));
        flight.retransmit(10, 20, at(50));
        // The middle one was sent after the last: its arrival is what the acknowledgement tells of.
        let sample = flight.acknowledge(30, at(90));
        assert!(sample.karn.is_none() && !sample.is_ambiguous);

        flight.push(30, 40, at(100));
        flight.retransmit(30, 40, at(300));
        assert!(flight.acknowledge(40, at(340)).is_ambiguous);
        assert!(flight.acknowledge(45, at(341)).karn.is_none(), "no segment ends there");
    }

    #[test]
    fn tcptrace_also_refuses_after_a_repetition_already_acknowledged() {
        let mut flight = InFlight::default();
        flight.push(0, 10, at(0));
        flight.push(10, 20, at(1));
        flight.retransmit(0, 10, at(30));
        let _ = flight.acknowledge(10, at(40));
        let sample = flight.acknowledge(20, at(41));
        assert_eq!((sample.karn, sample.tcptrace), (Some(Duration::from_millis(40)), None));
    }

    #[test]
    fn sacked_ranges() {
        let mut flight = InFlight::default();
        for start in [0, 10, 20, 30] {
            flight.push(start, start + 10, at(0));
        }
        flight.sack(10, 30);
        assert!(flight.is_sacked(10, 20) && flight.is_sacked(10, 30));
        assert!(!flight.is_sacked(0, 20) && !flight.is_sacked(30, 40) && !flight.is_sacked(50, 60));
    }
}
