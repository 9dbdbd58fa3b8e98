//! [`Accelerated`]: a flow whose delivery is ours: what the source sends is acknowledged, kept, and
//! delivered.

use units::Instant;

use super::next::{Next, after};
use crate::boundary::Verdict;
use crate::config::EngineConfig;
use crate::direction::End;
use crate::pass::PassReason;
use crate::relay::Relay;
use crate::segment::{Context, Segment};

/// A flow whose delivery is ours.
#[derive(Debug, stored::Stored)]
pub(crate) struct Accelerated {
    pub(crate) relay: Relay,
}

impl Accelerated {
    pub(super) fn on_segment(&mut self, segment: &mut Segment<'_>, cx: &mut Context<'_>) -> (Verdict, Next) {
        let mut departure = None;
        let effect = self.relay.on_segment(&mut departure, segment, cx);
        match after(effect, departure) {
            (verdict, Next::Stay) if self.relay.has_ended() => (verdict, Next::Close),
            what => what,
        }
    }

    pub(super) fn on_deadline(&mut self, last_activity: Instant, cx: &mut Context<'_>) -> Next {
        self.relay.rest(last_activity, cx.now);
        on_deadline(&mut self.relay, last_activity, cx)
    }

    pub(super) fn due(&self, config: &EngineConfig, last_activity: Instant) -> Instant {
        self.relay.due(None, config, last_activity)
    }

    pub(super) fn gives_way_to(&self, syn: &Segment<'_>) -> bool {
        gives_way_to(&self.relay, syn)
    }
}

/// A deadline of a flow that delivers: silence ends it where nothing is owed, and a sink that
/// acknowledges nothing is gone.
pub(super) fn on_deadline(relay: &mut Relay, last_activity: Instant, cx: &mut Context<'_>) -> Next {
    if !relay.owes() && cx.now.saturating_since(last_activity) >= cx.config.idle_timeout {
        return Next::Leave(PassReason::Idle);
    }
    if relay.is_stalled(cx.config, cx.now) {
        relay.abort();
    } else {
        relay.on_sender_deadline(cx);
    }
    Next::Stay
}

/// True when the sink has forgotten the connection and nothing is owed to it. The source's answer
/// to a new SYN would otherwise be taken for its old one (H26).
///
/// A late copy of the sink's first SYN opens nothing: what else is still under way would pass with
/// old timestamps (H28).
pub(super) fn gives_way_to(relay: &Relay, syn: &Segment<'_>) -> bool {
    syn.from == End::Sink && !relay.is_first_syn(syn.tcp) && !relay.owes()
}
