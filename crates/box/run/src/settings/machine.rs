//! [`MachineArgs`]: how the accelerator is attached to this machine.

use core::str::FromStr;

use scenario::Quantity;
use serde::Deserialize;
use units::Duration;

use super::value::{Within, Written};
use crate::{AfterHang, Config, Notrack, SteeringChoice};

/// Attachment of the accelerator to this machine.
#[derive(clap::Args, Deserialize)]
#[serde(default, rename_all = "kebab-case")]
#[command(next_help_heading = "This machine")]
pub(super) struct MachineArgs {
    /// Method that steers packets into this process: BPF programs at the interfaces (`tcx`, needs Linux 6.6 and no
    /// connection tracking on this machine), or policy rules
    #[arg(long, value_enum, default_value = "auto", value_name = "HOW")]
    steering: SteeringChoice,
    /// Let passed flows come through this process too. By default, tcx leaves them to the kernel
    #[arg(long)]
    no_bypass: bool,
    /// Keep connection tracking away from the mobile side. NAT or a stateful firewall on this machine
    /// need it
    #[arg(long, value_enum, default_value = "auto", value_name = "WHEN")]
    notrack: Notrack,
    /// Start although filters of this machine would be passed by, or would break flows (they are named in the log).
    /// By default such a start is refused, and flows are handed back when such a rule appears
    #[arg(long)]
    bypass_filters: bool,
    /// Switch IP forwarding on, and restore it on exit
    #[arg(long)]
    set_forwarding: bool,
    /// Silence of this process after which a watchdog removes the steering
    #[arg(long, value_name = "TIME", default_value = "1 s")]
    hang_after: Quantity<Duration>,
    /// Action after such a hang
    #[arg(long, value_enum, default_value = "resume", value_name = "WHAT")]
    after_hang: AfterHang,
    /// Run without the watchdog. Then a hang blocks TCP if rules steer, and after a crash nobody resets
    /// flows with debt before the next start
    #[arg(long)]
    no_watchdog: bool,
    /// Longest time that packets wait for another process to go on with the flows when this one dies and owes them
    /// something, or is a bridge with no other beside it; 0 to reset those at once
    #[arg(long, value_name = "TIME", default_value = "500 ms")]
    recover_within: Quantity<Duration>,
    /// After so many deaths within a minute no other process goes on: TCP is forwarded without acceleration
    #[arg(long, value_name = "N", default_value = "3")]
    recover_deaths: Written<Within<1, 65_535>>,
    /// Longest time to deliver what is owed to clients on exit
    #[arg(long, value_name = "TIME", default_value = "5 s")]
    drain_time: Quantity<Duration>,
    /// Threads that handle packets, each for some of the subscribers; no more than there are processors
    /// [default: one per processor, at most 8; one less with --busy-poll]
    #[arg(long, value_name = "N")]
    shards: Option<Written<Within<1, 256>>>,
    /// Never sleep: reacts fastest, but keeps one processor per shard busy all the time
    #[arg(long)]
    busy_poll: bool,
    /// Niceness, −20 to 19, less goes first. Packets wait while others compute: below 0 takes CAP_SYS_NICE [default: -10
    /// if it is started with 0 and may, else as it is started]
    #[arg(long, value_name = "N", allow_hyphen_values = true)]
    nice: Option<Written<Niceness>>,
    /// Stop sleeping and spin this long before each deadline: more exact pacing, more processor time
    #[arg(long, value_name = "TIME", default_value = "0 us")]
    spin_margin: Quantity<Duration>,
    /// Write down what happens to flows and subscribers, too: accelerated, passed and why, time-outs taken
    /// back, outages. Many lines where many flows open
    #[arg(long)]
    log_flows: bool,
    /// The group, by name or number, whose members may look at this accelerator (`status`, `top`, `flows`, `events`,
    /// `metrics`, …) and change nothing. Without it: root alone, and the accelerator's own user
    #[arg(long, value_name = "GROUP")]
    look_group: Option<Written<String>>,
    /// Exchange ordinary packets with the kernel instead of super-packets
    #[arg(long)]
    no_gso: bool,
}

