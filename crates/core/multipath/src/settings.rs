//! [`Settings`]: thresholds of the state machine.

use serde::{Deserialize, Serialize};
use units::Duration;

/// Thresholds of the state machine.
///
/// Defaults come from measurements on Linux 6.18 between network namespaces: with them a path that dies
/// without a word is left within half a second.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct Settings {
    /// Least time without an arrival after which a path on which data is due is suspect.
    pub quiet_min: Duration,
    /// Time between probes of a path that is up.
    pub probe_idle: Duration,
    /// Time between probes of a suspect path.
    pub probe_suspect: Duration,
    /// Time between probes of a path that is down.
    pub probe_down: Duration,
    /// Least time without its answer, or anything else, after which a probe is lost.
    pub timeout_min: Duration,
    /// Time added to two round trips for the same.
    pub timeout_slack: Duration,
    /// Probes lost in a row until a path is dead. While data is due, one lost and as many late are enough.
    pub losses_to_down: u32,
    /// Answers in a row until a path is up again.
    pub answers_to_up: u32,
    /// Radio strength below which a path is weak, dBm.
    pub weak_dbm: i32,
    /// Strength above `weak_dbm` at which a weak path is no longer weak, dB.
    pub strong_margin_db: i32,
    /// Lost probes, of the last 20 of a live path, that make it weak.
    pub weak_losses: u32,
    /// Time for which a weak path must be strong to be used again.
    pub strong_for: Duration,
    /// A path to be removed although it lives: how long its data may take to drain.
    pub drain_max: Duration,
    /// Time that a new endpoint may take until a subflow joins; doubled each time, up to 16 times.
    pub join_wait: Duration,
    /// Times that a path may die within [`Settings::flap_window`] before it has to wait.
    pub flaps_free: u32,
    /// The window for the same.
    pub flap_window: Duration,
    /// Time that it waits the first time; doubled each time.
    pub flap_hold: Duration,
    /// Longest wait.
    pub flap_hold_max: Duration,
    /// Time after which routes of a path that never answered are demoted, if another path answers.
    pub unproven_for: Duration,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            quiet_min: Duration::from_millis(40),
            probe_idle: Duration::from_millis(200),
            probe_suspect: Duration::from_millis(20),
            probe_down: Duration::from_millis(100),
            timeout_min: Duration::from_millis(100),
            timeout_slack: Duration::from_millis(60),
            losses_to_down: 3,
            answers_to_up: 2,
            weak_dbm: -112,
            strong_margin_db: 4,
            weak_losses: 6,
            strong_for: Duration::from_secs(1),
            drain_max: Duration::from_secs(3),
            join_wait: Duration::from_secs(2),
            flaps_free: 2,
            flap_window: Duration::from_secs(20),
            flap_hold: Duration::from_secs(1),
            flap_hold_max: Duration::from_secs(16),
            unproven_for: Duration::from_secs(1),
        }
    }
}

/// The settings by name, with what they are; for documents.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Named {
    /// Its name.
    pub name: String,
    /// Its value with its unit.
    pub value: String,
}

impl Settings {
    /// Name and value of each, in order.
    #[must_use]
    pub fn named(&self) -> Vec<Named> {
        let ms = |d: Duration| format!("{} ms", d.as_millis());
        let count = |n: u32| n.to_string();
        let all = [
            ("quiet_min", ms(self.quiet_min)),
            ("probe_idle", ms(self.probe_idle)),
            ("probe_suspect", ms(self.probe_suspect)),
            ("probe_down", ms(self.probe_down)),
            ("timeout_min", ms(self.timeout_min)),
            ("timeout_slack", ms(self.timeout_slack)),
            ("losses_to_down", count(self.losses_to_down)),
            ("answers_to_up", count(self.answers_to_up)),
            ("weak_dbm", format!("{} dBm", self.weak_dbm)),
            ("strong_margin_db", format!("{} dB", self.strong_margin_db)),
            ("weak_losses", format!("{} of 20", self.weak_losses)),
            ("strong_for", ms(self.strong_for)),
            ("drain_max", ms(self.drain_max)),
            ("join_wait", ms(self.join_wait)),
            ("flaps_free", count(self.flaps_free)),
            ("flap_window", ms(self.flap_window)),
            ("flap_hold", ms(self.flap_hold)),
            ("flap_hold_max", ms(self.flap_hold_max)),
            ("unproven_for", ms(self.unproven_for)),
        ];
        all.into_iter().map(|(name, value)| Named { name: name.to_owned(), value }).collect()
    }
}
