//! [`LossLine`]: whether losses are those of a policer.
//!
//! A policer drops what finds its token bucket empty. So wherever a loss shows, as much has arrived as the
//! bucket's rate allows: these points lie on a line, within a few segments (Flach et al., SIGCOMM 2016, who
//! simulate the bucket). Losses at random lie where congestion control happens to be. Those of a full queue
//! lie on a line as well, but such a path never carries more than its rate; a bucket that is not empty does.
//!
//! All of this is in acknowledgements with SACK, so it looks the same from both ends.

use units::{Duration, Instant};

/// Points from which on a line means something.
const POINTS_MIN: u64 = 8;
/// Least time between the first and the last.
const SPAN_MIN: Duration = Duration::from_secs(1);
/// Usual distance of a policer's losses from the line: segments, or this part of what is sent in a round trip.
const SEGMENTS_OFF: f64 = 3.0;
const ROUND_TRIP_OFF: f64 = 0.1;
/// The best round trip before the first loss carried so much more than the rate of the line.
const BURST: f64 = 1.25;

/// Where losses showed: when, and how much had arrived. Sums for the straight line through these points, and
/// how far they are off it.
#[derive(Clone, Debug, Default)]
pub(crate) struct LossLine {
    /// Bytes that the receiver holds above what it acknowledges.
    above: u64,
    /// The first point.
    first: Option<(Instant, u64)>,
    last: Instant,
    points: u64,
    /// Of microseconds and bytes since the first point.
    times: u128,
    bytes: u128,
    times_squared: u128,
    bytes_squared: u128,
    products: u128,
}

impl LossLine {
    /// The receiver, which acknowledges everything below `una`, holds `news` bytes more above; with
    /// `shows_loss`, above a hole that was not known.
    pub(crate) fn on_sacked(&mut self, now: Instant, una: u64, news: u64, shows_loss: bool) {
        self.above += news;
        if !shows_loss {
            return;
        }
        let arrived = una + self.above;
        let (since, from) = *self.first.get_or_insert((now, arrived));
        let time = u128::from(now.saturating_since(since).as_micros());
        let bytes = u128::from(arrived.saturating_sub(from));
        self.last = now;
        self.points += 1;
        self.times += time;
        self.bytes += bytes;
        self.times_squared += time * time;
        self.bytes_squared += bytes * bytes;
        self.products += time * bytes;
    }

    /// Of what was acknowledged, the receiver was known to hold `bytes`.
    pub(crate) fn on_acknowledged(&mut self, bytes: u64) {
        self.above = self.above.saturating_sub(bytes);
    }

    /// True when the losses lie on a line, and the path carried more than its rate before the first, at best
    /// `best_rate` bytes per second for a round trip.
    pub(crate) fn is_policers(&self, segment: u64, rtt: Duration, best_rate: u64) -> bool {
        let Some((first, _)) = self.first else { return false };
        if self.points < POINTS_MIN || self.last.saturating_since(first) < SPAN_MIN {
            return false;
        }
        let n = self.points as f64;
        let spread = |squares: u128, a: u128, b: u128| squares as f64 - a as f64 * b as f64 / n;
        let times = spread(self.times_squared, self.times, self.times);
        let bytes = spread(self.bytes_squared, self.bytes, self.bytes);
        let both = spread(self.products, self.times, self.bytes);
        let rate = both / times * 1e6;
        let off = ((bytes - both * both / times).max(0.0) / n).sqrt();
        let allowed = (segment as f64 * SEGMENTS_OFF).max(rate * rtt.as_secs_f64() * ROUND_TRIP_OFF);
        rate > 0.0 && off <= allowed && best_rate as f64 >= BURST * rate
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Losses every 100 ms at 1 Mbit/s, each `off` bytes off the line.
    fn line(off: impl Fn(u64) -> u64) -> LossLine {
        let mut line = LossLine::default();
        for point in 0..30 {
            let una = 1_000_000 + point * 12_500 + off(point);
            line.on_sacked(Instant::from_millis(point * 100), una, 1_448, true);
            line.on_acknowledged(1_448);
        }
        line
    }

    #[test]
    fn losses_of_a_policer_lie_on_a_line_below_its_bursts() {
        let rtt = Duration::from_millis(60);
        let is_policers = |line: &LossLine, best| line.is_policers(1_448, rtt, best);
        let policed = line(|point| point % 3 * 1_448);
        assert!(is_policers(&policed, 200_000));
        assert!(!is_policers(&policed, 126_000), "a queue: never more than its rate");
        assert!(!is_policers(&line(|point| point % 10 * 4_000), 200_000), "off the line");
        assert!(!is_policers(&LossLine::default(), 200_000));
    }

    #[test]
    fn few_losses_or_short_ones_tell_nothing() {
        let mut short = LossLine::default();
        (0..30).for_each(|ms| short.on_sacked(Instant::from_millis(ms), 1_000 * ms, 1_000, true));
        assert!(!short.is_policers(1_448, Duration::ZERO, u64::MAX));
    }
}
