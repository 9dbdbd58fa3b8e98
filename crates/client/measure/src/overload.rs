//! [`Overload`]: whether a run was more than the path carries, or only lost packets that it loses anyway.
//!
//! A load above the capacity makes packets wait, or is dropped by a policer or a short queue. Losses at random, as of
//! a radio link, come as often at every rate, and nothing waits for them.

use probe::{Burst, RunFigures};

/// A rate is below the knee while the 95th percentile of the delay variation is below this (RFC 9097
/// Table 1, lower threshold) …
pub(crate) const KNEE_DELAY_MS: f64 = 30.0;
/// … and no more than this is lost, per cent.
pub(crate) const KNEE_LOSS_PERCENT: f64 = 1.0;
/// Number of deviations of a binomial beyond the usual from which losses are the load's.
const DEVIATIONS: f64 = 3.0;
/// Distances between losses from which on their evenness tells.
const DISTANCES_MIN: usize = 10;
/// Losses are even, as those of a policer, when their distances vary by less than this part of what chance does.
const EVEN: f64 = 0.6;

/// Random losses of the runs of one way.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Overload {
    /// Per cent of the packets, at every rate; zero of a path that loses none so.
    pub(crate) random_percent: f64,
}

impl Overload {
    /// Of runs at several rates: what the least of them loses while nothing waits, and not as evenly as a policer
    /// drops.
    pub(crate) fn of<'a>(runs: impl Iterator<Item = &'a RunFigures>) -> Self {
        let quiet = runs.filter(|figures| !has_queue(figures));
        let least = quiet.filter(|figures| figures.loss_percent.is_some()).min_by(|a, b| {
            let lost = |figures: &RunFigures| figures.loss_percent.unwrap_or(0.0);
            lost(a).total_cmp(&lost(b))
        });
        let random = least.filter(|figures| !is_even(&figures.bursts, figures.sent));
        Self { random_percent: random.and_then(|figures| figures.loss_percent).unwrap_or(0.0) }
    }

    /// Losses that are the load's, per cent.
    pub(crate) fn lost_percent(self, figures: &RunFigures) -> f64 {
        (figures.loss_percent.unwrap_or(0.0) - self.random_percent).max(0.0)
    }

    /// True when a run was more than the path carries.
    pub(crate) fn is_in(self, figures: &RunFigures) -> bool {
        let p = self.random_percent / 100.0;
        let by_chance = DEVIATIONS * 100.0 * (p * (1.0 - p) / f64::from(figures.sent.max(1))).sqrt();
        has_queue(figures) || self.lost_percent(figures) > KNEE_LOSS_PERCENT + by_chance
    }
}

fn has_queue(figures: &RunFigures) -> bool {
    figures.delay_variation.is_some_and(|delay| delay.p95_ms >= KNEE_DELAY_MS)
}

/// True when the lost packets, or those that arrive, are spread over `sent` packets more evenly than by
/// chance: a token bucket drops so if packets come at an even pace.
fn is_even(bursts: &[Burst], sent: u32) -> bool {
    let lost: Vec<u32> = bursts.iter().flat_map(|burst| burst.first..burst.first + burst.packets).collect();
    let share = lost.len() as f64 / f64::from(sent.max(1));
    // Of the rarer kind the places tell more.
    let (places, share): (Vec<u32>, f64) = if share > 0.5 {
        let lost: std::collections::BTreeSet<u32> = lost.into_iter().collect();
        ((0..sent).filter(|at| !lost.contains(at)).collect(), 1.0 - share)
    } else {
        (lost, share)
    };
    let distances: Vec<f64> = places.windows(2).map(|pair| f64::from(pair[1] - pair[0])).collect();
    if distances.len() < DISTANCES_MIN {
        return false;
    }
    let count = distances.len() as f64;
    let mean = distances.iter().sum::<f64>() / count;
    let variance = distances.iter().map(|d| (d - mean) * (d - mean)).sum::<f64>() / count;
    // Distances by chance are geometric.
    variance.sqrt() < EVEN * mean * (1.0 - share).sqrt()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Bursts of packets that `is_lost` says, of 2,000.
    fn bursts(is_lost: impl Fn(u32) -> bool) -> Vec<Burst> {
        (0..2_000).filter(|at| is_lost(*at)).map(|first| Burst { first, packets: 1, at_s: 0.0 }).collect()
    }

    /// Numbers that look random, and are the same everywhere.
    fn by_chance(per_mille: u32) -> impl Fn(u32) -> bool {
        move |at| {
            let mixed = u64::from(at + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
            let mixed = (mixed ^ mixed >> 29).wrapping_mul(0xbf58_476d_1ce4_e5b9);
            ((mixed ^ mixed >> 32) % 1_000) < u64::from(per_mille)
        }
    }

    #[test]
    fn a_policer_drops_more_evenly_than_chance() {
        for per_mille in [15, 50, 100, 300, 700] {
            assert!(!is_even(&bursts(by_chance(per_mille)), 2_000), "{per_mille}");
        }
        // A bucket takes packets of an even pace at equal distances, after a burst at first.
        for (share, taken) in [(0.05, 0.95), (0.3, 0.7), (0.75, 0.25)] {
            let dropped = bursts(|at| {
                at >= 200 && (f64::from(at) * taken) as u32 == (f64::from(at + 1) * taken) as u32
            });
            assert!(is_even(&dropped, 2_000), "{share}");
        }
        assert!(!is_even(&bursts(|at| at % 400 == 7), 2_000), "too few to tell");
    }
}
