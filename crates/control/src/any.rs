//! [`AnyController`] and [`ControllerConfig`]: all controllers behind one type and one name each.

use units::{Bytes, Duration, Instant};

use crate::parameters::Parameters as _;
use crate::{
    Ack, Adaptive, AdaptiveParams, Bbr, Bbr3, Bbr3Params, BbrParams, Bic, BicParams, Control, Controller,
    Cubic, CubicParams, Feedback, Fixed, FixedParams, HTcp, HTcpParams, HighSpeed, HighSpeedParams, Loss,
    NewReno, NewRenoParams, ParameterError, ParameterValue, RateControl, RateParams, Sent, Vegas,
    VegasParams, Veno, VenoParams, Westwood, WestwoodParams, WestwoodPlus, WestwoodPlusParams,
    WindowAdaptation, WindowAdaptationParams,
};

/// Writes the two enums, their dispatch, and the names of those that need no settings.
macro_rules! controllers {
    ($($(#[$doc:meta])* $variant:ident($controller:ty, $params:ty) = $name:literal,)+) => {
        /// One of the controllers, chosen at run time without an allocation.
        #[expect(clippy::large_enum_variant, reason = "the largest is the default, so nearly all are of its size")]
        #[derive(Clone, Debug)]
        pub enum AnyController {
            $($(#[$doc])* $variant($controller),)+
        }

        impl Controller for AnyController {
            fn name(&self) -> &'static str {
                match self { $(Self::$variant(c) => c.name(),)+ }
            }
            fn on_ack(&mut self, ack: &Ack) {
                match self { $(Self::$variant(c) => c.on_ack(ack),)+ }
            }
            fn on_loss(&mut self, loss: &Loss) {
                match self { $(Self::$variant(c) => c.on_loss(loss),)+ }
            }
            fn on_send(&mut self, sent: &Sent) {
                match self { $(Self::$variant(c) => c.on_send(sent),)+ }
            }
            fn on_feedback(&mut self, feedback: &Feedback) {
                match self { $(Self::$variant(c) => c.on_feedback(feedback),)+ }
            }
            fn on_round_trip(&mut self, rtt: Duration, now: Instant) {
                match self { $(Self::$variant(c) => c.on_round_trip(rtt, now),)+ }
            }
            fn on_undo(&mut self, now: Instant) {
                match self { $(Self::$variant(c) => c.on_undo(now),)+ }
            }
            fn control(&self) -> Control {
                match self { $(Self::$variant(c) => c.control(),)+ }
            }
        }

        /// Which controller to make, with its parameters.
        #[derive(Clone, Copy, PartialEq, Eq, Debug)]
        pub enum ControllerConfig {
            $($(#[$doc])* $variant($params),)+
        }

        impl ControllerConfig {
            /// Every name [`ControllerConfig::named`] knows.
            pub const NAMES: &[&str] = &[$($name,)+];

            /// The controller called `name`, with its default parameters.
            #[must_use]
            pub fn named(name: &str) -> Option<Self> {
                match name {
                    $($name => Some(Self::$variant(<$params>::default())),)+
                    _ => None,
                }
            }

            /// Makes the controller.
            #[must_use]
            pub fn build(&self) -> AnyController {
                match *self { $(Self::$variant(p) => AnyController::$variant(<$controller>::new(p)),)+ }
            }

            /// Sets the parameter called `name`: its field's name in the parameters' structure.
            ///
            /// # Errors
            /// No such parameter, or a value of another kind.
            pub fn set(&mut self, name: &str, value: ParameterValue) -> Result<(), ParameterError> {
                match self { $(Self::$variant(p) => p.set_parameter($name, name, value),)+ }
            }

            /// Every parameter with its value.
            #[must_use]
            pub fn parameters(&self) -> Vec<(&'static str, ParameterValue)> {
                match self { $(Self::$variant(p) => p.parameters(),)+ }
            }

            /// The name [`ControllerConfig::named`] knows it by.
            #[must_use]
            pub fn name(&self) -> &'static str {
                match self { $(Self::$variant(_) => $name,)+ }
            }

            /// The same for segments of `mss` bytes of payload.
            #[must_use]
            pub fn with_mss(mut self, mss: Bytes) -> Self {
                match &mut self { $(Self::$variant(p) => p.mss = mss,)+ }
                self
            }
        }
    };
}

controllers! {
    /// This project's own.
    Adaptive(Adaptive, AdaptiveParams) = "adaptive",
    /// A constant rate.
    Fixed(Fixed, FixedParams) = "fixed",
    /// \[MA\]'s rate control.
    Rate(RateControl, RateParams) = "rate",
    /// \[WA\]'s window by the base station's reports.
    WindowAdaptation(WindowAdaptation, WindowAdaptationParams) = "window-adaptation",
    /// NewReno's window.
    NewReno(NewReno, NewRenoParams) = "new-reno",
    /// CUBIC's window.
    Cubic(Cubic, CubicParams) = "cubic",
    /// Westwood of 2001.
    Westwood(Westwood, WestwoodParams) = "westwood",
    /// Westwood+.
    WestwoodPlus(WestwoodPlus, WestwoodPlusParams) = "westwood-plus",
    /// Veno's window.
    Veno(Veno, VenoParams) = "veno",
    /// Vegas' window.
    Vegas(Vegas, VegasParams) = "vegas",
    /// H-TCP's window.
    HTcp(HTcp, HTcpParams) = "htcp",
    /// HighSpeed TCP's window.
    HighSpeed(HighSpeed, HighSpeedParams) = "highspeed",
    /// BIC's window.
    Bic(Bic, BicParams) = "bic",
    /// BBR, version 1.
    Bbr(Bbr, BbrParams) = "bbr",
    /// BBR, version 3.
    Bbr3(Bbr3, Bbr3Params) = "bbr3",
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_gives_the_controller_of_that_name() {
        for name in ControllerConfig::NAMES {
            let config = ControllerConfig::named(name).expect("listed");
            assert_eq!(config.build().name(), *name);
        }
        assert_eq!(ControllerConfig::named("tahoe"), None);
    }

    #[test]
    fn the_segment_size_reaches_the_controller() {
        for name in ControllerConfig::NAMES {
            let config = ControllerConfig::named(name).expect("listed").with_mss(Bytes::new(500));
            let quantum = config.build().control().send_quantum.get();
            assert!(
                quantum >= 500 && quantum.is_multiple_of(500) || ["adaptive", "rate", "fixed"].contains(name),
                "{name}"
            );
        }
    }
}
