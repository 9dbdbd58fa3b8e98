//! A bottleneck for the tests of controllers: one drop-tail queue, a rate that may vary, one flow or several.

use std::collections::VecDeque;

use units::{Bytes, Duration, Instant, Rate};

use crate::{Ack, AnyController, Controller, Loss, LossKind, RateSampler, SendStamp, Sent};

/// Bytes of a segment.
pub(crate) const MSS: u64 = 1_000;

/// A segment under way: when its acknowledgement arrives, its stamp, and how long it waited; `None` if it was
/// dropped.
type Coming = (Instant, Option<(SendStamp, Duration)>);

/// A sender with data without end.
pub(crate) struct Sender {
    pub(crate) controller: Box<dyn Controller>,
    starts_at: Instant,
    sampler: RateSampler,
    coming: VecDeque<Coming>,
    in_flight: u64,
    may_send_at: Instant,
    min_rtt: Option<Duration>,
    lost: u64,
    /// Count of delivered bytes at which a recovery ends.
    recovers_until: Option<Bytes>,
    pub(crate) delivered: u64,
    pub(crate) all_lost: u64,
}

/// The link and its senders.
pub(crate) struct SharedLink {
    /// The rate from each moment on.
    rates: Vec<(Instant, Rate)>,
    round_trip: Duration,
    queue_max: u64,
    /// State of random drops before the queue is full; none: drop-tail.
    random: Option<u64>,
    pub(crate) now: Instant,
    free_at: Instant,
    pub(crate) senders: Vec<Sender>,
    /// Time that each segment waited, since the last [`SharedLink::forget`].
    waits: Vec<Duration>,
    measured_from: Instant,
}

impl SharedLink {
    /// A link of the rates in `rates` (from which millisecond on, kbit/s), the round trip of an empty path,
    /// and bytes of queue.
    pub(crate) fn new(rates: &[(u64, u64)], rtt_ms: u64, queue_max: u64) -> Self {
        let rates = rates.iter().map(|&(ms, kbps)| (Instant::from_millis(ms), Rate::from_kbps(kbps)));
        Self {
            rates: rates.collect(),
            round_trip: Duration::from_millis(rtt_ms),
            queue_max,
            random: None,
            now: Instant::ZERO,
            free_at: Instant::ZERO,
            senders: Vec::new(),
            waits: Vec::new(),
            measured_from: Instant::ZERO,
        }
    }

    /// The same with a queue that drops before it is full, at random, by the square of the queue's emptiness:
    /// 1 % of the segments when it is half full.
    pub(crate) fn dropping_early(mut self) -> Self {
        self.random = Some(1);
        self
    }

    fn drops_early(&mut self) -> bool {
        let queue = self.queue();
        let Some(state) = &mut self.random else { return false };
        // Xorshift: the same in each run.
        *state ^= *state << 13;
        *state ^= *state >> 7;
        *state ^= *state << 17;
        let parts = queue * 1_000 / self.queue_max;
        *state % 25_000_000 < parts * parts
    }

    /// The same with a sender that starts at `ms`.
    pub(crate) fn with(self, controller: AnyController, ms: u64) -> Self {
        self.with_boxed(Box::new(controller), ms)
    }

    /// The same with any controller.
    pub(crate) fn with_boxed(mut self, controller: Box<dyn Controller>, ms: u64) -> Self {
        self.senders.push(Sender {
            controller,
            starts_at: Instant::from_millis(ms),
            sampler: RateSampler::new(),
            coming: VecDeque::new(),
            in_flight: 0,
            may_send_at: Instant::ZERO,
            min_rtt: None,
            lost: 0,
            recovers_until: None,
            delivered: 0,
            all_lost: 0,
        });
        self
    }

    fn rate_at(&self, at: Instant) -> Rate {
        let index = self.rates.partition_point(|&(from, _)| from <= at);
        self.rates[index.saturating_sub(1)].1
    }

    /// Bytes that wait or are being sent, at the rate of the moment.
    fn queue(&self) -> u64 {
        self.rate_at(self.now).bytes_in(self.free_at.saturating_since(self.now)).get()
    }

    /// Time at which `sender` could send next; none before an acknowledgement.
    fn next_send(&self, sender: &Sender) -> Option<Instant> {
        let has_room = sender.in_flight + MSS <= sender.controller.control().window.get();
        has_room.then(|| sender.may_send_at.max(sender.starts_at).max(self.now))
    }

