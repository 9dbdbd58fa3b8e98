//! Parameters of controllers by name, for sweeps and command lines.
//!
//! A parameter's name is its field's name in the algorithm's `…Params`. Every structure of
//! parameters is listed at the end of this file, once, with the fields that may be set.

use units::{Bytes, Duration, Rate};

use crate::{
    AdaptiveParams, AdaptiveServerParams, Bbr3Params, BbrParams, BicParams, C2tcpParams, CopaParams,
    CubicParams, FixedParams, HTcpParams, HighSpeedParams, Law, NewRenoParams, RateParams, SproutParams,
    Terms, VegasParams, VenoParams, VerusParams, WestwoodParams, WestwoodPlusParams, WindowAdaptationParams,
};

/// The value of a parameter.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum ParameterValue {
    /// A number without unit, as of segments or thousandths.
    Count(u64),
    /// Yes or no.
    Flag(bool),
    /// A time.
    Time(Duration),
    /// A rate.
    Rate(Rate),
    /// An amount of data.
    Size(Bytes),
    /// One of several names.
    Word(String),
    /// None, for what may be absent.
    Off,
}

/// A parameter that cannot be set so.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum ParameterError {
    /// The algorithm has none of that name.
    #[error("`{controller}` has no parameter `{name}`; it has {known}")]
    Unknown {
        /// The algorithm.
        controller: &'static str,
        /// The name asked for.
        name: String,
        /// The names there are.
        known: String,
    },
    /// The value is of another kind, or too large.
    #[error("parameter `{name}` of `{controller}` takes {wanted}")]
    Kind {
        /// The algorithm.
        controller: &'static str,
        /// The parameter.
        name: String,
        /// Values that it takes, with an example.
        wanted: &'static str,
    },
}

/// A type that a parameter can have.
trait Field: Copy {
    /// Values that it takes, with an example.
    const WANTED: &'static str;
    fn from_value(value: ParameterValue) -> Option<Self>;
    fn value(self) -> ParameterValue;
}

/// Fields whose value is one variant.
macro_rules! field {
    ($type:ty, $variant:ident, $wanted:literal) => {
        impl Field for $type {
            const WANTED: &'static str = $wanted;
            fn from_value(value: ParameterValue) -> Option<Self> {
                match value {
                    ParameterValue::$variant(inner) => Self::try_from(inner).ok(),
                    _ => None,
                }
            }
            fn value(self) -> ParameterValue {
                ParameterValue::$variant(self.into())
            }
        }
    };
}

field!(u32, Count, "a whole number, like 250");
field!(u64, Count, "a whole number, like 250");
field!(bool, Flag, "true or false");
field!(Duration, Time, "a time, like 20 ms");
field!(Rate, Rate, "a rate, like 5 Mbit/s");
field!(Bytes, Size, "an amount of data, like 10 KB");

impl Field for Law {
    const WANTED: &'static str = "per-step, in-flight or predictive";
    fn from_value(value: ParameterValue) -> Option<Self> {
        let ParameterValue::Word(word) = value else { return None };
        [Self::PerStep, Self::InFlight, Self::Predictive].into_iter().find(|law| law_name(*law) == word)
    }
    fn value(self) -> ParameterValue {
        ParameterValue::Word(law_name(self).to_owned())
    }
}

impl Field for Terms {
    const WANTED: &'static str = "terms to leave out, like bursts+grain, or none";
    fn from_value(value: ParameterValue) -> Option<Self> {
        match value {
            ParameterValue::Word(word) => word.parse().ok(),
            ParameterValue::Off => Some(Self::NONE),
            _ => None,
        }
    }
    fn value(self) -> ParameterValue {
        ParameterValue::Word(self.to_string())
    }
}

const fn law_name(law: Law) -> &'static str {
    match law {
        Law::PerStep => "per-step",
        Law::InFlight => "in-flight",
        Law::Predictive => "predictive",
    }
}

impl<T: Field> Field for Option<T> {
    const WANTED: &'static str = T::WANTED;
    fn from_value(value: ParameterValue) -> Option<Self> {
        if value == ParameterValue::Off { Some(None) } else { T::from_value(value).map(Some) }
    }
    fn value(self) -> ParameterValue {
        self.map_or(ParameterValue::Off, T::value)
    }
}

