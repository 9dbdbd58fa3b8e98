//! The same scenarios with the project's own accelerator in them.

use scenario::{Controller, Scenario, WindowPolicy};

use crate::runs::{least, mean, most};
use crate::{CaseId, Context, Looking, ReproduceError, Runs};

impl Context<'_> {
    /// Runs every case of `scenario` with `controller = "adaptive"`, which keeps to the client's window.
    ///
    /// # Errors
    /// As [`Context::run`].
    pub(crate) fn run_adaptive<C: CaseId>(&mut self, scenario: &Scenario) -> Result<Runs<C>, ReproduceError> {
        let mut scenario = scenario.clone();
        scenario.name = format!("{}-adaptive", scenario.name);
        scenario.accelerator.enabled = Some(true);
        scenario.accelerator.controller = Controller::named("adaptive");
        scenario.accelerator.window_policy = Some(WindowPolicy::Honour);
        self.watch(&scenario, Looking::default())
    }
}

impl<C: CaseId> Runs<C> {
    /// Least goodput of a case over that in other runs, of all cases.
    pub(crate) fn least_goodput_over(&self, other: &Self) -> f64 {
        least(C::all().into_iter().map(|case| mean(self.goodput(case)) / mean(other.goodput(case))))
    }

    /// Longest queue of a case, by its 95th percentile, over that in other runs, of all cases.
    pub(crate) fn longest_queue_over(&self, other: &Self) -> f64 {
        most(C::all().into_iter().map(|case| mean(self.queue_p95(case)) / mean(other.queue_p95(case))))
    }
}
