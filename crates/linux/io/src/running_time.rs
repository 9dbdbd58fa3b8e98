//! [`RunningTime`]: how long a process could have worked: time in which it waited for a processor does not count.

use std::collections::BTreeMap;
use std::fs;

use units::{Duration, Instant};

/// Time during which a process could have worked since a moment.
///
/// Time passes for it as for all, but for that in which one of its threads was ready to run and had no processor
/// (`/proc/PID/task/*/schedstat`: time on a processor, time spent waiting for one, ns). So it passes slowly for a
/// process that is starved, and at its full pace for one that is stopped, frozen, or waits in the kernel. Where the
/// kernel does not tell, all time counts.
#[derive(Debug)]
pub struct RunningTime {
    process: u32,
    looked_at: Instant,
    threads: BTreeMap<u32, Thread>,
    running: Duration,
}

/// A thread, as the kernel has counted so far.
#[derive(Clone, Copy, Debug, Default)]
struct Thread {
    on_processor: Duration,
    waited: Duration,
    /// It is on a processor, or waits for one; that wait is not counted yet.
    is_ready: bool,
}

impl Thread {
    /// For how long of the `elapsed` time since `before` it waited for a processor.
    fn waited_since(self, before: Self, elapsed: Duration) -> Duration {
        let ran = self.on_processor - before.on_processor;
        // Counted is a wait when it ends: one that is ready has waited whenever it has not run.
        let waited = if self.is_ready { elapsed - ran } else { self.waited - before.waited };
        waited.min(elapsed)
    }
}

impl RunningTime {
    /// That of a process, from `now` on.
    #[must_use]
    pub fn of(process: u32, now: Instant) -> Self {
        Self { process, looked_at: now, threads: threads(process), running: Duration::ZERO }
    }

    /// Begins anew.
    pub fn restart(&mut self, now: Instant) {
        *self = Self::of(self.process, now);
    }

    /// The process.
    #[must_use]
    pub const fn process(&self) -> u32 {
        self.process
    }

    /// Time that has passed so far. To be asked often: of the time since this was asked before, the longest
    /// wait of any thread does not count, though others may have waited after it; a thread that is ready to
    /// run when this is asked counts as waiting for all of it in which it did not run.
    pub fn passed(&mut self, now: Instant) -> Duration {
        self.note(threads(self.process), now)
    }

    fn note(&mut self, found: BTreeMap<u32, Thread>, now: Instant) -> Duration {
        let elapsed = now.saturating_since(self.looked_at);
        let waited = found.iter().filter_map(|(number, thread)| {
            let before = self.threads.get(number)?;
            Some(thread.waited_since(*before, elapsed))
        });
        self.running += elapsed - waited.max().unwrap_or(Duration::ZERO);
        (self.looked_at, self.threads) = (now, found);
        self.running
    }
}

/// The threads of a process, by their numbers; none where it has ended.
fn threads(process: u32) -> BTreeMap<u32, Thread> {
    let entries = fs::read_dir(format!("/proc/{process}/task")).into_iter().flatten().flatten();
    let numbers = entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    numbers.filter_map(|number| Some((number, thread(process, number)?))).collect()
}

fn thread(process: u32, number: u32) -> Option<Thread> {
    let text = fs::read_to_string(format!("/proc/{process}/task/{number}/schedstat")).ok()?;
    let mut fields = text.split_ascii_whitespace().map_while(|field| field.parse().ok());
    let (on_processor, waited) = (fields.next()?, fields.next()?);
    let stat = fs::read_to_string(format!("/proc/{process}/task/{number}/stat")).ok()?;
    // The program's name, in parentheses, may itself contain spaces and parentheses.
    let is_ready = stat.rsplit_once(')').is_some_and(|(_, rest)| rest.trim_start().starts_with('R'));
    let (on_processor, waited) = (Duration::from_nanos(on_processor), Duration::from_nanos(waited));
    Some(Thread { on_processor, waited, is_ready })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Clock, PidFd, Waiter};
    use std::process::{Child, Command};

    const fn ms(ms: u64) -> Duration {
        Duration::from_millis(ms)
    }

    #[test]
    fn a_thread_that_is_ready_has_waited_whenever_it_has_not_run() {
        let before = Thread { on_processor: ms(100), waited: ms(50), is_ready: false };
        let waiting = Thread { on_processor: ms(103), is_ready: true, ..before };
        assert_eq!(waiting.waited_since(before, ms(20)), ms(17));
        let asleep = Thread { on_processor: ms(103), waited: ms(55), is_ready: false };
        assert_eq!(asleep.waited_since(before, ms(20)), ms(5));
        assert_eq!(before.waited_since(before, ms(20)), Duration::ZERO, "stopped");
        assert_eq!(before.waited_since(Thread::default(), ms(20)), ms(20), "no more than there was");
    }

    #[test]
    fn threads_that_wait_one_after_the_other_are_told_apart_by_several_looks() {
        let at = |now: u64| {
            let waited = [now.min(700), now.saturating_sub(700).min(700)];
            let thread = |waited| Thread { waited: ms(waited), ..Thread::default() };
            waited.into_iter().enumerate().map(|(number, waited)| (number as u32, thread(waited))).collect()
        };
        let passed = |every: u64| {
            let mut time =
                RunningTime { process: 1, looked_at: Instant::ZERO, threads: at(0), running: Duration::ZERO };
            let looks = (1..=1_400 / every).map(|look| look * every);
            looks.map(|now| time.note(at(now), Instant::from_millis(now))).last()
        };
        assert_eq!([passed(50), passed(1_400)], [Some(Duration::ZERO), Some(ms(700))]);
    }

    struct Busy(Child);

    impl Busy {
        fn start(nice: &[&str]) -> Self {
            let words = [&["-c", "0"][..], nice, &["sh", "-c", "while :; do :; done"]].concat();
            Self(Command::new("taskset").args(words).spawn().unwrap())
        }
    }

    impl Drop for Busy {
        fn drop(&mut self) {
            drop(self.0.kill());
            drop(self.0.wait());
        }
    }

    #[test]
    fn time_passes_slowly_for_who_is_starved_and_not_for_who_is_stopped() {
        // On one processor, where others always come first.
        let starved = Busy::start(&["chrt", "--idle", "0"]);
        let others = [Busy::start(&[]), Busy::start(&[])];
        let mut waiter = Waiter::new(Duration::ZERO).unwrap();
        let mut wait = |time| assert!(waiter.wait(Some(Clock::now() + time)).unwrap().is_empty());
        // All have become what they are to be.
        wait(ms(200));
        let mut look = |of: &mut RunningTime| {
            let began = Clock::now();
            of.restart(began);
            let mut passed = Duration::ZERO;
            while Clock::now() < began + ms(400) {
                wait(ms(20));
                passed = of.passed(Clock::now());
            }
            (passed, Clock::now().saturating_since(began))
        };
        let mut time = RunningTime::of(starved.0.id(), Clock::now());
        let (passed, elapsed) = look(&mut time);
        assert!(passed * 2 < elapsed, "{passed} of {elapsed}");
        let stopped = &others[0].0;
        PidFd::open(stopped.id()).unwrap().send_signal(libc::SIGSTOP).unwrap();
        let mut time = RunningTime::of(stopped.id(), Clock::now());
        // It takes a processor to stop.
        let (passed, elapsed) = [look(&mut time), look(&mut time), look(&mut time)][2];
        assert!(passed * 10 > elapsed * 9, "{passed} of {elapsed}");
        assert_eq!(RunningTime::of(u32::MAX, Clock::now()).threads.len(), 0, "there is no such process");
    }
}
