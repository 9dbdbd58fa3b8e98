//! [`limit`]: how good a sender can be that is told everything, a little late.
//!
//! At each millisecond t the sender knows what the link could have carried up to t − D, and the queue at t
//! − D. From that it reckons the queue that what it sends will find, and fills it up to an aim:
//!
//! ```text
//!   q̂(t) = max(0, q(t − D) + sent in (t − D, t) − D·b̂_m)
//!   send max(0, T·b̂_M + q0 − q̂(t))
//! ```
//!
//! b̂_m and b̂_M are exponential averages of the known capacity over m and M. A grid search over T, q0, m
//! and M gives the points that no other beats: more of the link used, or a shorter queueing delay of 95 % of
//! the packets. It is the limit of this family of laws, not of all thinkable ones. There is no TCP in it: a
//! packet is 1500 bytes and one opportunity.

use std::collections::VecDeque;

use figures::stats;
use link::{OPPORTUNITY, Trace};
use serde::{Deserialize, Serialize};
use units::{Bytes, Duration};

/// Memories of the averages, in ms.
const MEMORIES_MS: [f64; 6] = [10.0, 25.0, 60.0, 150.0, 400.0, 1_500.0];
/// Queues aimed at, as time, in ms.
const AIMS_MS: [f64; 11] = [0.0, 3.0, 6.0, 12.0, 20.0, 30.0, 50.0, 80.0, 130.0, 220.0, 400.0];
/// Queues aimed at besides, in packets.
const FLOORS: [f64; 5] = [1.0, 4.0, 12.0, 30.0, 80.0];
/// Delays are counted by the millisecond up to here.
const DELAY_MAX: usize = 30_000;

/// One way to be told everything and make the best of it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct LimitPoint {
    /// Share of the opportunities that were used.
    pub utilisation: f64,
    /// 95th percentile of the packets' queueing delay.
    pub queue_p95_ms: f64,
    /// Mean of the same.
    pub queue_mean_ms: f64,
    /// T: queue aimed at, as time.
    pub aim_ms: f64,
    /// q0: queue aimed at besides.
    pub floor_packets: f64,
    /// m: memory of the forecast.
    pub forecast_memory_ms: f64,
    /// M: memory of the aim.
    pub aim_memory_ms: f64,
}

/// Opportunities in each millisecond of `[0, length)`.
fn slots(trace: &Trace, length: Duration) -> Vec<u32> {
    let count = |ms: u64| {
        let (from, to) = (Duration::from_millis(ms), Duration::from_millis(ms + 1));
        let bytes = trace.offered_bytes(from, to).get();
        u32::try_from(bytes / OPPORTUNITY.get()).unwrap_or(u32::MAX)
    };
    (0..length.as_millis()).map(count).collect()
}

/// The points that no other beats, rising in utilisation and delay, for knowledge that is `late` and a queue
/// of `queue` bytes.
#[must_use]
pub fn limit(trace: &Trace, length: Duration, late: Duration, queue: Bytes) -> Vec<LimitPoint> {
    let slots = slots(trace, length);
    let late = usize::try_from(late.as_millis()).unwrap_or(usize::MAX).max(1);
    let room = usize::try_from(queue.get() / OPPORTUNITY.get()).unwrap_or(usize::MAX);
    let averages = MEMORIES_MS.map(|memory| average(&slots, memory));
    let mut field = Field::new(&slots, late, room);
    let mut points = Vec::new();
    for (forecast, &forecast_memory_ms) in averages.iter().zip(&MEMORIES_MS) {
        for (aim, &aim_memory_ms) in averages.iter().zip(&MEMORIES_MS) {
            // Without an aim in time its memory is of no account.
            let is_first = aim_memory_ms == MEMORIES_MS[0];
            for aim_ms in AIMS_MS.into_iter().filter(|aim_ms| *aim_ms > 0.0 || is_first) {
                for floor_packets in FLOORS {
                    let law = Law { forecast, aim, aim_ms, floor_packets };
                    let (utilisation, queue_p95_ms, queue_mean_ms) = field.run(&law);
                    points.push(LimitPoint {
                        utilisation,
                        queue_p95_ms,
                        queue_mean_ms,
                        aim_ms,
                        floor_packets,
                        forecast_memory_ms,
                        aim_memory_ms,
                    });
                }
            }
        }
    }
    front(points)
}

/// The point of `points` with at least `utilisation`, or the best used one, and the smallest delay.
#[must_use]
pub fn limit_at(points: &[LimitPoint], utilisation: f64) -> Option<LimitPoint> {
    points.iter().find(|point| point.utilisation >= utilisation).or(points.last()).copied()
}

/// Exponential average of what was offered, in packets per ms.
fn average(slots: &[u32], memory_ms: f64) -> Vec<f64> {
    let mut value = 0.0;
    let mut heard = 0.0;
    slots
        .iter()
        .map(|slot| {
            // At the beginning, the plain mean of what is known.
            heard += 1.0;
            value += (f64::from(*slot) - value) / memory_ms.min(heard);
            value
        })
        .collect()
}

struct Law<'a> {
    forecast: &'a [f64],
    aim: &'a [f64],
    aim_ms: f64,
    floor_packets: f64,
}

