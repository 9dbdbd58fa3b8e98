//! [`MultiPathRunner`]: runs a multi-path scenario.

use std::collections::BTreeMap;
use std::fs;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use control::coupled::Scheme;
use io::netlink::{SocketDiagnosis, Subflow};
use io::{Clock, Namespace, Signals, SpawnOptions, sysctl};
use scenario::results::Moved;
use scenario::{MultiPath, MultiPathCase, RadioDoes};
use units::{Duration, Instant};

use super::air::{Air, AirChange, AirLog, AirRadio};
use super::ends::{ContentServer, PORT, Transfer, download, upload};
use super::manager::{Mptcpd, PathManagerProcess};
use super::middlebox::Middlebox;
use super::world::{World, is_address_of, outer_address, server_address};
use crate::error::Context;
use crate::pause::pause;
use crate::{Instance, LabError};
use scenario::multi_path_results::{BIN_MS, CONNECT_LIMIT_S, Connect, MultiPathResult, MultiPathRun, Reuse};

/// UDP port of `cellerator probe server`.
const PROBE_PORT: u16 = 7311;
/// TCP port of the server of the downloads beside the transfer.
const BESIDE_PORT: u16 = PORT + 1;
/// How long the air is there before the transfer: the path manager proves its paths.
const LEAD: Duration = Duration::from_millis(1_500);
/// Bytes of the answer to a new connection.
const CONNECT_BYTES: u64 = 1_000;
/// Data that shows that a radio is used again, bytes.
const REUSED_BYTES: u64 = 10_000;
/// For so long after a radio's death what waits at the sender is what waited at the death.
const UNSENT_FOR: Duration = Duration::from_millis(100);
/// The strength that modems tell at first, dBm.
const STRONG_DBM: i32 = -85;
/// Of these it is told whether they are restored after a kill.
const RESTORED: [&str; 3] =
    ["net/ipv4/tcp_rto_max_ms", "net/ipv4/tcp_retries2", "net/ipv4/tcp_no_metrics_save"];

/// Runs multi-path scenarios in the lab `instance`.
pub struct MultiPathRunner<'a> {
    /// The lab's name and directory.
    pub instance: &'a Instance,
    /// Ends everything when one comes.
    pub signals: &'a Signals,
    /// The `cellerator` program.
    pub program: PathBuf,
    /// Where trace files are looked for.
    pub traces: PathBuf,
}

/// What the runner itself does at a time.
enum Deed {
    Readdress(String, usize),
    Strength(String, i32),
    Kill,
    Restart,
}

