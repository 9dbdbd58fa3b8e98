//! [`Paths`]: the state machine over all paths of a host.

use std::collections::VecDeque;
use std::net::IpAddr;

use serde::{Deserialize, Serialize};
use units::{Duration, Instant};

use crate::endpoints::Endpoint;
use crate::{Cause, Path, Settings, State, rules};

/// Time after which the subflows of a dead path are in back-off.
const RENEWED_AFTER: Duration = Duration::from_secs(1);

/// A path's number, in the order in which paths were added.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
pub struct PathId(pub u16);

/// Counts that the kernel reports of the subflows of a path since the last sample.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct PathSample {
    /// Segments that arrived.
    pub arrived: u64,
    /// Time since the last of them arrived, µs.
    pub arrived_us_ago: u64,
    /// More should arrive: something is not acknowledged, or data has been coming.
    pub is_due: bool,
    /// Least round trip of the subflows.
    pub rtt_min_us: Option<u64>,
    /// Established subflows from the address in use.
    pub subflows: u32,
    /// Connections that have no subflow elsewhere.
    pub alone: u32,
}

/// Something that was seen.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Event {
    /// The address that can be used there, with carrier and route; none when there is none.
    Address(PathId, Option<IpAddr>),
    /// Sample of what the subflows did.
    Sample(PathId, PathSample),
    /// The probe of this number was answered, and the server sees this address.
    Answer(PathId, u64, Duration, Option<IpAddr>),
    /// Strength of the radio, dBm.
    Strength(PathId, i32),
    /// The administrator wants it unused, or used again.
    Retire(PathId, bool),
    /// Another interface has its name, as when a modem comes back: what is bound to the old one is stranded.
    Replaced(PathId),
    /// Multi-path connections of this host.
    Connections(u32),
}

/// Something to be done.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Action {
    /// Send a probe of this number.
    Probe(PathId, u64),
    /// Tell the kernel's path manager of an endpoint; true: as backup.
    AddEndpoint(PathId, IpAddr, bool),
    /// Take an endpoint away.
    RemoveEndpoint(PathId, IpAddr),
    /// Make an endpoint backup, or no longer.
    SetBackup(PathId, IpAddr, bool),
    /// Have new connections avoid the path.
    DemoteRoutes(PathId),
    /// Undo that.
    RestoreRoutes(PathId),
}

/// A transition, or an action without one.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Change {
    /// Time of the change.
    pub at: Instant,
    /// Path that changed.
    pub path: PathId,
    /// State before.
    pub from: State,
    /// State after.
    pub to: State,
    /// Reason for the change.
    pub cause: Cause,
}

/// All paths of a host.
#[derive(Clone, Debug, Default)]
pub struct Paths {
    settings: Settings,
    paths: Vec<Path>,
    connections: u32,
    actions: VecDeque<Action>,
    changes: VecDeque<Change>,
}

impl Paths {
    /// None yet.
    #[must_use]
    pub fn new(settings: Settings) -> Self {
        Self { settings, ..Self::default() }
    }

    /// Adds a path; it is absent until it has an address.
    pub fn add(&mut self, name: &str, now: Instant) -> PathId {
        self.paths.push(Path::new(name, now));
        PathId(u16::try_from(self.paths.len() - 1).unwrap_or(u16::MAX))
    }

    /// The path of this number.
    #[must_use]
    pub fn get(&self, id: PathId) -> Option<&Path> {
        self.paths.get(usize::from(id.0))
    }

    /// All paths.
    pub fn iter(&self) -> impl Iterator<Item = (PathId, &Path)> {
        (0..).map(PathId).zip(&self.paths)
    }

    /// The thresholds.
    #[must_use]
    pub fn settings(&self) -> &Settings {
        &self.settings
    }

