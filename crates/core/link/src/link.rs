//! [`Link`]: one direction of one client's link.

use std::collections::VecDeque;

use units::{Bytes, Duration, Instant};

use crate::aqm::{ManagedQueue, Taken};
use crate::capacity::whole_bytes;
use crate::delay::Delay;
use crate::fade::FadeStage;
use crate::harq::HarqStage;
use crate::loss::Loss;
use crate::outage::Outages;
use crate::policer::Bucket;
use crate::random::{Stage, Stream};
use crate::service::Server;
use crate::tdd::Schedule;
use crate::{
    Capacity, DropReason, Ecn, LinkConfig, LinkError, PacketId, PacketRecord, QueueLimit, SlotConfig,
};

/// A packet that came out of the link.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Delivery<P> {
    /// Payload that was handed in.
    pub payload: P,
    /// IP packet length.
    pub size: Bytes,
    /// The exact time of delivery, not after the `now` of the poll.
    pub planned: Instant,
    /// The packet's log entry.
    pub record: PacketRecord,
    /// The queue's management marked it CE: the receiver of the delivery writes that into it.
    pub is_marked: bool,
}

/// A packet that was not taken in, handed back.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rejected<P> {
    /// Payload that was handed in.
    pub payload: P,
    /// [`DropReason::LossBefore`] or [`DropReason::QueueFull`].
    pub reason: DropReason,
    /// The packet's number.
    pub id: PacketId,
}

/// A number of packets and their bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Tally {
    /// Packets.
    pub packets: u64,
    /// Their bytes.
    pub bytes: Bytes,
}

impl Tally {
    fn add(&mut self, size: Bytes) {
        self.packets += 1;
        self.bytes += size;
    }
    fn remove(&mut self, size: Bytes) {
        self.packets -= 1;
        self.bytes -= size;
    }
}

/// Counts of what has gone through a link so far.
///
/// INVARIANT: `offered = delivered + loss_before + queue_full + managed + harq_failed + faded + loss_after + held`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Counters {
    /// Handed in.
    pub offered: Tally,
    /// Returned by `poll`.
    pub delivered: Tally,
    /// Dropped ahead of the queue: at random, or by the policer.
    pub loss_before: Tally,
    /// Dropped by the full queue.
    pub queue_full: Tally,
    /// Dropped by the queue's management.
    pub managed: Tally,
    /// Dropped after the last radio try.
    pub harq_failed: Tally,
    /// Put on the air in a fade.
    pub faded: Tally,
    /// Dropped behind the queue.
    pub loss_after: Tally,
    /// Inside: waiting, in service, under repair or on the way.
    pub held: Tally,
    /// Marked by the queue's management, whatever became of them.
    pub marked: Tally,
}

impl Counters {
    /// Packets dropped for any reason.
    #[must_use]
    pub fn dropped_packets(&self) -> u64 {
        self.loss_before.packets
            + self.queue_full.packets
            + self.managed.packets
            + self.harq_failed.packets
            + self.faded.packets
            + self.loss_after.packets
    }

    fn count_drop(&mut self, reason: DropReason, size: Bytes) {
        match reason {
            DropReason::LossBefore => self.loss_before.add(size),
            DropReason::QueueFull => self.queue_full.add(size),
            DropReason::Managed => self.managed.add(size),
            DropReason::HarqFailed => self.harq_failed.add(size),
            DropReason::Fade => self.faded.add(size),
            DropReason::LossAfter => self.loss_after.add(size),
        }
    }
}

/// Packets that wait for the start of their service.
#[derive(Clone, Debug)]
struct Queue {
    limit: QueueLimit,
    /// Start of service and size of the packets that wait or will wait, in order.
    packets: VecDeque<(Instant, Bytes)>,
    waiting: Tally,
}

impl Queue {
    fn new(limit: QueueLimit) -> Self {
        Self { limit, packets: VecDeque::new(), waiting: Tally::default() }
    }

    fn has_room(&self, size: Bytes) -> bool {
        match self.limit {
            QueueLimit::Unlimited => true,
            QueueLimit::Bytes(limit) => self.waiting.bytes + size <= limit,
            QueueLimit::Packets(limit) => self.waiting.packets < limit,
        }
    }

    fn push(&mut self, service_start: Instant, size: Bytes) {
        self.packets.push_back((service_start, size));
        self.waiting.add(size);
    }

