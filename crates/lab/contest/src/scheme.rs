//! [`Scheme`]: who controls the sending over the radio link, and how.

use core::fmt;
use core::str::FromStr;

use control::{AdaptiveServerParams, ControllerConfig, CubicParams, ParameterValue, RateParams};
use engine::{Action, EngineConfig, Policy, Sharing};
use scenario::parameter_value;
use units::Duration;

use crate::ContestError;

/// Place of the controller of the radio link.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Treatment {
    /// In the server; no accelerator.
    Direct,
    /// In the server's kernel as a BPF program, where kernels take part; simulated by its reference. No accelerator.
    Kernel,
    /// In the accelerator, one for all flows of the client.
    Accelerated,
    /// In the accelerator, one per flow: conventional split TCP.
    Split,
    /// In the server; the accelerator lowers the client's window.
    Drwa,
}

impl Treatment {
    const ALL: [Self; 5] = [Self::Direct, Self::Kernel, Self::Accelerated, Self::Split, Self::Drwa];

    /// The name used on the command line and in results.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Direct => "direct",
            Self::Kernel => "kernel",
            Self::Accelerated => "accel",
            Self::Split => "split",
            Self::Drwa => "drwa",
        }
    }
}

/// A way of sending, written `direct:cubic`, `kernel:adaptive`, `accel:rate`, `split:bbr`, `drwa:cubic`, with other parameters
/// than the defaults `accel:rate?alpha=40ms&beta=60ms`; `feedback=20ms` among these has the base station
/// report with that delay, with `schedule=off` what passes does not take turns with what is accelerated, and with
/// `markers=true` echo requests ask what has left of what passes.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Scheme {
    /// Name of the scheme in results.
    pub label: String,
    /// Place of its controller.
    pub treatment: Treatment,
    /// The controller.
    pub controller: ControllerConfig,
    /// Delay of the base station's reports to the accelerator; none without reports. Unless set, 20 ms for
    /// `accel:window-adaptation` and none for all others.
    pub feedback: Option<Duration>,
    /// True if passed packets take turns in the accelerator with accelerated ones. True.
    pub schedules_passed: bool,
    /// Echo requests ask what has left, where nothing else says so.
    pub has_markers: bool,
}

/// Delay of reports for the controller that is made for them.
const FEEDBACK: Duration = Duration::from_millis(20);

impl Scheme {
    /// Sets a parameter of its controller.
    ///
    /// # Errors
    /// No such parameter, or a value that it cannot take.
    pub fn set(&mut self, name: &str, value: &str) -> Result<(), ContestError> {
        let wrong = |problem: String| ContestError::Scheme { text: self.label.clone(), problem };
        let parsed = parameter_value(value).ok_or_else(|| {
            wrong(format!("`{value}` is no value: write 250, true, 20 ms, 5 Mbit/s, 10 KB or off"))
        })?;
        match (name, parsed) {
            ("feedback", ParameterValue::Time(delay)) => self.feedback = Some(delay),
            ("feedback", ParameterValue::Off) => self.feedback = None,
            ("schedule", ParameterValue::Flag(is_on)) => self.schedules_passed = is_on,
            ("schedule", ParameterValue::Off) => self.schedules_passed = false,
            ("schedule", _) => return Err(wrong("`schedule` takes true or off".to_owned())),
            ("markers", ParameterValue::Flag(is_on)) => self.has_markers = is_on,
            ("markers", ParameterValue::Off) => self.has_markers = false,
            ("markers", _) => return Err(wrong("`markers` takes true or off".to_owned())),
            ("feedback", _) => return Err(wrong("`feedback` takes a delay, like 20 ms, or off".to_owned())),
            (name, parsed) => {
                self.controller.set(name, parsed).map_err(|e| wrong(e.to_string()))?;
                if let ("r_cap", ControllerConfig::Rate(rate)) = (name, &mut self.controller) {
                    // Whoever states it knows the link.
                    (rate.r_cap_memory, rate.r_cap_is_start) = (None, false);
                }
            }
        }
        Ok(())
    }

    /// The accelerator's settings; none without one.
    #[must_use]
    pub fn engine(&self) -> Option<EngineConfig> {
        let sharing = match self.treatment {
            Treatment::Direct | Treatment::Kernel => return None,
            Treatment::Accelerated => Sharing::Subscriber,
            Treatment::Split => Sharing::Flow,
            Treatment::Drwa => {
                let policy = Policy { default: Action::Drwa, ..Policy::default() };
                return Some(EngineConfig { policy, ..EngineConfig::default() });
            }
        };
        let (schedule_passed, echo_markers) = (self.schedules_passed, self.has_markers);
        Some(EngineConfig {
            controller: self.controller,
            sharing,
            schedule_passed,
            echo_markers,
            ..EngineConfig::default()
        })
    }

