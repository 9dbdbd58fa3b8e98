//! Log of a run: every departure, every arrival, every round trip.

use units::{Duration, Instant};

use crate::message::{Arrival, RunSpec, RunSummary};

/// The four times of a packet that was sent back.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct EchoSample {
    /// Its number within the run.
    pub number: u32,
    /// Time at which it left, by the asking end's clock.
    pub sent: Instant,
    /// Time at which it came there, by the answering end's clock.
    pub received: Instant,
    /// Time at which the answer left, by the answering end's clock.
    pub echoed: Instant,
    /// Time at which that came back, by the asking end's clock.
    pub returned: Instant,
}

impl EchoSample {
    /// Round trip without the time the answer took to be made.
    #[must_use]
    pub fn round_trip(&self) -> Duration {
        self.returned.saturating_since(self.sent) - self.echoed.saturating_since(self.received)
    }
}

/// End of a run.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Ending {
    /// End as planned.
    Whole,
    /// The client stopped it.
    Stopped,
    /// The server fell silent.
    ServerGone,
}

/// Everything the client knows of a run that is over.
#[derive(Clone, Debug)]
pub struct RunLog {
    /// Specification that was asked for.
    pub spec: RunSpec,
    /// Way in which it ended.
    pub ending: Ending,
    /// Times at which the packets left, by their number and the sender's clock; of a run down only
    /// of those that arrived, `None` for the others.
    pub departures: Vec<Option<Instant>>,
    /// Arrivals in their order; of a run up that was cut short there may be none.
    pub arrivals: Vec<Arrival>,
    /// False when the arrivals of a run up could not be fetched.
    pub has_arrivals: bool,
    /// Round trips, in the order of return; of each packet the first.
    pub echoes: Vec<EchoSample>,
    /// Answers that came again.
    pub repeated_echoes: u32,
    /// Counts of the sender and the receiver, joined.
    pub summary: RunSummary,
    /// Rates of a search and when they were set, by the sender's clock; only of runs up.
    pub rates: Vec<(Instant, units::Rate)>,
}
