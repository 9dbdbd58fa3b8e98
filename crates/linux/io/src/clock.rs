//! [`Clock`]: the one place where the time is read.

use units::{Duration, Instant};

/// The machine's monotonic clock (`CLOCK_MONOTONIC`), whose origin is the machine's start.
///
/// The same origin holds in every process and every network namespace of one boot.
#[derive(Clone, Copy, Debug, Default)]
pub struct Clock;

impl Clock {
    /// The present time in nanoseconds since the machine's start.
    #[must_use]
    pub fn now() -> Instant {
        Instant::from_nanos(read(libc::CLOCK_MONOTONIC))
    }

    /// Nanoseconds since 1970-01-01 00:00 UTC: for logs and captures, never for deadlines.
    #[must_use]
    pub fn wall_nanos() -> u64 {
        read(libc::CLOCK_REALTIME)
    }

    /// Processor time of the calling thread so far: what others got meanwhile is not in it.
    #[must_use]
    pub fn thread_time() -> Duration {
        Duration::from_nanos(read(libc::CLOCK_THREAD_CPUTIME_ID))
    }

    /// Duration of a jiffy: the kernel's own unit for what need not be exact, such as `tcpi_busy_time`.
    #[must_use]
    pub fn tick() -> Duration {
        let mut ts = libc::timespec { tv_sec: 0, tv_nsec: 0 };
        // SAFETY: `ts` is a valid timespec for the duration of the call, and every Linux has this clock, whose
        // resolution is a jiffy.
        unsafe { libc::clock_getres(libc::CLOCK_MONOTONIC_COARSE, &raw mut ts) };
        Duration::from_nanos(u64::try_from(ts.tv_nsec).unwrap_or(0))
    }

    /// Converts a wall-clock reading (a packet's receive timestamp) to the monotonic clock.
    ///
    /// Both clocks are read now, and again where this thread had to wait in between. The result is late by the time
    /// between the readings, which is far below a microsecond; a step of the wall clock since the reading shifts it.
    #[must_use]
    pub fn from_wall_nanos(wall_nanos: u64) -> Instant {
        BothClocks::closest(BothClocks::read).convert(wall_nanos)
    }
}

/// Longest time between two readings that are as good as one: several times what readings take. Who loses the
/// processor in between, or an interrupt, takes longer.
const AT_ONCE: Duration = Duration::from_micros(2);

/// Attempts to read both clocks at once. Where reading takes long, all of them are needed.
const ATTEMPTS: usize = 5;

/// Both clocks: the wall clock was read between two readings of the other one.
#[derive(Clone, Copy, Debug)]
struct BothClocks {
    before: Instant,
    wall_nanos: u64,
    after: Instant,
}

impl BothClocks {
    fn read() -> Self {
        // In this order.
        Self { before: Clock::now(), wall_nanos: Clock::wall_nanos(), after: Clock::now() }
    }

    /// The closest of some readings: the first that is close enough, if there is one.
    fn closest(mut read: impl FnMut() -> Self) -> Self {
        let mut closest = read();
        for _ in 1..ATTEMPTS {
            if closest.apart() <= AT_ONCE {
                break;
            }
            let another = read();
            if another.apart() < closest.apart() {
                closest = another;
            }
        }
        closest
    }

    fn apart(self) -> Duration {
        self.after.saturating_since(self.before)
    }

    fn convert(self, wall_nanos: u64) -> Instant {
        self.after - Duration::from_nanos(self.wall_nanos.saturating_sub(wall_nanos))
    }
}

fn read(clock: libc::clockid_t) -> u64 {
    let mut ts = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `ts` is a valid timespec for the duration of the call, and the clock ids used here exist
    // on every Linux, so the call cannot fail.
    unsafe { libc::clock_gettime(clock, &raw mut ts) };
    let secs = u64::try_from(ts.tv_sec).unwrap_or(0);
    let nanos = u64::try_from(ts.tv_nsec).unwrap_or(0);
    secs.saturating_mul(1_000_000_000).saturating_add(nanos)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tick_is_a_jiffy_of_a_kernel_that_can_be_built() {
        let per_second = (1e9 / Clock::tick().as_nanos() as f64).round();
        assert!([100.0, 250.0, 300.0, 1000.0].contains(&per_second), "{per_second} a second");
    }

    #[test]
    fn never_goes_backwards() {
        let mut last = Clock::now();
        assert!(last > Instant::ZERO);
        for _ in 0..10_000 {
            let now = Clock::now();
            assert!(now >= last);
            last = now;
        }
    }

    #[test]
    fn a_thread_that_waits_uses_no_processor_time() {
        let (began, wall) = (Clock::thread_time(), Clock::now());
        while Clock::now().saturating_since(wall) < Duration::from_millis(30) {
            std::thread::park_timeout(std::time::Duration::from_millis(30));
        }
        let waited = Clock::thread_time() - began;
        assert!(waited < Duration::from_millis(15), "{waited}");
        while Clock::thread_time() - began < Duration::from_millis(5) {}
        assert!(Clock::now().saturating_since(wall) >= Duration::from_millis(30));
    }

    /// Else a packet would seem to have come later than those that came after it.
    #[test]
    fn who_loses_the_processor_between_two_readings_reads_again() {
        let at = Instant::from_micros;
        let readings = |waits_us: &[u64]| {
            let (mut now, mut waits) = (1_000_000, waits_us.iter().copied());
            BothClocks::closest(move || {
                let (before, wall_nanos) = (at(now), (now + 500_000) * 1_000);
                now += waits.next().unwrap();
                BothClocks { before, wall_nanos, after: at(now) }
            })
        };
        // A packet that came 10 us ago, by the wall clock.
        let came_nanos = 1_499_990_000;
        assert_eq!(readings(&[0]).convert(came_nanos), at(999_990));
        assert_eq!(readings(&[12_000, 1]).convert(came_nanos), at(999_991));
        assert_eq!(readings(&[12_000, 30, 0]).convert(came_nanos), at(999_990));
        assert_eq!(readings(&[90, 70, 50, 60, 80]).convert(came_nanos), at(1_000_040), "all of them late");
    }

    #[test]
    fn wall_readings_convert_to_the_past() {
        let before = Clock::now();
        let converted = Clock::from_wall_nanos(Clock::wall_nanos());
        assert!(converted <= Clock::now());
        assert!(before.saturating_since(converted) < Duration::from_secs(1));
    }
}
