//! [`simulate`]: the state machine over an event file, in virtual time.

use std::collections::BTreeMap;
use std::net::IpAddr;

use serde::{Deserialize, Serialize};
use units::{Duration, Instant};

use crate::event_file::{EventFile, Happening};
use crate::{Action, Change, Event, PathId, PathSample, Paths, Settings, State};

/// Interval at which the played kernel is asked for its subflows.
const SAMPLE_EVERY: Duration = Duration::from_millis(20);
/// Time after the last line at which a file without an `end` ends.
const TAIL: Duration = Duration::from_secs(2);

/// Result of a simulation, which `cellerator multipath simulate --json` prints.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct SimulationOutcome {
    /// Names of the paths.
    pub paths: Vec<String>,
    /// Actions of the machine, in order; probes are only counted.
    pub lines: Vec<Line>,
    /// Probes sent on each path.
    pub probes: Vec<u64>,
    /// Time in each state, by path, ms.
    pub time_in_state_ms: Vec<BTreeMap<State, u64>>,
    /// The end, ms.
    pub end_ms: u64,
}

/// Something that the machine did.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Line {
    /// Time of the action, µs.
    pub at_us: u64,
    /// Name of the path.
    pub path: String,
    /// Action on the path.
    pub what: String,
}

/// A path's network and the subflows on it, as the simulation plays them.
#[derive(Clone, Debug, Default)]
struct Played {
    rtt: Option<Duration>,
    is_dead: bool,
    /// Time of its last change.
    changed: Instant,
    has_traffic: bool,
    loses_percent: u32,
    loss_count: u32,
    nat: Option<IpAddr>,
    /// Time at which the endpoint's subflow is established.
    joins: Option<Instant>,
    endpoint: Option<IpAddr>,
}

struct Simulation {
    paths: Paths,
    names: Vec<String>,
    played: Vec<Played>,
    connections: u32,
    /// Answers on their way: by time of arrival and order of departure.
    answers: BTreeMap<(Instant, u64), (PathId, u64, Duration, Instant)>,
    outcome: SimulationOutcome,
    entered: Vec<(State, Instant)>,
    order: u64,
}

/// Runs the machine over `file`.
#[must_use]
pub fn simulate(file: &EventFile, settings: Settings) -> SimulationOutcome {
    let mut sim = Simulation {
        paths: Paths::new(settings),
        names: file.paths.clone(),
        played: vec![Played::default(); file.paths.len()],
        connections: 0,
        answers: BTreeMap::new(),
        outcome: SimulationOutcome {
            paths: file.paths.clone(),
            probes: vec![0; file.paths.len()],
            time_in_state_ms: vec![BTreeMap::new(); file.paths.len()],
            ..SimulationOutcome::default()
        },
        entered: vec![(State::Absent, Instant::ZERO); file.paths.len()],
        order: 0,
    };
    for name in &file.paths {
        sim.paths.add(name, Instant::ZERO);
    }
    sim.run(file);
    sim.outcome
}

impl Simulation {
    fn run(&mut self, file: &EventFile) {
        let is_played = file.steps.iter().any(|s| matches!(s.what, Happening::Path(_, Some(_))));
        let stated = file.steps.iter().find(|s| s.what == Happening::End).map(|s| s.at);
        let last = file.steps.last().map_or(Instant::ZERO, |s| s.at);
        let end = stated.unwrap_or(last + TAIL);
        let mut steps = file.steps.iter().peekable();
        let mut next_sample = Instant::ZERO;
        let mut now = Instant::ZERO;
        loop {
            while let Some(step) = steps.next_if(|s| s.at <= now) {
                self.happen(&step.what, now);
            }
            while let Some(entry) = self.answers.first_entry().filter(|e| e.key().0 <= now) {
                let (id, number, rtt, sent) = entry.remove();
                self.answer(id, number, rtt, sent, now);
            }
            if is_played && now >= next_sample {
                self.sample(now);
                next_sample = now + SAMPLE_EVERY;
            }
            while let Some(action) = self.paths.poll(now) {
                self.act(action, now);
            }
            self.tell();
            let later = [
                steps.peek().map(|s| s.at),
                self.answers.keys().next().map(|key| key.0),
                is_played.then_some(next_sample),
                self.paths.next_deadline(now),
            ];
            let Some(next) = later.into_iter().flatten().min().filter(|at| *at < end) else { break };
            // A deadline that did not move would stop the clock.
            now = next.max(now + Duration::from_nanos(1));
        }
        for (i, (state, since)) in self.entered.clone().into_iter().enumerate() {
            self.spent(i, state, end.saturating_since(since));
        }
        self.outcome.end_ms = end.saturating_since(Instant::ZERO).as_millis();
    }

    fn happen(&mut self, what: &Happening, now: Instant) {
        match what {
            Happening::Path(id, rtt) => self.with(*id, |p| p.rtt = *rtt),
            Happening::Seen(event) => {
                if let Event::Connections(count) = event {
                    self.connections = *count;
                }
                if let Event::Address(id, address) = event {
                    self.with(*id, |p| p.joins = p.joins.filter(|_| p.endpoint == *address));
                }
                self.paths.handle(*event, now);
            }
            Happening::Traffic(id, is_on) => self.with(*id, |p| p.has_traffic = *is_on),
            Happening::Alive(id, is_alive) => {
                self.line(now, *id, if *is_alive { "returns" } else { "dies" }.to_owned());
                self.with(*id, |p| {
                    // Subflows live on through a death that nobody has noticed.
                    (p.is_dead, p.changed) = (!*is_alive, now);
                });
            }
            Happening::Loses(id, percent) => self.with(*id, |p| p.loses_percent = *percent),
            Happening::Nat(id, ip) => self.with(*id, |p| {
                // The mapping of the subflow is gone with it.
                (p.nat, p.joins) = (Some(*ip), None);
            }),
            Happening::End => {}
        }
    }

