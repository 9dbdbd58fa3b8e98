//! [`Past`]: what a box remembers of hand-overs that are over.

use std::net::IpAddr;

use units::Instant;

use crate::allowance::weight_of;
use crate::{Flows, Gone, Handover, Name, Note, Peer, Refusal};

/// A hand-over that a box remembers although it is over.
#[derive(Clone, Debug)]
pub(crate) struct Past {
    pub name: Name,
    /// Reason why it was not taken here, if it was not; it never will be by this name.
    pub refused: Option<Refusal>,
    /// Place that the subscriber went to from here, if it did, or stayed.
    pub gone: Option<Gone>,
    /// Flows that are here, and the box that may send packets of them on.
    pub shared: Option<Gone>,
    /// The box that began it, and what it counts for there; none where this one did.
    pub charged: Option<(Peer, u64)>,
    pub forgotten_at: Instant,
}

impl Past {
    pub fn new(name: Name, forgotten_at: Instant) -> Self {
        Self { name, refused: None, gone: None, shared: None, charged: None, forgotten_at }
    }

    /// Notes that it was begun by another box, which named `flows` flows.
    pub fn begun_by(self, peer: Peer, flows: usize) -> Self {
        Self { charged: Some((peer, weight_of(flows))), ..self }
    }

    /// Note that is written down of it.
    pub fn note(&self) -> Note {
        Note::Over {
            name: self.name,
            refused: self.refused,
            gone: self.gone.clone(),
            until: self.forgotten_at,
            shared: self.shared.clone(),
        }
    }

    /// True when a box may send packets on of flows that are here.
    pub fn is_shared_with(&self, peer: Peer) -> bool {
        self.shared.as_ref().is_some_and(|shared| shared.to == peer)
    }
}

impl Handover {
    /// Past of a hand-over that is decided as of now.
    pub(crate) fn past_of(&self, name: Name, now: Instant) -> Past {
        Past::new(name, now + self.config.linger)
    }

    /// Remembers a hand-over that is over, in place of an earlier one of the same subscriber.
    pub(crate) fn remember(&mut self, past: Past) {
        if let Some((peer, weight)) = past.charged {
            self.allowances.entry(peer).or_default().remembered += weight;
        }
        let before = self.past.insert(past.name.subscriber, past);
        self.discharge(before);
    }

    /// The same; gives what is to be written down of it.
    pub(crate) fn over(&mut self, past: Past) -> Note {
        let note = past.note();
        self.remember(past);
        note
    }

    fn discharge(&mut self, past: Option<Past>) {
        let Some((peer, weight)) = past.and_then(|past| past.charged) else { return };
        if let Some(allowance) = self.allowances.get_mut(&peer) {
            allowance.remembered = allowance.remembered.saturating_sub(weight);
        }
    }

    /// Place that a subscriber went to from here, if it did.
    pub(crate) fn gone(&self, subscriber: IpAddr) -> Option<Gone> {
        self.past.get(&subscriber).and_then(|past| past.gone.clone())
    }

    /// Forgets those whose time has come.
    pub(crate) fn forget_past(&mut self, flows: &mut impl Flows, now: Instant) {
        let is_due = |past: &Past| past.forgotten_at <= now;
        let due: Vec<IpAddr> =
            self.past.iter().filter(|(_, past)| is_due(past)).map(|(&who, _)| who).collect();
        for subscriber in due {
            let before = self.past.remove(&subscriber);
            self.discharge(before);
            // Of a newer one more is known and written down, which is forgotten with it.
            let is_newer = self.going.contains_key(&subscriber) || self.coming.contains_key(&subscriber);
            if !is_newer {
                flows.forget(subscriber);
            }
        }
    }
}
