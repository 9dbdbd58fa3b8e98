//! [`RateProcess`]: rates drawn anew at a fixed distance: \[WA\] §V and equation (2).
//!
//! - *redraw*: every draw is independent, from a stated distribution (\[WA\] Table I);
//! - *ARMA(p,q)*: `b(n) = b + Σ αᵢ·φ(n−i) + Σ βⱼ·ϕ(n−j)`, β₀ = 1, ϕ nearly normal with a
//!   given deviation (\[WA\] (2)).
//!
//! All in whole numbers, so that a seed gives the same rates on every platform.

use units::{Bytes, Duration, Rate};

use crate::random::{PPM, Stage, Stream};
use crate::trace::TraceBuilder;
use crate::{LinkError, OPPORTUNITY, RateSteps, Trace};

/// Rates drawn at once: a day of milliseconds.
const STEPS_MAX: u64 = 86_400_000;

/// Steps of an ARMA process that are drawn and thrown away, so that its beginning does not depend
/// on its start.
const WARM_UP: u64 = 1_000;

/// Coefficients on each side of an ARMA process.
const ORDER_MAX: usize = 32;

/// Distribution that a rate is drawn from.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Distribution {
    /// Every rate between the two equally often.
    Uniform(Rate, Rate),
    /// Nearly normal (never beyond six deviations), cut at both ends.
    Normal {
        /// Mean before the cut.
        mean: Rate,
        /// Standard deviation before the cut.
        deviation: Rate,
        /// Lowest rate.
        floor: Rate,
        /// Highest rate.
        peak: Rate,
    },
    /// Either of the two, the first one with this probability in parts per million.
    Either(Rate, Rate, u32),
}

/// Rates drawn anew at a fixed distance.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum RateProcess {
    /// Independent draws.
    Redraw {
        /// T: from draw to draw.
        every: Duration,
        /// Distribution that is drawn from.
        from: Distribution,
    },
    /// ARMA(p,q).
    Arma {
        /// Time from step to step.
        every: Duration,
        /// b: the nominal rate.
        mean: Rate,
        /// Standard deviation of ϕ.
        deviation: Rate,
        /// α₁…α_p in parts per million.
        alphas_ppm: Vec<i64>,
        /// β₁…β_q in parts per million; β₀ is one.
        betas_ppm: Vec<i64>,
        /// Highest rate; the lowest is zero.
        peak: Rate,
    },
}

impl RateProcess {
    fn every(&self) -> Duration {
        match self {
            Self::Redraw { every, .. } | Self::Arma { every, .. } => *every,
        }
    }

    fn check(&self, length: Duration) -> Result<u64, LinkError> {
        let every = self.every();
        if every < Duration::from_millis(1) {
            return Err(LinkError::setting("every", "must be at least 1 ms"));
        }
        let steps = length.as_nanos().div_ceil(every.as_nanos());
        if !(1..=STEPS_MAX).contains(&steps) {
            return Err(LinkError::setting("length", "must be from one step to 24 hours"));
        }
        match self {
            Self::Redraw { from: Distribution::Uniform(low, high), .. } if low > high => {
                Err(LinkError::setting("redraw", "the lowest rate is above the highest"))
            }
            Self::Redraw { from: Distribution::Either(_, _, ppm), .. } if *ppm > PPM => {
                Err(LinkError::setting("redraw", "a probability is above 100 %"))
            }
            Self::Arma { alphas_ppm, betas_ppm, .. } => {
                let is_large = |ppm: &i64| ppm.unsigned_abs() > 100 * u64::from(PPM);
                if alphas_ppm.len().max(betas_ppm.len()) > ORDER_MAX {
                    Err(LinkError::setting("arma", format!("at most {ORDER_MAX} coefficients on each side")))
                } else if alphas_ppm.iter().chain(betas_ppm).any(is_large) {
                    Err(LinkError::setting("arma", "a coefficient is beyond 100"))
                } else {
                    Ok(steps)
                }
            }
            Self::Redraw { .. } => Ok(steps),
        }
    }

    /// The rates of `length`, one per step.
    ///
    /// # Errors
    /// [`LinkError::Setting`] for settings out of range.
    pub fn rates(&self, length: Duration, seed: u64) -> Result<Vec<Rate>, LinkError> {
        let steps = self.check(length)?;
        let mut random = Stream::new(seed, Stage::Redraw);
        Ok(match self {
            Self::Redraw { from, .. } => (0..steps).map(|_| draw(from, &mut random)).collect(),
            Self::Arma { mean, deviation, alphas_ppm, betas_ppm, peak, .. } => {
                let mut arma = Arma::new(*deviation, alphas_ppm, betas_ppm);
                let all = (0..WARM_UP + steps).map(|_| {
                    let rate = i128::from(mean.as_bps()) + arma.next(&mut random);
                    Rate::from_bps(u64::try_from(rate.max(0)).unwrap_or(u64::MAX)).min(*peak)
                });
                all.skip(usize::try_from(WARM_UP).unwrap_or(0)).collect()
            }
        })
    }

