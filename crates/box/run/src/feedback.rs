//! Reports of base stations: from a UDP socket to the processor. `docs/feedback.md`.
//!
//! ```text
//!   socket ──▶ decode ──▶ signed? ──▶ newer than the sender's last? ──▶ how old? ──▶ processor
//!              malformed   wrong key    old                             too old      unknown subscriber
//! ```

use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use control::{Feedback, WindowedMin};
use io::Clock;
use serde::{Deserialize, Serialize};
use units::{Duration, Instant};
use wire::{FeedbackDatagram, FeedbackError, FeedbackKey, HandoverOrder};

use crate::RunError;

/// Senders remembered at most; beyond it the one that was silent longest is forgotten.
const SENDERS_MAX: usize = 1_024;

/// Datagrams read in a row before packets get their turn.
const BATCH: usize = 64;

/// A report older than this, by clocks that agree, is no use, and may be a recording.
const AGE_MAX: Duration = Duration::from_secs(10);

/// Memory of the smallest difference between a sender's clock and ours.
const CLOCK_MEMORY: Duration = Duration::from_secs(30);

/// Settings for the reception of reports.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FeedbackConfig {
    /// Address and port to listen at.
    pub listen: SocketAddr,
    /// Key that reports must be signed with; without it anyone who reaches the port can slow subscribers down.
    pub key: Option<Vec<u8>>,
    /// Age of the fastest report of a sender whose clock does not agree with ours, µs.
    pub delay_us: u64,
}

/// Counts of the datagrams that came.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct FeedbackCounters {
    pub(crate) accepted: u64,
    pub(crate) malformed: u64,
    pub(crate) unknown_version: u64,
    pub(crate) wrong_key: u64,
    pub(crate) old: u64,
    pub(crate) too_late: u64,
    pub(crate) unknown_subscriber: u64,
    /// Orders to hand a subscriber over: those that were begun, and those that were refused.
    pub(crate) orders_begun: u64,
    pub(crate) orders_malformed: u64,
    pub(crate) orders_wrong_key: u64,
    pub(crate) orders_old: u64,
    pub(crate) orders_too_late: u64,
    pub(crate) orders_unknown_peer: u64,
}

impl FeedbackCounters {
    /// With reports about subscribers of other shards, which count them themselves.
    pub(crate) fn with_those_of_shards(mut self, accepted: u64, unknown: u64) -> Self {
        self.accepted += accepted;
        self.unknown_subscriber += unknown;
        self
    }

    /// Each by the name `cellerator status` shows.
    pub(crate) fn named(&self) -> [(&'static str, u64); 13] {
        [
            ("feedback_accepted", self.accepted),
            ("feedback_malformed", self.malformed),
            ("feedback_unknown_version", self.unknown_version),
            ("feedback_wrong_key", self.wrong_key),
            ("feedback_old_sequence", self.old),
            ("feedback_too_late", self.too_late),
            ("feedback_unknown_subscriber", self.unknown_subscriber),
            ("handover_orders_begun", self.orders_begun),
            ("handover_orders_malformed", self.orders_malformed),
            ("handover_orders_wrong_key", self.orders_wrong_key),
            ("handover_orders_old_sequence", self.orders_old),
            ("handover_orders_too_late", self.orders_too_late),
            ("handover_orders_unknown_peer", self.orders_unknown_peer),
        ]
    }
}

/// State of a sender.
#[derive(Debug)]
struct Sender {
    sequence: u64,
    heard: Instant,
    /// Arrival by our clock less the time stamped, µs: the difference of the clocks and the smallest delay.
    offset_us: WindowedMin<i64>,
}

/// Judges datagrams; without a socket and without a clock.
#[derive(Debug)]
struct Inbox {
    key: Option<FeedbackKey>,
    delay: Duration,
    senders: BTreeMap<u32, Sender>,
    /// The last order of each sender: its number, and when it came.
    orders: BTreeMap<u32, (u64, Instant)>,
    counters: FeedbackCounters,
    /// Time of the last report that was not refused.
    last_accepted: Option<Instant>,
}

impl Inbox {
    fn new(key: Option<FeedbackKey>, delay: Duration) -> Self {
        let counters = FeedbackCounters::default();
        let (senders, orders) = (BTreeMap::new(), BTreeMap::new());
        Self { key, delay, senders, orders, counters, last_accepted: None }
    }

