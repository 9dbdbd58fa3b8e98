//! [`Search`]: the load adjustment of RFC 9097 §8.1 and Appendix A.
//!
//! The receiver reports every 50 ms. While nothing is out of order, lost or repeated and the delay has
//! risen by less than 30 ms, the rate rises by ten rows of a table; while either is bad it falls, at the
//! first time of a trouble by thirty rows; between 30 and 90 ms it stays. After the first trouble it
//! goes one row at a time.

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
const FAST_BELOW: u32 = 1_000;
/// Rows to 10 Gbit/s.
const ROWS: u32 = 1_090;

/// The rate of a row: 0.5 Mbit/s, then steps of 1 Mbit/s to 1 Gbit/s, then of 100 Mbit/s.
#[must_use]
pub fn rate_of_row(row: u32) -> Rate {
    match row {
        0 => Rate::from_kbps(500),
        1..=1_000 => Rate::from_mbps(row.into()),
        _ => Rate::from_mbps(1_000 + 100 * u64::from(row.min(ROWS) - 1_000)),
    }
}

/// The sender's side of a search for the capacity.
#[derive(Clone, Debug)]
pub struct Search {
    row: u32,
    rate_max: Rate,
    bad_reports: u32,
}

impl Search {
    /// A search from the lowest row that does not go above `rate_max`.
    #[must_use]
    pub fn new(rate_max: Rate) -> Self {
        Self { row: 0, rate_max, bad_reports: 0 }
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
        if report.errors == 0 && delay < DELAY_LOW {
            if is_fast && self.bad_reports < BAD_REPORTS {
                self.row += FAST_ROWS;
                self.bad_reports = 0;
            } else {
                self.row += 1;
            }
            self.row = self.row.min(self.last_row());
        } else if report.errors > 0 || delay > DELAY_HIGH {
            self.bad_reports = self.bad_reports.saturating_add(1);
            let back = if is_fast && self.bad_reports == BAD_REPORTS { FAST_ROWS * 3 } else { 1 };
            self.row = self.row.saturating_sub(back);
        }
        self.rate()
    }

    /// The first row that the largest rate does not exceed.
    fn last_row(&self) -> u32 {
        let mbps = self.rate_max.as_bps().div_ceil(1_000_000);
        let row = if mbps > 1_000 { 1_000 + (mbps - 1_000).div_ceil(100) } else { mbps };
        u32::try_from(row).unwrap_or(ROWS).min(ROWS)
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
        let rates: Vec<u64> = (0..5).map(|_| search.on_status(&report(0, 10)).as_bps() / 1_000_000).collect();
        assert_eq!(rates, [10, 20, 30, 40, 50]);
        assert_eq!(search.on_status(&report(0, 60)), Rate::from_mbps(50), "between the thresholds it stays");
        assert_eq!(search.on_status(&report(0, 91)), Rate::from_mbps(49));
        assert_eq!(search.on_status(&report(1, 10)), Rate::from_mbps(48));
        assert_eq!(search.on_status(&report(1, 10)), Rate::from_mbps(18), "the third: thirty rows back");
        assert_eq!(search.on_status(&report(1, 10)), Rate::from_mbps(17));
        assert_eq!(search.on_status(&report(0, 10)), Rate::from_mbps(18), "one row at a time from here");
    }

    #[test]
    fn the_rate_stays_in_the_table_and_below_what_is_allowed() {
        let mut search = Search::new(Rate::from_kbps(25_500));
        for _ in 0..10 {
            search.on_status(&report(0, 0));
        }
        assert_eq!(search.rate(), Rate::from_kbps(25_500));
        for _ in 0..100 {
            search.on_status(&report(9, 500));
        }
        assert_eq!(search.rate(), Rate::from_kbps(500));
        let mut wide = Search::new(Rate::MAX);
        for _ in 0..3_000 {
            wide.on_status(&report(0, 0));
        }
        assert_eq!(wide.rate(), Rate::from_mbps(10_000));
    }
}
