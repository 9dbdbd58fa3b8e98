//! [`Settings`]: everything `cellerator run` can be told, from flags, from a file, and from the
//! same file read anew.
//!
//! ```text
//!   file (serde) ──▶ Settings ──▶ Config, EngineConfig
//!                        ▲
//!   flags (clap) ────────┘ set single fields anew
//! ```
//!
//! There is one list of settings and one way to read a value. Defaults are those of the flags.

use std::ffi::OsString;
use std::mem::take;
use std::path::{Path, PathBuf};

use clap::parser::ValueSource;
use clap::{Args, CommandFactory, FromArgMatches, Parser};
use engine::EngineConfig;
use serde::Deserialize;
use units::Duration;

use crate::{Config, InlineFallback, ReadSettings};
use acceleration::EngineArgs;
use feedback::{FeedbackArgs, WindowAdaptationArgs};
use handover::HandoverArgs;
use machine::MachineArgs;
use policy::PolicyArgs;
use value::Written;

mod acceleration;
mod choice;
mod feedback;
mod file;
mod handover;
mod machine;
mod policy;
mod reload;
mod value;

pub use feedback::read_key;
pub use file::in_plain_words;

/// Everything that `cellerator run` can be told, by flags and by a file.
#[derive(Default, clap::Args, Deserialize)]
#[serde(default, rename_all = "kebab-case")]
pub struct Settings {
    /// Interface towards the servers
    #[arg(long, value_name = "IF", required_unless_present_any = ["watchdog", "config", "inline"])]
    wired: Option<String>,
    /// Interface towards the clients
    #[arg(long, value_name = "IF", required_unless_present_any = ["watchdog", "config", "inline"])]
    mobile: Option<String>,
    /// Be a bridge between two interfaces instead of steering the TCP that a router forwards. WIRED leads
    /// to the servers
    #[arg(long, num_args = 2, value_names = ["WIRED", "MOBILE"], conflicts_with_all = ["wired", "mobile"])]
    inline: Option<Vec<String>>,
    /// Connection between the two interfaces of --inline if this process dies or hangs and no other one goes on
    /// [default: none]
    #[arg(long, value_enum, value_name = "WHAT")]
    inline_fallback: Option<InlineFallback>,
    /// Name of this accelerator for `status`, `drain` and others [default: WIRED-MOBILE]
    #[arg(long)]
    name: Option<Written<String>>,
    /// Read settings from a TOML file. Its keys are the names of these flags, such as `r-cap = "30
    /// Mbit/s"`. Flags given here win. SIGHUP and `cellerator reload` read the file again
    #[arg(long, value_name = "FILE")]
    #[serde(skip)]
    config: Option<PathBuf>,
    /// Take the place of a running accelerator, by name or process number, without interrupting a flow.
    /// This one goes on with its flows and devices, and the other one ends. If flows cannot move, the other one
    /// delivers what it owes first, or goes on if it is a bridge
    #[arg(long, value_name = "NAME")]
    #[serde(skip)]
    replace: Option<String>,
    /// Print what would be set up, and change nothing
    #[arg(long)]
    #[serde(skip)]
    dry_run: bool,
    /// Start in the background, and return when packets are steered
    #[arg(long, conflicts_with = "dry_run")]
    #[serde(skip)]
    background: bool,
    #[command(flatten)]
    #[serde(flatten)]
    engine: EngineArgs,
    #[command(flatten)]
    #[serde(flatten)]
    feedback: FeedbackArgs,
    #[command(flatten)]
    #[serde(flatten)]
    handover: HandoverArgs,
    #[command(flatten)]
    #[serde(flatten)]
    machine: MachineArgs,
    /// Be the watchdog over a record, acting after so many milliseconds
    #[arg(long, hide = true, num_args = 2, value_names = ["RECORD", "MS"], exclusive = true)]
    #[serde(skip)]
    watchdog: Option<Vec<String>>,
    /// Go on with the flows of an accelerator that has died and left this record; its watchdog is at the
    /// other end of standard input
    #[arg(long, hide = true, value_name = "RECORD")]
    #[serde(skip)]
    recover: Option<PathBuf>,
}