impl MultiPathRunner<'_> {
    /// Runs every case, or the one called `only`, as often as the scenario says, or its run of number `number` alone;
    /// `tell` hears of each run. A case with mptcpd is left out where that is not installed.
    ///
    /// # Errors
    /// When the network cannot be made, or the user interrupts. A transfer that fails is a result.
    pub fn run(
        &self,
        scenario: &MultiPath,
        only: Option<&str>,
        number: Option<u32>,
        tell: &mut dyn FnMut(&MultiPathRun),
    ) -> Result<MultiPathResult, LabError> {
        let mut result = MultiPathResult { scenario: scenario.clone(), runs: Vec::new() };
        for repetition in number.map_or(1..=scenario.repetitions, |number| number..=number) {
            let is_there = |case: &&MultiPathCase| !case.mptcpd || Mptcpd::installed().is_some();
            let is_wanted = |case: &&MultiPathCase| only.is_none_or(|name| case.name == name);
            for case in scenario.cases.iter().filter(is_there).filter(is_wanted) {
                let run = self.one(scenario, case, repetition)?;
                tell(&run);
                result.runs.push(run);
            }
        }
        Ok(result)
    }

    fn one(
        &self,
        scenario: &MultiPath,
        case: &MultiPathCase,
        repetition: u32,
    ) -> Result<MultiPathRun, LabError> {
        let seed = scenario.seed.wrapping_add(u64::from(repetition - 1));
        let (world, devices) = World::create(self.instance.name(), scenario, case)?;
        let strength = self.instance.directory().join("strength");
        let radios = scenario.radios_of(case);
        let mut strengths: BTreeMap<String, i32> =
            radios.iter().map(|(_, radio)| (radio.name.clone(), STRONG_DBM)).collect();
        write_strengths(&strength, &strengths)?;
        let is_multi_path = !case.server_single_path;
        let family = scenario.family;
        let address = server_address(family, 0);
        let is_ipv4_only = address.is_ipv4() && scenario.further_family.is_none();
        let anywhere = if is_ipv4_only { "0.0.0.0" } else { "[::]" };
        let at: SocketAddr = format!("{anywhere}:{PORT}").parse().map_err(|_| which("no address"))?;
        let coupled = coupled(case)?;
        let control = coupled.as_ref().map(|program| program.name().to_owned());
        let control = control.or_else(|| case.congestion_control.clone());
        let content = ContentServer::start(&world.server, at, is_multi_path, control)?;
        let beside_at = SocketAddr::new(at.ip(), BESIDE_PORT);
        let reno = || ContentServer::start(&world.server, beside_at, false, Some("reno".to_owned()));
        let _beside = (scenario.beside > 0).then(reno).transpose()?;
        let _probes = ProbeServer::start(&world.server, &self.program, SocketAddr::new(address, PROBE_PORT))?;
        let before: Vec<Option<String>> =
            RESTORED.iter().map(|p| sysctl::read(&world.client, p).ok()).collect();

        // The air is there before the transfer; its time zero is when that begins.
        // The same in every case, so that links are in the same place of their traces.
        let lead = LEAD;
        let warm_up = if case.warm_up { Duration::from_secs(6) } else { Duration::ZERO };
        let start = Clock::now() + lead + warm_up;
        let (air, deeds) = self.air(scenario, case, seed, devices, start)?;
        let server = SocketAddr::new(address, PROBE_PORT).to_string();
        let mut options = case.options.clone();
        options.extend((scenario.server_addresses > 1).then(|| "--full-mesh".to_owned()));
        let start_manager =
            || PathManagerProcess::start(&world.client, &self.program, &server, &options, &strength);
        let mut manager = None;
        let mut _mptcpd = None;
        if case.daemon {
            let mut started = start_manager()?;
            started.wait_for_paths(radios.len())?;
            manager = Some(started);
        } else if let Some(program) = Mptcpd::installed().filter(|_| case.mptcpd) {
            _mptcpd = Some(Mptcpd::start(&world.client, program, radios.len())?);
        } else if !case.single_path {
            world.add_endpoints(scenario, case)?;
        }
        let to = SocketAddr::new(address, PORT);
        let wants_mptcp = !case.single_path;
        if case.warm_up {
            let end = Clock::now() + Duration::from_millis(5_500);
            world.client.run(|| download(to, (seed, u64::MAX), end, wants_mptcp))?;
        }
        let size = scenario.size.map_or(u64::MAX, |size| size.0.get());
        let end = start + scenario.time.0;
        let (mut run, mut transfer) = (
            MultiPathRun { case: case.name.clone(), repetition, seed, ..MultiPathRun::default() },
            Transfer::default(),
        );
        let mut said = Vec::new();
        let troubles = troubles(scenario, case);
        let mut unsent = vec![None::<f64>; troubles.len()];
        std::thread::scope(|scope| -> Result<(), LabError> {
            let client = &world.client;
            let main = scope.spawn(move || {
                client.run(|| {
                    let _ = pause(start.saturating_since(Clock::now()));
                    let transfer = if scenario.upload { upload } else { download };
                    transfer(to, (seed, size), end, wants_mptcp)
                })
            });
            let beside: Vec<_> = (1..=u64::from(scenario.beside))
                .map(|number| {
                    scope.spawn(move || {
                        client.run(|| {
                            let _ = pause(start.saturating_since(Clock::now()));
                            let to = SocketAddr::new(address, BESIDE_PORT);
                            download(to, (seed ^ (number << 32), u64::MAX), end, false)
                        })
                    })
                })
                .collect();
            let connects: Vec<_> = scenario
                .connects
                .iter()
                .map(|at| {
                    let at = at.0;
                    scope.spawn(move || {
                        client.run(|| {
                            let _ = pause((start + at).saturating_since(Clock::now()));
                            let end = Clock::now() + Duration::from_secs(CONNECT_LIMIT_S);
                            (at, download(to, (seed ^ 1, CONNECT_BYTES), end, wants_mptcp))
                        })
                    })
                })
                .collect();
            let mut deeds = deeds.into_iter().peekable();
            let mut generations: BTreeMap<String, u8> = BTreeMap::new();
            let sender = if scenario.upload { &world.client } else { &world.server };
            let diagnosis = sender.run(SocketDiagnosis::open)??;
            while !main.is_finished() {
                let now = Clock::now();
                for ((at, dead), unsent) in troubles.iter().zip(&mut unsent) {
                    if now >= start + *at && now < start + *at + UNSENT_FOR {
                        let ms = unsent_ms(&diagnosis.subflows()?, *dead);
                        *unsent = Some(unsent.map_or(ms, |most| most.max(ms)));
                    }
                }
                while let Some((_, deed)) = deeds.next_if(|(at, _)| start + *at <= now) {
                    match deed {
                        Deed::Readdress(radio, number) => {
                            let last = generations.entry(radio.clone()).or_insert(2);
                            world.readdress(&radio, number, family, *last)?;
                            *last += 1;
                        }
                        Deed::Strength(radio, dbm) => {
                            strengths.insert(radio, dbm);
                            write_strengths(&strength, &strengths)?;
                        }
                        Deed::Kill => {
                            if let Some(mut manager) = manager.take() {
                                manager.kill();
                                said.extend(manager.lines());
                            }
                            // The guard needs a moment, which is within what is promised.
                            pause(Duration::from_millis(1_200))?;
                            let after: Vec<Option<String>> =
                                RESTORED.iter().map(|p| sysctl::read(&world.client, p).ok()).collect();
                            run.is_profile_restored = Some(before == after);
                        }
                        Deed::Restart => {
                            manager = Some(start_manager()?);
                        }
                    }
                }
                if self.signals.take().is_some() {
                    return Err(LabError::Interrupted);
                }
                pause(Duration::from_millis(10))?;
            }
            transfer = main.join().map_err(|_| which("the client's thread panicked"))??;
            for download in beside {
                let got = download.join().map_err(|_| which("a client's thread panicked"))??;
                if let Some(error) = got.error {
                    return Err(which(&format!("a TCP beside the transfer: {error}")));
                }
                let from = got.connected_at.unwrap_or(start);
                let seconds = got.ended.unwrap_or(end).saturating_since(from).as_secs_f64();
                run.beside_mbps.push(got.bytes as f64 * 8.0 / 1e6 / seconds.max(1e-9));
            }
            for connect in connects {
                let (at, got) = connect.join().map_err(|_| which("a client's thread panicked"))??;
                run.connects.push(Connect {
                    at_s: at.as_secs_f64(),
                    up_ms: got.connected.map(Duration::as_millis_f64),
                    limit_s: CONNECT_LIMIT_S as f64,
                    answered_ms: got.answered.filter(|_| got.bytes > 0).map(Duration::as_millis_f64),
                });
            }
            Ok(())
        })?;
        if scenario.upload {
            transfer = received(&content, transfer);
        }
        if let Some(mut manager) = manager.take() {
            manager.end()?;
            said.extend(manager.lines());
        }
        let log = air.finish()?;
        self.figure(&mut run, scenario, case, (start, end), transfer, log);
        let troubles: Vec<f64> = troubles.iter().map(|(at, _)| at.as_secs_f64()).collect();
        run.death_unsent_ms = worst_stall(&run, &troubles).and_then(|(which, ..)| unsent[which]);
        run.events = said.iter().map(|(at, line)| at_time(*at, start, line)).collect();
        Ok(run)
    }

    /// The radios of a case in the air, and what the runner itself has to do.
    #[allow(clippy::type_complexity)] // Used once.
    fn air(
        &self,
        scenario: &MultiPath,
        case: &MultiPathCase,
        seed: u64,
        devices: Vec<[io::Tun; 2]>,
        start: Instant,
    ) -> Result<(Air, Vec<(Duration, Deed)>), LabError> {
        let mut read = |file: &str| crate::read_trace(&self.traces, file);
        let (mut radios, mut deeds) = (Vec::new(), Vec::new());
        for ((number, radio), devices) in scenario.radios_of(case).into_iter().zip(devices) {
            let links = scenario.links((&radio.down, &radio.up), (number, seed), &mut read)?;
            let mut changes = Vec::new();
            let mut generation = 1;
            for event in &radio.events {
                let at = event.at.0;
                match (event.does, &event.down, &event.up) {
                    (RadioDoes::Dies, ..) => changes.push((at, AirChange::Dies)),
                    (RadioDoes::Returns, ..) => changes.push((at, AirChange::Returns)),
                    (RadioDoes::Becomes, Some(down), Some(up)) => {
                        let links = scenario.links((down, up), (number + 8, seed), &mut read)?;
                        changes.push((at, AirChange::Becomes(Box::new(links))));
                    }
                    (RadioDoes::NatMoves, ..) => {
                        generation += 1;
                        changes.push((at, AirChange::NatMoves(outer_address(number, generation))));
                    }
                    (RadioDoes::Readdresses, ..) => {
                        deeds.push((at, Deed::Readdress(radio.name.clone(), number)));
                    }
                    (RadioDoes::Strength, ..) => {
                        let dbm = event.dbm.unwrap_or(STRONG_DBM);
                        deeds.push((at, Deed::Strength(radio.name.clone(), dbm)));
                    }
                    (RadioDoes::Becomes, ..) => {}
                }
            }
            changes.sort_by_key(|(at, _)| *at);
            let nat = radio.nat.then(|| ([10, 100 + number as u8, 0, 2], outer_address(number, 1)));
            let middlebox = Middlebox::new(nat, radio.strips);
            radios.push(AirRadio { name: radio.name.clone(), devices, links, middlebox, changes });
        }
        deeds.extend(case.kill_at.map(|at| (at.0, Deed::Kill)));
        deeds.extend(case.restart_at.map(|at| (at.0, Deed::Restart)));
        deeds.sort_by_key(|(at, _)| *at);
        Ok((Air::start(radios, start, scenario.upload)?, deeds))
    }

    fn figure(
        &self,
        run: &mut MultiPathRun,
        scenario: &MultiPath,
        case: &MultiPathCase,
        (start, end): (Instant, Instant),
        transfer: Transfer,
        log: AirLog,
    ) {
        let (from, to) = (transfer.connected_at.unwrap_or(start), transfer.ended.unwrap_or(end));
        run.connected_ms = transfer.connected.map_or(0.0, Duration::as_millis_f64);
        run.seconds = to.saturating_since(from).as_secs_f64();
        run.bytes = transfer.bytes;
        run.goodput_mbps = transfer.bytes as f64 * 8.0 / 1e6 / run.seconds.max(1e-9);
        let stall = |(at, time): &(Instant, Duration)| {
            (at.saturating_since(start).as_secs_f64(), time.as_millis_f64())
        };
        run.stalls = transfer.stalls.iter().map(stall).collect();
        let longest = run.stalls.iter().copied().max_by(|a, b| a.1.total_cmp(&b.1));
        (run.stalled_at_s, run.longest_stall_ms) = longest.unwrap_or((0.0, 0.0));
        run.is_intact = transfer.is_intact;
        run.sha256 = transfer.sha256;
        run.is_multi_path = transfer.is_multi_path;
        run.error = transfer.error;
        if let Some(timing) = log.timing {
            run.late_p99_us = timing.late_us.p99;
            (run.late_p50_us, run.late_max_us) = (timing.late_us.p50, timing.late_us.max);
            let radios = scenario.radios_of(case);
            let delays = radios.iter().flat_map(|(_, r)| [r.down.delay, r.up.delay]).flatten();
            // A packet of one radio is as late as one of another: the mean path counts. Its round trip is that
            // which the data had, behind what was queued: a deep queue before a short path makes lateness small.
            let queues_ms: f64 = log.queues_ms.values().map(|bins| median_of(bins)).sum();
            let path_rtt_ms =
                (delays.map(|d| d.0.as_millis_f64()).sum::<f64>() + queues_ms) / radios.len().max(1) as f64;
            let moved = Moved { path_rtt_ms, seconds: run.seconds, lost: 0, has_round_trips: false };
            run.distrusted = timing.judged(moved).why_not;
        }
        run.flows = log.flows;
        run.queues_ms = log.queues_ms;
        let troubles: Vec<f64> = troubles(scenario, case).iter().map(|(at, _)| at.as_secs_f64()).collect();
        if !troubles.is_empty() {
            let worst = worst_stall(run, &troubles);
            run.death_stall_ms = Some(worst.map_or(0.0, |(_, _, ms)| ms));
            run.death_queue_ms = worst.map(|(_, at, ms)| run.queue_ms(at, ms));
        }
        for (_, radio) in scenario.radios_of(case) {
            let returns = radio.events.iter().filter(|e| e.does == RadioDoes::Returns);
            for event in returns.filter(|e| e.at.0 < scenario.time.0) {
                let at = event.at.0;
                let next = radio.events.iter().find(|e| e.does == RadioDoes::Dies && e.at.0 > at);
                let until = next.map_or(scenario.time.0, |e| e.at.0);
                run.reuses.push(Reuse {
                    radio: radio.name.clone(),
                    at_s: at.as_secs_f64(),
                    after_ms: reused(&run.flows, &radio.name, at, until),
                });
            }
        }
    }
}

