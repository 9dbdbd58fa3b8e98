//! [`Receiver`]: notes every arrival, and reports from time to time.

use std::collections::BTreeMap;

use units::{Duration, Instant};

use crate::message::{Arrival, RunSummary, StatusReport};

/// RFC 9097 Table 1: reports of a search.
pub(crate) const SEARCH_REPORTS: Duration = Duration::from_millis(50);
/// Reports of a steady run, which say that both ends are there.
pub(crate) const STEADY_REPORTS: Duration = Duration::from_millis(200);

/// Notes the arrivals of one run.
#[derive(Clone, Debug, Default)]
pub struct Receiver {
    numbers: Vec<u32>,
    times: Vec<Instant>,
    /// Largest number so far, plus one.
    next: u32,
    recent: u32,
    errors: u32,
    /// Receiver's clock less sender's, ns: smallest of the run, largest since the last report.
    delay_min: Option<i64>,
    delay_max: Option<i64>,
    last: Option<Instant>,
    /// A bit for each number that came, 64 in a row by their number ÷ 64. Rows of which nothing came are not
    /// there: a number is what a stranger says, and takes no more room than another.
    seen: BTreeMap<u32, u64>,
    distinct: u32,
    packets: u32,
}

impl Receiver {
    /// A receiver of a run of at most `packets`; what has a larger number, or comes when twice as many have
    /// come, is not from the run.
    #[must_use]
    pub fn new(packets: u64) -> Self {
        Self { packets: u32::try_from(packets).unwrap_or(u32::MAX), ..Self::default() }
    }

    /// Packet `number`, sent at `sent` by its sender's clock, came at `at`.
    pub fn on_data(&mut self, number: u32, sent: Instant, at: Instant) {
        if number >= self.packets || self.numbers.len() / 2 >= self.packets as usize {
            return;
        }
        self.note(number);
        self.numbers.push(number);
        self.times.push(at);
        self.recent += 1;
        self.last = Some(at);
        if number >= self.next {
            self.errors = self.errors.saturating_add(number - self.next);
            self.next = number.saturating_add(1);
        } else {
            self.errors = self.errors.saturating_add(1);
        }
        let delay = at.as_nanos().cast_signed().wrapping_sub(sent.as_nanos().cast_signed());
        self.delay_min = Some(self.delay_min.map_or(delay, |least| least.min(delay)));
        self.delay_max = Some(self.delay_max.map_or(delay, |most| most.max(delay)));
    }

    fn note(&mut self, number: u32) {
        let bit = 1_u64 << (number % 64);
        let row = self.seen.entry(number / 64).or_insert(0);
        if *row & bit == 0 {
            *row |= bit;
            self.distinct += 1;
        }
    }

    /// The run is over: what only tells repeated packets goes.
    pub(crate) fn end(&mut self) {
        self.seen = BTreeMap::new();
    }

    /// Arrivals that are kept.
    pub(crate) fn kept(&self) -> usize {
        self.numbers.len()
    }

    /// Report on what came since the last report; the next one begins here.
    pub fn report(&mut self) -> StatusReport {
        let delay = match (self.delay_min, self.delay_max) {
            (Some(least), Some(most)) => most.saturating_sub(least).max(0).unsigned_abs() / 1_000,
            _ => 0,
        };
        let report = StatusReport {
            received: self.distinct,
            next: self.next,
            recent: self.recent,
            errors: self.errors,
            delay_us: u32::try_from(delay).unwrap_or(u32::MAX),
        };
        (self.recent, self.errors, self.delay_max) = (0, 0, None);
        report
    }

    /// Packets received, each once.
    #[must_use]
    pub fn distinct(&self) -> u32 {
        self.distinct
    }

    /// Packets received, repeated ones as often as they came.
    #[must_use]
    pub fn received(&self) -> u32 {
        u32::try_from(self.numbers.len()).unwrap_or(u32::MAX)
    }

    /// Arrival time of the last one.
    #[must_use]
    pub fn last(&self) -> Option<Instant> {
        self.last
    }

    /// The largest number so far plus one.
    #[must_use]
    pub fn next(&self) -> u32 {
        self.next
    }

    /// Arrivals from the `from`th on, at most `count`.
    #[must_use]
    pub fn arrivals(&self, from: u32, count: u32) -> Vec<Arrival> {
        let from = from as usize;
        let both = self.numbers.iter().zip(&self.times).skip(from).take(count as usize);
        both.map(|(number, at)| Arrival { number: *number, at: *at }).collect()
    }

    /// Fills the receiver's part of a summary.
    pub fn summarise(&self, summary: &mut RunSummary) {
        summary.received = self.received();
    }
}

/// Timer of the next report.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ReportTimer {
    pub(crate) every: Duration,
    pub(crate) at: Instant,
    pub(crate) number: u32,
}

impl ReportTimer {
    pub(crate) fn new(every: Duration, now: Instant) -> Self {
        Self { every, at: now + every, number: 0 }
    }

    /// The number of the report that is due at `now`.
    pub(crate) fn poll(&mut self, now: Instant) -> Option<u32> {
        if now < self.at {
            return None;
        }
        self.at = now + self.every;
        self.number += 1;
        Some(self.number)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reports_count_gaps_late_and_repeated_packets() {
        let mut receiver = Receiver::new(100);
        // The sender's clock is far ahead: only differences count.
        let on = |receiver: &mut Receiver, number: u32, delay_ms: u64| {
            let sent = Instant::from_millis(1_000_000 + u64::from(number));
            receiver.on_data(number, sent, Instant::from_millis(u64::from(number) + delay_ms));
        };
        on(&mut receiver, 0, 20);
        on(&mut receiver, 1, 25);
        assert_eq!(
            receiver.report(),
            StatusReport { received: 2, next: 2, recent: 2, errors: 0, delay_us: 5_000 }
        );
        on(&mut receiver, 5, 20);
        on(&mut receiver, 3, 22);
        on(&mut receiver, 5, 60);
        let report = receiver.report();
        assert_eq!((report.errors, report.recent, report.next), (5, 3, 6), "3 left out, 1 late, 1 repeated");
        assert_eq!(report.delay_us, 40_000);
        assert_eq!(receiver.report().delay_us, 0, "nothing came");
        assert_eq!(receiver.arrivals(3, 9).iter().map(|a| a.number).collect::<Vec<_>>(), [3, 5]);
    }
}
