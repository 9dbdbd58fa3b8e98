//! [`PathManagerProcess`]: `cellerator multipath run` at the client, as a user would start it; [`start_mptcpd`]: Debian's
//! daemon in its place.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;

use io::netlink::PathManager;
use io::{Clock, Namespace, OwnedChild, PidFd, SpawnOptions};
use units::{Duration, Instant};

use crate::LabError;
use crate::pause::pause;

/// It is ended, if it does not end by itself, after so long.
const END_MAX: Duration = Duration::from_secs(5);

/// The path manager at the client; ended when dropped.
pub(crate) struct PathManagerProcess {
    child: Child,
    reader: Option<JoinHandle<()>>,
    lines: Arc<Mutex<Vec<(Instant, String)>>>,
}

impl PathManagerProcess {
    pub fn start(
        namespace: &Namespace,
        program: &Path,
        server: &str,
        options: &[String],
        strength: &Path,
    ) -> Result<Self, LabError> {
        let mut command = Command::new(program);
        command.args(["multipath", "run", "--server", server, "--strength"]).arg(strength).args(options);
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let options = SpawnOptions { death_signal: Some(libc::SIGTERM), own_process_group: true };
        let mut child = namespace.spawn(command, options)?;
        let lines: Arc<Mutex<Vec<(Instant, String)>>> = Arc::default();
        let reader = child.stdout.take().map(|stdout| {
            let lines = Arc::clone(&lines);
            std::thread::spawn(move || {
                for line in BufReader::new(stdout).lines().map_while(Result::ok) {
                    lines.lock().unwrap_or_else(PoisonError::into_inner).push((Clock::now(), line));
                }
            })
        });
        Ok(Self { child, reader, lines })
    }

    /// Waits until `count` paths are up.
    pub fn wait_for_paths(&mut self, count: usize) -> Result<(), LabError> {
        let limit = Clock::now() + Duration::from_secs(10);
        loop {
            let up = self.lines().iter().filter(|(_, line)| line.contains("down -> up")).count();
            if up >= count {
                return Ok(());
            }
            let has_ended = matches!(self.child.try_wait(), Ok(Some(_)));
            if has_ended || Clock::now() > limit {
                let mut said = String::new();
                if has_ended && let Some(mut stderr) = self.child.stderr.take() {
                    let _ = std::io::Read::read_to_string(&mut stderr, &mut said);
                }
                let message = format!("{up} of {count} paths came up; {}", said.trim());
                return Err(LabError::Program { program: "multipath run".to_owned(), message });
            }
            pause(Duration::from_millis(20))?;
        }
    }

    /// Lines of its output so far.
    pub fn lines(&self) -> Vec<(Instant, String)> {
        self.lines.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Kills it (-9), as a crash would.
    pub fn kill(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }

    /// Ends it as Ctrl-C would.
    pub fn end(&mut self) -> Result<(), LabError> {
        if matches!(self.child.try_wait(), Ok(Some(_))) {
            return Ok(());
        }
        if let Ok(process) = PidFd::open(self.child.id()) {
            let _ = process.send_signal(libc::SIGTERM);
        }
        let limit = Clock::now() + END_MAX;
        while !matches!(self.child.try_wait(), Ok(Some(_))) && Clock::now() < limit {
            pause(Duration::from_millis(10))?;
        }
        self.kill();
        Ok(())
    }
}

impl Drop for PathManagerProcess {
    fn drop(&mut self) {
        // Its end is all that matters.
        let _ = self.end();
        if let Some(reader) = self.reader.take() {
            let _ = reader.join();
        }
    }
}

/// Paths at which Debian and others put mptcpd.
const MPTCPD: [&str; 2] = ["/usr/libexec/mptcpd", "/usr/sbin/mptcpd"];
/// It makes an endpoint of every address, as packaged (plugin `addr_adv`), for subflows of this host's own
/// connections.
const MPTCPD_OPTIONS: [&str; 4] = [
    "--path-manager=addr_adv",
    "--addr-flags=subflow",
    "--notify-flags=existing,skip_link_local,skip_loopback",
    "--log=stderr",
];

/// Path at which mptcpd is installed; none where it is not.
pub(crate) fn mptcpd() -> Option<&'static str> {
    MPTCPD.into_iter().find(|path| Path::new(path).exists())
}

/// Starts mptcpd at the client and waits until it has made `count` endpoints.
pub(crate) fn start_mptcpd(
    namespace: &Namespace,
    program: &str,
    count: usize,
) -> Result<OwnedChild, LabError> {
    let mut command = Command::new(program);
    command.args(MPTCPD_OPTIONS).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    let mut started = namespace.spawn_owned(command)?;
    let limit = Clock::now() + Duration::from_secs(5);
    let manager = namespace.run(PathManager::open)??;
    while manager.endpoints()?.len() < count {
        if matches!(started.try_wait(), Ok(Some(_))) || Clock::now() > limit {
            let message = "it makes no endpoints: install its plugins (Debian: mptcpd-plugins)".to_owned();
            return Err(LabError::Program { program: "mptcpd".to_owned(), message });
        }
        pause(Duration::from_millis(20))?;
    }
    Ok(started)
}
