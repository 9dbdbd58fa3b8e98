//! [`Predecessor`]: a running instance whose place another one takes without a flow noticing (H34).
//!
//! As a rule the new one goes on with the old one's devices and steering ([`crate::transfer`]). Where it
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

use std::path::PathBuf;

use io::netlink::Rule;
use io::{NamespaceId, RECORD, sysctl};
use units::Duration;

use crate::console::{self, Answer, Found, Question};
use crate::record::{Record, RecordedRule, RecordedSysctl};
use crate::{Config, RunError};

/// How long the old instance may take to deliver what it owes: nobody waits for it.
const DRAIN_TIME_MAX: Duration = Duration::from_secs(600);

/// Reverse-path filtering: an address need only be reachable, by whatever interface (RFC 3704 §2.4).
const RP_FILTER_STRICT: u32 = 1;
const RP_FILTER_LOOSE: &str = "2";

/// The instance before.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Predecessor {
    /// Its devices: wired, mobile.
    pub tuns: [String; 2],
    rules: Vec<RecordedRule>,
    /// What it has changed, and puts back at its end unless another instance needs it.
    pub settings: Vec<RecordedSysctl>,
    name: String,
    process: u32,
    /// Where it keeps its files.
    directory: PathBuf,
}

impl Predecessor {
    /// The instance that `config` says to replace.
    pub fn find(config: &Config) -> Result<Option<Self>, RunError> {
        let Some(name) = &config.replace else { return Ok(None) };
        let found = find(config, name)?;
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
        let directory = found.directory().to_owned();
        Ok(Some(Self { tuns, rules, settings, name: found.name, process: found.process, directory }))
    }

    /// What it is called.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Where it has written down what it has set up.
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

    /// What must be set as long as packets pass both: they come in by other ways than they would go out.
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

    /// Has it take on nothing new, and end when it owes nothing.
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
    console::choose(console::find(&config.state_directory)?, Some(name)).map_err(RunError::Settings)
}