    /// The same as a capacity that begins anew after `length`.
    ///
    /// # Errors
    /// As [`RateProcess::rates`].
    pub fn steps(&self, length: Duration, seed: u64) -> Result<RateSteps, LinkError> {
        let every = self.every();
        let steps: Vec<_> = self.rates(length, seed)?.into_iter().map(|rate| (every, rate)).collect();
        RateSteps::new(&steps, true)
    }

    /// The same as delivery opportunities: in each millisecond as many as its share of the rate has
    /// made whole.
    ///
    /// # Errors
    /// As [`RateProcess::rates`], or when nothing is ever carried.
    pub fn trace(&self, length: Duration, seed: u64) -> Result<Trace, LinkError> {
        let (every, rates) = (self.every(), self.rates(length, seed)?);
        let mut builder = TraceBuilder::new("generated trace");
        // In bits times 10^3, of which a rate gives a whole number each millisecond.
        let (mut credit, mut line) = (0u128, 0);
        let opportunity = u128::from(OPPORTUNITY.get()) * 8_000;
        for ms in 1..=length.as_millis() {
            let begins = Duration::from_millis(ms - 1);
            let step = usize::try_from(begins.as_nanos() / every.as_nanos()).unwrap_or(usize::MAX);
            let rate = rates.get(step).copied().unwrap_or(Rate::ZERO);
            credit += u128::from(rate.as_bps());
            for _ in 0..credit / opportunity {
                line += 1;
                builder.push(line, ms)?;
            }
            credit %= opportunity;
        }
        builder.finish()
    }
}

fn draw(from: &Distribution, random: &mut Stream) -> Rate {
    match from {
        Distribution::Uniform(low, high) => {
            let width = high.as_bps() - low.as_bps();
            Rate::from_bps(low.as_bps() + random.below(width.saturating_add(1)))
        }
        Distribution::Normal { mean, deviation, floor, peak } => {
            let by = i128::from(deviation.as_bps()) * i128::from(random.gaussian_ppm()) / i128::from(PPM);
            let rate = (i128::from(mean.as_bps()) + by).max(0);
            Rate::from_bps(u64::try_from(rate).unwrap_or(u64::MAX)).max(*floor).min(*peak)
        }
        Distribution::Either(one, other, ppm) => {
            if random.is_hit(*ppm) {
                *one
            } else {
                *other
            }
        }
    }
}

/// φ of (2), in bit/s.
struct Arma<'a> {
    deviation: i128,
    alphas_ppm: &'a [i64],
    betas_ppm: &'a [i64],
    /// φ(n−1), φ(n−2), …
    phi: Vec<i128>,
    /// ϕ(n−1), ϕ(n−2), …
    noise: Vec<i128>,
}

/// An unstable process is held here, far beyond every rate.
const PHI_MAX: i128 = 1 << 80;

impl<'a> Arma<'a> {
    fn new(deviation: Rate, alphas_ppm: &'a [i64], betas_ppm: &'a [i64]) -> Self {
        Self {
            deviation: i128::from(deviation.as_bps()),
            alphas_ppm,
            betas_ppm,
            phi: vec![0; alphas_ppm.len()],
            noise: vec![0; betas_ppm.len()],
        }
    }

    fn next(&mut self, random: &mut Stream) -> i128 {
        let ppm = i128::from(PPM);
        let new = self.deviation * i128::from(random.gaussian_ppm()) / ppm;
        let sum = |coefficients: &[i64], past: &[i128]| -> i128 {
            coefficients.iter().zip(past).map(|(c, value)| i128::from(*c) * value).sum()
        };
        let phi = new + (sum(self.alphas_ppm, &self.phi) + sum(self.betas_ppm, &self.noise)) / ppm;
        let phi = phi.clamp(-PHI_MAX, PHI_MAX);
        for (past, value) in [(&mut self.phi, phi), (&mut self.noise, new)] {
            let by = usize::from(!past.is_empty());
            past.rotate_right(by);
            if let Some(first) = past.first_mut() {
                *first = value;
            }
        }
        phi
    }
}

/// Bytes the rates carry in `length`: the upper bound of \[WA\] Table I.
#[must_use]
pub fn carried(rates: &[Rate], every: Duration) -> Bytes {
    rates.iter().fold(Bytes::ZERO, |sum, rate| sum + rate.bytes_in(every))
}

#[cfg(test)]
mod tests {
    use super::*;

    const EVERY: Duration = Duration::from_millis(20);
    const LENGTH: Duration = Duration::from_secs(400);

