//! [`Ahead`]: places of things that will be needed soon, so that their memory can be asked for in time.

use super::slab::Advice;
use crate::direction::End;

/// Packets looked at together at most.
pub(crate) const AHEAD_MAX: usize = 32;

/// Timers looked at together.
pub(crate) const TIMERS_AHEAD: usize = 16;

/// No place.
const NONE: u32 = u32::MAX;

/// Places of what packets are about to need, one after the other.
#[derive(Debug)]
pub(crate) struct Ahead {
    /// Places that the packets most likely need, and where those come from.
    places: [(u32, End); AHEAD_MAX],
    len: usize,
    /// The next one to be handled.
    next: usize,
    /// Deadlines to come whose things were asked for.
    timers: usize,
    prefetch: Option<Advice>,
}

impl Ahead {
    pub(crate) const fn new() -> Self {
        Self { places: [(NONE, End::Source); AHEAD_MAX], len: 0, next: 0, timers: 0, prefetch: None }
    }

    /// Asks for memory by `prefetch` from here on.
    pub(crate) fn set_prefetch(&mut self, prefetch: Advice) {
        self.prefetch = Some(prefetch);
    }

    /// Function by which memory is asked for, if anybody does.
    pub(crate) const fn prefetch(&self) -> Option<Advice> {
        self.prefetch
    }

    /// Forgets what was to come.
    pub(crate) fn clear(&mut self) {
        (self.len, self.next) = (0, 0);
    }

    /// `places` are needed one after the other, where they are known, by packets of those ends.
    pub(crate) fn expect(&mut self, places: impl Iterator<Item = (Option<u32>, End)>) {
        self.clear();
        for (slot, (place, from)) in self.places.iter_mut().zip(places) {
            *slot = (place.unwrap_or(NONE), from);
            self.len += 1;
        }
    }

    /// The next one is about to be handled: its number, and how to ask for memory.
    #[inline]
    pub(crate) fn step(&mut self) -> Option<(usize, Advice)> {
        let next = self.next;
        let prefetch = self.prefetch.filter(|_| next < self.len)?;
        self.next += 1;
        Some((next, prefetch))
    }

    /// A deadline has come up: true, now and then, when those to come should be asked for.
    pub(crate) fn step_timer(&mut self) -> bool {
        let is_due = self.timers == 0;
        if is_due {
            self.timers = TIMERS_AHEAD / 2;
        }
        self.timers -= 1;
        is_due
    }

    /// The place that the `index`th needs, which need not exist, and the end that this packet comes from.
    pub(crate) fn place(&self, index: usize) -> Option<(u32, End)> {
        self.places[..self.len].get(index).copied()
    }
}
