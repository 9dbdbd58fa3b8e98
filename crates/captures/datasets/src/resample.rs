//! The bootstrap over subscribers: samples with repetition, always the same ones of a seed.

use rand::{Rng, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;

/// Draws as many subscribers as there are, with repetition, within strata: who is in both datasets is drawn
/// for both at once, the others by themselves.
pub(crate) struct Resample {
    random: Xoshiro256PlusPlus,
    strata: Vec<Vec<usize>>,
    weights: Vec<u32>,
}

impl Resample {
    /// For `count` subscribers in all, in these strata.
    pub(crate) fn new(seed: u64, count: usize, strata: Vec<Vec<usize>>) -> Self {
        Self { random: Xoshiro256PlusPlus::seed_from_u64(seed), strata, weights: vec![0; count] }
    }

    /// Number of times that each subscriber is in the next sample.
    pub(crate) fn next(&mut self) -> &[u32] {
        self.weights.fill(0);
        for stratum in &self.strata {
            for _ in 0..stratum.len() {
                let word = u128::from(self.random.next_u64());
                // Below the length, which is 64 bits wide.
                let at = ((word * stratum.len() as u128) >> 64) as usize;
                self.weights[stratum[at]] += 1;
            }
        }
        &self.weights
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn samples_keep_the_size_of_strata_and_come_again() {
        let strata = vec![vec![0, 2, 4], vec![1], vec![]];
        let mut first = Resample::new(7, 5, strata.clone());
        let mut second = Resample::new(7, 5, strata);
        let mut differ = false;
        for _ in 0..50 {
            let weights = first.next().to_vec();
            assert_eq!(weights[0] + weights[2] + weights[4], 3);
            assert_eq!((weights[1], weights[3]), (1, 0));
            assert_eq!(weights, second.next());
            differ |= weights[0] != 1;
        }
        assert!(differ);
    }
}