/// Parameters that can be named.
pub(crate) trait Parameters {
    /// Sets the one called `name`; the error says what is wrong with name or value.
    fn set_parameter(
        &mut self,
        controller: &'static str,
        name: &str,
        value: ParameterValue,
    ) -> Result<(), ParameterError>;
    /// All of them.
    fn parameters(&self) -> Vec<(&'static str, ParameterValue)>;
}

fn assign<T: Field>(
    field: &mut T,
    (controller, name): (&'static str, &str),
    value: ParameterValue,
) -> Result<(), ParameterError> {
    let wrong = || ParameterError::Kind { controller, name: name.to_owned(), wanted: T::WANTED };
    *field = T::from_value(value).ok_or_else(wrong)?;
    Ok(())
}

macro_rules! parameters {
    ($($type:ty { $($field:ident),+ $(,)? })+) => {
        $(impl Parameters for $type {
            fn set_parameter(
                &mut self,
                controller: &'static str,
                name: &str,
                value: ParameterValue,
            ) -> Result<(), ParameterError> {
                match name {
                    $(stringify!($field) => assign(&mut self.$field, (controller, name), value),)+
                    _ => Err(ParameterError::Unknown {
                        controller,
                        name: name.to_owned(),
                        known: [$(stringify!($field)),+].join(", "),
                    }),
                }
            }
            fn parameters(&self) -> Vec<(&'static str, ParameterValue)> {
                vec![$((stringify!($field), self.$field.value())),+]
            }
        })+
    };
}

parameters! {
    AdaptiveParams {
        bin, bins, constant, headroom_min, headroom_max, starved_permille, headroom_gain, starved_below, delay_max,
        initial_window, memory, without, mss,
    }
    AdaptiveServerParams { mss }
    FixedParams { rate, mss, window }
    RateParams {
        k_segments, lambda_permille, alpha, beta, mu_permille, r_cap, r_cap_memory, r_cap_is_start, r_cap_from_feedback, stale_after,
        start_permille, raise_permille, rtt_window, rtt_permille, beta_waits_for_r, is_over_base, in_flight_cap, rate_window,
        initial_window, mss,
    }
    WindowAdaptationParams {
        law, tau, q0, gain_permille, stale_after, target, target_memory, forecast_memory, observer_permille, forward_delay,
        mss,
    }
    NewRenoParams { mss, initial_window_segments, initial_ssthresh }
    CubicParams { mss, initial_window_segments, beta_permille, c_permille, fast_convergence, hystart }
    WestwoodParams { mss, initial_window_segments, tau }
    WestwoodPlusParams { mss, initial_window_segments, filter_permille, sample_time_min }
    VenoParams { mss, initial_window_segments, beta_segments, random_loss_permille }
    VegasParams { mss, initial_window_segments, alpha_segments, beta_segments, gamma_segments, loss_permille }
    HTcpParams {
        mss, initial_window_segments, low_speed_time, beta_min_permille, beta_max_permille, throughput_change_permille,
    }
    HighSpeedParams { mss, initial_window_segments, high_decrease_permille }
    BicParams {
        mss, initial_window_segments, step_max_segments, beta_permille, low_window_segments, fast_convergence,
    }
    BbrParams { mss, initial_window_segments, seed }
    Bbr3Params { mss, initial_window_segments, seed }
    SproutParams {
        mss, tick, rate_max_packets, sigma_packets, outage_escape_permille, horizon, risk_permille,
    }
    VerusParams {
        mss, initial_window_segments, epoch, delta1, delta2, ratio_permille, loss_permille, curve_interval,
    }
    C2tcpParams { mss, initial_window_segments, target, initial_alpha_percent, tuning_period }
    CopaParams { mss, initial_window_segments, delta_permille, competitive }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ControllerConfig;

    #[test]
    fn every_parameter_can_be_set_to_what_it_is() {
        for name in ControllerConfig::NAMES {
            let config = ControllerConfig::named(name).expect("listed");
            let mut copy = config;
            let parameters = config.parameters();
            assert!(!parameters.is_empty(), "{name}");
            for (parameter, value) in parameters {
                assert_eq!(copy.set(parameter, value), Ok(()), "{name} {parameter}");
            }
            assert_eq!(copy, config, "{name}");
        }
    }

    #[test]
    fn a_value_reaches_its_parameter() {
        let mut config = ControllerConfig::named("rate").expect("listed");
        let alpha = ParameterValue::Time(Duration::from_millis(7));
        config.set("alpha", alpha.clone()).expect("a time");
        config.set("in_flight_cap", ParameterValue::Off).expect("may be absent");
        assert!(config.parameters().contains(&("alpha", alpha)));
        assert!(config.parameters().contains(&("in_flight_cap", ParameterValue::Off)));
        assert_ne!(config, ControllerConfig::named("rate").expect("listed"));
    }

    #[test]
    fn errors_name_what_there_is() {
        let mut config = ControllerConfig::named("rate").expect("listed");
        let unknown = config.set("gamma", ParameterValue::Count(1)).unwrap_err().to_string();
        assert!(unknown.contains("`rate` has no parameter `gamma`; it has k_segments"), "{unknown}");
        let kind = config.set("alpha", ParameterValue::Count(1)).unwrap_err().to_string();
        assert_eq!(kind, "parameter `alpha` of `rate` takes a time, like 20 ms");
        let large = config.set("k_segments", ParameterValue::Count(1 << 40)).unwrap_err().to_string();
        assert!(large.contains("a whole number"), "{large}");
    }
}
