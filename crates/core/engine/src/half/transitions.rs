//! A flow's life: into the table, from phase to phase, out of the table. Only here do flows and
//! subscribers enter and leave their tables, are flows counted, and is the journal written to.
//! `docs/engine.md` has all phases in one diagram.
//!
//! ```text
//!   handshakes.rs ─▶ Accelerated ─ apply ─▶ Draining, Closed ─▶ leave
//!               └──▶ Windowed, Watched ───────────────────────▶ leave
//! ```

use control::Controller;
use units::{Bytes, Duration, Instant};

use super::Half;
use super::deadlines::arm;
use crate::config::Sharing;
use crate::flow::Flow;
use crate::journal::{Journal, JournalEntry};
use crate::key::{FlowKey, SharingKey, subscriber_key};
use crate::memory::timer::TimerKey;
use crate::pass::PassReason;
use crate::path::subscriber::Subscriber;
use crate::phase::Phase;
use crate::phase::accelerated::Accelerated;
use crate::phase::closed::Closed;
use crate::phase::draining::Draining;
use crate::phase::next::Next;
use crate::record::{FlowRecord, Mark};
use crate::relay::departure::Departure;
use crate::relay::{Numbers, Relay};

/// Transitions into the table.
impl Half {
    /// Puts a flow into the table, and among those of its client.
    pub(super) fn add(&mut self, flow: Flow) -> u32 {
        let key = flow.key;
        self.meters.add(flow.level());
        let id = self.flows.insert(flow);
        self.flow_index.insert(&key, id);
        self.join_family(id);
        self.stats.flows_now += 1;
        id
    }

    /// Leaves a new flow alone.
    pub(super) fn pass(&mut self, key: FlowKey, reason: PassReason) {
        self.note_passed(&key, reason);
        self.count_pass(key, reason);
    }

    /// Reason why a new flow is left alone, if it is.
    pub(super) fn reason_to_pass(&self, key: &FlowKey) -> Option<PassReason> {
        let (config, stats) = (&self.config, &self.stats);
        let is_wanted = config.accelerates(self.direction, key) || config.lowers_window(self.direction, key);
        let reasons = [
            (!config.accelerate, PassReason::Disabled),
            (!is_wanted, PassReason::Policy),
            (self.is_draining, PassReason::Draining),
            (config.half_open_max == 0, PassReason::HalfOpenFull),
            (stats.buffer_bytes_now >= config.buffer_max.get(), PassReason::MemoryFull),
        ];
        reasons.into_iter().find_map(|(holds, reason)| holds.then_some(reason))
    }

    /// Key of the controller that a flow shares.
    fn sharing_key(&self, flow: &FlowKey) -> SharingKey {
        match self.config.sharing {
            Sharing::Subscriber => {
                SharingKey::Address(subscriber_key(flow.sink().ip(), self.config.ipv6_prefix_len))
            }
            Sharing::Flow => SharingKey::Flow(*flow),
        }
    }

    /// True when the subscriber of a new flow has as many as one may have (H20).
    pub(super) fn is_subscriber_full(&self, flow: &FlowKey) -> bool {
        let id = self.clients.index.get(&self.sharing_key(flow), &self.subscribers);
        let subscriber = id.and_then(|id| self.subscribers.get(id));
        subscriber.is_some_and(|subscriber| subscriber.flows >= self.config.subscriber_flows_max)
    }

    /// The subscriber a new flow belongs to, with one flow more.
    pub(super) fn subscriber_for(&mut self, flow: &FlowKey, now: Instant) -> u32 {
        let id = self.subscriber_at(self.sharing_key(flow), now);
        let Some(subscriber) = self.subscribers.get_mut(id) else { return id };
        subscriber.flows += 1;
        subscriber.last_used = now;
        if std::mem::take(&mut subscriber.is_outdated)
            && let Some(path) = subscriber.path().and_then(|path| self.paths.get_mut(path))
        {
            path.controller = subscriber.controller(&self.config.controller);
        }
        id
    }
}

