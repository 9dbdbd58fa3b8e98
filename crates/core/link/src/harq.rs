//! [`Harq`]: radio block errors, repaired by retransmission in order.

use units::Duration;

use crate::LinkError;
use crate::error::check_ppm;
use crate::random::{Stage, Stream};

/// Radio block errors and their repair: hybrid ARQ with in-order release (RLC acknowledged mode).
///
/// Each try of a packet fails with `block_error_ppm`; a failed try costs `retry_time`. After
/// `tries_max` failed tries the packet is lost. Packets behind one under repair are held back until
/// it is repaired or lost, as RLC does (3GPP TS 36.322 §5.1.3). A retry takes no capacity: traces and
/// rates say what is left after repairs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Harq {
    /// Probability that one try fails, in parts per million. About 100,000 is usual.
    pub block_error_ppm: u32,
    /// Time that each failed try adds. About 8 ms for LTE.
    pub retry_time: Duration,
    /// Tries in all, at least one.
    pub tries_max: u8,
    /// Makes one block, with one fate, of all packets that leave at the same time: transport blocks
    /// of many packets. Otherwise each packet is one.
    pub per_slot: bool,
}

impl Default for Harq {
    /// 10 % block errors, 8 ms a try, and so many tries that loss is rare (10^-5).
    fn default() -> Self {
        Self { block_error_ppm: 100_000, retry_time: Duration::from_millis(8), tries_max: 5, per_slot: false }
    }
}

impl Harq {
    pub(crate) fn check(&self) -> Result<(), LinkError> {
        if self.tries_max == 0 {
            return Err(LinkError::setting("harq.tries_max", "at least one try is needed"));
        }
        check_ppm("harq.block_error_ppm", self.block_error_ppm)
    }
}

/// Effect of repair on one packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Repair {
    pub(crate) failed_tries: u8,
    pub(crate) is_lost: bool,
    pub(crate) time: Duration,
}

/// Takes the decisions of a [`Harq`] stage, one packet after the other.
#[derive(Clone, Debug)]
pub(crate) struct HarqStage {
    harq: Option<Harq>,
    random: Stream,
    /// The last block: when it left, and how it fared.
    last: Option<(Duration, Repair)>,
}

impl HarqStage {
    pub(crate) fn new(harq: Option<Harq>, seed: u64) -> Self {
        Self { harq, random: Stream::new(seed, Stage::Harq), last: None }
    }

    /// Takes the decision on a packet that is put on the air at `departure`, since the link's start.
    pub(crate) fn transmit(&mut self, departure: Duration) -> Repair {
        let Some(harq) = self.harq else {
            return Repair { failed_tries: 0, is_lost: false, time: Duration::ZERO };
        };
        if let Some((_, repair)) = self.last.filter(|(at, _)| harq.per_slot && *at == departure) {
            return repair;
        }
        let mut failed_tries = 0;
        while failed_tries < harq.tries_max && self.random.is_hit(harq.block_error_ppm) {
            failed_tries += 1;
        }
        let repair = Repair {
            failed_tries,
            is_lost: failed_tries == harq.tries_max,
            time: harq.retry_time * u64::from(failed_tries),
        };
        self.last = Some((departure, repair));
        repair
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tries_and_residual_loss_follow_the_error_rate() {
        let harq = Harq {
            block_error_ppm: 300_000,
            retry_time: Duration::from_millis(8),
            tries_max: 3,
            per_slot: false,
        };
        let mut stage = HarqStage::new(Some(harq), 4);
        let repairs: Vec<Repair> = (0..200_000).map(|_| stage.transmit(Duration::ZERO)).collect();
        let share = |f: &dyn Fn(&Repair) -> bool| {
            repairs.iter().filter(|repair| f(repair)).count() as f64 / repairs.len() as f64
        };
        assert!((share(&|repair| repair.failed_tries >= 1) - 0.3).abs() < 0.01);
        assert!((share(&|repair| repair.failed_tries >= 2) - 0.09).abs() < 0.005);
        assert!((share(&|repair| repair.is_lost) - 0.027).abs() < 0.003);
        assert!(repairs.iter().all(|r| r.time == Duration::from_millis(8) * u64::from(r.failed_tries)));
    }

    /// Ten packets to a slot: a tenth of the decisions, and the same share of packets repaired.
    #[test]
    fn packets_of_a_slot_fare_alike() {
        let harq = Harq { per_slot: true, ..Harq::default() };
        let mut stage = HarqStage::new(Some(harq), 4);
        let slot = |number: u64| Duration::from_micros(number / 10 * 500);
        let failed: Vec<bool> = (0..200_000).map(|n| stage.transmit(slot(n)).failed_tries > 0).collect();
        assert!(failed.chunks(10).all(|slot| slot.iter().all(|failed| failed == &slot[0])));
        let share = failed.iter().filter(|failed| **failed).count() as f64 / failed.len() as f64;
        // Five standard deviations of 20,000 blocks are 0.011.
        assert!((share - 0.1).abs() < 0.011, "{share}");
    }
}