    /// Takes packets off whose service has begun by `now`.
    fn advance(&mut self, now: Instant) {
        while let Some(&(service_start, size)) = self.packets.front() {
            if service_start > now {
                break;
            }
            self.packets.pop_front();
            self.waiting.remove(size);
        }
    }
}

/// One direction of one client's link: exactly one queue. `P` is whatever stands for a packet.
///
/// Three verbs: [`enqueue`](Self::enqueue), [`poll`](Self::poll), [`next_deadline`](Self::next_deadline).
/// The whole fate of a packet is decided when it is enqueued, from its arrival time, its size and
/// the seed. So decisions and planned times do not depend on how often or how late `poll` is called.
/// Times must not go backwards; one that does is taken as the latest seen.
///
/// With [`LinkConfig::aqm`] the fate is decided when the packet's service begins, by all that came before that time.
#[derive(Clone, Debug)]
pub struct Link<P> {
    start: Instant,
    now: Instant,
    capacity: Capacity,
    /// The outages from the start, for questions about offered capacity.
    outages: Outages,
    queue: Queue,
    managed: Option<ManagedQueue<P>>,
    slots: Option<SlotConfig>,
    schedule: Schedule,
    loss_before: Loss,
    policer: Option<Bucket>,
    server: Server,
    harq: HarqStage,
    fades: FadeStage,
    loss_after: Loss,
    delay: Delay,
    /// Accepted packets in order, each with the time at which it leaves the link.
    inside: VecDeque<Inside<P>>,
    released: Duration,
    last_out: Instant,
    counters: Counters,
    next_id: u64,
    log: Option<Vec<PacketRecord>>,
}

#[derive(Clone, Debug)]
struct Inside<P> {
    out: Instant,
    payload: P,
    record: PacketRecord,
    is_marked: bool,
}

impl<P> Link<P> {
    /// An empty link whose trace, steps, outages and slots begin at `start`.
    ///
    /// # Errors
    ///
    /// [`LinkError::Setting`] when a setting is out of its range.
    pub fn new(config: &LinkConfig, start: Instant) -> Result<Self, LinkError> {
        config.check()?;
        let outages = Outages::new(&config.outages, config.seed, Stage::Outage);
        Ok(Self {
            start,
            now: start,
            capacity: config.capacity.clone(),
            queue: Queue::new(config.queue),
            managed: config
                .aqm
                .map(|aqm| ManagedQueue::new(aqm, Stream::new(config.seed, Stage::Aqm), start)),
            slots: config.uplink_slots,
            schedule: Schedule::new(config.tdd, config.grants),
            loss_before: Loss::new(config.loss_before, config.seed, Stage::LossBefore),
            policer: config.policer.map(|policer| Bucket::new(policer, start)),
            server: Server::new(&config.capacity, outages.clone()),
            outages,
            harq: HarqStage::new(config.harq, config.seed),
            fades: FadeStage::new(config.fades.as_ref(), config.seed),
            loss_after: Loss::new(config.loss_after, config.seed, Stage::LossAfter),
            delay: Delay::new(config.delay.clone(), config.seed),
            inside: VecDeque::new(),
            released: Duration::ZERO,
            last_out: start,
            counters: Counters::default(),
            next_id: 0,
            log: config.keeps_log.then(Vec::new),
        })
    }

    /// Hands a packet of `size` bytes (IP packet length) to the link.
    ///
    /// # Errors
    ///
    /// [`Rejected`] hands the payload back when the packet is lost ahead of the queue or the queue is full.
    pub fn enqueue(&mut self, payload: P, size: Bytes, now: Instant) -> Result<PacketId, Rejected<P>> {
        self.enqueue_as(Ecn::NotEct, payload, size, now)
    }

