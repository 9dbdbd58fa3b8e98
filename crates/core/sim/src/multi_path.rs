//! Multi-path connections in virtual time: data that one connection spreads over subflows on several radios.
//!
//! ```text
//!   data ─▶ scheduler ─▶ subflow: window, recovery ── radio ──▶ subflow: order ─▶ order of the data ─▶ read
//!           (shortest       (tcp::Sender, a                    (tcp::Receiver)    (data-level
//!            round trip)     controller)     ◀── radio ── acknowledgements of subflow and data
//! ```
//!
//! Senders, receivers, controllers and links are those of the rest of the project; coupled schemes are
//! [`control::coupled`]. What is modelled besides:
//!
//! - A connection opens over the most preferred radio with a handshake. Its further subflows open when that is up:
//!   each radio to each address of the server.
//! - A segment carries the place of its data (RFC 8684 §3.3.1), and what the kernel's options take of a packet. New
//!   data goes to the open subflow with the shortest round trip whose window has room.
//! - The receive window is one for all subflows (RFC 8684 §3.3.1), and constant.
//!
//! DEVIATION: data of a subflow is never sent again over another, and Linux queues data at a subflow before its
//! window has room. There are no path managers and no deaths of radios: scenarios that need them are refused.

mod data_level;
mod subflow;
mod world;

use control::coupled::Scheme;
use link::LinkConfig;
use scenario::multi_path_results::{BIN_MS, MultiPathRun};
use scenario::{CongestionControl, Family, MultiPath, MultiPathCase, ReadTrace};
use units::{Bytes, Duration, Instant};

use world::World;

use crate::SimError;

/// Time of the air before the transfer, as in the lab: links are in the same place of their traces.
const LEAD: Duration = Duration::from_millis(1_500);

/// Shorter times without a byte are no stalls.
const STALL_MIN: Duration = Duration::from_millis(50);

/// A run of a case of a multi-path scenario.
#[derive(Clone, Debug)]
pub struct MultiPathCaseRun {
    case: MultiPathCase,
    repetition: u32,
    seed: u64,
    time: Duration,
    world: WorldConfig,
}

/// Configuration of a [`World`].
#[derive(Clone, Debug)]
struct WorldConfig {
    starts_at: Instant,
    family: Family,
    /// Name and links, towards the client and from it; the most preferred first.
    radios: Vec<(String, [LinkConfig; 2])>,
    server_addresses: u32,
    is_multi_path: bool,
    control: CaseControl,
    /// Single-path TCPs with Reno over the first radio.
    beside: u32,
    size: u64,
    seed: u64,
}

/// The congestion control of the server.
#[derive(Clone, Copy, Debug)]
enum CaseControl {
    /// Each subflow has its own.
    Uncoupled(CongestionControl),
    Coupled(Scheme),
}

impl MultiPathCaseRun {
    /// The run of `case` with the repetition's seed.
    ///
    /// # Errors
    /// A key that only the lab has, a congestion control that is not known, or links that cannot be made.
    pub fn new(
        scenario: &MultiPath,
        case: &MultiPathCase,
        repetition: u32,
        read: ReadTrace<'_>,
    ) -> Result<Self, SimError> {
        if let Some(key) = lab_only(scenario, case) {
            return Err(SimError::LabOnly(key));
        }
        let seed = scenario.seed.wrapping_add(u64::from(repetition.saturating_sub(1)));
        let wrong = |message: String| SimError::Scenario { case: case.name.clone(), message };
        let mut radios = Vec::new();
        for (number, radio) in scenario.radios_of(case) {
            let links = scenario
                .links((&radio.down, &radio.up), (number, seed), &mut *read)
                .map_err(|e| wrong(e.to_string()))?;
            radios.push((radio.name.clone(), links));
        }
        let name = case.congestion_control.as_deref().or(scenario.congestion_control.as_deref());
        let control = match name {
            None => CaseControl::Uncoupled(CongestionControl::default()),
            Some(name) => Scheme::named(name)
                .map(CaseControl::Coupled)
                .or_else(|| CongestionControl::named(name).map(CaseControl::Uncoupled))
                .ok_or_else(|| wrong(format!("no congestion control is called `{name}`")))?,
        };
        let world = WorldConfig {
            starts_at: Instant::ZERO + LEAD,
            family: scenario.family,
            radios,
            server_addresses: scenario.server_addresses,
            is_multi_path: !case.single_path && !case.server_single_path,
            control,
            beside: scenario.beside,
            size: scenario.size.map_or(u64::MAX, |size| size.0.get()),
            seed,
        };
        Ok(Self { case: case.clone(), repetition, seed, time: scenario.time.0, world })
    }

