//! `cellerator status --watch`: counters with what they grow by in a second.

use std::collections::BTreeMap;
use std::io::{IsTerminal, Write};
use std::num::NonZero;
use std::process::ExitCode;

use anyhow::Result;
use io::{Clock, Waiter};
use run::Status;
use scenario::Quantity;
use units::{Bytes, Duration};

use super::{Which, ask_status, find, heading_lines, print};

/// Shortest time between two samples.
const INTERVAL_MIN: Duration = Duration::from_millis(100);

/// Arguments of `cellerator status --watch`.
#[derive(clap::Args)]
pub struct WatchArgs {
    /// Show it again and again, with rates between two samples, until Ctrl-C
    #[arg(long, conflicts_with = "json")]
    watch: bool,
    /// With --watch: time between two samples
    #[arg(long, value_name = "TIME", default_value = "1 s", requires = "watch")]
    interval: Quantity<Duration>,
    /// With --watch: end after so many samples
    #[arg(long, value_name = "N", requires = "watch")]
    count: Option<NonZero<u64>>,
}

impl WatchArgs {
    /// True if it is to be watched.
    pub(super) fn is_asked(&self) -> bool {
        self.watch
    }
}

/// Shows the state again and again.
pub(super) fn watch(which: &Which, args: &WatchArgs) -> Result<ExitCode> {
    let interval = args.interval.0.max(INTERVAL_MIN);
    let mut waiter = Waiter::new(Duration::ZERO)?;
    // A terminal shows one sample in the place of the other; what is written to a file follows it.
    let is_terminal = std::io::stdout().is_terminal();
    let mut before: Option<(Status, units::Instant)> = None;
    let mut left = args.count.map(NonZero::get);
    let mut due = Clock::now();
    // Across an upgrade it is found by its name again.
    let mut name = which.name.clone();
    loop {
        let found = find(&Which { name: name.clone() })?;
        name = Some(found.name.clone());
        let (status, at) = (ask_status(&found)?, Clock::now());
        let since = before.as_ref().map(|(status, then)| (status, at.saturating_since(*then)));
        if is_terminal {
            drop(write!(std::io::stdout(), "\x1b[H\x1b[2J"));
        } else if before.is_some() {
            print(&[String::new()]);
        }
        print(&lines(&status, since));
        before = Some((status, at));
        left = left.map(|left| left - 1);
        if left == Some(0) {
            return Ok(ExitCode::SUCCESS);
        }
        due += interval;
        while Clock::now() < due {
            waiter.wait(Some(due))?;
        }
    }
}

/// Lines of it, with rates if there was a sample of the same process before.
fn lines(status: &Status, before: Option<(&Status, Duration)>) -> Vec<String> {
    let before = before.filter(|(before, _)| before.process == status.process);
    let mut lines = heading_lines(status);
    for (at, from) in ["from servers", "from clients"].into_iter().enumerate() {
        let side = &status.sides[at];
        let of = |value: fn(&run::SideStatus) -> u64| {
            before.map(|(before, time)| per_second(value(side), value(&before.sides[at]), time))
        };
        let packets = rate(of(|side| side.received_packets));
        let bits = of(|side| side.received_bytes).map(|bytes| bytes.saturating_mul(8));
        let bits = bits.map_or(String::new(), |bps| format!(", {}", units::Rate::from_bps(bps)));
        let (count, bytes) = (side.received_packets, Bytes::new(side.received_bytes));
        lines.push(format!("{from:<28}{count:>16}{packets:>14}  packets, {bytes}{bits}"));
    }
    let counters = |status: &Status| -> BTreeMap<String, u64> {
        let passed = status.processor.passed.iter();
        let passed = passed.map(|(reason, flows)| (format!("{}, {reason}", super::became(reason)), *flows));
        let named = status.processor.counters.iter().map(|(name, value)| (name.replace('_', " "), *value));
        named.chain(passed).collect()
    };
    let earlier = before.map(|(before, time)| (counters(before), time));
    for (name, value) in counters(status).into_iter().filter(|(_, value)| *value > 0) {
        // A level is what it is.
        let per_s = earlier
            .as_ref()
            .filter(|_| !name.ends_with(" now"))
            .map(|(earlier, time)| per_second(value, earlier.get(&name).copied().unwrap_or(0), *time));
        lines.push(format!("{name:<28}{value:>16}{:>14}", rate(per_s)).trim_end().to_owned());
    }
    lines
}

/// Growth of a counter in a second; rounded down.
fn per_second(now: u64, before: u64, time: Duration) -> u64 {
    let grown = u128::from(now.saturating_sub(before)) * 1_000_000_000;
    u64::try_from(grown / u128::from(time.as_nanos().max(1))).unwrap_or(u64::MAX)
}

fn rate(per_s: Option<u64>) -> String {
    per_s.map_or(String::new(), |per_s| format!("{per_s}/s"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counters_have_rates_and_levels_have_none() {
        let mut before = Status { process: 7, ..Status::default() };
        before.processor.counters.insert("bytes_delivered".to_owned(), 1_000);
        before.processor.passed.insert("policy".to_owned(), 1);
        before.sides[0].received_bytes = 1_000;
        let mut after = before.clone();
        after.processor.counters.insert("bytes_delivered".to_owned(), 4_000);
        after.processor.counters.insert("flows_now".to_owned(), 5);
        after.processor.passed.insert("policy".to_owned(), 3);
        (after.sides[0].received_packets, after.sides[0].received_bytes) = (100, 126_000);
        let two = Duration::from_secs(2);
        let line = |lines: &[String], name: &str| {
            let line = lines.iter().find(|line| line.starts_with(name)).unwrap();
            line.split_whitespace().map(str::to_owned).collect::<Vec<_>>().join(" ")
        };
        let shown = lines(&after, Some((&before, two)));
        assert_eq!(line(&shown, "bytes delivered"), "bytes delivered 4000 1500/s");
        assert_eq!(line(&shown, "passed, policy"), "passed, policy 3 1/s");
        assert_eq!(line(&shown, "flows now"), "flows now 5");
        let side = line(&shown, "from servers");
        assert_eq!(side, "from servers 100 50/s packets, 126.0 KB, 0.500 Mbit/s");
        // The first sample has none, and neither has one of another process.
        before.process = 8;
        for none in [None, Some((&before, two))] {
            assert_eq!(line(&lines(&after, none), "bytes delivered"), "bytes delivered 4000");
        }
    }
}
