//! [`Predecessor`]: a running instance whose place another one takes without a flow noticing (H34).
//!
//! As a rule the new one goes on with the old one's devices and steering ([`crate::upgrade::transfer`]). Where it
//! cannot, both run side by side. The old one stops taking flows and hands back those it has; what it lets
//! through, and that is everything it does not know, comes out of its devices and is steered into
//! the new one's:
//!
//! ```text
//!   WIRED ─▶ old cellw0 ─▶ old ─▶ old cellm0 ─▶ new cellw1 ─▶ new ─▶ new cellm1 ─▶ MOBILE
//! ```
//!
//! New flows are thus the new one's at once. When the old one ends, its rules go, and the new one's
//! own, which stand behind them, take their place: no packet passes unsteered.

use std::fs::File;
use std::path::PathBuf;

use io::netlink::Rule;
use io::{Clock, IoError, NamespaceId, RECORD, Waiter, sysctl, try_lock};
use units::{Duration, Instant};

use crate::instances::{self, Found};
use crate::question::{Answer, Question};
use crate::record::{Record, RecordedRule, RecordedSysctl};
use crate::{Config, RunError};

/// Longest time that the old instance may take to deliver what it owes: nobody waits for it.
const DRAIN_TIME_MAX: Duration = Duration::from_secs(600);

/// Reverse-path filtering: an address need only be reachable, by whatever interface (RFC 3704 §2.4).
const RP_FILTER_STRICT: u32 = 1;
const RP_FILTER_LOOSE: &str = "2";

/// Longest time to wait while another process takes the same one's place. A replacement takes a fraction of it.
const LOCKED_TIME_MAX: Duration = Duration::from_secs(10);

/// Interval of the checks whether that is over.
const LOCKED_LOOK: Duration = Duration::from_millis(20);

/// Longest time that the record of an instance may be on its way from one directory to another.
const RECORD_TIME_MAX: Duration = Duration::from_secs(2);

/// The right to take an instance's place: one process at a time has it, until this is dropped. It is the lock of that
/// instance's directory, which only root may open.
#[derive(Debug)]
pub(crate) struct PlaceLock {
    process: u32,
    _lock: File,
}

impl PlaceLock {
    /// Waits for the right to take the place of the instance that `config` says to replace, whoever has its name then;
    /// none when none is to be replaced.
    ///
    /// # Errors
    /// When there is no such instance, or another process takes its place for too long.
    pub fn take(config: &Config) -> Result<Option<Self>, RunError> {
        // Who goes on for one that has died replaces nobody, whatever that one had to replace.
        let Some(name) = config.replace.as_ref().filter(|_| config.recover.is_none()) else {
            return Ok(None);
        };
        let mut waiter = Waiter::new(Duration::ZERO)?;
        let began = Clock::now();
        loop {
            if let Some(lock) = Self::try_take(config, name, began)? {
                return Ok(Some(lock));
            }
            if Clock::now() >= began + LOCKED_TIME_MAX {
                let why =
                    format!("another process has been taking its place for {LOCKED_TIME_MAX}: try again");
                return Err(RunError::NotReplaced { name: name.clone(), why });
            }
            waiter.wait(Some(Clock::now() + LOCKED_LOOK))?;
        }
    }

    fn try_take(config: &Config, name: &str, began: Instant) -> Result<Option<Self>, RunError> {
        let all = instances::find(&config.state_directory)?;
        let is_in_transit = all.iter().any(|found| found.name.is_empty());
        let found = match instances::choose(all, Some(name)) {
            Ok(found) => found,
            // It may have changed directories while they were read.
            Err(_) if is_in_transit && Clock::now() < began + RECORD_TIME_MAX => return Ok(None),
            Err(why) => return Err(RunError::Settings(why)),
        };
        let (process, directory) = (found.process, found.directory());
        // It has ended meanwhile.
        let Ok(lock) = File::open(directory) else { return Ok(None) };
        let failed = |error| IoError::system(format!("lock {}", directory.display()), error);
        if !try_lock(&lock).map_err(failed)? {
            return Ok(None);
        }
        // Who had the lock before may have taken its place.
        let is_still = find(config, name).is_ok_and(|found| found.process == process);
        Ok(is_still.then_some(Self { process, _lock: lock }))
    }

    /// The process whose place is taken.
    pub const fn process(&self) -> u32 {
        self.process
    }
}