    /// Congestion control of the server. Behind an accelerator it has only the wired segment before it.
    #[must_use]
    pub fn server_controller(&self) -> ControllerConfig {
        match self.treatment {
            Treatment::Direct | Treatment::Kernel | Treatment::Drwa => self.controller,
            Treatment::Accelerated | Treatment::Split => ControllerConfig::Cubic(CubicParams::default()),
        }
    }
}

impl fmt::Display for Scheme {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.label)
    }
}

impl FromStr for Scheme {
    type Err = ContestError;

    fn from_str(text: &str) -> Result<Self, ContestError> {
        let wrong = |problem: String| ContestError::Scheme { text: text.to_owned(), problem };
        let (path, parameters) = text.split_once('?').map_or((text, None), |(p, q)| (p, Some(q)));
        let (treatment, name) = path.split_once(':').unwrap_or((path, ""));
        let treatment = Treatment::ALL.into_iter().find(|t| t.name() == treatment).ok_or_else(|| {
            wrong(
                "write direct:NAME, kernel:adaptive, accel:NAME, split:NAME or drwa:NAME, as in \
                 direct:cubic,accel:rate"
                    .to_owned(),
            )
        })?;
        let mut controller = match (treatment, name) {
            (Treatment::Kernel, "adaptive") => {
                ControllerConfig::AdaptiveServer(AdaptiveServerParams::default())
            }
            (Treatment::Kernel, _) => {
                return Err(wrong(format!("kernel:NAME is kernel:adaptive; write direct:{name}")));
            }
            (_, name) => ControllerConfig::named(name).ok_or_else(|| {
                wrong(format!("no controller `{name}`; there are {}", ControllerConfig::NAMES.join(", ")))
            })?,
        };
        if let ControllerConfig::Rate(rate) = &mut controller {
            *rate = RateParams::learning();
        }
        let is_fed = treatment == Treatment::Accelerated && name == "window-adaptation";
        let feedback = is_fed.then_some(FEEDBACK);
        let mut scheme = Self {
            label: text.to_owned(),
            treatment,
            controller,
            feedback,
            schedules_passed: true,
            has_markers: false,
        };
        for setting in parameters.into_iter().flat_map(|list| list.split('&')) {
            let (name, value) =
                setting.split_once('=').ok_or_else(|| wrong(format!("`{setting}` is not NAME=VALUE")))?;
            scheme.set(name.trim(), value)?;
        }
        Ok(scheme)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_controller_makes_a_scheme_of_each_kind() {
        for treatment in Treatment::ALL.into_iter().filter(|one| *one != Treatment::Kernel) {
            for name in ControllerConfig::NAMES {
                let text = format!("{}:{name}", treatment.name());
                let scheme: Scheme = text.parse().unwrap();
                assert_eq!((scheme.treatment, scheme.controller.name()), (treatment, *name));
                assert_eq!(scheme.engine().is_none(), treatment == Treatment::Direct);
            }
        }
    }

    #[test]
    fn a_server_s_kernel_has_adaptive_alone() {
        let scheme: Scheme = "kernel:adaptive".parse().unwrap();
        assert_eq!(scheme.controller.name(), "adaptive-server");
        assert_eq!(scheme.server_controller(), scheme.controller);
        assert!(scheme.engine().is_none());
        let wrong = "kernel:cubic".parse::<Scheme>().unwrap_err().to_string();
        assert!(wrong.contains("write direct:cubic"), "{wrong}");
    }

    #[test]
    fn parameters_are_set_and_mistakes_are_named() {
        let scheme: Scheme = "accel:rate?alpha=7ms&k_segments=9".parse().unwrap();
        let parameters = scheme.controller.parameters();
        assert!(parameters.contains(&("alpha", ParameterValue::Time(Duration::from_millis(7)))));
        assert!(parameters.contains(&("k_segments", ParameterValue::Count(9))));
        let fed = |text: &str| text.parse::<Scheme>().unwrap().feedback;
        assert_eq!((fed("accel:window-adaptation"), fed("accel:rate")), (Some(FEEDBACK), None));
        assert_eq!(fed("accel:rate?feedback=5ms"), Some(Duration::from_millis(5)));
        assert_eq!(fed("accel:window-adaptation?feedback=off&law=in-flight"), None);
        let wrong = |text: &str| text.parse::<Scheme>().unwrap_err().to_string();
        assert!(wrong("cubic").contains("direct:NAME"));
        assert!(wrong("direct:tahoe").contains("no controller `tahoe`; there are "));
        assert!(wrong("accel:rate?gamma=1").contains("has no parameter `gamma`"));
        assert!(wrong("accel:rate?alpha=long").contains("takes a time, like 20 ms"));
        assert!(wrong("accel:rate?alpha=7 parsecs").contains("`7 parsecs` is no value"));
        assert!(wrong("accel:rate?alpha").contains("is not NAME=VALUE"));
    }
}
