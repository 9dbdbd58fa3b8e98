//! [`BoxProgram`]: the program in the box.

use std::path::Path;
use std::process::Command;

use io::{INSTANCE_DIRECTORY, LoggedProgram};
use run::{Answer, Question, Snapshot, Status};
use units::Duration;

use crate::haproxy::{self, Proxy};
use crate::pause::Pause;
use crate::topology::{MOBILE, Network, WIRED};
use crate::way::Program;
use crate::{BenchError, Way};

/// Longest time that it may take to say that it is ready, and to end.
const PATIENCE: Duration = Duration::from_secs(15);

/// Beginning of the line that says that packets go through it.
const READY: &str = "ready";

/// Beginning of the line that states the number of flows that it took over.
const ACCELERATED: &str = "accelerated: ";

/// A running program; killed when dropped, with whoever goes on in its place.
#[derive(Debug)]
pub(crate) struct BoxProgram {
    way: Way,
    running: LoggedProgram,
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
        let (command, proxy) = match wanted {
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
        let mut running = LoggedProgram::start(way.name(), command, &network.middle, log)?;
        let is_ready = |own: &LoggedProgram| match proxy {
            Some(_) => haproxy::is_listening(own.pid()),
            None => own.said().lines().any(|line| line.starts_with(READY)),
        };
        running.wait_until_ready(PATIENCE, is_ready, |time| pause.wait(time))?;
        Ok(Some(Self { way, running, proxy }))
    }

    /// Its process number.
    pub fn pid(&self) -> u32 {
        self.running.pid()
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
        Ok(self.running.check()?)
    }

    /// Waits until it ends by itself, because another one has its place; gives what it has said.
    pub fn replaced(mut self, pause: &mut Pause<'_>) -> Result<String, BenchError> {
        self.running.wait_for_end(PATIENCE, |time| pause.wait(time))?;
        Ok(self.running.said())
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
        self.running.ask_to_end()?;
        self.running.wait_for_end(patience, |time| pause.wait(time))?;
        Ok(accelerated_flows(&self.running.said()))
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

    /// `what`, with the last lines of what it said itself.
    fn failed(&self, what: &str) -> BenchError {
        self.running.failure(what).into()
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
