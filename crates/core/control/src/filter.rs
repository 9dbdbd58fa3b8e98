//! Windowed extremes: the largest or smallest value of a recent span of time.

use core::marker::PhantomData;
use std::collections::VecDeque;

use stored::{Layouts, Reader, Stored, StoredError, Writer};
use units::{Duration, Instant};

/// Samples kept at most: one more takes the place of one that stands close to another, which costs
/// only time resolution. In the place of the newest it would lose an extreme that is to count for
/// long.
const SAMPLES_MAX: usize = 64;

/// Values in the order they came, each better than all that came after it.
#[derive(Clone, Debug, stored::Stored)]
struct Monotone<T> {
    window: Duration,
    /// Front: the extreme of the whole window. Times and values both ordered.
    samples: VecDeque<(Instant, T)>,
}

impl<T: Copy> Monotone<T> {
    fn new(window: Duration) -> Self {
        Self { window, samples: VecDeque::with_capacity(8) }
    }

    fn update(&mut self, value: T, now: Instant, beats: impl Fn(T, T) -> bool) {
        self.expire(now);
        while self.samples.back().is_some_and(|&(_, old)| !beats(old, value)) {
            self.samples.pop_back();
        }
        if self.samples.len() >= SAMPLES_MAX {
            self.thin_out();
        }
        self.samples.push_back((now, value));
    }

    /// Drops the sample that came soonest after the one before it: for so short a time a worse one
    /// stands in for it.
    fn thin_out(&mut self) {
        let gap = |i: usize| match (self.samples.get(i - 1), self.samples.get(i)) {
            (Some((before, _)), Some((at, _))) => at.saturating_since(*before),
            _ => Duration::MAX,
        };
        if let Some(index) = (1..self.samples.len()).min_by_key(|&i| gap(i)) {
            self.samples.remove(index);
        }
    }

    /// Drops what is older than the window, but never the last value known.
    fn expire(&mut self, now: Instant) {
        while self.samples.len() > 1
            && self.samples.front().is_some_and(|&(at, _)| now.saturating_since(at) > self.window)
        {
            self.samples.pop_front();
        }
    }

    fn get(&self) -> Option<T> {
        self.samples.front().map(|&(_, value)| value)
    }
}

/// Order by which a filter keeps one of two values.
pub trait Order {
    /// `one` is better than `other`.
    fn beats<T: Ord>(one: &T, other: &T) -> bool;
}

/// The larger value is kept.
#[derive(Clone, Copy, Debug, stored::Stored)]
pub struct Larger;

/// The smaller value is kept.
#[derive(Clone, Copy, Debug, stored::Stored)]
pub struct Smaller;

impl Order for Larger {
    fn beats<T: Ord>(one: &T, other: &T) -> bool {
        one > other
    }
}

impl Order for Smaller {
    fn beats<T: Ord>(one: &T, other: &T) -> bool {
        one < other
    }
}

/// The extreme of the last `window`; the last known one when nothing newer came.
#[derive(Clone, Debug, stored::Stored)]
pub struct Windowed<T, O> {
    samples: Monotone<T>,
    order: PhantomData<O>,
}

/// The largest value of the last `window`.
pub type WindowedMax<T> = Windowed<T, Larger>;

/// The smallest value of the last `window`.
pub type WindowedMin<T> = Windowed<T, Smaller>;

impl<T: Copy + Ord, O: Order> Windowed<T, O> {
    /// A filter with a memory of `window`.
    #[must_use]
    pub fn new(window: Duration) -> Self {
        Self { samples: Monotone::new(window), order: PhantomData }
    }
    /// Takes in a value.
    pub fn update(&mut self, value: T, now: Instant) {
        self.samples.update(value, now, |old, new| O::beats(&old, &new));
        self.samples.expire(now);
    }
    /// The extreme as of the last update.
    #[must_use]
    pub fn get(&self) -> Option<T> {
        self.samples.get()
    }
}

