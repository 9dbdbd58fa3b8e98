//! [`Question`] and [`Answer`]: a line of JSON there, a line of JSON back, through the control sockets of a running
//! instance ([`crate::console`]).

use std::net::IpAddr;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::ab::AbReport;
use crate::event_broadcaster::Wishes;
use crate::snapshot::Snapshot;
use crate::status::{FlowList, Status};
use crate::subscribers::{SubscriberList, SubscriberView};
use crate::upgrade::transfer::Offer;

/// Names of the sockets in an instance's directory.
pub(crate) const CONSOLE: &str = "console";
pub(crate) const LOOK: &str = "look";

/// Longest time that either end may take to say or to take in its line.
pub(crate) const PATIENCE: Duration = Duration::from_secs(10);

/// Question to a running instance.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Question {
    /// Counters and levels.
    Status,
    /// Metrics.
    Metrics,
    /// Tell what happens from here on: the answer is one line, and what was wished follows, a line of JSON each.
    Listen(Wishes),
    /// Flows from the `skip`th on; the answer is a part of bounded size, empty behind the last one.
    Flows {
        /// Flows to leave out.
        skip: usize,
    },
    /// Subscribers from a place on, 0 or where the answer before says: a part of bounded size.
    Subscribers {
        /// The place.
        from: u64,
    },
    /// A subscriber, and part of its flows, from a place on: 0, or where the answer before says.
    Subscriber {
        /// An address of it.
        client: IpAddr,
        /// The place.
        from: u64,
    },
    /// Stop early acknowledgements, deliver what is owed, hand the flows back, and end.
    Drain {
        /// Longest time for it, ms; the instance's own setting if not given.
        time_ms_max: Option<u64>,
    },
    /// Hand a subscriber over to another box, with its flows; the answer comes when that has ended.
    #[serde(rename = "roam")]
    MoveSubscriber {
        /// An address of it.
        client: IpAddr,
        /// Name of the other box in the settings.
        to: String,
    },
    /// Read the settings anew.
    Reload,
    /// Begin an A/B phase: half of the subscribers are passed from here on, for comparison.
    BeginAb {
        /// Duration, ms.
        time_ms: u64,
        /// Seed that decides which half; from the clock if not given.
        seed: Option<u32>,
    },
    /// End the A/B phase under way.
    EndAb,
    /// The comparison of the A/B phase that is under way, or was last.
    Ab,
    /// Share with the instance that asks what leads packets here, and go on.
    Share(Offer),
    /// Give all flows to the instance that asks, and end.
    #[serde(rename = "hand-over")]
    Upgrade(Offer),
}

impl Question {
    /// True when the answer changes nothing.
    #[must_use]
    pub fn only_looks(&self) -> bool {
        match self {
            Self::Status
            | Self::Metrics
            | Self::Listen(_)
            | Self::Flows { .. }
            | Self::Subscribers { .. }
            | Self::Subscriber { .. }
            | Self::Ab => true,
            Self::Drain { .. }
            | Self::MoveSubscriber { .. }
            | Self::Reload
            | Self::BeginAb { .. }
            | Self::EndAb
            | Self::Share(_)
            | Self::Upgrade(_) => false,
        }
    }
}

/// Answer of a running instance.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Answer {
    /// To [`Question::Status`].
    Status(Box<Status>),
    /// To [`Question::Metrics`].
    Metrics(Box<Snapshot>),
    /// To [`Question::Flows`].
    Flows(FlowList),
    /// To [`Question::Subscribers`].
    Subscribers(SubscriberList),
    /// To [`Question::Subscriber`].
    Subscriber(Box<SubscriberView>),
    /// To [`Question::Ab`], [`Question::BeginAb`] and [`Question::EndAb`].
    Ab(Box<AbReport>),
    /// It is done, or begun, with one line of comment.
    Done(String),
    /// It cannot be done; why, in one line.
    Refused(String),
}

/// The question that a line is.
///
/// # Errors
/// Reason why it is none, in one line.
pub(crate) fn question_of(line: &str) -> Result<Question, String> {
    serde_json::from_str(line)
        .map_err(|error| io::one_line(format!("the question is not understood: {error}")))
}

/// The line that an answer is.
///
/// # Errors
/// When it has no JSON form.
pub(crate) fn line_of(answer: &Answer) -> std::io::Result<String> {
    let mut text = serde_json::to_string(answer)?;
    text.push('\n');
    Ok(text)
}