    /// The same with a packet whose ECN field is `ecn`, as far as the queue is managed.
    ///
    /// # Errors
    ///
    /// As [`Link::enqueue`].
    pub fn enqueue_as(
        &mut self,
        ecn: Ecn,
        payload: P,
        size: Bytes,
        now: Instant,
    ) -> Result<PacketId, Rejected<P>> {
        self.advance(now);
        let id = PacketId(self.next_id);
        self.next_id += 1;
        self.counters.offered.add(size);
        let now = self.now;
        let reason = if self.loss_before.is_lost()
            || self.policer.as_mut().is_some_and(|bucket| !bucket.admits(size, now))
        {
            Some(DropReason::LossBefore)
        } else if self.queue.has_room(size) {
            None
        } else {
            Some(DropReason::QueueFull)
        };
        let mut record = fresh_record(id, size, self.now);
        record.drop = reason;
        if reason.is_none()
            && let Some(managed) = self.managed.as_mut()
        {
            managed.push(id.0, payload, size, (self.now, ecn));
            self.queue.waiting.add(size);
            self.counters.held.add(size);
            return Ok(id);
        }
        let result = match reason {
            Some(reason) => {
                self.counters.count_drop(reason, size);
                Err(Rejected { payload, reason, id })
            }
            None => {
                let out = self.plan(&mut record);
                self.counters.held.add(size);
                self.inside.push_back(Inside { out, payload, record, is_marked: false });
                Ok(id)
            }
        };
        if let Some(log) = &mut self.log {
            log.push(record);
        }
        result
    }

    /// Returns the next packet that is through by `now`; call until `None`.
    pub fn poll(&mut self, now: Instant) -> Option<Delivery<P>> {
        self.advance(now);
        while self.inside.front().is_some_and(|head| head.out <= self.now && head.out != Instant::FAR_FUTURE)
        {
            let Inside { out, payload, record, is_marked } = self.inside.pop_front()?;
            self.counters.held.remove(record.size);
            match record.drop {
                Some(reason) => self.counters.count_drop(reason, record.size),
                None => {
                    self.counters.delivered.add(record.size);
                    let size = record.size;
                    return Some(Delivery { payload, size, planned: out, record, is_marked });
                }
            }
        }
        None
    }

    /// Time at which `poll` next has something to do; none while nothing inside will ever leave.
    #[must_use]
    pub fn next_deadline(&self) -> Option<Instant> {
        let out = self.inside.front().map(|head| head.out).filter(|out| *out != Instant::FAR_FUTURE);
        if self.managed.is_none() {
            return out;
        }
        [out, self.next_service().map(|(at, _)| at)].into_iter().flatten().min()
    }

    /// True where the ECN field of a packet matters: see [`Link::enqueue_as`].
    #[must_use]
    pub fn is_managed(&self) -> bool {
        self.managed.is_some()
    }

    /// Bytes waiting at `now` for the start of their service: what the limit counts.
    pub fn queue_bytes(&mut self, now: Instant) -> Bytes {
        self.advance(now);
        self.queue.waiting.bytes
    }

    /// Packets waiting at `now` for the start of their service: what the limit counts.
    pub fn queue_packets(&mut self, now: Instant) -> u64 {
        self.advance(now);
        self.queue.waiting.packets
    }

    /// Counts of what has gone through so far.
    #[must_use]
    pub fn counters(&self) -> &Counters {
        &self.counters
    }

    /// Takes the log: one record per packet handed in since the last call, in order of arrival.
    ///
    /// A record holds the packet's whole plan, so its times may lie after the present. Where the queue is managed, a
    /// packet has its record once its service begins, or it is dropped. Empty when [`LinkConfig::keeps_log`] is off.
    pub fn take_log(&mut self) -> Vec<PacketRecord> {
        self.log.as_mut().map(core::mem::take).unwrap_or_default()
    }

    /// Exact number of bytes the link could have served in `[from, to)`, outages taken off;
    /// [`Bytes::MAX`] when unlimited. Neighbouring intervals add up. Takes time in proportion to
    /// the outages before `to`.
    #[must_use]
    pub fn offered_bytes(&self, from: Instant, to: Instant) -> Bytes {
        let served_by = |t: Instant| self.served_units_by(t.saturating_since(self.start));
        match (served_by(from), served_by(to)) {
            (Some(before), Some(through)) => whole_bytes(through) - whole_bytes(before),
            _ => Bytes::MAX,
        }
    }

    /// Capacity in `[0, t)` less what fell into outages; none when unlimited.
    fn served_units_by(&self, t: Duration) -> Option<u128> {
        let cumulative = |t| self.capacity.cumulative(t);
        let mut left = cumulative(t)?;
        for (begin, end) in self.outages.clone().within(Duration::ZERO, t) {
            left -= cumulative(end)? - cumulative(begin)?;
        }
        Some(left)
    }