/// Transitions from phase to phase.
impl Half {
    /// The subscriber of a key, made if there is none.
    pub(super) fn subscriber_at(&mut self, key: SharingKey, now: Instant) -> u32 {
        match self.clients.index.get(&key, &self.subscribers) {
            Some(id) => id,
            None => {
                let id = self.subscribers.insert(Subscriber::new(key, now));
                self.clients.index.insert(&key, id);
                id
            }
        }
    }

    /// Tells a flow's subscriber of a round trip of the path.
    pub(super) fn on_round_trip(&mut self, id: u32, rtt: Duration, now: Instant) {
        let subscriber = self.flows.get(id).map(|flow| flow.subscriber);
        let Some(subscriber) = subscriber.and_then(|id| self.subscribers.get_mut(id)) else { return };
        match subscriber.path().and_then(|path| self.paths.get_mut(path)) {
            Some(path) => path.controller.on_round_trip(rtt, now),
            None => subscriber.note_round_trip(rtt, now),
        }
    }

    /// Does what a phase says is next.
    pub(super) fn apply(&mut self, id: u32, next: Next, now: Instant) {
        match next {
            Next::Stay | Next::Dispute(_) => {}
            Next::Drain(departure) => self.begin_draining(id, departure),
            Next::Close => self.change(id, |phase| match phase {
                Phase::Accelerated(Accelerated { relay }) => Phase::Closed(Closed { relay }),
                phase @ (Phase::Draining(_) | Phase::Closed(_) | Phase::Windowed(_) | Phase::Watched(_)) => {
                    phase
                }
            }),
            Next::Leave(reason) => return self.leave(id, Some(reason)),
        }
        self.settle(id, now);
    }

    fn begin_draining(&mut self, id: u32, departure: Box<Departure>) {
        self.change(id, |phase| match phase {
            Phase::Accelerated(Accelerated { relay }) => {
                let has_ended = relay.has_ended();
                Phase::Draining(Draining { relay, departure, has_ended })
            }
            Phase::Closed(Closed { relay }) => {
                Phase::Draining(Draining { relay, departure, has_ended: true })
            }
            Phase::Draining(draining) => Phase::Draining(Draining { departure, ..draining }),
            phase @ (Phase::Windowed(_) | Phase::Watched(_)) => phase,
        });
    }

    fn change(&mut self, id: u32, change: impl FnOnce(Phase) -> Phase) {
        let meters = &mut self.meters;
        self.flows.change(id, |flow| {
            let before = flow.level();
            let flow = Flow { phase: change(flow.phase), ..flow };
            meters.follow(before, flow.level());
            flow
        });
    }

    /// Settles a flow after anything changed in it: journal, end, deadline, control packets, turn to send.
    pub(super) fn settle(&mut self, id: u32, now: Instant) {
        let Some(flow) = self.flows.get_mut(id) else { return };
        if let Some(journal) = self.observed.journal.as_deref_mut() {
            note(journal, id, flow);
        }
        self.memory.pool.recycle();
        let last_activity = flow.last_activity;
        match &mut flow.phase {
            Phase::Windowed(_) | Phase::Watched(_) => return self.arm_flow(id, now),
            Phase::Draining(draining) => {
                if let Some(reason) = draining.may_leave(last_activity, now) {
                    return self.leave(id, Some(reason));
                }
            }
            Phase::Accelerated(_) | Phase::Closed(_) => {}
        }
        let Some(relay) = flow.phase.relay_mut() else { return };
        relay.refresh_timers(now);
        let joins = relay.wants_to_send() && !relay.turn().is_in_line();
        let becomes_urgent = relay.is_urgent() && !flow.is_urgent;
        let has_control = !relay.outbox().is_empty();
        flow.is_urgent |= becomes_urgent;
        if has_control && !flow.in_outbox {
            flow.in_outbox = true;
            self.outgoing.outbox.push_back(id);
        }
        arm(&mut self.timers, &self.config, id, flow, now);
        let subscriber_id = flow.subscriber;
        if joins {
            self.open_path(subscriber_id);
        }
        let path = self.subscribers.get(subscriber_id).and_then(Subscriber::path);
        let Some(path) = path.and_then(|path| self.paths.get_mut(path)) else { return };
        if becomes_urgent {
            path.urgent.push_back(id);
        }
        if joins {
            let quantum = path.controller.control().send_quantum.get().min(u64::from(u16::MAX));
            if let Some(relay) = self.flows.get_mut(id).and_then(|flow| flow.phase.relay_mut()) {
                relay.join(quantum, now);
            }
            path.turns.push_fresh(id, &mut self.flows);
        }
        // An acknowledgement may have opened the window for other flows of the subscriber too.
        self.outgoing.ready.wake(subscriber_id, path);
    }
}

