//! Time for which radio repairs hold back what comes behind them, where that is much longer than the path.
//!
//! ```text
//!   delivered by │               ┌──────       ┐
//!   the radio    │             ╱ │             │ release: more at once
//!                │           ╱   │             │ than any link brings
//!                │─────────╱─────┘ acknowledged┘
//!                  idle ──▶◀─ T ─▶   time →
//! ```
//!
//! A block that hybrid ARQ has given up is asked for and sent again (RLC acknowledged mode), and
//! all that came behind it waits in the device. It is in flight without being in any queue, and
//! looks like one: with a window for path and queue the link is idle while repairs go on. How much
//! must be in flight on top cannot be seen while there is a queue as well, since both make a round
//! trip longer. So T is measured when there can be none:
//!
//! - Nothing was sent for so long that the link must have delivered all that is in flight, and
//! - what is acknowledged then comes faster than any link becomes within a moment, and is a good
//!   part of what was in flight (after an outage it comes as fast as the link brings it).
//!
//! An outage on the uplink looks the same. It does not last equally long again and again; so three
//! measurements in a row have to agree, except in the first second of a subscriber. And T is on
//! trial at first: it stays if with it a third more is delivered, or is given up for a while. Later
//! it goes as the releases do.

use std::mem::offset_of;

use units::{Bytes, Duration, Instant, Rate};

/// Factor above the recent rate from which on data is let go, not carried.
const FASTER: u64 = 4;

/// A release that measures T has this part of what was in flight.
const PART: u64 = 3;

/// Measurements that have to agree, within an eighth, each within [`CONFIRMED`] after the one before.
const MEASUREMENTS: u8 = 3;
const CONFIRMED: Duration = Duration::from_secs(2);

/// Time after its first data within which one measurement is enough.
const BEGINNING: Duration = Duration::from_secs(1);

/// Length of a trial in T: the window grows within the first, what follows is judged.
const TRIAL: u64 = 8;

/// Time after a trial that did not help in which the next does not begin.
const PAUSE: Duration = Duration::from_secs(10);

/// No radio tries to repair for longer.
const TIME_MAX: Duration = Duration::from_millis(400);

/// Stretches of time whose largest releases are remembered, and how long each of them is.
const REMEMBERED: usize = 4;
const STRETCH: Duration = Duration::from_secs(1);

/// Multiple of the largest release of some seconds that T may be at most: where one repair follows
/// another, single releases are shorter than T.
const RELEASES: u64 = 3;

/// Signs that an acknowledgement gives.
#[derive(Clone, Copy, Debug)]
pub(super) struct Observation {
    pub bytes: Bytes,
    /// Bytes in flight when it came.
    pub in_flight: Bytes,
    /// Its round trip less the path's, where it has one.
    pub over_floor: Option<Duration>,
    /// The window was in use.
    pub is_limited: bool,
    /// The mean rate of late.
    pub mean: Rate,
    /// Longest wait that is within the usual headroom.
    pub usual: Duration,
    /// Bytes that the path holds at the rate expected of the link: far less in flight is what an
    /// outage left, which says nothing.
    pub path: Bytes,
    pub now: Instant,
}

/// Data that is let go at once, since its first acknowledgement.
#[derive(Clone, Debug, Default, stored::Stored)]
struct Release {
    since: Instant,
    /// Size in bytes, like `of`: there is one of these per subscriber.
    bytes: u32,
    /// The window was in use when it began.
    is_limited: bool,
    /// Bytes in flight when it began.
    of: u32,
    /// Time that the first of it was held back, if no queue had a part in that.
    held: Option<Duration>,
}

/// Releases of late, and what they say.
#[derive(Clone, Debug, Default, stored::Stored)]
#[repr(C)]
#[stored(order(
    release,
    largest,
    past,
    next,
    stretch_ends,
    last_sent,
    began,
    measured,
    agreed,
    time,
    trial,
    paused_until
))]
pub(super) struct HeadOfLineBlocking {
    past: [u32; REMEMBERED],
    /// The last measurement of T.
    measured: Option<(Instant, Duration)>,
    /// End of the trial, and the rate without.
    trial: Option<(Instant, Rate)>,
    paused_until: Instant,
    /// Time at which the first data was acknowledged; zero before.
    began: Instant,
    stretch_ends: Instant,
    /// The largest of the stretch under way and of those before.
    largest: u32,
    next: u8,
    /// Measurements in a row that agreed.
    agreed: u8,
    release: Release,
    /// T; zero where nothing is held back.
    time: Duration,
    last_sent: Instant,
}

