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
    /// Both clocks are read now; a step of the wall clock between the two readings shifts the result.
    #[must_use]
    pub fn from_wall_nanos(wall_nanos: u64) -> Instant {
        let age = Duration::from_nanos(Self::wall_nanos().saturating_sub(wall_nanos));
        Self::now() - age
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

    #[test]
    fn wall_readings_convert_to_the_past() {
        let before = Clock::now();
        let converted = Clock::from_wall_nanos(Clock::wall_nanos());
        assert!(converted <= Clock::now());
        assert!(before.saturating_since(converted) < Duration::from_secs(1));
    }
}
