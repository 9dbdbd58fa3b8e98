//! [`Runner`]: turns a scenario into results, case by case, each on a network of its own.

use std::collections::BTreeMap;
use std::fs;
use std::net::SocketAddr;
use std::path::PathBuf;

use io::{Namespace, Signals};
use link::PacketRecord;
use scenario::results::{CaseResult, Figures, MadeBy, ScenarioResult};
use scenario::{Case, Kind, LinkPlan, Scenario, Workload};
use units::{Bytes, Duration};

use crate::accelerator::{AcceleratorCommand, DrwaCommand};
use crate::beside::Servers;
use crate::datagrams::Datagrams;
use crate::emulator::{Emulation, Keep, path_rtt};
use crate::error::Context;
use crate::figures::Evidence;
use crate::listener::Listener;
use crate::origin::{Content, Origin};
use crate::recorder::{Dropped, Recorder, Recording, Truth, counters};
use crate::session::{Session, read_trace};
use crate::topology::{DISCIPLINE, Role, server_address};
use crate::transfer::{Pages, Ping, Transfers};
use crate::{Instance, LabError, shaped_origin};

/// Progress of a run, for a display.
#[derive(Debug)]
pub enum Progress<'a> {
    /// A case begins: its name, its place among all runs of the scenario (from 1), and their number.
    Begins {
        /// Name of the case.
        case: &'a str,
        /// Number of the run, from 1.
        run: usize,
        /// Number of runs.
        runs: usize,
    },
    /// Bytes have arrived.
    Moves {
        /// So far, over all flows.
        received: Bytes,
        /// In all.
        expected: Bytes,
    },
    /// Records of each packet on the radio link in the direction of the data, before its case ends.
    Radio(&'a [PacketRecord]),
    /// A case has ended.
    Ends(&'a CaseResult),
}

/// Runs scenarios in the lab `instance`.
#[derive(Clone, Debug)]
pub struct Runner<'a> {
    /// The lab's name and directory.
    pub instance: &'a Instance,
    /// Ends everything when one comes.
    pub signals: &'a Signals,
    /// The `cellerator` program, for the accelerator.
    pub program: PathBuf,
    /// Folder in which the scenario's trace files are looked for.
    pub traces: PathBuf,
    /// Folder for captures of each run, made at both ends, and for the truth about it; it must exist.
    pub captures: Option<PathBuf>,
}