impl Half {
    /// Enters every flow into the journal, unless it has them already.
    pub(crate) fn note_flows(&mut self) {
        let Some(journal) = self.observed.journal.as_deref_mut() else { return };
        if journal.continues() {
            return;
        }
        for (id, flow) in self.flows.iter_mut() {
            flow.is_journaled = false;
            note(journal, id, flow);
        }
    }

    /// Notes that a flow is being looked at: if the process dies of it, it was this one.
    pub(super) fn note_begin(&mut self, id: u32) {
        if let Some(journal) = self.observed.journal.as_deref_mut() {
            journal.begin(id);
        }
    }

    /// Notes that it was.
    pub(super) fn note_end(&mut self) {
        if let Some(journal) = self.observed.journal.as_deref_mut() {
            journal.end();
        }
    }

    /// Brings the journal up to date with a flow that is about to send.
    pub(super) fn note_flow(&mut self, id: u32) {
        if let (Some(journal), Some(flow)) = (self.observed.journal.as_deref_mut(), self.flows.get_mut(id)) {
            note(journal, id, flow);
        }
    }

    /// Takes every entry out of the journal, and writes none any more.
    pub(crate) fn settle_all(&mut self) {
        let Some(mut journal) = self.observed.journal.take() else { return };
        for (id, flow) in self.flows.iter_mut().filter(|(_, flow)| flow.is_journaled) {
            journal.forget(id);
            flow.is_journaled = false;
        }
    }
}

/// Brings the journal up to date with a flow, before any packet tells of what happened.
fn note(journal: &mut dyn Journal, id: u32, flow: &mut Flow) {
    let Some(relay) = flow.phase.relay() else { return };
    let mut record = FlowRecord::default();
    if journal.wants_records() {
        record = record_of(flow, relay);
    } else if relay.debt() == 0 {
        if std::mem::take(&mut flow.is_journaled) {
            journal.forget(id);
        }
        return;
    }
    let entry = journal_entry(&flow.key, relay.numbers(), record);
    journal.note(id, &entry, !flow.is_journaled);
    flow.is_journaled = true;
}

/// All that another process needs to go on with a flow that delivers.
pub(super) fn record_of(flow: &Flow, relay: &Relay) -> FlowRecord {
    let mut record = relay.record();
    record.keep_times(relay.last_progress(), flow.last_activity);
    record.set(Mark::Draining, flow.phase.departure().is_some());
    record.set(Mark::Closed, matches!(flow.phase, Phase::Closed(_)));
    record
}

/// Out of the table.
impl Half {
    /// Takes a flow out of the table; its packets are forwarded untouched from here on.
    pub(super) fn leave(&mut self, id: u32, reason: Option<PassReason>) {
        let Some(flow) = self.flows.get(id) else { return };
        let client = self.client_of(&flow.key);
        let path = self.subscribers.get(flow.subscriber).and_then(Subscriber::path);
        if let Some(path) = path.and_then(|path| self.paths.get_mut(path)) {
            path.turns.remove(id, &mut self.flows);
        }
        self.clients.families.part(client, id, &mut self.flows);
        let Some(flow) = self.flows.remove(id) else { return };
        self.flow_index.remove(&flow.key, id);
        self.note_broken(&flow, reason);
        self.meters.remove(flow.level());
        self.meters.flows_ended += 1;
        self.stats.flows_now -= 1;
        self.note_left(id, &flow, reason);
        self.close_measured(id, &flow);
        if let Some(reason) = reason {
            self.count_pass(flow.key, reason);
        }
        if let Some(journal) = self.observed.journal.as_deref_mut().filter(|_| flow.is_journaled) {
            journal.forget(id);
        }
        if let Some(relay) = flow.phase.relay()
            && let Some(path) = path.and_then(|path| self.paths.get_mut(path))
        {
            path.adjust_in_flight(relay.in_flight(), 0);
            // Its bytes in flight no longer count: others may have waited for just that room,
            // without a timer.
            self.outgoing.ready.wake(flow.subscriber, path);
            self.stats.bytes_retransmitted += relay.retransmitted_bytes();
            self.stats.note_memory(relay.memory(), 0);
            path.adjust_buffered(relay.memory(), 0);
        }
        self.leave_subscriber(flow.subscriber);
    }