    fn with(&mut self, id: PathId, change: impl FnOnce(&mut Played)) {
        if let Some(played) = self.played.get_mut(usize::from(id.0)) {
            change(played);
        }
    }

    fn answer(&mut self, id: PathId, number: u64, rtt: Duration, sent: Instant, now: Instant) {
        let Some(played) = self.played.get(usize::from(id.0)) else { return };
        if !played.is_dead && played.changed <= sent {
            self.paths.handle(Event::Answer(id, number, rtt, played.nat), now);
        }
    }

    fn sample(&mut self, now: Instant) {
        for i in 0..self.played.len() {
            let played = &self.played[i];
            if played.rtt.is_none() {
                continue;
            }
            let has_joined = self.connections > 0 && played.joins.is_some_and(|at| at <= now);
            let is_due = has_joined && played.has_traffic;
            let rtt = played.rtt.map(Duration::as_micros);
            // Of a path that has just returned, data is still in a back-off.
            let flows = !played.is_dead && played.changed <= played.joins.unwrap_or(now);
            let sample = PathSample {
                arrived: if is_due && flows { 10 } else { 0 },
                arrived_us_ago: 0,
                is_due,
                rtt_min_us: if has_joined { rtt } else { None },
                subflows: u32::from(has_joined) * self.connections,
                alone: 0,
            };
            let id = PathId(u16::try_from(i).unwrap_or(u16::MAX));
            self.paths.handle(Event::Sample(id, sample), now);
        }
    }

    fn act(&mut self, action: Action, now: Instant) {
        match action {
            Action::Probe(id, number) => self.probe(id, number, now),
            Action::AddEndpoint(id, ip, is_backup) => {
                let kind = if is_backup { " as backup" } else { "" };
                self.line(now, id, format!("add endpoint {ip}{kind}"));
                self.with(id, |p| {
                    let is_alive = !p.is_dead;
                    p.endpoint = Some(ip);
                    p.joins = p.rtt.filter(|_| is_alive).map(|rtt| now + rtt * 2);
                });
            }
            Action::RemoveEndpoint(id, ip) => {
                self.line(now, id, format!("remove endpoint {ip}"));
                self.with(id, |p| {
                    if p.endpoint == Some(ip) {
                        (p.endpoint, p.joins) = (None, None);
                    }
                });
            }
            Action::SetBackup(id, ip, is_backup) => {
                let what = if is_backup { "backup" } else { "no longer backup" };
                self.line(now, id, format!("endpoint {ip}: {what}"));
                self.with(id, |p| p.has_traffic = !is_backup);
            }
            Action::DemoteRoutes(id) => self.line(now, id, "demote routes".to_owned()),
            Action::RestoreRoutes(id) => self.line(now, id, "restore routes".to_owned()),
        }
    }

    fn probe(&mut self, id: PathId, number: u64, now: Instant) {
        let at = usize::from(id.0);
        if let Some(count) = self.outcome.probes.get_mut(at) {
            *count += 1;
        }
        let Some(played) = self.played.get_mut(at) else { return };
        let Some(rtt) = played.rtt.filter(|_| !played.is_dead) else { return };
        // Spread evenly: of 30 percent, every third or fourth.
        played.loss_count += played.loses_percent;
        if played.loss_count >= 100 {
            played.loss_count -= 100;
            return;
        }
        self.order += 1;
        self.answers.insert((now + rtt, self.order), (id, number, rtt, now));
    }

    fn tell(&mut self) {
        while let Some(Change { at, path, from, to, cause }) = self.paths.poll_change() {
            let what = if from == to { format!("{to}: {cause}") } else { format!("{from} -> {to}: {cause}") };
            self.line(at, path, what);
            let i = usize::from(path.0);
            let (state, since) = self.entered[i];
            if to != state {
                self.spent(i, state, at.saturating_since(since));
                self.entered[i] = (to, at);
            }
        }
    }

    fn spent(&mut self, i: usize, state: State, time: Duration) {
        if let Some(times) = self.outcome.time_in_state_ms.get_mut(i) {
            *times.entry(state).or_default() += time.as_millis();
        }
    }

    fn line(&mut self, at: Instant, path: PathId, what: String) {
        let path = self.names.get(usize::from(path.0)).cloned().unwrap_or_default();
        self.outcome.lines.push(Line { at_us: at.saturating_since(Instant::ZERO).as_micros(), path, what });
    }
}

impl SimulationOutcome {
    /// Time at which `what` was first done to `path` at `from_ms` or later, ms.
    #[must_use]
    pub fn first(&self, path: &str, what: &str, from_ms: u64) -> Option<u64> {
        let line = self
            .lines
            .iter()
            .find(|line| line.at_us >= from_ms * 1_000 && line.path == path && line.what.starts_with(what))?;
        Some(line.at_us / 1_000)
    }
}
