//! [`Config`]: what `run` is to do.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};
use units::Duration;

use crate::{FeedbackConfig, HandoverConfig};

/// Settings of an instance: the attachment of the accelerator to the machine.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Config {
    /// Name of this instance for `cellerator status` and others; `WIRED-MOBILE` when empty.
    pub name: String,
    /// A running instance, by name or process number, whose place this one takes.
    pub replace: Option<String>,
    /// Interface towards the servers.
    pub wired: String,
    /// Interface towards the clients.
    pub mobile: String,
    /// Be a bridge between the two interfaces instead of steering what a router forwards; what is
    /// to happen when it dies.
    pub inline: Option<InlineFallback>,
    /// Method that brings TCP here.
    pub steering: SteeringChoice,
    /// Leave flows that are passed to the kernel, where the steering allows it.
    pub bypass: bool,
    /// Keep connection tracking away from the mobile side.
    pub notrack: Notrack,
    /// Steer although packet filters of others would be passed by, or would break flows.
    pub bypass_filters: bool,
    /// Switch IP forwarding on, and back on exit.
    pub set_forwarding: bool,
    /// Take super-packets from the kernel and give it such.
    pub gso: bool,
    /// Threads that handle packets, each for some of the subscribers; 0 for as many as suit this machine.
    pub shards: usize,
    /// IPv6 prefix length that makes a subscriber, in bits, 1 to 128.
    pub ipv6_prefix_len: u8,
    /// The engine schedules what passes ([`engine::EngineConfig::schedule_passed`]). Default true.
    pub schedules: bool,
    /// The engine asks subscribers by echo requests ([`engine::EngineConfig::echo_markers`]). Default false.
    pub echo_markers: bool,
    /// Never sleep: one processor for each shard is busy all the time.
    pub busy_poll: bool,
    /// Time before a deadline at which to stop sleeping and spin, µs. 0 lets a packet leave up to about 0.1
    /// ms late; more costs processor time at every paced packet.
    pub spin_margin_us: u64,
    /// Niceness of the process, −20 to 19; none for [`crate::NICENESS`] where it was started with the ordinary one.
    pub niceness: Option<i32>,
    /// Settings of the watchdog: treatment of a hang.
    pub watchdog: WatchdogConfig,
    /// Longest time to deliver what is owed to clients when asked to stop, ms.
    pub drain_ms_max: u64,
    /// Reception of reports of base stations, if there is any.
    pub feedback: Option<FeedbackConfig>,
    /// Boxes that subscribers may go to, and come from, with their flows; nowhere if none.
    pub handover: Option<HandoverConfig>,
    /// Write down what happens to flows and subscribers, too.
    pub log_flows: bool,
    /// Number of the group whose members may look at the instance, and change nothing; none: root alone may.
    pub look_group: Option<u32>,
    /// Directory in which running instances are recorded.
    pub state_directory: PathBuf,
    /// The record of an instance that has died, with whose flows this one goes on. Its watchdog is at the
    /// other end of standard input.
    #[serde(skip)]
    pub recover: Option<PathBuf>,
    /// The process that `replace` means, once that is fixed.
    #[serde(skip)]
    pub replaced_process: Option<u32>,
}

/// Detection of a hang, and its consequences.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct WatchdogConfig {
    /// Run the watchdog at all.
    pub is_wanted: bool,
    /// Silence after which the watchdog takes the steering away, ms. At least 100.
    pub hang_after_ms: u64,
    /// Action when it turns out that the watchdog did so.
    pub after_hang: AfterHang,
    /// Program and first arguments that reach [`crate::watch`]; two arguments are appended.
    pub command: Vec<String>,
    /// Longest time that packets may wait for a successor after a death with debt, ms; 0 for not at all.
    pub recover_within_ms: u64,
    /// Number of deaths within a minute after which there is no further successor.
    pub deaths_max: usize,
    /// Program and arguments of a successor, to which `--recover RECORD` is appended; none when empty.
    pub successor: Vec<String>,
}

impl Default for WatchdogConfig {
    fn default() -> Self {
        let command = ["/proc/self/exe", "run", "--watchdog"].map(str::to_owned).to_vec();
        Self {
            is_wanted: true,
            hang_after_ms: 1_000,
            after_hang: AfterHang::Resume,
            command,
            recover_within_ms: 500,
            deaths_max: 3,
            successor: Vec::new(),
        }
    }
}

impl Default for Config {
    fn default() -> Self {
        Self {
            name: String::new(),
            replace: None,
            wired: String::new(),
            mobile: String::new(),
            inline: None,
            steering: SteeringChoice::Auto,
            bypass: true,
            notrack: Notrack::Auto,
            bypass_filters: false,
            set_forwarding: false,
            gso: true,
            shards: 0,
            ipv6_prefix_len: 64,
            schedules: true,
            echo_markers: false,
            busy_poll: false,
            spin_margin_us: 0,
            niceness: None,
            watchdog: WatchdogConfig::default(),
            drain_ms_max: 5_000,
            feedback: None,
            handover: None,
            log_flows: false,
            look_group: None,
            state_directory: PathBuf::from(io::INSTANCE_DIRECTORY),
            recover: None,
            replaced_process: None,
        }
    }
}

impl Config {
    /// The instance's name.
    #[must_use]
    pub fn instance_name(&self) -> String {
        if self.name.is_empty() { format!("{}-{}", self.wired, self.mobile) } else { self.name.clone() }
    }

    /// Silence after which the watchdog acts; 100 ms for anything less.
    #[must_use]
    pub fn hang_after(&self) -> Duration {
        Duration::from_millis(self.watchdog.hang_after_ms.max(100))
    }

    /// True when another process is to go on with the flows if this one dies.
    #[must_use]
    pub fn may_have_successor(&self) -> bool {
        let WatchdogConfig { is_wanted, recover_within_ms, successor, .. } = &self.watchdog;
        *is_wanted && *recover_within_ms > 0 && !successor.is_empty()
    }

    /// Interval at which the packet loop tells the watchdog that it is alive.
    #[must_use]
    pub fn heartbeat(&self) -> Duration {
        self.hang_after() / 4
    }

    /// The waiter's spin margin.
    #[must_use]
    pub fn spin_margin(&self) -> Duration {
        if self.busy_poll { Duration::MAX } else { Duration::from_micros(self.spin_margin_us) }
    }
}

/// Link between the two interfaces when the process that joined them dies or hangs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, clap::ValueEnum)]
#[serde(rename_all = "lowercase")]
pub enum InlineFallback {
    /// Nothing: the wire is cut.
    None,
    /// A kernel bridge, until the next start.
    Bridge,
}

/// Method that steers TCP into this process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, clap::ValueEnum)]
#[serde(rename_all = "lowercase")]
pub enum SteeringChoice {
    /// tcx if that is possible, else rules.
    Auto,
    /// BPF programs.
    ///
    /// They are at the interfaces (tcx); where that is not possible it is an error.
    Tcx,
    /// Policy rules.
    Rules,
}

/// Condition for installing the nft table that keeps connection tracking away from the mobile side.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, clap::ValueEnum)]
#[serde(rename_all = "lowercase")]
pub enum Notrack {
    /// If this machine has NAT or connection tracking rules.
    Auto,
    /// Always.
    ///
    /// A missing `nft` is an error.
    Always,
    /// Never.
    Never,
}

/// Action after a hang, when the steering is gone and the process goes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, clap::ValueEnum)]
#[serde(rename_all = "lowercase")]
pub enum AfterHang {
    /// Install the steering again.
    Resume,
    /// End in good order.
    Exit,
}