/// The instance before.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Predecessor {
    /// Its devices: wired, mobile.
    pub tuns: [String; 2],
    rules: Vec<RecordedRule>,
    /// Settings that it has changed, and puts back at its end unless another instance needs it.
    pub settings: Vec<RecordedSysctl>,
    name: String,
    process: u32,
    /// Directory of its files.
    directory: PathBuf,
}

impl Predecessor {
    /// The instance that `config` says to replace.
    pub fn find(config: &Config) -> Result<Option<Self>, RunError> {
        let Some(name) = &config.replace else { return Ok(None) };
        // Another process may have got its name since.
        let meant = config.replaced_process.map(|process| process.to_string());
        let found = find(config, meant.as_ref().unwrap_or(name))?;
        let here = NamespaceId::here()?;
        let is_before_us = |record: &Record| {
            let is_alike = record.is_inline == config.inline.is_some();
            let ends = [&record.wired, &record.mobile];
            record.namespace.is(&here) && is_alike && ends == [&config.wired, &config.mobile]
        };
        let record = found.record().filter(is_before_us);
        let Some(Record { tuns, rules, sysctls: settings, .. }) = record else {
            let (wired, mobile) = (&config.wired, &config.mobile);
            let what = if config.inline.is_some() { "bridge" } else { "steer" };
            return Err(RunError::Settings(format!(
                "'{name}' does not {what} {wired} and {mobile} here: --replace takes the place of one that \
                 does"
            )));
        };
        if tuns[0].is_empty() && config.inline.is_none() {
            let why = "it stands by because of a packet filter, and starts again once nothing is against it";
            return Err(RunError::NotReplaced { name: name.clone(), why: why.to_owned() });
        }
        let directory = found.directory().to_owned();
        Ok(Some(Self { tuns, rules, settings, name: found.name, process: found.process, directory }))
    }

    /// Name of the instance.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Path of the record of what it has set up.
    pub fn record_path(&self) -> PathBuf {
        self.directory.join(RECORD)
    }

    /// True when policy rules steer its packets.
    pub fn steers_by_rules(&self) -> bool {
        !self.rules.is_empty()
    }

    /// The priority of its last rule: what is to come behind it has a larger one. One that comes
    /// before would take its flows' packets away from it.
    pub fn last_priority(&self) -> Option<u32> {
        self.rules.iter().map(|rule| rule.priority).max()
    }

    /// True for a rule it has made.
    pub fn has_rule(&self, rule: &Rule) -> bool {
        self.rules.contains(&RecordedRule::from(rule))
    }

    /// Settings that must be set as long as packets pass both: they come in by other ways than they would go out.
    pub fn sysctls(&self, interfaces: [&str; 2]) -> Result<Vec<RecordedSysctl>, RunError> {
        let strictness = |interface: &str| -> Result<u32, RunError> {
            let text = sysctl::read_here(&format!("net/ipv4/conf/{interface}/rp_filter"))?;
            Ok(text.parse().unwrap_or(0))
        };
        let all = strictness("all")?;
        let mut changes = Vec::new();
        for interface in interfaces.into_iter().chain(self.tuns.iter().map(String::as_str)) {
            let own = strictness(interface)?;
            if own.max(all) == RP_FILTER_STRICT {
                changes.push(RecordedSysctl {
                    path: format!("net/ipv4/conf/{interface}/rp_filter"),
                    before: own.to_string(),
                    during: RP_FILTER_LOOSE.to_owned(),
                });
            }
        }
        Ok(changes)
    }

    /// Asks it.
    pub fn ask(&self, config: &Config, question: &Question) -> Result<Answer, RunError> {
        Ok(find(config, &self.process.to_string())?.ask(question)?)
    }

    /// Makes it take on nothing new, and end when it owes nothing.
    pub fn retire(&self, config: &Config) -> Result<(), RunError> {
        let found = find(config, &self.process.to_string())?;
        let question = Question::Drain { time_ms_max: Some(DRAIN_TIME_MAX.as_millis()) };
        match found.ask(&question)? {
            Answer::Done(_) => Ok(()),
            other => Err(RunError::Settings(format!("'{}' does not drain: {other:?}", self.name))),
        }
    }

    /// True while it runs.
    pub fn is_there(&self, config: &Config) -> bool {
        find(config, &self.process.to_string()).is_ok()
    }
}

fn find(config: &Config, name: &str) -> Result<Found, RunError> {
    instances::choose(instances::find(&config.state_directory)?, Some(name)).map_err(RunError::Settings)
}