/// The three best values of a window, each later than the one before it.
#[derive(Clone, Copy, Debug, stored::Stored)]
struct BestThree<T>([(Instant, T); 3]);

impl<T: Copy> BestThree<T> {
    fn update(&mut self, window: Duration, value: T, now: Instant, equals_or_beats: impl Fn(T, T) -> bool) {
        let new = (now, value);
        let [first, second, third] = &mut self.0;
        let age = |sample: &(Instant, T)| now.saturating_since(sample.0);
        if equals_or_beats(value, first.1) || age(third) > window {
            return self.0 = [new; 3];
        }
        if equals_or_beats(value, second.1) {
            (*second, *third) = (new, new);
        } else if equals_or_beats(value, third.1) {
            *third = new;
        }
        if age(first) > window {
            (*first, *second, *third) = (*second, *third, new);
            if age(first) > window {
                (*first, *second, *third) = (*second, *third, new);
            }
        } else if second.0 == first.0 && age(first) > window / 4 {
            (*second, *third) = (new, new);
        } else if third.0 == second.0 && age(first) > window / 2 {
            *third = new;
        }
    }
}

/// Time that [`Recent`] remembers.
const RECENT: Duration = Duration::from_secs(10);

/// The extreme of about the last 10 s in a fixed 48 bytes: exact until it is 10 s old, then mostly the best of what
/// came a quarter of that or more after it (K. Nichols' filter, which Linux keeps its smallest round trip with).
/// Mostly, because three places are few: what comes while they hold three better ones, all of which soon expire
/// without another taking their place, is lost. For what there is one of per flow; [`Windowed`] is exact.
#[derive(Clone, Copy, Debug)]
pub struct Recent<T, O> {
    best: Option<BestThree<T>>,
    order: PhantomData<O>,
}

/// The largest value of about the last 10 s.
pub type RecentMax<T> = Recent<T, Larger>;

/// The smallest value of about the last 10 s.
pub type RecentMin<T> = Recent<T, Smaller>;

impl<T, O> Default for Recent<T, O> {
    fn default() -> Self {
        Self { best: None, order: PhantomData }
    }
}

impl<T: Copy + Ord, O: Order> Recent<T, O> {
    /// Takes in a value.
    pub fn update(&mut self, value: T, now: Instant) {
        self.update_within(RECENT, value, now);
    }
    /// The same with a memory of `window`.
    pub(crate) fn update_within(&mut self, window: Duration, value: T, now: Instant) {
        let best = self.best.get_or_insert(BestThree([(now, value); 3]));
        best.update(window, value, now, |new, old| !O::beats(&old, &new));
    }
    /// The extreme as of the last update.
    #[must_use]
    pub fn get(&self) -> Option<T> {
        self.best.map(|best| best.0[0].1)
    }
}

