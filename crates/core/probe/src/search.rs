//! [`Search`]: the load adjustment of RFC 9097 §8.1 and Appendix A, with two deviations.
//!
//! The receiver reports every 50 ms. While nothing is out of order, lost or repeated and the delay has
//! risen by less than 30 ms, the rate rises by ten rows of a table; while either is bad it falls, at the
//! first time of a trouble by thirty rows; between 30 and 90 ms it stays. After the first trouble it
//! goes one row at a time.
//!
//! DEVIATION: below 10 Mbit/s the rows are 0.1 Mbit/s apart, not 1 Mbit/s: a link of 1 or 2 Mbit/s lies
//! between two rows of the RFC's table. Shown by `slow_links_are_found_between_whole_megabits`.
//!
//! DEVIATION: losses that come as often while nothing waits are the path's, not the load's. RFC 9097
//! takes each for overload, and stops far below the capacity of a path that loses packets at random.
//! Shown by `losses_at_random_do_not_stop_it`.

use units::{Duration, Rate};

use crate::message::StatusReport;

/// RFC 9097 Table 1: lower threshold of the delay range.
const DELAY_LOW: Duration = Duration::from_millis(30);
/// RFC 9097 Table 1: upper threshold.
const DELAY_HIGH: Duration = Duration::from_millis(90);
/// RFC 9097 Appendix A, `highSpeedDelta`, rows.
const FAST_ROWS: u32 = 10;
/// RFC 9097 Appendix A, `slowAdjThresh`: bad reports in a row before the large step back.
const BAD_REPORTS: u32 = 3;
/// RFC 9097 Appendix A, `hSpeedThresh`: at 1 Gbit/s and above the steps are single rows.
const FAST_BELOW: u32 = 1_089;
/// 0.5 Mbit/s.
const FIRST_ROW: u32 = 4;
/// The last row: 10 Gbit/s.
const ROWS: u32 = 1_179;

/// Rows to 10 Mbit/s, beyond those that the same steps of 1 Mbit/s would take.
const FINE: u32 = 90;
/// Packets that count as seen before the first, and losses among them: 0.2 %.
const PRIOR: (f64, f64) = (500.0, 1.0);
/// Losses are learned from reports with less delay than this, and not more of them than …
const LEARN_DELAY: Duration = Duration::from_millis(10);
/// … this share.
const LEARN_SHARE: f64 = 0.1;
/// Deviations above the usual losses up to which losses are usual.
const DEVIATIONS: f64 = 3.0;

/// The rate of a row: steps of 0.1 Mbit/s to 10 Mbit/s, of 1 Mbit/s to 1 Gbit/s, then of 100 Mbit/s.
#[must_use]
pub fn rate_of_row(row: u32) -> Rate {
    match row {
        0..=99 => Rate::from_kbps(100 * (u64::from(row) + 1)),
        100..=1_089 => Rate::from_mbps(u64::from(row - FINE) + 1),
        _ => Rate::from_mbps(1_000 + 100 * u64::from(row.min(ROWS) - 1_089)),
    }
}

/// The sender's side of a search for the capacity.
#[derive(Clone, Debug)]
pub struct Search {
    row: u32,
    rate_max: Rate,
    bad_reports: u32,
    /// Packets and losses of reports without delay.
    usual: (f64, f64),
}

impl Search {
    /// A search from 0.5 Mbit/s that does not go above `rate_max`.
    #[must_use]
    pub fn new(rate_max: Rate) -> Self {
        Self { row: FIRST_ROW, rate_max, bad_reports: 0, usual: PRIOR }
    }

    /// The present rate.
    #[must_use]
    pub fn rate(&self) -> Rate {
        rate_of_row(self.row).min(self.rate_max)
    }

    /// The rate after a report.
    pub fn on_status(&mut self, report: &StatusReport) -> Rate {
        // Nothing came: neither good nor bad is known of a path that is interrupted.
        if report.recent == 0 {
            return self.rate();
        }
        let delay = Duration::from_micros(report.delay_us.into());
        let is_fast = self.row < FAST_BELOW;
        let is_lossy = !self.is_usual(report, delay);
        if !is_lossy && delay < DELAY_LOW {
            if is_fast && self.bad_reports < BAD_REPORTS {
                self.row += FAST_ROWS;
                self.bad_reports = 0;
            } else {
                self.row += 1;
            }
            self.row = self.row.min(self.last_row());
        } else if is_lossy || delay > DELAY_HIGH {
            self.bad_reports = self.bad_reports.saturating_add(1);
            let back = if is_fast && self.bad_reports == BAD_REPORTS { FAST_ROWS * 3 } else { 1 };
            self.row = self.row.saturating_sub(back);
        }
        self.rate()
    }

