//! [`BoxProgram`]: the program in the box.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use io::{Clock, INSTANCE_DIRECTORY, PidFd, SpawnOptions, Tethered};
use run::{Answer, Question, Snapshot, Status};
use units::Duration;

use crate::error::Context;
use crate::haproxy::{self, Proxy};
use crate::pause::Pause;
use crate::topology::{MOBILE, Network, WIRED};
use crate::way::Program;
use crate::{BenchError, Way};

/// Longest time that it may take to say that it is ready, and to end.
const PATIENCE: Duration = Duration::from_secs(15);

const POLL: Duration = Duration::from_millis(5);

/// Beginning of the line that says that packets go through it.
const READY: &str = "ready";

/// Beginning of the line that states the number of flows that it took over.
const ACCELERATED: &str = "accelerated: ";

/// A running program; killed when dropped, with whoever goes on in its place.
#[derive(Debug)]
pub(crate) struct BoxProgram {
    way: Way,
    child: Tethered,
    log: PathBuf,
    /// Proxy that leads packets to it, where it does not do so itself.
    proxy: Option<Proxy>,
}

impl BoxProgram {
    /// Starts what `way` needs, if anything, and waits until packets go through it. What it says
    /// goes to a file in `directory`. `more` are further arguments of `cellerator`.
    pub fn start(
        way: Way,
        more: &[&str],
        program: &Path,
        network: &Network,
        directory: &Path,
        pause: &mut Pause<'_>,
    ) -> Result<Option<Self>, BenchError> {
        let Some(wanted) = way.program(WIRED, MOBILE) else { return Ok(None) };
        let (mut command, proxy) = match wanted {
            Program::Cellerator(arguments) => {
                let mut command = Command::new(program);
                command.args(arguments).args(more);
                (command, None)
            }
            Program::Haproxy { splice } => {
                (haproxy::command(splice, directory)?, Some(Proxy::steer(network)?))
            }
        };
        // One that is replaced has its own.
        let unused = (1..).map(|n| directory.join(format!("box-{n}.log"))).find(|log| !log.exists());
        let log = unused.unwrap_or_else(|| directory.join("box.log"));
        let file = fs::File::create(&log).doing(|| format!("create {}", log.display()))?;
        let errors = file.try_clone().doing(|| format!("share {}", log.display()))?;
        command.stdin(Stdio::null()).stdout(file).stderr(errors);
        let child = Tethered::spawn(&network.middle, command, SpawnOptions::KILLED_WITH_PARENT)?;
        let mut running = Self { way, child, log, proxy };
        let give_up = Clock::now() + PATIENCE;
        while !running.is_ready() {
            running.check()?;
            if Clock::now() >= give_up {
                return Err(running.failed(&format!("it was not ready within {PATIENCE}")));
            }
            pause.wait(POLL)?;
        }
        Ok(Some(running))
    }

    fn is_ready(&self) -> bool {
        match self.proxy {
            Some(_) => haproxy::is_listening(self.pid()),
            None => self.said().lines().any(|line| line.starts_with(READY)),
        }
    }

    /// Its process number.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// True when it is `cellerator`, which answers questions.
    pub fn can_tell(&self) -> bool {
        self.proxy.is_none()
    }

    /// Status of the program; only `cellerator run` and the bare echo can tell.
    pub fn status(&self) -> Result<Status, BenchError> {
        match self.ask(&Question::Status)? {
            Answer::Status(status) => Ok(*status),
            other => Err(self.failed(&format!("asked for its status it said {other:?}"))),
        }
    }

    /// Metrics of the program.
    pub fn snapshot(&self) -> Result<Snapshot, BenchError> {
        match self.ask(&Question::Metrics)? {
            Answer::Metrics(snapshot) => Ok(*snapshot),
            other => Err(self.failed(&format!("asked for metrics it said {other:?}"))),
        }
    }

    fn ask(&self, question: &Question) -> Result<Answer, BenchError> {
        let all = run::find(Path::new(INSTANCE_DIRECTORY))?;
        let found = all.into_iter().find(|found| found.process == self.pid());
        let found = found.ok_or_else(|| self.failed("it cannot be asked"))?;
        found.ask(question).map_err(|error| self.failed(&error.to_string()))
    }

