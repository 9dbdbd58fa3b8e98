//! The same scenario with the project's own accelerator in it.

use scenario::{Controller, Scenario, WindowPolicy};

/// `scenario` with `controller = "adaptive"`, and what the client's window is answered by.
pub(crate) fn with_adaptive(scenario: &Scenario, policy: WindowPolicy) -> Scenario {
    let mut scenario = scenario.clone();
    scenario.name = format!("{}-adaptive", scenario.name);
    scenario.accelerator.enabled = Some(true);
    scenario.accelerator.controller = Controller::named("adaptive");
    scenario.accelerator.window_policy = Some(policy);
    scenario
}
