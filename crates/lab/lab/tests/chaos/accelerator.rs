//! [`Accelerator`]: `cellerator run` in the box, started, stopped and troubled.

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::mpsc;
use std::time::Duration;

use io::{Clock, Interest, Namespace, PidFd, SpawnOptions, Tethered, Waiter};

use crate::chaos::network::output;
use crate::program::program;

pub const SIGHUP: i32 = 1;
pub const SIGKILL: i32 = 9;
pub const SIGTERM: i32 = 15;
pub const SIGCONT: i32 = 18;
pub const SIGSTOP: i32 = 19;

/// No start and no end takes longer, under whatever load.
const PATIENCE: Duration = Duration::from_secs(60);

/// A watchdog has a successor go on, or says that none does, within this time.
const SUCCESSION: Duration = Duration::from_secs(1);

/// How the accelerator is attached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    Tcx,
    Rules,
    Inline,
}

impl Way {
    pub const ALL: [Self; 3] = [Self::Tcx, Self::Rules, Self::Inline];

    pub const fn name(self) -> &'static str {
        match self {
            Self::Tcx => "tcx",
            Self::Rules => "rules",
            Self::Inline => "inline",
        }
    }
}

/// What is started again and again.
#[derive(Clone, Debug)]
pub struct Options {
    pub way: Way,
    pub is_both_ways: bool,
    /// Where its settings file is put.
    pub folder: PathBuf,
    /// Without one.
    pub has_no_settings: bool,
}

/// A running one; killed when dropped.
pub struct Accelerator {
    child: Tethered,
    /// Another process that goes on with its flows since it died.
    successor: Option<(u32, PidFd)>,
    name: String,
    lines: mpsc::Receiver<String>,
    /// Lines that were looked at, and are to be looked at again.
    seen: Vec<String>,
}

/// What a watchdog says of a process that it kills.
const KILLED: &str = "hangs and owes flows data: it is killed";

/// What a watchdog says of flows after too many deaths.
const ABANDONED: &str = "nobody goes on with the flows of the process that died: that was death";

impl Accelerator {
    /// Starts it and waits until it is ready; `replace` names the one whose place it takes.
    pub fn start(
        middle: &Namespace,
        options: &Options,
        name: &str,
        replace: Option<&str>,
    ) -> Result<Self, String> {
        Self::begin(middle, options, name, replace)?.when_ready()
    }

    /// Starts it. It is killed when the thread that did so ends.
    pub fn begin(
        middle: &Namespace,
        options: &Options,
        name: &str,
        replace: Option<&str>,
    ) -> Result<Self, String> {
        let mut command = Command::new(program());
        command.arg("run").args(["--name", name]);
        if !options.has_no_settings {
            let settings = options.folder.join(format!("{name}.toml"));
            std::fs::write(&settings, "").map_err(|error| error.to_string())?;
            command.arg("--config").arg(&settings);
        }
        // Who does not take what is owed to him within the drain time is reset: on a busy machine
        // that says nothing about the box.
        command.args(["--drain-time", "40 s"]);
        match options.way {
            Way::Inline => command.args(["--inline", "w0", "m0", "--inline-fallback", "bridge"]),
            way => command.args(["--wired", "w0", "--mobile", "m0", "--steering", way.name()]),
        };
        if options.way == Way::Rules {
            // Something to be taken away.
            command.args(["--notrack", "always"]);
        }
        if options.is_both_ways {
            command.args(["--direction", "both"]);
        }
        if let Some(replace) = replace {
            command.args(["--replace", replace]);
        }
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let spawn = SpawnOptions { death_signal: Some(SIGKILL), own_process_group: true };
        let mut child = Tethered::spawn(middle, command, spawn).map_err(|error| error.to_string())?;
        let (send, lines) = mpsc::channel();
        let pipes: [Box<dyn std::io::Read + Send>; 2] =
            [Box::new(child.stdout.take().unwrap()), Box::new(child.stderr.take().unwrap())];
        for pipe in pipes {
            let (send, name) = (send.clone(), name.to_owned());
            std::thread::spawn(move || {
                BufReader::new(pipe).lines().map_while(Result::ok).for_each(|line| {
                    let is_plan = ["#", "ip ", "sysctl", "nft"].iter().any(|start| line.starts_with(start));
                    if !is_plan {
                        crate::chaos::log(&format!("{name}: {line}"));
                    }
                    drop(send.send(line));
                });
            });
        }
        Ok(Self { child, successor: None, name: name.to_owned(), lines, seen: Vec::new() })
    }

    /// Waits until it is ready; an error if it ends before that.
    pub fn when_ready(mut self) -> Result<Self, String> {
        self.await_line("ready: ")?;
        Ok(self)
    }

    /// Waits for a line that begins so.
    pub fn await_line(&mut self, wanted: &str) -> Result<(), String> {
        loop {
            match self.lines.recv_timeout(PATIENCE) {
                Ok(line) if line.starts_with(wanted) => return Ok(()),
                Ok(_) => {}
                Err(_) => return Err(format!("{} never said '{wanted}'", self.name)),
            }
        }
    }

    pub fn name(&self) -> &str {
        &self.name
    }

    pub fn signal(&self, signal: i32) {
        // It may have ended; that is noticed by `check`.
        drop(PidFd::open(self.process()).and_then(|process| process.send_signal(signal)));
    }

    pub fn process(&self) -> u32 {
        self.successor.as_ref().map_or(self.child.id(), |(process, _)| *process)
    }

