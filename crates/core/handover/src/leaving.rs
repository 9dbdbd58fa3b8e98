//! [`Leaving`]: a box that ends says whose packets it may still send on, and waits until nothing relies on it.
//!
//! ```text
//!   A, which ends                                          B, which has the flows
//!     Leaving ── subscribers whose flows are there ──────▶   flows whose packets come by way of A are handed back
//!             ◀────────────── Left ── of whom none is here ─  as soon as nothing is owed to them
//!     (packets of these go past A and B from here on)
//! ```
//!
//! Who has gone without a word, or is heard no more, has left, too ([`Handover::on_peer_lost`]).

use std::collections::BTreeSet;
use std::net::IpAddr;

use units::Instant;

use crate::trips::Again;
use crate::{Flows, Handover, Message, Peer};

/// Subscribers in one message at most.
const SUBSCRIBERS_MAX: usize = 4_096;

/// State of telling one box of this one's end.
#[derive(Debug)]
pub(crate) struct Leaving {
    /// Subscribers that may rely on this one.
    subscribers: BTreeSet<IpAddr>,
    again: Again,
    /// It is not waited for any longer, unless it answers.
    until: Instant,
}

impl Leaving {
    pub fn due(&self) -> Instant {
        self.again.at.min(self.until)
    }
}

impl Handover {
    /// Says to all boxes that have flows of which packets may come here, or keep them, that none is sent on any more.
    pub(crate) fn say_leaving(&mut self, now: Instant) {
        let gone = self.past.iter().filter_map(|(&who, past)| Some((who, past.gone.as_ref()?.to)));
        let gone: Vec<(IpAddr, Peer)> = gone.collect();
        gone.into_iter().for_each(|(subscriber, to)| self.leave(subscriber, to, now));
        let all: Vec<Peer> = self.leaving.keys().copied().collect();
        all.into_iter().for_each(|to| self.repeat_leaving(to));
    }

    /// Adds one whose flows another box has.
    pub(crate) fn leave(&mut self, subscriber: IpAddr, to: Peer, now: Instant) {
        let (again, until) = (self.again(to, now), now + self.config.asking_max);
        let begun = || Leaving { subscribers: BTreeSet::new(), again, until };
        self.leaving.entry(to).or_insert_with(begun).subscribers.insert(subscriber);
    }

    pub(crate) fn repeat_leaving(&mut self, to: Peer) {
        let Some(leaving) = self.leaving.get(&to) else { return };
        let all: Vec<IpAddr> = leaving.subscribers.iter().copied().collect();
        all.chunks(SUBSCRIBERS_MAX).for_each(|part| self.say(to, Message::Leaving(part.to_vec())));
    }

    pub(crate) fn on_leaving(
        &mut self,
        from: Peer,
        subscribers: &[IpAddr],
        flows: &mut impl Flows,
        now: Instant,
    ) {
        let shared = self.shared_with(from);
        let mut left = Vec::new();
        for &subscriber in subscribers.iter().take(SUBSCRIBERS_MAX) {
            // Of others nothing is here that could rely on it.
            if !shared.contains(&subscriber) || !flows.hand_back(subscriber, from, now) {
                left.push(subscriber);
            }
        }
        self.say(from, Message::Left(left));
    }

    pub(crate) fn on_left(&mut self, from: Peer, subscribers: &[IpAddr], now: Instant) {
        let until = now + self.config.asking_max;
        let Some(leaving) = self.leaving.get_mut(&from) else { return };
        subscribers.iter().for_each(|subscriber| _ = leaving.subscribers.remove(subscriber));
        leaving.until = until;
        if leaving.subscribers.is_empty() {
            self.leaving.remove(&from);
        }
    }

    pub(crate) fn on_leaving_due(&mut self, now: Instant) {
        // Who does not answer may have gone itself.
        self.leaving.retain(|_, leaving| leaving.until > now);
        let due = self.leaving.iter_mut().filter(|(_, leaving)| leaving.again.at <= now);
        let due: Vec<Peer> = due
            .map(|(&to, leaving)| {
                leaving.again.once_more(now);
                to
            })
            .collect();
        due.into_iter().for_each(|to| self.repeat_leaving(to));
    }

    /// Subscribers with flows here of which a box may send packets on.
    pub(crate) fn shared_with(&self, peer: Peer) -> BTreeSet<IpAddr> {
        let past = self.past.iter().filter(|(_, past)| past.is_shared_with(peer)).map(|(&who, _)| who);
        let coming = self.coming.iter().filter(|(_, one)| one.is_owned_from(peer)).map(|(&who, _)| who);
        let going = self.going.iter().filter(|(_, one)| one.is_offered_to(peer)).map(|(&who, _)| who);
        past.chain(coming).chain(going).collect()
    }
}