/// With the window in front, which is no part of it any more.
impl<T: Stored, O: Stored> Stored for Recent<T, O> {
    fn store(&self, out: &mut Writer) {
        RECENT.store(out);
        self.best.store(out);
    }
    fn restore(from: &mut Reader<'_>) -> Result<Self, StoredError> {
        from.value::<Duration>()?;
        Ok(Self { best: from.value()?, order: PhantomData })
    }
    fn layout(layouts: &mut Layouts) {
        layouts.of::<Self>("Recent", |layouts| {
            layouts.value::<Duration>("window");
            layouts.value::<Option<BestThree<T>>>("best");
            layouts.value::<PhantomData<O>>("order");
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// Compares with the definition: the largest of all samples within the window.
        #[test]
        fn max_equals_a_full_scan(steps in proptest::collection::vec((0u64..40, 0u32..1000), 1..60)) {
            let window = Duration::from_millis(100);
            let mut filter = WindowedMax::new(window);
            let mut all: Vec<(Instant, u32)> = Vec::new();
            let mut now = Instant::ZERO;
            for (gap_ms, value) in steps {
                now += Duration::from_millis(gap_ms);
                all.push((now, value));
                filter.update(value, now);
                let scan = all.iter().filter(|(at, _)| now.saturating_since(*at) <= window)
                    .map(|&(_, v)| v).max();
                prop_assert_eq!(filter.get(), scan);
            }
        }
    }

    proptest! {
        /// Three samples against the definition: never better than the best of the window, never
        /// worse than the newest, and exact while nothing has expired.
        #[test]
        fn the_best_three_are_near_a_full_scan(
            steps in proptest::collection::vec((0u64..25, 0u32..1000), 1..200))
        {
            let window = Duration::from_millis(400);
            let (mut max, mut min) = (RecentMax::default(), RecentMin::default());
            let mut all: Vec<(Instant, u32)> = Vec::new();
            let mut now = Instant::ZERO;
            for (gap_ms, value) in steps {
                now += Duration::from_millis(gap_ms);
                all.push((now, value));
                max.update_within(window, value, now);
                min.update_within(window, 1_000 - value, now);
                let scan = |span: Duration| all.iter()
                    .filter(|(at, _)| now.saturating_since(*at) <= span).map(|&(_, v)| v).max();
                prop_assert!(max.get() <= scan(window));
                prop_assert!(max.get() >= Some(value));
                if now.saturating_since(Instant::ZERO) <= window {
                    prop_assert_eq!(max.get(), scan(window));
                }
                prop_assert_eq!(min.get(), max.get().map(|max| 1_000 - max));
            }
        }
    }

    #[test]
    fn what_three_better_ones_hid_is_lost_when_they_expire_together() {
        let mut filter = RecentMax::default();
        for (ms, value) in [(0, 978), (339, 937), (358, 889), (401, 868), (719, 781), (741, 0), (802, 0)] {
            filter.update_within(Duration::from_millis(400), value, Instant::from_millis(ms));
        }
        assert_eq!(filter.get(), Some(0), "of the last 83 ms it would be 781");
    }

    #[test]
    fn h17_a_recent_min_re_baselines_after_the_window() {
        let mut filter = RecentMin::default();
        filter.update(20u32, Instant::ZERO);
        filter.update(50, Instant::from_millis(5_000));
        assert_eq!(filter.get(), Some(20));
        filter.update(60, Instant::from_millis(10_001));
        assert_eq!(filter.get(), Some(50));
    }

    #[test]
    fn h17_min_re_baselines_after_the_window() {
        let mut filter = WindowedMin::new(Duration::from_secs(10));
        filter.update(20u32, Instant::ZERO);
        filter.update(50, Instant::from_millis(5_000));
        assert_eq!(filter.get(), Some(20));
        filter.update(60, Instant::from_millis(10_001));
        assert_eq!(filter.get(), Some(50));
    }

    #[test]
    fn a_full_memory_loses_no_extreme() {
        let mut filter = WindowedMin::new(Duration::from_secs(10));
        // Rising samples fill the memory; then a level for seconds, and a jump.
        for i in 0..100u64 {
            filter.update(40 + i as u32, Instant::from_millis(i));
        }
        for i in 100..10_000 {
            filter.update(141, Instant::from_millis(i));
        }
        for i in 10_000..15_000 {
            filter.update(480, Instant::from_millis(i));
        }
        assert_eq!(filter.get(), Some(141));
        for i in 15_000..20_300 {
            filter.update(480, Instant::from_millis(i));
        }
        assert_eq!(filter.get(), Some(480));
    }

    #[test]
    fn memory_is_bounded_and_the_extreme_is_kept() {
        let mut filter = WindowedMax::new(Duration::from_secs(1_000));
        for i in 0..1_000u64 {
            filter.update(10_000 - i, Instant::from_millis(i));
        }
        assert!(filter.samples.samples.len() <= SAMPLES_MAX);
        assert_eq!(filter.get(), Some(10_000));
    }
}
