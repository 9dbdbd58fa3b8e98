//! Belief about a link's rate, and the forecast for the next 100 ms. \[SP\] §3.1–§3.3.

use units::Duration;

use super::SproutParams;
use crate::fixed_point::{FRACTION_BITS, exp2, log2, square_root};

/// Rates that are told apart (\[SP\] §3.1: "256 values").
pub(super) const BINS: usize = 256;
/// All probabilities together.
pub(super) const ONE: u64 = 1 << 30;
/// A probability of the evolution's kernel and of [`UPPER_TAIL`].
const KERNEL_ONE: u64 = 1 << 16;
/// Standard deviations that the evolution reaches to either side; beyond lies less than a millionth.
const KERNEL_REACH: u64 = 5;
/// log₂ e in 65,536ths.
const LOG2_E: i64 = 94_548;

/// Pr(Z > z) of the normal distribution in 65,536ths, for z = 0, ¹⁄₁₆, … 4.
const UPPER_TAIL: [u64; 65] = [
    32_768, 31_135, 29_508, 27_894, 26_299, 24_729, 23_189, 21_684, 20_220, 18_801, 17_432, 16_114, 14_852,
    13_648, 12_503, 11_420, 10_398, 9_437, 8_539, 7_701, 6_924, 6_205, 5_542, 4_934, 4_378, 3_872, 3_413,
    2_999, 2_625, 2_291, 1_992, 1_726, 1_491, 1_283, 1_101, 941, 801, 680, 575, 485, 407, 341, 284, 236, 195,
    161, 132, 108, 88, 72, 58, 47, 38, 30, 24, 19, 15, 12, 9, 7, 6, 5, 3, 3, 2,
];

/// Result of a tick, in thousandths of a packet.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Observation {
    /// The link had data all the time.
    Exactly(u64),
    /// It had none at times.
    AtLeast(u64),
}

/// A rate, as what it means for a tick and for the horizon.
#[derive(Clone, Copy, Debug, stored::Stored)]
struct Bin {
    /// Packets of a tick, in thousandths.
    tick_permille: u64,
    /// log₂ of the packets of a tick, in 65,536ths; not used for a rate of zero.
    tick_log2: i64,
    /// Packets until the horizon, mean and standard deviation, in thousandths.
    mean_permille: u64,
    deviation_permille: u64,
}

/// A probability for each of 256 rates.
#[derive(Clone, Debug, stored::Stored)]
pub(super) struct Belief {
    bins: Vec<Bin>,
    /// Probabilities that a rate is a number of bins away after a tick, to one side; all of it twice, and the
    /// first once, is one.
    kernel: Vec<u64>,
    /// An outage lasts for another tick.
    stays_out: u64,
    /// Probabilities in parts of [`ONE`].
    pub(super) probabilities: Vec<u64>,
}

/// log₂ of thousandths, in 65,536ths.
fn log2_permille(value: u64) -> i64 {
    let log = |value: u64| i64::try_from(log2(value)).unwrap_or(i64::MAX);
    log(value) - log(1_000)
}

/// 2^(−exponent ÷ 65,536) of `one`, which is a power of two below 2³¹.
fn power(one: u64, exponent: i64) -> u64 {
    let bits = i64::from(one.ilog2()) << FRACTION_BITS;
    if exponent >= bits {
        0
    } else {
        exp2(u64::try_from(bits - exponent.max(0)).unwrap_or(0)) >> FRACTION_BITS
    }
}

/// Pr(Z ≤ (x − mean) ÷ deviation) in 65,536ths.
fn normal(x: u64, mean: u64, deviation: u64) -> u64 {
    // In 65,536ths of a sixteenth.
    let z = u128::from(x.abs_diff(mean)) * 16 * u128::from(KERNEL_ONE) / u128::from(deviation.max(1));
    let index = usize::try_from(z >> 16).unwrap_or(usize::MAX);
    let tail = match (UPPER_TAIL.get(index), UPPER_TAIL.get(index.saturating_add(1))) {
        (Some(&near), Some(&far)) => near - (((near - far) * (z as u64 & (KERNEL_ONE - 1))) >> 16),
        _ => 0,
    };
    if x >= mean { KERNEL_ONE - tail } else { tail }
}

impl Belief {
    /// All rates from none to the largest are equally likely.
    pub(super) fn new(params: &SproutParams) -> Self {
        let last = BINS as u64 - 1;
        let sigma_squared = u128::from(params.sigma_packets).pow(2);
        let packets_permille = |index: u64, time: Duration| {
            let packets =
                u128::from(index) * u128::from(params.rate_max_packets) * u128::from(time.as_nanos());
            u64::try_from(packets / u128::from(last) / 1_000_000).unwrap_or(u64::MAX)
        };
        // Of the Brownian motion's integral over the horizon T: σ²·T³ ÷ 3, in packets².
        let horizon_us = u128::from(params.horizon.as_nanos() / 1_000);
        let wandering_millionths = sigma_squared * horizon_us.pow(3) / 3 / 1_000_000_000_000;
        let bins = (0..BINS as u64).map(|index| {
            let mean_permille = packets_permille(index, params.horizon);
            // A Poisson count's variance is its mean.
            let variance =
                u128::from(mean_permille) * 1_000 + if index == 0 { 0 } else { wandering_millionths };
            let tick_permille = packets_permille(index, params.tick);
            Bin {
                tick_permille,
                tick_log2: log2_permille(tick_permille.max(1)),
                mean_permille,
                deviation_permille: square_root(variance),
            }
        });
        let mut belief = Self {
            bins: bins.collect(),
            kernel: Self::kernel(params),
            stays_out: Self::stays_out(params),
            probabilities: vec![ONE / BINS as u64; BINS],
        };
        belief.normalise();
        belief
    }

