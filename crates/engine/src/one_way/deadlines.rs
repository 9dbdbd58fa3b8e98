//! What happens without a packet: deadlines of flows and subscribers.

use control::LossKind;
use units::{Duration, Instant};

use super::{OneWay, note_memory};
use crate::PassReason;
use crate::accelerated::Accelerated;
use crate::flow::{Flow, State};
use crate::subscriber::Subscriber;
use crate::timer::{Moment, TimerKey, Timers};

/// How long an empty stream buffer keeps its memory, unless memory is short.
///
/// A fast flow's buffer is empty after every other acknowledgement; memory that comes and goes that often costs page
/// faults, a quarter of all processor time when measured.
const BUFFER_REST: Duration = Duration::from_millis(500);

/// Least time after which a flow is looked at again whose deadline is further away.
const LOOK_AGAIN: Duration = Duration::from_secs(2);

impl OneWay {
    /// Arms the flow's timer for the earliest thing that can happen to it without a packet.
    pub(crate) fn arm_flow(&mut self, id: u32, now: Instant) {
        let Some(flow) = self.flows.get_mut(id) else { return };
        let wanted = match &flow.state {
            State::Observing(_) => flow.last_activity + self.config.handshake_timeout,
            State::Windowed(_) => flow.last_activity + self.config.idle_timeout,
            State::Accelerated(a) if a.is_closed => {
                release_time(a, flow.last_activity).min(flow.last_activity + self.config.linger)
            }
            // It leaves the table with that packet; a debt that is overdue must not come due again until then.
            State::Accelerated(a) if a.outbox.reset_client => Instant::FAR_FUTURE,
            State::Accelerated(a) => {
                // While something is owed it is no silence that ends a flow: nobody would hear that it is lost (H1).
                let end = if a.owes() {
                    a.last_progress + self.config.debt_timeout
                } else {
                    flow.last_activity + self.config.idle_timeout
                };
                a.sender
                    .next_deadline()
                    .unwrap_or(Instant::FAR_FUTURE)
                    .min(end)
                    .min(hand_back_time(a))
                    .min(release_time(a, flow.last_activity))
            }
        };
        flow.due = wanted.max(now);
        arm_for_due(&mut self.timers, id, flow, now);
    }

    /// When [`OneWay::handle_timeout`] or [`OneWay::poll_transmit`] wants to be called again.
    #[must_use]
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
        let path = subscriber.path();
        if subscriber.flows > 0 {
            if let Some(path) = path.and_then(|path| self.paths.get_mut(path))
                && !path.is_ready
                && path.has_work()
            {
                path.is_ready = true;
                self.ready.push_back(id);
            }
        } else if now >= forgotten {
            let key = subscriber.key;
            self.subscriber_index.remove(&key, id);
            self.subscribers.remove(id);
            path.map(|path| self.paths.remove(path));
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
        let silent = now.saturating_since(flow.last_activity);
        let subscriber_id = flow.subscriber;
        let accelerated = match &mut flow.state {
            State::Observing(_) => {
                if silent >= self.config.handshake_timeout {
                    self.remove(id, Some(PassReason::HandshakeTimeout));
                } else {
                    self.arm_flow(id, now);
                }
                return;
            }
            State::Windowed(_) if silent >= self.config.idle_timeout => {
                return self.remove(id, Some(PassReason::Idle));
            }
            State::Windowed(_) => return self.arm_flow(id, now),
            State::Accelerated(accelerated) => accelerated,
        };
        if now >= release_time(accelerated, flow.last_activity) {
            let memory = accelerated.buffer.capacity();
            accelerated.buffer.release_if_empty();
            let path = self.subscribers.get(subscriber_id).and_then(Subscriber::path);
            if let Some(path) = path.and_then(|path| self.paths.get_mut(path)) {
                note_memory(&mut self.stats, path, memory, accelerated.buffer.capacity());
            }
        }
        if accelerated.is_closed && silent >= self.config.linger {
            return self.remove(id, Some(PassReason::Closed));
        }
        let owes = accelerated.owes();
        if !owes && silent >= self.config.idle_timeout {
            return self.remove(id, Some(PassReason::Idle));
        }
        let stalled = now.saturating_since(accelerated.last_progress);
        if owes && !accelerated.is_closed && stalled >= self.config.debt_timeout {
            // The client is gone: neither side may believe in a short, clean end (H1, H2).
            accelerated.outbox.reset_server = !accelerated.server_reset;
            accelerated.outbox.reset_client = true;
        } else if accelerated.sender.next_deadline().is_some_and(|at| at <= now) {
            let before = accelerated.sender.in_flight();
            let out = accelerated.sender.on_timeout(now);
            let after = accelerated.sender.in_flight();
            self.stats.timeouts += u64::from(out.is_timeout);
            if let Some(path) = self.path_of_mut(subscriber_id) {
                path.adjust_in_flight(before, after);
                if out.lost > 0 {
                    let kind = out.kind.unwrap_or(LossKind::Fast);
                    path.on_loss(out.lost, kind, out.is_new_loss, now);
                }
            }
        }
        self.follow_up(id, now);
    }
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

/// When a flow that waits for nothing else is handed back, whatever its hosts know.
fn hand_back_time(flow: &Accelerated) -> Instant {
    let due = flow.hand_back.due(flow.receiver.next()).filter(|_| flow.is_draining && !flow.owes());
    due.unwrap_or(Instant::FAR_FUTURE)
}

/// When the memory of a flow that has delivered everything is given back.
fn release_time(flow: &Accelerated, last_activity: Instant) -> Instant {
    if flow.buffer.is_empty() && flow.buffer.capacity() > 0 {
        last_activity + BUFFER_REST
    } else {
        Instant::FAR_FUTURE
    }
}