    /// The report in a datagram that came at `now`, which the wall clock calls `wall_us`; none for
    /// one that is refused.
    fn take(&mut self, bytes: &[u8], now: Instant, wall_us: u64) -> Option<(FeedbackDatagram, Feedback)> {
        let datagram = match FeedbackDatagram::decode(bytes, self.key.as_ref()) {
            Ok(datagram) => datagram,
            Err(error) => {
                match error {
                    FeedbackError::Malformed => self.counters.malformed += 1,
                    FeedbackError::Unknown => self.counters.unknown_version += 1,
                    FeedbackError::WrongKey => self.counters.wrong_key += 1,
                }
                return None;
            }
        };
        // Before anything is noted of it: a recording must not make us forget its sender's place.
        let stamped_us = datagram.timestamp_us;
        let offset_us = wall_us.cast_signed().wrapping_sub(stamped_us.cast_signed());
        if datagram.is_synchronised && offset_us.unsigned_abs() > AGE_MAX.as_micros() {
            self.counters.too_late += 1;
            return None;
        }
        if self.senders.get(&datagram.sender).is_some_and(|sender| datagram.sequence <= sender.sequence) {
            self.counters.old += 1;
            return None;
        }
        self.last_accepted = Some(now);
        let least_us = self.note(&datagram, offset_us, now);
        let age = if datagram.is_synchronised {
            // Clocks that agree may still differ by a little: nothing comes before it was sent.
            Duration::from_micros(u64::try_from(offset_us).unwrap_or(0))
        } else {
            Duration::from_micros(offset_us.saturating_sub(least_us).unsigned_abs()) + self.delay
        };
        let feedback = Feedback {
            now,
            age,
            bandwidth: datagram.bandwidth,
            is_throughput: datagram.is_throughput,
            queue: datagram.queue,
            validity: datagram.validity,
        };
        Some((datagram, feedback))
    }

    /// The order in a datagram, if it is signed, new, and no recording.
    fn take_order(&mut self, bytes: &[u8], now: Instant, wall_us: u64) -> Option<HandoverOrder> {
        let order = match HandoverOrder::decode(bytes, self.key.as_ref()) {
            Ok(order) => order,
            Err(FeedbackError::WrongKey) => {
                self.counters.orders_wrong_key += 1;
                return None;
            }
            Err(FeedbackError::Malformed | FeedbackError::Unknown) => {
                self.counters.orders_malformed += 1;
                return None;
            }
        };
        if wall_us.abs_diff(order.time_us) > AGE_MAX.as_micros() {
            self.counters.orders_too_late += 1;
            return None;
        }
        if self.orders.get(&order.sender).is_some_and(|(last, _)| order.sequence <= *last) {
            self.counters.orders_old += 1;
            return None;
        }
        // Who is forgotten could say it again: not before its orders are too old by themselves.
        self.orders.retain(|_, (_, heard)| now.saturating_since(*heard) <= AGE_MAX * 2);
        if self.orders.len() >= SENDERS_MAX {
            self.counters.orders_old += 1;
            return None;
        }
        self.orders.insert(order.sender, (order.sequence, now));
        Some(order)
    }

