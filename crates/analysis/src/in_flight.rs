//! [`InFlight`]: segments sent and not yet acknowledged; RTT samples by Karn's rule.

use units::{Duration, Instant};

use crate::ring::Ring;

/// Segments remembered when nothing acknowledges them, as in a capture of one direction.
const SEGMENTS_MAX: usize = 16_384;

/// A segment in flight.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Segment {
    start: u64,
    last: Instant,
    len: u32,
    was_retransmitted: bool,
    is_sacked: bool,
    /// Something with a lower position was sent after it.
    has_later_below: bool,
}

impl Segment {
    fn end(&self) -> u64 {
        self.start + u64::from(self.len)
    }
}

/// What an acknowledgement tells about the round-trip time.
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
    /// Where the next segment goes.
    #[inline]
    pub(crate) fn next_place(&self) -> Option<&Segment> {
        self.segments.next_slot()
    }

    /// What the next acknowledgement takes away.
    #[inline]
    pub(crate) fn first_place(&self) -> Option<&Segment> {
        self.segments.front()
    }

    /// A new segment was sent, or one that fills a hole.
    #[inline]
    pub(crate) fn push(&mut self, start: u64, end: u64, now: Instant) {
        let len = u32::try_from(end.saturating_sub(start)).unwrap_or(u32::MAX);
        let segment = Segment { start, last: now, len, ..Segment::default() };
        if self.segments.back().is_none_or(|last| last.start < start) {
            self.segments.push_back(segment);
        } else {
            let at = self.segments.partition_point(|other| other.start < start);
            self.segments.insert(at, segment);
            self.from(at + 1, |above| {
                above.has_later_below = true;
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

    /// When the first was sent last.
    pub(crate) fn first_sent(&self) -> Option<Instant> {
        self.segments.front().map(|segment| segment.last)
    }

    /// `[start, end)` was sent again.
    pub(crate) fn retransmit(&mut self, start: u64, end: u64, now: Instant) {
        let from = self.segments.partition_point(|segment| segment.end() <= start);
        self.from(from, |segment| {
            if segment.start < end {
                segment.was_retransmitted = true;
                segment.last = now;
            } else {
                segment.has_later_below = true;
            }
            true
        });
    }

    /// The receiver holds `[start, end)`; gives the bytes of it that this was not known of.
    pub(crate) fn sack(&mut self, start: u64, end: u64) -> u64 {
        let from = self.segments.partition_point(|segment| segment.start < start);
        let mut news = 0;
        self.from(from, |segment| {
            let is_within = segment.end() <= end;
            if is_within && !segment.is_sacked {
                segment.is_sacked = true;
                news += u64::from(segment.len);
            }
            is_within
        });
        news
    }

    /// True when the receiver has said that it holds all of `[start, end)`.
    pub(crate) fn is_sacked(&self, start: u64, end: u64) -> bool {
        let from = self.segments.partition_point(|segment| segment.end() <= start);
        let mut covered = self.segments.iter_from(from).take_while(|segment| segment.start < end).peekable();
        covered.peek().is_some() && covered.all(|segment| segment.is_sacked)
    }

    /// Everything below `ack` has arrived.
    #[inline]
    pub(crate) fn acknowledge(&mut self, ack: u64, now: Instant) -> AckSample {
        let mut latest_below = Instant::ZERO;
        let mut exact = None;
        let mut sacked = 0;
        while let Some(segment) = self.segments.front().copied().filter(|segment| segment.end() <= ack) {
            self.segments.pop_front();
            sacked += if segment.is_sacked { u64::from(segment.len) } else { 0 };
            if let Some(previous) = exact.replace(segment) {
                latest_below = latest_below.max(previous.last);
            }
        }
        let nothing = AckSample { sacked, ..AckSample::default() };
        let Some(segment) = exact.filter(|segment| segment.end() == ack) else { return nothing };
        if segment.was_retransmitted {
            return AckSample { is_ambiguous: true, ..nothing };
        }
        let karn = (latest_below <= segment.last).then(|| now.saturating_since(segment.last));
        AckSample { karn, tcptrace: karn.filter(|_| !segment.has_later_below), ..nothing }
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
