//! [`LossModel`]: packets lost at random.

use crate::LinkError;
use crate::error::check_ppm;
use crate::random::{Stage, Stream};

/// Model of random packet loss. Probabilities are in parts per million.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum LossModel {
    /// No loss.
    #[default]
    None,
    /// Each packet by itself.
    Bernoulli {
        /// Probability of loss.
        ppm: u32,
    },
    /// Two states, good and bad, that change from packet to packet: loss in bursts.
    ///
    /// The state moves first, then the packet is lost with the state's probability. It starts good. In
    /// the long run the bad state holds `to_bad / (to_bad + to_good)` of the packets.
    GilbertElliott {
        /// Probability per packet of going from good to bad.
        to_bad_ppm: u32,
        /// Probability per packet of going from bad to good.
        to_good_ppm: u32,
        /// Probability of loss while good.
        good_loss_ppm: u32,
        /// Probability of loss while bad.
        bad_loss_ppm: u32,
    },
}

impl LossModel {
    pub(crate) fn check(&self, setting: &'static str) -> Result<(), LinkError> {
        match *self {
            Self::None => Ok(()),
            Self::Bernoulli { ppm } => check_ppm(setting, ppm),
            Self::GilbertElliott { to_bad_ppm, to_good_ppm, good_loss_ppm, bad_loss_ppm } => {
                [to_bad_ppm, to_good_ppm, good_loss_ppm, bad_loss_ppm]
                    .into_iter()
                    .try_for_each(|ppm| check_ppm(setting, ppm))
            }
        }
    }
}

/// Takes the decisions of a [`LossModel`], one per packet.
#[derive(Clone, Debug)]
pub(crate) struct Loss {
    model: LossModel,
    random: Stream,
    is_bad: bool,
}

impl Loss {
    pub(crate) fn new(model: LossModel, seed: u64, stage: Stage) -> Self {
        Self { model, random: Stream::new(seed, stage), is_bad: false }
    }

    /// True when the next packet is lost.
    pub(crate) fn is_lost(&mut self) -> bool {
        match self.model {
            LossModel::None => false,
            LossModel::Bernoulli { ppm } => self.random.is_hit(ppm),
            LossModel::GilbertElliott { to_bad_ppm, to_good_ppm, good_loss_ppm, bad_loss_ppm } => {
                let change = if self.is_bad { to_good_ppm } else { to_bad_ppm };
                self.is_bad ^= self.random.is_hit(change);
                self.random.is_hit(if self.is_bad { bad_loss_ppm } else { good_loss_ppm })
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn decisions(model: LossModel, seed: u64, count: usize) -> Vec<bool> {
        let mut loss = Loss::new(model, seed, Stage::LossAfter);
        (0..count).map(|_| loss.is_lost()).collect()
    }

    #[test]
    fn bernoulli_rate() {
        let lost = decisions(LossModel::Bernoulli { ppm: 20_000 }, 3, 1_000_000);
        let count = lost.iter().filter(|lost| **lost).count();
        // Five standard deviations of a binomial are 700.
        assert!((19_300..20_700).contains(&count), "{count}");
    }

    /// Long-run loss is the mix of both states' rates, and losses come in runs of mean 1/to_good.
    #[test]
    fn gilbert_elliott_long_run_rate_and_burst_length() {
        let model = LossModel::GilbertElliott {
            to_bad_ppm: 1_000,
            to_good_ppm: 250_000,
            good_loss_ppm: 0,
            bad_loss_ppm: 1_000_000,
        };
        let lost = decisions(model, 11, 2_000_000);
        let count = lost.iter().filter(|lost| **lost).count() as f64;
        let expected = 1_000.0 / 251_000.0;
        let rate = count / lost.len() as f64;
        assert!((rate / expected - 1.0).abs() < 0.06, "{rate} against {expected}");
        let runs = lost.windows(2).filter(|pair| !pair[0] && pair[1]).count() as f64;
        assert!((count / runs - 4.0).abs() < 0.25, "mean run {}", count / runs);
    }

    #[test]
    fn same_seed_same_losses() {
        let model = LossModel::Bernoulli { ppm: 500_000 };
        assert_eq!(decisions(model, 5, 1000), decisions(model, 5, 1000));
        assert_ne!(decisions(model, 5, 1000), decisions(model, 6, 1000));
    }

    #[test]
    fn certain_and_impossible() {
        assert!(decisions(LossModel::Bernoulli { ppm: 1_000_000 }, 1, 1000).iter().all(|lost| *lost));
        assert!(!decisions(LossModel::Bernoulli { ppm: 0 }, 1, 1000).iter().any(|lost| *lost));
        assert!(LossModel::Bernoulli { ppm: 1_000_001 }.check("loss_after").is_err());
    }
}
