//! [`LossLine`]: whether losses are those of a policer.
//!
//! A policer drops what finds its token bucket empty. So wherever a loss shows, as much has arrived as the
//! bucket's rate allows: these points lie on a line, within a few segments (Flach et al., SIGCOMM 2016, who
//! simulate the bucket). Losses at random lie where congestion control happens to be. Those of a full queue
//! lie on a line as well, but such a path never carries more than its rate; a bucket that is not empty does.
//!
//! BBR loses much at once, and repairs it at the rate of the bucket, which drops repairs too. So all that
//! arrives while holes are open lies on the line. It does at a full queue, too; but there round trips are long
//! when losses show.
//!
//! All of this is in acknowledgements with SACK, so it looks the same from both ends.

use units::{Duration, Instant};

/// Losses from which on a line means something.
const LOSSES_MIN: u64 = 8;
/// Arrivals above holes from which on it does.
const ARRIVALS_MIN: u64 = 16;
/// Least time between the first and the last.
const SPAN_MIN: Duration = Duration::from_secs(1);
/// The same of arrivals in round trips: congestion control that halves its window takes a few to show.
const SPAN_ROUNDS: u64 = 6;
/// Usual distance of a policer's losses from the line: segments, or this part of what is sent in a round trip.
const SEGMENTS_OFF: f64 = 3.0;
const ROUND_TRIP_OFF: f64 = 0.1;
/// Factor over the rate of the line that was carried before the first loss.
const BURST: f64 = 1.25;
/// Segments beyond that, if not in a whole round trip.
const BURST_SEGMENTS: f64 = 4.0;
/// Growth of round trips, which must also double, from which a queue drops because it is full.
const QUEUE: Duration = Duration::from_millis(20);

/// Sums for the straight line through points, and how far they are off it.
#[derive(Clone, Debug, Default)]
struct Line {
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

/// A line found: bytes per second, and the usual distance from it in bytes.
#[derive(Clone, Copy, Debug)]
struct Fit {
    rate: f64,
    off: f64,
}

impl Line {
    fn add(&mut self, now: Instant, arrived: u64) {
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

    /// None with fewer points, or in less time.
    fn fit(&self, points_min: u64, span_min: Duration) -> Option<Fit> {
        let (first, _) = self.first?;
        if self.points < points_min || self.last.saturating_since(first) < span_min {
            return None;
        }
        let n = self.points as f64;
        let spread = |squares: u128, a: u128, b: u128| squares as f64 - a as f64 * b as f64 / n;
        let times = spread(self.times_squared, self.times, self.times);
        let bytes = spread(self.bytes_squared, self.bytes, self.bytes);
        let both = spread(self.products, self.times, self.bytes);
        let rate = both / times * 1e6;
        let off = ((bytes - both * both / times).max(0.0) / n).sqrt();
        (rate > 0.0).then_some(Fit { rate, off })
    }
}

/// Places of losses: time, and amount of data that had arrived.
#[derive(Clone, Debug, Default)]
pub(crate) struct LossLine {
    /// Bytes that the receiver holds above what it acknowledges.
    above: u64,
    losses: Line,
    /// While the receiver held something above holes.
    arrivals: Line,
    /// Losses that showed when a queue made round trips long.
    queued: u64,
}

/// Facts known of a path besides, for [`LossLine::is_policers`].
#[derive(Clone, Copy, Debug)]
pub(crate) struct PathFacts {
    /// Payload of a segment, bytes.
    pub(crate) segment: u64,
    pub(crate) rtt: Duration,
    /// Of the best round trip before the first repair, bytes per second.
    pub(crate) best_rate: u64,
    /// Time when the first data was acknowledged, and up to where.
    pub(crate) begin: Option<(Instant, u64)>,
    /// Time when the last of what was sent at first was acknowledged, and up to where.
    pub(crate) flight: (Instant, u64),
}

/// True when round trips exceed the least ones by enough to show that a queue is full.
pub(crate) fn is_queue(now: Duration, least: Duration) -> bool {
    now >= least * 2 && now >= least + QUEUE
}

impl LossLine {
    /// The receiver, which acknowledges everything below `una`, holds `news` bytes more above; with
    /// `shows_loss`, above a hole that was not known, and `has_queue` says what [`is_queue`] does.
    pub(crate) fn on_sacked(&mut self, now: Instant, una: u64, news: u64, shows_loss: bool, has_queue: bool) {
        self.above += news;
        if shows_loss {
            self.queued += u64::from(has_queue);
            self.losses.add(now, una + self.above);
        }
        self.arrivals.add(now, una + self.above);
    }

    /// Of what was acknowledged, the receiver was known to hold `bytes`; everything below `una` is acknowledged
    /// now.
    pub(crate) fn on_acknowledged(&mut self, now: Instant, una: u64, bytes: u64) {
        let had_holes = self.above > 0;
        self.above = self.above.saturating_sub(bytes);
        if had_holes {
            self.arrivals.add(now, una + self.above);
        }
    }

