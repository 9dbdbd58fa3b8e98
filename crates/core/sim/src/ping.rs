//! [`Pinger`]: echo requests alongside the flows.

use core::net::IpAddr;
use std::collections::VecDeque;

use units::{Duration, Instant};

use crate::icmp::echo;

/// Requests whose reply is still waited for, at most.
const WAITING_MAX: usize = 10_000;

/// Sends echo requests and times their replies.
#[derive(Debug)]
pub(crate) struct Pinger {
    from: IpAddr,
    to: IpAddr,
    every: Duration,
    next: Instant,
    number: u16,
    waiting: VecDeque<(u16, Instant)>,
    round_trips: Vec<(Instant, Duration)>,
}

impl Pinger {
    pub(crate) fn new(from: IpAddr, to: IpAddr, every: Duration, start: Instant) -> Self {
        let every = every.max(Duration::from_millis(1));
        Self { from, to, every, next: start, number: 0, waiting: VecDeque::new(), round_trips: Vec::new() }
    }

    pub(crate) fn next_deadline(&self) -> Instant {
        self.next
    }

    /// The next request, noted as sent.
    pub(crate) fn send(&mut self, now: Instant) -> Option<Vec<u8>> {
        self.next = now + self.every;
        self.number = self.number.wrapping_add(1);
        self.waiting.push_back((self.number, now));
        if self.waiting.len() > WAITING_MAX {
            self.waiting.pop_front();
        }
        echo(self.from, self.to, false, self.number)
    }

    /// Takes the reply to a request; a second one counts for nothing.
    pub(crate) fn take_reply(&mut self, number: u16, now: Instant) {
        if let Some(at) = self.waiting.iter().position(|(sent, _)| *sent == number)
            && let Some((_, sent)) = self.waiting.remove(at)
        {
            self.round_trips.push((sent, now.saturating_since(sent)));
        }
    }

    /// Times at which requests were sent, and how long their replies took, in the order of the replies.
    pub(crate) fn round_trips(&self) -> &[(Instant, Duration)] {
        &self.round_trips
    }
}