    /// A normal distribution of standard deviation σ·√τ.
    fn kernel(params: &SproutParams) -> Vec<u64> {
        let last = BINS as u128 - 1;
        // In thousandths of a bin squared.
        let tick_us = u128::from(params.tick.as_nanos() / 1_000);
        let variance = u128::from(params.sigma_packets).pow(2) * tick_us * last * last
            / 1_000
            / u128::from(params.rate_max_packets).pow(2);
        let variance = variance.max(1);
        let reach = u64::from(u8::MAX).min(KERNEL_REACH * square_root(variance / 1_000 + 1));
        // e^(−d² ÷ 2·variance), as a power of two.
        let weight = |distance: u64| {
            let exponent = u128::from(distance).pow(2) * LOG2_E as u128 * 1_000 / (2 * variance);
            power(ONE, i64::try_from(exponent).unwrap_or(i64::MAX))
        };
        let weights: Vec<u64> = (0..=reach).map(weight).collect();
        let total = 2 * weights.iter().sum::<u64>() - weights[0];
        weights.iter().map(|weight| weight * KERNEL_ONE / total).collect()
    }

    /// e^(−λz·τ).
    fn stays_out(params: &SproutParams) -> u64 {
        let tick_us = params.tick.as_nanos() / 1_000;
        let exponent = u128::from(params.outage_escape_permille) * u128::from(tick_us) * LOG2_E as u128;
        power(KERNEL_ONE << 14, i64::try_from(exponent / 1_000_000_000).unwrap_or(i64::MAX)) >> 14
    }

    /// A tick passes.
    pub(super) fn evolve(&mut self) {
        let mut next = vec![0u64; BINS];
        let last = BINS - 1;
        for (index, &probability) in self.probabilities.iter().enumerate().filter(|&(_, &p)| p > 0) {
            // An outage mostly lasts.
            let leaves = if index == 0 { KERNEL_ONE - self.stays_out } else { KERNEL_ONE };
            if index == 0 {
                next[0] += (probability * self.stays_out) >> 16;
            }
            let moving = (probability * leaves) >> 16;
            for (distance, &weight) in self.kernel.iter().enumerate() {
                let part = (moving * weight) >> 16;
                next[(index + distance).min(last)] += part;
                if distance > 0 {
                    // Who leaves an outage leaves upwards.
                    let below = if index == 0 { distance.min(last) } else { index.saturating_sub(distance) };
                    next[below] += part;
                }
            }
        }
        self.probabilities = next;
        self.normalise();
    }

    /// Bayes: each rate as likely as it was, times how likely it makes what was seen.
    pub(super) fn observe(&mut self, observation: Observation) {
        let score = |(bin, &probability): (&Bin, &u64)| {
            (probability > 0)
                .then(|| log2(probability) as i64)
                .and_then(|prior| Some(prior + bin.likelihood_log2(observation)?))
        };
        let scores: Vec<Option<i64>> = self.bins.iter().zip(&self.probabilities).map(score).collect();
        let Some(best) = scores.iter().flatten().max().copied() else {
            // Nothing that was believed possible makes this possible: believe in anything again.
            self.probabilities.fill(ONE / BINS as u64);
            return;
        };
        let posterior = scores.iter().map(|score| score.map_or(0, |score| power(ONE, best - score)));
        self.probabilities = posterior.collect();
        self.normalise();
    }

    fn normalise(&mut self) {
        let total = self.probabilities.iter().sum::<u64>().max(1);
        for probability in &mut self.probabilities {
            *probability = (u128::from(*probability) * u128::from(ONE) / u128::from(total)) as u64;
        }
    }

    /// The packets that come until the horizon with a risk of `risk_permille` of fewer.
    pub(super) fn forecast(&self, risk_permille: u64) -> u64 {
        let risk = u128::from(ONE) * u128::from(KERNEL_ONE) * u128::from(risk_permille) / 1_000;
        let at_most = |packets: u64| {
            let x = packets * 1_000 + 500;
            let sum = self.bins.iter().zip(&self.probabilities).map(|(bin, &probability)| {
                u128::from(probability) * u128::from(normal(x, bin.mean_permille, bin.deviation_permille))
            });
            sum.sum::<u128>()
        };
        let most = self.bins.last().map_or(0, |bin| (bin.mean_permille + 4 * bin.deviation_permille) / 1_000);
        let (mut low, mut high) = (0, most);
        while low < high {
            let middle = low.midpoint(high);
            if at_most(middle) >= risk {
                high = middle;
            } else {
                low = middle + 1;
            }
        }
        low
    }
}

impl Bin {
    /// log₂ of how likely `observation` is, up to what is the same for all rates, in 65,536ths; none if it
    /// is impossible.
    fn likelihood_log2(&self, observation: Observation) -> Option<i64> {
        let packets = |permille: u64| i64::try_from(permille.min(1 << 33)).unwrap_or(i64::MAX);
        let mean = packets(self.tick_permille);
        match observation {
            // λτ to the k, times e^(−λτ); k! is the same for all.
            Observation::Exactly(count) if mean > 0 => {
                Some((packets(count) * self.tick_log2 - mean * LOG2_E) / 1_000)
            }
            Observation::Exactly(count) => (count == 0).then_some(0),
            // More than the mean: likely. Less: Chernoff's bound, (λτ ÷ k)^k · e^(k − λτ).
            Observation::AtLeast(count) if self.tick_permille >= count => Some(0),
            Observation::AtLeast(count) if mean > 0 => {
                let ratio = self.tick_log2 - log2_permille(count);
                Some((packets(count) * ratio + (packets(count) - mean) * LOG2_E) / 1_000)
            }
            Observation::AtLeast(_) => None,
        }
    }
}