fn narrow(bytes: Bytes) -> u32 {
    u32::try_from(bytes.get()).unwrap_or(u32::MAX)
}

impl HeadOfLineBlocking {
    /// Offset from which on each packet needs it.
    pub(super) const ALWAYS_TOUCHED_FROM: usize = offset_of!(Self, release);

    pub(super) fn on_send(&mut self, now: Instant) {
        self.last_sent = now;
    }

    /// Takes in an acknowledgement; true when the path has just been found to be so much longer.
    pub(super) fn on_ack(&mut self, heard: &Observation) -> bool {
        let now = heard.now;
        if self.began == Instant::ZERO {
            self.began = now;
        }
        let is_beginning = now.saturating_since(self.began) < BEGINNING;
        let held = self.follow(heard);
        let is_found = held.is_some_and(|held| self.measure(held, is_beginning, heard));
        if let Some((ends, before)) = self.trial
            && now >= ends
        {
            self.trial = None;
            if heard.mean < before.mul_ratio(4, 3) {
                self.time = Duration::ZERO;
                self.paused_until = now + PAUSE;
            }
        }
        if now >= self.stretch_ends {
            self.past[usize::from(self.next) % REMEMBERED] = self.largest;
            self.next = self.next.wrapping_add(1);
            (self.largest, self.stretch_ends) = (0, now + STRETCH);
            self.fade(heard.mean);
        }
        is_found
    }

    /// Follows the release under way; what the first of it was held back, once it is large enough to tell.
    fn follow(&mut self, heard: &Observation) -> Option<Duration> {
        let expected = heard.mean.bytes_in(heard.now.saturating_since(self.release.since)).get();
        let is_next = u64::from(self.release.bytes) <= expected.saturating_mul(FASTER);
        if is_next {
            // What the link brings may be a little more than of late.
            let brought = heard.mean.mul_ratio(5, 4).bytes_in(heard.now.saturating_since(self.last_sent));
            let is_full = heard.in_flight.get() >= heard.path.get() / 2;
            let is_idle = heard.is_limited && is_full && brought >= heard.in_flight;
            let held = heard.over_floor.filter(|held| is_idle && *held > heard.usual && *held <= TIME_MAX);
            self.release =
                Release { since: heard.now, bytes: 0, is_limited: false, of: narrow(heard.in_flight), held };
        }
        let release = &mut self.release;
        release.bytes = release.bytes.saturating_add(narrow(heard.bytes));
        // The first of it makes room in the window for the rest.
        release.is_limited |= heard.is_limited;
        if release.is_limited {
            let surplus = u64::from(release.bytes).saturating_sub(if is_next { 0 } else { expected });
            self.largest = self.largest.max(narrow(Bytes::new(surplus)));
        }
        // One acknowledgement alone may have been waiting for its successor.
        if is_next || u64::from(release.bytes) * PART < u64::from(release.of) {
            None
        } else {
            release.held.take()
        }
    }

    fn measure(&mut self, held: Duration, is_beginning: bool, heard: &Observation) -> bool {
        let is_same = self.measured.is_some_and(|(at, _)| heard.now.saturating_since(at) < held / 2);
        if is_same {
            return false;
        }
        let is_first = self.measured.is_none();
        let (at, other) = self.measured.replace((heard.now, held)).unwrap_or((heard.now, held));
        let agrees = held * 8 <= other * 9 && other * 8 <= held * 9;
        self.agreed = if agrees && heard.now.saturating_since(at) <= CONFIRMED {
            self.agreed.saturating_add(1)
        } else {
            1
        };
        let is_believed = self.agreed >= MEASUREMENTS || (is_first && is_beginning);
        if !is_believed || !self.time.is_zero() || heard.now < self.paused_until {
            return false;
        }
        self.time = held.min(other);
        self.trial = Some((heard.now + held * TRIAL, heard.mean));
        true
    }

    /// Without releases nothing is held back.
    fn fade(&mut self, mean: Rate) {
        if self.trial.is_none() {
            let largest = self.past.iter().copied().max().unwrap_or(0);
            self.time = self.time.min(mean.time_for(Bytes::from(largest)) * RELEASES);
        }
    }

    /// T: how long repairs hold back; zero where none is known to.
    pub(super) fn time(&self) -> Duration {
        self.time
    }