/// Task of `cellerator run`.
pub enum Task {
    /// Be the watchdog over the record at this path, acting after so much silence.
    Watch(PathBuf, Duration),
    /// Tell what would be set up.
    DryRun(Box<Config>),
    /// Start a process with these arguments of `cellerator run`, and wait until it steers.
    Background(Vec<OsString>),
    /// Accelerate.
    Run(Box<Job>),
}

/// Settings that fit together, and where to read them anew.
pub struct Job {
    /// Settings of the instance.
    pub config: Config,
    /// Settings of the engine.
    pub engine: EngineConfig,
    /// Reads the settings file anew, if there is one.
    pub read: Option<ReadSettings>,
}

/// Flags of the command line.
#[derive(Parser)]
#[command(name = "run", args_override_self = true)]
struct Line {
    #[command(flatten)]
    settings: Settings,
}

impl Settings {
    /// Task that results from the settings of the file that is named, below the flags `given`: those that
    /// `self` was read from.
    ///
    /// # Errors
    /// One line: what, where, what to do.
    pub fn task(self, given: Vec<OsString>) -> Result<Task, String> {
        if let Some([record, hang_after_ms]) = self.watchdog.as_deref() {
            let hang_after_ms =
                hang_after_ms.parse().map_err(|_| format!("run: '{hang_after_ms}' is not a number"))?;
            return Ok(Task::Watch(PathBuf::from(record), Duration::from_millis(hang_after_ms)));
        }
        let (settings, file) = match self.config.clone() {
            Some(path) => (Self::with_file(&path, &given)?, Some(path)),
            None => (self, None),
        };
        let engine = settings.engine.config()?;
        if settings.background {
            return Ok(Task::Background(given.into_iter().filter(|word| word != "--background").collect()));
        }
        let successor = successor_of(&given);
        let read = file.map(|path| reload::reading(path, given)).transpose()?;
        let is_dry_run = settings.dry_run;
        let mut config = settings.machine_config()?;
        config.watchdog.successor = successor;
        Ok(if is_dry_run {
            Task::DryRun(Box::new(config))
        } else {
            Task::Run(Box::new(Job { config, engine, read }))
        })
    }

    /// The settings of the file at `path` and the flags `given`, which win.
    fn with_file(path: &Path, given: &[OsString]) -> Result<Self, String> {
        let file = file::read(path).map_err(|error| format!("run: {error}"))?;
        let at = path.display();
        let mut settings = file.settings().map_err(|problem| format!("run: {at}{problem}"))?;
        settings.set_anew(path, given).map_err(|error| format!("run: {}", file::first_line(&error)))?;
        if let Some((names, problem)) = settings.misfit() {
            return Err(format!("run: {at}{}: {problem}", file.line_of(names)));
        }
        match (&settings.wired, &settings.mobile) {
            _ if settings.inline.is_some() => Ok(settings),
            (Some(_), Some(_)) => Ok(settings),
            _ => Err(format!("run: neither {at} nor a flag says `wired` and `mobile`")),
        }
    }

    /// Sets the fields anew that the flags `given` speak of. Lists grow.
    fn set_anew(&mut self, path: &Path, given: &[OsString]) -> Result<(), clap::Error> {
        let words = ["run".into(), "--config".into(), path.into()];
        let words = words.into_iter().chain(given.iter().cloned());
        let mut flags = Line::command_for_update().try_get_matches_from(words)?;
        let of_default = |id: &&clap::Id| flags.value_source(id.as_str()) == Some(ValueSource::DefaultValue);
        let by_default: Vec<clap::Id> = flags.ids().filter(of_default).cloned().collect();
        by_default.iter().for_each(|id| drop(flags.try_clear_id(id.as_str())));
        let (rules, set) = (take(&mut self.engine.policy.rule), take(&mut self.engine.set));
        let peers = take(&mut self.handover.handover_peer);
        let takes = take(&mut self.handover.handover_takes);
        let gives = take(&mut self.handover.handover_gives);
        self.update_from_arg_matches_mut(&mut flags)?;
        self.engine.policy.rule.splice(0..0, rules);
        self.engine.set.splice(0..0, set);
        self.handover.handover_peer.splice(0..0, peers);
        self.handover.handover_takes.splice(0..0, takes);
        self.handover.handover_gives.splice(0..0, gives);
        Ok(())
    }

