//! [`HalfTimer`]: how long one half of the path takes, from marks that go out and come back.

use std::collections::VecDeque;

use units::{Duration, Instant};

/// Marks under way at most; more are not timed.
const MARKS_MAX: usize = 64;

/// Something that passes one way and is answered the other way, in order.
pub(crate) trait Mark: Copy + Eq {
    /// True when an answer that names `reached` answers this mark, too.
    fn is_covered_by(self, reached: Self) -> bool;
}

/// Marks under way on one half of the path.
#[derive(Debug, stored::Stored)]
pub(crate) struct HalfTimer<M> {
    marks: VecDeque<(M, Instant)>,
    /// Time between two marks: a few dozen are enough for a round trip.
    spacing: Duration,
}

impl<M: Mark> HalfTimer<M> {
    pub(crate) fn new() -> Self {
        Self { marks: VecDeque::new(), spacing: Duration::ZERO }
    }

    /// A mark passes. One that is not newer than the last is none: the first to pass is the one
    /// that is answered.
    pub(crate) fn start(&mut self, mark: M, now: Instant) {
        if let Some(&(last, at)) = self.marks.back()
            && (mark.is_covered_by(last) || now.saturating_since(at) < self.spacing)
        {
            return;
        }
        if self.marks.len() < MARKS_MAX {
            self.marks.push_back((mark, now));
        }
    }

    /// An answer comes back: the time of the newest mark it covers, or only of the very mark it names.
    pub(crate) fn stop(&mut self, reached: M, is_exact: bool, now: Instant) -> Option<Duration> {
        let mut newest = None;
        while let Some(&(mark, at)) = self.marks.front()
            && mark.is_covered_by(reached)
        {
            newest = Some((mark, at));
            self.marks.pop_front();
        }
        let (mark, at) = newest?;
        if is_exact && mark != reached {
            return None;
        }
        let took = now.saturating_since(at);
        self.spacing = took / 32;
        Some(took)
    }

    /// Forgets the marks: what is under way cannot be told apart any more.
    pub(crate) fn forget(&mut self) {
        self.marks.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use units::SeqNum;

    const fn ms(ms: u64) -> Instant {
        Instant::from_millis(ms)
    }

    const fn mark(n: u32) -> SeqNum {
        SeqNum::new(n)
    }

    #[test]
    fn the_newest_covered_mark_counts() {
        let mut timer = HalfTimer::new();
        for (n, at) in [(10, 0), (20, 5), (30, 10)] {
            timer.start(mark(n), ms(at));
        }
        assert_eq!(timer.stop(mark(9), false, ms(40)), None);
        assert_eq!(timer.stop(mark(25), false, ms(45)), Some(Duration::from_millis(40)));
        assert_eq!(timer.stop(mark(25), false, ms(46)), None);
        assert_eq!(timer.stop(mark(30), false, ms(50)), Some(Duration::from_millis(40)));
    }

    #[test]
    fn an_exact_answer_names_its_mark() {
        let mut timer = HalfTimer::new();
        timer.start(mark(10), ms(0));
        timer.start(mark(20), ms(5));
        assert_eq!(timer.stop(mark(15), true, ms(40)), None);
        assert_eq!(timer.stop(mark(20), true, ms(45)), Some(Duration::from_millis(40)));
    }

    #[test]
    fn the_first_of_equal_marks_counts_across_the_wrap() {
        let mut timer = HalfTimer::new();
        timer.start(mark(u32::MAX - 1), ms(0));
        timer.start(mark(u32::MAX - 1), ms(9));
        timer.start(mark(u32::MAX - 2), ms(9));
        timer.start(mark(3), ms(10));
        assert_eq!(timer.stop(mark(u32::MAX), false, ms(20)), Some(Duration::from_millis(20)));
        assert_eq!(timer.stop(mark(3), true, ms(20)), Some(Duration::from_millis(10)));
    }

    #[test]
    fn marks_are_few_and_spread() {
        let mut timer = HalfTimer::new();
        for n in 0..1_000 {
            timer.start(mark(n), ms(0));
        }
        assert_eq!(timer.marks.len(), MARKS_MAX);
        assert!(timer.stop(mark(2_000), false, ms(64)).is_some());
        // A thirty-second of a round trip apart from here on.
        for n in 0..10 {
            timer.start(mark(3_000 + n), ms(100 + u64::from(n)));
        }
        assert_eq!(timer.marks.len(), 5);
        timer.forget();
        assert_eq!(timer.stop(mark(9_000), false, ms(200)), None);
    }
}