    /// Notes a report's place and time; gives the smallest offset of its sender.
    fn note(&mut self, datagram: &FeedbackDatagram, offset_us: i64, now: Instant) -> i64 {
        if !self.senders.contains_key(&datagram.sender) && self.senders.len() >= SENDERS_MAX {
            let silent = self.senders.iter().min_by_key(|(_, sender)| sender.heard).map(|(id, _)| *id);
            silent.map(|id| self.senders.remove(&id));
        }
        let sender = self.senders.entry(datagram.sender).or_insert_with(|| Sender {
            sequence: 0,
            heard: now,
            offset_us: WindowedMin::new(CLOCK_MEMORY),
        });
        (sender.sequence, sender.heard) = (datagram.sequence, now);
        sender.offset_us.update(offset_us, now);
        sender.offset_us.get().unwrap_or(offset_us)
    }
}

/// The socket, and what becomes of what it receives.
#[derive(Debug)]
pub(crate) struct FeedbackReceiver {
    socket: UdpSocket,
    inbox: Inbox,
}

impl AsFd for FeedbackReceiver {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

fn refused(config: &FeedbackConfig, error: &std::io::Error) -> RunError {
    let listen = config.listen;
    RunError::Settings(format!("cannot listen for feedback at {listen} ({error}): use another one"))
}

impl FeedbackReceiver {
    pub(crate) fn open(config: &FeedbackConfig) -> Result<Self, RunError> {
        let socket = UdpSocket::bind(config.listen).map_err(|error| refused(config, &error))?;
        Self::of(socket, config)
    }

    /// The same, or none where somebody listens there already.
    pub(crate) fn open_if_free(config: &FeedbackConfig) -> Result<Option<Self>, RunError> {
        match UdpSocket::bind(config.listen) {
            Ok(socket) => Self::of(socket, config).map(Some),
            Err(error) if error.kind() == std::io::ErrorKind::AddrInUse => Ok(None),
            Err(error) => Err(refused(config, &error)),
        }
    }

    /// The same with another process's socket, if it listens where `config` says.
    pub(crate) fn adopt(socket: OwnedFd, config: &FeedbackConfig) -> Option<Self> {
        let socket = UdpSocket::from(socket);
        let is_wanted = socket.local_addr().is_ok_and(|address| address == config.listen);
        is_wanted.then(|| Self::of(socket, config).ok()).flatten()
    }

    fn of(socket: UdpSocket, config: &FeedbackConfig) -> Result<Self, RunError> {
        socket.set_nonblocking(true).map_err(|error| refused(config, &error))?;
        let key = config.key.as_deref().map(|bytes| {
            FeedbackKey::new(bytes).ok_or_else(|| RunError::Settings("the feedback key is empty".to_owned()))
        });
        Ok(Self { socket, inbox: Inbox::new(key.transpose()?, Duration::from_micros(config.delay_us)) })
    }

    pub(crate) fn counters(&self) -> FeedbackCounters {
        self.inbox.counters
    }

    /// Time of the last report that was not refused, whatever subscriber it was about.
    pub(crate) fn last_accepted(&self) -> Option<Instant> {
        self.inbox.last_accepted
    }