    /// Takes in what was seen at `now`, which never goes backwards.
    pub fn handle(&mut self, event: Event, now: Instant) {
        match event {
            Event::Connections(count) => {
                if self.connections == 0 && count > 0 {
                    // Nobody could join before.
                    self.paths.iter_mut().flat_map(|p| &mut p.endpoints).for_each(|e| e.waits_from = now);
                }
                self.connections = count;
            }
            Event::Address(id, address) => self.with(id, |path, _| path.address = address),
            Event::Sample(id, sample) => self.with(id, |path, _| {
                // Before it is noted that something is due: from then on silence counts.
                if sample.is_due && !path.arrivals.is_due && sample.arrived == 0 {
                    path.arrivals.last = path.arrivals.last.max(now);
                }
                path.arrivals.is_due = sample.is_due;
                (path.arrivals.subflows, path.arrivals.alone) = (sample.subflows, sample.alone);
                if sample.subflows > 0
                    && let Some(endpoint) = path.endpoint()
                {
                    (endpoint.repeats, endpoint.waits_from) = (0, now);
                }
                if let Some(us) = sample.rtt_min_us {
                    path.probes.on_subflow_rtt(Duration::from_micros(us));
                }
                if sample.arrived > 0 {
                    path.on_arrival(now - Duration::from_micros(sample.arrived_us_ago));
                    path.renewal.is_wanted &= path.state == State::Suspect;
                }
            }),
            Event::Answer(id, number, rtt, seen_as) => self.with(id, |path, _| {
                if !path.probes.on_answer(number, rtt) {
                    return;
                }
                path.on_arrival(now);
                let is_other = |seen: IpAddr| path.probes.seen_as.is_some_and(|before| before != seen);
                path.renewal.is_moved |= seen_as.is_some_and(is_other);
                path.probes.seen_as = seen_as.or(path.probes.seen_as);
            }),
            Event::Strength(id, dbm) => self.with(id, |path, settings| path.radio.on_strength(dbm, settings)),
            Event::Retire(id, is_retired) => self.with(id, |path, _| path.is_retired = is_retired),
            Event::Replaced(id) => self.with(id, |path, _| {
                path.endpoints.iter_mut().for_each(|endpoint| endpoint.is_stale = true);
            }),
        }
        self.settle(now);
    }

    /// Excuses silence before `now`: the watching process was paused and did not look.
    pub fn excuse(&mut self, now: Instant) {
        self.paths.iter_mut().for_each(|path| path.excuse(now));
    }

    /// The same for one path, such as one that has no route for a moment: nothing can be sent there.
    pub fn excuse_path(&mut self, id: PathId, now: Instant) {
        self.with(id, |path, _| path.excuse(now));
    }

    /// Action due at `now`; call until there is none.
    pub fn poll(&mut self, now: Instant) -> Option<Action> {
        if let Some(action) = self.actions.pop_front() {
            return Some(action);
        }
        self.settle(now);
        for (i, path) in self.paths.iter_mut().enumerate() {
            if path.probes.next.is_some_and(|at| at <= now)
                && let Some(number) = path.send_probe(&self.settings, now)
            {
                let id = PathId(u16::try_from(i).unwrap_or(u16::MAX));
                self.actions.push_back(Action::Probe(id, number));
            }
        }
        self.actions.pop_front()
    }

    /// The next transition that was not told yet.
    pub fn poll_change(&mut self) -> Option<Change> {
        self.changes.pop_front()
    }

    /// Time at which [`Paths::poll`] is to be called at the latest.
    #[must_use]
    pub fn next_deadline(&self, now: Instant) -> Option<Instant> {
        if !self.actions.is_empty() {
            return Some(now);
        }
        let settings = &self.settings;
        let of = |path: &Path| {
            let timers = [
                path.probes.next,
                path.quiet_at(settings).filter(|_| path.state.passes()),
                path.late_at(settings).filter(|_| path.state.passes()),
                path.next_loss(settings, now).filter(|_| path.state == State::Suspect),
                Some(path.flapping.hold_until).filter(|_| path.state == State::Down),
                path.endpoints.iter().map(|e| e.join_deadline(settings.join_wait)).min(),
            ];
            timers.into_iter().flatten().filter(|at| *at > now || path.probes.next == Some(*at)).min()
        };
        self.paths.iter().filter_map(of).min()
    }

    fn with(&mut self, id: PathId, change: impl FnOnce(&mut Path, &Settings)) {
        if let Some(path) = self.paths.get_mut(usize::from(id.0)) {
            change(path, &self.settings);
        }
    }

    // Transitions.

    /// Makes every transition that is due, then asks for what they need.
    fn settle(&mut self, now: Instant) {
        for path in &mut self.paths {
            path.forget_old_probes(now);
        }
        // A path that comes lets another go: until nothing changes, which each path does a few times at most.
        for _ in 0..self.paths.len() * 4 + 1 {
            let mut has_changed = false;
            for i in 0..self.paths.len() {
                has_changed |= self.step(i, now);
                self.reconcile(i, now);
            }
            if !has_changed {
                break;
            }
        }
    }