/// A niceness as the kernel has them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Niceness(i32);

impl FromStr for Niceness {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let number = text.parse().map_err(|error: core::num::ParseIntError| error.to_string())?;
        (-20..=19)
            .contains(&number)
            .then_some(Self(number))
            .ok_or_else(|| format!("{number} is not in -20..=19"))
    }
}

/// Shortest silence that counts as a hang.
const HANG_AFTER_MIN: Duration = Duration::from_millis(100);

/// As many threads as are wanted; more than one per processor (two on a single one) only wait for each other, and each
/// has but its part of all memory and flows.
fn shards(wanted: u32, processors: usize) -> Result<usize, String> {
    let wanted = wanted as usize;
    let most = processors.max(2);
    if wanted <= most {
        return Ok(wanted);
    }
    Err(format!(
        "run: --shards {wanted}: there are {processors} processors here, and more threads wait for each other: at \
         most {most}"
    ))
}

/// The number of a group of this machine; an error is one line.
fn group_of(name: &str) -> Result<u32, String> {
    let path = "/etc/group";
    let text = std::fs::read_to_string(path).map_err(|error| format!("run: cannot read {path}: {error}"))?;
    find_group(&text, name)
        .ok_or_else(|| format!("run: --look-group {name}: this machine has no such group ({path})"))
}

fn find_group(text: &str, wanted: &str) -> Option<u32> {
    let mut groups = text.lines().map(|line| line.split(':').collect::<Vec<_>>());
    let group = groups.find(|fields| fields.len() >= 3 && (fields[0] == wanted || fields[2] == wanted))?;
    group[2].parse().ok()
}

impl MachineArgs {
    /// Puts the flags into `config`; an error is one line.
    pub(super) fn apply(&self, config: &mut Config) -> Result<(), String> {
        let hang_after = self.hang_after.0;
        if hang_after < HANG_AFTER_MIN {
            return Err(format!(
                "run: --hang-after must be at least {} ms: a loaded machine needs as much",
                HANG_AFTER_MIN.as_millis()
            ));
        }
        config.steering = self.steering;
        config.notrack = self.notrack;
        config.watchdog.after_hang = self.after_hang;
        config.bypass = !self.no_bypass;
        config.bypass_filters = self.bypass_filters;
        config.set_forwarding = self.set_forwarding;
        config.gso = !self.no_gso;
        config.log_flows = self.log_flows;
        config.shards =
            self.shards.map_or(Ok(0), |Written(Within(wanted))| shards(wanted, io::sched::cpu_count()))?;
        config.busy_poll = self.busy_poll;
        config.niceness = self.nice.map(|Written(Niceness(nice))| nice);
        config.spin_margin_us = self.spin_margin.0.as_micros();
        config.watchdog.hang_after_ms = hang_after.as_millis();
        config.watchdog.is_wanted = !self.no_watchdog;
        config.watchdog.deaths_max = self.recover_deaths.0.0 as usize;
        config.watchdog.recover_within_ms = self.recover_within.0.as_millis();
        config.drain_ms_max = self.drain_time.0.as_millis();
        config.look_group = self.look_group.as_ref().map(|Written(name)| group_of(name)).transpose()?;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_are_no_more_threads_than_processors() {
        assert_eq!([shards(64, 64), shards(2, 1), shards(1, 4)], [Ok(64), Ok(2), Ok(1)]);
        let problem = shards(64, 2).unwrap_err();
        assert!(problem.contains("--shards 64: there are 2 processors") && problem.ends_with("at most 2"));
    }

    #[test]
    fn groups_are_found_by_name_and_number() {
        let text = "root:x:0:\nradio:x:4711:anna\n:\nodd:x\n";
        assert_eq!([find_group(text, "radio"), find_group(text, "4711")], [Some(4_711); 2]);
        assert_eq!([find_group(text, "odd"), find_group(text, "anna")], [None; 2]);
        let problem = group_of("no such group").unwrap_err();
        assert!(problem.contains("--look-group no such group") && problem.lines().count() == 1, "{problem}");
    }
}
