//! [`AutoTuning`]: how large a receive buffer the traffic needs, as Linux finds it (`tcp_rcv_space_adjust`).
//!
//! Once per round trip: when more was read than in any round trip before, the buffer holds twice as
//! much, and while what is read still grows, twice the growth in advance. The sender's slow start
//! then never runs into the window.

use units::{Duration, Instant};

/// Measures what an application reads per round trip.
#[derive(Clone, Copy, Debug)]
pub(super) struct AutoTuning {
    /// Smoothed round trip as a receiver sees it.
    rtt: Option<Duration>,
    /// Most that was read in a round trip.
    space: u64,
    began: Instant,
    read_before: u64,
}

impl AutoTuning {
    /// Begins with what a sender's first window of ten segments of `mss` bytes brings.
    pub(super) fn new(initial_window: u32, mss: u32) -> Self {
        let space = u64::from(initial_window).min(10 * u64::from(mss)).max(1);
        Self { rtt: None, space, began: Instant::ZERO, read_before: 0 }
    }

    /// Takes in the age of an echoed timestamp.
    pub(super) fn on_round_trip(&mut self, rtt: Duration) {
        self.rtt = Some(self.rtt.map_or(rtt, |old| old.mul_ratio(7, 8) + rtt / 8));
    }

    /// The smoothed round trip as a receiver sees it.
    pub(super) fn round_trip(&self) -> Option<Duration> {
        self.rtt
    }

    /// The application has read `read` bytes so far: the buffer that needs, when it is time to say.
    pub(super) fn on_read(&mut self, read: u64, now: Instant) -> Option<u64> {
        if now.saturating_since(self.began) < self.rtt? {
            return None;
        }
        let copied = read - self.read_before;
        (self.began, self.read_before) = (now, read);
        if copied <= self.space {
            return None;
        }
        let window = copied.saturating_mul(2);
        let growth = u128::from(window) * u128::from(copied - self.space) / u128::from(self.space);
        self.space = copied;
        Some(window.saturating_add(u64::try_from(growth).unwrap_or(u64::MAX).saturating_mul(2)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(ms: u64) -> Instant {
        Instant::from_millis(ms)
    }

    #[test]
    fn it_measures_once_per_round_trip() {
        let mut tuning = AutoTuning::new(65_536, 1_000);
        assert_eq!(tuning.on_read(50_000, at(500)), None, "no round trip known");
        tuning.on_round_trip(Duration::from_millis(100));
        assert!(tuning.on_read(50_000, at(500)).is_some());
        assert_eq!(tuning.on_read(200_000, at(599)), None);
        assert!(tuning.on_read(200_000, at(600)).is_some());
    }

    #[test]
    fn a_doubling_sender_never_fills_the_window() {
        let mut tuning = AutoTuning::new(65_536, 1_000);
        tuning.on_round_trip(Duration::from_millis(100));
        let (mut read, mut capacity) = (0, 65_536);
        for round in 1..=10 {
            let flight = 10_000 << round;
            assert!(flight <= capacity, "round {round}: {flight} into {capacity}");
            read += flight;
            capacity = tuning.on_read(read, at(round * 100)).unwrap_or(0).max(capacity);
        }
    }

    #[test]
    fn an_even_rate_needs_twice_its_round_trip() {
        let mut tuning = AutoTuning::new(100_000, 10_000);
        tuning.on_round_trip(Duration::from_millis(100));
        assert_eq!(tuning.on_read(100_000, at(100)), None);
        assert_eq!(tuning.on_read(210_000, at(200)), Some(220_000 + 2 * 22_000));
        assert_eq!(tuning.on_read(320_000, at(300)), None);
    }
}
