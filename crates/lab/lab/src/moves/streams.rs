//! [`Stream`]: what became of the data of a flow in one direction, from the packets that carried it.

use units::{Duration, Instant, SeqNum};

/// Shorter times without new data are no pauses.
const PAUSE_MIN: Duration = Duration::from_millis(10);
/// Width of a bin of delivered data.
pub(crate) const BIN: Duration = Duration::from_millis(100);
/// Place of the first byte that was seen, so that earlier ones have one too.
const FIRST: u64 = 1 << 32;

/// Numbers in ranges that neither overlap nor touch, in order.
#[derive(Clone, Debug, Default)]
struct Ranges(Vec<(u64, u64)>);

impl Ranges {
    /// Number of positions of `from..to` that are in it.
    fn overlap(&self, from: u64, to: u64) -> u64 {
        let first = self.0.partition_point(|(_, end)| *end <= from);
        let there = self.0[first..].iter().take_while(|(start, _)| *start < to);
        there.map(|(start, end)| (*end).min(to) - (*start).max(from)).sum()
    }

    fn add(&mut self, mut from: u64, mut to: u64) {
        let first = self.0.partition_point(|(_, end)| *end < from);
        let mut last = first;
        while let Some((start, end)) = self.0.get(last).filter(|(start, _)| *start <= to) {
            (from, to) = (from.min(*start), to.max(*end));
            last += 1;
        }
        self.0.splice(first..last, [(from, to)]);
    }

    fn remove(&mut self, from: u64, to: u64) {
        let first = self.0.partition_point(|(_, end)| *end <= from);
        let mut left = Vec::new();
        let mut last = first;
        while let Some((start, end)) = self.0.get(last).filter(|(start, _)| *start < to) {
            left.extend((*start < from).then_some((*start, from)));
            left.extend((*end > to).then_some((to, *end)));
            last += 1;
        }
        self.0.splice(first..last, left);
    }

    /// The end of the range that `at` lies in, or touches from behind.
    fn end_of(&self, at: u64) -> u64 {
        let first = self.0.partition_point(|(_, end)| *end < at);
        self.0.get(first).filter(|(start, _)| *start <= at).map_or(at, |(_, end)| *end)
    }
}

/// A segment's data by its place in the stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Piece {
    pub from: u64,
    pub to: u64,
}

/// The data of a flow in one direction.
#[derive(Clone, Debug)]
pub(crate) struct Stream {
    began: Instant,
    last: Option<(SeqNum, u64)>,
    /// Sent over the radio, and not lost by it.
    on_way: Ranges,
    come: Ranges,
    frontier: u64,
    progressed: Option<Instant>,
    /// Bytes of payload sent over the radio.
    pub sent: u64,
    /// Those of them that the radio lost.
    pub lost: u64,
    /// Sent again although the radio had not lost them: when, and how many.
    pub needless: Vec<(Instant, u64)>,
    /// Bytes that came at the receiver in order, in bins of [`BIN`].
    pub bins: Vec<u64>,
    /// From when to when nothing new came in order, where that was [`PAUSE_MIN`] or longer.
    pub pauses: Vec<(Instant, Instant)>,
}

impl Stream {
    /// None yet; bins count from `began` on.
    pub fn new(began: Instant) -> Self {
        Self {
            began,
            last: None,
            on_way: Ranges::default(),
            come: Ranges::default(),
            frontier: FIRST,
            progressed: None,
            sent: 0,
            lost: 0,
            needless: Vec::new(),
            bins: Vec::new(),
            pauses: Vec::new(),
        }
    }

    /// The place of `len` bytes from `seq` on.
    pub fn place(&mut self, seq: SeqNum, len: usize) -> Piece {
        let from =
            self.last.map_or(FIRST, |(last, at)| at.wrapping_add_signed(i64::from(seq.distance_from(last))));
        self.last = Some((seq, from));
        Piece { from, to: from + len as u64 }
    }

    /// A piece was given to the radio.
    pub fn on_sent(&mut self, piece: Piece, now: Instant) {
        self.sent += piece.to - piece.from;
        let again = self.on_way.overlap(piece.from, piece.to);
        if again > 0 {
            self.needless.push((now, again));
        }
        self.on_way.add(piece.from, piece.to);
    }

    /// The radio lost a piece.
    pub fn on_lost(&mut self, piece: Piece) {
        self.lost += piece.to - piece.from;
        self.on_way.remove(piece.from, piece.to);
    }

