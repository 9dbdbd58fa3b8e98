//! [`Queues`]: what waits for one subscriber: a queue for each flow, in turns.
//!
//! Deficit round robin with new flows first, as in FQ-CoDel (RFC 8290). A queue that is longer than
//! [`CoDel`](super::codel) allows is marked where its hosts can take a mark, or dropped from.

use std::collections::VecDeque;

use units::{Duration, Instant};
use wire::VirtioNetHeader;

use super::codel::{CoDel, LEAST, LONGEST, QueueVerdict};
use super::key::OpaqueKey;
use super::under_way::Numbered;

/// Bytes of a turn.
const QUANTUM: i64 = 1_514;

/// Flows with packets; beyond it flows share a queue.
const FLOWS_MAX: usize = 256;

/// Bytes that wait at most; beyond it the longest queue is dropped from.
const BYTES_MAX: u64 = 2 << 20;

/// ECN field: capable, scalable (RFC 9331 §2); capable, classic; and congestion experienced (RFC 3168 §5).
const ECT_1: u8 = 1;
const ECT_0: u8 = 2;
const CE: u8 = 3;

/// Wait after which a packet of a scalable sender is marked (RFC 9332 §1.3, §4.1).
///
/// RFC 9332's 1 ms is for a link that is served all the time. A radio is served in turns: a cell's bearer every 10 to
/// 40 ms, and we hear of it as often as something is acknowledged, up to 25 ms later (`under_way`). A shorter wait than
/// that is no queue, and marking it would leave the link idle. CoDel's 250 ms are what a classic sender needs to follow
/// the link; a scalable one follows it by its marks, each round trip.
const STEP_OF_SCALABLE: Duration = Duration::from_millis(40);

/// A packet that waits, and what it counts as.
#[derive(Clone, Debug, stored::Stored)]
pub(crate) struct Waiting {
    pub(crate) bytes: Vec<u8>,
    pub(crate) virtio: VirtioNetHeader,
    /// Payload bytes that it counts as, and packets on the wire.
    pub(crate) payload: u32,
    pub(crate) segments: u32,
    pub(crate) numbered: Option<Numbered>,
    pub(crate) came_at: Instant,
    /// The time of service when it came.
    clock: Instant,
}

/// One flow's queue.
#[derive(Clone, Debug, stored::Stored)]
struct Queue {
    key: OpaqueKey,
    packets: VecDeque<Waiting>,
    bytes: u64,
    deficit: i64,
    codel: CoDel,
}

/// Counts of packets that did not leave as they came.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, stored::Stored)]
pub(crate) struct Losses {
    pub(crate) dropped: u64,
    pub(crate) marked: u64,
}

/// The queues of one subscriber.
#[derive(Clone, Debug, Default, stored::Stored)]
pub(crate) struct Queues {
    /// Queues by number, as the lists have them; a free place has no packets and is in no list.
    flows: Vec<Queue>,
    free: Vec<usize>,
    new: VecDeque<usize>,
    old: VecDeque<usize>,
    bytes: u64,
    /// Time in which the subscriber was served.
    clock: Instant,
    served_at: Instant,
    losses: Losses,
}

/// Time for which service goes on after evidence of it.
const STEP: Duration = Duration::from_millis(30);

impl Queues {
    /// Nothing waits.
    pub(crate) fn is_empty(&self) -> bool {
        self.bytes == 0
    }

    /// Bytes that wait.
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Flows with packets.
    pub(crate) fn flows(&self) -> usize {
        self.new.len() + self.old.len()
    }

    /// A flow that has just begun to send has its turn.
    pub(crate) fn is_new_first(&self) -> bool {
        self.new.front().is_some_and(|&at| self.flows[at].deficit > 0)
    }

    /// Arrival time of the packet that has waited longest.
    pub(crate) fn oldest(&self) -> Option<Instant> {
        let fronts = self.new.iter().chain(&self.old).filter_map(|&at| self.flows[at].packets.front());
        fronts.map(|packet| packet.came_at).min()
    }

    /// Something has left the radio queue: time of service goes on.
    pub(crate) fn on_served(&mut self, now: Instant) {
        self.clock += now.saturating_since(self.served_at).min(STEP);
        self.served_at = now;
    }

    /// A packet of flow `key` waits; `limit` bytes may, and never more than [`BYTES_MAX`].
    pub(crate) fn push(&mut self, key: OpaqueKey, mut packet: Waiting, limit: u64) {
        packet.clock = self.clock;
        let at = self.queue_of(&key).unwrap_or_else(|| self.open(key));
        let queue = &mut self.flows[at];
        queue.bytes += packet.bytes.len() as u64;
        self.bytes += packet.bytes.len() as u64;
        queue.packets.push_back(packet);
        while self.bytes > limit.min(BYTES_MAX) {
            self.drop_of_longest();
        }
    }

    /// True when something of flow `key` may wait: what comes now is behind that.
    pub(crate) fn holds(&self, key: &OpaqueKey) -> bool {
        !self.is_empty() && self.queue_of(key).is_some_and(|at| !self.flows[at].packets.is_empty())
    }

    /// The queue of a flow; where there are as many as there may be, all are in a list, and it shares one.
    fn queue_of(&self, key: &OpaqueKey) -> Option<usize> {
        let is_full = self.flows() >= FLOWS_MAX;
        self.find(key).or_else(|| is_full.then(|| key.place(FLOWS_MAX)))
    }

