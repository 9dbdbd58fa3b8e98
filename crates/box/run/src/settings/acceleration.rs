//! [`EngineArgs`]: which controller accelerates, with what parameters.

use core::str::FromStr;
use std::hash::{BuildHasher, Hasher, RandomState};

use control::{ControllerConfig, ControllerKind, FixedParams, RateParams};
use engine::{ClientEcn, ConfigError, EngineConfig, Sharing, WindowPolicy};
use scenario::{Controller, Quantity, QuantityError, parameter_value};
use serde::Deserialize;
use units::{Bytes, Duration, Rate};

use super::choice::Named;
use super::feedback::WindowAdaptationArgs;
use super::policy::PolicyArgs;
use super::value::{Written, many};

/// Settings for the acceleration of flows.
#[derive(clap::Args, Deserialize)]
#[serde(default, rename_all = "kebab-case")]
#[command(next_help_heading = "Acceleration")]
pub(super) struct EngineArgs {
    /// The controller: how the sending rate towards a client is found
    #[arg(long, default_value = "adaptive")]
    controller: Named<Controller>,
    /// The rate of `fixed` [default: 5.6 Mbit/s]
    #[arg(long)]
    rate: Option<Quantity<Rate>>,
    /// Capacity of the link, for `rate`: nothing is sent faster. [MA] has 100 Mbit/s for LTE and 5.6
    /// Mbit/s for 3G [default: learned, 5/4 of the largest delivery rate of 10 s, at least 100 Mbit/s]
    #[arg(long)]
    r_cap: Option<Quantity<Rate>>,
    /// Most data in flight, as time at the current rate, or `none` [default: 120 ms for `rate`, none for
    /// `fixed`]
    #[arg(long, value_name = "TIME")]
    in_flight_cap: Option<Written<Cap>>,
    /// Flows that share a controller: all flows of a client address, which share one radio queue, or none, as in
    /// conventional split TCP
    #[arg(long, default_value = "subscriber")]
    sharing: Named<Sharing>,
    /// Set a parameter of the controller, such as `beta_permille=800` for `cubic` or `r_cap_memory=10s`
    /// for `rate`. An unknown name is answered with the list of names. May be given several times
    #[arg(long, value_name = "NAME=VALUE")]
    #[serde(deserialize_with = "many")]
    pub(super) set: Vec<String>,
    /// Whether the client's receive window limits what is sent to it. Read NOTICE before you choose
    /// `opportunistic`
    #[arg(long, default_value = "honour")]
    window_policy: Named<WindowPolicy>,
    /// ECN codepoint of data to a client, where it and the server agreed on ECN. With `ect0` a queue on the way may
    /// mark data in place of dropping it, and the controller answers as to congestion; the server hears nothing of it
    #[arg(long, default_value = "not-ect")]
    ecn: Named<ClientEcn>,
    /// Leave what passes (QUIC, other UDP, TCP that is not accelerated) to itself: it takes no turns with accelerated
    /// flows, and does not wait in a queue here
    #[arg(long)]
    no_schedule: bool,
    /// Ask subscribers with echo requests (ICMP) what has arrived, while QUIC or other UDP alone is under way to them:
    /// then that waits in a short queue, too. One request of 40 bytes follows each 6 kB, 5 to 25 ms apart. Programs
    /// must steer (tcx)
    #[arg(long)]
    echo_markers: bool,
    /// Pass everything unchanged through this process
    #[arg(long)]
    no_accelerate: bool,
    #[command(flatten)]
    #[serde(flatten)]
    window_adaptation: WindowAdaptationArgs,
    #[command(flatten)]
    #[serde(flatten)]
    pub(super) policy: PolicyArgs,
}

/// A limit of data in flight, or none.
#[derive(Clone, Copy)]
struct Cap(Option<Duration>);

impl FromStr for Cap {
    type Err = QuantityError;

    fn from_str(text: &str) -> Result<Self, QuantityError> {
        if text == "none" {
            return Ok(Self(None));
        }
        text.parse().map(|Quantity(time)| Self(Some(time)))
    }
}

impl EngineArgs {
    /// The engine's settings; an error is one line.
    pub(super) fn config(&self) -> Result<EngineConfig, String> {
        let mut config = EngineConfig {
            accelerate: !self.no_accelerate,
            controller: with_parameters(self.controller()?, &self.set)?,
            sharing: self.sharing.0,
            window_policy: self.window_policy.0,
            client_ecn: self.ecn.0,
            schedule_passed: !self.no_schedule,
            echo_markers: self.echo_markers,
            hash_seed: RandomState::new().build_hasher().finish(),
            ..EngineConfig::default()
        };
        self.policy.apply(&mut config);
        config.validate().map_err(|error| format!("run: {}", in_flags(&error)))?;
        enough(&config)?;
        Ok(config)
    }