/// The coupled scheme that is a case's congestion control, registered by a name of this process's own.
fn coupled(case: &MultiPathCase) -> Result<Option<coupled::Program>, LabError> {
    let Some(scheme) = case.congestion_control.as_deref().and_then(Scheme::named) else { return Ok(None) };
    let mut program = coupled::Program::load(&coupled::Setup::private(scheme))?;
    program.register()?;
    Ok(Some(program))
}

/// When radios die, or their own address or that of their NAT changes; and which, by number; by time.
fn troubles(scenario: &MultiPath, case: &MultiPathCase) -> Vec<(Duration, usize)> {
    let is_trouble = |does| matches!(does, RadioDoes::Dies | RadioDoes::NatMoves | RadioDoes::Readdresses);
    let radios = scenario.radios_of(case).into_iter();
    let events = radios.flat_map(|(number, radio)| radio.events.iter().map(move |event| (number, event)));
    let troubles = events.filter(|(_, event)| is_trouble(event.does));
    let mut troubles: Vec<(Duration, usize)> = troubles.map(|(number, event)| (event.at.0, number)).collect();
    troubles.sort_unstable();
    troubles
}

/// The longest stall that began within a second of one of `troubles`, given in s and in order: the number of the
/// latest of these before it, when it began, s, and how long it was, ms.
fn worst_stall(run: &MultiPathRun, troubles: &[f64]) -> Option<(usize, f64, f64)> {
    let near = run.stalls.iter().filter_map(|(at, ms)| {
        let which = troubles.iter().rposition(|t| *at >= t - 0.1 && *at <= t + 1.0)?;
        Some((which, *at, *ms))
    });
    near.max_by(|a, b| a.2.total_cmp(&b.2))
}