    /// True when the losses of a report are no more than the path's own.
    fn is_usual(&mut self, report: &StatusReport, delay: Duration) -> bool {
        let (packets, errors) =
            (f64::from(report.recent) + f64::from(report.errors), f64::from(report.errors));
        let expected = packets * self.usual.1 / self.usual.0;
        let is_usual = errors <= expected + DEVIATIONS * expected.sqrt();
        // While a queue builds, what is lost may be for want of room in it.
        if delay < LEARN_DELAY && errors <= (packets * LEARN_SHARE).max(1.0) {
            self.usual = (self.usual.0 + packets, self.usual.1 + errors);
        }
        is_usual
    }

    /// The first row that the largest rate does not exceed.
    fn last_row(&self) -> u32 {
        (0..ROWS).find(|row| rate_of_row(*row) >= self.rate_max).unwrap_or(ROWS)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report(errors: u32, delay_ms: u32) -> StatusReport {
        StatusReport { recent: 1, errors, delay_us: delay_ms * 1_000, ..StatusReport::default() }
    }

    #[test]
    fn the_rate_rises_fast_until_the_third_bad_report_then_row_by_row() {
        let mut search = Search::new(Rate::from_mbps(10_000));
        assert_eq!(search.rate(), Rate::from_kbps(500));
        let rates: Vec<u64> = (0..14).map(|_| search.on_status(&report(0, 10)).as_bps() / 100_000).collect();
        assert_eq!(rates, [15, 25, 35, 45, 55, 65, 75, 85, 95, 150, 250, 350, 450, 550]);
        assert_eq!(search.on_status(&report(0, 60)), Rate::from_mbps(55), "between the thresholds it stays");
        assert_eq!(search.on_status(&report(0, 91)), Rate::from_mbps(54));
        assert_eq!(search.on_status(&report(1, 20)), Rate::from_mbps(53));
        assert_eq!(search.on_status(&report(1, 20)), Rate::from_mbps(23), "the third: thirty rows back");
        assert_eq!(search.on_status(&report(1, 20)), Rate::from_mbps(22));
        assert_eq!(search.on_status(&report(0, 10)), Rate::from_mbps(23), "one row at a time from here");
    }

    #[test]
    fn the_rate_stays_in_the_table_and_below_what_is_allowed() {
        let mut search = Search::new(Rate::from_kbps(25_500));
        for _ in 0..20 {
            search.on_status(&report(0, 0));
        }
        assert_eq!(search.rate(), Rate::from_kbps(25_500));
        for _ in 0..100 {
            search.on_status(&report(9, 500));
        }
        assert_eq!(search.rate(), Rate::from_kbps(100));
        let mut wide = Search::new(Rate::MAX);
        for _ in 0..3_000 {
            wide.on_status(&report(0, 0));
        }
        assert_eq!(wide.rate(), Rate::from_mbps(10_000));
        assert_eq!(
            [99, 100, 1_089, 1_090].map(|row| rate_of_row(row).as_bps() / 1_000_000),
            [10, 11, 1_000, 1_100]
        );
    }

    /// A link of `capacity` with a queue of 100 ms that loses `loss` of what comes: the mean rate of the last
    /// 10 of 20 s.
    fn found(capacity: f64, loss: f64) -> f64 {
        let mut search = Search::new(Rate::from_mbps(1_000));
        let (mut queue, mut credit, mut sum) = (0.0_f64, 0.0_f64, 0.0);
        for turn in 0..400 {
            let mbps = search.rate().as_mbps_f64();
            let packets = (mbps * 1e6 * 0.05 / 11_200.0).max(1.0);
            // Losses come as evenly as they can: at random they come in heaps, which 3 deviations allow for.
            credit += packets * loss;
            let lost = credit.floor();
            credit -= lost;
            queue += (mbps * (1.0 - loss) - capacity) * 0.05;
            let full = (queue - capacity * 0.1).max(0.0) * 1e6 / 11_200.0;
            queue = queue.clamp(0.0, capacity * 0.1);
            search.on_status(&StatusReport {
                recent: packets as u32,
                errors: (lost + full) as u32,
                delay_us: (queue / capacity * 1e6) as u32,
                ..StatusReport::default()
            });
            if turn >= 200 {
                sum += mbps / 200.0;
            }
        }
        sum
    }

    #[test]
    fn slow_links_are_found_between_whole_megabits() {
        for capacity in [0.3, 0.8, 1.4, 2.6, 4.7] {
            let rate = found(capacity, 0.0);
            assert!((rate / capacity - 1.0).abs() < 0.25, "{rate} for {capacity} Mbit/s");
        }
    }

    #[test]
    fn losses_at_random_do_not_stop_it() {
        for loss in [0.001, 0.01, 0.03] {
            let rate = found(40.0, loss);
            assert!((0.85..1.2).contains(&(rate / 40.0)), "{rate} for 40 Mbit/s with {loss} lost");
        }
    }
}