    /// One path's next transition; false when there is none.
    fn step(&mut self, i: usize, now: Instant) -> bool {
        let has_other = self.has_other(i);
        let settings = &self.settings;
        let path = &mut self.paths[i];
        let weak = path.is_weak(settings);
        let next = match (path.state, path.address) {
            (State::Absent, None) => None,
            (State::Absent, Some(_)) => Some((State::Down, Cause::Appeared)),
            (_, None) => Some((State::Absent, Cause::Vanished)),
            (_, Some(address)) if path.used != Some(address) => Some((State::Down, Cause::Readdressed)),
            (State::Down, _) => {
                // It may have died again while it waited: an answer that is late contradicts those before.
                let has_late = path.late_at(settings).is_some_and(|at| at <= now);
                let is_ready = path.probes.answered_in_row >= settings.answers_to_up
                    && now >= path.flapping.hold_until
                    && !has_late;
                let to = if path.radio.is_weak {
                    (State::Degraded, Cause::Weak)
                } else {
                    (State::Up, Cause::Answered)
                };
                (is_ready && !path.is_retired).then_some(to)
            }
            (State::Suspect, _) if path.is_retired => Some((State::Degraded, Cause::Retired)),
            (State::Suspect, _) if path.arrivals.last > path.since => {
                // Losses of a path that was dead do not make it weak.
                let weak = if path.renewal.kept_since.is_some() { path.radio.is_weak } else { weak };
                Some(if weak { (State::Degraded, Cause::Weak) } else { (State::Up, Cause::Arrived) })
            }
            (State::Suspect, _) => {
                let is_dead = path.is_dead(settings, now);
                match (is_dead, has_other && path.arrivals.alone == 0) {
                    (false, _) => None,
                    (true, true) => Some((State::Down, Cause::Lost)),
                    (true, false) => {
                        path.renewal.kept_since.is_none().then_some((State::Suspect, Cause::Last))
                    }
                }
            }
            (State::Up, _) if path.is_retired => Some((State::Degraded, Cause::Retired)),
            (State::Degraded, _) if path.is_retired => {
                let quiet = settings.quiet_min.max(path.quiet_after(settings));
                let has_drained = now.saturating_since(path.arrivals.last.max(path.since)) >= quiet
                    || now.saturating_since(path.since) >= settings.drain_max;
                (has_drained && has_other && path.arrivals.alone == 0)
                    .then_some((State::Down, Cause::Drained))
            }
            (State::Up | State::Degraded, _) => {
                let is_past = |at: Option<Instant>| at.is_some_and(|at| at <= now);
                if is_past(path.quiet_at(settings)) {
                    Some((State::Suspect, Cause::Quiet))
                } else if is_past(path.late_at(settings)) {
                    Some((State::Suspect, Cause::Late))
                } else if path.state == State::Up {
                    weak.then_some((State::Degraded, Cause::Weak))
                } else {
                    let since = path.strong_since(settings, now).map(|at| at.max(path.since));
                    let is_strong = since.is_some_and(|at| now.saturating_since(at) >= settings.strong_for);
                    is_strong.then_some((State::Up, Cause::Strong))
                }
            }
        };
        let Some((to, cause)) = next else { return false };
        self.change(i, to, cause, now);
        true
    }

    /// INVARIANT: every transition has a row in [`rules::RULES`].
    fn change(&mut self, i: usize, to: State, cause: Cause, now: Instant) {
        let path = &mut self.paths[i];
        let from = path.state;
        debug_assert!(rules::rule(from, cause, to).is_some(), "{from} {cause} {to}");
        let id = PathId(u16::try_from(i).unwrap_or(u16::MAX));
        self.changes.push_back(Change { at: now, path: id, from, to, cause });
        if cause == Cause::Last {
            path.renewal.kept_since = Some(now);
            return;
        }
        let kept_long =
            path.renewal.kept_since.take().is_some_and(|at| now.saturating_since(at) >= RENEWED_AFTER);
        path.renewal.is_wanted |= to.passes() && kept_long;
        let is_idle_backup =
            !path.arrivals.is_due && path.endpoint().is_some_and(|endpoint| endpoint.is_backup);
        path.is_parked = (to, cause) == (State::Down, Cause::Lost) && is_idle_backup;
        (path.state, path.cause, path.since) = (to, cause, now);
        match (to, cause) {
            (State::Absent, _) => {
                path.used = None;
                path.forget(now);
            }
            (State::Down, Cause::Appeared | Cause::Readdressed) => {
                path.used = path.address;
                path.forget(now);
            }
            (State::Down, Cause::Lost) => path.flapping.on_death(&self.settings, now),
            _ => {}
        }
        if to == State::Down {
            path.probes.answered_in_row = 0;
        }
        if from == State::Down || kept_long {
            path.forget_losses();
        }
        path.hasten_probe(&self.settings, now);
    }

    /// True when connections can live without path `i`.
    fn has_other(&self, i: usize) -> bool {
        self.paths.iter().enumerate().any(|(j, other)| j != i && other.carries(self.connections))
    }

    // What a state needs.

