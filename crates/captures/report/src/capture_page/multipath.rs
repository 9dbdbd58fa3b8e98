//! Connections of Multipath TCP as the page shows them: figures, and mappings for the graph of data sequence
//! numbers.

use analysis::{MappingNews, MappingSeen, MptcpReport};
use serde::Serialize;
use units::Duration;

/// A connection with its mappings.
#[derive(Serialize)]
pub(super) struct Connection<'a> {
    #[serde(flatten)]
    report: &'a MptcpReport,
    /// From the client, and to it.
    mappings: [Mappings; 2],
    mappings_left_out: u64,
    /// Waits until in order by data sequence number, by direction.
    waits: [Waits; 2],
}

/// Delays, milliseconds: those above zero, thinned, and of how many.
#[derive(Serialize)]
struct Waits {
    n: usize,
    /// Of `n`, those in `late` before it was thinned.
    late_n: usize,
    late: Vec<f64>,
}

/// Points of a curve at most.
const POINTS_MAX: usize = 500;

impl Waits {
    fn of(delays: &[Duration]) -> Self {
        let late = &delays[delays.partition_point(|delay| delay.is_zero())..];
        let step = late.len().div_ceil(POINTS_MAX).max(1);
        // From the longest down, so that it is among them.
        let mut thinned: Vec<f64> = late
            .iter()
            .rev()
            .step_by(step)
            .map(|delay| (delay.as_millis_f64() * 1e3).round() / 1e3)
            .collect();
        thinned.reverse();
        Self { n: delays.len(), late_n: late.len(), late: thinned }
    }
}

/// Mappings as columns; each number is what differs from the prediction, so that it packs well.
#[derive(Default, Serialize)]
struct Mappings {
    /// Microseconds since the mapping before; the first since the page's origin.
    t: Vec<i64>,
    /// Start, from the end of the mapping before; the first is position zero.
    p: Vec<i64>,
    /// Bytes.
    n: Vec<u32>,
    /// Four times the subflow, and 0 for fresh bytes, 1 for a reinjection, 2 for a repetition.
    k: Vec<u32>,
}

impl<'a> Connection<'a> {
    pub(super) fn of(report: &'a MptcpReport, origin_ns: u64) -> Self {
        let mappings = [0, 1].map(|direction| Mappings::of(&report.mappings[direction], origin_ns));
        let waits = [0, 1].map(|direction| Waits::of(&report.delays[direction]));
        Self { report, mappings, mappings_left_out: report.mappings_left_out, waits }
    }
}

impl Mappings {
    fn of(seen: &[MappingSeen], origin_ns: u64) -> Self {
        let mut found = Self::default();
        let mut time_us = 0;
        let mut next = seen.first().map_or(0, |first| first.start);
        for one in seen {
            let now_us = (one.time.as_nanos() as i64 - origin_ns as i64) / 1_000;
            found.t.push(now_us - time_us);
            found.p.push(one.start.wrapping_sub(next).cast_signed());
            found.n.push(one.len);
            let news = match one.news {
                MappingNews::Fresh => 0,
                MappingNews::Reinjected => 1,
                MappingNews::Repeated => 2,
            };
            found.k.push(u32::from(one.subflow) * 4 + news);
            time_us = now_us;
            next = one.start.wrapping_add(u64::from(one.len));
        }
        found
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use units::Instant;

    #[test]
    fn waits_are_thinned_but_for_the_longest() {
        let delays: Vec<Duration> = (0..2_000).map(|n| Duration::from_millis(n / 2)).collect();
        let waits = Waits::of(&delays);
        assert_eq!((waits.n, waits.late_n, waits.late.len()), (2_000, 1_998, 500));
        assert_eq!(waits.late.last(), Some(&999.0));
    }

    #[test]
    fn mappings_are_differences() {
        let seen = |us, start, subflow, news| MappingSeen {
            time: Instant::from_micros(us),
            start,
            len: 100,
            subflow,
            news,
        };
        let found = Mappings::of(
            &[
                seen(1_010, u64::MAX - 49, 0, MappingNews::Fresh),
                seen(1_030, 50, 1, MappingNews::Fresh),
                seen(1_025, u64::MAX - 49, 1, MappingNews::Reinjected),
            ],
            1_000_000,
        );
        assert_eq!(found.t, [10, 20, -5]);
        assert_eq!(found.p, [0, 0, -200], "numbers wrap");
        assert_eq!(found.k, [0, 4, 5]);
    }
}
