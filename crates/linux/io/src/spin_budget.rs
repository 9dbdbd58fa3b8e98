//! [`SpinBudget`]: how long a real-time thread may go without sleeping.
//!
//! A real-time thread that never sleeps is stopped by the kernel for 50 ms in every second
//! (`sched_rt_runtime_us`, the fair server), which costs more than all the spinning gains: measured at
//! 80 Mbit/s, 50 to 120 ms. So of all time at least a tenth must be spent asleep; when there is less, the
//! waits are slept through to their end, some 10 to 100 µs late.

use units::Duration;

/// Time awake that each part of sleep pays for.
const AWAKE_PER_SLEEP: u64 = 9;
/// Most time that can be saved up: short enough against the kernel's second.
const SAVED_MAX: Duration = Duration::from_millis(100);

/// Time that may be spent awake before the next sleep.
#[derive(Clone, Copy, Debug)]
pub struct SpinBudget {
    left: Duration,
}

impl Default for SpinBudget {
    fn default() -> Self {
        Self { left: SAVED_MAX }
    }
}

impl SpinBudget {
    /// Accounts for a turn.
    pub fn spend(&mut self, awake: Duration, asleep: Duration) {
        self.left = (self.left + asleep * AWAKE_PER_SLEEP).saturating_sub(awake).min(SAVED_MAX);
    }

    /// True when no more can be saved up.
    pub fn is_full(self) -> bool {
        self.left >= SAVED_MAX
    }

    /// True while there is time left to spin.
    pub fn allows_spinning(self) -> bool {
        !self.left.is_zero()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tenth_of_the_time_is_slept() {
        let mut budget = SpinBudget::default();
        let (mut awake, mut asleep) = (Duration::ZERO, Duration::ZERO);
        let gap = Duration::from_micros(150);
        for _ in 0..20_000 {
            if budget.allows_spinning() {
                budget.spend(gap, Duration::ZERO);
                awake += gap;
            } else {
                budget.spend(Duration::ZERO, gap);
                asleep += gap;
            }
        }
        let share = asleep.as_secs_f64() / (awake + asleep).as_secs_f64();
        assert!((0.06..0.11).contains(&share), "{share}");
    }

    #[test]
    fn mostly_asleep_always_spins() {
        let mut budget = SpinBudget::default();
        for _ in 0..1_000 {
            budget.spend(Duration::from_micros(300), Duration::from_micros(700));
            assert!(budget.allows_spinning());
        }
    }
}