    /// The queue of a flow of its own: what its hosts send each other keeps its order also where some of it is fragments.
    fn find(&self, key: &OpaqueKey) -> Option<usize> {
        let mut listed = self.new.iter().chain(&self.old).copied();
        let position = |at: &usize| self.flows[*at].key == *key;
        listed.clone().find(position).or_else(|| {
            listed.find(|&at| {
                let other = &self.flows[at].key;
                (key.is_fragment() || other.is_fragment()) && key.has_hosts_of(other)
            })
        })
    }

    fn open(&mut self, key: OpaqueKey) -> usize {
        let queue =
            Queue { key, packets: VecDeque::new(), bytes: 0, deficit: QUANTUM, codel: CoDel::default() };
        let at = match self.free.pop() {
            Some(at) => {
                self.flows[at] = queue;
                at
            }
            None => {
                self.flows.push(queue);
                self.flows.len() - 1
            }
        };
        self.new.push_back(at);
        at
    }

    fn drop_of_longest(&mut self) {
        let listed = self.new.iter().chain(&self.old).copied();
        if let Some(at) = listed.max_by_key(|&at| self.flows[at].bytes)
            && self.take(at).is_some()
        {
            self.losses.dropped += 1;
        }
    }

    fn take(&mut self, at: usize) -> Option<Waiting> {
        let packet = self.flows[at].packets.pop_front()?;
        self.flows[at].bytes -= packet.bytes.len() as u64;
        self.bytes -= packet.bytes.len() as u64;
        Some(packet)
    }

    /// The packet whose turn it is leaves.
    pub(crate) fn pop(&mut self) -> Option<Waiting> {
        loop {
            let is_new = !self.new.is_empty();
            let list = if is_new { &mut self.new } else { &mut self.old };
            let at = *list.front()?;
            if self.flows[at].deficit <= 0 {
                list.pop_front();
                self.flows[at].deficit += QUANTUM;
                self.old.push_back(at);
                continue;
            }
            match self.pop_of(at) {
                Some(packet) => {
                    self.flows[at].deficit -= packet.bytes.len() as i64;
                    return Some(packet);
                }
                None => {
                    list_of(is_new, &mut self.new, &mut self.old).pop_front();
                    if is_new && !self.old.is_empty() {
                        // Once around with the others, or it could come back as a new one at once (RFC 8290 §4.2).
                        self.old.push_back(at);
                    } else {
                        self.free.push(at);
                    }
                }
            }
        }
    }

    /// The next packet of one flow that the queue's management leaves.
    fn pop_of(&mut self, at: usize) -> Option<Waiting> {
        loop {
            let left = self.flows[at].bytes;
            let clock = self.clock;
            let mut packet = self.take(at)?;
            let sojourn = clock.saturating_since(packet.clock);
            let is_scalable = ecn_of(&packet.bytes) & ECT_1 == ECT_1;
            let fate = if is_scalable {
                step(sojourn, left)
            } else {
                self.flows[at].codel.judge(sojourn, left, clock)
            };
            match fate {
                QueueVerdict::Leaves => return Some(packet),
                QueueVerdict::Signals if is_scalable => {
                    self.losses.marked += u64::from(set_ce(&mut packet.bytes));
                    return Some(packet);
                }
                QueueVerdict::Signals if mark(&mut packet.bytes) => {
                    self.losses.marked += 1;
                    return Some(packet);
                }
                QueueVerdict::Signals | QueueVerdict::Drops => self.losses.dropped += 1,
            }
        }
    }

    /// Packets dropped and marked since the last call.
    pub(crate) fn take_losses(&mut self) -> Losses {
        std::mem::take(&mut self.losses)
    }
}

/// Verdict on a scalable sender's packet. It hears of each packet that waits too long, not of one of many: its
/// marks are as frequent as that (RFC 9331 §5.1), and only its own queue is judged by them.
fn step(sojourn: Duration, left: u64) -> QueueVerdict {
    match left > LEAST {
        true if sojourn > LONGEST => QueueVerdict::Drops,
        true if sojourn >= STEP_OF_SCALABLE => QueueVerdict::Signals,
        _ => QueueVerdict::Leaves,
    }
}

/// The ECN field of a packet.
fn ecn_of(packet: &[u8]) -> u8 {
    match (packet.first().map(|byte| byte >> 4), packet.get(1)) {
        (Some(4), Some(class)) => class & CE,
        (Some(6), Some(class)) => class >> 4 & CE,
        _ => 0,
    }
}

/// Says by a mark that there is congestion; false where the hosts know no marks.
fn mark(packet: &mut [u8]) -> bool {
    ecn_of(packet) == ECT_0 && set_ce(packet)
}

/// Marks a packet whose hosts know marks; false where it is marked.
fn set_ce(packet: &mut [u8]) -> bool {
    let class = wire::parse_prefix(packet).map(|parsed| parsed.ip.traffic_class);
    class.is_ok_and(|class| class & CE != CE && wire::set_traffic_class(packet, class | CE))
}

fn list_of<'a>(
    is_new: bool,
    new: &'a mut VecDeque<usize>,
    old: &'a mut VecDeque<usize>,
) -> &'a mut VecDeque<usize> {
    if is_new { new } else { old }
}

impl Waiting {
    /// A packet that comes now.
    pub(crate) fn new(packet: &[u8], virtio: VirtioNetHeader, payload: (u32, u32), now: Instant) -> Self {
        let (payload, segments) = payload;
        let bytes = packet.to_vec();
        Self { bytes, virtio, payload, segments, numbered: None, came_at: now, clock: Instant::ZERO }
    }
}