/// A link and its sender; kept for its memory.
struct Field<'a> {
    slots: &'a [u32],
    late: usize,
    /// Packets that fit into the queue.
    room: usize,
    /// Packets that wait: the ms of an arrival and the packets left of it. Time counts, not packets: fast
    /// links have many.
    queue: VecDeque<(u32, u32)>,
    /// Packets sent until the end of each ms, and waiting at it.
    sent: Vec<usize>,
    waiting: Vec<usize>,
    delays: Vec<u32>,
}

impl<'a> Field<'a> {
    fn new(slots: &'a [u32], late: usize, room: usize) -> Self {
        let (queue, sent, waiting) = (VecDeque::new(), Vec::new(), Vec::new());
        Self { slots, late, room, queue, sent, waiting, delays: vec![0; DELAY_MAX + 1] }
    }

    /// Utilisation, 95th percentile and mean of the delay in ms.
    fn run(&mut self, law: &Law<'_>) -> (f64, f64, f64) {
        self.queue.clear();
        self.sent.clear();
        self.waiting.clear();
        self.delays.fill(0);
        let (mut head, mut sent, mut offered, mut delay_sum) = (0, 0, 0, 0u64);
        for (now, &slot) in self.slots.iter().enumerate() {
            let wanted = self.wanted(now, law);
            if wanted > 0 {
                self.queue.push_back((now as u32, wanted as u32));
                sent += wanted;
            }
            offered += slot as usize;
            let mut left = slot;
            while left > 0
                && let Some((arrival, count)) = self.queue.front_mut()
            {
                let served = left.min(*count);
                let delay = now - *arrival as usize;
                self.delays[delay.min(DELAY_MAX)] += served;
                delay_sum += delay as u64 * u64::from(served);
                (left, head, *count) = (left - served, head + served as usize, *count - served);
                if *count == 0 {
                    self.queue.pop_front();
                }
            }
            self.sent.push(sent);
            self.waiting.push(sent - head);
        }
        let counts = self.delays.iter().enumerate().map(|(ms, count)| (ms, u64::from(*count)));
        let p95 = stats::percentile_of_counts(counts, 950).unwrap_or(0);
        (head as f64 / offered.max(1) as f64, p95 as f64, delay_sum as f64 / head.max(1) as f64)
    }

    /// Packets to send at `now`.
    fn wanted(&self, now: usize, law: &Law<'_>) -> usize {
        let Some(known) = now.checked_sub(self.late) else {
            // Nothing is known: the floor alone, once.
            return if now == 0 { law.floor_packets as usize } else { 0 };
        };
        let under_way = self.sent[now - 1] - self.sent[known];
        let expected = (self.waiting[known] + under_way) as f64 - self.late as f64 * law.forecast[known];
        let aim = law.aim_ms * law.aim[known] + law.floor_packets;
        let wanted = (aim - expected.max(0.0)).max(0.0) as usize;
        wanted.min(self.room.saturating_sub(self.waiting[now - 1]))
    }
}

/// Points that no other beats, rising.
fn front(mut points: Vec<LimitPoint>) -> Vec<LimitPoint> {
    points.sort_by(|a, b| {
        b.utilisation.total_cmp(&a.utilisation).then(a.queue_p95_ms.total_cmp(&b.queue_p95_ms))
    });
    let mut best = f64::INFINITY;
    points.retain(|point| {
        let is_better = point.queue_p95_ms < best;
        best = best.min(point.queue_p95_ms);
        is_better
    });
    points.reverse();
    points
}

#[cfg(test)]
mod tests {
    use super::*;

    fn limit_of(opportunities: impl Iterator<Item = u64>, late_ms: u64) -> Vec<LimitPoint> {
        let trace = Trace::from_opportunities_ms(opportunities).unwrap();
        limit(&trace, Duration::from_secs(10), Duration::from_millis(late_ms), Bytes::new(4_000_000))
    }

    #[test]
    fn a_steady_link_is_used_without_a_queue() {
        let points = limit_of(1..=1_000, 20);
        let best = limit_at(&points, 0.99).unwrap();
        assert!(best.utilisation > 0.99 && best.queue_p95_ms <= 2.0, "{best:?}");
        assert!(points.windows(2).all(|p| p[0].utilisation < p[1].utilisation));
        assert!(points.windows(2).all(|p| p[0].queue_p95_ms < p[1].queue_p95_ms));
    }

    #[test]
    fn later_knowledge_of_a_changing_link_costs_delay() {
        // 200 ms at 24 Mbit/s, 200 ms at 3 Mbit/s in turn.
        let times = || {
            (1..=10_000u64).flat_map(|ms| {
                let count = if ms / 200 % 2 == 0 { 2 } else { u64::from(ms % 4 == 0) };
                (0..count).map(move |_| ms)
            })
        };
        let (early, late) = (limit_of(times(), 5), limit_of(times(), 100));
        let p95 = |points: &[LimitPoint]| limit_at(points, 0.97).unwrap().queue_p95_ms;
        assert!(p95(&early) * 2.0 < p95(&late), "{} {}", p95(&early), p95(&late));
    }

    #[test]
    fn averages_begin_with_the_mean_of_what_is_known() {
        assert_eq!(average(&[2, 0, 1], 100.0), [2.0, 1.0, 1.0]);
    }
}
