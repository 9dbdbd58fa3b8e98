//! [`AcceleratorCommand`]: `cellerator run` as a process in the accelerator's namespace; [`DrwaCommand`]:
//! `cellerator drwa` in the client's.

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::mpsc;

use io::{Namespace, PidFd, SpawnOptions, Tethered};
use scenario::{Case, Client, DrwaVariant};
use units::Duration;

use crate::LabError;
use crate::error::Context;
use crate::reporter::FEEDBACK_ADDRESS;
use crate::topology::{RADIO, WAN};

/// Longest time that it may take to say that it is ready.
const START_LIMIT: Duration = Duration::from_secs(10);
/// Longest time that it may take to drain, for which `run` takes 30 s at most, and to undo.
const STOP_LIMIT: Duration = Duration::from_secs(40);

/// Beginning of the line on standard output that says that packets go through it.
const READY: &str = "ready";

/// Settings for starting the accelerator.
#[derive(Clone, Debug)]
pub struct AcceleratorCommand {
    program: PathBuf,
    arguments: Vec<String>,
}

impl AcceleratorCommand {
    /// `PROGRAM run --wired wan0 --mobile radio0` with the options that `case` means.
    #[must_use]
    pub fn new(program: &Path, case: &Case) -> Self {
        let mut arguments = ["run", "--wired", WAN, "--mobile", RADIO].map(str::to_owned).to_vec();
        arguments.extend(case.run_arguments());
        Self { program: program.to_owned(), arguments }
    }

    /// Has it listen for the base station's reports.
    #[must_use]
    pub fn with_feedback(mut self, is_wanted: bool) -> Self {
        if is_wanted {
            self.arguments.extend(["--feedback".to_owned(), FEEDBACK_ADDRESS.to_string()]);
        }
        self
    }

    /// The command line as one would type it.
    #[must_use]
    pub fn line(&self) -> String {
        let quoted = |argument: &String| {
            if argument.contains(' ') { format!("'{argument}'") } else { argument.clone() }
        };
        let arguments: Vec<String> = self.arguments.iter().map(quoted).collect();
        format!("cellerator {}", arguments.join(" "))
    }

    /// Reason why this version of the program cannot accelerate, or `None` if it can.
    #[must_use]
    pub fn lack(&self) -> Option<String> {
        let help = Command::new(&self.program).args(["run", "--help"]).stdin(Stdio::null()).output();
        let is_able = help.is_ok_and(|out| String::from_utf8_lossy(&out.stdout).contains("--wired"));
        (!is_able).then(|| "`cellerator run` of this version does not accelerate yet".to_owned())
    }

    /// Starts it in `accelerator` and waits until it says `ready`; its messages go to a file in `directory`.
    ///
    /// # Errors
    /// When it ends or keeps silent; its own message is passed on.
    pub(crate) fn start(&self, accelerator: &Namespace, directory: &Path) -> Result<Running, LabError> {
        let log = directory.join("accelerator.log");
        Running::start("cellerator run", &self.program, &self.arguments, (accelerator, &log))
    }
}

/// Settings for starting DRWA in the client.
#[derive(Clone, Debug)]
pub(crate) struct DrwaCommand {
    program: PathBuf,
    arguments: Vec<String>,
}

impl DrwaCommand {
    /// `PROGRAM drwa attach radio0` as `client` wants it. Buffers are what the scenario says, unless it says
    /// nothing of them.
    pub(crate) fn of(program: &Path, client: &Client) -> Option<Self> {
        let variant = client.drwa?;
        let mut arguments = ["drwa", "attach", RADIO].map(str::to_owned).to_vec();
        if client.rmem().is_some() {
            arguments.push("--keep-buffers".to_owned());
        }
        if variant == DrwaVariant::Paper {
            arguments.push("--paper".to_owned());
        }
        arguments.extend(client.drwa_arguments.iter().flatten().cloned());
        Some(Self { program: program.to_owned(), arguments })
    }

    pub(crate) fn start(&self, client: &Namespace, directory: &Path) -> Result<Running, LabError> {
        let log = directory.join("drwa.log");
        Running::start("cellerator drwa", &self.program, &self.arguments, (client, &log))
    }
}

