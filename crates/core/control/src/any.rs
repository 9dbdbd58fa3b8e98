//! [`AnyController`] and [`ControllerConfig`]: all controllers behind one type and one name each.
//!
//! The list of them stands at the end of this file: who offers a choice takes it from [`ControllerKind::ALL`] and
//! [`Listed`]. `parameters.rs` lists what can be set of each. CONTRIBUTING.md says what else a new one takes.

use stored::{Layouts, Reader, Stored, StoredError, Writer};
use units::{Bytes, Duration, Instant};

use crate::parameters::Parameters as _;
use crate::{
    Ack, Adaptive, AdaptiveParams, AdaptiveServer, AdaptiveServerParams, Bbr, Bbr3, Bbr3Params, BbrParams,
    Bic, BicParams, C2tcp, C2tcpParams, Control, Controller, Copa, CopaParams, Cubic, CubicParams, Feedback,
    Fixed, FixedParams, HTcp, HTcpParams, HighSpeed, HighSpeedParams, Known, Loss, NewReno, NewRenoParams,
    ParameterError, ParameterValue, RateControl, RateParams, Sent, Sprout, SproutParams, Vegas, VegasParams,
    Veno, VenoParams, Verus, VerusParams, Westwood, WestwoodParams, WestwoodPlus, WestwoodPlusParams,
    WindowAdaptation, WindowAdaptationParams,
};

/// Places where a controller can be chosen, beside contests, which have all of them.
#[derive(Clone, Copy, Debug)]
pub struct Listed {
    /// Its name on the command line and in results.
    pub name: &'static str,
    /// Summary in a few words, where an accelerator can have it.
    pub accelerates: Option<&'static str>,
    /// An accelerator can have it towards servers, on a wired segment shared with others.
    pub is_for_uplink: bool,
    /// The congestion control of servers that it is, where it is one.
    pub server: Option<ServerControl>,
}

/// A congestion control of servers.
#[derive(Clone, Copy, Debug)]
pub struct ServerControl {
    /// Its name in scenarios.
    pub name: &'static str,
    /// The name as a kernel knows it.
    pub kernel: &'static str,
}

impl Listed {
    /// One that only contests and simulated hosts have.
    const fn new(name: &'static str) -> Self {
        Self { name, accelerates: None, is_for_uplink: false, server: None }
    }

    const fn accelerates(self, summary: &'static str) -> Self {
        Self { accelerates: Some(summary), ..self }
    }

    const fn also_uplink(self) -> Self {
        Self { is_for_uplink: true, ..self }
    }

    const fn of_servers(self, name: &'static str, kernel: &'static str) -> Self {
        Self { server: Some(ServerControl { name, kernel }), ..self }
    }
}

/// Has an enum stored by the name of its variant, and what that holds.
macro_rules! stored_by_name {
    ($type:ident: $($name:literal => $variant:ident($inner:ty)),+) => {
        impl Stored for $type {
            fn store(&self, out: &mut Writer) {
                match self { $(Self::$variant(inner) => {
                    out.text($name);
                    inner.store(out);
                })+ }
            }
            fn restore(from: &mut Reader<'_>) -> Result<Self, StoredError> {
                let at = from.at();
                match from.text()? {
                    $($name => from.value().map(Self::$variant),)+
                    _ => Err(Reader::senseless(at, "the name of a controller")),
                }
            }
            fn layout(layouts: &mut Layouts) {
                layouts.of::<Self>(stringify!($type), |layouts| {
                    $(layouts.variant($name);
                    layouts.value::<$inner>("0");)+
                });
            }
        }
    };
}