    /// Runs it.
    ///
    /// # Errors
    /// The links cannot be made, or something happens without end at one point of time.
    pub fn run(&self) -> Result<MultiPathRun, SimError> {
        let mut world = World::new(&self.world)?;
        let start = self.world.starts_at;
        let end = start + self.time;
        world.run_until(end)?;
        Ok(self.figures(&world, start, end))
    }

    #[allow(clippy::float_arithmetic)] // Figures for people.
    fn figures(&self, world: &World, start: Instant, end: Instant) -> MultiPathRun {
        let mut run = MultiPathRun {
            case: self.case.name.clone(),
            repetition: self.repetition,
            seed: self.seed,
            is_multi_path: self.world.is_multi_path,
            flows: world.flows.clone(),
            queues_ms: world.queues_ms.clone(),
            ..MultiPathRun::default()
        };
        let goodput = |bytes: u64, time: Duration| bytes as f64 * 8.0 / 1e6 / time.as_secs_f64().max(1e-9);
        let taken = |at: usize| world.connections.get(at).map(|one| one.reading());
        let Some(reading) = taken(0) else { return run };
        let connected = reading.connected_at.unwrap_or(end);
        let ended = reading.ended_at.unwrap_or(end);
        run.connected_ms = connected.saturating_since(start).as_millis_f64();
        run.seconds = ended.saturating_since(connected).as_secs_f64();
        run.bytes = reading.bytes;
        run.goodput_mbps = goodput(reading.bytes, ended.saturating_since(connected));
        run.is_intact = reading.is_intact;
        if reading.connected_at.is_none() {
            run.error = Some("the connection was not up before the end".to_owned());
        }
        run.beside_mbps = (1..world.connections.len())
            .filter_map(taken)
            .map(|one| goodput(one.bytes, end.saturating_since(one.connected_at.unwrap_or(end))))
            .collect();
        let seconds = |at: Instant| at.saturating_since(start).as_secs_f64();
        run.stalls = reading.stalls.iter().map(|(at, time)| (seconds(*at), time.as_millis_f64())).collect();
        let open = ended.saturating_since(reading.last_at.unwrap_or(connected));
        if reading.ended_at.is_none() && open >= STALL_MIN {
            run.stalls.push((seconds(reading.last_at.unwrap_or(connected)), open.as_millis_f64()));
        }
        let longest = run.stalls.iter().copied().max_by(|a, b| a.1.total_cmp(&b.1));
        (run.stalled_at_s, run.longest_stall_ms) = longest.unwrap_or((0.0, 0.0));
        run
    }
}

/// The first key of a case that the simulator has nothing for.
fn lab_only(scenario: &MultiPath, case: &MultiPathCase) -> Option<&'static str> {
    let keys = [
        ("upload", scenario.upload),
        ("further_family", scenario.further_family.is_some()),
        ("connects", !scenario.connects.is_empty()),
        ("server_sysctls", !scenario.server_sysctls.is_empty() || !case.server_sysctls.is_empty()),
        ("client_sysctls", !scenario.client_sysctls.is_empty()),
        ("nat", scenario.radios.iter().any(|radio| radio.nat)),
        ("strips", scenario.radios.iter().any(|radio| radio.strips.is_some())),
        ("event", scenario.radios.iter().any(|radio| !radio.events.is_empty())),
        ("daemon", case.daemon),
        ("mptcpd", case.mptcpd),
        ("warm_up", case.warm_up),
    ];
    keys.into_iter().find(|(_, is_there)| *is_there).map(|(key, _)| key)
}

/// The bin of [`BIN_MS`] ms in which `at` lies.
fn bin(at: Instant, start: Instant) -> usize {
    (at.saturating_since(start).as_millis() / BIN_MS) as usize
}

/// Bytes of the headers of a packet of this family with timestamps, without MPTCP's options.
const fn headers(family: Family) -> Bytes {
    Bytes::new(match family {
        Family::Ipv4 => 20 + 20 + 12,
        Family::Ipv6 => 40 + 20 + 12,
    })
}

#[cfg(test)]
mod tests;