    /// Tells that passed traffic is scheduled.
    pub(super) fn schedules(&self) -> bool {
        !self.no_schedule && !self.no_accelerate && self.sharing.0 == Sharing::Subscriber
    }

    /// Subscribers are asked by echo requests.
    pub(super) fn has_echo_markers(&self) -> bool {
        self.echo_markers
    }

    fn controller(&self) -> Result<ControllerConfig, String> {
        let Named(controller) = self.controller;
        match controller.kind() {
            ControllerKind::Fixed if self.r_cap.is_some() => {
                Err("run: --r-cap belongs to --controller rate; `fixed` has --rate".to_owned())
            }
            ControllerKind::Rate if self.rate.is_some() => {
                Err("run: --rate belongs to --controller fixed; `rate` has --r-cap".to_owned())
            }
            ControllerKind::Fixed => Ok(ControllerConfig::Fixed(self.fixed())),
            ControllerKind::Rate => Ok(ControllerConfig::Rate(self.learning_rate())),
            _ if self.rate.is_some() || self.r_cap.is_some() || self.in_flight_cap.is_some() => Err(
                "run: --rate, --r-cap and --in-flight-cap belong to --controller fixed and rate; the others \
                     find their limits themselves"
                    .to_owned(),
            ),
            ControllerKind::WindowAdaptation => Ok(self.window_adaptation.config()),
            _ => Ok(controller.config()),
        }
    }

    fn fixed(&self) -> FixedParams {
        let mut params = FixedParams::default();
        params.rate = self.rate.map_or(params.rate, |Quantity(rate)| rate);
        if let Some(Written(Cap(cap))) = self.in_flight_cap {
            params.window = cap.map_or(Bytes::MAX, |cap| params.rate.bytes_in(cap));
        }
        params
    }

    fn learning_rate(&self) -> RateParams {
        let mut params = match self.r_cap {
            Some(Quantity(r_cap)) => RateParams { r_cap, ..RateParams::default() },
            None => RateParams::learning(),
        };
        params.in_flight_cap = self.in_flight_cap.map_or(params.in_flight_cap, |Written(Cap(cap))| cap);
        params
    }
}

/// Less than this holds no flow's data: so it is a mistake, or a unit is missing. As long as a window without scaling.
const FLOW_MEMORY_MIN: Bytes = Bytes::from_kib(64);
/// The same for all flows together.
const MEMORY_MIN: Bytes = Bytes::from_kib(1_024);
/// A window below some segments makes a server wait for each of them.
const WINDOW_MIN: Bytes = Bytes::from_kib(4);

/// Refuses sizes with which nothing is accelerated.
fn enough(config: &EngineConfig) -> Result<(), String> {
    let sizes = [
        ("--memory-max", config.buffer_max, MEMORY_MIN),
        ("--subscriber-memory-max", config.subscriber_buffer_max, FLOW_MEMORY_MIN),
        ("--flow-memory-max", config.flow_buffer_max, FLOW_MEMORY_MIN),
        ("--window-max", config.window_max, WINDOW_MIN),
    ];
    match sizes.into_iter().find(|(_, size, least)| size < least) {
        Some((flag, size, least)) => Err(format!(
            "run: {flag} {} B: with less than {} KiB nothing is accelerated",
            size.get(),
            least.get() / 1_024
        )),
        None => Ok(()),
    }
}

/// Problem with the engine's settings, with the flags that set them.
fn in_flags(error: &ConfigError) -> String {
    const FLAGS: [(&str, &str); 4] = [
        ("buffer_max", "--memory-max"),
        ("subscriber_buffer_max", "--subscriber-memory-max"),
        ("flow_buffer_max", "--flow-memory-max"),
        ("window_floor", "--window-max"),
    ];
    match *error {
        ConfigError::Zero(name) => {
            let flag = FLAGS.iter().find(|(setting, _)| *setting == name);
            let flag = flag.map_or_else(|| format!("--{}", name.replace('_', "-")), |(_, f)| (*f).to_owned());
            format!("{flag} must be greater than zero")
        }
        _ => error.to_string(),
    }
}

/// The controller with the parameters of `--set`.
fn with_parameters(
    mut controller: ControllerConfig,
    settings: &[String],
) -> Result<ControllerConfig, String> {
    for setting in settings {
        let wrong = |problem: String| format!("run: --set {setting}: {problem}");
        let (name, value) = setting.split_once('=').ok_or_else(|| wrong("write NAME=VALUE".to_owned()))?;
        let value = parameter_value(value).ok_or_else(|| {
            wrong(format!("`{value}` is no value: write 250, true, 20 ms, 5 Mbit/s, 10 KB or off"))
        })?;
        controller.set(name.trim(), value).map_err(|error| wrong(error.to_string()))?;
    }
    Ok(controller)
}
