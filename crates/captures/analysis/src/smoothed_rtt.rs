//! [`SmoothedRtt`]: a round-trip time as senders estimate it (RFC 6298 §2).

use units::Duration;

/// Round-trip time and its variation, smoothed as RFC 6298 §2 says.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SmoothedRtt {
    pub(crate) srtt: Duration,
    pub(crate) rttvar: Duration,
}

impl SmoothedRtt {
    /// After a first measurement.
    pub(crate) fn first(rtt: Duration) -> Self {
        Self { srtt: rtt, rttvar: rtt / 2 }
    }

    /// After a further one.
    pub(crate) fn next(self, rtt: Duration) -> Self {
        let error = rtt.saturating_sub(self.srtt).max(self.srtt.saturating_sub(rtt));
        Self { srtt: (self.srtt * 7 + rtt) / 8, rttvar: (self.rttvar * 3 + error) / 4 }
    }
}

/// The same, or none before the first measurement, in no more room.
#[derive(Clone, Copy, Debug)]
pub(crate) struct OptionalSmoothedRtt(SmoothedRtt);

impl OptionalSmoothedRtt {
    const NONE: Duration = Duration::from_nanos(u64::MAX);

    pub(crate) fn new(rtt: SmoothedRtt) -> Self {
        Self(rtt)
    }

    #[inline]
    pub(crate) fn get(self) -> Option<SmoothedRtt> {
        (self.0.srtt != Self::NONE).then_some(self.0)
    }
}

impl Default for OptionalSmoothedRtt {
    fn default() -> Self {
        Self(SmoothedRtt { srtt: Self::NONE, rttvar: Duration::ZERO })
    }
}