    /// A piece came to the receiving host.
    pub fn on_come(&mut self, piece: Piece, now: Instant) {
        self.come.add(piece.from, piece.to);
        let frontier = self.come.end_of(self.frontier);
        if frontier == self.frontier {
            return;
        }
        let bin = usize::try_from(now.saturating_since(self.began).as_nanos() / BIN.as_nanos()).unwrap_or(0);
        if self.bins.len() <= bin {
            self.bins.resize(bin + 1, 0);
        }
        self.bins[bin] += frontier - self.frontier;
        self.frontier = frontier;
        if let Some(last) = self.progressed.replace(now)
            && now.saturating_since(last) >= PAUSE_MIN
        {
            self.pauses.push((last, now));
        }
    }

    /// True when something new has come in order after `at`.
    pub fn has_come_since(&self, at: Instant) -> bool {
        self.progressed.is_some_and(|last| last > at)
    }

    /// Ends the record when nothing more comes: the pause that has no end is noted up to `end`.
    pub fn end(&mut self, end: Instant) {
        if let Some(last) = self.progressed
            && end.saturating_since(last) >= PAUSE_MIN
        {
            self.pauses.push((last, end));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(ms: u64) -> Instant {
        Instant::from_millis(ms)
    }

    #[test]
    fn ranges_join_and_part() {
        let mut ranges = Ranges::default();
        ranges.add(10, 20);
        ranges.add(30, 40);
        assert_eq!((ranges.overlap(0, 100), ranges.overlap(15, 35), ranges.overlap(20, 30)), (20, 10, 0));
        ranges.add(20, 30);
        assert_eq!(ranges.0, [(10, 40)]);
        ranges.remove(15, 20);
        assert_eq!(ranges.0, [(10, 15), (20, 40)]);
        ranges.remove(0, 25);
        assert_eq!((ranges.0.clone(), ranges.end_of(25), ranges.end_of(10)), (vec![(25, 40)], 40, 10));
    }

    /// Against a set of numbers, step by step.
    #[test]
    fn ranges_are_sets() {
        let (mut ranges, mut set) = (Ranges::default(), std::collections::BTreeSet::new());
        let mut state = 1u64;
        for _ in 0..2_000 {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            let (from, len) = ((state >> 33) % 60, (state >> 50) % 9 + 1);
            let to = from + len;
            assert_eq!(ranges.overlap(from, to), set.range(from..to).count() as u64);
            if state >> 63 == 0 {
                ranges.add(from, to);
                set.extend(from..to);
            } else {
                ranges.remove(from, to);
                set.retain(|n| !(from..to).contains(n));
            }
            assert!(ranges.0.windows(2).all(|pair| pair[0].1 < pair[1].0), "{ranges:?}");
        }
    }

    #[test]
    fn what_was_lost_may_be_sent_again_and_what_was_not_is_needless() {
        let mut stream = Stream::new(at(0));
        let seq = SeqNum::new(u32::MAX - 500);
        let [first, second] = [stream.place(seq, 1_000), stream.place(seq + 1_000, 1_000)];
        stream.on_sent(first, at(1));
        stream.on_sent(second, at(2));
        stream.on_lost(first);
        let again = stream.place(seq, 1_000);
        assert_eq!(again, first, "the same place, past the wrap");
        stream.on_sent(again, at(3));
        assert!(stream.needless.is_empty());
        stream.on_sent(Piece { from: second.from - 10, to: second.to }, at(4));
        assert_eq!((&stream.needless[..], stream.sent, stream.lost), (&[(at(4), 1_010)][..], 4_010, 1_000));
    }

    #[test]
    fn only_new_data_in_order_ends_a_pause() {
        let mut stream = Stream::new(at(0));
        let pieces: Vec<Piece> = (0..3).map(|n| stream.place(SeqNum::new(n * 100), 100)).collect();
        stream.on_come(pieces[0], at(0));
        stream.on_come(pieces[0], at(40));
        stream.on_come(pieces[2], at(50));
        stream.on_come(pieces[1], at(120));
        stream.end(at(125));
        assert_eq!((stream.pauses.clone(), stream.bins.clone()), (vec![(at(0), at(120))], vec![100, 200]));
        stream.end(at(500));
        assert_eq!(stream.pauses[1], (at(120), at(500)));
    }
}