    fn send(&mut self, index: usize) {
        let is_dropped = self.queue() + MSS > self.queue_max || self.drops_early();
        let begins_at = self.free_at.max(self.now);
        let ends_at = begins_at + self.rate_at(begins_at).time_for(Bytes::new(MSS));
        let wait = begins_at.saturating_since(self.now);
        if !is_dropped {
            self.free_at = ends_at;
        }
        let (now, round_trip) = (self.now, self.round_trip);
        let sender = &mut self.senders[index];
        let (bytes, in_flight) = (Bytes::new(MSS), Bytes::new(sender.in_flight));
        let stamp = sender.sampler.on_send(sender.in_flight == 0, now);
        sender.controller.on_send(&Sent { now, bytes, in_flight, is_app_limited: false });
        sender.may_send_at =
            sender.may_send_at.max(now) + sender.controller.control().pacing_rate.time_for(bytes);
        sender.in_flight += MSS;
        let arrival = if is_dropped { begins_at } else { ends_at } + round_trip;
        sender.coming.push_back((arrival, (!is_dropped).then_some((stamp, wait))));
    }

    fn take_ack(&mut self, index: usize) {
        let sender = &mut self.senders[index];
        let Some((at, segment)) = sender.coming.pop_front() else { return };
        self.now = self.now.max(at);
        let now = self.now;
        let before = sender.in_flight;
        sender.in_flight -= MSS;
        let Some((stamp, wait)) = segment else {
            // Found when the next one is acknowledged.
            sender.lost += MSS;
            sender.all_lost += MSS;
            return;
        };
        self.waits.push(wait);
        sender.delivered += MSS;
        let rtt = now.saturating_since(stamp.sent_at);
        sender.min_rtt = Some(sender.min_rtt.map_or(rtt, |min| min.min(rtt)));
        let rate = sender.sampler.on_delivered(Bytes::new(MSS), Some(&stamp), sender.min_rtt, now);
        let lost = Bytes::new(std::mem::take(&mut sender.lost));
        let in_flight = Bytes::new(sender.in_flight);
        let total = sender.sampler.delivered();
        sender.recovers_until = sender.recovers_until.filter(|until| total < *until);
        if lost > Bytes::ZERO {
            let is_new_event = sender.recovers_until.is_none();
            sender.recovers_until.get_or_insert(total + in_flight);
            sender.controller.on_loss(&Loss { now, lost, kind: LossKind::Fast, is_new_event, in_flight });
        }
        sender.controller.on_ack(&Ack {
            now,
            delivered: Bytes::new(MSS),
            peer_window: Bytes::MAX,
            delivered_total: total,
            rtt: Some(rtt),
            min_rtt: sender.min_rtt,
            rate,
            in_flight,
            in_flight_before: Bytes::new(before),
            lost,
            is_recovering: sender.recovers_until.is_some(),
            is_window_limited: Bytes::new(before + MSS) > sender.controller.control().window,
            ..Ack::default()
        });
    }

    /// The next thing that happens: an acknowledgement before a transmission of the same moment.
    fn step(&mut self) {
        let acks = self.senders.iter().enumerate().filter_map(|(i, s)| Some((s.coming.front()?.0, 0, i)));
        let sends = self.senders.iter().enumerate().filter_map(|(i, s)| Some((self.next_send(s)?, 1, i)));
        let Some((at, kind, index)) = acks.chain(sends).min() else { panic!("nobody sends any more") };
        self.now = self.now.max(at);
        if kind == 0 { self.take_ack(index) } else { self.send(index) }
    }

    pub(crate) fn run_until(&mut self, ms: u64) {
        while self.now < Instant::from_millis(ms) {
            self.step();
        }
    }

    /// Measures from here on.
    pub(crate) fn forget(&mut self) {
        self.waits.clear();
        self.measured_from = self.now;
        self.senders.iter_mut().for_each(|sender| (sender.delivered, sender.all_lost) = (0, 0));
    }

    /// The wait that `permille` of the segments do not exceed.
    pub(crate) fn wait(&self, permille: usize) -> Duration {
        let mut waits = self.waits.clone();
        waits.sort_unstable();
        waits[(waits.len() - 1) * permille / 1_000]
    }

    pub(crate) fn mean_wait(&self) -> Duration {
        let sum: u64 = self.waits.iter().map(|wait| wait.as_nanos()).sum();
        Duration::from_nanos(sum / self.waits.len() as u64)
    }

    /// Delivered over what the link could have carried since the measurement began, in per cent.
    pub(crate) fn utilisation(&self) -> u64 {
        let mut offered = 0;
        for (i, &(from, rate)) in self.rates.iter().enumerate() {
            let until = self.rates.get(i + 1).map_or(self.now, |&(next, _)| next.min(self.now));
            offered += rate.bytes_in(until.saturating_since(from.max(self.measured_from))).get();
        }
        self.senders.iter().map(|sender| sender.delivered).sum::<u64>() * 100 / offered
    }
}
