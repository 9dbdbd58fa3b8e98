//! [`DelayModel`]: one-way propagation time after service.

use units::Duration;

use crate::LinkError;
use crate::random::{Stage, Stream};

/// One-way delay that a packet takes after it was served. Order is kept whatever the model says: a
/// packet is never delivered before the one ahead of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DelayModel {
    /// The same for every packet.
    Fixed(Duration),
    /// Each packet's own, evenly spread.
    Uniform {
        /// Smallest.
        min: Duration,
        /// Largest, not below `min`.
        max: Duration,
    },
    /// Each packet's own, bell-shaped (sum of twelve even parts): at most six deviations from the
    /// mean, and never below zero.
    Normal {
        /// Centre.
        mean: Duration,
        /// Standard deviation.
        deviation: Duration,
    },
    /// Delays in turn, by the time at which the packet was served, repeating.
    Steps(Vec<(Duration, Duration)>),
}

impl Default for DelayModel {
    fn default() -> Self {
        Self::Fixed(Duration::ZERO)
    }
}

impl DelayModel {
    pub(crate) fn check(&self) -> Result<(), LinkError> {
        let wrong = |problem: String| Err(LinkError::setting("delay", problem));
        match self {
            Self::Uniform { min, max } if max < min => wrong(format!("maximum {max} is below minimum {min}")),
            Self::Steps(steps) if steps.is_empty() => {
                wrong("a list of delays needs at least one step".into())
            }
            Self::Steps(steps) => match steps.iter().position(|(length, _)| length.is_zero()) {
                Some(index) => wrong(format!("step {} lasts no time; give it a length", index + 1)),
                None => Ok(()),
            },
            Self::Fixed(_) | Self::Uniform { .. } | Self::Normal { .. } => Ok(()),
        }
    }
}

/// Draws the delay of each packet.
#[derive(Clone, Debug)]
pub(crate) struct Delay {
    model: DelayModel,
    random: Stream,
}

impl Delay {
    pub(crate) fn new(model: DelayModel, seed: u64) -> Self {
        Self { model, random: Stream::new(seed, Stage::Delay) }
    }

    /// The delay of a packet that was released at `at` since the link's start.
    pub(crate) fn draw(&mut self, at: Duration) -> Duration {
        match &self.model {
            DelayModel::Fixed(delay) => *delay,
            DelayModel::Uniform { min, max } => {
                let spread = (*max - *min).as_nanos().saturating_add(1);
                *min + Duration::from_nanos(self.random.below(spread))
            }
            DelayModel::Normal { mean, deviation } => {
                // Twelve even parts of [0, deviation] have mean six deviations and variance deviation².
                let spread = deviation.as_nanos().saturating_add(1);
                let sum = (0..12)
                    .fold(Duration::ZERO, |sum, _| sum + Duration::from_nanos(self.random.below(spread)));
                (*mean + sum) - *deviation * 6
            }
            DelayModel::Steps(steps) => {
                let total = steps.iter().fold(Duration::ZERO, |sum, (length, _)| sum + *length);
                let mut within = Duration::from_nanos(at.as_nanos() % total.as_nanos().max(1));
                for &(length, delay) in steps {
                    if within < length {
                        return delay;
                    }
                    within -= length;
                }
                Duration::ZERO
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ms(n: u64) -> Duration {
        Duration::from_millis(n)
    }

    #[test]
    fn uniform_stays_inside_and_fills_the_range() {
        let mut delay = Delay::new(DelayModel::Uniform { min: ms(10), max: ms(20) }, 1);
        let drawn: Vec<u64> = (0..10_000).map(|_| delay.draw(Duration::ZERO).as_micros()).collect();
        assert!(drawn.iter().all(|us| (10_000..=20_000).contains(us)));
        assert!(drawn.iter().any(|us| *us < 10_100) && drawn.iter().any(|us| *us > 19_900));
    }

    #[test]
    fn normal_has_its_mean_and_deviation() {
        let mut delay = Delay::new(DelayModel::Normal { mean: ms(50), deviation: ms(5) }, 2);
        let drawn: Vec<f64> = (0..100_000).map(|_| delay.draw(Duration::ZERO).as_millis_f64()).collect();
        let mean = drawn.iter().sum::<f64>() / drawn.len() as f64;
        let variance = drawn.iter().map(|x| (x - mean) * (x - mean)).sum::<f64>() / drawn.len() as f64;
        assert!((mean - 50.0).abs() < 0.1, "{mean}");
        assert!((variance.sqrt() - 5.0).abs() < 0.1, "{}", variance.sqrt());
    }

    #[test]
    fn normal_never_goes_below_zero() {
        let mut delay = Delay::new(DelayModel::Normal { mean: ms(1), deviation: ms(5) }, 2);
        assert!((0..1000).any(|_| delay.draw(Duration::ZERO).is_zero()));
    }

    #[test]
    fn steps_repeat() {
        let mut delay = Delay::new(DelayModel::Steps(vec![(ms(100), ms(5)), (ms(50), ms(40))]), 1);
        let at = [0, 99, 100, 149, 150, 250].map(|t| delay.draw(ms(t)).as_millis());
        assert_eq!(at, [5, 5, 40, 40, 5, 40]);
    }
}
