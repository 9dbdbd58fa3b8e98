//! [`Controller`] and [`CongestionControl`]: what can be chosen of the controllers that `control` lists.

use core::fmt;
use core::marker::PhantomData;
use std::sync::LazyLock;

use control::{ControllerConfig, ControllerKind};
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

/// A controller that an accelerator can have.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Controller(ControllerKind);

/// A congestion control of the server; CUBIC unless told otherwise: Linux's default, whatever the host's
/// kernel is set to.
///
/// The lab needs a kernel that has it, the simulator has all of them.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct CongestionControl(ControllerKind);

impl Controller {
    /// All of them.
    pub fn all() -> impl Iterator<Item = Self> + Clone {
        ControllerKind::ALL.iter().filter(|kind| kind.listed().accelerates.is_some()).map(|kind| Self(*kind))
    }

    /// The one called `name`.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        Self::all().find(|one| one.name() == name)
    }

    /// Kind of the controller.
    #[must_use]
    pub const fn kind(self) -> ControllerKind {
        self.0
    }

    /// The name as `cellerator run --controller` knows it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        self.0.listed().name
    }

    /// Summary of the controller, in a few words.
    #[must_use]
    pub fn summary(self) -> &'static str {
        self.0.listed().accelerates.unwrap_or_default()
    }

    /// True where it can be had towards servers, on a wired segment shared with others.
    #[must_use]
    pub const fn is_for_uplink(self) -> bool {
        self.0.listed().is_for_uplink
    }

    /// Configuration with its default parameters.
    #[must_use]
    pub fn config(self) -> ControllerConfig {
        self.0.config()
    }
}

impl CongestionControl {
    /// All of them.
    pub fn all() -> impl Iterator<Item = Self> + Clone {
        ControllerKind::ALL.iter().filter(|kind| kind.listed().server.is_some()).map(|kind| Self(*kind))
    }

    /// The one that scenarios call `name`.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        Self::all().find(|one| one.in_scenarios() == name)
    }

    /// The name as the kernel knows it.
    #[must_use]
    pub fn name(self) -> &'static str {
        self.0.listed().server.map_or(self.0.listed().name, |server| server.kernel)
    }

    /// Configuration with the default parameters of the simulator's controller.
    #[must_use]
    pub fn config(self) -> ControllerConfig {
        self.0.config()
    }

    /// The name as scenarios have it.
    pub(crate) fn in_scenarios(self) -> &'static str {
        self.0.listed().server.map_or(self.0.listed().name, |server| server.name)
    }
}

impl Default for CongestionControl {
    fn default() -> Self {
        Self(ControllerKind::Cubic)
    }
}

/// Something that files name.
trait Choice: Copy + Sized + 'static {
    fn of_name(name: &str) -> Option<Self>;
    fn in_files(self) -> &'static str;
    fn names() -> &'static [&'static str];
}

impl Choice for Controller {
    fn of_name(name: &str) -> Option<Self> {
        Self::named(name)
    }
    fn in_files(self) -> &'static str {
        self.name()
    }
    fn names() -> &'static [&'static str] {
        static NAMES: LazyLock<Vec<&str>> =
            LazyLock::new(|| Controller::all().map(Controller::name).collect());
        &NAMES
    }
}

impl Choice for CongestionControl {
    fn of_name(name: &str) -> Option<Self> {
        Self::named(name)
    }
    fn in_files(self) -> &'static str {
        self.in_scenarios()
    }
    fn names() -> &'static [&'static str] {
        static NAMES: LazyLock<Vec<&str>> =
            LazyLock::new(|| CongestionControl::all().map(CongestionControl::in_scenarios).collect());
        &NAMES
    }
}

struct Named<T>(PhantomData<T>);

impl<T: Choice> de::Visitor<'_> for Named<T> {
    type Value = T;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "one of {}", T::names().join(", "))
    }

    fn visit_str<E: de::Error>(self, name: &str) -> Result<T, E> {
        T::of_name(name).ok_or_else(|| E::unknown_variant(name, T::names()))
    }
}

macro_rules! by_name {
    ($($choice:ty),+) => {$(
        impl Serialize for $choice {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.serialize_str(self.in_files())
            }
        }

        impl<'de> Deserialize<'de> for $choice {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                deserializer.deserialize_str(Named(PhantomData))
            }
        }
    )+};
}

by_name!(Controller, CongestionControl);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_congestion_control_has_a_name_in_scenarios_and_one_in_kernels() {
        let both = |name| {
            let control = CongestionControl::named(name).unwrap();
            (control.name(), control.config().name())
        };
        assert_eq!(both("reno"), ("reno", "new-reno"));
        // Linux's module of that name has the filter of 2004.
        assert_eq!(both("westwood"), ("westwood2001", "westwood"));
        assert_eq!(both("westwood-plus"), ("westwood", "westwood-plus"));
        assert_eq!(both("adaptive"), ("adaptive", "adaptive-server"));
        assert_eq!(
            (CongestionControl::named("new-reno"), CongestionControl::named("adaptive-server")),
            (None, None)
        );
        assert_eq!(CongestionControl::default().name(), "cubic");
    }

    #[test]
    fn an_accelerator_has_no_controllers_of_hosts_alone() {
        assert_eq!(Controller::named("westwood"), None);
        let fixed = Controller::named("fixed").unwrap();
        assert_eq!((fixed.kind(), fixed.is_for_uplink()), (ControllerKind::Fixed, false));
        assert_eq!(fixed.summary(), "A constant rate");
        assert!(Controller::all().all(|one| one.config().name() == one.name()));
    }
}