    /// Refuses to go on when it has ended by itself.
    pub fn check(&mut self) -> Result<(), BenchError> {
        match self.child.try_wait() {
            Ok(None) => Ok(()),
            Ok(Some(status)) => Err(self.failed(&format!("it ended by itself, {status}"))),
            Err(error) => Err(self.failed(&error.to_string())),
        }
    }

    /// Waits until it ends by itself, because another one has its place; gives what it has said.
    pub fn replaced(mut self, pause: &mut Pause<'_>) -> Result<String, BenchError> {
        let give_up = Clock::now() + PATIENCE;
        loop {
            match self.child.try_wait().doing(|| "wait for the program in the box".to_owned())? {
                Some(status) if status.success() => return Ok(self.said()),
                Some(status) => return Err(self.failed(&format!("it ended badly, {status}"))),
                None if Clock::now() >= give_up => return Err(self.failed("it was not replaced")),
                None => pause.wait(POLL)?,
            }
        }
    }

    /// Ends it in good order; gives the flows it says it accelerated.
    pub fn stop(self, pause: &mut Pause<'_>) -> Result<Option<u64>, BenchError> {
        self.stop_within(PATIENCE, pause)
    }

    /// The same, where it may take longer.
    pub fn stop_within(
        mut self,
        patience: Duration,
        pause: &mut Pause<'_>,
    ) -> Result<Option<u64>, BenchError> {
        if self.proxy.is_some() {
            // It would wait for its connections; they have ended as far as the benchmark is concerned.
            return Ok(None);
        }
        PidFd::open(self.pid())?.send_signal(libc::SIGTERM)?;
        let give_up = Clock::now() + patience;
        let status = loop {
            if let Some(status) =
                self.child.try_wait().doing(|| "wait for the program in the box".to_owned())?
            {
                break status;
            }
            if Clock::now() >= give_up {
                return Err(self.failed(&format!("it did not end within {patience}")));
            }
            pause.wait(POLL)?;
        };
        if !status.success() {
            return Err(self.failed(&format!("it ended badly, {status}")));
        }
        Ok(accelerated_flows(&self.said()))
    }

    /// As [`BoxProgram::stop`]; if its way is to accelerate, it must have done so with `flows` flows.
    pub fn stop_after(self, flows: u64, pause: &mut Pause<'_>) -> Result<(), BenchError> {
        let way = self.way;
        let accelerated = self.stop(pause)?;
        if way.accelerates() && accelerated != Some(flows) {
            let said = accelerated.map_or("an unknown number".to_owned(), |n| n.to_string());
            let message = format!("{flows} flows were to be accelerated, {said} were");
            return Err(BenchError::Box { way: way.name().to_owned(), message });
        }
        Ok(())
    }

    fn said(&self) -> String {
        fs::read_to_string(&self.log).unwrap_or_default()
    }

    /// `what`, with the last lines of what it said itself.
    fn failed(&self, what: &str) -> BenchError {
        let said = self.said();
        let lines: Vec<&str> = said.lines().collect();
        let last = lines[lines.len().saturating_sub(5)..].join("\n");
        BenchError::Box {
            way: self.way.name().to_owned(),
            message: format!("{what}\n{last}").trim_end().to_owned(),
        }
    }
}

/// Number of accelerated flows by the summary of `cellerator run`.
fn accelerated_flows(said: &str) -> Option<u64> {
    let line = said.lines().find_map(|line| line.strip_prefix(ACCELERATED))?;
    line.split_ascii_whitespace().next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_summary_tells_how_many_flows_were_accelerated() {
        let said =
            "ready: …\nfrom servers: 3 packets, 1 kB\naccelerated: 5 flows, 2 MB delivered, 0 B sent again\n";
        assert_eq!(accelerated_flows(said), Some(5));
        assert_eq!(accelerated_flows("ready: …\n"), None);
    }
}