/// What waits unsent in the sockets of paths other than radio `dead`, ms at the rate of each, most.
fn unsent_ms(subflows: &[Subflow], dead: usize) -> f64 {
    let is_of = |ip: std::net::IpAddr| is_address_of(ip, dead);
    let living =
        subflows.iter().filter(|s| s.is_established && !is_of(s.local.ip()) && !is_of(s.remote.ip()));
    let ms = living.map(|s| f64::from(s.unsent_bytes) * 8e3 / s.delivery_rate.as_bps().max(1) as f64);
    ms.fold(0.0, f64::max)
}

/// What the server got of an upload, with what only the client knows.
fn received(content: &ContentServer, sent: Transfer) -> Transfer {
    let lost = || Transfer { error: Some("the server received nothing".to_owned()), ..Transfer::default() };
    let got = content.received().unwrap_or_else(lost);
    Transfer {
        connected: sent.connected,
        connected_at: sent.connected_at,
        error: sent.error.or(got.error),
        is_multi_path: sent.is_multi_path,
        ..got
    }
}

/// The median of bins, those without a queue among them; zero without any.
fn median_of(bins: &[u32]) -> f64 {
    let mut bins = bins.to_vec();
    bins.sort_unstable();
    bins.get(bins.len() / 2).map_or(0.0, |ms| f64::from(*ms))
}

