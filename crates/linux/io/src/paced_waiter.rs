//! [`PacedWaiter`]: a [`Waiter`] for who sends packet after packet, each at its time.
//!
//! It sleeps until shortly before each deadline and spins through the rest, with real-time priority where
//! that is permitted. Packets that leave faster than one in [`MARGIN`] keep it spinning all the time, which
//! the kernel does not let a real-time thread do ([`SpinBudget`]). So for a tenth of the time it spins as an
//! ordinary thread, which costs nothing where no other thread wants the processor. Where one does, as late
//! deadlines show, it keeps the priority instead, and sleeps waits through to their end, some 10 to 100 µs
//! too long.

use std::os::fd::AsFd;

use units::{Duration, Instant};

use crate::{Clock, Interest, IoError, Ready, SpinBudget, Waiter, sched};

/// Time before a deadline at which it is awake: a processor that idles takes longer than
/// [`Waiter::SPIN_MARGIN`] to wake up more than once in a hundred times.
const MARGIN: Duration = Duration::from_micros(250);
/// An ordinary thread that is later than this had to wait for another one …
const LATE: Duration = Duration::from_micros(200);
/// … and does without being one for so long.
const CONTENDED: Duration = Duration::from_secs(2);

/// Sleeps and spins; makes a thread real-time and ordinary by turns.
#[derive(Debug)]
pub struct PacedWaiter {
    precise: Waiter,
    relaxed: Waiter,
    budget: SpinBudget,
    /// The priority, where the thread may have one.
    priority: Option<u8>,
    is_realtime: bool,
    contended_until: Instant,
    woken: Instant,
}

impl PacedWaiter {
    /// A waiter of the calling thread, which gets real-time `priority` where that is permitted: use it from
    /// this thread only.
    ///
    /// # Errors
    /// When no epoll descriptors can be had.
    pub fn new(priority: u8) -> Result<Self, IoError> {
        let is_realtime = sched::set_realtime_priority(priority).is_ok();
        let now = Clock::now();
        Ok(Self {
            precise: Waiter::new(MARGIN)?,
            relaxed: Waiter::new(Duration::ZERO)?,
            budget: SpinBudget::default(),
            priority: is_realtime.then_some(priority),
            is_realtime,
            contended_until: now,
            woken: now,
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

    /// As [`Waiter::wait`]; where the deadline need not be met exactly, it is slept through.
    ///
    /// # Errors
    /// When epoll fails.
    pub fn wait(&mut self, deadline: Option<Instant>, is_exact: bool) -> Result<&[Ready], IoError> {
        let asleep_from = Clock::now();
        let is_used_up = self.is_realtime && !self.budget.allows_spinning();
        let is_contended = asleep_from < self.contended_until;
        if is_used_up && !is_contended {
            self.is_realtime = sched::set_ordinary_priority().is_err();
        } else if !self.is_realtime && (self.budget.is_full() || is_contended) {
            self.is_realtime =
                self.priority.is_some_and(|priority| sched::set_realtime_priority(priority).is_ok());
        }
        let (waiter, margin) = if is_used_up && is_contended || !is_exact {
            (&mut self.relaxed, Duration::ZERO)
        } else {
            (&mut self.precise, MARGIN)
        };
        let ready = waiter.wait(deadline)?;
        let now = Clock::now();
        let asleep_to = deadline.map_or(now, |at| now.min(at - margin));
        let asleep = asleep_to.saturating_since(asleep_from);
        if self.is_realtime {
            self.budget.spend(now.saturating_since(self.woken) - asleep, asleep);
        } else {
            // As good as sleep: whoever else wants the processor gets it.
            self.budget.spend(Duration::ZERO, now.saturating_since(self.woken));
            let is_late = |at: Instant| asleep_from < at && now.saturating_since(at) > LATE;
            if self.priority.is_some() && deadline.is_some_and(is_late) {
                self.contended_until = now + CONTENDED;
            }
        }
        self.woken = now;
        Ok(ready)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn deadlines_are_never_early_and_the_budget_holds() {
        std::thread::spawn(|| {
            let mut waiter = PacedWaiter::new(1).unwrap();
            let begin = Clock::now();
            let (mut at, mut turns) = (begin, 0);
            let mut was_realtime = waiter.is_realtime;
            while at < begin + Duration::from_millis(400) {
                at += Duration::from_micros(120);
                assert!(waiter.wait(Some(at), true).unwrap().is_empty());
                assert!(Clock::now() >= at);
                turns +=
                    usize::from(std::mem::replace(&mut was_realtime, waiter.is_realtime) != was_realtime);
            }
            // It spins all the time: as a real-time thread for no longer than 100 ms in a row, or it sleeps.
            let is_busy = waiter.contended_until > begin;
            assert!(waiter.priority.is_none() || turns >= 2 || is_busy, "{turns}");
        })
        .join()
        .unwrap();
    }
}
