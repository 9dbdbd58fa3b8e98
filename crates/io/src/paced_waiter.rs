//! [`PacedWaiter`]: a [`Waiter`] for who sends packet after packet, each at its time.

use std::os::fd::AsFd;

use units::{Duration, Instant};

use crate::{Clock, Interest, IoError, Ready, SpinBudget, Waiter};

/// Sleeps, and spins shortly before each deadline for as long as a [`SpinBudget`] allows it.
#[derive(Debug)]
pub struct PacedWaiter {
    precise: Waiter,
    relaxed: Waiter,
    budget: SpinBudget,
    woken: Instant,
}

impl PacedWaiter {
    /// A waiter that spins for [`Waiter::SPIN_MARGIN`] before a deadline.
    ///
    /// # Errors
    /// When no epoll descriptors can be had.
    pub fn new() -> Result<Self, IoError> {
        Ok(Self {
            precise: Waiter::new(Waiter::SPIN_MARGIN)?,
            relaxed: Waiter::new(Duration::ZERO)?,
            budget: SpinBudget::default(),
            woken: Clock::now(),
        })
    }

    /// Watches `fd`; its readiness is reported with `token`.
    ///
    /// # Errors
    /// When the descriptor is watched already or is of a kind that cannot be watched.
    pub fn add(&self, fd: &impl AsFd, interest: Interest, token: u64) -> Result<(), IoError> {
        self.precise.add(fd, interest, token)?;
        self.relaxed.add(fd, interest, token)
    }

    /// As [`Waiter::wait`]; when little was slept of late, the end of the wait is slept through too, some 10 to
    /// 100 µs too long.
    ///
    /// # Errors
    /// When epoll fails.
    pub fn wait(&mut self, deadline: Option<Instant>) -> Result<&[Ready], IoError> {
        let asleep_from = Clock::now();
        let (waiter, margin) = if self.budget.allows_spinning() {
            (&mut self.precise, Waiter::SPIN_MARGIN)
        } else {
            (&mut self.relaxed, Duration::ZERO)
        };
        let ready = waiter.wait(deadline)?;
        let now = Clock::now();
        let asleep_to = deadline.map_or(now, |at| now.min(at - margin));
        let asleep = asleep_to.saturating_since(asleep_from);
        self.budget.spend(now.saturating_since(self.woken) - asleep, asleep);
        self.woken = now;
        Ok(ready)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn deadlines_are_never_early_and_a_part_of_the_time_is_slept() {
        let mut waiter = PacedWaiter::new().unwrap();
        let begin = Clock::now();
        let mut at = begin;
        while at < begin + Duration::from_millis(400) {
            at += Duration::from_micros(120);
            assert!(waiter.wait(Some(at)).unwrap().is_empty());
            assert!(Clock::now() >= at);
        }
    }
}
