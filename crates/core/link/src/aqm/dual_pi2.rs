//! [`DualPi2`]: the dual-queue coupled AQM of RFC 9332, as its appendix A has it.
//!
//! ```text
//!   each `update`:  p' ← p' + α·(q − target) + β·(q − q before)      q: the wait of the oldest packet
//!   classic:        p_C = p'²      marks, or drops what cannot be marked
//!   scalable:       p_L = max( step: 1 where a packet has waited for `step` , k·p' )
//! ```
//!
//! p' is the linear probability: a classic sender's window goes with 1 ÷ √p_C, a scalable one's with 1 ÷ p_L, so that
//! both have about the same rate with k = 2 (§2.1). The scheduler is weighted round robin as in Linux `sch_dualpi2`:
//! scalable packets go first, and classic ones get at least a tenth.

use units::{Bytes, Duration, Instant};

use super::QueueVerdict;
use crate::random::Stream;

/// Probability one, as an integer.
const ONE: i64 = 1 << 32;

/// k: the coupling factor (RFC 9332 §2.1).
const COUPLING: i64 = 2;

/// Shares of the scheduler: Linux `c_protection`.
const SHARE_OF_LOW: i64 = 90;
const SHARE_OF_CLASSIC: i64 = 10;

/// Gains of the controller: α = 0.1·`update` ÷ `rtt_max`², β = 0.3 ÷ `rtt_max` (RFC 9332 figure 2).
const ALPHA_TENTHS: i128 = 1;
const BETA_TENTHS: i128 = 3;

/// Settings of DualPI2.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DualPi2Params {
    /// Queueing time of classic packets. Default 15 ms (RFC 9332 figure 2).
    pub target: Duration,
    /// A scalable packet that has waited longer is marked. Default 1 ms (RFC 9332 §A.1, RFC 9331 §4.3).
    pub step: Duration,
    /// The longest usual round trip: sets the gains. Default 100 ms (RFC 9332 figure 2).
    pub rtt_max: Duration,
    /// Time from one step of the controller to the next. Default 16 ms (Linux; RFC 9332: the least of the
    /// target and a third of `rtt_max`).
    pub update: Duration,
}

impl Default for DualPi2Params {
    fn default() -> Self {
        Self {
            target: Duration::from_millis(15),
            step: Duration::from_millis(1),
            rtt_max: Duration::from_millis(100),
            update: Duration::from_millis(16),
        }
    }
}

/// State of the controller and the scheduler.
#[derive(Clone, Debug)]
pub(super) struct DualPi2 {
    params: DualPi2Params,
    random: Stream,
    next_update: Instant,
    /// p', in parts of [`ONE`].
    base: i64,
    before: Duration,
    /// Marks that scalable packets are still to get (RFC 9332 `recur`).
    owed: i64,
    /// Above zero it is a classic packet's turn.
    credit: i64,
}

impl DualPi2 {
    pub(super) fn new(params: DualPi2Params, random: Stream, start: Instant) -> Self {
        let next_update = start + params.update;
        Self { params, random, next_update, base: 0, before: Duration::ZERO, owed: 0, credit: 0 }
    }

    pub(super) fn next_update(&self) -> Instant {
        self.next_update
    }

    /// True when a step without a queue would change nothing.
    pub(super) fn is_at_rest(&self) -> bool {
        self.base == 0 && self.before.is_zero()
    }

    /// Leaves out the steps up to `now`, which change nothing.
    pub(super) fn skip_to(&mut self, now: Instant) {
        if self.next_update > now {
            return;
        }
        let update = self.params.update.as_nanos().max(1);
        let steps = now.saturating_since(self.next_update).as_nanos() / update + 1;
        self.next_update += Duration::from_nanos(steps.saturating_mul(update));
    }

    /// A step of the controller; the oldest packet has waited for `time`.
    pub(super) fn update(&mut self, time: Duration) {
        let nanos = |time: Duration| i128::from(time.as_nanos());
        let (update, rtt) = (nanos(self.params.update), nanos(self.params.rtt_max));
        let one = i128::from(ONE);
        let error = nanos(time) - nanos(self.params.target);
        let growth = nanos(time) - nanos(self.before);
        let integral = one * ALPHA_TENTHS * update * error / (10 * rtt * rtt);
        let proportional = one * BETA_TENTHS * growth / (10 * rtt);
        let base = i128::from(self.base) + integral + proportional;
        self.base = i64::try_from(base.clamp(0, one)).unwrap_or(ONE);
        self.before = time;
        self.next_update += self.params.update;
    }

    /// True on a scalable packet's turn, given how many packets of each may leave; none where none may.
    pub(super) fn picks_low(&self, [low, classic]: [usize; 2]) -> Option<bool> {
        match (low, classic) {
            (0, 0) => None,
            (0, _) => Some(false),
            (_, 0) => Some(true),
            _ => Some(self.credit <= 0),
        }
    }

    /// A packet has its turn.
    pub(super) fn spend(&mut self, is_low: bool, size: Bytes, [low, classic]: [usize; 2]) {
        let size = i64::try_from(size.get()).unwrap_or(i64::MAX / SHARE_OF_LOW);
        if is_low && classic > 0 {
            self.credit += size * SHARE_OF_CLASSIC;
        } else if !is_low && low > 0 {
            self.credit -= size * SHARE_OF_LOW;
        }
    }