    /// A subscriber has a flow less, and is forgotten some time after the last one.
    pub(super) fn leave_subscriber(&mut self, id: u32) {
        let forgotten = self.forgotten_at(id);
        let Some(subscriber) = self.subscribers.get_mut(id) else { return };
        subscriber.flows -= 1;
        if subscriber.flows == 0 {
            self.timers.arm(TimerKey::Subscriber(id), &mut subscriber.armed, forgotten);
        }
    }

    /// Time at which a subscriber may be forgotten, once without flows: at once if nothing was
    /// delivered and so nothing learnt, or a scan of addresses would fill the memory (H20).
    pub(super) fn forgotten_at(&self, subscriber_id: u32) -> Instant {
        let opened = self.subscribers.get(subscriber_id).map_or(Instant::ZERO, |s| s.last_used);
        let Some(path) = self.path_of(subscriber_id) else { return opened };
        let last_used = path.last_used.max(opened);
        if path.sampler.delivered() == Bytes::ZERO {
            // What passes to it may come here without an answer.
            if path.opaque.is_wanted() { last_used.max(path.opaque.active_until()) } else { last_used }
        } else {
            last_used + self.config.subscriber_memory
        }
    }

    /// Forgets a subscriber without flows.
    pub(super) fn forget_subscriber(&mut self, id: u32) {
        let Some(subscriber) = self.subscribers.remove(id) else { return };
        self.clients.index.remove(&subscriber.key, id);
        self.observed.notices.forget_subscriber(id);
        subscriber.path().map(|path| self.paths.remove(path));
    }

    /// Stops taking on anything new, so that the half can be stopped without breaking a flow.
    ///
    /// What was acknowledged to sources is delivered; then each flow is handed back to plain forwarding. Done
    /// when [`Half::debt`] is zero and [`crate::Stats::flows_now`] is zero.
    pub(crate) fn drain(&mut self, now: Instant) {
        self.is_draining = true;
        self.send_away(PassReason::Draining, |_| {}, now);
    }

    /// Packets may have gone past for a while: of no flow in the table it is known any more where it stands.
    ///
    /// Each is handed back as soon as nothing is owed to it, most at once; flows that begin from
    /// here on are taken over.
    pub(crate) fn resynchronise(&mut self, now: Instant) {
        self.send_away(PassReason::Desynchronised, Departure::doubt, now);
    }

    /// Has every flow leave: those whose delivery is ours on terms that `change` may change, the
    /// others at once.
    fn send_away(&mut self, reason: PassReason, change: fn(&mut Departure), now: Instant) {
        self.end_handshakes(reason);
        for id in 0..self.flows.places() {
            self.send_one_away(id, reason, change, now);
        }
    }

    /// The same for one flow.
    pub(super) fn send_one_away(
        &mut self,
        id: u32,
        reason: PassReason,
        change: fn(&mut Departure),
        now: Instant,
    ) {
        let Some(flow) = self.flows.get_mut(id) else { return };
        let Some(relay) = flow.phase.relay() else { return self.leave(id, Some(reason)) };
        let mut departure = flow.phase.departure().copied().unwrap_or_else(|| relay.new_departure());
        change(&mut departure);
        self.begin_draining(id, Box::new(departure));
        self.settle(id, now);
    }
}

fn journal_entry(key: &FlowKey, numbers: Numbers, record: FlowRecord) -> JournalEntry {
    JournalEntry {
        sink: key.sink(),
        source: key.source(),
        delivered: numbers.delivered,
        told: numbers.told,
        sink_next: numbers.sink_next,
        source_ack: numbers.source_ack,
        timestamps: numbers.timestamps,
        record,
    }
}
