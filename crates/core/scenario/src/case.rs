//! [`Case`]: what one case of a scenario changes, or all that it means.

use serde::{Deserialize, Serialize};

use crate::endpoints::{Accelerator, Client, Workload};
use crate::feedback::Feedback;
use crate::radio::{Radio, Wan};
use crate::server::Server;

/// A named variation. In [`crate::Scenario::cases`] it holds what differs, in [`crate::Scenario::resolved`] everything.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Case {
    /// Unique name within the scenario.
    pub name: String,
    /// Changes to the wired segment.
    #[serde(default, skip_serializing_if = "is_default")]
    pub wan: Wan,
    /// Changes to the radio link.
    #[serde(default, skip_serializing_if = "is_default")]
    pub radio: Radio,
    /// Changes to the base station's reports.
    #[serde(default, skip_serializing_if = "is_default")]
    pub feedback: Feedback,
    /// Changes to the device.
    #[serde(default, skip_serializing_if = "is_default")]
    pub client: Client,
    /// Changes to the server.
    #[serde(default, skip_serializing_if = "is_default")]
    pub server: Server,
    /// Changes to the accelerator.
    #[serde(default, skip_serializing_if = "is_default")]
    pub accelerator: Accelerator,
    /// Changes to what is sent.
    #[serde(default, skip_serializing_if = "is_default")]
    pub workload: Workload,
}

impl Case {
    /// The arguments of `cellerator run` that this case means, interfaces apart: first the rules by which flows
    /// beside the workload pass, then the accelerator's own.
    #[must_use]
    pub fn run_arguments(&self) -> Vec<String> {
        let beside = self.workload.beside().iter().enumerate();
        let rules = beside.filter_map(|(index, entry)| entry.rule(index));
        let rules = rules.flat_map(|rule| ["--rule".to_owned(), rule]);
        rules.chain(self.accelerator.run_arguments()).collect()
    }

    /// The first key that asks for what only the simulator has.
    #[must_use]
    pub fn simulated_only(&self) -> Option<&'static str> {
        let of_hosts = self.workload.simulated_only().or_else(|| self.server.simulated_only());
        of_hosts.or_else(|| self.radio.simulated_only())
    }

    /// The first key that asks for what only the lab has.
    #[must_use]
    pub fn lab_only(&self) -> Option<&'static str> {
        self.workload.lab_only().or_else(|| self.client.lab_only())
    }
}

fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}
