//! A trial in one half: who is passed, and what is measured.

use std::net::IpAddr;

use units::{Duration, Instant};

use super::Half;
use crate::direction::Direction;
use crate::flow::Flow;
use crate::key::{FlowKey, subscriber_key};
use crate::phase::Phase;
use crate::relay::Relay;
use crate::trial::{ControlGroup, MeasuredFlow, Seen};

/// Counters before a flow was looked at.
#[derive(Clone, Copy, Debug)]
pub(super) struct Stand {
    delivered: u64,
    rtt_us: u64,
    rtts: u64,
}

impl Half {
    /// Has flows that begin from here on measured, and those of `group` passed.
    pub(crate) fn begin_trial(&mut self, group: ControlGroup) {
        self.end_trial();
        self.observed.trial.begin(group);
    }

    /// Lets flows that were passed for a trial go, and measures nothing any more.
    pub(crate) fn end_trial(&mut self) {
        if self.observed.trial.group().is_none() {
            return;
        }
        for id in 0..self.flows.places() {
            let Some(flow) = self.flows.get(id) else { continue };
            if flow.phase.watched().is_some() {
                self.leave(id, None);
            } else {
                close(&mut self.observed.trial, id, flow, (self.direction, self.config.ipv6_prefix_len));
            }
        }
        self.observed.trial.end();
    }

    /// Group of flows that are passed, while a trial is under way.
    pub(crate) fn control_group(&self) -> Option<ControlGroup> {
        self.observed.trial.group()
    }

    /// First measured flow that is not taken yet.
    pub(crate) fn take_measured(&mut self) -> Option<MeasuredFlow> {
        self.observed.trial.take()
    }

    /// Measured flows that had no room since this was asked last.
    pub(crate) fn take_lost_measured(&mut self) -> u64 {
        self.observed.trial.take_lost()
    }

    /// True when a flow that begins is passed for a trial.
    pub(super) fn is_control(&self, key: &FlowKey) -> bool {
        self.observed.trial.group().is_some_and(|group| {
            group.contains(subscriber_of(key, self.direction, self.config.ipv6_prefix_len))
        })
    }

    /// A flow begins, accelerated or passed; `rtt` is its handshake's to its sink.
    pub(super) fn open_measured(&mut self, id: u32, rtt: Option<Duration>) {
        self.observed.trial.open(id, rtt);
    }

    /// A flow has left its place.
    pub(super) fn close_measured(&mut self, id: u32, flow: &Flow) {
        close(&mut self.observed.trial, id, flow, (self.direction, self.config.ipv6_prefix_len));
    }

    /// Present counters, if anything is measured.
    #[inline]
    pub(super) fn stand(&self) -> Option<Stand> {
        self.observed.trial.group().map(|_| {
            let round_trip = &self.meters.round_trip;
            Stand {
                delivered: self.stats.bytes_delivered,
                rtt_us: round_trip.sum_us(),
                rtts: round_trip.counts().iter().sum(),
            }
        })
    }

    /// A flow was shown a segment, with data of its source if `has_data`: what has changed since is its.
    pub(super) fn measure(&mut self, id: u32, before: Stand, has_data: bool, now: Instant) {
        let (Some(after), Some(flow)) = (self.stand(), self.flows.get(id)) else { return };
        let (is_watched, subscriber) = (flow.phase.watched().is_some(), flow.subscriber);
        let seen = match &flow.phase {
            Phase::Watched(watched) => watched.seen(),
            phase => {
                let Some(relay) = phase.relay() else { return };
                let rtt = (after.rtt_us - before.rtt_us).checked_div(after.rtts - before.rtts);
                Seen {
                    delivered: after.delivered - before.delivered,
                    rtt: rtt.map(Duration::from_micros),
                    owes: relay.owes(),
                }
            }
        };
        let least = self.observed.trial.note(id, seen, has_data, now);
        // What is shown of a subscriber whose flows were accelerated before would be that of then.
        if let (true, Some(rtt), Some(least)) = (is_watched, seen.rtt, least)
            && let Some(path) = self.path_of_mut(subscriber)
        {
            path.sight.on_round_trip(rtt, least);
        }
    }
}

fn subscriber_of(key: &FlowKey, direction: Direction, ipv6_prefix_len: u8) -> IpAddr {
    subscriber_key(key.client_and_server(direction).0.ip(), ipv6_prefix_len)
}

fn close(trial: &mut crate::trial::Trial, id: u32, flow: &Flow, (direction, prefix_len): (Direction, u8)) {
    let watched = flow.phase.watched();
    let resent = watched
        .map(|watched| watched.resent_bytes())
        .or_else(|| flow.phase.relay().map(Relay::retransmitted_bytes));
    let subscriber = subscriber_of(&flow.key, direction, prefix_len);
    trial.close(id, (subscriber, direction), watched.is_some(), resent.unwrap_or(0));
}
