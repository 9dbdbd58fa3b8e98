//! [`Trips`]: how long an answer of another box takes, and when something is said again ([`Again`]).

use units::{Duration, Instant};

use crate::Config;

/// The longest time without an answer after which something is said again the first time.
const TIMEOUT_MAX: Duration = Duration::from_secs(3);

/// Round trips to a box, smoothed as RFC 6298 §2 does.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Trips {
    /// None before the first one.
    known: Option<Known>,
}

#[derive(Clone, Copy, Debug)]
struct Known {
    smoothed: Duration,
    variation: Duration,
}

impl Trips {
    /// Takes one in. Of what was said twice it is not known which one was answered: it is no sample (Karn).
    pub fn note(&mut self, trip: Duration) {
        let known = match self.known {
            None => Known { smoothed: trip, variation: trip / 2 },
            Some(Known { smoothed, variation }) => {
                let [low, high] = [smoothed.min(trip), smoothed.max(trip)];
                let off = Duration::from_nanos(high.as_nanos() - low.as_nanos());
                Known { smoothed: smoothed * 7 / 8 + trip / 8, variation: variation * 3 / 4 + off / 4 }
            }
        };
        self.known = Some(known);
    }

    /// Time without an answer, or progress, after which something is lost.
    pub fn timeout(&self, config: &Config) -> Duration {
        let measured = self.known.map_or(Duration::ZERO, |known| known.smoothed + known.variation * 4);
        measured.max(config.retry).min(TIMEOUT_MAX.max(config.retry))
    }
}

/// Timer for saying something again: it waits twice as long after each further time.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Again {
    pub at: Instant,
    tries: u32,
    /// The first time, and the longest.
    timeout: [Duration; 2],
}

impl Again {
    /// It is said now.
    pub fn after(trips: Trips, config: &Config, now: Instant) -> Self {
        let timeout = trips.timeout(config);
        Self { at: now + timeout, tries: 0, timeout: [timeout, timeout.max(config.retry * 8)] }
    }

    /// It is to be said at once.
    pub fn at_once(config: &Config, now: Instant) -> Self {
        Self { at: now, ..Self::after(Trips::default(), config, now) }
    }

    /// It is said once more.
    pub fn once_more(&mut self, now: Instant) {
        let [first, longest] = self.timeout;
        self.tries = (self.tries + 1).min(8);
        self.at = now + (first * (1 << self.tries)).min(longest);
    }

    /// True when it was said once.
    pub fn is_first(&self) -> bool {
        self.tries == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_takes_longer_is_said_again_later() {
        let config = Config::default();
        let ms = Duration::from_millis;
        let mut trips = Trips::default();
        assert_eq!(trips.timeout(&config), config.retry, "nothing is known");
        trips.note(ms(100));
        assert_eq!(trips.timeout(&config), ms(100) + ms(50) * 4);
        (0..40).for_each(|_| trips.note(ms(100)));
        assert_eq!(trips.timeout(&config), config.retry, "not sooner than that");
        trips.note(ms(900));
        assert!(trips.timeout(&config) > ms(900));
        (0..40).for_each(|_| trips.note(ms(60_000)));
        assert_eq!(trips.timeout(&config), TIMEOUT_MAX);
    }

    #[test]
    fn each_further_time_it_takes_twice_as_long_up_to_a_bound() {
        let (config, now) = (Config::default(), Instant::from_millis(1_000));
        let mut again = Again::after(Trips::default(), &config, now);
        assert!(again.is_first());
        let waits: Vec<u64> = (0..6)
            .map(|_| {
                let wait = again.at.saturating_since(now).as_millis();
                again.once_more(now);
                wait
            })
            .collect();
        assert_eq!(waits, [250, 500, 1_000, 2_000, 2_000, 2_000]);
        assert!(!again.is_first());
    }
}
