//! [`Runner::run_radios`]: runs a multi-path scenario.

use std::collections::BTreeMap;

use io::netlink::{SocketDiagnosis, Subflow};
use io::{Clock, Namespace};
use scenario::multi_path_results::{BIN_MS, MultiPathResult, MultiPathRun, Reuse};
use scenario::results::Moved;
use scenario::{MultiPath, MultiPathCase, RadioDoes};
use units::{Duration, Instant};

use super::air::{self, AirChange, AirLog, AirRadio};
use super::client_host::{ClientHost, Deed, STRONG_DBM};
use super::clients::{Clients, Job};
use super::ends::Transfer;
use super::manager::mptcpd;
use super::middlebox::Middlebox;
use super::servers::Servers;
use super::world::{World, is_address_of, outer_address, server_address};
use crate::air_thread::AirThread;
use crate::pause::pause;
use crate::{LabError, Runner};

/// Time for which the air is there before the transfer: the path manager proves its paths.
const LEAD: Duration = Duration::from_millis(1_500);
/// Data that shows that a radio is used again, bytes.
const REUSED_BYTES: u64 = 10_000;
/// Time after a radio's death for which what waits at the sender is what waited at the death.
const UNSENT_FOR: Duration = Duration::from_millis(100);

impl Runner<'_> {
    /// Runs every case of several radios, or the one called `only`, as often as the scenario says, or its run of number `number` alone;
    /// `tell` hears of each run. A case with mptcpd is left out where that is not installed.
    ///
    /// # Errors
    /// When the network cannot be made, or the user interrupts. A transfer that fails is a result.
    pub fn run_radios(
        &self,
        scenario: &MultiPath,
        only: Option<&str>,
        number: Option<u32>,
        tell: &mut dyn FnMut(&MultiPathRun),
    ) -> Result<MultiPathResult, LabError> {
        let mut result = MultiPathResult { scenario: scenario.clone(), runs: Vec::new() };
        for repetition in number.map_or(1..=scenario.repetitions, |number| number..=number) {
            let is_there = |case: &&MultiPathCase| !case.mptcpd || mptcpd().is_some();
            let is_wanted = |case: &&MultiPathCase| only.is_none_or(|name| case.name == name);
            for case in scenario.cases.iter().filter(is_there).filter(is_wanted) {
                let run = self.radios_of(scenario, case, repetition)?;
                tell(&run);
                result.runs.push(run);
            }
        }
        Ok(result)
    }

    fn radios_of(
        &self,
        scenario: &MultiPath,
        case: &MultiPathCase,
        repetition: u32,
    ) -> Result<MultiPathRun, LabError> {
        let seed = scenario.seed.wrapping_add(u64::from(repetition - 1));
        let (world, devices) = World::create(self.instance.name(), scenario, case)?;
        let servers = Servers::start(&world.server, &self.program, scenario, case)?;
        let strength = self.instance.directory().join("strength");
        let host = ClientHost::new(&world, &self.program, strength, scenario, case)?;

        // The air is there before the transfer; its time zero is when that begins.
        // The same in every case, so that links are in the same place of their traces.
        let warm_up = if case.warm_up { Duration::from_secs(6) } else { Duration::ZERO };
        let start = Clock::now() + LEAD + warm_up;
        let (air, deeds) = self.air(scenario, case, seed, devices, start)?;
        let mut host = host.with_paths(scenario, case)?;
        let job = Job {
            client: &world.client,
            scenario,
            server: server_address(scenario.family, 0),
            seed,
            is_multi_path: !case.single_path,
            start,
            end: start + scenario.time.0,
        };
        if case.warm_up {
            job.warm_up(Clock::now() + Duration::from_millis(5_500))?;
        }
        let mut run = MultiPathRun { case: case.name.clone(), repetition, seed, ..MultiPathRun::default() };
        let troubles = troubles(scenario, case);
        let sender = if scenario.upload { &world.client } else { &world.server };
        let (transfer, unsent) = std::thread::scope(|scope| -> Result<_, LabError> {
            let clients = Clients::start(scope, job);
            let unsent = self.attend(&clients, &mut host, (start, deeds), sender, &troubles)?;
            Ok((clients.join(&job, &mut run)?, unsent))
        })?;
        let transfer = if scenario.upload { servers.received(transfer) } else { transfer };
        host.end_manager()?;
        let log = air.finish()?;
        self.figure(&mut run, scenario, case, (start, job.end), transfer, log);
        let troubles: Vec<f64> = troubles.iter().map(|(at, _)| at.as_secs_f64()).collect();
        run.death_unsent_ms = worst_stall(&run, &troubles).and_then(|(which, ..)| unsent[which]);
        run.is_profile_restored = host.is_profile_restored;
        run.events = host.said.iter().map(|(at, line)| at_time(*at, start, line)).collect();
        Ok(run)
    }

    /// Does each deed at its time, until the transfer is over: what waited unsent at the sender after each of
    /// `troubles`, ms.
    fn attend(
        &self,
        clients: &Clients<'_>,
        host: &mut ClientHost<'_>,
        (start, deeds): (Instant, Vec<(Duration, Deed)>),
        sender: &Namespace,
        troubles: &[(Duration, usize)],
    ) -> Result<Vec<Option<f64>>, LabError> {
        let mut unsent = vec![None::<f64>; troubles.len()];
        let mut deeds = deeds.into_iter().peekable();
        let diagnosis = sender.run(SocketDiagnosis::open)??;
        while !clients.is_over() {
            let now = Clock::now();
            for ((at, dead), unsent) in troubles.iter().zip(&mut unsent) {
                if now >= start + *at && now < start + *at + UNSENT_FOR {
                    let ms = unsent_ms(&diagnosis.subflows()?, *dead);
                    *unsent = Some(unsent.map_or(ms, |most| most.max(ms)));
                }
            }
            while let Some((_, deed)) = deeds.next_if(|(at, _)| start + *at <= now) {
                host.perform(deed)?;
            }
            if self.signals.take().is_some() {
                return Err(LabError::Interrupted);
            }
            pause(Duration::from_millis(10))?;
        }
        Ok(unsent)
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
    ) -> Result<(AirThread<AirLog>, Vec<(Duration, Deed)>), LabError> {
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
        Ok((air::start(radios, start, scenario.upload)?, deeds))
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

/// Times when radios die, or their own address or that of their NAT changes; and which, by number; by time.
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

/// Longest queue of unsent data in the sockets of paths other than radio `dead`, ms at the rate of each.
fn unsent_ms(subflows: &[Subflow], dead: usize) -> f64 {
    let is_of = |ip: std::net::IpAddr| is_address_of(ip, dead);
    let living =
        subflows.iter().filter(|s| s.is_established && !is_of(s.local.ip()) && !is_of(s.remote.ip()));
    let ms = living.map(|s| f64::from(s.unsent_bytes) * 8e3 / s.delivery_rate.as_bps().max(1) as f64);
    ms.fold(0.0, f64::max)
}

/// The median of bins, those without a queue among them; zero without any.
fn median_of(bins: &[u32]) -> f64 {
    let mut bins = bins.to_vec();
    bins.sort_unstable();
    bins.get(bins.len() / 2).map_or(0.0, |ms| f64::from(*ms))
}

/// Time after `at` until data came through a radio, ms.
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
