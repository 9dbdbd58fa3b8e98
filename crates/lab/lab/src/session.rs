//! [`Session`]: one network with its emulator and, if wanted, its accelerator.

use std::path::Path;

use scenario::{Case, Family, LinkPlan};

use crate::accelerator::{AcceleratorCommand, DrwaCommand, Running};
use crate::emulator::{Emulation, Emulator, Keep, Waking};
use crate::reporter::Reporter;
use crate::topology::{Network, client_address};
use crate::{Instance, LabError};

/// A network that is set up; everything goes when it is dropped.
#[derive(Debug)]
pub struct Session {
    // Dropped in this order: the accelerator undoes its rules while its namespace is still whole.
    accelerating: Option<Running>,
    managing: Option<Running>,
    emulator: Option<Emulator>,
    network: Network,
    family: Family,
}

impl Session {
    /// Makes the network of `case` and starts `accelerator` in it. Packets do not move yet.
    ///
    /// # Errors
    /// Without root, when the lab's namespaces exist, or the accelerator does not start.
    pub fn build(
        instance: &Instance,
        case: &Case,
        accelerator: Option<&AcceleratorCommand>,
    ) -> Result<Self, LabError> {
        Self::build_with(instance, case, accelerator, None)
    }

    /// The same, with DRWA in the client.
    ///
    /// # Errors
    /// As [`Session::build`], or when DRWA does not start.
    pub(crate) fn build_with(
        instance: &Instance,
        case: &Case,
        accelerator: Option<&AcceleratorCommand>,
        drwa: Option<&DrwaCommand>,
    ) -> Result<Self, LabError> {
        let network = Network::create(instance.name(), &case.server, &case.client)?;
        let family = case.workload.family();
        let mut session = Self { accelerating: None, managing: None, emulator: None, network, family };
        if let Some(command) = accelerator {
            let namespace = session.network.namespace(crate::Role::Accelerator);
            session.accelerating = Some(command.start(namespace, instance.directory())?);
        }
        if let Some(command) = drwa {
            let namespace = session.network.namespace(crate::Role::Client);
            session.managing = Some(command.start(namespace, instance.directory())?);
        }
        Ok(session)
    }

    /// Lets packets move through the links of `plan`, whose time begins now.
    ///
    /// # Errors
    /// When they do already, or a link cannot be made.
    pub fn begin(&mut self, plan: &LinkPlan, keep: Keep) -> Result<(), LabError> {
        let devices = self.network.take_devices();
        let devices =
            devices.ok_or_else(|| LabError::Which("the lab's links are running already".to_owned()))?;
        let reporter = plan.feedback.filter(|_| self.accelerating.is_some()).map(|config| {
            let accelerator = self.network.namespace(crate::Role::Accelerator);
            Reporter::open(config, accelerator, client_address(self.family))
        });
        self.emulator = Some(Emulator::start(devices, plan, keep, Waking::Early, reporter.transpose()?)?);
        Ok(())
    }

    /// The network.
    #[must_use]
    pub fn network(&self) -> &Network {
        &self.network
    }

    /// Refuses to go on when a part has ended by itself.
    ///
    /// # Errors
    /// Name of the part, with its own last words.
    pub fn check(&mut self) -> Result<(), LabError> {
        if self.emulator.as_ref().is_some_and(Emulator::has_failed) {
            return self.end().and(Err(LabError::Which("the emulator ended by itself".to_owned())));
        }
        [&mut self.accelerating, &mut self.managing].into_iter().flatten().try_for_each(Running::check)
    }

    /// Ends the accelerator, then the emulator, and gives what the emulator kept.
    ///
    /// # Errors
    /// When either ended with an error.
    pub fn end(&mut self) -> Result<Emulation, LabError> {
        if let Some(running) = self.accelerating.take() {
            running.stop()?;
        }
        if let Some(running) = self.managing.take() {
            running.stop()?;
        }
        let emulator = self.emulator.take();
        emulator.ok_or_else(|| LabError::Which("the lab's links are not running".to_owned()))?.finish()
    }
}

/// Reads the trace `file`, relative to `directory`.
///
/// # Errors
/// Error of the system.
pub fn read_trace(directory: &Path, file: &str) -> Result<String, String> {
    std::fs::read_to_string(directory.join(file)).map_err(|e| e.to_string())
}
