//! d: as much queue, in time, as keeps the link from running dry more than a share φ of the time.
//!
//! ```text
//!   RTT < τ + δ (the queue had run empty):  d += η·t·(1 − φ)          t = acknowledged bytes ÷ r̂
//!   any other:                              d −= η·t·φ
//!   max(d₀, ¼·τ) ≤ d ≤ max(d₁, τ)
//! ```
//!
//! As stochastic approximation follows a quantile, d rests where the share of such acknowledgements is φ. On a
//! steady link it falls to its least, on a jumpy one it grows.

use units::{Bytes, Duration, Rate};

use super::AdaptiveParams;

/// A single acknowledgement counts for no more time than this.
const STEP_MAX: Duration = Duration::from_millis(100);

/// A path's own jitter is this part of its round trip: nearer to the floor no queue is seen.
const JITTER_PARTS: u64 = 16;

/// Least headroom as a part of the path.
const LEAST_PARTS: u64 = 4;

/// d, and what it is found from.
#[derive(Clone, Debug, stored::Stored)]
pub(super) struct Headroom {
    d: Duration,
}

impl Headroom {
    /// Half of the largest, of a link that is not known.
    pub(super) fn new(params: &AdaptiveParams) -> Self {
        Self { d: params.headroom_max / 2 }
    }

    pub(super) fn get(&self) -> Duration {
        self.d
    }

    /// Follows an acknowledgement of `delivered` bytes that came `rtt` after they had left.
    pub(super) fn follow(
        &mut self,
        rtt: Duration,
        delivered: Bytes,
        (floor, forecast): (Duration, Rate),
        near: Duration,
        params: &AdaptiveParams,
    ) {
        let time = forecast.time_for(delivered).min(STEP_MAX);
        let step = params.headroom_gain.mul_ratio(time.as_nanos(), 1_000_000_000);
        let phi = u64::from(params.starved_permille.min(1_000));
        if rtt < floor + near {
            self.d += step.mul_ratio(1_000 - phi, 1_000);
        } else {
            self.d -= step.mul_ratio(phi, 1_000);
        }
    }

    /// Keeps it within its bounds.
    pub(super) fn clamp(&mut self, (least, most): (Duration, Duration)) {
        self.d = self.d.clamp(least, most);
    }

    /// Sets a constant, without the term.
    pub(super) fn set(&mut self, d: Duration) {
        self.d = d;
    }
}

/// δ: a round trip no further above the floor met no queue. What the link's grain adds is none.
pub(super) fn near(grain: Option<Duration>, floor: Duration, params: &AdaptiveParams) -> Duration {
    grain.unwrap_or(params.starved_below).min(params.starved_below).max(floor / JITTER_PARTS)
}

/// The bounds of d where d₀ and d₁, on this link's scale, are `least` and `most`.
pub(super) fn bounds(
    (least, most): (Duration, Duration),
    floor: Duration,
    params: &AdaptiveParams,
) -> (Duration, Duration) {
    let least = least.max(floor / LEAST_PARTS).max(params.starved_below);
    (least, most.max(floor).max(params.headroom_min).max(least))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_rests_where_the_share_of_empty_queues_is_phi() {
        let params = AdaptiveParams { starved_permille: 100, ..AdaptiveParams::default() };
        let mut headroom = Headroom::new(&params);
        let begin = headroom.get();
        let (floor, near) = (Duration::from_millis(20), Duration::from_millis(2));
        let mut follow = |rtt_ms, count| {
            for _ in 0..count {
                let rtt = Duration::from_millis(rtt_ms);
                headroom.follow(rtt, Bytes::new(10_000), (floor, Rate::from_mbps(8)), near, &params);
            }
            headroom.get()
        };
        // One of ten met no queue.
        assert!(follow(21, 1) > begin);
        let rested = follow(60, 9);
        assert!(rested.saturating_sub(begin).max(begin.saturating_sub(rested)) < Duration::from_micros(2));
        // 10 ms of data at η = 80 ms/s and φ = 0.1 are 0.08 ms less.
        let less = rested.saturating_sub(follow(60, 1));
        assert!((79..=81).contains(&(less.as_nanos() / 1_000)), "{less:?}");
    }

    #[test]
    fn its_bounds_follow_the_path() {
        let params = AdaptiveParams::default();
        let bounds = |floor_ms| {
            let scaled = (Duration::from_millis(6), Duration::from_millis(24));
            let (least, most) = bounds(scaled, Duration::from_millis(floor_ms), &params);
            (least.as_millis(), most.as_millis())
        };
        assert_eq!([2, 20, 100].map(bounds), [(6, 24), (6, 24), (25, 100)]);
    }

    #[test]
    fn a_round_trip_is_near_the_floor_by_the_grain() {
        let params = AdaptiveParams::default();
        let near = |grain_ms: Option<u64>, floor_ms| {
            near(grain_ms.map(Duration::from_millis), Duration::from_millis(floor_ms), &params).as_micros()
        };
        assert_eq!(near(Some(1), 8), 1_000);
        assert_eq!(near(Some(30), 8), 5_000);
        assert_eq!(near(None, 160), 10_000);
    }
}
