//! [`Machine`]: what the figures were measured on, and how busy it is.

use std::fs;

use serde::{Deserialize, Serialize};

/// The machine a benchmark ran on.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct Machine {
    /// The processor's model name as the kernel gives it.
    pub processor: String,
    /// Processors available.
    pub processors: usize,
    /// Kernel release.
    pub kernel: String,
    /// Version of HAProxy, if it is installed.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub haproxy: Option<String>,
}

impl Machine {
    /// This machine.
    #[must_use]
    pub fn here() -> Self {
        let info = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
        Self {
            processor: model(&info).unwrap_or("unknown").to_owned(),
            processors: io::sched::cpu_count(),
            kernel: fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default().trim().to_owned(),
            haproxy: crate::haproxy::version(),
        }
    }
}

/// x86 says `model name`; on ARM there may be none.
fn model(info: &str) -> Option<&str> {
    let line = info.lines().find(|line| line.starts_with("model name"))?;
    line.split_once(':').map(|(_, name)| name.trim())
}

/// Processor time of the whole machine since its start, in ticks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Ticks {
    pub busy: u64,
    pub idle: u64,
}

impl Ticks {
    /// Counters of the kernel now; zeros where it says nothing.
    pub fn now() -> Self {
        Self::parse(&fs::read_to_string("/proc/stat").unwrap_or_default()).unwrap_or_default()
    }

    /// First line of `/proc/stat` (proc(5)): user nice system idle iowait irq softirq steal; guest
    /// time is part of user time.
    fn parse(stat: &str) -> Option<Self> {
        let line = stat.lines().next()?.strip_prefix("cpu ")?;
        let fields: Vec<u64> = line.split_ascii_whitespace().take(8).filter_map(|n| n.parse().ok()).collect();
        let idle = fields.get(3)? + fields.get(4)?;
        Some(Self { idle, busy: fields.iter().sum::<u64>() - idle })
    }

    /// Processor time that was used since `earlier`, by anything.
    pub fn busy_seconds_since(self, earlier: Self) -> f64 {
        self.busy.saturating_sub(earlier.busy) as f64 / TICKS_PER_SECOND
    }

    /// The share of time since `earlier` in which processors were busy, 0 to 1.
    pub fn busy_share_since(self, earlier: Self) -> f64 {
        let busy = self.busy.saturating_sub(earlier.busy) as f64;
        let all = busy + self.idle.saturating_sub(earlier.idle) as f64;
        if all > 0.0 { busy / all } else { 0.0 }
    }
}

/// Processor time process `pid` has used, in seconds: user and system time of all its threads,
/// including packets that the kernel handles on its back. To the nanosecond where the scheduler
/// keeps account, else to the tick of 10 ms.
pub(crate) fn cpu_seconds(pid: u32) -> Option<f64> {
    scheduled_seconds(pid).or_else(|| ticks(pid).map(|(user, system)| user + system))
}

/// The first field of each thread's `schedstat`: nanoseconds on a processor.
fn scheduled_seconds(pid: u32) -> Option<f64> {
    let mut nanos = 0u64;
    for thread in fs::read_dir(format!("/proc/{pid}/task")).ok()?.flatten() {
        let text = fs::read_to_string(thread.path().join("schedstat")).ok()?;
        nanos += text.split_ascii_whitespace().next()?.parse::<u64>().ok()?;
    }
    Some(nanos as f64 / 1e9)
}

/// User time and system time of a process, seconds; the kernel divides its exact account by what
/// ticks have seen.
pub(crate) fn ticks(pid: u32) -> Option<(f64, f64)> {
    let (user, system) = used_ticks(&fs::read_to_string(format!("/proc/{pid}/stat")).ok()?)?;
    Some((user as f64 / TICKS_PER_SECOND, system as f64 / TICKS_PER_SECOND))
}

/// Processes that process `pid` has started, and that live.
pub(crate) fn children_of(pid: u32) -> Vec<u32> {
    let Ok(threads) = fs::read_dir(format!("/proc/{pid}/task")) else { return Vec::new() };
    let children =
        threads.flatten().filter_map(|thread| fs::read_to_string(thread.path().join("children")).ok());
    children
        .flat_map(|text| text.split_ascii_whitespace().filter_map(|pid| pid.parse().ok()).collect::<Vec<_>>())
        .collect()
}

/// USER_HZ: the same on all architectures Linux runs on today.
const TICKS_PER_SECOND: f64 = 100.0;

/// Fields 14 and 15 of `/proc/PID/stat`; the program's name before them may contain spaces.
fn used_ticks(stat: &str) -> Option<(u64, u64)> {
    let mut fields = stat.rsplit_once(')')?.1.split_ascii_whitespace().skip(11);
    let mut next = || fields.next()?.parse::<u64>().ok();
    Some((next()?, next()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn processor_and_time_are_read_as_the_kernel_writes_them() {
        assert_eq!(model("processor\t: 0\nmodel name\t: Some CPU @ 2.60GHz\n"), Some("Some CPU @ 2.60GHz"));
        assert_eq!(model("processor : 0\n"), None);
        let stat = "cpu  10 1 20 300 5 2 3 4 9 0\ncpu0 1 1 1 1 1 1 1 1 1 1\n";
        assert_eq!(Ticks::parse(stat), Some(Ticks { busy: 40, idle: 305 }));
        assert_eq!(Ticks::parse("intr 1"), None);
        let share = Ticks { busy: 60, idle: 365 }.busy_share_since(Ticks { busy: 40, idle: 305 });
        assert!((share - 0.25).abs() < 1e-9);
        let stat = "77 (a (b) c) R 1 2 3 4 5 6 7 8 9 10 120 30 0 0 20 0 1 0 5 6 7";
        assert_eq!(used_ticks(stat), Some((120, 30)));
    }

    #[test]
    fn this_process_uses_time() {
        assert!(cpu_seconds(std::process::id()).is_some());
        assert_eq!(cpu_seconds(u32::MAX), None);
        assert!(Ticks::now().busy > 0);
    }
}
