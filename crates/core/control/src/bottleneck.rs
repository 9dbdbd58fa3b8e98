//! A bottleneck for the tests of paced controllers: a constant rate, a round trip, a drop-tail queue.

use std::collections::VecDeque;

use units::{Bytes, Duration, Instant, Rate};

use crate::{Ack, Controller, Loss, LossKind, RateSampler, SendStamp, Sent};

/// Bytes of a segment.
pub(crate) const MSS: u64 = 1_000;

/// A link of constant rate with a queue, driven by a sender with data without end.
pub(crate) struct Link<C> {
    pub(crate) bbr: C,
    pub(crate) rate: Rate,
    pub(crate) round_trip: Duration,
    pub(crate) queue_max: u64,
    pub(crate) now: Instant,
    pub(crate) sampler: RateSampler,
    /// Acknowledgements under way: when they arrive, and the stamp of their segment; `None` for a
    /// lost segment.
    pub(crate) coming: VecDeque<(Instant, Option<SendStamp>)>,
    pub(crate) in_flight: u64,
    free_at: Instant,
    may_send_at: Instant,
    min_rtt: Option<Duration>,
    lost: u64,
    pub(crate) all_lost: u64,
    /// Count of delivered bytes at which a recovery ends.
    recovers_until: Option<Bytes>,
    delivered: u64,
    pub(crate) largest_queue_ms: u64,
}

impl<C: Controller> Link<C> {
    pub(crate) fn new(bbr: C, rate: Rate, rtt_ms: u64, queue_max: u64) -> Self {
        Self {
            bbr,
            rate,
            round_trip: Duration::from_millis(rtt_ms),
            queue_max,
            now: Instant::ZERO,
            sampler: RateSampler::new(),
            coming: VecDeque::new(),
            in_flight: 0,
            free_at: Instant::ZERO,
            may_send_at: Instant::ZERO,
            min_rtt: None,
            lost: 0,
            all_lost: 0,
            recovers_until: None,
            delivered: 0,
            largest_queue_ms: 0,
        }
    }

    fn queue(&self) -> u64 {
        self.rate.bytes_in(self.free_at.saturating_since(self.now)).get()
    }

    fn send(&mut self) {
        let (bytes, in_flight) = (Bytes::new(MSS), Bytes::new(self.in_flight));
        let stamp = self.sampler.on_send(self.in_flight == 0, self.now);
        self.bbr.on_send(&Sent { now: self.now, bytes, in_flight, is_app_limited: false });
        self.may_send_at = self.may_send_at.max(self.now) + self.bbr.control().pacing_rate.time_for(bytes);
        self.in_flight += MSS;
        let is_dropped = self.queue() + MSS > self.queue_max;
        if !is_dropped {
            self.free_at = self.free_at.max(self.now) + self.rate.time_for(bytes);
        }
        self.coming.push_back((self.free_at.max(self.now) + self.round_trip, (!is_dropped).then_some(stamp)));
    }

    pub(crate) fn take_ack(&mut self) {
        let Some((at, stamp)) = self.coming.pop_front() else { return };
        self.now = self.now.max(at);
        let before = self.in_flight;
        self.in_flight -= MSS;
        let Some(stamp) = stamp else {
            // Found when the next one is acknowledged.
            self.lost += MSS;
            self.all_lost += MSS;
            return;
        };
        self.delivered += MSS;
        let rtt = self.now.saturating_since(stamp.sent_at);
        self.min_rtt = Some(self.min_rtt.map_or(rtt, |min| min.min(rtt)));
        let rate = self.sampler.on_delivered(Bytes::new(MSS), Some(&stamp), self.min_rtt, self.now);
        let lost = Bytes::new(std::mem::take(&mut self.lost));
        let in_flight = Bytes::new(self.in_flight);
        let total = self.sampler.delivered();
        self.recovers_until = self.recovers_until.filter(|until| total < *until);
        if lost > Bytes::ZERO {
            let is_new_event = self.recovers_until.is_none();
            self.recovers_until.get_or_insert(total + in_flight);
            self.bbr.on_loss(&Loss { now: self.now, lost, kind: LossKind::Fast, is_new_event, in_flight });
        }
        self.bbr.on_ack(&Ack {
            now: self.now,
            delivered: Bytes::new(MSS),
            discarded: Bytes::ZERO,
            peer_window: Bytes::MAX,
            delivered_total: total,
            rtt: Some(rtt),
            return_wait: Duration::ZERO,
            lasting_return_wait: Duration::ZERO,
            min_rtt: self.min_rtt,
            rate,
            in_flight,
            in_flight_before: Bytes::new(before),
            others: Bytes::ZERO,
            lost,
            is_recovering: self.recovers_until.is_some(),
            is_window_limited: Bytes::new(before + MSS) > self.bbr.control().window,
            mark: None,
        });
    }

    /// The next thing that happens.
    pub(crate) fn step(&mut self) {
        let has_room = self.in_flight + MSS <= self.bbr.control().window.get();
        let next_ack = self.coming.front().map(|(at, _)| *at);
        let send_at = self.may_send_at.max(self.now);
        if has_room && next_ack.is_none_or(|at| send_at <= at) {
            self.now = send_at;
            self.send();
        } else {
            self.take_ack();
        }
        let queue_ms = self.free_at.saturating_since(self.now).as_millis();
        self.largest_queue_ms = self.largest_queue_ms.max(queue_ms);
    }

    pub(crate) fn run_until(&mut self, ms: u64) {
        while self.now < Instant::from_millis(ms) {
            self.step();
        }
    }

    /// Delivered over offered between now and `ms`, in per cent.
    pub(crate) fn utilisation_until(&mut self, ms: u64) -> u64 {
        let (from, before) = (self.now, self.delivered);
        self.run_until(ms);
        let offered = self.rate.bytes_in(self.now.saturating_since(from)).get();
        (self.delivered - before) * 100 / offered
    }
}
