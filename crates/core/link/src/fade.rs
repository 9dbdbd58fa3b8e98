//! [`Fades`]: times in which what is put on the air is lost.
//!
//! A radio loses in time, not in packets: a fade, a transport block given up, a hand-over gap lasts for as
//! long as it lasts, no matter who sends. So how often losses come does not depend on how fast one sends; how
//! many packets each takes does. [`LossModel::GilbertElliott`](crate::LossModel::GilbertElliott), whose
//! states change from packet to packet, has it the other way round.

use units::Duration;

use crate::error::check_ppm;
use crate::outage::Outages;
use crate::random::{Stage, Stream};
use crate::{LinkError, OutageModel};

/// Two states in time: packets that leave the queue for the air within a fade are lost.
///
/// Service goes on, so lost packets have used their capacity; an [`OutageModel`] stops it and loses nothing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fades {
    /// Model of the times of fades.
    pub when: OutageModel,
    /// Probability of losing a packet within one, in parts per million.
    pub loss_ppm: u32,
}

impl Fades {
    /// Fades at random: exponentially distributed lengths of mean `length`, and gaps such that one
    /// begins every `every` in the mean.
    #[must_use]
    pub fn random(every: Duration, length: Duration, loss_ppm: u32) -> Self {
        let when = OutageModel::Random { gap_mean: every.saturating_sub(length), length_mean: length };
        Self { when, loss_ppm }
    }

    /// Fades of the same length and spacing, the first one after a whole spacing.
    #[must_use]
    pub fn regular(every: Duration, length: Duration, loss_ppm: u32) -> Self {
        Self { when: OutageModel::Periodic { first: every, period: every, length }, loss_ppm }
    }

    /// # Errors
    ///
    /// [`LinkError::Setting`] for impossible times and probabilities.
    pub(crate) fn check(&self) -> Result<(), LinkError> {
        self.when.check("fades")?;
        check_ppm("fades.loss", self.loss_ppm)
    }
}

/// Takes the decisions of [`Fades`], for packets whose times never go back.
#[derive(Clone, Debug)]
pub(crate) struct FadeStage {
    fades: Option<(Outages, u32)>,
    random: Stream,
}

impl FadeStage {
    pub(crate) fn new(fades: Option<&Fades>, seed: u64) -> Self {
        let times = |fades: &Fades| Outages::new(&fades.when, seed, Stage::FadeTimes);
        Self {
            fades: fades.map(|fades| (times(fades), fades.loss_ppm)),
            random: Stream::new(seed, Stage::FadeLoss),
        }
    }

    /// True when a packet put on the air at `departure`, since the link's start, is lost.
    pub(crate) fn is_lost(&mut self, departure: Duration) -> bool {
        let Some((times, loss_ppm)) = &mut self.fades else { return false };
        times.end_of_outage_at(departure).is_some() && self.random.is_hit(*loss_ppm)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const CERTAIN: u32 = crate::PPM;

    fn ms(n: u64) -> Duration {
        Duration::from_millis(n)
    }

    /// Decisions for packets that leave every `every_us`, for `seconds`.
    fn decisions(fades: &Fades, seed: u64, every_us: u64, seconds: u64) -> Vec<bool> {
        let mut stage = FadeStage::new(Some(fades), seed);
        (0..seconds * 1_000_000 / every_us)
            .map(|number| stage.is_lost(Duration::from_micros(number * every_us)))
            .collect()
    }

    /// Runs of losses, and losses.
    fn events(lost: &[bool]) -> (f64, f64) {
        let runs = lost.windows(2).filter(|pair| !pair[0] && pair[1]).count();
        (runs as f64, lost.iter().filter(|lost| **lost).count() as f64)
    }

    #[test]
    fn regular_fades_lose_what_leaves_within_them() {
        let mut stage = FadeStage::new(Some(&Fades::regular(ms(100), ms(10), CERTAIN)), 1);
        let lost: Vec<u64> = (0..350).filter(|at| stage.is_lost(ms(*at))).collect();
        let expected: Vec<u64> = (100..110).chain(200..210).chain(300..310).collect();
        assert_eq!(lost, expected);
    }

    /// 10,000 fades: their number within five standard deviations of a Poisson process, their share
    /// of the time too.
    #[test]
    fn random_fades_have_their_spacing_and_their_share_of_the_time() {
        let fades = Fades::random(ms(500), ms(20), CERTAIN);
        let lost = decisions(&fades, 3, 250, 5_000);
        let (runs, losses) = events(&lost);
        assert!((9_500.0..10_500.0).contains(&runs), "{runs} fades");
        let share = losses / lost.len() as f64;
        assert!((0.037..0.043).contains(&share), "{share} of the time");
    }

    /// Tells fades from losses by packet: four times the packets meet the same fades, and lose four
    /// times as many in each.
    #[test]
    fn how_often_does_not_depend_on_how_fast() {
        let fades = Fades::random(ms(500), ms(20), CERTAIN);
        let (slow_runs, slow_losses) = events(&decisions(&fades, 3, 1_000, 1_000));
        let (fast_runs, fast_losses) = events(&decisions(&fades, 3, 250, 1_000));
        assert!((slow_runs / fast_runs - 1.0).abs() < 0.06, "{slow_runs} and {fast_runs}");
        assert!((fast_losses / slow_losses / 4.0 - 1.0).abs() < 0.02, "{slow_losses} and {fast_losses}");
    }

    #[test]
    fn within_a_fade_the_stated_share_is_lost() {
        let always = OutageModel::Scheduled(vec![(ms(0), ms(1_000_000))]);
        let lost = decisions(&Fades { when: always, loss_ppm: 300_000 }, 5, 1_000, 200);
        let (_, losses) = events(&lost);
        // Five standard deviations of a binomial of 200,000 are 1,025.
        assert!((58_975.0..61_025.0).contains(&losses), "{losses}");
    }

    #[test]
    fn same_seed_same_losses() {
        let fades = Fades::random(ms(50), ms(5), 500_000);
        assert_eq!(decisions(&fades, 7, 500, 20), decisions(&fades, 7, 500, 20));
        assert_ne!(decisions(&fades, 7, 500, 20), decisions(&fades, 8, 500, 20));
        assert!(!FadeStage::new(None, 7).is_lost(ms(1)));
    }

    #[test]
    fn impossible_fades_are_refused() {
        let said = |fades: Fades| fades.check().unwrap_err().to_string();
        assert!(said(Fades::random(ms(5), ms(5), CERTAIN)).contains("`fades`"));
        assert!(said(Fades::regular(ms(5), ms(5), CERTAIN)).contains("`fades`"));
        assert!(said(Fades::random(ms(50), ms(5), CERTAIN + 1)).contains("`fades.loss`"));
        assert!(Fades::random(ms(50), ms(5), CERTAIN).check().is_ok());
    }
}
