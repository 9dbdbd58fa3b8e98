//! Notices for those outside: noted at the places where things happen, and only if they are wanted.

use std::net::IpAddr;

use units::Instant;

use super::Half;
use crate::direction::{Direction, End};
use crate::flow::Flow;
use crate::key::{FlowKey, SharingKey};
use crate::notice::{EndedFlow, FlowName, Notice, Traffic, Wants};
use crate::pass::PassReason;
use crate::relay::Relay;
use crate::segment::Segment;
use crate::stats::Stats;

/// Counters before a flow was looked at.
#[derive(Clone, Copy, Debug)]
pub(super) struct Before {
    taken: u64,
    delivered: u64,
    timeouts: u64,
    undone: u64,
}

impl Before {
    const fn of(stats: &Stats) -> Self {
        let Stats { bytes_received, bytes_delivered, timeouts, timeouts_undone, .. } = *stats;
        Self { taken: bytes_received, delivered: bytes_delivered, timeouts, undone: timeouts_undone }
    }
}

impl Half {
    /// Has this noted from here on.
    pub(crate) fn set_wants(&mut self, wants: Wants) {
        self.observed.notices.set_wants(wants);
    }

    /// First notice that is not taken yet.
    pub(crate) fn take_notice(&mut self) -> Option<Notice> {
        self.observed.notices.take()
    }

    /// Notices that had no room since this was asked last.
    pub(crate) fn take_lost_notices(&mut self) -> u64 {
        self.observed.notices.take_lost()
    }

    fn name(&self, key: &FlowKey) -> FlowName {
        let (client, server) = key.client_and_server(self.direction);
        FlowName { client, server, direction: self.direction }
    }

    /// Present counters, if anything is wanted that shows by them.
    #[inline]
    pub(super) fn before(&self) -> Option<Before> {
        self.observed.notices.wants().any().then(|| Before::of(&self.stats))
    }

    /// A flow was looked at: what has changed since is its.
    pub(super) fn note_changes(&mut self, id: u32, before: Before, now: Instant) {
        let now_at = Before::of(&self.stats);
        let Some((key, place)) = self.flows.get(id).map(|flow| (flow.key, flow.subscriber)) else { return };
        if let Some(account) = self.observed.notices.account(id) {
            account.taken_bytes += now_at.taken - before.taken;
            account.delivered_bytes += now_at.delivered - before.delivered;
            account.timeouts += now_at.timeouts - before.timeouts;
        }
        let Some(subscriber) = self.address_of(place) else { return };
        if now_at.undone > before.undone {
            let name = self.name(&key);
            self.observed.notices.push(Notice::TimeoutUndone(name));
        }
        if now_at.timeouts > before.timeouts {
            self.observed.notices.on_timeout(place, subscriber, now);
        }
        if now_at.delivered > before.delivered {
            self.observed.notices.on_delivery(place, subscriber, now);
        }
    }

    fn address_of(&self, subscriber: u32) -> Option<IpAddr> {
        let key = &self.subscribers.get(subscriber)?.key;
        Some(match key {
            SharingKey::Address(address) => *address,
            SharingKey::Flow(flow) => flow.sink().ip(),
        })
    }

    /// A flow has come into the table, whose handshake began at `began` and was made of this traffic.
    pub(super) fn note_opened(&mut self, id: u32, began: Instant, sides: [Traffic; 2]) {
        if let Some(account) = self.observed.notices.account(id) {
            (account.began, account.sides) = (Some(began), sides);
        }
    }

    /// A packet of a flow in the table has come.
    #[inline]
    pub(super) fn note_packet(&mut self, id: u32, segment: &Segment<'_>) {
        if let Some(account) = self.observed.notices.account(id) {
            let side = &mut account.sides[usize::from(segment.from == End::Sink)];
            side.packets += 1;
            side.bytes += segment.len() as u64;
        }
    }

    /// A flow is accelerated, or its window lowered, from here on.
    pub(super) fn note_accelerated(&mut self, id: u32) {
        let Some(key) = self.flows.get(id).map(|flow| flow.key) else { return };
        let name = self.name(&key);
        self.observed.notices.push(Notice::Accelerated(name));
    }

    /// A flow is passed that was not accelerated.
    pub(super) fn note_passed(&mut self, key: &FlowKey, reason: PassReason) {
        let name = self.name(key);
        self.observed.notices.push(Notice::Passed(name, reason));
    }

    /// A flow has left its place `id` in the table.
    pub(super) fn note_left(&mut self, id: u32, flow: &Flow, reason: Option<PassReason>) {
        if !self.observed.notices.wants().any() {
            return;
        }
        let account = self.observed.notices.close_account(id);
        if flow.phase.watched().is_some() {
            return;
        }
        let relay = flow.phase.relay();
        let windowed = flow.phase.windowed();
        let [source, sink]: [Traffic; 2] = account.sides;
        let sides = if self.direction == Direction::Downlink { [sink, source] } else { [source, sink] };
        let ended = EndedFlow {
            flow: self.name(&flow.key),
            is_both: self.config.accelerates_both(self.direction, &flow.key),
            reason,
            began: account.began,
            ended: flow.last_activity,
            sides,
            taken_bytes: account.taken_bytes,
            delivered_bytes: account.delivered_bytes,
            retransmitted_bytes: relay.map_or(0, Relay::retransmitted_bytes),
            timeouts: account.timeouts,
            rtt_min: relay.and_then(Relay::rtt_min),
            srtt: relay.and_then(Relay::srtt).or_else(|| windowed.and_then(|windowed| windowed.rtt())),
        };
        self.observed.notices.push(Notice::Ended(ended));
    }
}
