//! [`Summary`] and [`time_bins`]: figures from the per-packet log.

use units::{Bytes, Duration, Instant, Rate};

use crate::{DropReason, PacketRecord, Percentiles};

/// Figures of a link in an interval, computed from its log alone.
///
/// A packet belongs to the interval in which its service ended, a packet dropped ahead of service to
/// the one in which it arrived.
#[derive(Clone, Debug, PartialEq)]
pub struct Summary {
    /// Begin of the interval.
    pub from: Instant,
    /// End of the interval, not part of it.
    pub to: Instant,
    /// Packets served in the interval and delivered.
    pub delivered_packets: u64,
    /// Their bytes.
    pub delivered_bytes: Bytes,
    /// Their bytes over the interval's length.
    pub throughput: Rate,
    /// Bytes that the link could have served.
    pub offered_bytes: Bytes,
    /// `delivered_bytes ÷ offered_bytes`; zero when nothing or everything was offered.
    pub utilisation: f64,
    /// Time from arrival to the end of service, of the delivered packets.
    pub queueing_delay: Percentiles,
    /// Time from arrival to delivery.
    pub one_way_delay: Percentiles,
    /// Lost ahead of the queue, by a policer too.
    pub lost_before: u64,
    /// Dropped by the full queue.
    pub queue_full: u64,
    /// Lost after the last radio try.
    pub harq_failed: u64,
    /// Lost in fades.
    pub faded: u64,
    /// Lost behind the queue.
    pub lost_after: u64,
}

impl Summary {
    /// Figures of the interval `[from, to)`. `offered` is [`crate::Link::offered_bytes`] for that interval.
    #[must_use]
    pub fn from_records(records: &[PacketRecord], offered: Bytes, from: Instant, to: Instant) -> Self {
        let inside = |at: Instant| from <= at && at < to;
        let belongs = |record: &&PacketRecord| inside(record.departure.unwrap_or(record.arrival));
        let dropped = |reason: DropReason| {
            records.iter().filter(belongs).filter(|record| record.drop == Some(reason)).count() as u64
        };
        let delivered: Vec<&PacketRecord> = records
            .iter()
            .filter(|record| record.delivered.is_some() && record.departure.is_some_and(inside))
            .collect();
        let bytes = delivered.iter().fold(Bytes::ZERO, |sum, record| sum + record.size);
        let is_counted = offered != Bytes::ZERO && offered != Bytes::MAX;
        Self {
            from,
            to,
            delivered_packets: delivered.len() as u64,
            delivered_bytes: bytes,
            throughput: rate_or_zero(bytes, to.saturating_since(from)),
            offered_bytes: offered,
            utilisation: if is_counted { bytes.get() as f64 / offered.get() as f64 } else { 0.0 },
            queueing_delay: Percentiles::of(delivered.iter().filter_map(|r| r.queueing_delay()).collect()),
            one_way_delay: Percentiles::of(delivered.iter().filter_map(|r| r.one_way_delay()).collect()),
            lost_before: dropped(DropReason::LossBefore),
            queue_full: dropped(DropReason::QueueFull),
            harq_failed: dropped(DropReason::HarqFailed),
            faded: dropped(DropReason::Fade),
            lost_after: dropped(DropReason::LossAfter),
        }
    }
}

fn rate_or_zero(bytes: Bytes, time: Duration) -> Rate {
    if time.is_zero() { Rate::ZERO } else { Rate::from_transfer(bytes, time) }
}

/// One interval of a time series.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bin {
    /// Begin of the interval.
    pub start: Instant,
    /// Rate of the delivered bytes served in it.
    pub throughput: Rate,
    /// Rate offered in it; [`Rate::MAX`] when unlimited.
    pub capacity: Rate,
    /// Mean queueing delay of the packets served in it; none when there was none.
    pub queueing_delay_mean: Option<Duration>,
    /// Largest queueing delay of the packets served in it.
    pub queueing_delay_max: Option<Duration>,
    /// Packets dropped for any reason.
    pub dropped_packets: u64,
}

