//! Events without a packet: deadlines of flows and subscribers.
//!
//! A flow has one entry in the timers, for the earliest of what its phase waits for; a subscriber
//! has one, too.
//!
//! | of | what | how long | where it is reckoned |
//! |---|---|---|---|
//! | handshakes, the oldest | it is given up | `handshake_timeout` | `half/handshakes.rs` |
//! | accelerated, draining | time-out, tail probe, reordering, window probe | RFC 6298, RFC 8985, RFC 9293 §3.8.6.1 | `tcp::Sender` |
//! | accelerated, draining | the sink is gone | `debt_timeout` | `Relay::due` |
//! | accelerated, draining, windowed | silence with nothing owed | `idle_timeout` | `Relay::due`, `Phase::due` |
//! | accelerated, draining, closed | memory at rest is given back | 0.5 s | `Relay::due`, `Relay::linger_due` |
//! | draining | handed back, whatever its hosts know | 3 s or 60 s | `relay/departure.rs` |
//! | closed | retransmissions are answered no longer | `linger` | `Relay::linger_due` |
//! | subscriber with flows | the pacer's pause is over | by the rate | `half/schedule.rs` |
//! | subscriber | an echo request is due | 5 or 25 ms | `opaque/markers.rs` |
//! | subscriber | what passes has waited for 100 ms without evidence; is not scheduled any more | | `half/opaque.rs` |
//! | subscriber without | it is forgotten | `subscriber_memory` | `Half::forgotten_at` |
//!
//! Holes, challenges and the trimming of rings are looked at when a packet comes, and need no timer.

use units::{Duration, Instant};

use super::Half;
use crate::config::EngineConfig;
use crate::flow::Flow;
use crate::memory::timer::{Moment, TimerKey, Timers};
use crate::relay::Relay;

/// Least time after which a flow is looked at again whose deadline is further away.
const LOOK_AGAIN: Duration = Duration::from_secs(2);

impl Half {
    /// Arms the flow's timer for the earliest thing that can happen to it without a packet.
    pub(super) fn arm_flow(&mut self, id: u32, now: Instant) {
        let Some(flow) = self.flows.get_mut(id) else { return };
        arm(&mut self.timers, &self.config, id, flow, now);
    }

    /// Time at which [`Half::handle_timeout`] or [`Half::poll`] wants to be called again.
    pub(crate) fn next_deadline(&self) -> Option<Instant> {
        let is_idle = self.outgoing.outbox.is_empty()
            && self.outgoing.after_data.is_empty()
            && self.outgoing.ready.is_empty();
        if !(is_idle && self.outgoing.questions.is_empty() && self.outgoing.markers.is_empty()) {
            return Some(Instant::ZERO);
        }
        [self.timers.next(), self.handshake_due(), self.conflicts.broken.next_due()]
            .into_iter()
            .flatten()
            .min()
    }

    /// Acts on every deadline up to `now`; calling it early does nothing.
    pub(crate) fn handle_timeout(&mut self, now: Instant) {
        while let Some((at, key)) = self.timers.pop_due(now) {
            self.step_timers_ahead();
            match key {
                TimerKey::Flow(id) => {
                    self.note_begin(id);
                    self.on_flow_timer(id, at, now);
                    self.note_end();
                }
                TimerKey::Subscriber(id) => self.on_subscriber_timer(id, at, now),
            }
        }
        self.end_old_handshakes(now);
    }

    fn on_subscriber_timer(&mut self, id: u32, at: Instant, now: Instant) {
        let forgotten = self.forgotten_at(id);
        let Some(subscriber) = self.subscribers.get_mut(id) else { return };
        if subscriber.armed != Moment::at(at) {
            return;
        }
        subscriber.armed = Moment::NEVER;
        let path = subscriber.path().and_then(|path| self.paths.get(path));
        let has_work = subscriber.flows > 0 || path.is_some_and(|path| path.opaque.has_waiting());
        self.end_schedule(id, now);
        self.consider_marker(id, now);
        let Some(subscriber) = self.subscribers.get_mut(id) else { return };
        if has_work {
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
        let counted = self.before();
        let next = self.look_at(id, now, |flow, cx, _| {
            let before = flow.phase.relay().map_or(0, Relay::memory);
            let next = flow.phase.on_deadline(flow.last_activity, cx);
            cx.note_memory(before, flow.phase.relay().map_or(0, Relay::memory));
            next
        });
        if let Some(counted) = counted {
            self.note_changes(id, counted, now);
        }
        if let Some(next) = next {
            self.apply(id, next, now);
        }
    }
}

/// Arms a flow's timer for the earliest thing that can happen to it without a packet.
pub(super) fn arm(timers: &mut Timers, config: &EngineConfig, id: u32, flow: &mut Flow, now: Instant) {
    flow.due = flow.phase.due(config, flow.last_activity).max(now);
    arm_for_due(timers, id, flow, now);
}

/// Arms a flow's timer. One that is not armed is looked at again, at the latest, after as long as
/// it has been silent and a little more: a deadline that is hours away and replaced by an earlier
/// one with the next packet would stay in the timers for hours, and one more with every pause.
fn arm_for_due(timers: &mut Timers, id: u32, flow: &mut Flow, now: Instant) {
    let silent = now.saturating_since(flow.last_activity);
    let is_armed = flow.armed != Moment::NEVER;
    let at = if is_armed { flow.due } else { flow.due.min(now + silent + LOOK_AGAIN) };
    timers.arm(TimerKey::Flow(id), &mut flow.armed, at);
}