    /// Settings that do not fit together, and why: first those of which one must be the file's. Flags alone fit.
    fn misfit(&self) -> Option<(&'static [&'static str], String)> {
        match &self.inline {
            Some(two) if two.len() != 2 => {
                Some((&["inline"], "'inline' is a list of two interfaces".to_owned()))
            }
            Some(_) if self.wired.is_some() || self.mobile.is_some() => Some((
                &["wired", "mobile", "inline"],
                "'wired' and 'mobile' cannot be used with 'inline', which says both".to_owned(),
            )),
            _ => self.feedback.misfit().or_else(|| self.handover.misfit()),
        }
    }

    fn machine_config(self) -> Result<Config, String> {
        let fallback = self.inline_fallback;
        if self.inline.is_none() && fallback.is_some() {
            return Err("run: --inline-fallback belongs to --inline: without, there is no bridge".to_owned());
        }
        let mut config = Config {
            inline: self.inline.as_ref().map(|_| fallback.unwrap_or(InlineFallback::None)),
            feedback: self.feedback.config()?,
            handover: self.handover.config()?,
            replace: self.replace.filter(|_| self.recover.is_none()),
            recover: self.recover,
            ipv6_prefix_len: self.engine.policy.ipv6_prefix(),
            schedules: self.engine.schedules(),
            echo_markers: self.engine.has_echo_markers(),
            ..Config::default()
        };
        self.machine.apply(&mut config)?;
        let name = self.name.map(|Written(name)| name);
        if let Some(name) = name.as_deref().filter(|name| !is_plain(name)) {
            return Err(format!(
                "run: --name '{name}': letters, digits, `-`, `_` or `.`, at most 40, as in lte-2"
            ));
        }
        config.name = name.unwrap_or_default();
        [config.wired, config.mobile] = match self.inline.as_deref() {
            Some([wired, mobile]) => [wired.clone(), mobile.clone()],
            _ => [self.wired, self.mobile].map(Option::unwrap_or_default),
        };
        Ok(config)
    }
}

macro_rules! default_without_flags {
    ($($section:ty),+) => {$(
        impl Default for $section {
            fn default() -> Self {
                let flags = Self::augment_args(clap::Command::new("run")).get_matches_from(["run"]);
                Self::from_arg_matches(&flags).unwrap_or_else(|error| error.exit())
            }
        }
    )+};
}

default_without_flags! { EngineArgs, WindowAdaptationArgs, PolicyArgs, FeedbackArgs, HandoverArgs, MachineArgs }

/// Program and arguments of a process that goes on in this one's place: as `given`, but in nobody else's.
/// None where they are no text.
fn successor_of(given: &[OsString]) -> Vec<String> {
    let mut successor = vec!["/proc/self/exe".to_owned(), "run".to_owned()];
    let mut given = given.iter();
    while let Some(word) = given.next() {
        let Some(word) = word.to_str() else { return Vec::new() };
        match word.split('=').next() {
            Some("--replace" | "--recover") if word.contains('=') => {}
            Some("--replace" | "--recover") => drop(given.next()),
            _ => successor.push(word.to_owned()),
        }
    }
    successor
}

/// The engine's settings by flags of `cellerator run`.
///
/// # Errors
/// One line: what, what to do.
pub fn engine_config_of(flags: &[String]) -> Result<EngineConfig, String> {
    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        engine: EngineArgs,
    }
    let words = std::iter::once("run").chain(flags.iter().map(String::as_str));
    let line = Line::try_parse_from(words)
        .map_err(|error| error.to_string().lines().next().unwrap_or_default().to_owned())?;
    line.engine.config()
}

/// True for a name that people can give to `drain` and others without quotes.
fn is_plain(name: &str) -> bool {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
    !name.is_empty() && name.len() <= 40 && !name.starts_with(['-', '.']) && name.chars().all(is_plain)
}

#[cfg(test)]
mod tests;
