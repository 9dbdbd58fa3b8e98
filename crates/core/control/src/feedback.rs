//! [`Feedback`]: what a base station says about a subscriber's downlink. \[WA\] §IV-A.

use units::{Bytes, Duration, Instant, Rate};

/// A report of a base station about the downlink of one subscriber.
///
/// Bandwidth and queue are those of the radio link, so they count IP packets with their headers, as
/// \[WA\] counts packets of 1500 bytes; controllers count payload and convert.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Feedback {
    /// Time of its arrival.
    pub now: Instant,
    /// Time from the measurement to the arrival, as far as is known.
    pub age: Duration,
    /// b̂: what the link could carry for this subscriber when it was measured; none if not reported.
    pub bandwidth: Option<Rate>,
    /// The bandwidth is what was carried, not what could have been: a lower bound while the queue is empty.
    pub is_throughput: bool,
    /// q̂: bytes that waited for the radio link, IP headers included; none if not reported.
    pub queue: Option<Bytes>,
    /// Time after its measurement for which it may be used; zero if it does not say.
    pub validity: Duration,
}

impl Feedback {
    /// A report of both figures that is `age` old.
    #[must_use]
    pub const fn new(now: Instant, age: Duration, bandwidth: Rate, queue: Bytes) -> Self {
        Self {
            now,
            age,
            bandwidth: Some(bandwidth),
            is_throughput: false,
            queue: Some(queue),
            validity: Duration::ZERO,
        }
    }

    /// Time of the measurement; the start of the clock if it was before that.
    #[must_use]
    pub fn sampled_at(&self) -> Instant {
        self.now - self.age
    }

    /// Time until which it may be used: `default` after it was measured unless it says otherwise itself.
    #[must_use]
    pub fn valid_until(&self, default: Duration) -> Instant {
        self.sampled_at() + if self.validity.is_zero() { default } else { self.validity }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_report_is_valid_from_its_measurement_on() {
        let ms = Duration::from_millis;
        let mut report = Feedback::new(Instant::from_millis(100), ms(20), Rate::from_mbps(1), Bytes::ZERO);
        assert_eq!(report.sampled_at(), Instant::from_millis(80));
        assert_eq!(report.valid_until(ms(50)), Instant::from_millis(130));
        report.validity = ms(30);
        assert_eq!(report.valid_until(ms(50)), Instant::from_millis(110));
        report.validity = ms(300);
        assert_eq!(report.valid_until(ms(50)), Instant::from_millis(380));
    }
}
