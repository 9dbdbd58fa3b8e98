//! [`LinkCapacity`]: R_cap of (5), known, learned or reported.

use units::{Bytes, Duration, Instant, Rate};

use super::{RATE_MIN, RateParams};
use crate::{Feedback, HEADERS, RateSample, WindowedMax};

/// Rate that the link can carry, as far as is known.
#[derive(Clone, Debug, stored::Stored)]
pub(super) struct LinkCapacity {
    configured: Rate,
    /// The largest delivery rate of `r_cap_memory`.
    learned: Option<WindowedMax<Rate>>,
    /// True when the learned rate may exceed the configured one, and not fall below it.
    is_start: bool,
    /// The newest report and until when it is believed.
    reported: Option<(Rate, Instant)>,
    uses_feedback: bool,
    stale_after: Duration,
    mss: Bytes,
}

impl LinkCapacity {
    pub(super) fn new(params: &RateParams) -> Self {
        Self {
            configured: params.r_cap.max(RATE_MIN),
            learned: params.r_cap_memory.map(WindowedMax::new),
            is_start: params.r_cap_is_start,
            reported: None,
            uses_feedback: params.r_cap_from_feedback,
            stale_after: params.stale_after,
            mss: params.mss,
        }
    }

    pub(super) fn on_sample(&mut self, sample: &RateSample, now: Instant) {
        if let Some(learned) = self.learned.as_mut()
            && (!sample.is_app_limited || learned.get().is_none_or(|largest| sample.rate > largest))
        {
            learned.update(sample.rate, now);
        }
    }

    /// Takes in a report: what a base station carried, rather than could carry, bounds nothing from above.
    pub(super) fn on_feedback(&mut self, feedback: &Feedback) {
        let Some(bandwidth) = feedback.bandwidth.filter(|_| self.uses_feedback && !feedback.is_throughput)
        else {
            return;
        };
        let payload = bandwidth.mul_ratio(self.mss.get(), self.mss.get() + HEADERS.get());
        self.reported = Some((payload.max(RATE_MIN), feedback.valid_until(self.stale_after)));
    }

    /// R_cap at `now`: the report while it is valid; else a quarter above what was learned, at most
    /// what is configured, or at least where that is only the start.
    ///
    /// Without that quarter the rate could never exceed, and so never learn, more than it has seen.
    pub(super) fn get(&self, now: Instant) -> Rate {
        if let Some((rate, _)) = self.reported.filter(|&(_, until)| now <= until) {
            return rate;
        }
        let learned = self.learned.as_ref().and_then(WindowedMax::get);
        let Some(room) = learned.map(|rate| rate.mul_ratio(5, 4)) else { return self.configured };
        if self.is_start { room.max(self.configured) } else { room.clamp(RATE_MIN, self.configured) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample(mbps: u64, is_app_limited: bool) -> RateSample {
        RateSample {
            rate: Rate::from_mbps(mbps),
            delivered: Bytes::new(1),
            interval: Duration::from_millis(1),
            is_app_limited,
        }
    }

    fn capacity(change: impl FnOnce(&mut RateParams)) -> LinkCapacity {
        let mut params = RateParams { r_cap: Rate::from_mbps(100), ..RateParams::default() };
        change(&mut params);
        LinkCapacity::new(&params)
    }

    const fn at(ms: u64) -> Instant {
        Instant::from_millis(ms)
    }

    #[test]
    fn configured_unless_told_otherwise() {
        let mut c = capacity(|_| {});
        c.on_sample(&sample(7, false), at(1));
        assert_eq!(c.get(at(1)), Rate::from_mbps(100));
        assert_eq!(capacity(|p| p.r_cap = Rate::ZERO).get(at(0)), RATE_MIN);
    }

    #[test]
    fn learned_is_a_windowed_maximum_and_a_quarter() {
        let mut c = capacity(|p| p.r_cap_memory = Some(Duration::from_secs(10)));
        assert_eq!(c.get(at(0)), Rate::from_mbps(100));
        c.on_sample(&sample(20, false), at(0));
        c.on_sample(&sample(8, false), at(5_000));
        assert_eq!(c.get(at(5_000)), Rate::from_mbps(25));
        // A sender short of data says nothing against it, and much data everything for it.
        c.on_sample(&sample(1, true), at(10_050));
        assert_eq!(c.get(at(10_050)), Rate::from_mbps(25));
        c.on_sample(&sample(4, false), at(10_100));
        assert_eq!(c.get(at(10_100)), Rate::from_mbps(10));
        c.on_sample(&sample(90, true), at(10_200));
        assert_eq!(c.get(at(10_200)), Rate::from_mbps(100));
    }

    #[test]
    fn learned_from_a_start_on_it_has_no_bound() {
        let params = RateParams::learning();
        let mut c = LinkCapacity::new(&params);
        for (mbps, r_cap) in [(20, 100), (100, 125), (125, 156), (600, 750)] {
            c.on_sample(&sample(mbps, false), at(mbps));
            assert_eq!(c.get(at(mbps)).as_bps() / 1_000_000, r_cap);
        }
        c.on_sample(&sample(8, false), at(11_000));
        assert_eq!(c.get(at(11_000)), Rate::from_mbps(100));
    }

    #[test]
    fn a_report_is_believed_as_long_as_it_is_valid() {
        let report = Feedback::new(at(100), Duration::from_millis(20), Rate::from_mbps(15), Bytes::ZERO);
        let mut c = capacity(|_| {});
        c.on_feedback(&report);
        // 1448 of 1500 bytes are payload.
        assert_eq!(c.get(at(100)), Rate::from_bps(14_480_000));
        assert_eq!(c.get(at(580)), Rate::from_bps(14_480_000));
        assert_eq!(c.get(at(581)), Rate::from_mbps(100));
        let mut deaf = capacity(|p| p.r_cap_from_feedback = false);
        deaf.on_feedback(&report);
        assert_eq!(deaf.get(at(100)), Rate::from_mbps(100));
    }

    #[test]
    fn carried_is_not_could_have_been_carried() {
        let mut c = capacity(|_| {});
        let report = Feedback::new(at(100), Duration::ZERO, Rate::from_mbps(1), Bytes::ZERO);
        c.on_feedback(&Feedback { is_throughput: true, ..report });
        c.on_feedback(&Feedback { bandwidth: None, ..report });
        assert_eq!(c.get(at(100)), Rate::from_mbps(100));
    }
}
