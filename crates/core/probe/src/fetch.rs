//! [`Fetch`]: brings the arrivals of a run up over from the server, with several questions under way.

use std::collections::BTreeMap;

use units::{Duration, Instant};

use crate::message::{Arrival, RECORDS_MAX};

/// Questions under way at once.
const WINDOW: usize = 8;
/// Time after which a question is asked again.
const RETRY: Duration = Duration::from_millis(800);

/// Parts that are still wanted, and parts that have come.
#[derive(Debug)]
pub(crate) struct Fetch {
    /// Ranges by the first record wanted: the end, and when to ask (again).
    wanted: BTreeMap<u32, (u32, Instant)>,
    came: BTreeMap<u32, Vec<Arrival>>,
}

impl Fetch {
    pub(crate) fn new(total: u32, now: Instant) -> Self {
        let starts = (0..total).step_by(RECORDS_MAX as usize);
        let wanted = starts.map(|from| (from, (total.min(from + RECORDS_MAX), now))).collect();
        Self { wanted, came: BTreeMap::new() }
    }

    /// The record to ask for at `now`.
    pub(crate) fn poll(&mut self, now: Instant) -> Option<u32> {
        let (from, (_, at)) = self.wanted.iter_mut().take(WINDOW).find(|(_, (_, at))| *at <= now)?;
        *at = now + RETRY;
        Some(*from)
    }

    pub(crate) fn next_deadline(&self) -> Option<Instant> {
        self.wanted.values().take(WINDOW).map(|(_, at)| *at).min()
    }

    pub(crate) fn on_records(&mut self, from: u32, mut arrivals: Vec<Arrival>, now: Instant) {
        let Some((end, _)) = self.wanted.get(&from).copied() else { return };
        arrivals.truncate((end - from) as usize);
        if arrivals.is_empty() {
            return;
        }
        self.wanted.remove(&from);
        let next = from + arrivals.len() as u32;
        if next < end {
            self.wanted.insert(next, (end, now));
        }
        self.came.insert(from, arrivals);
    }

    pub(crate) fn is_done(&self) -> bool {
        self.wanted.is_empty()
    }

    /// All that came, in the order of arrival.
    pub(crate) fn arrivals(&mut self) -> Vec<Arrival> {
        std::mem::take(&mut self.came).into_values().flatten().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_record_comes_once_whatever_is_lost_and_however_few_fit() {
        let total = 1_000;
        let all: Vec<Arrival> =
            (0..total).map(|number| Arrival { number, at: Instant::from_micros(number.into()) }).collect();
        let mut fetch = Fetch::new(total, Instant::ZERO);
        let (mut now, mut asked) = (Instant::ZERO, 0);
        while let Some(at) = fetch.next_deadline() {
            now = now.max(at);
            let from = fetch.poll(now).unwrap();
            asked += 1;
            // Every third answer is lost; 100 records fit.
            if asked % 3 > 0 {
                let part = all[from as usize..].iter().take(100).copied().collect();
                fetch.on_records(from, part, now);
            }
        }
        assert!(fetch.is_done());
        assert_eq!(fetch.arrivals(), all);
    }
}