    /// Time at which the link began.
    #[must_use]
    pub fn start(&self) -> Instant {
        self.start
    }

    /// Takes packets off the queue whose service has begun.
    fn advance(&mut self, now: Instant) {
        self.now = self.now.max(now);
        if self.managed.is_some() {
            self.serve_managed();
        }
        self.queue.advance(self.now);
    }

    /// Time at which the next packet of a managed queue comes to be served, and from which of its queues one
    /// may be; none while nothing waits, or never will be served.
    fn next_service(&self) -> Option<(Instant, [bool; 2])> {
        let since = |at: Instant| at.saturating_since(self.start);
        let begins = |at: Instant| self.server.next_start(since(at)).map(|start| self.at(start));
        let starts = self.managed.as_ref()?.arrivals().map(|arrival| arrival.and_then(begins));
        let at = starts.into_iter().flatten().min()?;
        Some((at, starts.map(|start| start.is_some_and(|start| start <= at))))
    }

    /// Serves what a managed queue has had to serve by now.
    fn serve_managed(&mut self) {
        while let Some((at, may)) = self.next_service().filter(|(at, _)| *at <= self.now) {
            let Some(managed) = self.managed.as_mut() else { return };
            managed.advance(at);
            let Some(taken) = managed.pop(at, may) else { return };
            self.queue.waiting.remove(taken.size);
            self.begin_service(taken);
        }
        if let Some(managed) = self.managed.as_mut() {
            managed.advance(self.now);
        }
    }

    fn begin_service(&mut self, taken: Taken<P>) {
        let Taken { id, payload, size, arrival, is_marked, is_dropped } = taken;
        let mut record = fresh_record(PacketId(id), size, arrival);
        if is_dropped {
            record.drop = Some(DropReason::Managed);
            self.counters.held.remove(size);
            self.counters.count_drop(DropReason::Managed, size);
        } else {
            if is_marked {
                self.counters.marked.add(size);
            }
            let out = self.serve(&mut record);
            self.inside.push_back(Inside { out, payload, record, is_marked });
        }
        if let Some(log) = &mut self.log {
            log.push(record);
        }
    }

    /// Decides everything that happens to an accepted packet; returns when it leaves the link.
    fn plan(&mut self, record: &mut PacketRecord) -> Instant {
        let out = self.serve(record);
        self.queue.push(record.service_start.unwrap_or(Instant::FAR_FUTURE), record.size);
        self.queue.advance(self.now);
        out
    }

    /// The same but for the queue.
    fn serve(&mut self, record: &mut PacketRecord) -> Instant {
        let served = self.server.serve(record.arrival.saturating_since(self.start), record.size);
        record.service_start = Some(self.at(served.start)).filter(|at| *at != Instant::FAR_FUTURE);

        if served.end == Duration::MAX {
            self.last_out = Instant::FAR_FUTURE;
            return Instant::FAR_FUTURE;
        }
        let departure = self.slots.map_or(served.end, |slots| slots.align(served.end));
        let departure = self.schedule.depart(departure);
        record.departure = Some(self.at(departure));
        let repair = self.harq.transmit(departure);
        record.failed_tries = repair.failed_tries;
        self.released = self.released.max(departure + repair.time);
        let is_faded = self.fades.is_lost(departure);
        let is_lost_after = self.loss_after.is_lost();
        let delay = self.delay.draw(self.released);
        if repair.is_lost {
            record.drop = Some(DropReason::HarqFailed);
        } else if is_faded {
            record.drop = Some(DropReason::Fade);
        } else if is_lost_after {
            record.drop = Some(DropReason::LossAfter);
        }
        if record.drop.is_some() {
            self.last_out = self.last_out.max(self.at(self.released));
        } else {
            self.last_out = self.last_out.max(self.at(self.released + delay));
            record.delivered = Some(self.last_out);
        }
        self.last_out
    }

    fn at(&self, since_start: Duration) -> Instant {
        self.start + since_start
    }
}

/// The record of a packet of which nothing but its arrival is known.
const fn fresh_record(id: PacketId, size: Bytes, arrival: Instant) -> PacketRecord {
    PacketRecord {
        id,
        size,
        arrival,
        service_start: None,
        departure: None,
        delivered: None,
        failed_tries: 0,
        drop: None,
    }
}

#[cfg(test)]
mod mahimahi;
#[cfg(test)]
mod tests;