/// The lines of `stdout` as they come; reading goes on to the end so that the program never blocks.
fn lines_of(stdout: std::process::ChildStdout) -> mpsc::Receiver<String> {
    let (send, lines) = mpsc::channel();
    std::thread::spawn(move || {
        for line in BufReader::new(stdout).lines().map_while(Result::ok) {
            // Nobody listening any more is no reason to stop reading.
            let _ = send.send(line);
        }
    });
    lines
}

/// A running accelerator; killed when dropped, with whoever goes on in its place.
#[derive(Debug)]
pub(crate) struct Running {
    name: &'static str,
    child: Tethered,
    log: PathBuf,
    said: Vec<String>,
}

impl Running {
    /// Starts a program and waits until it says `ready`; its messages go to the file `log`.
    ///
    /// # Errors
    /// When it ends or keeps silent; its own message is passed on.
    pub(crate) fn start(
        name: &'static str,
        program: &Path,
        arguments: &[String],
        (namespace, log): (&Namespace, &Path),
    ) -> Result<Self, LabError> {
        let messages = fs::File::create(log).doing(|| format!("create {}", log.display()))?;
        let mut command = Command::new(program);
        command.args(arguments).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(messages);
        let mut child = Tethered::spawn(namespace, command, SpawnOptions::KILLED_WITH_PARENT)?;
        let lines = child.stdout.take().map(lines_of);
        let mut running = Self { name, child, log: log.to_owned(), said: Vec::new() };
        if let Some(lines) = lines {
            running.wait_until_ready(&lines)?;
        }
        Ok(running)
    }

    fn wait_until_ready(&mut self, lines: &mpsc::Receiver<String>) -> Result<(), LabError> {
        let deadline = io::Clock::now() + START_LIMIT;
        loop {
            let left = deadline.saturating_since(io::Clock::now());
            match lines.recv_timeout(std::time::Duration::from_nanos(left.as_nanos())) {
                Ok(line) if line.starts_with(READY) => return Ok(()),
                Ok(line) => self.said.push(line),
                Err(mpsc::RecvTimeoutError::Timeout) => {
                    return Err(self.failed(&format!("did not say `{READY}` within {START_LIMIT}")));
                }
                Err(mpsc::RecvTimeoutError::Disconnected) => {
                    let status = self.child.wait().map_or_else(|e| e.to_string(), |s| s.to_string());
                    return Err(self.failed(&format!("ended before it was ready, {status}")));
                }
            }
        }
    }

    /// Refuses to go on when it has ended by itself.
    ///
    /// # Errors
    /// With its own last words.
    pub fn check(&mut self) -> Result<(), LabError> {
        match self.child.try_wait() {
            Ok(None) => Ok(()),
            Ok(Some(status)) => Err(self.failed(&format!("ended by itself, {status}"))),
            Err(e) => Err(self.failed(&e.to_string())),
        }
    }

    /// `what`, with the last lines of what it said itself.
    fn failed(&self, what: &str) -> LabError {
        let log = fs::read_to_string(&self.log).unwrap_or_default();
        let lines: Vec<&str> = self.said.iter().map(String::as_str).chain(log.lines()).collect();
        let last = lines[lines.len().saturating_sub(5)..].join("\n");
        LabError::Program {
            program: self.name.to_owned(),
            message: format!("{what}\n{last}").trim_end().to_owned(),
        }
    }

    /// Asks it to end and waits for it.
    ///
    /// # Errors
    /// When it does not end in time, or ends with an error.
    pub fn stop(mut self) -> Result<(), LabError> {
        PidFd::open(self.child.id())?.send_signal(libc::SIGTERM)?;
        let deadline = io::Clock::now() + STOP_LIMIT;
        loop {
            match self.child.try_wait().doing(|| format!("wait for `{}`", self.name))? {
                Some(status) if status.success() => return Ok(()),
                Some(status) => return Err(self.failed(&format!("ended with {status}"))),
                None if io::Clock::now() > deadline => {
                    return Err(self.failed(&format!("did not end within {STOP_LIMIT} of SIGTERM")));
                }
                None => crate::pause::pause(Duration::from_millis(5))?,
            }
        }
    }
}