    /// k·p', at most one.
    fn coupled(&self) -> i64 {
        (COUPLING * self.base).min(ONE)
    }

    /// True where scalable packets are all marked and the queue still grows: then they are dropped as classic ones are
    /// (RFC 9332 §4.2.2).
    fn is_overloaded(&self) -> bool {
        self.coupled() >= ONE
    }

    /// Judges a scalable packet that has waited for `sojourn` in a queue of `len`, it included.
    pub(super) fn judge_low(&mut self, sojourn: Duration, len: usize) -> QueueVerdict {
        if self.is_overloaded() && self.is_hit_squared() {
            return QueueVerdict::Dropped;
        }
        // A packet alone is no queue (RFC 9332 §A.1: Th_len).
        let own = if sojourn >= self.params.step && len > 1 { ONE } else { 0 };
        self.owed += own.max(self.coupled());
        if self.owed < ONE {
            return QueueVerdict::Leaves;
        }
        self.owed -= ONE;
        QueueVerdict::Marked
    }

    /// Judges a classic packet.
    pub(super) fn judge_classic(&mut self, is_capable: bool) -> QueueVerdict {
        if !self.is_hit_squared() {
            QueueVerdict::Leaves
        } else if is_capable && !self.is_overloaded() {
            QueueVerdict::Marked
        } else {
            QueueVerdict::Dropped
        }
    }

    /// True with p'²: of two draws both are below p' (RFC 9332 §2.1, "think twice").
    fn is_hit_squared(&mut self) -> bool {
        let draws = [(); 2].map(|()| self.random.below(ONE as u64) as i64);
        draws.into_iter().all(|draw| draw < self.base)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::Stage;

    fn ms(ms: u64) -> Duration {
        Duration::from_millis(ms)
    }

    fn at(base_permille: i64) -> DualPi2 {
        let random = Stream::new(1, Stage::Aqm);
        let new = DualPi2::new(DualPi2Params::default(), random, Instant::ZERO);
        DualPi2 { base: ONE * base_permille / 1_000, ..new }
    }

    fn permille(number: i64, of: i64) -> i64 {
        number * 1_000 / of
    }

    #[test]
    fn gains_are_those_of_the_standard() {
        let mut law = at(0);
        // α = 0.1·16 ms ÷ (100 ms)² = 0.16 Hz, β = 0.3 ÷ 100 ms = 3 Hz: 100 ms of queue, 85 ms above the target.
        law.update(ms(100));
        let expected = ONE * 16 * 85 / 100_000 + ONE * 3 * 100 / 1_000;
        assert!((law.base - expected).abs() < 4, "{} of {expected}", law.base);
        // The same queue again: the integral part alone.
        law.update(ms(100));
        assert!((law.base - expected - ONE * 16 * 85 / 100_000).abs() < 8, "{}", law.base);
        for _ in 0..1_000 {
            law.update(Duration::ZERO);
        }
        assert!(law.is_at_rest());
    }

    #[test]
    fn classic_packets_are_hit_with_the_square_and_scalable_ones_with_twice_the_base() {
        for base in [50, 100, 200, 400] {
            let mut law = at(base);
            let classic =
                (0..100_000).filter(|_| law.judge_classic(true) == QueueVerdict::Marked).count() as i64;
            let low = (0..100_000)
                .filter(|_| law.judge_low(Duration::ZERO, 2) == QueueVerdict::Marked)
                .count() as i64;
            let square = base * base / 1_000;
            assert!((permille(classic, 100_000) - square).abs() <= 3, "{classic} at {base}");
            assert!((permille(low, 100_000) - 2 * base).abs() <= 1, "{low} at {base}");
        }
    }

    #[test]
    fn a_scalable_packet_is_marked_by_a_step_of_a_millisecond_unless_it_is_alone() {
        let judge = |us: u64, len: usize| at(0).judge_low(Duration::from_micros(us), len);
        assert_eq!(
            [judge(999, 9), judge(1_000, 9), judge(5_000, 1)],
            [QueueVerdict::Leaves, QueueVerdict::Marked, QueueVerdict::Leaves]
        );
    }

    #[test]
    fn in_overload_all_are_dropped_alike() {
        let mut law = at(700);
        let dropped = |fates: &mut dyn Iterator<Item = QueueVerdict>| {
            fates.filter(|f| *f == QueueVerdict::Dropped).count() as i64
        };
        let classic = dropped(&mut (0..10_000).map(|_| law.judge_classic(true)));
        let low = dropped(&mut (0..10_000).map(|_| law.judge_low(Duration::ZERO, 2)));
        assert!((classic - 4_900).abs() < 200 && (low - 4_900).abs() < 200, "{classic}, {low}");
    }

    #[test]
    fn classic_packets_get_a_tenth_beside_scalable_ones() {
        let mut law = at(0);
        let mut sent = [0u32; 2];
        for _ in 0..10_000 {
            let is_low = law.picks_low([5, 5]).unwrap();
            law.spend(is_low, Bytes::new(1_500), [5, 5]);
            sent[usize::from(!is_low)] += 1;
        }
        assert!((8_990..=9_010).contains(&sent[0]), "{sent:?}");
    }
}
