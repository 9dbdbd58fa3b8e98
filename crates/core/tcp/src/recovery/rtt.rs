//! Round-trip time and the retransmission time-out it gives (RFC 6298).

use control::RecentMin;
use stored::{Layouts, Reader, Stored, StoredError, Writer};
use units::{Duration, Instant};

/// Smallest margin of the retransmission time-out above the smoothed round trip.
///
/// DEVIATION: RFC 6298 §2.4 says the time-out is at least one second; Linux uses 200 ms, and a radio
/// hand-over of 300 ms would otherwise cost a full second. Shown by `rto_margin_is_at_least_200_ms`.
const RTO_MARGIN_MIN: Duration = Duration::from_millis(200);

/// Time-out before the first sample (RFC 6298 §2.1).
const RTO_INITIAL: Duration = Duration::from_secs(1);

/// Smoothed round-trip time, its variation and its minimum.
#[derive(Clone, Debug, Default)]
pub struct RttEstimator {
    /// Smoothed, where there is a smallest one.
    srtt: Duration,
    rttvar: Duration,
    /// Of 10 s; after that, a risen minimum is believed (H17).
    min: RecentMin<Duration>,
}

/// With the smoothed round trip as an option.
impl Stored for RttEstimator {
    fn store(&self, out: &mut Writer) {
        self.smoothed().store(out);
        self.rttvar.store(out);
        self.min.store(out);
    }
    fn restore(from: &mut Reader<'_>) -> Result<Self, StoredError> {
        let (srtt, rttvar) = from.value::<(Option<Duration>, Duration)>()?;
        Ok(Self { srtt: srtt.unwrap_or_default(), rttvar, min: from.value()? })
    }
    fn layout(layouts: &mut Layouts) {
        layouts.of::<Self>("RttEstimator", |layouts| {
            layouts.value::<Option<Duration>>("srtt");
            layouts.value::<Duration>("rttvar");
            layouts.value::<RecentMin<Duration>>("min");
        });
    }
}

impl RttEstimator {
    /// Takes in a sample (RFC 6298 §2.2, §2.3); never one of a retransmitted segment (Karn).
    pub fn on_sample(&mut self, rtt: Duration, now: Instant) {
        (self.srtt, self.rttvar) = match self.smoothed() {
            None => (rtt, rtt / 2),
            Some(srtt) => {
                let error = if srtt > rtt { srtt - rtt } else { rtt - srtt };
                (srtt.mul_ratio(7, 8) + rtt / 8, self.rttvar.mul_ratio(3, 4) + error / 4)
            }
        };
        self.min.update(rtt, now);
    }

    /// Goes on with what another estimator had: the smoothed round trip, and the smallest if that is known. The
    /// variation begins as after a first sample (RFC 6298 §2.2).
    pub(crate) fn take_over(&mut self, srtt: Duration, min: Option<Duration>, now: Instant) {
        self.on_sample(srtt, now);
        if let Some(min) = min.filter(|min| *min < srtt) {
            self.min.update(min, now);
        }
    }

    /// The smoothed round-trip time.
    #[must_use]
    pub fn smoothed(&self) -> Option<Duration> {
        self.min.get().map(|_| self.srtt)
    }

    /// The smallest sample of the last 10 s.
    #[must_use]
    pub fn min(&self) -> Option<Duration> {
        self.min.get()
    }

    /// The retransmission time-out without back-off.
    #[must_use]
    pub fn rto(&self) -> Duration {
        self.smoothed().map_or(RTO_INITIAL, |srtt| srtt + (self.rttvar * 4).max(RTO_MARGIN_MIN))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rfc_6298_by_hand() {
        let mut rtt = RttEstimator::default();
        assert_eq!(rtt.rto(), Duration::from_secs(1));
        rtt.on_sample(Duration::from_millis(100), Instant::ZERO);
        assert_eq!(rtt.smoothed(), Some(Duration::from_millis(100)));
        assert_eq!(rtt.rto(), Duration::from_millis(300));
        rtt.on_sample(Duration::from_millis(180), Instant::from_millis(200));
        // rttvar = 3/4·50 + 1/4·80 = 57.5; srtt = 7/8·100 + 1/8·180 = 110; rto = 110 + 4·57.5 = 340
        assert_eq!(rtt.rto(), Duration::from_millis(340));
        assert_eq!(rtt.min(), Some(Duration::from_millis(100)));
    }

    #[test]
    fn rto_margin_is_at_least_200_ms() {
        let mut rtt = RttEstimator::default();
        for i in 0..100 {
            rtt.on_sample(Duration::from_millis(40), Instant::from_millis(i * 40));
        }
        assert_eq!(rtt.rto().as_millis(), 240);
    }
}