    /// Hands on what has come. What the system reports about the socket concerns single datagrams.
    ///
    /// `deliver` says whether the subscriber is known, or `None` where somebody else will count that. `obey` begins
    /// a hand-over; false when there is no such peer.
    pub(crate) fn turn(
        &mut self,
        mut deliver: impl FnMut(IpAddr, &Feedback) -> Option<bool>,
        mut obey: impl FnMut(&HandoverOrder) -> bool,
    ) {
        // One byte more than the longest, so that longer ones are seen to be so.
        const LEN_MAX: usize = if HandoverOrder::LEN > FeedbackDatagram::LEN_MAX {
            HandoverOrder::LEN
        } else {
            FeedbackDatagram::LEN_MAX
        };
        let mut buffer = [0; LEN_MAX + 1];
        for _ in 0..BATCH {
            let Ok((len, _)) = self.socket.recv_from(&mut buffer) else { return };
            let bytes = buffer.get(..len).unwrap_or(&buffer);
            if HandoverOrder::is_one(bytes) {
                let order = self.inbox.take_order(bytes, Clock::now(), Clock::wall_nanos() / 1_000);
                if let Some(order) = order {
                    let is_begun = obey(&order);
                    self.inbox.counters.orders_begun += u64::from(is_begun);
                    self.inbox.counters.orders_unknown_peer += u64::from(!is_begun);
                }
                continue;
            }
            let Some((datagram, feedback)) =
                self.inbox.take(bytes, Clock::now(), Clock::wall_nanos() / 1_000)
            else {
                continue;
            };
            match deliver(datagram.subscriber, &feedback) {
                Some(true) => self.inbox.counters.accepted += 1,
                Some(false) => self.inbox.counters.unknown_subscriber += 1,
                None => {}
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use units::{Bytes, Rate};

    use super::*;

    const DELAY: Duration = Duration::from_millis(5);

    fn datagram(sender: u32, sequence: u64, timestamp_us: u64) -> FeedbackDatagram {
        FeedbackDatagram {
            sender,
            sequence,
            timestamp_us,
            is_synchronised: true,
            subscriber: "10.0.0.2".parse().unwrap(),
            bandwidth: Some(Rate::from_mbps(8)),
            is_throughput: false,
            queue: Some(Bytes::new(3_000)),
            validity: Duration::ZERO,
        }
    }

    fn take(inbox: &mut Inbox, datagram: &FeedbackDatagram, wall_us: u64) -> Option<Feedback> {
        let now = Instant::from_nanos(wall_us * 1_000);
        inbox.take(datagram.encode(None).as_ref(), now, wall_us).map(|(_, feedback)| feedback)
    }

    #[test]
    fn a_repeated_or_overtaken_report_is_refused() {
        let mut inbox = Inbox::new(None, DELAY);
        assert!(take(&mut inbox, &datagram(1, 5, 1_000), 3_000).is_some());
        assert!(take(&mut inbox, &datagram(1, 5, 1_000), 3_000).is_none(), "again");
        assert!(take(&mut inbox, &datagram(1, 4, 900), 3_100).is_none(), "overtaken");
        assert!(take(&mut inbox, &datagram(2, 4, 900), 3_200).is_some(), "another sender counts by itself");
        assert!(take(&mut inbox, &datagram(1, 6, 2_000), 3_300).is_some());
        assert_eq!(inbox.counters.old, 2);
        assert_eq!(inbox.last_accepted, Some(Instant::from_micros(3_300)));
    }

    #[test]
    fn age_by_clocks_that_agree_is_the_difference() {
        let mut inbox = Inbox::new(None, DELAY);
        let age =
            |inbox: &mut Inbox, n, stamped, at| take(inbox, &datagram(1, n, stamped), at).map(|f| f.age);
        assert_eq!(age(&mut inbox, 1, 1_000_000, 1_020_000), Some(Duration::from_millis(20)));
        assert_eq!(
            age(&mut inbox, 2, 1_030_100, 1_030_000),
            Some(Duration::ZERO),
            "from the future by a little"
        );
        assert_eq!(age(&mut inbox, 3, 1_040_000, 20_000_000), None, "a recording");
        assert_eq!(age(&mut inbox, 4, 60_000_000, 20_000_000), None, "a clock that does not agree");
        assert_eq!(inbox.counters.too_late, 2);
        // What was refused has not taken the place of what follows.
        assert!(age(&mut inbox, 3, 19_990_000, 20_000_000).is_some());
    }

    #[test]
    fn age_by_clocks_that_differ_is_against_the_fastest() {
        let mut inbox = Inbox::new(None, DELAY);
        let mut age = |n: u64, late_us: u64| {
            let stamped = u64::MAX - 5_000_000 + n * 10_000;
            let datagram = FeedbackDatagram { is_synchronised: false, ..datagram(1, n, stamped) };
            take(&mut inbox, &datagram, 7_000_000 + n * 10_000 + late_us).map(|f| f.age)
        };
        assert_eq!(age(1, 4_000), Some(DELAY), "the first is the fastest so far");
        assert_eq!(age(2, 1_000), Some(DELAY));
        assert_eq!(age(3, 9_000), Some(DELAY + Duration::from_millis(8)));
    }

    #[test]
    fn what_is_no_report_is_counted_by_what_it_is() {
        let key = FeedbackKey::new(b"key");
        let mut inbox = Inbox::new(key.clone(), DELAY);
        let report = datagram(1, 1, 1_000);
        assert!(inbox.take(b"hello", Instant::ZERO, 1_000).is_none());
        assert!(take(&mut inbox, &report, 1_000).is_none(), "not signed");
        let forged = report.encode(FeedbackKey::new(b"another").as_ref());
        assert!(inbox.take(forged.as_ref(), Instant::ZERO, 1_000).is_none());
        let signed = report.encode(key.as_ref());
        let mut newer = signed.as_ref().to_vec();
        newer[2] = 9;
        assert!(inbox.take(&newer, Instant::ZERO, 1_000).is_none());
        assert!(inbox.take(signed.as_ref(), Instant::ZERO, 1_000).is_some());
        let counters = inbox.counters;
        assert_eq!((counters.malformed, counters.wrong_key, counters.unknown_version), (1, 2, 1));
    }

    #[test]
    fn an_order_counts_once_and_signed_and_fresh() {
        let key = FeedbackKey::new(b"key");
        let mut inbox = Inbox::new(key.clone(), DELAY);
        let order = |sender, sequence, time_us| HandoverOrder {
            sender,
            sequence,
            time_us,
            subscriber: "10.0.0.2".parse().unwrap(),
            peer: "north".to_owned(),
        };
        let mut take = |order: &HandoverOrder, key: &Option<FeedbackKey>, wall_us: u64| {
            let bytes = order.encode(key.as_ref().unwrap()).unwrap();
            inbox.take_order(&bytes, Instant::from_micros(wall_us), wall_us).is_some()
        };
        let first = order(1, 5, 20_000_000);
        assert!(take(&first, &key, 20_100_000));
        assert!(!take(&first, &key, 20_200_000), "again");
        assert!(!take(&order(1, 4, 20_000_000), &key, 20_300_000), "overtaken");
        assert!(take(&order(2, 4, 20_000_000), &key, 20_300_000), "another sender counts by itself");
        assert!(!take(&order(1, 6, 20_000_000), &key, 30_300_000), "a recording");
        assert!(!take(&order(1, 7, 60_000_000), &key, 30_300_000), "from the future");
        assert!(!take(&order(1, 7, 30_000_000), &FeedbackKey::new(b"another"), 30_300_000));
        assert!(take(&order(1, 7, 30_000_000), &key, 30_300_000));
        assert!(inbox.take_order(&[0xce, 0x12, 1, 0], Instant::ZERO, 0).is_none());
        let FeedbackCounters { orders_old, orders_too_late, orders_wrong_key, orders_malformed, .. } =
            inbox.counters;
        assert_eq!([orders_old, orders_too_late, orders_wrong_key, orders_malformed], [2, 2, 1, 1]);
        let mut keyless = Inbox::new(None, DELAY);
        let bytes = first.encode(&key.unwrap()).unwrap();
        assert!(keyless.take_order(&bytes, Instant::ZERO, 20_000_000).is_none(), "nobody can say who asks");
        assert_eq!(keyless.counters.orders_wrong_key, 1);
    }

    #[test]
    fn senders_are_forgotten_longest_silent_first() {
        let mut inbox = Inbox::new(None, DELAY);
        for sender in 0..=SENDERS_MAX as u32 {
            assert!(take(&mut inbox, &datagram(sender, 1, 1_000), 1_000 + u64::from(sender)).is_some());
        }
        assert_eq!(inbox.senders.len(), SENDERS_MAX);
        assert!(!inbox.senders.contains_key(&0) && inbox.senders.contains_key(&1));
    }
}
