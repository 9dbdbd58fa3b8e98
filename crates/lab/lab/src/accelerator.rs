//! [`AcceleratorCommand`]: `cellerator run` as a process in the accelerator's namespace; [`DrwaCommand`]:
//! `cellerator drwa` in the client's.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use io::{LoggedProgram, Namespace};
use scenario::{Case, Client, DrwaVariant};
use units::Duration;

use crate::LabError;
use crate::pause::pause;
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

    /// Starts it in `accelerator` and waits until it says `ready`; what it says goes to a file in `directory`.
    ///
    /// # Errors
    /// When it ends or keeps silent; its own message is passed on.
    pub(crate) fn start(&self, accelerator: &Namespace, directory: &Path) -> Result<Running, LabError> {
        let log = directory.join("accelerator.log");
        Running::start("cellerator run", &self.program, &self.arguments, (accelerator, log))
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
        Running::start("cellerator drwa", &self.program, &self.arguments, (client, log))
    }
}

/// A running accelerator or DRWA; killed when dropped, with whoever goes on in its place.
#[derive(Debug)]
pub(crate) struct Running(LoggedProgram);

impl Running {
    /// Starts a program and waits until it says `ready`; what it says goes to the file `log`.
    ///
    /// # Errors
    /// When it ends or keeps silent; its own message is passed on.
    pub(crate) fn start(
        name: &str,
        program: &Path,
        arguments: &[String],
        (namespace, log): (&Namespace, PathBuf),
    ) -> Result<Self, LabError> {
        let mut command = Command::new(program);
        command.args(arguments);
        let mut running = LoggedProgram::start(name, command, namespace, log)?;
        let is_ready = |own: &LoggedProgram| own.said().lines().any(|line| line.starts_with(READY));
        running.wait_until_ready(START_LIMIT, is_ready, pause)?;
        Ok(Self(running))
    }

    /// Refuses to go on when it has ended by itself.
    ///
    /// # Errors
    /// With its own last words.
    pub fn check(&mut self) -> Result<(), LabError> {
        Ok(self.0.check()?)
    }

    /// Asks it to end and waits for it.
    ///
    /// # Errors
    /// When it does not end in time, or ends with an error.
    pub fn stop(mut self) -> Result<(), LabError> {
        self.0.ask_to_end()?;
        self.0.wait_for_end(STOP_LIMIT, pause)
    }
}
