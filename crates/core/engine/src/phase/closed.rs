//! [`Closed`]: a flow of which both directions have ended. Retransmissions are still answered for a while.

use units::Instant;

use super::accelerated;
use super::next::{Next, after};
use crate::boundary::Verdict;
use crate::config::EngineConfig;
use crate::direction::End;
use crate::pass::PassReason;
use crate::relay::Relay;
use crate::segment::{Context, Segment};

/// A flow of which both directions have ended.
#[derive(Debug, stored::Stored)]
pub(crate) struct Closed {
    pub(crate) relay: Relay,
}

impl Closed {
    pub(super) fn on_segment(&mut self, segment: &mut Segment<'_>, cx: &mut Context<'_>) -> (Verdict, Next) {
        let mut departure = None;
        let effect = self.relay.on_segment(&mut departure, segment, cx);
        let (verdict, next) = after(effect, departure);
        // A host that has forgotten the flow answers by a reset what still comes for it, such as our acknowledgement after
        // another process has gone on. Both streams have ended, and nothing is broken off.
        match next {
            Next::Leave(PassReason::Reset) => (verdict, Next::Leave(PassReason::Closed)),
            next => (verdict, next),
        }
    }

    pub(super) fn on_deadline(&mut self, last_activity: Instant, cx: &mut Context<'_>) -> Next {
        self.relay.rest(last_activity, cx.now);
        if cx.now.saturating_since(last_activity) >= cx.config.linger {
            return Next::Leave(PassReason::Closed);
        }
        // Where `idle_timeout` is shorter than `linger`, it ends the flow first.
        accelerated::on_deadline(&mut self.relay, last_activity, cx)
    }

    pub(super) fn due(&self, config: &EngineConfig, last_activity: Instant) -> Instant {
        self.relay.linger_due(config, last_activity)
    }

    pub(super) fn gives_way_to(&self, syn: &Segment<'_>) -> bool {
        gives_way_after_the_end(&self.relay, syn)
    }
}

/// Any new SYN opens the ports anew; a late copy of the sink's first one is none (H26, H28).
pub(super) fn gives_way_after_the_end(relay: &Relay, syn: &Segment<'_>) -> bool {
    syn.from == End::Source || !relay.is_first_syn(syn.tcp)
}
