//! [`Sight`]: what is shown of a subscriber beside what its controller goes by.
//!
//! Not part of a stored engine: it begins anew where the flows go on elsewhere, as [`crate::Meters`] do.

use stored::{Reader, Stored, StoredError, Writer};
use units::{Bytes, Duration};

/// Weight of a new round trip in the mean, as a power of two: 1/8, as in `srtt` (RFC 6298 §2.3).
const GAIN_SHIFT: u32 = 3;

/// Round trips of all flows of a subscriber, and what was sent again to it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Sight {
    /// Smoothed round trip, and smoothed difference to the shortest one of its flow; none before the first.
    times: Option<(Duration, Duration)>,
    /// Payload sent again.
    retransmitted: u64,
}

impl Sight {
    /// Takes in a round trip of a flow whose shortest one is `least`.
    pub(crate) fn on_round_trip(&mut self, rtt: Duration, least: Duration) {
        let queueing = rtt.saturating_sub(least);
        let (mean, waited) = self.times.unwrap_or((rtt, queueing));
        self.times = Some((drawn_to(mean, rtt), drawn_to(waited, queueing)));
    }

    /// Counts `len` payload bytes that were sent again.
    pub(crate) fn on_retransmission(&mut self, len: u32) {
        self.retransmitted += u64::from(len);
    }

    /// Smoothed round trip.
    pub(crate) fn srtt(&self) -> Option<Duration> {
        self.times.map(|(rtt, _)| rtt)
    }

    /// Estimate of the time that packets spend in queues.
    pub(crate) fn queueing(&self) -> Option<Duration> {
        self.times.map(|(_, queueing)| queueing)
    }

    /// Payload sent again.
    pub(crate) fn retransmitted(&self) -> Bytes {
        Bytes::new(self.retransmitted)
    }
}

/// `mean`, an eighth nearer to `new`; rounded down.
fn drawn_to(mean: Duration, new: Duration) -> Duration {
    let (mean, new) = (mean.as_nanos(), new.as_nanos());
    Duration::from_nanos(mean - (mean >> GAIN_SHIFT) + (new >> GAIN_SHIFT))
}

impl Stored for Sight {
    fn store(&self, _: &mut Writer) {}

    fn restore(_: &mut Reader<'_>) -> Result<Self, StoredError> {
        Ok(Self::default())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_smoothed_and_the_shortest_is_no_queue() {
        let ms = Duration::from_millis;
        let mut sight = Sight::default();
        assert_eq!((sight.srtt(), sight.queueing()), (None, None));
        sight.on_round_trip(ms(40), ms(40));
        assert_eq!((sight.srtt(), sight.queueing()), (Some(ms(40)), Some(Duration::ZERO)));
        sight.on_round_trip(ms(120), ms(40));
        assert_eq!((sight.srtt(), sight.queueing()), (Some(ms(50)), Some(ms(10))));
        // A shortest one that came later.
        sight.on_round_trip(ms(50), ms(60));
        assert_eq!(sight.queueing(), Some(Duration::from_micros(8_750)));
        sight.on_retransmission(1_000);
        assert_eq!(sight.retransmitted(), Bytes::new(1_000));
    }

    #[test]
    fn it_is_not_stored() {
        let mut sight = Sight::default();
        sight.on_retransmission(1);
        assert!(stored::to_bytes(&sight).is_empty());
        assert_eq!(stored::from_bytes::<Sight>(1, &[]).unwrap(), Sight::default());
    }
}
