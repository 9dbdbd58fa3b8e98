//! What happens without a packet: deadlines of flows and subscribers.

use units::{Duration, Instant};

use super::Half;
use crate::config::EngineConfig;
use crate::flow::Flow;
use crate::memory::timer::{Moment, TimerKey, Timers};
use crate::phase::next::Next;
use crate::relay::Relay;

/// Least time after which a flow is looked at again whose deadline is further away.
const LOOK_AGAIN: Duration = Duration::from_secs(2);

impl Half {
    /// Arms the flow's timer for the earliest thing that can happen to it without a packet.
    pub(super) fn arm_flow(&mut self, id: u32, now: Instant) {
        let Some(flow) = self.flows.get_mut(id) else { return };
        arm(&mut self.timers, &self.config, id, flow, now);
    }

    /// When [`Half::handle_timeout`] or [`Half::poll`] wants to be called again.
    pub(crate) fn next_deadline(&self) -> Option<Instant> {
        if !(self.outbox.is_empty() && self.after_data.is_empty() && self.ready.is_empty()) {
            return Some(Instant::ZERO);
        }
        self.timers.next()
    }

    /// Acts on every deadline up to `now`; calling it early does nothing.
    pub(crate) fn handle_timeout(&mut self, now: Instant) {
        while let Some((at, key)) = self.timers.pop_due(now) {
            self.step_timers_ahead();
            match key {
                TimerKey::Flow(id) => self.on_flow_timer(id, at, now),
                TimerKey::Subscriber(id) => self.on_subscriber_timer(id, at, now),
            }
        }
    }

    fn on_subscriber_timer(&mut self, id: u32, at: Instant, now: Instant) {
        let forgotten = self.forgotten_at(id);
        let Some(subscriber) = self.subscribers.get_mut(id) else { return };
        if subscriber.armed != Moment::at(at) {
            return;
        }
        subscriber.armed = Moment::NEVER;
        if subscriber.flows > 0 {
            self.wake(id);
        } else if now >= forgotten {
            self.forget_subscriber(id);
        } else {
            self.timers.arm(TimerKey::Subscriber(id), &mut subscriber.armed, forgotten);
        }
    }

    fn on_flow_timer(&mut self, id: u32, at: Instant, now: Instant) {
        let Some(flow) = self.flows.get_mut(id) else { return };
        if flow.armed != Moment::at(at) {
            return;
        }
        flow.armed = Moment::NEVER;
        if flow.due > now {
            // Moved meanwhile, as with nearly every packet: its state need not be fetched for that.
            return arm_for_due(&mut self.timers, id, flow, now);
        }
        let next = self.look_at(id, now, |flow, cx, _| {
            let before = flow.phase.relay().map_or(0, Relay::memory);
            let next = flow.phase.on_deadline(flow.last_activity, cx);
            cx.note_memory(before, flow.phase.relay().map_or(0, Relay::memory));
            next
        });
        match next {
            Some(Next::Stay) if self.is_observing(id) => self.arm_flow(id, now),
            Some(next) => self.apply(id, next, now),
            None => {}
        }
    }
}

/// Arms a flow's timer for the earliest thing that can happen to it without a packet.
pub(super) fn arm(timers: &mut Timers, config: &EngineConfig, id: u32, flow: &mut Flow, now: Instant) {
    flow.due = flow.phase.due(config, flow.last_activity).max(now);
    arm_for_due(timers, id, flow, now);
}

/// Arms a flow's timer. One that is not armed is looked at again, at the latest, after as long as it has been silent and
/// a little more: a deadline that is hours away and replaced by an earlier one with the next packet would stay in the timers
/// for hours, and one more with every pause.
fn arm_for_due(timers: &mut Timers, id: u32, flow: &mut Flow, now: Instant) {
    let silent = now.saturating_since(flow.last_activity);
    let is_armed = flow.armed != Moment::NEVER;
    let at = if is_armed { flow.due } else { flow.due.min(now + silent + LOOK_AGAIN) };
    timers.arm(TimerKey::Flow(id), &mut flow.armed, at);
}