/// Cuts `[from, to)` into bins of `width`, the last one maybe shorter. `offered` is
/// [`crate::Link::offered_bytes`]. No bins for a width of zero.
pub fn time_bins(
    records: &[PacketRecord],
    offered: impl Fn(Instant, Instant) -> Bytes,
    (from, to): (Instant, Instant),
    width: Duration,
) -> Vec<Bin> {
    if width.is_zero() {
        return Vec::new();
    }
    let count = to.saturating_since(from).as_nanos().div_ceil(width.as_nanos());
    let mut sums = vec![Sums::default(); usize::try_from(count).unwrap_or(0)];
    for record in records {
        let at = record.departure.unwrap_or(record.arrival);
        if at < from || at >= to {
            continue;
        }
        let index = usize::try_from(at.saturating_since(from).as_nanos() / width.as_nanos());
        if let Some(sum) = index.ok().and_then(|index| sums.get_mut(index)) {
            sum.add(record);
        }
    }
    let mut start = from;
    let mut bins = Vec::with_capacity(sums.len());
    for sum in sums {
        let end = (start + width).min(to);
        let length = end.saturating_since(start);
        let capacity = offered(start, end);
        bins.push(Bin {
            start,
            throughput: rate_or_zero(sum.bytes, length),
            capacity: if capacity == Bytes::MAX { Rate::MAX } else { rate_or_zero(capacity, length) },
            queueing_delay_mean: (sum.count > 0).then(|| sum.delay_total / sum.count),
            queueing_delay_max: (sum.count > 0).then_some(sum.delay_max),
            dropped_packets: sum.dropped,
        });
        start = end;
    }
    bins
}

#[derive(Clone, Copy, Default)]
struct Sums {
    bytes: Bytes,
    count: u64,
    delay_total: Duration,
    delay_max: Duration,
    dropped: u64,
}

impl Sums {
    fn add(&mut self, record: &PacketRecord) {
        if let Some(delay) = record.queueing_delay() {
            self.count += 1;
            self.delay_total += delay;
            self.delay_max = self.delay_max.max(delay);
        }
        if record.delivered.is_some() {
            self.bytes += record.size;
        }
        self.dropped += u64::from(record.drop.is_some());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Capacity, Link, LinkConfig, QueueLimit};

    /// 12 Mbit/s serves a full packet per millisecond; 100 packets at once into a queue of 49.
    fn run() -> Link<()> {
        let config = LinkConfig {
            capacity: Capacity::Constant(Rate::from_mbps(12)),
            queue: QueueLimit::Packets(49),
            ..LinkConfig::default()
        };
        let mut link = Link::new(&config, Instant::ZERO).unwrap();
        for _ in 0..100 {
            let _ = link.enqueue((), Bytes::new(1500), Instant::ZERO);
        }
        link
    }

    #[test]
    fn figures_of_a_full_link() {
        let mut link = run();
        let log = link.take_log();
        let (from, to) = (Instant::ZERO, Instant::from_millis(100));
        let summary = Summary::from_records(&log, link.offered_bytes(from, to), from, to);
        assert_eq!((summary.delivered_packets, summary.queue_full), (50, 50));
        assert_eq!(summary.offered_bytes, Bytes::new(150_000));
        assert!((summary.utilisation - 0.5).abs() < 1e-12);
        assert_eq!(summary.throughput, Rate::from_mbps(6));
        assert_eq!(summary.queueing_delay.p50, Duration::from_millis(25));
        assert_eq!(summary.queueing_delay.max, Duration::from_millis(50));
    }

    #[test]
    fn bins_cover_the_interval() {
        let mut link = run();
        let log = link.take_log();
        let span = (Instant::ZERO, Instant::from_millis(95));
        let bins = time_bins(&log, |from, to| link.offered_bytes(from, to), span, Duration::from_millis(10));
        assert_eq!(bins.len(), 10);
        assert_eq!(bins[1].throughput, Rate::from_mbps(12));
        assert_eq!(bins[1].queueing_delay_max, Some(Duration::from_millis(19)));
        assert_eq!((bins[9].throughput, bins[9].capacity), (Rate::ZERO, Rate::from_mbps(12)));
        assert_eq!(bins[0].dropped_packets, 50);
        assert_eq!(bins.iter().map(|bin| bin.throughput.as_bps()).sum::<u64>() / 100, 600_000);
    }
}
