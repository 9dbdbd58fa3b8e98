//! [`Notice`]: what happens to flows and subscribers, for those outside who want to hear of it.
//!
//! Nothing is noted until somebody wants to ([`Wants`]). What is noted waits in a queue of bounded length, and what
//! has no room there is counted. Notices are not part of a stored engine.

use std::collections::{BTreeMap, VecDeque};
use std::net::{IpAddr, SocketAddr};

use units::{Duration, Instant};

use crate::direction::Direction;
use crate::pass::PassReason;

/// Notices that wait to be taken.
const NOTICES_MAX: usize = 4_096;

/// Notices that somebody wants.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Wants {
    /// Flows that are accelerated or passed, time-outs taken back, outages of subscribers.
    pub events: bool,
    /// Records of flows that have ended.
    pub ended: bool,
}

impl Wants {
    /// True when anything is wanted.
    #[must_use]
    pub const fn any(self) -> bool {
        self.events || self.ended
    }
}

/// A flow, as those outside know it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct FlowName {
    /// The client's address and port.
    pub client: SocketAddr,
    /// The server's.
    pub server: SocketAddr,
    /// Direction that is accelerated.
    pub direction: Direction,
}

/// Notice of what has happened.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Notice {
    /// A flow is accelerated, or its window lowered (`drwa`), from here on.
    Accelerated(FlowName),
    /// A flow is not, for a reason.
    Passed(FlowName, PassReason),
    /// A retransmission time-out was found needless and taken back.
    TimeoutUndone(FlowName),
    /// A subscriber has acknowledged nothing over two time-outs.
    OutageBegan {
        /// Its address, or the first one of its prefix.
        subscriber: IpAddr,
        /// Time of the first time-out.
        since: Instant,
    },
    /// It acknowledges again.
    OutageEnded {
        /// Its address, or the first one of its prefix.
        subscriber: IpAddr,
        /// Time since the first time-out.
        lasted: Duration,
    },
    /// A flow that was accelerated, or whose window was lowered, is not in the table any more.
    Ended(EndedFlow),
}

/// Traffic from one of a flow's hosts.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Traffic {
    /// Packets; a super-packet is one.
    pub packets: u64,
    /// Bytes of those, IP headers included.
    pub bytes: u64,
}

/// A flow that has ended, in one direction. What was counted before somebody wanted it, or in another process, is
/// missing.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct EndedFlow {
    /// Name of the flow.
    pub flow: FlowName,
    /// The other direction was accelerated, too, and has a record of its own with the same packets.
    pub is_both: bool,
    /// Reason for its end; none when its ports were opened anew.
    pub reason: Option<PassReason>,
    /// Time of its first packet; none when that was before records were wanted.
    pub began: Option<Instant>,
    /// Arrival time of its last packet.
    pub ended: Instant,
    /// Traffic from the client, and from the server.
    pub sides: [Traffic; 2],
    /// Payload taken from the sending host, bytes.
    pub taken_bytes: u64,
    /// Payload acknowledged by the receiving host, bytes.
    pub delivered_bytes: u64,
    /// Payload sent to it more than once, bytes.
    pub retransmitted_bytes: u64,
    /// Retransmission time-outs.
    pub timeouts: u64,
    /// Smallest round trip to the receiving host.
    pub rtt_min: Option<Duration>,
    /// Smoothed round trip to it, last.
    pub srtt: Option<Duration>,
}

/// Counts kept of a flow for its record.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Account {
    pub(crate) began: Option<Instant>,
    /// Traffic from the source, and from the sink.
    pub(crate) sides: [Traffic; 2],
    pub(crate) taken_bytes: u64,
    pub(crate) delivered_bytes: u64,
    pub(crate) timeouts: u64,
}

/// A subscriber that acknowledges nothing.
#[derive(Clone, Copy, Debug)]
struct Silence {
    since: Instant,
    is_told: bool,
}

/// Notices that are wanted and not taken yet.
#[derive(Debug, Default)]
pub(crate) struct Notices {
    wants: Wants,
    queue: VecDeque<Notice>,
    lost: u64,
    /// Accounts by the places of flows.
    accounts: Vec<Account>,
    /// Silences by the places of subscribers.
    silent: BTreeMap<u32, Silence>,
}

impl Notices {
    pub(crate) const fn wants(&self) -> Wants {
        self.wants
    }

    /// Notes this from here on, and nothing else.
    pub(crate) fn set_wants(&mut self, wants: Wants) {
        self.wants = wants;
        if !wants.ended {
            self.accounts = Vec::new();
        }
        if !wants.events {
            self.silent.clear();
        }
        if !wants.any() {
            self.queue = VecDeque::new();
        }
    }

