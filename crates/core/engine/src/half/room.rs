//! Room in the table: for a handshake that begins, the oldest one goes; for a flow whose handshake is
//! complete, the longest unused flow that owes nothing (H20).

use std::net::IpAddr;

use units::{Duration, Instant};

use super::Half;
use crate::flow::Flow;
use crate::pass::PassReason;

/// Part of all handshakes, as a divisor, that one subscriber may have.
const SUBSCRIBER_SHARE: usize = 4;

/// Silence behind which a flow that owes nothing may make room: what its sender had under way it would have
/// sent again (RFC 6298 §2).
const UNUSED_MIN: Duration = Duration::from_secs(3);

/// Places of the table that are looked at for unused flows, and flows of those that are noted. So each flow
/// that makes room costs the looks at 64 others.
const LOOKS: usize = 4_096;
const NOTED: usize = 64;

/// The longest unused flows of a part of the table.
#[derive(Clone, Debug, Default)]
pub(super) struct Unused {
    /// Place, and when the last packet came: the longest unused last.
    flows: Vec<(u32, Instant)>,
    /// Place at which the next look begins.
    next: u32,
    /// Time at which a look found none: another one within the same second would not, either.
    none_at: Option<Instant>,
}

impl Half {
    /// Makes room for one more handshake of a subscriber.
    pub(super) fn make_room_for_handshake(&mut self, subscriber: IpAddr) {
        let max = self.config.half_open_max.max(1);
        let share = max.div_ceil(SUBSCRIBER_SHARE);
        let (of_subscriber, its_oldest) = self.half_open.of_subscriber(subscriber);
        if let Some(oldest) = its_oldest.filter(|_| of_subscriber as usize >= share) {
            self.end_handshake(oldest, Some(PassReason::HalfOpenFull));
        }
        while self.half_open.len() >= max
            && let Some(oldest) = self.half_open.oldest()
        {
            self.end_handshake(oldest, Some(PassReason::HalfOpenFull));
        }
    }

    /// Makes room for one more flow; why there is none, if it cannot.
    pub(super) fn make_room_for_flow(&mut self, now: Instant) -> Option<PassReason> {
        // One for one: a limit that was lowered ends no flow.
        if self.flows.len() >= self.config.flows_max {
            let Some(unused) = self.longest_unused(now) else { return Some(PassReason::TableFull) };
            self.leave(unused, Some(PassReason::TableFull));
        }
        None
    }

    fn longest_unused(&mut self, now: Instant) -> Option<u32> {
        if let Some(found) = self.take_unused(now) {
            return Some(found);
        }
        if self.unused.none_at.is_some_and(|at| now.saturating_since(at) < Duration::from_secs(1)) {
            return None;
        }
        let places = self.flows.places() as usize;
        let looks = places.div_ceil(LOOKS);
        let found = (0..looks).find_map(|_| {
            self.look_for_unused(now);
            self.take_unused(now)
        });
        self.unused.none_at = found.is_none().then_some(now);
        found
    }

    /// The longest unused one of those noted, that is unused still.
    fn take_unused(&mut self, now: Instant) -> Option<u32> {
        while let Some((id, since)) = self.unused.flows.pop() {
            if self.flows.get(id).is_some_and(|flow| flow.last_activity == since && is_unused(flow, now)) {
                return Some(id);
            }
        }
        None
    }

    fn look_for_unused(&mut self, now: Instant) {
        let places = self.flows.places();
        let from = if self.unused.next < places { self.unused.next } else { 0 };
        let to = places.min(from + LOOKS as u32);
        let unused = (from..to).filter_map(|id| {
            let flow = self.flows.get(id).filter(|flow| is_unused(flow, now))?;
            Some((id, flow.last_activity))
        });
        let mut unused: Vec<(u32, Instant)> = unused.collect();
        unused.sort_unstable_by_key(|&(id, since)| (core::cmp::Reverse(since), id));
        self.unused.flows = unused.split_off(unused.len().saturating_sub(NOTED));
        self.unused.next = to;
    }
}

/// True for a flow that has been silent for long enough, and that may be left to its hosts as it is.
fn is_unused(flow: &Flow, now: Instant) -> bool {
    now.saturating_since(flow.last_activity) >= UNUSED_MIN
        && flow.phase.relay().is_none_or(|relay| relay.is_at_rest())
}