    /// Asks for the endpoints and routes that the path's state needs.
    fn reconcile(&mut self, i: usize, now: Instant) {
        let id = PathId(u16::try_from(i).unwrap_or(u16::MAX));
        let has_other = self.has_other(i);
        let other_passes =
            self.paths.iter().enumerate().any(|(j, p)| j != i && p.state.passes() && !p.is_retired);
        let has_other_up = self
            .paths
            .iter()
            .enumerate()
            .any(|(j, p)| j != i && p.state == State::Up && p.carries(self.connections) && !p.is_retired);
        self.renew(i, id, has_other, now);
        let (settings, connections) = (&self.settings, self.connections);
        let path = &mut self.paths[i];
        let is_used = path.is_parked || !matches!(path.state, State::Absent | State::Down);
        for endpoint in &mut path.endpoints {
            endpoint.is_wanted = is_used && Some(endpoint.address) == path.used;
        }
        let wants_backup = path.state == State::Degraded && has_other_up;
        if path.state.passes()
            && let Some(address) = path.used
        {
            match path.endpoint() {
                None => {
                    let repeats = 0;
                    let endpoint = Endpoint {
                        address,
                        is_backup: wants_backup,
                        is_wanted: true,
                        is_stale: false,
                        waits_from: now,
                        repeats,
                    };
                    path.endpoints.push(endpoint);
                    self.actions.push_back(Action::AddEndpoint(id, address, wants_backup));
                }
                Some(endpoint) if endpoint.is_backup != wants_backup => {
                    endpoint.is_backup = wants_backup;
                    self.actions.push_back(Action::SetBackup(id, address, wants_backup));
                }
                Some(_) => {}
            }
        }
        // Those of an address that is gone may go when its successor carries.
        let carries = path.carries(connections);
        let may_go = |endpoint: &Endpoint, used: Option<IpAddr>| {
            !endpoint.is_wanted && (has_other || (carries && Some(endpoint.address) != used))
        };
        let used = path.used;
        for endpoint in path.endpoints.iter().filter(|e| may_go(e, used)) {
            self.actions.push_back(Action::RemoveEndpoint(id, endpoint.address));
        }
        path.endpoints.retain(|e| !may_go(e, used));
        let is_unproven = path.cause == Cause::Appeared
            && path.state == State::Down
            && now.saturating_since(path.since) < settings.unproven_for;
        let wants_demotion =
            path.state == State::Down && !is_unproven && other_passes && path.address.is_some();
        if wants_demotion && !path.are_routes_demoted {
            path.are_routes_demoted = true;
            self.actions.push_back(Action::DemoteRoutes(id));
        } else if path.are_routes_demoted && (path.state.passes() || !other_passes) && !wants_demotion {
            path.are_routes_demoted = false;
            self.actions.push_back(Action::RestoreRoutes(id));
        }
    }

    /// Removes and adds the endpoint of a path whose subflows are stranded, in back-off, or missing.
    fn renew(&mut self, i: usize, id: PathId, has_other: bool, now: Instant) {
        let (connections, wait) = (self.connections, self.settings.join_wait);
        let path = &mut self.paths[i];
        if !path.state.passes() || path.is_retired {
            return;
        }
        let (state, subflows) = (path.state, path.arrivals.subflows);
        let is_moved = path.renewal.is_moved && has_other && path.arrivals.alone == 0;
        let is_stuck = path.renewal.is_wanted && has_other && path.arrivals.alone == 0;
        let Some(endpoint) = path.endpoint() else { return };
        let is_unjoined = connections > 0 && subflows == 0 && now >= endpoint.join_deadline(wait);
        // Whatever lives there alone: it goes on in a new subflow sooner than by its retransmission timer.
        let is_stale = endpoint.is_stale;
        if !is_moved && !is_stuck && !is_unjoined && !is_stale {
            return;
        }
        (endpoint.waits_from, endpoint.is_stale) = (now, false);
        if is_unjoined {
            endpoint.repeats = endpoint.repeats.saturating_add(1);
        }
        let (address, is_backup) = (endpoint.address, endpoint.is_backup);
        (path.renewal.is_moved, path.renewal.is_wanted) = (false, false);
        self.actions.push_back(Action::RemoveEndpoint(id, address));
        self.actions.push_back(Action::AddEndpoint(id, address, is_backup));
        // A subflow in back-off is missing as much as one that never came.
        let cause = match (is_stale, is_moved) {
            (true, _) => Cause::Replaced,
            (false, true) => Cause::Moved,
            (false, false) => Cause::Unjoined,
        };
        self.changes.push_back(Change { at: now, path: id, from: state, to: state, cause });
    }
}

#[cfg(test)]
mod tests;
