//! [`Ask`], [`Told`]: what a view may ask for, of this machine or another one, and nothing else.

use std::net::IpAddr;

use run::{AbReport, Snapshot, SubscriberList, SubscriberView};
use serde::{Deserialize, Serialize};

use crate::TopError;

/// Version of what two machines say to each other; other ones do not understand it.
pub const PROTOCOL: u32 = 1;

/// A question.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Ask {
    /// Which accelerators run.
    Names,
    /// Counters and levels of one.
    Metrics {
        /// Its name.
        name: String,
    },
    /// Part of its subscribers.
    Subscribers {
        /// Its name.
        name: String,
        /// 0, or where the answer before says.
        from: u64,
    },
    /// A subscriber, and part of its flows.
    Subscriber {
        /// The accelerator's name.
        name: String,
        /// The subscriber's address.
        client: IpAddr,
        /// 0, or where the answer before says.
        from: u64,
    },
    /// The comparison of its A/B phase.
    Ab {
        /// Its name.
        name: String,
    },
}

/// An answer.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Told {
    /// To [`Ask::Names`], each once.
    Names(Vec<String>),
    /// To [`Ask::Metrics`].
    Metrics(Box<Snapshot>),
    /// To [`Ask::Subscribers`].
    Subscribers(SubscriberList),
    /// To [`Ask::Subscriber`].
    Subscriber(Box<SubscriberView>),
    /// To [`Ask::Ab`].
    Ab(Box<AbReport>),
    /// It cannot be answered: why, in one line.
    Refused(String),
}

/// Whoever answers.
pub trait Source {
    /// Answers.
    ///
    /// # Errors
    /// Nobody can be asked. What an accelerator does not answer is [`Told::Refused`].
    fn ask(&mut self, question: &Ask) -> Result<Told, TopError>;
}

/// What a view says first.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Hello {
    pub protocol: u32,
    pub version: String,
    pub token: String,
}

/// What it hears.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Greeting {
    /// It may ask.
    Welcome,
    /// The token is another one.
    WrongToken,
    /// It speaks otherwise.
    OtherProtocol { protocol: u32, version: String },
}
