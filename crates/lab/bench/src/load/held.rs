//! [`Held`]: many flows held open by processes on either side.

use std::io::{BufRead, BufReader, Write};
use std::process::{ChildStdin, ChildStdout, Command, Stdio};

use io::{Namespace, OwnedChild};
use units::Duration;

use crate::BenchError;
use crate::error::Context;
use crate::stage::Stage;
use crate::topology::SERVER;

/// Flows of one process: descriptors are limited.
const PER_PROCESS: u32 = 16_000;

/// A process at one end; killed when dropped.
#[derive(Debug)]
struct Process {
    _child: OwnedChild,
    input: Option<ChildStdin>,
    output: BufReader<ChildStdout>,
}

impl Process {
    fn start(stage: &Stage<'_>, namespace: &Namespace, arguments: &[String]) -> Result<Self, BenchError> {
        let mut command = Command::new(stage.program);
        command.arg("bench").args(arguments).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = namespace.spawn_owned(command)?;
        let (input, output) = (child.stdin.take(), child.stdout.take());
        let output = output.ok_or_else(|| BenchError::Load("a process without output".to_owned()))?;
        Ok(Self { _child: child, input, output: BufReader::new(output) })
    }

    fn tell(&mut self, line: &str) -> Result<(), BenchError> {
        let input =
            self.input.as_mut().ok_or_else(|| BenchError::Load("a process without input".to_owned()))?;
        input.write_all(format!("{line}\n").as_bytes()).doing(|| format!("tell a load generator to {line}"))
    }

    /// The numbers behind `word` in its next line.
    fn hear(&mut self, word: &str) -> Result<Vec<u64>, BenchError> {
        let mut line = String::new();
        self.output.read_line(&mut line).doing(|| "hear from a load generator".to_owned())?;
        let numbers =
            line.strip_prefix(word).map(|rest| rest.split_ascii_whitespace().map(str::parse).collect());
        match numbers {
            Some(Ok(numbers)) => Ok(numbers),
            _ => Err(BenchError::Load(format!("it said `{}` instead of `{word}`", line.trim()))),
        }
    }
}

/// Flows held open; ended when dropped.
#[derive(Debug)]
pub(crate) struct Held {
    clients: Vec<Process>,
    servers: Vec<Process>,
}

impl Held {
    /// Opens `flows` flows from `subscribers` addresses; `buffer` limits their sockets' memory.
    pub fn open(
        stage: &mut Stage<'_>,
        flows: u32,
        subscribers: u32,
        buffer: usize,
    ) -> Result<Self, BenchError> {
        let mut held = Self { clients: Vec::new(), servers: Vec::new() };
        let mut first = 0;
        while first < flows {
            let count = (flows - first).min(PER_PROCESS);
            let arguments = ["hold-server".to_owned(), format!("--buffer={buffer}")];
            let mut server = Process::start(stage, &stage.network.server, &arguments)?;
            let port = server.hear("port")?.first().copied().unwrap_or(0);
            held.servers.push(server);
            let arguments = [
                "hold-clients".to_owned(),
                format!("--to={SERVER}:{port}"),
                format!("--flows={count}"),
                format!("--first={first}"),
                format!("--subscribers={subscribers}"),
                format!("--buffer={buffer}"),
            ];
            held.clients.push(Process::start(stage, &stage.network.client, &arguments)?);
            first += count;
        }
        for client in &mut held.clients {
            client.hear("open")?;
            stage.pause.wait(Duration::ZERO)?;
        }
        // The last handshakes reach the servers a moment later than the clients.
        for _ in 0..100 {
            if held.accepted()? == u64::from(flows) {
                return Ok(held);
            }
            stage.pause.wait(Duration::from_millis(20))?;
        }
        Err(BenchError::Load(format!("of {flows} flows the servers accepted {}", held.accepted()?)))
    }

    fn accepted(&mut self) -> Result<u64, BenchError> {
        Ok(counts(&mut self.servers)?.0)
    }

    /// Has the servers send `len` bytes on one flow after the other, `per_s` times a second in all.
    pub fn pulse(&mut self, per_s: u32, len: usize) -> Result<(), BenchError> {
        let each = per_s / self.servers.len().max(1) as u32;
        self.servers.iter_mut().try_for_each(|server| server.tell(&format!("pulse {each} {len}")))
    }

    /// Makes the servers send as fast as flows take it.
    pub fn blast(&mut self) -> Result<(), BenchError> {
        self.servers.iter_mut().try_for_each(|server| server.tell("blast"))
    }

    /// Has the servers send `len` bytes on every flow, as fast as they take it.
    pub fn fill(&mut self, len: usize) -> Result<(), BenchError> {
        self.servers.iter_mut().try_for_each(|server| server.tell(&format!("fill {len}")))
    }

    /// Has the servers stop sending.
    pub fn quiet(&mut self) -> Result<(), BenchError> {
        self.servers.iter_mut().try_for_each(|server| server.tell("quiet"))
    }

    /// Has the servers send `len` bytes on every flow; gives how many flows took them.
    pub fn send_once(&mut self, len: usize) -> Result<u64, BenchError> {
        self.servers.iter_mut().try_for_each(|server| server.tell(&format!("once {len}")))?;
        self.servers
            .iter_mut()
            .try_fold(0, |flows, server| Ok(flows + server.hear("once")?.first().copied().unwrap_or(0)))
    }

    /// Has the clients read nothing any more.
    pub fn deafen(&mut self) -> Result<(), BenchError> {
        self.clients.iter_mut().try_for_each(|client| client.tell("deaf"))
    }

    /// Has them read again.
    pub fn hear(&mut self) -> Result<(), BenchError> {
        self.clients.iter_mut().try_for_each(|client| client.tell("hear"))
    }

    /// Bytes the servers have sent so far.
    pub fn sent(&mut self) -> Result<u64, BenchError> {
        Ok(counts(&mut self.servers)?.1)
    }

    /// Bytes the clients have received so far.
    pub fn received(&mut self) -> Result<u64, BenchError> {
        Ok(counts(&mut self.clients)?.1)
    }
}

/// Flows and bytes of some processes.
fn counts(processes: &mut [Process]) -> Result<(u64, u64), BenchError> {
    for process in processes.iter_mut() {
        process.tell("count")?;
    }
    processes.iter_mut().try_fold((0, 0), |(flows, bytes), process| match process.hear("count")?.as_slice() {
        &[more_flows, more_bytes] => Ok((flows + more_flows, bytes + more_bytes)),
        other => Err(BenchError::Load(format!("it counted {other:?}"))),
    })
}