    fn arma(alphas_ppm: &[i64], betas_ppm: &[i64]) -> RateProcess {
        RateProcess::Arma {
            every: EVERY,
            mean: Rate::from_mbps(100),
            deviation: Rate::from_mbps(1),
            alphas_ppm: alphas_ppm.to_vec(),
            betas_ppm: betas_ppm.to_vec(),
            peak: Rate::from_mbps(200),
        }
    }

    /// Mean, variance and autocovariance at distance one, in Mbit/s.
    fn moments(process: &RateProcess) -> (f64, f64, f64) {
        let rates: Vec<f64> =
            process.rates(LENGTH, 3).unwrap().iter().map(|rate| rate.as_mbps_f64()).collect();
        let n = rates.len() as f64;
        let mean = rates.iter().sum::<f64>() / n;
        let cov =
            |d: usize| rates.iter().zip(&rates[d..]).map(|(a, b)| (a - mean) * (b - mean)).sum::<f64>() / n;
        (mean, cov(0), cov(1))
    }

    #[test]
    fn uniform_draws_have_their_moments_and_hold_for_their_time() {
        let from = Distribution::Uniform(Rate::from_mbps(1), Rate::from_mbps(2));
        let process = RateProcess::Redraw { every: EVERY, from };
        let (mean, variance, cov) = moments(&process);
        assert!((mean - 1.5).abs() < 0.01 && (variance - 1.0 / 12.0).abs() < 0.003, "{mean} {variance}");
        assert!(cov.abs() < 0.003, "{cov}");
        assert_eq!(process.rates(LENGTH, 3), process.rates(LENGTH, 3));
        assert_ne!(process.rates(LENGTH, 3), process.rates(LENGTH, 4));
        let rates = process.rates(Duration::from_secs(10), 3).unwrap();
        let trace = process.trace(Duration::from_secs(10), 3).unwrap();
        let (whole, offered) =
            (carried(&rates, EVERY), trace.offered_bytes(Duration::ZERO, Duration::from_secs(10)));
        assert!(whole.get().abs_diff(offered.get()) < 5_000, "{whole} {offered}");
    }

    #[test]
    fn an_arma_process_has_the_covariances_of_its_coefficients() {
        // AR(1): variance 1 ÷ (1 − α²), covariance α times that.
        let (mean, variance, cov) = moments(&arma(&[800_000], &[]));
        assert!((mean - 100.0).abs() < 0.3, "{mean}");
        assert!(
            (variance - 1.0 / 0.36).abs() < 0.3 && (cov / variance - 0.8).abs() < 0.02,
            "{variance} {cov}"
        );
        // MA(1): variance 1 + β², covariance β.
        let (_, variance, cov) = moments(&arma(&[], &[500_000]));
        assert!((variance - 1.25).abs() < 0.05 && (cov - 0.5).abs() < 0.03, "{variance} {cov}");
    }

    #[test]
    fn a_root_outside_the_unit_circle_reaches_the_limits_and_no_further() {
        let rates = arma(&[1_100_000], &[]).rates(LENGTH, 1).unwrap();
        let extreme = |rate: &&Rate| **rate == Rate::ZERO || **rate == Rate::from_mbps(200);
        assert!(rates.iter().filter(extreme).count() > rates.len() * 9 / 10);
    }

    #[test]
    fn two_rates_and_a_cut_normal_keep_to_their_limits() {
        let (low, high) = (Rate::from_kbps(38), Rate::from_kbps(384));
        let either = Distribution::Either(low, high, 250_000);
        let rates = RateProcess::Redraw { every: EVERY, from: either }.rates(LENGTH, 1).unwrap();
        let share = rates.iter().filter(|rate| **rate == low).count() as f64 / rates.len() as f64;
        assert!((share - 0.25).abs() < 0.02, "{share}");
        let normal = Distribution::Normal {
            mean: Rate::from_mbps(1),
            deviation: Rate::from_mbps(1),
            floor: low,
            peak: Rate::from_mbps(2),
        };
        let rates = RateProcess::Redraw { every: EVERY, from: normal }.rates(LENGTH, 1).unwrap();
        assert!(rates.iter().all(|rate| *rate <= Rate::from_mbps(2) && *rate >= low) && rates.contains(&low));
    }

    #[test]
    fn nonsense_is_named() {
        let wrong = Distribution::Uniform(Rate::from_mbps(2), Rate::from_mbps(1));
        let error = |process: RateProcess| process.rates(LENGTH, 1).unwrap_err().to_string();
        assert!(
            error(RateProcess::Redraw { every: EVERY, from: wrong.clone() }).contains("above the highest")
        );
        assert!(error(RateProcess::Redraw { every: Duration::ZERO, from: wrong }).contains("at least 1 ms"));
        assert!(error(arma(&[0; 40], &[])).contains("at most 32"));
    }
}