    /// True when the losses, or what arrived while they were repaired, lie on a line, and the path carried more
    /// than its rate before the first.
    pub(crate) fn is_policers(&self, path: &PathFacts) -> bool {
        // A full queue is long whenever it drops. Behind a policer it may be for a burst.
        if self.queued * 2 > self.losses.points {
            return false;
        }
        let segment = path.segment as f64;
        let is_near = |fit: &Fit| {
            fit.off <= (segment * SEGMENTS_OFF).max(fit.rate * path.rtt.as_secs_f64() * ROUND_TRIP_OFF)
        };
        let has_best_round = |fit: &Fit| path.best_rate as f64 >= BURST * fit.rate;
        let by_losses = self.losses.fit(LOSSES_MIN, SPAN_MIN);
        if by_losses.is_some_and(|fit| is_near(&fit) && has_best_round(&fit)) {
            return true;
        }
        let by_arrivals = self.arrivals.fit(ARRIVALS_MIN, SPAN_MIN.max(path.rtt * SPAN_ROUNDS));
        by_arrivals.is_some_and(|fit| is_near(&fit) && (has_best_round(&fit) || self.has_burst(path, &fit)))
    }

    /// True when the bucket gave more than its rate from the first acknowledgement to the first loss.
    fn has_burst(&self, path: &PathFacts, fit: &Fit) -> bool {
        let (Some((begin, from)), Some(loss)) = (path.begin, self.losses.first) else { return false };
        // Where packets come in groups they are off the line by as much.
        let more = (BURST_SEGMENTS * path.segment as f64).max(2.0 * fit.off);
        let is_burst = |(at, arrived): (Instant, u64)| {
            let allowed = fit.rate * at.saturating_since(begin).as_secs_f64();
            let carried = arrived.saturating_sub(from) as f64;
            carried >= BURST * allowed && carried >= allowed + more
        };
        is_burst(loss) || is_burst(path.flight)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn path(rtt: Duration) -> PathFacts {
        PathFacts { segment: 1_448, rtt, best_rate: 0, begin: None, flight: (Instant::ZERO, 0) }
    }

    /// Losses every 100 ms at 1 Mbit/s, each `off` bytes off the line.
    fn line(off: impl Fn(u64) -> u64) -> LossLine {
        let mut line = LossLine::default();
        for point in 0..30 {
            let una = 1_000_000 + point * 12_500 + off(point);
            let now = Instant::from_millis(point * 100);
            line.on_sacked(now, una, 1_448, true, false);
            line.on_acknowledged(now, una + 1_448, 1_448);
        }
        line
    }

    #[test]
    fn losses_of_a_policer_lie_on_a_line_below_its_bursts() {
        let rtt = Duration::from_millis(60);
        let is_policers =
            |line: &LossLine, best_rate| line.is_policers(&PathFacts { best_rate, ..path(rtt) });
        let policed = line(|point| point % 3 * 1_448);
        assert!(is_policers(&policed, 200_000));
        assert!(!is_policers(&policed, 126_000), "a queue: never more than its rate");
        assert!(!is_policers(&line(|point| point % 10 * 4_000), 200_000), "off the line");
        assert!(!is_policers(&LossLine::default(), 200_000));
    }

    #[test]
    fn few_losses_or_short_ones_tell_nothing() {
        let mut short = LossLine::default();
        (0..30).for_each(|ms| short.on_sacked(Instant::from_millis(ms), 1_000 * ms, 1_000, true, false));
        assert!(!short.is_policers(&PathFacts { best_rate: u64::MAX, ..path(Duration::ZERO) }));
    }

    /// All losses show within 50 ms, and repairs take two seconds at 1 Mbit/s, each `off` bytes off the line.
    fn burst(has_queue: bool, off: impl Fn(u64) -> u64) -> LossLine {
        let mut line = LossLine::default();
        for point in 0..10 {
            let now = Instant::from_millis(100 + point * 5);
            line.on_sacked(now, 30_000, 1_448, true, has_queue && point != 0);
        }
        for point in 1..150 {
            let now = Instant::from_millis(150 + point * 12);
            line.on_sacked(now, 30_000 + 5_000 + off(point), 1_448, false, false);
        }
        line
    }

    #[test]
    fn one_burst_of_losses_and_repairs_at_the_rate_of_the_bucket_are_a_policers() {
        let rtt = Duration::from_millis(60);
        let path = PathFacts { begin: Some((Instant::from_millis(60), 1_448)), ..path(rtt) };
        let even = |point: u64| point % 2 * 1_448;
        assert!(burst(false, even).is_policers(&path), "30 kB in 40 ms");
        assert!(!burst(true, even).is_policers(&path), "a queue was full");
        assert!(!burst(false, |point| point % 50 * 1_448).is_policers(&path), "off the line");
        let late = PathFacts { begin: Some((Instant::ZERO, 30_000 - 1_448)), ..path };
        assert!(!burst(false, even).is_policers(&late), "no more than the rate before");
        let flight = (Instant::from_millis(4), 30_000 + 5 * 1_448);
        assert!(burst(false, even).is_policers(&PathFacts { flight, ..late }), "six segments in 4 ms");
    }

    #[test]
    fn a_queue_makes_round_trips_longer() {
        let ms = Duration::from_millis;
        assert!(is_queue(ms(80), ms(40)) && !is_queue(ms(79), ms(40)) && !is_queue(ms(3), ms(1)));
    }
}