/// How long after `at` data came through a radio, ms.
fn reused(flows: &BTreeMap<String, Vec<u64>>, radio: &str, at: Duration, until: Duration) -> Option<f64> {
    let (first, last) = (at.as_millis() / BIN_MS, until.as_millis() / BIN_MS);
    let mut sum = 0;
    for bin in first..last {
        let in_bin = |bins: &Vec<u64>| bins.get(usize::try_from(bin).unwrap_or(0)).copied().unwrap_or(0);
        let own = flows.iter().filter(|(name, _)| name.rsplit_once('-').is_some_and(|(n, _)| n == radio));
        sum += own.map(|(_, bins)| in_bin(bins)).sum::<u64>();
        if sum >= REUSED_BYTES {
            return Some(((bin + 1) * BIN_MS) as f64 - at.as_millis() as f64);
        }
    }
    None
}

fn at_time(at: Instant, start: Instant, line: &str) -> String {
    let seconds = if at >= start {
        at.saturating_since(start).as_secs_f64()
    } else {
        -start.saturating_since(at).as_secs_f64()
    };
    // The path manager's own time is that of its process.
    let what = line.split_whitespace().skip(1).collect::<Vec<_>>().join(" ");
    format!("{seconds:.3} {what}")
}

fn write_strengths(path: &Path, strengths: &BTreeMap<String, i32>) -> Result<(), LabError> {
    let text: String = strengths.iter().map(|(name, dbm)| format!("{name} {dbm}\n")).collect();
    let new = path.with_extension("new");
    fs::write(&new, text).and_then(|()| fs::rename(&new, path)).doing(|| format!("write {}", path.display()))
}

fn which(what: &str) -> LabError {
    LabError::Which(what.to_owned())
}

/// `cellerator probe server` in the server's namespace; ended when dropped.
struct ProbeServer(Child);

impl ProbeServer {
    fn start(namespace: &Namespace, program: &Path, at: SocketAddr) -> Result<Self, LabError> {
        let mut command = Command::new(program);
        command.args(["probe", "server", "--listen", &at.to_string()]);
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        let options = SpawnOptions { death_signal: Some(libc::SIGKILL), own_process_group: true };
        Ok(Self(namespace.spawn(command, options)?))
    }
}

impl Drop for ProbeServer {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
