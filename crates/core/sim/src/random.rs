//! [`Random`]: the one seeded source of a run's choices.

use rand::Rng;
use rand::SeedableRng;
use rand_xoshiro::Xoshiro256PlusPlus;

/// A seeded sequence of choices (xoshiro256++), the same on every machine.
#[derive(Clone, Debug)]
pub struct Random(Xoshiro256PlusPlus);

impl Random {
    /// The sequence that belongs to `seed`.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        Self(Xoshiro256PlusPlus::seed_from_u64(seed))
    }

    /// Any 64-bit number.
    pub fn word(&mut self) -> u64 {
        self.0.next_u64()
    }

    /// A number in `[0, bound)`; zero for a bound of zero.
    pub fn below(&mut self, bound: u64) -> u64 {
        ((u128::from(self.word()) * u128::from(bound)) >> 64) as u64
    }

    /// A number in `[low, high]`.
    pub fn within(&mut self, low: u64, high: u64) -> u64 {
        low + self.below(high.saturating_sub(low).saturating_add(1))
    }

    /// A number in `[low, high]` whose logarithm is evenly spread: small ones are as likely as large ones.
    pub fn spread(&mut self, low: u64, high: u64) -> u64 {
        let (low, high) = (low.max(1), high.max(low).max(1));
        let doublings = u64::from((high / low).max(1).ilog2());
        let floor = low << self.within(0, doublings);
        self.within(floor, floor.saturating_mul(2).saturating_sub(1).min(high))
    }

    /// True with a probability of `ppm` parts in a million.
    pub fn is_hit(&mut self, ppm: u32) -> bool {
        self.below(1_000_000) < u64::from(ppm)
    }

    /// True once in `n` times on average.
    pub fn one_in(&mut self, n: u64) -> bool {
        self.below(n) == 0
    }

    /// One of `choices`, which must not be empty.
    pub fn pick<T: Copy>(&mut self, choices: &[T]) -> Option<T> {
        choices.get(self.below(choices.len() as u64) as usize).copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_hold_and_seeds_differ() {
        let mut random = Random::new(1);
        for _ in 0..10_000 {
            assert!((5..=9).contains(&random.within(5, 9)));
            assert!((2_000..=1_000_000).contains(&random.spread(2_000, 1_000_000)));
        }
        assert_eq!(Random::new(7).word(), Random::new(7).word());
        assert_ne!(Random::new(7).word(), Random::new(8).word());
    }
}
