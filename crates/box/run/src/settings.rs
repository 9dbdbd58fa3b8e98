//! [`Settings`]: everything `cellerator run` can be told, from flags, from a file, and from the
//! same file read anew.
//!
//! ```text
//!   file ── one flag for each setting, with its line ──┐
//!                                                      ├──▶ Settings ──▶ Config, EngineConfig
//!   flags ─────────────────────────────────────────────┘ which win
//! ```
//!
//! There is one list of settings, one way to read a value, and one set of messages.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use clap::Parser;
use engine::EngineConfig;
use units::Duration;

use crate::{Config, InlineFallback, ReadSettings};
use acceleration::EngineArgs;
use feedback::FeedbackArgs;
use handover::HandoverArgs;
use machine::MachineArgs;

mod acceleration;
mod choice;
mod feedback;
mod file;
mod handover;
mod machine;
mod policy;
mod reload;

pub use feedback::read_key;
pub use file::in_plain_words;

/// Everything that `cellerator run` can be told, by flags and by a file.
#[derive(clap::Args)]
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
    /// What joins the two interfaces of --inline if this process dies or hangs and no other one goes on
    /// [default: none]
    #[arg(long, value_enum, value_name = "WHAT")]
    inline_fallback: Option<InlineFallback>,
    /// Name of this accelerator for `status`, `drain` and others [default: WIRED-MOBILE]
    #[arg(long)]
    name: Option<String>,
    /// Read settings from a TOML file. Its keys are the names of these flags, such as `r-cap = "30
    /// Mbit/s"`. Flags given here win. SIGHUP and `cellerator reload` read the file again
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Take the place of a running accelerator, by name or process number, without interrupting a flow.
    /// This one goes on with its flows and devices, and the other one ends. If flows cannot move, the other one
    /// delivers what it owes first, or goes on if it is a bridge
    #[arg(long, value_name = "NAME")]
    replace: Option<String>,
    /// Print what would be set up, and change nothing
    #[arg(long)]
    dry_run: bool,
    /// Start in the background, and return when packets are steered
    #[arg(long, conflicts_with = "dry_run")]
    background: bool,
    #[command(flatten)]
    engine: EngineArgs,
    #[command(flatten)]
    feedback: FeedbackArgs,
    #[command(flatten)]
    handover: HandoverArgs,
    #[command(flatten)]
    machine: MachineArgs,
    /// Be the watchdog over a record, acting after so many milliseconds
    #[arg(long, hide = true, num_args = 2, value_names = ["RECORD", "MS"], exclusive = true)]
    watchdog: Option<Vec<String>>,
    /// Go on with the flows of an accelerator that has died and left this record; its watchdog is at the
    /// other end of standard input
    #[arg(long, hide = true, value_name = "RECORD")]
    recover: Option<PathBuf>,
}

/// What `cellerator run` is asked to do.
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
    /// How the accelerator is attached to the machine.
    pub config: Config,
    /// How flows are accelerated.
    pub engine: EngineConfig,
    /// Reads the settings file anew, if there is one.
    pub read: Option<ReadSettings>,
}

/// Flags of the command line and settings of a file, which go before.
#[derive(Parser)]
#[command(name = "run", args_override_self = true)]
struct Line {
    #[command(flatten)]
    settings: Settings,
}

impl Settings {
    /// What is to be done, with the settings of the file that is named, below the flags `given`: those that
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
        let words = std::iter::once(OsString::from("run"))
            .chain(file.iter().flat_map(|setting| &setting.flags).map(OsString::from))
            .chain(given.iter().cloned());
        let settings = Line::try_parse_from(words).map(|line| line.settings).map_err(|error| {
            // The flags alone have been read already.
            let culprit = file.iter().find_map(|setting| Some((setting.line, setting.problem(given)?)));
            let (line, problem) = match culprit {
                Some((line, problem)) => (format!(", line {line}"), problem),
                None => (String::new(), file::first_line(&error)),
            };
            format!("run: {}{line}: {problem}", path.display())
        })?;
        match (&settings.wired, &settings.mobile) {
            _ if settings.inline.is_some() => Ok(settings),
            (Some(_), Some(_)) => Ok(settings),
            _ => Err(format!("run: neither {} nor a flag says `wired` and `mobile`", path.display())),
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
        if let Some(name) = self.name.as_deref().filter(|name| !is_plain(name)) {
            return Err(format!(
                "run: --name '{name}': letters, digits, `-`, `_` or `.`, at most 40, as in lte-2"
            ));
        }
        config.name = self.name.unwrap_or_default();
        [config.wired, config.mobile] = match self.inline.as_deref() {
            Some([wired, mobile]) => [wired.clone(), mobile.clone()],
            _ => [self.wired, self.mobile].map(Option::unwrap_or_default),
        };
        Ok(config)
    }
}

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