    /// Waits until `watchdog` has done what it does after a death; true when another process goes on.
    pub fn is_succeeded(&mut self, watchdog: Option<&PidFd>) -> Result<bool, String> {
        if let Some(watchdog) = watchdog {
            await_end_of(watchdog, &self.name)?;
        }
        // It has said so before it ended; the thread that reads may not have been there yet.
        let lines = self.said_within(Duration::from_millis(200));
        match lines.iter().filter_map(|line| successor_of(line)).next_back() {
            Some(successor) => self.follow(successor).map(|()| true),
            None => Ok(false),
        }
    }

    /// What it has said, until it is silent for that long.
    fn said_within(&mut self, silence: Duration) -> Vec<String> {
        let mut said = std::mem::take(&mut self.seen);
        said.extend(std::iter::from_fn(|| self.lines.recv_timeout(silence).ok()));
        said
    }

    /// Forgets what it has said so far.
    pub fn forget_lines(&mut self) {
        self.seen.clear();
        while self.lines.try_recv().is_ok() {}
    }

    /// True when its watchdog has said since then that it kills it: its end may take a while.
    pub fn is_being_killed(&mut self) -> bool {
        self.seen.extend(self.lines.try_iter());
        self.seen.iter().any(|line| line.ends_with(KILLED))
    }

    fn follow(&mut self, successor: u32) -> Result<(), String> {
        let process = PidFd::open(successor).map_err(|error| error.to_string())?;
        self.successor = Some((successor, process));
        Ok(())
    }

    /// The watchdog, if it is running at this moment.
    pub fn watchdog(&self) -> Option<PidFd> {
        let path = format!("/proc/{0}/task/{0}/children", self.process());
        let children = std::fs::read_to_string(path).unwrap_or_default();
        let pid = children.split_ascii_whitespace().filter_map(|pid| pid.parse().ok()).find(|pid: &u32| {
            let arguments = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
            String::from_utf8_lossy(&arguments).contains("--watchdog")
        });
        PidFd::open(pid?).ok()
    }

    /// True while it runs, an error if it has ended by itself. One that was taken for hung while it owed something, and
    /// was killed for it, has not: on a busy machine that says nothing about the box. Another process goes on then, or
    /// after too many deaths nobody does.
    pub fn check(&mut self) -> Result<bool, String> {
        let Err(has_ended) = self.is_there() else { return Ok(true) };
        let lines = self.said_within(SUCCESSION);
        if !lines.iter().any(|line| line.ends_with(KILLED)) {
            return Err(has_ended);
        }
        match lines.iter().filter_map(|line| successor_of(line)).next_back() {
            Some(successor) => self.follow(successor).map(|()| true),
            None if lines.iter().any(|line| line.contains(ABANDONED)) => Ok(false),
            None => Err(has_ended),
        }
    }

    fn is_there(&mut self) -> Result<(), String> {
        if let Some((process, successor)) = &self.successor {
            let has_ended =
                format!("process {process}, which went on for {}, has ended by itself", self.name);
            return if has_ended_by(successor, Clock::now())? { Err(has_ended) } else { Ok(()) };
        }
        match self.child.try_wait() {
            Ok(None) => Ok(()),
            Ok(Some(status)) => Err(format!("{} has ended by itself: {status}", self.name)),
            Err(error) => Err(error.to_string()),
        }
    }

    /// True while it runs.
    pub fn runs(&mut self) -> bool {
        self.is_there().is_ok()
    }

    /// Waits for its end.
    pub fn await_end(&mut self) -> Result<(), String> {
        if let Some((_, successor)) = &self.successor {
            return await_end_of(successor, &self.name);
        }
        let give_up = Clock::now() + units::Duration::from_nanos(PATIENCE.as_nanos() as u64);
        while Clock::now() < give_up {
            match self.child.try_wait() {
                Ok(None) => crate::chaos::pause_ms(10),
                Ok(Some(_)) => return Ok(()),
                Err(error) => return Err(error.to_string()),
            }
        }
        Err(format!("{} has not ended within {PATIENCE:?}", self.name))
    }

    /// What one of its commands says.
    pub fn command(&self, middle: &Namespace, command: &str, rest: &[&str]) -> String {
        let program = program().to_string_lossy().into_owned();
        output(middle, &program, &[&[command, &self.name], rest].concat())
    }

    /// Its flows and counters, into the folder.
    pub fn record_state(&self, middle: &Namespace, folder: &Path, name: &str) {
        for command in ["flows", "status"] {
            let text = self.command(middle, command, &["--json"]);
            drop(std::fs::write(folder.join(format!("{name}.{command}.json")), text));
        }
    }
}

/// The process that goes on, or has started anew, if a watchdog's line says so.
fn successor_of(line: &str) -> Option<u32> {
    let (_, rest) = line.split_once("cellerator: process ")?;
    let ways = [" goes on with the flows of the one that died", " has started anew in its place"];
    ways.iter().find_map(|way| rest.strip_suffix(way))?.parse().ok()
}

/// True when `process` has ended by then.
fn has_ended_by(process: &PidFd, give_up: units::Instant) -> Result<bool, String> {
    let text = |error: io::IoError| error.to_string();
    let mut waiter = Waiter::new(units::Duration::ZERO).map_err(text)?;
    waiter.add(process, Interest::Read, 0).map_err(text)?;
    Ok(!waiter.wait(Some(give_up)).map_err(text)?.is_empty())
}

fn await_end_of(process: &PidFd, name: &str) -> Result<(), String> {
    let patience = units::Duration::from_nanos(PATIENCE.as_nanos() as u64);
    match has_ended_by(process, Clock::now() + patience)? {
        true => Ok(()),
        false => Err(format!("{name} has not ended within {PATIENCE:?}")),
    }
}
