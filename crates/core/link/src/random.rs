//! [`Stream`]: one seeded sequence of random numbers per stage.
//!
//! Every stage draws from its own sequence, so that switching one stage on does not change what
//! another one decides. The mapping from raw words to decisions is written out here because its
//! result is part of a run's identity: it must not change with a library's version.

use rand::Rng;
use rand::SeedableRng;
use rand_xoshiro::Xoshiro256PlusPlus;

/// Parts in a million: the unit of all probabilities of the link model.
pub const PPM: u32 = 1_000_000;

/// Stage that draws; the number is part of the seed.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Stage {
    LossBefore = 1,
    LossAfter = 2,
    Delay = 3,
    Harq = 4,
    Outage = 5,
    TraceRate = 6,
    TraceOutage = 7,
    TraceSchedule = 8,
    Feedback = 9,
    Redraw = 10,
    FadeTimes = 11,
    FadeLoss = 12,
    Aqm = 13,
}

/// A seeded sequence of random numbers (xoshiro256++).
#[derive(Clone, Debug)]
pub(crate) struct Stream(Xoshiro256PlusPlus);

impl Stream {
    /// The sequence of one stage under a run's seed.
    pub(crate) fn new(seed: u64, stage: Stage) -> Self {
        // An odd multiplier spreads the stage numbers over all 64 bits; seeding itself mixes further.
        let mixed = seed ^ (stage as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        Self(Xoshiro256PlusPlus::seed_from_u64(mixed))
    }

    /// True with a probability of `ppm` parts in a million.
    pub(crate) fn is_hit(&mut self, ppm: u32) -> bool {
        self.below(u64::from(PPM)) < u64::from(ppm)
    }

    /// A number in `[0, bound)`, by multiply and shift; zero for a bound of zero.
    ///
    /// The bias is below `bound / 2^64`, far under anything a run could show.
    pub(crate) fn below(&mut self, bound: u64) -> u64 {
        ((u128::from(self.0.next_u64()) * u128::from(bound)) >> 64) as u64
    }

    /// A nearly normal number in millionths: the sum of twelve even ones, so never beyond six deviations.
    ///
    /// In whole numbers, because what it decides is part of a run's identity on every platform.
    pub(crate) fn gaussian_ppm(&mut self) -> i64 {
        let sum: u64 = (0..12).map(|_| self.below(u64::from(PPM))).sum();
        i64::try_from(sum).unwrap_or(0) - 6 * i64::from(PPM)
    }

    /// A number in `[0, 1)` with 53 random bits: for the generators only.
    pub(crate) fn unit(&mut self) -> f64 {
        (self.0.next_u64() >> 11) as f64 / (1u64 << 53) as f64
    }

    /// An exponentially distributed number with mean one: for the generators only.
    pub(crate) fn exponential(&mut self) -> f64 {
        -libm::log(1.0 - self.unit())
    }

    /// A standard normal number (Box–Muller, one of the pair): for the generators only.
    pub(crate) fn normal(&mut self) -> f64 {
        let radius = libm::sqrt(2.0 * self.exponential());
        radius * libm::cos(2.0 * core::f64::consts::PI * self.unit())
    }
}