    pub(crate) fn push(&mut self, notice: Notice) {
        let is_wanted = match notice {
            Notice::Ended(_) => self.wants.ended,
            _ => self.wants.events,
        };
        if !is_wanted {
            return;
        }
        if self.queue.len() < NOTICES_MAX {
            self.queue.push_back(notice);
        } else {
            self.lost += 1;
        }
    }

    pub(crate) fn take(&mut self) -> Option<Notice> {
        self.queue.pop_front()
    }

    /// Number of notices that had no room since the last call.
    pub(crate) fn take_lost(&mut self) -> u64 {
        std::mem::take(&mut self.lost)
    }

    /// The account of the flow at a place, where records are wanted.
    pub(crate) fn account(&mut self, place: u32) -> Option<&mut Account> {
        if !self.wants.ended {
            return None;
        }
        let place = place as usize;
        if place >= self.accounts.len() {
            self.accounts.resize(place + 1, Account::default());
        }
        self.accounts.get_mut(place)
    }

    /// The same once the flow has left, for the next one there.
    pub(crate) fn close_account(&mut self, place: u32) -> Account {
        self.account(place).map(std::mem::take).unwrap_or_default()
    }

    /// A time-out towards the subscriber at `place`.
    pub(crate) fn on_timeout(&mut self, place: u32, subscriber: IpAddr, now: Instant) {
        if !self.wants.events {
            return;
        }
        match self.silent.get_mut(&place) {
            None => {
                self.silent.insert(place, Silence { since: now, is_told: false });
            }
            // Others of its flows time out in the same moment.
            Some(silence) if !silence.is_told && silence.since < now => {
                silence.is_told = true;
                let since = silence.since;
                self.push(Notice::OutageBegan { subscriber, since });
            }
            Some(_) => {}
        }
    }

    /// The subscriber at `place` acknowledges something.
    pub(crate) fn on_delivery(&mut self, place: u32, subscriber: IpAddr, now: Instant) {
        if self.silent.is_empty() {
            return;
        }
        if let Some(silence) = self.silent.remove(&place).filter(|silence| silence.is_told) {
            let lasted = now.saturating_since(silence.since);
            self.push(Notice::OutageEnded { subscriber, lasted });
        }
    }

    /// The subscriber at `place` is forgotten.
    pub(crate) fn forget_subscriber(&mut self, place: u32) {
        self.silent.remove(&place);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const EVENTS: Wants = Wants { events: true, ended: false };

    fn subscriber() -> IpAddr {
        "10.0.0.7".parse().unwrap()
    }

    #[test]
    fn an_outage_is_two_time_outs_without_a_word() {
        let mut notices = Notices::default();
        notices.set_wants(EVENTS);
        let at = Instant::from_millis;
        notices.on_timeout(3, subscriber(), at(1_000));
        notices.on_timeout(3, subscriber(), at(1_000));
        notices.on_delivery(3, subscriber(), at(1_100));
        assert_eq!(notices.take(), None, "one alone is none");
        notices.on_timeout(3, subscriber(), at(2_000));
        notices.on_timeout(3, subscriber(), at(2_400));
        notices.on_timeout(3, subscriber(), at(3_200));
        let began = Notice::OutageBegan { subscriber: subscriber(), since: at(2_000) };
        assert_eq!((notices.take(), notices.take()), (Some(began), None));
        notices.on_delivery(4, subscriber(), at(3_300));
        notices.on_delivery(3, subscriber(), at(3_500));
        notices.on_delivery(3, subscriber(), at(3_600));
        let ended = Notice::OutageEnded { subscriber: subscriber(), lasted: Duration::from_millis(1_500) };
        assert_eq!((notices.take(), notices.take()), (Some(ended), None));
    }

    #[test]
    fn what_nobody_wants_or_has_no_room_does_not_wait() {
        let mut notices = Notices::default();
        let notice = Notice::OutageBegan { subscriber: subscriber(), since: Instant::ZERO };
        notices.push(notice);
        assert_eq!(notices.take(), None);
        notices.set_wants(EVENTS);
        (0..NOTICES_MAX + 5).for_each(|_| notices.push(notice));
        assert_eq!((notices.queue.len(), notices.take_lost(), notices.take_lost()), (NOTICES_MAX, 5, 0));
        assert!(notices.account(7).is_none(), "records were not asked for");
        notices.set_wants(Wants::default());
        assert_eq!(notices.take(), None);
        notices.set_wants(Wants { events: false, ended: true });
        notices.account(7).unwrap().timeouts = 3;
        assert_eq!((notices.close_account(7).timeouts, notices.close_account(7).timeouts), (3, 0));
    }
}
