//! The program under test, as a process.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};

use io::{Clock, PidFd, ProcessId, Waiter};
use tempfile::TempDir;
use units::Duration;

const PROGRAM: &str = env!("CARGO_BIN_EXE_cellerator");

/// Runs the program to its end; gives what it said on both outputs.
pub fn cellerator(arguments: &[&str]) -> String {
    let output = Command::new(PROGRAM).args(arguments).stdin(Stdio::null()).output().unwrap();
    String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned()
}

/// A scenario file and a lab's name, of this test alone.
pub struct Lab {
    name: String,
    directory: TempDir,
    scenario: String,
}

impl Lab {
    pub fn new(name: &str, toml: &str) -> Self {
        let name = format!("ct-{name}-{}", std::process::id());
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("scenario.toml");
        fs::write(&path, toml).unwrap();
        Self { name, scenario: path.to_str().unwrap().to_owned(), directory }
    }

    pub fn name(&self) -> &str {
        &self.name
    }

    pub fn scenario(&self) -> &str {
        &self.scenario
    }

    /// Runs a command on the client of this lab.
    pub fn up(&self, command: &[&str]) -> String {
        cellerator(&[&["lab", "up", &self.scenario, "--name", &self.name, "--"], command].concat())
    }

    /// Runs the scenario and gives its results.
    pub fn run(&self) -> serde_json::Value {
        let json = self.directory.path().join("results.json");
        let html = self.directory.path().join("report.html");
        let files = ["--json", json.to_str().unwrap(), "--html", html.to_str().unwrap()];
        let said = cellerator(&[&["lab", "run", &self.scenario, "--name", &self.name], &files[..]].concat());
        let text = fs::read_to_string(&json).unwrap_or_else(|e| panic!("{e}: {said}"));
        assert!(fs::read_to_string(&html).unwrap().ends_with("</html>\n"), "{said}");
        serde_json::from_str(&text).unwrap()
    }

    pub fn start(&self, arguments: &[&str]) -> Running {
        let mut command = Command::new(PROGRAM);
        command.args(arguments).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        Running(command.spawn().unwrap())
    }
}

/// Starts the program; what it tells on its way goes to `file`.
pub fn start_telling(arguments: &[&str], file: &Path) -> Running {
    let mut command = Command::new(PROGRAM);
    command.args(arguments).stdin(Stdio::null()).stdout(Stdio::null());
    Running(command.stderr(fs::File::create(file).unwrap()).spawn().unwrap())
}

/// A running program; killed when dropped.
pub struct Running(Child);

impl Running {
    pub fn pid(&self) -> u32 {
        self.0.id()
    }

    pub fn signal(&self, signal: &str) {
        let status = Command::new("kill").args([signal, &self.0.id().to_string()]).status().unwrap();
        assert!(status.success());
    }

    pub fn wait(&mut self) -> ExitStatus {
        self.0.wait().unwrap()
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Waits for something that takes a moment; fails after 20 s.
pub fn wait_until(what: &str, mut is_so: impl FnMut() -> bool) {
    let deadline = Clock::now() + Duration::from_secs(20);
    while !is_so() {
        assert!(Clock::now() < deadline, "waited in vain until {what}");
        Waiter::new(Duration::ZERO).unwrap().wait(Some(Clock::now() + Duration::from_millis(20))).unwrap();
    }
}

/// Namespaces and directories of the lab called `name` that are still there.
pub fn leftovers(name: &str) -> Vec<String> {
    let mut found = io::Namespace::list().unwrap();
    found.retain(|namespace| namespace.contains(name));
    let entries = fs::read_dir(io::INSTANCE_DIRECTORY).into_iter().flatten().flatten();
    for entry in entries {
        let record = fs::read_to_string(entry.path().join("record")).unwrap_or_default();
        if record.contains(name) {
            found.push(entry.path().display().to_string());
        }
    }
    found
}

/// Command lines of running processes that contain `text`.
pub fn processes_with(text: &str) -> Vec<String> {
    let entries = fs::read_dir("/proc").unwrap().flatten();
    let lines = entries.filter_map(|entry| fs::read_to_string(entry.path().join("cmdline")).ok());
    lines.filter(|line| line.contains(text)).collect()
}

/// A running process and its command line.
#[derive(Debug)]
pub struct Found {
    process: ProcessId,
    line: String,
}

impl Found {
    pub fn pid(&self) -> u32 {
        self.process.pid()
    }

    pub fn is_alive(&self) -> bool {
        self.process.is_alive()
    }

    pub fn has(&self, text: &str) -> bool {
        self.line.contains(text)
    }

    /// Where it keeps what it has set up, if it is an accelerator.
    pub fn directory(&self) -> PathBuf {
        Path::new(io::INSTANCE_DIRECTORY).join(format!("run-{}", self.pid()))
    }

    pub fn kill(&self) {
        const SIGKILL: i32 = 9;
        PidFd::open(self.pid()).unwrap().send_signal(SIGKILL).unwrap();
    }
}

/// The processes in a namespace; none if there is no such namespace.
pub fn processes_in(namespace: &str) -> Vec<Found> {
    let Ok(wanted) = fs::metadata(Path::new("/run/netns").join(namespace)) else { return Vec::new() };
    let entries = fs::read_dir("/proc").unwrap().flatten();
    let found = entries.filter_map(|entry| {
        let pid = entry.file_name().to_str()?.parse().ok()?;
        let own = fs::metadata(entry.path().join("ns/net")).ok()?;
        let line = fs::read_to_string(entry.path().join("cmdline")).ok()?;
        let process = ProcessId::of(pid).ok().filter(|_| own.ino() == wanted.ino())?;
        Some(Found { process, line })
    });
    found.collect()
}
