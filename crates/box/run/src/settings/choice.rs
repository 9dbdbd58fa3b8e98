//! [`Named`]: a value that flags and files choose by its name.

use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser, ValueParser, ValueParserFactory};
use control::Law;
use engine::{Action, ClientEcn, Sharing, WindowPolicy};
use scenario::Controller;
use serde::de::Error;
use serde::{Deserialize, Deserializer};

/// A name, what it means in a few words (or nothing), and its value.
type Entry<T> = (&'static str, &'static str, T);

/// Values that can be chosen by their names.
pub(super) trait Choice: Clone + Send + Sync + 'static {
    /// All of them.
    fn all() -> Vec<Entry<Self>>;
}

/// One of the values that can be chosen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Named<T>(pub T);

impl<T: Choice> Named<T> {
    /// The one called `name`; an error lists the names.
    fn of(name: &str) -> Result<Self, String> {
        let all = T::all();
        let found = all.iter().find(|(known, ..)| *known == name);
        found.map(|(_, _, value)| Self(value.clone())).ok_or_else(|| {
            let names: Vec<&str> = all.iter().map(|(known, ..)| *known).collect();
            format!("invalid value '{name}' [possible values: {}]", names.join(", "))
        })
    }
}

impl<T: Choice> ValueParserFactory for Named<T> {
    type Parser = ValueParser;

    fn value_parser() -> ValueParser {
        let values = T::all().into_iter().map(|(name, meaning, _)| {
            PossibleValue::new(name).help(Some(meaning).filter(|meaning| !meaning.is_empty()))
        });
        ValueParser::new(PossibleValuesParser::new(values).try_map(|name| Self::of(&name)))
    }
}

impl<'de, T: Choice> Deserialize<'de> for Named<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Self::of(&super::value::text(deserializer)?).map_err(D::Error::custom)
    }
}

impl Choice for Controller {
    fn all() -> Vec<Entry<Self>> {
        Self::all().map(|one| (one.name(), one.summary(), one)).collect()
    }
}

/// A controller that a wired segment shared with others can have.
#[derive(Clone, Copy)]
pub(super) struct OfUplink(pub Controller);

impl Choice for OfUplink {
    fn all() -> Vec<Entry<Self>> {
        let all = Controller::all().filter(|one| one.is_for_uplink());
        all.map(|one| (one.name(), "", Self(one))).collect()
    }
}

impl Choice for Sharing {
    fn all() -> Vec<Entry<Self>> {
        vec![
            ("subscriber", "All flows of a client address or IPv6 prefix", Self::Subscriber),
            ("flow", "Each flow by itself", Self::Flow),
        ]
    }
}

impl Choice for WindowPolicy {
    fn all() -> Vec<Entry<Self>> {
        vec![
            ("honour", "Never send more than the client advertises", Self::Honour),
            ("opportunistic", "Send irrespective of the window unless it is zero", Self::Opportunistic),
        ]
    }
}

impl Choice for ClientEcn {
    fn all() -> Vec<Entry<Self>> {
        vec![
            ("not-ect", "It cannot be marked", Self::NotEct),
            ("ect0", "It can (RFC 3168): ECT(0)", Self::Ect0),
        ]
    }
}

impl Choice for Law {
    fn all() -> Vec<Entry<Self>> {
        vec![
            ("per-step", "(18) is what is sent in each step", Self::PerStep),
            ("in-flight", "(18) is what is in flight", Self::InFlight),
            (
                "predictive",
                "The queue is predicted over the reports' delay, and kept as short as the link's variation allows",
                Self::Predictive,
            ),
        ]
    }
}

impl Choice for Action {
    fn all() -> Vec<Entry<Self>> {
        [
            (Self::Downlink, "What servers send"),
            (Self::Uplink, "What clients send"),
            (Self::Both, "What servers and clients send"),
            (
                Self::Drwa,
                "Nothing is split. The windows that clients advertise are lowered, so that servers keep the radio \
                 queue short",
            ),
            (Self::Pass, "Nothing"),
        ]
        .map(|(action, meaning)| (action.name(), meaning, action))
        .into()
    }
}
