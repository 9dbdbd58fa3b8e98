//! [`Draining`]: a flow that leaves: nothing new is taken, what is owed is delivered, and then it
//! is handed back.

use units::Instant;

use super::accelerated;
use super::closed::gives_way_after_the_end;
use super::next::{Next, after};
use crate::boundary::Verdict;
use crate::config::EngineConfig;
use crate::pass::PassReason;
use crate::relay::Relay;
use crate::relay::departure::Departure;
use crate::segment::{Context, Segment};

/// A flow that leaves.
#[derive(Debug, stored::Stored)]
pub(crate) struct Draining {
    pub(crate) relay: Relay,
    /// Boxed, since few flows drain: the others need not have room for it.
    pub(crate) departure: Box<Departure>,
    /// Both directions have ended: nothing but a packet of ours that waits to be made keeps it.
    pub(crate) has_ended: bool,
}

impl Draining {
    pub(super) fn on_segment(&mut self, segment: &mut Segment<'_>, cx: &mut Context<'_>) -> (Verdict, Next) {
        let mut departure = Some(*self.departure);
        let effect = self.relay.on_segment(&mut departure, segment, cx);
        // There are always some: handling a segment brings terms about, and never takes them back.
        *self.departure = departure.unwrap_or(*self.departure);
        self.has_ended |= self.relay.has_ended();
        after(effect, None)
    }

    pub(super) fn on_deadline(&mut self, last_activity: Instant, cx: &mut Context<'_>) -> Next {
        self.relay.rest(last_activity, cx.now);
        if self.has_ended && cx.now.saturating_since(last_activity) >= cx.config.linger {
            return Next::Leave(PassReason::Closed);
        }
        accelerated::on_deadline(&mut self.relay, last_activity, cx)
    }

    pub(super) fn due(&self, config: &EngineConfig, last_activity: Instant) -> Instant {
        if self.has_ended {
            self.relay.linger_due(config, last_activity)
        } else {
            self.relay.due(Some(&self.departure), config, last_activity)
        }
    }

    pub(super) fn gives_way_to(&self, syn: &Segment<'_>) -> bool {
        if self.has_ended {
            gives_way_after_the_end(&self.relay, syn)
        } else {
            accelerated::gives_way_to(&self.relay, syn)
        }
    }

    /// The reason for which it leaves now, if nothing keeps it; its last packet came at `last_activity`.
    pub(crate) fn may_leave(&mut self, last_activity: Instant, now: Instant) -> Option<PassReason> {
        let may_leave = self.relay.may_leave(&mut self.departure, last_activity, now);
        let reason = if self.has_ended { PassReason::Closed } else { self.departure.reason() };
        may_leave.then_some(reason)
    }
}