impl Runner<'_> {
    /// Runs every case of `scenario`, or the one called `only`, as often as it says.
    ///
    /// # Errors
    /// When the network or a program fails, there is no such case, or the user interrupts. A transfer that
    /// fails is a result, not an error.
    pub fn run(
        &self,
        scenario: &Scenario,
        only: Option<&str>,
        progress: &mut dyn FnMut(Progress<'_>),
    ) -> Result<ScenarioResult, LabError> {
        let (result, end) = self.run_while(scenario, only, progress);
        end.map(|()| result)
    }

    /// The same, but gives what was finished also when it ends early, and why it did.
    pub fn run_while(
        &self,
        scenario: &Scenario,
        only: Option<&str>,
        progress: &mut dyn FnMut(Progress<'_>),
    ) -> (ScenarioResult, Result<(), LabError>) {
        let mut result = ScenarioResult { scenario: scenario.clone(), cases: Vec::new() };
        let end = self.run_into(&mut result.cases, scenario, only, progress);
        (result, end)
    }

    fn run_into(
        &self,
        results: &mut Vec<CaseResult>,
        scenario: &Scenario,
        only: Option<&str>,
        progress: &mut dyn FnMut(Progress<'_>),
    ) -> Result<(), LabError> {
        let cases = scenario.chosen(only)?;
        if let Some((case, key)) = cases.iter().find_map(|c| Some((c, c.simulated_only()?))) {
            return Err(LabError::SimulatedOnly { case: case.name.clone(), key });
        }
        let runs = cases.len() * scenario.repetitions as usize;
        for repetition in 1..=scenario.repetitions {
            for case in &cases {
                progress(Progress::Begins { case: &case.name, run: results.len() + 1, runs });
                let result = self.run_case(scenario, case, repetition, progress)?;
                progress(Progress::Ends(&result));
                results.push(result);
            }
        }
        Ok(())
    }

    fn run_case(
        &self,
        scenario: &Scenario,
        case: &Case,
        repetition: u32,
        progress: &mut dyn FnMut(Progress<'_>),
    ) -> Result<CaseResult, LabError> {
        let seed = scenario.seed.wrapping_add(u64::from(repetition - 1));
        let is_accelerated = case.accelerator.enabled.unwrap_or(false);
        let has_feedback = case.feedback.base_station().is_some();
        let command =
            is_accelerated.then(|| AcceleratorCommand::new(&self.program, case).with_feedback(has_feedback));
        let mut result = CaseResult {
            accelerator_command: command.as_ref().map(AcceleratorCommand::line),
            skipped: command.as_ref().and_then(AcceleratorCommand::lack),
            ..CaseResult::new(case.clone(), repetition, seed)
        };
        if result.skipped.is_none() {
            let time_limit = scenario.time_limit.0;
            let recording = self
                .captures
                .as_ref()
                .map(|folder| Recording::in_folder(folder, &run_name(scenario, case, repetition)));
            let run = Run { scenario, case, seed, time_limit, recording: recording.as_ref() };
            match self.measure(&run, command.as_ref(), progress) {
                Ok(figures) => {
                    result.problems = figures.problems(case);
                    result.doubts = figures.doubts(case);
                    result.figures = Some(figures);
                }
                Err(lack @ LabError::NoCongestionControl { .. }) => result.skipped = Some(lack.to_string()),
                Err(error) => return Err(error),
            }
        }
        Ok(result)
    }

    fn measure(
        &self,
        run: &Run<'_>,
        command: Option<&AcceleratorCommand>,
        progress: &mut dyn FnMut(Progress<'_>),
    ) -> Result<Figures, LabError> {
        let &Run { case, seed, time_limit, .. } = run;
        let workload = &case.workload;
        let plan = case.links(seed, &mut |file| read_trace(&self.traces, file))?;
        // Of datagrams nothing is served.
        let size = if workload.kind() == Kind::Udp { Bytes::ZERO } else { workload.size() };
        let content = Content::write(self.instance.directory(), size, seed)?;
        let managing = DrwaCommand::of(&self.program, &case.client);
        let mut session = Session::build_with(self.instance, case, command, managing.as_ref())?;
        let serving =
            Serving::start(session.network().namespace(Role::Server), self.instance, workload, &content)?;
        let beside = Servers::listen(session.network().namespace(Role::Server), workload)?;
        let recorder =
            run.recording.map(|recording| Recorder::start(session.network(), recording)).transpose()?;
        let client = Namespace::open(session.network().namespace(Role::Client).name())?;
        let datagrams = (workload.kind() == Kind::Udp)
            .then(|| Datagrams::open(session.network().namespace(Role::Server), &client, workload))
            .transpose()?;
        // Last, so that the links' time begins together with the transfer in every case.
        session.begin(&plan, Keep::Everything)?;
        let address = server_address(workload.family());
        let ping = workload.ping.map(|every| Ping::start(&client, address, every.0)).transpose()?;
        let pages = Pages::start(&client, workload)?;
        let beside = beside.begin(&client, time_limit)?;
        let flows = if datagrams.is_some() { 1 } else { u64::from(workload.flows()) };
        let expected = Bytes::new(workload.expected().get().saturating_mul(flows));
        let mut moves = |received| progress(Progress::Moves { received: Bytes::new(received), expected });
        let (outcomes, datagrams) = match datagrams {
            Some(datagrams) => {
                let (outcome, log) =
                    datagrams.run(&content, self.signals, &mut moves, &mut || session.check())?;
                (vec![outcome], Some(log))
            }
            None => {
                let reads_after = case.client.reads_after.map(|delay| delay.0);
                let transfers =
                    Transfers::new(&client, workload, &content, time_limit).reading_after(reads_after);
                (transfers.run(self.signals, &mut moves, &mut || session.check())?, None)
            }
        };
        let pings = ping.map(Ping::finish).unwrap_or_default();
        let pages = pages.map(Pages::finish).unwrap_or_default();
        let beside = beside.finish();
        recorder.map(Recorder::finish).transpose()?;
        let emulation = session.end()?;
        // After the last packet that the emulator has seen: each one that a host has sent again is counted.
        let sender = if workload.kind() == Kind::Upload { Role::Client } else { Role::Server };
        let counters =
            [counters(session.network(), Role::Server)?, counters(session.network(), Role::Client)?];
        let resent = counters[usize::from(sender == Role::Client)].get("Tcp.RetransSegs").copied();
        if let Some(recording) = run.recording {
            let bytes = outcomes.iter().map(|outcome| outcome.bytes).sum();
            run.write_truth(recording, sender, bytes, counters, &plan, &emulation)?;
        }
        let evidence = Evidence {
            resent_by_sender: resent.unwrap_or(0),
            uploaded: serving.finish()?,
            emulation,
            outcomes: &outcomes,
            datagrams,
            workload,
            content: &content,
            pings,
            pages,
            beside,
        };
        progress(Progress::Radio(evidence.radio()));
        Ok(evidence.figures())
    }
}

/// Server that answers the client's requests.
enum Serving {
    /// nginx, as fast as TCP takes it.
    Nginx(Origin),
    /// A program that writes no faster than the workload says.
    Shaped(Listener),
    /// Datagrams are asked for by nobody.
    Nothing,
}

impl Serving {
    fn start(
        server: &Namespace,
        instance: &Instance,
        workload: &Workload,
        content: &Content,
    ) -> Result<Self, LabError> {
        match (workload.kind(), workload.write_rate) {
            (Kind::Udp, _) => Ok(Self::Nothing),
            (Kind::Download, Some(rate)) => {
                let address = SocketAddr::from((server_address(workload.family()), 80));
                Ok(Self::Shaped(shaped_origin::start(server, address, content, rate.0)?))
            }
            _ => Ok(Self::Nginx(Origin::start(server, instance.directory())?)),
        }
    }

    /// Ends it; SHA-256 of what was uploaded.
    fn finish(self) -> Result<Vec<String>, LabError> {
        match self {
            Self::Nginx(origin) => return origin.uploaded(),
            Self::Shaped(server) => drop(server.finish()),
            Self::Nothing => {}
        }
        Ok(Vec::new())
    }
}

/// One run of a case.
struct Run<'a> {
    scenario: &'a Scenario,
    case: &'a Case,
    seed: u64,
    time_limit: Duration,
    recording: Option<&'a Recording>,
}

impl Run<'_> {
    fn write_truth(
        &self,
        recording: &Recording,
        sender: Role,
        bytes: u64,
        [server, client]: [BTreeMap<String, u64>; 2],
        plan: &LinkPlan,
        emulation: &Emulation,
    ) -> Result<(), LabError> {
        let truth = Truth {
            scenario: self.scenario.name.clone(),
            case: self.case.name.clone(),
            seed: self.seed,
            sender: sender.name(),
            bytes,
            path_rtt_ms: path_rtt(plan).as_millis_f64(),
            server,
            client,
            dropped: Dropped::of(emulation),
        };
        let path = &recording.truth;
        let json = serde_json::to_string_pretty(&truth).unwrap_or_default();
        fs::write(path, json + "\n").doing(|| format!("write {}", path.display()))
    }
}

/// The name of a run's files: `scenario-case`, and the repetition where there are several; letters
/// and digits of the case.
#[must_use]
pub fn run_name(scenario: &Scenario, case: &Case, repetition: u32) -> String {
    let plain = |name: &str| -> String {
        name.chars().map(|c| if c.is_ascii_alphanumeric() { c.to_ascii_lowercase() } else { '-' }).collect()
    };
    let name = format!("{}-{}", plain(&scenario.name), plain(&case.name));
    if scenario.repetitions > 1 { format!("{name}-{repetition}") } else { name }
}

/// Versions and machine, for results of a command `line` of version `version`.
#[must_use]
pub fn made_by(version: &str, line: &str) -> MadeBy {
    let read = |path: &str| fs::read_to_string(path).unwrap_or_default().trim().to_owned();
    let first_line = |program: &str, argument: &str| {
        let path = io::features::find_program(program)?;
        let output = std::process::Command::new(path).arg(argument).output().ok()?;
        // nginx prints its version to standard error.
        let text = [output.stdout, output.stderr].concat();
        String::from_utf8_lossy(&text).lines().next().map(str::to_owned)
    };
    MadeBy {
        cellerator: version.to_owned(),
        kernel: read("/proc/sys/kernel/osrelease"),
        processors: io::sched::cpu_count(),
        command: line.to_owned(),
        started_unix_s: io::Clock::wall_nanos() / 1_000_000_000,
        runner: "lab".to_owned(),
        programs: [("nginx", "-v"), ("curl", "--version")]
            .into_iter()
            .filter_map(|(program, argument)| first_line(program, argument))
            .map(|line| {
                line.replace("nginx version: ", "").chars().take_while(|c| *c != '(').collect::<String>()
            })
            .map(|line| line.trim().to_owned())
            .collect(),
        qdisc: DISCIPLINE.to_owned(),
        default_qdisc: read("/proc/sys/net/core/default_qdisc"),
    }
}
