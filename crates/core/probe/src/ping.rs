//! [`Pings`]: small packets at an even pace beside a session, which its server sends back.
//!
//! They come from a port of their own, so they can be few hops long, and routers on the way answer
//! instead of the server.

use units::{Duration, Instant};

use crate::message::{Data, Message, SessionId};

/// Bytes that a router gives back of a ping at least, so that it is known again: up to its number.
const KNOWN_LEN: usize = 20;

/// A ping that was answered.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PingSample {
    /// Time at which it left.
    pub sent: Instant,
    /// Time until its answer came, less the time the server took.
    pub round_trip: Duration,
}

/// One row of pings.
#[derive(Clone, Debug)]
pub struct Pings {
    session: SessionId,
    flow: u32,
    every: Duration,
    next: Instant,
    /// Times at which they left, and whether each was answered.
    sent: Vec<(Instant, bool)>,
    samples: Vec<PingSample>,
}

impl Pings {
    /// Pings of a session, one per `every` from `begin` on. `flow` tells rows apart.
    #[must_use]
    pub fn new(session: SessionId, flow: u32, every: Duration, begin: Instant) -> Self {
        Self { session, flow, every, next: begin, sent: Vec::new(), samples: Vec::new() }
    }

    /// Time at which the next one leaves.
    #[must_use]
    pub fn next_deadline(&self) -> Instant {
        self.next
    }

    /// The ping that is due at `now`, written to `out`; false when none is.
    pub fn poll_transmit(&mut self, now: Instant, out: &mut Vec<u8>) -> bool {
        if now < self.next {
            return false;
        }
        // What a pause kept from leaving is not sent.
        self.next = (self.next + self.every).max(now);
        let number = u32::try_from(self.sent.len()).unwrap_or(u32::MAX);
        self.sent.push((now, false));
        Message::Ping(Data { session: self.session, run: self.flow, number, sent: now }).encode(None, out);
        true
    }

    /// A datagram of the server came at `at`; true when it answers a ping.
    pub fn handle_datagram(&mut self, bytes: &[u8], at: Instant) -> bool {
        let Ok(Message::Pong(pong)) = Message::decode(bytes, None) else { return false };
        let data = pong.data;
        let is_own = data.session == self.session && data.run == self.flow;
        let held = pong.echoed.saturating_since(pong.received);
        is_own && self.on_answer(data.number, at, held)
    }

    /// A router gave a ping back at `at`, as much of it as `bytes`. Of one that says too little it is the last.
    pub fn handle_returned(&mut self, bytes: &[u8], at: Instant) -> bool {
        let field =
            |from: usize| bytes.get(from..from + 4).and_then(|b| b.try_into().ok()).map(u32::from_be_bytes);
        let last = u32::try_from(self.sent.len()).unwrap_or(u32::MAX).saturating_sub(1);
        let number = if bytes.len() < KNOWN_LEN {
            Some(last)
        } else {
            field(16).filter(|_| field(12) == Some(self.flow))
        };
        number.is_some_and(|number| self.on_answer(number, at, Duration::ZERO))
    }

    fn on_answer(&mut self, number: u32, at: Instant, held: Duration) -> bool {
        let Some((sent, is_answered)) = self.sent.get_mut(number as usize) else { return false };
        if std::mem::replace(is_answered, true) {
            return false;
        }
        self.samples.push(PingSample { sent: *sent, round_trip: at.saturating_since(*sent) - held });
        true
    }

    /// Pings sent.
    #[must_use]
    pub fn sent(&self) -> usize {
        self.sent.len()
    }

    /// Pings sent from `begin` to `end`.
    #[must_use]
    pub fn sent_between(&self, begin: Instant, end: Instant) -> usize {
        self.sent.iter().filter(|(at, _)| begin <= *at && *at <= end).count()
    }

    /// Answers, in the order in which they came.
    #[must_use]
    pub fn samples(&self) -> &[PingSample] {
        &self.samples
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::message::Echo;

    fn ms(n: u64) -> Instant {
        Instant::from_millis(n)
    }

    fn sent(pings: &mut Pings, at: u64) -> Data {
        let mut out = Vec::new();
        assert!(pings.poll_transmit(ms(at), &mut out));
        let Ok(Message::Ping(data)) = Message::decode(&out, None) else { panic!("a ping") };
        data
    }

    #[test]
    fn answers_are_matched_once_and_without_the_servers_time() {
        let mut pings = Pings::new(7, 2, Duration::from_millis(100), ms(50));
        assert!(!pings.poll_transmit(ms(49), &mut Vec::new()));
        let first = sent(&mut pings, 50);
        assert_eq!(pings.next_deadline(), ms(150));
        let second = sent(&mut pings, 155);
        let pong = |data: Data| {
            let mut out = Vec::new();
            Message::Pong(Echo { data, received: ms(9_000), echoed: ms(9_003) }).encode(None, &mut out);
            out
        };
        assert!(pings.handle_datagram(&pong(second), ms(185)));
        assert!(!pings.handle_datagram(&pong(second), ms(186)), "once");
        assert!(!pings.handle_datagram(&pong(Data { run: 3, ..first }), ms(186)), "of another row");
        assert!(pings.handle_datagram(&pong(first), ms(190)), "late, and still its own");
        let trips: Vec<u64> = pings.samples().iter().map(|sample| sample.round_trip.as_millis()).collect();
        assert_eq!((trips, pings.sent_between(ms(0), ms(60))), (vec![27, 137], 1));
    }

    #[test]
    fn a_ping_that_a_router_gives_back_is_known_by_its_beginning_or_is_the_last() {
        let mut pings = Pings::new(7, 2, Duration::from_millis(100), ms(0));
        let mut whole = Vec::new();
        assert!(pings.poll_transmit(ms(0), &mut whole));
        let _ = sent(&mut pings, 100);
        assert!(pings.handle_returned(&whole[..24], ms(130)));
        assert!(pings.handle_returned(&[], ms(130)), "eight bytes of UDP header only");
        assert!(!pings.handle_returned(&[], ms(131)), "once");
        let trips: Vec<u64> = pings.samples().iter().map(|sample| sample.round_trip.as_millis()).collect();
        assert_eq!(trips, [130, 30]);
    }

    #[test]
    fn what_a_pause_kept_from_leaving_is_not_sent() {
        let mut pings = Pings::new(7, 2, Duration::from_millis(100), ms(0));
        let _ = sent(&mut pings, 1_000);
        assert_eq!(pings.next_deadline(), ms(1_000));
        let _ = sent(&mut pings, 1_000);
        assert_eq!(pings.next_deadline(), ms(1_100));
    }
}
