//! Throughput of one direction in bins of 100 ms.

use units::{Bytes, Duration, Instant};

use crate::samples::Samples;

/// Width of the bins that throughput percentiles are taken over.
pub(crate) const BIN: Duration = Duration::from_millis(100);

/// Empty bins between two with data that count at most: nobody waits longer than a minute for a transfer.
const EMPTY_BINS_MAX: u64 = 599;

/// The bin in progress.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Bin {
    /// Its number from the clock's zero, plus one; zero for no bin, also with a clock that starts at zero.
    number: u64,
    bytes: Bytes,
}

/// The bin in progress, those that have ended, and what they lost at loss events.
#[derive(Clone, Debug, Default)]
pub(crate) struct Throughput {
    bin: Bin,
    pub(crate) bins: Samples<Bytes>,
    pub(crate) loss: ThroughputLoss,
}

impl Throughput {
    /// The bin in progress.
    pub(super) fn in_progress(&self) -> &Bin {
        &self.bin
    }

    fn number_at(now: Instant) -> u64 {
        now.as_nanos() / BIN.as_nanos() + 1
    }

    /// Counts `bytes` sent at `now`; false, and they are not counted, if that is in another bin.
    #[inline]
    pub(crate) fn add(&mut self, now: Instant, bytes: u64) -> bool {
        let is_here = Self::number_at(now) == self.bin.number;
        if is_here {
            self.bin.bytes += Bytes::new(bytes);
        }
        is_here
    }

    /// Begins another bin with `bytes` sent at `now`; `loss_events` happened so far.
    pub(crate) fn begin(&mut self, now: Instant, bytes: u64, loss_events: u64) {
        let number = Self::number_at(now);
        let last = self.bin.number;
        self.close(loss_events);
        if last > 0 && number > last + 1 {
            self.loss.on_bin(Bytes::ZERO, loss_events);
            for _ in 0..(number - last - 1).min(EMPTY_BINS_MAX) {
                self.bins.record(Bytes::ZERO);
            }
        }
        self.bin = Bin { number, bytes: Bytes::new(bytes) };
    }

    /// Puts the bin in progress to those that have ended.
    pub(crate) fn close(&mut self, loss_events: u64) {
        let ended = std::mem::take(&mut self.bin);
        if ended.number > 0 {
            self.bins.record(ended.bytes);
            self.loss.on_bin(ended.bytes, loss_events);
        }
    }

    /// A new one with the memory that this one holds.
    pub(crate) fn renewed(&mut self) -> Self {
        Self { bins: self.bins.renewed(), ..Self::default() }
    }
}

/// Loss of throughput at loss events.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct ThroughputLoss {
    /// Of the bin before the one in progress.
    before: Bytes,
    /// Loss events when the bin in progress began.
    events: u64,
    /// Sum of the losses in millionths, and how many.
    sum: i64,
    count: u32,
}

impl ThroughputLoss {
    /// Mean of [MA] eq. (1) over all loss events: its eq. (2).
    pub(crate) fn mean(&self) -> Option<f64> {
        (self.count > 0).then(|| self.sum as f64 / 1e6 / f64::from(self.count))
    }

    /// A bin with `bytes` has ended, and `events` loss events have happened so far.
    fn on_bin(&mut self, bytes: Bytes, events: u64) {
        if events > self.events && self.before > Bytes::ZERO {
            let before = self.before.get() as i64;
            self.sum += (before - bytes.get() as i64).saturating_mul(1_000_000) / before;
            self.count += 1;
        }
        (self.before, self.events) = (bytes, events);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn at(ms: u64) -> Instant {
        Instant::from_millis(ms)
    }

    #[test]
    fn bins_between_data_are_empty_ones_up_to_a_minute() {
        let mut throughput = Throughput::default();
        assert!(!throughput.add(at(0), 100), "there is none yet");
        throughput.begin(at(0), 100, 0);
        assert!(throughput.add(at(99), 50));
        assert_eq!(throughput.bins.count(), 0, "still in the first bin");
        throughput.begin(at(400), 70, 0);
        assert_eq!((throughput.bins.count(), throughput.bins.max()), (4, Some(Bytes::new(150))));
        throughput.begin(at(3_600_000), 70, 0);
        assert_eq!(throughput.bins.count(), 5 + EMPTY_BINS_MAX);
        throughput.close(0);
        throughput.close(0);
        assert_eq!(throughput.bins.count(), 6 + EMPTY_BINS_MAX, "closed once");
    }

    #[test]
    fn loss_of_throughput_is_taken_at_loss_events_only() {
        let mut throughput = Throughput::default();
        // What is counted when the next bin begins: 1000 bytes; 600 with the first event; 300 with the
        // second.
        for (ms, bytes, events) in [(0, 1_000, 0), (100, 600, 0), (200, 300, 1), (400, 900, 2)] {
            assert!(!throughput.add(at(ms), bytes));
            throughput.begin(at(ms), bytes, events);
        }
        assert_eq!(throughput.loss.mean(), Some(f64::midpoint(0.4, 0.5)), "1000 to 600, and 600 to 300");
        assert_eq!(ThroughputLoss::default().mean(), None);
    }
}