/// Writes the enums, their dispatch, and the list.
macro_rules! controllers {
    ($(
        $(#[$doc:meta])*
        $variant:ident($controller:ty, $params:ty) = $name:literal $(.$method:ident($($text:literal),*))*,
    )+) => {
        /// One of the controllers, without its parameters.
        #[derive(Clone, Copy, PartialEq, Eq, Debug)]
        pub enum ControllerKind {
            $($(#[$doc])* $variant,)+
        }

        impl ControllerKind {
            /// All of them.
            pub const ALL: &[Self] = &[$(Self::$variant,)+];

            /// Places where it can be chosen, and by which names.
            #[must_use]
            pub const fn listed(self) -> Listed {
                match self { $(Self::$variant => Listed::new($name)$(.$method($($text),*))*,)+ }
            }

            /// Configuration with its default parameters.
            #[must_use]
            pub fn config(self) -> ControllerConfig {
                match self { $(Self::$variant => ControllerConfig::$variant(<$params>::default()),)+ }
            }
        }

        /// One of the controllers, chosen at run time without an allocation.
        #[expect(clippy::large_enum_variant, reason = "the largest is the default, so nearly all are of its size")]
        #[derive(Clone, Debug)]
        pub enum AnyController {
            $($(#[$doc])* $variant($controller),)+
        }

        stored_by_name!(AnyController: $($name => $variant($controller)),+);

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
            fn on_known(&mut self, known: &Known, now: Instant) {
                match self { $(Self::$variant(c) => c.on_known(known, now),)+ }
            }
            fn round_trip(&self) -> Option<Duration> {
                match self { $(Self::$variant(c) => c.round_trip(),)+ }
            }
            fn on_undo(&mut self, now: Instant) {
                match self { $(Self::$variant(c) => c.on_undo(now),)+ }
            }
            fn control(&self) -> Control {
                match self { $(Self::$variant(c) => c.control(),)+ }
            }
        }

        /// Controller to make, with its parameters.
        #[derive(Clone, Copy, PartialEq, Eq, Debug)]
        pub enum ControllerConfig {
            $($(#[$doc])* $variant($params),)+
        }

        stored_by_name!(ControllerConfig: $($name => $variant($params)),+);

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
    Adaptive(Adaptive, AdaptiveParams) = "adaptive"
        .accelerates("The shortest queue that keeps a varying link busy; needs no configuration"),
    /// The same law for one connection of a server.
    AdaptiveServer(AdaptiveServer, AdaptiveServerParams) = "adaptive-server"
        .of_servers("adaptive", "adaptive"),
    /// A constant rate.
    Fixed(Fixed, FixedParams) = "fixed".accelerates("A constant rate"),
    /// \[MA\]'s rate control.
    Rate(RateControl, RateParams) = "rate"
        .accelerates("The rate follows the delivery rate and the round-trip time"),
    /// \[WA\]'s window by the base station's reports.
    WindowAdaptation(WindowAdaptation, WindowAdaptationParams) = "window-adaptation".accelerates(
        "The base station's reports set the window (--feedback); `rate` while there are no reports"
    ),
    /// NewReno's window.
    NewReno(NewReno, NewRenoParams) = "new-reno"
        .accelerates("Conventional split TCP: NewReno's window")
        .also_uplink()
        .of_servers("reno", "reno"),
    /// CUBIC's window.
    Cubic(Cubic, CubicParams) = "cubic"
        .accelerates("Conventional split TCP: CUBIC's window")
        .also_uplink()
        .of_servers("cubic", "cubic"),
    /// Westwood of 2001.
    Westwood(Westwood, WestwoodParams) = "westwood".of_servers("westwood", "westwood2001"),
    /// Westwood+.
    WestwoodPlus(WestwoodPlus, WestwoodPlusParams) = "westwood-plus".of_servers("westwood-plus", "westwood"),
    /// Veno's window.
    Veno(Veno, VenoParams) = "veno".of_servers("veno", "veno"),
    /// Vegas' window.
    Vegas(Vegas, VegasParams) = "vegas".of_servers("vegas", "vegas"),
    /// H-TCP's window.
    HTcp(HTcp, HTcpParams) = "htcp".of_servers("htcp", "htcp"),
    /// HighSpeed TCP's window.
    HighSpeed(HighSpeed, HighSpeedParams) = "highspeed".of_servers("highspeed", "highspeed"),
    /// BIC's window.
    Bic(Bic, BicParams) = "bic".of_servers("bic", "bic"),
    /// BBR, version 1.
    Bbr(Bbr, BbrParams) = "bbr"
        .accelerates("Conventional split TCP: BBR")
        .also_uplink()
        .of_servers("bbr", "bbr"),
    /// BBR, version 3.
    Bbr3(Bbr3, Bbr3Params) = "bbr3".of_servers("bbr3", "bbr3"),
    /// Copa's window.
    Copa(Copa, CopaParams) = "copa".accelerates("1 ÷ δ segments in the queue, found in steps that double"),
    /// C2TCP's window.
    C2tcp(C2tcp, C2tcpParams) = "c2tcp"
        .accelerates("CUBIC that starts again when no round trip of an interval was short"),
    /// Sprout's forecast.
    Sprout(Sprout, SproutParams) = "sprout"
        .accelerates("What the link will deliver in 100 ms with 95 % probability"),
    /// Verus' window.
    Verus(Verus, VerusParams) = "verus".accelerates("A window from a learned curve of delay over window"),
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
    fn every_choice_is_one_of_the_list() {
        let listed = |of: fn(Listed) -> Option<&'static str>| {
            ControllerKind::ALL.iter().filter_map(|kind| of(kind.listed())).collect::<Vec<_>>()
        };
        assert_eq!(listed(|one| Some(one.name)), ControllerConfig::NAMES);
        let uplink = listed(|one| one.is_for_uplink.then_some(one.name));
        assert!(uplink.contains(&"cubic"), "the default: {uplink:?}");
        assert_eq!(listed(|one| one.accelerates.filter(|_| one.is_for_uplink)).len(), uplink.len());
        for of in
            [|one: Listed| one.server.map(|server| server.name), |one: Listed| one.server.map(|s| s.kernel)]
        {
            let mut names = listed(of);
            names.sort_unstable();
            assert!(names.windows(2).all(|two| two[0] != two[1]), "{names:?}");
        }
    }

    #[test]
    fn the_segment_size_reaches_the_controller() {
        for name in ControllerConfig::NAMES {
            let config = ControllerConfig::named(name).expect("listed").with_mss(Bytes::new(500));
            let quantum = config.build().control().send_quantum.get();
            assert!(
                quantum >= 500 && quantum.is_multiple_of(500)
                    || ["adaptive", "adaptive-server", "rate", "fixed"].contains(name),
                "{name}"
            );
        }
    }
}
