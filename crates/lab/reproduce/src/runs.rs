//! [`Runs`]: what came out of the cases of a scenario.

use std::marker::PhantomData;

use figures::stats::{self, Moments};
use scenario::results::{CaseResult, Figures};

use crate::{CaseId, RadioLog, Seen};

/// The mean, or no number.
pub(crate) fn mean(moments: Option<Moments>) -> f64 {
    moments.map_or(f64::NAN, |m| m.mean)
}

/// The least of these that is a number.
pub(crate) fn least(values: impl IntoIterator<Item = f64>) -> f64 {
    values.into_iter().fold(f64::NAN, f64::min)
}

/// The most of these that is a number.
pub(crate) fn most(values: impl IntoIterator<Item = f64>) -> f64 {
    values.into_iter().fold(f64::NAN, f64::max)
}

/// These, from the least on.
pub(crate) fn sorted(values: impl IntoIterator<Item = f64>) -> Vec<f64> {
    let mut values: Vec<f64> = values.into_iter().collect();
    values.sort_by(f64::total_cmp);
    values
}

/// One case and repetition.
#[derive(Clone, Debug)]
pub struct Run {
    /// Result of the case.
    pub result: CaseResult,
    /// Content of the packet log of the radio link in the direction of the data.
    pub radio: RadioLog,
    /// Observations of the run.
    pub seen: Seen,
    /// Number of times that the lab ran it before, because its emulator was late.
    pub repeated: u32,
}

/// Every case and repetition of a scenario that was run, with its cases looked up as `C`.
#[derive(Clone, Debug)]
pub struct Runs<C> {
    /// In the order run.
    pub runs: Vec<Run>,
    cases: PhantomData<C>,
}

impl<C> Default for Runs<C> {
    fn default() -> Self {
        Self::new(Vec::new())
    }
}

impl<C> Runs<C> {
    pub(crate) const fn new(runs: Vec<Run>) -> Self {
        Self { runs, cases: PhantomData }
    }
}

impl<C: CaseId> Runs<C> {
    /// The repetitions of a case.
    pub fn of(&self, case: C) -> impl Iterator<Item = &Run> {
        let name = case.name();
        self.runs.iter().filter(move |run| run.result.name == name)
    }
    /// The figures of a case's repetitions; nothing where it was skipped.
    pub fn figures(&self, case: C) -> impl Iterator<Item = &Figures> {
        self.of(case).filter_map(|run| run.result.figures.as_ref())
    }
    /// A case's first repetition that has figures.
    #[must_use]
    pub fn first(&self, case: C) -> Option<&Figures> {
        self.figures(case).next()
    }
    /// Mean and deviation of `value` over a case's repetitions; none where it was skipped.
    pub fn moments(&self, case: C, value: impl Fn(&Figures) -> f64) -> Option<Moments> {
        Moments::of(self.figures(case).map(value).filter(|v| v.is_finite()))
    }
    /// Goodput: data that the application received over the time it took, Mbit/s.
    #[must_use]
    pub fn goodput(&self, case: C) -> Option<Moments> {
        self.moments(case, |figures| figures.transfer.goodput_mbps)
    }
    /// 95th percentile of the queueing delay on the radio link, ms.
    #[must_use]
    pub fn queue_p95(&self, case: C) -> Option<Moments> {
        self.moments(case, |figures| figures.radio.queue_delay_ms.p95)
    }
    /// Delivered over offered bytes on the radio link.
    #[must_use]
    pub fn utilisation(&self, case: C) -> Option<Moments> {
        self.moments(case, |figures| figures.radio.utilisation.unwrap_or(f64::NAN))
    }
}

/// Means over bins that are a whole number of times as long; what does not fill a bin at the end is left out.
///
/// `bin_s` and `wanted_s` are in seconds; values stay as they are where the wanted bin is not longer.
#[must_use]
pub fn rebinned(values: &[f64], bin_s: f64, wanted_s: f64) -> Vec<f64> {
    let count = ((wanted_s / bin_s).round() as usize).max(1);
    values.chunks_exact(count).filter_map(|chunk| stats::mean(chunk.iter().copied())).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::case_id::case_ids;
    use crate::given;

    #[test]
    fn bins_are_joined_by_their_mean() {
        assert_eq!(rebinned(&[1.0, 3.0, 5.0, 7.0, 9.0], 0.25, 0.5), [2.0, 6.0]);
        assert_eq!(rebinned(&[1.0, 3.0], 1.0, 0.5), [1.0, 3.0]);
    }

    case_ids! {
        enum Flow { Plain = "plain", Skipped = "skipped", NotRun = "not run" }
    }

    fn runs() -> Runs<Flow> {
        let scenario =
            "name = \"s\"\nrepetitions = 2\n[[case]]\nname = \"skipped\"\n[[case]]\nname = \"plain\"\n";
        let scenario = scenario::Scenario::from_toml("s.toml", scenario).unwrap();
        let mut runs = given::runs(&scenario, &|_, case, repetition| {
            let mut made = given::Made::transfer(f64::from(repetition), 10.0 * f64::from(repetition));
            made.figures.radio.utilisation = (case == "plain" && repetition == 1).then_some(0.5);
            Some(made)
        });
        for run in runs.iter_mut().filter(|run| run.result.name == "skipped") {
            run.result.figures = None;
        }
        Runs::new(runs)
    }

    #[test]
    fn cases_are_looked_up_by_what_they_are() {
        let runs = runs();
        assert_eq!((runs.of(Flow::Plain).count(), runs.of(Flow::Skipped).count()), (2, 2));
        assert_eq!(runs.of(Flow::NotRun).count(), 0);
        let seeds: Vec<u64> = runs.of(Flow::Plain).map(|run| run.result.seed).collect();
        assert_eq!(seeds, [1, 2]);
    }

    #[test]
    fn what_was_skipped_or_never_run_has_no_figures() {
        let runs = runs();
        assert_eq!((runs.figures(Flow::Plain).count(), runs.figures(Flow::Skipped).count()), (2, 0));
        assert!(runs.first(Flow::Skipped).is_none() && runs.goodput(Flow::NotRun).is_none());
        assert!(mean(runs.queue_p95(Flow::Skipped)).is_nan());
        let first = runs.first(Flow::Plain).unwrap();
        assert!((first.transfer.goodput_mbps - 1.0).abs() < 1e-12);
    }

    #[test]
    fn moments_are_over_the_repetitions_that_have_a_number() {
        let runs = runs();
        let goodput = runs.goodput(Flow::Plain).unwrap();
        assert_eq!((goodput.mean, goodput.count), (1.5, 2));
        assert_eq!(runs.queue_p95(Flow::Plain).unwrap().mean, 15.0);
        // The second repetition has no limit, and so no utilisation.
        let used = runs.utilisation(Flow::Plain).unwrap();
        assert_eq!((used.mean, used.count), (0.5, 1));
    }
}