    /// T has yet to show that it helps.
    pub(super) fn is_on_trial(&self) -> bool {
        self.trial.is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MEAN: Rate = Rate::from_mbps(8);
    const SEGMENT: u64 = 1_000;

    fn ms(ms: u64) -> Duration {
        Duration::from_millis(ms)
    }

    /// Flights of 100 segments, sent at once, of which nothing is heard for `silence` and then one
    /// acknowledgement of two segments every `gap_us`, while the mean of late is what `mean` says.
    struct Flights {
        blocking: HeadOfLineBlocking,
        now: Instant,
        found: usize,
    }

    impl Flights {
        fn new() -> Self {
            Self { blocking: HeadOfLineBlocking::default(), now: Instant::from_millis(1), found: 0 }
        }
        fn fly(&mut self, silence: Duration, gap_us: u64, mean: Rate) {
            self.blocking.on_send(self.now);
            let sent = self.now;
            self.now += silence;
            for nth in 0..50 {
                let heard = Observation {
                    bytes: Bytes::new(2 * SEGMENT),
                    in_flight: Bytes::new((100 - 2 * nth) * SEGMENT),
                    over_floor: Some(self.now.saturating_since(sent) - ms(20)),
                    is_limited: nth == 0,
                    mean,
                    usual: ms(100),
                    path: Bytes::ZERO,
                    now: self.now,
                };
                self.found += usize::from(self.blocking.on_ack(&heard));
                self.now += Duration::from_micros(gap_us);
            }
        }
        /// Time in which data comes as the link brings it, with acknowledgements of two segments.
        fn steady(&mut self, for_ms: u64, mean: Rate) {
            for _ in 0..for_ms / 2 {
                self.now += ms(2);
                self.blocking.on_send(self.now);
                self.blocking.on_ack(&Observation {
                    bytes: Bytes::new(2 * SEGMENT),
                    in_flight: Bytes::new(100 * SEGMENT),
                    over_floor: Some(ms(10)),
                    is_limited: true,
                    mean,
                    usual: ms(100),
                    path: Bytes::ZERO,
                    now: self.now,
                });
            }
        }
    }

    #[test]
    fn the_first_flight_that_is_let_go_at_once_is_measured() {
        let mut flights = Flights::new();
        flights.fly(ms(270), 20, MEAN);
        assert_eq!((flights.found, flights.blocking.time()), (1, ms(250)));
    }

    #[test]
    fn later_three_have_to_agree() {
        let mut flights = Flights::new();
        flights.steady(2_000, MEAN);
        for (silence, found) in [(270, 0), (275, 0), (272, 1)] {
            flights.fly(ms(silence), 20, MEAN);
            assert_eq!(flights.found, found, "after {silence} ms");
        }
        assert_eq!(flights.blocking.time(), ms(252));
        let mut uneven = Flights::new();
        uneven.steady(2_000, MEAN);
        for silence in [270, 370, 200, 300, 240, 330, 180] {
            uneven.fly(ms(silence), 20, MEAN);
        }
        assert_eq!((uneven.found, uneven.blocking.time()), (0, ms(0)));
    }

    #[test]
    fn after_an_outage_data_comes_as_the_link_brings_it() {
        let mut flights = Flights::new();
        for _ in 0..5 {
            flights.fly(ms(270), 2_000, MEAN);
        }
        assert_eq!(flights.found, 0);
    }

    #[test]
    fn what_a_queue_may_have_held_is_not_measured() {
        let mut flights = Flights::new();
        // 100 segments at 3 Mbit/s need 266 ms.
        for _ in 0..5 {
            flights.fly(ms(200), 20, Rate::from_mbps(3));
        }
        assert_eq!(flights.found, 0);
    }

    #[test]
    fn a_trial_that_does_not_help_is_ended_and_not_repeated_soon() {
        let mut flights = Flights::new();
        flights.fly(ms(270), 20, MEAN);
        assert!(flights.blocking.is_on_trial());
        flights.steady(2_100, MEAN);
        assert_eq!((flights.blocking.time(), flights.blocking.is_on_trial()), (ms(0), false));
        for _ in 0..20 {
            flights.fly(ms(270), 20, MEAN);
        }
        assert_eq!(flights.found, 1);
    }

    #[test]
    fn what_helped_stays_as_long_as_something_is_let_go() {
        let mut flights = Flights::new();
        flights.fly(ms(270), 20, MEAN);
        let more = MEAN.mul_ratio(3, 2);
        for _ in 0..30 {
            flights.steady(200, more);
            flights.fly(ms(190), 20, more);
        }
        assert!(!flights.blocking.is_on_trial());
        assert!(flights.blocking.time() >= ms(190), "{:?}", flights.blocking.time());
        flights.steady(5_000, more);
        assert!(flights.blocking.time() < ms(20), "{:?}", flights.blocking.time());
    }
}
